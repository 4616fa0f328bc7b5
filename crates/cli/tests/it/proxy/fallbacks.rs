//! Fallbacks: when the proxy asks another upstream, which parts of a request it sends, and which it
//! withholds.

use std::time::Duration;

use restitch::Limits;
use tokio::task::JoinSet;

use super::clock::Clock;
use super::raw::*;
use super::routes::{plain, with_routes};

/// Stands wherever a client may have a secret.
const CANARY: &str = "canary-4711";

async fn proxy_of(base: &Raw, others: &[&Raw], routes: &str) -> restitch_proxy::Server {
    // Without patience a failed call is not repeated.
    let proxy = with_routes(
        base.unbound(Limits::default().with_patience(Duration::ZERO)),
        others,
        routes,
    );
    proxy.start().await
}

/// Returns a request that has a secret in every place that is not its body.
fn secretive(path: &str, body: &str) -> String {
    let headers = [
        "authorization: Bearer",
        "x-api-key:",
        "api-key:",
        "x-goog-api-key:",
        "cookie: session=",
        "proxy-authorization: Basic",
        "x-company-token:",
        "x-anything:",
        "openai-organization:",
        "user-agent:",
        "forwarded: for=",
        "anthropic-beta-key:",
        "referer: https://a/?key=",
        "x-conversation-id:",
        "idempotency-key:",
    ];
    let headers = headers
        .map(|header| format!("{header} {CANARY}\r\n"))
        .concat();
    let path = format!("{path}?key={CANARY}&api-version=1&access_token={CANARY}");
    post(body).replace("/v1/chat/completions", &path).replace(
        "host: h\r\n",
        &format!("host: h\r\n{headers}x-request-id: r-1\r\n"),
    )
}

fn refused(status: &str, more: &str) -> Vec<Piece> {
    vec![send(format!(
        "HTTP/1.1 {status}\r\n{more}connection: close\r\ncontent-length: 7\r\n\r\nprimary"
    ))]
}

fn whole(text: &str) -> Vec<Piece> {
    whole_with(text, "stop")
}

fn whole_with(text: &str, finish: &str) -> Vec<Piece> {
    let body = serde_json::json!({"id": "b", "choices": [{"index": 0, "message": {"role": "assistant", "content": text},
        "finish_reason": finish}]});
    respond("200 OK", &body.to_string())
}

const ONE: &str = "[[route]]\nname = \"r\"\nfirst_byte_timeout = 0.2\n\
    fallback = [{ upstream = \"{0}\", model = \"other\", key = \"env:K\" }]\n";

#[tokio::test]
async fn a_fallback_answers_what_its_upstream_can_not() {
    let (log, _guard) = listening();
    for (name, pieces, calls) in [
        (
            "503",
            refused("503 Service Unavailable", "retry-after: 30\r\n"),
            1,
        ),
        ("429", refused("429 Too Many Requests", ""), 1),
        ("no answer", vec![], 1),
        ("a reset", vec![Piece::Reset], 1),
        ("silence", vec![Piece::Hold], 1),
    ] {
        let base = Raw::new(vec![pieces]).await;
        let other = Raw::new(vec![whole("[1]")]).await;
        let proxy = proxy_of(&base, &[&other], ONE).await;
        let answer = exchange(proxy.addr(), &secretive("/v1/chat/completions", ASK_WHOLE)).await;
        answer.of(name).begins("HTTP/1.1 200 ").has("[1]");
        answer
            .of(name)
            .has(format!("x-restitch-upstream: {}\r\n", other.addr));
        assert_eq!(base.asked(), calls, "{name}");
        base.request(0)
            .of(name)
            .has(format!("authorization: Bearer {CANARY}"));
        let sent = other.request(0);
        sent.of(name)
            .begins("POST /v1/chat/completions?api-version=1 HTTP/1.1\r\n");
        sent.has("authorization: Bearer key-of-K\r\n");
        sent.has("x-request-id: r-1\r\n");
        sent.of(name).has("\"model\":\"other\"");
        sent.of(name).lacks(CANARY);
    }
    let told = log.text();
    told.has("the next calls go to a fallback");
    told.has("why=\"503\"").has("why=\"429\"");
    told.lacks(CANARY).lacks("key-of-K");
}

