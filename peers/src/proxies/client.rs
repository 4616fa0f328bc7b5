//! A client that sends one request after the other on a connection, and measures its answers.

use std::io;
use std::net::SocketAddr;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::clock;
use super::upstream::{PLAN, Plan, body_length, element};

/// A line of a prompt, as JSON text.
const LINE: &str = r"    let moons = planets.iter().map(|planet| planet.moons);\n";

/// The measurements of a client, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// From the first byte of the request to the first clock in the answer, or to its first byte.
    pub first: Vec<f64>,
    /// From each clock's writing to its arrival, but the first of an answer.
    pub events: Vec<f64>,
}

/// A connection to a server or a proxy.
pub struct Client {
    connection: TcpStream,
    input: Vec<u8>,
}

impl Client {
    /// Connects.
    pub async fn new(address: SocketAddr) -> io::Result<Self> {
        let connection = TcpStream::connect(address).await?;
        connection.set_nodelay(true)?;
        Ok(Self {
            connection,
            input: Vec::with_capacity(1 << 18),
        })
    }

    /// Sends a request with a prompt of `prompt` bytes, and reads the whole answer.
    pub async fn ask(
        &mut self,
        plan: Plan,
        prompt: usize,
        measured: &mut Measured,
    ) -> io::Result<()> {
        let sent = self.send(plan, prompt).await?;
        match plan {
            Plan::Body { .. } => self.body(sent, measured).await,
            _ => self.stream(sent, plan, measured).await,
        }
    }

    /// Sends a request, and reads the first bytes of its answer.
    pub async fn begin(&mut self, plan: Plan, prompt: usize) -> io::Result<()> {
        self.send(plan, prompt).await?;
        self.read().await
    }

    /// Sends a request, and returns when.
    pub async fn send(&mut self, plan: Plan, prompt: usize) -> io::Result<u64> {
        self.post(plan, &LINE.repeat(prompt / LINE.len())).await
    }

    async fn post(&mut self, plan: Plan, prompt: &str) -> io::Result<u64> {
        let is_stream = !matches!(plan, Plan::Body { .. });
        let body = format!(
            r#"{{"model":"m","stream":{is_stream},"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
        );
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{PLAN}: {}\r\ncontent-length: {}\r\n\r\n",
            plan.header(),
            body.len()
        );
        let sent = clock();
        self.connection
            .write_all(&[head.as_bytes(), body.as_bytes()].concat())
            .await?;
        Ok(sent)
    }

    async fn stream(&mut self, sent: u64, plan: Plan, measured: &mut Measured) -> io::Result<()> {
        let events = match plan {
            // The rest has one.
            Plan::Cut { events } => events + 1,
            Plan::Stream { events, .. } => events,
            Plan::Body { .. } => 0,
        };
        let (mut chunks, mut found, mut last) = (Chunks::default(), 0, 0);
        let mut text = Vec::new();
        loop {
            self.input.clear();
            if let Err(error) = self.read().await {
                // Without a proxy the client itself asks for the rest.
                if !matches!(plan, Plan::Cut { events } if events == found) {
                    return Err(error);
                }
                *self = Self::new(self.connection.peer_addr()?).await?;
                chunks = Chunks::default();
                // The anchor comes again.
                found -= 1;
                let anchor = element(1, last);
                let prompt = format!(r"<overlap_context>\n{anchor}\n</overlap_context>");
                self.post(plan, &prompt).await?;
                continue;
            }
            let now = clock();
            chunks.read(&self.input, &mut text);
            let mut from = 0;
            while let Some(at) = memmem::find(&text[from..], b"\\\"T") {
                let Some(digits) = text.get(from + at + 3..from + at + 23) else {
                    break;
                };
                last = digits
                    .iter()
                    .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
                match found {
                    0 => measured.first.push((now - sent) as f64),
                    _ => measured.events.push(now.saturating_sub(last) as f64),
                }
                found += 1;
                from += at + 23;
            }
            if chunks.is_over {
                let is_whole = found == events && memmem::find(&text, b"[DONE]").is_some();
                return if is_whole {
                    Ok(())
                } else {
                    Err(wrong(found, &text))
                };
            }
            // A clock that is not whole, and the last event.
            let kept = from.max(text.len().saturating_sub(64));
            text.drain(..kept);
        }
    }

    async fn body(&mut self, sent: u64, measured: &mut Measured) -> io::Result<()> {
        self.input.clear();
        self.read().await?;
        measured.first.push((clock() - sent) as f64);
        let head = loop {
            if let Some(at) = memmem::find(&self.input, b"\r\n\r\n") {
                break at + 4;
            }
            self.read().await?;
        };
        let text = String::from_utf8_lossy(&self.input[..head]).into_owned();
        match body_length(&text) {
            Some(length) if text.starts_with("HTTP/1.1 200") => {
                let mut missing = length - (self.input.len() - head);
                while missing > 0 {
                    self.input.clear();
                    self.read().await?;
                    missing -= self.input.len();
                }
                Ok(())
            }
            _ => Err(wrong(0, text.as_bytes())),
        }
    }

    /// Adds bytes to the input.
    async fn read(&mut self) -> io::Result<()> {
        match self.connection.read_buf(&mut self.input).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// Removes the head and the framing of a chunked answer.
#[derive(Default)]
pub(super) struct Chunks {
    /// The line that is not whole: of the head, or the size of a chunk.
    line: Vec<u8>,
    has_head: bool,
    /// The bytes of the chunk that are missing, with the line break after it.
    missing: usize,
    pub(super) is_over: bool,
}

impl Chunks {
    pub(super) fn read(&mut self, mut input: &[u8], text: &mut Vec<u8>) {
        while let Some(&byte) = input.first().filter(|_| !self.is_over) {
            if self.missing > 0 {
                let length = self.missing.min(input.len());
                text.extend_from_slice(&input[..length.min(self.missing.saturating_sub(2))]);
                self.missing -= length;
                input = &input[length..];
                continue;
            }
            input = &input[1..];
            self.line.push(byte);
            if byte != b'\n' {
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
            self.line.clear();
            match (self.has_head, usize::from_str_radix(&line, 16)) {
                (false, _) => self.has_head = line.is_empty(),
                (true, Ok(length @ 1..)) => self.missing = length + 2,
                // The empty line after the last chunk.
                (true, Err(_)) => self.is_over = true,
                (true, Ok(0)) => {}
            }
        }
    }
}

fn wrong(found: u32, text: &[u8]) -> io::Error {
    io::Error::other(format!(
        "{found} events, then {}",
        String::from_utf8_lossy(text)
    ))
}
