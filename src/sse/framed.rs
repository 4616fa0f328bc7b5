//! The decoders of all framings behind one interface.

use super::decoder::{DecodeError, Decoder, Event};
use super::{ArrayDecoder, LineDecoder};
use crate::{Limits, work};

/// How a stream is divided into events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`.
    #[default]
    Events,
    /// One JSON object per line: `application/x-ndjson`.
    Lines,
    /// The elements of a JSON array.
    Array,
}

impl Framing {
    /// Returns the framing of a stream with this content type. `None`: answers have other types.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let media_type = content_type.split(';').next()?.trim();
        let known = [
            ("text/event-stream", Self::Events),
            ("application/x-ndjson", Self::Lines),
            ("application/json", Self::Array),
        ];
        known
            .into_iter()
            .find(|(name, _)| media_type.eq_ignore_ascii_case(name))
            .map(|(_, framing)| framing)
    }
}

/// A decoder of events, however the stream is divided into them.
#[derive(Debug)]
pub enum Framed {
    /// Server-sent events.
    Events(Decoder),
    /// One JSON object per line.
    Lines(LineDecoder),
    /// The elements of a JSON array.
    Array(ArrayDecoder),
}

impl Framed {
    /// Creates a decoder at the start of a stream.
    pub fn new(framing: Framing, limits: &Limits) -> Self {
        match framing {
            Framing::Events => Self::Events(Decoder::new(limits)),
            Framing::Lines => Self::Lines(LineDecoder::new(limits)),
            Framing::Array => Self::Array(ArrayDecoder::new(limits)),
        }
    }

    /// Decodes the next event from the front of `input`; see [`Decoder::next_event`].
    #[inline] // It is called for each event in one place, and in others once.
    pub fn next_event<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, DecodeError> {
        let before = input.len();
        let next = match self {
            Self::Events(decoder) => decoder.next_event(input),
            Self::Lines(decoder) => decoder.next_event(input),
            Self::Array(decoder) => decoder.next_event(input),
        };
        work::bytes_framed(before - input.len());
        next
    }

    /// Ends the stream; see [`Decoder::finish`].
    pub fn finish(&mut self) -> Result<Option<Event<'_>>, DecodeError> {
        match self {
            Self::Events(decoder) => decoder.finish(),
            Self::Lines(decoder) => decoder.finish(),
            Self::Array(decoder) => decoder.finish(),
        }
    }

    /// Returns the offset up to which bytes can be forwarded; see [`Decoder::boundary`].
    pub fn boundary(&self) -> u64 {
        match self {
            Self::Events(decoder) => decoder.boundary(),
            Self::Lines(decoder) => decoder.boundary(),
            Self::Array(decoder) => decoder.boundary(),
        }
    }
}
