//! Why a call failed.

use std::error::Error as StdError;
use std::time::Duration;
use std::{fmt, io};

use http::Uri;
use rustls::CertificateError;

use super::head::MOST_INFORMATIONAL;
use super::{BodyError, PathError};

/// Why a call failed, or why a client was not created.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system has no certificate roots, so no `https` upstream can be trusted.
    NoRoots(io::Error),
    /// A file with certificates or a key cannot be used, or the environment names a proxy that
    /// cannot. The text is for people.
    Setting(String),
    /// The request's address is not the upstream's.
    Foreign(Uri),
    /// The request's path has no address on the upstream.
    Path(PathError),
    /// More than 8 informational responses (1xx) preceded the head of a response.
    Informational,
    /// No connection was made, so the upstream has seen nothing of the request.
    Connect(BodyError),
    /// No connection was made in the time of this limit.
    Slow {
        /// The name of the limit: `connect_timeout` or `tls_timeout`.
        limit: &'static str,
        /// How long it took.
        after: Duration,
    },
    /// The head of a response did not arrive in time.
    Late {
        /// The name of the limit: `first_byte_timeout` or `idle_timeout`.
        limit: &'static str,
        /// How long it took.
        after: Duration,
    },
    /// The connection ended without a byte of a response.
    Unanswered(ConnectionError),
    /// The request could not be sent, or the head of its response could not be read.
    Failed(ConnectionError),
}

/// Why a request or a response broke off.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The connection failed.
    Io(io::Error),
    /// The upstream has closed the connection before the end of the response.
    Closed,
    /// The response is not HTTP/1. The text is for people.
    Invalid(&'static str),
    /// The body of the request failed.
    Body(BodyError),
    /// The body of the request has another length than it announced.
    BodyLength,
}

impl ConnectionError {
    /// Returns whether the connection is at fault, and not the data sent over it.
    pub(super) fn is_of_connection(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Closed)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::Closed => {
                f.write_str("the upstream closed the connection before the end of its response")
            }
            Self::Invalid(words) => write!(f, "the response can't be read: {words}"),
            Self::Body(error) => with_sources(f, &**error),
            Self::BodyLength => {
                f.write_str("the request's body has another length than it announced")
            }
        }
    }
}

impl StdError for ConnectionError {}

impl From<ConnectionError> for Error {
    fn from(error: ConnectionError) -> Self {
        Self::Failed(error)
    }
}

impl Error {
    /// Returns whether there was no connection, or it was lost before the head of a response.
    pub fn is_of_connection(&self) -> bool {
        match self {
            Self::Unanswered(error) | Self::Failed(error) => error.is_of_connection(),
            error => error.is_connect(),
        }
    }

    /// Returns whether a time limit was exceeded.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::Slow { .. })
    }

    /// Returns whether no connection was made, so that the upstream has seen nothing of the
    /// request.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Slow { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoots(error) => {
                write!(f, "https needs the system's certificate roots: {error}")
            }
            Self::Setting(words) => f.write_str(words),
            Self::Foreign(uri) => {
                // The path and the query may hold secrets, and errors are logged.
                let host = uri
                    .authority()
                    .map_or("no host", |authority| authority.as_str());
                write!(f, "the request is for {host}, which is not the upstream")
            }
            Self::Path(error) => error.fmt(f),
            Self::Informational => write!(
                f,
                "more than {} informational responses came",
                MOST_INFORMATIONAL
            ),
            Self::Late { limit, after } => write!(
                f,
                "no answer came for {} s (`{limit}`)",
                after.as_secs_f64()
            ),
            Self::Slow { limit, after } => {
                write!(
                    f,
                    "no connection came about in {} s (`{limit}`)",
                    after.as_secs_f64()
                )
            }
            Self::Connect(error) => {
                with_sources(f, &**error)?;
                advice(&**error).map_or(Ok(()), |advice| write!(f, "; {advice}"))
            }
            Self::Unanswered(error) | Self::Failed(error) => error.fmt(f),
        }
    }
}

/// Writes an error with its sources: hyper's own messages are short and leave out the reason.
fn with_sources(f: &mut fmt::Formatter<'_>, error: &(dyn StdError + 'static)) -> fmt::Result {
    write!(f, "{error}")?;
    let mut source = error.source();
    while let Some(error) = source {
        write!(f, ": {error}")?;
        source = error.source();
    }
    Ok(())
}

/// Returns a hint for an untrusted certificate, if there is one.
fn advice(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return advice(error.get_ref()?);
    }
    let rustls::Error::InvalidCertificate(reason) = error.downcast_ref()? else {
        return None;
    };
    match reason {
        CertificateError::UnknownIssuer => {
            Some("if the certificate is of your own, name it or its CA as `ca_file`")
        }
        CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => Some(
            "a certificate that may sign others is none of a server: make one with `basicConstraints=CA:FALSE`",
        ),
        _ => None,
    }
}

impl StdError for Error {}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}
