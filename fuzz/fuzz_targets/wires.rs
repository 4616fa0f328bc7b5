// What the targets of the wires take from the tests.

#[path = "../../tests/it/wires/continued.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use more of it")]
mod continued;
#[path = "../../tests/it/wires/recorded.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use more of it")]
mod recorded;
