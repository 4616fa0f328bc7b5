//! A provider that enforces a grammar writes exactly the rest: nothing is decided, and nothing is
//! asked for twice.

use std::time::Duration;

use restitch::Limits;
use restitch::internal::relay::{
    AnswerOptions, BodyRelay, Output as RelayOutput, Relay, TransportEnd,
};
use restitch::internal::wire::Tool;
use restitch::provider::capability::{GrammarForm, PrefillForm, Row, Table};
use restitch::provider::{Dialect, Finish};
use restitch::session::{
    CallEnd, ContinuationMode, ContinuationStrategy, FailureReason, Input, Outcome, Output,
    PrefillOptions, Request, Retry, Session, SessionEvent, Status, StopReason,
};
use restitch::splice::Alignment;
use serde_json::{Value, json};

use crate::wires::continued::{Fault, through_body, through_with};
use restitch_testing::chat::delta;
use restitch_testing::rows::Rows;
use restitch_testing::{Rng, corpus_documents, event_data};

const NOW: Duration = Duration::ZERO;

/// Documents for tests that need no corpus.
const OURS: [&str; 3] = [
    r#"{"title": "Seams \u00e9 \ud83d\ude00 – \"quoted\"", "rows": [[1, -2.5e3, true], [2, 0.125, false]], "items": ["один", "два", "три"], "end": null}"#,
    "[\n  {\"id\": 1, \"text\": \"one\\nline and \\\\ another\"},\n  {\"id\": 2, \"text\": \"\"},\n  {\"id\": 3, \"empty\": {}}\n]\n",
    "Here it is:\n```json\n{\"rows\": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}\n```\n",
];

/// Both forms: with a prefill, and as a tool's input.
fn strategies() -> [ContinuationStrategy; 2] {
    let with_prefill = ContinuationStrategy::default().prefill(PrefillOptions::default());
    [
        with_prefill.grammar(GrammarForm::Member),
        ContinuationStrategy::default().grammar(GrammarForm::CustomTool),
    ]
}

/// A session that is asked for the rest of a text.
pub(super) struct Cut {
    pub(super) session: Session,
    pub(super) request: Option<Request>,
    new: String,
    /// The text that the client has: the delivered one and the new one.
    pub(super) client: String,
    alignments: Vec<Alignment>,
    pub(super) outcome: Option<Outcome>,
}

impl Cut {
    fn new(strategy: &ContinuationStrategy, delivered: &str) -> Self {
        Self::of(Session::new(Limits::default()), strategy, delivered)
    }

    /// A session whose first answer has reached its limit after this text.
    pub(super) fn of(
        mut session: Session,
        strategy: &ContinuationStrategy,
        delivered: &str,
    ) -> Self {
        session.set_strategy(strategy.clone());
        session.handle_input(NOW, Input::Text(delivered));
        let mut cut = Self {
            session,
            request: None,
            new: String::new(),
            client: delivered.to_owned(),
            alignments: Vec::new(),
            outcome: None,
        };
        cut.end(Finish::Length);
        cut
    }

    pub(super) fn text(&mut self, text: &str) {
        self.session.handle_input(NOW, Input::Text(text));
        self.drain();
    }

    pub(super) fn end(&mut self, reason: Finish) {
        let end = Input::CallEnd(CallEnd::Finished(reason));
        self.session.handle_input(NOW, end);
        self.drain();
    }

    /// Takes an answer in pieces of random sizes up to `most`.
    pub(super) fn pieces(&mut self, answer: &str, most: usize, rng: &mut Rng) {
        let mut rest = answer;
        while !rest.is_empty() {
            let size = 1 + rng.below(most);
            let end = (size.min(rest.len())..).find(|end| rest.is_char_boundary(*end));
            let (piece, later) = rest.split_at(end.unwrap());
            self.text(piece);
            rest = later;
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Text(text) => {
                    self.new.push_str(&text);
                    self.client.push_str(&text);
                }
                Output::Call { request, .. } => self.request = Some(request),
                Output::Done(outcome) => self.outcome = Some(outcome),
                Output::Event(SessionEvent::Joined { seam, .. }) => {
                    self.alignments.push(seam.alignment);
                }
                _ => {}
            }
        }
    }

    /// The end of the delivered text that the answer must begin with.
    fn head(&self) -> &str {
        &self.request.as_ref().unwrap().turn.as_ref().unwrap().anchor
    }

    pub(super) fn mode(&self) -> ContinuationMode {
        self.request.as_ref().unwrap().turn.as_ref().unwrap().mode
    }
}

