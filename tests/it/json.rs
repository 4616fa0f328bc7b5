//! The machine: JSONTestSuite, every split, and at every byte a slow twin that reads the prefix
//! again.

use std::cell::RefCell;
use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use restitch::SyntaxErrorKind;
use restitch::internal::json::Machine;
use serde_json::Value;

use crate::fuzz::against_serde::{agrees_with_serde, check as second_opinion};
use crate::fuzz::feed::{check as fuzz_body, check_closings, verdict};
use crate::reference::{Verdict, oracle, oracle_verdict};
use restitch_testing::rows::Rows;
use restitch_testing::{Rng, at_least, grammar_files, splits};

/// The documents of these tests that need no corpus: each has something that the others lack.
pub(crate) const INLINE: [&str; 12] = [
    r#"{"title": "Report", "sections": [{"id": 1, "content": "Some text.", "done": true}, {"id": 2, "content": null}]}"#,
    "[\n  1,\n  -0.5e+10,\n  [],\n  {},\n  [[\"a\"], {\"b\": [false]}]\n]",
    r#"{"a\"b": "q\\\"\/\b\f\n\r\t", "\u0041\ud83d\ude00": "\ud83d\ude00\u00e9", "~/": [0]}"#,
    "{\"é\": \"grün 漢字 😀\", \"ключ\": [\"שלום\", \"\u{7f}\"]}",
    "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]",
    r#"{"rows": [{"id": 7, "name": "same"}, {"id": 7, "name": "same"}, {"id": 7, "name": "same"}, {"id": 8, "name": "last"}]}"#,
    r#"{"a": 1, "a_": 2, "a__": {"a": 3, "ab": [1.5, 2E3, -7]}, "": "", " ": " "}"#,
    r#"[true, false, null, true, false, null, {"true": true, "null": null}]"#,
    "{ \"spaced\" :\t[ 1 ,\r\n 2 ] , \"end\" : { } }",
    r#"[[[[[[[[[["deep"]]]]]]]]]]"#,
    r#"{"code": "if (a[0] == \"}\") { return [1, 2, 3]; } // ```json\n{\"x\": 1}", "md": "```json\\n"}"#,
    "{}",
];

/// The cases that JSONTestSuite leaves to the implementation, what the machine does with each, and
/// why.
const EITHER: [(&str, bool, &str); 35] = [
    ("i_number_double_huge_neg_exp", true, NUMBER),
    ("i_number_huge_exp", true, NUMBER),
    ("i_number_neg_int_huge_exp", true, NUMBER),
    ("i_number_pos_double_huge_exp", true, NUMBER),
    ("i_number_real_neg_overflow", true, NUMBER),
    ("i_number_real_pos_overflow", true, NUMBER),
    ("i_number_real_underflow", true, NUMBER),
    ("i_number_too_big_neg_int", true, NUMBER),
    ("i_number_too_big_pos_int", true, NUMBER),
    ("i_number_very_big_negative_int", true, NUMBER),
    ("i_object_key_lone_2nd_surrogate", true, SURROGATE),
    ("i_string_1st_surrogate_but_2nd_missing", true, SURROGATE),
    ("i_string_1st_valid_surrogate_2nd_invalid", true, SURROGATE),
    ("i_string_UTF-16LE_with_BOM", false, UTF_16),
    ("i_string_UTF-8_invalid_sequence", false, UTF_8),
    ("i_string_UTF8_surrogate_U+D800", false, UTF_8),
    (
        "i_string_incomplete_surrogate_and_escape_valid",
        true,
        SURROGATE,
    ),
    ("i_string_incomplete_surrogate_pair", true, SURROGATE),
    (
        "i_string_incomplete_surrogates_escape_valid",
        true,
        SURROGATE,
    ),
    ("i_string_invalid_lonely_surrogate", true, SURROGATE),
    ("i_string_invalid_surrogate", true, SURROGATE),
    ("i_string_invalid_utf-8", false, UTF_8),
    ("i_string_inverted_surrogates_U+1D11E", true, SURROGATE),
    ("i_string_iso_latin_1", false, UTF_8),
    ("i_string_lone_second_surrogate", true, SURROGATE),
    ("i_string_lone_utf8_continuation_byte", false, UTF_8),
    ("i_string_not_in_unicode_range", false, UTF_8),
    ("i_string_overlong_sequence_2_bytes", false, UTF_8),
    ("i_string_overlong_sequence_6_bytes", false, UTF_8),
    ("i_string_overlong_sequence_6_bytes_null", false, UTF_8),
    ("i_string_truncated-utf-8", false, UTF_8),
    ("i_string_utf16BE_no_BOM", false, UTF_16),
    ("i_string_utf16LE_no_BOM", false, UTF_16),
    ("i_structure_500_nested_arrays", true, DEPTH),
    ("i_structure_UTF-8_BOM_empty_object", false, BOM),
];
const NUMBER: &str = "a number is text: its value is not computed, so no size is too big";
const SURROGATE: &str =
    "the grammar of a `\\u` escape is four digits; it does not ask whether two escapes make a pair";
