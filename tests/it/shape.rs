//! Whole responses: where their root is, what was needed to read it, and the shape of its value.

use restitch::repair::{RepairLevel, RepairOptions, RepairRule, RepairStatus, undo};
use restitch::shape::{Expect, Parsed, RootKind, Shape, parse, repair};
use serde_json::Value;

/// The statuses by their names.
fn name(status: RepairStatus) -> &'static str {
    match status {
        RepairStatus::Valid => "valid",
        RepairStatus::Repaired => "repaired",
        RepairStatus::Truncated => "truncated",
        RepairStatus::Malformed(_) => "malformed",
    }
}

#[track_caller]
fn check_repair(level: RepairLevel, text: &str, status: &str, json: &str, rules: &[RepairRule]) {
    let repaired = repair(text, &RepairOptions::new(level));
    assert_eq!(
        (name(repaired.status), &*repaired.json),
        (status, json),
        "{text:?}"
    );
    let made: Vec<_> = repaired.repairs.iter().map(|repair| repair.rule).collect();
    assert_eq!(made, rules, "{text:?}");
    for repair in &repaired.repairs {
        assert_eq!(&text[repair.range.clone()], repair.original, "{text:?}");
    }
    if status != "malformed" {
        let before = &text[..repaired.range.start];
        assert_eq!(
            undo(&format!("{before}{}", repaired.json), &repaired.repairs),
            text[..repaired.range.end]
        );
    }
}

const ALL: [RepairLevel; 3] = RepairLevel::ALL;

#[test]
fn the_envelope_is_no_repair() {
    for (text, json) in [
        ("{\"a\": 1}", "{\"a\": 1}"),
        (" \n[1]\n", "[1]"),
        ("\u{feff}{}", "{}"),
        ("Here it is: {\"a\":1}. Bye", "{\"a\":1}"),
        ("```\n{\"a\":\"b\"}\n```", "{\"a\":\"b\"}"),
        ("```\n{\"a\":\"b\"}\n", "{\"a\":\"b\"}"),
        ("\n ```json\n{\"a\":\"b\"}\n```\n  ", "{\"a\":\"b\"}"),
        ("```json{\"a\":\"b\"}```", "{\"a\":\"b\"}"),
        ("{```\n{\"a\":\"b\"}\n```}", "{\"a\":\"b\"}"),
        ("```json\nnull\n```", "null"),
        ("<think>{\"b\": 2}</think>\n{\"a\": 1}", "{\"a\": 1}"),
        ("\n/* foo */\n{}", "{}"),
        ("// {\"old\": 1}\n{\"a\": 1}", "{\"a\": 1}"),
        ("{} /* foo */ ", "{}"),
        ("callback_123({});", "{}"),
        ("callback({}", "{}"),
        ("\n/* foo\nbar */\ncallback_123 ({});\n\n", "{}"),
        (
            "See [1] and [the page](http://a.b): {\"a\": [2]}",
            "{\"a\": [2]}",
        ),
        ("First [1](a) then\n- [ ] do\n{\"a\": 1}", "{\"a\": 1}"),
        (
            "Python:\n```python\nx = {\"a\": 1}\n```\nJSON:\n```json\n{\"b\": 2}\n```",
            "{\"b\": 2}",
        ),
        (
            "Either {\"a\": 1} or\n```json\n{\"b\": 2}\n```",
            "{\"b\": 2}",
        ),
        (
            "{\"a\": \"```json\\n{}\\n```\"}",
            "{\"a\": \"```json\\n{}\\n```\"}",
        ),
    ] {
        for level in ALL {
            check_repair(level, text, "valid", json, &[]);
        }
    }
}

#[test]
fn a_fence_inside_a_string_does_not_end_the_block() {
    let root =
        r#"{"steps": "Run:\n```sh\nmoor --now\n```\nthen wait", "berths": [1, 2], "x": "```"}"#;
    let whole: Value = serde_json::from_str(root).unwrap();
    for level in ALL {
        for (before, after) in [
            ("```json\n", ""),
            ("Here:\n````\n", "\n````\nBye"),
            ("```\n", "\n```"),
        ] {
            check_repair(level, &format!("{before}{root}{after}"), "valid", root, &[]);
            // Cut after the berths.
            let text = format!("{before}{}{after}", &root[..root.len() - 12]);
            let repaired = repair(&text, &RepairOptions::new(level));
            let value: Value = serde_json::from_str(&repaired.json).unwrap();
            assert_eq!(
                (name(repaired.status), &value["steps"]),
                ("truncated", &whole["steps"]),
                "{text:?}"
            );
            assert_eq!(value["berths"], whole["berths"], "{text:?}");
        }
    }
}

