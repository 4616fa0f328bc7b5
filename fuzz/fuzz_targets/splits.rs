//! Passes the body, which is a test of the crate, to the fuzzer.
#![no_main]

#[path = "../../tests/it/fuzz/splits.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod body;
#[path = "../../tests/it/reference.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod reference;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
