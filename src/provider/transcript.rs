//! A whole answer, put together from its deltas.

use std::collections::BTreeMap;

use super::{Delta, Finish};

/// A whole answer, put together from its deltas.
///
/// Keys are [`SlotId`](super::SlotId)s; for Chat Completions `"CHOICE"` for text, `"CHOICE.TOOL"`
/// for tool calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transcript {
    /// The text of each answer that has any, even an empty one.
    pub text: BTreeMap<String, String>,
    /// The refusal of each answer that has one.
    pub refusal: BTreeMap<String, String>,
    /// The reasoning of each answer that has any.
    pub reasoning: BTreeMap<String, String>,
    /// The tool calls.
    pub tool_args: BTreeMap<String, ToolCall>,
    /// The last finish reason of each answer that has ended.
    pub finish: BTreeMap<String, String>,
    /// The same reasons, in the words of Chat Completions.
    pub reasons: BTreeMap<String, Finish>,
    /// The last usage, as the server wrote it.
    pub usage: Option<String>,
    /// The message of the last error.
    pub error: Option<String>,
    /// The name of the event that ended the stream, for example `"[DONE]"`.
    pub terminal: Option<String>,
}

/// One tool call of a [`Transcript`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The first id that was received.
    pub id: Option<String>,
    /// The first name that was received.
    pub name: Option<String>,
    /// The text of the arguments.
    pub args: String,
}

impl Transcript {
    /// Adds a delta.
    pub fn push(&mut self, delta: &Delta<'_>) {
        match *delta {
            Delta::Text { slot, text } => self
                .text
                .entry(slot.to_string())
                .or_default()
                .push_str(text),
            Delta::Refusal { slot, text } => self
                .refusal
                .entry(slot.to_string())
                .or_default()
                .push_str(text),
            Delta::Reasoning { slot, text } => self
                .reasoning
                .entry(slot.to_string())
                .or_default()
                .push_str(text),
            Delta::ToolCall {
                slot,
                id,
                name,
                arguments,
            } => {
                let call = self.tool_args.entry(slot.to_string()).or_default();
                call.id = call.id.take().or_else(|| id.map(str::to_owned));
                call.name = call.name.take().or_else(|| name.map(str::to_owned));
                call.args.push_str(arguments);
            }
            Delta::Finish {
                choice,
                ref reason,
                word,
            } => {
                self.finish.insert(choice.to_string(), word.to_owned());
                self.reasons.insert(choice.to_string(), reason.clone());
            }
            Delta::Usage { raw } => self.usage = Some(raw.to_owned()),
            Delta::Error { message, .. } => self.error = Some(message.to_owned()),
            Delta::SlotEnd { .. } => {}
            Delta::Restart => *self = Self::default(),
            Delta::Done { word } => self.terminal = Some(word.to_owned()),
        }
    }
}
