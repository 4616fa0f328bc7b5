//! What a continuation asks for: the prompt and its parts, prefixes, and what a provider's answer
//! to them teaches.

use std::time::Duration;

use restitch::Limits;
use restitch::internal::chat::{self, Changes, Rest};
use restitch::internal::prompt::{Parts, QuestionForm, task};
use restitch::provider::Finish;
use restitch::provider::capability::{PrefillForm, Switch};
use restitch::session::{
    CallEnd, ContinuationMode, ContinuationStrategy, Input, Output, PrefillOptions, Prompt,
    Request, Session, Status, TemplateError, Turn,
};
use serde_json::Value;

const NOW: Duration = Duration::ZERO;

fn parts() -> Parts<'static> {
    let mut parts = Parts::new("{\"rows\": [[1, 2], [3, ", "[3,");
    parts.delivered_summary = Some("- rows with 2 items");
    parts.element_before_cutoff = Some("[1, 2]");
    parts.cut_off_element = Some("[3, ");
    parts
}

#[test]
fn parts_stand_in_their_order_and_only_where_they_are_known() {
    let known =
        |words: &str, name: &str, text: &str| format!("{words}\n\n<{name}>\n{text}\n</{name}>\n\n");
    let task = task(QuestionForm::Anchor, false);
    let repeated = "<overlap_context>\n[3,\n</overlap_context>";
    let context = [
        known(
            "So far I have this:",
            "delivered_summary",
            "- rows with 2 items",
        ),
        known(
            "The last element that I have whole:",
            "element_before_cutoff",
            "[1, 2]",
        ),
        known(
            "It stops inside this element. I have this much of it, and nothing after it:",
            "cut_off_element",
            "[3, ",
        ),
    ];
    assert_eq!(
        Prompt::default().render(&parts()),
        format!("{}{task}\n\n{repeated}", context.concat())
    );
    assert_eq!(
        Prompt::default().render(&Parts::new("[3,", "[3,")),
        format!("{task}\n\n{repeated}")
    );
}

/// The operator's text is the whole message, and an empty placeholder leaves no lines at an end.
#[test]
fn an_own_instruction_is_the_whole_message() {
    let own = Prompt::default()
        .with_instruction("{{context}}\n\nWeiter:\n{{ overlap_context }}\n\n{{continue_mark}}")
        .unwrap();
    let repeated = "Weiter:\n<overlap_context>\n[3,\n</overlap_context>";
    let context = "<delivered_summary>\n- rows with 2 items\n</delivered_summary>\n\n\
        <element_before_cutoff>\n[1, 2]\n</element_before_cutoff>\n\n\
        <cut_off_element>\n[3, \n</cut_off_element>";
    assert_eq!(own.render(&parts()), format!("{context}\n\n{repeated}"));
    let mut bare = Parts::new("[3,", "[3,");
    assert_eq!(own.render(&bare), repeated);
    bare.question.mark = Some("~~123456~~");
    let mark = "<continue_mark>\n~~123456~~\n</continue_mark>";
    assert_eq!(own.render(&bare), format!("{repeated}\n\n{mark}"));
    // Questions with another task keep their own words.
    for form in [
        QuestionForm::Rerooted,
        QuestionForm::RerootedAgain,
        QuestionForm::ToolInput,
        QuestionForm::Again,
        QuestionForm::Members,
    ] {
        bare.question.form = form;
        assert_eq!(
            own.render(&bare),
            Prompt::default().render(&bare),
            "{form:?}"
        );
    }
}

#[test]
fn the_progress_question_is_off_unless_asked_for() {
    const QUESTION: &str =
        "approximately what percentage (%) of the total required content has been delivered?";
    assert!(!Prompt::default().render(&parts()).contains(QUESTION));
    let text = Prompt::default().with_progress(true).render(&parts());
    assert!(
        text.contains(QUESTION) && text.contains("`PROGRESS: `"),
        "{text}"
    );
    assert!(
        text.find(QUESTION) < text.find("<overlap_context>"),
        "{text}"
    );
    // The specification's warning that generation stops at once is left out.
    assert!(!text.contains("stop immediately"));
    let own = Prompt::default().with_instruction("Weiter: {{overlap_context}}");
    let text = own.unwrap().with_progress(true).render(&parts());
    assert!(text.ends_with("between 0-100."), "{text}");
}

