//! Tells the operator when certificates expire, in the log and in the metrics.

use std::iter::once;
use std::time::SystemTime;

use super::Proxy;
use super::tls::ServerTls;
use crate::client::{Client, Expiry};

/// Warns of the certificates that have expired or expire soon, and shows when all of them do.
pub(super) fn check(proxy: &Proxy, tls: Option<&ServerTls>) {
    #[expect(clippy::disallowed_methods, reason = "the proxy does I/O: certificates are compared with the clock")]
    let now = SystemTime::now();
    let routes = once(&proxy.base).chain(&proxy.routes);
    let clients =
        routes.flat_map(|route| once(&route.client).chain(route.fallbacks.iter().map(|fallback| &fallback.client)));
    let server = tls.map(ServerTls::expiry);
    let mut expiries: Vec<&Expiry> = Vec::new();
    // Upstreams mostly have the same files.
    for expiry in server.iter().chain(clients.flat_map(Client::expiries)) {
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
    proxy.shared.metrics.iter().for_each(|metrics| metrics.note_certificates(&expiries));
}
