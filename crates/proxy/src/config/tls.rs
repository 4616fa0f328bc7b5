//! Reads and writes `[tls]`: which servers are trusted, and how the program identifies itself to
//! them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Files in PEM for connections to an `https` upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TlsConfig {
    /// Certificates in PEM that are trusted in addition to the system's. For an upstream of your
    /// own.
    pub ca_file: Option<PathBuf>,
    /// The proxy's own certificate, with its chain, in PEM. For an upstream that asks for one.
    pub client_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    pub client_key: Option<PathBuf>,
}
