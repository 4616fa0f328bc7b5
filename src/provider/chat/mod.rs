//! OpenAI's chat completions wire and its many speakers (vLLM, Mistral, OpenRouter, Groq, Ollama, Azure …).
//!
//! The form is that of <https://platform.openai.com/docs/api-reference/chat-streaming>: one JSON object an event, then
//! `data: [DONE]`. Where servers differ, the reader takes what they send; the writer and the request edits copy what
//! the first answer and the first request look like.
//!
//! ```
//! use restitch::provider::{Delta, chat};
//!
//! let data = r#"{"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"{\"a\":"},"finish_reason":null}]}"#;
//! let (mut reader, mut writer) = (chat::Reader::new(), chat::Writer::new());
//! let mut text = String::new();
//! reader.read("message", data, |delta| {
//!     if let Delta::Text { text: more, .. } = delta {
//!         text.push_str(more);
//!     }
//! });
//! assert_eq!(text, r#"{"a":"#);
//!
//! writer.observe(data);
//! let mut out = Vec::new();
//! writer.text(&mut out, "1}");
//! assert_eq!(
//!     String::from_utf8(out).unwrap(),
//!     "data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[\
//!      {\"index\":0,\"delta\":{\"content\":\"1}\"},\"finish_reason\":null}]}\n\n",
//! );
//! ```

mod body;
mod reader;
mod request;
mod writer;

pub use body::{read_body, write_body};
pub use reader::Reader;
pub use request::{Changes, Request, Rest, adapt, ask, continuation, has_member};
pub use writer::Writer;