/// A response head contains nothing from the model.
#[tokio::test]
async fn a_stream_without_a_byte_has_not_answered() {
    let (log, _guard) = listening();
    for (name, pieces) in [
        ("silence", vec![send(STREAM), Piece::Hold]),
        ("the end", vec![send(STREAM)]),
    ] {
        let base = Raw::new(vec![pieces]).await;
        let other = Raw::new(vec![full("[1]")]).await;
        let proxy = proxy_of(&base, &[&other], ONE).await;
        let answer = exchange(proxy.addr(), &post(ASK)).await;
        assert!(body_of(&answer).1, "{name}: {answer}");
        answer.of(name).has("[1]");
        answer
            .of(name)
            .has(format!("x-restitch-upstream: {}\r\n", other.addr));
    }
    let told = log.text();
    told.has("part=\"whole\" why=\"no answer came");
}

#[tokio::test]
async fn nobody_listens_at_the_first_upstream() {
    let base = Raw::new(vec![]).await;
    let other = Raw::new(vec![whole("[1]")]).await;
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let routes = format!(
        "[[route]]\nupstream = \"http://{free}\"\nfallback = [{{ upstream = \"{{0}}\" }}]\n"
    );
    let proxy = proxy_of(&base, &[&other], &routes).await;
    let answer = exchange(proxy.addr(), &secretive("/v1/chat/completions", ASK_WHOLE)).await;
    answer.has("[1]");
    let sent = other.request(0);
    sent.has("\"model\":\"m\"");
    sent.lacks("authorization");
    sent.lacks(CANARY);
}

#[tokio::test]
async fn what_is_the_clients_own_mistake_goes_nowhere_else() {
    for status in ["400 Bad Request", "401 Unauthorized", "404 Not Found"] {
        let base = Raw::new(vec![refused(status, "")]).await;
        let other = Raw::new(vec![whole("[1]")]).await;
        let proxy = proxy_of(&base, &[&other], ONE).await;
        let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
        answer.begins(format!("HTTP/1.1 {status}\r\n"));
        answer.ends("primary");
        assert_eq!(other.asked(), 0);
    }
}

/// A client whose upstream fails must not read of a key that is not its own.
#[tokio::test]
async fn if_all_fail_the_first_one_has_said_it() {
    let base = Raw::new(vec![refused("503 Service Unavailable", "")]).await;
    let (a, b) = (
        Raw::new(vec![refused("401 Unauthorized", "")]).await,
        Raw::new(vec![]).await,
    );
    let routes = "[[route]]\nfallback = [{ upstream = \"{0}\" }, { upstream = \"{1}\" }]\n";
    let proxy = proxy_of(&base, &[&a, &b], routes).await;
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    answer.begins("HTTP/1.1 503 ").ends("primary");
    answer.lacks("x-restitch-upstream");
    assert_eq!(a.asked(), 1);
    assert_eq!(b.asked(), 1);
}

#[tokio::test]
async fn a_short_wait_is_waited_for() {
    let base = Raw::new(vec![
        refused("429 Too Many Requests", "retry-after: 0\r\n"),
        whole("[2]"),
    ])
    .await;
    let other = Raw::new(vec![whole("[1]")]).await;
    let proxy = proxy_of(&base, &[&other], ONE).await;
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    answer.has("[2]");
    assert_eq!(other.asked(), 0);
}