/// Returns offsets at which a text can be cut: every seventh byte inside its root.
fn cuts(text: &str) -> impl Iterator<Item = usize> {
    let start = text.find(['{', '[']).unwrap();
    let end = text.rfind(['}', ']']).unwrap();
    (start + 1..=end)
        .step_by(7)
        .filter(|at| text.is_char_boundary(*at))
}

/// The server does not know the request's schema, so the grammar has the members and elements that
/// the schema still needs.
#[test]
fn a_grammar_has_what_the_schema_of_the_request_requires() {
    let schema = r#"{"type": "object", "properties": {"rows": {"type": "array", "minItems": 7, "items": {"type": "integer"}}, "total": {"type": "number"}}, "required": ["rows", "total"], "additionalProperties": false}"#;
    let delivered = r#"{"rows": [1000000001, 1000000002, 1000000003, 1000000004, 1000000005, 6"#;
    for strategy in strategies() {
        let mut session = Session::new(Limits::default());
        session.set_schema(schema);
        let mut cut = Cut::of(session, &strategy, delivered);
        let turn = cut.request.as_ref().unwrap().turn.as_ref().unwrap();
        let grammar = turn.grammar.clone().unwrap();
        assert!(grammar.contains(r#""\"total\"" w ":" w r"#), "{grammar}");
        let answer = format!("{}, 7], \"total\": 3}}", cut.head());
        cut.text(&answer);
        cut.end(Finish::Stop);
        assert_eq!(cut.client, format!("{delivered}, 7], \"total\": 3}}"));
        assert_eq!(cut.mode(), ContinuationMode::Grammar);
    }
}

#[test]
fn a_document_that_is_cut_anywhere_becomes_whole_with_one_call() {
    let mut rng = Rng::new(42);
    let corpus = corpus_documents("docs").into_iter().map(|(_, text)| text);
    let documents = OURS.into_iter().map(str::to_owned).chain(corpus);
    let (mut cut_count, mut calls) = (0, 0);
    let mut rows = Rows::of("cuts of documents under a grammar");
    for document in documents.filter(|text| text.len() < 30_000 && text.contains(['{', '['])) {
        // A longer document is cut at a seeded share of the offsets.
        let share = 1 + document.len() / 2000;
        for at in cuts(&document) {
            if rng.below(share) > 0 {
                continue;
            }
            let seed = rng.next();
            if !rows.runs_next() {
                continue;
            }
            let mut pieces = Rng::new(seed);
            for strategy in strategies() {
                let mut cut = Cut::new(&strategy, &document[..at]);
                assert_eq!(cut.mode(), ContinuationMode::Grammar, "{at} of {document}");
                assert!(document[..at].ends_with(cut.head()), "{at} of {document}");
                let answer = format!("{}{}", cut.head(), &document[at..]);
                cut.pieces(&answer, 40, &mut pieces);
                cut.end(Finish::Stop);
                let outcome = cut.outcome.as_ref().unwrap();
                let expected = document[at..].trim_end();
                assert_eq!(cut.new.trim_end(), expected, "{at} of {document}");
                assert_eq!(outcome.status(), Status::Complete, "{at} of {document}");
                assert_eq!(cut.alignments, [Alignment::Exact]);
                assert_eq!(outcome.tally().failures, 0);
                cut_count += 1;
                calls += outcome.tally().continuations;
            }
        }
    }
    assert!(cut_count >= 80, "{cut_count}");
    assert_eq!(calls, cut_count);
}

#[test]
fn new_text_is_given_out_as_soon_as_it_comes() {
    for strategy in strategies() {
        let mut cut = Cut::new(&strategy, "{\"name\": \"Aurora Bo");
        let head = cut.head().to_owned();
        cut.text(&head);
        assert_eq!(cut.new, "");
        cut.text("r");
        assert_eq!(cut.new, "r");
        cut.text("ealis\"");
        assert_eq!(cut.new, "realis\"");
    }
}

/// The next question is another one, and the call is no failure.
#[test]
fn a_server_that_does_not_enforce_the_grammar_is_asked_in_another_form() {
    for strategy in strategies() {
        for answer in [
            "{\"place\": \"Norway, north of Bergen\", \"name\": \"Aurora Borealis\"}",
            "Sure! Here is the rest:",
            "",
        ] {
            let delivered = "{\"place\": \"Norway, north of Bergen\", \"name\": \"Aurora Bo";
            let mut cut = Cut::new(&strategy, delivered);
            cut.text(answer);
            cut.end(Finish::Stop);
            assert_eq!(
                (cut.new.as_str(), cut.outcome.is_some()),
                ("", false),
                "{answer}"
            );
            assert_ne!(cut.mode(), ContinuationMode::Grammar, "{answer}");
            assert_eq!(cut.session.tally().failures, 0, "{answer}");
        }
        // It begins as asked, and leaves the grammar later.
        let mut cut = Cut::new(&strategy, "{\"name\": \"Aurora Bo");
        let answer = format!("{}realis\" and", cut.head());
        cut.text(&answer);
        cut.end(Finish::Stop);
        assert_eq!(cut.new.trim_end(), "realis\"");
        assert_ne!(cut.mode(), ContinuationMode::Grammar);
        assert_eq!(cut.session.tally().failures, 0);
    }
}

/// Only a grammar that the model has ignored is learned.
#[test]
fn an_answer_that_follows_its_grammar_is_not_taken_for_another() {
    let delivered = "[\"alpha\", \"a second row of the list\", \"be";
    for strategy in strategies() {
        for (answer, is_learned) in [
            // All of these are legal under the grammar, and are not joined, or not to their end.
            ("ta\", \"...\"]", false),
            ("", false),
            ("Sure! Here is the rest:", true),
        ] {
            let mut cut = Cut::new(&strategy, delivered);
            let head = if is_learned { "" } else { cut.head() };
            let answer = format!("{head}{answer}");
            cut.session.handle_input(NOW, Input::Text(&answer));
            let end = Input::CallEnd(CallEnd::Finished(Finish::Stop));
            cut.session.handle_input(NOW, end);
            let mut outputs = std::iter::from_fn(|| cut.session.poll_output());
            let is_found = outputs.any(|output| {
                matches!(
                    output,
                    Output::Event(SessionEvent::Discarded {
                        reason: FailureReason::Unenforced,
                        ..
                    })
                )
            });
            assert_eq!(is_found, is_learned, "{answer}");
        }
    }
}

/// A limit, a filter and an error are no evidence about the grammar.
#[test]
fn an_answer_that_is_cut_in_its_head_may_be_forced() {
    for strategy in strategies() {
        let delivered = "{\"place\": \"Norway, north of Bergen\", \"name\": \"Aurora Bo";
        for end in [
            CallEnd::Finished(Finish::Length),
            CallEnd::Error("overloaded".to_owned()),
        ] {
            let mut cut = Cut::new(&strategy, delivered);
            let head = cut.head().to_owned();
            cut.text(&head[..3]);
            cut.session.handle_input(NOW, Input::CallEnd(end.clone()));
            cut.drain();
            // An error may be about the grammar; a second call may be cut in its head, too.
            let is_error = matches!(end, CallEnd::Error(_));
            assert_eq!(cut.mode() == ContinuationMode::Grammar, !is_error);
            assert_eq!(cut.session.tally().failures, 1, "{end:?}");
            cut.session.handle_input(NOW, Input::CallEnd(end.clone()));
            cut.drain();
            assert_ne!(cut.mode(), ContinuationMode::Grammar, "{end:?}");
        }
        let mut cut = Cut::new(&strategy, delivered);
        cut.end(Finish::ContentFilter);
        let outcome = cut.outcome.expect("no further call");
        assert_eq!(outcome.reason(), Some(StopReason::Finish));
    }
}

/// Arguments have no prefill, and a prefill can't name a missing part: the question does.
#[test]
fn a_grammar_needs_no_prefill() {
    for form in [
        GrammarForm::Member,
        GrammarForm::StructuredOutputs,
        GrammarForm::Ebnf,
    ] {
        let strategy = ContinuationStrategy::default().grammar(form);
        let mut cut = Cut::new(&strategy, "{\"place\": \"Norway\", \"name\": \"Aurora Bo");
        assert_eq!(cut.mode(), ContinuationMode::Grammar);
        let turn = cut.request.as_ref().unwrap().turn.clone().unwrap();
        assert!(turn.prompt.contains(&turn.anchor), "{}", turn.prompt);
        let answer = format!("{}realis\"}}", turn.anchor);
        cut.text(&answer);
        cut.end(Finish::Stop);
        assert_eq!(cut.new, "realis\"}");
        assert_eq!(cut.outcome.unwrap().status(), Status::Complete);
    }
}

/// A small model writes white space without end where its grammar allows nothing else.
#[test]
fn white_space_after_the_root_has_an_end() {
    let first = delta(&json!({"content": "{\"name\": \"Aurora Bo"}), None)
        + &delta(&json!({}), Some("length"))
        + "data: [DONE]\n\n";
    let strategy = ContinuationStrategy::default().grammar(GrammarForm::CustomTool);
    let mut relay = Relay::new(Limits::default()).strategy(strategy);
    relay.handle_bytes(NOW, first.into());
    relay.handle_transport_end(NOW, TransportEnd::Closed);
    let (mut outcome, mut pieces) = (None, 0);
    while let Some(output) = relay.poll_output() {
        match output {
            RelayOutput::Call { request, .. } => {
                relay.handle_open(NOW);
                let head = &request.turn.as_ref().unwrap().anchor;
                let call = json!({"tool_calls": [{"index": 0, "custom": {"input": format!("{head}realis\"}}")}}]});
                relay.handle_bytes(NOW, delta(&call, None).into());
                let blank =
                    json!({"tool_calls": [{"index": 0, "custom": {"input": "\n\n\n\n\n\n\n\n"}}]});
                while pieces < 1000 && !relay.session().is_done() {
                    relay.handle_bytes(NOW, delta(&blank, None).into());
                    pieces += 1;
                }
            }
            RelayOutput::Done { outcome: done, .. } => outcome = Some(done),
            _ => {}
        }
    }
    assert_eq!(outcome.unwrap().status(), Status::Complete);
    assert!(pieces < 40, "{pieces}");
}

#[test]
fn a_refused_grammar_is_not_sent_again() {
    for strategy in strategies() {
        let mut cut = Cut::new(&strategy, "{\"name\": \"Aurora Bo");
        let end = CallEnd::FormRejected("400".to_owned());
        cut.session.handle_input(NOW, Input::CallEnd(end));
        cut.drain();
        assert_ne!(cut.mode(), ContinuationMode::Grammar);
        let tally = cut.session.tally();
        assert_eq!((tally.continuations, tally.failures), (1, 0));
    }
}

#[test]
fn a_forced_rest_that_is_cut_is_forced_again() {
    for strategy in strategies() {
        let mut cut = Cut::new(&strategy, "{\"name\": \"Aurora Bo");
        let answer = format!("{}realis\", \"ki", cut.head());
        cut.text(&answer);
        cut.end(Finish::Length);
        assert_eq!(
            (cut.new.as_str(), cut.mode()),
            ("realis\", \"ki", ContinuationMode::Grammar)
        );
        let answer = format!("{}nd\": 1}}", cut.head());
        cut.text(&answer);
        cut.end(Finish::Stop);
        assert_eq!(cut.new, "realis\", \"kind\": 1}");
        assert_eq!(cut.outcome.unwrap().status(), Status::Complete);
    }
}

/// A table with one row.
fn table(row: Row) -> Table {
    Table::default().with([row])
}

#[test]
fn the_request_has_the_grammar_in_the_form_of_the_server() {
    let delivered = "{\"name\": \"Aurora Bo";
    let request = |strategy: &ContinuationStrategy| Cut::new(strategy, delivered).request.unwrap();
    let original = json!({
        "model": "m", "messages": [{"role": "user", "content": "Go"}],
        "response_format": {"type": "json_object"}, "tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": "auto",
    });
    let body = |form: GrammarForm, dialect: Dialect, original: &Value| -> Value {
        let with_prefill = ContinuationStrategy::default().prefill(PrefillOptions::default());
        let request = request(&with_prefill.grammar(form));
        let row = Row::of("m").prefill(PrefillForm::Final).grammar(form);
        let capability = table(row).of("m", None);
        let retry = Retry::new(request, capability.into()).with_dialect(dialect);
        assert!(retry.is_forced());
        serde_json::from_str(&retry.body(&original.to_string())).unwrap()
    };
    for (form, pointer) in [
        (GrammarForm::Member, "/grammar"),
        (
            GrammarForm::StructuredOutputs,
            "/structured_outputs/grammar",
        ),
        (GrammarForm::Ebnf, "/ebnf"),
    ] {
        let body = body(form, Dialect::Chat, &original);
        let grammar = body.pointer(pointer).and_then(Value::as_str).unwrap();
        assert!(grammar.starts_with("root ::= "), "{grammar}");
        let last = body["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["role"], "assistant");
        let sent = last["content"].as_str().unwrap();
        assert!(delivered.starts_with(sent) && sent.len() < delivered.len());
        assert_eq!(
            (
                &body["continue_final_message"],
                &body["add_generation_prompt"]
            ),
            (&json!(true), &json!(false))
        );
        assert_eq!(
            (&body["response_format"], &body["tools"]),
            (&Value::Null, &Value::Null)
        );
    }
    // Without a prefill the question asks for the head, too.
    let formatted = body(GrammarForm::ResponseFormat, Dialect::Chat, &original);
    let format = &formatted["response_format"];
    assert_eq!(format["type"], "grammar");
    let grammar = format["grammar"].as_str().unwrap();
    assert!(grammar.starts_with("root ::= "), "{grammar}");
    let messages = formatted["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    let chat = body(GrammarForm::CustomTool, Dialect::Chat, &original);
    let tool = &chat["tools"][0]["custom"];
    assert_eq!(tool["format"]["grammar"]["syntax"], "lark");
    assert!(
        tool["format"]["grammar"]["definition"]
            .as_str()
            .unwrap()
            .starts_with("start: ")
    );
    assert_eq!(
        chat["tool_choice"],
        json!({"type": "custom", "custom": {"name": tool["name"]}})
    );
    assert_eq!(
        (&chat["parallel_tool_calls"], &chat["response_format"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(chat["tools"].as_array().unwrap().len(), 1);
    assert_eq!(
        chat["messages"][1],
        json!({"role": "assistant", "content": delivered})
    );
    assert_eq!(chat["messages"][2]["role"], "user");
    let original =
        json!({"model": "m", "input": "Go", "text": {"format": {"type": "json_object"}}});
    let responses = body(GrammarForm::CustomTool, Dialect::Responses, &original);
    let tool = &responses["tools"][0];
    assert_eq!(
        (&tool["type"], &tool["format"]["syntax"]),
        (&json!("custom"), &json!("lark"))
    );
    assert_eq!(
        responses["tool_choice"],
        json!({"type": "custom", "name": tool["name"]})
    );
    assert_eq!(responses["text"], Value::Null);
}

/// Runs a relay: the first answer is cut after its text, and the rest comes as these events. Returns
/// the client's stream.
fn relayed(
    dialect: Dialect,
    tools: Vec<Tool>,
    first: &str,
    rest: impl Fn(&Request) -> String,
) -> (String, Outcome) {
    let strategy = ContinuationStrategy::default().grammar(GrammarForm::CustomTool);
    let relay = Relay::new(Limits::default())
        .dialect(dialect)
        .request(tools, 1)
        .strategy(strategy);
    let received = through_with(
        relay,
        first.as_bytes(),
        Fault::Clean,
        usize::MAX,
        |request, _| (rest(request), Fault::Clean),
    );
    (received.body, received.outcome)
}

/// The call of a custom tool in Chat Completions, in two pieces, after a remark.
fn tool_call(input: &str, reason: &str) -> String {
    let custom = |custom: &Value| json!({"tool_calls": [{"index": 0, "custom": custom}]});
    let begin = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "write_rest", "input": ""}}]});
    let (one, two) = input.split_at(input.len() / 2);
    delta(&json!({"role": "assistant", "content": "Of course."}), None)
        + &delta(&begin, None)
        + &delta(&custom(&json!({"input": one})), None)
        + &delta(&custom(&json!({"input": two})), None)
        + &delta(&json!({}), Some(reason))
        + "data: [DONE]\n\n"
}

/// The texts at a place in the choices of a chat stream.
fn joined(body: &str, place: &str) -> Vec<String> {
    let texts = event_data(body.as_bytes()).into_iter().filter_map(|chunk| {
        let choice = chunk.pointer("/choices/0")?;
        Some(choice.pointer(place)?.as_str()?.to_owned())
    });
    texts.collect()
}

#[test]
fn the_input_of_the_tool_reaches_the_client_as_text() {
    let cut = "{\"name\": \"Aurora Bo";
    let first = delta(&json!({"role": "assistant", "content": cut}), None)
        + &delta(&json!({}), Some("length"))
        + "data: [DONE]\n\n";
    let head = |request: &Request| request.turn.as_ref().unwrap().anchor.clone();
    let (body, outcome) = relayed(Dialect::Chat, Vec::new(), &first, |request| {
        tool_call(&format!("{}realis\"}}", head(request)), "tool_calls")
    });
    let text = joined(&body, "/delta/content").concat();
    assert_eq!(text, "{\"name\": \"Aurora Borealis\"}");
    let reasons = joined(&body, "/finish_reason");
    assert_eq!(
        (reasons, outcome.status()),
        (vec!["stop".to_owned()], Status::Complete)
    );
    assert!(
        !body.contains("tool_calls") && !body.contains("Of course"),
        "{body}"
    );
}

#[test]
fn the_input_of_the_tool_completes_arguments() {
    let cut = "{\"path\": \"a.txt\", \"lines\": [1, 2";
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "write", "arguments": cut}}]});
    let first = delta(&call, None) + &delta(&json!({}), Some("length")) + "data: [DONE]\n\n";
    let tool = Tool {
        name: "write".to_owned(),
        schema: None,
    };
    let (body, outcome) = relayed(Dialect::Chat, vec![tool], &first, |request| {
        let turn = request.turn.as_ref().unwrap();
        assert_eq!(turn.mode, ContinuationMode::Grammar);
        tool_call(&format!("{}, 3]}}", turn.anchor), "tool_calls")
    });
    let arguments = joined(&body, "/delta/tool_calls/0/function/arguments").concat();
    assert_eq!(arguments, "{\"path\": \"a.txt\", \"lines\": [1, 2, 3]}");
    let reasons = joined(&body, "/finish_reason");
    assert_eq!(
        (reasons, outcome.status()),
        (vec!["tool_calls".to_owned()], Status::Complete)
    );
}

