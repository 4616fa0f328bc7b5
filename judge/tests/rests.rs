//! The grammar of the rest of a cut document, by an engine that enforces grammars.

use restitch::internal::carve::{Carved, Syntax, carve};
use restitch::internal::json::Machine;
use restitch::json::CutState;
use restitch::{AllowedRoots, Document, Trailing};
use restitch_judge::{Judge, Reader, Verdict, lark_of_gbnf};
use restitch_testing::{Rng, at_least, corpus_documents, corpus_strings, grammar_files};

/// Documents with every token, cut at every character.
const SMALL: [&str; 10] = [
    r#"{"title": "Report", "sections": [{"id": 1, "done": true}, {"id": 2, "content": null}]}"#,
    "[\n  1,\n  -0.5e+10,\n  [],\n  {},\n  [[\"a\"], {\"b\": [false]}]\n]",
    r#"{"a\"b": "q\\\"\/\b\f\n\r\t", "\u0041\ud83d\ude00": "\ud83d\ude00\u00e9\uD83D\uDE00"}"#,
    "{\"é\": \"grün 漢字 😀\", \"ключ\": [\"שלום\", \"\u{7f}\"]}",
    "[-0, 0, 10, 1.5, 0.25, -1e5, 2E-3, 3e+10, 1.0e0, 0e1, -12.50]",
    "[true, false, null, {\"true\": true, \"null\": null}]",
    "{ \"spaced\" :\t[ 1 ,\r\n 2 ] , \"end\" : { } } \n",
    r#"[[[[[[[[[["deep"]]]]]]]]]]"#,
    r#"{"code": "if (a[0] == \"}\") { return [1, 2]; } // ```json\n{\"x\": 1}", "md": "``` \\n"}"#,
    "{}",
];

fn document(text: &str) -> Document {
    let mut document = Document::with_options(1024, AllowedRoots::Any, Trailing::Stop);
    document.push(text).unwrap();
    document
}

/// Both grammars after the head, which they force.
fn readers(judge: &Judge, carved: &Carved) -> [Reader; 2] {
    let (lark, gbnf) = (carved.print(Syntax::Lark), carved.print(Syntax::Gbnf));
    judge.read_after(&carved.head, [&lark, &lark_of_gbnf(&gbnf)])
}

/// Returns the verdict of the machine at a cut about a rest: the twin of the grammar. `pair` is the part of a
/// surrogate pair in which the text stops; only there is the grammar narrower than the machine.
fn twin(machine: &Machine, pair: Option<&str>, rest: &str) -> Verdict {
    let mut machine = machine.clone();
    if pair.is_some_and(|pair| !begins_pair(&format!("{pair}{rest}"))) {
        return Verdict::Refused(0);
    }
    match machine.feed(rest.as_bytes()) {
        Err(error) => Verdict::Refused(error.offset),
        Ok(taken) => {
            let after = &rest[taken..];
            let white = after.trim_start_matches([' ', '\t', '\n', '\r']);
            if !white.is_empty() {
                Verdict::Refused(rest.len() - white.len())
            } else if machine.finish().is_ok() {
                Verdict::Whole
            } else {
                Verdict::Open
            }
        }
    }
}

/// Whether the text begins with a surrogate pair, or is a part of one.
fn begins_pair(text: &str) -> bool {
    const PAIR: [&str; 12] = [
        "\\", "u", "dD", "89abAB", "", "", "\\", "u", "dD", "cdefCDEF", "", "",
    ];
    PAIR.iter()
        .zip(text.chars())
        .all(|(allowed, c)| allowed.contains(c) || allowed.is_empty() && c.is_ascii_hexdigit())
}

/// The part of a surrogate pair in which the text stops, from the digits on that make it one.
fn open_pair(text: &str, machine: &Machine) -> Option<String> {
    let parts = (4..12)
        .rev()
        .filter_map(|length| text.get(text.len().checked_sub(length)?..));
    (machine.cut_state() == CutState::Escape)
        .then(|| parts.into_iter().find(|part| begins_pair(part)))?
        .map(str::to_owned)
}

