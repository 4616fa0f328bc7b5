//! The document: its complete part and its completion, at every byte.

use restitch::AllowedRoots;
use restitch::json::CutState;
use restitch::{Document, SyntaxErrorKind, Trailing, clean_encoding};
use serde_json::Value;

use crate::json::{INLINE, PIECES};
use crate::reference::{Verdict, oracle_verdict};
use restitch_testing::rows::Rows;
use restitch_testing::{Rng, corpus_documents, random_cuts};

/// Returns the documents of the corpus of at most `up_to` bytes, as (name, text), the text without
/// white space around it.
pub(crate) fn documents(up_to: u64) -> Vec<(String, String)> {
    let documents = ["docs", "bench"].into_iter().flat_map(corpus_documents);
    let small = documents.filter(|(_, text)| text.len() as u64 <= up_to);
    let mut found: Vec<_> = small
        .map(|(name, text)| (name, text.trim().to_owned()))
        .collect();
    found.sort();
    found
}

/// Returns the inline documents and those of the corpus, with the number of the latter.
pub(crate) fn all_documents(up_to: u64) -> (Vec<(String, String)>, usize) {
    let recorded = documents(up_to);
    let count = recorded.len();
    let inline = INLINE
        .iter()
        .enumerate()
        .map(|(n, text)| (format!("inline {n}"), (*text).to_owned()));
    (inline.chain(recorded).collect(), count)
}

/// Returns every place between two characters of a short text, some hundred of a long one.
pub(crate) fn cuts(text: &str, every_byte_up_to: usize, seeded: usize) -> Vec<usize> {
    let mut rng = Rng::new(text.len() as u64);
    let mut cuts: Vec<usize> = if text.len() <= every_byte_up_to {
        (1..text.len()).collect()
    } else {
        (0..seeded).map(|_| 1 + rng.below(text.len() - 1)).collect()
    };
    cuts.retain(|&cut| text.is_char_boundary(cut));
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// serde_json takes at most 127 open containers, and documents of the corpus have more: for those
/// the oracle decides.
pub(crate) fn parses(text: &str) -> bool {
    match serde_json::from_str::<Value>(text) {
        Ok(_) => true,
        Err(error) => {
            error.to_string().contains("recursion limit")
                && oracle_verdict(text.as_bytes(), 1024) == Verdict::Valid
        }
    }
}

fn at(text: &str) -> Document {
    let mut document = Document::new(1024);
    document.push(text).unwrap();
    document
}

/// Closes everything that is open in `text` in the simplest way: skips strings and counts brackets.
fn closers(text: &str) -> String {
    let mut open = Vec::new();
    let mut bytes = text.bytes();
    let mut in_string = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => drop(bytes.next()),
            b'{' if !in_string => open.push('}'),
            b'[' if !in_string => open.push(']'),
            b'}' | b']' if !in_string => drop(open.pop()),
            _ => {}
        }
    }
    let quote = if in_string { "\"" } else { "" };
    quote.chars().chain(open.into_iter().rev()).collect()
}

/// Checks that `part` is the text up to some place not after the cut, and what closes it.
fn check_complete(document: &Document, delivered: &str) {
    let part = document.complete().unwrap();
    assert!(parses(&part), "{part}");
    let kept = (0..=part.len()).rev().find(|&kept| {
        part.is_char_boundary(kept)
            && delivered.starts_with(&part[..kept])
            && part[kept..] == closers(&part[..kept])
    });
    let kept = kept.unwrap_or_else(|| panic!("{part} is no prefix of {delivered} and closers"));
    // What was left out is a token, a key without its value, a comma or white space: never a whole
    // value.
    let mut dropped = at(delivered);
    dropped.push(&document.completion().suffix).unwrap();
    let whole = serde_json::from_str::<Value>(dropped.root().unwrap());
    // Documents that are too deep for serde_json are not compared further.
    if let (Ok(whole), Ok(part)) = (whole, serde_json::from_str::<Value>(&part)) {
        assert!(holds(&whole, &part, true), "{kept} of {delivered}");
    }
}

