//! The commands, one per file, and the code that they share.
//!
//! Standard output carries only data: with `--json` and `--jsonl` one answer per line, else the
//! requested text, to the byte. Messages go to standard error. A reader that leaves early
//! (`| head`) ends a command quietly.

use std::io;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser, Subcommand};

pub mod check;
pub mod config;
mod console;
pub mod demo;
pub mod dialect;
pub mod doctor;
mod encoding;
mod environment;
pub mod inspect;
mod jsonl;
mod ladder;
mod log;
mod output;
pub mod pages;
pub mod parse;
mod parsed;
pub mod paths;
pub mod proxy;
pub mod repair;
mod repairs;
mod route;
pub mod run;
mod settings;
pub mod sim;
mod source;
pub mod stitch;
mod texts;
mod version;

use console::Console;
pub use environment::parse;

/// Makes cut-off JSON from language models whole.
#[derive(Clone, Debug, Parser)]
#[command(name = "restitch", version, long_version = version::LONG, max_term_width = 100)]
#[command(after_help = epilogue(EXIT_CODES))]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    general: General,
}

/// Flags of every command.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "General options")]
struct General {
    /// Report on standard error only what failed.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Log more of what the proxy and the model server do; -vv logs every step.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    color: colorchoice_clap::Color,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    // The commands that run a server are first, since most users look for them.
    /// Shows a cut answer as a plain client gets it, and as restitch completes it.
    Demo(demo::DemoArgs),
    /// Runs the proxy: point the base URL of any OpenAI client at it.
    Proxy(proxy::ProxyArgs),
    /// Asks a model for a document, and for the rest of it until it is complete.
    Run(run::RunArgs),
    /// Says whether a running proxy serves, whether a provider can be reached, and whether a model
    /// continues a prefill.
    Doctor(doctor::DoctorArgs),
    /// Runs a scripted model server that cuts its answers and misbehaves on request.
    Sim(sim::SimArgs),
    /// Joins the parts of a cut-off JSON document.
    Stitch(stitch::StitchArgs),
    /// Shows where a text stops, the contexts for its continuation, and its complete part as JSON.
    Inspect(inspect::InspectArgs),
    /// Repairs the mistakes that models make in JSON, and lists every change.
    Repair(repair::RepairArgs),
    /// Reads the JSON of a response, and gives it the shape that is expected.
    Parse(parse::ParseArgs),
    /// Validates JSON strictly, and tells a text that is cut from one that is wrong.
    Check(check::CheckArgs),
    /// Picks values out of JSON text while the text arrives.
    Paths(paths::PathsArgs),
    /// Checks and shows the configuration file.
    Config(config::ConfigArgs),
    /// Writes the manual pages and the completions of all shells to a folder.
    Pages(pages::PagesArgs),
}

/// Runs a command on the process's own standard streams.
pub fn run(args: &Args) -> Exit {
    args.general.color.write_global();
    let mut console = Console::new(args.general.quiet, args.general.verbose);
    let result = match &args.command {
        Command::Demo(args) => demo::run(args, &mut console),
        Command::Proxy(args) => proxy::run(args, &mut console),
        Command::Run(args) => run::run(args, &mut console),
        Command::Doctor(args) => doctor::run(args, &mut console),
        Command::Sim(args) => sim::run(args, &mut console),
        Command::Stitch(args) => stitch::run(args, &mut console),
        Command::Inspect(args) => inspect::run(args, &mut console),
        Command::Repair(args) => repair::run(args, &mut console),
        Command::Parse(args) => parse::run(args, &mut console),
        Command::Check(args) => check::run(args, &mut console),
        Command::Paths(args) => paths::run(args, &mut console),
        Command::Config(args) => config::run(args, &mut console),
        Command::Pages(args) => pages::run(args, &mut console),
    };
    let written = match result {
        Err(Failure::Output(error)) => Err(error),
        Err(Failure::Failed(exit, reason)) => {
            console.fail(exit, reason);
            console.flush()
        }
        Ok(()) | Err(Failure::Reported) => console.flush(),
    };
    match written {
        Ok(()) => {}
        // The reader has seen enough. The verdict until then counts.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => console.fail(Exit::Io, format_args!("cannot write the output: {error}")),
    }
    console.exit()
}

