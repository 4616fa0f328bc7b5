//! Answers that are not streamed: one JSON body.

use super::Reader;
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{self, Raw, ValueKind};
use crate::provider::{Delta, Kind};

/// Reads a whole answer and calls `on` for each delta in it. Returns whether `body` is an answer or an error.
///
/// The body is read like the only event of a stream, with a `message` in place of a `delta`.
pub fn read_body(body: &str, on: impl FnMut(Delta<'_>)) -> bool {
    matches!(Reader::new().read("message", body, on), Kind::Chunk | Kind::Error)
}

/// Writes the first answer's body with another end: `text` is the content of its first choice (an array of parts
/// becomes a string), `reason` its finish reason; `usage` and `restitch`, both raw JSON, are members of the body.
///
/// Missing members are added at the end of their object, and every other byte is kept. Returns `None` if the body is
/// not JSON with a message in its first choice.
pub fn write_body(
    first_body: &str,
    text: &str,
    reason: &str,
    usage: Option<&str>,
    restitch: Option<&str>,
) -> Option<String> {
    let root = Raw::root(first_body).filter(|_| walk::is_valid(first_body))?;
    let choice = root.member("choices")?.elements().next()?;
    let message = choice.member("message").filter(|message| message.kind() == ValueKind::Object)?;

    let mut edits = Edits::default();
    edits.object(message, &[], &[("content", &quoted(text))]);
    edits.object(choice, &[], &[("finish_reason", &quoted(reason))]);
    let added: Vec<_> =
        [("usage", usage), ("restitch", restitch)].into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    edits.object(root, &[], &added);
    Some(edits.apply(first_body))
}
