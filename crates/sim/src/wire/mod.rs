//! The APIs that the server speaks: a file for each, and a row in [`ALL`].
//!
//! A wire reads the messages of its requests and writes the parts of an answer. It knows no scripts
//! and no sockets. It is written apart from the readers and writers in `provider`, because it is
//! the other side of their tests.

mod chat;
mod cohere;
mod completions;
mod events;
mod gemini;
mod messages;
mod ollama;
mod responses;
mod text;

use std::fmt;

use http::StatusCode;
use serde_json::Value;

use super::token::Tokens;
pub(super) use chat::Chat;
pub(super) use events::{Events, Frames};
pub(super) use text::text;

/// Every wire. The first one that takes a path speaks on it.
pub(super) const ALL: &[&dyn Wire] = &[
    &chat::Chat,
    &completions::Completions,
    &responses::Responses,
    &messages::Messages,
    &gemini::Gemini::Events,
    &gemini::Gemini::Array,
    &gemini::Gemini::Body,
    &ollama::Ollama::Chat,
    &ollama::Ollama::Generate,
    &cohere::Cohere,
];

/// Returns the wire that is spoken at a path.
pub(super) fn at(path: &str, query: &str) -> Option<&'static dyn Wire> {
    ALL.iter().copied().find(|wire| wire.takes(path, query))
}

/// The interface of an API for the server.
pub(super) trait Wire: fmt::Debug + Sync {
    /// Returns whether requests to this path and query are of this API.
    fn takes(&self, path: &str, query: &str) -> bool;

    /// Returns the messages of a request in the format of the Chat Completions API: each has a
    /// `role` of `system`, `user`, `assistant` or another, and its text as `content`. Every other
    /// member stays, because it distinguishes conversations. `None`: the request has no messages.
    fn turns(&self, body: &Value, document: &str) -> Option<Turns>;

    /// Returns the member that [`turns`](Self::turns) reads, for error messages.
    fn member(&self) -> &'static str {
        "messages"
    }

    /// Returns whether the answer to a request is a stream.
    fn streams(&self, body: &Value) -> bool {
        text::is_true(body.get("stream"))
    }

    /// Returns whether tools can be called.
    fn has_tools(&self) -> bool {
        true
    }

    /// Returns the content type of a stream.
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// Writes an event that is not JSON.
    fn malformed(&self) -> String {
        if self.content_type() == "text/event-stream" {
            text::data(MALFORMED)
        } else {
            format!("{MALFORMED}\n")
        }
    }

    /// Writes the events of a moment.
    fn write(&self, moment: Moment<'_>, message: &Message, out: &mut Vec<String>);

    /// Writes an answer as one body.
    fn body(&self, message: &Message) -> String;

    /// Writes the body that replaces a failed answer, with the status of a success.
    fn failed(&self, _message: &Message) -> String {
        self.error(&Problem::UPSTREAM)
    }

    /// Writes the body of an error.
    fn error(&self, problem: &Problem<'_>) -> String;
}

/// The messages of a request.
pub(super) struct Turns {
    pub(super) messages: Vec<Value>,
    /// The last message is the start of the answer, and the API always continues it.
    pub(super) is_prefill: bool,
}

impl From<Vec<Value>> for Turns {
    fn from(messages: Vec<Value>) -> Self {
        Self {
            messages,
            is_prefill: false,
        }
    }
}

/// The content of an answer, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Reasoning(String),
    Text(String),
    Call {
        tool: String,
        arguments: String,
        /// Whether the arguments reach their end. An API whose arguments are objects has no others.
        is_whole: bool,
        /// The tool is a custom one, whose input is text.
        is_custom: bool,
    },
}

impl Part {
    /// Returns the text, the reasoning or the arguments.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Reasoning(text)
            | Self::Text(text)
            | Self::Call {
                arguments: text, ..
            } => text,
        }
    }

    fn is_call(&self) -> bool {
        matches!(self, Self::Call { .. })
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Length,
    Stop,
    Filter,
    Tool,
}

impl Finish {
    /// Returns the finish reason of the Chat Completions API.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Stop => "stop",
            Self::Filter => "content_filter",
            Self::Tool => "tool_calls",
        }
    }
}

/// An answer, and the members that all events of its response share.
pub(super) struct Message {
    /// Counts the server's answers, so that each has its own ids and time.
    pub(super) number: u64,
    pub(super) model: String,
    pub(super) parts: Vec<Part>,
    pub(super) finish: Option<Finish>,
    pub(super) prompt_tokens: usize,
    /// The request asked for usage in its stream, if the API sends it on request only.
    pub(super) include_usage: bool,
    /// The answer's tokens, if the server sends any.
    pub(super) tokens: Option<Tokens>,
    /// How many events of the stream were written before.
    pub(super) sent: u64,
}

impl Message {
    /// Returns the time of the answer, in seconds since 1970.
    fn created(&self) -> u64 {
        CREATED + self.number
    }

    /// Returns the estimated tokens of everything but reasoning.
    fn completion_tokens(&self) -> usize {
        let bytes: usize = self
            .parts
            .iter()
            .filter(|part| !matches!(part, Part::Reasoning(_)))
            .map(|part| part.text().len())
            .sum();
        bytes / 4
    }

    fn total_tokens(&self) -> usize {
        self.prompt_tokens + self.completion_tokens()
    }

    /// Returns the position of a part among the calls.
    fn call_index(&self, part: usize) -> usize {
        self.parts
            .iter()
            .take(part)
            .filter(|part| part.is_call())
            .count()
    }

    /// Returns all text of the answer: `Text` or `Reasoning`.
    fn joined(&self, is_wanted: impl Fn(&Part) -> bool) -> String {
        self.parts
            .iter()
            .filter(|part| is_wanted(part))
            .map(Part::text)
            .collect()
    }
}

/// A moment of a stream. Parts are numbered from 0 and follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment<'a> {
    /// Before the first part.
    Start,
    /// A part begins.
    Open(usize),
    /// Text of a part, never empty.
    Delta {
        part: usize,
        text: &'a str,
        /// The bytes of the part up to the end of the text.
        end: usize,
        /// A finish follows directly.
        is_last: bool,
    },
    /// A part ends. A part that was dropped in the middle has no end.
    Close(usize),
    /// The finish, the usage and the end of a stream.
    Finish,
    /// The end of a stream, without a finish.
    Done,
    /// An error instead of a finish.
    Error,
}

/// An error, to be written as the API writes it.
pub(super) struct Problem<'a> {
    pub(super) status: StatusCode,
    pub(super) kind: &'a str,
    pub(super) code: Option<&'a str>,
    pub(super) message: &'a str,
}

impl Problem<'_> {
    /// The error inside of streams.
    const UPSTREAM: Problem<'static> = Problem {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        kind: "server_error",
        code: Some("upstream_error"),
        message: "The server had an error while it processed your request.",
    };
}

/// Text that is sent instead of JSON.
const MALFORMED: &str = r#"{"malformed": tru"#;

/// The time of answer 0, in seconds since 1970. A constant, so that answers are the same in every
/// run.
const CREATED: u64 = 1_750_000_000;
