//! An answer's growing JSON as JSON Patch ([RFC 6902](https://www.rfc-editor.org/rfc/rfc6902)) with
//! one more operation, `append`, which adds text at the end of a string. The cost of a change
//! depends on the added text, not on the size of the document.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::document;
use super::follow::{Events, Next, ViewSource};
use crate::answers::{self, Cursor, ListedAnswer};
use restitch::Document;
use restitch::json::{Event, Kind, ParserView, Sink};

/// A source that follows the JSON of one slot.
pub(super) struct Patches {
    answer: Arc<ListedAnswer>,
    slot: usize,
    cursor: Cursor,
    document: Document,
}

impl Patches {
    pub(super) fn new(answer: Arc<ListedAnswer>, slot: usize) -> Self {
        Self {
            answer,
            slot,
            cursor: Cursor::default(),
            document: document(),
        }
    }
}

impl ViewSource for Patches {
    fn news(&mut self, out: &mut Events) -> Next {
        let has_ended = self.answer.has_ended();
        let news = self.answer.news(&mut self.cursor, BATCH);
        if news.restarts {
            // The next root replaces the document.
            self.document = document();
        }
        let mut patch = Patch::default();
        for added in &news.added {
            if let answers::Added::Text { slot, text, .. } = added
                && *slot == self.slot
            {
                // After invalid JSON, the document keeps the part before it, and yields no more
                // operations.
                let _ = self.document.push_with(text, &mut patch);
            }
        }
        if !patch.operations.is_empty() {
            out.push("patch", &patch.operations);
        }
        let end = |missing: Option<&str>| json!({"complete": self.document.is_complete(), "missing": missing});
        match (news.is_empty(), has_ended) {
            _ if patch.is_too_deep => {
                out.push("end", &end(Some("path")));
                Next::End
            }
            (false, _) => Next::More,
            (true, false) => Next::Wait,
            (true, true) => {
                out.push("end", &end(self.cursor.missing()));
                Next::End
            }
        }
    }
}

/// The operations of a push.
#[derive(Debug, Default)]
struct Patch {
    operations: Vec<PatchOperation>,
    /// A path was longer than [`LONGEST_PATH`], so no more operations follow.
    is_too_deep: bool,
}

#[derive(Debug, Serialize)]
struct PatchOperation {
    op: &'static str,
    path: String,
    value: AddedItems,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum AddedItems {
    /// An empty container or a scalar. A number keeps its spelling, since a double can't hold every
    /// number.
    Json(Box<RawValue>),
    Text(String),
}

impl Patch {
    fn path(&mut self, live: &ParserView<'_>) -> Option<String> {
        if self.is_too_deep {
            return None;
        }
        let mut path = Bounded(String::new());
        self.is_too_deep |= write!(path, "{}", live.path()).is_err();
        (!self.is_too_deep).then_some(path.0)
    }

    fn add(&mut self, live: &ParserView<'_>, value: AddedItems) {
        if let Some(path) = self.path(live) {
            self.operations.push(PatchOperation {
                op: "add",
                path,
                value,
            });
        }
    }

    fn add_json(&mut self, live: &ParserView<'_>, written: &str) {
        match RawValue::from_string(written.to_owned()) {
            Ok(value) => self.add(live, AddedItems::Json(value)),
            Err(_) => debug_assert!(false, "the machine lets JSON pass alone: {written}"),
        }
    }

    fn append(&mut self, live: &ParserView<'_>, text: &str) {
        let Some(path) = self.path(live) else { return };
        // Joins fragments of one string in the same push to one operation.
        match self.operations.last_mut() {
            Some(PatchOperation {
                path: last,
                value: AddedItems::Text(value),
                ..
            }) if *last == path => value.push_str(text),
            _ => self.operations.push(PatchOperation {
                op: "append",
                path,
                value: AddedItems::Text(text.to_owned()),
            }),
        }
    }
}

impl Sink for Patch {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        match event {
            Event::Begin {
                kind: Kind::Object, ..
            } => self.add_json(live, "{}"),
            Event::Begin {
                kind: Kind::Array, ..
            } => self.add_json(live, "[]"),
            Event::StringBegin(_) => self.add(live, AddedItems::Text(String::new())),
            Event::Fragment(span) => self.append(live, &live.decoded(span)),
            Event::Scalar { span, .. } => self.add_json(live, span.of(live.text)),
            Event::End { .. } | Event::Key(_) | Event::StringEnd(_) => {}
        }
    }
}

/// A text of at most [`LONGEST_PATH`] bytes.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len().saturating_add(text.len()) > LONGEST_PATH {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// The most bytes of text that become operations in one push. Each operation repeats its path,
/// which may be much longer than its value.
const BATCH: usize = 4 << 10;
/// The most bytes of a path. A document may have many small values below long keys, and each
/// operation would repeat these keys.
const LONGEST_PATH: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns the operations of each push.
    fn patches(pushes: &[&str]) -> Vec<Value> {
        let mut document = document();
        let operations = |text: &&str| {
            let mut patch = Patch::default();
            document.push_with(text, &mut patch).unwrap();
            serde_json::from_str(&serde_json::to_string(&patch.operations).unwrap()).unwrap()
        };
        pushes.iter().map(operations).collect()
    }

    #[test]
    fn each_push_costs_what_it_adds() {
        let pushes = [
            "{\"a/b\": [1, ",
            "2.50",
            ", true], \"t\": \"x",
            "\\u00",
            "e9",
            "\"}",
        ];
        let expected = [
            json!([
                {"op": "add", "path": "", "value": {}},
                {"op": "add", "path": "/a~1b", "value": []},
                {"op": "add", "path": "/a~1b/0", "value": 1},
            ]),
            json!([]),
            json!([
                {"op": "add", "path": "/a~1b/1", "value": 2.5},
                {"op": "add", "path": "/a~1b/2", "value": true},
                {"op": "add", "path": "/t", "value": "x"},
            ]),
            json!([]),
            json!([{"op": "append", "path": "/t", "value": "é"}]),
            json!([]),
        ];
        assert_eq!(patches(&pushes), expected);
    }

    #[test]
    fn numbers_are_as_they_were_written() {
        let mut patch = Patch::default();
        document()
            .push_with("[123456789012345678901234567890, 1e400, -0.10]", &mut patch)
            .unwrap();
        let written = serde_json::to_string(&patch.operations).unwrap();
        for number in ["123456789012345678901234567890", "1e400", "-0.10"] {
            assert!(
                written.contains(&format!("\"value\":{number}}}")),
                "{written}"
            );
        }
    }

    #[test]
    fn a_long_path_ends_the_patches() {
        let mut patch = Patch::default();
        let text = format!(
            "{{\"{}\": {{\"b\": 1, \"c\": 2}}}}",
            "a".repeat(LONGEST_PATH - 1)
        );
        document().push_with(&text, &mut patch).unwrap();
        assert!(patch.is_too_deep);
        // The root, and the object at the longest path.
        assert_eq!(patch.operations.len(), 2);
    }
}