#[test]
fn reasoning_ends_with_its_tag_and_may_hold_the_root_without_it() {
    for (text, json) in [
        (
            "Maybe {\"b\": 2} would do.\n</think>\n\n{\"a\": 1}",
            "{\"a\": 1}",
        ),
        (
            "{\"b\": 2}\n</thinking>```json\n{\"a\": 1}\n```",
            "{\"a\": 1}",
        ),
        (
            "```json\n{\"b\": 2}\n```\n</think>\nSo {\"a\": 1}",
            "{\"a\": 1}",
        ),
        ("{\"a\": \"x </think> y\"}", "{\"a\": \"x </think> y\"}"),
        ("{\"a\": 1}\n</think>\n", "{\"a\": 1}"),
    ] {
        for level in ALL {
            check_repair(level, text, "valid", json, &[]);
        }
    }
    // Reasoning that does not end was cut: the answer had not begun.
    for (text, json) in [
        ("<think>hm", ""),
        ("<think>hm {\"a\": 1}", "{\"a\": 1}"),
        ("<think>\nOr [1]?\n\n{\"a\": 1}", "{\"a\": 1}"),
        (
            "<thinking>Draft:\n```json\n{\"a\": 1}\n```\nbut",
            "{\"a\": 1}",
        ),
        ("<think>1</think><reasoning>\n{\"a\": 1} ", "{\"a\": 1}"),
    ] {
        for level in ALL {
            check_repair(level, text, "truncated", json, &[]);
        }
    }
    let parsed = parse("It is so.\n</think>\n<p>1</p>", &stage("fact_check")).unwrap();
    assert_eq!(parsed.json, "\"<p>1</p>\"");
}

#[test]
fn a_score_chooses_among_several_roots() {
    for (text, json) in [
        // It begins a line.
        (
            "First {\"a\": 1}, but then:\n{\"a\": 2}\nSo not {\"a\": 3}.",
            "{\"a\": 2}",
        ),
        // The text ends with it.
        ("Draft:\n{\"a\": 1}\n\nFinal:\n{\"a\": 2}\n", "{\"a\": 2}"),
        ("Use {\"a\": 1}, no, {\"a\": 2}", "{\"a\": 2}"),
        // It is far larger, and comes first.
        (
            "{\"rows\": [{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]}\n\nA row is\n{\"a\": 1}",
            "{\"rows\": [{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]}",
        ),
        // Lines of NDJSON are one series.
        ("Rows:\n{\"a\": 1}\n{\"a\": 2}\n{\"a\": 3}\n", "{\"a\": 1}"),
        ("{\"a\": 1} {\"b\": 2}", "{\"a\": 1}"),
        // A sentence after the answer has an example, and is cut.
        ("{\"a\": [1, 2]}\n\nAs in: {\"a\": [1", "{\"a\": [1, 2]}"),
    ] {
        for level in ALL {
            check_repair(level, text, "valid", json, &[]);
        }
    }
}

#[test]
fn the_root_in_which_the_text_is_cut_is_the_answer() {
    for (text, json) in [
        ("{\"a\":1}\n{\"a\":2}\n{\"a\":3", "{\"a\":3}"),
        (
            "{\"status\": \"ok\"}\n{\"rows\": [{\"id\": 1}, {\"id\": 2",
            "{\"rows\": [{\"id\": 1}, {\"id\": 2}]}",
        ),
        ("{\"a\": [1, 2, 3, 4, 5]}\n[1, \"b", "[1, \"b\"]"),
        ("{\"a\": 1} {\"b\": \"c", "{\"b\": \"c\"}"),
        (
            "Schema: {\"type\": \"object\"} Answer: {\"a\": \"b",
            "{\"a\": \"b\"}",
        ),
    ] {
        for level in ALL {
            let repaired = repair(text, &RepairOptions::new(level));
            assert_eq!(
                (name(repaired.status), &*repaired.json),
                ("truncated", json),
                "{text:?}"
            );
            assert!(!repaired.others.is_empty());
        }
    }
}

