//! The command line: parses arguments, calls one function.

use std::process::ExitCode;

fn main() -> ExitCode {
    restitch_cli::run(&restitch_cli::parse()).into()
}
