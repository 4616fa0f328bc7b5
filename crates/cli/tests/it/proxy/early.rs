//! Large requests that are sent on while they arrive.

use std::net::SocketAddr;
use std::time::Duration;

use restitch::Limits;
use restitch_proxy::Server;
use restitch_proxy::config::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::made::TestProxy;
use super::raw::*;

const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// An upstream that a test answers by hand, and a proxy in front of it.
struct Pair {
    upstream: TcpListener,
    proxy: Server,
}

impl Pair {
    async fn new(with: impl FnOnce(TestProxy) -> TestProxy) -> Self {
        let upstream = TcpListener::bind(LOOPBACK).await.unwrap();
        let address = upstream.local_addr().unwrap();
        let proxy = with(TestProxy::new(format!("http://{address}")));
        let proxy = proxy.bind(LOOPBACK).await.unwrap();
        Self { upstream, proxy }
    }

    /// Sends the head and a half of the body. Returns the client and the other half.
    async fn half(&self, request: &str) -> (TcpStream, String) {
        let mut client = connect(self.proxy.addr()).await;
        let (sent, rest) = request.split_at(request.len() / 2);
        client.write_all(sent.as_bytes()).await.unwrap();
        (client, rest.to_owned())
    }

    async fn accept(&self) -> TcpStream {
        let accepted = timeout(HANGS, self.upstream.accept()).await;
        accepted.expect("no call").unwrap().0
    }
}

/// Returns a body of about this many bytes.
fn body(bytes: usize) -> String {
    ASK.replace("\"x\"", &format!("{:?}", "words ".repeat(bytes / 6)))
}

/// Reads until `length` bytes of a body have arrived.
async fn read_body(connection: &mut TcpStream, length: usize) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read);
        if text
            .split_once("\r\n\r\n")
            .is_some_and(|(_, body)| body.len() >= length)
        {
            return text.into_owned();
        }
        let count = timeout(HANGS, connection.read_buf(&mut read)).await;
        assert!(count.expect("the proxy hangs").unwrap() > 0, "it ended");
    }
}

