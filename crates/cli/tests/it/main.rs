//! The tests of the program and of the proxy: one binary, with one module a subject.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

mod agree;
mod cli;
mod cli_live;
mod config;
mod index;
mod packaging;
mod proxy;
mod run;
mod tls;
mod wire_cases;
