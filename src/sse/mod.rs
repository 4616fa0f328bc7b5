//! Server-sent events: bytes to events and back.
//!
//! [`Decoder`] reads the event streams that models answer with, in whatever pieces they arrive, and says of each event
//! which bytes of the stream it was, so that a healthy event can go on as it came. [`Encoder`] writes the events that
//! are ours. Both know the format of <https://html.spec.whatwg.org/multipage/server-sent-events.html> and nothing of
//! what the events mean: `[DONE]` is data like any other, and reconnecting is up to the caller.

mod decoder;
mod encoder;

pub use decoder::{DecodeError, DecodeErrorKind, Decoder, Event};
pub use encoder::Encoder;
