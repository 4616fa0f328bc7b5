//! Replaces the value that was cut by a fragment that contradicts it. The caller must make sure
//! that no reader has the value yet.

use super::cursor::value_start;
use super::flow::is_space;
use super::{Alignment, Expect, Seam, Slot, Splice, SpliceRequest, has_more_json};
use crate::json::Kind;
use crate::limits::Limits;

/// Returns a copy of the slot that was set back to the start of the element that was cut and joined
/// with the fragment there; the seam; and the path of the replaced value. Returns `None` where the
/// fragment does not join there either: it must write the element once more, or begin again before
/// it.
pub(crate) fn replaced(
    slot: &Slot,
    fragment: &str,
    expect: Expect,
    limits: &Limits,
) -> Option<(Slot, Seam, String)> {
    let cut = slot;
    let mut slot = slot.clone();
    let path = slot.rewind()?;
    let kept = slot.text().len();
    let request = SpliceRequest {
        expect,
        believes_early_end: true,
        ..SpliceRequest::default()
    };
    let mut splice = Splice::new(&slot, request, limits);
    splice.feed(&mut slot, fragment).ok()?;
    let seam = splice.finish(&mut slot).ok()?;
    let is_written = match seam.alignment {
        Alignment::Exact => is_same_element(cut, &slot, kept),
        // The anchor is the end of the text before the element.
        Alignment::Restart | Alignment::Start | Alignment::Anchor => true,
        _ => false,
    };
    // JSON after the root shows that the fragment does not belong there.
    (is_written && !has_more_json(slot.document(), splice.after_root()))
        .then_some((slot, seam, path))
}

/// Whether a new element at `kept` identifies itself as the element that was cut there: it begins
/// with the same whole child.
fn is_same_element(cut: &Slot, new: &Slot, kept: usize) -> bool {
    let depth = cut.frames().iter().position(|frame| frame.start >= kept);
    let first = depth.and_then(|depth| cut.child_index().children(depth).first());
    let Some(begun) = first.and_then(|first| cut.text().get(kept..first.span.end)) else {
        return false;
    };
    let mut characters = new
        .text()
        .get(kept..)
        .unwrap_or_default()
        .chars()
        .filter(|&c| !is_space(c));
    begun
        .chars()
        .filter(|&c| !is_space(c))
        .all(|c| characters.next() == Some(c))
}

impl Slot {
    /// Forgets the innermost array element that has begun and not ended, or the root where there is
    /// no such element. Returns its path; returns `None` and changes nothing where no root is open.
    /// Takes O(depth) and reads the text between the open values.
    pub(crate) fn rewind(&mut self) -> Option<String> {
        let tail = self.text().trim_end().len();
        let is_cut =
            |depth: usize, kind: Kind| kind == Kind::Array && value_start(self, depth + 1) < tail;
        let array = self
            .frames()
            .iter()
            .enumerate()
            .rposition(|(depth, frame)| is_cut(depth, frame.kind));
        let depth = array.map_or(0, |array| array + 1);
        self.document_mut()
            .rewind(depth)
            .then(|| self.document().path().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"a": [1, [true, "x\u00e9"], {"b\"": {"c": [ {"d": 12}, {"e": -3.5} ], "f": null}}], "g": "h"}"#;

    /// Checks that the slot equals one that was given only this text.
    fn check_is_fresh(slot: &Slot, limits: &Limits, cut: usize) {
        let mut fresh = Slot::new(limits);
        fresh.push(slot.text()).unwrap();
        assert_eq!(slot.frames(), fresh.frames(), "{cut}");
        assert_eq!(slot.document().cut(), fresh.document().cut(), "{cut}");
        assert_eq!(
            slot.document().root_start(),
            fresh.document().root_start(),
            "{cut}"
        );
        for depth in 0..slot.frames().len() {
            assert_eq!(
                slot.child_index().children(depth),
                fresh.child_index().children(depth),
                "{cut}"
            );
            assert!(slot.child_index().remembers_all(depth));
        }
    }

    #[test]
    fn a_slot_that_was_set_back_is_as_if_nothing_had_followed() {
        let limits = Limits::default();
        // After prose a root begins in a fence: a bracket alone is not a root yet.
        for before in ["", "Sure:\n```json\n"] {
            let text = format!("{before}{TEXT}");
            let mut whole = Slot::new(&limits);
            whole.push(&text).unwrap();
            for cut in before.len() + 1..text.len() {
                check_set_back(&text, cut, before.len(), &whole, &limits);
            }
            assert_eq!(whole.rewind(), None);
        }
        let mut prose = Slot::new(&limits);
        prose.push("Sure:\n[see [1").unwrap();
        assert_eq!((prose.rewind(), prose.text()), (None, "Sure:\n[see [1"));
        assert_eq!(Slot::new(&limits).rewind(), None);
    }

    fn check_set_back(text: &str, cut: usize, begin: usize, whole: &Slot, limits: &Limits) {
        let mut slot = Slot::new(limits);
        slot.push(&text[..cut]).unwrap();
        let (checkpoint, cut_path) = (slot.document().checkpoint(), slot.document().cut().path);
        let path = slot.rewind().unwrap();
        check_is_fresh(&slot, limits, cut);
        assert!(
            cut_path.starts_with(&path)
                && path.rsplit('/').next().is_some_and(|step| step.len() < 2),
            "{path}"
        );
        let kept = slot.text().len();
        assert!(
            kept < cut && (path.is_empty() == (kept == begin)),
            "{cut}: {path}"
        );
        // A checkpoint in forgotten text can't be restored.
        let mut document = slot.document().clone();
        assert!(!document.restore(&checkpoint));
        slot.push(&text[kept..]).unwrap();
        assert_eq!(
            (slot.text(), slot.child_index().root()),
            (text, whole.child_index().root()),
            "{cut}"
        );
    }

    #[test]
    fn the_innermost_element_that_has_begun_is_taken_back() {
        for (text, path, kept) in [
            (r#"{"a": [1, "tw"#, "/a/1", r#"{"a": [1, "#),
            (r#"{"a": [1, {"b": {"c": "d"#, "/a/1", r#"{"a": [1, "#),
            (r#"{"a": [1, {"b": [] "#, "/a/1", r#"{"a": [1, "#),
            // The next element is due: it has not begun, the one around it has.
            (r#"[[1, 2, "#, "/0", "["),
            (r#"[ [1, 2"#, "/0/1", "[ [1, "),
            (r#"{"a": {"b": "c"#, "", ""),
            (r#"[1, "#, "", ""),
        ] {
            let mut slot = Slot::new(&Limits::default());
            slot.push(text).unwrap();
            assert_eq!(
                (slot.rewind().as_deref(), slot.text()),
                (Some(path), kept),
                "{text}"
            );
        }
    }
}
