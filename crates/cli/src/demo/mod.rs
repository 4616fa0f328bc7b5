//! `restitch demo`: cuts, continues and joins a model's answer, over real sockets.

mod full;
mod short;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;

use super::{Console, Exit, block_on, epilogue};
use restitch::Limits;
use restitch::internal::chat;
use restitch::internal::record::AnswerRecord;
use restitch::provider::Delta;
use restitch::sse::Decoder;
use restitch_http::{Body, Client, Upstream};
use restitch_proxy as proxy;
use restitch_proxy::config::Config;
use restitch_sim as sim;
use restitch_sim::{Script, Sim};

/// Arguments of `restitch demo`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct DemoArgs {
    /// Show a longer document as it streams, and a table of its seams.
    #[arg(long)]
    full: bool,
    /// Milliseconds between two deltas. Default: 12 with --full on a terminal, else 0.
    #[arg(long, value_name = "MS")]
    delay: Option<u64>,
    /// The script of the model: first answers `|` continuations. See `restitch sim --help`.
    #[arg(long)]
    script: Option<Script>,
}

const EXAMPLES: &str = "\
Examples:
  restitch demo
  restitch demo --full
  restitch demo --full --script 'answer@500!drop | empty preamble@900!stop fence'

The demo needs no key, no network and no file: its model server and its proxy listen on free loopback ports.

Exit codes: 0 the document that arrives is the one that was sent, 4 it is not, 1 a socket failed.";

impl DemoArgs {
    fn script_or(&self, script: &str) -> io::Result<Script> {
        self.script
            .clone()
            .map_or_else(|| script.parse().map_err(io::Error::other), Ok)
    }
}

pub(super) fn run(args: &DemoArgs, console: &mut Console) -> io::Result<()> {
    let shown = block_on(async {
        if args.full {
            full::show(args, console).await
        } else {
            short::show(args, console).await
        }
    });
    match shown {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            console.fail(Exit::Io, format_args!("the demo failed: {error}"));
            Ok(())
        }
        shown => shown,
    }
}

/// A model server, a proxy in front, and the proxy's record of the answer.
struct DemoStage {
    sim: sim::Server,
    proxy: proxy::Server,
    record: Arc<Mutex<AnswerRecord>>,
}

impl DemoStage {
    async fn new(document: &str, script: Script, delay: u64) -> io::Result<Self> {
        let loopback = ([127, 0, 0, 1], 0).into();
        let sim = Sim::new(document, script)
            .chunk(14)
            .delay(Duration::from_millis(delay))
            .bind(loopback)
            .await?;
        let record: Arc<Mutex<AnswerRecord>> = Arc::default();
        let seen = Arc::clone(&record);
        let observer = move |record: &AnswerRecord| {
            seen.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone_from(record);
        };
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

    fn record(&self) -> AnswerRecord {
        self.record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn end(self) {
        self.proxy.shutdown().await;
        self.sim.shutdown().await;
    }
}

/// Asks a server for the document as any client would, and passes on the text of each event. A
/// broken connection ends the text, too.
async fn ask(url: &str, mut on_text: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    let client =
        Client::new(Upstream::parse(url).map_err(io::Error::other)?).map_err(io::Error::other)?;
    let request = serde_json::json!({
        "model": "sim", "stream": true, "messages": [{"role": "user", "content": "Write the report as JSON."}],
    });
    let uri = client
        .upstream()
        .uri_for("/v1/chat/completions")
        .map_err(io::Error::other)?;
    let request = http::Request::post(uri)
        .header("content-type", "application/json")
        .body(Body::full(request.to_string()))
        .map_err(io::Error::other)?;
    let mut body = client
        .send(request)
        .await
        .map_err(io::Error::other)?
        .into_body();
    let mut decoder = Decoder::new(&Limits::default());
    let mut reader = chat::ChatReader::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let mut input: &[u8] = &data;
        while let Some(event) = decoder.next_event(&mut input).map_err(io::Error::other)? {
            let mut new = String::new();
            reader.read(&event.event, &event.data, |delta| {
                if let Delta::Text { text, .. } = delta {
                    new.push_str(text);
                }
            });
            on_text(&new)?;
        }
    }
    Ok(())
}
