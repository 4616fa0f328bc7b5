//! JSON as bytes: the strict grammar, the containers and the token that are open after each byte,
//! and how an open text is closed.
//!
//! Nothing here keeps text. A [`Machine`] reads each byte once and emits [`Span`]s to a [`Sink`];
//! the owner of the text (a [`Document`](crate::Document)) lends it to print a path or a suffix.

mod close;
pub(crate) mod edit;
pub(crate) mod event;
mod grammar;
mod index;
pub(crate) mod machine;
pub mod repair;
mod scan;
pub(crate) mod stack;
pub(crate) mod string;
pub(crate) mod walk;

#[doc(hidden)]
pub use close::Completion;
pub use close::{CloseOptions, Partial};
pub use event::{Event, ParserView, Scalar, Sink, Span};
pub(crate) use grammar::GrammarState;
pub use machine::CutState;
pub(crate) use machine::Machine;
pub(crate) use stack::Frame;
#[doc(hidden)]
pub use stack::PathSegment;
pub use stack::{Kind, Path};
