//! `restitch check`: validates JSON strictly, and tells a text that is cut from one that is wrong.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use super::console::{count, one_line, short};
use super::encoding::EncodedText;
use super::jsonl::LineRequest;
use super::texts::{TextCommand, Texts};
use super::{Console, Exit, Failure, epilogue};
use restitch::internal::json::Machine;
use restitch::{Limits, SourceLocation, SyntaxError, SyntaxErrorKind};

/// Arguments of `restitch check`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct CheckArgs {
    #[command(flatten)]
    texts: Texts,
}

const EXAMPLES: &str = r#"Examples:
  restitch check answer.json
  curl -s https://example.org/data.json | restitch check
  restitch check --json *.json
  echo '{"id": 1, "text": "[1, 2"}' | restitch check --jsonl

The grammar is RFC 8259, to the letter, with at most 1,024 open containers. `valid` says that there is no error so far:
a text that is cut is valid, and not complete.

With --json: {"valid", "complete", "offset", "line", "column", "path"}, and "error" where there is one. `offset`, `line`,
`column` (in characters) and `path` (a JSON Pointer) are those of the error, else of the end. With several files each
answer names its `file`.

Exit codes: 0 complete, 3 cut, 4 invalid, 1 unreadable. Of several files the worst counts, in this order."#;

pub(super) fn run(args: &CheckArgs, console: &mut Console) -> Result<(), Failure> {
    args.texts.run(args, console)
}

impl TextCommand for CheckArgs {
    type Report<'t> = Checked;

    const IS_STRICT: bool = true;

    fn read(&self, text: &EncodedText, _: Option<&LineRequest<'_>>) -> Result<Checked, String> {
        Ok(check(text.bytes()))
    }

    fn exit(&self, report: &Checked) -> Exit {
        match report {
            Checked { error: Some(_), .. } => Exit::Invalid,
            Checked { complete: true, .. } => Exit::Complete,
            _ => Exit::Cut,
        }
    }

    fn output(&self, name: &str, report: &Checked) -> Cow<'static, str> {
        Cow::Owned(one_line(&format!("{name}: {report}")) + "\n")
    }
}

/// The result of checking a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// There is no error so far.
    pub valid: bool,
    /// The root is closed, and only white space follows it.
    pub complete: bool,
    /// The offset in bytes of the error, or of the end.
    pub offset: usize,
    /// The line there. Counts from 1.
    pub line: usize,
    /// The column in that line, in characters. Counts from 1.
    pub column: usize,
    /// The JSON Pointer of the value that is due or open there, else of the innermost open
    /// container.
    pub path: String,
    /// Why the grammar does not allow the next byte. An early end is not an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<SyntaxErrorKind>,
}

impl fmt::Display for Checked {
    /// Writes one line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            Some(_) => f.write_str("invalid at ")?,
            None if self.complete => return write!(f, "complete, {}", count(self.offset, "byte")),
            None => f.write_str("valid, but cut at ")?,
        }
        let (line, column, offset) = (self.line, self.column, self.offset);
        write!(f, "line {line}, column {column} (byte {offset})")?;
        if !self.path.is_empty() {
            write!(f, ", at {}", short(&self.path))?;
        }
        self.error.map_or(Ok(()), |error| write!(f, ": {error}"))
    }
}

/// Checks a text.
///
/// ```
/// use restitch_cli::check::check;
///
/// let checked = check(b"[1, 2");
/// assert_eq!((checked.error, checked.complete, checked.offset), (None, false, 5));
/// ```
pub fn check(bytes: &[u8]) -> Checked {
    let mut machine = Machine::new(Limits::default().parser.max_depth);
    let error = match machine.feed(bytes) {
        Ok(root) => text_after(bytes, root),
        Err(error) => Some(error),
    };
    // An early end is not an error here: `complete` reports it.
    let _ = machine.finish();
    let offset = error.map_or(bytes.len(), |error| error.offset);
    let before = String::from_utf8_lossy(bytes.get(..offset).unwrap_or_default());
    let place = SourceLocation::at(&before, before.len());
    Checked {
        valid: error.is_none(),
        complete: error.is_none() && machine.is_done(),
        offset,
        line: place.line,
        column: place.column,
        path: machine.path(&before).to_string(),
        error: error.map(|error| error.kind),
    }
}

/// Returns the error of text after the root, which only white space may follow.
fn text_after(bytes: &[u8], root: usize) -> Option<SyntaxError> {
    let mut after = bytes.iter().enumerate().skip(root);
    let (offset, &byte) = after.find(|(_, byte)| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))?;
    Some(SyntaxError {
        kind: SyntaxErrorKind::TrailingText(byte),
        offset,
    })
}
