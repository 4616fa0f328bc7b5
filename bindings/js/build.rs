//! Tells the linker how an addon finds Node's symbols.

fn main() {
    napi_build::setup();
}
