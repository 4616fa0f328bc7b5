//! The proxy's own certificate, the handshake with a client, and the reason for a failed one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::listener::Transport;
use super::metrics::{Metrics, OTHER};
use restitch_http::{Error, Expiry, Role, tls};

/// The certificate with which a proxy answers TLS, and its key. Clients get HTTP/1.1. Clones share
/// the certificate: a [reload](super::Reloader::reload) replaces it in all of them.
#[derive(Clone)]
pub struct ServerTls {
    /// The paths of the certificate and the key at the start.
    pub(super) files: (PathBuf, PathBuf),
    current: Arc<Mutex<Certificate>>,
}

/// The parsed content of the files.
pub(super) struct Certificate {
    acceptor: TlsAcceptor,
    expiry: Expiry,
}

impl ServerTls {
    /// Reads the files, which are in PEM. `cert` also has the certificates that lead to its root.
    ///
    /// # Errors
    /// A file can't be read or parsed, or the key does not belong to the certificate. The error
    /// names the file.
    pub fn from_files(cert: &Path, key: &Path) -> Result<Self, Error> {
        let current = Certificate::read(cert, key)?;
        Ok(Self {
            files: (cert.to_owned(), key.to_owned()),
            current: Arc::new(Mutex::new(current)),
        })
    }

    /// Uses another certificate for the next handshakes.
    pub(super) fn replace(&self, certificate: Certificate) {
        *self.current.lock() = certificate;
    }

    /// Returns when the first certificate of its file expires.
    pub fn expiry(&self) -> Expiry {
        self.current.lock().expiry.clone()
    }

    /// Performs the TLS handshake with a client, within a time limit.
    pub(super) async fn handshake(
        &self,
        stream: Transport,
        limit: Duration,
    ) -> io::Result<Transport> {
        // hyper counts the bytes in this buffer as sent, so the buffer is small.
        let acceptor = self.current.lock().acceptor.clone();
        let accepting = acceptor.accept_with(stream, |session| {
            session.set_buffer_limit(Some(MAX_ENCODED));
        });
        Ok(Box::new(timeout(limit, accepting).await??))
    }
}

impl Certificate {
    pub(super) fn read(cert: &Path, key: &Path) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = tls::certificates(cert)?;
        let expiry = Expiry::of(Role::Server, cert, &chain);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Setting(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, tls::private_key(key)?)
            .map_err(|error| {
                Error::Setting(format!("{} and {}: {error}", cert.display(), key.display()))
            })?;
        // A client that takes HTTP/2 alone is refused here, and not by bytes that it can't read.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            expiry,
        })
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

/// Logs and counts a handshake that has failed.
pub(super) fn report_failure(error: &io::Error, metrics: Option<&Metrics>) {
    let reason = reason_of(error);
    if let Some(metrics) = metrics {
        metrics.requests.handshakes.of([reason]).inc();
    }
    match reason {
        // Port scanners and health checks of load balancers connect and leave again and again.
        LEFT => tracing::debug!(reason, %error, "a TLS handshake failed"),
        _ => tracing::info!(reason, %error, "a TLS handshake failed"),
    }
}

/// Returns why a handshake failed.
fn reason_of(error: &io::Error) -> &'static str {
    match error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<rustls::Error>())
    {
        // Usually the client does not trust the certificate.
        Some(rustls::Error::AlertReceived(_)) => "refused",
        // Usually the client has sent plain HTTP.
        Some(rustls::Error::InvalidMessage(_)) => "not_tls",
        Some(rustls::Error::PeerIncompatible(_) | rustls::Error::NoApplicationProtocol) => {
            "incompatible"
        }
        Some(_) => OTHER,
        None => match error.kind() {
            io::ErrorKind::TimedOut => HANDSHAKE_TIMEOUT,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => LEFT,
            _ => OTHER,
        },
    }
}

/// All reasons for a failed handshake.
pub(super) const REASONS: [&str; 6] = [
    "refused",
    "not_tls",
    "incompatible",
    LEFT,
    HANDSHAKE_TIMEOUT,
    OTHER,
];
/// The reason of a handshake whose client has left.
const LEFT: &str = "left";
/// The name of the time limit for a handshake.
const HANDSHAKE_TIMEOUT: &str = "handshake_timeout";

/// The TLS buffer for a client, in bytes: one record. A client that reads less than that within
/// [`write_timeout`](restitch::ServerLimits::write_timeout) counts as one that reads nothing.
const MAX_ENCODED: usize = 16 << 10;
