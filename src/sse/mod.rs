//! Server-sent events: decodes bytes to events and encodes events to bytes.
//!
//! [`Decoder`] reads the event streams that models answer with, in chunks of any size, and says which bytes of the
//! stream each event was, so that a healthy event can be forwarded as it came. [`Encoder`] writes our own events. Both
//! know the format of <https://html.spec.whatwg.org/multipage/server-sent-events.html> and not what the events mean:
//! `[DONE]` is data like any other, and reconnecting is up to the caller.

mod decoder;
mod encoder;

pub use decoder::{DecodeError, DecodeErrorKind, Decoder, Event};
pub use encoder::Encoder;
