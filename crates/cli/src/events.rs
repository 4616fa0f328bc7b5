//! `restitch events`: lists the parser's events of a JSON text.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::Serialize;

use super::console::{Writer, escape_controls, short};
use super::live::{LiveInput, Watcher};
use super::{Console, epilogue};
use restitch::Document;
use restitch::internal::json::string;
use restitch::json::{Event, Kind, ParserView, Sink, Span};

/// Arguments of `restitch events`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct EventsArgs {
    /// JSON texts, or event streams of Chat Completions. `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// Write each event as JSON, one per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: LiveInput,
}

const EXAMPLES: &str = r#"Examples:
  restitch events answer.json
  restitch events --chunk 4 answer.json
  curl -sN https://example.org/stream | restitch events
  restitch events --json log.ndjson | jq -r 'select(.event == "key").path'

An event is written as soon as no later byte can change it: a number with the byte after it, a key with its closing
quote, a string in fragments. The number of fragments depends on the chunks; everything else does not. The columns are
the bytes, the event (indented by depth), its path, and the beginning of its text.

With --json: {"event", "path", "start", "end"}. `event` is one of begin, end, key, string_begin, fragment,
string_end, number, true, false, null. `begin` and `end` have a "kind", which is object or array. Scalars, keys,
fragments and ends of strings have the bytes from `start` to `end` as "text"; those of strings also have the decoded
"value". `string_end` has both for the whole string, and its text has the quotes. After the first root there is a
"root", counted from 0. With several files there is a "file". Of a path with more than 512 bytes the beginning and the
end are written, and "path_cut" is true.

Text around the JSON, for example a Markdown fence, is left out. Of a malformed text, the events before the error are
written, then the error is reported.

Exit codes: 0 complete, 3 cut, 4 malformed, not UTF-8, or the server reports an error, 1 unreadable. Of several files
the worst counts, in this order."#;

pub(super) fn run(args: &EventsArgs, console: &mut Console) -> io::Result<()> {
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
        let mut log = EventLines {
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

/// The lines of events, including unwritten ones.
struct EventLines<'a> {
    file: Option<&'a str>,
    json: bool,
    /// AllowedRoots that have ended.
    root: usize,
    /// Bytes of text that were dropped.
    base: usize,
    lines: String,
    writer: Writer,
    /// The error of an early write.
    failed: Option<io::Error>,
}

impl Sink for EventLines<'_> {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
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
            // A path may have the text's length, so a chunk's lines could fill the memory.
            self.failed = self
                .writer
                .borrow_mut()
                .write_all(self.lines.as_bytes())
                .err();
            self.lines.clear();
        }
    }
}

impl Watcher for EventLines<'_> {
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    path_cut: bool,
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

impl EventLines<'_> {
    fn json(&mut self, event: Event, live: &ParserView<'_>) {
        let span = event.span();
        let text = span.of(live.text);
        let kind = match event {
            Event::Begin { kind, .. } | Event::End { kind, .. } => Some(kind),
            _ => None,
        };
        let value = match event {
            Event::Key(_) => Some(live.key(span)),
            Event::Fragment(_) => Some(live.decoded(span)),
            Event::StringEnd(_) => Some(string::decode(
                text.get(1..text.len().saturating_sub(1))
                    .unwrap_or_default(),
            )),
            _ => None,
        };
        let path = live.path().to_string();
        let is_cut = path.len() > PATH;
        let line = Line {
            event: event.name(),
            path: if is_cut {
                short(&path).into_owned()
            } else {
                path
            },
            path_cut: is_cut,
            start: self.base + span.start,
            end: self.base + span.end,
            kind: kind.map(Kind::as_str),
            text: (kind.is_none() && !matches!(event, Event::StringBegin(_))).then_some(text),
            value: value.as_deref(),
            root: self.root,
            file: self.file,
        };
        // A line of strings and numbers can always be serialized.
        self.lines
            .push_str(&serde_json::to_string(&line).unwrap_or_default());
        self.lines.push('\n');
    }

    fn words(&mut self, event: Event, live: &ParserView<'_>) {
        let span = event.span();
        let text = span.of(live.text);
        let quote = if matches!(event, Event::Key(_) | Event::Fragment(_)) {
            "\""
        } else {
            ""
        };
        let (piece, dots) = match text.char_indices().nth(SHOWN) {
            Some((end, _)) => (text.get(..end).unwrap_or_default(), "…"),
            None => (text, ""),
        };
        let indent = 2 * live.frames.len().min(DEEP);
        let path = if live.path().is_empty() {
            "(root)".to_owned()
        } else {
            live.path().to_string()
        };
        let span = Span {
            start: self.base + span.start,
            end: self.base + span.end,
        }
        .to_string();
        let (name, path) = (event.name(), short(&path));
        // Paths are aligned unless their depth leaves no room.
        let width = NAMES.saturating_sub(indent).max(NAME);
        let start = self.lines.len();
        // Writing to a string does not fail.
        let _ = write!(
            self.lines,
            "{span:<17} {:indent$}{name:<width$} {path}  {quote}{piece}{dots}{quote}",
            ""
        );
        escape_controls(&mut self.lines, start);
        self.lines.push('\n');
    }
}

/// More bytes of lines than these are written before the end of their chunk.
const LINES: usize = 1 << 20;

/// Bytes of the longest path that is written whole. Deep in a document, paths would be most of the
/// output.
const PATH: usize = 512;

/// Characters that are shown of a text.
const SHOWN: usize = 48;

/// Widths in characters: the column with indent and name, and the longest name.
const NAMES: usize = 20;
const NAME: usize = 12;

/// The indent does not grow beyond this depth, or it would push the rest off the screen.
const DEEP: usize = 24;