/// Why a command ends early.
#[derive(Debug)]
enum Failure {
    /// How the process exits, and the reason, which is to be reported.
    Failed(Exit, String),
    /// The failure has been reported.
    Reported,
    /// The output can't be written.
    Output(io::Error),
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that `map_err` asks for"
)]
impl Failure {
    fn usage(reason: impl ToString) -> Self {
        Self::Failed(Exit::Usage, reason.to_string())
    }

    fn io(reason: impl ToString) -> Self {
        Self::Failed(Exit::Io, reason.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// How a command ended, from best to worst. Of several files, lines and messages the worst counts.
/// A file that could not be read is worse than one that is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Exit {
    /// 0: everything is complete.
    #[default]
    Complete,
    /// 5: something would be repaired, and `--check` was given.
    Changed,
    /// 3: something is cut, or was closed where it was cut.
    Cut,
    /// 4: something is invalid, or could not be used.
    Invalid,
    /// 1: a file, a socket or a pipe failed.
    Io,
    /// 2: the arguments are wrong. Nothing was read.
    Usage,
}

impl Exit {
    /// Returns the exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Io => 1,
            Self::Usage => 2,
            Self::Cut => 3,
            Self::Invalid => 4,
            Self::Changed => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  complete
  1  a file, a socket or a pipe failed
  2  the arguments are wrong
  3  cut, or closed where it was cut: not complete. An empty text is cut, and so is one that ends inside a character
  4  invalid, not UTF-8, or of no use
  5  `repair --check`: something would be repaired

Of several files or lines the worst counts: 0, 5, 3, 4, 1 from best to worst.

Examples:
  restitch check answer.json
  restitch inspect --close < cut.json | jq .
  restitch repair --log answer.txt > answer.json
  curl -sN https://example.org/stream | restitch paths '/items/*'
  restitch stitch first.json second.json

`-`, or no file, is standard input. `restitch COMMAND --help` has more examples.";

/// The text below a command's help. Lines that are not indented are joined to paragraphs, which
/// clap wraps to the width of the terminal; indented lines are kept.
fn epilogue(text: &str) -> String {
    let mut joined = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_heading =
            line.ends_with(':') && lines.peek().is_some_and(|next| next.starts_with(' '));
        let is_kept = line.is_empty() || line.starts_with(' ') || is_heading;
        let is_open = !joined.is_empty() && !joined.ends_with('\n');
        if is_open && is_kept {
            joined.push('\n');
        } else if is_open {
            joined.push(' ');
        }
        joined.push_str(line);
        if is_kept {
            joined.push('\n');
        }
    }
    joined
}

/// Returns an argument's parser for the names of these values. Help and completions list the
/// names.
fn one_of<T>(all: &'static [T], name: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let named = move |written: String| all.iter().copied().find(|value| name(*value) == written);
    PossibleValuesParser::new(all.iter().map(|value| name(*value)))
        .try_map(move |written| named(written).ok_or("no such name"))
}

/// Runs a future to its end, on all cores. Only commands that need a runtime make one.
///
/// # Errors
/// The runtime can't be made, or the future fails.
fn block_on<T, E: From<io::Error>>(future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(future)
}

/// Returns a future that is ready when the process is asked to end: by Ctrl-C, or by SIGTERM on
/// Unix. From this call on these signals no longer kill the process. Needs a runtime.
fn interrupted() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut interrupt, mut terminate) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        );
        Ok(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        // Without a handler, the system's own one ends the process.
        let _ = tokio::signal::ctrl_c().await;
    })
}
