//! A seeded mistake: the change of a document's text, and the change of its truth where the mistake
//! adds to it.

use std::ops::Range;

use restitch::repair::RepairLevel;

use super::source::Source;
use super::{quote_mistakes, structure_mistakes, token_mistakes};
use restitch_testing::Rng;

/// A replacement of a range of the document's text.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

/// One mistake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mistake {
    /// What is done to the document, in the order of the text.
    pub(crate) broken: Vec<Edit>,
    /// What the document would have been without the mistake, where it is not the document itself.
    pub(crate) truth: Vec<Edit>,
    /// Whether the text ends too early: the answer must say so.
    pub(crate) is_cut: bool,
}

impl Mistake {
    /// Creates a mistake that replaces one range.
    pub(crate) fn replace(range: Range<usize>, text: impl Into<String>) -> Self {
        Self {
            broken: vec![Edit {
                range,
                text: text.into(),
            }],
            ..Self::default()
        }
    }

    /// Creates a mistake that inserts a text.
    pub(crate) fn insert(at: usize, text: impl Into<String>) -> Self {
        Self::replace(at..at, text)
    }

    /// Returns the range of the document that the mistake touches.
    pub(crate) fn place(&self) -> Range<usize> {
        let edits = || self.broken.iter().chain(&self.truth);
        let start = edits().map(|edit| edit.range.start).min().unwrap_or(0);
        start..edits().map(|edit| edit.range.end).max().unwrap_or(0)
    }

    /// Whether two mistakes have at least two tokens between them. Closer ones can hide each other.
    pub(crate) fn is_apart(&self, other: &Self, source: &Source) -> bool {
        let (first, second) = (self.place(), other.place());
        let (first, second) = if first.start <= second.start {
            (first, second)
        } else {
            (second, first)
        };
        let from = source
            .tokens
            .partition_point(|token| token.range.start < first.end);
        let to = source
            .tokens
            .partition_point(|token| token.range.end <= second.start);
        from + 2 <= to
    }
}

/// Applies edits, which do not overlap, to a text.
pub(crate) fn apply<'a>(text: &str, edits: impl Iterator<Item = &'a Edit>) -> String {
    let mut edits: Vec<_> = edits.collect();
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut out = String::with_capacity(text.len() + 64);
    let mut at = 0;
    for edit in edits {
        out.push_str(&text[at..edit.range.start]);
        out.push_str(&edit.text);
        at = edit.range.end;
    }
    out + &text[at..]
}

/// A kind of mistake.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// The lowest level that repairs it.
    pub(crate) level: RepairLevel,
    /// Whether the text after the mistake shows what was meant. Where it does not, no reader can
    /// restore the document, and the kind only shows what is answered then.
    pub(crate) is_decidable: bool,
    /// Makes one, if the document has a place for it.
    pub(crate) make: fn(&Source, &mut Rng) -> Option<Mistake>,
}

/// Returns all kinds.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    let syntax = token_mistakes::SYNTAX
        .iter()
        .map(|kind| (RepairLevel::Syntax, true, kind));
    let quotes = quote_mistakes::GUESS
        .iter()
        .map(|kind| (RepairLevel::Guess, true, kind));
    let structure = structure_mistakes::GUESS
        .iter()
        .map(|kind| (RepairLevel::Guess, true, kind));
    let undecidable = structure_mistakes::UNDECIDABLE
        .iter()
        .map(|kind| (RepairLevel::Guess, false, kind));
    let all = syntax.chain(quotes).chain(structure).chain(undecidable);
    all.map(|(level, is_decidable, &(name, make))| Kind {
        name,
        level,
        is_decidable,
        make,
    })
}

/// A name, and what makes the mistake.
pub(crate) type Row = (&'static str, fn(&Source, &mut Rng) -> Option<Mistake>);

/// Returns one of the tokens that `is` accepts.
pub(crate) fn one(
    source: &Source,
    rng: &mut Rng,
    is: impl Fn(&Source, usize) -> bool,
) -> Option<usize> {
    let all = source.all(is);
    (!all.is_empty()).then(|| all[rng.below(all.len())])
}
