//! `restitch paths`: writes the values at some paths as soon as they are complete.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::console::{place, short};
use super::output::To;
use super::parsed::{NO_JSON, half_mistake};
use super::source::{Refusal, Source, slot};
use super::{Console, Exit, Failure, epilogue, one_of};
use restitch::internal::json::string::{decode, quoted};
use restitch::json::{Event, ParserView, Sink};
use restitch::paths::{Match, Paths, Phase};
use restitch::provider::{Dialect, SlotId};
use restitch::{AllowedRoots, Document, Limits, SyntaxError, SyntaxErrorKind, Trailing};

/// Arguments of `restitch paths`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = USAGE, after_help = epilogue(EXAMPLES))]
pub struct PathsArgs {
    /// JSON Pointers in which `*` is any key or index; "" is the root. The last argument is the
    /// file if it does not begin with `/`, or if a file of this name exists. The file is JSON text
    /// or a recorded answer of an API. Default: standard input, as with `-`.
    #[arg(value_name = "PATTERN", required = true)]
    patterns: Vec<String>,
    /// The file, whatever its name is. All other arguments are patterns then.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Also report the beginning of a value, and strings as they grow.
    #[arg(long)]
    grow: bool,
    /// Write only the values, one per line.
    #[arg(long, conflicts_with = "grow")]
    raw: bool,
    /// Stop after N values.
    #[arg(long, value_name = "N")]
    first: Option<NonZeroUsize>,
    /// The API of an answer. Default: found by the events of an event stream; other bytes are the
    /// text itself.
    #[arg(long, value_name = "NAME", value_parser = one_of(&Dialect::ALL, Dialect::as_str))]
    dialect: Option<Dialect>,
    /// Which text of an answer: CHOICE, or CHOICE.TOOL for the arguments of a tool call.
    #[arg(long, default_value = "0", value_parser = slot)]
    slot: SlotId,
    #[command(flatten)]
    to: To,
}

const USAGE: &str = "restitch paths [OPTIONS] PATTERN... [FILE]";

const EXAMPLES: &str = r#"Examples:
  restitch paths '/items/*' answer.json
  curl -sN https://example.org/stream | restitch paths '/items/*'
  restitch paths --raw '/items/*/name' < answer.json | jq -r .
  restitch paths /title '/sections/*/heading' -f answers/today.json
  restitch paths --grow /summary answer.sse

A value is written as soon as it is complete, wherever it is: {"pattern", "path", "value"}. `value` is the text of the
value to the byte, without line feeds and the white space around them. After the first root there is a "root", counted
from 0.

With --grow, each line begins with a "phase": `begin` (the value begins; there is no "value" yet), `grow` (of a string:
"more" is the text since the last line), `complete`.

In scripts, use -f if the last pattern may be the name of a file: with -f, all other arguments are patterns.

Text around the JSON, for example a Markdown fence, is left out. Of a malformed text, the values before the error are
written, then the error is reported.

Exit codes: 0 complete, or --first was reached; 3 cut; 4 malformed, not UTF-8, or the server reports an error;
1 unreadable. It is not an error if nothing matches."#;

pub(super) fn run(args: &PathsArgs, console: &mut Console) -> Result<(), Failure> {
    let mut patterns: Vec<&str> = args.patterns.iter().map(String::as_str).collect();
    let is_alone = patterns.len() == 1;
    let exists = |last: &str| !is_alone && Path::new(last).is_file();
    let is_file = |last: &mut &str| {
        args.file.is_none() && !last.is_empty() && (!last.starts_with('/') || exists(last))
    };
    let named = args
        .file
        .as_deref()
        .or_else(|| patterns.pop_if(is_file).map(Path::new));
    let file = named.unwrap_or("-".as_ref());
    let paths = if args.grow {
        Paths::new(&patterns)
    } else {
        Paths::completions(&patterns)
    };
    let paths = paths.map_err(Failure::usage)?;
    if patterns.is_empty() {
        let words = format!("no pattern: `{}` is the file", file.display());
        return Err(Failure::usage(words));
    }
    console.write_to(args.to.output.as_deref());
    let mut watch = Watch {
        found: FoundValue {
            paths,
            patterns: &patterns,
            args,
            left: args.first.map(NonZeroUsize::get),
            line: String::new(),
        },
        source: Source::new(args.dialect, Some(args.slot), &Limits::default()),
        document: None,
        new: String::new(),
        console,
    };
    watch.read(file)
}

