//! OpenAI's Chat Completions API, which many servers speak (vLLM, Mistral, OpenRouter, Groq,
//! Ollama, Azure …).
//!
//! A stream has one JSON object per event, then `data: [DONE]`:
//! <https://platform.openai.com/docs/api-reference/chat-streaming>. The reader accepts the
//! differences between servers; the writer copies the layout of the first answer, and the edits
//! that of the first request.
//!
//! ```
//! use restitch::internal::chat;
//! use restitch::internal::wire::{Slot, SlotKind};
//! use restitch::provider::{Delta, Dialect, SlotId};
//!
//! let data = r#"{"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"{\"a\":"},"finish_reason":null}]}"#;
//! let (mut reader, mut writer) = (chat::ChatReader::new(), Dialect::Chat.wire().writer());
//! let mut text = String::new();
//! reader.read("message", data, |delta| {
//!     if let Delta::Text { text: more, .. } = delta {
//!         text.push_str(more);
//!     }
//! });
//! assert_eq!(text, r#"{"a":"#);
//!
//! writer.observe("message", data);
//! let mut out = Vec::new();
//! writer.text(&mut out, Slot { id: SlotId::of(0), kind: SlotKind::Text }, "1}");
//! assert_eq!(
//!     String::from_utf8(out).unwrap(),
//!     "data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[\
//!      {\"index\":0,\"delta\":{\"content\":\"1}\"},\"finish_reason\":null}]}\n\n",
//! );
//! ```

mod allowed;
mod body;
mod calls;
mod reader;
mod request;
mod wire;
mod writer;

pub use body::write_body;
pub use reader::ChatReader;
pub(crate) use request::new_request;
pub use request::{adapt, ask, continuation, has_member, parse};
pub(crate) use wire::Chat;
