//! What stands around JSON in an answer that is cut and continued: prose, fences, further blocks, reasoning.

use std::time::Duration;

use restitch::Limits;
use restitch::session::{CallEnd, Input, Output, Session};

use crate::support::{Rng, text_cuts};

/// What the client gets of an answer whose calls bring these texts, `None` where a call more is asked for; each text in
/// pieces that `rng` chooses.
fn delivered(calls: &[&str], rng: &mut Rng) -> Option<String> {
    let now = Duration::ZERO;
    let mut session = Session::new(Limits::default());
    let mut text = String::new();
    for (number, call) in calls.iter().enumerate() {
        let cuts = text_cuts(call, rng);
        let mut start = 0;
        for end in cuts.into_iter().chain([call.len()]) {
            session.handle_input(now, Input::Text(&call[std::mem::replace(&mut start, end)..end]));
        }
        session.handle_input(now, Input::CallEnd(CallEnd::Dropped));
        if number == 0 {
            // Text of the first call leaves as it comes.
            text.push_str(call);
        }
        while let Some(output) = session.poll_output() {
            if let Output::Text(new) = output {
                text.push_str(&new);
            }
        }
    }
    session.is_done().then_some(text)
}

fn check(calls: &[&str], expect: &str) {
    for seed in 0..20 {
        let text = delivered(calls, &mut Rng::new(seed));
        assert_eq!(text.as_deref(), Some(expect), "{calls:?}, {seed}");
    }
}

#[test]
fn prose_after_a_block_is_delivered_where_prose_preceded_it() {
    let first = "Here it is:\n\n```json\n{\"a\": [1, 2";
    let whole = "Here it is:\n\n```json\n{\"a\": [1, 2, 3]}\n```\n\nI hope that this helps.";
    // The continuation goes on in the block, and closes it.
    check(&[first, "{\"a\": [1, 2, 3]}\n```\n\nI hope that this helps."], whole);
    // It has a fence of its own.
    check(&[first, "```json\n{\"a\": [1, 2, 3]}\n```\n\nI hope that this helps."], whole);
    check(
        &[first, "Sure:\n```json\n{\"a\": [1, 2, 3]}\n\n```\n\nI hope that this helps."],
        &whole.replace("}\n```", "}\n\n```"),
    );
    // Not in the block, or without one.
    check(&["{\"a\": [1, 2", "{\"a\": [1, 2, 3]}\n\nI hope that this helps."], "{\"a\": [1, 2, 3]}");
    check(&["```json\n{\"a\": [1, 2", "{\"a\": [1, 2, 3]}\n```\n\nBye."], "```json\n{\"a\": [1, 2, 3]}\n```");
    let closed = "Here it is:\n\n```json\n{\"a\": [1, 2, 3]}\n```";
    check(&[first, "{\"a\": [1, 2, 3]} I hope that this helps."], closed);
    check(&[first, "{\"a\": [1, 2, 3]}"], closed);
    check(&[first, "{\"a\": [1, 2, 3]}\n``"], closed);
}

#[test]
fn a_further_block_is_continued_like_the_first() {
    let first = "One:\n```json\n{\"a\": [1, 2]}\n```\nTwo:\n```json\n{\"b\": [3, \"fo";
    let whole = "One:\n```json\n{\"a\": [1, 2]}\n```\nTwo:\n```json\n{\"b\": [3, \"four\"]}\n```\nBye.";
    check(&[first, "{\"b\": [3, \"four\"]}\n```\nBye."], whole);
    // The first call is cut in the first block, the second one in the second.
    let calls = [
        "One:\n```json\n{\"a\": [1",
        "{\"a\": [1, 2]}\n```\nTwo:\n```json\n{\"b\": [3, \"fo",
        "{\"b\": [3, \"four\"]}\n```\nBye.",
    ];
    check(&calls, whole);
    // A block that is not JSON, and a bare one, are text.
    let other = "One:\n```json\n{\"a\": 1}\n```\nTwo:\n```py\n{\n```\nThree:\n```\n[1, 2";
    check(&[other], other);
    // JSON that needs no fence is all of the answer.
    check(&["{\"a\": 1}\n```json\n[1"], "{\"a\": 1}\n```json\n[1");
}

#[test]
fn a_fence_that_is_open_is_closed() {
    let first = "One:\n````json\n{\"a\": [1, 2";
    check(&[first, "{\"a\": [1, 2]}\n```\nBye."], "One:\n````json\n{\"a\": [1, 2]}\n````");
    check(
        &[first, "{\"a\": [1, 2]}\n````\nThen:\n```py\n1"],
        "One:\n````json\n{\"a\": [1, 2]}\n````\nThen:\n```py\n1\n```",
    );
}

#[test]
fn json_after_reasoning_is_continued() {
    let first = "<think>Is [1] right? {\"a\": </think>\n\n{\"a\": [1, 2";
    let whole = "<think>Is [1] right? {\"a\": </think>\n\n{\"a\": [1, 2, 3]}";
    check(&[first, "{\"a\": [1, 2, 3]}"], whole);
    check(&[first, "<think>Where was I?\n[1]</think>\n{\"a\": [1, 2, 3]}"], whole);
    // Reasoning alone, and prose after it, are not JSON.
    check(&["<think>Is [1] right?"], "<think>Is [1] right?");
    check(&["<think>No.</think> It is [1, "], "<think>No.</think> It is [1, ");
}
