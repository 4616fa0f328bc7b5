//! `--color`: whether output for people has colors.

use std::fmt;

use clap::ValueEnum;

/// When colors are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorChoice {
    /// On a terminal with colors, unless the environment says otherwise.
    Auto,
    /// Always, also in pipes and files.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// Sets the choice for the whole process.
    pub(super) fn write_global(self) {
        let choice = match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

impl fmt::Display for ColorChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}
