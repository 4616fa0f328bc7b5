//! The engine's benchmarks.
fn main() {}