fn is_same(one: &Verdict, other: &Verdict) -> bool {
    matches!(
        (one, other),
        (Verdict::Refused(_), Verdict::Refused(_))
            | (Verdict::Whole, Verdict::Whole)
            | (Verdict::Open, Verdict::Open)
    )
}

/// A rest with one mistake, or another legal rest.
fn altered(rest: &str, rng: &mut Rng) -> String {
    const PIECES: [&str; 24] = [
        "{}",
        "]",
        "}",
        "\"",
        ",",
        ":",
        "\\",
        "\u{1}",
        "\n",
        " ",
        "1",
        ".",
        "e",
        "-",
        "null",
        "tru",
        "[1]",
        "{\"a\": 1}",
        "é",
        "\\u12",
        "\\ud83d\\ude00",
        "\"x\": 2",
        "x",
        "//",
    ];
    let ends: Vec<usize> = rest
        .char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .collect();
    // Two of three positions are near the cut or near the end.
    let pick = |rng: &mut Rng| match rng.below(3) {
        0 => rng.below(ends.len().min(6)),
        1 => ends.len() - 1 - rng.below(ends.len().min(6)),
        _ => rng.below(ends.len()),
    };
    let (one, other) = (pick(rng), pick(rng));
    let (start, end) = (ends[one.min(other)], ends[one.max(other)]);
    match rng.below(4) {
        0 => format!("{}{}", &rest[..start], &rest[end..]),
        1 => rest[..end].to_owned(),
        2 => format!("{}{}{}", &rest[..end], rng.pick(&PIECES), &rest[end..]),
        _ => {
            let after = rest[end..]
                .chars()
                .next()
                .map_or(end, |c| end + c.len_utf8());
            format!("{}{}{}", &rest[..end], rng.pick(&PIECES), &rest[after..])
        }
    }
}

/// Checks the grammar at a cut: byte by byte, with the true rest, and with wrong ones.
fn check(judge: &Judge, text: &str, cut: usize, rng: &mut Rng) {
    let (delivered, rest) = text.split_at(cut);
    let document = document(delivered);
    let machine = if document.root_start().is_some() {
        document.machine().clone()
    } else {
        Machine::new(1024)
    };
    let carved = carve(&document, None).unwrap();
    assert!(delivered.ends_with(&carved.head));
    let next = next_bytes(&machine);
    let pair = open_pair(delivered, &machine);
    let end = rest.floor_char_boundary(LONGEST);
    let candidates: Vec<String> = [rest[..end].to_owned()]
        .into_iter()
        .chain((0..ALTERED).map(|_| altered(&rest[..end], rng)))
        .collect();
    for mut reader in readers(judge, &carved) {
        if pair.is_none() {
            assert_eq!(reader.next_bytes(), next, "{delivered}");
        }
        for candidate in &candidates {
            let verdict = reader.clone().push(candidate);
            let expect = twin(&machine, pair.as_deref(), candidate);
            assert!(
                is_same(&verdict, &expect),
                "{verdict:?}, not {expect:?}: {delivered}▮{candidate}\n{}",
                carved.print(Syntax::Gbnf)
            );
        }
    }
}

/// The most bytes of a rest that a grammar reads here.
const LONGEST: usize = 800;

/// How many other rests are tried at a cut.
const ALTERED: usize = 3;

/// The bytes that the machine takes next.
fn next_bytes(machine: &Machine) -> [bool; 256] {
    std::array::from_fn(|byte| {
        let mut machine = machine.clone();
        let byte = byte as u8;
        match machine.feed(&[byte]) {
            Ok(1) => true,
            // White space after the root.
            Ok(_) => matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
            Err(_) => false,
        }
    })
}

fn check_at(judge: &Judge, text: &str, cuts: impl Iterator<Item = usize>) -> usize {
    let mut rng = Rng::of(text.as_bytes());
    let cuts = cuts.filter(|&cut| text.is_char_boundary(cut));
    cuts.map(|cut| check(judge, text, cut, &mut rng)).count()
}

