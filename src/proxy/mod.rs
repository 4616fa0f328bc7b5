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
mod encoding;
mod first;
mod serve;
mod upstream;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(feature = "cli")]
pub(crate) use chat::{is_transient, retry_after};
#[cfg(feature = "cli")]
pub(crate) use serve::PROXY_ERROR;
pub use serve::Server;

use crate::Limits;
use crate::client::Client;
use crate::provider::capability::{Capability, CapabilityCache, CapabilityHint, Table};
use crate::session::relay::Output;
use crate::session::{CallEnd, CutCause, Event, FailureReason, GiveUp, Prompt};

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
    prompt: Arc<Prompt>,
    capabilities: Table,
    adapts: bool,
    raise: u32,
    give_up: GiveUp,
    /// What answers have taught of models.
    cache: Arc<Mutex<CapabilityCache>>,
    observer: Option<Observer>,
    tap: Option<Arc<dyn Tap>>,
}

/// Sees what goes over the wire in chat completions: bodies, which hold what users said, and no headers. It must not
/// block for long.
pub trait Tap: Send + Sync {
    /// A request goes out; the first is 0. One that is sent again in another way has the same number.
    fn request(&self, number: u32, body: &[u8]);
    /// Bytes of the event stream that answers it, or of a refusal that was read.
    fn response(&self, bytes: &[u8]);
}

/// Sees the calls, the steps of the loop and the outcomes of all answers. It must not block.
pub type Observer = Arc<dyn Fn(&Output) + Send + Sync>;

impl Proxy {
    /// A proxy in front of the client's upstream.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            limits: Limits::default(),
            prompt: Arc::default(),
            capabilities: Table::default(),
            adapts: false,
            raise: 1,
            give_up: GiveUp::Leave,
            cache: Arc::default(),
            observer: None,
            tap: None,
        }
    }

    /// With other limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets what is delivered when the rest can't be had, where the request does not say. Default: [`GiveUp::Leave`], so
    /// that a client sees the failure that it would have seen without the proxy.
    #[must_use]
    pub fn give_up(mut self, give_up: GiveUp) -> Self {
        self.give_up = give_up;
        self
    }

    /// With other words in which the rest of an answer is asked for.
    #[must_use]
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompt = Arc::new(prompt);
        self
    }

    /// With other knowledge of what models can be asked for.
    #[must_use]
    pub fn capabilities(mut self, table: Table) -> Self {
        self.capabilities = table;
        self
    }

    /// Whether first requests are adapted to what their model can be asked for. They are not by default: a client gets
    /// what it asks for, and its error.
    #[must_use]
    pub fn adapt(mut self, adapts: bool) -> Self {
        self.adapts = adapts;
        self
    }

    /// By what factor each further call of an answer may be longer than the one before, where the request limits its
    /// tokens. 1, the default: all of them are as long as the first.
    #[must_use]
    pub fn raise_max_tokens(mut self, factor: u32) -> Self {
        self.raise = factor.max(1);
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

    /// What a model can be asked for, as far as that is known by now.
    fn capability(&self, model: &str) -> Capability {
        let mut capability = self.capabilities.of(model, Some(self.client.upstream().host()));
        self.cache().correct(model, &mut capability);
        capability
    }

    fn record(&self, model: &str, hint: CapabilityHint) {
        if self.cache().record(model, hint) {
            tracing::info!(?hint, "learned of a model");
        }
    }

    /// A panic elsewhere leaves it whole: each change of it is complete when it is made.
    fn cache(&self) -> MutexGuard<'_, CapabilityCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
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
                held = seam.pending,
                ambiguous = seam.ambiguous,
                elapsed_ms = elapsed.as_millis() as u64,
                "joined"
            ),
            Output::Event(Event::Cut { call, end, offset, .. }) => {
                tracing::info!(call, cause = end.cause().map(CutCause::as_str), offset, "cut");
            }
            Output::Event(Event::Failed { call, reason, .. }) => warn_of_failure(*call, reason),
            Output::Done { outcome, .. } => tracing::info!(
                status = outcome.status().as_str(),
                cause = outcome.cause().map(CutCause::as_str),
                continuations = outcome.tally().continuations,
                failures = outcome.tally().failures,
                synthesized = outcome.synthesized().len(),
                "done"
            ),
            Output::Event(_) | Output::Bytes(_) => {}
        }
        if let Some(observer) = &self.observer {
            observer(output);
        }
    }
}

/// Logs why a call failed. An upstream's own words are left out: they may quote the request, or its key.
fn warn_of_failure(call: u32, reason: &FailureReason) {
    let cause = match reason {
        FailureReason::Nothing(end) => end.cause(),
        FailureReason::Merge(_) | FailureReason::Rejected(_) => None,
    };
    let cause = cause.map(CutCause::as_str);
    match reason {
        FailureReason::Nothing(CallEnd::Error(_)) => {
            tracing::warn!(call, cause, reason = "the upstream reported an error", "a call failed");
        }
        reason => tracing::warn!(call, cause, %reason, "a call failed"),
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("client", &self.client).field("limits", &self.limits).finish_non_exhaustive()
    }
}
