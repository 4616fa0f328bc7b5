//! `restitch decode`: reads the text and the tool calls out of a recorded response body.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use super::output::To;
use super::parsed::Parsed;
use super::{Console, Exit, epilogue};
use crate::json::walk::{Raw, ValueKind, is_valid};
use crate::provider::Kind;
use crate::provider::chat::Reader;
use crate::provider::transcript::Transcript;
use crate::sse::{DecodeError, Decoder};
use crate::{Limits, SyntaxError, clean_encoding};

/// Arguments of `restitch decode`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct Args {
    /// The response body: an event stream or one JSON object. `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The API that the body is of.
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

With --json: {"dialect", "text": {slot: text}, "tool_args": {slot: {"id", "name", "args"}}, "finish": {choice: reason},
"usage", "error", "terminal"}. A slot is "CHOICE" for text and "CHOICE.TOOL" for a tool call.

Exit codes: 0 complete; 3 cut: an answer has no finish reason, or `length` or `content_filter`; 4 the body reports an
error, is malformed or is of another API; 1 unreadable."#;

/// The API of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dialect {
    /// Found by reading the body.
    Auto,
    /// Chat Completions.
    Chat,
}

/// The contents of a body.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Decoded {
    /// `chat`.
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
    /// `[DONE]`, if the body has that end.
    pub terminal: Option<String>,
}

/// One tool call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The first id that came.
    pub id: Option<String>,
    /// The first name that came.
    pub name: Option<String>,
    /// The text of the arguments.
    pub args: String,
}

impl Decoded {
    fn new(whole: Transcript) -> Self {
        let call = |(slot, call): (_, crate::provider::transcript::ToolCall)| {
            (slot, Call { id: call.id, name: call.name, args: call.args })
        };
        let usage = |raw: String| serde_json::from_str(&raw).unwrap_or(Value::String(raw));
        Self {
            dialect: "chat",
            text: whole.text,
            tool_args: whole.tool_args.into_iter().map(call).collect(),
            finish: whole.finish,
            usage: whole.usage.map(usage),
            error: whole.error,
            terminal: whole.terminal,
        }
    }

    /// Returns the verdict on the body. Only its finish reason says whether an answer is over: `[DONE]` may follow a
    /// cut, and some servers leave it out.
    pub fn exit(&self) -> Exit {
        if self.error.is_some() {
            return Exit::Invalid;
        }
        let calls = self.tool_args.keys().filter_map(|slot| slot.split('.').next());
        let mut answers = self.text.keys().map(String::as_str).chain(calls);
        let is_over = answers.all(|choice| self.finish.contains_key(choice)) && !self.finish.is_empty();
        let is_cut = self.finish.values().any(|reason| matches!(reason.as_str(), "length" | "content_filter"));
        if is_over && !is_cut { Exit::Complete } else { Exit::Cut }
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
                f.write_str("nothing in the body is of chat completions, the only API that is read here")
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

/// Decodes a body: an event stream, or, if its first significant byte is `{`, one JSON object or one per line. Of an
/// object that is cut, the certain part counts.
///
/// # Errors
/// Those of `input`, and a body that can't be decoded.
pub fn decode(mut input: impl Read, dialect: Dialect) -> Result<Decoded, Error> {
    let limits = Limits::default();
    let mut answer = Answer { is_chat: (dialect == Dialect::Chat).then_some(true), ..Answer::default() };
    let mut decoder = Decoder::new(&limits);
    // `None`: nothing significant was read. A JSON body is kept until its end.
    let mut is_json = None;
    let mut body = Vec::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::Io(error)),
        };
        let mut chunk = buffer.get(..count).unwrap_or_default();
        is_json = is_json.or_else(|| {
            let first = chunk.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf));
            first.map(|&byte| byte == b'{')
        });
        if is_json == Some(true) {
            body.extend_from_slice(chunk);
            continue;
        }
        while let Some(event) = decoder.next_event(&mut chunk).map_err(Error::Stream)? {
            answer.read(&event.event, &event.data);
        }
    }
    if is_json == Some(true) {
        answer.read_json(&clean_encoding(&body).0)?;
    } else if let Some(event) = decoder.finish().map_err(Error::Stream)? {
        answer.read(&event.event, &event.data);
    }
    // An empty body is cut, whatever its API is.
    if answer.is_chat.unwrap_or(answer.has_spoken) || is_json.is_none() {
        answer.reader.finish();
        Ok(Decoded::new(answer.whole))
    } else {
        Err(Error::UnknownDialect)
    }
}

