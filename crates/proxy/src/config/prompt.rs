//! Reads and writes `[prompt]`: the parts of the re-prompt, switched on or off, or replaced.

use crate::route_config::written::named;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use restitch::session::{self, Part};

/// Declares a table whose keys are the names of the parts and `mark`. `None` keeps a default.
macro_rules! table {
    ($($key:ident: $part:ident),+ $(,)?) => {
        #[derive(Debug, Default, Deserialize, Serialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct Prompt {
            #[serde(skip_serializing_if = "Option::is_none")]
            mark: Option<MarkUseName>,
            $(#[serde(skip_serializing_if = "Option::is_none")] $key: Option<Words>,)+
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
    tool_call: ToolCall,
    delivered_summary: DeliveredSummary,
    element_before_cutoff: ElementBeforeCutoff,
    cut_off_element: CutOffElement,
    cut_path: CutPath,
    missing_part: Shortfall,
    instruction: Instruction,
    retry_instruction: RetryInstruction,
    element_instruction: ElementInstruction,
    json_instruction: JsonInstruction,
    json_retry_instruction: JsonRetryInstruction,
    tool_instruction: ToolInstruction,
    again_instruction: AgainInstruction,
    members_instruction: MembersInstruction,
    missing_members: Members,
    text_instruction: TextInstruction,
    text_retry_instruction: TextRetryInstruction,
    progress: Progress,
    overlap_context: Anchor,
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

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Own(on) => serializer.serialize_bool(*on),
            Self::Other(words) => serializer.serialize_str(words),
        }
    }
}
