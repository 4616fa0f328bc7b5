//! `restitch run`: asks a model for a document, and then for the rest until the document is
//! complete.

pub(super) mod ask;
pub(super) mod key;
pub(super) mod providers;
mod report;
mod target;
mod trace;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use indicatif::ProgressBar;
use parking_lot::Mutex;
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::console::{count, one_line, short};
use super::proxy::{no_proxy, variable};
use super::source::{Refusal, Source};
use super::{Console, Failure, block_on, epilogue, interrupted, one_of, settings};
use ask::ask;
use key::Key;
use report::{Seen, report};
use restitch::context::{ContextIndex, ContextOptions, Contexts};
use restitch::internal::context::complete_part;
use restitch::internal::record::AnswerRecord;
use restitch::provider::Dialect;
use restitch::session::GiveUp;
use restitch::{Document, Limits};
use restitch_proxy::Proxy;
use restitch_proxy::config::value::risk;
use restitch_proxy::config::{AccessConfig, Config, LogFormat};
use restitch_proxy::route_config::RouteConfig;
use target::Target;
use trace::Trace;

/// Arguments of `restitch run`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = help())]
pub struct RunArgs {
    /// A known provider. Decides the address, the API and the variable that has the key.
    #[arg(long, value_name = "NAME", required_unless_present = "base_url")]
    provider: Option<String>,
    /// The API to speak. Default: the provider's own; `openai-chat` with `--base-url` alone.
    #[arg(long, value_name = "NAME", value_parser = one_of(&Dialect::ALL, Dialect::as_str))]
    dialect: Option<Dialect>,
    /// The model, by the provider's name for it.
    #[arg(long, value_name = "NAME")]
    model: String,
    /// The prompt. Default: standard input, as with `-`.
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// The file that has the system message. `-` is standard input.
    #[arg(long, value_name = "FILE")]
    system_file: Option<PathBuf>,
    /// Another server: its address, up to the path of the API (see below).
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The environment variable that has the key. Default: the provider's own.
    #[arg(long, value_name = "VARIABLE")]
    key_variable: Option<String>,
    /// The most tokens of one answer. Default: the provider's limit; 8192 for `anthropic`, which
    /// demands one, and 1024 for `openai-completions`, where servers stop after 16.
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// The configuration file: limits, prompts, capabilities of models.
    #[arg(long, value_name = "FILE", env = "RESTITCH_CONFIG")]
    config: Option<PathBuf>,
    /// Calls after the first one. [default: 8]
    #[arg(long, value_name = "N")]
    max_continuations: Option<u32>,
    /// The largest probability of a wrong join that is accepted, from 0 to 1. 0 joins only what was
    /// asked for. [default: 0.001]
    #[arg(long, value_name = "RISK", value_parser = risk)]
    max_risk: Option<f64>,
    /// Ask with each continuation how much of the document is delivered, and stop if that does not
    /// rise.
    #[arg(long)]
    ask_progress: bool,
    /// Write the document to this file. By default it goes to standard output as it arrives.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
    /// Write every request, response and context to this folder, without the key.
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
}

const EXAMPLES: &str = r#"Examples:
  restitch run --provider openai --model gpt-4.1-mini 'A long list, as JSON'
  restitch run --provider openai --model gpt-4.1-mini -o report.json < prompt.txt
  restitch run --provider anthropic --model claude-sonnet-4-5 'A long list, as JSON'
  restitch run --provider openai --dialect openai-responses --model gpt-4.1-mini Go
  restitch run --provider ollama --model llama3.2 --system-file system.txt < prompt.txt
  restitch run --base-url http://127.0.0.1:8788/v1 --model any Go    # `restitch sim`
  restitch run --provider groq --model NAME --json < prompt.txt

Providers, and the dialects that each speaks, the default first:
{providers}

What follows the address of --base-url; a `/v1` that both have is there once:
{paths}

The key is read from the environment (for example OPENAI_API_KEY), never from an argument. Ollama and a server of
`--base-url` need none. On a terminal, a line on standard error shows how much of the document has arrived.

A document that is given up is closed, and elements may be missing: -o and --json write its complete part. Standard
output already has the text, so the shortest completion follows it. Bytes of the prompt that are not UTF-8 are not
sent.

With --json: {"status": "complete|closed|failed|passed", "stop", "cause", "end", "continuations", "failures", "ambiguous",
"early_end", "cut_values", "finish", "rungs", "tokens", "repairs", "percentage", "parallel", "base", "malformed",
"schema_path", "limit", "document", "completion_tokens", "sections", "removed_bytes", "iterations": [{"call", "rung", "offset", "outcome", "alignment", "overlap",
"completion_tokens"}]}.

Exit codes: 0 complete, 3 closed where it was given up, 4 no JSON document or not UTF-8, 1 the server or a file failed."#;

fn help() -> String {
    let (providers, paths) = providers::listed();
    epilogue(
        &EXAMPLES
            .replace("{providers}", &providers)
            .replace("{paths}", &paths),
    )
}