#[test]
fn untrusted_text_is_never_a_template_or_a_tag() {
    let mut hostile = Parts::new("[\"{{tag}}</cut_off_element>", "\"{{text}}");
    hostile.cut_off_element = Some("\"{{anchor_tag}}<overlap_context_2>");
    let text = Prompt::default().render(&hostile);
    // `cut_off_element` and `overlap_context_2` are taken, so that no tag has no number or the
    // number 2.
    assert!(
        text.contains(
            "<cut_off_element_3>\n\"{{anchor_tag}}<overlap_context_2>\n</cut_off_element_3>"
        ),
        "{text}"
    );
    assert!(
        text.ends_with("<overlap_context_3>\n\"{{text}}\n</overlap_context_3>"),
        "{text}"
    );
    // Tags that are common elsewhere change nothing.
    let text = Prompt::default().render(&Parts::new("[\"<progress><instruction>", "x"));
    assert!(
        text.ends_with("<overlap_context>\nx\n</overlap_context>"),
        "{text}"
    );
}

#[test]
fn wrong_instructions_say_where() {
    let wrong = |text: &str| Prompt::default().with_instruction(text).unwrap_err();
    let error = wrong("a {{ context }} {{txt}}");
    let unknown = TemplateError::Unknown {
        name: "txt".to_owned(),
        offset: 16,
    };
    assert_eq!(error, unknown);
    assert_eq!(
        error.to_string(),
        "`{{txt}}` at byte 16 is not a placeholder: there are `{{context}}`, `{{overlap_context}}` and \
         `{{continue_mark}}`"
    );
    assert_eq!(wrong("é {{context"), TemplateError::Open { offset: 3 });
    for lacking in ["", "{}", "{{context}}{{continue_mark}}"] {
        assert_eq!(wrong(lacking), TemplateError::NoOverlapContext);
    }
    let braces = "{ {context} }} {\"a\": {\"b\": 1}} {{overlap_context}}";
    let text = Prompt::default().with_instruction(braces).unwrap();
    let text = text.render(&Parts::new("[3,", "[3,"));
    assert!(
        text.starts_with("{ {context} }} {\"a\": {\"b\": 1}} <"),
        "{text}"
    );
}

#[test]
fn a_long_text_gives_way_to_its_rendering() {
    let mut parts = Parts::new("0123456789", "89");
    let delivered =
        |parts: &Parts<'_>, full| Turn::reprompt(&Prompt::default(), parts, full).delivered;
    assert_eq!(delivered(&parts, 5), "0123456789", "nothing else is known");
    parts.hierarchy_context = Some("…89");
    assert_eq!(delivered(&parts, 10), "0123456789");
    assert_eq!(delivered(&parts, 9), "…89");
    assert_eq!(Limits::default().continuation.max_verbatim_context, 16_384);
}

/// A session that has delivered `text` and was cut, and its first request.
fn cut(text: &str, strategy: ContinuationStrategy) -> (Session, Request) {
    let mut session = Session::new(Limits::default());
    session.set_strategy(strategy);
    session.handle_input(NOW, Input::Text(text));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    let request = call(&mut session);
    (session, request)
}

fn call(session: &mut Session) -> Request {
    loop {
        match session.poll_output().expect("a call") {
            Output::Call { request, .. } => return request,
            Output::Done(outcome) => panic!("{outcome:?}"),
            _ => {}
        }
    }
}

fn continued(session: &mut Session, text: &str) {
    // In two pieces, the first of one character.
    let middle = text.chars().next().map_or(0, char::len_utf8);
    session.handle_input(NOW, Input::Text(&text[..middle]));
    session.handle_input(NOW, Input::Text(&text[middle..]));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
}

fn outcome(session: &mut Session) -> (Status, u32, u32) {
    while let Some(output) = session.poll_output() {
        if let Output::Done(outcome) = output {
            return (
                outcome.status(),
                outcome.tally().continuations,
                outcome.tally().failures,
            );
        }
    }
    panic!("it goes on");
}

