//! Reads the process's arguments and the variables that set flags.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};

use super::{Args, Console};
use restitch_proxy::config::nearest;

/// Reads the process's arguments. Ends the process at an error, and for help and the version.
///
/// An empty variable counts as unset. An unknown `RESTITCH_*` variable is reported, since it was probably meant to be a known one.
pub fn parse() -> Args {
    let command = without_empty(Args::command());
    let parsed = command.clone().try_get_matches().and_then(|matches| {
        let args = Args::from_arg_matches(&matches)?;
        Ok((args, matches))
    });
    match parsed {
        Ok((args, matches)) => {
            if reads_variables(&command, &matches) {
                tell_unknown(&Console::new(args.general.quiet, 0));
            }
            args
        }
        Err(error) => error.exit(),
    }
}

/// Removes the empty variables, which `clap` would read as values.
fn without_empty(command: Command) -> Command {
    let command = command.mut_args(|arg| match arg.get_env().is_some_and(is_empty) {
        true => arg.env(None::<&'static str>),
        false => arg,
    });
    command.mut_subcommands(without_empty)
}

fn is_empty(variable: &OsStr) -> bool {
    std::env::var_os(variable).is_some_and(|value| value.is_empty())
}

/// Returns all arguments of a command and of its subcommands.
fn arguments(command: &Command) -> Box<dyn Iterator<Item = &Arg> + '_> {
    Box::new(
        command
            .get_arguments()
            .chain(command.get_subcommands().flat_map(arguments)),
    )
}

/// Returns whether the command that was called reads any variable.
fn reads_variables(command: &Command, matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((name, matches)) => command
            .find_subcommand(name)
            .is_some_and(|command| reads_variables(command, matches)),
        None => command.get_arguments().any(|arg| arg.get_env().is_some()),
    }
}

fn tell_unknown(console: &Console) {
    let own = |name: &OsStr| Some(name.to_str()?.strip_prefix(PREFIX)?.to_owned());
    let all = Args::command();
    let known: Vec<String> = arguments(&all)
        .filter_map(|arg| own(arg.get_env()?))
        .collect();
    // A variable that an argument names, for example one that holds a key, is the user's own.
    let is_named =
        |name: &str| std::env::args().any(|argument| argument == [PREFIX, name].concat());
    let unknown: BTreeSet<String> = std::env::vars_os()
        .filter_map(|(name, _)| own(&name))
        .filter(|name| !known.contains(name) && !is_named(name))
        .collect();
    for name in unknown {
        let hint = match nearest(&name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {PREFIX}{near}?"),
            None => "`restitch proxy --help` lists the known ones".to_owned(),
        };
        console
            .notes
            .note(format_args!("{PREFIX}{name}: no such variable; {hint}"));
    }
}

/// The beginning of all variables of the program.
const PREFIX: &str = "RESTITCH_";
