//! The push decoder of a JSON array whose elements are events.
//!
//! Knows brackets and strings, and the position of each element in the stream. It has the interface
//! of [`Decoder`](super::Decoder). It does not check the grammar, and does not interpret elements.

use std::borrow::Cow;
use std::mem;

use super::decoder::{DecodeError, DecodeErrorKind, Event};
use crate::Limits;

/// A decoder for an array that is pushed in chunks of any size.
///
/// Drain every chunk: call `next_event` until it returns `None`. Then, once, at
/// the end of the stream, call `finish`. However the stream is split, the events,
/// their ranges and the errors are the same.
///
/// An event is an object or an array inside the outermost array. Anything else there belongs to the
/// next event's range.
#[derive(Clone, Debug)]
pub struct ArrayDecoder {
    event_limit: usize,
    /// The open element. After an event it is that event's element, until the next call.
    carry: Vec<u8>,
    /// `carry` is the element of an event that was returned.
    is_spent: bool,
    /// How many brackets are open: 1 between elements.
    depth: usize,
    in_string: bool,
    /// The last byte was a backslash that escapes the next one.
    is_escaped: bool,
    /// The number of bytes consumed.
    offset: u64,
    /// Where the range of the next event starts: the end of the last element, or 0.
    start: u64,
    failed: Option<DecodeError>,
}

impl ArrayDecoder {
    /// Creates a decoder at the start of a stream, with the cap `max_event_bytes` of
    /// [`ParserLimits`](crate::ParserLimits).
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            event_limit: limits.parser.max_event_bytes,
            carry: Vec::new(),
            is_spent: false,
            depth: 0,
            in_string: false,
            is_escaped: false,
            offset: 0,
            start: 0,
            failed: None,
        }
    }

    /// Decodes up to the end of the next element, and removes the consumed bytes from the front of
    /// `input`. Returns `None` when `input` is used up.
    ///
    /// # Errors
    ///
    /// Fails if an element is over its cap. The decoder stays failed: from then on it takes nothing
    /// and returns the same error.
    pub(crate) fn next_event<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, DecodeError> {
        self.begin()?;
        while let Some((&byte, rest)) = input.split_first() {
            let was_inside = self.depth > 1;
            self.step(byte);
            let is_inside = self.depth > 1;
            if was_inside || is_inside {
                if self.carry.len() >= self.event_limit {
                    let kind = DecodeErrorKind::EventTooLong(self.event_limit);
                    return Err(*self.failed.insert(DecodeError {
                        kind,
                        offset: self.offset,
                    }));
                }
                self.carry.push(byte);
            }
            self.offset += 1;
            *input = rest;
            if was_inside && !is_inside {
                return Ok(Some(self.event(true)));
            }
        }
        Ok(None)
    }

    /// Ends the stream: an open element is an event with `terminated: false`.
    ///
    /// # Errors
    ///
    /// Fails if the decoder has failed before.
    pub(crate) fn finish(&mut self) -> Result<Option<Event<'_>>, DecodeError> {
        self.begin()?;
        Ok(if self.carry.is_empty() {
            None
        } else {
            Some(self.event(false))
        })
    }

    /// Returns the offset up to which bytes can be forwarded: the end of the last element.
    pub(crate) fn boundary(&self) -> u64 {
        self.start
    }

    /// Starts a call: returns a failure again, and drops the element of the event before.
    fn begin(&mut self) -> Result<(), DecodeError> {
        if mem::take(&mut self.is_spent) {
            self.carry.clear();
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    fn event(&mut self, terminated: bool) -> Event<'_> {
        self.is_spent = true;
        let range = mem::replace(&mut self.start, self.offset)..self.offset;
        let data = String::from_utf8_lossy(&self.carry);
        Event {
            event: Cow::Borrowed("message"),
            data,
            id: Cow::Borrowed(""),
            range,
            terminated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ArrayDecoder, DecodeError, DecodeErrorKind};
    use crate::Limits;

    type Seen = (
        Vec<(String, std::ops::Range<u64>, bool)>,
        Option<DecodeError>,
    );

    fn decode(limits: &Limits, pieces: &[&[u8]]) -> Seen {
        let (mut decoder, mut seen) = (ArrayDecoder::new(limits), Vec::new());
        for piece in pieces {
            let mut piece = *piece;
            loop {
                match decoder.next_event(&mut piece) {
                    Ok(Some(event)) => {
                        seen.push((event.data.into_owned(), event.range, event.terminated));
                    }
                    Ok(None) => break,
                    Err(error) => return (seen, Some(error)),
                }
            }
        }
        if let Some(event) = decoder.finish().unwrap() {
            seen.push((event.data.into_owned(), event.range, event.terminated));
        }
        assert_eq!(decoder.finish(), Ok(None));
        (seen, None)
    }

    fn check(limits: &Limits, input: &[u8]) -> Seen {
        let whole = decode(limits, &[input]);
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let pieces = [&input[..first], &input[first..second], &input[second..]];
                assert_eq!(decode(limits, &pieces), whole, "{pieces:?}");
            }
        }
        whole
    }

    #[test]
    fn an_element_is_an_event() {
        let (events, error) = check(
            &Limits::default(),
            b"[{\"a\":\"}\\\"]\"}\n,\r\n{\"b\":[1]}, 7, \"{\",{\"c",
        );
        let expected = [
            ("{\"a\":\"}\\\"]\"}", 0..13, true),
            ("{\"b\":[1]}", 13..26, true),
            ("{\"c", 26..38, false),
        ];
        assert_eq!(
            events,
            expected.map(|(data, range, terminated)| (data.to_owned(), range, terminated))
        );
        assert_eq!(error, None);
        for nothing in [&b""[..], b"[", b"[]", b" [ 1, \"[{\" ] ", b"]]]"] {
            assert_eq!(check(&Limits::default(), nothing), (Vec::new(), None));
        }
    }

    #[test]
    fn long_elements_fail_at_the_same_byte() {
        let mut limits = Limits::default();
        limits.parser.max_event_bytes = 4;
        let (events, error) = check(&limits, b"[{  },{   }]");
        assert_eq!(events.len(), 1);
        assert_eq!(
            error,
            Some(DecodeError {
                kind: DecodeErrorKind::EventTooLong(4),
                offset: 10
            })
        );
    }
}
