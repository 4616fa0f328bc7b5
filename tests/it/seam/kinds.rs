//! The kinds of documents: each is a tree of roughly a given size.

use super::layout::Tree;
use super::source::{CODE, LOOKALIKES, NAMES, SCRIPTS, Source, WORDS};

pub(crate) fn sections(source: &mut Source<'_>, size: usize) -> Tree {
    let list = source.until(size, |source| {
        let id = source.id();
        let (title, content) = (source.words(4), source.prose());
        let kind = source.rng.pick(&["paragraph", "table", "list", "chart"]);
        let count = source.rng.below(4);
        let elements = (0..count).map(|n| {
            let text = source.prose();
            Tree::map([
                ("id", Tree::token(format!("\"{id}.{n}\""))),
                ("text", source.string(&text)),
                ("weight", source.number()),
            ])
        });
        let elements = Tree::List(elements.collect());
        Tree::map([
            ("id", Tree::token(id)),
            ("title", source.string(&title)),
            ("content_type", source.string(kind)),
            ("content", source.string(&content)),
            ("elements", elements),
        ])
    });
    let title = source.words(5);
    Tree::map([("title", source.string(&title)), ("sections", list), ("complete", Tree::token("true"))])
}

fn record(source: &mut Source<'_>) -> Tree {
    let id = source.id();
    let name = source.rng.pick(&NAMES);
    let age = source.rng.below(90);
    Tree::map([
        ("id", Tree::token(1000 + id)),
        ("name", source.string(name)),
        ("email", source.string(&format!("{}{id}@example.org", name.to_lowercase()))),
        ("age", Tree::token(age)),
        ("score", source.number()),
        ("active", source.literal()),
        ("manager", Tree::token("null")),
    ])
}

pub(crate) fn records(source: &mut Source<'_>, size: usize) -> Tree {
    let rows = source.until(size, record);
    Tree::map([("rows", rows), ("next", Tree::token("null"))])
}

pub(crate) fn list(source: &mut Source<'_>, size: usize) -> Tree {
    source.until(size, record)
}

pub(crate) fn table(source: &mut Source<'_>, size: usize) -> Tree {
    let rows = source.until(size, |source| {
        let id = source.id();
        let region = source.words(2);
        let cells = vec![Tree::token(id), source.string(&region), source.number(), source.number(), source.literal()];
        Tree::List(cells)
    });
    let header = ["n", "region", "q1", "q2", "final"].map(|name| source.string(name));
    Tree::map([("header", Tree::List(header.to_vec())), ("data", rows)])
}

pub(crate) fn nested(source: &mut Source<'_>, size: usize) -> Tree {
    let depth = 3 + source.rng.below(38);
    let mut tree = source.scalar();
    for level in 0..depth {
        let keep = size / depth / 30;
        let mut items: Vec<Tree> = (0..source.rng.below(keep + 2)).map(|_| source.scalar()).collect();
        items.insert(source.rng.below(items.len() + 1), tree);
        tree = if source.rng.below(2) == 0 {
            Tree::List(items)
        } else {
            Tree::Map(items.into_iter().enumerate().map(|(n, item)| (format!("\"k{level}_{n}\""), item)).collect())
        };
    }
    if matches!(tree, Tree::List(_)) { tree } else { Tree::map([("tree", tree)]) }
}

pub(crate) fn code(source: &mut Source<'_>, size: usize) -> Tree {
    let files = source.until(size, |source| {
        let id = source.id();
        let lines: Vec<String> = (0..=source.rng.below(4))
            .map(|_| format!("{} // {}", CODE[source.rng.below(CODE.len())], source.words(2)))
            .collect();
        let body = lines.join("\n");
        Tree::map([
            ("path", source.string(&format!("src/part_{id}.html"))),
            ("body", source.string(&body)),
            ("size", Tree::token(body.len())),
        ])
    });
    Tree::map([("files", files)])
}

