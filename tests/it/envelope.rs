//! What stands around JSON in an answer that is cut and continued: prose, fences, further blocks,
//! reasoning.

use std::time::Duration;

use restitch::Limits;
use restitch::provider::Finish;
use restitch::session::{CallEnd, Input, Output, Session};

use restitch_testing::{Rng, text_cuts};

/// What the client gets of an answer whose calls bring these texts, `None` where a call more is
/// asked for; each text in pieces that `rng` chooses.
fn delivered(calls: &[&str], rng: &mut Rng) -> Option<String> {
    let now = Duration::ZERO;
    let mut session = Session::new(Limits::default());
    let mut text = String::new();
    for (number, call) in calls.iter().enumerate() {
        let cuts = text_cuts(call, rng);
        let mut start = 0;
        for end in cuts.into_iter().chain([call.len()]) {
            session.handle_input(
                now,
                Input::Text(&call[std::mem::replace(&mut start, end)..end]),
            );
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
    check(
        &[first, "{\"a\": [1, 2, 3]}\n```\n\nI hope that this helps."],
        whole,
    );
    // It has a fence of its own.
    check(
        &[
            first,
            "```json\n{\"a\": [1, 2, 3]}\n```\n\nI hope that this helps.",
        ],
        whole,
    );
    check(
        &[
            first,
            "Sure:\n```json\n{\"a\": [1, 2, 3]}\n\n```\n\nI hope that this helps.",
        ],
        &whole.replace("}\n```", "}\n\n```"),
    );
    // Not in the block, or without one.
    check(
        &[
            "{\"a\": [1, 2",
            "{\"a\": [1, 2, 3]}\n\nI hope that this helps.",
        ],
        "{\"a\": [1, 2, 3]}",
    );
    check(
        &["```json\n{\"a\": [1, 2", "{\"a\": [1, 2, 3]}\n```\n\nBye."],
        "```json\n{\"a\": [1, 2, 3]}\n```",
    );
    let closed = "Here it is:\n\n```json\n{\"a\": [1, 2, 3]}\n```";
    check(
        &[first, "{\"a\": [1, 2, 3]} I hope that this helps."],
        closed,
    );
    check(&[first, "{\"a\": [1, 2, 3]}"], closed);
    check(&[first, "{\"a\": [1, 2, 3]}\n``"], closed);
}

#[test]
fn a_further_block_is_continued_like_the_first() {
    let first = "One:\n```json\n{\"a\": [1, 2]}\n```\nTwo:\n```json\n{\"b\": [3, \"fo";
    let whole =
        "One:\n```json\n{\"a\": [1, 2]}\n```\nTwo:\n```json\n{\"b\": [3, \"four\"]}\n```\nBye.";
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
}

#[test]
fn a_root_that_is_cut_after_another_one_is_continued() {
    let root = "{\"rows\": [{\"id\": 1}, {\"id\": 2, \"name\": \"two\"}]}";
    for before in [
        "{\"status\": \"ok\"}\n",
        "{\"status\": \"ok\"} ",
        "Schema: {\"type\": \"object\"}\n\n",
        "Schema: {\"type\": \"object\"}\n\nAnswer: ",
        "{\"rows\": []}\n{\"rows\": [1, 2, 3, 4, 5, 6, 7]}\n",
    ] {
        let first = format!("{before}{}", &root[..root.len() - 8]);
        check(&[&first, root], &format!("{before}{root}"));
    }
    check(
        &[
            "{\"a\": 1}\n```json\n{\"b\": [3, \"fo",
            "{\"b\": [3, \"four\"]}\n```\nBye.",
        ],
        "{\"a\": 1}\n```json\n{\"b\": [3, \"four\"]}\n```",
    );
    // The first root is the answer: the other one is an example in a sentence.
    for first in [
        "{\"rows\": [1, 2]}\n\nAs in: {\"rows\": [1",
        "```json\n{\"rows\": [1, 2]}\n```\nSo:\n{\"rows\": [1",
    ] {
        check(&[first], first);
    }
}

#[test]
fn a_fence_that_is_open_is_closed() {
    let first = "One:\n````json\n{\"a\": [1, 2";
    check(
        &[first, "{\"a\": [1, 2, 3]}\n```\nBye."],
        "One:\n````json\n{\"a\": [1, 2, 3]}\n````",
    );
    check(
        &[first, "{\"a\": [1, 2, 3]}\n````\nThen:\n```py\n1"],
        "One:\n````json\n{\"a\": [1, 2, 3]}\n````\nThen:\n```py\n1\n```",
    );
}

#[test]
fn json_after_reasoning_is_continued() {
    let first = "<think>Is [1] right? {\"a\": </think>\n\n{\"a\": [1, 2";
    let whole = "<think>Is [1] right? {\"a\": </think>\n\n{\"a\": [1, 2, 3]}";
    check(&[first, "{\"a\": [1, 2, 3]}"], whole);
    check(
        &[
            first,
            "<think>Where was I?\n[1]</think>\n{\"a\": [1, 2, 3]}",
        ],
        whole,
    );
    // Reasoning alone, and prose after it, are not JSON.
    check(&["<think>Is [1] right?"], "<think>Is [1] right?");
    check(
        &["<think>No.</think> It is [1, "],
        "<think>No.</think> It is [1, ",
    );
}

/// Envelopes without a fence, as models write them: the text before the root, and the text after
/// it.
const ENVELOPES: [(&str, &str); 42] = [
    ("Here is the plan:\n\n", ""),
    ("Here is the plan:\n", "\n\nShall I go on?"),
    ("Sure! I made it for you.\n\n", "\n"),
    ("Result: ", ""),
    ("Answer: ", "\n"),
    ("**Answer:** ", ""),
    ("**Answer**: ", ""),
    ("**Answer:**\n", ""),
    ("### Answer\n\n", ""),
    ("json\n", ""),
    ("JSON\n\n", ""),
    ("json ", ""),
    ("<answer>", "</answer>"),
    ("<answer>\n", "\n</answer>"),
    ("<tool_call>", "</tool_call>"),
    ("<tool_call>\n", "\n</tool_call>"),
    ("<output>", "</output>"),
    ("<output format=\"json\">\n", "\n</output>"),
    (
        "Okay, the user wants [1] and {2}.\nThen {\"a\": 1}?\n</think>\n\n",
        "",
    ),
    ("So: [1, 2] it is.</think>", ""),
    ("A block:\n```json\nno\n</thinking>\n", ""),
    ("<|channel|>final<|message|>", ""),
    (
        "<|channel|>analysis<|message|>Let me see [1].<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|end|>",
    ),
    (
        "[1] Smith, J. Harbours. 2019.\n[2] Jones, K. Nets. 2021.\n\n",
        "",
    ),
    ("Sources:\n[1] Smith 2019\n[2] Jones 2021\n\n", ""),
    ("See [1](https://example.org) and [x].\n\n", ""),
    ("```python\nprint({\"a\": 1})\n```\n\nThe output:\n\n", ""),
    ("```js\n{a: 1}\n```\n\n", ""),
    ("This code does it:\n```\nx = [1]\n```\n", ""),
    ("- one [a]\n- two {b}\n- [ ] three\n\n", ""),
    ("1. first\n2. second\n\n", ""),
    ("> quoted words\n> and more\n\n", ""),
    ("> ", ""),
    ("答案如下：", ""),
    ("[INST] Write it. [/INST]\n", ""),
    ("[INST] Write it. [/INST]", "</s>"),
    (
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nWrite it. [/INST] ",
        " </s>",
    ),
    ("[TOOL_CALLS]", ""),
    ("<s>", "</s>"),
    ("<|im_start|>assistant\n", "<|im_end|>"),
    (
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|eot_id|>",
    ),
    ("### Instruction:\nWrite it.\n\n### Response: ", ""),
];

const ROOTS: [&str; 3] = [
    "{\"title\": \"One\", \"rows\": [1, 2, {\"b\": null}], \"x\": 1.5}",
    "[{\"id\": 1, \"tags\": [\"a\", \"b\"]}, {\"id\": 2}]",
    "{\n  \"a\": \"```js\\n{}\\n``` and </think>\",\n  \"b\": {}\n}",
];

#[test]
fn a_root_is_found_after_each_envelope() {
    for (before, after) in ENVELOPES {
        for root in ROOTS {
            let text = format!("{before}{root}{after}");
            for seed in 0..8 {
                let mut document = restitch::Document::new(64);
                let cuts = text_cuts(&text, &mut Rng::new(seed));
                let mut start = 0;
                for end in cuts.into_iter().chain([text.len()]) {
                    document
                        .push(&text[std::mem::replace(&mut start, end)..end])
                        .unwrap();
                }
                document.finish().unwrap();
                assert_eq!(document.root(), Some(root), "{text:?}");
            }
        }
    }
}

#[test]
fn an_answer_after_each_envelope_is_continued() {
    for (before, _) in ENVELOPES {
        for root in ROOTS {
            // The first member's value is evidence of JSON.
            let from = root.find(':').unwrap() + 3;
            for cut in (from..root.len() - 20)
                .step_by(5)
                .filter(|&cut| root.is_char_boundary(cut))
            {
                let (first, whole) = (
                    format!("{before}{}", &root[..cut]),
                    format!("{before}{root}"),
                );
                let text = delivered(&[&first, root], &mut Rng::new(cut as u64));
                assert_eq!(text.as_ref(), Some(&whole), "{first:?}");
            }
        }
    }
}

#[test]
fn an_array_of_scalars_is_the_root_if_no_object_follows() {
    for (text, root) in [
        ("Numbers: [1, 2, 3]", Some("[1, 2, 3]")),
        ("Tags: [\"a\", \"b\"]. That is all.", Some("[\"a\", \"b\"]")),
        (
            "Tags: [\"a\", \"b\"]\n\nAs an object:\n{\"a\": 1}",
            Some("{\"a\": 1}"),
        ),
        ("[1]\n{\"a\": 1}", Some("{\"a\": 1}")),
        ("[\"a\", 1]\n\n[{\"a\": 1}]", Some("[{\"a\": 1}]")),
        ("[1].\nMore.", Some("[1]")),
        ("[1]\nMore.", Some("[1]")),
        // The line continues: a reference, a link, a sentence.
        ("[1] Smith, J. Harbours of the north. 2019.", None),
        ("[1] \t says so.\n\nAll of it.", None),
        ("[1](https://example.org) has it.", None),
        ("[1]: https://example.org", None),
        ("[1] Smith 2019\n\n[\"a\", \"b\"]", Some("[\"a\", \"b\"]")),
        (
            "[\"a\", \"b\"] as an object:\n{\"a\": 1}",
            Some("{\"a\": 1}"),
        ),
        ("As [1] says: [2] is right.", None),
    ] {
        let mut document = restitch::Document::new(64);
        document.push(text).unwrap();
        let _ = document.finish();
        assert_eq!(document.root(), root, "{text:?}");
        let mut all = String::new();
        document.replay(&mut restitch::internal::json::each(|event, _| {
            all.push_str(event.name());
        }));
        let mut slow = restitch::Document::new(64);
        let mut slowly = String::new();
        let mut sink = restitch::internal::json::each(|event, _| slowly.push_str(event.name()));
        for c in text.chars() {
            slow.push_with(c.encode_utf8(&mut [0; 4]), &mut sink)
                .unwrap();
        }
        let _ = slow.finish_with(&mut sink);
        assert_eq!((slow.root(), &slowly), (root, &all), "{text:?}");
    }
    // An answer that is cut in a long array, or after a string, is continued. A copy that closes
    // everything after one value is believed the second time.
    let numbers = "Here:\n[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 1";
    check(
        &[
            numbers,
            &format!("{}9]", &numbers[6..]),
            &format!("{}9]", &numbers[6..]),
        ],
        &format!("{numbers}9]"),
    );
    check(
        &["Here:\n[\"one\", \"tw", "[\"one\", \"two\"]"],
        "Here:\n[\"one\", \"two\"]",
    );
}

#[test]
fn a_root_inside_unfinished_reasoning_is_found_at_the_end_of_the_text() {
    let mut document = restitch::Document::new(64);
    document.push("<think>Maybe so.\n\n{\"a\": [1, 2").unwrap();
    assert!(!document.is_json());
    assert!(document.finish().is_err());
    assert_eq!(document.complete().as_deref(), Some("{\"a\": [1]}"));
}

#[test]
fn a_draft_before_the_end_of_reasoning_is_not_the_last_root() {
    let text = "Maybe {\"a\": 1}?\nOr:\n{\"a\": 2}\nNo.\n</think>\n\n{\"a\": 3}";
    let mut document = restitch::Document::new(64);
    document.push(text).unwrap();
    assert_eq!((document.root(), document.roots()), (Some("{\"a\": 3}"), 2));
}

/// A document and a whole response choose by one rule; no split of the text shows.
#[test]
fn a_document_ends_with_the_root_that_parse_takes() {
    use restitch::repair::{RepairLevel, RepairOptions};
    use restitch::{AllowedRoots, Document, Trailing, value::LiveValue};
    for text in [
        "{\"a\": 1} {\"b\": 2}",
        "{\"a\": 1} {\"b\": \"2",
        "{\"status\": \"ok\"}\n{\"rows\": [{\"id\": 1}, {\"id\": \"2",
        "{\"a\":1}\n{\"a\":2}\n{\"a\":\"3",
        "Schema: {\"type\": \"object\"}\n\n{\"rows\": [1, 2]}",
        "Schema: {\"type\": \"object\"}\n```json\n{\"rows\": [1, 2]}\n```\nDone.",
        "{\"a\": 1}\n\nSo:\n{\"a\": 2}\n",
        "{\"a\": 1}\n\nAs in: {\"a\": [\"1",
        "```json\n{\"a\": 1}\n```\nAnd:\n{\"b\": \"2",
        "```json\n{\"a\": 1}\n```\nAnd:\n```json\n{\"b\": \"2",
        "{\"a\": 1}\n{\"b\": x}\n</think>{\"c\": \"3",
        "{\"rows\": [1, 2, 3, 4, 5, 6, 7, 8, 9]}\n{\"a\": 1} [see] {\"c\": 1}",
        "[TOOL_CALLS] [{\"name\": \"f\"}]",
        "[INST] {\"a\": \"b",
        "[Note]: {\"a\": [1]}",
    ] {
        let whole = restitch::shape::repair(text, &RepairOptions::new(RepairLevel::Strict));
        for (seed, trailing) in [
            (0, Trailing::Stop),
            (1, Trailing::Block),
            (2, Trailing::Stop),
        ] {
            let mut document = Document::with_options(64, AllowedRoots::Containers, trailing);
            let mut value = LiveValue::new();
            let cuts = match seed {
                2 => Vec::new(),
                seed => text_cuts(text, &mut Rng::new(seed)),
            };
            let mut start = 0;
            for end in cuts.into_iter().chain([text.len()]) {
                let piece = &text[std::mem::replace(&mut start, end)..end];
                document.push_with(piece, &mut value).unwrap();
            }
            let _ = document.finish_with(&mut value);
            assert_eq!(
                document.complete().as_deref(),
                Some(&*whole.json),
                "{text:?}"
            );
            assert_eq!(document.root_start(), Some(whole.range.start), "{text:?}");
            let shown: serde_json::Value = value.snapshot().unwrap();
            assert_eq!(
                shown,
                serde_json::from_str::<serde_json::Value>(&whole.json).unwrap()
            );
        }
    }
}

#[test]
fn a_withdrawn_root_leaves_no_value() {
    use restitch::{AllowedRoots, Document, value::LiveValue};
    for text in [
        "[True, 1]",
        "[See the docs]",
        "[1]: https://a.b",
        "[1] Smith",
    ] {
        let mut document = Document::with_roots(64, AllowedRoots::Any);
        let mut value = LiveValue::new();
        let mut names = Vec::new();
        let mut log = restitch::internal::json::each(|event, _| names.push(event.name()));
        document
            .push_with(text, &mut (&mut value, &mut log))
            .unwrap();
        assert_eq!(
            (document.root(), value.view().is_none()),
            (None, true),
            "{text:?}"
        );
        assert_eq!(names.last(), Some(&"withdrawn"));
    }
}

#[test]
fn text_that_touches_the_end_of_a_root_is_malformed() {
    use restitch::{AllowedRoots, Document, Trailing};
    for (text, offset) in [
        ("1.2.3.4", 3),
        ("2026-05-01", 4),
        ("\"a\"\"b\"", 3),
        ("truefalse", 4),
        ("null,", 4),
        ("12a", 2),
        ("{}}", 2),
        ("{\"a\": 1}{\"b\": 2}", 8),
        ("[1]\"a\"", 3),
        ("{\"a\": {\"b\": 1}}, \"c\": 2}", 17),
        ("{}, [1]", 4),
    ] {
        for trailing in [Trailing::Stop, Trailing::Block] {
            for chunk in [1, 3, 100] {
                let mut document = Document::with_options(16, AllowedRoots::Any, trailing);
                let bytes = text
                    .as_bytes()
                    .chunks(chunk)
                    .map(|chunk| std::str::from_utf8(chunk).unwrap());
                let error = bytes
                    .map(|piece| document.push(piece))
                    .find_map(Result::err);
                assert_eq!(error.map(|error| error.offset), Some(offset), "{text:?}");
            }
        }
    }
    for text in [
        "1",
        "1 ",
        "\"a\"\n",
        "true",
        "{} x",
        "{}.",
        "{}</answer>",
        "{}x",
        "{}, and",
        "```json\n1```",
        "[1]。",
    ] {
        let mut document = Document::with_roots(16, AllowedRoots::Any);
        document.push(text).unwrap();
        document.finish().unwrap();
    }
}

/// Prose answers with brackets, links, citations, formulas and code.
fn prose() -> Vec<String> {
    let texts = [
        include_str!("../cases/prose/writing.txt"),
        include_str!("../cases/prose/code.txt"),
    ];
    let all = texts
        .iter()
        .flat_map(|text| text.split("----\n"))
        .filter(|text| !text.trim().is_empty());
    all.map(str::to_owned).collect()
}

#[test]
fn prose_stays_prose() {
    let all = prose();
    assert!(all.len() >= 200);
    let ends = [
        CallEnd::Finished(Finish::Length),
        CallEnd::Finished(Finish::Stop),
        CallEnd::Dropped,
    ];
    let mut changed = Vec::new();
    for text in &all {
        let is_json_so_far = |text: &str| restitch::Document::new(64).push(text).is_ok();
        let cuts = (1..text.len())
            .step_by(7)
            .chain([text.len()])
            .filter(|&cut| text.is_char_boundary(cut));
        for cut in cuts {
            if is_json_so_far(&text[..cut]) && text.starts_with(['{', '[']) {
                // This text equals the beginning of a document.
                continue;
            }
            for end in &ends {
                let mut session = Session::new(Limits::default());
                session.handle_input(Duration::ZERO, Input::Text(&text[..cut]));
                session.handle_input(Duration::ZERO, Input::CallEnd(end.clone()));
                while let Some(output) = session.poll_output() {
                    if matches!(output, Output::Call { .. } | Output::Text(_)) {
                        changed.push(&text[..cut]);
                    }
                }
            }
        }
    }
    changed.dedup();
    assert!(changed.is_empty(), "{}: {changed:#?}", changed.len());
}
