//! Documents to break: a generated family of what models are asked for, and those of the test data.

use std::ops::Range;

use super::source::Source;
use restitch_testing::{Rng, corpus_documents};

/// The seeds that rules may be tuned on.
pub(crate) const TUNING: Range<u64> = 0..1 << 20;

/// The seeds that are reported. Nothing is tuned on them.
pub(crate) const REPORT: Range<u64> = 1 << 32..(1 << 32) + (1 << 20);

/// The largest document of the test data that is broken, in bytes.
const MAX_BYTES: usize = 100 << 10;

/// Returns generated documents.
pub(crate) fn generated(seeds: Range<u64>, count: u64) -> Vec<(String, Source)> {
    let one = |seed: u64| {
        let (kind, text) = generate(seed);
        (
            format!("{kind} {seed}"),
            Source::new(&text).unwrap_or_else(|| panic!("not JSON: {text}")),
        )
    };
    (seeds.start..seeds.start + count).map(one).collect()
}

/// Returns the documents of the test data whose root is a container, the short ones first.
pub(crate) fn corpus() -> Vec<(String, Source)> {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/docs");
    from(|name| own.join(name).is_file())
}

/// Returns the recorded documents, which are there where `RESTITCH_CORPUS` is set.
pub(crate) fn recorded() -> Vec<(String, Source)> {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/docs");
    from(|name| !own.join(name).is_file())
}

fn from(takes: impl Fn(&str) -> bool) -> Vec<(String, Source)> {
    let all = corpus_documents("docs")
        .into_iter()
        .filter(|(name, text)| takes(name) && text.len() <= MAX_BYTES);
    let mut all: Vec<_> = all
        .filter_map(|(name, text)| Some((name, Source::new(&text)?)))
        .collect();
    all.retain(|(_, source)| source.tokens.len() > 2);
    all.sort_by_key(|(_, source)| source.text.len());
    all
}

/// Makes a document of one kind.
type Make = fn(&mut Rng) -> Node;

