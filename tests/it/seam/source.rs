//! The parts of documents: words, numbers, ids, sentences, and lists of roughly a given size.

use super::layout::{Escapes, Tree};
use restitch_testing::Rng;

/// The generator of parts.
pub(crate) struct Source<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) escapes: Escapes,
    /// The last id.
    pub(crate) count: usize,
}

pub(crate) const WORDS: [&str; 48] = [
    "the", "report", "of", "market", "growth", "was", "strong", "in", "each", "region", "and",
    "supply", "chains", "held", "while", "prices", "rose", "by", "a", "third", "over", "last",
    "quarter", "analysts", "expect", "more", "demand", "from", "new", "plants", "with", "lower",
    "costs", "per", "unit", "than", "before", "energy", "storage", "remains", "limited", "until",
    "grid", "upgrades", "finish", "early", "next", "year",
];
pub(crate) const NAMES: [&str; 16] = [
    "Ada", "Björn", "Chidi", "Dana", "Elif", "Farid", "Grace", "Hiro", "Inés", "João", "Kim",
    "Lena", "Mira", "Nils", "Olga", "Pedro",
];
pub(crate) const SCRIPTS: [&str; 12] = [
    "漢字かな交じり文の段落です。",
    "报告的下一部分",
    "한국어 문장입니다",
    "שלום עולם",
    "مرحبا بالعالم",
    "Привет, мир",
    "😀👩‍👩‍👧🏽",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "é vs e\u{301}",
    "“quoted” – dash…",
    "\u{feff}mark\u{200b}",
    "नमस्ते दुनिया",
];
pub(crate) const CODE: [&str; 10] = [
    "<div class=\"row\"><a href='/x?y=1&amp;z=2'>link</a></div>",
    "fn main() {\n    println!(\"{}\", x[0]);\n}",
    "if (a[i] === \"}\") { return [1, 2]; }",
    "SELECT \"id\", name FROM t WHERE x = '{}';",
    "C:\\Users\\new\\table.txt",
    "const re = /[\\]\\}\"]+/g;\n\tlet s = `\\u0041`;",
    "<script>var d = {\"a\": [1, {\"b\": \"</script>\"}]};</script>",
    "echo \"$HOME\" | sed 's/\\//\\\\/g'",
    "#include <stdio.h>\r\nint x[] = {0, 0, 0};",
    "{% for row in rows %}{{ row[\"id\"] }}, {% endfor %}",
];
pub(crate) const LOOKALIKES: [&str; 12] = [
    "```json\n{\"id\": 1, \"title\": \"x\"}\n```",
    "Here is the rest of the JSON:\n\n",
    "Sure! Here is the continuation: [1, 2, 3]",
    "<think>The user wants {\"a\": 1}, so I go on.</think>",
    "```\n",
    "{\"id\": 1, \"name\": \"copy\", \"list\": [0, 0, 0]}",
    "\"}]}",
    "PROGRESS: 45\n",
    "I'm sorry, but I can't continue with that.",
    "<overlap_context>\n[1, 2\n</overlap_context>",
    "~~~\nno fence\n~~~",
    "null, true, -1.5e3]",
];

impl Source<'_> {
    pub(crate) fn words(&mut self, count: usize) -> String {
        let mut text = String::new();
        for n in 0..count {
            if n > 0 {
                text.push_str(if self.rng.below(12) == 0 { ", " } else { " " });
            }
            text.push_str(self.rng.pick(&WORDS));
        }
        text
    }

    /// Returns at least one sentence, some with characters that must be escaped.
    pub(crate) fn prose(&mut self) -> String {
        let count = 3 + self.rng.below(40);
        let mut text = self.words(count);
        match self.rng.below(6) {
            0 => text.push_str(".\n\nThen: "),
            1 => text.push_str(" said \"no\""),
            2 => text.push_str(SCRIPTS[self.rng.below(SCRIPTS.len())]),
            _ => text.push('.'),
        }
        if self.rng.below(3) == 0 {
            text.push_str(&self.words(8));
        }
        text
    }

    pub(crate) fn string(&mut self, text: &str) -> Tree {
        self.escapes.quote(text)
    }

    pub(crate) fn id(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    pub(crate) fn number(&mut self) -> Tree {
        let whole = self.rng.below(100_000);
        let part = self.rng.below(1000);
        Tree::token(match self.rng.below(9) {
            0 => "0".to_owned(),
            1 => format!("-{whole}"),
            2 => format!("{whole}.{part}"),
            3 => format!("-0.{part:03}"),
            4 => format!("{}.5e-{}", part % 10, part % 30),
            5 => format!("{part}E+{}", part % 20),
            6 => format!("{whole}{part:03}{whole}"),
            _ => part.to_string(),
        })
    }

    pub(crate) fn literal(&mut self) -> Tree {
        Tree::token(self.rng.pick(&["true", "false", "null"]))
    }

    pub(crate) fn scalar(&mut self) -> Tree {
        match self.rng.below(4) {
            0 => self.number(),
            1 => self.literal(),
            _ => {
                let count = 1 + self.rng.below(6);
                let text = self.words(count);
                self.string(&text)
            }
        }
    }

    /// Returns as many elements as have roughly this size together.
    pub(crate) fn until(
        &mut self,
        size: usize,
        mut element: impl FnMut(&mut Self) -> Tree,
    ) -> Tree {
        let (mut items, mut length) = (Vec::new(), 0);
        while length < size {
            let item = element(self);
            length += item.length() + 2;
            items.push(item);
        }
        Tree::List(items)
    }
}
