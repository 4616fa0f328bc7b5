//! How an answer ends whose rest can't be obtained.

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::Outcome;

/// How a document ends whose rest can't be obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GiveUp {
    /// Closes the document and names the cut value: [`Outcome::Closed`]. A stream gets the shortest
    /// legal completion, because sent bytes can't be taken back; the outcome lists the synthesized
    /// values. A whole body becomes its complete part, which leaves a cut number out.
    Close,
    /// The default. Adds nothing, not even the end of a fence. The answer ends like its first cut,
    /// or like a later, worse one: [`Outcome::Incomplete`]. A client that raises an error at a cut
    /// answer still does.
    #[default]
    Leave,
    /// Ends the answer with an error: [`Outcome::Failed`].
    Error,
}

impl GiveUp {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Close, Self::Leave, Self::Error];

    /// Returns the name in configuration and headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::Leave => "leave",
            Self::Error => "error",
        }
    }
}

impl std::fmt::Display for GiveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// An unknown name of a [`GiveUp`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveUpError(String);

impl std::fmt::Display for GiveUpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not one of `close`, `leave`, `error`", self.0)
    }
}

impl std::error::Error for GiveUpError {}

impl std::str::FromStr for GiveUp {
    type Err = GiveUpError;

    fn from_str(name: &str) -> Result<Self, GiveUpError> {
        let found = Self::ALL.into_iter().find(|known| known.as_str() == name);
        found.ok_or_else(|| GiveUpError(name.to_owned()))
    }
}
