//! The HTTP client, in front of servers that are a socket and a few lines of text.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use restitch_http::{Body, Client, ConnectionLimits, Error, Upstream};
use restitch_testing::says::Says;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Returns a server that a test serves itself, and its client.
async fn listening() -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (
        listener,
        Client::new(Upstream::parse(&url).unwrap()).unwrap(),
    )
}

/// Accepts one connection, answers each request on it that ends in one of `ends`, and returns all
/// that it read.
async fn server(ends: &'static [&'static str]) -> (Client, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = Upstream::parse(&format!(
        "http://{}/prefix/",
        listener.local_addr().unwrap()
    ))
    .unwrap();
    let seen = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        for end in ends {
            while !seen.ends_with(end.as_bytes()) {
                assert_ne!(socket.read_buf(&mut seen).await.unwrap(), 0);
            }
            socket
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await
                .unwrap();
        }
        String::from_utf8(seen).unwrap()
    });
    (Client::new(upstream).unwrap(), seen)
}

/// Sends a request and reads the body of its response.
async fn send(client: &Client, request: Request<Body>) -> Bytes {
    let call = async {
        client
            .send(request)
            .await
            .unwrap()
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
    };
    timeout(Duration::from_secs(30), call).await.unwrap()
}

#[tokio::test]
async fn requests_share_a_connection_and_name_the_upstream() {
    let (client, seen) = server(&["\r\n\r\n", "hello"]).await;
    let uri = client.upstream().uri_for("/v1/models?a=b").unwrap();
    let request = Request::get(uri)
        .header("host", "evil.example")
        .body(Body::empty())
        .unwrap();
    assert_eq!(send(&client, request).await, "ok");
    let uri = client.upstream().uri_for("http://evil.example/x").unwrap();
    let request = Request::post(uri)
        .header("authorization", "Bearer key")
        .body("hello".into())
        .unwrap();
    assert_eq!(send(&client, request).await, "ok");

    let seen = seen.await.unwrap();
    let host = client.upstream().to_string();
    let host = host
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix("/prefix")
        .unwrap();
    assert_eq!(
        seen,
        format!(
            "GET /prefix/v1/models?a=b HTTP/1.1\r\nhost: {host}\r\n\r\n\
             POST /prefix/x HTTP/1.1\r\nauthorization: Bearer key\r\nhost: {host}\r\ncontent-length: 5\r\n\r\nhello"
        ),
    );
}

/// A stream of two pieces that are ready.
struct Pieces(Vec<&'static str>);

impl futures_core::Stream for Pieces {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.pop().map(|piece| Ok(Bytes::from(piece))))
    }
}

#[tokio::test]
async fn a_streamed_body_goes_out_in_chunks() {
    let (client, seen) = server(&["\r\n0\r\n\r\n"]).await;
    let body = Body::stream(Pieces(vec!["world", "hello "]));
    send(
        &client,
        Request::post(client.upstream().uri_for("/").unwrap())
            .body(body)
            .unwrap(),
    )
    .await;
    seen.await
        .unwrap()
        .ends("\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n");
}

#[tokio::test]
async fn a_request_for_another_host_is_not_sent() {
    let client = Client::new(Upstream::parse("http://127.0.0.1:1").unwrap()).unwrap();
    for uri in ["http://127.0.0.1:2/x", "https://127.0.0.1:1/x", "/x"] {
        let error = client
            .send(Request::get(uri).body(Body::empty()).unwrap())
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Foreign(_)), "{error}");
    }
}

#[tokio::test]
async fn failures_say_whether_there_was_a_connection() {
    let (listener, client) = listening().await;
    let call = || {
        client.send(
            Request::get(client.upstream().uri_for("/").unwrap())
                .body(Body::empty())
                .unwrap(),
        )
    };
    let (answer, ()) = tokio::join!(call(), async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read_buf(&mut Vec::new()).await.unwrap();
    });
    assert!(!answer.unwrap_err().is_connect());
    // The port is bound and not listening: connections are refused, and no other test can get it.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let client =
        Client::new(Upstream::parse(&format!("http://{}", socket.local_addr().unwrap())).unwrap())
            .unwrap();
    let call = client.send(
        Request::get(client.upstream().uri_for("/").unwrap())
            .body(Body::empty())
            .unwrap(),
    );
    let error = timeout(Duration::from_secs(30), call)
        .await
        .unwrap()
        .unwrap_err();
    assert!(error.is_connect());
    error.to_string().of(error).has("refused");
}

