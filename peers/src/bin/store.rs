//! The candidates for storing text, on the system's allocator.

#![forbid(unsafe_code)]

fn main() {
    restitch_peers::store::main();
}