const UTF_8: &str = "text is UTF-8 (RFC 8259, section 8.1), and these bytes are not";
const UTF_16: &str = "text is UTF-8 (RFC 8259, section 8.1), and no other encoding is guessed";
const DEPTH: &str = "500 open containers are below the limit of 1,024";
const BOM: &str =
    "the grammar has no byte order mark; a `Document` skips one at the start of its text";

/// How many files of `tests/corpus/grammar` are to be accepted, and how many rejected.
const OURS: (usize, usize) = (40, 60);

#[test]
fn json_test_suite() {
    let (mut accept, mut reject, mut either, mut fed) = (0, 0, 0, 0);
    for path in grammar_files() {
        let Some(name) = path
            .file_stem()
            .and_then(|name| name.to_str())
            .filter(|_| path.extension().is_some())
        else {
            continue;
        };
        let text = fs::read(&path).unwrap();
        let whole = verdict(&text, 1024, &[]);
        let valid = whole.0 == Verdict::Valid;
        match name.get(..2) {
            Some("y_") => {
                assert!(valid, "{name}: {whole:?}");
                accept += 1;
            }
            Some("n_") => {
                assert!(!valid, "{name}");
                reject += 1;
            }
            Some("i_") => {
                let (_, expect, why) = EITHER
                    .iter()
                    .find(|(known, ..)| *known == name)
                    .expect(name);
                assert_eq!(valid, *expect, "{name}: {why}");
                either += 1;
            }
            _ => continue,
        }
        assert_eq!(whole.0, oracle_verdict(&text, 1024), "{name}");
        // Byte by byte: a file of a hundred thousand brackets is one of some two hundred splits as
        // well.
        for cuts in splits(text.len()) {
            assert_eq!(
                verdict(&text, 1024, &cuts),
                whole,
                "{name}, {} cuts, first {:?}",
                cuts.len(),
                cuts.first()
            );
            fed += 1;
        }
    }
    assert_eq!(
        (accept, reject, either),
        (
            at_least(OURS.0, OURS.0 + 95),
            at_least(OURS.1, OURS.1 + 188),
            at_least(0, 35)
        )
    );
    println!("covered: {accept} y_, {reject} n_, {either} i_ files of test suites in {fed} splits");
}

#[test]
fn the_table_of_freedoms_is_documented() {
    let page = include_str!("../../docs/internals/json.md");
    for (_, valid, why) in EITHER {
        let count = EITHER.iter().filter(|(_, _, other)| *other == why).count();
        let verdict = if valid { "accepted" } else { "rejected" };
        let row = format!("| {verdict} | {why} | {count} |\n");
        assert!(page.contains(&row), "docs/internals/json.md lacks {row}");
    }
}

