//! The line on a terminal that shows how far a command is.

use std::io::{self, IsTerminal, Read, Write};
use std::time::{Duration, Instant};

use super::console::escape_controls;

/// Returns whether standard error is a terminal on which a line can be overwritten.
pub(super) fn is_live() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// One line on standard error that is overwritten again and again.
#[derive(Debug)]
pub(super) struct StatusLine {
    is_live: bool,
    shown_at: Option<Instant>,
    is_shown: bool,
}

/// The line changes at most this often.
const PAUSE: Duration = Duration::from_millis(100);

impl StatusLine {
    /// Makes a line. It is never shown unless `is_live`.
    pub(super) fn new(is_live: bool) -> Self {
        Self {
            is_live,
            shown_at: None,
            is_shown: false,
        }
    }

    /// Shows `words`, unless the line was changed a moment ago.
    pub(super) fn show(&mut self, words: impl FnOnce() -> String) {
        if !self.is_live || self.shown_at.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        (self.shown_at, self.is_shown) = (Some(now()), true);
        let mut words = words();
        escape_controls(&mut words, 0);
        // Only people read the line, so a failure does not matter.
        let _ = write!(io::stderr(), "\r\u{1b}[K{words}");
    }

    /// Removes the line, so that the next message has a line of its own.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
        self.shown_at = None;
    }
}

/// Input that shows how many bytes were read, if reading takes long.
#[derive(Debug)]
pub(super) struct Watched<R> {
    input: R,
    /// The length of a file; `None` for a pipe.
    length: Option<u64>,
    read: u64,
    started_at: Instant,
    line: StatusLine,
}

/// The line is first shown after this time.
const LONG: Duration = Duration::from_millis(700);

impl<R> Watched<R> {
    pub(super) fn new(input: R, length: Option<u64>, is_live: bool) -> Self {
        Self {
            input,
            length,
            read: 0,
            started_at: now(),
            line: StatusLine::new(is_live),
        }
    }

    fn words(&self) -> String {
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        match self.length.filter(|length| *length > 0) {
            Some(length) => {
                let percentage = self.read.saturating_mul(100) / length;
                format!(
                    "read {} of {}, {percentage} %",
                    megabytes(self.read),
                    megabytes(length)
                )
            }
            None => format!("read {}", megabytes(self.read)),
        }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.read += count as u64;
        if count == 0 {
            self.line.clear();
        } else if self.line.is_live && self.started_at.elapsed() >= LONG {
            let words = self.words();
            self.line.show(|| words);
        }
        Ok(count)
    }
}

impl<R> Drop for Watched<R> {
    fn drop(&mut self) {
        self.line.clear();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a line that people read has a clock"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_was_read() {
        let mut input = Watched::new(&b"0123456789"[..], Some(20), false);
        let mut read = Vec::new();
        input.read_to_end(&mut read).unwrap();
        assert_eq!(input.words(), "read 0.0 MB of 0.0 MB, 50 %");
        assert_eq!(Watched::new(&b""[..], None, false).words(), "read 0.0 MB");
    }
}
