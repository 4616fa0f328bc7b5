//! `restitch completions` and `restitch man`: write the files that a package installs beside the
//! program.

use std::io;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man as Page;

use super::output::To;
use super::{Console, Exit, epilogue};

/// Arguments of `restitch completions`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(COMPLETIONS))]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
    #[command(flatten)]
    to: To,
}

const COMPLETIONS: &str = "\
Examples:
  restitch completions bash > ~/.local/share/bash-completion/completions/restitch
  restitch completions zsh > ~/.zfunc/_restitch
  restitch completions fish > ~/.config/fish/completions/restitch.fish";

/// Arguments of `restitch man`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(MAN))]
pub struct Man {
    /// The command whose page to write. Default: the page of restitch itself.
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
    /// Write all pages to this folder, one file per page.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "output"])]
    dir: Option<PathBuf>,
    #[command(flatten)]
    to: To,
}

const MAN: &str = "\
Examples:
  restitch man | man -l -
  restitch man stitch | man -l -
  restitch man --dir ~/.local/share/man/man1";

pub(super) fn completions(args: &Completions, console: &mut Console) -> io::Result<()> {
    console.write_to(args.to.output.as_deref());
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut super::Args::command(),
        "restitch",
        &mut script,
    );
    console.lines(&String::from_utf8_lossy(&script))
}

pub(super) fn man(args: &Man, console: &mut Console) -> io::Result<()> {
    console.write_to(args.to.output.as_deref());
    let mut restitch = super::Args::command();
    if let Some(dir) = &args.dir {
        let written =
            std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(restitch, dir));
        if let Err(error) = written {
            console.fail(Exit::Io, format_args!("{}: {error}", dir.display()));
        }
        return Ok(());
    }
    restitch.build();
    let command = match &args.command {
        None => restitch,
        Some(name) => match restitch.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                console.fail(
                    Exit::Usage,
                    format_args!("`{name}` is no command: see `restitch --help`"),
                );
                return Ok(());
            }
        },
    };
    let mut page = Vec::new();
    Page::new(command).render(&mut page)?;
    console.lines(&String::from_utf8_lossy(&page))
}
