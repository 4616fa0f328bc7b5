//! A server of Chat Completions on loopback. A header of the request plans the answer.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout_at};

use super::clock;

/// The request header with a plan.
pub const PLAN: &str = "x-plan";

/// The answer that a client wants.
#[derive(Clone, Copy, Debug)]
pub enum Plan {
    /// Events, each with the clock in its text, at equal distances. The text is one JSON array.
    Stream { events: u32, distance: Duration },
    /// Events without distances, after which the connection is lost. The call for the rest is
    /// answered by one event, with the clock of the last one before the cut.
    Cut { events: u32 },
    /// One body whose text is a JSON array of this many bytes.
    Body { bytes: usize },
}

impl Plan {
    /// Writes the value of the header.
    pub fn header(self) -> String {
        match self {
            Self::Stream { events, distance } => {
                format!("stream {events} {}", distance.as_micros())
            }
            Self::Cut { events } => format!("cut {events} 0"),
            Self::Body { bytes } => format!("body {bytes} 0"),
        }
    }

    fn read(head: &str) -> Option<Self> {
        let line = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(PLAN).then_some(value)
        })?;
        let mut words = line.split_whitespace();
        let (form, count, distance) = (words.next()?, words.next()?, words.next()?);
        Some(match form {
            "stream" => Self::Stream {
                events: count.parse().ok()?,
                distance: Duration::from_micros(distance.parse().ok()?),
            },
            "cut" => Self::Cut {
                events: count.parse().ok()?,
            },
            _ => Self::Body {
                bytes: count.parse().ok()?,
            },
        })
    }
}

/// The server. It ends with this program.
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    /// The clock whenever a client leaves a stream with distances.
    pub left: Receiver<u64>,
}

impl Upstream {
    /// Starts it in a thread of its own.
    pub fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (sender, left) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(accept(listener, sender))
        });
        Ok(Self { address, left })
    }
}

async fn accept(listener: std::net::TcpListener, left: Sender<u64>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (connection, _) = listener.accept().await?;
        connection.set_nodelay(true)?;
        let left = left.clone();
        // A client that leaves ends its connection.
        tokio::spawn(async { serve(connection, left).await });
    }
}

async fn serve(mut connection: TcpStream, left: Sender<u64>) -> io::Result<()> {
    // Memory that is not written costs nothing, for thousands of connections.
    let mut input = Vec::with_capacity(1 << 18);
    loop {
        let head = loop {
            if let Some(at) = memmem::find(&input, b"\r\n\r\n") {
                break at + 4;
            }
            if connection.read_buf(&mut input).await? == 0 {
                return Ok(());
            }
        };
        let text = String::from_utf8_lossy(&input[..head]).into_owned();
        let plan = Plan::read(&text).ok_or(io::ErrorKind::InvalidData)?;
        let mut missing = body_length(&text).ok_or(io::ErrorKind::InvalidData)?;
        input.drain(..head);
        missing -= input.len();
        while missing > 0 {
            // Only a short body is needed: that of a call for the rest.
            if missing > input.capacity() - input.len() {
                input.clear();
            }
            let length = connection.read_buf(&mut input).await?;
            if length == 0 {
                return Ok(());
            }
            missing -= length;
        }
        match plan {
            Plan::Stream { events, distance } => {
                stream(&mut connection, events, distance, &left).await?;
            }
            Plan::Cut { events } => match rest(&input) {
                Some(rest) => connection.write_all(rest.as_bytes()).await?,
                None => return cut(&mut connection, events).await,
            },
            Plan::Body { bytes } => body(&mut connection, bytes).await?,
        }
        input.clear();
    }
}

/// Returns the length of a message's body. `None`: its head doesn't say.
pub(super) fn body_length(head: &str) -> Option<usize> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok())?
    })
}

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

async fn stream(
    connection: &mut TcpStream,
    events: u32,
    distance: Duration,
    left: &Sender<u64>,
) -> io::Result<()> {
    connection.write_all(HEAD.as_bytes()).await?;
    let (mut due, mut out) = (Instant::now(), String::new());
    for at in 0..events {
        // A timer is late by a millisecond, which the first event doesn't need.
        if at > 0 && !distance.is_zero() {
            // The client sends nothing before the end of the answer, unless it leaves.
            if timeout_at(due, connection.read_u8()).await.is_ok() {
                // Nobody may wait for it.
                let _ = left.send(clock());
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        due += distance;
        let closer = if at + 1 == events { "]" } else { "" };
        event(&mut out, &(element(at, clock()) + closer));
        // Without a distance many events are in one write, as a fast upstream sends them.
        if !distance.is_zero() || at % 64 == 63 {
            connection.write_all(out.as_bytes()).await?;
            out.clear();
            tokio::task::yield_now().await;
        }
    }
    end(&mut out);
    connection.write_all(out.as_bytes()).await
}

/// Sends a stream whose last event is followed by the loss of the connection.
async fn cut(connection: &mut TcpStream, events: u32) -> io::Result<()> {
    let mut out = HEAD.to_owned();
    for at in 1..events {
        event(&mut out, &element(at - 1, clock()));
    }
    connection.write_all(out.as_bytes()).await?;
    // The proxy relays all of them in this time.
    sleep(Duration::from_millis(20)).await;
    out.clear();
    event(&mut out, &element(events, clock()));
    connection.write_all(out.as_bytes()).await
}

/// Returns the response to a call for the rest of a cut stream: it repeats the text that the call
/// names, and continues after it. `None`: the request is another one.
fn rest(request: &[u8]) -> Option<String> {
    let request = std::str::from_utf8(request).ok()?;
    let (_, anchor) = request.rsplit_once(r"<overlap_context>\n")?;
    let (anchor, _) = anchor.split_once(r"\n</overlap_context>")?;
    let (_, clock) = anchor.rsplit_once(r#"\"T"#)?;
    let clock: u64 = clock.get(..20)?.parse().ok()?;
    let mut out = HEAD.to_owned();
    event(&mut out, anchor);
    // Another text than before the cut: an anchor that comes twice would be ambiguous.
    event(&mut out, &format!(r#", \"T{clock:020} after the cut\"]"#));
    end(&mut out);
    Some(out)
}

/// Returns an element of the array, as JSON text.
pub fn element(at: u32, clock: u64) -> String {
    let opener = if at == 0 { "[" } else { ", " };
    format!(r#"{opener}\"T{clock:020} and some words\""#)
}

/// Adds an event with this text.
fn event(out: &mut String, text: &str) {
    chunk(out, &delta(&format!(r#"{{"content":"{text}"}}"#), "null"));
}

/// Adds the end of a stream.
fn end(out: &mut String) {
    chunk(out, &(delta("{}", r#""stop""#) + "data: [DONE]\n\n"));
    out.push_str("0\r\n\r\n");
}

fn delta(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}

fn chunk(out: &mut String, event: &str) {
    out.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
}

async fn body(connection: &mut TcpStream, bytes: usize) -> io::Result<()> {
    let element = r#"{\"name\": \"Callisto\", \"planet\": \"Jupiter\", \"km\": 4821, \"note\": \"a \\\"dark\\\" surface\"}"#;
    let count = bytes / element.len();
    let text = vec![element; count].join(", ");
    let body = format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"[{text}]"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}}}"#
    );
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(body.as_bytes()).await
}
