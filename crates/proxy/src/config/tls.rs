//! Reads and writes `[tls]`: which servers are trusted, and how the program identifies itself to
//! them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Files in PEM for connections to an `https` upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Tls {
    /// Certificates that are trusted in addition to the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The client's certificate, and those that lead to its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    /// The private key of the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
}