/// A stream of Messages.
pub(super) fn messages(text: &str, stop: &str) -> Vec<Piece> {
    let event = |name: &str, data: serde_json::Value| format!("event: {name}\ndata: {data}\n\n");
    let body = [
        event(
            "message_start",
            serde_json::json!({"type": "message_start", "message": {"id": "x", "type": "message",
            "role": "assistant", "model": "claude", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}}),
        ),
        event(
            "content_block_start",
            serde_json::json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}),
        ),
        event(
            "content_block_delta",
            serde_json::json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}}),
        ),
        event(
            "content_block_stop",
            serde_json::json!({"type": "content_block_stop", "index": 0}),
        ),
        event(
            "message_delta",
            serde_json::json!({"type": "message_delta", "delta": {"stop_reason": stop},
            "usage": {"output_tokens": 7}}),
        ),
        event("message_stop", serde_json::json!({"type": "message_stop"})),
    ];
    stream(&body.concat())
}

fn claude(model: &str) -> String {
    format!(
        "[[route]]\nfallback = [{{ upstream = \"{{0}}\", model = \"{model}\", key = \"env:K\", wire = \"anthropic\" }}]\n"
    )
}

const TURNS: &str = r#"{"model":"m","stream":true,"response_format":{"type":"json_object"},"messages":[{"role":"system","content":"S"},{"role":"user","content":"x"}]}"#;

