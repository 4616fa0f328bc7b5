//! Changes single members of a JSON text; every other byte stays unchanged.
//!
//! Works on the spans of [`walk`](super::walk) and expects valid text. Inserted text has no white
//! space.

use std::ops::Range;

use super::string::quoted;
use super::walk::Raw;

/// A list of edits to one text, which are applied together.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    /// Ranges of the text and their replacements. They never overlap. Of two edits at the same
    /// offset, the one that was added first precedes the other.
    list: Vec<(Range<usize>, String)>,
}

impl Edits {
    /// Removes the members named in `remove` from `object`, each with the comma that is no longer
    /// needed, and sets those in `set` to their values (raw JSON). Every duplicate gets the value;
    /// a key that is missing is added as the last member.
    ///
    /// Call this once for each object: commas depend on all members that stay. A key may be in one
    /// of the two lists only.
    pub(crate) fn object(&mut self, object: Raw<'_>, remove: &[&str], set: &[(&str, &str)]) {
        let members: Vec<_> = object.members().collect();
        let mut missing: Vec<_> = set.iter().collect();
        let mut kept = false;
        for (at, (key, value)) in members.iter().enumerate() {
            let name = key.decode().unwrap_or_default();
            if remove.iter().any(|gone| name == *gone) {
                let gone = match (
                    at.checked_sub(1).and_then(|before| members.get(before)),
                    members.get(at + 1),
                ) {
                    // If an earlier member stays, the edit removes the comma and the space before
                    // this member.
                    (Some((_, before)), _) if kept => before.range().end..value.range().end,
                    (_, Some((next, _))) => key.offset()..next.offset(),
                    (_, None) => key.offset()..value.range().end,
                };
                self.list.push((gone, String::new()));
                continue;
            }
            kept = true;
            if let Some((key, new)) = set.iter().find(|(key, _)| name == *key) {
                missing.retain(|(other, _)| other != key);
                self.replace(*value, new);
            }
        }
        let end = members
            .last()
            .map_or(object.offset() + 1, |(_, value)| value.range().end);
        for (key, value) in missing {
            let comma = if kept { "," } else { "" };
            self.list
                .push((end..end, format!("{comma}{}:{value}", quoted(key))));
            kept = true;
        }
    }

    /// Appends `items` (raw JSON, separated by commas) to `array`.
    pub(crate) fn append(&mut self, array: Raw<'_>, items: &str) {
        let (end, comma) = match array.elements().last() {
            Some(last) => (last.range().end, ","),
            None => (array.offset() + 1, ""),
        };
        self.list.push((end..end, format!("{comma}{items}")));
    }

    /// Replaces `value` with `new` (raw JSON).
    pub(crate) fn replace(&mut self, value: Raw<'_>, new: &str) {
        self.list.push((value.range(), new.to_owned()));
    }

    /// Returns the text with all edits applied, or `None` if they change nothing.
    pub(crate) fn changed(self, text: &str) -> Option<String> {
        // Most requests need no edit, and a copy of a long one takes time.
        let edited = (!self.list.is_empty()).then(|| self.apply(text));
        edited.filter(|edited| edited != text)
    }

    /// Returns the text with all edits applied.
    pub(crate) fn apply(mut self, text: &str) -> String {
        // The sort is stable, so two insertions at the same offset keep their order.
        self.list.sort_by_key(|(range, _)| range.start);
        let mut out = String::with_capacity(
            text.len() + self.list.iter().map(|(_, new)| new.len()).sum::<usize>(),
        );
        let mut copied = 0;
        for (range, new) in &self.list {
            debug_assert!(copied <= range.start, "edits overlap: {range:?}");
            out.push_str(text.get(copied..range.start).unwrap_or_default());
            out.push_str(new);
            copied = range.end;
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{Edits, Raw};

    fn check(text: &str, remove: &[&str], set: &[(&str, &str)], expected: &str) {
        let mut edits = Edits::default();
        edits.object(Raw::root(text).unwrap(), remove, set);
        assert_eq!(edits.apply(text), expected);
    }

    #[test]
    fn edits_of_several_containers_are_applied_together() {
        let text = r#"{"a": 1, "b": [2], "c": 3}"#;
        let root = Raw::root(text).unwrap();
        let mut edits = Edits::default();
        edits.object(root, &["a"], &[("c", "4"), ("d", "5")]);
        edits.append(root.member("b").unwrap(), "6");
        assert_eq!(edits.apply(text), r#"{"b": [2,6], "c": 4,"d":5}"#);
    }

    #[test]
    fn removals_take_one_comma_along() {
        check(r#"{"a":1,"b":2,"c":3}"#, &["a"], &[], r#"{"b":2,"c":3}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["b"], &[], r#"{"a":1,"c":3}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["c"], &[], r#"{"a":1,"b":2}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["a", "b"], &[], r#"{"c":3}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["a", "c"], &[], r#"{"b":2}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["b", "c"], &[], r#"{"a":1}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["a", "b", "c"], &[], "{}");
        check(
            "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}",
            &["b"],
            &[],
            "{\n  \"a\": 1,\n  \"c\": 3\n}",
        );
        check(
            "{\n  \"a\": 1,\n  \"b\": 2\n}",
            &["a"],
            &[],
            "{\n  \"b\": 2\n}",
        );
        check(
            "{\n  \"a\": 1,\n  \"b\": 2\n}",
            &["b"],
            &[],
            "{\n  \"a\": 1\n}",
        );
        check("{ \"a\" : 1 }", &["a"], &[], "{  }");
        check(
            r#"{"a":1,"\u0061":2,"b":3,"a":4}"#,
            &["a"],
            &[],
            r#"{"b":3}"#,
        );
    }

    #[test]
    fn members_are_set_or_added() {
        check(r#"{"a":1}"#, &[], &[("a", "[2]")], r#"{"a":[2]}"#);
        check(r#"{"a":1,"a":2}"#, &[], &[("a", "3")], r#"{"a":3,"a":3}"#);
        check("{}", &[], &[("a", "1"), ("b", "2")], r#"{"a":1,"b":2}"#);
        check("{ }", &[], &[("a", "1")], r#"{"a":1 }"#);
        check(
            "{\n  \"a\": 1\n}",
            &[],
            &[("b", "2")],
            "{\n  \"a\": 1,\"b\":2\n}",
        );
        check(r#"{"a":1}"#, &["a"], &[("b", "2")], r#"{"b":2}"#);
        check(
            r#"{"a":1,"b":2}"#,
            &["b"],
            &[("c", "3")],
            r#"{"a":1,"c":3}"#,
        );
        check(
            r#"{"a":1,"b":2}"#,
            &["a"],
            &[("b", "3"), ("c\"", "4")],
            r#"{"b":3,"c\"":4}"#,
        );
    }

    #[test]
    fn elements_are_appended() {
        for (text, expected) in [
            ("[]", "[8,9]"),
            ("[ ]", "[8,9 ]"),
            ("[1]", "[1,8,9]"),
            ("[1, [2] ]", "[1, [2],8,9 ]"),
        ] {
            let mut edits = Edits::default();
            edits.append(Raw::root(text).unwrap(), "8,9");
            assert_eq!(edits.apply(text), expected);
        }
    }
}
