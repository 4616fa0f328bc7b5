//! Raw requests that a server could read in two ways, and paths that could lead out of the
//! upstream's prefix.

use std::net::SocketAddr;

use restitch::Limits;
use tokio::io::AsyncWriteExt;

use super::raw::*;

/// One row: its name, the bytes, the statuses of the answers in turn, and the request lines that
/// the upstream sees, without their version.
type Row = (
    &'static str,
    Vec<u8>,
    &'static [&'static str],
    &'static [&'static str],
);

const OK: &[&str] = &["200"];
const BAD: &[&str] = &["400"];
const NONE: &[&str] = &[];
const GET: &[&str] = &["GET /prefix/x"];
const POST: &[&str] = &["POST /prefix/x"];

/// Returns a request for `target` with one `Host`, after whose answer the connection is closed.
fn target(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").into()
}

/// Returns a request of this method.
fn method(method: &str) -> Vec<u8> {
    format!("{method} /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").into()
}

/// Returns a `GET` with these lines among its headers.
fn head(lines: &str) -> Vec<u8> {
    format!("GET /x HTTP/1.1\r\nHost: h\r\n{lines}\r\nConnection: close\r\n\r\n").into()
}

/// Returns a `POST` with these lines among its headers, and a body.
fn body(lines: &str, body: &str) -> Vec<u8> {
    format!("POST /x HTTP/1.1\r\nHost: h\r\n{lines}\r\nConnection: close\r\n\r\n{body}").into()
}

/// Returns a `POST` in chunks, with these bytes as its body.
fn chunks(bytes: &str) -> Vec<u8> {
    body("Transfer-Encoding: chunked", bytes)
}

/// A body that is a request of its own, for a server that ends the first one too early.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n";

fn lengths() -> Vec<Row> {
    let hidden = format!("0\r\n\r\n{HIDDEN}");
    let both = format!(
        "Content-Length: {}\r\nTransfer-Encoding: chunked",
        hidden.len()
    );
    let turned = format!(
        "Transfer-Encoding: chunked\r\nContent-Length: {}",
        hidden.len()
    );
    vec![
        ("a length", body("Content-Length: 4", "abcd"), OK, POST),
        ("no length is no body", body("X: 1", ""), OK, POST),
        (
            "equal lengths",
            body("Content-Length: 4\r\nContent-Length: 4", "abcd"),
            OK,
            POST,
        ),
        (
            "two lengths",
            body("Content-Length: 4\r\nContent-Length: 5", "abcde"),
            BAD,
            NONE,
        ),
        (
            "two lengths in a list",
            body("Content-Length: 4, 5", "abcde"),
            BAD,
            NONE,
        ),
        (
            "equal lengths in a list",
            body("Content-Length: 4, 4", "abcd"),
            BAD,
            NONE,
        ),
        (
            "a length with a sign",
            body("Content-Length: +4", "abcd"),
            BAD,
            NONE,
        ),
        (
            "a length below zero",
            body("Content-Length: -4", "abcd"),
            BAD,
            NONE,
        ),
        (
            "a length in hexadecimal",
            body("Content-Length: 0x4", "abcd"),
            BAD,
            NONE,
        ),
        (
            "an empty length",
            body("Content-Length: ", "abcd"),
            BAD,
            NONE,
        ),
        (
            "a length with a space inside",
            body("Content-Length: 1 0", "abcdefghij"),
            BAD,
            NONE,
        ),
        (
            "a length beyond 64 bits",
            body("Content-Length: 99999999999999999999", "abcd"),
            BAD,
            NONE,
        ),
        (
            "a length with a fraction",
            body("Content-Length: 4.0", "abcd"),
            BAD,
            NONE,
        ),
        // The chunks count, the length is not sent on, and the connection ends with the answer.
        ("a length and chunks", body(&both, &hidden), OK, POST),
        ("chunks and a length", body(&turned, &hidden), OK, POST),
        (
            "a length and chunks, kept alive",
            format!("POST /x HTTP/1.1\r\nHost: h\r\n{both}\r\n\r\n{hidden}").into(),
            OK,
            POST,
        ),
        (
            "chunks and a length, kept alive",
            format!("POST /x HTTP/1.1\r\nHost: h\r\n{turned}\r\n\r\n{hidden}").into(),
            OK,
            POST,
        ),
    ]
}

