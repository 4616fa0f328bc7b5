//! A document that repairs its text: pushes of any size, what is shown before the end, and what is
//! taken back.

use restitch::internal::json::each;
use restitch::json::{Event, ParserView, Sink};
use restitch::repair::{Repair, RepairLevel, RepairOptions, RepairStatus, repair_root};
use restitch::value::LiveValue;
use restitch::{AllowedRoots, Document, Limits, Trailing};
use serde_json::Value;

use super::properties::is_part;
use crate::fuzz::splits::push_from;
use crate::reference::Log;
use restitch_testing::{chunks, splits};

const TEXTS: [&str; 9] = [
    r#"{"a": [1, 2,], 'b': True, /* c */ "c": {"d": "x\_y" "e": 1}}"#,
    "```json\n{\"a\": \"one\ntwo\", \"b\": [1 2 3,,],}\n```\nBye",
    r#"Here: it is"#,
    r#"{"a": "tabs	and C:\x", "list": [None, 'it\'s', "two"]} and more"#,
    r#"[1, 2, {"a": "b"#,
    r#"[{"a": 1}, {"b": [[[]]], } ] "#,
    "{\u{a0}\"a\":\u{feff} 1 // one\n, \"b\": 'say \"no\"'}",
    r#"[1, x]"#,
    r#"{"a": 12, "b": nULL, "c": -0.5e3 "d": [ ]}"#,
];

fn document(level: RepairLevel) -> Document {
    Document::new(64).repairing(RepairOptions::new(level))
}

/// What a document and its sinks make of some pushes.
fn read(level: RepairLevel, pushes: &[&str]) -> (String, Vec<String>, Vec<String>, bool) {
    let mut document = document(level);
    let mut events: Vec<String> = Vec::new();
    let mut sink = each(|event, live| {
        let name = event.name();
        let text = event.span().of(live.text);
        match events
            .last_mut()
            .filter(|last| name == "fragment" && last.starts_with("fragment"))
        {
            Some(last) => last.push_str(text),
            None => events.push(format!("{name} at {}: {text}", live.path())),
        }
    });
    let mut is_right = true;
    for push in pushes {
        is_right = is_right && document.push_with(push, &mut sink).is_ok();
    }
    let is_whole = is_right && document.finish_with(&mut sink).is_ok();
    let log = document
        .repairs()
        .map(|repair| format!("{repair:?}"))
        .collect();
    (document.text().to_owned(), events, log, is_whole)
}

#[test]
fn chunks_make_no_difference() {
    for level in [RepairLevel::Syntax, RepairLevel::Guess] {
        for text in TEXTS {
            let whole = read(level, &[text]);
            for cuts in splits(text.len()) {
                let cuts: Vec<_> = cuts
                    .into_iter()
                    .filter(|&cut| text.is_char_boundary(cut))
                    .collect();
                let pushes: Vec<_> = chunks(text.as_bytes(), &cuts)
                    .into_iter()
                    .map(|push| std::str::from_utf8(push).unwrap())
                    .collect();
                assert_eq!(read(level, &pushes), whole, "{level} {pushes:?}");
            }
        }
    }
}

#[test]
fn what_is_shown_of_a_prefix_stays() {
    for level in [RepairLevel::Syntax, RepairLevel::Guess] {
        for text in TEXTS {
            let mut whole = document(level);
            let _ = whole.push(text);
            let _ = whole.finish();
            let Some(whole) = whole.complete() else {
                continue;
            };
            let whole: Value = serde_json::from_str(&whole).unwrap();
            let (mut document, mut live) = (document(level), LiveValue::new());
            for (at, c) in text.char_indices() {
                if document
                    .push_with(c.encode_utf8(&mut [0; 4]), &mut live)
                    .is_err()
                {
                    break;
                }
                for part in [
                    document.complete(),
                    live.view().map(|view| view.to_string()),
                ]
                .into_iter()
                .flatten()
                {
                    let part: Value = serde_json::from_str(&part).unwrap();
                    assert!(
                        is_part(&part, &whole),
                        "{level}: {part} of {whole} after {:?}",
                        &text[..=at]
                    );
                }
            }
        }
    }
}

#[test]
fn a_document_is_set_back_with_what_it_held_back() {
    for text in TEXTS {
        let whole = read(RepairLevel::Syntax, &[text]);
        for (at, _) in text.char_indices() {
            let mut document = document(RepairLevel::Syntax);
            if document.push(&text[..at]).is_err() {
                break;
            }
            let checkpoint = document.checkpoint();
            let _ = document.push(", \"else\": 'where'");
            assert!(document.restore(&checkpoint));
            let _ = document.push(&text[at..]);
            let _ = document.finish();
            assert_eq!(document.text(), whole.0, "{:?}", &text[..at]);
            let log: Vec<_> = document
                .repairs()
                .map(|repair| format!("{repair:?}"))
                .collect();
            assert_eq!(log, whole.2, "{:?}", &text[..at]);
        }
    }
}

