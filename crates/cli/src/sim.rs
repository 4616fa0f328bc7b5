//! `restitch sim`: runs the scripted model server.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::parsed::Parsed;
use super::{Console, Exit, Failure, block_on, epilogue, interrupted, one_of};
use restitch_proxy::config::LogFormat;
use restitch_sim::style::ContinuationStyle;
use restitch_sim::{ProviderProfile, Script, Sim};

/// Arguments of `restitch sim`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(&after_help()))]
pub struct SimArgs {
    /// The address to listen on. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8788")]
    listen: SocketAddr,
    /// The document that answers every prompt. `-` is standard input; a small document is built in.
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// How to answer the calls: `FIRST… | THEN…`.
    #[arg(long, default_value_t = Script::default())]
    script: Script,
    /// Characters of text in one event.
    #[arg(long, value_name = "N", default_value = "12", value_parser = clap::value_parser!(u32).range(1..))]
    chunk: u32,
    /// Milliseconds between two events.
    #[arg(long, value_name = "MS", default_value = "0")]
    delay: u32,
    /// The model's name.
    #[arg(long, value_name = "NAME", default_value = "sim")]
    model: String,
    /// The provider to imitate: whether it continues a prefill, and which requests it refuses.
    #[arg(long, value_name = "NAME", default_value = "openai", value_parser = one_of(ProviderProfile::ALL, ProviderProfile::name))]
    profile: ProviderProfile,
}

const EXAMPLES: &str = r#"Examples:
  restitch sim
  restitch sim --script 'answer@200!length | refusal anchor@300!drop exact'
  restitch sim --listen 127.0.0.1:0 --document big.json --chunk 4 --delay 20
  curl -N http://127.0.0.1:8788/v1/chat/completions \
    -d '{"model": "sim", "stream": true, "messages": [{"role": "user", "content": "Go"}]}'
  restitch sim --script 'reasoning+text+tool@40 | anchor'

The path chooses the API: /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages,
/v1beta/models/sim:streamGenerateContent, /v1beta/models/sim:generateContent, /api/chat, /api/generate, /v2/chat.

A script is `FIRST… | THEN…`. A step is `[LEAD+…]BEHAVIOUR[@BYTES][!END]`: what comes first, what to say, how many bytes
of the document, and how to end.

Leads: reasoning; before `tool` also text and call, in this order.

Behaviours: answer, tool (the document is the arguments of a call of a tool that the request declares), prose, anchor,
exact, repeat, fence, fence-open, preamble, preamble-fence, epilogue, garbage, progress, reasoning, refusal, empty, drop, no-response, and HTTP errors, for example 429, 500, 429~2 (with
`Retry-After: 2`).

Ends: stop, length, filter, tool, drop, drop=BYTES, eof, done, error, malformed, stall.

A prompt may bring its own script: `[[script: answer@40 | exact]]`.

A continuation may also be named by its style; BYTES are those of the fragment then. A style that does not apply at the
cut is answered as `anchor`. Styles: STYLES.

The server runs until Ctrl-C or SIGTERM, and ends with 0."#;

/// Returns the examples with the names of all styles.
fn after_help() -> String {
    let names: Vec<&str> = ContinuationStyle::ALL
        .iter()
        .map(|style| style.name())
        .collect();
    EXAMPLES.replace("STYLES", &names.join(", "))
}

/// The built-in document: several kinds of values, long enough to be cut a few times.
const DOCUMENT: &str = r#"{
  "title": "Notes on tides",
  "language": "en",
  "sections": [
    {"id": 1, "heading": "What moves the sea", "text": "The moon draws the water nearest to it, and a second bulge rises on the far side. \"Spring\" tides have nothing to do with the season."},
    {"id": 2, "heading": "Where they are highest", "text": "In the Bay of Fundy the range exceeds 16 m; in the Mediterranean it is often below 0.5 m.", "metres": [16.3, 0.4]}
  ],
  "table": [["port", "range"], ["Burntcoat Head", 16.3], ["Saint-Malo", 12.2], ["Naples", 0.4]],
  "checked": true,
  "source": null
}
"#;

pub(super) fn run(args: &SimArgs, console: &mut Console) -> Result<(), Failure> {
    let document = match &args.document {
        None => DOCUMENT.to_owned(),
        Some(path) => document(path, console)?,
    };
    console.notes.start_log(None, LogFormat::default());
    let sim = Sim::new(document, args.script.clone())
        .chunk(usize::try_from(args.chunk).unwrap_or(usize::MAX))
        .delay(Duration::from_millis(args.delay.into()))
        .model(&args.model)
        .profile(args.profile);
    let served: io::Result<()> = block_on(async {
        // A signal may arrive as soon as the address is shown.
        let interrupted = interrupted()?;
        let server = sim.bind(args.listen).await?;
        console.notes.note(format_args!(
            "listening on {}/v1/chat/completions",
            server.url()
        ));
        server.serve_until(interrupted).await;
        Ok(())
    });
    served.map_err(|error| Failure::io(format!("{}: {error}", args.listen)))
}

/// Reads the document. Fails if no model could write it: it is empty, cut, malformed or not UTF-8.
/// Prose is a document, too.
fn document(path: &Path, console: &mut Console) -> Result<String, Failure> {
    let read = console.read_text(path)?;
    let parsed = Parsed::new(&read);
    let failed = |exit, words| Failure::Failed(exit, format!("{}: {words}", path.display()));
    if read.left_out() > 0 {
        return Err(Failure::Reported);
    }
    if read.text.trim().is_empty() {
        return Err(failed(Exit::Invalid, "the document is empty".to_owned()));
    }
    if parsed.exit() == Exit::Cut {
        let offset = parsed.document.cut().offset;
        let words = format!("the document is cut at byte {offset}: give a complete one");
        return Err(failed(Exit::Cut, words));
    }
    if let Some(error) = parsed.deviation {
        let name = path.display().to_string();
        console.notes.deviation(&name, &parsed.document, &error);
        console.verdict(Exit::Invalid);
        return Err(Failure::Reported);
    }
    Ok(read.text)
}
