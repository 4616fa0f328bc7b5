//! Routes: which upstream answers a request, and within which limits.

use restitch::Limits;
use restitch::provider::capability::{GrammarForm, PrefillForm, Row, SchemaSubset};
use restitch_proxy::Server;
use restitch_proxy::config::Config;

use super::raw::*;
use crate::proxy::made::TestProxy;

/// Returns a proxy in front of `base` with the routes of a configuration, where `{0}` is the first
/// other upstream.
async fn routed(base: &Raw, others: &[&Raw], routes: &str) -> Server {
    with_routes(base.unbound(Limits::default()), others, routes)
        .start()
        .await
}

pub(super) fn with_routes(proxy: TestProxy, others: &[&Raw], routes: &str) -> TestProxy {
    let text = others
        .iter()
        .enumerate()
        .fold(routes.to_owned(), |text, (n, other)| {
            text.replace(&format!("{{{n}}}"), &format!("http://{}", other.addr))
        });
    let config = Config::parse_checked(&text).unwrap();
    proxy.with(|own| own.routes.extend(config.routes))
}

pub(super) fn plain(body: &str) -> Vec<Piece> {
    vec![send(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))]
}

/// Returns an upstream that answers every request with its name.
pub(super) async fn named(name: &str) -> Raw {
    Raw::new(vec![plain(name); 40]).await
}

/// Returns a request with a line of its head and a body.
pub(super) fn request(path: &str, line: &str, body: &str) -> String {
    let line = if line.is_empty() {
        String::new()
    } else {
        format!("{line}\r\n")
    };
    post(body).replace("/v1/chat/completions", path).replace(
        "connection: close\r\n",
        &format!("connection: close\r\n{line}"),
    )
}