#[tokio::test]
async fn a_cut_answer_is_continued_in_another_api() {
    for (model, rest, is_prefill) in [
        ("claude-sonnet-4-5", ", 3]}", true),
        ("claude-opus-4-6", "{\"a\": [1, 2, 3]}", false),
    ] {
        let base = Raw::new(vec![
            stream(&chunk("{\"a\": [1, 2")),
            refused("503 Service Unavailable", ""),
        ])
        .await;
        let other = Raw::new(vec![messages(rest, "end_turn")]).await;
        let proxy = proxy_of(&base, &[&other], &claude(model)).await;
        let answer = exchange(proxy.addr(), &secretive("/v1/chat/completions", TURNS)).await;
        let (body, is_whole) = body_of(&answer);
        assert!(is_whole, "{model}: {answer}");
        body.of(format!("{model}: {answer}"))
            .ends("data: [DONE]\n\n");
        let text = text_of(&body);
        assert_eq!(text, "{\"a\": [1, 2, 3]}", "{model}: {answer}");
        // The client reads one answer of Chat Completions.
        body.lacks("content_block").lacks("message_stop");
        body.has("\"status\":\"complete\"");
        body.has(format!("\"upstreams\":[\"{}\"]", other.addr));
        body.of("another upstream is no failure")
            .has("\"failures\":0");
        let sent = other.request(0);
        sent.begins("POST /v1/messages HTTP/1.1\r\n");
        sent.has("x-api-key: key-of-K\r\n");
        sent.has("anthropic-version: 2023-06-01\r\n");
        sent.lacks(CANARY).lacks("response_format");
        sent.has(format!("\"model\":\"{model}\""));
        sent.has("\"system\":\"S\"");
        assert_eq!(
            sent.ends_with(r#"{"role":"assistant","content":"{\"a\": [1, 2"}]}"#),
            is_prefill,
            "{sent}"
        );
        assert_eq!(sent.contains("overlap_context"), !is_prefill, "{sent}");
    }
}

/// After the upstream refuses the prefill and the fallback's own answer is cut, the fallback still
/// continues.
#[tokio::test]
async fn a_fallback_is_asked_until_the_answer_is_whole() {
    let body = r#"{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support assistant message prefill. The conversation must end with a user message."}}"#;
    let no_prefill = respond("400 Bad Request", body);
    let base = Raw::new(vec![stream(&chunk("[1, 2")), vec![]]).await;
    let other = Raw::new(vec![
        no_prefill,
        messages("[1, 2, 3, 4", "max_tokens"),
        messages("[1, 2, 3, 4, 5]", "end_turn"),
    ])
    .await;
    let proxy = proxy_of(&base, &[&other], &claude("claude-sonnet-4-5")).await;
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    answer.has("\"status\":\"complete\"");
    // Once used, it is asked for all that follows.
    assert_eq!(base.asked(), 2, "{answer}");
    assert_eq!(other.asked(), 3, "{answer}");
}

#[tokio::test]
async fn an_answer_of_which_nothing_came_is_asked_for_elsewhere() {
    let base = Raw::new(vec![stream("")]).await;
    let other = Raw::new(vec![full("[1]")]).await;
    let proxy = proxy_of(&base, &[&other], ONE).await;
    let answer = exchange(proxy.addr(), &secretive("/v1/chat/completions", ASK)).await;
    answer.has("[1]").has("data: [DONE]");
    assert_eq!(base.asked(), 1, "{answer}");
    other.request(0).lacks(CANARY);
}

/// A call for the rest that brings nothing counts as a refused one: the next upstream is asked.
#[tokio::test]
async fn a_rest_of_which_nothing_comes_is_asked_for_elsewhere() {
    let error = "data: {\"error\":{\"message\":\"overloaded\",\"code\":529}}\n\n";
    for (name, rest) in [
        ("silence", vec![send(STREAM), Piece::Hold]),
        ("the end", vec![send(STREAM)]),
        ("a reset", vec![send(STREAM), Piece::Reset]),
        ("an error", vec![send(format!("{STREAM}{error}"))]),
    ] {
        let base = Raw::new(vec![stream(&chunk("[1, 2")), rest.clone()]).await;
        let (second, third) = (
            Raw::new(vec![rest]).await,
            Raw::new(vec![messages("[1, 2, 3]", "end_turn")]).await,
        );
        let routes = "[[route]]\nfirst_byte_timeout = 0.1\nfallback = [{ upstream = \"{0}\" }, \
                      { upstream = \"{1}\", model = \"claude-opus-4-6\", wire = \"anthropic\" }]\n";
        let proxy = proxy_of(&base, &[&second, &third], routes).await;
        let answer = exchange(proxy.addr(), &post(ASK)).await;
        assert!(body_of(&answer).1, "{name}: {answer}");
        answer.of(name).has("\"status\":\"complete\"");
        let calls = [&base, &second, &third].map(Raw::asked);
        assert_eq!(calls, [2, 1, 1], "{name}: {answer}");
    }
}

/// Only the log has the reason why the last fallback failed.
#[tokio::test]
async fn the_log_says_why_no_fallback_has_answered() {
    let (log, _guard) = listening();
    let base = Raw::new(vec![refused("429 Too Many Requests", "")]).await;
    let other = Raw::new(vec![refused("401 Unauthorized", "")]).await;
    let proxy = proxy_of(&base, &[&other], ONE).await;
    exchange(proxy.addr(), &post(ASK))
        .await
        .begins("HTTP/1.1 429 ");
    let told = log.text();
    told.has("no fallback has answered").has("why=\"401\"");
    told.has("status=429 upstream_status=429 ");
}

/// The head of a fallback's response is about the operator's account there.
#[tokio::test]
async fn the_head_of_a_fallback_is_not_passed_on() {
    let base = Raw::new(vec![refused("503 Service Unavailable", "")]).await;
    let more = "x-echo: Bearer key-of-K\r\nset-cookie: s=operator\r\nopenai-organization: operator\r\n\
                cache-control: no-cache\r\nx-request-id: theirs\r\n";
    let body = chunk("[1]") + &finish("stop");
    let head = STREAM.replace(
        "connection: close\r\n",
        &format!("connection: close\r\n{more}"),
    );
    let other = Raw::new(vec![vec![send(format!("{head}{body}"))]]).await;
    let proxy = proxy_of(&base, &[&other], ONE).await;
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    answer.has("[1]").has("cache-control: no-cache\r\n");
    answer.has("content-type: text/event-stream\r\n");
    answer.has("x-restitch-upstream-request-id: theirs\r\n");
    answer.lacks("key-of-K").lacks("operator");
}

/// A fallback that compresses its error, although the request forbids it, hides no key.
#[tokio::test]
async fn a_compressed_error_gives_no_key_of_a_fallback_away() {
    let base = Raw::new(vec![refused("503 Service Unavailable", "")]).await;
    let packed = super::encoded::encoded(
        "gzip",
        &["{\"error\":{\"message\":\"no such key: key-of-K\"}}"],
    )
    .concat();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        packed.len()
    );
    let other = Raw::new(vec![vec![send([head.as_bytes(), &packed].concat())]]).await;
    let proxy = proxy_of(&base, &[&other], ONE).await;
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    answer.has("no such key: [key]").lacks("key-of-K");
}

