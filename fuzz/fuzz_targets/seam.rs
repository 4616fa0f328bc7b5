//! Passes the body, which is a test of the crate, to the fuzzer.
#![no_main]

#[path = "../../tests/it/fuzz/seam.rs"]
mod body;
#[path = "../../tests/it/seam/comparing.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod comparing;
#[path = "../../tests/it/seam/missing.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod missing;
#[path = "../../tests/it/seam/reading.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod reading;

use restitch_sim::style;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