/// Checks that `whole` is `part` with at most one thing more at the end of each open container.
fn holds(whole: &Value, part: &Value, last: bool) -> bool {
    match (whole, part) {
        (Value::Array(whole), Value::Array(part)) => {
            let more = whole.len() - part.len();
            more <= usize::from(last)
                && part
                    .iter()
                    .zip(whole)
                    .enumerate()
                    .all(|(n, (p, w))| holds(w, p, last && n + 1 == part.len()))
        }
        (Value::Object(whole), Value::Object(part)) => {
            // The map is sorted by its keys: any member may be the last one.
            whole.len() - part.len() <= usize::from(last)
                && part
                    .iter()
                    .all(|(key, p)| whole.get(key).is_some_and(|w| holds(w, p, last)))
        }
        (Value::String(whole), Value::String(part)) => {
            whole == part || (last && whole.starts_with(part.as_str()))
        }
        _ => whole == part,
    }
}

fn check_completion(document: &Document, delivered: &str) {
    let completion = document.completion();
    let whole = format!("{delivered}{}", completion.suffix);
    assert!(parses(&whole), "{whole}");
    assert!(
        completion.synthesized.len() <= 1,
        "only one token is ever open"
    );
    // A document that is too deep for serde_json has no value to look into.
    for (path, value) in completion
        .synthesized
        .iter()
        .zip(serde_json::from_str::<Value>(&whole))
    {
        assert!(
            value.pointer(path).is_some(),
            "there is no {path:?} in {whole}"
        );
    }
    // What is made up is listed: without an entry the suffix has only closing brackets.
    if completion.synthesized.is_empty() {
        assert_eq!(completion.suffix, closers(delivered), "{delivered}");
    }
}

#[test]
fn complete_at_every_cut() {
    let (documents, recorded) = all_documents(u64::MAX);
    let mut rows = Rows::of("complete parts");
    let mut total = 0;
    for (name, text) in &documents {
        println!("{name}");
        let seeded = if text.len() > 300_000 { 24 } else { 200 };
        let mut document = Document::new(1024);
        let mut from = 0;
        for cut in cuts(text, 8 << 10, seeded) {
            document.push(&text[from..cut]).unwrap();
            from = cut;
            if !rows.runs_next() {
                continue;
            }
            let part = document.complete().unwrap();
            assert!(parses(&part), "{name} at {cut}: {part}");
            // After the common prefix of the two there are only closing characters: a quote and at
            // most one bracket for each container.
            let kept = part
                .bytes()
                .zip(text[..cut].bytes())
                .take_while(|(a, b)| a == b)
                .count();
            let added = &part.as_bytes()[kept..];
            assert!(
                added.iter().all(|byte| b"\"]}".contains(byte)),
                "{name} at {cut}: {}",
                String::from_utf8_lossy(added)
            );
            total += 1;
        }
        document.push(&text[from..]).unwrap();
        assert_eq!(document.complete().as_deref(), Some(text.as_str()));
        assert_eq!(
            (
                document.is_complete(),
                document.completion().suffix.as_str()
            ),
            (true, "")
        );
    }
    println!(
        "covered: {total} cuts of {} documents, {recorded} of them recorded",
        documents.len()
    );
}

#[test]
fn what_is_kept_and_what_is_filled() {
    let (documents, recorded) = all_documents(3 << 10);
    let mut rows = Rows::of("completions");
    let mut total = 0;
    for (name, text) in &documents {
        println!("{name}");
        let mut document = Document::new(1024);
        for (start, c) in text.char_indices() {
            document.push(c.encode_utf8(&mut [0; 4])).unwrap();
            if !rows.runs_next() {
                continue;
            }
            let delivered = &text[..start + c.len_utf8()];
            check_completion(&document, delivered);
            check_complete(&document, delivered);
            total += 1;
        }
    }
    println!(
        "covered: {total} cuts of {} documents, {recorded} of them recorded",
        documents.len()
    );
}

