//! The integration tests: one binary, a module a subject.

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "sim")]
mod sim;
