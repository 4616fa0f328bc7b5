//! Makes connections to the upstream: directly or through a proxy of the environment.
//!
//! `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case, are read once, when a client is created. An
//! upstream on this machine is always reached directly.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::connection::Connection;
use super::tls::{self, TlsFiles};
use super::{Error, Upstream};

/// Makes connections: one kind for each scheme, so that `http` never loads certificate roots.
#[derive(Clone, Debug)]
pub(super) enum Connector {
    Plain(Tcp),
    Tls(HttpsConnector<Tcp>),
}

impl Connector {
    pub(super) fn new(upstream: &Upstream, files: &TlsFiles) -> Result<Self, Error> {
        let tcp = Tcp::new(upstream)?;
        if !upstream.is_https() {
            return Ok(Self::Plain(tcp));
        }
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls::config(files)?);
        Ok(Self::Tls(builder.https_only().enable_http1().wrap_connector(tcp)))
    }

    /// Connects to the host of an address.
    pub(super) async fn connect(&self, address: Uri) -> Result<Connection, Error> {
        let connecting = async {
            match self.clone() {
                Self::Plain(mut connector) => connector.call(address).await.map(MaybeHttpsStream::Http),
                Self::Tls(mut connector) => connector.call(address).await,
            }
        };
        let io = timeout(CONNECT + HANDSHAKE, connecting).await.unwrap_or_else(|_| Err(SLOW.into()));
        Ok(Connection::new(Box::new(io.map_err(Error::Connect)?)))
    }
}

/// Opens TCP connections to the upstream.
#[derive(Clone, Debug)]
pub(super) enum Tcp {
    Direct(HttpConnector),
    /// Through a proxy that is asked with `CONNECT`, also for an `http` upstream.
    Tunnel(Tunnel<HttpConnector>),
}

impl Tcp {
    /// Reads the environment for a proxy.
    fn new(upstream: &Upstream) -> Result<Self, Error> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_keepalive(Some(KEEP_ALIVE));
        // The TLS connector passes it `https` addresses.
        connector.enforce_http(false);
        if is_local(upstream.host()) {
            return Ok(Self::Direct(connector));
        }
        // The path does not matter, and a prefix is no dot segment.
        let Some(proxy) = upstream.uri_for("/").ok().and_then(|uri| Matcher::from_env().intercept(&uri)) else {
            return Ok(Self::Direct(connector));
        };
        if proxy.uri().scheme_str() != Some("http") {
            let scheme = proxy.uri().scheme_str().unwrap_or_default();
            let words = format!("the environment names a proxy with `{scheme}://`: only `http://` proxies are used");
            return Err(Error::Setting(words));
        }
        let tunnel = Tunnel::new(proxy.uri().clone(), connector);
        Ok(Self::Tunnel(match proxy.basic_auth() {
            Some(auth) => tunnel.with_auth(auth.clone()),
            None => tunnel,
        }))
    }
}

impl Service<Uri> for Tcp {
    type Response = TokioIo<TcpStream>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match self {
            Self::Direct(connector) => connector.poll_ready(cx).map_err(Into::into),
            Self::Tunnel(tunnel) => tunnel.poll_ready(cx).map_err(Into::into),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self {
            Self::Direct(connector) => {
                let connecting = connector.call(uri);
                Box::pin(async move { connecting.await.map_err(Into::into) })
            }
            Self::Tunnel(tunnel) => {
                let connecting = tunnel.call(with_port(uri));
                Box::pin(async move { connecting.await.map_err(Into::into) })
            }
        }
    }
}

/// Returns whether a host is this machine.
fn is_local(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Returns an `http` address with its port. The tunnel takes 443 for any address without one.
fn with_port(uri: Uri) -> Uri {
    if uri.scheme_str() != Some("http") || uri.port().is_some() {
        return uri;
    }
    let with_port = uri.host().and_then(|host| format!("http://{host}:80/").parse().ok());
    with_port.unwrap_or(uri)
}

/// How long a connection may take. One that takes longer is usually dropped by a firewall on its way.
const CONNECT: Duration = Duration::from_secs(5);

/// How long TLS may take on a connection, and a proxy on the way.
const HANDSHAKE: Duration = Duration::from_secs(10);

const SLOW: &str = "the connection, or its TLS, took too long";

/// Silence after which the kernel asks whether the other side is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