/// The header names the upstream that began an answer.
#[tokio::test]
async fn a_fallback_that_brings_the_rest_has_not_begun_it() {
    let base = Raw::new(vec![
        whole_with("[1, 2", "length"),
        refused("503 Service Unavailable", ""),
    ])
    .await;
    let other = Raw::new(vec![whole("[1, 2, 3]")]).await;
    let proxy = proxy_of(&base, &[&other], ONE).await;
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    answer.has("[1, 2, 3]").lacks("x-restitch-upstream");
}

/// What answers the first call has the request's API, since its bytes pass.
#[tokio::test]
async fn another_api_answers_no_first_call_and_no_whole_body() {
    let base = Raw::new(vec![refused("503 Service Unavailable", "")]).await;
    let other = Raw::new(vec![messages("[1]", "end_turn")]).await;
    let proxy = proxy_of(&base, &[&other], &claude("claude-sonnet-4-5")).await;
    exchange(proxy.addr(), &post(ASK))
        .await
        .begins("HTTP/1.1 503 ");
    let base = Raw::new(vec![
        whole_with("[1, 2", "length"),
        refused("503 Service Unavailable", ""),
    ])
    .await;
    let same = Raw::new(vec![whole("[1, 2, 3]")]).await;
    let routes = format!(
        "{}, {{ upstream = \"{{1}}\" }}]\n",
        claude("claude-sonnet-4-5").trim_end().trim_end_matches(']')
    );
    let proxy = proxy_of(&base, &[&other, &same], &routes).await;
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    answer.has("[1, 2, 3]").has("x-restitch-status: complete");
    assert_eq!(other.asked(), 0);
}

#[tokio::test]
async fn a_route_that_continues_nothing_has_fallbacks_all_the_same() {
    let base = Raw::new(vec![
        refused("502 Bad Gateway", ""),
        stream(&chunk("[1, 2")),
    ])
    .await;
    let other = Raw::new(vec![plain("b")]).await;
    let routes = "[[route]]\ncontinuation = \"off\"\nfallback = [{ upstream = \"{0}\" }]\n";
    let proxy = proxy_of(&base, &[&other], routes).await;
    assert_eq!(
        body_of(&exchange(proxy.addr(), &post(ASK_WHOLE)).await).0,
        "b"
    );
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    answer.has("[1, 2").lacks("restitch");
}

#[tokio::test]
async fn the_metrics_say_who_has_answered() {
    let base = Raw::new(vec![
        stream(&chunk("[1, 2")),
        refused("503 Service Unavailable", ""),
    ])
    .await;
    let other = Raw::new(vec![full("[1, 2, 3]")]).await;
    let proxy = with_routes(base.unbound(Limits::default()), &[&other], ONE)
        .admin(Some(([127, 0, 0, 1], 0).into()))
        .start()
        .await;
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    answer.has("\"status\":\"complete\"");
    let seen = get_at(proxy.admin_addr().unwrap(), "/metrics").await;
    let wanted = format!(
        "restitch_fallbacks_total{{route=\"r\",upstream=\"{}\",part=\"rest\"}} 1\n",
        other.addr
    );
    seen.has(&wanted);
}

#[tokio::test]
async fn the_text_of_an_error_gives_no_key_of_a_fallback_away() {
    let (log, _guard) = listening();
    let base = Raw::new(vec![
        stream(&chunk("[1, 2")),
        refused("503 Service Unavailable", ""),
    ])
    .await;
    let other = Raw::new(vec![respond("400 Bad Request", "key-of-K and more"); 9]).await;
    let proxy = with_routes(base.unbound(Limits::default()), &[&other], ONE)
        .start()
        .await;
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    answer.has("\"status\":\"incomplete\"").lacks("key-of-K");
    let told = log.text();
    told.lacks("key-of-K");
}

