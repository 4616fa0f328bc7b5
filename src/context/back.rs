//! A reader of valid JSON text that goes backwards from an offset between values.
//!
//! The start of a value can be found from its end without reading the text before it: brackets
//! match, and a string starts at the next quote with an even number of backslashes before it.
//! Refused text is never part of a document, so its text can be read like this from the end of any
//! value.

use memchr::memrchr;

use crate::json::{Kind, Span};

/// An offset in the text, and the limits of the reader.
#[derive(Clone, Debug)]
pub(super) struct ReverseScanner<'a> {
    bytes: &'a [u8],
    /// The offset after the byte that is read next.
    at: usize,
    /// Nothing before this offset is read.
    floor: usize,
    /// The number of bytes that may still be read.
    pub(super) reach: usize,
    /// The number of bytes that were read.
    pub(super) bytes_examined: usize,
}

impl<'a> ReverseScanner<'a> {
    /// Starts at `end` and goes down to `floor`.
    pub(super) fn new(text: &'a str, floor: usize, end: usize, reach: usize) -> Self {
        debug_assert!(
            end <= text.len() && floor <= end,
            "{floor}..{end} is within the text"
        );
        let bytes = text.as_bytes().get(..end).unwrap_or_default();
        Self {
            bytes,
            at: bytes.len(),
            floor: floor.min(bytes.len()),
            reach,
            bytes_examined: 0,
        }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Continues at `at`, without reading the bytes between.
    pub(super) fn go_to(&mut self, at: usize) {
        self.at = at.clamp(self.floor, self.at);
    }

    pub(super) fn is_at_floor(&self) -> bool {
        self.at == self.floor
    }

    /// Returns the next byte; `None` at the floor, or where the reach ends.
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes
            .get(self.at.checked_sub(1)?)
            .copied()
            .filter(|_| self.at > self.floor && self.reach > 0)
    }

    /// Skips white space. `None` if the reach ends in it.
    pub(super) fn space(&mut self) -> Option<()> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.pass(1);
        }
        (self.reach > 0 || self.is_at_floor()).then_some(())
    }

    /// Skips white space and then this byte. `None` if there is another byte.
    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        self.space()?;
        self.peek().filter(|&next| next == byte)?;
        self.pass(1);
        Some(())
    }

    /// Skips the value that ends here, and returns its span. `None` if its start is out of reach.
    pub(super) fn value(&mut self) -> Option<Span> {
        let end = self.at;
        match self.peek()? {
            b'"' => self.string()?,
            b'}' | b']' => self.container()?,
            _ => {
                let is_part =
                    |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
                while self.peek().is_some_and(is_part) {
                    self.pass(1);
                }
                if self.at == end || self.reach == 0 {
                    return None;
                }
            }
        }
        Some(Span {
            start: self.at,
            end,
        })
    }

    /// Skips the string that ends here.
    pub(super) fn string(&mut self) -> Option<()> {
        self.peek().filter(|&byte| byte == b'"')?;
        self.pass(1);
        loop {
            let lowest = self.floor.max(self.at.saturating_sub(self.reach));
            let Some(quote) = self
                .bytes
                .get(lowest..self.at)
                .and_then(|text| memrchr(b'"', text))
            else {
                self.pass(self.at - lowest);
                return None;
            };
            let quote = lowest + quote;
            let before = self.bytes.get(lowest..quote).unwrap_or_default();
            let slashes = before
                .iter()
                .rev()
                .take_while(|&&byte| byte == b'\\')
                .count();
            self.pass(self.at - (quote - slashes));
            if slashes == before.len() && slashes > 0 && lowest > self.floor {
                // More backslashes may be out of reach.
                return None;
            }
            if slashes == 0 {
                return Some(());
            }
        }
    }

    /// Skips the container that ends here. Counts brackets without matching them: the text is
    /// valid.
    fn container(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'}' | b']' => depth += 1,
                b'{' | b'[' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.pass(1);
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Steps over this many bytes.
    pub(super) fn pass(&mut self, bytes: usize) {
        self.at = self.at.saturating_sub(bytes).max(self.floor);
        self.reach = self.reach.saturating_sub(bytes);
        self.bytes_examined = self.bytes_examined.saturating_add(bytes);
    }
}

/// Returns the type of container that has this bracket.
pub(super) fn container(bracket: u8) -> Option<Kind> {
    match bracket {
        b'{' | b'}' => Some(Kind::Object),
        b'[' | b']' => Some(Kind::Array),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(text: &str, reach: usize) -> Option<&str> {
        ReverseScanner::new(text, 0, text.len(), reach)
            .value()
            .map(|span| span.of(text))
    }

    #[test]
    fn nothing_is_read_beyond_the_reach() {
        for value in ["\"abcdefgh\"", "[1,2,3,4,5]", "1234567890", r#""\\\\\\\\""#] {
            let text = format!("[{value}");
            for reach in 0..value.len() {
                let mut back = ReverseScanner::new(&text, 0, text.len(), reach);
                assert_eq!(back.value(), None, "{text} {reach}");
                assert!(back.bytes_examined <= reach);
            }
            assert_eq!(last(&text, value.len() + 1), Some(value));
        }
    }
}
