//! The command line: parses arguments, calls one function.

use std::process::ExitCode;

use clap::Parser;
use restitch::cli::{self, Args};

fn main() -> ExitCode {
    cli::run(&Args::parse()).into()
}
