//! The root as a value while it comes.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::json::{Event, Live, Sink};
use crate::{Document, SyntaxError};

/// The value of the newest root, as far as it has come.
#[derive(Clone, Debug, Default)]
pub struct LiveValue {
    text: String,
    end: usize,
    /// The last event was a number, which nothing but this says.
    ended: bool,
}

impl LiveValue {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value so far, as a `T`.
    ///
    /// # Errors
    /// It is no `T`, or not yet.
    pub fn snapshot<T: DeserializeOwned>(&self) -> Result<T, SnapshotError> {
        let mut document = Document::with_roots(128, crate::json::envelope::Roots::Any);
        let rest = if self.ended { " " } else { "" };
        let pushed: Result<(), SyntaxError> = document.push(&self.text).and_then(|()| document.push(rest));
        let whole = pushed.is_ok() && document.finish().is_ok();
        let text = document.complete().unwrap_or_default();
        serde_json::from_str(&text).map_err(|error| {
            let message = error.to_string();
            let is_early = !whole && (error.is_eof() || message.starts_with("missing field"));
            SnapshotError { is_early, message }
        })
    }
}

impl Sink for LiveValue {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        let span = event.span();
        if event.begins_value() && live.frames.is_empty() {
            self.text.clear();
            self.end = span.start;
        }
        self.text.push_str(live.text.get(self.end..span.end).unwrap_or_default());
        self.end = self.end.max(span.end);
        self.ended = matches!(event, Event::Scalar { .. });
    }
}

/// Why a value is no snapshot of a type.
#[derive(Clone, Debug)]
pub struct SnapshotError {
    is_early: bool,
    message: String,
}

impl SnapshotError {
    /// The type asks for something that has not come yet.
    pub fn is_early(&self) -> bool {
        self.is_early
    }

    /// JSON Pointer of the value that does not fit.
    pub fn path(&self) -> &str {
        ""
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SnapshotError {}
