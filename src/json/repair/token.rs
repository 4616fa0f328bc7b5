//! The tokens of a reading, as the guesses about a later deviation need them.

use super::super::Span;
use super::super::event::{Event, ParserView, Sink};

/// A token of the repaired text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The number of containers around it.
    pub(super) depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Key,
    String,
    Scalar,
    Open,
    Close,
}

impl TokenKind {
    pub(super) fn is_string(self) -> bool {
        matches!(self, Self::Key | Self::String)
    }

    /// Whether a value ends with the token.
    pub(super) fn ends_value(self) -> bool {
        matches!(self, Self::String | Self::Scalar | Self::Close)
    }
}

/// Records tokens while a guess may need them.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    pub(super) is_on: bool,
    pub(super) tokens: Vec<Token>,
}

impl Sink for Recorder {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        let Span { start, end } = event.span();
        let (kind, start, end) = match event {
            Event::Begin { .. } => (TokenKind::Open, start, end),
            Event::End { .. } => (TokenKind::Close, end - 1, end),
            Event::Key(_) => (TokenKind::Key, start - 1, end + 1),
            Event::StringEnd(_) => (TokenKind::String, start, end),
            Event::Scalar { .. } => (TokenKind::Scalar, start, end),
            Event::StringBegin(_) | Event::Fragment(_) | Event::Withdrawn(_) => return,
        };
        self.tokens.push(Token {
            kind,
            start,
            end,
            depth: live.frames.len(),
        });
    }

    fn is_idle(&self) -> bool {
        !self.is_on
    }
}

impl Recorder {
    /// Creates a recorder that has these tokens, and records those that follow.
    pub(super) fn on(tokens: Vec<Token>) -> Self {
        Self {
            is_on: true,
            tokens,
        }
    }
}
