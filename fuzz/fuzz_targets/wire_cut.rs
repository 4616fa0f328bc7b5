//! Passes the body, which is a test of the crate, to the fuzzer.
#![no_main]

#[path = "../../tests/it/wires/answers.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod answers;
#[path = "../../tests/it/fuzz/wire_cut.rs"]
mod body;
#[path = "../../tests/it/wires/continued.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use more of it")]
mod continued;
#[path = "../../tests/it/wires/recorded.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use more of it")]
mod recorded;
#[path = "../../tests/it/support.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod support;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
