//! The tests of the model server: one binary, with one module a subject.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

mod sim;
mod style;
