//! Why a call failed.

use std::error::Error as StdError;
use std::time::Duration;
use std::{fmt, io};

use http::Uri;

use super::{BodyError, PathError, informational};

/// Why a call failed, or why a client was not created.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system has no certificate roots, so no `https` upstream can be trusted.
    NoRoots(io::Error),
    /// A file with certificates or a key cannot be used, or the environment names a proxy that cannot. The text is for
    /// people.
    Setting(String),
    /// The request's address is not the upstream's.
    Foreign(Uri),
    /// The request's path has no address on the upstream.
    Path(PathError),
    /// More than 8 informational responses (1xx) came before the head of a response.
    Informational,
    /// No connection was made, so the upstream has seen nothing of the request.
    Connect(BodyError),
    /// The head of a response did not come in time.
    Late(Duration),
    /// The connection ended before the head of a response.
    Failed(hyper::Error),
}

impl Error {
    /// Returns whether no connection was made, so that the upstream has seen nothing of the request.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Connect(_))
    }

    /// Returns whether the connection ended without a byte of an answer.
    pub(super) fn is_unanswered(&self) -> bool {
        let Self::Failed(error) = self else { return false };
        let mut source = error.source();
        let mut is_reset = false;
        while let Some(error) = source {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            is_reset |= matches!(kind, Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe));
            source = error.source();
        }
        error.is_canceled() || error.is_incomplete_message() || is_reset
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoots(error) => write!(f, "https needs the system's certificate roots: {error}"),
            Self::Setting(words) => f.write_str(words),
            Self::Foreign(uri) => {
                // The path and the query may hold secrets, and errors are logged.
                let host = uri.authority().map_or("no host", |authority| authority.as_str());
                write!(f, "the request is for {host}, which is not the upstream")
            }
            Self::Path(error) => error.fmt(f),
            Self::Informational => write!(f, "more than {} informational responses came", informational::MOST),
            Self::Late(wait) => write!(f, "no answer came for {} s", wait.as_secs_f64()),
            Self::Connect(error) => with_sources(f, &**error),
            Self::Failed(error) => with_sources(f, error),
        }
    }
}

/// Writes an error with its sources: the messages of hyper are short and leave the reason to them.
fn with_sources(f: &mut fmt::Formatter<'_>, error: &(dyn StdError + 'static)) -> fmt::Result {
    write!(f, "{error}")?;
    let mut source = error.source();
    while let Some(error) = source {
        write!(f, ": {error}")?;
        source = error.source();
    }
    Ok(())
}

impl StdError for Error {}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}
