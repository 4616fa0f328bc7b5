//! `restitch config`: is a configuration file right, and what comes of it.

use std::io;
use std::path::PathBuf;

use super::output::To;
use super::settings::Settings;
use super::{Console, Exit, epilogue};
use crate::config::Config;

/// Arguments of `restitch config`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Says whether a configuration file is right, and if not, in which line it is wrong.
    #[command(after_help = epilogue(CHECK))]
    Check {
        /// The file; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Shows the whole configuration: the file, the environment, the flags, and the defaults, as a file.
    #[command(after_help = epilogue(SHOW))]
    Show {
        /// Show what is known of models as rows, not as comments: a file that is made of this knows no others.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        settings: Box<Settings>,
        #[command(flatten)]
        to: To,
    },
}

const CHECK: &str = "\
Examples:
  restitch config check restitch.toml
  restitch config show | restitch config check -

Exit codes: 0 it is right, 4 it is wrong, 1 unreadable.";

const SHOW: &str = "\
Examples:
  restitch config show > restitch.toml
  restitch config show --config restitch.toml --continuations 4
  RESTITCH_IDLE=120 restitch config show

Flags win over the environment (RESTITCH_CONTINUATIONS for --continuations, and so on), that over the file, that over the
defaults. A variable that is empty is not set. What is known of models stands there as comments, so that a file that
is made of this follows newer versions.

Exit codes: 0 shown, 1 the file is unreadable, 2 it is wrong.";

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    match &args.command {
        Command::Check { file } => {
            if let Some((text, _)) = console.read_text(file)
                && let Err(error) = checked(&text)
            {
                console.verdict(Exit::Invalid);
                console.note(format_args!("{}: {error}", file.display()));
            }
            Ok(())
        }
        Command::Show { all, settings, to } => {
            console.write_to(to.output.as_deref());
            let shown = |config: Config| if *all { config.show_all() } else { config.show() };
            settings.config(console).map_or(Ok(()), |config| console.lines(&shown(config)))
        }
    }
}

/// What the parser says, and what the proxy would say when it starts.
fn checked(text: &str) -> Result<(), String> {
    let config = Config::parse(text).map_err(|error| error.to_string())?;
    #[cfg(feature = "client")]
    if let Some(upstream) = &config.proxy.upstream {
        crate::client::Upstream::parse(upstream).map_err(|error| format!("[proxy] upstream: {error}"))?;
    }
    drop(config);
    Ok(())
}