pub(crate) fn escapes(source: &mut Source<'_>, size: usize) -> Tree {
    const PIECES: [&str; 14] = [
        "\\n",
        "\\\"",
        "\\\\",
        "\\/",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\t",
        "\\b\\f",
        "\\r\\n",
        "\\u0000",
        "\\uD834\\uDD1E",
        "é",
        "/",
        "😀",
    ];
    let list = source.until(size, |source| {
        let mut text = String::from("\"");
        for _ in 0..source.rng.below(20) {
            text.push_str(source.rng.pick(&PIECES));
            if source.rng.below(2) == 0 {
                text.push_str(source.rng.pick(&WORDS));
            }
        }
        text.push('"');
        let id = source.id();
        Tree::map([("n", Tree::token(id)), ("text", Tree::Token(text))])
    });
    Tree::map([("escaped \\\"key\\\" \\u00e9", list)])
}

pub(crate) fn scripts(source: &mut Source<'_>, size: usize) -> Tree {
    let list = source.until(size, |source| {
        let count = 1 + source.rng.below(8);
        let parts: Vec<&str> = (0..count).map(|_| source.rng.pick(&SCRIPTS)).collect();
        let text = format!("{} {}", parts.join(" "), source.id());
        source.string(&text)
    });
    Tree::map([("題名", source.escapes.quote("العنوان 😀")), ("段落", list)])
}

pub(crate) fn numbers(source: &mut Source<'_>, size: usize) -> Tree {
    let list = source.until(size, |source| match source.rng.below(6) {
        0 => Tree::List((0..source.rng.below(5)).map(|_| source.number()).collect()),
        1 => source.literal(),
        _ => source.number(),
    });
    Tree::map([("values", list), ("sum", Tree::token("-1.25e+10"))])
}

pub(crate) fn lookalikes(source: &mut Source<'_>, size: usize) -> Tree {
    let list = source.until(size, |source| {
        let (before, after) = (source.words(2), source.words(3));
        let text = format!("{before} {} {after}", LOOKALIKES[source.rng.below(LOOKALIKES.len())]);
        let id = source.id();
        Tree::map([("id", Tree::token(id)), ("says", source.string(&text))])
    });
    Tree::map([("log", list), ("note", source.escapes.quote("```json"))])
}

/// A list whose elements have nothing in common.
pub(crate) fn mixed(source: &mut Source<'_>, size: usize) -> Tree {
    let parts: [fn(&mut Source<'_>, usize) -> Tree; 6] = [sections, table, code, numbers, lookalikes, scripts];
    source.until(size, |source| {
        let part = parts[source.rng.below(parts.len())];
        let share = 1 + source.rng.below(size / 4 + 1);
        part(source, share)
    })
}

pub(crate) fn scalar(source: &mut Source<'_>, size: usize) -> Tree {
    if source.rng.below(3) == 0 {
        return Tree::token("-31415926535897932384.62643383e-19");
    }
    let mut text = source.prose();
    while text.len() < size.min(1000) {
        text += &source.prose();
    }
    source.string(&text)
}

pub(crate) fn zeros(source: &mut Source<'_>, size: usize) -> Tree {
    let zero = source.rng.pick(&["0", "0.0", "null", "false"]);
    let width = 2 + source.rng.below(20);
    let row = Tree::List(vec![Tree::token(zero); width]);
    let matrix = source.until(size, |_| row.clone());
    if source.rng.below(2) == 0 { matrix } else { Tree::map([("matrix", matrix)]) }
}

pub(crate) fn equal_rows(source: &mut Source<'_>, size: usize) -> Tree {
    let (first, second) = (record(source), record(source));
    let every = 2 + source.rng.below(6);
    let rows = source.until(size, |source| if source.id() % every == 0 { second.clone() } else { first.clone() });
    Tree::map([("rows", rows)])
}

pub(crate) fn equal_strings(source: &mut Source<'_>, size: usize) -> Tree {
    let count = 1 + source.rng.below(5);
    let text = source.words(count);
    let text = source.string(&text);
    let list =
        source.until(
            size,
            |source| {
                if source.rng.below(3) == 0 { Tree::map([("label", text.clone())]) } else { text.clone() }
            },
        );
    Tree::map([("labels", list)])
}

pub(crate) fn phrases(source: &mut Source<'_>, size: usize) -> Tree {
    let count = 2 + source.rng.below(10);
    let phrase = source.words(count) + ". ";
    let mut text = String::new();
    while text.len() < size {
        text.push_str(&phrase);
    }
    Tree::map([("text", source.string(&text)), ("end", Tree::token("1"))])
}
