//! JSON as bytes: the strict grammar, what is open at every byte, and how an open text is closed.
//!
//! Nothing here keeps text: a [`Machine`] sees each byte once and tells a [`Sink`] what it sees, by [`Span`]s; whoever
//! keeps the text (a [`Document`](crate::Document)) lends it where a path or a suffix is to be printed.

mod close;
pub mod edit;
mod event;
mod grammar;
mod machine;
mod scan;
mod stack;
pub mod string;
pub mod walk;

pub use close::{CloseOptions, Completion, Partial};
pub use event::{Each, Event, Live, Scalar, Sink, Span, each};
pub use machine::{CutState, Machine};
pub use stack::{Frame, Kind, Path, PathSegment};