#[test]
fn the_input_of_the_tool_is_read_in_responses() {
    let cut = "{\"name\": \"Aurora Bo";
    // The event that adds the part is missing: some servers leave it out.
    let first = [
        json!({"type": "response.created", "response": {"id": "r", "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m", "role": "assistant", "content": []}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "m", "delta": cut}),
        json!({"type": "response.incomplete", "response": {"id": "r", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}}),
    ];
    let named = |events: &[Value]| -> String {
        let one = |data: &Value| {
            format!(
                "event: {}\ndata: {data}\n\n",
                data["type"].as_str().unwrap()
            )
        };
        events.iter().map(one).collect()
    };
    let (body, outcome) = relayed(Dialect::Responses, Vec::new(), &named(&first), |request| {
        let input = format!("{}realis\"}}", request.turn.as_ref().unwrap().anchor);
        named(&[
            json!({"type": "response.created", "response": {"id": "s", "status": "in_progress"}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "custom_tool_call", "id": "i", "call_id": "c", "name": "write_rest", "input": ""}}),
            json!({"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": "i", "delta": input}),
            json!({"type": "response.custom_tool_call_input.done", "output_index": 0, "item_id": "i", "input": input}),
            json!({"type": "response.completed", "response": {"id": "s", "status": "completed", "output": []}}),
        ])
    });
    let events = event_data(body.as_bytes());
    let text: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(text, "{\"name\": \"Aurora Borealis\"}");
    assert_eq!(outcome.status(), Status::Complete);
    assert!(!body.contains("write_rest"), "{body}");
}

