//! Joins two halves of an answer, of which the second has a preamble and a fence:
//! `cargo run --example resume`.
//!
//! Uses no network: the halves are written here as a model would send them.

use restitch::Limits;
use restitch::splice::{Expect, Slot, Splice};

const FIRST: &str = r#"{"title": "Tides", "sections": [
  {"id": 1, "text": "The moon draws the water nearest to it."},
  {"id": 2, "text": "In the Bay of Fu"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limits = Limits::default();
    let mut slot = Slot::new(&limits);
    slot.push(FIRST)?;
    let cut = slot.document().cut();
    let mut splice = Splice::new(&slot, Expect::Anchor, &limits);
    let anchor = splice
        .anchor()
        .map(|anchor| FIRST[anchor.range.clone()].to_owned())
        .unwrap_or_default();
    show(&format!(
        "cut at byte {} in {} ({})",
        cut.offset,
        cut.path,
        cut.state.as_str()
    ));
    show(&format!(
        "what can be shown now: {}",
        slot.document().complete().unwrap_or_default()
    ));
    show(&format!("what the model is asked to repeat: {anchor}"));

    let answer = format!(
        "Sure, here is the rest:\n```json\n{anchor}ndy the range exceeds 16 m.\"}}\n]}}\n```"
    );
    for delta in answer.as_bytes().chunks(7) {
        splice.feed(&mut slot, std::str::from_utf8(delta)?)?;
    }
    let seam = splice.finish(&mut slot)?;
    show(&format!(
        "joined: {} bytes repeated, {} bytes pending",
        seam.overlap, seam.pending
    ));
    show(slot.document().root().unwrap_or_default());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn show(line: &str) {
    println!("{line}");
}
