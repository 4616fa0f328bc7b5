//! Peers that speak bytes: an upstream that sends a test's script, and a client that sends a
//! request verbatim.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) use super::logged::{Log, listening};
use crate::proxy::made::TestProxy;
pub(super) use crate::proxy::made::{LOOPBACK, Start};
use restitch::Limits;
use restitch_http::Upstream;
pub(super) use restitch_testing::chat::{end as finish, said as chunk};
pub(super) use restitch_testing::says::Says;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything here takes. A test that waits longer hangs.
pub(super) const HANGS: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Send(Vec<u8>),
    /// Waits until the test notifies it.
    Await(Arc<Notify>),
    /// Waits for a time.
    Wait(Duration),
    /// Waits until the peer closes the connection.
    Hold,
    /// Resets the connection instead of closing it.
    Reset,
}

pub(super) fn send(bytes: impl Into<Vec<u8>>) -> Piece {
    Piece::Send(bytes.into())
}

/// The bytes received up to now.
type Kept<T> = Arc<Mutex<Vec<T>>>;

/// Answers each request in turn with the next list of pieces, then closes the connection.
pub(super) struct Raw {
    pub(super) addr: SocketAddr,
    pub(super) requests: Kept<String>,
    /// The same requests, also where they are not UTF-8.
    pub(super) bytes: Kept<Vec<u8>>,
    /// Bytes written so far, requests received, connections that the peer has closed.
    pub(super) state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) written: usize,
    pub(super) requests: usize,
    pub(super) left: usize,
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Raw {
    pub(super) async fn new(answers: Vec<Vec<Piece>>) -> Self {
        super::logged::watch_the_log();
        let socket = TcpSocket::new_v4().unwrap();
        // The connections inherit this, so that few unread bytes are in flight.
        socket.set_send_buffer_size(1 << 16).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(64).unwrap();
        let addr = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (tell, state) = watch::channel(State::default());
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let seen = (Arc::clone(&requests), Arc::clone(&bytes));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, seen, tell) = (Arc::clone(&answers), seen.clone(), tell.clone());
                connections.spawn(async move {
                    let _ = answer(stream, &answers, &seen, &tell).await;
                });
            }
        });
        Self {
            addr,
            requests,
            bytes,
            state,
            task,
        }
    }

    pub(super) async fn proxy(&self, limits: Limits) -> restitch_proxy::Server {
        self.unbound(limits).start().await
    }

    /// Returns a proxy that does not listen yet.
    pub(super) fn unbound(&self, limits: Limits) -> TestProxy {
        let upstream = Upstream::parse(&format!("http://{}/prefix", self.addr)).unwrap();
        TestProxy::new(upstream).limits(limits)
    }

    pub(super) async fn wait(&self, until: impl FnMut(&State) -> bool) -> State {
        let mut state = self.state.clone();
        *timeout(HANGS, state.wait_for(until))
            .await
            .expect("the upstream waits in vain")
            .unwrap()
    }

    /// Waits until the upstream has begun to write, and then no byte has moved for a while.
    pub(super) async fn stalls(&self) {
        self.wait(|state| state.written > 0).await;
        let mut state = self.state.clone();
        while let Ok(moved) = timeout(Duration::from_millis(300), state.changed()).await {
            moved.unwrap();
        }
    }

    /// Returns the number of requests that have arrived.
    pub(super) fn asked(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    pub(super) fn request(&self, n: usize) -> String {
        self.requests.lock().unwrap()[n].clone()
    }
}

