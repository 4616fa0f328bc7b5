//! Passes the body, which is a test of the crate, to the fuzzer.
#![no_main]

include!("wires.rs");

#[path = "../../tests/it/fuzz/relay_ops.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
