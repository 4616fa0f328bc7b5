//! Limits of a client's connections.

use std::time::Duration;

/// How long a connection may take, and how many unused ones a client keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The time until a connection can begin TLS: the look-up of its name, TCP, and the answer of a
    /// proxy on the way. Default 5 s: usually a firewall has dropped a connection that takes longer.
    pub connect_timeout: Duration,
    /// The time for TLS. Default 10 s.
    pub tls_timeout: Duration,
    /// The most unused connections that a client keeps, for 50 s at most. Default 1,024: enough for a
    /// second wave of calls to reuse the connections of the first one, without new handshakes. 0:
    /// each call has a connection of its own.
    pub max_idle: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            tls_timeout: Duration::from_secs(10),
            max_idle: 1024,
        }
    }
}