const BUFFER: usize = 64 << 10;

/// An answer while its events are read.
#[derive(Debug, Default)]
struct Answer {
    reader: Reader,
    whole: Transcript,
    /// Decided by the first event that only Chat Completions have. Until then an event of another API denies it.
    is_chat: Option<bool>,
    /// An end, a usage or an error was read, which several APIs have.
    has_spoken: bool,
}

impl Answer {
    fn read(&mut self, event_type: &str, data: &str) {
        let whole = &mut self.whole;
        let kind = self.reader.read(event_type, data, |delta| whole.push(&delta));
        self.has_spoken |= kind != Kind::Other;
        if self.is_chat != Some(true) {
            self.is_chat = says_chat(data).or(self.is_chat);
        }
    }

    /// Reads a body that is not in the event-stream format.
    fn read_json(&mut self, text: &str) -> Result<(), Error> {
        let text = text.trim_start_matches('\u{feff}');
        let first = text.trim_start().lines().next().unwrap_or_default();
        if is_valid(text) {
            self.read("message", text);
        } else if is_valid(first) {
            for line in text.lines() {
                self.read("message", line);
            }
        } else {
            let parsed = Parsed::<()>::new(text);
            if let Some(error) = parsed.deviation {
                return Err(Error::Json(error));
            }
            self.read("message", &parsed.document.complete().unwrap_or_default());
        }
        Ok(())
    }
}

/// Returns `true` for an event that only Chat Completions have, `false` for one of another API, else `None`.
pub(super) fn says_chat(data: &str) -> Option<bool> {
    let root = Raw::root(data).filter(|root| root.kind() == ValueKind::Object && is_valid(data))?;
    let object = root.member("object").and_then(|object| object.decode()).unwrap_or_default();
    if object.starts_with("chat.completion") {
        return Some(true);
    }
    match root.member("choices") {
        // Text completions have a `text` in each choice. Any server may open or end with an empty list.
        Some(choices) => {
            choices.elements().next().map(|choice| choice.member("delta").or(choice.member("message")).is_some())
        }
        // Errors and usage look alike in several APIs, except for the `type` that others give every event.
        None if root.member("type").is_some() => Some(false),
        None if root.member("error").is_some() || root.member("usage").is_some() => None,
        None => Some(false),
    }
}

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    console.write_to(args.to.output.as_deref());
    let file = args.file.display();
    let Some(input) = console.open(&args.file, false) else { return Ok(()) };
    let decoded = match decode(input, args.dialect) {
        Ok(decoded) => decoded,
        Err(Error::Io(error)) => {
            console.unreadable::<()>(&args.file, &error);
            return Ok(());
        }
        Err(error) => {
            console.note(format_args!("{file}: {error}"));
            console.verdict(Exit::Invalid);
            return Ok(());
        }
    };
    console.verdict(decoded.exit());
    if args.json {
        return console.answer(&decoded);
    }
    if let Some(error) = &decoded.error {
        console.note(format_args!("{file}: the server reports an error: {error}"));
    } else if decoded.exit() == Exit::Cut {
        let reasons: Vec<_> = decoded.finish.values().map(String::as_str).collect();
        let reason = if reasons.is_empty() { "no finish reason".to_owned() } else { reasons.join(", ") };
        console.note(format_args!("{file}: the answer is cut: {reason}"));
    }
    let others = decoded.text.keys().filter(|slot| *slot != "0").count() + decoded.tool_args.len();
    if others > 0 {
        let what =
            if others == 1 { "1 other text or tool call" } else { &format!("{others} other texts or tool calls") };
        console.note(format_args!("{file}: --json shows {what}"));
    }
    console.text(decoded.text.get("0").map(String::as_str).unwrap_or_default())
}