fn codings() -> Vec<Row> {
    let coded = |coding: &str| {
        body(
            &format!("Transfer-Encoding: {coding}"),
            "4\r\nabcd\r\n0\r\n\r\n",
        )
    };
    const REFUSED: &[&str] = &["501"];
    vec![
        ("chunks", coded("chunked"), OK, POST),
        ("chunks in capitals", coded("CHUNKED"), OK, POST),
        ("xchunked", coded("xchunked"), BAD, NONE),
        ("chunkedx", coded("chunkedx"), BAD, NONE),
        ("identity", coded("identity"), BAD, NONE),
        ("an empty coding", coded(""), BAD, NONE),
        ("chunked in quotes", coded("\"chunked\""), BAD, NONE),
        ("chunked before another", coded("chunked, gzip"), BAD, NONE),
        ("gzip before chunked", coded("gzip, chunked"), REFUSED, NONE),
        (
            "identity before chunked",
            coded("identity, chunked"),
            REFUSED,
            NONE,
        ),
        ("chunked twice", coded("chunked, chunked"), REFUSED, NONE),
        ("a comma before chunked", coded(", chunked"), REFUSED, NONE),
        (
            "gzip in a line before",
            coded("gzip\r\nTransfer-Encoding: chunked"),
            REFUSED,
            NONE,
        ),
        (
            "chunked in two lines",
            coded("chunked\r\nTransfer-Encoding: chunked"),
            REFUSED,
            NONE,
        ),
        (
            "identity in a line after",
            coded("chunked\r\nTransfer-Encoding: identity"),
            BAD,
            NONE,
        ),
        (
            "a vertical tab before chunked",
            coded("\x0bchunked"),
            BAD,
            NONE,
        ),
        (
            "a line that goes on in the next",
            coded("\r\n chunked"),
            BAD,
            NONE,
        ),
        (
            "chunks in HTTP/1.0",
            b"POST /x HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
            BAD,
            NONE,
        ),
        // `TE` lists the codings that the client can read. The proxy may ignore it.
        (
            "TE is not about this body",
            head("TE: gzip, chunked"),
            OK,
            GET,
        ),
    ]
}

/// The upstream has seen the head when a chunk is wrong, so its request is broken off.
fn bad_chunks() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a size that is no number", chunks("x\r\nabcd\r\n0\r\n\r\n")),
        ("a size with a prefix", chunks("0x4\r\nabcd\r\n0\r\n\r\n")),
        ("a size with a sign", chunks("+4\r\nabcd\r\n0\r\n\r\n")),
        ("a size below zero", chunks("-4\r\nabcd\r\n0\r\n\r\n")),
        (
            "a size beyond 64 bits",
            chunks("11111111111111111\r\nabcd\r\n0\r\n\r\n"),
        ),
        ("an empty size", chunks("\r\nabcd\r\n0\r\n\r\n")),
        ("a space inside a size", chunks("1 0\r\nabcd\r\n0\r\n\r\n")),
        (
            "a chunk that is longer than its size",
            chunks("3\r\nabcd\r\n0\r\n\r\n"),
        ),
        (
            "a size that ends in a line feed",
            chunks("4\nabcd\r\n0\r\n\r\n"),
        ),
        (
            "a chunk that ends in a line feed",
            chunks("4\r\nabcd\n0\r\n\r\n"),
        ),
        (
            "an extension with a line feed",
            chunks("4;a\nb\r\nabcd\r\n0\r\n\r\n"),
        ),
        (
            "a last chunk that ends in a line feed",
            chunks("4\r\nabcd\r\n0\n\n"),
        ),
    ]
}