/// An error of a stream is as little the client's as one with a status, and its text passes where
/// nothing else is left.
#[tokio::test]
async fn an_error_in_a_stream_gives_no_key_of_a_fallback_away() {
    let (log, _guard) = listening();
    let routes = |more: &str| {
        format!(
            "[[route]]\n{more}\nfallback = [{{ upstream = \"{{0}}\", key = \"env:LONGER\" }}]\n"
        )
    };
    let error = "data: {\"error\":{\"message\":\"no such key: \\u006bey-of-LONGER, or key-of-LONGER\"}}\n\n";
    let body = "{\"error\":{\"message\":\"no such key: key-of-LONGER\"}}";
    let body = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nrequest-id: of-key-of-LONGER\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let failed = || refused("503 Service Unavailable", "");
    for (name, more, ask, first, answers) in [
        ("a first answer", "", ASK, failed(), vec![stream(error); 9]),
        (
            "text before",
            "",
            ASK,
            failed(),
            vec![stream(&(chunk("plain") + error)); 9],
        ),
        (
            "a rest",
            "",
            ASK,
            stream(&chunk("[1, 2")),
            vec![stream(&(chunk("[1, 2, 3") + error)); 9],
        ),
        (
            "an error at the end",
            "on_give_up = \"error\"",
            ASK,
            stream(&chunk("[1, 2")),
            vec![stream(error); 9],
        ),
        (
            "nothing is continued",
            "continuation = \"off\"",
            ASK,
            failed(),
            vec![stream(error); 9],
        ),
        (
            "a whole body",
            "",
            ASK_WHOLE,
            failed(),
            vec![vec![send(body.clone())]; 9],
        ),
        (
            "a body that passes",
            "continuation = \"off\"",
            ASK_WHOLE,
            failed(),
            vec![vec![send(body.clone())]; 9],
        ),
    ] {
        let base = Raw::new(vec![first, failed()]).await;
        let other = Raw::new(answers).await;
        let proxy = with_routes(base.unbound(Limits::default()), &[&other], &routes(more))
            .start()
            .await;
        let answer = exchange(proxy.addr(), &post(ask)).await;
        assert!(other.asked() > 0, "{name}: {answer}");
        answer.of(name).lacks("ey-of-LONGER");
        answer.of(name).has("no such key: [key]");
        assert!(body_of(&answer).1, "{name}: {answer}");
    }
    let told = log.text();
    told.lacks("ey-of-LONGER");
}

/// The key is the operator's, but the text of a model is the client's.
#[tokio::test]
async fn text_of_a_fallback_stays_as_it_is() {
    let text = chunk("[\"key-of-LONGER\"]") + ": key-of-LONGER\n\n" + &finish("stop");
    let base = Raw::new(vec![refused("503 Service Unavailable", "")]).await;
    let other = Raw::new(vec![stream(&text)]).await;
    let routes = "[[route]]\nfallback = [{ upstream = \"{0}\", key = \"env:LONGER\" }]\n";
    let proxy = proxy_of(&base, &[&other], routes).await;
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    assert_eq!(body_of(&answer).0, text);
    // The same where nothing is read.
    let base = Raw::new(vec![refused("503 Service Unavailable", ""); 2]).await;
    let other = Raw::new(vec![stream(&text), whole("key-of-LONGER")]).await;
    let proxy = proxy_of(
        &base,
        &[&other],
        &routes.replace("]]\n", "]]\ncontinuation = \"off\"\n"),
    )
    .await;
    assert_eq!(body_of(&exchange(proxy.addr(), &post(ASK)).await).0, text);
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    assert!(body_of(&answer).1, "{answer}");
    answer.has("\"content\":\"key-of-LONGER\"");
}