#[test]
fn a_grammar_has_what_the_machine_takes_at_every_cut() {
    let judge = Judge::new();
    for text in SMALL {
        check_at(&judge, text, 0..=text.len());
    }
}

#[test]
fn the_true_rest_is_allowed_at_cuts_of_the_corpora() {
    let judge = Judge::new();
    let mut cuts = 0;
    for (name, text, count) in documents() {
        let mut rng = Rng::of(name.as_bytes());
        let near = text.len().saturating_sub(LONGEST);
        let chosen: Vec<usize> = (0..count)
            .flat_map(|_| {
                let end = near + rng.below(text.len() - near);
                [rng.below(text.len()), end]
            })
            .collect();
        cuts += check_at(&judge, &text, chosen.into_iter());
    }
    println!("covered: {cuts} cuts");
    assert!(cuts >= at_least(200, 700), "{cuts}");
}

#[test]
fn wrong_rests_are_refused() {
    let judge = Judge::new();
    for (delivered, rest, wrong) in [
        // A second root, a closer too many, text.
        (r#"{"a": [1, 2"#, "]}", ["]}{}", "]}]", "]} The end."]),
        // A wrong closer.
        (r#"{"a": [1, 2"#, ", 3]}", ["}]", ", 3}}", "]]"]),
        // A control character, an unknown escape, a line end in a string.
        (r#"{"a": "te"#, "xt\"}", ["\u{1}xt\"}", "\\x\"}", "\n\"}"]),
        // Another token than the cut one.
        (r#"{"a": tr"#, "ue}", ["true}", "alse}", " ue}"]),
        (r#"{"a": -"#, "1.5}", ["-1}", " 1}", "null}"]),
        (r#"{"a": 0"#, ".5}", ["05}", "..5}", "x0}"]),
        // A high surrogate without the other half.
        (r#"["\ud83d"#, "\\uDE00\"]", ["\"]", "x\"]", "\\ud83d\"]"]),
        (
            r#"["\ud83d\u"#,
            "dc00\"]",
            ["0041\"]", "d83d\"]", "dbff\"]"],
        ),
        // The structure after a key, after a comma.
        (r#"{"a"#, "b\": 1}", ["b\"}", "b\", 1}", "b\": }"]),
        (r#"{"a": 1,"#, "\"b\": 2}", ["}", ", \"b\": 2}", "2}"]),
        (r#"[1,"#, "2]", ["]", ",2]", ":2]"]),
        // Nothing delivered.
        ("", "{}", ["}", ",", "x{}"]),
    ] {
        let carved = carve(&document(delivered), None).unwrap();
        for reader in readers(&judge, &carved) {
            assert_eq!(
                reader.clone().push(rest),
                Verdict::Whole,
                "{delivered}▮{rest}"
            );
            for (end, _) in rest.char_indices().skip(1) {
                // A part of the rest is legal; here it is never a whole one.
                assert_eq!(
                    reader.clone().push(&rest[..end]),
                    Verdict::Open,
                    "{delivered}▮{rest}"
                );
            }
            for wrong in wrong {
                let verdict = reader.clone().push(wrong);
                assert!(
                    matches!(verdict, Verdict::Refused(_)),
                    "{delivered}▮{wrong}"
                );
            }
        }
    }
}

/// The valid documents of the test data: the name, the text, and how many pairs of cuts to check.
fn documents() -> Vec<(String, String, usize)> {
    let mut documents: Vec<_> = corpus_documents("docs")
        .into_iter()
        .map(|(name, text)| (name, text, 2))
        .collect();
    for file in grammar_files() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if let (true, Ok(text)) = (name.starts_with("y_"), std::fs::read_to_string(&file)) {
            documents.push((name, text, 1));
        }
    }
    for (n, text) in corpus_strings().into_iter().enumerate().step_by(4) {
        let text = restitch::internal::json::string::quoted(&text);
        documents.push((format!("string {n}"), format!("[{text}]"), 1));
    }
    documents
}