fn heads() -> Vec<Row> {
    let long = "a".repeat(300_000);
    const MANY: &[&str] = &["431"];
    const LONG: &[&str] = &["414"];
    vec![
        ("a plain request", head("X: 1"), OK, GET),
        ("a space before the colon", head("X : 1"), BAD, NONE),
        ("a tab before the colon", head("X\t: 1"), BAD, NONE),
        (
            "a space before the colon of a length",
            body("Content-Length : 4", "abcd"),
            BAD,
            NONE,
        ),
        (
            "a space before the colon of chunks",
            body("Transfer-Encoding : chunked", "0\r\n\r\n"),
            BAD,
            NONE,
        ),
        (
            "a line that goes on in the next",
            head("X: 1\r\n 2"),
            BAD,
            NONE,
        ),
        (
            "a first line that is indented",
            b"GET /x HTTP/1.1\r\n Host: h\r\n\r\n".to_vec(),
            BAD,
            NONE,
        ),
        ("a line without a colon", head("X"), BAD, NONE),
        ("an empty name", head(": 1"), BAD, NONE),
        ("a name in quotes", head("\"X\": 1"), BAD, NONE),
        ("a name that is no ASCII", head("X\u{e9}: 1"), BAD, NONE),
        ("NUL in a value", head("X: a\0b"), BAD, NONE),
        ("NUL in a name", head("X\0: 1"), BAD, NONE),
        (
            "a carriage return in a value",
            head("X: a\rb: 2"),
            BAD,
            NONE,
        ),
        ("an escape in a value", head("X: a\x1bb"), BAD, NONE),
        (
            "an empty line before the request",
            [b"\r\n".to_vec(), head("X: 1")].concat(),
            OK,
            GET,
        ),
        // hyper reads a line feed as a line end, as RFC 9112 allows. The forwarded request has both
        // characters.
        (
            "line feeds alone",
            b"GET /x HTTP/1.1\nHost: h\nConnection: close\n\n".to_vec(),
            OK,
            GET,
        ),
        (
            "101 headers",
            head("X: 1\r\n".repeat(101).trim_end()),
            MANY,
            NONE,
        ),
        (
            "a value beyond every buffer",
            head(&format!("X: {}", "a".repeat(2 << 20))),
            MANY,
            NONE,
        ),
        (
            "a target beyond 64 KiB",
            target(&format!("/{long}")),
            LONG,
            NONE,
        ),
        (
            "a target that is too long with the prefix",
            target(&format!("/{}", &long[..65_530])),
            LONG,
            NONE,
        ),
        (
            "a query that is too long with the prefix",
            target(&format!("/x?{}", &long[..65_530])),
            LONG,
            NONE,
        ),
    ]
}

