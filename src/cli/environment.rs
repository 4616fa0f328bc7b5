//! The process's arguments, with the variables that stand for flags.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};

use super::{Args, Console};

/// Reads the process's arguments. An error, a wish for help or for the version ends the process.
///
/// A variable that is empty is not set, an error names the variable that it is in, and a variable of restitch's that
/// there is none of is told: it was meant to be another one.
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
        Err(error) => named(error, command).exit(),
    }
}

/// Takes the variables away that are set to nothing: `clap` would read nothing as a value.
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

/// The error with the variable in the place of the flag, if the value came from there.
fn named(mut error: clap::Error, mut command: Command) -> clap::Error {
    // Before that an argument can't say what it is called.
    command.build();
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return error };
    let variable = arguments(&command).find_map(|arg| {
        let variable = arg.get_env().filter(|_| arg.to_string() == *shown && !is_given(arg))?;
        std::env::var_os(variable).map(|_| variable.to_string_lossy().into_owned())
    });
    if let Some(variable) = variable {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
    }
    error
}

/// Whether the flag itself is among the process's arguments, so that its variable does not count.
fn is_given(arg: &Arg) -> bool {
    let Some(long) = arg.get_long() else { return false };
    std::env::args().any(|given| {
        let name = given.strip_prefix("--");
        name.is_some_and(|name| name.split('=').next() == Some(long))
    })
}

/// All arguments of a command and of the commands below it.
fn arguments(command: &Command) -> Box<dyn Iterator<Item = &Arg> + '_> {
    Box::new(command.get_arguments().chain(command.get_subcommands().flat_map(arguments)))
}

/// Whether the command that was asked for reads any variable.
fn reads_variables(command: &Command, matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((name, matches)) => command.find_subcommand(name).is_some_and(|command| reads_variables(command, matches)),
        None => command.get_arguments().any(|arg| arg.get_env().is_some()),
    }
}

fn tell_unknown(console: &Console) {
    let all = Args::command();
    let known: BTreeSet<&str> = arguments(&all).filter_map(|arg| arg.get_env()?.to_str()).collect();
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    // One that an argument names, as one with a key, is the user's own.
    let is_named = |name: &str| std::env::args().any(|argument| argument == name);
    let unknown: BTreeSet<String> = names
        .filter(|name| name.starts_with("RESTITCH_") && !known.contains(name.as_str()) && !is_named(name))
        .collect();
    let known = known.into_iter().collect::<Vec<_>>().join(", ");
    for name in unknown {
        console.note(format_args!("{name}: no such variable; known are {known}"));
    }
}
