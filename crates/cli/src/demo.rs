//! `restitch demo`: shows a cut answer as a plain client gets it, beside the same answer through
//! restitch, over real sockets. At most 40 lines of 80 columns.

use std::io;
use std::sync::Arc;

use http_body_util::BodyExt;
use parking_lot::Mutex;

use super::check::check;
use super::console::{count, place};
use super::source::Source;
use super::{Console, Exit, Failure, block_on, epilogue};
use restitch::Limits;
use restitch::internal::record::{AnswerRecord, CutRecord};
use restitch::provider::{Dialect, Finish};
use restitch::session::CallEnd;
use restitch_http::{Body, BodyError, Client, Upstream};
use restitch_proxy as proxy;
use restitch_proxy::config::Config;
use restitch_sim as sim;
use restitch_sim::{Script, Sim};

/// Arguments of `restitch demo`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct DemoArgs {
    /// The script of the model: first answers `|` continuations. See `restitch sim --help`.
    #[arg(long, default_value = SCRIPT, hide_default_value = true)]
    script: Script,
}

const EXAMPLES: &str = "\
Examples:
  restitch demo
  restitch demo --script 'answer@90!drop | empty preamble@60!stop fence'

The demo needs no key, no network and no file: its model server and its proxy listen on free loopback ports.

Exit codes: 0 the document that arrives is the one that was sent, 4 it is not, 1 a socket failed.";

pub(super) fn run(args: &DemoArgs, console: &mut Console) -> Result<(), Failure> {
    let (page, exit) = block_on(show(args, console.has_colors()))
        .map_err(|error: io::Error| Failure::io(format!("the demo failed: {error}")))?;
    console.verdict(exit);
    console.show(&page)
}

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

/// Returns the page, and whether the document that has arrived is the one that was sent.
async fn show(args: &DemoArgs, has_colors: bool) -> io::Result<(String, Exit)> {
    let plain = DemoStage::new(args.script.clone()).await?;
    let cut = text_of(&plain.sim.url()).await.map_err(io::Error::other)?;
    plain.end().await;
    let stage = DemoStage::new(args.script.clone()).await?;
    let whole = text_of(&stage.proxy.url()).await;
    let whole = whole.map_err(io::Error::other)?;
    let record = stage.end().await;

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
    let left = pad(&format!("  {}", verdict(&cut)));
    page.push_str(&row(&paint("31", &left), &paint("32", &verdict(&whole))));
    page.push_str(&format!("\nThe cuts ({MARK}), and how each was joined:\n"));
    cuts(&record, &mut page);
    let (end, exit) = match whole == DOCUMENT {
        true => (SUCCESS, Exit::Complete),
        false => (FAILURE, Exit::Invalid),
    };
    page.push_str(end);
    Ok((page, exit))
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

/// A model server, a proxy in front, and the proxy's record of the answer.
struct DemoStage {
    sim: sim::Server,
    proxy: proxy::Server,
    record: Arc<Mutex<AnswerRecord>>,
}

impl DemoStage {
    async fn new(script: Script) -> io::Result<Self> {
        let loopback = ([127, 0, 0, 1], 0).into();
        let sim = Sim::new(DOCUMENT, script).chunk(14).bind(loopback).await?;
        let record: Arc<Mutex<AnswerRecord>> = Arc::default();
        let seen = Arc::clone(&record);
        let observer = move |record: &AnswerRecord| seen.lock().clone_from(record);
        let mut config = Config::default();
        config.proxy.upstream = Some(sim.url());
        // The demo's own runtime serves the connections.
        config.proxy.threads = 0;
        let proxy = proxy::Proxy::new(config, &|_| None)
            .map_err(io::Error::other)?
            .observe(Arc::new(observer))
            .bind(loopback)
            .await?;
        Ok(Self { sim, proxy, record })
    }

    /// Stops both servers, and returns the record.
    async fn end(self) -> AnswerRecord {
        let record = self.record.lock().clone();
        self.proxy.shutdown().await;
        self.sim.shutdown().await;
        record
    }
}

/// Asks a server for the document as any client would, and returns the text. A broken connection
/// ends the text, too.
async fn text_of(url: &str) -> Result<String, BodyError> {
    let client = Client::new(Upstream::parse(url)?)?;
    let request = serde_json::json!({
        "model": "sim", "stream": true, "messages": [{"role": "user", "content": "Write the report as JSON."}],
    });
    let uri = client.upstream().uri_for("/v1/chat/completions")?;
    let request = http::Request::post(uri)
        .header("content-type", "application/json")
        .body(Body::full(request.to_string()))?;
    let mut body = client.send(request).await?.into_body();
    let mut source = Source::new(Some(Dialect::Chat), None, &Limits::default());
    let mut text = String::new();
    while let Some(Ok(frame)) = body.frame().await {
        // An error that the server reports ends the text.
        if frame
            .into_data()
            .is_ok_and(|data| source.feed(&data, &mut text).is_err())
        {
            break;
        }
    }
    Ok(text)
}

fn seam_offsets(record: &AnswerRecord) -> Vec<usize> {
    let seams = record.calls.iter().filter_map(|call| call.seam.as_ref());
    seams.map(|seam| seam.seam.offset).collect()
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
    let checked = check(text.as_bytes());
    match checked.error {
        None if checked.complete => format!("{size}: valid JSON"),
        None => format!("{size}: no JSON, it ends too early"),
        Some(_) => format!("{size}: no JSON"),
    }
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