fn hosts() -> Vec<Row> {
    let with =
        |lines: &str| format!("GET /x HTTP/1.1\r\n{lines}Connection: close\r\n\r\n").into_bytes();
    vec![
        ("a host", with("Host: h\r\n"), OK, GET),
        ("a host with a port", with("Host: h:1\r\n"), OK, GET),
        (
            "a host that is an address",
            with("Host: [::1]:80\r\n"),
            OK,
            GET,
        ),
        ("a host with an empty port", with("Host: h:\r\n"), OK, GET),
        ("an empty host", with("Host:\r\n"), BAD, NONE),
        ("a port without a host", with("Host: :80\r\n"), BAD, NONE),
        (
            "a port beyond 16 bits",
            with("Host: h:99999\r\n"),
            BAD,
            NONE,
        ),
        ("a port that is no number", with("Host: h:b\r\n"), BAD, NONE),
        ("a port with a sign", with("Host: h:+1\r\n"), BAD, NONE),
        (
            "brackets without an address",
            with("Host: [h]\r\n"),
            BAD,
            NONE,
        ),
        ("no host", with(""), BAD, NONE),
        (
            "two hosts",
            with("Host: h\r\nHost: evil.example\r\n"),
            BAD,
            NONE,
        ),
        ("one host twice", with("Host: h\r\nhost: h\r\n"), BAD, NONE),
        ("a host with a path", with("Host: h/x\r\n"), BAD, NONE),
        ("a host with a user", with("Host: u@h\r\n"), BAD, NONE),
        (
            "a host with a space",
            with("Host: h evil.example\r\n"),
            BAD,
            NONE,
        ),
        (
            "a list of hosts",
            with("Host: h, evil.example\r\n"),
            BAD,
            NONE,
        ),
        (
            "an address with a host",
            b"GET http://evil.example/x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(),
            OK,
            GET,
        ),
        (
            "an address without a host",
            b"GET http://evil.example/x HTTP/1.1\r\nConnection: close\r\n\r\n".to_vec(),
            BAD,
            NONE,
        ),
        (
            "HTTP/1.0 without a host",
            b"GET /x HTTP/1.0\r\n\r\n".to_vec(),
            OK,
            GET,
        ),
        (
            "HTTP/1.0 with an empty host",
            b"GET /x HTTP/1.0\r\nHost:\r\n\r\n".to_vec(),
            BAD,
            NONE,
        ),
        (
            "HTTP/1.0 with two hosts",
            b"GET /x HTTP/1.0\r\nHost: h\r\nHost: i\r\n\r\n".to_vec(),
            BAD,
            NONE,
        ),
    ]
}

fn lines() -> Vec<Row> {
    const NOT_ALLOWED: &[&str] = &["405"];
    let line = |line: &str| format!("{line}\r\nHost: h\r\nConnection: close\r\n\r\n").into_bytes();
    vec![
        ("HTTP/0.9", b"GET /x\r\n\r\n".to_vec(), BAD, NONE),
        ("HTTP/1.2", line("GET /x HTTP/1.2"), BAD, NONE),
        ("HTTP/2.0", line("GET /x HTTP/2.0"), BAD, NONE),
        ("http/1.1", line("GET /x http/1.1"), BAD, NONE),
        (
            "HTTP/1.1 with a space after it",
            line("GET /x HTTP/1.1 "),
            BAD,
            NONE,
        ),
        (
            "two spaces before the target",
            line("GET  /x HTTP/1.1"),
            BAD,
            NONE,
        ),
        (
            "two spaces before the version",
            line("GET /x  HTTP/1.1"),
            BAD,
            NONE,
        ),
        (
            "a tab before the target",
            line("GET\t/x HTTP/1.1"),
            BAD,
            NONE,
        ),
        (
            "a space in the target",
            line("GET /x y HTTP/1.1"),
            BAD,
            NONE,
        ),
        (
            "a space before the method",
            line(" GET /x HTTP/1.1"),
            BAD,
            NONE,
        ),
        ("no target", line("GET HTTP/1.1"), BAD, NONE),
        ("a target without a slash", target("x"), BAD, NONE),
        (
            "a target that is a host",
            target("evil.example:80"),
            BAD,
            NONE,
        ),
        ("two slashes at the start", target("//x"), BAD, NONE),
        ("three slashes at the start", target("///x"), BAD, NONE),
        (
            "two slashes after a host",
            target("http://evil.example//x"),
            BAD,
            NONE,
        ),
        (
            "two slashes further on",
            target("/x//y/"),
            OK,
            &["GET /prefix/x//y/"],
        ),
        ("the whole server", target("*"), BAD, NONE),
        (
            "OPTIONS for the whole server",
            line("OPTIONS * HTTP/1.1"),
            BAD,
            NONE,
        ),
        ("OPTIONS", method("OPTIONS"), OK, &["OPTIONS /prefix/x"]),
        (
            "CONNECT",
            line("CONNECT evil.example:443 HTTP/1.1"),
            BAD,
            NONE,
        ),
        ("CONNECT with a path", method("CONNECT"), BAD, NONE),
        ("TRACE", method("TRACE"), NOT_ALLOWED, NONE),
        ("trace", method("trace"), NOT_ALLOWED, NONE),
        // Methods are case-sensitive: another word is another method, which the upstream judges.
        ("get", method("get"), OK, &["get /prefix/x"]),
        ("a method that is no word", method("G(T"), BAD, NONE),
        (
            "a target that is no ASCII",
            line("GET /\u{e9} HTTP/1.1"),
            OK,
            &["GET /prefix/\u{e9}"],
        ),
        ("NUL in the target", target("/x\0y"), BAD, NONE),
        (
            "TLS",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(),
            BAD,
            NONE,
        ),
        (
            "the first line of HTTP/2",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            NONE,
            NONE,
        ),
        (
            "two requests",
            [b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), target("/y")].concat(),
            &["200", "200"],
            &["GET /prefix/x", "GET /prefix/y"],
        ),
        (
            "a request and bytes that are none",
            b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n\x01\x02\r\n\r\n".to_vec(),
            &["200", "400"],
            GET,
        ),
    ]
}

