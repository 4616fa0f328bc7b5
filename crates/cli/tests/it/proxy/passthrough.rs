//! The parts of a request and of its answer that pass unchanged.

use std::time::Duration;

use restitch::Limits;
use restitch_http::Upstream;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::logged::{Log, listen};
use super::raw::*;
use super::{DOCUMENT, Setup};
use crate::proxy::made::TestProxy;

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let head = request
        .split_once("\r\n\r\n")
        .map_or(request, |(head, _)| head);
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

#[tokio::test]
async fn a_request_keeps_what_is_its_own() {
    let raw = Raw::new(vec![stream(&(chunk("[1]") + &finish("stop"))); 2]).await;
    let proxy = raw.proxy(Limits::default()).await;
    let body = ASK.replace(':', " :\t");
    let request = format!(
        "POST /v1/chat/completions?api-version=1&x=%20y HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer sk-1\r\n\
         X-Custom: a\r\nx-custom: b\r\nX-Restitch-Expect: exact\r\nx-restitch: on\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n\
         Keep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\n\
         Upgrade: websocket\r\nAccept-Encoding: gzip\r\nExpect: 100-continue\r\nIdempotency-Key: k\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(proxy.addr(), &request).await;
    assert!(answer.contains("HTTP/1.1 200 OK"), "{answer}");
    let seen = raw.request(0);
    assert!(
        seen.starts_with("POST /prefix/v1/chat/completions?api-version=1&x=%20y HTTP/1.1\r\n"),
        "{seen}"
    );
    for (name, value) in [
        ("authorization", "Bearer sk-1"),
        ("accept-encoding", "identity"),
        ("idempotency-key", "k"),
        ("x-custom", "a"),
        ("host", raw.addr.to_string().as_str()),
        ("content-length", body.len().to_string().as_str()),
    ] {
        assert_eq!(header(&seen, name), Some(value), "{seen}");
    }
    assert!(seen.contains("x-custom: b\r\n"), "{seen}");
    for name in [
        "x-restitch-expect",
        "x-restitch",
        "x-hop",
        "keep-alive",
        "te",
        "proxy-authorization",
        "proxy-connection",
        "upgrade",
        "expect",
        "connection",
    ] {
        assert_eq!(header(&seen, name), None, "{name}: {seen}");
    }
    assert!(seen.ends_with(&body), "{seen}");
}

/// Whatever a request says, it goes to the same upstream.
#[tokio::test]
async fn nothing_in_a_request_chooses_the_upstream() {
    let ok = || {
        vec![send(
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        )]
    };
    for (target, path) in [
        ("/v1/models?limit=2", "/prefix/v1/models?limit=2"),
        ("http://evil.example/x?y", "/prefix/x?y"),
        ("http://user:pw@evil.example:1/x", "/prefix/x"),
        ("/x@evil.example", "/prefix/x@evil.example"),
    ] {
        let raw = Raw::new(vec![ok()]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let request = format!(
            "GET {target} HTTP/1.1\r\nhost: evil.example\r\nx-forwarded-host: evil.example\r\nconnection: close\r\n\r\n"
        );
        let answer = exchange(proxy.addr(), &request).await;
        assert!(answer.ends_with("\r\n\r\nok"), "{target}: {answer}");
        let seen = raw.request(0);
        assert!(
            seen.starts_with(&format!("GET {path} HTTP/1.1\r\n")),
            "{target}: {seen}"
        );
        assert_eq!(header(&seen, "host"), Some(raw.addr.to_string().as_str()));
    }
    let raw = Raw::new(vec![]).await;
    let proxy = raw.proxy(Limits::default()).await;
    let answer = exchange(
        proxy.addr(),
        "CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(raw.state.borrow().requests, 0);
}

/// The proxy tells a client that it supports no WebSocket. Without its upgrade headers the request
/// would mean something else.
#[tokio::test]
async fn a_websocket_is_refused_with_the_reason() {
    let raw = Raw::new(vec![stream(&(chunk("[1]") + &finish("stop")))]).await;
    let proxy = raw.proxy(Limits::default()).await;
    for upgrade in [
        "Upgrade: websocket\r\nConnection: Upgrade",
        "connection: keep-alive, upgrade\r\nupgrade: WebSocket",
    ] {
        let request = format!(
            "GET /v1/realtime?model=m HTTP/1.1\r\nHost: h\r\n{upgrade}\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let mut client = connect(proxy.addr()).await;
        client.write_all(request.as_bytes()).await.unwrap();
        let seen = read_until(&mut client, "}}").await;
        assert!(
            seen.starts_with("HTTP/1.1 501 Not Implemented\r\n"),
            "{seen}"
        );
        let body: Value = serde_json::from_str(&body_of(&seen).0).unwrap();
        let message = body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("WebSocket") && message.contains("upstream"),
            "{message}"
        );
    }
    assert_eq!(raw.state.borrow().requests, 0);
    // Any other upgrade is an offer, which a server may ignore (RFC 9110, section 7.8): the request
    // passes without it.
    let request = post(ASK).replace(
        "connection: close",
        "connection: upgrade, http2-settings, close\r\nupgrade: h2c",
    );
    let seen = exchange(proxy.addr(), &request).await;
    assert!(seen.starts_with("HTTP/1.1 200 "), "{seen}");
    assert_eq!(header(&raw.request(0), "upgrade"), None);
}

#[tokio::test]
async fn other_methods_and_paths_pass() {
    let body = "{\"n\": 1}";
    for (method, path, sent) in [
        ("GET", "/v1/models", ""),
        ("DELETE", "/v1/files/1", ""),
        ("OPTIONS", "/v1/chat/completions", ""),
        ("PUT", "/v1/x", body),
        ("POST", "/v1/embeddings", body),
        ("PATCH", "/v1/chat/completions", body),
        ("GET", "/v1/chat/completions", ""),
    ] {
        let answer = "HTTP/1.1 203 Fine\r\nx-one: 1\r\nx-two: 2\r\ncontent-type: text/event-stream\r\ncontent-length: 9\r\n\r\ndata: [1,";
        let raw = Raw::new(vec![vec![send(answer)]]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: h\r\naccept-encoding: gzip\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{sent}",
            sent.len()
        );
        let seen = exchange(proxy.addr(), &request).await;
        assert!(
            seen.starts_with("HTTP/1.1 203 ") && seen.ends_with("\r\n\r\ndata: [1,"),
            "{method} {path}: {seen}"
        );
        assert_eq!(
            (header(&seen, "x-one"), header(&seen, "x-two")),
            (Some("1"), Some("2"))
        );
        let request = raw.request(0);
        assert!(
            request.starts_with(&format!("{method} /prefix{path} ")) && request.ends_with(sent),
            "{request}"
        );
        assert_eq!(
            header(&request, "accept-encoding"),
            Some("gzip"),
            "{request}"
        );
        assert_eq!(raw.state.borrow().requests, 1);
    }
    let raw = Raw::new(vec![vec![send(
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-one: 1\r\n\r\n",
    )]])
    .await;
    let proxy = raw.proxy(Limits::default()).await;
    let seen = exchange(
        proxy.addr(),
        "HEAD /v1/models HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(seen.ends_with("\r\n\r\n"), "{seen}");
    assert_eq!(
        (header(&seen, "content-length"), header(&seen, "x-one")),
        (Some("5"), Some("1")),
        "{seen}"
    );
}

/// First answers that the proxy does not read pass as they are, and no further call is made.
#[tokio::test]
async fn answers_that_are_not_read_pass_unchanged() {
    let cut = chunk("[1, 2") + &finish("length");
    let error = r#"{"error":{"message":"no","type":"t"}}"#;
    let json = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: 7\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let whole =
        r#"{ "choices": [{"index":0,"message":{"content":"[1, 2"},"finish_reason":"length"}] }"#;
    let not_json = "{'model': 1}";
    let encoded = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: compress\r\ncontent-length: {}\r\n\r\n{cut}",
        cut.len()
    );
    let tool = r#"{"choices":[{"index":0,"message":{"content":"[1, 2","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"length"}]}"#;
    let cases = [
        ("429", ASK, json("429 Too Many Requests", error)),
        (
            "500 to a whole request",
            ASK_WHOLE,
            json("500 Internal Server Error", error),
        ),
        ("401", ASK, json("401 Unauthorized", error)),
        (
            "204",
            ASK,
            "HTTP/1.1 204 No Content\r\nx-request-id: 7\r\n\r\n".to_owned(),
        ),
        (
            "JSON although a stream was asked for",
            ASK,
            json("200 OK", whole),
        ),
        (
            "a stream although none was asked for",
            ASK_WHOLE,
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{cut}",
                cut.len()
            ),
        ),
        ("an encoding that is not read", ASK, encoded),
        (
            "a request that is no JSON",
            not_json,
            json("400 Bad Request", error),
        ),
        ("a whole error", ASK_WHOLE, json("200 OK", error)),
        (
            "a whole body that is no JSON",
            ASK_WHOLE,
            json("200 OK", "[1, 2"),
        ),
        ("tool calls", ASK_WHOLE, json("200 OK", tool)),
        ("an empty body", ASK_WHOLE, json("200 OK", "")),
    ];
    for (name, ask, response) in cases {
        let raw = Raw::new(vec![vec![send(response.clone())]]).await;
        let proxy = raw
            .proxy(Limits::default().with_patience(Duration::ZERO))
            .await;
        let seen = exchange(proxy.addr(), &post(ask)).await;
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(
            seen.starts_with(head.lines().next().unwrap()),
            "{name}: {seen}"
        );
        for line in head.lines().skip(1) {
            // The response has the id of the proxy's own request.
            let line = line.replace("x-request-id", "x-restitch-upstream-request-id");
            assert!(
                seen.contains(&format!("\r\n{line}\r\n")),
                "{name}: {line} in {seen}"
            );
        }
        assert!(seen.ends_with(&format!("\r\n\r\n{body}")), "{name}: {seen}");
        assert_eq!(raw.state.borrow().requests, 1, "{name}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_pass_unchanged() {
    let body = b"{\"choices\":[{\"message\":{\"content\":\"[1, \xff\"}}]}";
    let mut response = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    response.extend_from_slice(body);
    let raw = Raw::new(vec![vec![send(response)]]).await;
    let proxy = raw.proxy(Limits::default()).await;
    let mut client = connect(proxy.addr()).await;
    client.write_all(post(ASK_WHOLE).as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut client, &mut seen)
        .await
        .unwrap();
    assert!(seen.ends_with(body), "{}", String::from_utf8_lossy(&seen));
}

/// Where a body exceeds a cap the answer is not continued, and no byte is lost.
#[tokio::test]
async fn what_is_too_large_is_streamed_through() {
    let limits = || Limits::default().with_max_body_bytes(64);
    let cut = chunk("[1, 2") + &finish("length");
    for chunked in [false, true] {
        let raw = Raw::new(vec![stream(&cut)]).await;
        let proxy = raw.proxy(limits()).await;
        let request = if chunked {
            let (a, b) = ASK.split_at(30);
            format!(
                "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\n\r\n",
                a.len(),
                b.len()
            )
        } else {
            post(ASK)
        };
        let answer = exchange(proxy.addr(), &request).await;
        assert!(
            answer.contains("\r\nx-restitch-limit: max_body_bytes=64\r\n"),
            "{answer}"
        );
        let (body, whole) = body_of(&answer);
        assert!(whole && body == cut, "{body}");
        let (sent, _) = body_of(&raw.request(0));
        assert_eq!(sent, ASK);
    }
    // A whole answer that exceeds the read limit.
    let body = format!(
        r#"{{"choices":[{{"message":{{"content":"[{}"}},"finish_reason":"length"}}]}}"#,
        "1, ".repeat(500)
    );
    for head in [
        format!("content-length: {}\r\n\r\n{body}", body.len()),
        format!(
            "transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        ),
    ] {
        let raw = Raw::new(vec![vec![send(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{head}"
        ))]])
        .await;
        let proxy = raw
            .proxy(Limits::default().with_max_event_bytes(1000))
            .await;
        let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
        assert!(
            answer.contains("\r\nx-restitch-limit: max_event_bytes=1000\r\n"),
            "{answer}"
        );
        let (seen, whole) = body_of(&answer);
        assert!(whole && seen == body, "{seen}");
    }
    // A whole answer that is read, and nested too deeply.
    let body = r#"{"choices":[{"message":{"content":"[[[[1, "},"finish_reason":"length"}]}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let raw = Raw::new(vec![vec![send(head + body)]]).await;
    let proxy = raw.proxy(Limits::default().with_max_depth(3)).await;
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    assert!(
        answer.contains("\r\nx-restitch-limit: max_depth=3\r\n"),
        "{answer}"
    );
    assert_eq!(body_of(&answer), (body.to_owned(), true));
}

/// hyper drops any number of informational responses; eight are read.
#[tokio::test]
async fn informational_responses_are_bounded() {
    let hints = |count: usize| send("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(count));
    for count in [0, 1, 8, 9, 1000] {
        let mut pieces = vec![hints(count)];
        pieces.extend(if count == 1000 {
            vec![Piece::Hold]
        } else {
            stream(&(chunk("[1]") + &finish("stop")))
        });
        let raw = Raw::new(vec![pieces]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let answer = exchange(proxy.addr(), &post(ASK)).await;
        if count <= 8 {
            assert!(
                answer.starts_with("HTTP/1.1 200 ") && answer.contains("[1]"),
                "{count}: {answer}"
            );
        } else {
            assert!(answer.starts_with("HTTP/1.1 502 "), "{count}: {answer}");
            assert!(
                answer.contains("more than 8 informational responses came"),
                "{answer}"
            );
        }
        if count == 1000 {
            raw.wait(|state| state.left == 1).await;
        }
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_a_bad_gateway() {
    // The port is bound and not listening: connections are refused, and no other test can get it.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let upstream = Upstream::parse(&format!("http://{}", socket.local_addr().unwrap())).unwrap();
    let limits = Limits::default().with_patience(Duration::from_millis(50));
    let proxy = TestProxy::new(upstream)
        .limits(limits.clone())
        .bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    let request = post(ASK).replace("completions ", "completions?api_key=sk-secret ");
    let seen = exchange(proxy.addr(), &request).await;
    assert!(
        seen.starts_with("HTTP/1.1 502 ") && !seen.contains("sk-secret"),
        "{seen}"
    );
    let body: Value = serde_json::from_str(&body_of(&seen).0).unwrap();
    assert_eq!(body["error"]["type"], "proxy_error");
    // So is an upstream that closes the connection instead of answering.
    let raw = Raw::new(vec![vec![]]).await;
    let proxy = raw.proxy(limits).await;
    let seen = exchange(proxy.addr(), &post(ASK)).await;
    assert!(seen.starts_with("HTTP/1.1 502 "), "{seen}");
}

/// Framing belongs to one connection, so no response can look like two.
#[tokio::test]
async fn framing_is_the_proxys_own() {
    let body = "{\"a\": 1}";
    let both = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{body}\r\n0\r\n\r\n"
    );
    let old = format!("HTTP/1.0 200 OK\r\ncontent-length: 8\r\n\r\n{body}");
    let trailers = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-t\r\n\r\n8\r\n{body}\r\n0\r\nx-t: 1\r\n\r\n"
    );
    let open = format!("HTTP/1.0 200 OK\r\n\r\n{body}");
    for response in [both, old, trailers, open] {
        let raw = Raw::new(vec![vec![send(response.clone())]]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let seen = exchange(
            proxy.addr(),
            "GET /x HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
        )
        .await;
        assert!(seen.starts_with("HTTP/1.1 200 OK"), "{seen}");
        assert_eq!(
            body_of(&seen),
            (body.to_owned(), true),
            "{response}\n{seen}"
        );
        assert_ne!(header(&seen, "content-length"), Some("3"), "{seen}");
    }
    // A request that could be read as two is refused, or reaches the upstream as one.
    for request in [
        "POST /x HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcde",
        "POST /x HTTP/1.1\r\nhost: h\r\ntransfer-encoding: gzip, identity\r\n\r\nabcd",
        "GET /x HTTP/1.1\r\nhost: h\r\nbad header: 1\r\n\r\n",
    ] {
        let raw = Raw::new(vec![]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let seen = exchange(proxy.addr(), request).await;
        assert!(seen.starts_with("HTTP/1.1 400"), "{request}: {seen}");
        assert_eq!(raw.state.borrow().requests, 0, "{request}");
    }
    let raw = Raw::new(vec![vec![send(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    )]])
    .await;
    let proxy = raw.proxy(Limits::default()).await;
    let both = "POST /x HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n";
    let seen = exchange(proxy.addr(), both).await;
    if seen.starts_with("HTTP/1.1 200") {
        let request = raw.request(0);
        assert!(
            header(&request, "content-length").is_none()
                || header(&request, "transfer-encoding").is_none(),
            "{request}"
        );
        assert_eq!(body_of(&request).0, "abcd");
    } else {
        assert!(seen.starts_with("HTTP/1.1 400"), "{seen}");
    }
}

/// An HTTP/1.0 client gets the stream without chunks, and its connection is closed afterwards.
#[tokio::test]
async fn a_client_of_http_1_0() {
    let raw = Raw::new(vec![
        stream(&(chunk("[1, 2") + &finish("length"))),
        stream(&(chunk("[1, 20]") + &finish("stop"))),
    ])
    .await;
    let proxy = raw.proxy(Limits::default()).await;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.0\r\ncontent-length: {}\r\n\r\n{ASK}",
        ASK.len()
    );
    let seen = exchange(proxy.addr(), &request).await;
    assert!(
        seen.starts_with("HTTP/1.0 200") && header(&seen, "transfer-encoding").is_none(),
        "{seen}"
    );
    assert!(
        seen.contains(&chunk("[1, 2")) && seen.ends_with("data: [DONE]\n\n"),
        "{seen}"
    );
}

/// One connection has many requests, and an error between them changes nothing.
#[tokio::test]
async fn a_connection_is_used_again() {
    let ok = |body: &str| {
        vec![send(format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))]
    };
    let raw = Raw::new(vec![
        ok("one"),
        vec![],
        stream(&(chunk("[1]") + &finish("stop"))),
        ok("four"),
    ])
    .await;
    let proxy = raw.proxy(Limits::default()).await;
    let mut client = connect(proxy.addr()).await;
    let get = "GET /x HTTP/1.1\r\nhost: h\r\n\r\n";
    let post = post(ASK).replace("connection: close\r\n", "");
    for (request, status, end) in [
        (get, 200, "one"),
        (get, 502, "}}"),
        (&post, 200, "0\r\n\r\n"),
        (get, 200, "four"),
    ] {
        client.write_all(request.as_bytes()).await.unwrap();
        let seen = read_until(&mut client, end).await;
        assert!(seen.starts_with(&format!("HTTP/1.1 {status} ")), "{seen}");
    }
}

/// Some servers close a connection behind each answer without a `Connection: close`.
#[tokio::test]
async fn an_upstream_that_closes_behind_each_answer() {
    let answer = || vec![send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")];
    let raw = Raw::new((0..60).map(|_| answer()).collect()).await;
    let proxy = raw.proxy(Limits::default()).await;
    let mut client = connect(proxy.addr()).await;
    for number in 0..50 {
        // The next request finds the connection closed, or just about to be.
        if number % 2 == 0 {
            tokio::task::yield_now().await;
        }
        client
            .write_all(b"GET /x HTTP/1.1\r\nhost: h\r\n\r\n")
            .await
            .unwrap();
        let seen = read_until(&mut client, "ok").await;
        assert!(seen.starts_with("HTTP/1.1 200 "), "{number}: {seen}");
    }
    assert_eq!(raw.state.borrow().requests, 50);
}

/// The upstream closes a connection when the next request has come, as one whose time is over.
#[tokio::test]
async fn what_passes_without_a_body_is_sent_again() {
    let (addr, seen) = restitch_testing::closing_server(&[1, 2]).await;
    let upstream = format!("http://{addr}");
    let proxy = TestProxy::new(upstream)
        .bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    for method in ["GET", "DELETE", "GET"] {
        let request = format!("{method} /the/end HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
        let answer = exchange(proxy.addr(), &request).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{method}: {answer}");
    }
    proxy.shutdown().await;
    assert_eq!(seen.await.unwrap(), [2, 2]);
}

/// A further call is the original request with more messages, or the original request.
#[tokio::test]
async fn a_continuation_is_the_request_edited_by_spans() {
    let setup = Setup::new(&format!(
        "drop answer@{} | refusal anchor",
        DOCUMENT.find("stormy").unwrap()
    ))
    .await;
    let body = r#"{ "model" : "sim", "temperature":1.50, "stream":true,
      "response_format" : {"type":"json_object"}, "tools":[{"type":"function","function":{"name":"f"}}], "tool_choice":"auto",
      "messages":[ {"role":"user","content":"caf\u00e9"} ], "seed" : 7e0 }"#;
    let seen = exchange(setup.proxy.addr(), &post(body)).await;
    assert!(body_of(&seen).1, "{seen}");
    let calls = setup.sim.calls();
    assert_eq!(calls.len(), 4);
    assert_eq!(
        (calls[0].body.as_str(), calls[1].body.as_str()),
        (body, body)
    );
    for call in &calls[2..] {
        assert!(
            call.body
                .contains(r#"{ "model" : "sim", "temperature":1.50, "stream":true"#),
            "{}",
            call.body
        );
        assert!(
            call.body
                .contains(r#"{"role":"user","content":"caf\u00e9"}"#)
                && call.body.contains(r#""seed" : 7e0"#)
        );
        assert!(
            !["response_format", "tools", "tool_choice"]
                .iter()
                .any(|name| call.body.contains(name)),
            "{}",
            call.body
        );
        let sent: Value = serde_json::from_str(&call.body).unwrap();
        let messages = sent["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 3);
        let delivered = &DOCUMENT[..DOCUMENT.find("stormy").unwrap()];
        assert_eq!(
            messages[1],
            json!({"role": "assistant", "content": delivered})
        );
        assert_eq!(messages[2]["role"], "user");
        let prompt = messages[2]["content"].as_str().unwrap();
        let (_, after) = prompt.split_once("\n<overlap_context>\n").unwrap();
        let (anchor, _) = after.split_once("\n</overlap_context>").unwrap();
        assert!(
            anchor.len() >= 40 && delivered.trim_end().ends_with(anchor),
            "{anchor:?}"
        );
        for name in ["host", "content-length", "accept-encoding"] {
            assert!(call.headers.contains_key(name));
        }
    }

    // A history with tool calls keeps its tools, and the request calls none.
    let setup = Setup::new("answer@60 | anchor").await;
    let body = r#"{"stream":true,"tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"},{"role":"user","content":"go"}]}"#;
    exchange(setup.proxy.addr(), &post(body)).await;
    let sent: Value = serde_json::from_str(&setup.sim.calls()[1].body).unwrap();
    assert_eq!(
        (
            &sent["tool_choice"],
            sent["tools"].as_array().unwrap().len()
        ),
        (&json!("none"), 1)
    );
}

/// A further call is another request, so a key that names the first one is not sent with it.
#[tokio::test]
async fn an_idempotency_key_names_the_first_call_alone() {
    let raw = Raw::new(vec![
        stream(&(chunk("[1, 2") + &finish("length"))),
        stream(&(chunk("[1, 20]") + &finish("stop"))),
    ])
    .await;
    let proxy = raw.proxy(Limits::default()).await;
    exchange(
        proxy.addr(),
        &post(ASK).replace(
            "host: h",
            "host: h\r\nidempotency-key: k\r\nauthorization: Bearer sk-1",
        ),
    )
    .await;
    assert_eq!(header(&raw.request(0), "idempotency-key"), Some("k"));
    assert_eq!(header(&raw.request(1), "idempotency-key"), None);
    assert_eq!(
        header(&raw.request(1), "authorization"),
        Some("Bearer sk-1")
    );
}

/// Sockets deliver bytes in pieces of any size.
#[tokio::test]
async fn odd_wires() {
    let first = (": hello\r\n\r\n".to_owned() + &chunk("[1, ") + &chunk("2") + &finish("length"))
        .replace("\n\n", "\r\n\r\n");
    let second = chunk("[1, 20]") + &finish("stop");
    for size in [1, 3, 17, 400] {
        let pieces = |body: &str| {
            let mut pieces = vec![send(
                "HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n",
            )];
            pieces.extend(body.as_bytes().chunks(size).map(|piece| {
                send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())
            }));
            pieces.push(send("0\r\n\r\n"));
            pieces
        };
        let raw = Raw::new(vec![pieces(&first), pieces(&second)]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let (body, whole) = body_of(&exchange(proxy.addr(), &post(ASK)).await);
        let kept = &first[..first.find("data: {\"choices\":[{\"delta\":{},").unwrap()];
        assert!(
            whole && body.starts_with(kept) && body.ends_with("data: [DONE]\n\n"),
            "{size}: {body}"
        );
    }
    // Prose whose connection is lost ends for the client as it did for the proxy, after the same
    // bytes.
    for end in [vec![], vec![Piece::Reset]] {
        let prose = chunk("Hello") + "data: {\"half";
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut pieces = vec![send(format!("{head}{:x}\r\n{prose}\r\n", prose.len()))];
        let reset = !end.is_empty();
        pieces.extend(end);
        let raw = Raw::new(vec![pieces]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let (body, whole) = body_of(&exchange(proxy.addr(), &post(ASK)).await);
        assert!(!whole, "{body}");
        // A reset may drop bytes in the kernel's buffers.
        assert!(
            if reset {
                prose.starts_with(&body)
            } else {
                body == prose
            },
            "{body}"
        );
    }
}

/// Keys, prompts, answers and an upstream's error messages are never logged.
#[tokio::test]
async fn secrets_stay_out_of_the_log() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let quoted = "data: {\"error\":{\"message\":\"wrong key secret-1\"}}\n\n";
    let answers = vec![
        stream(quoted),
        vec![send(
            "HTTP/1.1 429 secret-2\r\nretry-after: 0\r\nx-key: secret-3\r\ncontent-length: 8\r\nconnection: close\r\n\r\nsecret-4",
        )],
        stream(&(chunk("{\"secret-5\": \"secret-6") + quoted)),
        stream(quoted),
        vec![],
        stream(&(chunk("secret-7") + &finish("stop"))),
    ];
    let raw = Raw::new(answers).await;
    let proxy = raw.proxy(Limits::default()).await;
    let body = ASK.replace("\"x\"", "\"secret-8\"");
    let request = post(&body)
        .replace("completions ", "completions?key=secret-9 ")
        .replace("host: h", "host: h\r\nauthorization: Bearer secret-10\r\nx-api-key: secret-11\r\ncookie: secret-12");
    let seen = exchange(proxy.addr(), &request).await;
    assert!(
        seen.contains("secret-6") && seen.contains("\"status\":\"incomplete\""),
        "{seen}"
    );
    drop(raw);
    let seen = exchange(proxy.addr(), &request).await;
    assert!(
        seen.starts_with("HTTP/1.1 502 ") && !seen.contains("secret"),
        "{seen}"
    );
    let log = log.0.lock().unwrap().clone();
    assert!(
        log.contains("a call failed") && log.contains("can't be reached"),
        "{log}"
    );
    assert!(!log.contains("secret"), "{log}");
}

/// The proxy does not know the API, so a cut document in it is not continued.
#[tokio::test]
async fn gemini_interactions_pass_unread() {
    let ask = |stream: bool| {
        format!(
            "{{ \"model\" :\t\"gemini-3-pro\",\"input\":\"Zählen: \\u00e9\",\"stream\":{stream},\
             \"response_format\":{{\"type\":\"text\"}} }}\n"
        )
    };
    let whole = "{ \"id\":\"v1_x\", \"status\":\"incomplete\",\r\n\
         \"outputs\":[{\"type\":\"text\",\"text\":\"{\\\"a\\\": [1, 2 é\"}],\"usage\":{\"total_tokens\":7}}\n";
    let events = "event: interaction.start\ndata: {\"event_type\":\"interaction.start\",\
         \"interaction\":{\"id\":\"v1_x\",\"status\":\"in_progress\"}}\n\n\
         event:content.delta\r\ndata:{\"event_type\":\"content.delta\",\"index\":0,\"event_id\":\"e1\",\
         \"delta\":{\"type\":\"text\",\"text\":\"{\\\"a\\\": [1, 2 é\"}}\r\n\r\n\
         : a comment\n\nevent: interaction.complete\ndata: {\"event_type\":\"interaction.complete\",\
         \"interaction\":{\"status\":\"incomplete\"}}\n\n\
         event: done\ndata: [DONE]\n\nevent: con";
    let base = "/v1beta/interactions";
    let of_id = "/v1beta/interactions/v1_x?stream=true&last_event_id=e1";
    for (method, path, sent, of, body) in [
        (
            "POST",
            base,
            ask(false),
            "application/json; charset=UTF-8",
            whole,
        ),
        ("POST", base, ask(true), "text/event-stream", events),
        (
            "POST",
            "/v1beta/interactions?alt=sse",
            ask(true),
            "text/event-stream",
            events,
        ),
        ("GET", of_id, String::new(), "text/event-stream", events),
        (
            "GET",
            "/v1beta/interactions/v1_x",
            String::new(),
            "application/json",
            whole,
        ),
        (
            "POST",
            "/v1beta/interactions/v1_x/cancel",
            String::new(),
            "application/json",
            whole,
        ),
        (
            "DELETE",
            "/v1beta/interactions/v1_x",
            String::new(),
            "application/json",
            "{}",
        ),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {of}\r\nx-one: 1\r\n");
        let length = body.len();
        let (first, second) = body.split_at(length.div_ceil(3));
        let by_length =
            format!("{head}content-length: {length}\r\nconnection: close\r\n\r\n{body}");
        let by_chunks = format!(
            "{head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
            first.len(),
            second.len()
        );
        for answer in [by_length, by_chunks] {
            let raw = Raw::new(vec![vec![send(answer)]]).await;
            let proxy = raw.proxy(Limits::default()).await;
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: h\r\nx-goog-api-key: k-1\r\naccept-encoding: gzip\r\n"
            );
            let request = format!(
                "{head}connection: close\r\ncontent-length: {}\r\n\r\n{sent}",
                sent.len()
            );
            let seen = exchange(proxy.addr(), &request).await;
            let name = format!("{method} {path}: {seen}");
            assert!(seen.starts_with("HTTP/1.1 200 "), "{name}");
            assert_eq!(body_of(&seen), (body.to_owned(), true), "{name}");
            assert_eq!(
                (header(&seen, "content-type"), header(&seen, "x-one")),
                (Some(of), Some("1")),
                "{name}"
            );
            let request = raw.request(0);
            assert!(
                request.starts_with(&format!("{method} /prefix{path} HTTP/1.1\r\n")),
                "{request}"
            );
            assert_eq!(request.split_once("\r\n\r\n").unwrap().1, sent, "{request}");
            assert_eq!(header(&request, "x-goog-api-key"), Some("k-1"), "{request}");
            assert_eq!(
                header(&request, "accept-encoding"),
                Some("gzip"),
                "{request}"
            );
            assert_eq!(raw.state.borrow().requests, 1);
        }
    }
}
