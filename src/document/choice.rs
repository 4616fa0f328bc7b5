//! The choice among several roots of a text. It is the same for a document, a whole response, and
//! the parts of an answer.

use std::cmp::Reverse;
use std::ops::Range;

/// A root of a text that has several.
#[derive(Clone, Debug)]
pub(crate) struct Rival {
    pub(crate) range: Range<usize>,
    /// Its first byte.
    pub(crate) first: Option<u8>,
    pub(crate) is_fenced: bool,
    /// It begins its line, its block or the text, or follows such a root after white space.
    pub(crate) begins_line: bool,
    /// The text ends in it.
    pub(crate) is_cut: bool,
    pub(crate) doubt: Doubt,
    /// It can't be repaired.
    pub(crate) is_malformed: bool,
}

/// How similar a root is to other text: prose, or code in another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    None,
    /// A reference (`[1]`), words in brackets, or in a block of another language.
    Some,
    /// It can't be repaired, and is not at the start of the text.
    Malformed,
}

/// Returns the index of the root that is the answer. Roots that fit rank first, then those in a
/// fence, then those that are least similar to prose, then the [score](score), then the first.
pub(crate) fn best(text: &str, rivals: &[Rival], fits: impl Fn(usize) -> bool) -> Option<usize> {
    let last = last_series(text, rivals);
    let all = rivals.iter().enumerate();
    let best = all.min_by_key(|&(at, rival)| {
        let score = score(rivals, at, rival, last == Some(at));
        (!fits(at), !rival.is_fenced, rival.doubt, Reverse(score))
    });
    best.map(|(at, _)| at)
}

/// Returns whether a root at `start` begins its line, or follows a root that does after white space
/// alone. `before`: the root before it.
pub(crate) fn begins_line(text: &str, start: usize, before: Option<&Rival>) -> bool {
    let from = before.map_or(0, |root| root.range.end);
    let gap = text.get(from..start).unwrap_or_default();
    match gap.rsplit_once('\n') {
        Some((_, line)) => line.trim().is_empty(),
        None => gap.trim().is_empty() && before.is_none_or(|root| root.begins_line),
    }
}

/// Returns how likely a root is the answer, and not a draft or an example: it begins a line (2), the
/// text ends in it (2), it ends the text and is of the same type as the first root (1), it is far
/// larger than all others (1). The size of a cut root is not known. A malformed root at the start
/// of the text outweighs all: the text is malformed then.
fn score(rivals: &[Rival], at: usize, rival: &Rival, ends_text: bool) -> usize {
    if rival.is_malformed && at == 0 {
        return usize::MAX;
    }
    let is_large = || {
        let mut others = rivals.iter().enumerate().filter(|(other, _)| *other != at);
        others.all(|(_, other)| other.range.len().saturating_mul(LARGE) <= rival.range.len())
    };
    2 * usize::from(rival.begins_line)
        + 2 * usize::from(rival.is_cut)
        + usize::from(ends_text && may_replace(rivals, rival))
        + usize::from(!rival.is_cut && is_large())
}

/// Whether a root can be a later version of the first one: both are in fences or neither is, and
/// both are objects or both are arrays.
fn may_replace(rivals: &[Rival], rival: &Rival) -> bool {
    let mut alike = rivals
        .iter()
        .filter(|other| other.is_fenced == rival.is_fenced);
    alike.next().is_some_and(|other| other.first == rival.first)
}

/// Returns the first root of the series that ends the text. Lines of NDJSON are one series. No
/// series ends a text that is cut in its last root.
fn last_series(text: &str, rivals: &[Rival]) -> Option<usize> {
    let mut from = text.trim_end_matches('`').trim_end().len();
    let mut first = None;
    for (at, Rival { range, is_cut, .. }) in rivals.iter().enumerate().rev() {
        let between = text.get(range.end..from).unwrap_or_default();
        if *is_cut || !between.trim().is_empty() {
            break;
        }
        (first, from) = (Some(at), range.start);
    }
    first
}

/// An answer is at least this many times as large as a root that is only an example.
const LARGE: usize = 4;
