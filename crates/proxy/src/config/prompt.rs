//! Reads and writes `[prompt]`: the words of the re-prompt.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::schema;
use restitch::session::{self, MarkUse};

/// The words of the user message that asks for the rest.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Prompt {
    /// When a question asks for a mark between the repeated text and the new text.
    #[schemars(schema_with = "schema::mark")]
    mark: MarkUse,
    /// Ask how much of the document there is; the answer has a line `PROGRESS: n`.
    progress: bool,
    /// A text of your own in place of the message, with `{{overlap_context}}` (the text to repeat),
    /// `{{context}}` (a description of the cut) and `{{continue_mark}}`.
    #[serde(deserialize_with = "instruction")]
    instruction: Option<String>,
}

/// Reads a text whose placeholders are known.
fn instruction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match session::Prompt::default().with_instruction(&text) {
        Ok(_) => Ok(Some(text)),
        Err(error) => Err(D::Error::custom(error)),
    }
}

impl From<Prompt> for session::Prompt {
    fn from(file: Prompt) -> Self {
        let prompt = Self::default()
            .with_mark(file.mark)
            .with_progress(file.progress);
        // A text that is not valid was refused when it was read.
        let own = file
            .instruction
            .map(|text| prompt.clone().with_instruction(&text));
        own.and_then(Result::ok).unwrap_or(prompt)
    }
}

impl From<&session::Prompt> for Prompt {
    fn from(prompt: &session::Prompt) -> Self {
        Self {
            mark: prompt.mark_use(),
            progress: prompt.asks_progress(),
            instruction: prompt.instruction().map(str::to_owned),
        }
    }
}
