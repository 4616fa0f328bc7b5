//! The operator's own text of the re-prompt: text with placeholders.

use std::fmt;
use std::str::FromStr;

/// A text with placeholders. Single braces are text, and an inserted text is never searched for
/// placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    source: String,
    pieces: Vec<TemplatePiece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePiece {
    Text(String),
    Placeholder(Placeholder),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    /// The known parts of the cut.
    Context,
    /// The text to repeat.
    Anchor,
    /// The mark after that text.
    Mark,
}

impl Placeholder {
    fn named(name: &str) -> Option<Self> {
        match name {
            "context" => Some(Self::Context),
            "overlap_context" => Some(Self::Anchor),
            "continue_mark" => Some(Self::Mark),
            _ => None,
        }
    }
}

/// Why a text can't be the message of a re-prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// There is no such placeholder.
    Unknown {
        /// The text between the braces.
        name: String,
        /// Byte offset of the opening braces.
        offset: usize,
    },
    /// The closing braces are missing.
    Open {
        /// Byte offset of the opening braces.
        offset: usize,
    },
    /// The model would not see the text that it should repeat.
    NoOverlapContext,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, offset } => {
                write!(
                    f,
                    "`{{{{{name}}}}}` at byte {offset} is not a placeholder: "
                )?;
                f.write_str(
                    "there are `{{context}}`, `{{overlap_context}}` and `{{continue_mark}}`",
                )
            }
            Self::Open { offset } => write!(f, "`{{{{` at byte {offset} has no `}}}}`"),
            Self::NoOverlapContext => {
                f.write_str("the text needs `{{overlap_context}}`, which the model must repeat")
            }
        }
    }
}

impl std::error::Error for TemplateError {}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(source: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let (mut rest, mut offset) = (source, 0);
        while let Some((before, after)) = rest.split_once("{{") {
            offset += before.len();
            let Some((name, tail)) = after.split_once("}}") else {
                return Err(TemplateError::Open { offset });
            };
            let place = Placeholder::named(name.trim()).ok_or_else(|| TemplateError::Unknown {
                name: name.to_owned(),
                offset,
            })?;
            pieces.push(TemplatePiece::Text(before.to_owned()));
            pieces.push(TemplatePiece::Placeholder(place));
            offset = source.len() - tail.len();
            rest = tail;
        }
        pieces.push(TemplatePiece::Text(rest.to_owned()));
        let template = Self {
            source: source.to_owned(),
            pieces,
        };
        match template.has(Placeholder::Anchor) {
            true => Ok(template),
            false => Err(TemplateError::NoOverlapContext),
        }
    }
}

impl Template {
    /// Returns the template as written.
    pub(super) fn as_str(&self) -> &str {
        &self.source
    }

    pub(super) fn has(&self, place: Placeholder) -> bool {
        self.pieces.contains(&TemplatePiece::Placeholder(place))
    }

    /// Returns the text, with the placeholders filled in.
    pub(super) fn filled<'a>(&'a self, fill: impl Fn(Placeholder) -> &'a str) -> String {
        let texts = self.pieces.iter().map(|piece| match piece {
            TemplatePiece::Text(text) => text,
            TemplatePiece::Placeholder(place) => fill(*place),
        });
        texts.collect()
    }
}
