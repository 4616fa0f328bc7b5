//! Reports on a seam: the request, how a fragment was joined, or why it was not.

use std::ops::Range;

use bytes::Bytes;
use serde::{Serialize, Serializer};

use crate::error::SyntaxError;

/// The request, which decides where a fragment is expected to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// At the anchor that it was asked to repeat.
    Anchor,
    /// At the cut: the model was asked to continue a prefill.
    Exact,
    /// The request is unknown.
    #[default]
    Any,
}

/// The text that a request asked a model to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpliceRequest {
    /// Where the continuation is expected to begin.
    pub expect: Expect,
    /// The delivered text that the request asked to repeat, in bytes. `None`: the anchor of the
    /// first request.
    pub anchor: Option<Range<usize>>,
    /// The mark that the request asked to write between the anchor and the new text. It occurs
    /// nowhere in the delivered text.
    pub mark: Option<String>,
    /// The names of the request's own tags, without angle brackets: a model may write them around
    /// the anchor.
    pub tags: Vec<String>,
    /// The beginnings of sentences of the request's own prompt, and its tags with their line ends:
    /// new text that has one is a copy of the prompt.
    pub own_words: Vec<String>,
    /// The client's request. Words that it has are no sign of a copy of the prompt.
    pub given: Bytes,
    /// The request asked for a separate document: the containers on the path to the element that
    /// was cut, that element in full, and the text after it.
    pub rerooted: bool,
    /// The previous answer to this cut ended the document early. If this one does, too, the end is
    /// accepted if the cut is after a whole value and the fragment begins with the anchor.
    pub believes_early_end: bool,
    /// Another question follows if this fragment is not joined: a copy from the root that closes
    /// everything after one more value is an early end.
    pub asks_again: bool,
    /// Text between the delivered text and the fragment may be missing, because a part was skipped.
    /// Then only repeated text proves that the fragment continues at the cut.
    pub after_gap: bool,
}

impl From<Expect> for SpliceRequest {
    fn from(expect: Expect) -> Self {
        Self {
            expect,
            ..Self::default()
        }
    }
}

/// How a fragment was joined: the type of the winning candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Alignment {
    /// It repeats the anchor, then continues.
    Anchor,
    /// It continues at the cut.
    Exact,
    /// It begins again: at the root, or at a container, a member or a value that is open. White
    /// space, escapes and the order of members may differ from the delivered ones.
    Restart,
    /// It has its own brackets around the rest, or around the rest and some delivered text.
    Reentry,
    /// It repeats another tail of the delivered text, then continues.
    Overlap,
    /// It repeats delivered text, and brings nothing new.
    Repeat,
    /// Nothing was delivered before it: it begins at its own root.
    Start,
}

impl Alignment {
    /// Returns the rank: of two readings that give the same document the report names the one with
    /// the lower rank.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Exact => 0,
            Self::Anchor => 1,
            Self::Restart => 2,
            Self::Overlap => 3,
            _ => 4,
        }
    }

    /// Returns the name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anchor => "anchor",
            Self::Exact => "exact",
            Self::Restart => "restart",
            Self::Reentry => "reentry",
            Self::Overlap => "overlap",
            Self::Repeat => "repeat",
            Self::Start => "start",
        }
    }
}

/// The result of joining a fragment: its offset, and how it was joined.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Seam {
    /// Bytes of delivered text before it.
    pub offset: usize,
    /// JSON Pointer of the cut.
    pub path: String,
    /// Bytes at the end of the delivered text that the fragment repeated.
    pub overlap: usize,
    /// How it was joined.
    pub alignment: Alignment,
    /// Whether the offset may be wrong: it rests on an anchor that may also occur elsewhere; or it
    /// was not requested, and the fragment repeats an array element that may be another one; or the
    /// request is unknown, and the decision is less certain than it has to be without a flag; or
    /// the anchor was repeated with other brackets, commas or colons, so it may be another value;
    /// or the part of a `stitch` repeats nothing, and other parts overlap. At the end of the
    /// fragment it is also set if the offset was not requested and the fragment broke off at text
    /// that is illegal there.
    pub ambiguous: bool,
    /// The most bytes that waited for the decision.
    pub pending: usize,
    /// Bytes of the fragment up to the decision.
    pub decided: usize,
    /// Other offsets at which the fragment could still have begun at that byte, each with the bytes
    /// that it takes for repeated. Each gives another document.
    pub rivals: Vec<(Alignment, usize)>,
    /// The probability that the offset is right, judging by the text; 1 where it was requested.
    pub posterior: f64,
    /// Whether the fragment only closed open containers, although more was due: the cut was not
    /// after a complete value, or an array was open. The request allowed such an answer, for
    /// example because it is the second one.
    pub early_end: bool,
}

