//! The APIs that the server speaks: a row in a table, and a file of templates for each.
//!
//! A wire reads the messages of its requests and writes answers. It knows no scripts and no sockets.
//! It is written apart from the readers and writers in `restitch::provider`, because it is the other
//! side of their tests.
//!
//! [`stream`] and [`body`] write an answer without a server.

mod moments;
mod requests;
mod scene;
mod template;

use std::sync::LazyLock;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::script::AnswerEnd;
use super::token::Tokens;
use moments::Moment;
pub(super) use moments::{by_characters, events};
pub(super) use requests::text;
use requests::{Turns, contents, input, messages, prompt, question, texts};
use scene::Scene;
use template::Template;

/// Every wire. The first one that takes a path speaks on it.
static ALL: LazyLock<[Wire; 10]> = LazyLock::new(|| {
    let gemini = || Wire {
        path: ":streamGenerateContent",
        member: "contents",
        streams: |_| true,
        framing: Framing::Array,
        ..Wire::new(contents, include_str!("gemini.txt"))
    };
    let ollama = || Wire {
        path: "/api/chat",
        // A stream is the default.
        streams: |body| body["stream"] != false,
        framing: Framing::Lines,
        ..Wire::new(texts, include_str!("ollama.txt"))
    };
    [
        Wire {
            path: "/chat/completions",
            ..Wire::new(messages, include_str!("chat.txt"))
        },
        Wire {
            path: "/completions",
            member: "prompt",
            has_tools: false,
            ..Wire::new(prompt, include_str!("completions.txt"))
        },
        Wire {
            path: "/responses",
            member: "input",
            framing: Framing::NamedEvents,
            ..Wire::new(input, include_str!("responses.txt"))
        },
        Wire {
            path: "/v1/messages",
            framing: Framing::NamedEvents,
            ..Wire::new(texts, include_str!("messages.txt"))
        },
        Wire {
            query: "alt=sse",
            framing: Framing::CrLfEvents,
            ..gemini()
        },
        gemini(),
        Wire {
            path: ":generateContent",
            streams: |_| false,
            ..gemini()
        },
        ollama(),
        Wire {
            path: "/api/generate",
            member: "prompt",
            turns: question,
            has_tools: false,
            template: Template::parse(include_str!("ollama.txt")).with("answer", GENERATED),
            ..ollama()
        },
        Wire {
            path: "/v2/chat",
            framing: Framing::NamedEvents,
            ..Wire::new(texts, include_str!("cohere.txt"))
        },
    ]
});

/// The text of `/api/generate`, which has no messages and no tools.
const GENERATED: &str = r#""response":$text«,"thinking":$reasoning»"#;

/// Returns Chat Completions. Errors at other paths are written as there.
pub(super) fn chat() -> &'static Wire {
    let [chat, ..] = &*ALL;
    chat
}

/// Returns the wire that is spoken at a path.
pub(super) fn at(path: &str, query: &str) -> Option<&'static Wire> {
    let is_at = |wire: &&Wire| {
        path.ends_with(wire.path)
            && (wire.query.is_empty() || query.split('&').any(|pair| pair == wire.query))
    };
    ALL.iter().find(is_at)
}

/// The interface of an API.
#[derive(Debug)]
pub(super) struct Wire {
    /// The end of its path.
    path: &'static str,
    /// A pair of its query.
    query: &'static str,
    /// The member that [`turns`](Self::turns) reads, for error messages.
    pub(super) member: &'static str,
    turns: fn(&Value, &str) -> Option<Turns>,
    streams: fn(&Value) -> bool,
    /// Whether tools can be called.
    pub(super) has_tools: bool,
    framing: Framing,
    template: Template,
}

/// How a stream divides its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// An event stream.
    Events,
    /// An event stream. The name of an event is the `type` of its data.
    NamedEvents,
    /// An event stream without names, whose lines end with CR LF.
    CrLfEvents,
    /// A JSON array.
    Array,
    /// One JSON text a line.
    Lines,
}

impl Wire {
    fn new(turns: fn(&Value, &str) -> Option<Turns>, template: &'static str) -> Self {
        Self {
            path: "",
            query: "",
            member: "messages",
            turns,
            streams: |body| body["stream"] == true,
            has_tools: true,
            framing: Framing::Events,
            template: Template::parse(template),
        }
    }

    /// Returns the messages of a request in the format of the Chat Completions API: each has a
    /// `role` of `system`, `user`, `assistant` or another, and its text as `content`. Every other
    /// member stays, because it distinguishes conversations. `None`: the request has no messages.
    pub(super) fn turns(&self, body: &Value, document: &str) -> Option<Turns> {
        (self.turns)(body, document)
    }

    /// Returns whether the answer to a request is a stream.
    pub(super) fn streams(&self, body: &Value) -> bool {
        (self.streams)(body)
    }

