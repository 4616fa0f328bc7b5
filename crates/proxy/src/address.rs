//! Addresses to listen on, as the command line and the configuration file write them. Opens no
//! sockets.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use restitch_http::{Upstream, UpstreamError};

/// An address to listen on. [`FromStr`] reads what [`Display`](fmt::Display) writes.
///
/// ```
/// use restitch_proxy::address::ListenAddress;
///
/// assert_eq!("localhost:7378".parse(), Ok(ListenAddress::Localhost(7378)));
/// assert_eq!(":7378".parse(), Ok(ListenAddress::Any(7378)));
/// assert_eq!("unix:/run/llm.sock".parse(), Ok(ListenAddress::Unix("/run/llm.sock".into())));
/// assert!("llm.example:7378".parse::<ListenAddress>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// One IP address and a port: `127.0.0.1:7378`, `[::1]:7378`.
    Tcp(SocketAddr),
    /// The loopback addresses of IPv4 and IPv6: `localhost:7378`. The name is not looked up.
    Localhost(u16),
    /// All addresses of the machine, of IPv4 and IPv6: `:7378`.
    Any(u16),
    /// A Unix socket: `unix:/path/to.sock`.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        if let Some(path) = written.strip_prefix("unix:") {
            let path = Some(path).filter(|path| !path.is_empty() && !path.ends_with('/'));
            return path
                .map(|path| Self::Unix(path.into()))
                .ok_or_else(|| format!("`{written}` names no file"));
        }
        if let Some((host @ ("" | "localhost"), port)) = written.rsplit_once(':') {
            let port = port
                .parse()
                .map_err(|_| format!("`{port}` is no port: there are 0 to 65535"))?;
            return Ok(if host.is_empty() {
                Self::Any(port)
            } else {
                Self::Localhost(port)
            });
        }
        written.parse().map(Self::Tcp).map_err(|_| {
            format!(
                "`{written}` is no address to listen on: write `127.0.0.1:7378`, `[::1]:7378`, `localhost:7378`, `:7378` \
                 or `unix:/path/to.sock`"
            )
        })
    }
}

/// Parses the address of an upstream, also as the full URL of an endpoint, which providers document:
/// the endpoint is left out.
///
/// ```
/// use restitch_proxy::address::upstream;
///
/// let upstream = upstream("https://llm.example/api/v1/chat/completions")?;
/// assert_eq!(upstream.uri_for("/v1/chat/completions")?, "https://llm.example/api/v1/chat/completions");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`Upstream::parse`].
pub fn upstream(url: &str) -> Result<Upstream, UpstreamError> {
    let url = url.trim_end_matches('/');
    let base = ENDPOINTS.iter().find_map(|path| url.strip_suffix(path));
    Upstream::parse(base.unwrap_or(url))
}

/// The paths of the APIs after the base URL of their clients.
const ENDPOINTS: [&str; 7] = [
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/api/chat",
    "/api/generate",
    "/v2/chat",
];

/// Reads the address of a listener that has one socket: `127.0.0.1:7379`, `localhost:7379`
/// (loopback, IPv4) or `:7379` (all addresses of the machine, IPv4).
///
/// # Errors
/// The text is no such address, with what to write.
pub fn one_socket(written: &str) -> Result<SocketAddr, String> {
    match written.parse() {
        Ok(ListenAddress::Tcp(address)) => Ok(address),
        Ok(ListenAddress::Localhost(port)) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Ok(ListenAddress::Any(port)) => Ok((Ipv4Addr::UNSPECIFIED, port).into()),
        Ok(ListenAddress::Unix(_)) | Err(_) => Err(format!(
            "`{written}` is no address of one socket: write `127.0.0.1:7379`, `localhost:7379` or `:7379`"
        )),
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Localhost(port) => write!(f, "localhost:{port}"),
            Self::Any(port) => write!(f, ":{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A proxy in front of this one whose `x-forwarded-for` is believed. [`FromStr`] reads what
/// [`Display`](fmt::Display) writes.
///
/// ```
/// use restitch_proxy::address::TrustedProxy;
///
/// let proxy: TrustedProxy = "10.0.0.0/8".parse()?;
/// assert!(proxy.covers(Some([10, 1, 2, 3].into())) && !proxy.covers(None));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedProxy {
    /// All addresses of a network: `10.0.0.0/8`, or a single address.
    Network(IpNet),
    /// All clients of a Unix socket: `unix`.
    Unix,
}

impl TrustedProxy {
    /// Returns whether a client is such a proxy. `None`: the client of a Unix socket.
    pub fn covers(&self, client: Option<IpAddr>) -> bool {
        match (self, client) {
            (Self::Network(network), Some(client)) => network.contains(&client),
            (Self::Unix, None) => true,
            _ => false,
        }
    }
}

impl FromStr for TrustedProxy {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        if written == UNIX {
            return Ok(Self::Unix);
        }
        let network = written.parse().ok();
        let network = network.or_else(|| written.parse::<IpAddr>().ok().map(IpNet::from));
        network.map(Self::Network).ok_or_else(|| {
            format!("`{written}` is not a network: write `10.0.0.0/8`, `fd00::/8`, `192.0.2.1` or `unix`")
        })
    }
}

impl fmt::Display for TrustedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => network.fmt(f),
            Self::Unix => f.write_str(UNIX),
        }
    }
}

/// The name of all clients of a Unix socket.
const UNIX: &str = "unix";

/// Who may connect to a Unix socket: the permissions of its file, in octal. Default: `0600`, its
/// owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(u32);

impl SocketMode {
    /// Returns the permissions as the system takes them.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl Default for SocketMode {
    fn default() -> Self {
        Self(0o600)
    }
}

impl FromStr for SocketMode {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        // `from_str_radix` accepts a sign.
        let is_octal = (3..=4).contains(&written.len())
            && written.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        let mode = u32::from_str_radix(written, 8)
            .ok()
            .filter(|mode| is_octal && *mode <= 0o777);
        mode.map(Self)
            .ok_or_else(|| format!("`{written}` is no mode of a socket: write `0600` or `0660`"))
    }
}

impl fmt::Display for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}
