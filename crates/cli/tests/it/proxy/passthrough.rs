//! The parts of a request and of its answer that pass unchanged.

use std::time::Duration;

use restitch::Limits;
use restitch_http::Upstream;
use serde_json::Value;
use tokio::io::AsyncWriteExt;

use super::raw::*;
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
    let raw = Raw::new(vec![full("[1]"); 2]).await;
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
    answer.has("HTTP/1.1 200 OK");
    let seen = raw.request(0);
    seen.begins("POST /prefix/v1/chat/completions?api-version=1&x=%20y HTTP/1.1\r\n");
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
    seen.has("x-custom: b\r\n");
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
    seen.ends(&body);
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
        answer.of(target).ends("\r\n\r\nok");
        let seen = raw.request(0);
        seen.of(target).begins(format!("GET {path} HTTP/1.1\r\n"));
        assert_eq!(header(&seen, "host"), Some(raw.addr.to_string().as_str()));
    }
    let raw = Raw::new(vec![]).await;
    let proxy = raw.proxy(Limits::default()).await;
    let answer = exchange(
        proxy.addr(),
        "CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n",
    )
    .await;
    answer.begins("HTTP/1.1 400");
    assert_eq!(raw.asked(), 0);
}

/// The proxy tells a client that it supports no WebSocket. Without its upgrade headers the request
/// would mean something else.
#[tokio::test]
async fn a_websocket_is_refused_with_the_reason() {
    let raw = Raw::new(vec![full("[1]")]).await;
    let proxy = raw.proxy(Limits::default()).await;
    for upgrade in [
        "Upgrade: websocket\r\nConnection: Upgrade",
        "connection: keep-alive, upgrade\r\nupgrade: WebSocket",
    ] {
        let request = format!(
            "GET /v1/realtime?model=m HTTP/1.1\r\nHost: h\r\n{upgrade}\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let mut client = begin(proxy.addr(), &request).await;
        let seen = read_until(&mut client, "}}").await;
        seen.begins("HTTP/1.1 501 Not Implemented\r\n");
        let body: Value = serde_json::from_str(&body_of(&seen).0).unwrap();
        let message = body["error"]["message"].as_str().unwrap();
        message.has("WebSocket").has("upstream");
    }
    assert_eq!(raw.asked(), 0);
    // Any other upgrade is an offer, which a server may ignore (RFC 9110, section 7.8): the request
    // passes without it.
    let request = post(ASK).replace(
        "connection: close",
        "connection: upgrade, http2-settings, close\r\nupgrade: h2c",
    );
    let seen = exchange(proxy.addr(), &request).await;
    seen.begins("HTTP/1.1 200 ");
    assert_eq!(header(&raw.request(0), "upgrade"), None);
}

#[tokio::test]
async fn other_methods_and_paths_pass() {
    let body = "{\"n\": 1}";
    for (method, path, sent) in [
        ("GET", "/v1/models", ""),
        ("DELETE", "/v1/files/1", ""),
        ("OPTIONS", "/v1/chat/completions", ""),
        ("POST", "/v1/embeddings", body),
        // An API that the proxy does not know.
        ("POST", "/v1beta/interactions?alt=sse", body),
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
        seen.of(format!("{method} {path}")).begins("HTTP/1.1 203 ");
        seen.of(format!("{method} {path}"))
            .ends("\r\n\r\ndata: [1,");
        assert_eq!(header(&seen, "x-one"), Some("1"));
        assert_eq!(header(&seen, "x-two"), Some("2"));
        let request = raw.request(0);
        request.begins(format!("{method} /prefix{path} "));
        request.ends(sent);
        assert_eq!(
            header(&request, "accept-encoding"),
            Some("gzip"),
            "{request}"
        );
        assert_eq!(raw.asked(), 1);
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
    seen.ends("\r\n\r\n");
    assert_eq!(header(&seen, "content-length"), Some("5"), "{seen}");
    assert_eq!(header(&seen, "x-one"), Some("1"), "{seen}");
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
        seen.of(name).begins(head.lines().next().unwrap());
        for line in head.lines().skip(1) {
            // The response has the id of the proxy's own request.
            let line = line.replace("x-request-id", "x-restitch-upstream-request-id");
            seen.of(format!("{name}: {line} in"))
                .has(format!("\r\n{line}\r\n"));
        }
        seen.of(name).ends(format!("\r\n\r\n{body}"));
        assert_eq!(raw.asked(), 1, "{name}");
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
    let mut client = begin(proxy.addr(), &post(ASK_WHOLE)).await;
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
        answer.has("\r\nx-restitch-limit: max_body_bytes=64\r\n");
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
        answer.has("\r\nx-restitch-limit: max_event_bytes=1000\r\n");
        let (seen, whole) = body_of(&answer);
        assert!(whole && seen == body, "{seen}");
    }
    // A whole answer that is read, and nested too deeply.
    let body = r#"{"choices":[{"message":{"content":"[[[[1, "},"finish_reason":"length"}]}"#;
    let raw = Raw::new(vec![respond("200 OK", body)]).await;
    let proxy = raw.proxy(Limits::default().with_max_depth(3)).await;
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    answer.has("\r\nx-restitch-limit: max_depth=3\r\n");
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
            full("[1]")
        });
        let raw = Raw::new(vec![pieces]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let answer = exchange(proxy.addr(), &post(ASK)).await;
        if count <= 8 {
            answer.of(count).begins("HTTP/1.1 200 ").has("[1]");
        } else {
            answer.of(count).begins("HTTP/1.1 502 ");
            answer.has("more than 8 informational responses came");
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
        .start()
        .await;
    let request = post(ASK).replace("completions ", "completions?api_key=sk-secret ");
    let seen = exchange(proxy.addr(), &request).await;
    seen.begins("HTTP/1.1 502 ").lacks("sk-secret");
    let body: Value = serde_json::from_str(&body_of(&seen).0).unwrap();
    assert_eq!(body["error"]["type"], "proxy_error");
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
        let seen = get_at(proxy.addr(), "/x").await;
        seen.begins("HTTP/1.1 200 OK");
        assert_eq!(
            body_of(&seen),
            (body.to_owned(), true),
            "{response}\n{seen}"
        );
        assert_ne!(header(&seen, "content-length"), Some("3"), "{seen}");
    }
}