/// Returns a client of [`restitch_testing::closing_server`], and the number of requests read on
/// each connection.
async fn closing_server(answers: &'static [usize]) -> (Client, JoinHandle<Vec<usize>>) {
    let (addr, seen) = restitch_testing::closing_server(answers).await;
    let upstream = Upstream::parse(&format!("http://{addr}")).unwrap();
    (Client::new(upstream).unwrap(), seen)
}

fn post(client: &Client, body: Body) -> Request<Body> {
    Request::post(client.upstream().uri_for("/").unwrap())
        .body(body)
        .unwrap()
}

#[tokio::test]
async fn a_request_whose_used_connection_ends_is_sent_again() {
    let (client, seen) = closing_server(&[1, 2]).await;
    for _ in 0..3 {
        assert_eq!(send(&client, post(&client, "the end".into())).await, "ok");
    }
    drop(client);
    assert_eq!(seen.await.unwrap(), [2, 2]);
}

#[tokio::test]
async fn no_connection_is_used_again_where_none_is_kept() {
    let (client, seen) = closing_server(&[2, 2]).await;
    let client = client.limited(ConnectionLimits {
        max_idle: 0,
        ..ConnectionLimits::default()
    });
    for _ in 0..2 {
        assert_eq!(send(&client, post(&client, "the end".into())).await, "ok");
    }
    drop(client);
    assert_eq!(seen.await.unwrap(), [1, 1]);
}

#[tokio::test]
async fn a_request_is_sent_again_once_and_never_on_its_first_connection() {
    let (client, seen) = closing_server(&[1, 0, 0]).await;
    send(&client, post(&client, "the end".into())).await;
    // On the used connection, then on a new one, which ends, too.
    assert!(
        !client
            .send(post(&client, "the end".into()))
            .await
            .unwrap_err()
            .is_connect()
    );
    assert!(client.send(post(&client, "the end".into())).await.is_err());
    assert_eq!(seen.await.unwrap(), [2, 1, 1]);
}

/// Later than at once, the upstream may have read it, and a second one would be billed.
#[tokio::test]
async fn a_request_that_waited_for_its_answer_is_not_sent_again() {
    let (listener, client) = listening().await;
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        for answered in [true, false] {
            let mut request = Vec::new();
            while !request.ends_with(b"end") {
                socket.read_buf(&mut request).await.unwrap();
            }
            if answered {
                socket
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                    .await
                    .unwrap();
            }
        }
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(2)).await;
        tokio::time::resume();
        drop(socket);
        // The client does not connect again.
        timeout(Duration::from_millis(50), listener.accept())
            .await
            .is_err()
    });
    send(&client, post(&client, "the end".into())).await;
    assert!(matches!(
        client.send(post(&client, "the end".into())).await,
        Err(Error::Unanswered(_))
    ));
    assert!(server.await.unwrap());
}

#[tokio::test]
async fn a_streamed_body_is_not_sent_again() {
    let (client, seen) = closing_server(&[1]).await;
    send(&client, post(&client, "the end".into())).await;
    assert!(
        client
            .send(post(&client, Body::stream(Pieces(vec!["end"]))))
            .await
            .is_err()
    );
    drop(client);
    seen.await.unwrap();
}

