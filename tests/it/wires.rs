//! The wires other than Chat Completions, one module each.

mod answers;
mod continued;
#[cfg(feature = "cli")]
mod index;
mod messages;
mod recorded;
mod responses;
