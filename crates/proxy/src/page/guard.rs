//! Guards the page and the metrics against requests that another site makes a browser send.

use std::net::{IpAddr, SocketAddr};

use http::header::{HeaderMap, HeaderName, HeaderValue, ORIGIN};
use http::uri::Authority;
use http::{Method, Request, StatusCode};

use crate::access::{FETCH_SITE, is_listed, named_host};
use crate::refusal::Refusal;

/// Checks requests of the admin listener.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Guard<'a> {
    /// The address of the listener.
    pub(in super::super) bound: SocketAddr,
    /// The operator's other host names for the listener, with or without a port.
    pub(in super::super) hosts: &'a [String],
}

impl Guard<'_> {
    pub(in super::super) fn admit<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let host = named_host(request.headers()).ok().flatten();
        let host = host.filter(|host| self.knows(host)).ok_or(HOST_REFUSED)?;
        if !is_own(request.headers(), &host) {
            return Err(SITE_REFUSED);
        }
        // A browser lets another site send this header only if the listener allows it by CORS,
        // which it never does.
        if request.method() == Method::POST && !request.headers().contains_key(OWN_HEADER) {
            return Err(HEADER_MISSING);
        }
        Ok(())
    }

    /// Returns whether a host is one of this listener's. Refuses DNS rebinding: a page whose host
    /// name resolves to this address sends that name, but never an IP address.
    fn knows(&self, host: &Authority) -> bool {
        let name = host.host();
        let literal = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .unwrap_or(name);
        match literal.parse::<IpAddr>() {
            Ok(ip) => {
                let bound = self.bound.ip().to_canonical();
                bound.is_unspecified()
                    || ip.to_canonical() == bound
                    || ip.to_canonical().is_loopback()
                    || is_listed(host, self.hosts)
            }
            Err(_) => name.eq_ignore_ascii_case("localhost") || is_listed(host, self.hosts),
        }
    }
}

/// Returns whether the request comes from the page itself, from a typed address, or from a program
/// that is not a browser.
fn is_own(headers: &HeaderMap, host: &Authority) -> bool {
    let is_host = |origin: &HeaderValue| {
        let origin = origin.to_str().unwrap_or_default();
        let name = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        name.is_some_and(|name| name.eq_ignore_ascii_case(host.as_str()))
    };
    // `none`: a person typed the address.
    let is_same = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    headers.get_all(ORIGIN).iter().all(is_host) && headers.get_all(FETCH_SITE).iter().all(is_same)
}

const HOST_REFUSED: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "host_refused",
    "the page and the metrics are shown at the listener's own address, at localhost, and at `admin_hosts` of the proxy",
);
const SITE_REFUSED: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "site_refused",
    "another site sends this request: open the page itself",
);
const HEADER_MISSING: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "header_missing",
    "send the header `x-restitch-page: 1` with what changes something",
);
const OWN_HEADER: HeaderName = HeaderName::from_static("x-restitch-page");

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(bound: &str, host: &str) -> bool {
        let hosts = ["ops.example".to_owned(), "box:7379".to_owned()];
        Guard {
            bound: bound.parse().unwrap(),
            hosts: &hosts,
        }
        .knows(&host.parse().unwrap())
    }

    #[test]
    fn names_that_others_choose_are_not_known() {
        for host in [
            "127.0.0.1:7379",
            "127.0.0.9",
            "[::1]:7379",
            "localhost:1",
            "LOCALHOST",
            "ops.example:80",
            "box:7379",
        ] {
            assert!(knows("127.0.0.1:7379", host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.7",
            "box:1",
            "localhost.",
        ] {
            assert!(!knows("127.0.0.1:7379", host), "{host}");
        }
        assert!(knows("192.0.2.7:7379", "192.0.2.7:7379") && !knows("192.0.2.7:7379", "192.0.2.8"));
        assert!(knows("0.0.0.0:7379", "192.0.2.7:7379") && !knows("0.0.0.0:7379", "evil.example"));
    }
}
