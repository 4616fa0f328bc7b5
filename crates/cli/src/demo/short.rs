//! `restitch demo`: shows a cut answer as a plain client gets it, beside the same answer through
//! restitch. At most 40 lines of 80 columns.

use std::io;

use super::full::seam_offsets;
use super::{DemoStage, ask};
use crate::console::count;
use crate::parsed::Parsed;
use crate::{Console, Exit};
use restitch::internal::record::{AnswerRecord, CutRecord};
use restitch::provider::Finish;
use restitch::session::CallEnd;

/// Four cuts, and a refusal in between.
const SCRIPT: &str =
    "answer@107!length | anchor@52!drop refusal fence@20!error preamble@44!eof anchor";

const DOCUMENT: &str = r#"{
  "report": "Tides of the world",
  "ports": [
    {"name": "Burntcoat", "m": 16.3},
    {"name": "Saint-Malo", "m": 12.2},
    {"name": "Anchorage", "m": 9.2},
    {"name": "Naples", "m": 0.4}
  ],
  "note": "The moon pulls the sea.",
  "checked": true,
  "source": null
}"#;

pub(super) async fn show(args: &super::DemoArgs, console: &mut Console) -> io::Result<()> {
    let delay = args.delay.unwrap_or(0);
    let plain = DemoStage::new(DOCUMENT, args.script_or(SCRIPT)?, delay).await?;
    let cut = text_of(&plain.sim.url()).await?;
    plain.end().await;
    let stage = DemoStage::new(DOCUMENT, args.script_or(SCRIPT)?, delay).await?;
    let whole = text_of(&stage.proxy.url()).await?;
    let record = stage.record();
    stage.end().await;

    let has_colors = console.has_colors();
    let paint = |color: &str, text: &str| match has_colors {
        true => format!("\u{1b}[{color}m{text}\u{1b}[0m"),
        false => text.to_owned(),
    };
    let mut page =
        "A model writes a report as JSON, and its answer is cut again and again.\n\n".to_owned();
    page.push_str(&row(
        &paint("1", &pad("  A plain client gets")),
        &paint("1", "Through restitch, it gets"),
    ));
    let marked = with_marks(&whole, &seam_offsets(&record));
    let (mut left, mut right) = (cut.lines(), marked.lines());
    loop {
        let (left, right) = (left.next(), right.next());
        if left.is_none() && right.is_none() {
            break;
        }
        let right = right
            .unwrap_or_default()
            .replace(MARK, &paint("1;31", MARK));
        page.push_str(&row(
            &pad(&format!("  {}", left.unwrap_or_default())),
            &right,
        ));
    }
    page.push('\n');
    let is_same = whole == DOCUMENT;
    let left = pad(&format!("  {}", verdict(&cut)));
    page.push_str(&row(&paint("31", &left), &paint("32", &verdict(&whole))));
    page.push_str(&format!("\nThe cuts ({MARK}), and how each was joined:\n"));
    cuts(&record, &mut page);
    page.push_str(if is_same { SUCCESS } else { FAILURE });
    if !is_same {
        console.verdict(Exit::Invalid);
    }
    console.show(&page)
}

const SUCCESS: &str = "
The plain program is left with half a report that nothing can read. Through
restitch the same program got all of it, and did not have to be changed.
";

const FAILURE: &str = "
What arrived is not the document that was sent: restitch says so to its client.
";

const MARK: &str = "✂";

/// Characters of the left column.
const WIDTH: usize = 40;

fn pad(text: &str) -> String {
    format!("{text:<WIDTH$}")
}

fn row(left: &str, right: &str) -> String {
    format!("{}\n", format!("{left}{right}").trim_end())
}

async fn text_of(url: &str) -> io::Result<String> {
    let mut text = String::new();
    ask(url, |new| {
        text.push_str(new);
        Ok(())
    })
    .await?;
    Ok(text)
}

/// Returns the text with a mark at each of these offsets.
fn with_marks(text: &str, offsets: &[usize]) -> String {
    let mut marked = String::new();
    let mut from = 0;
    for &at in offsets {
        marked.push_str(text.get(from..at).unwrap_or_default());
        marked.push_str(MARK);
        from = at;
    }
    marked.push_str(text.get(from..).unwrap_or_default());
    marked
}

/// Returns the size of a text, and whether it is JSON.
fn verdict(text: &str) -> String {
    let size = count(text.len(), "byte");
    match Parsed::<()>::new(text) {
        parsed if parsed.document.is_complete() => format!("{size}: valid JSON"),
        parsed if parsed.is_cut() => format!("{size}: no JSON, it ends too early"),
        _ => format!("{size}: no JSON"),
    }
}

fn place(path: &str) -> &str {
    if path.is_empty() { "the root" } else { path }
}

/// Returns the cause of a cut in plain words.
fn cause(end: &CallEnd) -> &str {
    match end {
        CallEnd::Finished(Finish::Length) => "token limit",
        CallEnd::Finished(Finish::Stop) => "stopped early",
        CallEnd::Closed => "ended early",
        CallEnd::Dropped => "connection lost",
        CallEnd::Error(_) => "server error",
        CallEnd::TimedOut(_) => "silence",
        end => end.as_str(),
    }
}

/// Appends a line for each cut.
fn cuts(record: &AnswerRecord, page: &mut String) {
    let (mut cut, mut failed) = (None::<&CutRecord>, "");
    for call in &record.calls {
        if let Some((cut, seam)) = cut.take_if(|_| call.seam.is_some()).zip(call.seam.as_ref()) {
            let CutRecord {
                end, offset, path, ..
            } = cut;
            let (path, end) = (place(path), cause(end));
            let overlap = count(seam.seam.overlap, "byte");
            page.push_str(&format!(
                "  byte {offset:<3}  {path:<14}  {end:<15}  {overlap} repeated{failed}\n"
            ));
            failed = "";
        }
        if call.failure.as_ref().is_some_and(|failure| failure.counts) {
            failed = ", after a failure";
        }
        cut = cut.or(call.cut.as_ref());
    }
}
