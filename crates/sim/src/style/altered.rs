//! Fragments whose text is not quite the document's: other words, a quote too many, a space too
//! few.

use std::ops::Range;

use super::index::Site;
use super::random::Random;
use super::restart::{Start, WHITE_SPACE};
use super::spell;
use restitch::json::Span;

/// Returns a quote, then the rest, in a string.
pub(super) fn reopened(site: &Site<'_>) -> Option<String> {
    site.string().map(|_| format!("\"{}", site.exact()))
}

/// Returns the rest without its leading space, in a string.
pub(super) fn trimmed(site: &Site<'_>) -> Option<String> {
    site.string().filter(|_| site.exact().starts_with(' '))?;
    Some(site.exact().trim_start_matches(WHITE_SPACE).to_owned())
}

/// Returns a restart in which one to three delivered values are changed.
pub(super) fn differs(site: &Site<'_>, from: Start, random: &mut Random) -> Option<String> {
    let start = from.offset(site)?;
    let mut places = places(site, start, random);
    // A word that the cut divides keeps its other half, so it is changed only if there is nothing
    // else.
    if places.iter().any(|place| place.is_whole) {
        places.retain(|place| place.is_whole);
    }
    let changes = (1 + random.below(3)).min(places.len());
    if changes == 0 {
        return None;
    }
    while places.len() > changes {
        places.remove(random.below(places.len()));
    }
    let mut text = String::new();
    let mut at = start;
    for AlteredPlace { range, other, .. } in places {
        text.push_str(&site.cut.document[at..range.start]);
        text.push_str(&other);
        at = range.end;
    }
    text.push_str(site.from(at));
    Some(text)
}

/// A value that can be changed.
struct AlteredPlace {
    range: Range<usize>,
    /// The replacement. It differs in its first character.
    other: String,
    /// It ends before the cut.
    is_whole: bool,
}

impl AlteredPlace {
    fn whole(range: Range<usize>, other: impl Into<String>) -> Self {
        Self {
            range,
            other: other.into(),
            is_whole: true,
        }
    }

    /// Changes the digit at an offset.
    fn digit(site: &Site<'_>, at: usize, random: &mut Random) -> Self {
        Self::whole(at..at + 1, other_digit(site.from(at), random))
    }
}

/// Returns the delivered values after `start` that can be changed, in the order of the text.
fn places(site: &Site<'_>, start: usize, random: &mut Random) -> Vec<AlteredPlace> {
    let (document, cut) = (site.cut.document, site.cut.offset);
    let mut places = Vec::new();
    for node in &site.nodes {
        let span = node.span;
        if node.container.is_some() || span.start < start || span.start >= cut {
            continue;
        }
        let delivered = &document[span.start..span.end.min(cut)];
        if node.is_string {
            words(site, span, random, &mut places);
        } else if delivered.starts_with(['t', 'f', 'n']) {
            let other = if delivered.starts_with('t') {
                "false"
            } else {
                "true"
            };
            places.push(AlteredPlace::whole(span.range(), other));
        } else if let Some(digit) = digit(delivered) {
            places.push(AlteredPlace::digit(site, span.start + digit, random));
        }
    }
    places
}

/// Adds the words of a string, up to the cut; of a word of digits, one digit.
fn words(site: &Site<'_>, span: Span, random: &mut Random, places: &mut Vec<AlteredPlace>) {
    let (document, cut) = (site.cut.document, site.cut.offset);
    let base = span.start + 1;
    let inner = site.inside(span);
    let mut word: Option<Range<usize>> = None;
    // A last unit that is not a letter ends a word at the end of the string.
    let end = spell::Unit {
        at: inner.len(),
        written: "",
        says: None,
    };
    for unit in spell::units(inner).chain([end]) {
        let at = base + unit.at;
        if at < cut && !unit.is_escaped() && unit.says.is_some_and(char::is_alphanumeric) {
            let start = word.as_ref().map_or(at, |word| word.start);
            word = Some(start..at + unit.written.len());
            continue;
        }
        let Some(range) = word.take() else { continue };
        let is_whole = at < cut || !unit.says.is_some_and(char::is_alphanumeric);
        let old = &document[range.clone()];
        if old.bytes().all(|byte| byte.is_ascii_digit()) {
            places.push(AlteredPlace::digit(site, range.start, random));
        } else {
            let other = random.pick(&WORDS);
            let other = if old.chars().next() == other.chars().next() {
                INSTEAD
            } else {
                other
            };
            places.push(AlteredPlace {
                range,
                other: other.to_owned(),
                is_whole,
            });
        }
    }
}

/// Returns the first digit of a number that is not 0, or the only 0.
fn digit(number: &str) -> Option<usize> {
    number
        .find(|c: char| matches!(c, '1'..='9'))
        .or_else(|| number.find('0'))
}

/// Returns another digit than the first of `text`, and not 0.
fn other_digit(text: &str, random: &mut Random) -> String {
    debug_assert!(
        text.starts_with(|c: char| c.is_ascii_digit()),
        "no digit: {text}"
    );
    let old = text
        .bytes()
        .next()
        .map_or(0, |byte| usize::from(byte.wrapping_sub(b'0')));
    let other = 1 + (old + random.below(8)) % 9;
    other.to_string()
}

/// No word begins with the letter of [`INSTEAD`].
const WORDS: [&str; 6] = ["maple", "quiet", "river", "Garden", "often", "blue"];
const INSTEAD: &str = "zebra";