/// Returns the statuses of the answers that a client received.
fn statuses(answers: &str) -> Vec<&str> {
    let starts = answers.match_indices("HTTP/1.");
    starts
        .map(|(at, _)| answers[at..].split(' ').nth(1).unwrap_or_default())
        .collect()
}

/// Returns whether each answer that is not a 200 says why in the form of an API.
fn refusals_say_why(answers: &str) -> bool {
    let starts: Vec<_> = answers
        .match_indices("HTTP/1.")
        .map(|(at, _)| at)
        .chain([answers.len()])
        .collect();
    starts
        .windows(2)
        .map(|ends| &answers[ends[0]..ends[1]])
        .all(|answer| {
            let (body, is_whole) = body_of(answer);
            let says_why = || {
                let body: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
                body["error"]["message"]
                    .as_str()
                    .is_some_and(|message| !message.is_empty())
            };
            answer.split(' ').nth(1) == Some("200") || is_whole && says_why()
        })
}

/// Sends the bytes, which the proxy may stop to read.
async fn answers_to(addr: SocketAddr, bytes: &[u8]) -> String {
    let mut client = connect(addr).await;
    let (mut read, mut write) = client.split();
    let mut seen = Vec::new();
    let sending = async {
        let _ = write.write_all(bytes).await;
    };
    let reading = async {
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut seen).await;
    };
    let both = async { tokio::join!(sending, reading) };
    tokio::time::timeout(HANGS, both)
        .await
        .expect("the proxy hangs");
    String::from_utf8_lossy(&seen).into_owned()
}

/// Returns an upstream that answers a few requests.
async fn upstream() -> Raw {
    Raw::new(vec![
        vec![send(
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
        )];
        3
    ])
    .await
}

/// Returns the lines of the requests that an upstream has seen, without their version.
fn seen(raw: &Raw) -> Vec<String> {
    let requests = raw.requests.lock().unwrap();
    let line = |request: &String| {
        request
            .lines()
            .next()
            .unwrap_or_default()
            .replace(" HTTP/1.1", "")
    };
    requests.iter().map(line).collect()
}

