//! `--color`: whether what people read has colors.

use std::fmt;

use clap::ValueEnum;

/// When colors are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorChoice {
    /// On a terminal that knows them, unless the environment says otherwise.
    Auto,
    /// In pipes and files, too.
    Always,
    /// Not at all.
    Never,
}

impl ColorChoice {
    /// Makes it the choice of the process.
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
