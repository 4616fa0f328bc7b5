//! `restitch config`: checks a configuration file, and shows the configuration.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::output::To;
use super::settings::Settings;
use super::{Console, Exit, Failure, epilogue, route};
use restitch_proxy::config::{Config, Key};

/// Arguments of `restitch config`.
#[derive(Clone, Debug, clap::Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Writes a file to begin with: all settings with their meaning, and examples of tokens, routes
    /// and fallbacks as comments.
    #[command(after_help = epilogue(INIT))]
    Init {
        /// The provider's address.
        #[arg(long, value_name = "URL", default_value = "https://api.openai.com")]
        upstream: String,
        #[command(flatten)]
        to: To,
    },
    /// Checks a configuration file, and reports the line of an error.
    #[command(after_help = epilogue(CHECK))]
    Check {
        /// The file. `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Shows the whole configuration as a file: defaults, file, environment and flags.
    #[command(after_help = epilogue(SHOW))]
    Show {
        /// Print the tables of all keys instead, with their meanings and defaults, as Markdown.
        #[arg(long)]
        docs: bool,
        /// Show only what differs from the defaults.
        #[arg(long, conflicts_with = "docs")]
        changed: bool,
        #[command(flatten)]
        settings: Box<Settings>,
        #[command(flatten)]
        to: To,
    },
    /// Prints the JSON Schema of the file, for editors and checks.
    #[command(after_help = epilogue(SCHEMA))]
    Schema {
        #[command(flatten)]
        to: To,
    },
    /// Says which route answers a request, why those before it do not, and what holds for its
    /// answer.
    #[command(after_help = epilogue(EXPLAIN))]
    Explain(Box<route::RouteArgs>),
}

const INIT: &str = "\
Examples:
  restitch config init -o restitch.toml
  restitch config init --upstream http://127.0.0.1:8788 | restitch config check -

Exit codes: 0 written, 1 the file can't be written.";

const CHECK: &str = "\
Examples:
  restitch config check restitch.toml
  restitch config show | restitch config check -

The command opens the certificates, keys and tokens that the file names, and reports certificates that have expired.

Exit codes: 0 the file is right, 4 it is wrong or names a file that can't be used, 1 unreadable.";

const SHOW: &str = "\
Examples:
  restitch config show --changed --config restitch.toml
  restitch config show --config restitch.toml --set limits.idle_timeout=2m
  restitch config show --docs

Flags win over the environment (for example RESTITCH_MAX_CONTINUATIONS over `max_continuations`), the environment over the
file, the file over the defaults. An empty variable counts as unset. A file made of this keeps the defaults of today:
`restitch config init` makes one that follows newer versions.

Exit codes: 0 shown, 1 the file is unreadable, 2 it is wrong.";

const SCHEMA: &str = "\
Examples:
  restitch config schema -o restitch.schema.json

An editor with a language server for TOML, such as Taplo, completes and checks the keys of a file whose first line is
`#:schema ./restitch.schema.json`. `restitch config check` checks more: how keys agree, and addresses and patterns.

Exit codes: 0 shown.";

const EXPLAIN: &str = "\
Examples:
  restitch config explain --config restitch.toml --model claude-sonnet-4-5
  restitch config explain --config restitch.toml --path /v1/messages --model claude-opus-4-6 --header 'x-team: batch'
  restitch config explain --config restitch.toml --model gpt-5 --json

The output is TOML: the settings that hold, with comments that say why. Headers `x-restitch-…` are applied as the proxy does. What no route matches has those of [proxy] and
[limits]. A path that is of no API is not read, so routes with a model do not match it.

Exit codes: 0 explained, 1 the file is unreadable, 2 it is wrong.";

pub(super) fn run(args: &ConfigArgs, console: &mut Console) -> Result<(), Failure> {
    match &args.command {
        ConfigCommand::Check { file } => {
            let read = console.read_text(file)?;
            if read.left_out() > 0 {
                console.verdict(Exit::Invalid);
            }
            let invalid = |reason| Failure::Failed(Exit::Invalid, reason);
            let config = Config::parse_checked(&read.text)
                .map_err(|error| invalid(format!("{}: {error}", file.display())))?;
            check_files(file, &config, console).map_err(invalid)
        }
        ConfigCommand::Explain(args) => route::run(args, console),
        ConfigCommand::Schema { to } => {
            console.write_to(to.output.as_deref());
            console.lines(&format!("{:#}\n", Config::schema()))
        }
        ConfigCommand::Init { upstream, to } => {
            // The file may have been edited since it was made.
            if let Some(file) = to.output.as_deref().filter(|file| file.exists()) {
                let words = format!("{}: the file exists", file.display());
                return Err(Failure::io(words));
            }
            console.write_to(to.output.as_deref());
            console.lines(&Config::init(upstream))
        }
        ConfigCommand::Show {
            docs,
            changed,
            settings,
            to,
        } => {
            console.write_to(to.output.as_deref());
            if *docs {
                return console.lines(&Key::docs());
            }
            let config = settings.config(console)?;
            console.lines(&match changed {
                true => config.show_changed(),
                false => config.show(),
            })
        }
    }
}

/// Opens the files that a configuration names, as the proxy does when it starts, and tells of
/// certificates that expire.
fn check_files(file: &Path, config: &Config, console: &Console) -> Result<(), String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a command does I/O: certificates are compared with the clock"
    )]
    let now = SystemTime::now();
    let name = file.display();
    let expiries = super::proxy::check_files(config).map_err(|error| format!("{name}: {error}"))?;
    for expiry in expiries {
        let Some(warning) = expiry.validity(now).warning() else {
            continue;
        };
        let end = expiry.at.map(httpdate::fmt_http_date);
        let end = end.map_or(String::new(), |end| format!(", {end}"));
        let own = expiry.file.display();
        console
            .notes
            .note(format_args!("{name}: {warning}: {own}{end}"));
    }
    Ok(())
}
