//! The destination of a command's data: standard output, or a file.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Stdout, Write};
use std::path::{Path, PathBuf};

use anstream::{AutoStream, ColorChoice};

/// The flag `-o` of all commands that write data.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct To {
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

/// Standard output, or a file that is made with its first byte.
#[derive(Debug)]
pub(super) enum Output {
    Stdout(Stdout),
    File(PathBuf, Option<File>),
}

impl Output {
    pub(super) fn stdout() -> Self {
        Self::Stdout(io::stdout())
    }

    pub(super) fn file(path: &Path) -> Self {
        Self::File(path.to_owned(), None)
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Stdout(stdout) if stdout.is_terminal())
    }

    /// Returns whether the output may have colors. `--color` decides. If it is `auto`, `NO_COLOR`,
    /// `CLICOLOR_FORCE` and `CLICOLOR` decide, then whether the output is a terminal with colors
    /// (`TERM=dumb` has none).
    pub(super) fn has_colors(&self) -> bool {
        matches!(self, Self::Stdout(stdout) if AutoStream::choice(stdout) != ColorChoice::Never)
    }

    /// Returns whether the output is the file at `path`.
    pub(super) fn is_same(&self, path: &Path) -> bool {
        let Self::File(own, _) = self else {
            return false;
        };
        let (Ok(own), Ok(path)) = (fs::canonicalize(own), fs::canonicalize(path)) else {
            return false;
        };
        own == path
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::File(path, file) => {
                let named = |error: io::Error| {
                    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
                };
                if file.is_none() {
                    *file = Some(File::create(&*path).map_err(named)?);
                }
                file.as_mut()
                    .map_or(Ok(0), |file| file.write(bytes))
                    .map_err(named)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::File(_, file) => file.as_mut().map_or(Ok(()), Write::flush),
        }
    }
}
