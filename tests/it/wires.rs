//! The wires other than Chat Completions, one module each.

#[cfg(feature = "cli")]
mod index;
mod messages;
mod recorded;
mod responses;