/// The complete part, the suffix, and what is synthesized, by hand.
#[test]
fn closing_by_hand() {
    let cases: [(&str, &str, &str, &[&str]); 36] = [
        ("{", "{}", "}", &[]),
        ("[1", "[]", "]", &[]),
        ("[1,", "[1]", "null]", &["/1"]),
        ("[1 , ", "[1]", "null]", &["/1"]),
        ("[-", "[]", "0]", &["/0"]),
        ("[1.", "[]", "0]", &["/0"]),
        ("[1e", "[]", "0]", &["/0"]),
        ("[1e-", "[]", "0]", &["/0"]),
        ("[tr", "[]", "ue]", &["/0"]),
        ("[[], n", "[[]]", "ull]", &["/1"]),
        ("{\"a", "{}", "\":null}", &["/a"]),
        ("{\"a\"", "{}", ":null}", &["/a"]),
        ("{\"a\":", "{}", "null}", &["/a"]),
        ("{\"a\":1,", "{\"a\":1}", "\"\":null}", &["/"]),
        ("{\"\":1,", "{\"\":1}", "\"_\":null}", &["/_"]),
        // A key that exists already would overwrite a value: it becomes another key.
        ("{\"a\":1,\"a", "{\"a\":1}", "_\":null}", &["/a_"]),
        (
            "{\"a\":1,\"a_\":2,\"a",
            "{\"a\":1,\"a_\":2}",
            "__\":null}",
            &["/a__"],
        ),
        ("{\"a\":1,\"b", "{\"a\":1}", "\":null}", &["/b"]),
        ("{\"a\":1,\"\\u0061", "{\"a\":1}", "_\":null}", &["/a_"]),
        (
            "{\"\\u0061\":1,\"a",
            "{\"\\u0061\":1}",
            "_\":null}",
            &["/a_"],
        ),
        (
            "{\"x\":{\"a\":1},\"a",
            "{\"x\":{\"a\":1}}",
            "\":null}",
            &["/a"],
        ),
        ("[{\"a\":1},{\"a", "[{\"a\":1},{}]", "\":null}]", &["/1/a"]),
        ("{\"a\\", "{}", "\\\":null}", &["/a\\"]),
        ("{\"~/", "{}", "\":null}", &["/~0~1"]),
        ("[\"a", "[\"a\"]", "\"]", &[]),
        ("[\"a\\", "[\"a\"]", "\\\"]", &["/0"]),
        ("[\"a\\u", "[\"a\"]", "fffd\"]", &["/0"]),
        ("[\"a\\u0", "[\"a\"]", "020\"]", &["/0"]),
        ("[\"a\\u000", "[\"a\"]", "9\"]", &["/0"]),
        ("[\"a\\u00e", "[\"a\"]", "0\"]", &["/0"]),
        ("[\"a\\ud8", "[\"a\"]", "00\\udc00\"]", &["/0"]),
        ("[\"a\\ud83d", "[\"a\"]", "\\udc00\"]", &["/0"]),
        ("[\"a\\ud83d\\", "[\"a\"]", "udc00\"]", &["/0"]),
        ("[\"a\\ud83d\\ude", "[\"a\"]", "00\"]", &["/0"]),
        ("[\"a\\ud83d\\ude00", "[\"a\\ud83d\\ude00\"]", "\"]", &[]),
        (
            "```json\n[1, {\"a\": [\"b\"",
            "[1, {\"a\": [\"b\"]}]",
            "]}]",
            &[],
        ),
    ];
    for (text, complete, suffix, synthesized) in cases {
        let document = at(text);
        assert_eq!(document.complete().as_deref(), Some(complete), "{text}");
        let completion = document.completion();
        assert_eq!(
            (completion.suffix.as_str(), completion.synthesized),
            (suffix, synthesized.iter().map(|s| s.to_string()).collect()),
            "{text}"
        );
        let root = document.root().unwrap();
        let value: Value = serde_json::from_str(&format!("{root}{suffix}")).unwrap();
        for path in synthesized {
            assert!(value.pointer(path).is_some(), "{text}");
        }
    }
}

