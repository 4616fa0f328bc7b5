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
// Layer 6
#[cfg(feature = "client")]
pub mod client;
// Layer 7
#[cfg(feature = "sim")]
pub mod sim;

pub use document::Document;
pub use error::SyntaxError;
pub use limits::Limits;