struct FoundValue<'a> {
    paths: Paths,
    patterns: &'a [&'a str],
    args: &'a PathsArgs,
    /// How many more values to write, if there is a limit.
    left: Option<usize>,
    line: String,
}

impl Sink for FoundValue<'_> {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        self.paths.event(event, live);
    }

    fn is_idle(&self) -> bool {
        self.paths.is_idle()
    }
}

impl FoundValue<'_> {
    /// Writes the matches up to now. Breaks after the last one that is wanted.
    fn write(
        &mut self,
        document: &Document,
        console: &mut Console,
    ) -> Result<ControlFlow<()>, Failure> {
        while let Some(found) = self.paths.poll_match() {
            self.line.clear();
            if self.args.raw {
                one_line_into(&mut self.line, found.text(document.text()));
            } else {
                let pattern = self.patterns.get(found.pattern).copied();
                let pattern = pattern.unwrap_or_default();
                let (phases, text) = (self.args.grow, document.text());
                describe(&mut self.line, &found, pattern, phases, text);
            }
            self.line.push('\n');
            console.lines(&self.line)?;
            if found.phase == Phase::Complete
                && let Some(left) = &mut self.left
            {
                *left -= 1;
                if *left == 0 {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The most bytes per read: enough to make system calls cheap.
const BUFFER: usize = 64 << 10;

/// The text read up to now, and the values in it.
struct Watch<'a> {
    found: FoundValue<'a>,
    source: Source,
    /// `None` before the first text. The type of the bytes, which decides about text after a root,
    /// is known with that text.
    document: Option<Document>,
    /// The text of the newest bytes.
    new: String,
    console: &'a mut Console,
}

/// Why the text is not read any further.
enum LiveEnd {
    /// The whole text was read.
    Whole,
    /// No more matches are wanted.
    Enough,
    /// The text has left the grammar.
    Deviation(SyntaxError),
    Refusal(Refusal),
}

impl Watch<'_> {
    /// Reads a file, or standard input for `-`, and writes each match after the read that brought
    /// it. Reports at the end how the text ended.
    fn read(&mut self, file: &Path) -> Result<(), Failure> {
        let mut input = self.console.open(file, true).ok_or(Failure::Reported)?;
        let mut buffer = vec![0; BUFFER];
        let end = loop {
            let read = match input.read(&mut buffer) {
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.console.unreadable::<()>(file, &error);
                    return Err(Failure::Reported);
                }
            };
            let end = self.take(read)?;
            self.console.flush()?;
            if let Some(end) = end {
                break end;
            }
        };
        self.conclude(end, &file.display().to_string());
        Ok(())
    }

    /// Takes the next bytes; no bytes are the end. Returns the reason if no others are read.
    fn take(&mut self, bytes: &[u8]) -> Result<Option<LiveEnd>, Failure> {
        self.new.clear();
        let is_last = bytes.is_empty();
        let fed = if is_last {
            self.source.finish(&mut self.new)
        } else {
            self.source.feed(bytes, &mut self.new)
        };
        let end = self.push()?;
        let end = end.or_else(|| fed.err().map(|refusal| self.refused(refusal)));
        if end.is_some() || !is_last {
            return Ok(end);
        }
        if let Some(document) = &mut self.document {
            // Fails if the root is open, which the document knows itself. Only a number needs this
            // call to end.
            let _ = document.finish_with(&mut self.found);
            if self.found.write(document, self.console)?.is_break() {
                return Ok(Some(LiveEnd::Enough));
            }
        }
        Ok(Some(LiveEnd::Whole))
    }

    /// Pushes the new text root by root, and drops the text of roots that were written.
    fn push(&mut self) -> Result<Option<LiveEnd>, Failure> {
        if self.new.is_empty() {
            return Ok(None);
        }
        let trailing = if self.source.is_answer() {
            Trailing::Stop
        } else {
            Trailing::Next
        };
        let depth = Limits::default().parser.max_depth;
        let document = self
            .document
            .get_or_insert_with(|| Document::with_options(depth, AllowedRoots::Any, trailing));
        let mut rest = self.new.as_str();
        while !rest.is_empty() {
            let pushed = document.push_root_with(rest, &mut self.found);
            if self.found.write(document, self.console)?.is_break() {
                return Ok(Some(LiveEnd::Enough));
            }
            match pushed {
                Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
                Err(error) => return Ok(Some(LiveEnd::Deviation(error))),
            }
            // The report of an error shows the text before the error, so some text is kept.
            if document.text().len() > KEPT {
                document.forget_roots();
            }
        }
        Ok(None)
    }

    /// Returns how the text ended, for a source that gives no more.
    fn refused(&self, refusal: Refusal) -> LiveEnd {
        let Refusal::Encoding(bytes) = &refusal else {
            return LiveEnd::Refusal(refusal);
        };
        match &self.document {
            Some(document) if document.is_complete() => LiveEnd::Deviation(SyntaxError {
                kind: SyntaxErrorKind::InvalidUtf8(bytes.first().copied().unwrap_or_default()),
                offset: document.text().len(),
            }),
            Some(document) => {
                half_mistake(document, bytes).map_or(LiveEnd::Whole, LiveEnd::Deviation)
            }
            None => LiveEnd::Refusal(refusal),
        }
    }

    /// Reports how the text ended, and adds the verdict.
    fn conclude(&mut self, end: LiveEnd, name: &str) {
        let empty = Document::new(0);
        let document = self.document.as_ref().unwrap_or(&empty);
        let (exit, words) = match end {
            LiveEnd::Enough => return,
            LiveEnd::Whole if document.is_complete() => return,
            LiveEnd::Deviation(error) => {
                self.console.notes.deviation(name, document, &error);
                self.console.verdict(Exit::Invalid);
                return;
            }
            LiveEnd::Refusal(refusal) => (Exit::Invalid, refusal.to_string()),
            LiveEnd::Whole if document.is_prose() => (Exit::Invalid, NO_JSON.to_owned()),
            LiveEnd::Whole if self.document.is_none() && self.source.is_answer() => (
                Exit::Cut,
                "the stream has no text in this slot: see --slot".to_owned(),
            ),
            LiveEnd::Whole => {
                let (cut, base) = (document.cut(), document.base());
                let words = format!(
                    "cut at byte {}, in `{}`, at {}",
                    base + cut.offset,
                    cut.state.as_str(),
                    short(place(&cut.path))
                );
                (Exit::Cut, words)
            }
        };
        self.console.notes.note(format_args!("{name}: {words}"));
        self.console.verdict(exit);
    }
}

/// Up to this many bytes of text are kept even if nothing needs them.
const KEPT: usize = 256 << 10;

/// Writes a match as JSON. It does not use serde, since the value is written byte for byte.
fn describe(line: &mut String, found: &Match<'_>, pattern: &str, phases: bool, text: &str) {
    line.push('{');
    // Writing to a string does not fail.
    if phases {
        let _ = write!(line, "\"phase\":\"{}\",", found.phase.as_str());
    }
    let _ = write!(
        line,
        "\"pattern\":{},\"path\":{}",
        quoted(pattern),
        quoted(found.path)
    );
    match found.phase {
        Phase::Begin => {}
        Phase::Grow => {
            let _ = write!(line, ",\"more\":{}", quoted(&decode(found.text(text))));
        }
        Phase::Complete => {
            line.push_str(",\"value\":");
            one_line_into(line, found.text(text));
        }
    }
    if found.root > 0 {
        let _ = write!(line, ",\"root\":{}", found.root);
    }
    line.push('}');
}

/// Appends a value without its line ends and the white space around them. Strings have none: theirs
/// are escaped.
fn one_line_into(line: &mut String, value: &str) {
    for part in value.split(['\n', '\r']) {
        line.push_str(part.trim_matches([' ', '\t']));
    }
}
