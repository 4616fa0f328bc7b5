//! What speaks for something that began again and has come to the cut.

use memchr::memmem;

use super::cursor::{Arrival, FEW, Tip, value_start};
use super::flow::is_space;
use super::seam::Alignment;
use super::slot::Slot;
use super::trial::{Claim, Owed, Weight};
use crate::children::Child;
use crate::json::Kind;
use crate::overlap::{Anchor, EVIDENCE, is_unbordered, longest_border};

/// What is the same for all claims at one cut.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) tip: &'a Tip,
    pub(super) anchor: Option<&'a Anchor>,
    /// What [`rows_recur`] says.
    pub(super) rows_recur: bool,
}

/// The claim of a cursor that has come to the cut; the content begins at `begin` in the fragment.
pub(super) fn claim(slot: &Slot, known: &Known<'_>, begin: usize, arrival: Arrival) -> Claim {
    let Known { tip, anchor, rows_recur } = *known;
    let weight = match arrival.from < slot.text().len() || !arrival.is_reentry {
        true => weight(slot, tip, anchor, &arrival),
        // Nothing was repeated but brackets: they are rather a part of the new element, where it may have some.
        false => Weight::Fallback,
    };
    let alignment = if arrival.is_reentry { Alignment::Reentry } else { Alignment::Restart };
    let overlap = slot.text().len().saturating_sub(arrival.from);
    // What it has left out so far must come until the containers end that it has begun again. Enough that was repeated
    // does for it, but not where an element may be another one: what tells it from that must come.
    let is_forgiven = arrival.read >= EVIDENCE && arrival.entry.is_none();
    let owes = arrival.gap.map(|depth| Owed { members: arrival.missing, depth: depth + 1, is_forgiven, weight });
    let weight = if owes.is_some() { weight.min(Weight::Plausible) } else { weight };
    let may_recur = is_row(slot, arrival.from) || arrival.has_elements && rows_recur;
    let Arrival { at, rest, late, from, .. } = arrival;
    Claim { from, rest, late, owes, may_recur, ..Claim::new(alignment, weight, begin + at, overlap) }
}

fn weight(slot: &Slot, tip: &Tip, anchor: Option<&Anchor>, arrival: &Arrival) -> Weight {
    let text = slot.text();
    if let Some(depth) = arrival.entry.filter(|_| arrival.from < text.len())
        && !is_identified(slot, tip, depth, arrival)
    {
        return Weight::Doubtful;
    }
    let repeats_anchor = anchor.is_some_and(|anchor| arrival.from <= anchor.range.start);
    let repeated = text.get(arrival.from..).unwrap_or_default().trim_end();
    // Digits that come again all together; where they go on, nobody writes them twice.
    let is_token = slot.document().machine().in_token() && arrival.from == slot.document().machine().token_start();
    let is_number = matches!(tip, Tip::Scalar(begun) if is_token && begun.len() >= FEW && goes_on(begun.as_bytes()));
    if repeats_anchor || is_number || is_evidence(text, repeated) { Weight::Convincing } else { Weight::Plausible }
}

/// It is not the same over and over.
fn goes_on(said: &[u8]) -> bool {
    2 * longest_border(said) <= said.len()
}

/// It has sixteen characters, stands in the delivered text only once, and does not go on as it began.
fn is_evidence(text: &str, repeated: &str) -> bool {
    let from = text.trim_end().len() - repeated.len();
    let is_unique = || memmem::find(text.as_bytes(), repeated.as_bytes()) == Some(from);
    repeated.chars().count() >= EVIDENCE && is_unbordered(repeated) && is_unique()
}

/// The open element of the array at this depth says something that tells it from the elements before it, and so from the
/// next one, which a model may as well have gone on with.
fn is_identified(slot: &Slot, tip: &Tip, depth: usize, arrival: &Arrival) -> bool {
    let text = slot.text();
    // A number that has only begun, and a string of which hardly anything has come, or the same over and over, are
    // nothing to go by.
    let certain = match tip {
        // The element itself is a number: the next one is another.
        Tip::Scalar(begun) if depth + 1 == slot.frames().len() && begun.len() >= FEW => text.len(),
        Tip::Scalar(_) if !arrival.is_whole => value_start(slot, slot.frames().len()),
        Tip::String { said, .. } | Tip::Key { said, .. } if said.len() < FEW || !goes_on(said) => {
            slot.document().machine().token_start()
        }
        _ => text.len(),
    };
    let start = value_start(slot, depth + 1);
    let Some(element) = text.get(start..certain).map(str::trim_end) else { return false };
    let before = slot.child_index().children(depth);
    let is_like = |child: &Child| child.span.start < start && child.span.of(text).starts_with(element);
    // The same in another layout: one answer may have another one than the one before it.
    let is_said = || {
        let said: Vec<String> = said_by_element(slot, tip, depth).into_iter().map(compact).collect();
        let said: Vec<memmem::Finder<'_>> = said.iter().map(memmem::Finder::new).collect();
        let says_all = |child: &Child| {
            let row = compact(child.span.of(text));
            said.iter().all(|piece| says(&row, piece))
        };
        !said.is_empty() && before.iter().rev().take(ROWS).any(says_all)
    };
    // What is missing must still come.
    arrival.read + arrival.missing > 0 && !element.is_empty() && !before.iter().any(is_like) && !is_said()
}

