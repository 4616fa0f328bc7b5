//! A whole answer, put together from its deltas.

use std::collections::BTreeMap;

use super::Delta;

/// A whole answer, put together from its deltas.
///
/// Keys are slots: `"CHOICE"` for text, `"CHOICE.TOOL"` for tool calls.
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
    /// The last usage, as the server wrote it.
    pub usage: Option<String>,
    /// The message of the last error.
    pub error: Option<String>,
    /// `"[DONE]"` after the end of the stream.
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
