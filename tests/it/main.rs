//! The integration tests: one binary, with one module a subject.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

#[cfg(feature = "cli")]
mod agree;
mod bad_input;
mod capability;
mod case_file;
mod cases;
mod chat;
mod children;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod cli_live;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "config")]
mod config;
mod context;
mod continued;
mod corpus;
mod document;
mod envelope;
mod events;
mod fuzz;
mod json;
mod layers;
#[cfg(feature = "stream")]
mod live;
mod long_pushes;
mod overlap;
#[cfg(feature = "app")]
mod packaging;
mod partitions;
mod paths;
mod promises;
mod prose;
#[cfg(all(feature = "proxy", feature = "sim"))]
mod proxy;
mod public_types;
mod questions;
mod reached;
mod reference;
mod relay;
mod repair;
mod request;
#[cfg(feature = "client")]
mod responses;
mod rewind;
#[cfg(feature = "app")]
mod run;
#[cfg(feature = "sim")]
mod seam;
mod session;
mod shape;
#[cfg(feature = "sim")]
mod sim;
mod splice;
mod sse;
mod steps;
#[cfg(feature = "stream")]
mod stream;
#[cfg(feature = "sim")]
mod style;
mod support;
mod surface;
mod text;
#[cfg(feature = "client")]
mod tls;
mod tree;
mod value;
mod wires;
mod work;
