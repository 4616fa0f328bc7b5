//! The configuration file, and the flags and variables over it. A flag wins over its variable, the
//! variable over the file, the file over the defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, FromArgMatches};

use super::console::is_stdin;
use super::{Console, Exit};
use restitch_proxy::config::{Config, ConfigError};

/// The configuration file and the given flags and variables. Their declarations are the fields of
/// [`Config`].
#[derive(Clone, Debug)]
pub(super) struct Settings {
    file: Option<PathBuf>,
    given: ArgMatches,
}

impl clap::Args for Settings {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE)
            .long(FILE)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help(
                "The configuration file, whose tables are in docs/configuration.md. Flags and the environment win over \
                 it",
            );
        let mut defaults = Config::defaults();
        // Help and manual pages are the same on each machine.
        defaults.insert("threads".to_owned(), "one for each core".to_owned());
        let settings = <Config as clap::Args>::augment_args_for_update(Command::new(""))
            // Later paragraphs give reasons to readers of the code.
            .mut_args(|arg| with_default(arg, &defaults).long_help(None::<&str>));
        let settings = settings.get_arguments().cloned();
        command.args(std::iter::once(file).chain(settings).map(with_variable))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            file: matches.get_one(FILE).cloned(),
            given: matches.clone(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flag that names the configuration file.
const FILE: &str = "config";

/// Appends the default of a setting to its help.
fn with_default(arg: Arg, defaults: &BTreeMap<String, String>) -> Arg {
    match (defaults.get(arg.get_id().as_str()), arg.get_help()) {
        (Some(default), Some(help)) => {
            let help = format!("{help} [default: {default}]");
            arg.help(help)
        }
        _ => arg,
    }
}

/// Gives a flag the variable of its name.
fn with_variable(arg: Arg) -> Arg {
    let name = arg.get_long().unwrap_or_default();
    let variable = format!("RESTITCH_{}", name.to_ascii_uppercase().replace('-', "_"));
    arg.env(variable)
}

/// Reads the configuration of a file, or the defaults if no file is named. `None` if the file can't
/// be read or is wrong, which has been reported then.
pub(super) fn read(file: Option<&Path>, console: &mut Console) -> Option<Config> {
    read_with(file, Config::parse, console)
}

fn read_with(
    file: Option<&Path>,
    parse: fn(&str) -> Result<Config, ConfigError>,
    console: &mut Console,
) -> Option<Config> {
    let Some(path) = file else {
        return Some(Config::default());
    };
    let text = console.read_text(path)?.text;
    let report = |error| console.fail(Exit::Usage, format_args!("{}: {error}", path.display()));
    parse(&text).map_err(report).ok()
}

impl Settings {
    /// Reads the file and applies flags and environment. `None` if the file can't be read or is
    /// wrong, which has been reported then.
    pub(super) fn config(&self, console: &mut Console) -> Option<Config> {
        let config = read(self.file.as_deref(), console)?;
        self.reported(config, console)
    }

    /// As [`config`](Self::config), and checks the upstreams of the file.
    pub(super) fn checked(&self, console: &mut Console) -> Option<Config> {
        let config = read_with(self.file.as_deref(), Config::parse_checked, console)?;
        self.reported(config, console)
    }

    fn reported(&self, config: Config, console: &mut Console) -> Option<Config> {
        self.applied(config)
            .map_err(|error| console.fail(Exit::Usage, error))
            .ok()
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
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let config =
            Config::parse_checked(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        self.applied(config)
    }

    /// Puts the given flags and variables over the settings of a file.
    fn applied(&self, mut config: Config) -> Result<Config, String> {
        config
            .update_from_arg_matches(&self.given)
            .map_err(|error| error.to_string())?;
        Ok(config)
    }
}
