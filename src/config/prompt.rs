//! Reads and writes `[prompt]`: the parts of the re-prompt, switched on or off, or replaced.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::session::{self, Part};

/// The table. `None` keeps a part's default.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Prompt {
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_summary: Option<Words>,
    #[serde(skip_serializing_if = "Option::is_none")]
    element_before_cutoff: Option<Words>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_off_element: Option<Words>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instruction: Option<Words>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Words>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap_context: Option<Words>,
}

/// `true` for the part's own words, `false` to leave the part out, or other words.
#[derive(Clone, Debug)]
enum Words {
    Own(bool),
    Other(String),
}

impl From<Prompt> for session::Prompt {
    fn from(file: Prompt) -> Self {
        let parts = [
            (Part::DeliveredSummary, file.delivered_summary),
            (Part::ElementBeforeCutoff, file.element_before_cutoff),
            (Part::CutOffElement, file.cut_off_element),
            (Part::Instruction, file.instruction),
            (Part::Progress, file.progress),
            (Part::Anchor, file.overlap_context),
        ];
        let named = parts.into_iter().filter_map(|(part, words)| Some((part, words?)));
        named.fold(Self::default(), |prompt, (part, words)| {
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
        let words = |part: Part| {
            let template = prompt.template(part).map(|template| Words::Other(template.as_str().to_owned()));
            Some(template.unwrap_or(Words::Own(false)))
        };
        Self {
            delivered_summary: words(Part::DeliveredSummary),
            element_before_cutoff: words(Part::ElementBeforeCutoff),
            cut_off_element: words(Part::CutOffElement),
            instruction: words(Part::Instruction),
            progress: words(Part::Progress),
            overlap_context: words(Part::Anchor),
        }
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
