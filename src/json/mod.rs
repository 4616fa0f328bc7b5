//! JSON as bytes: the strict grammar, the containers and the token that are open after each byte, and how an open text
//! is closed.
//!
//! Nothing here keeps text. A [`Machine`] reads each byte once and emits [`Span`]s to a [`Sink`]; the owner of the text
//! (a [`Document`](crate::Document)) lends it where a path or a suffix is printed.

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