/// Answers every request of a connection with an empty JSON object. Returns the address, and counts
/// the connections.
async fn lasting() -> (
    std::net::SocketAddr,
    std::sync::Arc<std::sync::atomic::AtomicUsize>,
) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let count = std::sync::Arc::new(AtomicUsize::new(0));
    let connections = std::sync::Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut read = Vec::new();
                while stream.read_buf(&mut read).await.is_ok_and(|read| read > 0) {
                    if read.ends_with(b"}]}") {
                        read.clear();
                        let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}";
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    (addr, count)
}

/// `max_idle_connections` holds for the connections to fallbacks, too.
#[tokio::test]
async fn connections_to_fallbacks_are_kept_up_to_the_limit() {
    for (most, connections) in [(0, 3), (2, 1)] {
        let mut limits = Limits::default();
        limits.transport.max_idle_connections = most;
        let base = Raw::new(vec![refused("503 Service Unavailable", ""); 3]).await;
        let (addr, count) = lasting().await;
        let routes = format!("[[route]]\nfallback = [{{ upstream = \"http://{addr}\" }}]\n");
        let proxy = with_routes(base.unbound(limits), &[], &routes)
            .start()
            .await;
        for _ in 0..3 {
            let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
            answer.ends("{}");
        }
        assert_eq!(
            count.load(std::sync::atomic::Ordering::Relaxed),
            connections,
            "{most}"
        );
    }
}

/// JSON and prose that fall silent after some text: also where the upstream closes the stream after
/// half of the time.
#[tokio::test]
async fn an_answer_that_falls_silent_goes_on_at_the_fallback() {
    let text = "The harbour was quiet that morning. Nets hung over the rails, stiff with salt, and nobody spoke.";
    let limits = || Limits::default().with_idle_timeout(Duration::from_millis(80));
    let routes =
        "[[route]]\nprose = \"anchor\"\nfallback = [{ upstream = \"{0}\", model = \"other\" }]\n";
    for (first, rest) in [("[1, 2", "[1, 2, 3]"), (&text[..70], &text[10..])] {
        for silence in [
            vec![Piece::Hold],
            vec![Piece::Wait(Duration::from_millis(50)), Piece::Reset],
        ] {
            let stalled = [vec![opening(first)], silence].concat();
            let base = Raw::new(vec![stalled]).await;
            let other = Raw::new(vec![full(rest)]).await;
            let proxy = with_routes(base.unbound(limits()), &[&other], routes)
                .start()
                .await;
            let answer = exchange(proxy.addr(), &post(ASK)).await;
            assert!(body_of(&answer).1, "{answer}");
            answer.has("\"status\":\"complete\"");
            answer.has("\"models\":[\"m\",\"other\"]");
            assert_eq!([&base, &other].map(Raw::asked), [1, 1], "{answer}");
        }
    }
}

fn too_long() -> Vec<Piece> {
    let body = r#"{"error": {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}}"#;
    respond("400 Bad Request", body)
}

/// Another model may have a longer context. The same one is never asked for the same again.
#[tokio::test]
async fn a_request_that_is_too_long_goes_to_the_fallback() {
    let base = Raw::new(vec![too_long()]).await;
    let other = Raw::new(vec![whole("[1]")]).await;
    let proxy = proxy_of(&base, &[&other], ONE).await;
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    answer.begins("HTTP/1.1 200 ").has("[1]");
    // Of a request for the rest.
    let base = Raw::new(vec![stream(&chunk("[1, 2")), too_long()]).await;
    let other = Raw::new(vec![full("[1, 2, 3]")]).await;
    let proxy = proxy_of(&base, &[&other], ONE).await;
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    assert!(body_of(&answer).1, "{answer}");
    answer.has("\"status\":\"complete\"");
    assert_eq!([&base, &other].map(Raw::asked), [2, 1], "{answer}");
    // Without a fallback the answer ends.
    let base = Raw::new(vec![stream(&chunk("[1, 2")), too_long()]).await;
    let proxy = base.proxy(Limits::default()).await;
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    answer.has("\"stop\":\"context\"");
    assert_eq!(base.asked(), 2, "{answer}");
}

