//! `restitch demo --full`: shows the document as it streams, with a mark at each seam, and a table
//! of the seams.

use std::fmt::Write as _;
use std::io;
use std::sync::PoisonError;

use super::{DemoStage, ask};
use crate::{Console, Exit};
use restitch::internal::record::{AnswerRecord, SeamRecord};

/// Six cuts with different behaviours, among them a lost connection, a refusal and a busy server.
const SCRIPT: &str = "answer@420!length | anchor@610!drop refusal fence@480!length preamble@390!stop 503~0 \
                      exact@350!eof anchor@200!error epilogue";

pub(super) async fn show(args: &super::DemoArgs, console: &mut Console) -> io::Result<()> {
    let delay = args
        .delay
        .unwrap_or(if console.is_terminal() { 12 } else { 0 });
    let document = document();
    let stage = DemoStage::new(&document, args.script_or(SCRIPT)?, delay).await?;
    let mark = if console.has_colors() {
        "\u{1b}[1;31m✂\u{1b}[0m"
    } else {
        "✂"
    };
    console.line(format_args!(
        "model server {}, proxy {}",
        stage.sim.url(),
        stage.proxy.url()
    ))?;
    console.show(&format!(
        "one request, {} bytes of JSON to come; {mark} marks a seam\n\n",
        document.len()
    ))?;

    let text = stream(&stage, mark, console).await?;
    table(&stage.record(), console)?;
    let calls = stage.sim.calls().len();
    stage.end().await;
    console.show("\n")?;
    if text == document {
        return console.line(format_args!(
            "identical: {} bytes from {calls} calls, one valid JSON document",
            text.len()
        ));
    }
    console.verdict(Exit::Invalid);
    let at = text
        .bytes()
        .zip(document.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let (arrived, sent) = (text.len(), document.len());
    console.line(format_args!(
        "different: {arrived} bytes arrived of {sent}, and byte {at} is another"
    ))
}

/// Asks the proxy as any client would, and shows the text as it arrives.
async fn stream(stage: &DemoStage, mark: &str, console: &mut Console) -> io::Result<String> {
    let mut text = String::new();
    let mut seams = 0;
    ask(&stage.proxy.url(), |new| {
        let offsets = seam_offsets(&stage.record.lock().unwrap_or_else(PoisonError::into_inner));
        let mut shown = 0;
        while let Some(offset) = offsets
            .get(seams)
            .filter(|&&offset| offset < text.len() + new.len())
        {
            let until = offset.saturating_sub(text.len());
            console.show(new.get(shown..until).unwrap_or_default())?;
            console.show(mark)?;
            shown = until;
            seams += 1;
        }
        text.push_str(new);
        console.show(new.get(shown..).unwrap_or_default())
    })
    .await?;
    console.show("\n\n")?;
    Ok(text)
}

pub(super) fn seam_offsets(record: &AnswerRecord) -> Vec<usize> {
    let seams = record.calls.iter().filter_map(|call| call.seam.as_ref());
    seams.map(|seam| seam.seam.offset).collect()
}

/// Writes a row for each seam.
fn table(record: &AnswerRecord, console: &mut Console) -> io::Result<()> {
    let mut rows = vec![
        [
            "cut at",
            "byte",
            "continued by",
            "overlap",
            "pending",
            "to the seam",
            "before it",
        ]
        .map(str::to_owned),
    ];
    let mut failed: Vec<String> = Vec::new();
    for call in &record.calls {
        if let Some(SeamRecord { seam, elapsed }) = &call.seam {
            rows.push([
                seam.path.clone(),
                seam.offset.to_string(),
                seam.alignment.as_str().to_owned(),
                format!("{} B", seam.overlap),
                format!("{} B", seam.pending),
                format!("{:.1} ms", elapsed.as_secs_f64() * 1e3),
                std::mem::take(&mut failed).join("; "),
            ]);
        }
        let failure = call.failure.iter().filter(|failure| failure.counts);
        failed.extend(failure.map(|failure| failure.reason.to_string()));
    }
    let widths: Vec<usize> = (0..7)
        .map(|n| {
            rows.iter()
                .map(|row| row[n].chars().count())
                .max()
                .unwrap_or_default()
        })
        .collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a string does not fail.
            let _ = write!(line, "{cell:<width$}  ");
        }
        console.line(line.trim_end())?;
    }
    Ok(())
}

/// Returns a report with several kinds of sections, in the layout of models.
fn document() -> String {
    let rows: Vec<_> = (1..=12)
        .map(|n| {
            serde_json::json!([
                format!("Q{}", (n - 1) % 4 + 1),
                2020 + n,
                n * 1250,
                (n * 37) % 10 > 4
            ])
        })
        .collect();
    let document = serde_json::json!({
        "title": "Annual report – \"whole\" at last",
        "language": "en",
        "sections": [
            {"type": "heading", "level": 1, "content": "Summary"},
            {"type": "paragraph", "content": "The year began with half a document and ended with a whole one. Every \
                answer that was cut was asked for again, and nothing that had been delivered was taken back."},
            {"type": "bullet_list", "items": ["Fewer retries", "No glued text", "Ценность для читателя", "読者の価値 🎉"]},
            {"type": "table", "id": "revenue", "header": ["quarter", "year", "revenue", "audited"], "rows": rows},
            {"type": "code_block", "language": "rust", "content": "fn main() {\n\tprintln!(\"{}\", r\"C:\\whole\");\n}"},
            {"type": "quote", "content": "“A stream is only as good as its end.”", "author": null},
            {"type": "metrics", "values": {"p50": 0.18, "p99": -1.25e-3, "samples": 1_048_576, "ok": true}},
            {"type": "paragraph", "content": "What follows is left to the reader: measure, compare, and cut it again \
                wherever you like. The last brace is where it has always been."}
        ],
        "signed": {"by": "The Board", "on": "2026-01-31"}
    });
    serde_json::to_string_pretty(&document).unwrap_or_default()
}
