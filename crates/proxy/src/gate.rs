//! Counts the open connections of clients and their unfinished bodies, and refuses more than the
//! limits allow.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use restitch::ServerLimits;

/// A client whose connections are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    /// All clients of one address.
    Address(IpAddr),
    /// All clients of a Unix socket. They have no address, and the file's permissions, not a count,
    /// control their access. So they share one count, as all clients of `127.0.0.1` do.
    Local,
}

/// Counts the connections of all clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Arc<Mutex<OpenPermits>>);

#[derive(Debug, Default)]
struct OpenPermits {
    all: usize,
    by_client: HashMap<Peer, usize>,
}

impl Gate {
    /// Counts one more connection of a client. The error names the limit that it would exceed.
    /// `needs_token`: requests need a token.
    pub(super) fn enter(
        &self,
        client: Peer,
        limits: &ServerLimits,
        needs_token: bool,
    ) -> Result<Permit, &'static str> {
        let mut open = self.0.lock();
        // The total is checked first, so that a full proxy adds no entry to the map.
        if open.all >= limits.max_connections {
            return Err(OF_ALL);
        }
        let of_client = open.by_client.entry(client).or_default();
        // Behind a gateway all clients have one address. A token shows that they are the operator's.
        let unset = (!needs_token).then_some(WITHOUT_TOKEN);
        let most = limits.max_connections_per_client.or(unset);
        if most.is_some_and(|most| *of_client >= most) {
            return Err(OF_CLIENT);
        }
        *of_client += 1;
        open.all += 1;
        Ok(Permit {
            gate: self.clone(),
            client,
        })
    }

    /// Returns the number of open connections.
    pub(super) fn open(&self) -> usize {
        self.0.lock().all
    }
}

/// The limits on connections.
pub(super) const LIMITS: [&str; 2] = [OF_ALL, OF_CLIENT];
const OF_ALL: &str = "max_connections";
const OF_CLIENT: &str = "max_connections_per_client";

// One client can't take all of `max_connections`.
/// The most connections of one client where requests need no token and no limit is set.
const WITHOUT_TOKEN: usize = 256;

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    gate: Gate,
    client: Peer,
}

impl Permit {
    /// Returns the client of the connection.
    pub(super) fn client(&self) -> Peer {
        self.client
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.gate.0.lock();
        open.all -= 1;
        if let Some(of_client) = open.by_client.get_mut(&self.client) {
            *of_client -= 1;
            // The map must not grow with every address that has ever connected.
            if *of_client == 0 {
                open.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use restitch::Limits;

    /// Returns how many connections of one client are admitted, up to 1,000.
    fn admitted(own: Option<usize>, needs_token: bool) -> usize {
        let mut limits = Limits::default().server;
        limits.max_connections_per_client = own;
        let gate = Gate::default();
        let enter = |_| gate.enter(Peer::Local, &limits, needs_token).ok();
        (0..1000).map_while(enter).collect::<Vec<_>>().len()
    }

    #[test]
    fn one_client_has_a_limit_unless_requests_need_a_token() {
        assert_eq!(admitted(None, false), WITHOUT_TOKEN);
        assert_eq!(admitted(None, true), 1000);
        for needs_token in [false, true] {
            assert_eq!(admitted(Some(300), needs_token), 300);
        }
    }
}