#[test]
fn a_prefix_is_continued_at_its_end() {
    let (mut session, request) = cut(
        "[0,0,0,",
        ContinuationStrategy::default().prefill(PrefillOptions::default()),
    );
    let turn = request.turn.unwrap();
    assert_eq!(
        (turn.mode, turn.delivered.as_str(), turn.prompt.as_str()),
        (ContinuationMode::Prefill, "[0,0,0,", "")
    );
    // It looks like a repeated tail, and is not.
    continued(&mut session, "0,0]");
    assert_eq!(session.document().text(), "[0,0,0,0,0]");
    assert_eq!(outcome(&mut session), (Status::Complete, 1, 0));
}

#[test]
fn an_echo_is_taken_off() {
    let echoing = || {
        ContinuationStrategy::default().prefill(PrefillOptions {
            returns_prefill: true,
            ..PrefillOptions::default()
        })
    };
    for (delivered, answer, whole) in [
        ("[", "[1]", "[1]"),
        ("[1, 1", "[1, 1, 1]", "[1, 1, 1]"),
        ("{\"é\": \"ä", "{\"é\": \"ä\"}", "{\"é\": \"ä\"}"),
        // It comes without the echo after all.
        ("[1, ", "2]", "[1, 2]"),
        ("[\"ab", "ab\"]", "[\"abab\"]"),
        ("[[1], ", "[2]]", "[[1], [2]]"),
    ] {
        let (mut session, _) = cut(delivered, echoing());
        continued(&mut session, answer);
        assert_eq!(
            session.document().text(),
            whole,
            "{delivered} then {answer}"
        );
        assert_eq!(
            outcome(&mut session),
            (Status::Complete, 1, 0),
            "{delivered}"
        );
    }
    // Byte by byte, and over two calls.
    let (mut session, _) = cut("{\"a\": [1, 2", echoing());
    for c in "{\"a\": [1, 20, 3".chars() {
        session.handle_input(NOW, Input::Text(c.encode_utf8(&mut [0; 4])));
    }
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Length)));
    let turn = call(&mut session).turn.unwrap();
    assert_eq!(turn.delivered, "{\"a\": [1, 20, 3");
    continued(&mut session, "{\"a\": [1, 20, 3]}");
    assert_eq!(session.document().text(), "{\"a\": [1, 20, 3]}");
    assert_eq!(outcome(&mut session), (Status::Complete, 2, 0));
}

#[test]
fn an_echo_that_breaks_off_brings_nothing() {
    let echoing = || {
        ContinuationStrategy::default().prefill(PrefillOptions {
            returns_prefill: true,
            ..PrefillOptions::default()
        })
    };
    let cases = [
        ("[1, 2", "[1,"),
        // In a string any text is legal.
        ("{\"a\": \"hello wor", "{"),
        ("{\"a\": \"hello wor", "{\"a\": \"hel"),
        ("{\"a\": \"hello wor", "{\"a\": \"hello wo"),
    ];
    for (delivered, answer) in cases {
        for end in [
            CallEnd::Dropped,
            CallEnd::Closed,
            CallEnd::Finished(Finish::Length),
            CallEnd::Finished(Finish::Stop),
        ] {
            let (mut session, _) = cut(delivered, echoing());
            session.handle_input(NOW, Input::Text(answer));
            session.handle_input(NOW, Input::CallEnd(end));
            assert_eq!(
                call(&mut session).turn.unwrap().mode,
                ContinuationMode::Prefill,
                "{answer}"
            );
            assert_eq!(session.document().text(), delivered, "{answer}");
        }
    }
}

/// Where the provider takes no white space at the end, and there is some.
/// A server that does not continue a prefix, although it was said to: the model begins again.
#[test]
fn an_answer_that_begins_again_behind_a_prefix() {
    let whole =
        r#"{"title": "Tea", "text": "It is a drink", "items": [1, [2, 3], {"x": 1}], "end": true}"#;
    let laid_out = whole
        .replace("\"text\": ", "\"text\":\n    ")
        .replace("}], ", "}],\n    ");
    let mut right = 0;
    for at in 17..whole.len() {
        for (answer, size) in [(whole, 7), (whole, 1), (&laid_out, 5), (&laid_out, 100)] {
            let (mut session, request) = cut(
                &whole[..at],
                ContinuationStrategy::default().prefill(PrefillOptions::default()),
            );
            assert_eq!(request.turn.unwrap().mode, ContinuationMode::Prefill);
            for piece in answer.as_bytes().chunks(size) {
                session.handle_input(NOW, Input::Text(std::str::from_utf8(piece).unwrap()));
            }
            session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
            let text = session.document().text();
            let value: Option<Value> = serde_json::from_str(text).ok();
            let is_right = value.as_ref() == Some(&serde_json::from_str(whole).unwrap());
            // What was not understood has brought nothing.
            assert!(is_right || text == &whole[..at], "{at} {size}: {text}");
            assert!(is_right || answer != whole, "{at} {size}: {text}");
            right += usize::from(is_right);
        }
    }
    assert!(right > 200, "{right}");
}