/// A whole body with one choice.
fn whole(message: &Value, reason: &str) -> String {
    json!({"id": "a", "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}).to_string()
}

/// The body that answers a request for the rest.
type Rest<'a> = &'a dyn Fn(&Request) -> String;

#[test]
fn whole_bodies_are_continued_by_the_input_of_the_tool() {
    let cut = "{\"place\": \"Norway, north of Bergen\", \"name\": \"Aurora Bo";
    let strategy = ContinuationStrategy::default().grammar(GrammarForm::CustomTool);
    let chat = |request: &Request| {
        let input = format!("{}realis\"}}", request.turn.as_ref().unwrap().anchor);
        let call =
            json!({"id": "c", "type": "custom", "custom": {"name": "write_rest", "input": input}});
        whole(
            &json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            "tool_calls",
        )
    };
    let responses = |request: &Request| {
        let input = format!("{}realis\"}}", request.turn.as_ref().unwrap().anchor);
        let item = json!({"type": "custom_tool_call", "id": "i", "call_id": "c", "name": "write_rest", "input": input});
        json!({"id": "s", "object": "response", "status": "completed", "output": [item]})
            .to_string()
    };
    let text = json!({"type": "output_text", "text": cut, "annotations": []});
    let message = json!({"type": "message", "id": "m", "role": "assistant", "status": "incomplete", "content": [text]});
    let first = json!({
        "id": "r", "object": "response", "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"}, "output": [message],
    });
    let cases: [(Dialect, String, Rest<'_>, &str); 2] = [
        (
            Dialect::Chat,
            whole(&json!({"role": "assistant", "content": cut}), "length"),
            &chat,
            "/choices/0/message/content",
        ),
        (
            Dialect::Responses,
            first.to_string(),
            &responses,
            "/output/0/content/0/text",
        ),
    ];
    for (dialect, first, rest, place) in cases {
        let relay = BodyRelay::new(Limits::default())
            .dialect(dialect)
            .strategy(strategy.clone());
        let (body, _, outcome) = through_body(relay, &first, |_, request| Some(rest(request)));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            body.pointer(place),
            Some(&json!(format!("{cut}realis\"}}"))),
            "{body}"
        );
        assert_eq!(outcome.status(), Status::Complete);
        assert!(!body.to_string().contains("write_rest"), "{body}");
    }
}

/// The client's settings of the chat template are about its model.
#[test]
fn a_grammar_for_vllm_keeps_the_clients_template_settings() {
    let strategy = ContinuationStrategy::default()
        .prefill(PrefillOptions::default())
        .grammar(GrammarForm::StructuredOutputs);
    let row = Row::of("m")
        .prefill(PrefillForm::Final)
        .grammar(GrammarForm::StructuredOutputs)
        .reasoning_off("chat_template_kwargs", r#"{"thinking":false}"#);
    let request = Cut::new(&strategy, "{\"name\": \"Aurora Bo")
        .request
        .unwrap();
    let retry = Retry::new(request, table(row).of("m", None).into());
    for (own, expected) in [
        (
            json!({"enable_thinking": true, "tools_in_user_message": false}),
            json!({"enable_thinking": false, "tools_in_user_message": false}),
        ),
        (
            json!({"custom": 1}),
            json!({"custom": 1, "enable_thinking": false}),
        ),
    ] {
        let original = json!({"model": "m", "messages": [], "chat_template_kwargs": own});
        let body: Value = serde_json::from_str(&retry.body(&original.to_string())).unwrap();
        assert_eq!(body["chat_template_kwargs"], expected, "{body}");
    }
}