/// What the open element of the array at this depth says: its whole members, each with its key, and the string that is
/// open in it.
fn said_by_element<'a>(slot: &'a Slot, tip: &Tip, depth: usize) -> Vec<&'a str> {
    let text = slot.text();
    let mut said = Vec::new();
    for (depth, frame) in slot.frames().iter().enumerate().skip(depth + 1) {
        let mut from = frame.start + 1;
        for child in slot.child_index().children(depth) {
            let member = text.get(from..child.span.end).unwrap_or_default();
            said.push(member.trim_start_matches(|c| is_space(c) || c == ','));
            from = child.span.end;
        }
    }
    if matches!(tip, Tip::String { .. }) {
        said.extend(text.get(slot.document().machine().token_start()..));
    }
    said
}

/// The text without white space between its tokens.
fn compact(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let keeps = |c: &char| {
        let keeps = in_string || !is_space(*c);
        in_string ^= *c == '"' && !escaped;
        escaped = in_string && *c == '\\' && !escaped;
        keeps
    };
    text.chars().filter(keeps).collect()
}

/// The piece stands in the row, and is no number that goes on there.
fn says(row: &str, piece: &memmem::Finder<'_>) -> bool {
    let length = piece.needle().len();
    let is_number = piece.needle().last().is_some_and(u8::is_ascii_digit);
    let goes_on = |at: usize| row.as_bytes().get(at + length).is_some_and(|next| matches!(next, b'0'..=b'9' | b'.'));
    piece.find_iter(row.as_bytes()).any(|at| !(is_number && goes_on(at)))
}

/// It stands behind the same beginning of a whole element as the cut does behind that of the open one: what follows it
/// may follow the cut as well.
pub(super) fn is_row(slot: &Slot, at: usize) -> bool {
    let end = slot.text().trim_end().len();
    slot.frames().iter().enumerate().rev().any(|(depth, frame)| {
        let start = value_start(slot, depth + 1).min(end);
        let rows = slot.child_index().children(depth);
        let row = at.checked_sub(end - start);
        let is_one = |row: &usize| rows.binary_search_by_key(row, |child| child.span.start).is_ok();
        let begun = slot.text().get(start..end);
        frame.kind == Kind::Array && row.filter(is_one).is_some_and(|row| slot.text().get(row..at) == begun)
    })
}

/// New text that nothing was repeated before looks like what it would stand behind: in a number it is not another number,
/// in an escape not another string, and where an element is due it is of the kind of the elements before it, with a key
/// that they have, and is none of them written again.
pub(super) fn fits(slot: &Slot, tip: &Tip, text: &str) -> bool {
    match tip {
        // The rest of a number is hardly longer than what has come of it; another number may well be.
        Tip::Scalar(begun) => {
            let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            !begun.ends_with(|c: char| c.is_ascii_digit()) || digits == 0 || digits < begun.len()
        }
        Tip::String { escape, .. } if escape == "\\" => {
            // What follows a quotation; a string that begins again does not begin so.
            text.strip_prefix('"')
                .is_none_or(|text| text.starts_with([' ', '"', '\\', ',', '.', ')', ':', ';', '!', '?']))
        }
        Tip::MemberKey if text.trim_start_matches(is_space).starts_with('}') => !leaves_empty(slot),
        Tip::Element if text.trim_start_matches(is_space).starts_with(']') => !leaves_empty(slot),
        Tip::Element | Tip::AfterValue => {
            let text = text.trim_start_matches(|c| is_space(c) || c == ',');
            text.chars().next().is_some_and(|first| looks_like_a_row(slot, text, first))
        }
        _ => true,
    }
}

/// Among the newest elements of an open array are some that have been there before: more of them may come.
pub(super) fn rows_recur(slot: &Slot) -> bool {
    let index = slot.child_index();
    let recurs = |depth: usize| {
        let newest = index.children(depth).iter().rev().take(ROWS);
        // That a number comes again says nothing.
        let is_row = |child: &Child| {
            let row = child.span.of(slot.text());
            row.len() >= if row.starts_with(['{', '[']) { LONG / 2 } else { LONG }
        };
        newest.clone().any(|child| is_row(child) && index.find(depth, child.digest).nth(1).is_some())
    };
    let arrays = slot.frames().iter().enumerate().rev().filter(|(_, frame)| frame.kind == Kind::Array);
    arrays.take(ARRAYS).any(|(depth, _)| recurs(depth))
}

/// Bytes of a scalar that are a row of its own; of a container half as many.
const LONG: usize = 8;
/// Open arrays that are looked at, from the innermost one.
const ARRAYS: usize = 8;

/// Elements that a new one is compared with.
const ROWS: usize = 64;