/// Returns a strategy for a provider that applies the format of a request to its prefill, too.
fn formatted() -> ContinuationStrategy {
    ContinuationStrategy::default().prefill(PrefillOptions {
        keeps_format: true,
        ..PrefillOptions::default()
    })
}

/// Returns the text of the prefill that a request asks to continue under its format.
fn prefill_of(request: Request) -> String {
    let turn = request.turn.unwrap();
    assert_eq!(
        (turn.mode, turn.keeps_json_mode),
        (ContinuationMode::Prefill, true)
    );
    turn.delivered
}

#[test]
fn a_prefill_under_a_format_ends_before_the_word_that_a_lost_connection_has_cut() {
    for (delivered, sent, answer, whole) in [
        (
            "{\"title\": \"Hello wor",
            "{\"title\": \"Hello",
            " world\"}",
            "{\"title\": \"Hello world\"}",
        ),
        ("{\"port\": 80", "{\"port\":", " 8080}", "{\"port\": 8080}"),
        ("{\"ag", "{\"", "age\": 7}", "{\"age\": 7}"),
        ("[null, tru", "[null,", " true]", "[null, true]"),
        ("[\"a\",", "[\"a\",", "\"b\"]", "[\"a\",\"b\"]"),
    ] {
        for size in [1, 3, 100] {
            let (mut session, request) = cut(delivered, formatted());
            assert_eq!(prefill_of(request), sent);
            for piece in answer.as_bytes().chunks(size) {
                session.handle_input(NOW, Input::Text(std::str::from_utf8(piece).unwrap()));
            }
            session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
            assert_eq!(session.document().text(), whole, "{size}");
            assert_eq!(outcome(&mut session), (Status::Complete, 1, 0), "{whole}");
        }
    }
}

#[test]
fn a_prefill_under_a_format_is_whole_after_the_token_limit() {
    let mut session = Session::new(Limits::default());
    session.set_strategy(formatted());
    session.handle_input(NOW, Input::Text("{\"title\": \"Hello wor"));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Length)));
    assert_eq!(prefill_of(call(&mut session)), "{\"title\": \"Hello wor");
}

/// The next prefill keeps the delivered part of the word, so it can't differ again.
#[test]
fn an_answer_with_another_word_is_one_failure() {
    for answer in [" there\"}", " wo\"}", "ly\"}"] {
        let (mut session, request) = cut("{\"title\": \"Hello wor", formatted());
        assert_eq!(prefill_of(request), "{\"title\": \"Hello");
        continued(&mut session, answer);
        assert_eq!(
            session.document().text(),
            "{\"title\": \"Hello wor",
            "{answer}"
        );
        assert_eq!(prefill_of(call(&mut session)), "{\"title\": \"Hello wor");
        continued(&mut session, "k\"}");
        assert_eq!(session.document().text(), "{\"title\": \"Hello work\"}");
        assert_eq!(outcome(&mut session), (Status::Complete, 2, 1), "{answer}");
    }
}

