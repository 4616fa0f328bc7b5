//! `restitch check`: validates JSON strictly, and tells a text that is cut from one that is wrong.

use std::fmt;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::console::{count, short};
use super::output::To;
use super::tracker::Tracker;
use super::{Console, Exit, epilogue, jsonl};
use restitch::internal::json::Machine;
use restitch::{Limits, SyntaxError, SyntaxErrorKind};

/// Arguments of `restitch check`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct CheckArgs {
    /// JSON texts; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// Feed the text in chunks of N bytes. The answer does not depend on it.
    #[arg(long, value_name = "N", default_value = "65536")]
    chunk: NonZeroUsize,
    /// Answer in JSON, one line per file.
    #[arg(long)]
    json: bool,
    /// Report the time and the throughput.
    #[arg(long)]
    time: bool,
    /// Read {"id", "text"} from each line of standard input, and answer each in JSON.
    #[arg(long, conflicts_with_all = ["files", "time"])]
    jsonl: bool,
    #[command(flatten)]
    to: To,
}

const EXAMPLES: &str = r#"Examples:
  restitch check answer.json
  curl -s https://example.org/data.json | restitch check
  restitch check --json *.json
  restitch check --time huge.json
  echo '{"id": 1, "text": "[1, 2"}' | restitch check --jsonl

The grammar is RFC 8259, to the letter, with at most 1,024 open containers. Memory use does not depend on the size of
the file. `valid` says that there is no error so far: a text that is cut is valid, and not complete. For a stream of
several documents use `restitch events`.

With --json: {"file", "valid", "complete", "offset", "line", "column", "path", "error"}, and "seconds" with --time.
`offset`, `line`, `column` (in characters) and `path` (a JSON Pointer) are those of the error, else of the end.

Exit codes: 0 complete, 3 cut, 4 invalid, 1 unreadable. Of several files the worst counts, in this order."#;

#[derive(Serialize)]
struct CheckReport<'a> {
    file: Option<&'a str>,
    valid: bool,
    complete: bool,
    offset: usize,
    line: usize,
    column: usize,
    path: String,
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

impl<'a> CheckReport<'a> {
    /// Answers for a file that can't be read, so that each file has its line.
    fn unread(file: &'a str) -> Self {
        let error = Some("can't be read".to_owned());
        Self {
            valid: false,
            error,
            ..Self::new(Some(file), Checker::new().finish(), None)
        }
    }

    fn new(file: Option<&'a str>, checked: Checked, took: Option<Duration>) -> Self {
        Self {
            file,
            valid: checked.error.is_none(),
            complete: checked.complete,
            offset: checked.offset(),
            line: checked.line,
            column: checked.column,
            path: checked.path,
            error: checked.error.map(|error| error.kind.to_string()),
            seconds: took.map(|took| took.as_secs_f64()),
        }
    }
}

pub(super) fn run(args: &CheckArgs, console: &mut Console) -> io::Result<()> {
    console.write_to(args.to.output.as_deref());
    if args.jsonl {
        return jsonl::serve(console, |request, console| {
            let text = request.text(console)?;
            let mut checker = Checker::new();
            text.as_bytes()
                .chunks(args.chunk.get())
                .for_each(|chunk| checker.feed(chunk));
            let checked = checker.finish();
            console.verdict(checked.exit());
            Ok(CheckReport::new(None, checked, None))
        });
    }
    if !console.names_stdin_once(&args.files) {
        return Ok(());
    }
    for path in &args.files {
        let started = args.time.then(now);
        let checked = console.open(path, false).and_then(|input| {
            check(input, args.chunk).map_or_else(|error| console.unreadable(path, &error), Some)
        });
        let took = started.map(|started| started.elapsed());
        let Some(checked) = checked else {
            if args.json {
                console.answer(&CheckReport::unread(&path.to_string_lossy()))?;
            }
            continue;
        };
        console.verdict(checked.exit());
        if args.json {
            console.answer(&CheckReport::new(
                Some(&path.to_string_lossy()),
                checked,
                took,
            ))?;
            continue;
        }
        console.line(format_args!("{}: {checked}", path.display()))?;
        if let Some(took) = took {
            // The note follows the answer that it is about.
            console.flush()?;
            let (bytes, seconds) = (checked.offset(), took.as_secs_f64());
            // A coarse clock may see no time at all.
            let rate = bytes as f64 / seconds.max(1e-9) / 1e6;
            console.notes.note(format_args!(
                "{}: {} in {seconds:.6} s, {rate:.1} MB/s",
                path.display(),
                count(bytes, "byte")
            ));
        }
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a command that is asked for the time it takes has a clock"
)]
fn now() -> Instant {
    Instant::now()
}

