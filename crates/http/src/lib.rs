//! A thin HTTP client for one upstream: pooled HTTP/1.1 connections, TLS with the system's
//! certificate roots and those of a file, and addresses that no request can change.
//!
//! The body of a response reads from the connection that carries it; no other task does. All
//! connections of a thread read into one buffer, so that a waiting stream needs no buffer. The
//! client does not examine requests or responses. Only a request whose connection was used before
//! and ended within a second without a byte of an answer is sent again: the upstream had closed the
//! connection in the meantime. The caller is responsible for timeouts, retries and headers.

mod body;
mod chunked;
mod connection;
mod connector;
mod decoder;
mod error;
mod expiry;
mod head;
mod limits;
mod outgoing;
mod pool;
mod received;
pub mod server_socket;
pub mod tls;
mod upstream;

use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, HeaderValue};
use http::{Request, Response};
use tokio::time::Instant;

pub use body::{Body, BodyError};
use connector::Connector;
pub use error::{ConnectionError, Error};
pub use expiry::{Expiry, Role, Validity};
pub use limits::ConnectionLimits;
use pool::Pool;
pub use received::Received;
pub use tls::TlsFiles;
pub use upstream::is_host_and_port;
pub use upstream::{PathError, Upstream, UpstreamError};

/// A client for a single upstream. Clones share their connections.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use restitch_http::{Body, Client, Upstream};
///
/// let client = Client::new(Upstream::parse("http://127.0.0.1:8080")?)?;
/// let uri = client.upstream().uri_for("/v1/models")?;
/// let response = client.send(http::Request::get(uri).body(Body::empty())?).await?;
/// assert!(response.status().is_success());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    upstream: Upstream,
    /// The `Host` of all requests.
    host: HeaderValue,
    connector: Connector,
    pool: Arc<Pool>,
    /// When the certificates in its files expire.
    expiries: Arc<[Expiry]>,
}

impl Client {
    /// Creates a client of `upstream`. Connections are made when they are needed.
    ///
    /// # Errors
    /// As [`with_tls`](Self::with_tls).
    pub fn new(upstream: Upstream) -> Result<Self, Error> {
        Self::with_tls(upstream, &TlsFiles::default())
    }

    /// Creates a client of `upstream` with these certificates. Only an `https` upstream uses them.
    ///
    /// # Errors
    /// [`Error::NoRoots`] for an `https` upstream if there are no certificate roots, [`Error::Setting`] if a file cannot be
    /// used, or the environment names a proxy that cannot.
    pub fn with_tls(upstream: Upstream, files: &TlsFiles) -> Result<Self, Error> {
        let connector = Connector::new(&upstream, files)?;
        let host = HeaderValue::from_str(upstream.authority());
        debug_assert!(
            host.is_ok(),
            "an authority has no byte that a header may not have"
        );
        let host = host.unwrap_or(HeaderValue::from_static(""));
        let pool = Arc::new(Pool::new(ConnectionLimits::default().max_idle));
        let expiries = files.expiries()?.into();
        Ok(Self {
            upstream,
            host,
            connector,
            pool,
            expiries,
        })
    }

    /// Returns when the certificates expire in the files that it was made with.
    pub fn expiries(&self) -> &[Expiry] {
        &self.expiries
    }

    /// Returns the upstream that the requests go to.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Sets how long a connection may take, and how many unused ones are kept. Clones made before
    /// have connections of their own.
    #[must_use]
    pub fn limited(self, limits: ConnectionLimits) -> Self {
        let connector = self.connector.limited(limits);
        Self {
            connector,
            pool: Arc::new(Pool::new(limits.max_idle)),
            ..self
        }
    }

    /// Returns a client of the same upstream with connections of its own.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self {
            pool: Arc::new(self.pool.apart()),
            ..self.clone()
        }
    }

    /// Connects to the upstream like a call, and closes the connection.
    ///
    /// # Errors
    /// Fails when no connection was made.
    pub async fn reach(&self) -> Result<(), Error> {
        self.connector
            .connect(self.upstream.uri_for("/")?)
            .await
            .map(drop)
    }

    /// Sends a request and waits for the head of the response. The request's address must come from
    /// [`Upstream::uri_for`]; its `Host` header is replaced by the upstream's. Dropping the future
    /// or the response's body ends the call.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the address is not the upstream's, [`Error::Connect`] if there was no connection,
    /// [`Error::Unanswered`], [`Error::Failed`] or [`Error::Informational`] if no response came.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Received>, Error> {
        let (mut head, mut body) = request.into_parts();
        if !self.upstream.owns(&head.uri) {
            return Err(Error::Foreign(head.uri));
        }
        head.headers.insert(HOST, self.host.clone());
        if let Some(connection) = self.pool.take() {
            let again = body.again();
            let sent_at = Instant::now();
            match (connection.send(&head, body, &self.pool).await, again) {
                // The upstream has closed the connection while it was unused. Had it been open, the
                // upstream may have read the request, and a second one would be billed, too.
                (Err(Error::Unanswered(_)), Some(again)) if sent_at.elapsed() <= STALE => {
                    body = again;
                }
                (answer, _) => return answer,
            }
        }
        let connection = self.connector.connect(head.uri.clone()).await?;
        connection.send(&head, body, &self.pool).await
    }
}

/// How soon a connection shows that the upstream has closed it: the closing packet has already
/// arrived, or arrives after one round trip.
const STALE: Duration = Duration::from_secs(1);
