//! `restitch decode`: reads the text and the tool calls out of a recorded response body.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::deltas::slot;
use super::dialect::{AnyReader, first_significant, framed};
use super::output::To;
use super::parsed::Parsed;
use super::{Console, Exit, epilogue};
use restitch::Limits;
use restitch::internal::chat::{ToolCall, Transcript};
use restitch::internal::json::walk::is_valid;
use restitch::provider::Dialect as Known;
use restitch::provider::Finish;
use restitch::provider::SlotId;
use restitch::sse::DecodeError;
use restitch::sse::{Framed, Framing};
use restitch::{SyntaxError, clean_encoding};

pub use super::dialect::Choice as Dialect;

/// Arguments of `restitch decode`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct DecodeArgs {
    /// The response body: an event stream, JSON lines, a JSON array of events, or one JSON object.
    /// `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The API that the body is of. `auto`: found by reading the body.
    #[arg(long, value_enum, default_value_t = Dialect::Auto)]
    dialect: Dialect,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    to: To,
}

const EXAMPLES: &str = r#"Examples:
  restitch decode answer.sse > answer.json
  curl -sN http://127.0.0.1:8788/v1/chat/completions -d @request.json | restitch decode
  restitch decode --json answer.sse | jq .usage

Without --json: the text of the first answer, to the byte. A last event counts even if no blank line ends it.

The first event that only one API has tells which API the body is of.

With --json: {"dialect", "text": {slot: text}, "tool_args": {slot: {"id", "name", "args"}}, "finish": {choice: reason},
"usage", "error", "terminal"}. "dialect" is a value of --dialect. A slot is "CHOICE" for text and "CHOICE.TOOL" for a
tool call. Some APIs number the parts of their only answer instead: there it is "INDEX", or "OUTPUT.CONTENT".

Exit codes: 0 complete; 3 cut: an answer has no finish reason, or that of a token limit or of a content filter; 4 the
body reports an error, is malformed or is of another API; 1 unreadable."#;

/// The contents of a body.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Decoded {
    /// The name of the API.
    pub dialect: &'static str,
    /// The text of each answer.
    pub text: BTreeMap<String, String>,
    /// The tool calls.
    pub tool_args: BTreeMap<String, Call>,
    /// Why each answer is over.
    pub finish: BTreeMap<String, String>,
    /// The last usage. A string if it is nested deeper than a [`Value`] can be.
    pub usage: Option<Value>,
    /// The message of the last error.
    pub error: Option<String>,
    /// The event that ended the stream, for example `[DONE]`.
    pub terminal: Option<String>,
    /// Why each answer is over, in its API's words.
    #[serde(skip)]
    reasons: BTreeMap<String, Finish>,
    /// A slot begins with the number of its answer. Else there is one answer, number 0.
    #[serde(skip)]
    has_choices: bool,
}

/// One tool call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The first id in the body.
    pub id: Option<String>,
    /// The first name in the body.
    pub name: Option<String>,
    /// The text of the arguments.
    pub args: String,
}

impl Decoded {
    fn new(dialect: Known, whole: Transcript) -> Self {
        let call = |(slot, call): (_, ToolCall)| {
            (
                slot,
                Call {
                    id: call.id,
                    name: call.name,
                    args: call.args,
                },
            )
        };
        let usage = |raw: String| serde_json::from_str(&raw).unwrap_or(Value::String(raw));
        Self {
            dialect: dialect.as_str(),
            text: whole.text,
            tool_args: whole.tool_args.into_iter().map(call).collect(),
            finish: whole.finish,
            usage: whole.usage.map(usage),
            error: whole.error,
            terminal: whole.terminal,
            reasons: whole.reasons,
            has_choices: dialect.wire().choice_of(SlotId::of(1)) == 1,
        }
    }

    /// Returns the verdict on the body. Only its finish reason shows whether an answer is over:
    /// `[DONE]` may follow a cut, and some servers leave it out.
    pub fn exit(&self) -> Exit {
        if self.error.is_some() {
            return Exit::Invalid;
        }
        let mut slots = self.text.keys().chain(self.tool_args.keys());
        let is_over = slots.all(|slot| self.finish.contains_key(self.answer_of(slot)))
            && !self.finish.is_empty();
        let is_cut = self
            .reasons
            .values()
            .any(|reason| matches!(reason, Finish::Length | Finish::ContentFilter));
        if is_over && !is_cut {
            Exit::Complete
        } else {
            Exit::Cut
        }
    }