/// An HTTP/1.0 client gets the stream without chunks, and its connection is closed afterwards.
#[tokio::test]
async fn a_client_of_http_1_0() {
    let raw = Raw::new(vec![limited("[1, 2"), full("[1, 20]")]).await;
    let proxy = raw.proxy(Limits::default()).await;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.0\r\ncontent-length: {}\r\n\r\n{ASK}",
        ASK.len()
    );
    let seen = exchange(proxy.addr(), &request).await;
    assert!(header(&seen, "transfer-encoding").is_none(), "{seen}");
    seen.begins("HTTP/1.0 200");
    seen.has(chunk("[1, 2")).ends("data: [DONE]\n\n");
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
    let raw = Raw::new(vec![ok("one"), vec![], full("[1]"), ok("four")]).await;
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
        seen.begins(format!("HTTP/1.1 {status} "));
    }
}

/// The upstream closes a connection when the next request has come, as one whose time is over.
#[tokio::test]
async fn what_passes_without_a_body_is_sent_again() {
    let (addr, seen) = restitch_testing::closing_server(&[1, 2]).await;
    let upstream = format!("http://{addr}");
    let proxy = TestProxy::new(upstream).start().await;
    for method in ["GET", "DELETE", "GET"] {
        let request = format!("{method} /the/end HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
        let answer = exchange(proxy.addr(), &request).await;
        answer.of(method).begins("HTTP/1.1 200 ");
    }
    proxy.shutdown().await;
    assert_eq!(seen.await.unwrap(), [2, 2]);
}

/// A further call is another request, so a key that names the first one is not sent with it.
#[tokio::test]
async fn an_idempotency_key_names_the_first_call_alone() {
    let raw = Raw::new(vec![limited("[1, 2"), full("[1, 20]")]).await;
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

/// Keys, prompts, answers and an upstream's error messages are never logged.
#[tokio::test]
async fn secrets_stay_out_of_the_log() {
    let (log, _guard) = listening();
    let quoted = "data: {\"error\":{\"message\":\"wrong key secret-1\"}}\n\n";
    let answers = vec![
        stream(quoted),
        vec![send(
            "HTTP/1.1 429 secret-2\r\nretry-after: 0\r\nx-key: secret-3\r\ncontent-length: 8\r\nconnection: close\r\n\r\nsecret-4",
        )],
        stream(&(chunk("{\"secret-5\": \"secret-6") + quoted)),
        stream(quoted),
        vec![],
        full("secret-7"),
    ];
    let raw = Raw::new(answers).await;
    let brief = Limits::default().with_patience(Duration::from_millis(100));
    let proxy = raw.proxy(brief).await;
    let body = ASK.replace("\"x\"", "\"secret-8\"");
    let request = post(&body)
        .replace("completions ", "completions?key=secret-9 ")
        .replace("host: h", "host: h\r\nauthorization: Bearer secret-10\r\nx-api-key: secret-11\r\ncookie: secret-12");
    let seen = exchange(proxy.addr(), &request).await;
    seen.has("secret-6").has("\"status\":\"incomplete\"");
    drop(raw);
    let seen = exchange(proxy.addr(), &request).await;
    seen.begins("HTTP/1.1 502 ").lacks("secret");
    let log = log.text();
    log.has("a call failed").has("can't be reached");
    log.lacks("secret");
}
