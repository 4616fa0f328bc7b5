//! The strategy of a continuation, a model's limits in a refusal, and the proxy's request headers.

use std::time::Duration;

use restitch::Limits;
use restitch::provider::capability::{PrefillForm, Row, Table};
use restitch::repair::RepairLevel;
use restitch::session::Prompt;
use restitch_http::Upstream;
use restitch_sim::{self, ProviderProfile, Sim};
use restitch_testing::rows::Rows;
use serde_json::{Value, json};

use super::clock::Clock;
use super::raw::*;
use super::{Answer, DOCUMENT, Setup, ask, request};
use crate::proxy::made::TestProxy;

/// Starts a proxy whose upstream has no path of its own, with one row for all models.
pub(super) async fn proxy(
    raw: &Raw,
    row: Row,
    with: impl FnOnce(TestProxy) -> TestProxy,
) -> restitch_proxy::Server {
    let upstream = Upstream::parse(&format!("http://{}", raw.addr)).unwrap();
    let proxy = TestProxy::new(upstream).row(row);
    with(proxy).start().await
}

const NO_PREFILL: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support assistant message prefill. The conversation must end with a user message."}}"#;

/// Returns the target and the body of a request that the upstream has received.
pub(super) fn seen(raw: &Raw, n: usize) -> (String, Value) {
    let request = raw.request(n);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().to_owned(),
        serde_json::from_str(body).unwrap(),
    )
}

fn last_message(body: &Value) -> &Value {
    body["messages"].as_array().unwrap().last().unwrap()
}

/// Returns the text of a streamed answer, and its report.
pub(super) fn told(answer: &str) -> (String, Value) {
    let (body, whole) = body_of(answer);
    assert!(whole, "{answer}");
    let events = restitch_testing::event_data(body.as_bytes());
    let report = events.iter().rfind(|event| event.get("restitch").is_some());
    let report = report.map(|event| event["restitch"].clone());
    (text_of(&body), report.unwrap_or_default())
}

pub(super) fn cut(text: &str) -> Vec<Piece> {
    limited(text)
}

pub(super) fn rest(text: &str) -> Vec<Piece> {
    full(text)
}

/// With a prefill the path is another one, reasoning is turned off, and a returned prefill is
/// removed.
#[tokio::test]
async fn what_a_provider_wants_beside_a_prefix() {
    let raw = Raw::new(vec![cut("[1, 2"), rest("[1, 2, 3]")]).await;
    let mut row = Row::of("*")
        .prefill(PrefillForm::Flag)
        .reasoning_off("thinking", r#"{"type":"disabled"}"#);
    row.prefill_path = Some("/beta".to_owned());
    row.returns_prefill = Some(true);
    let proxy = proxy(&raw, row, |proxy| proxy).await;
    let (text, _) = told(&exchange(proxy.addr(), &post(ASK)).await);
    assert_eq!(text, "[1, 2, 3]");
    assert_eq!(seen(&raw, 0).0, "/v1/chat/completions");
    let (target, body) = seen(&raw, 1);
    assert_eq!(target, "/beta/chat/completions");
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
}

/// The operator's own path is not replaced by another one.
#[tokio::test]
async fn a_prefix_that_needs_another_path_is_asked_for_in_words() {
    let raw = Raw::new(vec![cut("[1, 2"), rest("[1, 2, 3]")]).await;
    let upstream = Upstream::parse(&format!("http://{}/tenant", raw.addr)).unwrap();
    let mut row = Row::of("*").prefill(PrefillForm::Flag);
    row.prefill_path = Some("/beta".to_owned());
    let proxy = TestProxy::new(upstream).row(row).start().await;
    told(&exchange(proxy.addr(), &post(ASK)).await);
    let (target, body) = seen(&raw, 1);
    assert_eq!(target, "/tenant/v1/chat/completions");
    assert_eq!(last_message(&body)["role"], "user");
}

#[tokio::test]
async fn a_model_that_is_told_to_think_gets_no_prefix() {
    let raw = Raw::new(vec![cut("[1, 2"), rest("[1, 2, 3]")]).await;
    let proxy = proxy(&raw, Row::of("*").prefill(PrefillForm::Turn), |proxy| proxy).await;
    let ask = r#"{"model":"m","stream":true,"thinking":{"type":"enabled"},"messages":[{"role":"user","content":"x"}]}"#;
    told(&exchange(proxy.addr(), &post(ask)).await);
    assert_eq!(last_message(&seen(&raw, 1).1)["role"], "user");
}

#[tokio::test]
async fn whole_bodies_learn_as_well() {
    let whole = |text: &str, reason: &str| {
        let body = json!({"id": "a", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}]});
        respond("200 OK", &body.to_string())
    };
    let raw = Raw::new(vec![
        whole("[1, 2", "length"),
        respond(
            "422 Unprocessable Entity",
            r#"{"detail":"messages.1.prefix: Extra inputs are not permitted"}"#,
        ),
        whole("[1, 2, 3]", "stop"),
    ])
    .await;
    let proxy = proxy(&raw, Row::of("*").prefill(PrefillForm::Flag), |proxy| proxy).await;
    let (body, _) = body_of(&exchange(proxy.addr(), &post(ASK_WHOLE)).await);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["choices"][0]["message"]["content"], "[1, 2, 3]");
    assert_eq!(
        body["restitch"],
        json!({"status": "complete", "continuations": 1, "failures": 0, "rungs": ["prefill", "words"], "cut_values": {"/1": 5}})
    );
}