#[test]
fn a_root_is_read_after_a_cut_copy_of_itself() {
    let whole = "{\"berth\": \"A4\", \"pilots\": [\"S\", \"L\"]}";
    for cut in [
        "{\"berth\": \"A4\", \"pil",
        "{\"berth\": \"A4",
        "{\"berth\": \"A4\", \"pilots\": [\"S",
    ] {
        for level in ALL {
            check_repair(level, &format!("{cut}{whole}"), "valid", whole, &[]);
        }
    }
    // A string that quotes JSON is not a copy.
    let quotes = "{\"reply\": \"It said {\"reply\": \"x\"}\"}";
    let json = "{\"reply\": \"It said {\\\"reply\\\": \\\"x\\\"}\"}";
    let repaired = repair(quotes, &RepairOptions::default());
    assert_eq!((name(repaired.status), &*repaired.json), ("repaired", json));
}

#[test]
fn a_scalar_is_a_root_only_alone() {
    for json in [
        "null",
        "\"a\"",
        "23",
        "-0",
        "2300e3",
        "\"[\"",
        "\",\"",
        "true",
        "\"/* foo */\"",
    ] {
        check_repair(
            RepairLevel::Guess,
            &format!(" {json}\n"),
            "valid",
            json,
            &[],
        );
    }
    for text in [
        "23 apples",
        "\"Yes\" is the answer",
        "No.",
        "null and void",
        "Hello.",
        "]",
        "true\nfalse",
    ] {
        check_repair(RepairLevel::Guess, text, "malformed", "", &[]);
    }
    check_repair(
        RepairLevel::Guess,
        "1, \"a\"",
        "repaired",
        "[1, \"a\"]",
        &[RepairRule::LostBrackets; 2],
    );
}

#[test]
fn what_ends_early_is_truncated() {
    for text in ["", " \n", "```json\n", "// a"] {
        for level in ALL {
            check_repair(level, text, "truncated", "", &[]);
        }
    }
    for text in [
        "[1, [2",
        "Here: [1, [2",
        "```json\n[1, [2",
        "```json\n[1, [2\n```\n",
        "```json\n[1, [2\n```\nBye [3].",
    ] {
        let repaired = repair(text, &RepairOptions::new(RepairLevel::Strict));
        assert_eq!(name(repaired.status), "truncated", "{text:?}");
    }
}

#[test]
fn special_tokens_end_a_text() {
    use RepairRule::Closed;
    for (text, status, json, rules) in [
        ("{\"a\": 1}<|im_end|>\n", "valid", "{\"a\": 1}", &[][..]),
        (
            "{\"a\": 1}\n<|im_end|> <|eot_id|>",
            "valid",
            "{\"a\": 1}",
            &[],
        ),
        ("[\"<|im_end|>\"]", "valid", "[\"<|im_end|>\"]", &[]),
        (
            "{\"a\": \"x\"<|eot_id|>",
            "truncated",
            "{\"a\": \"x\"}",
            &[Closed],
        ),
        (
            "{\"a\": \"x<|im_end|>",
            "truncated",
            "{\"a\": \"x\"}",
            &[Closed],
        ),
        (
            "{\"a\": \"x<｜end▁of▁sentence｜>",
            "truncated",
            "{\"a\": \"x\"}",
            &[Closed],
        ),
        (
            "{\"a\": \"x |>",
            "truncated",
            "{\"a\": \"x |>\"}",
            &[Closed],
        ),
    ] {
        check_repair(RepairLevel::Guess, text, status, json, rules);
    }
}

#[test]
fn a_cut_copy_before_the_whole_object_is_no_root() {
    for (text, json) in [
        (
            "{\"berth\": \"A4\", \"pil{\"berth\": \"A4\", \"pilots\": [\"S\"]}",
            "{\"berth\": \"A4\", \"pilots\": [\"S\"]}",
        ),
        (
            "So: {\"a\": {\"a\": \"x{\"a\": {\"a\": \"xy\"}}\n",
            "{\"a\": {\"a\": \"xy\"}}",
        ),
        (
            "{\"a\": 1, \"b\"{\"a\": 1, \"b\": 2}",
            "{\"a\": 1, \"b\": 2}",
        ),
    ] {
        check_repair(RepairLevel::Guess, text, "valid", json, &[]);
    }
    // Here the object is a value.
    check_repair(
        RepairLevel::Guess,
        "{\"a\": {\"a\": 1}",
        "truncated",
        "{\"a\": {\"a\": 1}}",
        &[RepairRule::Closed],
    );
}