/// The offset and kind of the first byte that is not allowed.
#[test]
fn errors_are_named_and_placed() {
    use SyntaxErrorKind as Kind;
    let cases: [(&[u8], usize, Kind); 30] = [
        (b"[1,]", 3, Kind::UnexpectedByte(b']')),
        (b"[,", 1, Kind::UnexpectedByte(b',')),
        (b"[1 2", 3, Kind::UnexpectedByte(b'2')),
        (b"{\"a\" 1", 5, Kind::UnexpectedByte(b'1')),
        (b"{\"a\":}", 5, Kind::UnexpectedByte(b'}')),
        (b"{\"a\":1,}", 7, Kind::UnexpectedByte(b'}')),
        (b"{a", 1, Kind::UnexpectedByte(b'a')),
        (b"{1", 1, Kind::UnexpectedByte(b'1')),
        (b"\xef\xbb\xbf{}", 0, Kind::UnexpectedByte(0xef)),
        (b"[\"a\nb", 3, Kind::ControlCharacter(b'\n')),
        (b"[\"a\0", 3, Kind::ControlCharacter(0)),
        (b"[\"\\x", 3, Kind::InvalidEscape(b'x')),
        (b"[\"\\u12g", 6, Kind::InvalidEscape(b'g')),
        (b"[\"\\ud83d\\u\"", 10, Kind::InvalidEscape(b'"')),
        (b"[01", 2, Kind::InvalidNumber(b'1')),
        (b"[-a", 2, Kind::InvalidNumber(b'a')),
        (b"[1.]", 3, Kind::InvalidNumber(b']')),
        (b"[1e+]", 4, Kind::InvalidNumber(b']')),
        (b"[1x", 2, Kind::InvalidNumber(b'x')),
        (b"[+1", 1, Kind::UnexpectedByte(b'+')),
        (b"[nulL", 4, Kind::InvalidLiteral(b'L')),
        (b"[truee", 5, Kind::UnexpectedByte(b'e')),
        (b"[\"\xff", 2, Kind::InvalidUtf8(0xff)),
        (b"[\"abcdefghijk\xc0", 13, Kind::InvalidUtf8(0xc0)),
        (b"[\"\xed\xa0", 3, Kind::InvalidUtf8(0xa0)),
        (b"[\"\xe2\x82\"", 4, Kind::InvalidUtf8(b'"')),
        (b"[1}", 2, Kind::MismatchedCloser(b'}')),
        (b"{\"a\": []]", 8, Kind::MismatchedCloser(b']')),
        (b"[[[[[", 4, Kind::TooDeep(4)),
        (b"[[[[{", 4, Kind::TooDeep(4)),
    ];
    for (text, offset, kind) in cases {
        for cuts in splits(text.len()) {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(
                verdict(text, 4, &cuts),
                (Verdict::Wrong(offset), Some(kind)),
                "{shown}, cut at {cuts:?}"
            );
        }
        assert_eq!(oracle_verdict(text, 4), Verdict::Wrong(offset));
    }
}

/// Every first byte of a UTF-8 sequence with every second one, and the edges of the rest.
#[test]
fn utf_8_is_what_the_standard_library_says() {
    for first in 0x80..=0xff {
        for second in 0..=0xff {
            for rest in [&b"\"]"[..], b"\x80\"]", b"\xbf\xbf\"]", b"\x80\xc0\"]"] {
                let text = [b"[\"", &[first, second][..], rest].concat();
                let (seen, _) = verdict(&text, 4, &[]);
                assert_eq!(seen, oracle_verdict(&text, 4), "{text:02x?}");
                assert_eq!(
                    seen == Verdict::Valid,
                    serde_json::from_slice::<Value>(&text).is_ok(),
                    "{text:02x?}"
                );
            }
        }
    }
}