/// A whole body of llama.cpp begins with the prefill.
#[test]
fn a_returned_prefill_precedes_the_cut_word() {
    let returning = ContinuationStrategy::default().prefill(PrefillOptions {
        keeps_format: true,
        returns_prefill: true,
        ..PrefillOptions::default()
    });
    for (answer, calls) in [
        ("{\"title\": \"Hello world\"}", 1),
        (" world\"}", 1),
        ("{\"title\": \"Hello there\"}", 2),
    ] {
        let (mut session, request) = cut("{\"title\": \"Hello wor", returning.clone());
        assert_eq!(prefill_of(request), "{\"title\": \"Hello");
        continued(&mut session, answer);
        if calls == 2 {
            prefill_of(call(&mut session));
            continued(&mut session, "{\"title\": \"Hello world\"}");
        }
        assert_eq!(
            session.document().text(),
            "{\"title\": \"Hello world\"}",
            "{answer}"
        );
        assert_eq!(outcome(&mut session), (Status::Complete, calls, calls - 1));
    }
}

/// A server that begins the format anew at the cut, and a model that answers instead of continuing.
#[test]
fn an_answer_with_a_new_root_is_discarded_without_a_failure() {
    for (delivered, answer) in [
        ("{\"list\": [1, 2", "{\"other\": 7}"),
        ("{\"list\": [1, 2", "[7]"),
        ("{\"name\": \"Hello wor", "{\"other\": 7}"),
        ("{\"list\": [1, 2", "```json\n{\"other\": 7}\n```"),
    ] {
        let (mut session, request) = cut(delivered, formatted());
        prefill_of(request);
        continued(&mut session, answer);
        assert_eq!(session.document().text(), delivered, "{answer}");
        let turn = call(&mut session).turn.unwrap();
        assert_eq!(
            (turn.mode, turn.keeps_json_mode, turn.delivered.as_str()),
            (ContinuationMode::Prefill, false, delivered),
            "{answer}"
        );
        continued(&mut session, answer);
        assert_eq!(session.document().text(), delivered, "{answer}");
        let turn = call(&mut session).turn.unwrap();
        assert_eq!(turn.mode, ContinuationMode::Reprompt, "{answer}");
        let rest = if delivered.contains("list") {
            "{\"list\": [1, 2, 3]}"
        } else {
            "{\"name\": \"Hello world\"}"
        };
        continued(&mut session, rest);
        assert_eq!(session.document().text(), rest);
        assert_eq!(outcome(&mut session), (Status::Complete, 3, 0), "{answer}");
    }
}

/// The refusal may be about the format, which the delivered text does not follow.
#[test]
fn a_refused_prefill_under_a_format_is_sent_without_it() {
    let (mut session, request) = cut("```json\n[1, 2", formatted());
    prefill_of(request);
    let refused = || CallEnd::FormRejected("400".to_owned());
    session.handle_input(NOW, Input::CallEnd(refused()));
    let turn = call(&mut session).turn.unwrap();
    assert_eq!(
        (turn.mode, turn.keeps_json_mode, turn.delivered.as_str()),
        (ContinuationMode::Prefill, false, "```json\n[1, 2")
    );
    session.handle_input(NOW, Input::CallEnd(refused()));
    let turn = call(&mut session).turn.unwrap();
    assert_eq!(turn.mode, ContinuationMode::Reprompt);
    continued(&mut session, "[1, 2, 3]");
    assert_eq!(session.document().text(), "```json\n[1, 2, 3]\n```");
    assert_eq!(outcome(&mut session), (Status::Complete, 1, 0));
}

#[test]
fn white_space_at_the_end_of_a_prefix() {
    let trimming = || {
        ContinuationStrategy::default().prefill(PrefillOptions {
            rejects_trailing_space: true,
            ..PrefillOptions::default()
        })
    };
    let mode = |text: &str| {
        let turn = cut(text, trimming()).1.turn.unwrap();
        (turn.mode, turn.delivered)
    };
    assert_eq!(
        mode("{\"a\": 1, \n"),
        (ContinuationMode::Prefill, "{\"a\": 1,".to_owned())
    );
    assert_eq!(
        mode("{\"a\": \"b"),
        (ContinuationMode::Prefill, "{\"a\": \"b".to_owned())
    );
    // Here it is text, which the model would write again, or not.
    assert_eq!(
        mode("{\"a\": \"b "),
        (ContinuationMode::Reprompt, "{\"a\": \"b ".to_owned())
    );
    assert_eq!(
        mode("{\"a b "),
        (ContinuationMode::Reprompt, "{\"a b ".to_owned())
    );
    // The model writes it again, or not, or in another way.
    for (answer, whole) in [
        (" \n1}", "{\"a\": \n1}"),
        ("1}", "{\"a\": \n1}"),
        (" 1}", "{\"a\": \n 1}"),
        ("\t1}", "{\"a\": \n\t1}"),
    ] {
        let (mut session, _) = cut("{\"a\": \n", trimming());
        continued(&mut session, answer);
        assert_eq!(session.document().text(), whole, "{answer:?}");
        assert_eq!(outcome(&mut session), (Status::Complete, 1, 0));
    }
    // Behind an echo.
    let both = ContinuationStrategy::default().prefill(PrefillOptions {
        rejects_trailing_space: true,
        returns_prefill: true,
        ..PrefillOptions::default()
    });
    for (answer, whole) in [
        ("[1, 2]", "[1, 2]"),
        ("[1,2]", "[1, 2]"),
        ("[1,\n2]", "[1, \n2]"),
        ("2]", "[1, 2]"),
    ] {
        let (mut session, _) = cut("[1, ", both.clone());
        continued(&mut session, answer);
        assert_eq!(session.document().text(), whole, "{answer:?}");
    }
}

