//! `restitch pages`: writes the files that a package installs beside the program.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::{Console, Failure, epilogue};

/// Arguments of `restitch pages`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct PagesArgs {
    /// The folder, which is made if it is missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  restitch pages pages
  man -l pages/restitch-stitch.1
  cp pages/restitch.bash ~/.local/share/bash-completion/completions/restitch
  cp pages/_restitch ~/.zfunc/
  cp pages/restitch.fish ~/.config/fish/completions/";

pub(super) fn run(args: &PagesArgs, _: &mut Console) -> Result<(), Failure> {
    let folder = &args.folder;
    write(folder).map_err(|error| Failure::io(format!("{}: {error}", folder.display())))
}

fn write(folder: &PathBuf) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut super::Args::command(), "restitch", folder)?;
    }
    clap_mangen::generate_to(super::Args::command(), folder)
}
