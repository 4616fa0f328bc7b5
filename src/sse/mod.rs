//! Server-sent events: decodes bytes to events and encodes events to bytes.
//!
//! [`Decoder`] reads the event streams that models answer with, in chunks of any size, and returns the byte range of
//! each event, so that a healthy event can be forwarded unchanged. [`Encoder`] writes our own events. Both know the
//! format of <https://html.spec.whatwg.org/multipage/server-sent-events.html> and do not interpret events: `[DONE]` is
//! data like any other, and the caller reconnects if it wants to.
//!
//! Some APIs frame their streams differently. `lines` reads one JSON object per line, and `array`
//! the elements of a JSON array, both with the interface of [`Decoder`].

pub(crate) mod array;
mod decoder;
mod encoder;
pub(crate) mod framed;
pub(crate) mod lines;

pub(crate) use array::ArrayDecoder;
pub use decoder::{DecodeError, DecodeErrorKind, Decoder, Event};
pub use encoder::Encoder;
#[doc(hidden)]
pub use framed::{Framed, Framing};
pub(crate) use lines::LineDecoder;
