//! Compares the joined text with the true document: the same value, or the beginning of it.

use super::reading::{End, Node};

impl Node {
    /// Returns whether the value is closed.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Object(_, end) | Self::Array(_, end) => *end == End::Closed,
            Self::String(_, closed) | Self::Number(_, closed) => *closed,
            Self::Literal(text) => matches!(text.as_str(), "true" | "false" | "null"),
        }
    }

    /// Returns whether both are the same JSON value. Members may have any order; a key that occurs
    /// twice makes another value. A number at the end of the text counts as complete.
    pub(crate) fn is(&self, truth: &Self) -> bool {
        match (self, truth) {
            (Self::Object(members, End::Closed), Self::Object(all, End::Closed)) => {
                members.len() == all.len() && members_match(members, all, Self::is)
            }
            (Self::Array(elements, End::Closed), Self::Array(all, End::Closed)) => {
                elements.len() == all.len()
                    && elements.iter().zip(all).all(|(one, other)| one.is(other))
            }
            (Self::String(text, true), Self::String(other, true)) => text == other,
            (Self::Number(text, _), Self::Number(other, _)) => {
                text == other || same_number(text, other)
            }
            (Self::Literal(text), Self::Literal(other)) => text == other,
            _ => false,
        }
    }

    /// Returns whether some text after this one makes it the same value as `truth`.
    pub(crate) fn may_become(&self, truth: &Self) -> bool {
        match (self, truth) {
            (Self::Object(members, end), Self::Object(all, _)) => {
                let due = match end {
                    End::Closed => members.len() == all.len(),
                    End::Value => true,
                    End::Comma => members.len() < all.len(),
                    End::Key(key, closed, _) => all.iter().any(|(name, _)| {
                        let fits = if *closed {
                            name == key
                        } else {
                            name.starts_with(key)
                        };
                        fits && members.iter().all(|(other, _)| other != name)
                    }),
                };
                due && members_match(members, all, Self::may_become)
            }
            (Self::Array(elements, end), Self::Array(all, _)) => {
                let due = match end {
                    End::Closed => elements.len() == all.len(),
                    End::Comma => elements.len() < all.len(),
                    _ => elements.len() <= all.len(),
                };
                due && elements
                    .iter()
                    .zip(all)
                    .all(|(one, other)| one.may_become(other))
            }
            (Self::String(text, false), Self::String(other, _)) => other.starts_with(text),
            (Self::Number(text, false), Self::Number(other, _)) => other.starts_with(text.as_str()),
            (Self::Literal(text), Self::Literal(other)) => other.starts_with(text.as_str()),
            _ => self.is(truth),
        }
    }
}

fn same_number(one: &str, other: &str) -> bool {
    matches!((serde_json::from_str::<f64>(one), serde_json::from_str::<f64>(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns whether each member is in `all` under its key, and no key occurs twice.
fn members_match(
    members: &[(Vec<u16>, Node)],
    all: &[(Vec<u16>, Node)],
    matches: fn(&Node, &Node) -> bool,
) -> bool {
    members.iter().enumerate().all(|(n, (key, value))| {
        let is_new = members[..n].iter().all(|(other, _)| other != key);
        // Mostly the members have the order of the truth.
        let same = all
            .get(n)
            .filter(|(name, _)| name == key)
            .or_else(|| all.iter().find(|(name, _)| name == key));
        is_new && same.is_some_and(|(_, other)| matches(value, other))
    })
}

#[test]
fn comparisons_by_hand() {
    use super::reading::{read, root_end};
    let truth = read(r#"{"a": [1, 20, "xy\ud83d\ude00"], "b": true}"#).unwrap();
    for (text, is, may) in [
        (r#"{"b":true,"a":[1,2e1,"x\u0079😀"]}"#, true, true),
        (r#"{"a": [1, 20, "xy\ud83d"#, false, true),
        (r#"{"a": [1, 20, "xy\u"#, false, true),
        (r#"{"a": [1, 2"#, false, true),
        (r#"{"a": [1, 2,"#, false, false),
        (r#"{"a": [1, 20, "x"]"#, false, false),
        (r#"{"a": [1, 20]"#, false, false),
        (r#"{"a": [1, 20, "xy😀", "#, false, false),
        (r#"{"b"#, false, true),
        (r#"{"b":"#, false, true),
        (r#"{"b": t"#, false, true),
        (r#"{"b": true, "b"#, false, false),
        (
            r#"{"b": true, "b": true, "a": [1, 20, "xy😀"]}"#,
            false,
            false,
        ),
        (r#"{"b": true}"#, false, false),
        (r#"{"c"#, false, false),
    ] {
        let node = read(text).unwrap();
        assert_eq!(
            (node.is(&truth), node.may_become(&truth)),
            (is, may),
            "{text}"
        );
    }
    for text in [
        "", "{1", "[1 2", "[,", "{\"a\" 1", "[\"\\x", "[01,", "[tru]", "[\"\n",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
    assert_eq!(root_end(" [1] []"), Some(4));
}