/// Returns a document, and what it is like.
fn generate(seed: u64) -> (&'static str, String) {
    let mut rng = Rng::new(seed);
    let kinds: [(&'static str, Make); 9] = [
        ("article", article),
        ("pages", pages),
        ("structure", structure),
        ("links", links),
        ("rows", rows),
        ("settings", settings),
        ("conversation", conversation),
        ("paths", paths),
        ("matrix", matrix),
    ];
    let (name, make) = kinds[(seed % kinds.len() as u64) as usize];
    let node = make(&mut rng);
    let style = [
        Style::Pretty(2),
        Style::Pretty(4),
        Style::Spaced,
        Style::Compact,
        Style::Pretty(2),
    ][rng.below(5)];
    let mut out = String::new();
    node.print(style, 0, &mut out);
    if rng.below(2) == 0 {
        out.push('\n');
    }
    (name, out)
}

/// A value. A scalar is kept as it is written.
enum Node {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Scalar(String),
}

#[derive(Clone, Copy)]
enum Style {
    Compact,
    /// On one line, with spaces after commas and colons.
    Spaced,
    Pretty(usize),
}

impl Node {
    fn print(&self, style: Style, depth: usize, out: &mut String) {
        let (brackets, len) = match self {
            Self::Scalar(text) => return out.push_str(text),
            Self::Object(members) => ("{}", members.len()),
            Self::Array(items) => ("[]", items.len()),
        };
        let line = |depth: usize, out: &mut String| {
            if let Style::Pretty(width) = style {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', width * depth));
            }
        };
        out.push_str(&brackets[..1]);
        for at in 0..len {
            if at > 0 {
                out.push_str(if matches!(style, Style::Spaced) {
                    ", "
                } else {
                    ","
                });
            }
            line(depth + 1, out);
            match self {
                Self::Object(members) => {
                    out.push_str(&string(&members[at].0));
                    out.push_str(if matches!(style, Style::Compact) {
                        ":"
                    } else {
                        ": "
                    });
                    members[at].1.print(style, depth + 1, out);
                }
                Self::Array(items) => items[at].print(style, depth + 1, out),
                Self::Scalar(_) => {}
            }
        }
        if len > 0 {
            line(depth, out);
        }
        out.push_str(&brackets[1..]);
    }
}

/// Returns a string as JSON.
fn string(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn text(text: impl AsRef<str>) -> Node {
    Node::Scalar(string(text.as_ref()))
}

fn raw(value: impl std::fmt::Display) -> Node {
    Node::Scalar(format!("{value}"))
}

fn object<const N: usize>(members: [(&str, Node); N]) -> Node {
    Node::Object(
        members
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    )
}

fn array(count: usize, mut item: impl FnMut(usize) -> Node) -> Node {
    Node::Array((0..count).map(&mut item).collect())
}

const WORDS: [&str; 32] = [
    "server",
    "the",
    "a",
    "user",
    "who's",
    "network",
    "reads",
    "backup",
    "well-known",
    "of",
    "and",
    "key_name",
    "runs",
    "old",
    "report",
    "in",
    "2024",
    "value",
    "is",
    "not",
    "état",
    "версия",
    "page",
    "with",
    "for",
    "data",
    "table",
    "so",
    "much",
    "change",
    "日本",
    "first",
];

fn words(rng: &mut Rng, count: usize) -> String {
    (0..count)
        .map(|_| WORDS[rng.below(WORDS.len())])
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns sentences, some with quoted speech.
fn prose(rng: &mut Rng, sentences: usize) -> String {
    let mut out = String::new();
    for at in 0..sentences {
        let count = 3 + rng.below(6);
        let (first, second) = (words(rng, count), words(rng, 3));
        let sentence = match rng.below(7) {
            0 => format!("{first} said \"{second}\" to {}.", words(rng, 2)),
            1 => format!("{first}, {second}: \"{}\".", words(rng, 2)),
            2 => format!(
                "The so-called \"{second}\" {first} (see {}).",
                rng.below(90)
            ),
            _ => format!("{first}, {second}."),
        };
        out.push_str(if at > 0 { " " } else { "" });
        out.push_str(&sentence);
    }
    out
}

fn html(rng: &mut Rng) -> String {
    let mut out = format!("<h2>{}</h2>\n", words(rng, 3));
    for _ in 0..=rng.below(3) {
        let part = match rng.below(5) {
            0 => format!("<p class=\"lead\">{}</p>\n", prose(rng, 2)),
            1 => format!(
                "<p>{} <a href=\"https://example.org/{}?a=1&b=2\">{}</a>, {}</p>",
                words(rng, 3),
                rng.below(99),
                words(rng, 2),
                words(rng, 2)
            ),
            2 => format!(
                "<pre><code class='language-bash'>cd {} && ls</code></pre>",
                rng.pick(&WORDS)
            ),
            3 => format!(
                "<ul>\n\t<li>{}</li>\n\t<li>{}</li>\n</ul>",
                words(rng, 2),
                words(rng, 2)
            ),
            _ => format!(
                "<img src=\"{}.png\" alt=\"{}\"/>",
                rng.below(9),
                words(rng, 2)
            ),
        };
        out.push_str(&part);
    }
    out
}

fn article(rng: &mut Rng) -> Node {
    object([
        ("title", text(words(rng, 4))),
        ("content", text(html(rng))),
        ("excerpt", text(prose(rng, 2))),
        ("slug", text("how-to-run-a-server")),
        ("tags", array(rng.below(4), |_| text(words(rng, 1)))),
        ("word_count", raw(rng.below(3000))),
        ("published", raw(rng.pick(&["true", "false", "null"]))),
    ])
}

fn pages(rng: &mut Rng) -> Node {
    let count = 2 + rng.below(4);
    array(count, |at| {
        object([
            ("url", text(format!("/page-{at}"))),
            ("html", text(html(rng))),
            ("title", text(prose(rng, 1))),
        ])
    })
}

fn structure(rng: &mut Rng) -> Node {
    let count = 1 + rng.below(4);
    let sections = array(count, |at| {
        object([
            ("section_title", text(words(rng, 3))),
            ("section_order", raw(at + 1)),
            ("section_description", text(prose(rng, 1))),
            ("subsections", array(rng.below(4), |_| text(words(rng, 2)))),
            ("evidence_pack", text(prose(rng, 1))),
        ])
    });
    let guidelines = object([
        ("target_audience", text(words(rng, 2))),
        ("tone_and_style", text(prose(rng, 1))),
        ("key_messaging", text(words(rng, 3))),
    ]);
    object([
        ("article_structure", sections),
        ("writing_guidelines", guidelines),
    ])
}

fn links(rng: &mut Rng) -> Node {
    let count = 2 + rng.below(5);
    let plan = array(count, |at| {
        object([
            ("anchor_text", text(words(rng, 2))),
            ("query", text(words(rng, 3))),
            ("context_before", text(prose(rng, 1))),
            ("context_after", text(words(rng, 2))),
            ("ref_id", text(at.to_string())),
        ])
    });
    if rng.below(3) == 0 {
        plan
    } else {
        object([("link_plan", plan), ("total", raw(count))])
    }
}

fn rows(rng: &mut Rng) -> Node {
    let count = 2 + rng.below(12);
    let row = |rng: &mut Rng, at: usize| {
        object([
            ("id", raw(100 + at)),
            ("name", text(words(rng, 1))),
            ("price", raw(format!("{}.{}", rng.below(90), rng.below(10)))),
            ("in stock", raw(rng.pick(&["true", "false"]))),
            (
                "note",
                if rng.below(3) == 0 {
                    raw("null")
                } else {
                    text(words(rng, 2))
                },
            ),
        ])
    };
    let all = array(count, |at| row(rng, at));
    if rng.below(2) == 0 {
        all
    } else {
        object([("rows", all), ("next", raw("null"))])
    }
}

fn settings(rng: &mut Rng) -> Node {
    let inner = object([
        ("retries", raw(rng.below(9))),
        ("backoff", Node::Array(vec![raw(1), raw("2.5"), raw("1e3")])),
        (
            "tls",
            object([
                ("verify", raw("true")),
                ("ca", raw("null")),
                ("hosts", array(2, |_| text(words(rng, 1)))),
            ]),
        ),
    ]);
    object([
        ("version", raw(3)),
        ("log-level", text("debug")),
        ("client", inner),
        ("empty", Node::Object(Vec::new())),
        (
            "routes",
            array(2, |at| {
                object([
                    ("path", text(format!("/v{at}/*"))),
                    ("methods", array(2, |_| text("GET"))),
                ])
            }),
        ),
        ("comment", text(prose(rng, 1))),
    ])
}

fn conversation(rng: &mut Rng) -> Node {
    let count = 2 + rng.below(3);
    array(count, |at| {
        let calls = array(rng.below(2), |_| {
            object([("name", text("search")), ("score", raw("-0.5"))])
        });
        object([
            ("role", text(["user", "assistant"][at % 2])),
            ("content", text(prose(rng, 3).replace(". ", ".\n\n"))),
            ("tool_calls", calls),
        ])
    })
}

fn paths(rng: &mut Rng) -> Node {
    let pattern = |rng: &mut Rng| {
        rng.pick(&[r"\d+\.\d*", r"^\w+\s$", r#"a\"b"#, r"[\d.]+"])
            .to_owned()
    };
    let count = 1 + rng.below(4);
    array(count, |at| {
        object([
            (
                "path",
                text(format!("C:\\dir\\apps\\{}.log", rng.pick(&WORDS))),
            ),
            ("pattern", text(pattern(rng))),
            (
                "code",
                text(format!(
                    "if x == \"{}\":\n\tprint('{}', \"ok\")\n",
                    words(rng, 1),
                    words(rng, 1)
                )),
            ),
            ("formula", text(r"\alpha + \sum_{i=0}^n x_i")),
            ("line", raw(at)),
        ])
    })
}

fn matrix(rng: &mut Rng) -> Node {
    let (rows, columns) = (1 + rng.below(5), 1 + rng.below(5));
    let cells = array(rows, |_| array(columns, |_| raw(rng.below(100))));
    let names = array(columns, |at| text(format!("column {at}")));
    object([
        ("columns", names),
        ("cells", cells),
        ("range", Node::Array(vec![raw("-1"), raw("1.5e-3")])),
    ])
}

#[test]
fn the_documents_are_many_and_valid() {
    let all = generated(TUNING, 64);
    assert!(all.iter().any(|(_, source)| source.text.contains("\\\"")));
    assert!(all.iter().all(|(_, source)| source.tokens.len() > 2));
    println!(
        "covered: {} generated documents, {} of the test data",
        all.len(),
        corpus().len()
    );
}
