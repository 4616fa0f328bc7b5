//! `restitch demo`: a model's answer is cut, continued and joined, over real sockets.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;

use super::{Console, Exit, block_on};
use crate::Limits;
use crate::client::{Body, Client, Upstream};
use crate::provider::{Delta, chat};
use crate::proxy::Proxy;
use crate::session::Event;
use crate::session::relay::Output;
use crate::sim::{Script, Sim};
use crate::sse::Decoder;

/// Arguments of `restitch demo`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Milliseconds between two deltas; 12 on a terminal, else 0.
    #[arg(long, value_name = "MS")]
    delay: Option<u64>,
    /// What the model does: first answers `|` continuations; see `restitch sim --help`.
    #[arg(long, default_value = SCRIPT)]
    script: Script,
}

const EXAMPLES: &str = "Examples:
  restitch demo
  restitch demo --delay 0
  restitch demo --script 'answer@500!drop | empty preamble@900!stop fence'

Needs no key, no network and no file: the model server and the proxy listen on free loopback ports. Ends with 0 if the
document that arrives is the one that was sent, else with 4.";

/// Six cuts with different behaviours; a lost connection, a refusal and a busy server among them.
const SCRIPT: &str = "answer@420!length | anchor@610!drop refusal fence@480!length preamble@390!stop 503~0 \
                      exact@350!eof anchor@200!error epilogue";

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    match block_on(demo(args, console)) {
        Ok(true) => {}
        Ok(false) => console.verdict(Exit::Invalid),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error),
        Err(error) => {
            console.note(format_args!("the demo failed: {error}"));
            console.verdict(Exit::Io);
        }
    }
    Ok(())
}

/// Whether the document that arrived is the one that was sent.
async fn demo(args: &Args, console: &mut Console) -> io::Result<bool> {
    let delay = args.delay.unwrap_or(if console.is_terminal() { 12 } else { 0 });
    let document = document();
    let loopback = ([127, 0, 0, 1], 0).into();
    let sim = Sim::new(document.as_str(), args.script.clone()).chunk(14).delay(Duration::from_millis(delay));
    let sim = sim.bind(loopback).await?;

    let seen: Arc<Mutex<Vec<Output>>> = Arc::default();
    let log = Arc::clone(&seen);
    let observer = move |output: &Output| log.lock().unwrap_or_else(PoisonError::into_inner).push(output.clone());
    let upstream = Upstream::parse(&sim.url()).map_err(io::Error::other)?;
    let client = Client::new(upstream).map_err(io::Error::other)?;
    let proxy = Proxy::new(client).observe(Arc::new(observer)).bind(loopback).await?;
    let mark = if console.is_terminal() { "\u{1b}[1;31m✂\u{1b}[0m" } else { "✂" };
    console.line(format_args!("model server {}, proxy {}", sim.url(), proxy.url()))?;
    console.show(&format!("one request, {} bytes of JSON to come; {mark} marks a seam\n\n", document.len()))?;

    let text = stream(&proxy.url(), &seen, mark, console).await?;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    table(&seen, console)?;
    let calls = sim.calls().len();
    proxy.shutdown().await;
    sim.shutdown().await;
    console.show("\n")?;
    if text == document {
        console.line(format_args!("identical: {} bytes from {calls} calls, one valid JSON document", text.len()))?;
        return Ok(true);
    }
    let at = text.bytes().zip(document.bytes()).take_while(|(a, b)| a == b).count();
    let (arrived, sent) = (text.len(), document.len());
    console.line(format_args!("different: {arrived} bytes arrived of {sent}, and byte {at} is another"))?;
    Ok(false)
}

/// Asks the proxy as any client would, and shows the text as it comes.
async fn stream(url: &str, seen: &Mutex<Vec<Output>>, mark: &str, console: &mut Console) -> io::Result<String> {
    let client = Client::new(Upstream::parse(url).map_err(io::Error::other)?).map_err(io::Error::other)?;
    let request = serde_json::json!({
        "model": "sim", "stream": true, "messages": [{"role": "user", "content": "Write the report as JSON."}],
    });
    let request = http::Request::post(client.upstream().uri_for("/v1/chat/completions"))
        .header("content-type", "application/json")
        .body(Body::full(request.to_string()))
        .map_err(io::Error::other)?;
    let mut body = client.send(request).await.map_err(io::Error::other)?.into_body();
    let mut decoder = Decoder::new(&Limits::default());
    let mut reader = chat::Reader::new();
    let mut text = String::new();
    let mut seams = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        let mut input: &[u8] = &data;
        while let Some(event) = decoder.next_event(&mut input).map_err(io::Error::other)? {
            let mut new = String::new();
            reader.read(&event.event, &event.data, |delta| {
                if let Delta::Text { text, .. } = delta {
                    new.push_str(text);
                }
            });
            let offsets: Vec<usize> = seam_offsets(&seen.lock().unwrap_or_else(PoisonError::into_inner));
            let mut shown = 0;
            while let Some(offset) = offsets.get(seams).filter(|&&offset| offset < text.len() + new.len()) {
                let until = offset.saturating_sub(text.len());
                console.show(new.get(shown..until).unwrap_or_default())?;
                console.show(mark)?;
                shown = until;
                seams += 1;
            }
            console.show(new.get(shown..).unwrap_or_default())?;
            text.push_str(&new);
        }
    }
    console.show("\n\n")?;
    Ok(text)
}

fn seam_offsets(seen: &[Output]) -> Vec<usize> {
    let seams = seen.iter().filter_map(|output| match output {
        Output::Event(Event::Joined { seam, .. }) => Some(seam.offset),
        _ => None,
    });
    seams.collect()
}

/// What happened at each cut.
fn table(seen: &[Output], console: &mut Console) -> io::Result<()> {
    let mut rows =
        vec![["cut at", "byte", "continued by", "overlap", "held", "to the seam", "before it"].map(str::to_owned)];
    let mut failed: Vec<String> = Vec::new();
    for output in seen {
        match output {
            Output::Event(Event::Failed { reason, .. }) => failed.push(reason.to_string()),
            Output::Event(Event::Joined { seam, elapsed, .. }) => rows.push([
                seam.path.clone(),
                seam.offset.to_string(),
                seam.alignment.as_str().to_owned(),
                format!("{} B", seam.overlap),
                format!("{} B", seam.pending),
                format!("{:.1} ms", elapsed.as_secs_f64() * 1e3),
                std::mem::take(&mut failed).join("; "),
            ]),
            _ => {}
        }
    }
    let widths: Vec<usize> =
        (0..7).map(|n| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or_default()).collect();
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

/// A report with several kinds of sections, written as models write it.
fn document() -> String {
    let rows: Vec<_> = (1..=12)
        .map(|n| serde_json::json!([format!("Q{}", (n - 1) % 4 + 1), 2020 + n, n * 1250, (n * 37) % 10 > 4]))
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
