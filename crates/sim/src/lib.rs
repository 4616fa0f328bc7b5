//! A scripted model server for tests. It speaks the APIs of several providers. A script decides
//! where it cuts its answers and the arguments of its tool calls, and how it continues them: point
//! a client or a proxy at it to see how it handles a misbehaving model.
//!
//! The server has one document and answers every prompt with it. It checks what a client sends
//! back: a continuation request whose delivered text is not a prefix of the document, or whose
//! anchor is not the end of that text, gets status 422 and a message that names the first
//! difference.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use restitch_sim::Sim;
//!
//! let script = "answer@200!length | refusal anchor@300!drop exact".parse()?;
//! let server = Sim::new(r#"{"a": 1}"#, script).bind(([127, 0, 0, 1], 0).into()).await?;
//! println!("{}/v1/chat/completions", server.url());
//! # Ok(())
//! # }
//! ```
//!
//! # APIs
//! The path of a POST chooses the API.
//!
//! | path ends in | API |
//! |---|---|
//! | `/chat/completions` | Chat Completions |
//! | `/completions` | Completions, with a prompt |
//! | `/responses` | Responses |
//! | `/v1/messages` | Messages |
//! | `:streamGenerateContent`, `:generateContent` | Gemini: an event stream with `alt=sse`, else a JSON array; one body |
//! | `/api/chat`, `/api/generate` | Ollama, one JSON object a line |
//! | `/v2/chat` | Cohere, version 2 |
//!
//! Each has its own content type, events, ids, finish reasons, usage and errors. This page names
//! them as Chat Completions does.
//!
//! # Scripts
//! A [`Script`] is `FIRST… | THEN…`. A step is `[LEAD+…]BEHAVIOUR[@BYTES][!END]`: the parts before
//! the text, a behaviour, the number of bytes of the document's remaining text to deliver, and the
//! end of the answer. `refusal anchor` means "first a refusal, then the anchor".
//!
//! | behaviour | as a first answer | as a continuation |
//! |---|---|---|
//! | `answer` | the document | |
//! | `tool` | the document, as the arguments of a tool call | |
//! | `prose` | no JSON at all | |
//! | `anchor` | | the requested anchor, verbatim, and the text after it |
//! | `exact` | | the rest, without the anchor |
//! | `repeat` | | the delivered text once more, nothing new |
//! | `fence` | after ```` ```json ````, closed where the document ends | the same, with the anchor first |
//! | `fence-open` | after ```` ```json ````, never closed | the same, with the anchor first |
//! | `preamble` | prose, then as `fence` | prose, then as `anchor` |
//! | `preamble-fence` | | prose, then as `fence` |
//! | `epilogue` | the document, then prose | the anchor and the rest, then prose |
//! | `garbage` | a few valid bytes (8, or `@BYTES`), then illegal ones | the anchor, then the same |
//! | `progress` | | a line `PROGRESS: n`, then as `anchor` |
//! | `reasoning` | only reasoning, up to the token limit; as `answer` where the request turns reasoning off | the same, as `anchor` |
//! | `refusal` | "I'm sorry, but I can't help with that." | the same |
//! | `empty` | no text | the same |
//! | `drop` | the connection is dropped after the role chunk | the same |
//! | `no-response` | the connection is closed before any byte of a response | the same |
//! | `429`, `500`, `429~2` | an HTTP error; `~2` sends `Retry-After: 2` | the same |
//! | the name of a style: `element`, `root-reformatted`, `new-root`, … | | the fragment of that [`ContinuationStyle`](style::ContinuationStyle); `@BYTES` counts bytes of the fragment |
//!
//! `reasoning+` before a behaviour adds reasoning, which has a signature in the Messages API.
//! Before `tool`, `text+` adds "I'll write the file.", and `call+` a whole call of the same tool
//! with other arguments: `reasoning+text+tool@40`.
//!
//! `tool` calls the tool that the request forces (`tool_choice`), else the first one that it
//! declares. If it declares none, or forbids calls, `tool` is `answer`; if it forces one, `answer`
//! is `tool`. Gemini and Ollama have whole objects as arguments: a call that is cut is not sent.
//! With the profiles of Anthropic, the value in which arguments are cut is not sent either, unless
//! the tool has `"eager_input_streaming": true`. In one body of the Messages API the arguments of a
//! call that is cut are `{}`.
//!
//! A style that does not apply at a cut is answered as `anchor`. The same document and cut produce
//! the same fragment. Once a client has accepted text that differs from the document's, the text
//! that it sends back is no longer a prefix of the document, and a further continuation request
//! gets status 422. A message with a rendering of the text ends where its anchor first occurs.
//!
//! | end | |
//! |---|---|
//! | `stop` | finish reason `stop`: the default at the document's end, premature elsewhere |
//! | `length` | finish reason `length`: the default of an answer that was cut |
//! | `filter` | finish reason `content_filter` |
//! | `tool` | finish reason `tool_calls`: the default of a whole call; elsewhere it hides the limit, as some servers do |
//! | `drop` | the connection is dropped |
//! | `drop=N` | the connection is dropped after exactly N bytes of the response's body |
//! | `eof` | a clean end without a finish and without `[DONE]` |
//! | `done` | `[DONE]` without a finish |
//! | `error` | an error inside the stream |
//! | `malformed` | an event that is not JSON, then a clean end |
//! | `stall` | nothing more, until the peer leaves |
//!
//! APIs without `[DONE]` have other events instead, or none: `done` on Messages is `message_stop`
//! without `message_delta`, and on Ollama `"done": true` without `done_reason`.
//!
//! A request without streaming gets one body with the same behaviours: `drop` and `stall` deliver
//! its first half, `eof` and `done` have a finish reason of `null`, `error` replaces the answer,
//! and `malformed` delivers the first half as the whole body.
//!
//! # Which call is which
//! A request is a continuation if its last user message has a line `<overlap_context>` and a line
//! `</overlap_context>` (or both with the same suffix, as in `<overlap_context_2>`). The text
//! between the lines is the anchor, and the last assistant message before it is the text delivered
//! so far. Likewise, `<continue_mark>` has the text that the request asks the model to write after
//! the anchor. Every other request is a first call. A request for the rest of a tool call's
//! arguments has the same layout, with the arguments as the assistant's text, and the answer is
//! text.
//!
//! Completions and `/api/generate` have one prompt. The text delivered earlier is the longest end
//! of the prompt that is also the start of the document. The server continues it like a prefill. In
//! a prompt of `/api/generate` a question with tags may follow that text, after an empty line.
//!
//! With a [`ProviderProfile`] that continues a prefill, a request whose last message is the
//! assistant's is a continuation, too: that message is the text delivered so far, and there is no
//! anchor. The profile rejects the same requests as the provider, with the provider's own error
//! message.
//!
//! With [`ProviderProfile::Gemini38`], a Gemini answer has a `continuationToken` in every second event,
//! and at its end where the document does not end. The finish reason of `length` is `MAX_TOKENS` if
//! the text has all of the request's `maxOutputTokens`, and `CONTINUATION` elsewhere. A request with
//! a token is a continuation without an anchor, and is answered with the text after the token. After
//! `MAX_TOKENS` it needs a higher limit.
//!
//! Calls with the same messages before those turns are one conversation. Conversations do not
//! affect each other. A prompt can have its own script: a user message with
//! `[[script: answer@40 | exact]]` overrides the server's.

