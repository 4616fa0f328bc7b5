//! Limits on clients: their number, their silence, and the bytes that they leave unread.

use std::path::Path;
use std::time::Duration;

use restitch::{Limits, ServerLimits};
use restitch_http::Upstream;
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};

use super::raw::*;
use super::seen::logged;
use crate::proxy::made::TestProxy;

const SOON: Duration = Duration::from_millis(50);

/// Returns the default limits with changes to those of clients.
fn limits(change: impl FnOnce(&mut ServerLimits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits.server);
    limits
}

/// Returns a proxy whose upstream gets no request.
async fn proxy(change: impl FnOnce(&mut ServerLimits)) -> restitch_proxy::Server {
    Raw::new(Vec::new()).await.proxy(limits(change)).await
}

#[tokio::test]
async fn an_unused_connection_is_closed() {
    let proxy = proxy(|limits| limits.unused_timeout = SOON).await;
    let answer = get_at(proxy.addr(), "/healthz").await;
    assert!(answer.matches("HTTP/1.1").count() == 1, "{answer}");
    answer.begins("HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_body_that_stops_is_refused_in_the_form_of_the_api() {
    let proxy = proxy(|limits| limits.body_timeout = SOON).await;
    for (path, form) in [
        ("/v1/chat/completions", "\"param\":null"),
        ("/v1/messages", "\"type\":\"error\""),
    ] {
        let begin =
            format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\n{{\"mod");
        let answer = exchange(proxy.addr(), &begin).await;
        answer.begins("HTTP/1.1 408 ").has(form);
    }
}

/// The upstream is not at fault.
#[tokio::test]
async fn a_body_that_passes_and_fails_is_the_clients_fault() {
    let begin = "POST /v1/files HTTP/1.1\r\nhost: h\r\n";
    for (rest, status, code) in [
        ("content-length: 100\r\n\r\n{\"mod", 408, "body_timeout"),
        (
            "transfer-encoding: chunked\r\n\r\n5\r\n{\"mod\r\nxyz\r\n",
            400,
            "body_broke_off",
        ),
    ] {
        let raw = Raw::new(vec![vec![Piece::Hold]]).await;
        let mut limits = Limits::default();
        limits.server.body_timeout = SOON;
        let proxy = raw.proxy(limits).await;
        let answer = exchange(proxy.addr(), &format!("{begin}{rest}")).await;
        answer.begins(format!("HTTP/1.1 {status} ")).has(code);
    }
}

#[tokio::test]
async fn bodies_without_their_end_are_bounded() {
    let proxy = proxy(|limits| limits.max_unfinished_bytes = 1000).await;
    let answer = exchange(proxy.addr(), &post(&ASK.replace('x', &"x".repeat(2000)))).await;
    answer.begins("HTTP/1.1 503 ").has("max_unfinished_bytes");
}

/// Returns the default limits with a short wait for the upstream.
fn impatient() -> Limits {
    Limits::default()
        .with_first_byte_timeout(SOON)
        .with_idle_timeout(SOON)
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_is_a_gateway_timeout() {
    let models = "GET /v1/models HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n".to_owned();
    for (request, form) in [
        (post(ASK), "\"param\":null"),
        (post(ASK_WHOLE), "\"param\":null"),
        (
            post(ASK).replace("/v1/chat/completions", "/v1/messages"),
            "\"type\":\"error\"",
        ),
        (models, "first_byte_timeout"),
    ] {
        let raw = Raw::new(vec![vec![Piece::Hold]]).await;
        let proxy = raw.proxy(impatient()).await;
        let answer = exchange(proxy.addr(), &request).await;
        answer.of(&request).begins("HTTP/1.1 504 ");
        answer.of(&request).has(form);
        answer.of(&request).has("the upstream does not answer");
        raw.wait(|state| state.left == 1).await;
    }
}

/// The wait for an answer begins when the upstream has the whole request.
#[tokio::test]
async fn a_body_that_comes_slowly_is_waited_for() {
    let raw = Raw::new(vec![vec![send(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    )]])
    .await;
    let proxy = raw.proxy(impatient()).await;
    let mut client = connect(proxy.addr()).await;
    let head =
        "POST /v1/files HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 4\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    for byte in b"body" {
        sleep(SOON).await;
        client.write_all(&[*byte]).await.unwrap();
    }
    let answer = read_to_end(&mut client).await;
    answer.begins("HTTP/1.1 200 ").ends("ok");
}

/// The refusal of a request that the proxy adapts is read, to learn from it.
#[tokio::test]
async fn a_refusal_that_stops_is_not_waited_for() {
    let stuck = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"err";
    let raw = Raw::new(vec![vec![send(stuck), Piece::Hold]]).await;
    let upstream = Upstream::parse(&format!("http://{}", raw.addr)).unwrap();
    let proxy = TestProxy::new(upstream)
        .limits(impatient())
        .adapt(true)
        .start()
        .await;
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    answer.begins("HTTP/1.1 502 ").has("upstream_broke_off");
}

/// A client that limits its tokens also limits the tokens of continuations.
#[tokio::test]
async fn the_tokens_of_continuations_are_bounded() {
    let usage = r#"data: {"id":"a","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":10,"total_tokens":19}}"#;
    let cut = |text: &str| {
        let end = finish("length").replace("data: [DONE]", &format!("{usage}\n\ndata: [DONE]"));
        stream(&(chunk(text) + &end))
    };
    for (limit, calls) in [
        ("", 9),
        (r#","max_tokens":10"#, 5),
        (r#","max_completion_tokens":10"#, 5),
    ] {
        // Each answer says all that came before it, and a little more.
        let so_far = |n: u32| (1..=n).fold("[0".to_owned(), |text, row| format!("{text}, {row}00"));
        let answers = (1..20).map(|n| cut(&so_far(n))).collect();
        let raw = Raw::new(answers).await;
        let proxy = raw.proxy(Limits::default()).await;
        let ask = ASK.replace(r#""stream":true"#, &format!(r#""stream":true{limit}"#));
        let answer = exchange(proxy.addr(), &post(&ask)).await;
        assert_eq!(raw.asked(), calls, "{limit}: {answer}");
        let stop = if limit.is_empty() {
            "continuations"
        } else {
            "tokens"
        };
        answer.of(limit).has(format!(r#""stop":"{stop}""#));
    }
}

#[tokio::test]
async fn connections_are_bounded() {
    type Change = fn(&mut ServerLimits);
    let scenes: [(&str, Change); 2] = [
        ("max_connections", |limits| limits.max_connections = 2),
        ("max_connections_per_client", |limits| {
            limits.max_connections_per_client = Some(2);
        }),
    ];
    for (limit, change) in scenes {
        let proxy = proxy(change).await;
        let health = "GET /healthz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
        let (first, _second) = (connect(proxy.addr()).await, connect(proxy.addr()).await);
        let answer = exchange(proxy.addr(), health).await;
        answer.of(limit).begins("HTTP/1.1 503 ").has(limit);
        drop(first);
        let served = async {
            while !exchange(proxy.addr(), health)
                .await
                .starts_with("HTTP/1.1 200 ")
            {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(HANGS, served).await.expect("there is room again");
    }
}

#[tokio::test]
async fn a_large_head_is_refused() {
    let proxy = proxy(|limits| (limits.max_head_bytes, limits.max_head_fields) = (8192, 20)).await;
    let long = format!(
        "GET /healthz HTTP/1.1\r\nhost: h\r\nx: {}\r\n\r\n",
        "x".repeat(10_000)
    );
    let many = format!(
        "GET /healthz HTTP/1.1\r\nhost: h\r\n{}\r\n",
        "x: y\r\n".repeat(30)
    );
    for request in [long, many] {
        let answer = exchange(proxy.addr(), &request).await;
        answer.begins("HTTP/1.1 431 ");
        answer.has("`max_head_bytes`").has("8192");
        answer.has("`max_head_fields`").has("20 headers");
    }
}

/// The proxy refuses invalid bytes on a used connection as on a new one, and no client takes an
/// answer for a refusal.
#[tokio::test]
async fn bytes_that_are_no_request_are_refused_after_an_answer() {
    let empty = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let raw = Raw::new(vec![vec![send(empty)]; 2]).await;
    let proxy = raw.proxy(Limits::default()).await;
    let mut client = connect(proxy.addr()).await;
    for _ in 0..2 {
        client
            .write_all(b"GET /x HTTP/1.1\r\nhost: h\r\n\r\n")
            .await
            .unwrap();
        let answer = read_until(&mut client, "\r\n\r\n").await;
        answer.begins("HTTP/1.1 400 ").ends("\r\n\r\n");
        client
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n")
            .await
            .unwrap();
        read_until(&mut client, "ok\n").await;
    }
    client.write_all(b"no request\r\n\r\n").await.unwrap();
    let refusal = read_to_end(&mut client).await;
    refusal.begins("HTTP/1.1 400 ").has("no HTTP request");
    assert!(body_of(&refusal).1, "{refusal}");
}

/// An answer that the proxy forwards unread also has a limit for silence. In an event stream, an
/// error names the limit.
#[tokio::test]
async fn an_answer_that_passes_and_falls_silent_breaks_off() {
    let passing = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\r\nhalf";
    let prose = format!("{STREAM}{}", chunk("Once upon a time"));
    let longer = Limits::default()
        .with_first_byte_timeout(SOON / 2)
        .with_idle_timeout(SOON);
    for (answer, until, limits, limit) in [
        (passing.to_owned(), "half", impatient(), ""),
        (
            prose.clone(),
            "time",
            impatient(),
            "\"code\":\"first_byte_timeout\"",
        ),
        (prose, "time", longer, "\"code\":\"idle_timeout\""),
    ] {
        let raw = Raw::new(vec![vec![send(answer), Piece::Hold]]).await;
        let proxy = raw.proxy(limits).await;
        let seen = exchange(proxy.addr(), &post(ASK)).await;
        assert!(!body_of(&seen).1, "{limit}: {seen}");
        seen.of(limit).has(until).has(limit);
        raw.wait(|state| state.left == 1).await;
        assert_eq!(raw.asked(), 1);
    }
}

/// A client learns which limit a document's upstream has reached, if its rest can't be had.
#[tokio::test]
async fn the_limit_that_cuts_an_answer_is_in_its_report() {
    let (log, _guard) = listening();
    let cut = format!("{STREAM}{}", chunk("{\"a\": [1, "));
    for (limit, body) in [("idle_timeout", cut.clone()), ("text_timeout", cut)] {
        let mut limits = Limits::default().with_max_continuations(0);
        limits.transport.idle_timeout = if limit == "idle_timeout" { SOON } else { HANGS };
        limits.transport.text_timeout = if limit == "text_timeout" { SOON } else { HANGS };
        let raw = Raw::new(vec![vec![send(body), Piece::Hold]]).await;
        let proxy = raw.proxy(limits).await;
        let seen = exchange(proxy.addr(), &post(ASK)).await;
        seen.has("\"cause\":\"idle\"");
        seen.has(format!("\"limit\":{{\"name\":\"{limit}\""));
        // The line `cut`: in `done` the limit precedes the cause.
        let told = format!("message=cut call=0 cause=\"idle\" limit={limit} = 0.05 offset=");
        log.text().has(told);
        let ended = format!(
            "outcome=\"incomplete\" stop=\"continuations\" limit=\"{limit} = 0.05\" cuts=1 "
        );
        logged(&log, &ended).await;
    }
}

/// The error about a connection that takes too long names the limit.
#[tokio::test]
async fn an_upstream_that_takes_no_connection_is_a_gateway_timeout() {
    // A full queue with room for one connection takes no further one.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(0).unwrap();
    let full = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) = timeout(SOON, tokio::net::TcpStream::connect(full)).await {
        waiting.push(stream);
    }
    let silent = Raw::new(vec![vec![Piece::Hold]]).await;
    // Each step has its own time: the other one would take too long.
    for (upstream, limit, connect, tls) in [
        (
            format!("http://{full}"),
            "connect_timeout",
            SOON,
            10 * HANGS,
        ),
        (
            format!("https://localhost:{}", silent.addr.port()),
            "tls_timeout",
            10 * HANGS,
            SOON,
        ),
    ] {
        let ca_file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls/ca.pem");
        let limits = Limits::default()
            .with_patience(Duration::ZERO)
            .with_connect_timeout(connect)
            .with_tls_timeout(tls);
        let proxy = TestProxy::new(upstream)
            .limits(limits)
            .with(|config| config.tls.ca_file = Some(ca_file))
            .start()
            .await;
        let answer = timeout(HANGS, exchange(proxy.addr(), &post(ASK)))
            .await
            .expect(limit);
        answer.of(limit).begins("HTTP/1.1 504 ").has(limit);
    }
}

/// An answer that is cut then ends as one whose rest can't be had, and names the limit. One that
/// passes has an error.
#[tokio::test]
async fn open_answers_are_cut_when_the_time_to_end_is_over() {
    for (threads, text, told) in [
        (0, "[1, 2", "\"status\":\"incomplete\""),
        (
            2,
            "[1, 2",
            "\"limit\":{\"name\":\"drain_timeout\",\"value\":0.",
        ),
        (0, "Once upon a time", "\"code\":\"drain_timeout\""),
    ] {
        let raw = Raw::new(vec![held(text)]).await;
        let upstream = Upstream::parse(&format!("http://{}", raw.addr)).unwrap();
        let proxy = TestProxy::new(upstream).limits(limits(|limits| limits.drain_timeout = SOON));
        let proxy = proxy.threads(threads).start().await;
        let mut client = begin(proxy.addr(), &post(ASK)).await;
        read_until(&mut client, text).await;
        assert!(
            !timeout(HANGS, proxy.shutdown()).await.unwrap(),
            "{threads}"
        );
        let rest = read_to_end(&mut client).await;
        rest.lacks("0\r\n\r\n").has(told);
        raw.wait(|state| state.left == 1).await;
        assert_eq!(raw.asked(), 1);
    }
    // The proxy refuses a request that the upstream has not begun to answer. The client may send it
    // again.
    for (ask, pieces, status, told) in [
        (ASK, vec![Piece::Hold], 503, "drain_timeout"),
        (
            ASK_WHOLE,
            vec![
                send(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{\"id\":",
                ),
                Piece::Hold,
            ],
            503,
            "the limit `drain_timeout = 0.",
        ),
    ] {
        let raw = Raw::new(vec![pieces]).await;
        let proxy = raw
            .proxy(limits(|limits| limits.drain_timeout = SOON))
            .await;
        let mut client = begin(proxy.addr(), &post(ask)).await;
        raw.wait(|state| state.requests == 1).await;
        assert!(!timeout(HANGS, proxy.shutdown()).await.unwrap());
        let answer = read_to_end(&mut client).await;
        answer.begins(format!("HTTP/1.1 {status} ")).has(told);
    }
}

/// A call for the rest of a whole answer is cut, too; it was made, and counts.
#[tokio::test]
async fn the_rest_of_a_whole_answer_is_cut_when_the_time_to_end_is_over() {
    let body = r#"{"id":"b","choices":[{"index":0,"message":{"role":"assistant","content":"[1, 2"},"finish_reason":"length"}]}"#;
    let first = respond("200 OK", body);
    for (give_up, status, told) in [
        ("error", 503, "the limit `drain_timeout = 0.05` is reached"),
        (
            "close",
            200,
            "\"limit\":{\"name\":\"drain_timeout\",\"value\":0.05}",
        ),
    ] {
        let raw = Raw::new(vec![first.clone(), vec![Piece::Hold]]).await;
        let proxy = raw
            .proxy(limits(|limits| limits.drain_timeout = SOON))
            .await;
        let mut client = connect(proxy.addr()).await;
        let ask = post(ASK_WHOLE).replace(
            "host: h",
            &format!("host: h\r\nx-restitch-give-up: {give_up}"),
        );
        client.write_all(ask.as_bytes()).await.unwrap();
        raw.wait(|state| state.requests == 2).await;
        assert!(!timeout(HANGS, proxy.shutdown()).await.unwrap());
        let answer = read_to_end(&mut client).await;
        answer.begins(format!("HTTP/1.1 {status} ")).has(told);
        answer.has_all([
            "x-restitch-limit: drain_timeout=0.05\r\n",
            "x-restitch-calls: 2\r\n",
        ]);
    }
}
