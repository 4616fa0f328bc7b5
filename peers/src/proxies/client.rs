//! A client that sends one request after the other on a connection, and measures its answers.

use std::io;
use std::net::SocketAddr;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::clock;
use super::upstream::{PLAN, Plan, body_length};

/// A line of a prompt, as JSON text.
const LINE: &str = r"    let moons = planets.iter().map(|planet| planet.moons);\n";

/// What a client has measured, in nanoseconds.
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
            input: vec![0; 1 << 18],
        })
    }

    /// Sends a request with a prompt of `prompt` bytes, and reads the whole answer.
    pub async fn ask(
        &mut self,
        plan: Plan,
        prompt: usize,
        measured: &mut Measured,
    ) -> io::Result<()> {
        let is_stream = matches!(plan, Plan::Stream { .. });
        let body = format!(
            r#"{{"model":"m","stream":{is_stream},"messages":[{{"role":"user","content":"{}"}}]}}"#,
            LINE.repeat(prompt / LINE.len())
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
        match plan {
            Plan::Stream { events, .. } => self.stream(sent, events, measured).await,
            Plan::Body { .. } => self.body(sent, measured).await,
        }
    }

    async fn stream(&mut self, sent: u64, events: u32, measured: &mut Measured) -> io::Result<()> {
        let (mut read, mut found) = (0, 0);
        loop {
            read += self.read(read).await?;
            let now = clock();
            let mut from = 0;
            while let Some(at) = memmem::find(&self.input[from..read], b"\\\"T") {
                let Some(digits) = self.input[..read].get(from + at + 3..from + at + 23) else {
                    break;
                };
                let written = digits
                    .iter()
                    .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
                match found {
                    0 => measured.first.push((now - sent) as f64),
                    _ => measured.events.push(now.saturating_sub(written) as f64),
                }
                found += 1;
                from += at + 23;
            }
            let is_over = self.input[from..read].ends_with(b"\r\n0\r\n\r\n");
            if is_over {
                let is_whole =
                    found == events && memmem::find(&self.input[..read], b"[DONE]").is_some();
                return if is_whole {
                    Ok(())
                } else {
                    Err(wrong(found, &self.input[..read]))
                };
            }
            // The end of the chunk before the last one, and a clock that is not whole.
            let kept = from.max(read.saturating_sub(64));
            self.input.copy_within(kept..read, 0);
            read -= kept;
        }
    }

    async fn body(&mut self, sent: u64, measured: &mut Measured) -> io::Result<()> {
        let mut read = self.read(0).await?;
        measured.first.push((clock() - sent) as f64);
        let head = loop {
            if let Some(at) = memmem::find(&self.input[..read], b"\r\n\r\n") {
                break at + 4;
            }
            read += self.read(read).await?;
        };
        let text = String::from_utf8_lossy(&self.input[..head]).into_owned();
        match body_length(&text) {
            Some(length) if text.starts_with("HTTP/1.1 200") => {
                let mut missing = length - (read - head);
                while missing > 0 {
                    missing -= self.read(0).await?;
                }
                Ok(())
            }
            _ => Err(wrong(0, text.as_bytes())),
        }
    }

    async fn read(&mut self, at: usize) -> io::Result<usize> {
        match self.connection.read(&mut self.input[at..]).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => Ok(length),
        }
    }
}

fn wrong(found: u32, text: &[u8]) -> io::Error {
    io::Error::other(format!(
        "{found} events, then {}",
        String::from_utf8_lossy(text)
    ))
}