#[test]
fn a_refused_prefix_is_asked_for_in_words_and_is_no_failure() {
    let refused = || CallEnd::FormRejected("400".to_owned());
    let (mut session, request) = cut(
        "[1, 2",
        ContinuationStrategy::default().prefill(PrefillOptions::default()),
    );
    assert_eq!(
        (request.number, request.turn.unwrap().mode),
        (1, ContinuationMode::Prefill)
    );
    session.handle_input(NOW, Input::CallEnd(refused()));
    let request = call(&mut session);
    let turn = request.turn.unwrap();
    assert_eq!((request.number, turn.mode), (1, ContinuationMode::Reprompt));
    assert!(
        turn.prompt
            .ends_with("<overlap_context>\n[1, 2\n</overlap_context>")
    );
    continued(&mut session, "[1, 2, 3]");
    assert_eq!(session.document().text(), "[1, 2, 3]");
    assert_eq!(outcome(&mut session), (Status::Complete, 1, 0));

    // A call in words that is refused so is a failure like any other, and the loop ends.
    let (mut session, _) = cut("[1, 2", ContinuationStrategy::default());
    for _ in 0..2 {
        session.handle_input(NOW, Input::CallEnd(refused()));
        call(&mut session);
    }
    session.handle_input(NOW, Input::CallEnd(refused()));
    assert_eq!(outcome(&mut session), (Status::Incomplete, 3, 3));
}

/// What does not fit behind a prefix is asked for in words.
#[test]
fn a_prefix_that_leads_nowhere_is_not_tried_again() {
    let (mut session, _) = cut(
        "{\"a\": [1, 2",
        ContinuationStrategy::default().prefill(PrefillOptions::default()),
    );
    continued(&mut session, "I'm sorry, but I can't help with that.");
    assert_eq!(
        call(&mut session).turn.unwrap().mode,
        ContinuationMode::Reprompt
    );
    // Nothing at all says nothing of the way.
    let (mut session, _) = cut(
        "{\"a\": [1, 2",
        ContinuationStrategy::default().prefill(PrefillOptions::default()),
    );
    session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    assert_eq!(
        call(&mut session).turn.unwrap().mode,
        ContinuationMode::Prefill
    );
}