/// The innermost container would stay empty, and those before it are not.
fn leaves_empty(slot: &Slot) -> bool {
    let Some(depth) = slot.frames().len().checked_sub(2) else { return false };
    let is_new = slot.frames().last().is_some_and(|frame| frame.count == 0);
    let mut rows = slot.child_index().children(depth).iter().rev().take(ROWS).peekable();
    is_new && rows.peek().is_some() && rows.all(|row| row.span.len() > "{ }".len())
}

fn looks_like_a_row(slot: &Slot, text: &str, first: char) -> bool {
    let Some(depth) = slot.frames().len().checked_sub(1) else { return true };
    let is_array = slot.frames().get(depth).is_some_and(|frame| frame.kind == Kind::Array);
    let children = slot.child_index().children(depth);
    if !is_array || children.is_empty() || matches!(first, ']' | '}') {
        return true;
    }
    if begins_as_ancestor(slot, depth, text) || is_deeper(slot, depth, first) {
        return false;
    }
    let rows = || children.iter().rev().take(ROWS).map(|child| child.span.of(slot.text()));
    let is_container = |text: &str| text.starts_with(['{', '[']);
    // What was written once may be written otherwise the next time; twice, it is a habit.
    let is_habit = rows().count() > 1 && (is_container(text) || rows().all(is_container));
    if is_habit && !rows().any(|row| row.starts_with(first)) {
        return false;
    }
    let Some(head) = head_of(text) else { return true };
    let has_key = |row: &str| head.0.is_empty() || row.contains(head.0);
    rows().any(has_key) && !rows().any(|row| head_of(row) == Some(head))
}

/// It is an object that begins with the key that an open one around the array at this depth begins with: that one again,
/// in other words.
fn begins_as_ancestor(slot: &Slot, depth: usize, text: &str) -> bool {
    let Some((key, _)) = head_of(text).filter(|(key, _)| !key.is_empty()) else { return false };
    let begins = |start: usize| {
        let inside = slot.text().get(start + 1..).unwrap_or_default().trim_start_matches(is_space);
        inside.starts_with(key)
    };
    let objects = slot.frames().iter().take(depth).rev().filter(|frame| frame.kind == Kind::Object);
    let has_key = |child: &Child| child.span.of(slot.text()).contains(key);
    let is_own = || slot.child_index().children(depth).iter().rev().take(ROWS).any(has_key);
    objects.take(ARRAYS).any(|frame| begins(frame.start)) && !is_own()
}

/// It is a container, in a row of scalars, and the rows before that have none in them either.
fn is_deeper(slot: &Slot, depth: usize, first: char) -> bool {
    let Some(around) = depth.checked_sub(1) else { return false };
    let is_array = slot.frames().get(around).is_some_and(|frame| frame.kind == Kind::Array);
    if !is_array || !matches!(first, '{' | '[') {
        return false;
    }
    let holds_none = |row: &str| row.get(1..).is_some_and(|row| !row.contains(['{', '[']));
    let mut rows = slot.child_index().children(around).iter().rev().take(ROWS).map(|child| child.span.of(slot.text()));
    let own = || slot.child_index().children(depth).iter().rev().take(ROWS).map(|child| child.span.of(slot.text()));
    rows.len() > 1
        && rows.all(|row| row.starts_with('[') && holds_none(row))
        && own().all(|own| !own.starts_with(['{', '[']))
}

/// The first key of an object, with its quotes, and its value; the first element of an array. `None` of anything else, and
/// where that is a container itself or has not come.
fn head_of(text: &str) -> Option<(&str, &str)> {
    let is_object = text.starts_with('{');
    let inside = text.strip_prefix(['{', '['])?.trim_start_matches(is_space);
    let (key, behind) = if is_object { split_token(inside)? } else { ("", inside) };
    let value = if is_object { behind.trim_start_matches(is_space).strip_prefix(':')? } else { behind };
    let (value, _) = split_token(value.trim_start_matches(is_space))?;
    Some((key, value))
}

/// A string or another scalar at the start of the text, and what follows it.
fn split_token(text: &str) -> Option<(&str, &str)> {
    let end = if text.starts_with('"') {
        let mut escaped = false;
        let quote = |(at, c): (usize, char)| {
            let ends = c == '"' && !escaped && at > 0;
            escaped = c == '\\' && !escaped;
            ends.then_some(at + 1)
        };
        text.char_indices().find_map(quote)?
    } else {
        text.find(|c: char| is_space(c) || matches!(c, ',' | ']' | '}'))?
    };
    if end == 0 || text.starts_with(['{', '[']) { None } else { text.split_at_checked(end) }
}

/// The open element of an array begins here.
pub(super) fn begins_element(slot: &Slot, at: usize) -> bool {
    let frames = slot.frames();
    let is_array = |depth: usize| frames.get(depth).is_some_and(|frame| frame.kind == Kind::Array);
    let found = frames.partition_point(|frame| frame.start < at);
    let starts = found >= 1 && value_start(slot, found) == at && at < slot.text().len();
    starts && found.checked_sub(1).is_some_and(is_array)
}
