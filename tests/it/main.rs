//! The integration tests: one binary, a module a subject.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

mod document;
mod fuzz;
mod json;
mod layers;
mod overlap;
mod session;
mod splice;
mod sse;
mod support;
