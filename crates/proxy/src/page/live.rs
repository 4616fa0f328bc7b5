//! The event stream that the page follows: growing text, seams, the open containers at its end, and
//! the steps of the loop.

use std::sync::Arc;

use serde_json::{Value, json};

use super::document;
use super::follow::{BATCH, Events, Next, ViewSource};
use crate::answers::{Added, Cursor, ListedAnswer};
use restitch::Document;
use restitch::internal::json::Frame;
use restitch::internal::json::string;
use restitch::json::Kind;

/// Follows an answer for the page.
pub(super) struct ParserView {
    answer: Arc<ListedAnswer>,
    cursor: Cursor,
    /// The JSON of each slot.
    documents: Vec<Document>,
    /// The number of changes to the facts when they were last sent.
    told: Option<u64>,
}

impl ParserView {
    pub(super) fn new(answer: Arc<ListedAnswer>) -> Self {
        Self {
            answer,
            cursor: Cursor::default(),
            documents: Vec::new(),
            told: None,
        }
    }
}

impl ViewSource for ParserView {
    fn news(&mut self, out: &mut Events) -> Next {
        // Reads the end before the text, so that no text can arrive unseen between the two.
        let has_ended = self.answer.has_ended();
        let news = self.answer.news(&mut self.cursor, BATCH);
        if news.restarts {
            self.documents.clear();
            out.push("restart", &json!({}));
        }
        let mut grown = None;
        for added in &news.added {
            match added {
                Added::Slot { slot, name } => {
                    self.documents.push(document());
                    out.push("slot", &json!({"slot": slot, "name": name}));
                }
                Added::Text { slot, from, text } => {
                    if let Some(document) = self.documents.get_mut(*slot) {
                        // After invalid JSON, the document keeps the part before it.
                        let _ = document.push(text);
                        grown = Some(*slot);
                    }
                    out.push("text", &json!({"slot": slot, "from": from, "text": text}));
                }
                Added::Seam { slot, call, offset } => {
                    out.push(
                        "seam",
                        &json!({"slot": slot, "call": call, "offset": offset}),
                    );
                }
            }
        }
        if let Some((slot, document)) =
            grown.and_then(|slot| Some((slot, self.documents.get(slot)?)))
        {
            out.push("place", &place(slot, document));
        }
        if let Some(limit) = news.missing {
            out.push("missing", &json!({"limit": limit}));
        }
        // Reads the count before the report: a later change is sent next time.
        let changes = Some(self.answer.changes());
        if std::mem::replace(&mut self.told, changes) != changes {
            out.push("facts", &self.answer.report());
        }
        match (news.is_empty(), has_ended) {
            (false, _) => Next::More,
            (true, false) => Next::Wait,
            (true, true) => {
                out.push("end", &json!({}));
                Next::End
            }
        }
    }
}

/// Returns the end of a document: its path, and the containers that are open there, the root first.
fn place(slot: usize, document: &Document) -> Value {
    let frames = document.machine().frames();
    let (first, last) = if frames.len() > 2 * MOST_SHOWN {
        (
            frames.get(..MOST_SHOWN).unwrap_or_default(),
            frames.get(frames.len() - MOST_SHOWN..).unwrap_or_default(),
        )
    } else {
        (frames, Default::default())
    };
    let shown: Vec<_> = first
        .iter()
        .chain(last)
        .map(|frame| container(frame, document.text()))
        .collect();
    json!({
        "slot": slot, "json": document.is_json(), "complete": document.is_complete(), "state": document.cut_state().as_str(),
        "depth": frames.len(), "unlisted": frames.len() - shown.len(), "open": shown,
    })
}

fn container(frame: &Frame, text: &str) -> Value {
    let key = (frame.kind == Kind::Object && !frame.key.is_empty()).then(|| {
        let key = string::key(frame.key.of(text));
        key.chars().take(LONGEST_KEY).collect::<String>()
    });
    json!({"kind": frame.kind.as_str(), "count": frame.count, "key": key})
}

/// The most open containers that are shown of each end of a longer list.
const MOST_SHOWN: usize = 12;
/// The most characters that are shown of a key.
const LONGEST_KEY: usize = 80;
