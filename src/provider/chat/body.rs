//! Answers that are not streamed: one JSON body.

use super::Reader;
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{self, Raw, ValueKind};
use crate::provider::{Delta, Kind};

/// Reads a whole answer and calls `on` for each delta in it; returns whether `body` is an answer or an error.
///
/// It is read as a stream's only event would be, with a `message` where that has a `delta`.
pub fn read_body(body: &str, on: impl FnMut(Delta<'_>)) -> bool {
    matches!(Reader::new().read("message", body, on), Kind::Chunk | Kind::Error)
}

/// The first answer's body with another end: `text` as the content of its first choice (content that was an array
/// becomes a string), `reason` as its finish reason, `usage` and `restitch` (raw JSON) as members of the body.
///
/// Members that are not there are added at the end of their object; every other byte stays as it is. `None` if the
/// body is no JSON with a message in its first choice.
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