#[test]
fn what_follows_a_root() {
    use RepairRule::{ExtraCloser, ExtraComma, LostBrackets};
    for (text, json, rules) in [
        ("{\"a\": 1}}", "{\"a\": 1}", &[ExtraCloser][..]),
        ("{\"a\": 1 }  }  ]  }  ", "{\"a\": 1 }", &[ExtraCloser; 3]),
        ("{},", "{}", &[ExtraComma]),
        ("```json\n[1,2,3],\n```", "[1,2,3]", &[ExtraComma]),
        (
            "{\"a\":1}, [2]",
            "[{\"a\":1}, [2]]",
            &[LostBrackets, LostBrackets],
        ),
        (
            "{\"a\":1},\n{\"b\":2},\n",
            "[{\"a\":1},\n{\"b\":2}]",
            &[LostBrackets, LostBrackets, ExtraComma],
        ),
        (
            "{\"a\":1}, 2, null",
            "[{\"a\":1}, 2, null]",
            &[LostBrackets, LostBrackets],
        ),
    ] {
        check_repair(RepairLevel::Guess, text, "repaired", json, rules);
        let repaired = repair(text, &RepairOptions::new(RepairLevel::Strict));
        assert_eq!(name(repaired.status), "malformed", "{text:?}");
    }
    // Prose goes on as prose does.
    check_repair(
        RepairLevel::Guess,
        "{\"a\":1}, and that is all",
        "valid",
        "{\"a\":1}",
        &[],
    );
    check_repair(
        RepairLevel::Guess,
        "{\"a\":1}, 2 of them",
        "valid",
        "{\"a\":1}",
        &[],
    );
    check_repair(
        RepairLevel::Strict,
        "[see {\"a\":1}]",
        "valid",
        "{\"a\":1}",
        &[],
    );
}

#[test]
fn text_around_a_root_that_belongs_to_it_is_not_dropped() {
    // Members, elements and brackets before the root, or around it.
    for (text, error) in [
        ("\"a\": 1,\n\"b\": {\"c\": 2}\n", 0),
        ("\"a\": 1, \"b\": {\"c\": 2}}", 0),
        ("\"a\": \"x\", \"b\": {\"c\": 2}, \"d\": [1, 2]}", 0),
        ("\"a\": \"x\", \"b\": [{\"c\": 2}, {\"c\": 3}]}", 0),
        ("\"a\", {\"c\": 2} and so on", 0),
        ("{ see below\n \"x\": \"y\", \"m\": {\"k\": 1}}", 0),
        ("{ <b>, \"x\": \"y\", \"m\": {\"k\": 1}}", 0),
        (
            "{a b c \"x\": [{\"k\": 1}, {\"k\": 2}], \"z\": \"more\"}",
            0,
        ),
        ("{ {\"a\": 1}, {\"b\": 2} }", 0),
        ("Here it is:\n```json\n\"a\": {\"c\": 2}\n```\n", 20),
        ("{\"a\": 1, \"b\": 2} \"c\": 3}", 17),
        ("{\"a\": 1, \"b\": 2}\n\"c\": 3", 17),
        ("[1, 2], 3, 4]", 6),
    ] {
        for level in ALL {
            let repaired = repair(text, &RepairOptions::new(level));
            let RepairStatus::Malformed(found) = repaired.status else {
                panic!("{level} {text:?}: {repaired:?}")
            };
            assert_eq!(found.offset, error, "{level} {text:?}");
            assert!(
                parse(text, &Expect::any().repairs(RepairOptions::new(level))).is_err(),
                "{level} {text:?}"
            );
        }
    }
    // Only a guess takes them into the root.
    for text in [
        "{\"a\": {\"x\": 1}}, \"b\": 2}",
        "Here: {\"a\": {\"x\": 1}}, \"b\": 2}",
    ] {
        for level in [RepairLevel::Strict, RepairLevel::Syntax] {
            let repaired = repair(text, &RepairOptions::new(level));
            assert_eq!(name(repaired.status), "malformed", "{level} {text:?}");
        }
        let repaired = repair(text, &RepairOptions::new(RepairLevel::Guess));
        assert_eq!(
            (name(repaired.status), &*repaired.json),
            ("repaired", "{\"a\": {\"x\": 1}, \"b\": 2}"),
            "{text:?}"
        );
    }
    // Prose has quotes, colons and brackets, too.
    for text in [
        "The \"x\" of it, for \"y\": {\"a\": 1}. Bye",
        "He said \"so\", {\"a\": 1}",
        "{\"a\": 1}\n\n- \"a\": the first one\n- all in [0, 1]",
        "{\"a\": 1}\n\n\"a\": the first one",
        "{\"a\": 1}, a \"smile\" :] and more",
        "{\"a\": 1}\n\nNot \"b\" (0, 1]",
        "Write {name} and \"x\":\n{\"a\": 1}",
        "```json\n{\"a\": 1}\n```\n\"b\": 2}",
    ] {
        for level in ALL {
            check_repair(level, text, "valid", "{\"a\": 1}", &[]);
        }
    }
}