/// The upstream has half of the request before the client has sent the other one. The answer is cut
/// and continued like any other.
#[tokio::test]
async fn a_large_request_is_sent_on_while_it_arrives() {
    let pair = Pair::new(|proxy| proxy).await;
    let body = body(300_000);
    let (mut client, rest) = pair.half(&post(&body)).await;
    let mut call = pair.accept().await;
    let mut got = read_body(&mut call, 100_000).await;
    client.write_all(rest.as_bytes()).await.unwrap();
    let missing = body.len() - got.split_once("\r\n\r\n").unwrap().1.len();
    let mut more = vec![0; missing];
    call.read_exact(&mut more).await.unwrap();
    got += std::str::from_utf8(&more).unwrap();
    let (head, received) = got.split_once("\r\n\r\n").unwrap();
    assert!(received == body, "the body is the client's own");
    assert!(
        head.to_ascii_lowercase()
            .contains(&format!("content-length: {}", body.len())),
        "{head}"
    );
    let first = STREAM.to_owned() + &chunk(r#"{"a": [1, 2, 3"#);
    call.write_all(first.as_bytes()).await.unwrap();
    drop(call);
    let mut call = pair.accept().await;
    let again = read_body(&mut call, body.len()).await;
    assert!(
        again.contains(&"words ".repeat(1000)),
        "the question is asked again"
    );
    let rest = STREAM.to_owned() + &chunk(r#"{"a": [1, 2, 3, 4]}"#) + &finish("stop");
    call.write_all(rest.as_bytes()).await.unwrap();
    drop(call);
    let answer = read_to_end(&mut client).await;
    let (events, is_whole) = body_of(&answer);
    assert!(
        is_whole && events.contains("4]}") && events.contains("[DONE]"),
        "{answer}"
    );
}

/// Where the body decides about the call, the upstream hears nothing of half a request.
#[tokio::test]
async fn a_request_that_decides_about_its_call_is_read_first() {
    let with_file = |text: &str| {
        let text = text.to_owned();
        move |config: &mut Config| {
            let read = Config::parse(&text).unwrap();
            config.routes = read.routes;
        }
    };
    let route = "[[route]]\nname = \"r\"\n";
    type Change<'c> = Box<dyn FnOnce(TestProxy) -> TestProxy + 'c>;
    let changes: [(&str, Change<'_>); 5] = [
        ("adapt", Box::new(|proxy| proxy.adapt(true))),
        (
            "keep",
            Box::new(|proxy| proxy.keep_answers(Duration::from_secs(9))),
        ),
        (
            "a condition on the model",
            Box::new(|proxy| proxy.with(with_file(&format!("{route}model = \"m*\"\n")))),
        ),
        (
            "a raised limit",
            Box::new(|proxy| proxy.with(with_file(&format!("{route}min_output_tokens = 100\n")))),
        ),
        (
            "a fallback",
            Box::new(|proxy| {
                proxy.with(with_file(&format!(
                    "{route}[[route.fallback]]\nupstream = \"http://127.0.0.1:9\"\n"
                )))
            }),
        ),
    ];
    for (name, change) in changes {
        let pair = Pair::new(change).await;
        assert_unheard(&pair, post(&body(300_000)), name).await;
    }
    let pair = Pair::new(|proxy| proxy).await;
    let staged = post(&body(300_000)).replacen("\r\n", "\r\nx-restitch-stage: none\r\n", 1);
    assert_unheard(&pair, staged, "a stage").await;
    assert_unheard(&pair, post(&body(10_000)), "a short body").await;
    // A client that names no length may send more than the proxy keeps.
    let chunked =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_owned();
    assert_unheard(&pair, chunked + "30000\r\n" + &body(300_000), "no length").await;
}

/// Asserts that half a request leads to no call, also after the time in which one would begin.
async fn assert_unheard(pair: &Pair, request: String, name: &str) {
    let (mut client, _) = pair.half(&request).await;
    sleep(Duration::from_millis(20)).await;
    client.shutdown().await.unwrap();
    read_to_end(&mut client).await;
    let accepted = timeout(Duration::ZERO, pair.upstream.accept()).await;
    assert!(accepted.is_err(), "{name}");
}

#[tokio::test]
async fn a_client_that_breaks_off_ends_its_early_call() {
    let pair = Pair::new(|proxy| proxy).await;
    let (mut client, rest) = pair.half(&post(&body(300_000))).await;
    let mut call = pair.accept().await;
    client.shutdown().await.unwrap();
    let got = read_to_end(&mut call).await;
    assert!(!is_whole(got.as_bytes()) && !got.contains(&rest));
    read_to_end(&mut client).await;
}

/// Before it has read the request, the upstream is overloaded, loses the connection, or refuses.
#[tokio::test]
async fn an_early_call_that_fails_is_repeated_as_others_are() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for failure in [busy, ""] {
        let pair = Pair::new(|proxy| proxy).await;
        let body = body(300_000);
        let (mut client, rest) = pair.half(&post(&body)).await;
        let mut call = pair.accept().await;
        call.write_all(failure.as_bytes()).await.unwrap();
        drop(call);
        client.write_all(rest.as_bytes()).await.unwrap();
        let mut call = pair.accept().await;
        let again = read_body(&mut call, body.len()).await;
        assert!(again.ends_with(&body), "{failure:?}");
        let answer = STREAM.to_owned() + &chunk("[1]") + &finish("stop");
        call.write_all(answer.as_bytes()).await.unwrap();
        drop(call);
        let answer = read_to_end(&mut client).await;
        assert!(
            answer.contains("[1]") && answer.contains("[DONE]"),
            "{failure:?} {answer}"
        );
    }
}

#[tokio::test]
async fn an_early_refusal_is_the_clients() {
    let pair = Pair::new(|proxy| proxy).await;
    let (mut client, rest) = pair.half(&post(&body(300_000))).await;
    let mut call = pair.accept().await;
    let refusal = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno";
    call.write_all(refusal.as_bytes()).await.unwrap();
    client.write_all(rest.as_bytes()).await.unwrap();
    let answer = read_to_end(&mut client).await;
    assert!(
        answer.starts_with("HTTP/1.1 401") && answer.ends_with("no"),
        "{answer}"
    );
}

/// The limit for the head counts since the client has sent all.
#[tokio::test]
async fn an_upstream_that_reads_nothing_is_late() {
    let mut limits = Limits::default();
    limits.transport.first_byte_timeout = Duration::from_millis(50);
    limits.transport.idle_timeout = Duration::from_millis(50);
    limits.continuation.patience = Duration::ZERO;
    let pair = Pair::new(|proxy| proxy.limits(limits)).await;
    let answer = exchange(pair.proxy.addr(), &post(&body(20_000_000))).await;
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
}

/// What is no request of the API, or has more choices than the proxy continues, passes unread.
#[tokio::test]
async fn an_early_request_that_is_not_read_passes_unchanged() {
    let many = body(100_000).replacen('{', "{\"n\":129,", 1);
    for body in [many, "words ".repeat(20_000)] {
        let pair = Pair::new(|proxy| proxy).await;
        let (mut client, rest) = pair.half(&post(&body)).await;
        let mut call = pair.accept().await;
        client.write_all(rest.as_bytes()).await.unwrap();
        assert!(read_body(&mut call, body.len()).await.ends_with(&body));
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
        call.write_all(answer.as_bytes()).await.unwrap();
        let answer = read_to_end(&mut client).await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"),
            "{answer}"
        );
    }
}
