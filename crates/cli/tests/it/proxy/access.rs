//! Access to the proxy: hosts, pages in browsers, the token, methods and paths.

use restitch_http::Upstream;
use restitch_proxy::Server;
use serde_json::Value;

use super::raw::*;
use crate::proxy::made::{Access, TestProxy};

const TOKEN: &str = "t0ken-of-the-proxy";

/// Returns settings with one change.
fn access(change: impl FnOnce(&mut Access)) -> Access {
    let mut access = Access::default();
    change(&mut access);
    access
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

async fn serve(raw: &Raw, access: Access) -> Server {
    let upstream = Upstream::parse(&format!("http://{}/prefix", raw.addr)).unwrap();
    TestProxy::new(upstream).access(access).start().await
}

/// Returns an upstream that answers every request of a test.
async fn upstream() -> Raw {
    Raw::new(vec![
        vec![send(
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
        )];
        40
    ])
    .await
}

/// Sends requests, each a request line and headers, to one proxy. An expected reason of `""` means
/// that the upstream answers.
async fn check(access: Access, rows: &[(&str, &str)]) {
    let raw = upstream().await;
    let proxy = serve(&raw, access).await;
    let mut passed = 0;
    for (request, reason) in rows {
        let (line, headers) = request.split_once('\n').unwrap_or((request, ""));
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        for header in headers.lines() {
            text += &format!("{header}\r\n");
        }
        if !headers.to_ascii_lowercase().contains("host:") {
            text += "Host: h\r\n";
        }
        let answer = exchange(proxy.addr(), &format!("{text}\r\n")).await;
        let body = body_of(&answer).0;
        if reason.is_empty() {
            passed += 1;
            assert!(body == "ok", "{request}: {answer}");
            answer.of(request).begins("HTTP/1.1 200 ");
        } else {
            let body: Value =
                serde_json::from_str(&body).unwrap_or_else(|_| panic!("{request}: {answer}"));
            assert_eq!(body["error"]["code"], *reason, "{request}: {answer}");
            assert_eq!(body["error"]["type"], "proxy_error", "{request}: {answer}");
        }
        assert_eq!(raw.asked(), passed, "{request}");
    }
}

#[tokio::test]
async fn hosts_are_accepted_by_name() {
    let access = access(|access| access.hosts = words(&["localhost", "llm.example:8080", "[::1]"]));
    let rows = [
        ("GET /x\nHost: localhost", ""),
        ("GET /x\nHost: LOCALHOST:7378", ""),
        ("GET /x\nHost: llm.example:8080", ""),
        ("GET /x\nHost: [::1]:7378", ""),
        ("GET http://localhost/x\nHost: localhost", ""),
        ("GET /x\nHost: llm.example", "host_refused"),
        ("GET /x\nHost: llm.example:80", "host_refused"),
        ("GET /x\nHost: evil.example", "host_refused"),
        ("GET /x\nHost: localhost.evil.example", "host_refused"),
        ("GET /x\nHost: 127.0.0.1", "host_refused"),
        ("GET /x\nHost:", "bad_host"),
        ("GET http://evil.example/x\nHost: localhost", "host_refused"),
        ("GET http://localhost/x\nHost: evil.example", "host_refused"),
    ];
    check(access, &rows).await;
}

/// A page in the user's browser must not use the proxy on the user's machine.
#[tokio::test]
async fn pages_in_browsers_are_refused_unless_allowed() {
    let rows = [
        ("GET /x", ""),
        ("GET /x\nSec-Fetch-Mode: cors", ""),
        ("GET /x\nSec-Fetch-Site: none", ""),
        ("GET /x\nSec-Fetch-Site: same-origin", ""),
        ("GET /x\nSec-Fetch-Site: cross-site", "site_refused"),
        ("GET /x\nSec-Fetch-Site: same-site", "site_refused"),
        (
            "GET /x\nSec-Fetch-Site: none\nSec-Fetch-Site: cross-site",
            "site_refused",
        ),
        ("GET /x\nOrigin: https://evil.example", "origin_refused"),
        ("GET /x\nOrigin: null", "origin_refused"),
        ("GET /x\nOrigin:", "origin_refused"),
        (
            "OPTIONS /x\nOrigin: https://evil.example\nAccess-Control-Request-Method: POST",
            "origin_refused",
        ),
    ];
    check(Access::default(), &rows).await;
    let rows = [
        ("GET /x\nOrigin: https://app.example", ""),
        (
            "GET /x\nOrigin: HTTPS://APP.example\nSec-Fetch-Site: cross-site",
            "",
        ),
        ("GET /x\nOrigin: http://app.example", "origin_refused"),
        (
            "GET /x\nOrigin: https://app.example.evil.example",
            "origin_refused",
        ),
        (
            "GET /x\nOrigin: https://app.example\nOrigin: https://evil.example",
            "origin_refused",
        ),
        ("GET /x\nSec-Fetch-Site: cross-site", "site_refused"),
    ];
    check(
        access(|access| access.origins = words(&["https://app.example"])),
        &rows,
    )
    .await;
    let rows = [
        ("GET /x\nOrigin: https://evil.example", ""),
        ("GET /x\nSec-Fetch-Site: cross-site", ""),
    ];
    check(access(|access| access.origins = words(&["*"])), &rows).await;
}

#[tokio::test]
async fn paths_are_accepted_by_name_and_traces_are_not() {
    let allowed = access(|access| {
        access.paths = words(&["/v1/chat/*", "/v1/models"]);
    });
    let rows = [
        ("GET /v1/models", ""),
        ("GET /v1/models?limit=2", ""),
        ("TRACE /v1/models", "method_refused"),
        ("GET /v1/chat/x", ""),
        ("trace /v1/models", "method_refused"),
        ("DELETE /v1/models", ""),
        ("GET /v1/models/", "path_refused"),
        ("GET /v1/models2", "path_refused"),
        ("GET //v1/models", "two_slashes"),
        ("GET /v1/chat", "path_refused"),
        ("GET /v1/Models", "path_refused"),
        ("GET /admin?/v1/models", "path_refused"),
        ("GET /v1/chat/..%2fmodels", "dot_segment"),
    ];
    check(allowed, &rows).await;
    let raw = upstream().await;
    let proxy = serve(&raw, access(|_| ())).await;
    let answer = exchange(
        proxy.addr(),
        "TRACE /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    )
    .await;
    answer.begins("HTTP/1.1 405 ");
    answer.has("\r\nallow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n");
    let answer = exchange(
        proxy.addr(),
        "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    )
    .await;
    answer.begins("HTTP/1.1 200 ");
}

#[tokio::test]
async fn a_token_is_asked_for_and_stays_here() {
    let with_token = || access(|access| access.token = Some(TOKEN.to_owned()));
    let mut rows = vec![
        ("GET /x".to_owned(), "no_token"),
        ("GET /x\nAuthorization: Bearer sk-1".to_owned(), "no_token"),
        ("GET /x\nx-restitch-token:".to_owned(), "no_token"),
        (
            format!("GET /x\nx-restitch-token: {}", &TOKEN[1..]),
            "no_token",
        ),
        (format!("GET /x\nx-restitch-token: {TOKEN}x"), "no_token"),
        (
            format!("GET /x\nx-restitch-token: {}", TOKEN.to_uppercase()),
            "no_token",
        ),
        (format!("GET /x\nAuthorization: Basic {TOKEN}"), "no_token"),
        (format!("GET /x\nCookie: token={TOKEN}"), "no_token"),
        (format!("GET /x?key={TOKEN}"), "no_token"),
        (format!("GET /x\nX-Restitch-Token: {TOKEN}"), ""),
        (format!("GET /x\nX-Restitch-Token: Bearer {TOKEN}"), ""),
    ];
    for name in [
        "Authorization: Bearer",
        "authorization: bearer ",
        "X-Api-Key:",
        "x-goog-api-key:",
        "api-key:",
    ] {
        rows.push((format!("GET /x\n{name} {TOKEN}"), ""));
    }
    let rows: Vec<(&str, &str)> = rows
        .iter()
        .map(|(request, reason)| (request.as_str(), *reason))
        .collect();
    check(with_token(), &rows).await;

    let raw = upstream().await;
    let proxy = serve(&raw, with_token()).await;
    let ask = |path: &str, headers: &str| {
        let request =
            format!("POST {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{headers}\r\n\r\n");
        let addr = proxy.addr();
        async move { exchange(addr, &request).await }
    };
    // The upstream gets its key. It never gets the token, whichever header the token came in.
    for (headers, key) in [
        (
            format!("x-restitch-token: {TOKEN}\r\nAuthorization: Bearer sk-1"),
            Some("authorization: Bearer sk-1"),
        ),
        (
            format!("x-api-key: {TOKEN}\r\nAuthorization: Bearer sk-1"),
            Some("authorization: Bearer sk-1"),
        ),
        (
            format!("x-restitch-token: x\r\nx-restitch-token: {TOKEN}"),
            None,
        ),
        (
            format!(
                "x-restitch-token: {TOKEN}\r\napi-key: {TOKEN}\r\nx-goog-api-key: Bearer {TOKEN}"
            ),
            None,
        ),
        // A header that no API reads a key from.
        (
            format!("authorization: Bearer {TOKEN}\r\nx-gateway-key: {TOKEN}\r\nx-api-key: sk-1"),
            Some("x-api-key: sk-1"),
        ),
    ] {
        let before = raw.asked();
        let answer = ask("/v1/x", &headers).await;
        answer.of(&headers).begins("HTTP/1.1 200 ");
        let sent = raw.request(before);
        sent.of(&headers).lacks(TOKEN);
        assert!(
            key.is_none_or(|key| sent.contains(key)),
            "{headers}: {sent}"
        );
        assert_eq!(sent.contains("sk-1"), key.is_some(), "{headers}: {sent}");
    }
    let answer = ask("/healthz", "x: 1").await;
    answer.begins("HTTP/1.1 200 ").ends("ok\n");
    let answer = ask("/v1/x", "x: 1").await;
    answer.begins("HTTP/1.1 401 ");
    answer.has("\r\nwww-authenticate: Bearer\r\n");
    let proxy = TestProxy::new("http://h").access(with_token()).build();
    format!("{proxy:?}").lacks(TOKEN);
}

/// A client reads a refusal as it reads the errors of its API.
#[tokio::test]
async fn a_refusal_has_the_form_of_the_api() {
    let raw = upstream().await;
    let proxy = serve(&raw, access(|access| access.token = Some(TOKEN.to_owned()))).await;
    for (path, message, rest) in [
        (
            "/v1/chat/completions",
            "/error/message",
            r#"{"error":{"code":"no_token","param":null,"type":"proxy_error"}}"#,
        ),
        (
            "/v1/responses",
            "/error/message",
            r#"{"error":{"code":"no_token","param":null,"type":"proxy_error"}}"#,
        ),
        (
            "/v1/models",
            "/error/message",
            r#"{"error":{"code":"no_token","param":null,"type":"proxy_error"}}"#,
        ),
        (
            "/v1/messages",
            "/error/message",
            r#"{"error":{"type":"authentication_error"},"type":"error"}"#,
        ),
        (
            "/v1beta/models/m:generateContent",
            "/error/message",
            r#"{"error":{"code":401,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"restitch","reason":"no_token"}],"status":"UNAUTHENTICATED"}}"#,
        ),
        ("/api/chat", "/error", r#"{"code":"no_token"}"#),
        ("/v2/chat", "/message", r#"{"code":"no_token"}"#),
    ] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        let answer = exchange(proxy.addr(), &request).await;
        answer.of(path).begins("HTTP/1.1 401 ");
        answer.of(path).has("application/json");
        let mut body: Value = serde_json::from_str(&body_of(&answer).0).unwrap();
        let said = body.pointer_mut(message).unwrap().take();
        said.as_str()
            .unwrap()
            .of(format!("{path}: {said}"))
            .has("`x-restitch-token`");
        let (parent, name) = message.rsplit_once('/').unwrap();
        body.pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(name);
        assert_eq!(body, serde_json::from_str::<Value>(rest).unwrap(), "{path}");
    }
    assert_eq!(raw.asked(), 0);
}

/// So it is when the head is refused before the token is looked for.
#[tokio::test]
async fn a_refused_head_is_answered_in_the_form_of_the_api() {
    let raw = upstream().await;
    let proxy = serve(&raw, Access::default()).await;
    for (path, pointer, value) in [
        ("/v1/chat/completions", "/error/type", "proxy_error"),
        ("/v1/messages", "/type", "error"),
    ] {
        for (path, host) in [(path.to_owned(), ""), (format!("/{path}"), "h")] {
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
            );
            let answer = exchange(proxy.addr(), &request).await;
            answer.of(&path).begins("HTTP/1.1 400 ");
            let body: Value = serde_json::from_str(&body_of(&answer).0).unwrap();
            assert_eq!(
                body.pointer(pointer).and_then(Value::as_str),
                Some(value),
                "{path}: {body}"
            );
        }
    }
    assert_eq!(raw.asked(), 0);
}

/// The log names the reason of each refusal, and holds neither the token, nor a key, nor a query.
#[tokio::test]
async fn a_refusal_is_logged_with_its_reason() {
    // The test's tasks run on this thread.
    let (log, _guard) = listening();
    let raw = upstream().await;
    let strict = access(|access| {
        access.token = Some(TOKEN.to_owned());
        access.paths = words(&["/x"]);
        access.hosts = words(&["h"]);
    });
    let proxy = serve(&raw, strict).await;
    let secret = format!("x-restitch-token: {TOKEN}\r\nauthorization: Bearer sk-secret\r\n");
    for (line, headers, reason) in [
        ("GET /refused/..%2fx?secret", "host: h", "dot_segment"),
        ("GET /refused?secret", "host: h\r\nhost: i", "bad_host"),
        ("GET //refused?secret", "host: h", "two_slashes"),
        ("GET *", "host: h", "no_path"),
        (
            "GET /refused?secret",
            "host: h\r\ntransfer-encoding: gzip, chunked",
            "transfer_coding",
        ),
        ("GET /refused?secret", "host: i", "host_refused"),
        (
            "GET /refused?secret",
            "host: h\r\norigin: http://secret.example",
            "origin_refused",
        ),
        (
            "GET /refused?secret",
            "host: h\r\nsec-fetch-site: cross-site",
            "site_refused",
        ),
        (
            "GET /refused?secret",
            "host: h\r\nx-restitch-token: secret",
            "no_token",
        ),
        ("TRACE /refused?secret", "host: h", "method_refused"),
        ("GET /refused?secret", "host: h", "path_refused"),
        (
            "GET /x",
            "host: h\r\nconnection: upgrade\r\nupgrade: websocket",
            "websocket",
        ),
        ("GET /refused?secret", "bad header: secret", "no_http"),
    ] {
        log.clear();
        let own = if reason == "no_token" { "" } else { &secret };
        exchange(
            proxy.addr(),
            &format!("{line} HTTP/1.1\r\n{headers}\r\n{own}connection: close\r\n\r\n"),
        )
        .await;
        let said = log.text();
        said.of(reason).has(format!("reason={reason:?}"));
        said.lacks("secret").lacks(TOKEN);
    }
    assert_eq!(raw.asked(), 0);
}

/// The log warns about an address that other machines reach, unless there is a token. The admin
/// listener has none.
#[tokio::test]
async fn an_open_listener_is_told() {
    let (log, _guard) = listening();
    for (ip, admin, token, told) in [
        ("0.0.0.0:0", None, None, "set a token"),
        ("0.0.0.0:0", None, Some(TOKEN.to_owned()), ""),
        (
            "127.0.0.1:0",
            Some("0.0.0.0:0"),
            None,
            "may read the metrics",
        ),
        ("127.0.0.1:0", Some("127.0.0.1:0"), None, ""),
    ] {
        log.clear();
        let proxy = TestProxy::new("http://127.0.0.1:9")
            .access(access(|access| access.token = token))
            .admin(admin.map(|admin| admin.parse().unwrap()));
        let server = proxy.bind(ip.parse().unwrap()).await.unwrap();
        server.shutdown().await;
        for warning in ["set a token", "may read the metrics"] {
            let is_told = log.text().contains(warning);
            assert_eq!(is_told, warning == told, "{ip} {admin:?}: {}", log.text());
        }
    }
    let taken = tokio::net::TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = taken.local_addr().unwrap();
    let proxy = TestProxy::new("http://127.0.0.1:9").admin(Some(addr));
    let error = proxy.bind(LOOPBACK).await.unwrap_err().to_string();
    error.begins(format!("the admin listener {addr}: "));
}
