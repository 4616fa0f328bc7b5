//! The certificates that an `https` upstream needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::Error;
use super::{Expiry, Role};

/// Files in PEM: additional root certificates for an `https` upstream, and the client's own
/// certificate.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Certificates that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate, and those that lead to its root.
    pub client_cert: Option<PathBuf>,
    /// The private key of the client's certificate.
    pub client_key: Option<PathBuf>,
}

impl TlsFiles {
    /// Returns whether a file is named.
    pub(super) fn is_named(&self) -> bool {
        self.ca_file.is_some() || self.client_cert.is_some() || self.client_key.is_some()
    }

    /// Reads the files as a client does. Returns when the certificates in them expire.
    ///
    /// # Errors
    /// As [`Client::with_tls`](super::Client::with_tls) has for files.
    pub fn check(&self) -> Result<Vec<Expiry>, Error> {
        if self.is_named() {
            config(self)?;
        }
        self.expiries()
    }

    /// Returns when the certificates in the files expire.
    pub(super) fn expiries(&self) -> Result<Vec<Expiry>, Error> {
        let files = [(Role::Client, &self.client_cert), (Role::Ca, &self.ca_file)];
        let named = files
            .into_iter()
            .filter_map(|(role, file)| Some((role, file.as_deref()?)));
        named
            .map(|(role, file)| Ok(Expiry::of(role, file, &certificates(file)?)))
            .collect()
    }
}

/// Returns the configuration of TLS. Sessions are resumed.
pub(super) fn config(files: &TlsFiles) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Setting(error.to_string()))?
        .with_root_certificates(roots(files)?);
    match (&files.client_cert, &files.client_key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates(cert)?, private_key(key)?)
            .map_err(|error| {
                Error::Setting(format!("{} and {}: {error}", cert.display(), key.display()))
            }),
        (Some(_), None) => Err(Error::Setting(
            "a client certificate needs its key: set `client_key`, too".to_owned(),
        )),
        (None, Some(_)) => Err(Error::Setting(
            "a client key needs its certificate: set `client_cert`, too".to_owned(),
        )),
    }
}

/// Returns the system's roots and those of `ca_file`.
fn roots(files: &TlsFiles) -> Result<RootCertStore, Error> {
    // The loader takes a file that it cannot read for one without certificates.
    if let Some(file) = std::env::var_os("SSL_CERT_FILE") {
        certificates(Path::new(&file))
            .map_err(|error| Error::Setting(format!("SSL_CERT_FILE: {error}")))?;
    }
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Some systems have roots that rustls can't read. The other roots must stay usable.
    roots.add_parsable_certificates(found.certs);
    if let Some(file) = &files.ca_file {
        for certificate in certificates(file)? {
            let added = roots.add(certificate);
            added.map_err(|error| Error::Setting(format!("{}: {error}", file.display())))?;
        }
    }
    if roots.is_empty() {
        let reason = found
            .errors
            .first()
            .map_or_else(|| "there are none".to_owned(), ToString::to_string);
        return Err(Error::NoRoots(io::Error::new(
            io::ErrorKind::NotFound,
            reason,
        )));
    }
    Ok(roots)
}

/// Reads all certificates of a file. One without any is an error.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates = CertificateDer::pem_slice_iter(&read(file)?).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(Error::Setting(format!(
            "{} has no certificate in PEM",
            file.display()
        ))),
        Err(error) => Err(no_pem(file, &error)),
    }
}

/// Reads the first private key of a file.
pub fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|error| no_pem(file, &error))
}

/// Describes an error in a file: the error itself prints lines as lists of numbers.
fn no_pem(file: &Path, error: &pem::Error) -> Error {
    let reason = match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            let label = String::from_utf8_lossy(end_marker);
            format!("the block `{label}` is not ended: the line `-----END {label}-----` is missing")
        }
        pem::Error::IllegalSectionStart { .. } => {
            "a line that begins with `-----BEGIN` does not end with `-----`".to_owned()
        }
        pem::Error::NoItemsFound => "there is no private key in PEM".to_owned(),
        error => error.to_string(),
    };
    Error::Setting(format!("{}: {reason}", file.display()))
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    fs::read(file).map_err(|error| Error::Setting(format!("{}: {error}", file.display())))
}
