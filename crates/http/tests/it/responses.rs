//! Responses of any upstream, read by the client and by hyper's: both read the same, or neither
//! reads one.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Body as HttpBody;
use hyper_util::rt::TokioIo;
use restitch_http::{Body, Client, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use restitch_testing::{Rng, at_least, random_cuts};

/// Status, headers and body.
type Read = (u16, Vec<(String, Vec<u8>)>, Vec<u8>);

/// Answers one request with `bytes` in pieces, and closes the connection.
async fn answer(listener: &TcpListener, bytes: &[u8], cuts: &[usize]) {
    let (mut socket, _) = listener.accept().await.unwrap();
    socket.set_nodelay(true).unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert_ne!(socket.read_buf(&mut request).await.unwrap(), 0);
    }
    for piece in restitch_testing::chunks(bytes, cuts) {
        // A client that reads no further may have left.
        if socket.write_all(piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn whole<B: HttpBody<Data = Bytes>>(response: Response<B>) -> Option<Read> {
    let (head, body) = response.into_parts();
    let headers = head
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
        .collect();
    Some((
        head.status.as_u16(),
        headers,
        body.collect().await.ok()?.to_bytes().to_vec(),
    ))
}

async fn by_client(listener: &TcpListener) -> Option<Read> {
    let upstream = Upstream::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let client = Client::new(upstream).unwrap();
    let uri = client.upstream().uri_for("/x").unwrap();
    whole(
        client
            .send(Request::get(uri).body(Body::empty()).unwrap())
            .await
            .ok()?,
    )
    .await
}

async fn by_hyper(listener: &TcpListener) -> Option<Read> {
    let socket = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
        .await
        .unwrap();
    let driver = tokio::spawn(connection);
    let request = Request::get("/x")
        .header("host", "h")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let read = match sender.send_request(request).await {
        Ok(response) => whole(response).await,
        Err(_) => None,
    };
    driver.abort();
    read
}

/// Returns whether all codings of a body are removed. hyper leaves one that it does not know, and
/// the body would be passed on without its name.
fn has_known_coding((_, headers, _): &Read) -> bool {
    let mut codings = headers
        .iter()
        .filter(|(name, _)| name == "transfer-encoding");
    codings.all(|(_, value)| value.eq_ignore_ascii_case(b"chunked"))
}

/// Returns the results of the client and of hyper's client for `bytes`.
async fn both(
    listener: &TcpListener,
    bytes: &[u8],
    cuts: &[usize],
) -> (Option<Read>, Option<Read>) {
    let (own, ()) = tokio::join!(by_client(listener), answer(listener, bytes, cuts));
    let (other, ()) = tokio::join!(by_hyper(listener), answer(listener, bytes, cuts));
    (own, other)
}

fn chunked(body: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in restitch_testing::chunks(body, &random_cuts(body.len(), rng))
        .into_iter()
        .filter(|chunk| !chunk.is_empty())
    {
        let extension = rng.pick(&["", "", "", ";a", ";a=\"b\"", "  "]);
        out.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("0\r\n{}\r\n", rng.pick(&["", "", "x-t: 1\r\n"])).as_bytes());
    out
}

fn response(rng: &mut Rng) -> Vec<u8> {
    let body: Vec<u8> = (0..rng.below(200))
        .map(|_| rng.pick(&["a", "0", "\r", "\n", "{", "\u{e9}"]).as_bytes()[0])
        .collect();
    let early = rng.pick(&["", "", "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"]);
    let version = rng.pick(&["HTTP/1.1", "HTTP/1.1", "HTTP/1.0"]);
    let status = rng.pick(&[
        "200 OK",
        "200 Fine",
        "404 Not Found",
        "204 No Content",
        "500 ",
    ]);
    let other = rng.pick(&[
        "",
        "content-type: text/plain\r\n",
        "x: 1\r\nX:  2 \r\n",
        "connection: close\r\n",
    ]);
    let (length, body) = match rng.below(3) {
        0 => (format!("content-length: {}\r\n", body.len()), body),
        1 if version == "HTTP/1.1" => (
            "Transfer-Encoding: Chunked\r\n".to_owned(),
            chunked(&body, rng),
        ),
        _ => (String::new(), body),
    };
    [
        format!("{early}{version} {status}\r\n{other}{length}\r\n").into_bytes(),
        body,
    ]
    .concat()
}

/// Cuts a response, or changes some of its bytes. Trailers stay: the client skips them unread,
/// hyper reads them.
fn damaged(mut bytes: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    const BYTES: [&str; 12] = [
        "\r", "\n", " ", ":", "0", "9", "f", "g", ";", "H", "\0", "\u{80}",
    ];
    match rng.below(4) {
        0 => bytes.truncate(rng.below(bytes.len())),
        1 => {}
        _ if bytes.ends_with(b"x-t: 1\r\n\r\n") => {}
        _ => {
            for _ in 0..=rng.below(2) {
                let at = rng.below(bytes.len());
                let byte = rng.pick(&BYTES).as_bytes()[0];
                match rng.below(3) {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    _ => drop(bytes.remove(at)),
                }
            }
        }
    }
    bytes
}

#[tokio::test]
async fn the_client_reads_what_hypers_reads() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut rng = Rng::new(7);
    let (mut read, mut refused) = (0, 0);
    for round in 0..at_least(1500, 20_000) {
        let whole = response(&mut rng);
        let bytes = damaged(whole, &mut rng);
        let cuts = random_cuts(bytes.len(), &mut rng);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (own, other) = timeout(Duration::from_secs(30), both(&listener, &bytes, &cuts))
            .await
            .unwrap();
        read += usize::from(own.is_some());
        refused += usize::from(own.is_none());
        assert_eq!(
            own,
            other.filter(has_known_coding),
            "round {round}: {text:?}"
        );
    }
    assert!(
        read > refused / 2 && refused > 100,
        "{read} read, {refused} refused"
    );
}