/// The result of checking a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The root is closed, and only white space follows it.
    pub complete: bool,
    /// Bytes read: the whole text, unless there is an error.
    pub length: usize,
    /// The first byte that the grammar does not allow. An early end is not an error.
    pub error: Option<SyntaxError>,
    /// The line of the error, or of the end. Counts from 1.
    pub line: usize,
    /// The column in that line, in characters. Counts from 1.
    pub column: usize,
    /// The JSON Pointer of the value that is due or open there, else of the innermost open
    /// container. Keys are cut after 4 KiB.
    pub path: String,
}

impl Checked {
    /// Returns the verdict on this text.
    pub fn exit(&self) -> Exit {
        match self {
            Self { error: Some(_), .. } => Exit::Invalid,
            Self { complete: true, .. } => Exit::Complete,
            _ => Exit::Cut,
        }
    }

    /// Returns the offset of the error, or of the end.
    fn offset(&self) -> usize {
        self.error.map_or(self.length, |error| error.offset)
    }
}

impl fmt::Display for Checked {
    /// Writes one line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            Some(_) => f.write_str("invalid at ")?,
            None if self.complete => return write!(f, "complete, {}", count(self.length, "byte")),
            None => f.write_str("valid, but cut at ")?,
        }
        write!(
            f,
            "line {}, column {} (byte {})",
            self.line,
            self.column,
            self.offset()
        )?;
        if !self.path.is_empty() {
            write!(f, ", at {}", short(&self.path))?;
        }
        self.error
            .map_or(Ok(()), |error| write!(f, ": {}", error.kind))
    }
}

/// Checks a text, in chunks of `chunk` bytes and in constant memory. Stops reading at the first
/// error.
///
/// ```
/// use restitch_cli::check::check;
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

/// Bytes per read, independent of the chunks: enough to make system calls cheap.
const BUFFER: usize = 64 << 10;

/// The machine, the rule that only white space may follow the root, and the position in the text.
#[derive(Debug)]
pub(super) struct Checker {
    machine: Machine,
    tracker: Tracker,
    length: usize,
    error: Option<SyntaxError>,
}

impl Checker {
    pub(super) fn new() -> Self {
        Self {
            machine: Machine::new(Limits::default().parser.max_depth),
            tracker: Tracker::default(),
            length: 0,
            error: None,
        }
    }

    /// Takes more of the text. After an error it ignores text.
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
        let end = self.error.map_or(bytes.len(), |error| {
            error.offset.saturating_sub(self.length)
        });
        self.tracker.count(bytes.get(..end).unwrap_or_default());
        self.tracker.remember(&self.machine, self.length, bytes);
        self.length += bytes.len();
    }

    /// Ends the text.
    pub(super) fn finish(&mut self) -> Checked {
        // An early end is not an error here: `is_complete` reports it.
        let _ = self.machine.finish();
        Checked {
            complete: self.is_complete(),
            length: self.length,
            error: self.error,
            line: self.tracker.line(),
            column: self.tracker.column(),
            path: self.tracker.path(&self.machine),
        }
    }

    /// Returns whether the root is closed and only white space has followed it.
    pub(super) fn is_complete(&self) -> bool {
        self.error.is_none() && self.machine.is_done()
    }
}
