//! The integration tests: one binary, with one module a subject.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

mod bad_input;
mod capability;
mod carve;
mod cases;
mod chat;
mod children;
mod context;
mod continued;
mod corpus;
mod document;
mod envelope;
mod events;
mod exchange;
mod forced;
mod fuzz;
mod guides;
mod json;
mod layers;
#[cfg(feature = "stream")]
mod live;
mod long_pushes;
mod overlap;
mod partitions;
mod paths;
mod promises;
mod prose;
mod public_types;
mod questions;
mod reached;
mod redact;
mod reference;
mod relay;
mod repair;
mod request;
mod rest_schema;
mod rewind;
mod schema;
mod seam;
mod session;
mod shape;
mod splice;
mod sse;
mod steps;
#[cfg(feature = "stream")]
mod stream;
mod text;
mod value;
mod walk;
mod wires;
mod work;