#[test]
fn an_array_of_scalars_before_an_object_is_no_root() {
    for (text, status, json) in [
        (
            "[1, 2, 3]\n\n{\"a\": \"Use it\", \"b\": [{\"id\": 1, \"na",
            "truncated",
            "{\"a\": \"Use it\", \"b\": [{\"id\": 1}]}",
        ),
        (
            "[2024-01-01 10:00] start\n{\"a\": [\"b\"]}",
            "valid",
            "{\"a\": [\"b\"]}",
        ),
        ("[\"x\", \"y\"] then {\"a\": 1}", "valid", "{\"a\": 1}"),
        ("[1, 2, 3]\n\nthen [{\"a\": 1}]", "valid", "[1, 2, 3]"),
        ("```json\n[1, 2, 3]\n```\n{\"a\": 1}", "valid", "[1, 2, 3]"),
    ] {
        let repaired = repair(text, &RepairOptions::default());
        assert_eq!(
            (name(repaired.status), &*repaired.json),
            (status, json),
            "{text:?}"
        );
    }
}

#[test]
fn further_roots_are_in_the_report() {
    let repaired = repair("{\"a\":1}\n{\"a\":2}\n[3]\n", &RepairOptions::default());
    let others: Vec<_> = repaired
        .others
        .iter()
        .map(|root| (&*root.json, root.range.clone()))
        .collect();
    assert_eq!(
        (&*repaired.json, others),
        ("{\"a\":1}", vec![("{\"a\":2}", 8..15), ("[3]", 16..19)])
    );
    // A root that can't be repaired stays the root: nothing inside it is taken for another.
    let repaired = repair(
        "{\"a\": [1, 01], \"b\": {\"c\": 1}}\n{\"d\": 1}",
        &RepairOptions::new(RepairLevel::Strict),
    );
    assert_eq!(
        (name(repaired.status), &*repaired.json),
        ("malformed", "{\"a\": [1, 0]}")
    );
    assert_eq!(repaired.others.len(), 1);
}

#[track_caller]
fn parsed<'t>(text: &'t str, expect: &Expect) -> Parsed<'t> {
    parse(text, expect).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn stage(name: &str) -> Expect {
    Expect::shape(Shape::stage(name).unwrap())
}

const ULTIMATE: &str = r#"{"article_structure": [{"section_title": "One"}], "writing_guidelines": {"target_audience": "all"}}"#;

#[track_caller]
fn check(text: &str, expect: &Expect, json: &str, shape: Option<&str>) {
    let parsed = parsed(text, expect);
    assert_eq!(
        (&*parsed.json, parsed.shape.as_deref()),
        (json, shape),
        "{text:?}"
    );
}

#[test]
fn ultimate_structure_is_not_wrapped() {
    for expect in [
        Expect::any(),
        stage("ultimate_structure"),
        stage("extract_prompts"),
        stage("link_processing"),
    ] {
        check(ULTIMATE, &expect, ULTIMATE, Some("ultimate_structure"));
    }
    let wrapped = format!("{{\"data\": {ULTIMATE}}}");
    check(
        &wrapped,
        &stage("ultimate_structure"),
        ULTIMATE,
        Some("ultimate_structure"),
    );
}

#[test]
fn an_array_of_structures_is_as_it_is() {
    let text = r#"[{"section_title": "One"}, {"section_title": "Two"}]"#;
    for expect in [Expect::any(), stage("extract_prompts")] {
        check(text, &expect, text, Some("extract_prompts"));
    }
    check("[1, 2]", &Expect::any(), "[1, 2]", None);
    check(
        "[1, 2]",
        &stage("extract_prompts"),
        "[1, 2]",
        Some("extract_prompts"),
    );
}

#[test]
fn a_single_structure_is_wrapped_if_a_stage_was_chosen() {
    let text = r#"{"section_title": "One"}"#;
    check(
        text,
        &stage("extract_prompts"),
        r#"[{"section_title": "One"}]"#,
        Some("extract_prompts"),
    );
    check(text, &Expect::any(), text, None);
    check(
        r#"{"a": 1}"#,
        &stage("link_processing"),
        r#"[{"a": 1}]"#,
        Some("link_processing"),
    );
}

