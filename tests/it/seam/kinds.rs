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
    Tree::map([
        ("title", source.string(&title)),
        ("sections", list),
        ("complete", Tree::token("true")),
    ])
}

fn record(source: &mut Source<'_>) -> Tree {
    let id = source.id();
    let name = source.rng.pick(&NAMES);
    let age = source.rng.below(90);
    Tree::map([
        ("id", Tree::token(1000 + id)),
        ("name", source.string(name)),
        (
            "email",
            source.string(&format!("{}{id}@example.org", name.to_lowercase())),
        ),
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
        let cells = vec![
            Tree::token(id),
            source.string(&region),
            source.number(),
            source.number(),
            source.literal(),
        ];
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
        let mut items: Vec<Tree> = (0..source.rng.below(keep + 2))
            .map(|_| source.scalar())
            .collect();
        items.insert(source.rng.below(items.len() + 1), tree);
        tree = if source.rng.below(2) == 0 {
            Tree::List(items)
        } else {
            Tree::Map(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(n, item)| (format!("\"k{level}_{n}\""), item))
                    .collect(),
            )
        };
    }
    if matches!(tree, Tree::List(_)) {
        tree
    } else {
        Tree::map([("tree", tree)])
    }
}

pub(crate) fn code(source: &mut Source<'_>, size: usize) -> Tree {
    let files = source.until(size, |source| {
        let id = source.id();
        let lines: Vec<String> = (0..=source.rng.below(4))
            .map(|_| {
                format!(
                    "{} // {}",
                    CODE[source.rng.below(CODE.len())],
                    source.words(2)
                )
            })
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

/// Orders with line items: objects in arrays in objects in an array.
pub(crate) fn orders(source: &mut Source<'_>, size: usize) -> Tree {
    let orders = source.until(size, |source| {
        let id = source.id();
        let count = 1 + source.rng.below(5);
        let items = (0..count).map(|n| {
            let (label, code) = (source.words(2), source.rng.below(9000));
            let (quantity, cents) = (1 + source.rng.below(12), source.rng.below(100));
            Tree::map([
                ("line", Tree::token(n + 1)),
                (
                    "sku",
                    source.string(&format!("{}-{code:04}", &label[..2].to_uppercase())),
                ),
                ("label", source.string(&label)),
                ("quantity", Tree::token(quantity)),
                (
                    "price",
                    Tree::map([
                        ("amount", Tree::token(format!("{code}.{cents:02}"))),
                        ("currency", source.string("EUR")),
                    ]),
                ),
            ])
        });
        let items = Tree::List(items.collect());
        let (name, street) = (source.rng.pick(&NAMES), source.words(2));
        let address = Tree::map([
            ("street", source.string(&format!("{street} {id}"))),
            (
                "postcode",
                source.string(&format!("{:05}", id * 7919 % 100_000)),
            ),
        ]);
        Tree::map([
            (
                "order_id",
                source.string(&format!("A-{:06}", 4200 + 3 * id)),
            ),
            (
                "customer",
                Tree::map([("name", source.string(name)), ("address", address)]),
            ),
            ("items", items),
            ("paid", source.literal()),
        ])
    });
    Tree::map([("orders", orders), ("page", Tree::token(1))])
}

/// Log events with timestamps that grow, and keys that only some events have.
pub(crate) fn events(source: &mut Source<'_>, size: usize) -> Tree {
    let mut seconds = source.rng.below(80_000);
    source.until(size, |source| {
        seconds += 1 + source.rng.below(300);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let (millis, level) = (
            source.rng.below(1000),
            source.rng.pick(&["info", "info", "warn", "error"]),
        );
        let message = source.words(5);
        let mut members = vec![
            (
                "ts",
                source.string(&format!(
                    "2024-03-11T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
                )),
            ),
            ("level", source.string(level)),
            ("msg", source.string(&message)),
        ];
        if source.rng.below(2) == 0 {
            members.push((
                "request",
                source.string(&format!("{:08x}", seconds * 2_654_435_761 % 0xffff_ffff)),
            ));
        }
        if source.rng.below(3) == 0 {
            members.push(("took_ms", source.number()));
        }
        Tree::Map(
            members
                .into_iter()
                .map(|(key, value)| (format!("\"{key}\""), value))
                .collect(),
        )
    })
}

/// Features with coordinates, in the form of GeoJSON.
pub(crate) fn features(source: &mut Source<'_>, size: usize) -> Tree {
    let features = source.until(size, |source| {
        let (east, north) = (source.rng.below(170_000), source.rng.below(80_000));
        let count = 1 + source.rng.below(8);
        let points = (0..count).map(|_| {
            let (east, north) = (east + source.rng.below(900), north + source.rng.below(900));
            Tree::List(
                [east, north]
                    .map(|n| Tree::token(format!("{}.{:03}", n / 1000, n % 1000)))
                    .to_vec(),
            )
        });
        let points: Vec<Tree> = points.collect();
        let (kind, coordinates) = match <[Tree; 1]>::try_from(points) {
            Ok([point]) => ("Point", point),
            Err(points) => ("LineString", Tree::List(points)),
        };
        let name = source.words(2);
        Tree::map([
            ("type", source.string("Feature")),
            (
                "geometry",
                Tree::map([("type", source.string(kind)), ("coordinates", coordinates)]),
            ),
            (
                "properties",
                Tree::map([("name", source.string(&name)), ("lanes", source.number())]),
            ),
        ])
    });
    Tree::map([
        ("type", source.string("FeatureCollection")),
        ("features", features),
    ])
}

/// An object whose keys are names, and whose values have the same shape.
pub(crate) fn named(source: &mut Source<'_>, size: usize) -> Tree {
    let (mut members, mut length) = (Vec::new(), 0);
    while length < size {
        let id = source.id();
        let (word, unit) = (
            source.rng.pick(&WORDS),
            source.rng.pick(&["ms", "bytes", "percent"]),
        );
        let description = source.words(6);
        let value = Tree::map([
            ("default", source.number()),
            ("unit", source.string(unit)),
            ("description", source.string(&description)),
        ]);
        length += value.length() + 20;
        members.push((format!("\"{word}_{id}\""), value));
    }
    Tree::map([
        ("version", Tree::token(3)),
        ("settings", Tree::Map(members)),
    ])
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
        let text = format!(
            "{before} {} {after}",
            LOOKALIKES[source.rng.below(LOOKALIKES.len())]
        );
        let id = source.id();
        Tree::map([("id", Tree::token(id)), ("says", source.string(&text))])
    });
    Tree::map([("log", list), ("note", source.escapes.quote("```json"))])
}

/// A list whose elements have nothing in common.
pub(crate) fn mixed(source: &mut Source<'_>, size: usize) -> Tree {
    let parts: [fn(&mut Source<'_>, usize) -> Tree; 6] =
        [sections, table, code, numbers, lookalikes, scripts];
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
    if source.rng.below(2) == 0 {
        matrix
    } else {
        Tree::map([("matrix", matrix)])
    }
}

pub(crate) fn equal_rows(source: &mut Source<'_>, size: usize) -> Tree {
    let (first, second) = (record(source), record(source));
    let every = 2 + source.rng.below(6);
    let rows = source.until(size, |source| {
        if source.id() % every == 0 {
            second.clone()
        } else {
            first.clone()
        }
    });
    Tree::map([("rows", rows)])
}

pub(crate) fn equal_strings(source: &mut Source<'_>, size: usize) -> Tree {
    let count = 1 + source.rng.below(5);
    let text = source.words(count);
    let text = source.string(&text);
    let list = source.until(size, |source| {
        if source.rng.below(3) == 0 {
            Tree::map([("label", text.clone())])
        } else {
            text.clone()
        }
    });
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
