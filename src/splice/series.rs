//! Numbers that count on: `"id": 6`, `"id": 7`, and so `"id": 8` is due in the next element.

use super::flow::is_space;
use super::slot::Slot;

/// The number series in the elements of an open array.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    counters: Vec<SeriesCounter>,
}

#[derive(Clone, Debug)]
struct SeriesCounter {
    /// The key of a member with its quotes, or the number of an element in the row.
    place: String,
    /// The text before the digits.
    prefix: String,
    last: i64,
    step: i64,
    /// The evidence of the number that is due.
    bits: f32,
}

/// Bits for a position where the due number follows, and against it where another number follows:
/// if three elements count, and if two do.
// Below the ten bits of a decision: a counter alone joins nothing, and a model that counts wrongly
// is not refused for ever. Two elements may count by chance, so they are worth less than half.
// docs/internals/seam.md states both; tests/cases/seam/row-again-with-another-number.md shows them.
const THREE: f32 = 9.0;
const TWO: f32 = 4.0;

/// Bytes of an element that are searched for numbers: ids are among its first members.
// Chosen: the first members of a row, with some text before the id. Each scoring of a candidate
// reads it again, so twice as much costs twice as much for each due score.
const LOOKED_AT: usize = 512;

impl Series {
    /// Returns the series of the array at this depth, from its last three whole elements.
    pub(super) fn of(slot: &Slot, depth: usize) -> Self {
        let children = slot.child_index().children(depth);
        let rows: Vec<Vec<SeriesNumber<'_>>> = children
            .iter()
            .rev()
            .take(3)
            .map(|child| numbers(child.span.of(slot.text()), true))
            .collect();
        let [last, before, rest @ ..] = rows.as_slice() else {
            return Self::default();
        };
        let counter = |number: &SeriesNumber<'_>| {
            let previous = number.same(before)?;
            let step = number.value.checked_sub(previous)?;
            let is_steady = rest
                .first()
                .is_none_or(|row| number.same(row) == previous.checked_sub(step));
            (step != 0 && is_steady).then(|| SeriesCounter {
                place: number.place.clone().into_owned(),
                prefix: number.prefix.to_owned(),
                last: number.value,
                step,
                bits: if rest.is_empty() { TWO } else { THREE },
            })
        };
        Self {
            counters: last.iter().filter_map(counter).collect(),
        }
    }

    /// Returns the bits for the reading that `element` is the `nth` one after the last whole
    /// element (1: the next one), rather than another one.
    pub(super) fn bits(&self, element: &str, nth: i64) -> f32 {
        if self.counters.is_empty() {
            return 0.0;
        }
        let numbers = numbers(element, false);
        let bits = |counter: &SeriesCounter| {
            let number = numbers
                .iter()
                .find(|number| number.place == counter.place)?;
            let is_due = number.prefix == counter.prefix
                && counter
                    .step
                    .checked_mul(nth)
                    .and_then(|far| counter.last.checked_add(far))
                    == Some(number.value);
            Some(if is_due { counter.bits } else { -counter.bits })
        };
        self.counters
            .iter()
            .filter_map(bits)
            .fold(
                0.0,
                |most: f32, bits| if bits.abs() > most.abs() { bits } else { most },
            )
    }
}

/// The part of an element that is looked at.
pub(super) fn head(element: &str) -> &str {
    let end = (0..=LOOKED_AT.min(element.len()))
        .rev()
        .find(|&at| element.is_char_boundary(at));
    end.and_then(|end| element.get(..end)).unwrap_or_default()
}

/// A number of an element, or the one at the end of a string.
#[derive(Clone, Debug, PartialEq)]
struct SeriesNumber<'a> {
    place: std::borrow::Cow<'a, str>,
    prefix: &'a str,
    value: i64,
}

impl SeriesNumber<'_> {
    /// The number at the same position of another row.
    fn same(&self, row: &[Self]) -> Option<i64> {
        let other = row
            .iter()
            .find(|other| other.place == self.place && other.prefix == self.prefix)?;
        Some(other.value)
    }
}