/// What the machine knows at every byte of a text is what the oracle finds by reading the prefix
/// again.
/// Compares the machine with a slow twin after the bytes of a text that `rows` chooses, and after
/// the last.
fn check_every_byte(text: &[u8], rows: &mut Rows) {
    let shown = String::from_utf8_lossy(text);
    let mut machine = Machine::new(1024);
    for end in 0..=text.len() {
        let fed = match end {
            0 => Ok(0),
            _ if machine.is_done() => Ok(0),
            _ => machine.feed(&text[end - 1..end]),
        };
        let runs = rows.runs_next() || end == text.len() || fed.is_err();
        if !runs {
            continue;
        }
        let expect = oracle(&text[..end], 1024);
        if end > 0 {
            if let Verdict::Wrong(offset) = expect.verdict {
                match fed {
                    Err(error) => assert_eq!(error.offset, offset, "{shown}"),
                    // The byte follows the root: it is not the machine's.
                    Ok(consumed) => assert_eq!((consumed, machine.is_done()), (0, true), "{shown}"),
                }
                return;
            }
            assert!(fed.is_ok(), "{fed:?} at byte {end} of {shown}");
        }
        let text = std::str::from_utf8(&text[..end]).unwrap_or_else(|error| {
            // A path has only whole keys, which precede an unfinished character.
            std::str::from_utf8(&text[..error.valid_up_to()]).unwrap()
        });
        let seen = (machine.cut_state().as_str(), machine.path(text).to_string());
        assert_eq!(
            seen,
            (expect.state, expect.path.clone()),
            "at byte {end} of {shown}"
        );
        check_closings(
            &machine,
            |strings, literals| expect.complete(strings, literals),
            end,
            &shown,
        );
    }
}

#[test]
fn cut_path_and_certainty_at_every_byte() {
    let mut rows = Rows::whole();
    for text in INLINE {
        check_every_byte(text.as_bytes(), &mut rows);
    }
    // Halves of surrogate pairs next to all kinds of bytes.
    for text in [
        r#"["\ud83d\ud83d\ude00", "\ud83dx", "\ud83d\n", "\ud83d\u0041", "\ude00\ud83d", "\uD83D\\"]"#,
        r#"{"\ud83d": 1, "\ud83d\ude00": {"\u0061": [2]}, "a\/b~": {"": 0}}"#,
        r#""a root \u00e9""#,
        "-12.5e-3",
        " true ",
        "[\"é漢😀\"]",
    ] {
        check_every_byte(text.as_bytes(), &mut rows);
    }
    let mut rows = Rows::of("bytes of documents");
    let documents = crate::document::documents(2048);
    for (name, text) in &documents {
        println!("{name}");
        check_every_byte(text.as_bytes(), &mut rows);
    }
    println!("covered: every byte of {} documents", documents.len());
}

fn json() -> impl Strategy<Value = String> {
    let text = "(\\PC|\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4}|\\\\ud83d\\\\ude00| ){0,8}"
        .prop_map(|text| {
            // Quotes and backslashes that the strategy adds alone are not escapes.
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some(c) = rest.chars().next() {
                let taken = match rest.as_bytes() {
                    [b'\\', b'u', a, b, c, d, ..]
                        if [a, b, c, d].iter().all(|byte| byte.is_ascii_hexdigit()) =>
                    {
                        6
                    }
                    [b'\\', byte, ..] if b"\"\\/bfnrt".contains(byte) => 2,
                    [b'\\' | b'"', ..] => 0,
                    _ => c.len_utf8(),
                };
                out.push_str(&rest[..taken]);
                rest = &rest[taken.max(c.len_utf8())..];
            }
            format!("\"{out}\"")
        })
        .boxed();
    let number = "-?(0|[1-9][0-9]{0,5})(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?";
    let leaf = prop_oneof![text.clone(), number, "true|false|null".boxed()];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let space = "[ \n\r\t]{0,2}";
        let member = (text.clone(), space, inner.clone())
            .prop_map(|(key, space, value)| format!("{key}{space}:{value}"));
        let joined = |items: Vec<String>, space: String| items.join(&format!("{space},"));
        prop_oneof![
            (prop::collection::vec(inner, 0..6), space).prop_map(move |(items, space)| {
                format!("[{space}{}]{space}", joined(items, space.clone()))
            }),
            (prop::collection::vec(member, 0..6), space).prop_map(move |(items, space)| {
                format!("{{{}{space}}}", joined(items, space.clone()))
            }),
        ]
    })
}

