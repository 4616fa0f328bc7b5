//! The configuration file, and the flags and variables over it. A flag wins over its variable, the
//! variable over the file, the file over the defaults.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use super::console::is_stdin;
use super::{Console, Failure};
use restitch_proxy::config::{Config, ConfigError, Key};

/// The configuration file, and the settings that flags and variables give.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    file: Option<PathBuf>,
    given: Vec<Given>,
}

/// A setting of a flag or a variable.
#[derive(Clone, Debug)]
struct Given {
    /// The flag or the variable, for errors.
    by: String,
    /// The key, such as `proxy.upstream`.
    key: String,
    value: String,
}

/// The keys that are flags and variables, too: those that a first try or a container needs.
/// `--set` sets every other one.
const FLAGS: [(&str, &str); 14] = [
    ("proxy.upstream", "URL"),
    ("proxy.listen", "ADDRESS"),
    ("access.token_variable", "VARIABLE"),
    ("proxy.tls_cert", "FILE"),
    ("proxy.tls_key", "FILE"),
    ("proxy.admin", "ADDRESS"),
    ("proxy.on_give_up", "HOW"),
    ("proxy.repair", "LEVEL"),
    ("limits.max_continuations", "N"),
    ("limits.max_total_time", "TIME"),
    ("limits.first_byte_timeout", "TIME"),
    ("limits.max_keep_time", "TIME"),
    ("limits.shutdown_delay", "TIME"),
    ("proxy.log", "FILTER"),
];

/// The flag that names the configuration file, and the one that sets any key.
const FILE: &str = "config";
const SET: &str = "set";

impl clap::Args for Settings {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE)
            .long(FILE)
            .env("RESTITCH_CONFIG")
            .hide_env(true)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("The configuration file; flags and variables win over it")
            .long_help(
                "The configuration file; flags and variables win over it [env: RESTITCH_CONFIG]",
            );
        let set = Arg::new(SET)
            .long(SET)
            .value_name("KEY=VALUE")
            .action(ArgAction::Append)
            .help("Set any key of the file, such as limits.max_risk=0; repeatable");
        let flags = FLAGS.map(|(key, value_name)| flag(key, value_name));
        command.arg(file).args(flags).arg(set)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Returns the flag of a key, with its variable.
fn flag(key: &'static str, value_name: &'static str) -> Arg {
    let (_, name) = key.split_once('.').unwrap_or(("", key));
    let variable = format!("RESTITCH_{}", name.to_ascii_uppercase());
    let (mut help, mut more) = (String::new(), String::new());
    if let Some(declared) = Key::of(key) {
        let meaning = declared.meaning.as_str();
        let (first, rest) = meaning.split_once(". ").unwrap_or((meaning, ""));
        let default = declared.default.as_deref();
        let default = default.map_or(String::new(), |default| format!(" [default: {default}]"));
        help = format!("{}{default}", first.trim_end_matches('.'));
        more = format!(
            "{}. {rest}{default} [env: {variable}]",
            first.trim_end_matches('.')
        );
    }
    Arg::new(key)
        .long(name.replace('_', "-"))
        .env(variable)
        // A screen has no place for the names of all variables.
        .hide_env(true)
        .value_name(value_name)
        .help(help)
        .long_help(more)
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = FLAGS.iter().filter_map(|(key, _)| {
            let (_, name) = key.split_once('.')?;
            let by = match matches.value_source(key)? {
                ValueSource::EnvVariable => format!("RESTITCH_{}", name.to_ascii_uppercase()),
                _ => format!("--{}", name.replace('_', "-")),
            };
            Some(Given {
                by,
                key: (*key).to_owned(),
                value: matches.get_one::<String>(key)?.clone(),
            })
        });
        let set = matches.get_many::<String>(SET).into_iter().flatten();
        let set = set.map(|written| {
            let (key, value) = written.split_once('=').unwrap_or((written, ""));
            Given {
                by: format!("--set {key}"),
                key: key.to_owned(),
                value: value.to_owned(),
            }
        });
        Ok(Self {
            file: matches.get_one(FILE).cloned(),
            given: flags.chain(set).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Reads the configuration of a file, or the defaults if no file is named.
pub(super) fn read(file: Option<&Path>, console: &mut Console) -> Result<Config, Failure> {
    read_with(file, Config::parse, console)
}

fn read_with(
    file: Option<&Path>,
    parse: fn(&str) -> Result<Config, ConfigError>,
    console: &mut Console,
) -> Result<Config, Failure> {
    let Some(path) = file else {
        return Ok(Config::default());
    };
    let text = console.read_text(path)?.text;
    parse(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

impl Settings {
    /// Reads the file and applies flags and environment.
    pub(super) fn config(&self, console: &mut Console) -> Result<Config, Failure> {
        let config = read(self.file.as_deref(), console)?;
        self.applied(config).map_err(Failure::usage)
    }

    /// As [`config`](Self::config), and checks the upstreams of the file.
    pub(super) fn checked(&self, console: &mut Console) -> Result<Config, Failure> {
        let config = read_with(self.file.as_deref(), Config::parse_checked, console)?;
        self.applied(config).map_err(Failure::usage)
    }

    /// Returns whether a file is named that can be read again.
    pub(super) fn has_file(&self) -> bool {
        self.file.as_deref().is_some_and(|path| !is_stdin(path))
    }

    /// Reads the file again, and applies the flags and the environment of the start. An error names
    /// the file and the line.
    pub(super) fn again(&self) -> Result<Config, String> {
        let Some(path) = self.file.as_deref() else {
            return self.applied(Config::default());
        };
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let parse = |text: String| Config::parse_checked(&text).map_err(|error| error.to_string());
        let config = text.and_then(parse);
        self.applied(config.map_err(|error| format!("{}: {error}", path.display()))?)
    }

    /// Puts the given settings over those of a file.
    fn applied(&self, mut config: Config) -> Result<Config, String> {
        for Given { by, key, value } in &self.given {
            config
                .set(key, value)
                .map_err(|error| format!("{by}: {error}"))?;
        }
        Ok(config)
    }
}