#[tokio::test]
async fn the_first_route_that_matches_answers() {
    let (base, a, b) = (named("base").await, named("a").await, named("b").await);
    let proxy = routed(
        &base,
        &[&a, &b],
        r#"
        [[route]]
        path = "/v1/files*"
        upstream = "{0}"
        [[route]]
        header = { X-Team = "batch-*" }
        model = "gpt-*"
        upstream = "{1}"
        [[route]]
        header = { x-restitch-tier = "b" }
        upstream = "{1}"
        [[route]]
        model = "claude-*"
        upstream = "{0}"
        "#,
    )
    .await;
    let chat = "/v1/chat/completions";
    let model = |model: &str| format!(r#"{{"model":"{model}","messages":[]}}"#);
    for (path, line, body, expected) in [
        (chat, "", model("other"), "base"),
        (chat, "", model("claude-3"), "a"),
        (chat, "", model("Claude.3"), "a"),
        (chat, "x-team: batch-1", model("gpt-5"), "b"),
        (chat, "x-team: Batch-1", model("gpt-5"), "base"),
        (chat, "x-team: batch-1", model("claude-3"), "a"),
        (chat, "x-team: none\r\nx-team: batch-2", model("gpt-5"), "b"),
        (chat, "x-restitch-tier: b", model("claude-3"), "b"),
        // An answer that passes by the client's wish goes the same way.
        (chat, "x-restitch: off", model("claude-3"), "a"),
        (chat, "x-restitch: off", model("other"), "base"),
        ("/v1/messages", "", model("claude-3"), "a"),
        (
            "/v1beta/models/claude-x:generateContent",
            "",
            r#"{"contents":[]}"#.to_owned(),
            "a",
        ),
        // No API's: the body is not read.
        ("/v1/files", "", "not json".to_owned(), "a"),
        ("/v1/files/1?x", "x-restitch-tier: b", String::new(), "a"),
        ("/v1/embeddings", "", model("claude-3"), "base"),
        (
            "/v1/embeddings",
            "x-restitch-tier: b",
            model("claude-3"),
            "b",
        ),
        // The body is not a request of the API, so its model is unknown.
        (chat, "", "not json".to_owned(), "base"),
    ] {
        let answer = exchange(proxy.addr(), &request(path, line, &body)).await;
        assert_eq!(
            body_of(&answer).0,
            expected,
            "{path} {line} {body}: {answer}"
        );
    }
    // The path is below each upstream's own, and the headers for the proxy go no further.
    base.request(0)
        .begins("POST /prefix/v1/chat/completions HTTP/1.1\r\n");
    a.request(0)
        .begins("POST /v1/chat/completions HTTP/1.1\r\n");
    assert!(
        b.requests
            .lock()
            .unwrap()
            .iter()
            .all(|request| !request.contains("x-restitch"))
    );
    let get = "GET /v1/files/2 HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    assert_eq!(body_of(&exchange(proxy.addr(), get).await).0, "a");
}

#[tokio::test]
async fn a_body_that_is_too_large_has_no_model() {
    let (base, a) = (named("base").await, named("a").await);
    let limits = Limits::default().with_max_body_bytes(40);
    let proxy = with_routes(
        base.unbound(limits),
        &[&a],
        "[[route]]\nmodel = \"m\"\nupstream = \"{0}\"\n",
    );
    let proxy = proxy.start().await;
    let small = exchange(proxy.addr(), &post(r#"{"model":"m","messages":[]}"#)).await;
    assert_eq!(body_of(&small).0, "a");
    let large = exchange(proxy.addr(), &post(ASK)).await;
    assert_eq!(body_of(&large).0, "base");
    large.has("x-restitch-limit: max_body_bytes=40");
}

/// Returns a stream that is cut by the limit of its tokens.
fn cut(text: &str, tokens: u32) -> Vec<Piece> {
    let usage = format!(
        "data: {{\"id\":\"a\",\"choices\":[],\"usage\":{{\"completion_tokens\":{tokens}}}}}\n\ndata: [DONE]\n\n"
    );
    stream(&(chunk(text) + &finish("length").replace("data: [DONE]\n\n", &usage)))
}

#[tokio::test]
async fn a_route_has_limits_of_its_own() {
    let answers = || {
        vec![
            cut("[1, 2", 20),
            cut("[1, 2, 3", 8),
            cut("[1, 2, 3, 4", 8),
            cut("[1, 2, 3, 4, 5]", 8),
        ]
    };
    for (setting, header, calls, stop) in [
        ("continuation = \"auto\"", "", 4, None),
        ("continuation = \"off\"", "", 1, None),
        ("max_continuations = 1", "", 2, Some("continuations")),
        // A client can only ask for less.
        (
            "max_continuations = 1",
            "x-restitch-continuations: 5",
            2,
            Some("continuations"),
        ),
    ] {
        let base = Raw::new(answers()).await;
        let proxy = routed(
            &base,
            &[],
            &format!("[[route]]\nmodel = \"m\"\n{setting}\n"),
        )
        .await;
        let answer = exchange(proxy.addr(), &request("/v1/chat/completions", header, ASK)).await;
        assert_eq!(base.asked(), calls, "{setting} {header}: {answer}");
        match stop {
            Some(stop) => assert!(
                answer.contains(&format!("\"stop\":\"{stop}\"")),
                "{setting}: {answer}"
            ),
            None => assert!(!answer.contains("\"stop\":"), "{setting}: {answer}"),
        }
    }
}

#[tokio::test]
async fn a_route_says_what_is_repaired_and_waited_for() {
    let repaired = || vec![full("[1, 2,]")];
    let silent = || held("[1, 2, 3");
    for (setting, answers, text, told) in [
        ("repair = \"strict\"", repaired(), "[1, 2,]", "[DONE]"),
        (
            "repair = \"syntax\"",
            repaired(),
            "[1, 2]",
            "\"status\":\"complete\"",
        ),
        // The second call brings no more text.
        (
            "max_total_time = 0.3",
            vec![cut("[1, 2", 20), silent()],
            "[1, 2, 3",
            "{\"name\":\"max_total_time\",",
        ),
    ] {
        let base = Raw::new(answers).await;
        let proxy = routed(
            &base,
            &[],
            &format!("[[route]]\nmodel = \"m\"\n{setting}\n"),
        )
        .await;
        let answer = exchange(proxy.addr(), &post(ASK)).await;
        let seen = text_of(&body_of(&answer).0);
        assert_eq!(seen, text, "{setting}: {answer}");
        answer.of(setting).has(told);
    }
}

/// Returns a proxy whose model `p` continues prefills.
async fn prefilling(base: &Raw, limits: Limits, routes: &str) -> Server {
    let row = Row::of("p").prefill(PrefillForm::Turn);
    let proxy = with_routes(base.unbound(limits), &[], routes).row(row);
    proxy.start().await
}

/// Returns whether a request ends with the assistant's message.
fn ends_with_assistant(request: &str) -> bool {
    let last = request
        .rfind("\"role\":")
        .map(|at| &request[at + 8..])
        .unwrap_or_default();
    last.starts_with("assistant\"")
}

/// A client may allow fewer rungs than the operator, and no others.
#[tokio::test]
async fn a_route_and_a_request_restrict_how_the_rest_is_asked_for() {
    for (model, way, header, asked) in [
        ("m", "\"auto\"", "", Some(false)),
        ("p", "\"auto\"", "", Some(true)),
        ("p", "[\"words\"]", "", Some(false)),
        ("p", "[\"prefill\", \"words\"]", "", Some(true)),
        ("p", "\"auto\"", "x-restitch-rungs: words", Some(false)),
        (
            "p",
            "[\"words\"]",
            "x-restitch-rungs: prefill,words",
            Some(false),
        ),
        // Nothing that is allowed can ask for the rest.
        ("m", "[\"prefill\"]", "", None),
        ("p", "[\"words\"]", "x-restitch-rungs: prefill", None),
        ("m", "[\"grammar\", \"schema\", \"again\"]", "", None),
    ] {
        let base = Raw::new(vec![stream(&chunk("[1, 2")), full(", 3]")]).await;
        let routes = format!("[[route]]\ncontinuation = {way}\n");
        let proxy = prefilling(&base, Limits::default(), &routes).await;
        let body = ASK.replace("\"m\"", &format!("\"{model}\""));
        let ask = request("/v1/chat/completions", header, &body);
        let answer = exchange(proxy.addr(), &ask).await;
        let requests = base.requests.lock().unwrap().clone();
        let further = requests.get(1).map(|further| ends_with_assistant(further));
        assert_eq!(further, asked, "{model} {way} {header}: {requests:?}");
        let told = match asked {
            Some(true) => "\"rungs\":[\"prefill\"]",
            Some(false) => "\"rungs\":[\"words\"]",
            None => "\"stop\":\"rungs\"",
        };
        answer.of(format!("{model} {way} {header}")).has(told);
        assert!(
            requests.iter().all(|sent| !sent.contains("x-restitch")),
            "{requests:?}"
        );
    }
}

/// Another tool misses the cache of prompts, so words precede it where the prompt is long, by its
/// usage or by the size of the request.
#[tokio::test]
async fn a_long_prompt_is_not_sent_with_another_tool_first() {
    let usage = |tokens: u64| {
        format!(
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{tokens},\"completion_tokens\":2}}}}\n\n"
        )
    };
    let long = "word ".repeat(20);
    for (tokens, prompt, way, rung) in [
        (None, "Go", "\"auto\"", "grammar"),
        (None, long.as_str(), "\"auto\"", "words"),
        (Some(40), long.as_str(), "\"auto\"", "grammar"),
        (Some(41), "Go", "\"auto\"", "words"),
        // Nothing else is allowed.
        (Some(41), "Go", "[\"grammar\"]", "grammar"),
    ] {
        let usage = tokens.map(usage).unwrap_or_default();
        let base = Raw::new(vec![
            stream(&(chunk("[1, 2") + &usage + &finish("length"))),
            // Not the input of a tool.
            full("[1, 2, 3, 4]"),
            full("[1, 2, 3, 4]"),
        ])
        .await;
        let mut limits = Limits::default();
        limits.continuation.max_uncached_tokens = 40;
        let routes = format!("[[route]]\ncontinuation = {way}\n");
        let proxy = prefilling(&base, limits, &routes).await;
        let body = ASK
            .replace("\"m\"", "\"gpt-5-mini\"")
            .replace("\"x\"", &format!("\"{prompt}\""));
        let answer = exchange(proxy.addr(), &post(&body)).await;
        let told = format!("\"rungs\":[\"{rung}\"");
        answer.of(format!("{usage} {prompt} {way}")).has(&told);
    }
}

/// Another schema misses the cache, too: it follows an answer to words that was not joined.
#[tokio::test]
async fn a_long_prompt_is_not_sent_with_another_schema_first() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"]}"#;
    let format = format!(
        r#""response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}},"messages""#
    );
    for (most, by_schema) in [(1_000, [true, false]), (40, [false, true])] {
        let mut answers = vec![limited("{\"a\": [1, 2")];
        answers.resize(6, full("I can't."));
        let base = Raw::new(answers).await;
        let mut limits = Limits::default();
        limits.continuation.max_uncached_tokens = most;
        let row = Row::of("*").grammar(GrammarForm::JsonSchema(SchemaSubset::Full));
        let proxy = base.unbound(limits).row(row).start().await;
        exchange(proxy.addr(), &post(&ASK.replace("\"messages\"", &format))).await;
        let asked = [1, 2].map(|n| base.request(n).contains("rest_of_"));
        assert_eq!(asked, by_schema, "{most}");
    }
}

#[tokio::test]
async fn a_route_says_what_becomes_of_an_answer() {
    let base = Raw::new(vec![stream(&chunk("[1, 2")), stream(&chunk("[1, 2"))]).await;
    let routes = "[[route]]\nmodel = \"m\"\nmax_continuations = 0\non_give_up = \"close\"\n\
        [[route]]\nmax_continuations = 0\non_give_up = \"error\"\n";
    let proxy = routed(&base, &[], routes).await;
    let closed = exchange(proxy.addr(), &post(ASK)).await;
    closed.has("\"status\":\"closed\"");
    let failed = exchange(proxy.addr(), &post(&ASK.replace("\"m\"", "\"n\""))).await;
    failed.has("\"error\"").has("\"status\":\"failed\"");
}

#[tokio::test]
async fn the_log_and_the_metrics_name_the_route() {
    let (log, _guard) = listening();
    let (base, a) = (named("base").await, named("a").await);
    let routes = "[[route]]\nname = \"team.a\"\nmodel = \"m\"\nheader = { x-team = \"hidden-value\" }\nupstream = \"{0}\"\n";
    let proxy = with_routes(base.unbound(Limits::default()), &[&a], routes)
        .admin(Some(([127, 0, 0, 1], 0).into()))
        .start()
        .await;
    exchange(
        proxy.addr(),
        &request("/v1/chat/completions", "x-team: hidden-value", ASK_WHOLE),
    )
    .await;
    get_at(proxy.addr(), "/v1/models").await;
    get_at(proxy.addr(), "/..%2fx").await;
    let wanted = [
        format!(
            "restitch_requests_total{{route=\"team.a\",upstream=\"{}\",status=\"200\"}} 1\n",
            a.addr
        ),
        format!(
            "restitch_requests_total{{route=\"default\",upstream=\"{}\",status=\"200\"}} 1\n",
            base.addr
        ),
        "restitch_requests_total{route=\"\",upstream=\"\",status=\"400\"} 1\n".to_owned(),
    ];
    let mut seen = String::new();
    for _ in 0..1000 {
        seen = get_at(proxy.admin_addr().unwrap(), "/metrics").await;
        if wanted.iter().all(|wanted| seen.contains(wanted)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(wanted.iter().all(|wanted| seen.contains(wanted)), "{seen}");
    let told = log.text();
    told.has(format!("route=\"team.a\" upstream=\"{}\"", a.addr));
    told.has("route=\"default\"");
    told.lacks("hidden-value");
}
