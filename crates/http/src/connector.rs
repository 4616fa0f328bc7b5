//! Makes connections to the upstream: directly or through a proxy of the environment.
//!
//! `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case, are read once, when a
//! client is created. An upstream on this machine is always reached directly.

use std::env;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;
use tower_service::Service;

use super::connection::Connection;
use super::tls::{self, TlsFiles};
use super::{ConnectionLimits, Error, Upstream, is_host_and_port};

/// Makes connections: with TLS or without, so that `http` never loads certificate roots.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    tcp: HttpConnector,
    /// The proxy that is asked with `CONNECT`, also for an `http` upstream.
    proxy: Option<Intercept>,
    /// `None`: the upstream has no TLS.
    tls: Option<Arc<ClientConfig>>,
    limits: ConnectionLimits,
}

impl Connector {
    pub(super) fn new(upstream: &Upstream, files: &TlsFiles) -> Result<Self, Error> {
        // Named files are read even for an upstream without TLS, so that a mistake in them shows at
        // the start.
        let tls = if upstream.is_https() || files.is_named() {
            Some(Arc::new(tls::config(files)?))
        } else {
            None
        };
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        // It gets `https` addresses, too.
        tcp.enforce_http(false);
        let limits = ConnectionLimits::default();
        let connector = Self {
            tcp,
            proxy: proxy_of(upstream)?,
            tls: tls.filter(|_| upstream.is_https()),
            limits,
        };
        Ok(connector.limited(limits))
    }

    /// Returns the same with other times.
    pub(super) fn limited(mut self, limits: ConnectionLimits) -> Self {
        self.tcp.set_connect_timeout(Some(limits.connect_timeout));
        Self { limits, ..self }
    }

    /// Connects to the host of an address.
    pub(super) async fn connect(&self, address: Uri) -> Result<Connection, Error> {
        let host = address.host().unwrap_or_default();
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
        let tcp = self.open(address);
        let tcp = within("connect_timeout", self.limits.connect_timeout, tcp).await?;
        let Some(tls) = &self.tls else {
            return Ok(Connection::new(Box::new(Either::Left(tcp))));
        };
        let name = name.map_err(|error| Error::Connect(error.into()))?;
        let tls = TlsConnector::from(Arc::clone(tls)).connect(name, tcp);
        let tls = async { Ok(tls.await?) };
        let tls = within("tls_timeout", self.limits.tls_timeout, tls).await?;
        Ok(Connection::new(Box::new(Either::Right(tls))))
    }

    async fn open(&self, uri: Uri) -> Result<TcpStream, BoxError> {
        let mut connector = self.tcp.clone();
        let Some(proxy) = &self.proxy else {
            return Ok(connector.call(uri).await?.into_inner());
        };
        let mut tunnel = Tunnel::new(proxy.uri().clone(), connector);
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        Ok(tunnel.call(with_port(uri)).await?.into_inner())
    }
}

/// Waits for a step of a connection, for the time of a limit.
async fn within<T>(
    limit: &'static str,
    most: Duration,
    step: impl Future<Output = Result<T, BoxError>>,
) -> Result<T, Error> {
    let began = Instant::now();
    match timeout(most, step).await {
        Ok(Ok(done)) => Ok(done),
        // The connector has divided the same time among the addresses of a name.
        Ok(Err(error)) if began.elapsed() < most => Err(Error::Connect(error)),
        _ => Err(Error::Slow { limit, after: most }),
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the proxy that the environment names for an upstream.
fn proxy_of(upstream: &Upstream) -> Result<Option<Intercept>, Error> {
    if is_local(upstream.host()) {
        return Ok(None);
    }
    // The path does not matter here; `/` has no dot segment.
    let uri = upstream.uri_for("/")?;
    check_variables(&uri, upstream.is_https())?;
    let proxy = Matcher::from_env().intercept(&uri);
    let scheme = proxy.as_ref().map(|proxy| proxy.uri().scheme_str());
    match scheme.map(Option::unwrap_or_default) {
        None | Some("http") => Ok(proxy),
        Some(scheme) => Err(Error::Setting(format!(
            "the environment names a proxy with `{scheme}://`: only `http://` proxies are used"
        ))),
    }
}

/// Fails if a variable of the environment names no proxy, though it is not empty: [`Matcher`] would
/// ignore it. The error has the variable's name and not its value, which may have a password.
fn check_variables(upstream: &Uri, is_https: bool) -> Result<(), Error> {
    let of_scheme = if is_https {
        ["HTTPS_PROXY", "https_proxy"]
    } else {
        ["HTTP_PROXY", "http_proxy"]
    };
    for names in [of_scheme, ["ALL_PROXY", "all_proxy"]] {
        // Of two the matcher reads the first.
        let Some((name, value)) = names
            .iter()
            .find_map(|name| Some((name, env::var_os(name)?)))
        else {
            continue;
        };
        if value.is_empty() {
            continue;
        }
        let alone = value
            .to_str()
            .and_then(|value| Matcher::builder().all(value).build().intercept(upstream));
        if !alone.is_some_and(|proxy| proxy.uri().authority().is_some_and(is_host_and_port)) {
            return Err(Error::Setting(format!(
                "`{name}` names no proxy: set it to `http://host:port`, or unset it"
            )));
        }
        // The other pair is not read then.
        break;
    }
    Ok(())
}

/// Returns whether a host is this machine.
fn is_local(host: &str) -> bool {
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Returns an `http` address with its port. The tunnel takes 443 for any address without one.
fn with_port(uri: Uri) -> Uri {
    if uri.scheme_str() != Some("http") || uri.port().is_some() {
        return uri;
    }
    let with_port = uri
        .host()
        .and_then(|host| format!("http://{host}:80/").parse().ok());
    with_port.unwrap_or(uri)
}

/// Silence after which the kernel checks whether the peer is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
