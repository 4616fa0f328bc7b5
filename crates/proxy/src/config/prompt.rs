//! Reads and writes `[prompt]`: the parts of the re-prompt, switched on or off, or replaced.

use crate::route_config::written::named;
use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::schema;
use restitch::session::{self, Part};

/// Declares a table whose keys are the names of the parts and `mark`. `None` keeps a default.
macro_rules! table {
    ($($(#[$docs:meta])* $key:ident: $part:ident),+ $(,)?) => {
        /// The parts of the user message of a re-prompt: `true` for the part's own words, `false` to leave it out, or other
        /// words.
        #[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct Prompt {
            /// When a question asks for a mark between the repeated text and the new text.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(schema_with = "schema::mark")]
            mark: Option<MarkUseName>,
            $($(#[$docs])* #[serde(skip_serializing_if = "Option::is_none")] $key: Option<Words>,)+
        }

        impl Prompt {
            /// Returns the parts that the table names.
            fn named(self) -> impl Iterator<Item = (Part, Words)> {
                let parts = [$((Part::$part, self.$key)),+];
                parts.into_iter().filter_map(|(part, words)| Some((part, words?)))
            }

            fn of(mark: session::MarkUse, words: impl Fn(Part) -> Words) -> Self {
                Self { mark: Some(MarkUseName(mark)), $($key: Some(words(Part::$part)),)+ }
            }
        }
    };
}

table! {
    /// The tool whose arguments were cut: its name and the schema of its arguments.
    tool_call: ToolCall,
    /// A summary of the delivered text.
    delivered_summary: DeliveredSummary,
    /// The last whole element before the cut.
    element_before_cutoff: ElementBeforeCutoff,
    /// The element that was cut.
    cut_off_element: CutOffElement,
    /// The JSON Pointer of the cut element.
    cut_path: CutPath,
    /// Members or elements that the schema requires and the last answer lacked.
    missing_part: Shortfall,
    /// The task in the first question at a cut.
    instruction: Instruction,
    /// The task in the second question at a cut.
    retry_instruction: RetryInstruction,
    /// The task in later questions at a cut.
    element_instruction: ElementInstruction,
    /// The task where JSON mode stays: the rest as one JSON document.
    json_instruction: JsonInstruction,
    /// The same after a failure.
    json_retry_instruction: JsonRetryInstruction,
    /// The task where a grammar forces the rest as the input of a tool.
    tool_instruction: ToolInstruction,
    /// The task to write a short document once more.
    again_instruction: AgainInstruction,
    /// The task where a schema forces the rest.
    members_instruction: MembersInstruction,
    /// The members or elements that are missing, beside that task.
    missing_members: Members,
    /// The task where the answer is prose.
    text_instruction: TextInstruction,
    /// The same after a failure.
    text_retry_instruction: TextRetryInstruction,
    /// The question how much of the document there is.
    progress: Progress,
    /// The text that the answer should repeat first.
    overlap_context: Anchor,
    /// The mark that the answer should have between that text and the new text.
    continue_mark: Mark,
}

/// The name of a setting for when the prompt asks for a mark.
#[derive(Clone, Copy, Debug)]
struct MarkUseName(session::MarkUse);

/// `true` for the part's default words, `false` to leave the part out, or other words.
#[derive(Clone, Debug)]
enum Words {
    Own(bool),
    Other(String),
}

impl From<Prompt> for session::Prompt {
    fn from(file: Prompt) -> Self {
        let prompt = Self::default().with_mark(
            file.mark
                .map_or_else(session::MarkUse::default, |mark| mark.0),
        );
        file.named().fold(prompt, |prompt, (part, words)| {
            let template = match &words {
                Words::Own(true) => Some(part.template()),
                Words::Own(false) => None,
                Words::Other(words) => Some(words.as_str()),
            };
            // A template that is not valid was refused when it was read.
            let changed = prompt.clone().with(part, template);
            debug_assert!(changed.is_ok(), "{part:?}: {changed:?}");
            changed.unwrap_or(prompt)
        })
    }
}

impl From<&session::Prompt> for Prompt {
    fn from(prompt: &session::Prompt) -> Self {
        Self::of(prompt.mark_use(), |part| {
            let template = prompt
                .template(part)
                .map(|template| Words::Other(template.as_str().to_owned()));
            template.unwrap_or(Words::Own(false))
        })
    }
}

impl<'de> Deserialize<'de> for MarkUseName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        named(&session::MarkUse::ALL, session::MarkUse::as_str, &name)
            .map(Self)
            .map_err(D::Error::custom)
    }
}

impl Serialize for MarkUseName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a template")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Words, E> {
                Ok(Words::Own(on))
            }

            fn visit_str<E: Error>(self, words: &str) -> Result<Words, E> {
                words.parse::<session::Template>().map_err(E::custom)?;
                Ok(Words::Other(words.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Words {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Words".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["boolean", "string"] })
    }
}

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Own(on) => serializer.serialize_bool(*on),
            Self::Other(words) => serializer.serialize_str(words),
        }
    }
}