/// Chunks that have come together are read together.
#[tokio::test]
async fn chunks_that_are_there_are_one_frame() {
    let (listener, client) = listening().await;
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read_buf(&mut Vec::new()).await.unwrap();
        let chunks = "3\r\nabc\r\n".repeat(100);
        let answer =
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
        socket.write_all(answer.as_bytes()).await.unwrap();
        socket
    });
    let response = client.send(post(&client, Body::empty())).await.unwrap();
    let _socket = server.await.unwrap();
    let mut body = response.into_body();
    let (mut frames, mut read) = (0, Vec::new());
    while let Some(frame) = body.frame().await {
        read.extend_from_slice(&frame.unwrap().into_data().unwrap());
        frames += 1;
    }
    assert_eq!(String::from_utf8(read).unwrap(), "abc".repeat(100));
    assert!(frames <= 3, "{frames}");
}

/// An upstream that answers before it has read the request is heard, although the rest can't be
/// sent.
#[tokio::test]
async fn an_early_answer_is_read() {
    let (listener, client) = listening().await;
    let (text, ()) = tokio::join!(
        send(&client, post(&client, vec![b'x'; 64 << 20].into())),
        async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read_buf(&mut Vec::new()).await.unwrap();
            socket
                .write_all(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 5\r\n\r\nlarge")
                .await
                .unwrap();
            // Bytes that are not read would reset the connection, and the answer with it.
            socket.shutdown().await.unwrap();
            let mut rest = vec![0; 1 << 20];
            while socket.read(&mut rest).await.is_ok_and(|read| read > 0) {}
        }
    );
    assert_eq!(text, "large");
}

/// A request continues after its response has begun.
#[tokio::test]
async fn requests_and_responses_go_on_at_the_same_time() {
    let (listener, client) = listening().await;
    let body = vec![b'x'; 16 << 20];
    let (text, ()) = tokio::join!(send(&client, post(&client, body.clone().into())), async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.windows(4).any(|end| end == b"\r\n\r\n") {
            assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0);
        }
        let start = read.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 16 << 20);
        socket.write_all(head.as_bytes()).await.unwrap();
        let (mut echoed, mut piece) = (read.len() - start, read.split_off(start));
        socket.write_all(&piece).await.unwrap();
        piece.resize(1 << 16, 0);
        while echoed < 16 << 20 {
            let read = socket.read(&mut piece).await.unwrap();
            assert_ne!(read, 0);
            socket.write_all(&piece[..read]).await.unwrap();
            echoed += read;
        }
    });
    assert!(text == body, "{} bytes", text.len());
}

/// Bytes after a response belong to no request, so the next request uses another connection.
#[tokio::test]
async fn a_connection_with_bytes_after_its_response_is_not_used_again() {
    let (listener, client) = listening().await;
    let forged = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged";
    for first in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    ] {
        for pause in [false, true] {
            let server = async {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = socket.read_buf(&mut Vec::new()).await.unwrap();
                let pieces = if pause {
                    vec![first.to_owned(), forged.to_owned()]
                } else {
                    vec![format!("{first}{forged}")]
                };
                for piece in pieces {
                    socket.write_all(piece.as_bytes()).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                socket
            };
            let (text, _socket) = tokio::join!(send(&client, post(&client, Body::empty())), server);
            assert!(["ok", ""].contains(&std::str::from_utf8(&text).unwrap()));
            let (text, ()) = tokio::join!(send(&client, post(&client, Body::empty())), async {
                let (mut socket, _) = timeout(Duration::from_secs(30), listener.accept())
                    .await
                    .unwrap()
                    .unwrap();
                let _ = socket.read_buf(&mut Vec::new()).await.unwrap();
                socket
                    .write_all(
                        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\nown",
                    )
                    .await
                    .unwrap();
            });
            assert_eq!(text, "own", "{first:?}");
        }
    }
}

/// Dropping an unfinished answer closes its connection.
#[tokio::test]
async fn a_dropped_body_closes_its_connection() {
    let (listener, client) = listening().await;
    let call = async { client.send(post(&client, Body::empty())).await.unwrap() };
    let (response, mut socket) = tokio::join!(call, async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read_buf(&mut Vec::new()).await.unwrap();
        socket
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok")
            .await
            .unwrap();
        socket
    });
    drop(response);
    assert_eq!(
        timeout(Duration::from_secs(30), socket.read_buf(&mut Vec::new()))
            .await
            .unwrap()
            .unwrap(),
        0
    );
}
