//! The text store's candidates on the system's allocator.

#![forbid(unsafe_code)]

fn main() {
    restitch_peers::store::main();
}