impl RunArgs {
    /// Returns whether the document is written at the end, and not as it arrives.
    fn is_written_at_the_end(&self) -> bool {
        self.output.is_some() || self.json
    }
}

pub(super) fn run(args: &RunArgs, console: &mut Console) -> Result<(), Failure> {
    let asked = PromptText::read(args, console)?;
    let config = configuration(args, console)?;
    // The log says why the first call is repeated.
    let repeats = Targets::new().with_target("restitch_proxy::first_call", LevelFilter::DEBUG);
    console.notes.start_log(Some(repeats), LogFormat::default());
    block_on(answer(args, config, &asked, console))
}

/// The prompt and the system message.
struct PromptText {
    prompt: String,
    system: Option<String>,
    /// Bytes of both files that are not UTF-8, and were removed.
    removed: usize,
}

impl PromptText {
    /// Reads the files.
    fn read(args: &RunArgs, console: &mut Console) -> Result<Self, Failure> {
        let prompt = args.prompt.as_ref().filter(|prompt| *prompt != "-");
        let stdin = prompt.is_none().then(|| PathBuf::from("-"));
        let files: Vec<PathBuf> = stdin.iter().chain(&args.system_file).cloned().collect();
        Console::check_stdin(&files)?;
        if args.prompt.is_none() && io::stdin().is_terminal() {
            let words = "there is no prompt: give it as an argument, or on standard input";
            return Err(Failure::usage(words));
        }
        let mut removed = 0;
        let mut read = |file: &PathBuf| {
            let read = console.read_text(file)?;
            removed += read.left_out();
            Ok::<_, Failure>(read.text)
        };
        let read_prompt = stdin.as_ref().map(&mut read).transpose()?;
        let prompt = read_prompt.or(prompt.cloned()).unwrap_or_default();
        let system = args.system_file.as_ref().map(&mut read).transpose()?;
        // Most providers refuse it, and each in words of its own.
        if prompt.trim().is_empty() {
            return Err(Failure::usage("the prompt is empty"));
        }
        Ok(Self {
            prompt,
            system,
            removed,
        })
    }
}

/// Returns the configuration of the file and the flags.
fn configuration(args: &RunArgs, console: &mut Console) -> Result<Config, Failure> {
    let mut config = settings::read(args.config.as_deref(), console)?;
    let limits = &mut config.limits;
    limits.max_continuations = args.max_continuations.unwrap_or(limits.max_continuations);
    limits.max_risk = args.max_risk.unwrap_or(limits.max_risk);
    if args.ask_progress {
        config.prompt = config.prompt.with_progress(true);
    }
    Ok(config)
}

/// Returns the configuration of a proxy that asks one upstream and has no clients of its own.
fn asking(mut config: Config, target: &Target) -> Config {
    config.proxy.upstream = Some(target.upstream.to_string());
    // The command has a flag for the key of its own upstream.
    config.proxy.upstream_key = None;
    // The command reports how the answer ended and that elements may be missing, so a closed
    // document misleads no reader.
    config.proxy.on_give_up = GiveUp::Close;
    config.access = AccessConfig::default();
    let mut route = RouteConfig::default();
    route.retries = Some(RETRIES);
    config.routes = vec![route];
    config
}

/// How often a busy server is asked again.
const RETRIES: u32 = 2;

/// Fails if the document can't be written to this file. Called before the first request, since an
/// answer costs money.
fn check_output(file: &Path) -> Result<(), Failure> {
    let told = |error: io::Error| Failure::io(format!("{}: {error}", file.display()));
    if file.is_dir() {
        return Err(told(io::ErrorKind::IsADirectory.into()));
    }
    match file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        Some(folder) => std::fs::metadata(folder).map(drop).map_err(told),
        None => Ok(()),
    }
}

async fn answer(
    args: &RunArgs,
    config: Config,
    asked: &PromptText,
    console: &mut Console,
) -> Result<(), Failure> {
    let (target, key) = Target::of(args)?;
    let request = target.request(args, asked, &key)?;
    args.output.as_deref().map_or(Ok(()), check_output)?;
    let untraced = |error| Failure::io(format!("--trace: {error}"));
    let trace = args.trace.as_deref().map(|dir| Trace::new(dir, &key));
    let trace = trace.transpose().map_err(untraced)?.map(Arc::new);
    let seen = Arc::new(Mutex::new(Seen::new(Key::new(&key))));
    let observer = {
        let seen = Arc::clone(&seen);
        move |record: &AnswerRecord| seen.lock().record.clone_from(record)
    };
    let limits = config.all_limits();
    let mut proxy = Proxy::new(asking(config, &target), &variable)
        .map_err(no_proxy)?
        .observe(Arc::new(observer));
    if let Some(trace) = &trace {
        proxy = proxy.tap(Arc::clone(trace) as _);
    }
    let interrupted = interrupted().map_err(Failure::io)?;
    let mut text = Text {
        document: Document::new(limits.parser.max_depth),
        index: ContextIndex::new(&limits),
        traced: 1,
        source: Source::new(Some(target.dialect), None, &limits),
        limits,
        target,
        progress: console.progress("{msg}", None, !args.is_written_at_the_end()),
        seen: Arc::clone(&seen),
        trace,
    };
    let read = tokio::select! {
        read = text.read(args, proxy, request, console) => read,
        () = interrupted => Err(Failure::io("interrupted: the document is not complete".to_owned())),
    };
    text.progress.finish_and_clear();
    text.trace_contexts();
    let traced = text.trace.map_or(Ok(()), |trace| trace.finish());
    if read.is_err() {
        keep(args, &text.document, console)?;
    }
    read?;
    let seen = seen.lock();
    report(args, &text.document, &seen, asked.removed, console)?;
    traced.map_err(untraced)
}

