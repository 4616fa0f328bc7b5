//! Strings whose writer did not escape: all their backslashes are text, and no other string is
//! changed.

use std::fmt::Write as _;

use restitch::repair::{
    RepairLevel, RepairOptions, RepairRule, RepairStatus, Repairer, repair_root,
};
use restitch::{Document, Limits};
use serde_json::{Value, json};

use super::raw_strings::{Raw, formula, markdown, path, regex};
use crate::fuzz::repair::{check_text, fed};
use restitch_testing::{Rng, chunks, random_cuts};

/// The number of strings of each type.
const STRINGS: u64 = 240;

const LEVELS: [RepairLevel; 2] = [RepairLevel::Syntax, RepairLevel::Guess];

type Kind = (&'static str, fn(&mut Rng) -> Raw);
const KINDS: [Kind; 4] = [
    ("regex", regex),
    ("path", path),
    ("formula", formula),
    ("markdown", markdown),
];

fn strings() -> impl Iterator<Item = (&'static str, Raw)> {
    let of = |(name, make): Kind| (0..STRINGS).map(move |seed| (name, make(&mut Rng::new(seed))));
    KINDS.into_iter().flat_map(of)
}

/// Returns the value of a repaired text, or `None` if the text is not restored.
fn read(text: &str, level: RepairLevel) -> Option<Value> {
    let answer = repair_root(text, &RepairOptions::new(level));
    let is_whole = matches!(answer.status, RepairStatus::Repaired | RepairStatus::Valid);
    serde_json::from_str(&answer.json)
        .ok()
        .filter(|_| is_whole && answer.end == text.len())
}

/// A string without mistakes. In a raw string its backslashes would be doubled.
const ESCAPED: &str = r#"\b\f\n\r\tnew\nold \u00e9\/ \"so\""#;

/// Returns documents with a string: alone, as a key, and among strings without mistakes.
fn documents(raw: &Raw) -> [(String, Value); 4] {
    let (written, value) = (&raw.written, &raw.value);
    let escaped: Value = serde_json::from_str(&format!("\"{ESCAPED}\"")).unwrap();
    let mut keyed = json!({"n": 1});
    keyed[value] = json!(escaped);
    [
        (format!("\"{written}\""), json!(value)),
        (
            format!("[\"{ESCAPED}\", \"{written}\", \"{ESCAPED}\"]"),
            json!([escaped, value, escaped]),
        ),
        (
            format!(
                "{{\"a\": \"{ESCAPED}\", \"b\": \"{written}\", \"c\": [1, \"{written}\", \"\\bfalse\"]}}"
            ),
            json!({"a": escaped, "b": value, "c": [1, value, "\u{8}false"]}),
        ),
        (format!("{{\"{written}\": \"{ESCAPED}\", \"n\": 1}}"), keyed),
    ]
}

#[test]
fn a_string_is_escaped_or_it_is_not() {
    let mut report = String::new();
    let mut all = 0;
    for level in LEVELS {
        for (kind, make) in KINDS {
            let mut wrong = Vec::new();
            for raw in (0..STRINGS).map(|seed| make(&mut Rng::new(seed))) {
                for (text, value) in documents(&raw) {
                    if read(&text, level).as_ref() != Some(&value) {
                        wrong.push(text);
                    }
                }
            }
            writeln!(
                report,
                "{level}, {kind}: {} of {} wrong",
                wrong.len(),
                4 * STRINGS
            )
            .unwrap();
            for text in wrong.iter().take(6) {
                writeln!(
                    report,
                    "  {text}\n  {:?}",
                    repair_root(text, &RepairOptions::new(level)).json
                )
                .unwrap();
            }
            all += wrong.len();
        }
    }
    println!("{report}");
    assert!(all == 0, "{report}");
}

#[test]
fn escaped_strings_are_not_changed() {
    for (kind, raw) in strings() {
        for level in RepairLevel::ALL {
            let text = json!({"a": raw.value, "b": [raw.value]}).to_string();
            let answer = repair_root(&text, &RepairOptions::new(level));
            assert_eq!(
                (answer.status, &answer.json),
                (RepairStatus::Valid, &text),
                "{kind}"
            );
            // A mistake in one string is not evidence about another.
            if level > RepairLevel::Strict {
                let value = json!(raw.value);
                let text = |first: &str| format!("[\"{first}\", {value}, {{{value}: {value}}}]");
                let (_, root, repairs) = fed(
                    text("\\d").split_inclusive(|_| true),
                    &RepairOptions::new(level),
                );
                assert_eq!((root, repairs.len()), (text("\\\\d"), 1), "{kind}");
            }
        }
    }
}

/// Pieces of strings that decide about a backslash or end the string.
const PIECES: [&str; 42] = [
    "\\",
    "\\\\",
    "\\\"",
    "\\n",
    "\\t",
    "\\r",
    "\\b",
    "\\f",
    "\\/",
    "\\u",
    "\\u00e9",
    "\\uface",
    "\\ud83d",
    "\\ude00",
    "\\u1",
    "\\x",
    "\\d",
    "\\_",
    "\\'",
    "\\server",
    "\\theta",
    "\\nleft",
    "rightarrow",
    "\\nu",
    "a",
    "name",
    "N",
    "2",
    "é",
    "他",
    " ",
    "- ",
    "*",
    ".",
    "\n",
    "\"",
    "'",
    ", ",
    ": ",
    "\", \"",
    "[",
    "}",
];

#[test]
fn backslashes_are_repaired_alike_in_all_chunkings() {
    for seed in 0..4000 {
        let rng = &mut Rng::new(seed);
        let quote = rng.pick(&["\"", "\"", "'"]);
        let inner: String = (0..rng.below(24)).map(|_| rng.pick(&PIECES)).collect();
        let text = format!("[{quote}{inner}{quote}, {{\"a\": {quote}{inner}{quote}}}]");
        let mut limits = Limits::default();
        limits.parser.max_lookahead = [1, 7, 30, 4096][rng.below(4)];
        for level in LEVELS {
            let options = RepairOptions::new(level).within(&limits);
            check_text(&text, &options);
            let whole = fed([&*text], &options);
            assert_eq!(
                fed(text.split_inclusive(|_| true), &options),
                whole,
                "{level}: {text}"
            );
            let mut cuts = random_cuts(text.len(), rng);
            cuts.retain(|&cut| text.is_char_boundary(cut));
            let pieces = chunks(text.as_bytes(), &cuts)
                .into_iter()
                .map(|piece| std::str::from_utf8(piece).unwrap());
            assert_eq!(fed(pieces, &options), whole, "{level}: {text}");
        }
    }
}

/// Strings, mostly raw, and their repairs.
const MEANT: [(&str, &str); 29] = [
    (r"^\d+\.\d{2}\b", r"^\\d+\\.\\d{2}\\b"),
    (r"$\lambda = \frac{v}{f}$", r"$\\lambda = \\frac{v}{f}$"),
    (r"C:\docs\new", r"C:\\docs\\new"),
    (r"Step 1:\nLet \alpha = 1.", r"Step 1:\nLet \\alpha = 1."),
    // No letter without an escape: nothing proves a raw string.
    (r"a\nnew \frac", r"a\nnew \frac"),
    (r"\_ \* \-", "_ * -"),
    (r"it\'s C:\x", r"it's C:\\x"),
    (r"\_ \* \d", r"\\_ \\* \\d"),
    // Before anything but a lower-case letter, `\n` and `\t` are escapes.
    (r"\x\n(a)\tB", r"\\x\n(a)\tB"),
    // Only a line feed follows a carriage return.
    (r"\lVert x \rVert\r\n", r"\\lVert x \\rVert\r\n"),
    // The writer escapes: a quote, a backslash, the beginning of a line.
    (r#"\"so\" \nnew \x"#, r#"\"so\" \nnew \\x"#),
    (r"C:\\docs\nnew \x", r"C:\\docs\nnew \\x"),
    (r"\n- one\nnew \x", r"\n- one\nnew \\x"),
    (r"\n2\nnew \x", r"\n2\nnew \\x"),
    (r"\n\nnew \x", r"\n\nnew \\x"),
    (r"\nЯ\nnew \x", r"\nЯ\nnew \\x"),
    (r"\n他\nnew \x", r"\n他\nnew \\x"),
    // A quantifier does not begin a list.
    (r"\n*\s\tab", r"\n*\\s\\tab"),
    // No line begins with a LaTeX command.
    (
        r"So:\nLet \theta, \nu \neq \nabla \times \alpha",
        r"So:\nLet \\theta, \\nu \\neq \\nabla \\times \\alpha",
    ),
    (
        r"So:\nLet \alpha\nwhere\ne.g. x",
        r"So:\nLet \\alpha\nwhere\ne.g. x",
    ),
    // Two backslashes end the row of a formula.
    (
        r"\begin{cases} \nu \\ \theta \\\hline \end{cases}",
        r"\\begin{cases} \\nu \\\\ \\theta \\\\\\hline \\end{cases}",
    ),
    (r"\\alpha \\ \x", r"\\alpha \\ \\x"),
    (r"\\server\docs\new", r"\\\\server\\docs\\new"),
    (r"C:\docs\new\\", r"C:\\docs\\new\\"),
    // A word after `\u`, and codes.
    (r"C:\users\new", r"C:\\users\\new"),
    (r"C:\uface\docs", r"C:\\uface\\docs"),
    (r"caf\u00e9 is \x \u00e9", r"caf\u00e9 is \\x \u00e9"),
    (r"[\u00C0-\u017F\x]", r"[\\u00C0-\\u017F\\x]"),
    (r"C:\u2\docs", r"C:\\u2\\docs"),
];

#[test]
fn a_raw_string_decides_the_meaning_of_each_backslash() {
    for (written, json) in MEANT {
        for level in LEVELS {
            let options = RepairOptions::new(level);
            let text = format!("[\"{written}\"]");
            let answer = repair_root(&text, &options);
            assert_eq!(answer.json, format!("[\"{json}\"]"), "{level}");
            assert_eq!(
                fed(text.split_inclusive(|_| true), &options).1,
                answer.json,
                "{level}"
            );
        }
        // Single quotes make no difference.
        if !written.contains(['\'', '"']) {
            let answer = repair_root(
                &format!("['{written}']"),
                &RepairOptions::new(RepairLevel::Syntax),
            );
            assert_eq!(answer.json, format!("[\"{json}\"]"), "single quotes");
        }
    }
}

/// Texts in which a raw string ends with a backslash, and their repairs.
const LAST: [(&str, &str); 7] = [
    (
        r#"{"dir": "C:\docs\new\", "n": 1}"#,
        r#"{"dir": "C:\\docs\\new\\", "n": 1}"#,
    ),
    (
        r#"{"dir": "C:\docs\new\"}"#,
        r#"{"dir": "C:\\docs\\new\\"}"#,
    ),
    (
        r#"["C:\docs\", "D:\src\"]"#,
        r#"["C:\\docs\\", "D:\\src\\"]"#,
    ),
    (
        r#"[{"a": "\docs\" }, {"a": 1}]"#,
        r#"[{"a": "\\docs\\" }, {"a": 1}]"#,
    ),
    // These texts are also whole with an escaped quote.
    (
        r#"["\docs \"x\", \"y\"", 1]"#,
        r#"["\\docs \"x\", \"y\"", 1]"#,
    ),
    (r#"["\docs\", ", 1]"#, r#"["\\docs\", ", 1]"#),
    (r#"["\docs\"]", "]"]"#, r#"["\\docs\"]", "]"]"#),
];

#[test]
fn a_raw_string_may_end_with_a_backslash() {
    for (text, json) in LAST {
        let options = RepairOptions::new(RepairLevel::Syntax);
        assert_eq!(repair_root(text, &options).json, json);
        assert_eq!(fed(text.split_inclusive(|_| true), &options).1, json);
        assert_eq!(repair_root(text, &RepairOptions::default()).json, json);
    }
}

/// Returns the text that a document on the level `syntax` shows, and the text that it holds.
fn shown(text: &str) -> (String, String) {
    let mut document = Document::new(16).repairing(RepairOptions::new(RepairLevel::Syntax));
    for delta in text.split_inclusive(|_| true) {
        document.push(delta).unwrap();
    }
    (document.text().to_owned(), document.pending().to_owned())
}

#[test]
fn a_stream_holds_text_from_the_first_undecided_escape_on() {
    for (text, pending) in [
        (r#"["a \"b\" \\c d"#, ""),
        (r#"["One\nTwo\nthree, "#, ""),
        (r#"["one\ntwo, "#, r"\ntwo, "),
        (r#"["one\ntwo, \"three\" "#, ""),
        (r#"["one \bfalse"#, r"\bfalse"),
        (r#"["\d \bfalse "#, ""),
        (r#"["\d \new "#, r"\new "),
        (r#"["1\/2"#, r"\/2"),
        (r#"["caf\u00e9 "#, ""),
        (r#"["\ud83d\ude00 "#, ""),
        (r#"["a\tB "#, ""),
        (r#"["\_no"#, r"\_no"),
    ] {
        let (out, held) = shown(text);
        assert_eq!(held, pending, "{text}: {out}");
    }
}

#[test]
fn a_stream_decides_after_the_look_ahead_and_a_whole_text_at_the_end_of_the_string() {
    let limits = {
        let mut limits = Limits::default();
        limits.parser.max_lookahead = 64;
        limits
    };
    let options = RepairOptions::new(RepairLevel::Syntax).within(&limits);
    for between in 40..80 {
        let text = format!("[\"\\bar {} \\x\"]", "a".repeat(between));
        let is_near = text.rfind('\\').unwrap() - text.find('\\').unwrap() < 64;
        let all = text.replace('\\', "\\\\");
        let expected = if is_near {
            all.clone()
        } else {
            text.replace("\\x", "\\\\x")
        };
        let whole = fed([&*text], &options);
        assert_eq!((&whole.0, &whole.1), (&Ok(()), &expected), "{between}");
        for size in [1, 3, 7, 63, 64, 65] {
            let pieces = text
                .as_bytes()
                .chunks(size)
                .map(|piece| std::str::from_utf8(piece).unwrap());
            assert_eq!(fed(pieces, &options), whole, "{between}, {size}");
        }
        assert_eq!(repair_root(&text, &options).json, all, "{between}");
        let (mut repairer, mut root) = (Repairer::new(options.clone()), String::new());
        repairer.feed(&text[..text.len() - 4], &mut root).unwrap();
        assert!(root.len() + 64 + 8 > text.len(), "{between}: {root}");
    }
}

#[test]
fn a_whole_text_sees_a_string_that_is_longer_than_a_block() {
    let text = format!("[\"\\bar {} \\x\", {{}},]", "word ".repeat(40_000));
    let answer = repair_root(&text, &RepairOptions::new(RepairLevel::Syntax));
    assert_eq!(answer.json, text.replace('\\', "\\\\").replace(",]", "]"));
}

#[test]
fn a_rule_that_is_off_changes_no_escape() {
    let options = RepairOptions::default().without(RepairRule::InvalidEscape);
    let text = r#"["C:\new\docs"]"#;
    assert!(
        matches!(repair_root(text, &options).status, RepairStatus::Malformed(error) if error.offset == 9)
    );
}