    /// Returns the content type of a stream.
    pub(super) fn content_type(&self) -> &'static str {
        match self.framing {
            Framing::Events | Framing::NamedEvents | Framing::CrLfEvents => "text/event-stream",
            Framing::Array => "application/json",
            Framing::Lines => "application/x-ndjson",
        }
    }

    /// Writes an answer as one body.
    pub(super) fn body(&self, message: &Message) -> String {
        Scene::new(self, message, Moment::Body).text(&["body"])
    }

    /// Writes the body that replaces a failed answer, with the status of a success.
    pub(super) fn failed(&self, message: &Message) -> String {
        Scene::new(self, message, Moment::Error).text(&["failed", "problem"])
    }

    /// Writes the body of an error.
    pub(super) fn error(&self, problem: &Problem<'_>) -> String {
        Scene::of_problem(self, &Message::default(), problem).text(&["problem"])
    }

    /// Writes the events of a moment. `sent`: how many events precede it.
    fn write(&self, message: &Message, moment: Moment, sent: u64) -> Vec<Bytes> {
        let mut frames: Vec<Bytes> = Vec::new();
        if moment == Moment::Malformed {
            let is_event = self.content_type() == "text/event-stream";
            let (before, after) = if is_event {
                ("data: ", "\n\n")
            } else {
                ("", "\n")
            };
            return vec![[before, MALFORMED, after].concat().into()];
        }
        let scene = Scene::new(self, message, moment);
        for line in scene.lines() {
            let sequence = sent + frames.len() as u64;
            let scene = scene.after(sent, sequence);
            frames.extend(
                scene
                    .line(line)
                    .map(|data| self.frame(&data, sequence, moment).into()),
            );
        }
        let is_end = matches!(moment, Moment::Finish | Moment::Done | Moment::Error);
        if self.framing == Framing::Array && is_end {
            let is_empty = sent == 0 && frames.is_empty();
            frames.push(Bytes::from_static(if is_empty {
                b"[]"
            } else {
                b"\r\n]\r\n"
            }));
        }
        frames
    }

    fn frame(&self, data: &str, sequence: u64, moment: Moment) -> String {
        match self.framing {
            Framing::Events => format!("data: {data}\n\n"),
            Framing::NamedEvents => match event_type(data) {
                Some((name, data)) => format!("event: {name}\ndata: {data}\n\n"),
                None => format!("data: {data}\n\n"),
            },
            // The error is not in an event.
            Framing::CrLfEvents if moment == Moment::Error => format!("{data}\n"),
            Framing::CrLfEvents => format!("data: {data}\r\n\r\n"),
            Framing::Array if sequence == 0 => format!("[{data}"),
            Framing::Array => format!(",\r\n{data}"),
            Framing::Lines => format!("{data}\n"),
        }
    }
}

/// Returns the name of an event and its data: the word before the data, or else the first `type` in
/// it.
fn event_type(data: &str) -> Option<(&str, &str)> {
    if data.starts_with(|c: char| c.is_ascii_lowercase()) {
        return data.split_once(' ');
    }
    let (_, rest) = data.split_once(r#""type":""#)?;
    let (name, _) = rest.split_once('"')?;
    Some((name, data))
}

/// Writes an answer as the API at `path` streams it. `deltas`: the text of the last part, in pieces.
/// An answer without a finish stops after its text. `None`: no API has such a path.
pub fn stream(path: &str, message: &Message, deltas: &[&str]) -> Option<String> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let (wire, last) = (at(path, query)?, message.parts.len().checked_sub(1)?);
    let mut ends = vec![0];
    for delta in deltas {
        ends.extend(ends.last().map(|end| end + delta.len()));
    }
    let divide = move |_: &Part, part: usize, start: usize| {
        let mut ends = ends.iter().filter(|end| part == last && **end > start);
        ends.next().copied()
    };
    let end = message.finish.map_or(AnswerEnd::Eof, |_| AnswerEnd::Stop);
    let events = events(wire, message.clone(), end, divide);
    String::from_utf8(events.flatten().collect()).ok()
}

/// Writes an answer as one body of the API at `path`. `None`: no API has such a path.
pub fn body(path: &str, message: &Message) -> Option<String> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Some(at(path, query)?.body(message))
}

/// The content of an answer, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Reasoning before the text.
    Reasoning(String),
    /// The text.
    Text(String),
    /// A call of a tool.
    Call {
        /// The name of the tool.
        tool: String,
        /// Its arguments, as the model has written them.
        arguments: String,
        /// Whether the arguments reach their end. An API whose arguments are objects has no others.
        is_whole: bool,
        /// The tool is a custom one, whose input is text.
        is_custom: bool,
    },
}

impl Part {
    /// Returns the text, the reasoning or the arguments.
    fn text(&self) -> &str {
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
pub enum Finish {
    /// At the limit on tokens.
    Length,
    /// At its end.
    Stop,
    /// By a filter of its content.
    Filter,
    /// By a call of a tool.
    Tool,
}

/// An answer, and the members that all events of its response share.
#[derive(Clone, Debug, Default)]
pub struct Message {
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
}

impl Message {
    /// Creates the first answer of a server. `parts`: at least one.
    pub fn new(parts: Vec<Part>, finish: Option<Finish>) -> Self {
        Self {
            number: 1,
            model: "m".to_owned(),
            parts,
            finish,
            prompt_tokens: 5,
            ..Self::default()
        }
    }
}

/// An error, to be written as the API writes it.
#[derive(Debug)]
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
