//! Raw requests that a server could read in two ways, and paths that could lead out of the
//! upstream's prefix.

use std::net::SocketAddr;

use restitch::Limits;
use tokio::io::AsyncWriteExt;

use super::raw::*;
use restitch_testing::case_file::read_rows;

/// One row: its name, the bytes, the statuses of the answers in turn, and the request lines that
/// the upstream sees, without their version.
type Row = (String, Vec<u8>, Vec<String>, Vec<String>);

const NONE: &[&str] = &[];

/// Returns a request for `target` with one `Host`, after whose answer the connection is closed.
fn target(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").into()
}

/// Returns a `GET` with these lines among its headers.
fn head(lines: &str) -> Vec<u8> {
    format!("GET /x HTTP/1.1\r\nHost: h\r\n{lines}\r\nConnection: close\r\n\r\n").into()
}

/// Returns a `POST` with these lines among its headers, and a body.
fn body(lines: &str, body: &str) -> Vec<u8> {
    format!("POST /x HTTP/1.1\r\nHost: h\r\n{lines}\r\nConnection: close\r\n\r\n{body}").into()
}

/// A body that is a request of its own, for a server that ends the first one too early.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n";

/// Returns the rows of `tests/cases/requests.rows`.
fn written_rows() -> Vec<Row> {
    type Written = (String, String, Vec<String>, String, Option<String>);
    let row = |(name, kind, texts, status, call): Written| {
        let text = texts[0].as_str();
        let request = match kind.as_str() {
            "target" => target(text),
            "method" => {
                format!("{text} /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").into()
            }
            "line" => format!("{text}\r\nHost: h\r\nConnection: close\r\n\r\n").into(),
            "host" => format!("GET /x HTTP/1.1\r\n{text}Connection: close\r\n\r\n").into(),
            "head" => head(text),
            "body" => body(text, &texts[1]),
            "coded" => body(
                &format!("Transfer-Encoding: {text}"),
                "4\r\nabcd\r\n0\r\n\r\n",
            ),
            "raw" => text.as_bytes().to_vec(),
            other => panic!("{name}: {other}"),
        };
        (name, request, vec![status], Vec::from_iter(call))
    };
    read_rows("requests.rows").into_iter().map(row).collect()
}

/// Returns requests that are too large, or too odd, for a row.
fn computed_rows() -> Vec<Row> {
    const OK: &[&str] = &["200"];
    const BAD: &[&str] = &["400"];
    const MANY: &[&str] = &["431"];
    const LONG: &[&str] = &["414"];
    const GET: &[&str] = &["GET /prefix/x"];
    const POST: &[&str] = &["POST /prefix/x"];
    let long = "a".repeat(300_000);
    let hidden = format!("0\r\n\r\n{HIDDEN}");
    let both = format!(
        "Content-Length: {}\r\nTransfer-Encoding: chunked",
        hidden.len()
    );
    let turned = format!(
        "Transfer-Encoding: chunked\r\nContent-Length: {}",
        hidden.len()
    );
    type Row = (
        &'static str,
        Vec<u8>,
        &'static [&'static str],
        &'static [&'static str],
    );
    let rows: [Row; 14] = [
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
        (
            "an empty line before the request",
            [b"\r\n".to_vec(), head("X: 1")].concat(),
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
    ];
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    rows.into_iter()
        .map(|(name, request, statuses, calls)| {
            (name.to_owned(), request, owned(statuses), owned(calls))
        })
        .collect()
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
    let rows = [written_rows(), computed_rows()].concat();
    assert_eq!(rows.len(), 112);
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
    let bodies: Vec<(String, String)> = read_rows("chunks.rows");
    assert_eq!(bodies.len(), 12);
    for (name, chunks) in bodies {
        let request = body("Transfer-Encoding: chunked", &chunks);
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
        assert_eq!(statuses(&answers), ["400"], "{name}: {answers}");
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
                answer.of(&path).begins("HTTP/1.1 400 ");
                answer.of(&path).has(r#""code":"dot_segment""#);
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
        answer.of(path).begins("HTTP/1.1 200 ");
        assert!(
            (0..=2)
                .all(|rounds| resolved(&format!("/prefix{path}"), rounds).starts_with("/prefix")),
            "{path}"
        );
    }
}