    /// Returns the number of the answer that a slot is of.
    fn answer_of<'a>(&self, slot: &'a str) -> &'a str {
        if self.has_choices {
            slot.split('.').next().unwrap_or_default()
        } else {
            "0"
        }
    }

    /// Returns the text of the first answer, in the order of its parts.
    fn first_text(&self) -> String {
        let mut slots: Vec<_> = self
            .text
            .iter()
            .filter(|(slot, _)| self.answer_of(slot) == "0")
            .collect();
        slots.sort_by_key(|(name, _)| slot(name).unwrap_or_default());
        slots.into_iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// Why a body could not be decoded.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// It could not be read.
    Io(io::Error),
    /// A line or an event of the stream is over its cap.
    Stream(DecodeError),
    /// It begins as a JSON object and is malformed.
    Json(SyntaxError),
    /// It is of no known API.
    UnknownDialect,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Stream(error) => error.fmt(f),
            Self::Json(error) => write!(f, "the body is neither an event stream nor JSON: {error}"),
            Self::UnknownDialect => {
                let names = Known::ALL.map(Known::as_str).join(", ");
                write!(
                    f,
                    "nothing in the body is of an API that is read here: {names}"
                )
            }
        }
    }
}

impl std::error::Error for Error {
    /// Returns the source of the inner error, since `Display` shows the inner error itself.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => error.source(),
            Self::Stream(error) => error.source(),
            Self::Json(error) => error.source(),
            Self::UnknownDialect => None,
        }
    }
}

/// Decodes a body: an event stream, or, if its first significant byte is `[`, an array of events,
/// or, if it is `{`, one JSON object or one per line. Of an object that is cut, the certain part
/// counts.
///
/// # Errors
/// Those of `input`, and a body that can't be decoded.
pub fn decode(mut input: impl Read, dialect: Dialect) -> Result<Decoded, Error> {
    let mut answer = DecodedAnswer {
        reader: AnyReader::new(dialect.dialect()),
        ..DecodedAnswer::default()
    };
    // `None`: only white space was read.
    let mut body = None;
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::Io(error)),
        };
        let chunk = buffer.get(..count).unwrap_or_default();
        if body.is_none() {
            body = first_significant(chunk).map(|first| match first {
                b'{' => Body::Object(Vec::new()),
                first => Body::Stream(Box::new(Stream {
                    framed: framed(None, first),
                    tail: Vec::new(),
                })),
            });
        }
        match &mut body {
            Some(Body::Object(text)) => text.extend_from_slice(chunk),
            Some(Body::Stream(stream)) => stream.feed(chunk, &mut answer)?,
            None => {}
        }
    }
    let is_empty = body.is_none();
    match body {
        Some(Body::Object(text)) => answer.read_object(&clean_encoding(&text).0)?,
        Some(Body::Stream(stream)) => stream.finish(&mut answer)?,
        None => {}
    }
    answer.finish(is_empty)
}

const BUFFER: usize = 64 << 10;

/// A body while it is read.
enum Body {
    /// JSON, which is kept until its end.
    Object(Vec<u8>),
    Stream(Box<Stream>),
}

/// A body that is a sequence of events.
struct Stream {
    framed: Framed,
    /// The text after the last event: at most [`TAIL`] bytes.
    tail: Vec<u8>,
}

impl Stream {
    fn feed(&mut self, chunk: &[u8], answer: &mut DecodedAnswer) -> Result<(), Error> {
        let (mut rest, mut spoken) = (chunk, 0);
        while let Some(event) = self.framed.next_event(&mut rest).map_err(Error::Stream)? {
            answer.read(&event.event, &event.data);
            spoken = chunk.len() - rest.len();
            self.tail.clear();
        }
        let new = chunk.get(spoken..).unwrap_or_default();
        let room = TAIL.saturating_sub(self.tail.len());
        self.tail.extend_from_slice(new.get(..room).unwrap_or(new));
        Ok(())
    }