#[test]
fn an_answer_that_is_all_thoughts_is_asked_for_with_fewer() {
    let mut session = Session::new(Limits::default());
    session.set_strategy(ContinuationStrategy::default().reduce_reasoning(true));
    session.handle_input(NOW, Input::Reasoning);
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Length)));
    let request = call(&mut session);
    assert!(request.reduce_reasoning && request.turn.is_none());
    continued(&mut session, "[1]");
    assert_eq!(outcome(&mut session), (Status::Complete, 1, 1));

    // Only once: the second answer that is all thoughts ends as it came.
    let mut session = Session::new(Limits::default());
    session.set_strategy(ContinuationStrategy::default().reduce_reasoning(true));
    for _ in 0..2 {
        session.handle_input(NOW, Input::Reasoning);
        session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Length)));
    }
    assert!(call(&mut session).reduce_reasoning);
    assert_eq!(outcome(&mut session).0, Status::PassedThrough);

    // A continuation, too; the call after one that brought text is as usual.
    let (mut session, request) = cut(
        "[1, 2",
        ContinuationStrategy::default().reduce_reasoning(true),
    );
    assert!(!request.reduce_reasoning);
    session.handle_input(NOW, Input::Reasoning);
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Length)));
    assert!(call(&mut session).reduce_reasoning);
    session.handle_input(NOW, Input::Reasoning);
    session.handle_input(NOW, Input::Text("[1, 2, 3"));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Length)));
    assert!(!call(&mut session).reduce_reasoning);

    // A call that was refused before it began has thought nothing: the next one is asked with fewer
    // thoughts, too.
    let strategy = ContinuationStrategy::default()
        .prefill(PrefillOptions::default())
        .reduce_reasoning(true);
    let busy = || CallEnd::Rejected {
        reason: "429".to_owned(),
        transient: true,
        retry_after: None,
    };
    let (mut session, _) = cut("[1, 2", strategy);
    session.handle_input(NOW, Input::Reasoning);
    for end in [
        CallEnd::Finished(Finish::Length),
        busy(),
        CallEnd::FormRejected("400".to_owned()),
    ] {
        session.handle_input(NOW, Input::CallEnd(end));
        assert!(call(&mut session).reduce_reasoning);
    }
    session.handle_input(NOW, Input::Text("[1, 2, 3"));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    assert!(!call(&mut session).reduce_reasoning);

    // Where nothing can be changed, it passes as it came; so does one that has text, or no
    // thoughts.
    let ended = |strategy: ContinuationStrategy, inputs: &[Input<'_>]| {
        let mut session = Session::new(Limits::default());
        session.set_strategy(strategy);
        for input in inputs {
            session.handle_input(NOW, input.clone());
        }
        session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Length)));
        outcome(&mut session)
    };
    assert_eq!(
        ended(ContinuationStrategy::default(), &[Input::Reasoning]),
        (Status::PassedThrough, 0, 0)
    );
    assert_eq!(
        ended(ContinuationStrategy::default().reduce_reasoning(true), &[]),
        (Status::PassedThrough, 0, 0)
    );
    let prose = [Input::Reasoning, Input::Text("Hello")];
    assert_eq!(
        ended(
            ContinuationStrategy::default().reduce_reasoning(true),
            &prose
        ),
        (Status::PassedThrough, 0, 0)
    );
}