#[test]
fn other_text_may_follow_where_text_was_rejected() {
    let mut document = document(RepairLevel::Syntax);
    let error = document.push(r#"{'a': 1, 'b': x}"#).unwrap_err();
    assert_eq!(document.text(), r#"{"a": 1, "b": "#);
    let place = document.explain(&error);
    assert_eq!(
        (place.path.as_str(), place.excerpt.as_str()),
        ("/b", r#"{"a": 1, "b": →x}"#)
    );
    document.push("[2,],}").unwrap();
    assert_eq!(document.root(), Some(r#"{"a": 1, "b": [2]}"#));
    let log: Vec<_> = document
        .repairs()
        .map(|repair| repair.rule.as_str())
        .collect();
    assert_eq!(
        log,
        [
            "quotes",
            "quotes",
            "quotes",
            "quotes",
            "extra_comma",
            "extra_comma"
        ]
    );
}

const TRAILING: [Trailing; 4] = [
    Trailing::Stop,
    Trailing::Error,
    Trailing::Next,
    Trailing::Block,
];

#[test]
fn a_root_that_is_a_number_ends_as_in_a_strict_document() {
    for text in [
        "1 2",
        "1\n",
        "1 // c",
        "1,2",
        "1x",
        "1/2",
        "1#",
        "1'a'",
        "-0.5e3 [1]\n",
        "1\u{a0}2",
        "```\n1\n```\n",
    ] {
        for (trailing, cuts) in TRAILING
            .into_iter()
            .flat_map(|trailing| splits(text.len()).map(move |c| (trailing, c)))
        {
            let cuts: Vec<_> = cuts
                .into_iter()
                .filter(|&cut| text.is_char_boundary(cut))
                .collect();
            let ended = |level| {
                let mut document = Document::with_options(16, AllowedRoots::Any, trailing);
                document = document.repairing(RepairOptions::new(level));
                let mut events = Log::default();
                let error = push_from(&mut document, text, 0, &cuts, &mut events).err();
                let end = document.finish_with(&mut events).err();
                (
                    document.text().to_owned(),
                    document.root().map(str::to_owned),
                    document.roots(),
                    error,
                    end,
                    events,
                )
            };
            assert_eq!(
                ended(RepairLevel::Syntax),
                ended(RepairLevel::Strict),
                "{trailing:?} {text:?} cut at {cuts:?}"
            );
        }
    }
}

#[test]
fn a_guess_is_the_same_in_pieces_where_a_key_ends_its_line() {
    for (text, repaired) in [
        ("{a\n:1}", "{\"a\"\n:1}"),
        ("{None\n:1}", "{\"None\"\n:1}"),
        ("{1\n:2}", "{\"1\"\n:2}"),
        ("{a \n\t : 1, b\n\n: 2}", "{\"a\" \n\t : 1, \"b\"\n\n: 2}"),
    ] {
        for cuts in splits(text.len()) {
            let mut document = document(RepairLevel::Guess);
            let read = push_from(&mut document, text, 0, &cuts, &mut Log::default());
            assert_eq!(
                read.and_then(|()| document.finish()),
                Ok(()),
                "{text:?} cut at {cuts:?}"
            );
            assert_eq!(document.text(), repaired, "cut at {cuts:?}");
        }
    }
}

/// What a guess waits for is bounded by the look-ahead: a word that is longer, or white space after
/// it, is no guess.
#[test]
fn a_guess_waits_no_longer_than_the_look_ahead() {
    let lookahead = Limits::default().parser.max_lookahead;
    for (start, more) in [("[", "x"), ("{", "x"), ("{a\n", " ")] {
        let long = more.repeat(lookahead + 1);
        for text in [
            format!("{start}{long}"),
            format!("{start}{long}: 1}}"),
            format!("{start}{long}, 1]"),
        ] {
            let mut document = document(RepairLevel::Guess);
            let mut pieces = text
                .as_bytes()
                .chunks(100)
                .map(|piece| std::str::from_utf8(piece).unwrap());
            let error = pieces
                .find_map(|piece| document.push(piece).err())
                .expect("a deviation");
            assert_eq!(error.offset, 1, "{start:?} {more:?}");
            let whole = repair_root(&text, &RepairOptions::new(RepairLevel::Guess));
            assert_eq!(
                whole.status,
                RepairStatus::Malformed(error),
                "{start:?} {more:?}"
            );
        }
    }
}

/// A certain recovery reaches back to the last value, however much white space follows that.
#[test]
fn a_comma_is_added_before_more_white_space_than_the_look_ahead() {
    let options =
        RepairOptions::new(RepairLevel::Guess).within(&Limits::default().with_max_lookahead(8));
    let space = " ".repeat(20);
    for text in [
        format!("[1{space}[2]]"),
        format!("[1,{space}]"),
        format!("{{\"a\": 1,{space}}}"),
    ] {
        let whole = repair_root(&text, &options);
        assert_eq!(whole.status, RepairStatus::Repaired, "{text}");
        for cuts in splits(text.len()) {
            let mut document = Document::new(64).repairing(options.clone());
            let read = push_from(&mut document, &text, 0, &cuts, &mut Log::default());
            assert_eq!(
                read.and_then(|()| document.finish()),
                Ok(()),
                "{text:?} cut at {cuts:?}"
            );
            assert_eq!(document.text(), whole.json, "cut at {cuts:?}");
        }
    }
}

#[test]
fn what_is_held_back_after_a_root_is_no_part_of_the_next_one() {
    for (text, roots, at) in [
        ("true,[2]", AllowedRoots::Any, 4),
        ("[1],x", AllowedRoots::Containers, 3),
        ("[1] , x", AllowedRoots::Any, 4),
        ("12 ,[2]", AllowedRoots::Any, 3),
        (
            "[1]\n{\"a\": 2},\n{\"b\": 3}\n",
            AllowedRoots::Containers,
            12,
        ),
    ] {
        for (step, level) in
            (1..=text.len()).flat_map(|step| RepairLevel::ALL.map(|level| (step, level)))
        {
            let mut document = Document::with_options(16, roots, Trailing::Next)
                .repairing(RepairOptions::new(level));
            let mut offset = None;
            for piece in text.as_bytes().chunks(step) {
                let mut rest = std::str::from_utf8(piece).unwrap();
                while !rest.is_empty() && offset.is_none() {
                    if document.is_complete() {
                        document.forget_roots();
                    }
                    match document.push_root_with(rest, &mut ()) {
                        Ok(taken) => rest = &rest[taken..],
                        Err(error) => offset = Some(document.base() + error.offset),
                    }
                }
            }
            let offset = offset.or_else(|| {
                document
                    .finish()
                    .err()
                    .map(|error| document.base() + error.offset)
            });
            assert_eq!(offset, Some(at), "{level} {text:?} by {step}");
        }
    }
}

/// Where text between two roots is rejected, what precedes it counts in the places of later
/// repairs.
#[test]
fn places_of_repairs_count_the_text_before_a_rejected_one() {
    let mut document = Document::with_options(16, AllowedRoots::Containers, Trailing::Next)
        .repairing(RepairOptions::new(RepairLevel::Syntax));
    assert_eq!(document.push("[1] \n x").unwrap_err().offset, 6);
    document.push("['a']").unwrap();
    assert_eq!(document.text(), "[1] \n [\"a\"]");
    let ranges: Vec<_> = document
        .repairs()
        .map(|repair| repair.range.clone())
        .collect();
    assert_eq!(ranges, [7..8, 9..10]);
}

#[test]
fn strings_are_shown_while_they_come() {
    let mut document = document(RepairLevel::Syntax);
    document.push(r#"{'text': "He said"#).unwrap();
    assert_eq!(
        (document.text(), document.pending()),
        (r#"{"text": "He said"#, "")
    );
    document.push(r" \").unwrap();
    assert_eq!(
        (document.text(), document.pending()),
        (r#"{"text": "He said "#, r"\")
    );
    document.push(r#"_no\_", "#).unwrap();
    assert_eq!(
        (document.text(), document.pending()),
        (r#"{"text": "He said _no_""#, ", ")
    );
    assert_eq!(document.repairs().count(), 4);
}

/// Notes what a sink is told.
#[derive(Default)]
struct Told(Vec<String>);

impl Sink for Told {
    fn event(&mut self, event: Event, _: &ParserView<'_>) {
        self.0.push(event.name().to_owned());
    }

    fn repaired(&mut self, repair: &Repair) {
        self.0.push(repair.rule.to_string());
    }
}

/// All sinks of one push get the same events, however they are combined, and even if one of them
/// ignores them.
#[test]
fn all_sinks_of_a_push_are_told_of_repairs() {
    let text = r#"{"a": [1, 2,], 'b': True}"#;
    let told = |sink: &mut dyn Sink| document(RepairLevel::Syntax).push_with(text, sink).unwrap();
    let mut alone = Told::default();
    told(&mut alone);
    assert!(
        alone.0.iter().any(|told| told == "extra_comma")
            && alone.0.iter().any(|told| told == "end"),
        "{:?}",
        alone.0
    );
    let [mut a, mut b, mut c] = [(); 3].map(|()| Told::default());
    told(&mut (&mut a, Some(&mut b), ((), &mut c)));
    assert_eq!([&a.0, &b.0, &c.0], [&alone.0; 3]);
    let [mut a, mut b] = [(); 2].map(|()| Told::default());
    told(&mut (None::<Told>, (), &mut a));
    told(&mut ((), &mut b));
    assert_eq!([&a.0, &b.0], [&alone.0; 2]);
}
