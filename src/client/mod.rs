//! A thin HTTP client for one upstream: pooled HTTP/1.1 connections, TLS with the system's certificate roots, and
//! addresses that no request can change.
//!
//! The client does not look at what it carries, has no time-outs, and repeats no request that an upstream may have
//! seen. Time-outs, retries and headers are the caller's.

mod body;
mod upstream;

use std::error::Error as _;
use std::fmt;
use std::io;
use std::time::Duration;

use http::header::HOST;
use http::{Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

pub use body::{Body, BodyError};
pub use upstream::{Upstream, UpstreamError};

/// A client of one upstream. Clones share their connections.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use restitch::internal::client::{Body, Client, Upstream};
///
/// let client = Client::new(Upstream::parse("http://127.0.0.1:8080")?)?;
/// let uri = client.upstream().uri_for("/v1/models");
/// let response = client.send(http::Request::get(uri).body(Body::empty())?).await?;
/// assert!(response.status().is_success());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    upstream: Upstream,
    pool: Pool,
}

impl Client {
    /// Creates a client of `upstream`. Connections are made when they are needed.
    ///
    /// # Errors
    /// [`Error::NoRoots`] for an `https` upstream if the system has no certificate roots. An `http` upstream needs
    /// none.
    pub fn new(upstream: Upstream) -> Result<Self, Error> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        // The TLS connector passes it `https` addresses.
        connector.enforce_http(false);
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(POOL_IDLE).pool_max_idle_per_host(POOL_CONNECTIONS);
        let pool = if upstream.is_https() {
            Pool::Tls(builder.build(tls(connector)?))
        } else {
            Pool::Plain(builder.build(connector))
        };
        Ok(Self { upstream, pool })
    }

    /// Returns the upstream that the requests go to.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Sends a request and waits for the head of the response. The request's address must come from
    /// [`Upstream::uri_for`]; its `Host` header is replaced by the upstream's. Dropping the future or the response's
    /// body ends the call.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the address is not the upstream's, [`Error::Failed`] if no response came.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Error> {
        if !self.upstream.owns(request.uri()) {
            return Err(Error::Foreign(request.uri().clone()));
        }
        request.headers_mut().remove(HOST);
        *request.version_mut() = Version::HTTP_11;
        match &self.pool {
            Pool::Plain(client) => client.request(request).await,
            Pool::Tls(client) => client.request(request).await,
        }
        .map_err(Error::Failed)
    }
}

/// Why a call failed, or why a client was not created.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system has no certificate roots, so no `https` upstream can be trusted.
    NoRoots(io::Error),
    /// The request's address is not the upstream's.
    Foreign(Uri),
    /// There was no connection, or it ended before the head of a response.
    Failed(legacy::Error),
}

impl Error {
    /// Returns whether no connection was made, so that the upstream has seen nothing of the request.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_connect())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoots(error) => write!(f, "https needs the system's certificate roots: {error}"),
            Self::Foreign(uri) => {
                // The path and the query may hold secrets, and errors are logged.
                let host = uri.authority().map_or("no host", |authority| authority.as_str());
                write!(f, "the request is for {host}, which is not the upstream")
            }
            Self::Failed(error) => {
                write!(f, "{error}")?;
                // hyper's messages are short and leave the reason to the chain of sources.
                let mut source = error.source();
                while let Some(error) = source {
                    write!(f, ": {error}")?;
                    source = error.source();
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Error {}

/// One client per scheme, so that `http` never loads certificate roots.
#[derive(Clone, Debug)]
enum Pool {
    Plain(legacy::Client<HttpConnector, Body>),
    Tls(legacy::Client<HttpsConnector<HttpConnector>, Body>),
}

fn tls(connector: HttpConnector) -> Result<HttpsConnector<HttpConnector>, Error> {
    let provider = rustls::crypto::ring::default_provider();
    let builder = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider).map_err(Error::NoRoots)?;
    Ok(builder.https_only().enable_http1().wrap_connector(connector))
}

/// How long an unused connection is kept. Servers usually close theirs after 60 seconds; the client must be first.
const POOL_IDLE: Duration = Duration::from_secs(50);

/// Unused connections that are kept. More calls at a time are possible; their connections are closed afterwards.
const POOL_CONNECTIONS: usize = 32;
