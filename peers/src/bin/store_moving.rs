//! The candidates for storing text, on an allocator that moves a block that grows: the old and the
//! new block exist at the same time, where the system's allocator on Linux maps the same pages
//! again.

#![forbid(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    restitch_peers::store::main();
}