mod answer;
mod call;
mod continued;
mod delivery;
mod members;
mod profile;
mod question;
mod script;
mod serve;
mod state;
pub mod style;
mod token;
mod tool;
pub mod wire;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

pub use call::{Call, CallKind};
#[doc(hidden)]
pub use members::missing_members;
pub use profile::ProviderProfile;
pub use script::{AnswerEnd, Behaviour, Lead, Script, ScriptError, Step};
pub use serve::Server;

/// A model server that does not listen yet: its document and its behaviour.
#[derive(Clone, Debug)]
#[must_use = "a server listens after `bind`"]
pub struct Sim {
    document: String,
    script: Script,
    chunk: usize,
    delay: Duration,
    model: String,
    profile: ProviderProfile,
}

impl Sim {
    /// Creates a server that answers every prompt with `document`, following `script`.
    pub fn new(document: impl Into<String>, script: Script) -> Self {
        Self {
            document: document.into(),
            script,
            chunk: 12,
            delay: Duration::ZERO,
            model: "sim".into(),
            profile: ProviderProfile::OpenAi,
        }
    }

    /// Sets the number of characters of text in one event of a stream, at least one. Default 12.
    pub fn chunk(mut self, characters: usize) -> Self {
        self.chunk = characters.max(1);
        self
    }

    /// Sets the wait before each event of a stream but the first. Default none.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the model's name in answers and in the list of models. Default `sim`.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = name.into();
        self
    }

    /// Sets the provider whose behaviour the server imitates. Default [`ProviderProfile::OpenAi`].
    pub fn profile(mut self, profile: ProviderProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Listens on `addr`; port 0 takes a free one. The server then runs in tasks of the current
    /// tokio runtime.
    ///
    /// # Errors
    /// Fails when the system cannot listen there.
    pub async fn bind(self, addr: SocketAddr) -> io::Result<Server> {
        serve::bind(self, addr).await
    }
}
