//! A server of Chat Completions on loopback. A header of the request plans the answer.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

use super::clock;

/// The request header with a plan.
pub const PLAN: &str = "x-plan";

/// The answer that a client wants.
#[derive(Clone, Copy, Debug)]
pub enum Plan {
    /// Events, each with the clock in its text, at equal distances. The text is one JSON array.
    Stream { events: u32, distance: Duration },
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
            _ => Self::Body {
                bytes: count.parse().ok()?,
            },
        })
    }
}

/// Starts the server in a thread of its own. It ends with the process.
pub fn start() -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(accept(listener))
    });
    Ok(address)
}

async fn accept(listener: std::net::TcpListener) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (connection, _) = listener.accept().await?;
        connection.set_nodelay(true)?;
        // A client that leaves ends its connection.
        tokio::spawn(async { serve(connection).await });
    }
}

async fn serve(mut connection: TcpStream) -> io::Result<()> {
    let mut input = vec![0; 1 << 18];
    let mut read = 0;
    loop {
        let head = loop {
            if let Some(at) = memchr::memmem::find(&input[..read], b"\r\n\r\n") {
                break at + 4;
            }
            match connection.read(&mut input[read..]).await? {
                0 => return Ok(()),
                length => read += length,
            }
        };
        let text = String::from_utf8_lossy(&input[..head]).into_owned();
        let plan = Plan::read(&text).ok_or(io::ErrorKind::InvalidData)?;
        let mut missing = body_length(&text).ok_or(io::ErrorKind::InvalidData)?;
        missing -= read - head;
        while missing > 0 {
            let length = connection.read(&mut input).await?;
            if length == 0 {
                return Ok(());
            }
            missing -= length;
        }
        read = 0;
        match plan {
            Plan::Stream { events, distance } => stream(&mut connection, events, distance).await?,
            Plan::Body { bytes } => body(&mut connection, bytes).await?,
        }
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

async fn stream(connection: &mut TcpStream, events: u32, distance: Duration) -> io::Result<()> {
    connection
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        .await?;
    let (mut due, mut out) = (Instant::now(), String::new());
    for at in 0..events {
        let opener = if at == 0 { "[" } else { ", " };
        let closer = if at + 1 == events { "]" } else { "" };
        // A timer is late by a millisecond, which the first event doesn't need.
        if at > 0 && !distance.is_zero() {
            sleep_until(due).await;
        }
        due += distance;
        let text = format!(r#"{opener}\"T{:020} and some words\"{closer}"#, clock());
        chunk(
            &mut out,
            &delta(&format!(r#"{{"content":"{text}"}}"#), "null"),
        );
        // Without a distance many events are in one write, as a fast upstream sends them.
        if !distance.is_zero() || at % 64 == 63 {
            connection.write_all(out.as_bytes()).await?;
            out.clear();
            tokio::task::yield_now().await;
        }
    }
    chunk(&mut out, &(delta("{}", r#""stop""#) + "data: [DONE]\n\n"));
    out.push_str("0\r\n\r\n");
    connection.write_all(out.as_bytes()).await
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
