//! Passes the body, which is a test of the crate, to the fuzzer.
#![no_main]

#[path = "../../tests/it/fuzz/splice.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
