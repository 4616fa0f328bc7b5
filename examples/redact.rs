//! Redacts values by JSON Pointer, and passes the rest of a JSON text unchanged, byte for byte, while it streams:
//! `cargo run --example redact -- /users/*/email <in.json >out.json`. Without patterns it shows a text of its own.
//!
//! A redacted value is never written, even if the text is cut inside it or malformed.

use std::error::Error;
use std::io::{self, Read, Write};

use restitch::json::CloseOptions;
use restitch::paths::{Paths, Phase};
use restitch::{AllowedRoots, Document, Trailing, Utf8};

const SAMPLE: &str = r#"{"users": [
  {"name": "Ada",  "email": "ada@example.com", "pin": 1815},
  {"name": "Alan", "email": "alan@example.com", "pin": 1912}
]}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let patterns: Vec<String> = std::env::args().skip(1).collect();
    if patterns.is_empty() {
        let sample = ["/users/*/email", "/users/*/pin"];
        return Redactor::new(sample)?.run(SAMPLE.as_bytes(), io::stdout());
    }
    Redactor::new(patterns)?.run(io::stdin(), io::stdout())
}

pub(crate) struct Redactor {
    document: Document,
    paths: Paths,
    /// The bytes of the document's text that were written or redacted.
    done: usize,
    /// The path of the open value that is redacted.
    open: Option<String>,
}

impl Redactor {
    pub(crate) fn new<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            document: Document::with_options(1024, AllowedRoots::Any, Trailing::Error),
            paths: Paths::new(patterns)?,
            done: 0,
            open: None,
        })
    }

    pub(crate) fn run(
        mut self,
        mut input: impl Read,
        mut output: impl Write,
    ) -> Result<(), Box<dyn Error>> {
        let (mut utf8, mut buffer) = (Utf8::new(), [0; 4096]);
        loop {
            let length = input.read(&mut buffer)?;
            let mut bytes = &buffer[..length];
            while let Some(text) = utf8.next_text(&mut bytes)? {
                let pushed = self.document.push_with(text, &mut self.paths);
                self.write(&mut output)?;
                pushed.map_err(|error| {
                    format!("{}, {}", error.kind, self.document.explain(&error))
                })?;
            }
            output.flush()?;
            if length == 0 {
                let finished = self.document.finish_with(&mut self.paths);
                self.write(&mut output)?;
                return Ok(finished?);
            }
        }
    }

    /// Writes the certain text. Later text may be the beginning of a number that has to be redacted.
    fn write(&mut self, output: &mut impl Write) -> io::Result<()> {
        let text = self.document.text().as_bytes();
        while let Some(found) = self.paths.poll_match() {
            match (found.phase, &self.open) {
                (Phase::Begin, None) => {
                    output.write_all(&text[self.done..found.span.start])?;
                    output.write_all(b"\"[redacted]\"")?;
                    self.done = found.span.end;
                    self.open = Some(found.path.to_owned());
                }
                (Phase::Complete, Some(path)) if path == found.path => {
                    self.done = found.span.end;
                    self.open = None;
                }
                _ => {}
            }
        }
        let certain = match self.document.is_complete() {
            true => Some(text.len()),
            false => self
                .document
                .complete_into(CloseOptions::default(), &mut String::new()),
        };
        if let Some(certain) = certain.filter(|&end| self.open.is_none() && end > self.done) {
            output.write_all(&text[self.done..certain])?;
            self.done = certain;
        }
        Ok(())
    }
}