#[tokio::test]
async fn each_raw_request_has_its_answer() {
    let rows: Vec<Row> = [lengths(), codings(), heads(), hosts(), lines()].concat();
    let mut wrong = Vec::new();
    for (name, request, expected, calls) in &rows {
        let raw = upstream().await;
        let mut limits = Limits::default();
        // Long paths are refused by their own rule.
        limits.server.max_head_bytes = 512 << 10;
        let proxy = raw.proxy(limits).await;
        let answers = answers_to(proxy.addr(), request).await;
        if statuses(&answers) != *expected || seen(&raw) != *calls {
            wrong.push(format!(
                "{name}: {:?}, {:?}",
                statuses(&answers),
                seen(&raw)
            ));
        }
        // hyper refuses bytes that came together with a request before the socket can tell its
        // refusal from the answer.
        if !refusals_say_why(&answers) && *name != "a request and bytes that are none" {
            wrong.push(format!("{name}: {answers}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
}

/// The upstream may see the head of such a request, but never a whole body, nor a second request.
#[tokio::test]
async fn a_body_whose_chunks_are_wrong_is_never_whole() {
    for (name, request) in bad_chunks() {
        let raw = upstream().await;
        let proxy = raw.proxy(Limits::default()).await;
        let answers = answers_to(proxy.addr(), &request).await;
        assert!(!statuses(&answers).contains(&"200"), "{name}: {answers}");
        assert_eq!(seen(&raw), NONE, "{name}");
        // A body that is read first is refused with the reason.
        let request = String::from_utf8(request)
            .unwrap()
            .replace("/x", "/v1/chat/completions");
        let answers = answers_to(proxy.addr(), request.as_bytes()).await;
        assert_eq!(statuses(&answers), BAD, "{name}: {answers}");
        assert_eq!(seen(&raw), NONE, "{name}");
    }
}

/// A target as a decoding server resolves it: each round of percent-decoding, with `\` as `/` and
/// each segment cut at `;`, `?`, `#` or NUL.
fn resolved(target: &str, rounds: usize) -> String {
    let mut path = target.split('?').next().unwrap().to_owned();
    for _ in 0..rounds {
        let mut out = Vec::new();
        let mut rest = path.as_bytes();
        while let [first, after @ ..] = rest {
            let escape = after
                .get(..2)
                .filter(|_| *first == b'%')
                .and_then(|digits| std::str::from_utf8(digits).ok());
            match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(byte) => (out.push(byte), rest = &after[2..]),
                None => (out.push(*first), rest = after),
            };
        }
        path = String::from_utf8_lossy(&out).into_owned();
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split(['/', '\\']) {
        match segment.split([';', '?', '#', '\0']).next().unwrap() {
            "." | "" => {}
            ".." => drop(segments.pop()),
            name => segments.push(name),
        }
    }
    format!("/{}", segments.join("/"))
}

/// Each spelling of `../` in front of a server that decodes: none leads out of the prefix, and each
/// error gives the reason.
#[tokio::test]
async fn no_path_leaves_the_prefix_of_a_server_that_decodes() {
    let raw = Raw::new(vec![
        vec![send(
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
        )];
        100
    ])
    .await;
    let proxy = raw.proxy(Limits::default()).await;
    let dots = [
        "..",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "%252e%252e",
        "%252e.",
        "%%32%65.",
        "%2e%252E",
    ];
    let slashes = [
        "/", "%2f", "%2F", "%252f", "\\", "%5c", "%255C", "/./", ";/", "%3b/", ";a=b/", "%00/",
        "%3f", "%23",
    ];
    for dots in dots {
        for slash in slashes {
            for path in [
                format!("/{dots}{slash}admin"),
                format!("/v1/{dots}/{dots}{slash}admin"),
            ] {
                let escapes = (0..=2).any(|rounds| {
                    !resolved(&format!("/prefix{path}"), rounds).starts_with("/prefix")
                });
                assert!(escapes, "{path} is no attack");
                let answer =
                    exchange(proxy.addr(), &String::from_utf8(target(&path)).unwrap()).await;
                assert!(answer.starts_with("HTTP/1.1 400 "), "{path}: {answer}");
                assert!(
                    answer.contains(r#""code":"dot_segment""#),
                    "{path}: {answer}"
                );
            }
        }
    }
    assert_eq!(seen(&raw), NONE);
    // Names with dots and escapes in them are names.
    for path in [
        "/v1/...",
        "/.well-known/x",
        "/a..b",
        "/v1/models/a%2Fb.c",
        "/x%2520y",
        "/x?p=../..",
        "/%zz",
        "/a%2f%2fb",
    ] {
        let answer = exchange(proxy.addr(), &String::from_utf8(target(path)).unwrap()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        assert!(
            (0..=2)
                .all(|rounds| resolved(&format!("/prefix{path}"), rounds).starts_with("/prefix")),
            "{path}"
        );
    }
}