/// A change of the continuation's text at or after a seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Repair {
    /// The type of the change.
    pub rule: Rule,
    /// Where in the document's text, in bytes.
    pub offset: usize,
}

/// A change to a continuation's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rule {
    /// A comma that was due at the seam was added.
    CommaAdded,
    /// A comma that was on both sides of the seam was left out once.
    CommaDropped,
    /// A delivered member was repeated with the same value, and was left out.
    MemberDropped,
    /// A member that the fragment has before the one that was cut was moved after it.
    MemberMoved,
    /// A cut escape was completed, since the fragment spells the character in another way.
    EscapeCompleted,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 5] = [
        Self::CommaAdded,
        Self::CommaDropped,
        Self::MemberDropped,
        Self::MemberMoved,
        Self::EscapeCompleted,
    ];

    /// Returns the name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CommaAdded => "comma_added",
            Self::CommaDropped => "comma_dropped",
            Self::MemberDropped => "member_dropped",
            Self::MemberMoved => "member_moved",
            Self::EscapeCompleted => "escape_completed",
        }
    }
}

/// Why a fragment was not joined, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpliceError {
    /// The fragment has no text but an envelope.
    Empty,
    /// No offset at which the fragment may begin is legal.
    NoAlignment,
    /// The fragment begins again, and contradicts the delivered text at this offset.
    Differs(usize),
    /// The fragment ended before it was certain where it begins: the whole fragment, even a
    /// refusal, could be text of the token that was cut.
    Undecided,
    /// The fragment fits at two offsets, which give different documents, and no evidence decides
    /// between them: the next row of a table, or the last one repeated.
    Ambiguous,
    /// The new text only closes open containers, although more is due.
    EarlyEnd,
    /// A part before the fragment was skipped, and the fragment repeats too little text to prove
    /// that it continues at the cut.
    AfterGap,
    /// The fragment was joined and delivered up to words of the request's own prompt.
    OwnWords,
    /// The document had ended before the fragment, which has other text.
    AfterRoot,
    /// More text than [`max_pending_bytes`](crate::Limits::with_max_pending_bytes)
    /// waited for the decision.
    Pending(usize),
    /// The fragment was joined and delivered up to this deviation, which is the new cut.
    Malformed(SyntaxError),
    /// The fragment was joined and delivered up to a member of an open object that had been
    /// delivered with another value. The member's offset in the document's text is the new cut.
    Overwrites(usize),
}

impl std::fmt::Display for SpliceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("the fragment is empty"),
            Self::NoAlignment => f.write_str("the fragment fits nowhere"),
            Self::Differs(offset) => {
                write!(f, "the fragment begins again and differs from what was delivered at byte {offset}")
            }
            Self::Undecided => f.write_str("the fragment ended before it was certain where it begins"),
            Self::Ambiguous => f.write_str("the fragment fits in two places, and nothing decides between them"),
            Self::EarlyEnd => f.write_str("the fragment ends the document early"),
            Self::AfterGap => {
                f.write_str("a part before the fragment was skipped, and no repeated text proves where it belongs")
            }
            Self::OwnWords => f.write_str("the new text repeats the prompt"),
            Self::AfterRoot => f.write_str("the document had ended before this part"),
            Self::Pending(bytes) => {
                write!(f, "{bytes} bytes are pending, and it is not certain where the fragment begins")
            }
            Self::Malformed(error) => write!(f, "malformed after the seam: {error}"),
            Self::Overwrites(offset) => {
                write!(f, "a member that was delivered comes again with another value at byte {offset}")
            }
        }
    }
}

impl std::error::Error for SpliceError {}

impl Serialize for SpliceError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
