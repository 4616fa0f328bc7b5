//! `restitch check`: is it JSON, and is it all there?

use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::Serialize;

use super::{Console, Exit, jsonl};
use crate::json::Machine;
use crate::{Limits, SyntaxError, SyntaxErrorKind};

/// Arguments of `restitch check`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// JSON texts; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// Feed the text in chunks of so many bytes; the answer is the same for all.
    #[arg(long, value_name = "N", default_value = "65536")]
    chunk: NonZeroUsize,
    /// Answer in JSON, a line a file.
    #[arg(long)]
    json: bool,
    /// Read {"id", "text"} a line from standard input, and answer each in JSON.
    #[arg(long, conflicts_with = "files")]
    jsonl: bool,
}

const EXAMPLES: &str = r#"Examples:
  restitch check answer.json
  curl -s https://example.org/data.json | restitch check
  restitch check --json *.json
  echo '{"id": 1, "text": "[1, 2"}' | restitch check --jsonl

The grammar is RFC 8259, to the letter, with at most 1,024 open containers. The memory that it takes does not depend
on the size of the file. `valid` says that no error has come so far: a text that is cut is valid, and not complete.
With --json: {"file", "valid", "complete", "offset", "error"}; `offset` is that of the error, or the length.

Exit codes: 0 complete, 3 cut, 4 invalid, 1 unreadable; of several files the worst, in this order."#;

#[derive(Serialize)]
struct Answer<'a> {
    file: Option<&'a str>,
    valid: bool,
    complete: bool,
    offset: usize,
    error: Option<String>,
}

impl<'a> Answer<'a> {
    /// A file that can't be read: a line, too, so that there is one for each.
    fn unread(file: &'a str) -> Self {
        Self { file: Some(file), valid: false, complete: false, offset: 0, error: Some("can't be read".to_owned()) }
    }

    fn new(file: Option<&'a str>, checked: Checked) -> Self {
        Self {
            file,
            valid: checked.error.is_none(),
            complete: checked.complete,
            offset: checked.error.map_or(checked.length, |error| error.offset),
            error: checked.error.map(|error| error.kind.to_string()),
        }
    }
}

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    if args.jsonl {
        return jsonl::serve(console, |request, console| {
            let text = request.text(console)?;
            let mut checker = Checker::new();
            text.as_bytes().chunks(args.chunk.get()).for_each(|chunk| checker.feed(chunk));
            let checked = checker.finish();
            console.verdict(checked.exit());
            Ok(Answer::new(None, checked))
        });
    }
    if !console.names_stdin_once(&args.files) {
        return Ok(());
    }
    for path in &args.files {
        let checked = console
            .open(path)
            .and_then(|input| check(input, args.chunk).map_or_else(|error| console.unreadable(path, &error), Some));
        let Some(checked) = checked else {
            if args.json {
                console.answer(&Answer::unread(&path.to_string_lossy()))?;
            }
            continue;
        };
        console.verdict(checked.exit());
        if args.json {
            console.answer(&Answer::new(Some(&path.to_string_lossy()), checked))?;
            continue;
        }
        let file = path.display();
        match checked {
            Checked { error: Some(SyntaxError { kind, offset }), .. } => {
                console.line(format_args!("{file}: invalid at byte {offset}: {kind}"))?;
            }
            Checked { complete: true, length, .. } => {
                console.line(format_args!("{file}: complete, {length} bytes"))?;
            }
            Checked { length, .. } => console.line(format_args!("{file}: valid, but cut at byte {length}"))?,
        }
    }
    Ok(())
}

/// What is known of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The root is closed and nothing but white space follows it.
    pub complete: bool,
    /// Bytes read; all of the text where there is no error.
    pub length: usize,
    /// The first byte that the grammar does not allow. Early ends are no errors.
    pub error: Option<SyntaxError>,
}

impl Checked {
    /// The verdict on this text.
    pub fn exit(&self) -> Exit {
        match self {
            Self { error: Some(_), .. } => Exit::Invalid,
            Self { complete: true, .. } => Exit::Complete,
            _ => Exit::Cut,
        }
    }
}

/// Checks a text, in chunks of `chunk` bytes and in constant memory. Stops reading at the first error.
///
/// ```
/// use restitch::cli::check::check;
///
/// let checked = check(&b"[1, 2"[..], 4.try_into()?)?;
/// assert_eq!((checked.error, checked.complete, checked.length), (None, false, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of `input`.
pub fn check(mut input: impl Read, chunk: NonZeroUsize) -> io::Result<Checked> {
    let mut checker = Checker::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => return Ok(checker.finish()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for chunk in buffer.get(..count).unwrap_or_default().chunks(chunk.get()) {
            checker.feed(chunk);
        }
        if checker.error.is_some() {
            return Ok(checker.finish());
        }
    }
}

/// Bytes that are read at once: enough to make system calls cheap, whatever the chunks are.
const BUFFER: usize = 64 << 10;

/// The machine, and the rule that nothing but white space stands behind the root.
#[derive(Debug)]
pub(super) struct Checker {
    machine: Machine,
    length: usize,
    error: Option<SyntaxError>,
}

impl Checker {
    pub(super) fn new() -> Self {
        Self { machine: Machine::new(Limits::default().depth), length: 0, error: None }
    }

    /// Takes more of the text; nothing more behind an error.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.error.is_some() {
            return;
        }
        match self.machine.feed(bytes) {
            Ok(root) => {
                let mut rest = bytes.iter().enumerate().skip(root);
                let text = rest.find(|(_, byte)| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
                self.error = text.map(|(at, &byte)| SyntaxError {
                    kind: SyntaxErrorKind::TrailingText(byte),
                    offset: self.length + at,
                });
            }
            Err(error) => self.error = Some(error),
        }
        self.length += bytes.len();
    }

    /// The text is whole.
    pub(super) fn finish(&mut self) -> Checked {
        // An early end is no error here, and `is_complete` tells it.
        let _ = self.machine.finish();
        Checked { complete: self.is_complete(), length: self.length, error: self.error }
    }

    /// The root is closed, and nothing but white space has followed it.
    pub(super) fn is_complete(&self) -> bool {
        self.error.is_none() && self.machine.is_done()
    }
}
