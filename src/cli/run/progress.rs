//! The line on a terminal that says how far a document has come.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::Instant;

use crate::Document;
use crate::cli::console::{escape_controls, short};

/// One line on standard error, written over and over; nothing where that is no terminal.
#[derive(Debug)]
pub(super) struct Progress {
    shown_at: Option<Instant>,
    is_terminal: bool,
    is_shown: bool,
    /// Calls so far, and the percentage that the model gave last.
    pub(super) calls: u32,
    pub(super) percentage: Option<u8>,
}

/// The line changes no more often.
const PAUSE: Duration = Duration::from_millis(100);

impl Progress {
    pub(super) fn new() -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { shown_at: None, is_terminal, is_shown: false, calls: 1, percentage: None }
    }

    /// Shows how far `document` has come, if there was time enough to read what was shown before.
    pub(super) fn show(&mut self, document: &Document) {
        let is_due = self.shown_at.is_none_or(|at| at.elapsed() >= PAUSE);
        if self.is_terminal && is_due {
            (self.shown_at, self.is_shown) = (Some(Instant::now()), true);
            // Only people see it: where it can't be written there is nobody.
            let _ = write!(io::stderr(), "\r\u{1b}[K{}", self.line(document));
        }
    }

    /// Takes the line away: what is said next stands alone.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
        self.shown_at = None;
    }

    fn line(&self, document: &Document) -> String {
        let path = document.cut().path;
        let mut line = format!("{} bytes, call {}", document.text().len(), self.calls);
        if let Some(percentage) = self.percentage {
            line.push_str(&format!(", {percentage} %"));
        }
        if !path.is_empty() {
            line.push_str(&format!(", at {}", short(&path)));
        }
        escape_controls(&mut line, 0);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_bytes_calls_percentage_and_path() {
        let mut document = Document::new(64);
        document.push("{\"a\\n\": [1, \"b").unwrap();
        let mut progress = Progress::new();
        assert_eq!(progress.line(&document), "14 bytes, call 1, at /a\\n/1");
        (progress.calls, progress.percentage) = (3, Some(40));
        assert_eq!(progress.line(&document), "14 bytes, call 3, 40 %, at /a\\n/1");
    }
}
