//! The address of the client, also behind trusted proxies.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;

use crate::address::TrustedProxy;
use crate::gate::Peer;

/// Returns the address of a request's client: the last hop that is not a trusted proxy. Each
/// trusted proxy has added the address of its own client at the end of `x-forwarded-for`; anything
/// before that may be forged. `None`: a client of a Unix socket.
pub(crate) fn address_of(
    peer: Peer,
    headers: &HeaderMap,
    trusted: &[TrustedProxy],
) -> Option<IpAddr> {
    let mut client = match peer {
        Peer::Address(address) => Some(address.to_canonical()),
        Peer::Local => None,
    };
    let is_trusted = |client| trusted.iter().any(|proxy| proxy.covers(client));
    if !is_trusted(client) {
        return client;
    }
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    let hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    for hop in hops {
        // A trusted proxy writes an address, so other text is not one of its hops.
        let Some(address) = address_in(hop.trim()) else {
            break;
        };
        client = Some(address);
        if !is_trusted(client) {
            break;
        }
    }
    client
}

/// Reads an address, with or without a port.
fn address_in(hop: &str) -> Option<IpAddr> {
    let address = hop.parse().ok();
    let address = address.or_else(|| hop.parse::<SocketAddr>().ok().map(|hop| hop.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_the_last_hop_that_is_not_a_trusted_proxy() {
        let client = |peer: &str, lines: &[&'static str], trusted: &[&str]| {
            let peer = peer.parse().map_or(Peer::Local, Peer::Address);
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            let trusted: Vec<_> = trusted.iter().map(|proxy| proxy.parse().unwrap()).collect();
            let address = address_of(peer, &headers, &trusted);
            address.map_or_else(String::new, |address| address.to_string())
        };
        let trusted = ["10.0.0.0/8", "fd00::/8"];
        for (peer, lines, trusted, expected) in [
            ("10.0.0.1", &["203.0.113.7"][..], &[][..], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.7"], &trusted, "203.0.113.7"),
            ("::ffff:10.0.0.1", &["203.0.113.7"], &trusted, "203.0.113.7"),
            ("192.0.2.1", &["203.0.113.7"], &trusted, "192.0.2.1"),
            // A client has forged the first hop.
            (
                "10.0.0.1",
                &["1.1.1.1, 203.0.113.7"],
                &trusted,
                "203.0.113.7",
            ),
            (
                "10.0.0.1",
                &["203.0.113.7, 10.2.3.4"],
                &trusted,
                "203.0.113.7",
            ),
            (
                "10.0.0.1",
                &["203.0.113.7", "fd00::5"],
                &trusted,
                "203.0.113.7",
            ),
            ("10.0.0.1", &["10.9.9.9"], &trusted, "10.9.9.9"),
            ("10.0.0.1", &["203.0.113.7:443"], &trusted, "203.0.113.7"),
            ("10.0.0.1", &["[2001:db8::1]:443"], &trusted, "2001:db8::1"),
            ("10.0.0.1", &["203.0.113.7, unknown"], &trusted, "10.0.0.1"),
            ("10.0.0.1", &[], &trusted, "10.0.0.1"),
            ("unix", &["203.0.113.7"], &trusted, ""),
            ("unix", &["203.0.113.7"], &["unix"], "203.0.113.7"),
        ] {
            assert_eq!(client(peer, lines, trusted), expected, "{peer} {lines:?}");
        }
    }
}
