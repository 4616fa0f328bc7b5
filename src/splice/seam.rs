//! What is said of a seam: what was asked for, how a fragment was joined, or why not.

use std::ops::Range;

use crate::error::SyntaxError;

/// What was asked for, and so where a fragment is expected to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Expect {
    /// At the anchor that it was asked to repeat.
    Anchor,
    /// At the cut: a prefix was to be continued.
    Exact,
    /// Nothing is known of how the fragment was asked for.
    #[default]
    Any,
}

/// What a request asked a model to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpliceRequest {
    /// Where the continuation is expected to begin.
    pub expect: Expect,
    /// The delivered text that the request asked to repeat, in bytes. `None`: the anchor of the first request.
    pub anchor: Option<Range<usize>>,
    /// The mark that the request asked to write between the anchor and the new text. It occurs nowhere in the delivered
    /// text.
    pub mark: Option<String>,
    /// The names of the request's own tags, without angle brackets: a model may write them around the anchor.
    pub tags: Vec<String>,
    /// The request asked for a document of its own: the containers on the path to the element that was cut, that element in
    /// full, and what follows it.
    pub rerooted: bool,
    /// The answer to the same cut before this one ended the document early: believe it if this one does, too.
    pub believes_early_end: bool,
}

impl From<Expect> for SpliceRequest {
    fn from(expect: Expect) -> Self {
        Self { expect, ..Self::default() }
    }
}

/// The claim that decided where a fragment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Alignment {
    /// It repeats the anchor, then goes on.
    Anchor,
    /// It goes on at the cut.
    Exact,
    /// It begins again: at the root, or at a container, a member or a value that is open. White space, escapes and the
    /// order of members may be others than before.
    Restart,
    /// It has brackets of its own around what is left, or around that and some of what was delivered.
    Reentry,
    /// It repeats a shorter tail that can't be anything else.
    Overlap,
    /// It repeats what was delivered, and brings nothing new.
    Repeat,
    /// Nothing was delivered before it: it begins at its own root.
    Start,
}

impl Alignment {
    /// Of two readings that give the same document the one with the lower rank is told.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Exact => 0,
            Self::Anchor => 1,
            Self::Restart => 2,
            Self::Overlap => 3,
            _ => 4,
        }
    }

    /// The name in reports.
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

/// Where and how a fragment was joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Seam {
    /// Bytes of delivered text before it.
    pub offset: usize,
    /// JSON Pointer of the cut.
    pub path: String,
    /// Bytes of delivered text that the fragment repeated: the last so many.
    pub overlap: usize,
    /// Why it was joined here.
    pub alignment: Alignment,
    /// It rests on an anchor that may stand elsewhere, too.
    pub ambiguous: bool,
    /// The most bytes that waited for the decision.
    pub pending: usize,
    /// Bytes of the fragment that had come when the decision fell.
    pub decided: usize,
    /// Other places where the fragment may have begun that were still legal then, with the bytes that each of them
    /// takes for repeated; none of them had what it takes to win.
    pub rivals: Vec<(Alignment, usize)>,
    /// The probability that it is right, as far as the text tells; 1 where it was asked for.
    pub posterior: f64,
    /// The fragment only closed what was open, although the cut was inside a token or a series went on. It said so
    /// twice, and was believed.
    pub early_end: bool,
}

/// A change of the continuation's text at or behind a seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// What was done.
    pub rule: Rule,
    /// Where in the document's text, in bytes.
    pub offset: usize,
}

/// What can be changed in a continuation's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// A comma that was due at the seam was added.
    CommaAdded,
    /// A comma that stood on both sides of the seam was left out.
    CommaDropped,
    /// A member that was delivered came again with the same value, and was left out.
    MemberDropped,
    /// A member that the fragment wrote before the one that was cut stands behind it.
    MemberMoved,
    /// An escape that was cut was written to its end, where the fragment has the character in another form.
    EscapeCompleted,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::CommaAdded, Self::CommaDropped, Self::MemberDropped, Self::MemberMoved, Self::EscapeCompleted];

    /// The name in reports.
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
    /// It held no text but an envelope.
    Empty,
    /// No place where it may begin is legal.
    NoAlignment,
    /// It begins again, and contradicts what was delivered at this offset of the document's text.
    Differs(usize),
    /// It ended before it was certain where it begins: all of it could stand in the token that was cut, a refusal too.
    Undecided,
    /// It fits in two places, which give different documents, and nothing decides between them: the next row of a
    /// table, or the last one again.
    Ambiguous,
    /// Its new text only closes what is open, although the cut is inside a token or a series goes on.
    EarlyEnd,
    /// More text than [`ParserLimits::max_pending_bytes`](crate::ParserLimits::max_pending_bytes) waited for the decision.
    Pending(usize),
    /// It was joined and delivered up to this deviation, which is the new cut.
    Malformed(SyntaxError),
    /// It was joined and delivered up to a member of an open object that had been delivered with another value. The
    /// member's place in the document's text is the new cut.
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
            Self::Pending(bytes) => {
                write!(f, "{bytes} bytes were held and it is not certain where the fragment begins")
            }
            Self::Malformed(error) => write!(f, "malformed behind the seam: {error}"),
            Self::Overwrites(offset) => {
                write!(f, "a member that was delivered comes again with another value at byte {offset}")
            }
        }
    }
}

impl std::error::Error for SpliceError {}
