//! Recognises new text that closes a document although more is due.

use super::attempt::SpliceAttempt;
use super::deciding::{LOST, RequestedAnchorSearch};
use super::flow::is_space;
use super::seam::{Expect, SpliceRequest};
use super::slot::Slot;
use crate::document::Document;
use crate::json::{CutState, Kind};

/// Whether the new text of this attempt has only closers until now. Members that the fragment has
/// before the one that was cut are new text, too.
pub(super) fn closes_only(
    slot: &Slot,
    expect: Expect,
    attempt: &SpliceAttempt,
    fragment: &str,
) -> bool {
    let new = fragment.get(attempt.candidate.at..).unwrap_or_default();
    attempt.setup.deferred.is_empty() && may_end_early(slot, expect, new)
}

/// Whether the early end of this attempt is the end of the document: the previous answer to this
/// cut ended there, too, the cut is after a whole value, the answer began with the anchor, and no
/// ellipsis replaces missing text.
pub(super) fn is_believed(
    slot: &Slot,
    request: &SpliceRequest,
    anchor: &RequestedAnchorSearch,
    attempt: &SpliceAttempt,
    fragment: &str,
) -> bool {
    let new = fragment.get(attempt.candidate.at..).unwrap_or_default();
    let new = up_to_root_end(slot, new);
    let overlap = attempt.candidate.overlap;
    // The anchor without its first characters counts like the whole anchor.
    let is_nearly = request.expect == Expect::Any || overlap + LOST >= anchor.length;
    let began_as_asked = attempt.candidate.start.is_requested()
        || overlap >= anchor.length
        || is_nearly && attempt.is_proven(fragment);
    request.believes_early_end
        && is_after_value(slot)
        && began_as_asked
        && !new.contains(['.', '…'])
}

/// Whether new text has only closers until now, although more text is due. A model that continues
/// its own text may rightly begin with closers: after a prefill only an ellipsis shows that text is
/// missing.
pub(super) fn may_end_early(slot: &Slot, expect: Expect, new: &str) -> bool {
    let new = up_to_root_end(slot, new);
    let is_doubted = expect != Expect::Exact || new.contains(['.', '…']);
    is_doubted && more_is_due(slot) && only_closes(slot, new)
}

// Text of this length is more than a model adds that only wants to close what it sees. Until then
// the text waits, so a longer limit would delay a long string that the model has copied.
/// Bytes of new text up to which a value may be the last one of a copy.
const LAST_VALUE: usize = 512;

/// Whether new text has until now at most the rest of the cut token, or one scalar, and closers.
pub(super) fn completes_one_value(slot: &Slot, new: &str) -> bool {
    let new = up_to_root_end(slot, new);
    let mut in_string = slot.document().machine().in_string();
    // After a whole value a comma precedes the one that is added.
    let mut commas = usize::from(is_after_value(slot));
    let mut chars = new.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_string => drop(chars.next()),
            '"' => in_string = !in_string,
            '{' | '[' if !in_string => return false,
            ',' if !in_string && commas == 0 => return false,
            ',' if !in_string => commas = 0,
            _ => {}
        }
    }
    new.len() <= LAST_VALUE
}

/// Returns new text without the prose after the closer of the root: prose is not evidence about the
/// end of the document. JSON after the closer stays, because it may show that the document
/// continues. Text that opens containers is more than closers, however it is chunked.
fn up_to_root_end<'a>(slot: &Slot, new: &'a str) -> &'a str {
    let mut in_string = slot.document().machine().in_string();
    let mut open = slot.frames().len();
    for (at, c) in new.char_indices() {
        match c {
            '"' => in_string = !in_string,
            '}' | ']' if !in_string => open = open.saturating_sub(1),
            _ => continue,
        }
        if open == 0 {
            let (closers, rest) = new.split_at(at + c.len_utf8());
            return if rest.contains(['{', '[', '"']) {
                new
            } else {
                closers
            };
        }
    }
    new
}

/// Whether the cut is inside a token or after a comma or colon, or an array is open.
fn more_is_due(slot: &Slot) -> bool {
    !is_after_value(slot) || slot.frames().iter().any(|frame| frame.kind == Kind::Array)
}

/// Whether the cut is after a whole value, and not after a comma.
fn is_after_value(slot: &Slot) -> bool {
    let machine = slot.document().machine();
    !machine.in_token() && machine.cut_state() == CutState::AfterValue
}

/// Whether new text has only closers until now. An ellipsis, also in brackets or after a comma, is
/// allowed in the string that was cut, or in a string that holds nothing else. An empty string is a
/// value.
pub(super) fn only_closes(slot: &Slot, new: &str) -> bool {
    let mut in_string = slot.document().machine().in_string();
    // About the open string: it may end here, and it has other characters than dots.
    let (mut may_end, mut has_marks) = (true, false);
    for c in new.chars() {
        match c {
            '"' if in_string && (!may_end || has_marks) => return false,
            '"' => (in_string, may_end, has_marks) = (!in_string, false, false),
            '.' | '…' => (may_end, has_marks) = (true, false),
            c if is_space(c) => {}
            ',' | '(' | '[' | '-' if in_string => has_marks = true,
            // Brackets around an ellipsis end after it.
            ')' | ']' if in_string && may_end => {}
            '}' | ']' | ',' | '`' if !in_string => {}
            _ => return false,
        }
    }
    true
}

/// Returns whether an answer does not end with the document's root: JSON follows in it, or, after a
/// remark, a later root in which it ends. `after`: its text after the root, without white space
/// before it.
pub(crate) fn has_more_json(document: &Document, after: &str) -> bool {
    after.starts_with(['{', ',', ':', '"']) || document.ends_in_later_root(after)
}