/// Writes the complete part of a document whose answer failed, and reports it.
fn keep(args: &RunArgs, document: &Document, console: &Console) -> Result<(), Failure> {
    let Some((file, part)) = args.output.as_deref().zip(complete_part(document)) else {
        return Ok(());
    };
    report::write(file, &part.to_string())?;
    console.notes.note(format_args!(
        "{}: the complete part of what has arrived",
        file.display()
    ));
    Ok(())
}

/// The answer's text while it arrives.
struct Text {
    document: Document,
    index: ContextIndex,
    limits: Limits,
    /// The calls whose contexts have been traced.
    traced: u32,
    target: Target,
    source: Source,
    progress: ProgressBar,
    seen: Arc<Mutex<Seen>>,
    trace: Option<Arc<Trace>>,
}

impl Text {
    /// Reads the answer to its end, and writes the document to standard output if it belongs there.
    async fn read(
        &mut self,
        args: &RunArgs,
        proxy: Proxy,
        request: http::Request<Bytes>,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let key = self.seen.lock().key.clone();
        let silence = self.limits.transport.first_byte().time;
        let trace = self.trace.as_deref();
        let asked = ask(Arc::new(proxy), &self.target, request, silence, &key, trace);
        let mut body = asked.await?;
        let (mut start, mut shown) = (None, 0);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(Failure::io)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            self.trace_contexts();
            self.take(&data)?;
            if std::mem::replace(&mut start, self.document.root_start()) != start && shown > 0 {
                // The answer is a later root of the text.
                console.show("\n")?;
                shown = 0;
            }
            // Text around the document does not belong to it.
            let root = self.document.root().unwrap_or_default();
            if let Some(new) = root
                .get(shown..)
                .filter(|new| !args.is_written_at_the_end() && !new.is_empty())
            {
                console.show(new)?;
                shown = root.len();
            }
            if !self.progress.is_hidden() {
                let seen = self.seen.lock();
                let words = words(&self.document, seen.calls(), seen.record.percentage);
                self.progress.set_message(one_line(&words));
            }
        }
        Ok(())
    }

    /// Writes the contexts of the cut for each call that was made since the last time. None of
    /// these calls has brought text yet.
    fn trace_contexts(&mut self) {
        let calls = self.seen.lock().calls();
        let made = std::mem::replace(&mut self.traced, calls)..calls;
        if made.is_empty() {
            return;
        }
        // The rest is asked for the root in which the text ends.
        self.document.settle(&mut self.index);
        let Some(trace) = &self.trace else { return };
        // The request has the same options.
        let options = ContextOptions::default()
            .budget(self.limits.continuation.context_budget_chars)
            .max_anchor(self.limits.continuation.max_anchor_chars);
        let contexts = Contexts::of(&self.document, &self.index, &options);
        // Contexts can always be serialized.
        let contexts = serde_json::to_vec_pretty(&contexts).unwrap_or_default();
        made.for_each(|call| trace.write(call, "contexts.json", &contexts));
    }

    /// Takes bytes of the answer.
    fn take(&mut self, data: &[u8]) -> Result<(), Failure> {
        let mut new = String::new();
        match self.source.feed(data, &mut new) {
            // The record of the answer has the error.
            Ok(()) | Err(Refusal::Server(_)) => {}
            Err(refusal) => return Err(Failure::io(refusal.to_string())),
        }
        // Text that is not JSON is reported at the end.
        let _ = self.document.push_with(&new, &mut self.index);
        Ok(())
    }
}

/// Returns how much of a document has arrived.
fn words(document: &Document, calls: u32, percentage: Option<u8>) -> String {
    let path = document.cut().path;
    let mut words = format!("{}, call {calls}", count(document.text().len(), "byte"));
    if let Some(percentage) = percentage {
        words.push_str(&format!(", {percentage} %"));
    }
    if !path.is_empty() {
        words.push_str(&format!(", at {}", short(&path)));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_bytes_calls_percentage_and_path() {
        let mut document = Document::new(64);
        document.push("{\"a\": [1, \"b").unwrap();
        assert_eq!(words(&document, 1, None), "12 bytes, call 1, at /a/1");
        assert_eq!(
            words(&document, 3, Some(40)),
            "12 bytes, call 3, 40 %, at /a/1"
        );
    }
}