/// A refusal that is about something else is a failure, even if it has the same words about a
/// re-prompt.
#[tokio::test]
async fn other_refusals_are_failures() {
    for (prefix, body) in [
        (PrefillForm::Turn, r#"{"error":{"message":"Bad key"}}"#),
        (PrefillForm::None, NO_PREFILL),
    ] {
        let mut answers = vec![cut("[1, 2")];
        answers.extend(std::iter::repeat_n(respond("400 Bad Request", body), 3));
        let raw = Raw::new(answers).await;
        let proxy = proxy(&raw, Row::of("*").prefill(prefix), |proxy| proxy).await;
        let (text, report) = told(&exchange(proxy.addr(), &post(ASK)).await);
        assert_eq!(text, "[1, 2");
        assert_eq!(report["status"], "incomplete", "{prefix:?}");
        assert_eq!(report["failures"], 3, "{prefix:?}");
        assert_eq!(raw.asked(), 4);
    }
}

/// A member that the proxy has added and that is refused is left out, within the same call.
#[tokio::test]
async fn a_refused_switch_is_left_out() {
    let refused = r#"{"error":{"message":"Reasoning is mandatory for this endpoint and cannot be disabled.","code":400}}"#;
    let raw = Raw::new(vec![
        cut("[1, 2"),
        respond("400 Bad Request", refused),
        rest(", 3]"),
    ])
    .await;
    let row = Row::of("*")
        .prefill(PrefillForm::Turn)
        .reasoning_off("reasoning", r#"{"enabled":false}"#);
    let proxy = proxy(&raw, row, |proxy| proxy).await;
    let (text, report) = told(&exchange(proxy.addr(), &post(ASK)).await);
    assert_eq!(text, "[1, 2, 3]");
    assert_eq!(report["failures"], 0);
    assert_eq!(seen(&raw, 1).1["reasoning"], json!({"enabled": false}));
    let again = seen(&raw, 2).1;
    assert_eq!(again.get("reasoning"), None);
    assert_eq!(last_message(&again)["role"], "assistant");
}

#[tokio::test]
async fn an_answer_that_is_all_thoughts_is_asked_for_with_fewer() {
    let thoughts = || {
        let chunk =
            json!({"id": "a", "choices": [{"index": 0, "delta": {"reasoning_content": "Hm"}}]});
        stream(&(format!("data: {chunk}\n\n") + &finish("length")))
    };
    // Where reasoning can be turned off, it is.
    let raw = Raw::new(vec![thoughts(), rest("[1]")]).await;
    let row = Row::of("*").reasoning_off("enable_thinking", "false");
    let server = proxy(&raw, row.clone(), |proxy| proxy).await;
    let (text, report) = told(&exchange(server.addr(), &post(ASK)).await);
    assert_eq!(text, "[1]");
    assert_eq!(report["status"], "complete");
    assert_eq!(seen(&raw, 1).1["enable_thinking"], false);
    assert_eq!(seen(&raw, 1).1["messages"], seen(&raw, 0).1["messages"]);

    // Where the limit may be raised, each call's limit is twice the one before.
    let limited =
        r#"{"model":"m","stream":true,"max_tokens":7,"messages":[{"role":"user","content":"x"}]}"#;
    let raw = Raw::new(vec![thoughts(), cut("[1, 2"), rest("[1, 2, 3]")]).await;
    let server = proxy(&raw, Row::of("*"), |proxy| proxy.raise_max_tokens(2)).await;
    let (text, _) = told(&exchange(server.addr(), &post(limited)).await);
    assert_eq!(text, "[1, 2, 3]");
    let caps: Vec<Value> = (0..3)
        .map(|n| seen(&raw, n).1["max_tokens"].clone())
        .collect();
    // And the text that the last one repeats has room: 5 bytes.
    assert_eq!(caps, [7, 14, 28 + 3]);

    // Otherwise the answer passes as it came.
    let raw = Raw::new(vec![thoughts()]).await;
    let server = proxy(&raw, Row::of("*"), |proxy| proxy).await;
    let (body, _) = body_of(&exchange(server.addr(), &post(limited)).await);
    body.has("reasoning_content").ends(finish("length"));
    assert_eq!(raw.asked(), 1);
}

const SONAR: &str = r#"{"model": "perplexity/sonar",  "stream":true,"response_format":{"type":"json_object"},"messages":[{"role":"user","content":"x"}]}"#;

#[tokio::test]
async fn first_requests_are_adapted_when_that_is_wanted() {
    for adapts in [false, true] {
        let raw = Raw::new(vec![rest("[1]")]).await;
        let proxy = proxy(&raw, Row::of("none"), |proxy| proxy.adapt(adapts)).await;
        let answer = exchange(proxy.addr(), &post(SONAR)).await;
        told(&answer);
        let request = raw.request(0);
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            answer.contains("\r\nx-restitch-adapted: response_format\r\n"),
            adapts,
            "{answer}"
        );
        if adapts {
            let adapted = r#"{"model": "perplexity/sonar",  "stream":true,"messages":[{"role":"user","content":"x"}]}"#;
            assert_eq!(body, adapted);
        } else {
            assert_eq!(body, SONAR);
        }
    }
    // A request that is right already is not changed.
    let raw = Raw::new(vec![rest("[1]")]).await;
    let right = SONAR.replace(r#""response_format":{"type":"json_object"},"#, "");
    let proxy = proxy(&raw, Row::of("none"), |proxy| proxy.adapt(true)).await;
    told(&exchange(proxy.addr(), &post(&right)).await);
    raw.request(0).ends(&right);
}

const NO_MEMBER: &str = r#"{"detail":"Unsupported parameter: response_format"}"#;

/// One client's bad schema is its own error: the other client's request stays as it is.
#[tokio::test]
async fn a_bad_schema_of_one_client_changes_no_other_request() {
    let bad = r#"{"error":{"message":"Invalid schema for response_format 'Unsupported parameter: response_format': 'x' is not supported","type":"invalid_request_error","param":"response_format","code":null}}"#;
    let ask = SONAR.replace("perplexity/sonar", "other");
    let schema = ask.replace("json_object", "json_schema");
    let raw = Raw::new(vec![respond("400 Bad Request", bad), rest("[1]")]).await;
    let server = proxy(&raw, Row::of("*"), |proxy| proxy.adapt(true)).await;
    let refused = exchange(server.addr(), &post(&schema)).await;
    assert_eq!(body_of(&refused), (bad.to_owned(), true));
    let answer = exchange(server.addr(), &post(&ask)).await;
    assert_eq!(told(&answer).0, "[1]");
    raw.request(1).ends(&ask);
    refused.of(&answer).lacks("x-restitch-adapted");
    answer.lacks("x-restitch-adapted");
}

/// A hint counts for a limited time, and none is recorded if that is zero.
#[tokio::test]
async fn a_lesson_expires() {
    let ask = SONAR.replace("perplexity/sonar", "other");
    let raw = Raw::new(vec![respond("400 Bad Request", NO_MEMBER), rest("[1]")]).await;
    let limits = Limits::default().with_max_hint_age(Duration::ZERO);
    let server = proxy(&raw, Row::of("*"), |proxy| proxy.adapt(true).limits(limits)).await;
    // Nothing was recorded, so the client gets its error.
    assert_eq!(
        body_of(&exchange(server.addr(), &post(&ask)).await).0,
        NO_MEMBER
    );
    assert_eq!(raw.asked(), 1);
}

#[tokio::test]
async fn a_refused_response_format_is_learned_when_that_is_wanted() {
    let ask = SONAR.replace("perplexity/sonar", "other");
    let raw = Raw::new(vec![
        respond("400 Bad Request", NO_MEMBER),
        rest("[1]"),
        rest("[2]"),
    ])
    .await;
    let server = proxy(&raw, Row::of("*"), |proxy| proxy.adapt(true)).await;
    for text in ["[1]", "[2]"] {
        let answer = exchange(server.addr(), &post(&ask)).await;
        assert_eq!(told(&answer).0, text);
        answer.has("\r\nx-restitch-adapted: response_format\r\n");
    }
    let has_format: Vec<bool> = (0..3)
        .map(|n| raw.request(n).contains("response_format"))
        .collect();
    assert_eq!(has_format, [true, false, false]);

    // Otherwise, and where the error is about something else, the client gets its error, to the
    // byte.
    for (adapts, body) in [
        (false, NO_MEMBER),
        (true, r#"{"error":{"message":"Bad key"}}"#),
        (true, NO_PREFILL),
    ] {
        let raw = Raw::new(vec![respond("400 Bad Request", body)]).await;
        let server = proxy(&raw, Row::of("*"), |proxy| proxy.adapt(adapts)).await;
        let answer = exchange(server.addr(), &post(&ask)).await;
        answer.begins("HTTP/1.1 400 Bad Request\r\n");
        assert_eq!(body_of(&answer), (body.to_owned(), true));
    }
    // So it does if its request had no such member.
    let raw = Raw::new(vec![respond("400 Bad Request", NO_MEMBER)]).await;
    let server = proxy(&raw, Row::of("*"), |proxy| proxy.adapt(true)).await;
    assert_eq!(
        body_of(&exchange(server.addr(), &post(ASK)).await).0,
        NO_MEMBER
    );
    assert_eq!(raw.asked(), 1);
}

/// A call is let through once a second, which is later than this answer waits.
#[tokio::test]
async fn an_answer_that_has_waited_for_the_longest_pause_is_let_through() {
    let clock = Clock::paused();
    let busy = || respond("503 Service Unavailable", "{}");
    for (pause, text, calls) in [(50, "[1, 2, 3]", 5), (10_000, "[1, 2", 4)] {
        let limits = Limits::default()
            .with_overload_min_calls(1)
            .with_max_backoff(Duration::from_millis(pause));
        let limits = limits.with_patience(Duration::from_millis(900));
        // The first call that is let through is refused, too.
        let raw = Raw::new(vec![
            cut("[1, 2"),
            busy(),
            busy(),
            busy(),
            rest("[1, 2, 3]"),
        ])
        .await;
        let server = proxy(&raw, Row::of("*"), |proxy| proxy.limits(limits)).await;
        assert_eq!(
            told(&clock.until(exchange(server.addr(), &post(ASK))).await).0,
            text
        );
        assert_eq!(raw.asked(), calls);
    }
}

/// While most calls of a model get 429 or 5xx, continuations wait. The first call of an answer is
/// the client's own, and is always made: if it is answered, the model answers again.
#[tokio::test]
async fn continuations_are_asked_for_again_with_the_first_answer() {
    let busy = || respond("503 Service Unavailable", "{}");
    let limits = Limits::default()
        .with_overload_min_calls(4)
        .with_overload_window(Duration::from_secs(1 << 20));
    let limits = limits.with_patience(Duration::ZERO);
    let mut answers: Vec<_> = (0..4).map(|_| busy()).collect();
    answers.extend([cut("[1, 2"), rest("[1, 2, 3]")]);
    let raw = Raw::new(answers).await;
    let server = proxy(&raw, Row::of("*"), |proxy| proxy.limits(limits)).await;
    for _ in 0..4 {
        exchange(server.addr(), &post(ASK))
            .await
            .begins("HTTP/1.1 503 ");
    }
    assert_eq!(
        told(&exchange(server.addr(), &post(ASK)).await).0,
        "[1, 2, 3]"
    );
    assert_eq!(raw.asked(), 6);
}

#[tokio::test]
async fn the_words_are_the_operator_s() {
    let raw = Raw::new(vec![cut("[1, 2"), rest("[1, 2, 3]")]).await;
    let prompt = Prompt::default()
        .with_instruction("{{context}}\n\nWeiter ab hier, bitte:\n{{overlap_context}}")
        .unwrap();
    let proxy = proxy(&raw, Row::of("*"), |proxy| proxy.prompt(prompt)).await;
    assert_eq!(
        told(&exchange(proxy.addr(), &post(ASK)).await).0,
        "[1, 2, 3]"
    );
    let content = last_message(&seen(&raw, 1).1)["content"].clone();
    assert_eq!(
        content,
        "<element_before_cutoff>\n1\n</element_before_cutoff>\n\n<cut_off_element>\n2\n</cut_off_element>\n\n\
         Weiter ab hier, bitte:\n<overlap_context>\n[1, 2\n</overlap_context>"
    );
}

#[tokio::test]
async fn json_mode_that_can_not_be_left_out_stays() {
    let first = "{\"rows\": [{\"id\": 1, \"name\": \"Alma\"}, {\"id\": 2, \"name\": \"Be";
    let second = "{\"rows\": [{\"id\": 2, \"name\": \"Berta\"}, {\"id\": 3, \"name\": \"Cilli\"}]}";
    let ask = ASK.replacen('{', r#"{"response_format":{"type":"json_object"},"#, 1);
    for (drops, takes, stays) in [
        (false, true, true),
        (true, true, false),
        (false, false, false),
    ] {
        let raw = Raw::new(vec![cut(first), rest(second)]).await;
        let mut row = Row::of("*").prefill(if stays {
            PrefillForm::Turn
        } else {
            PrefillForm::None
        });
        (row.drops_json_mode, row.response_format) = (Some(drops), Some(takes));
        let proxy = proxy(&raw, row, |proxy| proxy).await;
        let (text, report) = told(&exchange(proxy.addr(), &post(&ask)).await);
        let body = seen(&raw, 1).1;
        assert_eq!(body.get("response_format").is_some(), stays);
        let prompt = last_message(&body)["content"].as_str().unwrap();
        assert_eq!(
            prompt.contains("<cut_path>\n/rows/1\n</cut_path>"),
            stays,
            "{prompt}"
        );
        if stays {
            assert_eq!(report["status"], "complete");
            let rows = serde_json::from_str::<Value>(&text).unwrap()["rows"].clone();
            assert_eq!(rows.as_array().unwrap().len(), 3, "{text}");
        }
    }
}

fn with_header(header: &str) -> String {
    post(ASK).replace(
        "connection: close",
        &format!("connection: close\r\n{header}"),
    )
}

#[tokio::test]
async fn a_request_can_be_left_alone() {
    for header in ["x-restitch: off", "X-Restitch:  OFF "] {
        let raw = Raw::new(vec![cut("[1, 2")]).await;
        let proxy = proxy(&raw, Row::of("*"), |proxy| proxy).await;
        let answer = exchange(proxy.addr(), &with_header(header)).await;
        assert_eq!(body_of(&answer).0, chunk("[1, 2") + &finish("length"));
        raw.request(0).to_ascii_lowercase().lacks("x-restitch");
        assert_eq!(raw.asked(), 1);
    }
}

#[tokio::test]
async fn a_request_says_how_often_it_is_continued() {
    for (header, calls) in [("0", 0), ("1", 1), ("2", 2), ("9", 3)] {
        let raw = Raw::new(
            ["[1, ", "[1, 2, ", "[1, 2, 3, ", "[1, 2, 3, 4, "]
                .map(cut)
                .into(),
        )
        .await;
        let limits = Limits::default().with_max_continuations(3);
        let proxy = proxy(&raw, Row::of("*"), |proxy| proxy.limits(limits)).await;
        let header = format!("x-restitch-continuations: {header}");
        let (_, report) = told(&exchange(proxy.addr(), &with_header(&header)).await);
        assert_eq!(report["continuations"], calls, "{header}");
        assert_eq!(report["status"], "incomplete", "{header}");
    }
    let setup = Setup::new("answer").await;
    let (number, risk) = ("must be a whole number", "must be a number from 0 to 1");
    for (name, value, told) in [
        ("x-restitch", "0", "must be `on` or `off`"),
        ("x-restitch", "", "must be `on` or `off`"),
        ("x-restitch-continuations", "-1", number),
        ("x-restitch-max-risk", "2", risk),
        (
            "x-restitch-give-up",
            "never",
            "`never` is not one of `close`, `leave`, `error`",
        ),
        (
            "x-restitch-rungs",
            "word",
            "`word` is not one of `token`, `reattach`",
        ),
        (
            "x-restitch-repair",
            "all",
            "`all` is not one of `strict`, `syntax`, `guess`",
        ),
    ] {
        let asked = with_header(&format!("{name}: {value}"));
        let answer = exchange(setup.proxy.addr(), &asked).await;
        answer
            .begins("HTTP/1.1 400 ")
            .has(format!("`{name}`: {told}"));
    }
    assert!(setup.sim.calls().is_empty());
    assert_eq!(setup.stream().await.text(), DOCUMENT);
}

#[tokio::test]
async fn an_answer_is_repaired_where_that_is_asked_for() {
    let broken = "{'a': [1, 2,], 'b': None}";
    let mended = "{\"a\": [1, 2], \"b\": null}";
    let report = json!({"status": "complete", "continuations": 0, "failures": 0,
        "repairs": {"extra_comma": 1, "literal": 1, "quotes": 4}});
    // By default nothing changes; a header or the operator asks for it.
    let strict = Raw::new(vec![rest(broken)]).await;
    let server = proxy(&strict, Row::of("*"), |proxy| proxy).await;
    assert_eq!(
        told(&exchange(server.addr(), &post(ASK)).await),
        (broken.to_owned(), Value::Null)
    );
    let raw = Raw::new(vec![rest(broken), rest(broken)]).await;
    let server = proxy(&raw, Row::of("*"), |proxy| proxy).await;
    for level in ["syntax", "guess"] {
        let answer = exchange(
            server.addr(),
            &with_header(&format!("x-restitch-repair: {level}")),
        )
        .await;
        assert_eq!(
            told(&answer),
            (mended.to_owned(), report.clone()),
            "{level}"
        );
    }
    let whole = json!({"id": "a", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": broken}, "finish_reason": "stop"}]});
    let raw = Raw::new(vec![respond("200 OK", &whole.to_string())]).await;
    let server = proxy(&raw, Row::of("*"), |proxy| {
        proxy.repair(RepairLevel::Syntax)
    })
    .await;
    let (body, _) = body_of(&exchange(server.addr(), &post(ASK_WHOLE)).await);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["choices"][0]["message"]["content"], json!(mended));
    assert_eq!(body["restitch"], report);

    // The rest is asked for in valid JSON, and repaired before it is joined.
    let raw = Raw::new(vec![
        cut("{'a': [1, 2,], 'b"),
        rest("{'a': [1, 2,], 'bee': None,}"),
    ])
    .await;
    let server = proxy(&raw, Row::of("*"), |proxy| {
        proxy.repair(RepairLevel::Syntax)
    })
    .await;
    let (text, report) = told(&exchange(server.addr(), &post(ASK)).await);
    assert_eq!(text, "{\"a\": [1, 2], \"bee\": null}");
    assert_eq!(report["continuations"], 1);
    last_message(&seen(&raw, 1).1)["content"]
        .as_str()
        .unwrap()
        .has("{\"a\": [1, 2], \"b");
}

/// The headers of a whole answer tell the client how the answer came about, since a closed document
/// parses, too.
#[tokio::test]
async fn a_whole_answer_tells_how_it_came_about() {
    for (script, status, calls, failures) in [
        ("answer", "passed", 1, 0),
        ("prose", "passed", 1, 0),
        ("answer@50 | anchor", "complete", 2, 0),
        ("answer@50 | refusal anchor", "complete", 3, 1),
        // A body that is lost is asked for once more.
        ("drop", "failed", 2, 2),
    ] {
        let setup = Setup::new(script).await;
        let body = super::request(false, "x").to_string();
        let answer = exchange(setup.proxy.addr(), &post(&body)).await;
        let head = answer.split_once("\r\n\r\n").unwrap().0;
        for (name, value) in [
            ("status", status),
            ("calls", &calls.to_string()),
            ("failures", &failures.to_string()),
        ] {
            head.of(script)
                .has(format!("\r\nx-restitch-{name}: {value}"));
        }
    }
    // An answer that the proxy does not read has no such headers.
    let setup = Setup::new("500").await;
    let answer = exchange(
        setup.proxy.addr(),
        &post(&super::request(false, "x").to_string()),
    )
    .await;
    answer.lacks("x-restitch");
}

/// A model server that imitates a provider, and a proxy in front with the provider's row.
struct Scene {
    sim: restitch_sim::Server,
    proxy: restitch_proxy::Server,
}

impl Scene {
    async fn new(profile: ProviderProfile, row: Row, script: &str) -> Self {
        let sim = Sim::new(DOCUMENT, script.parse().unwrap()).profile(profile);
        let sim = sim.start().await;
        let upstream = sim.url();
        let proxy = TestProxy::new(upstream).row(row).adapt(true).start().await;
        Self { sim, proxy }
    }

    async fn ask(&self, prompt: &str) -> Answer {
        ask(&self.proxy.url(), &request(true, prompt)).await
    }

    /// Returns the statuses of all calls, and the number of re-prompts.
    fn calls(&self) -> (Vec<u16>, usize) {
        let calls = self.sim.calls();
        let statuses = calls
            .iter()
            .map(|call| call.status.unwrap().as_u16())
            .collect();
        (
            statuses,
            calls
                .iter()
                .filter(|call| call.body.contains("overlap_context"))
                .count(),
        )
    }
}

/// Returns the table's row for the provider that a profile imitates.
fn row_of(profile: ProviderProfile) -> Row {
    let (model, host) = match profile {
        ProviderProfile::Anthropic => ("claude-sonnet-4-5", "api.anthropic.com"),
        ProviderProfile::Anthropic46 => ("claude-opus-4-6", "api.anthropic.com"),
        ProviderProfile::Gemini => ("gemini-3.5-flash", "generativelanguage.googleapis.com"),
        ProviderProfile::Gemini36 => ("gemini-3.6-flash", "generativelanguage.googleapis.com"),
        ProviderProfile::Gemini38 => ("gemini-3.8-flash", "generativelanguage.googleapis.com"),
        ProviderProfile::DeepSeek => ("deepseek-v4-pro", "api.deepseek.com"),
        ProviderProfile::Mistral => ("mistral-large-latest", "api.mistral.ai"),
        ProviderProfile::Partial => ("qwen-plus", "dashscope.aliyuncs.com"),
        ProviderProfile::Perplexity => ("sonar", "api.perplexity.ai"),
        _ => ("gpt-4.1", "api.openai.com"),
    };
    let known = Table::default().of(model, Some(host));
    let mut row = Row::of("*").prefill(known.prefill);
    row.rejects_trailing_space = Some(known.rejects_trailing_space);
    row.returns_prefill = Some(known.returns_prefill);
    row.prefill_path = known.prefill_path;
    row.response_format = Some(known.response_format);
    row
}

/// With the table's rows every provider is asked in its form and none refuses, at every byte of the
/// document.
#[tokio::test]
async fn each_provider_is_asked_in_its_way() {
    let mut rows = Rows::of("cuts by provider");
    for &profile in ProviderProfile::ALL {
        let mut row = row_of(profile);
        if matches!(profile, ProviderProfile::Vllm | ProviderProfile::LlamaCpp) {
            // Rows for self-hosted servers are configuration.
            row = row.prefill(profile.prefill());
        }
        let scene = Scene::new(profile, row, "").await;
        let mut words = 0;
        let step = if rows.is_whole() { 1 } else { 3 };
        for at in (1..DOCUMENT.len())
            .step_by(step)
            .filter(|&at| DOCUMENT.is_char_boundary(at))
        {
            if !rows.runs_next() {
                continue;
            }
            let answer = scene
                .ask(&format!(
                    "[[script: answer@{at}!length | anchor@40!length anchor]]"
                ))
                .await;
            answer.assert_seamless(DOCUMENT, &format!("{profile:?} at {at}"));
            let calls = scene.sim.calls();
            assert!(
                calls
                    .iter()
                    .filter(|call| call.method == http::Method::POST)
                    .all(|call| call.status.unwrap() == 200),
                "{profile:?} at {at}"
            );
            words = scene.calls().1;
        }
        let calls = scene.sim.calls().len();
        match (profile, profile.prefill()) {
            // A re-prompt is needed only where white space inside a string would have to be left
            // out.
            (ProviderProfile::Anthropic, _) => {
                let is_seldom = words > 0 && words < calls / 4;
                assert!(is_seldom || !rows.is_whole(), "{words} of {calls}");
            }
            (_, PrefillForm::None) => assert!(words > calls / 2, "{profile:?}: {words} of {calls}"),
            _ => assert_eq!(words, 0, "{profile:?}"),
        }
    }
}

/// A wrong row is corrected once by the text of a real refusal, and no failure is counted.
#[tokio::test]
async fn a_wrong_table_is_corrected() {
    for (profile, prefix) in [
        (ProviderProfile::Anthropic46, PrefillForm::Turn),
        (ProviderProfile::Gemini36, PrefillForm::Turn),
        // The row has the flag alone, without its path.
        (ProviderProfile::DeepSeek, PrefillForm::Flag),
        (ProviderProfile::DeepSeek, PrefillForm::Turn),
        (ProviderProfile::Mistral, PrefillForm::Turn),
    ] {
        let scene = Scene::new(
            profile,
            Row::of("*").prefill(prefix),
            "answer@60!length | anchor",
        )
        .await;
        let answer = scene.ask("one").await;
        answer.assert_seamless(DOCUMENT, profile.name());
        let report = json!({"status": "complete", "continuations": 1, "failures": 0, "rungs": ["prefill", "words"]});
        assert_eq!(answer.report(), report, "{profile:?}");
        assert_eq!(scene.calls(), (vec![200, 400, 200], 1), "{profile:?}");
        scene
            .ask("two")
            .await
            .assert_seamless(DOCUMENT, profile.name());
        assert_eq!(
            scene.calls(),
            (vec![200, 400, 200, 200, 200], 2),
            "{profile:?}"
        );
    }
    // White space at the end of a prefill is refused; a prefill without it is still sent.
    let script = "[[script: answer@10!length | anchor]]";
    assert!(DOCUMENT[..10].ends_with(' '));
    let scene = Scene::new(
        ProviderProfile::Anthropic,
        Row::of("*").prefill(PrefillForm::Turn),
        "",
    )
    .await;
    scene
        .ask(&format!("{script} one"))
        .await
        .assert_seamless(DOCUMENT, "trimmed");
    assert_eq!(scene.calls(), (vec![200, 400, 200], 1));
    scene
        .ask(&format!("{script} two"))
        .await
        .assert_seamless(DOCUMENT, "trimmed");
    assert_eq!(scene.calls(), (vec![200, 400, 200, 200, 200], 1));
    // The model refuses the type of `response_format`: another type may be right, so the client
    // gets its error.
    let scene = Scene::new(ProviderProfile::Perplexity, Row::of("*"), "answer").await;
    assert_eq!(scene.ask("one").await.status, 400);
    assert_eq!(scene.calls().0, [400]);
}

/// The proxy reattaches to a server that keeps its streams, and continues at the next byte.
#[tokio::test]
async fn a_kept_stream_is_attached_to_again() {
    let whole = chunk("[1, ") + &chunk("2, 3]") + &finish("stop");
    let cut = chunk("[1, ").len() + 9;
    let first = vec![
        send(format!("{STREAM_OF_LENGTH}{}", &whole[..cut])),
        Piece::Reset,
    ];
    let raw = Raw::new(vec![stopped(), first, stream(&whole[cut..]), stopped()]).await;
    let mut row = Row::of("*");
    row.keeps_streams = Some(true);
    let proxy = proxy(&raw, row, |proxy| proxy.adapt(true)).await;
    let (body, ended) = body_of(&exchange(proxy.addr(), &post(ASK)).await);
    assert_eq!((body, ended), (whole, true));
    // The server must stop streams before it is asked to keep one.
    seen_target(&raw, 0).begins("DELETE /v1/stream?conv_id=restitch-");
    let head = raw.request(1).to_ascii_lowercase();
    let name = head
        .lines()
        .find_map(|line| line.strip_prefix("x-conversation-id: "))
        .unwrap();
    assert!(name.len() > 32, "{name}");
    assert_eq!(
        seen_target(&raw, 2),
        format!("GET /v1/stream?conv_id={name}&from={cut}")
    );
    // The answer is over: its stream need not be kept.
    raw.wait(|state| state.requests == 4).await;
    assert_eq!(
        seen_target(&raw, 3),
        format!("DELETE /v1/stream?conv_id={name}")
    );
}

/// Where the stream is gone, it is stopped and the rest is asked for.
#[tokio::test]
async fn the_rest_of_a_stream_that_is_not_kept_is_asked_for() {
    let first = vec![
        send(format!("{STREAM_OF_LENGTH}{}", chunk("[1, 2"))),
        Piece::Reset,
    ];
    let gone = || respond("404 Not Found", "{}");
    let raw = Raw::new(vec![
        stopped(),
        first,
        gone(),
        stopped(),
        rest("[1, 2, 3]"),
        stopped(),
    ])
    .await;
    let mut row = Row::of("*");
    row.keeps_streams = Some(true);
    let proxy = proxy(&raw, row, |proxy| proxy.adapt(true)).await;
    let (text, report) = told(&exchange(proxy.addr(), &post(ASK)).await);
    assert_eq!(text, "[1, 2, 3]");
    assert_eq!(report["status"], "complete");
    let methods: Vec<_> = (2..5)
        .map(|n| seen_target(&raw, n).split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(methods, ["GET", "DELETE", "POST"]);
    raw.request(4)
        .to_ascii_lowercase()
        .lacks("x-conversation-id");
}

/// A stream that the server can't stop would run on without a reader, so the proxy asks for none.
#[tokio::test]
async fn a_server_that_stops_no_streams_is_not_asked_to_keep_one() {
    let whole = || full("[1]");
    // The next requests don't wait for the same answer.
    for status in [
        "404 Not Found",
        "401 Unauthorized",
        "503 Service Unavailable",
    ] {
        let raw = Raw::new(vec![respond(status, "{}"), whole(), whole(), whole()]).await;
        let mut row = Row::of("*");
        row.keeps_streams = Some(true);
        let proxy = proxy(&raw, row, |proxy| proxy.adapt(true)).await;
        for _ in 0..3 {
            told(&exchange(proxy.addr(), &post(ASK)).await);
        }
        let methods: Vec<_> = (0..4)
            .map(|n| seen_target(&raw, n).split(' ').next().unwrap().to_owned())
            .collect();
        assert_eq!(methods, ["DELETE", "POST", "POST", "POST"], "{status}");
        for n in 1..4 {
            let request = raw.request(n).to_ascii_lowercase();
            request.lacks("x-conversation-id");
        }
    }
}

/// llama.cpp is recognised by the head of its first answer. With its row, a lost connection is
/// attached to again from the second answer on.
#[tokio::test]
async fn a_kept_stream_of_llama_cpp_is_attached_to_again() {
    let scene = Scene::new(ProviderProfile::LlamaCpp, Row::of("other"), "answer").await;
    let whole = scene.ask("one").await;
    whole.assert_seamless(DOCUMENT, "one");
    let mut rows = Rows::of("streams of llama.cpp that break off");
    for at in (1..DOCUMENT.len()).filter(|&at| DOCUMENT.is_char_boundary(at)) {
        if !rows.runs_next() {
            continue;
        }
        let answer = scene.ask(&format!("[[script: answer@{at}!drop]]")).await;
        answer.assert_seamless(DOCUMENT, &format!("at {at}"));
        let drops = scene
            .ask(&format!("[[script: answer!drop={}]]", at * 9))
            .await;
        drops.assert_seamless(DOCUMENT, &format!("dropped after {} bytes", at * 9));
    }
    let calls = scene.sim.calls();
    assert_eq!(scene.calls().1, 0, "no words");
    let posts = calls
        .iter()
        .filter(|call| call.method == http::Method::POST);
    assert!({ posts }.all(|call| call.kind == restitch_sim::CallKind::First));
}

/// A server that begins the format anew at the cut, although its row says otherwise: that is noted,
/// and the next prefill has no format.
#[tokio::test]
async fn a_wrong_row_about_the_format_of_a_prefill_is_corrected() {
    let lists = || cut("{\"list\": [1, 2");
    let raw = Raw::new(vec![
        lists(),
        rest("{\"other\": 7}"),
        rest(", 3]}"),
        lists(),
        rest(", 3]}"),
    ])
    .await;
    let mut row = Row::of("*").prefill(PrefillForm::Turn);
    row.prefill_keeps_format = Some(true);
    let proxy = proxy(&raw, row, |proxy| proxy).await;
    let format = r#""stream":true,"response_format":{"type":"json_object"}"#;
    let asked = post(&ASK.replace(r#""stream":true"#, format));
    for continuations in [2, 1] {
        let (text, report) = told(&exchange(proxy.addr(), &asked).await);
        assert_eq!(text, "{\"list\": [1, 2, 3]}");
        let expected = json!({"status": "complete", "continuations": continuations, "failures": 0, "rungs": ["prefill"]});
        assert_eq!(report, expected);
    }
    let keeps: Vec<bool> = (0..5)
        .map(|n| seen(&raw, n).1.get("response_format").is_some())
        .collect();
    assert_eq!(keeps, [true, true, false, true, false]);
    for n in [1, 2, 4] {
        assert_eq!(last_message(&seen(&raw, n).1)["role"], "assistant");
    }
}

/// A prefill that does not follow the format is refused, and then sent without the format.
#[tokio::test]
async fn a_prefill_that_violates_the_format_is_sent_without_it() {
    let message = r#"{"error":{"code":400,"message":"Failed to initialize samplers: std::exception","type":"invalid_request_error"}}"#;
    let raw = Raw::new(vec![
        cut("{\"list\": [1, 2"),
        respond("400 Bad Request", message),
        rest(", 3]}"),
    ])
    .await;
    let mut row = Row::of("*").prefill(PrefillForm::Turn);
    row.prefill_keeps_format = Some(true);
    let proxy = proxy(&raw, row, |proxy| proxy).await;
    let format = r#""stream":true,"response_format":{"type":"json_object"}"#;
    let asked = post(&ASK.replace(r#""stream":true"#, format));
    let (text, report) = told(&exchange(proxy.addr(), &asked).await);
    assert_eq!(text, "{\"list\": [1, 2, 3]}");
    let expected =
        json!({"status": "complete", "continuations": 1, "failures": 0, "rungs": ["prefill"]});
    assert_eq!(report, expected);
    assert!(seen(&raw, 2).1.get("response_format").is_none());
}

/// A request that stops a stream was accepted, as llama.cpp does for every name.
fn stopped() -> Vec<Piece> {
    vec![send("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")]
}

/// A name that the client has given is its own: it is used, and its stream is not stopped.
#[tokio::test]
async fn a_stream_that_its_client_has_named_stays() {
    let whole = chunk("[1, ") + &chunk("2, 3]") + &finish("stop");
    let first = vec![
        send(format!("{STREAM_OF_LENGTH}{}", &whole[..120])),
        Piece::Reset,
    ];
    let raw = Raw::new(vec![first, stream(&whole[120..]), stream(&whole)]).await;
    let mut row = Row::of("*");
    row.keeps_streams = Some(true);
    let proxy = proxy(&raw, row, |proxy| proxy).await;
    let asked = with_header("x-conversation-id: mine");
    assert_eq!(
        body_of(&exchange(proxy.addr(), &asked).await),
        (whole.clone(), true)
    );
    assert_eq!(seen_target(&raw, 1), "GET /v1/stream?conv_id=mine&from=120");
    // The next request is the next one that comes.
    assert_eq!(
        body_of(&exchange(proxy.addr(), &post(ASK)).await),
        (whole, true)
    );
    raw.request(2).begins("POST ");
}

/// The method and the target of a request.
fn seen_target(raw: &Raw, n: usize) -> String {
    raw.request(n).split(" HTTP/").next().unwrap().to_owned()
}

/// The head of a stream that breaks off where its connection does.
const STREAM_OF_LENGTH: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\nconnection: close\r\n\r\n";
