//! The text store's candidates on an allocator that moves a block that grows: old and new exist side by side for a
//! while, where the system's allocator on Linux maps the same pages anew.

#![forbid(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    restitch_peers::store::main();
}