/// An unfinished key that equals a delivered key once it is closed, in every way of writing it:
/// nothing that was delivered is lost.
#[test]
fn no_delivered_value_is_overwritten() {
    let keys = [
        "a",
        "a_",
        "\\u0061",
        "é",
        "\\u00e9",
        "\\ud83d\\ude00",
        "😀",
        "a\\\"",
        "\\\\",
        "",
        "_",
    ];
    let mut rng = Rng::new(3);
    for _ in 0..300 {
        let members: Vec<String> = (0..=rng.below(5))
            .map(|n| format!("\"{}\": [{n}]", rng.pick(&keys)))
            .collect();
        let text = format!("{{{}, \"{}", members.join(", "), rng.pick(&keys));
        let document = at(&text);
        let part: Value = serde_json::from_str(&document.complete().unwrap()).unwrap();
        let whole = format!("{text}{}", document.completion().suffix);
        let Value::Object(whole) = serde_json::from_str(&whole).unwrap() else {
            panic!("{whole}")
        };
        for (key, value) in part.as_object().unwrap() {
            assert_eq!(
                whole.get(key),
                Some(value),
                "{key:?} of {text} as {}",
                document.completion().suffix
            );
        }
    }
}

#[test]
fn nothing_is_complete_before_the_root() {
    for text in ["", " \n", "Sure, here it is:\n", "```json\n", "``"] {
        let document = at(text);
        assert_eq!(
            (document.complete(), document.root(), document.root_start()),
            (None, None, None),
            "{text:?}"
        );
        assert_eq!(document.cut().state, CutState::Start);
    }
    let document = at("Here:\n```json\n{\"a\": 1}\n```\nDone.");
    assert_eq!(
        (document.complete().as_deref(), document.root_start()),
        (Some("{\"a\": 1}"), Some(14))
    );
}

#[test]
fn a_deviation_ends_the_text_and_other_text_may_follow() {
    let mut document = at("```json\n[\"é");
    let error = document.push("x\", 1}").unwrap_err();
    assert_eq!(
        (error.offset, error.kind),
        (17, SyntaxErrorKind::MismatchedCloser(b'}'))
    );
    assert_eq!(document.text(), "```json\n[\"éx\", 1");
    document.push("2]").unwrap();
    assert_eq!(document.root(), Some("[\"éx\", 12]"));
}

/// A document that is set back and pushed again is like one that was never set back.
#[test]
fn restoring_is_as_if_nothing_had_happened() {
    let mut rng = Rng::new(11);
    let state = |document: &Document| {
        (
            document.text().to_owned(),
            document.cut(),
            document.complete(),
            document.completion(),
            document.is_json(),
        )
    };
    let wrapped = INLINE
        .iter()
        .map(|text| format!("Here it is:\n```json\n{text}\n```\n"));
    let texts: Vec<String> = INLINE
        .iter()
        .map(|text| (*text).to_owned())
        .chain(wrapped)
        .collect();
    for _ in 0..400 {
        let text = &texts[rng.below(texts.len())];
        let mut plain = Document::new(1024);
        let mut moved = Document::new(1024);
        let mut from = 0;
        for cut in random_cuts(text.len(), &mut rng)
            .into_iter()
            .chain([text.len()])
        {
            if !text.is_char_boundary(cut) {
                continue;
            }
            let checkpoint = moved.checkpoint();
            for _ in 0..rng.below(3) {
                // The right text, other text, or text that breaks the grammar: all of it is
                // forgotten.
                let other = *[&text[from..cut], "\"x\": [1, ", "}]\n```\n{"]
                    .get(rng.below(3))
                    .unwrap();
                let _ = moved.push(other);
                assert!(moved.restore(&checkpoint));
                assert_eq!(state(&moved), state(&plain));
            }
            plain.push(&text[from..cut]).unwrap();
            moved.push(&text[from..cut]).unwrap();
            from = cut;
            assert_eq!(state(&moved), state(&plain));
        }
    }
}

