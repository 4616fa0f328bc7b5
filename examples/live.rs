//! Reads JSON while it is received: `cargo run --example live --features live`.
//!
//! `Reader` takes any `Read`; a `Stream` of text deltas has the same adapters.

use restitch::live::{LiveExt, Reader};

const ANSWER: &[u8] =
    br#"{"title": "Moons", "moons": [{"name": "Ganymede", "km": 5268}, {"name": "Titan", "km": 51"#;

fn main() {
    // Every event: a container, a key, a fragment of a string, a number.
    for event in Reader::new(ANSWER).events().map_while(Result::ok) {
        show(&event.to_string());
    }
    // Values that are complete.
    let mut names = Reader::new(ANSWER).completed::<String>("/moons/*/name");
    for name in names.by_ref().map_while(Result::ok) {
        show(&name);
    }
    // The adapter reports that the answer is cut.
    show(&names.outcome().map(ToString::to_string).unwrap_or_default());
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn show(line: &str) {
    println!("{line}");
}