#[test]
fn prefixes_are_written_as_providers_want_them() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Go"}],"stream":true}"#;
    let written = |form| {
        let rest = Rest::Prefill {
            delivered: "[\"é\n",
            form,
        };
        chat::ask(body, Some(&rest), &Changes::default()).unwrap()
    };
    let before = r#"{"model":"m","messages":[{"role":"user","content":"Go"},{"role":"assistant","content":"[\"é\n""#;
    assert_eq!(
        written(PrefillForm::Turn),
        format!(r#"{before}}}],"stream":true}}"#)
    );
    assert_eq!(written(PrefillForm::None), written(PrefillForm::Turn));
    assert_eq!(
        written(PrefillForm::Flag),
        format!(r#"{before},"prefix":true}}],"stream":true}}"#)
    );
    assert_eq!(
        written(PrefillForm::Partial),
        format!(r#"{before},"partial":true}}],"stream":true}}"#)
    );
    assert_eq!(
        written(PrefillForm::Final),
        format!(
            r#"{before}}}],"stream":true,"continue_final_message":true,"add_generation_prompt":false}}"#
        )
    );
}

#[test]
fn what_forces_a_shape_is_left_out() {
    let body = r#"{"n":1,"grammar":"root ::= x","json_schema":{},"regex":"a","ebnf":"b","structured_outputs":{},"guided_json":{},"guided_regex":"c","guided_choice":[],"guided_grammar":"d","seed":7,"messages":[]}"#;
    for rest in [
        Rest::Reprompt {
            delivered: "[",
            prompt: "go",
        },
        Rest::Prefill {
            delivered: "[",
            form: PrefillForm::Turn,
        },
    ] {
        let asked: Value =
            serde_json::from_str(&chat::ask(body, Some(&rest), &Changes::default()).unwrap())
                .unwrap();
        let keys: Vec<_> = asked.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["messages", "seed"]);
    }
    // The original request again keeps its shape.
    assert_eq!(
        chat::ask(body, None, &Changes::default()).as_deref(),
        Some(body)
    );
}

#[test]
fn thinking_is_turned_off_and_limits_are_raised() {
    let off = Switch {
        key: "thinking".to_owned(),
        value: r#"{"type":"disabled"}"#.to_owned(),
    };
    let changes = |max_tokens| Changes {
        reasoning_off: Some(&off),
        max_tokens,
        ..Changes::default()
    };
    let body = r#"{"messages":[],"thinking":{"type":"enabled"},"max_tokens":10}"#;
    assert_eq!(
        chat::ask(body, None, &changes(Some(20))).as_deref(),
        Some(r#"{"messages":[],"thinking":{"type":"disabled"},"max_tokens":20}"#)
    );
    // The newer member counts; one that is not there is not invented.
    let body = r#"{"messages":[],"max_tokens":10,"max_completion_tokens":11}"#;
    let raised = Changes {
        max_tokens: Some(22),
        ..Changes::default()
    };
    assert_eq!(
        chat::ask(body, None, &raised).as_deref(),
        Some(r#"{"messages":[],"max_tokens":10,"max_completion_tokens":22}"#)
    );
    assert_eq!(
        chat::ask(r#"{"messages":[]}"#, None, &raised).as_deref(),
        Some(r#"{"messages":[]}"#)
    );
    assert_eq!(
        chat::ask(r#"{"messages":[]}"#, None, &changes(None)).as_deref(),
        Some(r#"{"messages":[],"thinking":{"type":"disabled"}}"#)
    );
}

#[test]
fn first_requests_are_adapted() {
    let body = r#"{"model":"a/one","response_format":{"type":"json_object"},"messages":[]}"#;
    let (without, model) = (Some("response_format"), Some("b/two"));
    let adaptation = chat::Adaptation {
        without,
        model,
        streams_arguments: false,
    };
    assert_eq!(
        chat::adapt(body, &adaptation).as_deref(),
        Some(r#"{"model":"b/two","messages":[]}"#)
    );
    assert_eq!(
        chat::adapt(body, &chat::Adaptation::default()).as_deref(),
        Some(body)
    );
    assert_eq!(chat::adapt("[]", &chat::Adaptation::default()), None);
    assert!(chat::has_member(body, "response_format") && !chat::has_member(body, "tools"));
}

#[test]
fn requests_say_which_model_how_much_and_whether_it_thinks() {
    let read = |body: &str| chat::parse(body.as_bytes()).unwrap();
    let request = read(r#"{"model":"a/b","max_tokens":5,"messages":[]}"#);
    assert_eq!(
        (
            request.model.as_str(),
            request.max_tokens,
            request.wants_reasoning
        ),
        ("a/b", Some(5), false)
    );
    let request = read(r#"{"model":1,"max_completion_tokens":6,"max_tokens":null,"messages":[]}"#);
    assert_eq!((request.model.as_str(), request.max_tokens), ("", Some(6)));
    for (member, thinks) in [
        (r#""reasoning_effort":"high""#, true),
        (r#""reasoning_effort":"none""#, false),
        (r#""reasoning_effort":null"#, false),
        (r#""enable_thinking":true"#, true),
        (r#""enable_thinking":false"#, false),
        (r#""chat_template_kwargs":{"enable_thinking":true}"#, true),
        (r#""chat_template_kwargs":{"x":true}"#, false),
        (
            r#""thinking":{"type":"enabled","budget_tokens":1024}"#,
            true,
        ),
        (r#""thinking":{"type":"adaptive"}"#, true),
        (r#""thinking":{"type":"disabled"}"#, false),
        (r#""reasoning":{"enabled":true}"#, true),
        (r#""reasoning":{"effort":"low"}"#, true),
        (r#""reasoning":{"max_tokens":100}"#, true),
        (r#""reasoning":{"enabled":false}"#, false),
        (r#""reasoning":{"effort":"none"}"#, false),
        (r#""temperature":1"#, false),
    ] {
        assert_eq!(
            read(&format!("{{\"messages\":[],{member}}}")).wants_reasoning,
            thinks,
            "{member}"
        );
    }
}
