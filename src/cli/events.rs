//! `restitch events`: what becomes certain of JSON text, and when.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::Serialize;

use super::console::{Writer, escape_controls, short};
use super::live::{Input, Watcher};
use super::{Console, epilogue};
use crate::Document;
use crate::json::{Event, Kind, Live, Sink, Span, string};

/// Arguments of `restitch events`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct Args {
    /// JSON texts, or event streams of chat completions; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// Write each event as JSON, on a line of its own.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: Input,
}

const EXAMPLES: &str = r#"Examples:
  restitch events answer.json
  restitch events --chunk 4 answer.json
  curl -sN https://example.org/stream | restitch events
  restitch events --json log.ndjson | jq -r 'select(.event == "key").path'

An event is written as soon as nothing that follows can change it: a number with the byte behind it, a key with its
closing quote, a string in fragments. How many fragments there are depends on the chunks, everything else does not.
The columns are the bytes, the event by depth, its path, and the text; of long text the beginning.

With --json: {"event", "path", "start", "end"}. `event` is one of begin, end, key, string_begin, fragment,
string_end, number, true, false, null. `begin` and `end` have a "kind", object or array; scalars, keys, fragments and
ends of strings have the bytes from `start` to `end` as "text", and what is a string also has the "value" that it says
(a `string_end` both of the whole string, its text with the quotes). Behind the first root there is a "root", counted
from 0; with several files there is a "file".

What stands around the JSON, a Markdown fence say, is left out. Where the text is malformed, the events before that
are written, then the place is told.

Exit codes: 0 complete, 3 cut, 4 malformed, not UTF-8, or the server reports an error, 1 unreadable; of several files
the worst, in this order."#;

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    args.input.prepare(console);
    if !console.names_stdin_once(&args.files) {
        return Ok(());
    }
    let is_one_of_many = args.files.len() > 1;
    for path in &args.files {
        let file = is_one_of_many.then(|| path.to_string_lossy());
        if let Some(file) = file.as_ref().filter(|_| !args.json) {
            console.line(format_args!("{file}:"))?;
        }
        console.flush()?;
        let mut log = Log {
            file: file.as_deref(),
            json: args.json,
            root: 0,
            base: 0,
            lines: String::new(),
            writer: console.writer(),
            failed: None,
        };
        args.input.watch(path, &mut log, console)?;
    }
    Ok(())
}

/// Lines that are not written yet.
struct Log<'a> {
    file: Option<&'a str>,
    json: bool,
    /// AllowedRoots that have ended.
    root: usize,
    /// Bytes of text that were dropped.
    base: usize,
    lines: String,
    writer: Writer,
    /// What went wrong when lines were written before their time.
    failed: Option<io::Error>,
}

impl Sink for Log<'_> {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        if self.failed.is_some() {
            return;
        }
        if self.json {
            self.json(event, live);
        } else {
            self.words(event, live);
        }
        self.root += usize::from(event.ends_value() && live.frames.is_empty());
        if self.lines.len() > LINES {
            // A path may be as long as the text: the lines of one chunk may be longer than there is memory.
            self.failed = self.writer.borrow_mut().write_all(self.lines.as_bytes()).err();
            self.lines.clear();
        }
    }
}

impl Watcher for Log<'_> {
    fn write(&mut self, _: &Document, console: &mut Console) -> io::Result<ControlFlow<()>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        console.lines(&self.lines)?;
        self.lines.clear();
        Ok(ControlFlow::Continue(()))
    }

    fn rebase(&mut self, base: usize) {
        self.base = base;
    }
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    path: String,
    start: usize,
    end: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "is_first")]
    root: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
}

fn is_first(root: &usize) -> bool {
    *root == 0
}

impl Log<'_> {
    fn json(&mut self, event: Event, live: &Live<'_>) {
        let span = event.span();
        let text = span.of(live.text);
        let kind = match event {
            Event::Begin { kind, .. } | Event::End { kind, .. } => Some(kind),
            _ => None,
        };
        let value = match event {
            Event::Key(_) => Some(live.key(span)),
            Event::Fragment(_) => Some(live.decoded(span)),
            Event::StringEnd(_) => Some(string::decode(text.get(1..text.len().saturating_sub(1)).unwrap_or_default())),
            _ => None,
        };
        let line = Line {
            event: event.name(),
            path: live.path().to_string(),
            start: self.base + span.start,
            end: self.base + span.end,
            kind: kind.map(Kind::as_str),
            text: (kind.is_none() && !matches!(event, Event::StringBegin(_))).then_some(text),
            value: value.as_deref(),
            root: self.root,
            file: self.file,
        };
        // A line of strings and numbers can always be written.
        self.lines.push_str(&serde_json::to_string(&line).unwrap_or_default());
        self.lines.push('\n');
    }

    fn words(&mut self, event: Event, live: &Live<'_>) {
        let span = event.span();
        let text = span.of(live.text);
        let quote = if matches!(event, Event::Key(_) | Event::Fragment(_)) { "\"" } else { "" };
        let (piece, dots) = match text.char_indices().nth(SHOWN) {
            Some((end, _)) => (text.get(..end).unwrap_or_default(), "…"),
            None => (text, ""),
        };
        let indent = 2 * live.frames.len().min(DEEP);
        let path = if live.path().is_empty() { "(root)".to_owned() } else { live.path().to_string() };
        let span = Span { start: self.base + span.start, end: self.base + span.end }.to_string();
        let (name, path) = (event.name(), short(&path));
        // Paths stand below one another where the depth allows it.
        let width = NAMES.saturating_sub(indent).max(NAME);
        let start = self.lines.len();
        // Writing to a string does not fail.
        let _ = write!(self.lines, "{span:<17} {:indent$}{name:<width$} {path}  {quote}{piece}{dots}{quote}", "");
        escape_controls(&mut self.lines, start);
        self.lines.push('\n');
    }
}

/// Bytes of lines that wait for the end of their chunk.
const LINES: usize = 1 << 20;

/// Characters of a text that people are shown.
const SHOWN: usize = 48;

/// Characters of the column that has the depth and the name, and of the longest name.
const NAMES: usize = 20;
const NAME: usize = 12;

/// Containers up to which the depth is shown: behind that it would push all else off the screen.
const DEEP: usize = 24;