/// The same request would be refused again. The refusals are not an outage: the next answers are
/// continued without a pause.
#[tokio::test]
async fn a_rest_that_is_too_long_is_asked_for_once_more_with_a_rendering() {
    let words: String = (0..100).map(|n| format!("harbour {n} ")).collect();
    let text = format!("{{\"text\": \"{words}");
    let rest = format!("{}and nets\", \"more\": [1, 2]}}", &text[text.len() - 40..]);
    for is_answered in [true, false] {
        let mut limits = Limits::default();
        limits.continuation.overload_min_calls = 1;
        let last = match is_answered {
            true => full(&rest),
            false => too_long(),
        };
        let base = Raw::new(vec![stream(&chunk(&text)), too_long(), last]).await;
        let proxy = base.proxy(limits).await;
        let answer = exchange(proxy.addr(), &post(ASK)).await;
        let expected = match is_answered {
            true => "\"status\":\"complete\"",
            false => "\"stop\":\"context\"",
        };
        answer.has(expected);
        let requests = base.requests.lock().unwrap();
        assert_eq!(requests.len(), 3, "{answer}");
        let delivered = |request: &str| request.matches("harbour").count();
        assert!(delivered(&requests[1]) >= 100, "{}", requests[1]);
        assert!(delivered(&requests[2]) < 80, "{}", requests[2]);
    }
}

async fn patient(base: &Raw, other: &Raw, routes: &str) -> restitch_proxy::Server {
    let proxy = with_routes(base.unbound(Limits::default()), &[other], routes);
    proxy.start().await
}

#[tokio::test]
async fn a_route_asks_its_upstream_again_before_a_fallback() {
    let routes =
        "[[route]]\nretries = 2\nfirst_byte_timeout = 0.5\nfallback = [{ upstream = \"{0}\" }]\n";
    let internal = || refused("500 Internal Server Error", "");
    let busy = |wait: &str| refused("429 Too Many Requests", &format!("retry-after: {wait}\r\n"));
    let rows = [
        ("two errors", vec![internal(), internal()], [3, 0]),
        ("a reset", vec![vec![Piece::Reset]], [2, 0]),
        ("a wait", vec![busy("1")], [2, 0]),
        ("a long wait", vec![busy("60")], [1, 1]),
        (
            "three errors",
            vec![internal(), internal(), internal()],
            [3, 1],
        ),
        // A second call would wait equally long.
        ("silence", vec![vec![Piece::Hold]], [1, 1]),
    ];
    // The waits overlap.
    let check = |(name, before, calls)| async move {
        let base = Raw::new([before, vec![whole("[1]")]].concat()).await;
        let other = Raw::new(vec![whole("[1]")]).await;
        let proxy = patient(&base, &other, routes).await;
        let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
        answer.of(name).begins("HTTP/1.1 200 ").has("[1]");
        assert_eq!([&base, &other].map(Raw::asked), calls, "{name}");
    };
    let checks: JoinSet<()> = rows.map(check).into_iter().collect();
    Clock::paused().until(checks.join_all()).await;
    // Calls for the rest, too.
    let base = Raw::new(vec![stream(&chunk("[1, 2")), internal(), full("[1, 2, 3]")]).await;
    let other = Raw::new(vec![]).await;
    let proxy = patient(&base, &other, routes).await;
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    assert!(body_of(&answer).1, "{answer}");
    answer.has("\"status\":\"complete\"");
    assert_eq!([&base, &other].map(Raw::asked), [3, 0], "{answer}");
}

/// The upstream has not begun to answer a request whose connection it loses at once.
#[tokio::test]
async fn a_first_call_that_is_lost_at_once_is_made_again() {
    let base = Raw::new(vec![vec![Piece::Reset], whole("[1]")]).await;
    let proxy = base.proxy(Limits::default()).await;
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    answer.begins("HTTP/1.1 200 ").has("[1]");
    assert_eq!(base.asked(), 2);
}
