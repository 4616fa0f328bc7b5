//! When certificates expire.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use strum::{Display, IntoStaticStr};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// When the first of a file's certificates expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The use of the certificates.
    pub role: Role,
    /// Their file.
    pub file: PathBuf,
    /// `None`: at least one expiry can't be read.
    pub at: Option<SystemTime>,
}

/// The use of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// The proxy shows it to its clients.
    Server,
    /// The proxy shows it to upstreams.
    Client,
    /// The proxy trusts upstreams whose certificates lead to it.
    Ca,
}

/// Whether certificates are valid at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// They are, and stay so for a while.
    Valid,
    /// A certificate expires soon.
    EndsSoon,
    /// A certificate has expired.
    Expired,
    /// A certificate's expiry is unknown.
    Unknown,
}

impl Expiry {
    /// Reads when the first of the certificates in a file expires.
    pub fn of(role: Role, file: &Path, certificates: &[CertificateDer<'_>]) -> Self {
        let ends = certificates.iter().map(end_of).collect::<Option<Vec<_>>>();
        Self {
            role,
            file: file.to_owned(),
            at: ends.and_then(|ends| ends.into_iter().min()),
        }
    }

    /// Returns whether the certificates are valid.
    pub fn validity(&self, now: SystemTime) -> Validity {
        match self.at {
            None => Validity::Unknown,
            Some(at) if at < now => Validity::Expired,
            Some(at) if at < now + SOON => Validity::EndsSoon,
            Some(_) => Validity::Valid,
        }
    }
}

/// Returns the last moment at which a certificate is valid.
fn end_of(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let end = certificate
        .tbs_certificate()
        .validity()
        .not_after
        .to_unix_duration();
    SystemTime::UNIX_EPOCH.checked_add(end)
}

impl Role {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Server, Self::Client, Self::Ca];

    /// Returns the name in the log and in the metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Validity {
    /// Returns the warning for the operator. `None`: there is no warning.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Valid => None,
            Self::EndsSoon => Some("a certificate expires soon"),
            Self::Expired => Some("a certificate has expired"),
            Self::Unknown => Some("the expiry of a certificate can't be read"),
        }
    }
}

/// How long before its end a certificate expires soon. Programs renew certificates of 90 days 30
/// days before their end, and those of 45 days 15 days before: one that is still here has not been
/// renewed.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::certificates;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../cli/tests/it/tls")
            .join(name)
    }

    fn of(names: &[&str]) -> Expiry {
        let all = names
            .iter()
            .flat_map(|name| certificates(&file(name)).unwrap())
            .collect::<Vec<_>>();
        Expiry::of(Role::Server, Path::new("x.pem"), &all)
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// 3 February 2021, 04:05:06 UTC.
    const EXPIRED: u64 = 1_612_325_106;

    #[test]
    fn the_first_certificate_that_expires_counts() {
        assert_eq!(of(&["expired.pem"]).at, Some(at(EXPIRED)));
        // 30 October 2126, 15:18:39 and 15:18:38 UTC: from 2050 on certificates write years in
        // another format.
        assert_eq!(of(&["server.pem"]).at, Some(at(4_949_047_119)));
        assert_eq!(of(&["server.pem", "ca.pem"]).at, Some(at(4_949_047_118)));
        assert_eq!(
            of(&["server.pem", "expired.pem", "ca.pem"]).at,
            Some(at(EXPIRED))
        );
        let unread = [CertificateDer::from(vec![0x30, 0x00])];
        assert_eq!(Expiry::of(Role::Ca, Path::new("x.pem"), &unread).at, None);
    }

    #[test]
    fn a_certificate_is_reported_two_weeks_before_its_end() {
        let (expiry, day) = (of(&["expired.pem"]), 24 * 60 * 60);
        for (now, validity) in [
            (EXPIRED - 15 * day, Validity::Valid),
            (EXPIRED - 14 * day, Validity::Valid),
            (EXPIRED - 14 * day + 1, Validity::EndsSoon),
            (EXPIRED, Validity::EndsSoon),
            (EXPIRED + 1, Validity::Expired),
        ] {
            assert_eq!(expiry.validity(at(now)), validity, "{now}");
        }
        assert_eq!(
            Expiry { at: None, ..expiry }.validity(at(0)),
            Validity::Unknown
        );
    }
}
