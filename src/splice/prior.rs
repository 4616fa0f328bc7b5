//! How often a continuation begins where: the prior of a candidate, by the kind of its start.
//!
//! The figures are those of a model that was asked for the anchor. They need not be exact: a factor of two is one bit of
//! a score, and what is joined has about ten bits more than everything else together.

use super::seam::Expect;

/// Where the content of a fragment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Start {
    /// Where it was asked for.
    Requested,
    /// After the request's mark.
    Mark,
    /// At the requested anchor, repeated nearly.
    Nearly,
    /// At the cut.
    Cut,
    /// At the start of the token that was cut.
    Token,
    /// At the key of an open member.
    Member,
    /// At the bracket of an open container.
    Container,
    /// At the root.
    Root,
    /// At a tail of the delivered text that is none of these.
    Tail,
    /// At a root of its own, which leaves out delivered elements.
    Rerooted,
}

/// A row of the table.
struct Prior {
    start: Start,
    /// The probability, times a thousand.
    thousandths: f32,
}

/// One line for each kind of start.
const PRIORS: [Prior; 10] = [
    // Models do what they are asked for.
    Prior { start: Start::Requested, thousandths: 700.0 },
    Prior { start: Start::Mark, thousandths: 700.0 },
    // They retype, more than they copy: white space, quotes, a letter.
    Prior { start: Start::Nearly, thousandths: 90.0 },
    // They go straight on, as they were told by everybody else.
    Prior { start: Start::Cut, thousandths: 50.0 },
    // They write the word or the number again that is not whole.
    Prior { start: Start::Token, thousandths: 10.0 },
    Prior { start: Start::Member, thousandths: 10.0 },
    // They write the element again, in brackets.
    Prior { start: Start::Container, thousandths: 20.0 },
    // They send the whole document again.
    Prior { start: Start::Root, thousandths: 40.0 },
    // They begin somewhere in the anchor: every place of it is as likely, in a word less so.
    Prior { start: Start::Tail, thousandths: 5.0 },
    // They open a document for the rest: with JSON mode they must.
    Prior { start: Start::Rerooted, thousandths: 20.0 },
];

/// The probability that what follows an array's bracket, or comes without one, is the element after the one that was
/// cut, as a share of that it is the one that was cut.
pub(super) const LOST: f32 = -1.0;

/// The same where whole values before it came again.
pub(super) const LOST_AFTER_VALUES: f32 = -12.0;

/// The probability that a whole element is missing before the new text, as a share of that none is.
pub(super) const SKIPPED: f32 = -14.0;

/// The probability of an answer that is not a continuation: a refusal, a question.
pub(super) const OTHER: f32 = -4.6;

/// The same once the grammar has shown that new text goes on in the document: a sentence hardly does.
pub(super) const OTHER_VERIFIED: f32 = -19.0;

/// The probability that what is repeated differs in a value: the share of what begins there.
pub(super) const DIFFERS: f32 = -7.0;

/// A tail begins at one of so many places: at the start of a word, and inside of one.
pub(super) const AT_WORD: f32 = -7.0;
pub(super) const IN_WORD: f32 = -12.0;

/// What is missing of an element that is written again.
pub(super) const LEFT_OUT: f32 = -4.0;

impl Start {
    /// The prior of one candidate of this kind, in bits.
    pub(super) fn prior(self, expect: Expect) -> f32 {
        let row = PRIORS.iter().find(|row| row.start == self);
        let thousandths = row.map_or(1.0, |row| row.thousandths);
        let thousandths = match (expect, self) {
            // A prefill is continued, and hardly anything else.
            (Expect::Exact, Self::Cut) => 950.0,
            (Expect::Exact, _) => thousandths / 20.0,
            // Nobody knows what was asked for: parts of a stream go on at the cut.
            (Expect::Any, Self::Cut) => 300.0,
            _ => thousandths,
        };
        (thousandths / 1000.0).log2()
    }

    /// Whether a fragment was asked to begin there: one legal byte is enough.
    pub(super) fn is_requested(self) -> bool {
        matches!(self, Self::Requested | Self::Mark)
    }

    /// The name in reports: `requested`, `nearly`, `cut`, ….
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Mark => "mark",
            Self::Nearly => "nearly",
            Self::Cut => "cut",
            Self::Token => "token",
            Self::Member => "member",
            Self::Container => "container",
            Self::Root => "root",
            Self::Tail => "tail",
            Self::Rerooted => "rerooted",
        }
    }
}

/// New text that is unlike all text before it: its misfit is at most so many bits.
pub(super) const UNLIKE: f32 = 4.0;

/// Bits against new text whose first key no element before it has.
pub(super) const STRANGE_KEY: f32 = 9.0;

/// Bits that are more than chance: less that was repeated leaves it open whether the fragment begins again at all.
pub(super) const ENOUGH: f32 = 12.0;

/// The same in a key, which is hardly ever a sentence.
pub(super) const UNLIKE_KEY: f32 = 14.0;

/// Bytes at the beginning of a fragment that show what it is.
pub(super) const HEAD: usize = 24;

/// The most bits of a repeat that may as well be the next row: the same bytes precede it and the cut.
pub(super) const IN_A_ROW: f32 = 8.0;

/// What a letter of prose costs.
pub(super) const LETTER: f32 = 4.5;

/// The probability that a fragment ends while it repeats delivered text.
pub(super) const ENDS_IN_REPEAT: f32 = -6.0;
