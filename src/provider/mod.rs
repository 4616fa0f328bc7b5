//! The wires of model providers: what their events say, and how to write more of them.
//!
//! A wire's reader turns each event into [`Delta`]s, its writer writes text as events of the answer that the client
//! already reads. What is common to all wires stands here. Knows nothing of cuts, documents or calls.

use std::collections::BTreeMap;
use std::fmt;

pub mod capability;
pub mod chat;
mod usage;

pub use usage::{add_usage, answer_tokens};

/// One thing that an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta<'a> {
    /// More of an answer's text. May be empty: many servers open an answer so.
    Text {
        /// Which of the answers asked for with `n`.
        choice: u32,
        /// The text, escapes read.
        text: &'a str,
    },
    /// More of the text with which a model declines; may be empty.
    Refusal {
        /// Which answer.
        choice: u32,
        /// The text, escapes read.
        text: &'a str,
    },
    /// More of what a model thinks before it answers; never empty.
    Reasoning {
        /// Which answer.
        choice: u32,
        /// The text, escapes read.
        text: &'a str,
    },
    /// A tool call begins or goes on.
    ToolCall {
        /// Which answer.
        choice: u32,
        /// Which call of the answer.
        index: u32,
        /// The call's id; some servers repeat it in every event. Never empty.
        id: Option<&'a str>,
        /// The function's name; some servers repeat it in every event. Never empty.
        name: Option<&'a str>,
        /// More of the arguments' text; may be empty.
        arguments: &'a str,
    },
    /// An answer is over. Some servers say it twice.
    Finish {
        /// Which answer.
        choice: u32,
        /// Why.
        reason: Finish,
    },
    /// Tokens used so far; the last one of an answer counts.
    Usage {
        /// The JSON object as the server wrote it.
        raw: &'a str,
    },
    /// The server reports an error inside the stream.
    Error {
        /// For people.
        message: &'a str,
        /// The error as the server wrote it: JSON with codes and types where it sent any, else text.
        raw: &'a str,
    },
    /// The wire's own end: nothing follows.
    Done,
}

/// Why an answer is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model was ready, or wrote a stop sequence.
    Stop,
    /// The limit on output tokens was reached.
    Length,
    /// The model waits for the results of tools.
    ToolCalls,
    /// The model waits for the result of a function (the form before tools).
    FunctionCall,
    /// A filter ended the answer.
    ContentFilter,
    /// Any other word of a server, unchanged.
    Other(String),
}

impl Finish {
    /// The word for it in the chat wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::FunctionCall => "function_call",
            Self::ContentFilter => "content_filter",
            Self::Other(word) => word,
        }
    }
}

impl From<&str> for Finish {
    fn from(word: &str) -> Self {
        match word {
            "stop" => Self::Stop,
            "length" => Self::Length,
            "tool_calls" => Self::ToolCalls,
            "function_call" => Self::FunctionCall,
            "content_filter" => Self::ContentFilter,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Finish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an event was as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A piece of the answer; it may have brought no delta.
    Chunk,
    /// The wire's own end.
    Done,
    /// An error, whatever else the event carried.
    Error,
    /// Anything else: a ping, an extension, data that cannot be read.
    Other,
}

/// A whole answer, put together from its deltas.
///
/// Keys are slots: `"CHOICE"` for text, `"CHOICE.TOOL"` for tool calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transcript {
    /// The text of each answer that has any, if only an empty one.
    pub text: BTreeMap<String, String>,
    /// The refusal of each answer that has any.
    pub refusal: BTreeMap<String, String>,
    /// The thoughts of each answer that has any.
    pub reasoning: BTreeMap<String, String>,
    /// The tool calls.
    pub tool_args: BTreeMap<String, ToolCall>,
    /// The last reason of each answer that is over.
    pub finish: BTreeMap<String, String>,
    /// The last usage, as the server wrote it.
    pub usage: Option<String>,
    /// The message of the last error.
    pub error: Option<String>,
    /// `"[DONE]"` once the wire's own end has come.
    pub terminal: Option<String>,
}

/// One tool call of a [`Transcript`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The first id that came.
    pub id: Option<String>,
    /// The first name that came.
    pub name: Option<String>,
    /// The text of the arguments.
    pub args: String,
}

impl Transcript {
    /// Adds what the next delta says.
    pub fn push(&mut self, delta: &Delta<'_>) {
        match *delta {
            Delta::Text { choice, text } => self.text.entry(choice.to_string()).or_default().push_str(text),
            Delta::Refusal { choice, text } => self.refusal.entry(choice.to_string()).or_default().push_str(text),
            Delta::Reasoning { choice, text } => self.reasoning.entry(choice.to_string()).or_default().push_str(text),
            Delta::ToolCall { choice, index, id, name, arguments } => {
                let call = self.tool_args.entry(format!("{choice}.{index}")).or_default();
                call.id = call.id.take().or_else(|| id.map(str::to_owned));
                call.name = call.name.take().or_else(|| name.map(str::to_owned));
                call.args.push_str(arguments);
            }
            Delta::Finish { choice, ref reason } => {
                self.finish.insert(choice.to_string(), reason.as_str().to_owned());
            }
            Delta::Usage { raw } => self.usage = Some(raw.to_owned()),
            Delta::Error { message, .. } => self.error = Some(message.to_owned()),
            Delta::Done => self.terminal = Some("[DONE]".to_owned()),
        }
    }
}
