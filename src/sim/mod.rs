//! A scripted model server. It speaks chat/completions, cuts its answers where it is told to, and goes on in the way
//! it is told to: point a client or a proxy at it and see what it makes of a model that misbehaves.
//!
//! It knows one document and answers every prompt with it. It checks what a client sends back: a continuation whose
//! delivered text is not a prefix of the document, or whose anchor is not its end, is answered with status 422 and a
//! message that says where the difference is.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use restitch::sim::Sim;
//!
//! let script = "answer@200!length | refusal anchor@300!drop exact".parse()?;
//! let server = Sim::new(r#"{"a": 1}"#, script).bind(([127, 0, 0, 1], 0).into()).await?;
//! println!("{}/v1/chat/completions", server.url());
//! # Ok(())
//! # }
//! ```
//!
//! # Scripts
//! A [`Script`] is `FIRST… | THEN…`, a step `BEHAVIOUR[@BYTES][!END]`: a behaviour, how many bytes of the document's
//! remaining text it delivers, and how it ends. `refusal anchor` is "a refusal first, then the anchor".
//!
//! | behaviour | as a first answer | as a continuation |
//! |---|---|---|
//! | `answer` | the document | |
//! | `prose` | no JSON at all | |
//! | `anchor` | | the asked anchor, verbatim, and what follows it |
//! | `exact` | | what follows, without the anchor |
//! | `repeat` | | the delivered text once more, nothing new |
//! | `fence` | behind ```` ```json ````, closed where the document ends | the same, and the anchor first |
//! | `fence-open` | behind ```` ```json ````, never closed | the same, and the anchor first |
//! | `preamble` | prose, then as `fence` | prose, then as `anchor` |
//! | `preamble-fence` | | prose, then as `fence` |
//! | `epilogue` | the document, then prose | the anchor and what follows, then prose |
//! | `garbage` | a few good bytes (8, or `@BYTES`), then illegal ones | the anchor, then the same |
//! | `progress` | | a line `PROGRESS: n`, then as `anchor` |
//! | `reasoning` | nothing but reasoning, up to the limit; as `answer` where thinking is turned off | the same, as `anchor` |
//! | `refusal` | "I'm sorry, but I can't help with that." | the same |
//! | `empty` | no text | the same |
//! | `drop` | the connection is dropped after the role chunk | the same |
//! | `no-response` | the connection is closed before any byte of a response | the same |
//! | `429`, `500`, `429~2` | an HTTP error; `~2` sends `Retry-After: 2` | the same |
//! | a style's name: `element`, `root-reformatted`, `new-root`, … | | a fragment of that [`ContinuationStyle`](style::ContinuationStyle); `@BYTES` counts its bytes |
//!
//! A style that does not apply at a cut is answered as `anchor`. What it writes is the same for the same document and
//! cut. Once a client has taken up a text that is written in another way than the document, what it sends back is no
//! prefix any more, and a further continuation gets the 422.
//!
//! | end | |
//! |---|---|
//! | `stop` | finish reason `stop`: the default at the document's end, a lie elsewhere |
//! | `length` | finish reason `length`: the default of an answer that was cut |
//! | `filter` | finish reason `content_filter` |
//! | `drop` | the connection is dropped |
//! | `drop=N` | the connection is dropped after exactly N bytes of the response's body |
//! | `eof` | a clean end without a finish and without `[DONE]` |
//! | `done` | `[DONE]` without a finish |
//! | `error` | an error inside the stream |
//! | `stall` | nothing more, until the peer leaves |
//!
//! A request with `"stream": false` gets one body, with the same behaviours: `drop` and `stall` deliver its first
//! half, `eof` and `done` have a finish reason of `null`, and `error` replaces the answer.
//!
//! # Which call is which
//! A request is a continuation if its last user message has a line `<overlap_context>` and a line
//! `</overlap_context>` (or both with the same suffix, as in `<overlap_context_2>`). What stands between is the
//! anchor, and the last assistant message before it is the text delivered so far. Every other request is a first call.
//!
//! With a [`ProviderProfile`] that continues a prefix, a request whose last message is the assistant's is one, too: that message
//! is the text delivered so far, and there is no anchor. What a provider refuses, the profile refuses, in its words.
//!
//! Calls with the same messages before those turns are one conversation, and conversations don't disturb each other.
//! A prompt can bring its own script: a user message with `[[script: answer@40 | exact]]` overrides the server's.

mod answer;
mod call;
mod continued;
mod profile;
mod script;
mod serve;
mod state;
pub mod style;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

pub use call::{Call, CallKind};
pub use profile::ProviderProfile;
pub use script::{AnswerEnd, Behaviour, Script, ScriptError, ScriptErrorKind, Step};
pub use serve::Server;

/// A model server that has yet to listen: its document and how it behaves.
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
    /// A server that answers every prompt with `document`, in the way of `script`.
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

    /// Characters of text in one event of a stream, at least one. Default 12.
    pub fn chunk(mut self, characters: usize) -> Self {
        self.chunk = characters.max(1);
        self
    }

    /// The wait before each event of a stream but the first. Default none.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The model's name in answers and in the list of models. Default `sim`.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = name.into();
        self
    }

    /// The provider whose behaviour it imitates. Default [`ProviderProfile::OpenAi`].
    pub fn profile(mut self, profile: ProviderProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Listens on `addr`; port 0 takes a free one. It serves from then on, in tasks of the current tokio runtime.
    ///
    /// # Errors
    /// What the system says if it can't listen there.
    pub async fn bind(self, addr: SocketAddr) -> io::Result<Server> {
        serve::bind(self, addr).await
    }
}
