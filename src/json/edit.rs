//! Changes of single members of a JSON text; every other byte stays as it is.
//!
//! Knows the spans of [`walk`](super::walk); expects valid text. What is inserted is written without white space.

use std::ops::Range;

use super::string::quoted;
use super::walk::Raw;

/// Edits of one text, collected and then applied at once.
///
/// ```
/// use restitch::json::{edit::Edits, walk::Raw};
///
/// let text = r#"{"a": 1, "b": [2], "c": 3}"#;
/// let root = Raw::root(text).unwrap();
/// let mut edits = Edits::default();
/// edits.object(root, &["a"], &[("c", "4"), ("d", "5")]);
/// edits.append(root.member("b").unwrap(), "6");
/// assert_eq!(edits.apply(text), r#"{"b": [2,6], "c": 4,"d":5}"#);
/// ```
#[derive(Debug, Default)]
pub struct Edits {
    /// Ranges of the text and what comes in their place. They never overlap; the order of insertion counts where two
    /// begin at the same place.
    list: Vec<(Range<usize>, String)>,
}

impl Edits {
    /// Takes the members named in `remove` out of `object`, each with the comma it no longer needs, and gives those in
    /// `set` their values (raw JSON): every duplicate gets it, and a key that is not there becomes the last member.
    ///
    /// One call for each object: commas depend on all members that stay. A key is in one of the lists at most.
    pub fn object(&mut self, object: Raw<'_>, remove: &[&str], set: &[(&str, &str)]) {
        let members: Vec<_> = object.members().collect();
        let mut missing: Vec<_> = set.iter().collect();
        let mut kept = false;
        for (at, (key, value)) in members.iter().enumerate() {
            let name = key.decode().unwrap_or_default();
            if remove.iter().any(|gone| name == *gone) {
                let gone = match (at.checked_sub(1).and_then(|before| members.get(before)), members.get(at + 1)) {
                    // Behind a member that stays, the comma before this one goes, and the space in front of it.
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
        let end = members.last().map_or(object.offset() + 1, |(_, value)| value.range().end);
        for (key, value) in missing {
            let comma = if kept { "," } else { "" };
            self.list.push((end..end, format!("{comma}{}:{value}", quoted(key))));
            kept = true;
        }
    }

    /// Adds `items` (raw JSON, separated by commas) behind the last element of `array`.
    pub fn append(&mut self, array: Raw<'_>, items: &str) {
        let (end, comma) = match array.elements().last() {
            Some(last) => (last.range().end, ","),
            None => (array.offset() + 1, ""),
        };
        self.list.push((end..end, format!("{comma}{items}")));
    }

    /// Puts `new` (raw JSON) in the place of `value`.
    pub fn replace(&mut self, value: Raw<'_>, new: &str) {
        self.list.push((value.range(), new.to_owned()));
    }

    /// The text with all edits.
    pub fn apply(mut self, text: &str) -> String {
        // Stable: what was inserted first at one place comes first.
        self.list.sort_by_key(|(range, _)| range.start);
        let mut out = String::with_capacity(text.len() + self.list.iter().map(|(_, new)| new.len()).sum::<usize>());
        let mut copied = 0;
        for (range, new) in &self.list {
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
    fn removals_take_one_comma_along() {
        check(r#"{"a":1,"b":2,"c":3}"#, &["a"], &[], r#"{"b":2,"c":3}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["b"], &[], r#"{"a":1,"c":3}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["c"], &[], r#"{"a":1,"b":2}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["a", "b"], &[], r#"{"c":3}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["a", "c"], &[], r#"{"b":2}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["b", "c"], &[], r#"{"a":1}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &["a", "b", "c"], &[], "{}");
        check("{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", &["b"], &[], "{\n  \"a\": 1,\n  \"c\": 3\n}");
        check("{\n  \"a\": 1,\n  \"b\": 2\n}", &["a"], &[], "{\n  \"b\": 2\n}");
        check("{\n  \"a\": 1,\n  \"b\": 2\n}", &["b"], &[], "{\n  \"a\": 1\n}");
        check("{ \"a\" : 1 }", &["a"], &[], "{  }");
        check(r#"{"a":1,"\u0061":2,"b":3,"a":4}"#, &["a"], &[], r#"{"b":3}"#);
    }

    #[test]
    fn members_are_set_or_added() {
        check(r#"{"a":1}"#, &[], &[("a", "[2]")], r#"{"a":[2]}"#);
        check(r#"{"a":1,"a":2}"#, &[], &[("a", "3")], r#"{"a":3,"a":3}"#);
        check("{}", &[], &[("a", "1"), ("b", "2")], r#"{"a":1,"b":2}"#);
        check("{ }", &[], &[("a", "1")], r#"{"a":1 }"#);
        check("{\n  \"a\": 1\n}", &[], &[("b", "2")], "{\n  \"a\": 1,\"b\":2\n}");
        check(r#"{"a":1}"#, &["a"], &[("b", "2")], r#"{"b":2}"#);
        check(r#"{"a":1,"b":2}"#, &["b"], &[("c", "3")], r#"{"a":1,"c":3}"#);
        check(r#"{"a":1,"b":2}"#, &["a"], &[("b", "3"), ("c\"", "4")], r#"{"b":3,"c\"":4}"#);
    }

    #[test]
    fn elements_are_appended() {
        for (text, expected) in [("[]", "[8,9]"), ("[ ]", "[8,9 ]"), ("[1]", "[1,8,9]"), ("[1, [2] ]", "[1, [2],8,9 ]")]
        {
            let mut edits = Edits::default();
            edits.append(Raw::root(text).unwrap(), "8,9");
            assert_eq!(edits.apply(text), expected);
        }
    }
}