/// Generated documents are valid; with bytes changed, removed or inserted they are what the oracle
/// says. What is pushed as text is read as its bytes are, although its encoding is not checked:
/// pushes of any length, and texts that are wrong somewhere.
#[test]
fn text_is_read_as_its_bytes_are() {
    const CHARS: [char; 12] = [
        '"', '\\', 'é', '漢', '😀', '\u{7f}', '\u{80}', '\u{1}', '}', ']', ' ', '7',
    ];
    let mut rng = Rng::new(31);
    for round in 0..40 * INLINE.len() {
        let mut chars: Vec<char> = INLINE[round % INLINE.len()].chars().collect();
        for _ in 0..round / INLINE.len() {
            let at = rng.below(chars.len());
            chars[at] = CHARS[rng.below(CHARS.len())];
        }
        let text: String = chars.iter().collect();
        let ends: Vec<usize> = text
            .char_indices()
            .map(|(at, _)| at)
            .skip(1)
            .chain([text.len()])
            .collect();
        for size in [1, 2, 3, 4, 7, 8, 9, 64, ends.len()] {
            let [mut bytes, mut known] = [Machine::new(64), Machine::new(64)];
            for &end in ends
                .iter()
                .skip(size - 1)
                .step_by(size)
                .chain([&text.len()])
            {
                let read = bytes.feed(&text.as_bytes()[bytes.offset()..end]);
                assert_eq!(
                    known.feed_text(&text[..end], &mut ()),
                    read,
                    "{text:?} to {end}"
                );
                let state = |machine: &Machine| {
                    let (offset, cut, token) =
                        (machine.offset(), machine.cut_state(), machine.token_start());
                    (
                        offset,
                        cut,
                        token,
                        machine.frames().to_vec(),
                        machine.completion(&text[..offset]),
                    )
                };
                assert_eq!(state(&known), state(&bytes), "{text:?} to {end}");
                if read.is_err() || bytes.is_done() {
                    break;
                }
            }
        }
    }
}

#[test]
fn generated_documents_agree_with_the_twins() {
    let mutations =
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..3);
    let mut runner = TestRunner::new(Config {
        cases: 600,
        failure_persistence: None,
        ..Config::default()
    });
    let rows = RefCell::new(Rows::of("bytes of generated documents"));
    let result = runner.run(&(json(), mutations), |(text, mutations)| {
        assert_eq!(
            verdict(text.as_bytes(), 1024, &[]).0,
            Verdict::Valid,
            "{text}"
        );
        assert!(agrees_with_serde(text.as_bytes(), true), "{text}");
        let mut bytes = text.into_bytes();
        for (place, byte, kind) in mutations {
            let at = place
                .index(bytes.len().max(1))
                .min(bytes.len().saturating_sub(1));
            let syntax = b"{}[],:\"\\ 0eut-.\xc3\xed\xf0\n"[usize::from(byte) % 18];
            match kind {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 if !bytes.is_empty() => bytes[at] = syntax,
                2 if !bytes.is_empty() => drop(bytes.remove(at)),
                _ => bytes.insert(at, syntax),
            }
        }
        check_every_byte(&bytes, &mut rows.borrow_mut());
        fuzz_body(&bytes);
        second_opinion(&bytes);
        Ok(())
    });
    result.unwrap();
}

/// Pieces of texts that reach the grammar's corners more often than documents do.
pub(crate) const PIECES: [&str; 30] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u",
    "d83d",
    "\\ude00",
    "0",
    "1",
    "-",
    ".",
    "e",
    "+",
    "t",
    "rue",
    "nul",
    "l",
    "false",
    " ",
    "\n",
    "a",
    "\"a\":",
    "\u{e9}",
    "\u{1f600}",
    "\u{0}",
    "`",
];

#[test]
fn random_bytes_agree_with_the_twins() {
    let mut rng = Rng::new(7);
    let mut rows = Rows::of("random bytes");
    for _ in 0..6000 {
        let mut text = if rng.below(2) == 0 {
            String::from("[\"")
        } else {
            String::new()
        };
        for _ in 0..rng.below(14) {
            text.push_str(rng.pick(&PIECES));
        }
        let mut bytes = text.into_bytes();
        if rng.below(4) == 0 && !bytes.is_empty() {
            let at = rng.below(bytes.len());
            bytes[at] = rng.next() as u8;
        }
        if !rows.runs_next() {
            continue;
        }
        check_every_byte(&bytes, &mut Rows::whole());
        fuzz_body(&bytes);
        second_opinion(&bytes);
    }
}
