//! The line on a terminal that shows how much of a document has arrived.

use crate::console::{count, short};
use crate::progress::StatusLine;
use restitch::Document;

/// Shows how much of the document has arrived.
#[derive(Debug)]
pub(super) struct Progress {
    line: StatusLine,
    /// Calls up to now, and the percentage that the model gave last.
    pub(super) calls: u32,
    pub(super) percentage: Option<u8>,
}

impl Progress {
    pub(super) fn new(is_live: bool) -> Self {
        Self {
            line: StatusLine::new(is_live),
            calls: 1,
            percentage: None,
        }
    }

    /// Shows how much of `document` has arrived.
    pub(super) fn show(&mut self, document: &Document) {
        let (calls, percentage) = (self.calls, self.percentage);
        self.line.show(|| words(document, calls, percentage));
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        self.line.clear();
    }
}

fn words(document: &Document, calls: u32, percentage: Option<u8>) -> String {
    let path = document.cut().path;
    let mut words = format!("{}, call {calls}", count(document.text().len(), "byte"));
    if let Some(percentage) = percentage {
        words.push_str(&format!(", {percentage} %"));
    }
    if !path.is_empty() {
        words.push_str(&format!(", at {}", short(&path)));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_bytes_calls_percentage_and_path() {
        let mut document = Document::new(64);
        document.push("{\"a\": [1, \"b").unwrap();
        assert_eq!(words(&document, 1, None), "12 bytes, call 1, at /a/1");
        assert_eq!(
            words(&document, 3, Some(40)),
            "12 bytes, call 3, 40 %, at /a/1"
        );
    }
}