#[test]
fn a_data_wrapper_is_taken_off() {
    let text = r#"{"data": [{"section_title": "One"}], "model": {"a": [1]}}"#;
    for expect in [Expect::any(), stage("extract_prompts")] {
        check(
            text,
            &expect,
            r#"[{"section_title": "One"}]"#,
            Some("extract_prompts"),
        );
        let dropped = parsed(text, &expect).dropped;
        assert_eq!(
            (
                dropped.len(),
                dropped[0].path.as_str(),
                dropped[0].json.as_str()
            ),
            (1, "/model", r#"{"a": [1]}"#)
        );
    }
    check(
        r#"{"data": {"section_title": "One"}}"#,
        &stage("extract_prompts"),
        r#"[{"section_title": "One"}]"#,
        Some("extract_prompts"),
    );
}

#[test]
fn members_stay_beside_data_without_a_shape() {
    for text in [
        r#"{"data": 1}"#,
        r#"{"shape": [2, 2], "data": [[1, 2], [3, 4]], "mask": [[0, 1], [1, 1]]}"#,
        r#"{"data": {"user": {"id": 1}}, "errors": [{"message": "no access"}]}"#,
        r#"{"link_plan": [], "has_more": true}"#,
    ] {
        check(text, &Expect::any(), text, None);
        assert!(parsed(text, &Expect::any()).dropped.is_empty());
    }
    check(
        r#"{"data": [1], "has_more": true}"#,
        &stage("extract_prompts"),
        "[1]",
        Some("extract_prompts"),
    );
}

#[test]
fn a_link_plan_is_taken_out() {
    let text = r#"{"link_plan": [{"anchor_text": "a", "query": "q", "section": "s", "ref_id": "r"}], "notes": "n"}"#;
    for expect in [
        Expect::any(),
        stage("link_processing"),
        stage("link-processing"),
    ] {
        let parsed = parsed(text, &expect);
        let json = r#"[{"anchor_text": "a", "query": "q", "section": "s", "ref_id": "r"}]"#;
        assert_eq!(
            (&*parsed.json, parsed.shape.as_deref()),
            (json, Some("link_processing"))
        );
        assert_eq!(
            (
                parsed.dropped[0].path.as_str(),
                parsed.dropped[0].json.as_str()
            ),
            ("/notes", "\"n\"")
        );
    }
    check(
        r#"{"link_plan": []}"#,
        &stage("link_processing"),
        "[]",
        Some("link_processing"),
    );
}

#[test]
fn editorial_review_is_as_it_is() {
    for key in ["title", "excerpt", "slug"] {
        let text = format!(r#"{{"content": "<p>x</p>", "{key}": "t", "data": {{"words": 1}}}}"#);
        for expect in [
            Expect::any(),
            stage("editorial_review"),
            stage("extract_prompts"),
        ] {
            check(&text, &expect, &text, Some("editorial_review"));
        }
    }
    check(
        r#"{"content": "x"}"#,
        &Expect::any(),
        r#"{"content": "x"}"#,
        None,
    );
    let parsed = parsed(r#"{"content": "x"}"#, &stage("ultimate_structure"));
    assert_eq!(parsed.violations.len(), 1);
}

#[test]
fn fact_check_is_html_as_it_is() {
    let html = "<h2>One</h2>\n<p>{\"a\": 1} <a href=\"https://a.b\">x</a></p>";
    let expect = stage("fact_check");
    for (text, attempt) in [
        (html.to_owned(), "1"),
        (format!("<think>[1]</think>\n{html}\n"), "2"),
        (format!("```html\n{html}\n```"), "3"),
        (format!("<think>\n</think>\n```html\n{html}\n```\n"), "3"),
    ] {
        let parsed = parsed(&text, &expect);
        let said: String = serde_json::from_str(&parsed.json).unwrap();
        assert_eq!(
            (said.as_str(), parsed.attempt.as_str()),
            (html, attempt),
            "{text:?}"
        );
        assert_eq!(
            (parsed.shape.as_deref(), &text[parsed.range]),
            (Some("fact_check"), html)
        );
    }
    assert!(parse(" \n", &expect).is_err());
}

#[test]
fn keys_with_backslashes_are_renamed_where_a_shape_has_them() {
    let text = r#"[{"prompt\\_text": "a", "why\\_good": "b\\_c", "x\\_y": 1}, {"prompt\\_text": 2, "prompt_text": 3}]"#;
    let json = r#"[{"prompt_text": "a", "why_good": "b\\_c", "x\\_y": 1}, {"prompt\\_text": 2, "prompt_text": 3}]"#;
    for expect in [Expect::any(), stage("extract_prompts")] {
        let parsed = parsed(text, &expect);
        assert_eq!((&*parsed.json, parsed.status), (json, RepairStatus::Valid));
        let renamed: Vec<_> = parsed
            .renamed
            .iter()
            .map(|key| (key.path.as_str(), key.to.as_str()))
            .collect();
        assert_eq!(
            renamed,
            [
                ("/0/prompt\\_text", "prompt_text"),
                ("/0/why\\_good", "why_good")
            ]
        );
    }
    // No shape has the key.
    check(
        r#"{"prompt\\_text": 1}"#,
        &Expect::any(),
        r#"{"prompt\\_text": 1}"#,
        None,
    );
    let text = r#"{"article\\_structure": [], "writing\\_guidelines": {}}"#;
    check(
        text,
        &Expect::any(),
        r#"{"article_structure": [], "writing_guidelines": {}}"#,
        Some("ultimate_structure"),
    );
}

#[test]
fn attempts_are_the_highest_kind() {
    for (text, attempt) in [
        (" {\"a\": 1}\n", "1"),
        ("{\"a\": 1", "1.5"),
        ("Here it is: {\"a\": 1}", "2"),
        ("\u{feff}{\"a\": 1}", "2"),
        ("{\"a\": 1} Bye", "2"),
        ("```json\n{\"a\": 1}\n```", "3"),
        ("Here:\n```json\n{\"a\": 1}\n```\nBye", "3"),
        ("See [1]: {\"a\": 1}", "4"),
        ("{\"a\": 1} {\"b\": 1}", "4"),
        ("See [1]:\n```json\n{\"a\": 1}\n```\nBye", "4"),
    ] {
        assert_eq!(
            parsed(text, &Expect::any()).attempt.as_str(),
            attempt,
            "{text:?}"
        );
    }
    for text in ["", "Sorry, I can't.", "```\nplain\n```", "{\"a\": \u{1}}"] {
        assert!(
            parse(
                text,
                &Expect::any().repairs(RepairOptions::new(RepairLevel::Strict))
            )
            .is_err(),
            "{text:?}"
        );
    }
}

/// The mistakes that the fixes of attempt 1.5 are for.
#[test]
fn mistakes_of_models_are_repaired() {
    for (text, json) in [
        (r#"{"context_after: "x"}"#, r#"{"context_after": "x"}"#),
        (r#"{"hint: {"a": 1}}"#, r#"{"hint": {"a": 1}}"#),
        ("{\"a\": \"x\ty\nz\"}", r#"{"a": "x\ty\nz"}"#),
        (r#"{"prompt\_text": "a"}"#, r#"{"prompt_text": "a"}"#),
        (r#"[{"a": 1}], {"a": 2}]"#, r#"[{"a": 1}, {"a": 2}]"#),
        (
            r#"{"a": "<a href="x">y</a>"}"#,
            r#"{"a": "<a href=\"x\">y</a>"}"#,
        ),
        (r#"{"a": 1 "b": 2}"#, r#"{"a": 1, "b": 2}"#),
    ] {
        let expect = Expect::any();
        let alone = parsed(text, &expect);
        assert_eq!(
            (alone.attempt.as_str(), &*alone.json),
            ("1.5", json),
            "{text}"
        );
        for (around, attempt) in [("```json\n{}\n```", "3"), ("Here it is:\n{}\nBye.", "2")] {
            let text = around.replace("{}", text);
            let parsed = parsed(&text, &expect);
            assert_eq!(
                (parsed.attempt.as_str(), &*parsed.json),
                (attempt, json),
                "{text}"
            );
            for repair in &parsed.repairs {
                assert_eq!(text[repair.range.clone()], repair.original, "{text}");
            }
        }
    }
    // What the shape is for, after a repair.
    check(
        r#"{"data": [{"prompt\_text": "a",}], "n": 1}"#,
        &stage("extract_prompts"),
        r#"[{"prompt_text": "a"}]"#,
        Some("extract_prompts"),
    );
}

#[test]
fn of_several_roots_the_first_of_the_shape_is_taken() {
    let text = "For {\"a\": 1} and {\"section_title\": \"One\"}:\n```json\n[{\"section_title\": \"Two\"}]\n```\n```json\n{\"b\": 1}\n```";
    let parsed_as = |expect: &Expect| parsed(text, expect);
    assert_eq!(
        &*parsed_as(&stage("extract_prompts")).json,
        "[{\"section_title\": \"Two\"}]"
    );
    assert_eq!(
        &*parsed_as(&Expect::any()).json,
        "[{\"section_title\": \"Two\"}]"
    );
    let mut shape = Shape::new("b", RootKind::Object);
    shape.required = vec!["b".to_owned()];
    let b = parsed_as(&Expect::shape(shape));
    assert_eq!(
        (&*b.json, b.shape.as_deref(), b.others.len()),
        ("{\"b\": 1}", Some("b"), 3)
    );
    let mut shape = Shape::new("a", RootKind::Object);
    shape.required = vec!["a".to_owned()];
    assert_eq!(&*parsed_as(&Expect::shape(shape)).json, "{\"a\": 1}");
}

#[cfg(feature = "schema")]
#[test]
fn a_schema_chooses_and_is_checked() {
    use restitch::shape::Schema;

    let schema: Schema =
        r#"{"type": "object", "required": ["b"], "properties": {"b": {"type": "integer"}}}"#
            .parse()
            .unwrap();
    let expect = Expect::any().schema(schema);
    let chosen = parsed("{\"a\": 1}\n{\"b\": 2}", &expect);
    assert_eq!((&*chosen.json, chosen.violations.len()), ("{\"b\": 2}", 0));
    let wrong = parsed("{\"b\": \"2\"}", &expect);
    assert_eq!(
        (&*wrong.json, wrong.violations[0].path.as_str()),
        ("{\"b\": \"2\"}", "/b")
    );
    // Beside a schema no stage is recognised.
    assert_eq!(&*parsed("{\"data\": 1}", &expect).json, "{\"data\": 1}");
    assert!(r#"{"$ref": "https://example.org/a.json"}"#.parse::<Schema>().is_err());
    assert!("{".parse::<Schema>().is_err());
}

/// A brace is missing after `c` or after `d`: nothing in the text says where.
#[cfg(feature = "schema")]
#[test]
fn a_schema_decides_between_guesses() {
    use restitch::shape::Schema;

    let text = "[{\"a\": 1, \"b\": {\"c\": 2, \"d\": 3}, {\"a\": 4}]";
    let inside = "[{\"a\": 1, \"b\": {\"c\": 2, \"d\": 3}}, {\"a\": 4}]";
    let outside = "[{\"a\": 1, \"b\": {\"c\": 2}, \"d\": 3}, {\"a\": 4}]";
    for (schema, json, violations) in [
        (
            r#"{"items": {"properties": {"b": {"required": ["d"]}}}}"#,
            inside,
            0,
        ),
        (
            r#"{"items": {"properties": {"b": {"maxProperties": 1}}}}"#,
            outside,
            0,
        ),
        // No guess makes the root a valid one: the likeliest stays.
        (r#"{"items": {"required": ["e"]}}"#, inside, 2),
    ] {
        let found = parsed(
            text,
            &Expect::any().schema(schema.parse::<Schema>().unwrap()),
        );
        assert_eq!(
            (&*found.json, found.violations.len()),
            (json, violations),
            "{schema}"
        );
    }
    assert_eq!(&*parsed(text, &Expect::any()).json, inside);
}

/// Texts with many brackets that begin no root, or a root each. An attempt allocates for the text
/// that it reads, so the allocated bytes count the work.
#[test]
fn the_search_is_linear() {
    let check = |text: &str, options: &RepairOptions| {
        let [few, many] = [5_000, 20_000].map(|times| {
            let text = text.repeat(times);
            allocation_counter::measure(|| drop(repair(&text, options))).bytes_total
        });
        // Four times, and the spare room of buffers that double. Quadratic work has sixteen times.
        assert!(
            many <= 6 * few,
            "{text:?}: {few} bytes, and {many} for a text of four times the length"
        );
    };
    let texts = [
        "{\"a\" :x:x [\n",
        "[[",
        "{\"",
        "```json\n{",
        "[1](",
        "{a: ",
        "\n{\"a\": [1, 01",
        "[\"a\", ",
        "```",
        "{},",
    ];
    for text in texts {
        for level in [RepairLevel::Strict, RepairLevel::Syntax] {
            check(text, &RepairOptions::new(level));
        }
    }
    for text in [
        "[[",
        "```json\n{",
        "[1](",
        "```",
        "See {x} and [y]. ",
        "{\"a\": 1}\n",
    ] {
        check(text, &RepairOptions::default());
    }
}