    /// Ends the body.
    ///
    /// Some servers write their last error outside of any event: as a JSON object, or in a field
    /// named `error`.
    fn finish(mut self, answer: &mut DecodedAnswer) -> Result<(), Error> {
        if let Some(event) = self.framed.finish().map_err(Error::Stream)? {
            answer.read(&event.event, &event.data);
            return Ok(());
        }
        let tail = String::from_utf8_lossy(&self.tail);
        let tail = tail.trim();
        if tail.starts_with('{') && is_valid(tail) {
            answer.read("message", tail);
        } else if let Some(error) = tail.strip_prefix("error:") {
            answer.read("error", error.trim());
        }
        Ok(())
    }
}

/// More than any error has.
const TAIL: usize = 64 << 10;

/// An answer while its events are read.
#[derive(Debug, Default)]
struct DecodedAnswer {
    reader: AnyReader,
    whole: Transcript,
}

impl DecodedAnswer {
    fn read(&mut self, event_type: &str, data: &str) {
        let whole = &mut self.whole;
        self.reader
            .read(event_type, data, &mut |delta| whole.push(&delta));
    }

    /// Reads a body that begins with a brace.
    fn read_object(&mut self, text: &str) -> Result<(), Error> {
        let text = text.trim_start_matches('\u{feff}');
        let first = text.trim_start().lines().next().unwrap_or_default();
        let whole = &mut self.whole;
        if is_valid(text) {
            self.reader.read_body(text, &mut |delta| whole.push(&delta));
        } else if is_valid(first) {
            let mut stream = Stream {
                framed: Framed::new(Framing::Lines, &Limits::default()),
                tail: Vec::new(),
            };
            stream.feed(text.as_bytes(), self)?;
            stream.finish(self)?;
        } else {
            let parsed = Parsed::<()>::new(text);
            if let Some(error) = parsed.deviation {
                return Err(Error::Json(error));
            }
            let certain = parsed.document.complete().unwrap_or_default();
            self.reader
                .read_body(&certain, &mut |delta| whole.push(&delta));
        }
        Ok(())
    }

    /// Returns the decoded body. An empty body is cut, whatever its API is.
    fn finish(mut self, is_empty: bool) -> Result<Decoded, Error> {
        let whole = &mut self.whole;
        self.reader.finish(&mut |delta| whole.push(&delta));
        let dialect = self
            .reader
            .dialect()
            .or(is_empty.then(Known::default))
            .ok_or(Error::UnknownDialect)?;
        Ok(Decoded::new(dialect, self.whole))
    }
}

pub(super) fn run(args: &DecodeArgs, console: &mut Console) -> io::Result<()> {
    console.write_to(args.to.output.as_deref());
    let file = args.file.display();
    let Some(input) = console.open(&args.file, false) else {
        return Ok(());
    };
    let decoded = match decode(input, args.dialect) {
        Ok(decoded) => decoded,
        Err(Error::Io(error)) => {
            console.unreadable::<()>(&args.file, &error);
            return Ok(());
        }
        Err(error) => {
            console.notes.note(format_args!("{file}: {error}"));
            console.verdict(Exit::Invalid);
            return Ok(());
        }
    };
    console.verdict(decoded.exit());
    if args.json {
        return console.answer(&decoded);
    }
    if let Some(error) = &decoded.error {
        console
            .notes
            .note(format_args!("{file}: the server reports an error: {error}"));
    } else if decoded.exit() == Exit::Cut {
        let reasons: Vec<_> = decoded.finish.values().map(String::as_str).collect();
        let reason = if reasons.is_empty() {
            "no finish reason".to_owned()
        } else {
            reasons.join(", ")
        };
        console
            .notes
            .note(format_args!("{file}: the answer is cut: {reason}"));
    }
    let others = decoded
        .text
        .keys()
        .filter(|slot| decoded.answer_of(slot) != "0")
        .count()
        + decoded.tool_args.len();
    if others > 0 {
        let what = if others == 1 {
            "1 other text or tool call"
        } else {
            &format!("{others} other texts or tool calls")
        };
        console
            .notes
            .note(format_args!("{file}: --json shows {what}"));
    }
    console.text(&decoded.first_text())
}
