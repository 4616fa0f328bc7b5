//! The wires other than Chat Completions, one module each.

mod answers;
mod cohere;
mod completions;
mod continued;
mod gemini;
#[cfg(feature = "cli")]
mod index;
mod messages;
mod ollama;
mod recorded;
mod responses;
