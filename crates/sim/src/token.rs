//! Gemini's continuation tokens. A client must not read one: it sends the token back, and the same
//! answer continues.

use std::fmt;

use serde_json::Value;

use super::answer::Answer;

/// The position at which an answer continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The bytes of the document before it.
    pub(super) position: usize,
}

impl Token {
    /// Reads the token of a request; `None` if it is not one of this server's.
    pub(super) fn read(body: &Value, document: &str) -> Option<Self> {
        let text = body.get(MEMBER)?.as_str()?.strip_prefix(PREFIX)?;
        let position = text.parse().ok()?;
        document
            .is_char_boundary(position)
            .then_some(Self { position })
    }

    /// Returns whether a request has a token.
    pub(super) fn is_sent(body: &Value) -> bool {
        body.get(MEMBER).is_some()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.position)
    }
}

/// The tokens of one answer, whose text is a part of the document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens {
    /// The bytes of the document before the answer.
    begin: usize,
    /// The length of the document.
    end: usize,
    /// The request's limit on tokens has ended the answer.
    pub(super) is_limited: bool,
}

impl Tokens {
    /// Returns the tokens of an answer that begins at a byte of the document; `None` if it has text
    /// that is not the document's.
    pub(super) fn of(
        answer: &Answer,
        document: &str,
        begin: usize,
        most: Option<u64>,
    ) -> Option<Self> {
        let is_verbatim = document.get(begin..)?.starts_with(&answer.text);
        let end = begin + answer.text.len();
        (is_verbatim && answer.tool.is_none()).then_some(Self {
            begin,
            end: document.len(),
            is_limited: most.is_some_and(|most| is_reached(most, end)),
        })
    }

    /// Returns the token after bytes of the answer; `None` at the end of the document.
    pub(super) fn after(self, bytes: usize) -> Option<Token> {
        let position = self.begin + bytes;
        (position < self.end).then_some(Token { position })
    }
}

/// Returns whether this many bytes of the document use up the limit. The calls that continue an
/// answer count as one.
pub(super) fn is_reached(most: u64, bytes: usize) -> bool {
    most <= (bytes / 4) as u64
}

/// Returns a request's limit on the tokens of its answer.
pub(super) fn limit_of(body: &Value) -> Option<u64> {
    body.pointer("/generationConfig/maxOutputTokens")?.as_u64()
}

const MEMBER: &str = "continuationToken";
const PREFIX: &str = "c2lt.";
