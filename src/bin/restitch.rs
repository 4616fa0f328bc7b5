//! The command line: parses arguments, calls one function.
fn main() {}
