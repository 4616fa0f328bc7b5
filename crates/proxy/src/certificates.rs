//! Reports in the log and in the metrics when certificates expire.

use std::time::SystemTime;

use super::Proxy;
use super::tls::ServerTls;
use restitch_http::{Client, Expiry};

/// Warns of certificates that have expired or expire soon, and records the expiry of each role in
/// the metrics.
pub(super) fn check(proxy: &Proxy, tls: Option<&ServerTls>) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the proxy does I/O: certificates are compared with the clock"
    )]
    let now = SystemTime::now();
    let server = tls.map(ServerTls::expiry);
    let mut expiries: Vec<&Expiry> = Vec::new();
    // Most upstreams share the same files, so each expiry is listed once.
    for expiry in server
        .iter()
        .chain(proxy.routes.clients().flat_map(Client::expiries))
    {
        if !expiries.contains(&expiry) {
            expiries.push(expiry);
        }
    }
    for expiry in &expiries {
        if let Some(warning) = expiry.validity(now).warning() {
            let expires = expiry.at.map(httpdate::fmt_http_date);
            tracing::warn!(certificate = %expiry.role, file = %expiry.file.display(), expires, "{warning}");
        }
    }
    proxy
        .shared
        .metrics
        .iter()
        .for_each(|metrics| metrics.certificates(&expiries));
}