/// The whole numbers among the scalars of an element, which is cut unless it `is_whole`, and the
/// ones at the ends of its strings. Values that are containers end the search: ids are among the
/// first members.
fn numbers(element: &str, is_whole: bool) -> Vec<SeriesNumber<'_>> {
    let mut rest = head(element).trim_start_matches(is_space);
    let is_object = rest.starts_with('{');
    if let Some(inside) = rest.strip_prefix(['{', '[']) {
        rest = inside;
    }
    let (mut found, mut row, mut key) = (Vec::new(), 0usize, None);
    while let Some((token, after)) = token(rest, is_whole) {
        let after = after.trim_start_matches(is_space);
        if is_object && key.is_none() {
            let Some(value) = after.strip_prefix(':') else {
                break;
            };
            (key, rest) = (Some(token), value);
            continue;
        }
        let place = key
            .take()
            .map_or_else(|| row.to_string().into(), Into::into);
        found.extend(split(token).map(|(prefix, value)| SeriesNumber {
            place,
            prefix,
            value,
        }));
        let Some(next) = after.strip_prefix(',') else {
            break;
        };
        (row, rest) = (row + 1, next);
    }
    found
}

/// The next scalar, if it has ended, and the text after it. The end of whole text ends it, too.
fn token(text: &str, is_whole: bool) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(is_space);
    let end = match text.strip_prefix('"') {
        Some(inside) => {
            let mut escaped = false;
            let quote = inside.bytes().position(|byte| {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            });
            quote? + 2
        }
        None => {
            let end = text.find([',', '}', ']', ':', ' ', '\n', '\r', '\t', '{', '[']);
            end.or(is_whole.then_some(text.len()))?
        }
    };
    if end == 0 {
        None
    } else {
        text.split_at_checked(end)
    }
}

/// A number, or a string that ends in one: the text before the digits, and their value.
fn split(token: &str) -> Option<(&str, i64)> {
    let text = token
        .strip_prefix('"')
        .map_or(token, |text| text.strip_suffix('"').unwrap_or(text));
    let digits = text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (prefix, digits) = text.split_at_checked(digits)?;
    let prefix = if token.starts_with('"') || prefix.is_empty() {
        prefix
    } else {
        return None;
    };
    digits.parse().ok().map(|value| (prefix, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn series(text: &str, depth: usize) -> Series {
        let mut slot = Slot::new(&Limits::default());
        slot.push(text).unwrap();
        Series::of(&slot, depth)
    }

    #[test]
    fn elements_that_count_tell_which_one_is_due() {
        let rows = series(
            r#"{"rows": [{"id": 5, "n": 3}, {"id": 6, "n": 9}, {"id": 7, "n": 1}, {"i"#,
            1,
        );
        assert_eq!(
            (rows.bits("{\"id\": 8, ", 1), rows.bits("{\"id\": 9,", 1)),
            (THREE, -THREE)
        );
        assert_eq!(
            (rows.bits("{\"id\": 8, ", 2), rows.bits("{\"id\": 9,", 2)),
            (-THREE, THREE)
        );
        // The number may be incomplete, or is still missing.
        assert_eq!(
            (rows.bits("{\"id\": 8", 1), rows.bits("{\"i", 1)),
            (0.0, 0.0)
        );
        let names = series(r#"[["a-1", 2], ["a-2", 2], ["#, 0);
        assert_eq!(
            (names.bits("[\"a-3\",", 1), names.bits("[\"b-3\",", 1)),
            (TWO, -TWO)
        );
        let list = series("[10, 20, 30, ", 0);
        assert_eq!(
            (list.bits("40, 5", 1), list.bits("41,", 1)),
            (THREE, -THREE)
        );
    }

    #[test]
    fn what_does_not_count_says_nothing() {
        for text in [
            "[1, 1, 1, ",
            "[1, 5, 2, ",
            "[{\"a\": 1}, {\"a\": 2.5}, ",
            "[[1], [true], ",
            "[1, ",
        ] {
            assert_eq!(series(text, 0).bits("2, ", 1), 0.0, "{text}");
        }
    }
}
