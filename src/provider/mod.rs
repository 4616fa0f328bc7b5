//! The wire formats of model providers: readers and writers of their events.
//!
//! A format's reader turns each event into [`Delta`]s; its writer writes text as events of the
//! answer that the client is already reading. The parts that all formats share are in this file and
//! in `wire`. This module does not know about cuts, documents or calls.

use std::fmt;

pub(crate) mod allowed;
pub mod capability;
pub(crate) mod chat;
pub(crate) mod checkpoints;
mod chunks;
mod cohere;
mod completions;
mod fields;
mod form;
mod gemini;
mod head;
mod messages;
mod ollama;
mod prefill;
pub(crate) mod request;
mod responses;
pub(crate) mod transcript;
pub(crate) mod translate;
pub(crate) mod usage;
pub(crate) mod wire;

pub(crate) use usage::{add_usage, answer_tokens};
pub use wire::Dialect;

/// The position of a text or a tool call in a response. Printed as `0` or `0.1`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId {
    /// The number of the choice, the content block or the output item.
    pub item: u32,
    /// The number of the tool call in the choice, or of the part in the item.
    pub part: Option<u32>,
    /// How the provider numbers the tool call.
    pub index: CallIndex,
}

/// The `index` of a tool call as the provider writes it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallIndex {
    /// The number of the call.
    #[default]
    Own,
    /// The number of an earlier call.
    Shared(u32),
    /// A number as a string.
    Text(u32),
    /// `null`.
    Null,
    /// The member is missing.
    Missing,
}

impl SlotId {
    /// Returns the slot of an item.
    pub const fn of(item: u32) -> Self {
        Self {
            item,
            part: None,
            index: CallIndex::Own,
        }
    }

    /// Returns the slot of a part of an item.
    pub const fn part(item: u32, part: u32) -> Self {
        Self {
            item,
            part: Some(part),
            index: CallIndex::Own,
        }
    }

    /// Returns whether the number of the slot is enough for a client to find it.
    pub(crate) fn is_numbered(self) -> bool {
        match self.index {
            CallIndex::Own => true,
            CallIndex::Text(number) => self.part == Some(number),
            CallIndex::Shared(_) | CallIndex::Null | CallIndex::Missing => false,
        }
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Some(part) => write!(f, "{}.{part}", self.item),
            None => self.item.fmt(f),
        }
    }
}

/// The slot of the first text of most responses.
pub(crate) const FIRST: SlotId = SlotId::of(0);

/// One piece of information in an event.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta<'a> {
    /// More of a text. May be empty: many servers start an answer with an empty text.
    Text {
        /// Its slot.
        slot: SlotId,
        /// The text, with escapes decoded.
        text: &'a str,
    },
    /// More of the text with which a model refuses. May be empty.
    Refusal {
        /// Its slot.
        slot: SlotId,
        /// The text, with escapes decoded.
        text: &'a str,
    },
    /// More of a model's reasoning before its answer. Never empty.
    Reasoning {
        /// Its slot.
        slot: SlotId,
        /// The text, with escapes decoded.
        text: &'a str,
    },
    /// The start of a tool call, or its next piece.
    ToolCall {
        /// Its slot.
        slot: SlotId,
        /// The call's id. Some servers repeat it in every event. Never empty.
        id: Option<&'a str>,
        /// The function's name. Some servers repeat it in every event. Never empty.
        name: Option<&'a str>,
        /// More of the text of the arguments. May be empty.
        arguments: &'a str,
    },
    /// The end of a slot's text, if the wire marks it. The answer may continue.
    SlotEnd {
        /// Its slot.
        slot: SlotId,
    },
    /// The answer starts again: all text so far is void.
    Restart,
    /// The end of an answer. Some servers send it twice.
    Finish {
        /// The number of the answer, if a request asks for several (`n`).
        choice: u32,
        /// Why the answer ended.
        reason: Finish,
        /// The same in the server's own word.
        word: &'a str,
    },
    /// The tokens used so far. The last usage of an answer counts.
    Usage {
        /// The JSON object as the server wrote it.
        raw: &'a str,
    },
    /// An error inside the stream.
    Error {
        /// The message for people.
        message: &'a str,
        /// The error as the server wrote it: JSON with codes and types if it sent any, else text.
        raw: &'a str,
    },
    /// The end of the stream: nothing follows.
    Done {
        /// The name of the event that ends the stream: `[DONE]`, `message_stop`.
        word: &'a str,
    },
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model finished, or wrote a stop sequence.
    Stop,
    /// The limit on output tokens was reached.
    Length,
    /// The model waits for the results of tools.
    ToolCalls,
    /// The model waits for the result of a function, the predecessor of tools.
    FunctionCall,
    /// A content filter ended the answer.
    ContentFilter,
    /// Any other reason, as the server wrote it.
    Other(String),
}

/// Parts of the reasons, in lower case, for which a server refuses to continue, or waits for its
/// client (`content_filtered`, `MODEL_ARMOR`, `ERROR_TOXIC`, `tool_use` …). All other unknown
/// reasons (`insufficient_system_resource`, `network_error`, `timeout`, `eos` …) are names for an
/// answer that broke off: servers invent new ones for that more often than for refusals.
const FINAL: [&str; 21] = [
    "armor",
    "block",
    "cancel",
    "failed",
    "filter",
    "function",
    "guardrail",
    "language",
    "moderat",
    "pause",
    "prohibit",
    "recitation",
    "refus",
    "safety",
    "sensitive",
    "spii",
    "stop_seq",
    "tool",
    "toxic",
    "unsafe",
    "violat",
];

/// Parts of the reasons for which a server discards the model's call of a tool. The text before the
/// call stays, and no client's answer follows (`MALFORMED_FUNCTION_CALL`, `UNEXPECTED_TOOL_CALL`,
/// `TOO_MANY_TOOL_CALLS`).
const BROKEN: [&str; 3] = ["malformed", "unexpected", "too_many"];

impl Finish {
    /// Returns whether the server has broken the answer off for a reason that is not a variant
    /// here: neither the end of the text, nor a refusal, nor a call of a tool.
    pub(crate) fn is_unknown(&self) -> bool {
        let Self::Other(word) = self else {
            return false;
        };
        let word = word.to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
        has(&BROKEN) || !has(&FINAL)
    }

    /// Returns whether the answer broke off: at the limit on its tokens, or for an unknown reason.
    pub(crate) fn is_cut(&self) -> bool {
        *self == Self::Length || self.is_unknown()
    }

    /// Returns the finish reason in Chat Completions.
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
            // `model_length`: Mistral, at the limit of the model itself. Gateways pass on the words
            // of other APIs.
            "length" | "model_length" | "LENGTH" | "max_tokens" | "MAX_TOKENS"
            | "max_output_tokens" => Self::Length,
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

/// The kind of an event as a whole.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A piece of the answer. It may have no delta.
    Chunk,
    /// The end of the stream.
    Done,
    /// An error, whatever else the event had.
    Error,
    /// Anything else: a ping, an extension, data that can't be read.
    Other,
}
