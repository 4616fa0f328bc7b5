//! The proxy: what clients of a provider's API point their base URL at.
//!
//! ```text
//!  client ──▶ serve (connections, routes) ──▶ upstream (the request that goes out) ──▶ provider
//!    ▲                                                                                    │
//!    └── body ◀── chat (streams: stream::Stitch · whole bodies: session::body) ◀──────────┘
//! ```
//! The upstream is the operator's alone; nothing in a request can choose host, scheme or key. What is not a chat
//! completion passes through unchanged.

mod body;
mod chat;
mod serve;
mod upstream;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "cli")]
pub(crate) use chat::{is_transient, retry_after};
#[cfg(feature = "cli")]
pub(crate) use serve::PROXY_ERROR;
pub use serve::Server;

use crate::Limits;
use crate::client::Client;
use crate::session::relay::Output;
use crate::session::{End, Event, Reason};

/// What a proxy does.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use restitch::client::{Client, Upstream};
/// use restitch::proxy::Proxy;
///
/// let client = Client::new(Upstream::parse("http://127.0.0.1:9/prefix")?)?;
/// let server = Proxy::new(client).bind(([127, 0, 0, 1], 0).into()).await?;
/// assert_ne!(server.addr().port(), 0);
/// server.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Proxy {
    client: Client,
    limits: Limits,
    observer: Option<Observer>,
    tap: Option<Arc<dyn Tap>>,
}

/// Sees what goes over the wire in chat completions: bodies, which hold what users said, and no headers. It must not
/// block for long.
pub trait Tap: Send + Sync {
    /// A request goes out; the first is 0.
    fn request(&self, number: u32, body: &[u8]);
    /// Bytes of the event stream that answers it.
    fn response(&self, bytes: &[u8]);
}

/// Sees the calls, seams, failures and outcomes of all streams. It must not block.
pub type Observer = Arc<dyn Fn(&Output) + Send + Sync>;

impl Proxy {
    /// A proxy in front of the client's upstream.
    pub fn new(client: Client) -> Self {
        Self { client, limits: Limits::default(), observer: None, tap: None }
    }

    /// With other limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Shows what happens to `observer`, except the bytes.
    #[must_use]
    pub fn observe(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Shows what goes over the wire to `tap`: for one conversation at a time.
    #[must_use]
    pub fn tap(mut self, tap: Arc<dyn Tap>) -> Self {
        self.tap = Some(tap);
        self
    }

    /// Answers one chat completion without a socket of its own: a request's path is appended to the upstream's.
    pub async fn ask(self: Arc<Self>, request: http::Request<bytes::Bytes>) -> http::Response<crate::client::Body> {
        serve::ask(self, request).await
    }

    /// Listens on `addr`; port 0 takes a free one.
    ///
    /// # Errors
    /// The address can't be listened on.
    pub async fn bind(self, addr: std::net::SocketAddr) -> std::io::Result<Server> {
        serve::bind(self, addr).await
    }

    /// Tells the log and the observer. Neither text, nor paths inside documents, nor anything of a request's headers
    /// is logged.
    fn observed(&self, output: &Output) {
        match output {
            Output::Call { request, .. } => {
                tracing::info!(number = request.number, again = request.turn.is_none(), "asking for the rest");
            }
            Output::Event(Event::Joined { seam, elapsed, .. }) => tracing::info!(
                offset = seam.offset,
                alignment = seam.alignment.as_str(),
                overlap = seam.overlap,
                held = seam.held,
                ambiguous = seam.ambiguous,
                elapsed_ms = elapsed.as_millis() as u64,
                "joined"
            ),
            // An upstream's own words may quote the request, or its key.
            Output::Event(Event::Failed { reason: Reason::Nothing(End::Error(_)), .. }) => {
                tracing::warn!(reason = "the upstream reported an error", "a call failed");
            }
            Output::Event(Event::Failed { reason, .. }) => tracing::warn!(%reason, "a call failed"),
            Output::Done { outcome, .. } => tracing::info!(
                status = outcome.status.as_str(),
                continuations = outcome.continuations,
                failures = outcome.failures,
                filled = outcome.filled.len(),
                "done"
            ),
            Output::Event(_) | Output::Bytes(_) => {}
        }
        if let Some(observer) = &self.observer {
            observer(output);
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("client", &self.client).field("limits", &self.limits).finish_non_exhaustive()
    }
}
