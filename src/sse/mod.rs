//! Server-sent events: decodes bytes to events and encodes events to bytes.
//!
//! [`Decoder`] reads the event streams that models answer with, in chunks of any size, and says which bytes of the
//! stream each event was, so that a healthy event can be forwarded as it came. [`Encoder`] writes our own events. Both
//! know the format of <https://html.spec.whatwg.org/multipage/server-sent-events.html> and not what the events mean:
//! `[DONE]` is data like any other, and reconnecting is up to the caller.
//!
//! Some APIs divide their streams otherwise. `lines` reads one JSON object per line, and `array` the elements of one
//! JSON array, both with the interface of [`Decoder`].

mod array;
mod decoder;
mod encoder;
pub(crate) mod framed;
mod lines;

pub(crate) use array::ArrayDecoder;
pub use decoder::{DecodeError, DecodeErrorKind, Decoder, Event};
pub use encoder::Encoder;
pub(crate) use framed::{Framed, Framing};
pub(crate) use lines::LineDecoder;
