//! Recorded prose, cut in many places, and what becomes of it with models that continue in
//! different ways.

use std::collections::BTreeSet;

use restitch::session::{CallEnd, Request, Session};
use restitch::{Document, Limits};
use serde_json::Value;

use super::{cuts, is_long, rest, run, stop};
use restitch_testing::corpus_rows;

/// Returns the prose of the recorded answers, each text once.
fn recorded() -> Vec<String> {
    let rows = corpus_rows("streams/index.jsonl");
    let texts = rows
        .iter()
        .filter_map(|(_, row)| row["text"].as_object())
        .flat_map(|slots| slots.values());
    let texts: BTreeSet<String> = texts
        .filter_map(Value::as_str)
        .filter(|text| is_long(text))
        .map(str::to_owned)
        .collect();
    texts
        .into_iter()
        .filter(|text| !text.trim_start().starts_with(['{', '[']))
        .collect()
}

/// Returns the cuts that follow some text without JSON.
fn cuts_in_prose(whole: &str) -> Vec<usize> {
    let mut document = Document::new(64);
    let mut delivered = 0;
    let mut is_cut = |cut: usize| {
        let is_read = document.push(&whole[delivered..cut]).is_ok();
        delivered = cut;
        is_read && document.is_prose() && is_long(&whole[..cut]) && cut < whole.len()
    };
    cuts(whole).filter(|&cut| is_cut(cut)).collect()
}

/// Other quotes and dashes, as models write them in place of those that they were given.
fn retyped(text: &str) -> String {
    let plain = |c: char| match c {
        '’' | '‘' => '\'',
        '“' | '”' => '"',
        '–' | '—' => '-',
        '\'' => '’',
        c => c,
    };
    text.chars().map(plain).collect()
}

/// How a model answers: its name, what it writes where `rest` is the anchor and what follows, and
/// whether all of its answers have to be joined.
type Model = (
    &'static str,
    fn(whole: &str, rest: &str, anchor: &str, delivered: &str) -> String,
    bool,
);

const MODELS: [Model; 11] = [
    (
        "the anchor and the rest",
        |_, rest, _, _| rest.to_owned(),
        true,
    ),
    (
        "a preamble before it",
        |_, rest, _, _| format!("Sure, here is the rest of it:\n\n{rest}"),
        true,
    ),
    (
        "reasoning before it",
        |_, rest, _, _| format!("<think>\nIt stops there.\n</think>\n{rest}"),
        true,
    ),
    ("all of it again", |whole, _, _, _| whole.to_owned(), true),
    (
        "the anchor in other quotes",
        |_, rest, anchor, _| retyped(anchor) + &rest[anchor.len()..],
        false,
    ),
    (
        "the anchor with a wrong letter",
        |_, rest, anchor, _| {
            let middle = anchor
                .char_indices()
                .nth(anchor.chars().count() / 2)
                .map_or(0, |(at, _)| at);
            let after = anchor[middle..]
                .chars()
                .next()
                .map_or(middle, |c| middle + c.len_utf8());
            format!("{}~{}", &rest[..middle], &rest[after..])
        },
        false,
    ),
    (
        "the anchor in tags",
        |_, rest, anchor, _| {
            format!(
                "<overlap_context>\n{anchor}\n</overlap_context>\n{}",
                &rest[anchor.len()..]
            )
        },
        false,
    ),
    (
        "half of the anchor",
        |_, rest, anchor, _| {
            let half = anchor
                .char_indices()
                .nth(anchor.chars().count() / 2)
                .map_or(0, |(at, _)| at);
            rest[half..].to_owned()
        },
        false,
    ),
    (
        "the rest alone",
        |whole, _, _, delivered| whole[delivered.len()..].to_owned(),
        false,
    ),
    (
        "another answer",
        |_, _, _, _| "There are three things to know about this. First, it depends.".to_owned(),
        false,
    ),
    (
        "a quotation of the anchor",
        |_, _, anchor, _| format!("Your text ends with “{anchor}”. What should follow?"),
        false,
    ),
];

#[test]
fn recorded_prose_is_joined_right_or_not_at_all() {
    let texts: Vec<_> = recorded()
        .into_iter()
        .map(|whole| (cuts_in_prose(&whole), whole))
        .collect();
    let mut limits = Limits::default();
    limits.continuation.max_consecutive_failures = 1;
    println!(
        "{:<32} {:>6} {:>6} {:>8} {:>6}",
        "the model writes", "cuts", "right", "refused", "wrong"
    );
    for (name, model, joins_all) in MODELS {
        let (mut right, mut refused, mut wrong) = (0, 0, Vec::new());
        for (places, whole) in &texts {
            let step = (places.len() / 3).max(1);
            for &cut in places.iter().step_by(step) {
                let delivered = &whole[..cut];
                let answer = |request: &Request, text: &str| {
                    let again = rest(whole, request, text);
                    (
                        model(whole, &again, &request.turn.as_ref().unwrap().anchor, text),
                        stop(),
                    )
                };
                let mut session = Session::new(limits.clone());
                session.set_prose(restitch::session::Prose::Anchor);
                let ended = run(session, delivered, CallEnd::Dropped, 200, &answer);
                match () {
                    () if ended.client == *whole => right += 1,
                    () if ended.client == delivered => refused += 1,
                    () => wrong.push((delivered.to_owned(), ended.client)),
                }
            }
        }
        let cuts = right + refused + wrong.len();
        println!(
            "{name:<32} {cuts:>6} {right:>6} {refused:>8} {:>6}",
            wrong.len()
        );
        assert!(wrong.is_empty(), "{name}: {:?}", wrong[0]);
        if joins_all {
            // A text that is one letter throughout has no anchor.
            assert!(right * 100 >= cuts * 97, "{name}: {right} of {cuts}");
        }
    }
    println!("covered: {} texts", texts.len());
}
