//! The command line: parses arguments, calls one function.

use std::process::ExitCode;

use restitch::internal::cli;

fn main() -> ExitCode {
    cli::run(&cli::parse()).into()
}
