//! Templates: text with placeholders.

use std::fmt;
use std::str::FromStr;

/// A text with placeholders: `{{text}}`, `{{tag}}`, `{{anchor_tag}}`. Single braces are text, and
/// an inserted text is never searched for placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
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
    /// The text of the part.
    Text,
    /// The name of the part's own tag.
    Tag,
    /// The name of the anchor's tag.
    AnchorTag,
}

/// A template names an unknown placeholder, or does not end one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The text between the braces; `None` where the closing braces are missing.
    pub name: Option<String>,
    /// Byte offset of the opening braces.
    pub offset: usize,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => {
                write!(
                    f,
                    "`{{{{{name}}}}}` at byte {} is no place: there are ",
                    self.offset
                )?;
                f.write_str("`{{text}}`, `{{tag}}` and `{{anchor_tag}}`")
            }
            None => write!(f, "`{{{{` at byte {} has no `}}}}`", self.offset),
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
            let offset_of_place = offset + before.len();
            let (name, tail) = after.split_once("}}").ok_or(TemplateError {
                name: None,
                offset: offset_of_place,
            })?;
            let place = match name.trim() {
                "text" => Placeholder::Text,
                "tag" => Placeholder::Tag,
                "anchor_tag" => Placeholder::AnchorTag,
                _ => {
                    return Err(TemplateError {
                        name: Some(name.to_owned()),
                        offset: offset_of_place,
                    });
                }
            };
            if !before.is_empty() {
                pieces.push(TemplatePiece::Text(before.to_owned()));
            }
            pieces.push(TemplatePiece::Placeholder(place));
            offset = source.len() - tail.len();
            rest = tail;
        }
        if !rest.is_empty() {
            pieces.push(TemplatePiece::Text(rest.to_owned()));
        }
        Ok(Self {
            source: source.to_owned(),
            pieces,
        })
    }
}

impl Template {
    /// Returns the template as written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    pub(super) fn has(&self, place: Placeholder) -> bool {
        self.pieces.contains(&TemplatePiece::Placeholder(place))
    }

    /// Appends the text, with the placeholders filled in.
    pub(super) fn write<'a>(&'a self, out: &mut String, fill: impl Fn(Placeholder) -> &'a str) {
        for piece in &self.pieces {
            out.push_str(match piece {
                TemplatePiece::Text(text) => text,
                TemplatePiece::Placeholder(place) => fill(*place),
            });
        }
    }
}