async fn answer(
    mut stream: TcpStream,
    answers: &Mutex<VecDeque<Vec<Piece>>>,
    (texts, requests): &(Kept<String>, Kept<Vec<u8>>),
    tell: &watch::Sender<State>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    while !is_whole(&bytes) {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }
    texts
        .lock()
        .unwrap()
        .push(String::from_utf8_lossy(&bytes).into_owned());
    requests.lock().unwrap().push(bytes);
    let pieces = answers.lock().unwrap().pop_front().unwrap_or_default();
    tell.send_modify(|state| state.requests += 1);
    for piece in pieces {
        match piece {
            Piece::Send(bytes) => {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let written = match stream.write(&rest[..rest.len().min(1 << 14)]).await {
                        Ok(written) => written,
                        Err(error) => {
                            tell.send_modify(|state| state.left += 1);
                            return Err(error);
                        }
                    };
                    rest = &rest[written..];
                    tell.send_modify(|state| state.written += written);
                }
            }
            Piece::Await(go) => go.notified().await,
            Piece::Wait(time) => tokio::time::sleep(time).await,
            Piece::Hold => {
                let gone = stream.read(&mut [0; 64]).await;
                assert!(
                    matches!(gone, Ok(0) | Err(_)),
                    "a second request on a held connection"
                );
                tell.send_modify(|state| state.left += 1);
                return Ok(());
            }
            Piece::Reset => {
                // Closing with unread bytes resets the connection, and so does a linger of zero.
                #[expect(deprecated, reason = "a linger of zero does not block")]
                stream.set_linger(Some(Duration::ZERO))?;
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns whether a request has its whole body.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let Some((head, _)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let lower = head.to_ascii_lowercase();
    if lower.contains("transfer-encoding: chunked") {
        return bytes.ends_with(b"0\r\n\r\n");
    }
    let length = lower
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    bytes.len() >= head.len() + 4 + length.unwrap_or(0)
}

pub(super) async fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Returns a client with a small buffer, so that its unread bytes stay with the proxy.
pub(super) async fn connect_narrow(addr: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(addr).await.unwrap()
}

/// Returns a client that has sent a request.
pub(super) async fn begin(addr: SocketAddr, request: &str) -> TcpStream {
    let mut stream = connect(addr).await;
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Sends a request and reads until the proxy closes the connection.
pub(super) async fn exchange(addr: SocketAddr, request: &str) -> String {
    read_to_end(&mut begin(addr, request).await).await
}

/// Gets a path.
pub(super) async fn get_at(addr: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    exchange(addr, &request).await
}

pub(super) async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    // A reset is an end, too.
    let _ = timeout(HANGS, stream.read_to_end(&mut answer))
        .await
        .expect("the proxy hangs");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads until the received bytes contain `pattern`, which must not be longer than one chunk of the
/// answer: the bytes have the sizes of chunks.
pub(super) async fn read_until(stream: &mut (impl AsyncRead + Unpin), pattern: &str) -> String {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(pattern) {
        let read = timeout(HANGS, stream.read_buf(&mut seen))
            .await
            .expect("the proxy hangs")
            .unwrap();
        assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&seen));
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// Returns a request for a chat completion. The connection is closed after its answer.
pub(super) fn post(body: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(super) const ASK: &str =
    r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}"#;
pub(super) const ASK_WHOLE: &str = r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#;

pub(super) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Returns one whole response of a streaming upstream.
pub(super) fn stream(body: &str) -> Vec<Piece> {
    vec![send(format!("{STREAM}{body}"))]
}

/// Returns a response with a body of JSON, after which the connection is closed.
pub(super) fn respond(status: &str, body: &str) -> Vec<Piece> {
    let head = "content-type: application/json\r\nconnection: close\r\ncontent-length: ";
    vec![send(format!(
        "HTTP/1.1 {status}\r\n{head}{}\r\n\r\n{body}",
        body.len()
    ))]
}

/// Returns a stream that stops after a text.
pub(super) fn full(text: &str) -> Vec<Piece> {
    stream(&(chunk(text) + &finish("stop")))
}

/// Returns a stream that the limit cuts after a text.
pub(super) fn limited(text: &str) -> Vec<Piece> {
    stream(&(chunk(text) + &finish("length")))
}

/// Returns the head of a stream and a first text.
pub(super) fn opening(text: &str) -> Piece {
    send(format!("{STREAM}{}", chunk(text)))
}

/// Returns a stream that is silent after a text.
pub(super) fn held(text: &str) -> Vec<Piece> {
    vec![opening(text), Piece::Hold]
}

/// Returns the text of a stream of Chat Completions.
pub(super) fn text_of(body: &str) -> String {
    let events = restitch_testing::event_data(body.as_bytes());
    let texts = events
        .iter()
        .map(|event| &event["choices"][0]["delta"]["content"]);
    texts.filter_map(|text| text.as_str()).collect()
}

/// Returns the body of a response without its chunks, and whether it ended as announced.
pub(super) fn body_of(response: &str) -> (String, bool) {
    let (head, mut rest) = response.split_once("\r\n\r\n").unwrap_or((response, ""));
    if !head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        let length = head.to_ascii_lowercase();
        let length = length
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        return (
            rest.to_owned(),
            length.is_none_or(|length| rest.len() == length),
        );
    }
    let mut body = String::new();
    loop {
        let Some((size, after)) = rest.split_once("\r\n") else {
            return (body, false);
        };
        let Ok(size) = usize::from_str_radix(size, 16) else {
            return (body, false);
        };
        if size == 0 {
            return (body, true);
        }
        let Some(data) = after.get(..size) else {
            return (body + after, false);
        };
        body += data;
        rest = after.get(size + 2..).unwrap_or_default();
    }
}
