//! The integration tests: one binary, a module a subject.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

mod chat;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod cli_live;
#[cfg(feature = "client")]
mod client;
mod continued;
mod document;
mod fuzz;
mod json;
mod layers;
mod overlap;
#[cfg(all(feature = "proxy", feature = "sim"))]
mod proxy;
mod relay;
mod session;
#[cfg(feature = "sim")]
mod sim;
mod splice;
mod sse;
#[cfg(feature = "stream")]
mod stream;
mod support;