#[test]
fn a_checkpoint_of_what_was_forgotten_is_refused() {
    let mut document = at("[1");
    let early = document.checkpoint();
    document.push(", \"é").unwrap();
    let late = document.checkpoint();
    assert!(document.restore(&early));
    assert!(!document.restore(&late), "its text is gone");
    assert_eq!(document.text(), "[1");
    // Other text of that length does not make the checkpoint valid again, and older checkpoints
    // stay valid.
    document.push(", {\"b\": 2}").unwrap();
    let later = document.checkpoint();
    assert!(!document.restore(&late), "other text stands there");
    document.push("]").unwrap();
    assert!(document.restore(&later));
    assert_eq!(
        (document.text(), document.complete().as_deref()),
        ("[1, {\"b\": 2}", Some("[1, {\"b\": 2}]"))
    );
    assert!(document.restore(&early));
    assert!(!document.restore(&later));
    assert!(
        document.restore(&early),
        "a place is good as often as one comes back"
    );
}

#[test]
fn what_is_not_utf_8_is_removed_and_counted() {
    let cases: [(&[u8], &str, usize); 5] = [
        (b"abc", "abc", 0),
        (b"a\xffb", "ab", 1),
        (b"\xe2\x82", "", 2),
        (b"\xf0\x9f\x98\x80\x80", "😀", 1),
        (b"", "", 0),
    ];
    for (bytes, text, removed) in cases {
        let (cleaned, count) = clean_encoding(bytes);
        assert_eq!((cleaned.as_ref(), count), (text, removed));
    }
}

/// The events are compared by the fuzz target `splits`.
#[test]
fn roots_that_are_done_are_forgotten_and_places_stay() {
    let rows: String = (0..200)
        .map(|n| format!("{{\"id\": {n}, \"s\": \"a\\n{n}\"}}\n12 [{n}]\"x\" true\n"))
        .collect();
    let text = format!("```\n{rows}{{\"open\": [1");
    let fresh = || Document::with_options(16, AllowedRoots::Any, Trailing::Next);
    let mut whole = fresh();
    whole.push(&text).unwrap();
    let (mut document, mut most) = (fresh(), 0);
    for piece in text.as_bytes().chunks(100) {
        let mut rest = str::from_utf8(piece).unwrap();
        while !rest.is_empty() {
            let taken = document.push_root_with(rest, &mut ()).unwrap();
            rest = &rest[taken..];
            most = most.max(document.text().len());
            document.forget_roots();
        }
    }
    assert!(most < 1200, "{most}");
    assert_eq!(document.roots(), whole.roots());
    assert_eq!(document.path().to_string(), "/open/0");
    assert_eq!(document.complete().unwrap(), "{\"open\": []}");
    // The offset of an error counts from the beginning of all text.
    let [error, expected] = [&mut document, &mut whole].map(|document| {
        let error = document.push("x").unwrap_err();
        document.explain(&error)
    });
    assert_eq!(error, expected);
}

#[test]
fn checkpoints_of_forgotten_text_are_refused() {
    let mut document = Document::with_options(16, AllowedRoots::Any, Trailing::Next);
    let start = document.checkpoint();
    document.push("[1").unwrap();
    let open = document.checkpoint();
    // Nothing has ended: nothing is forgotten.
    document.forget_roots();
    assert_eq!(document.text(), "[1");
    document.push("] ").unwrap();
    document.forget_roots();
    assert_eq!(
        (document.text(), document.base(), document.roots()),
        (" ", 3, 1)
    );
    assert!(!document.restore(&start) && !document.restore(&open));
    let between = document.checkpoint();
    document.push("[2, ").unwrap();
    assert!(document.restore(&between));
    document.push("3 ").unwrap();
    assert_eq!((document.root(), document.roots()), (Some("3"), 2));
}

#[test]
fn random_texts_in_random_pieces() {
    let mut rng = Rng::new(23);
    // What surrounds JSON.
    let around = [
        "```",
        "json\n",
        "\u{feff}",
        "Sure:\n",
        "<think>",
        "</think>",
        "\n```\n",
        "\n```json\n{",
    ];
    let pieces = [&PIECES[..], &around].concat();
    for _ in 0..4000 {
        let text: String = (0..rng.below(16)).map(|_| rng.pick(&pieces)).collect();
        crate::fuzz::splits::check(text.as_bytes());
    }
}
