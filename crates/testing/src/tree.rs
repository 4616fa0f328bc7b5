//! Values as trees that keep the order of members and the text of numbers: made at random, written
//! in any style, read by a slow parser, and compared by a canonical text.

use restitch::internal::json::walk::{Raw, ValueKind};

use crate::Rng;

#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// A number or literal as written.
    Scalar(String),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// Few keys, so that equal ones are common, and keys that differ in little.
const TEXTS: [&str; 16] = [
    "",
    "a",
    "b",
    "1",
    "0",
    "*",
    "~",
    "~1",
    "a/b",
    "\u{e9}",
    "😀",
    "\n\"\\",
    "\\u0061",
    "null",
    "12345678",
    "123456789 and more",
];
const SCALARS: [&str; 9] = [
    "0",
    "1",
    "-1",
    "1.0",
    "1e3",
    "12345678901234567890",
    "true",
    "false",
    "null",
];

impl Tree {
    /// Returns a random container, at most `depth` deep.
    pub fn random(rng: &mut Rng, depth: usize) -> Self {
        let size = rng.below(5);
        let child = |rng: &mut Rng| match rng.below(6) {
            0 | 1 => Self::Scalar(rng.pick(&SCALARS).to_owned()),
            2 | 3 => Self::Text(rng.pick(&TEXTS).to_owned()),
            _ if depth > 1 => Self::random(rng, depth - 1),
            4 => Self::List(Vec::new()),
            _ => Self::Map(Vec::new()),
        };
        if rng.below(2) == 0 {
            return Self::List((0..size).map(|_| child(rng)).collect());
        }
        let mut members: Vec<(String, Self)> = Vec::new();
        for _ in 0..size {
            let key = rng.pick(&TEXTS);
            // Duplicate keys are legal, and rare.
            if rng.below(20) == 0 || members.iter().all(|(other, _)| other != key) {
                members.push((key.to_owned(), child(rng)));
            }
        }
        Self::Map(members)
    }

    /// Returns the tree of a text.
    pub fn of(raw: Raw<'_>) -> Self {
        match raw.kind() {
            ValueKind::Object => {
                let member = |(key, value): (Raw<'_>, Raw<'_>)| {
                    (key.decode().unwrap().into_owned(), Self::of(value))
                };
                Self::Map(raw.members().map(member).collect())
            }
            ValueKind::Array => Self::List(raw.elements().map(Self::of).collect()),
            ValueKind::String => Self::Text(raw.decode().unwrap().into_owned()),
            _ => Self::Scalar(raw.as_str().to_owned()),
        }
    }

    /// Returns the same value with the members of all objects sorted by their keys.
    pub fn canonical(&self) -> Self {
        match self {
            Self::List(items) => Self::List(items.iter().map(Self::canonical).collect()),
            Self::Map(members) => {
                let members = members.iter();
                let mut members: Vec<_> = members
                    .map(|(key, value)| (key.clone(), value.canonical()))
                    .collect();
                members.sort_by(|(a, _), (b, _)| a.cmp(b));
                Self::Map(members)
            }
            other => other.clone(),
        }
    }

    /// Writes the tree with random white space and escapes.
    pub fn write(&self, rng: &mut Rng) -> String {
        let mut out = String::new();
        self.write_into(rng, &mut out);
        out
    }

    fn write_into(&self, rng: &mut Rng, out: &mut String) {
        match self {
            Self::Scalar(text) => out.push_str(text),
            Self::Text(text) => quote(text, rng, out),
            Self::List(items) => {
                let items = items.iter().map(|item| (None, item));
                write_container(['[', ']'], items, rng, out);
            }
            Self::Map(members) => {
                let members = members.iter();
                let members = members.map(|(key, value)| (Some(key.as_str()), value));
                write_container(['{', '}'], members, rng, out);
            }
        }
    }

    /// Shuffles the members of all objects; the values of a repeated key keep their order.
    pub fn shuffled(&self, rng: &mut Rng) -> Self {
        match self {
            Self::List(items) => Self::List(items.iter().map(|item| item.shuffled(rng)).collect()),
            Self::Map(members) => {
                let mut keys: Vec<&String> = Vec::new();
                for (key, _) in members {
                    if !keys.contains(&key) {
                        keys.insert(rng.below(keys.len() + 1), key);
                    }
                }
                let values = |key| members.iter().filter(move |(other, _)| other == key);
                let members: Vec<_> = keys.into_iter().flat_map(values).collect();
                Self::Map(
                    members
                        .into_iter()
                        .map(|(key, value)| (key.clone(), value.shuffled(rng)))
                        .collect(),
                )
            }
            other => other.clone(),
        }
    }

    /// Returns a value that differs in one place.
    pub fn changed(&self, rng: &mut Rng) -> Self {
        let mut tree = self.clone();
        match &mut tree {
            Self::List(items) if !items.is_empty() && rng.below(4) > 0 => {
                let at = rng.below(items.len());
                items[at] = items[at].changed(rng);
            }
            Self::Map(members) if !members.is_empty() && rng.below(4) > 0 => {
                let at = rng.below(members.len());
                match rng.below(4) {
                    0 => members[at].0.push('x'),
                    _ => members[at].1 = members[at].1.changed(rng),
                }
            }
            Self::List(items) => match rng.below(2) {
                0 => items.push(Self::Scalar("null".to_owned())),
                _ => tree = Self::List(vec![tree]),
            },
            Self::Map(members) => members.push(("new".to_owned(), Self::List(Vec::new()))),
            Self::Scalar(text) => tree = Self::Text(text.clone()),
            Self::Text(text) => text.push('0'),
        }
        tree
    }
}

/// Writes children, those of an object with their keys.
fn write_container<'a>(
    [open, close]: [char; 2],
    children: impl Iterator<Item = (Option<&'a str>, &'a Tree)>,
    rng: &mut Rng,
    out: &mut String,
) {
    out.push(open);
    for (n, (key, child)) in children.enumerate() {
        out.push_str(if n == 0 { "" } else { "," });
        out.push_str(space(rng));
        if let Some(key) = key {
            quote(key, rng, out);
            out.push_str(space(rng));
            out.push(':');
            out.push_str(space(rng));
        }
        child.write_into(rng, out);
        out.push_str(space(rng));
    }
    out.push_str(space(rng));
    out.push(close);
}

fn space(rng: &mut Rng) -> &'static str {
    ["", "", "", " ", "\n\t", "\r\n"][rng.below(6)]
}

fn quote(text: &str, rng: &mut Rng, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match (rng.below(5), c) {
            (0, _) | (_, '\0'..='\t' | '\x0b'..='\x1f') => {
                c.encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| out.push_str(&format!("\\u{unit:04X}")));
            }
            (_, '\n') => out.push_str("\\n"),
            (_, '"' | '\\') => out.extend(['\\', c]),
            (1, '/') => out.push_str("\\/"),
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_tree_is_read_again() {
        let mut rng = Rng::new(1);
        for _ in 0..500 {
            let tree = Tree::random(&mut rng, 4);
            let (text, other) = (
                tree.write(&mut rng),
                tree.shuffled(&mut rng).write(&mut rng),
            );
            assert_eq!(
                Tree::of(Raw::root(&text).unwrap()).canonical(),
                tree.canonical()
            );
            assert_eq!(
                Tree::of(Raw::root(&other).unwrap()).canonical(),
                tree.canonical()
            );
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
        }
    }
}
