//! The proxy's own certificate, and the handshake with a client.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use rustls::ServerConfig;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::listener::Transport;
use crate::client::{Error, tls};

/// The certificate with which a proxy answers TLS, and its key. Clients get HTTP/1.1. Clones are the same: a certificate that is
/// [read again](super::Reloader::reload) is that of all of them.
#[derive(Clone)]
pub struct ServerTls {
    /// The certificate's and the key's, as they were at the start.
    pub(super) files: (PathBuf, PathBuf),
    current: Arc<Mutex<TlsAcceptor>>,
}

/// What a handshake needs of the files.
pub(super) struct Certificate(TlsAcceptor);

impl ServerTls {
    /// Reads the files, which are in PEM. `cert` also has the certificates that lead to its root.
    ///
    /// # Errors
    /// A file can't be read, does not hold what it should, or the key is not that of the certificate. The error names the
    /// file.
    pub fn from_files(cert: &Path, key: &Path) -> Result<Self, Error> {
        let Certificate(current) = Certificate::read(cert, key)?;
        Ok(Self { files: (cert.to_owned(), key.to_owned()), current: Arc::new(Mutex::new(current)) })
    }

    /// Answers the next handshakes with another certificate.
    pub(super) fn replace(&self, certificate: Certificate) {
        *self.current() = certificate.0;
    }

    /// Each change is one assignment, which a panic elsewhere can't leave half done.
    fn current(&self) -> MutexGuard<'_, TlsAcceptor> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes TLS of a client's bytes, in a limited time.
    pub(super) async fn handshake(&self, stream: Transport, limit: Duration) -> io::Result<Transport> {
        // hyper takes bytes that wait here for sent, so only a few may wait.
        let acceptor = self.current().clone();
        let accepting = acceptor.accept_with(stream, |session| session.set_buffer_limit(Some(MAX_ENCODED)));
        Ok(Box::new(timeout(limit, accepting).await??))
    }
}

impl Certificate {
    pub(super) fn read(cert: &Path, key: &Path) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Setting(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(tls::certificates(cert)?, tls::private_key(key)?)
            .map_err(|error| Error::Setting(format!("{} and {}: {error}", cert.display(), key.display())))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

/// Bytes of TLS that wait for a client: a record. A client that takes less of them within
/// [`write_timeout`](crate::ServerLimits::write_timeout) counts as one that reads nothing.
const MAX_ENCODED: usize = 16 << 10;
