//! restitch makes cut-off LLM output whole.
#![forbid(unsafe_code)]

// Layer 0
mod error;
mod limits;
// Layer 1
pub mod json;
pub mod overlap;
pub mod sse;
// Layer 2
mod document;
pub mod provider;
// Layer 4
pub mod splice;
// Layer 5
pub mod session;

pub use document::{Checkpoint, Cut, Document, clean_encoding};
pub use error::{SyntaxError, SyntaxErrorKind};
pub use limits::Limits;
