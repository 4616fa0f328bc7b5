//! Values as trees of tokens, and the layouts in which they are written.

use restitch_testing::Rng;

/// A value; scalars are kept as they are written.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Token(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// How a document is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    comma: &'static str,
    colon: &'static str,
    /// The line end and the width of one indentation, where the document has lines.
    lines: Option<(&'static str, usize)>,
    /// Lists of scalars are on one line.
    rows: bool,
    white: bool,
    /// A line end after the root.
    last: bool,
}

impl Layout {
    pub(crate) fn seeded(rng: &mut Rng) -> Self {
        let plain = Self {
            comma: ",",
            colon: ":",
            lines: None,
            rows: false,
            white: false,
            last: rng.below(8) == 0,
        };
        let rows = rng.below(2) == 0;
        match rng.below(7) {
            0 | 1 => plain,
            2 | 3 => Self {
                comma: ", ",
                colon: ": ",
                ..plain
            },
            4 => Self {
                comma: ", ",
                colon: ": ",
                lines: Some(("\n", 4)),
                rows,
                ..plain
            },
            5 => Self {
                comma: ", ",
                colon: ": ",
                lines: Some(("\n", 2)),
                rows,
                ..plain
            },
            _ => Self {
                comma: ", ",
                colon: ": ",
                lines: Some(("\r\n", 2)),
                rows,
                white: true,
                ..plain
            },
        }
    }

    pub(crate) fn write(&self, tree: &Tree) -> String {
        let mut out = String::new();
        self.value(tree, 0, &mut out);
        if self.last {
            out.push_str(self.lines.map_or("\n", |(end, _)| end));
        }
        out
    }

    fn line(&self, level: usize, out: &mut String) {
        if let Some((end, width)) = self.lines {
            out.push_str(end);
            out.extend(std::iter::repeat_n(' ', width * level));
        }
    }

    fn value(&self, tree: &Tree, level: usize, out: &mut String) {
        let flat = |tree: &Tree| matches!(tree, Tree::Token(_));
        match tree {
            Tree::Token(text) => out.push_str(text),
            Tree::List(items) if items.is_empty() => {
                out.push_str(if self.white { "[ ]" } else { "[]" });
            }
            Tree::List(items) if self.rows && items.iter().all(flat) => {
                let one_line = Self {
                    lines: None,
                    rows: false,
                    last: false,
                    ..*self
                };
                one_line.value(tree, 0, out);
            }
            Tree::List(items) => {
                for (n, item) in items.iter().enumerate() {
                    out.push_str(if n == 0 { "[" } else { self.between() });
                    self.line(level + 1, out);
                    self.value(item, level + 1, out);
                }
                self.line(level, out);
                out.push(']');
            }
            Tree::Map(members) if members.is_empty() => out.push_str("{}"),
            Tree::Map(members) => {
                for (n, (key, value)) in members.iter().enumerate() {
                    out.push_str(if n == 0 { "{" } else { self.between() });
                    self.line(level + 1, out);
                    out.push_str(key);
                    out.push_str(self.colon);
                    self.value(value, level + 1, out);
                }
                self.line(level, out);
                out.push('}');
            }
        }
    }

    fn between(&self) -> &'static str {
        if self.lines.is_some() {
            ","
        } else {
            self.comma
        }
    }
}

impl Tree {
    pub(crate) fn map<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Map(
            members
                .into_iter()
                .map(|(key, value)| (format!("\"{key}\""), value))
                .collect(),
        )
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "numbers and texts alike, as they are at hand"
    )]
    pub(crate) fn token(text: impl ToString) -> Self {
        Self::Token(text.to_string())
    }

    /// Returns roughly how long it is when it is written.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Token(text) => text.len(),
            Self::List(items) => items.iter().map(|item| item.length() + 2).sum::<usize>() + 2,
            Self::Map(members) => {
                members
                    .iter()
                    .map(|(key, value)| key.len() + value.length() + 4)
                    .sum::<usize>()
                    + 2
            }
        }
    }
}

/// Which characters of strings are escaped without need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Escapes {
    /// All but ASCII as `\u`.
    ascii: bool,
    slash: bool,
}

impl Escapes {
    pub(crate) fn seeded(rng: &mut Rng) -> Self {
        Self {
            ascii: rng.below(3) == 0,
            slash: rng.below(4) == 0,
        }
    }

    pub(crate) fn quote(self, text: &str) -> Tree {
        let mut out = String::from("\"");
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '/' if self.slash => out.push_str("\\/"),
                c if (c as u32) < 0x20 || self.ascii && !c.is_ascii() => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
        Tree::Token(out)
    }
}
