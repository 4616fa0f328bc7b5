//! The proxy that clients of a provider's API use as their base URL.
//!
//! ```text
//!  client ──▶ listen, serve (connections, routes) ──▶ upstream (the request that goes out) ──▶ provider
//!    ▲                                                                                    │
//!    └── body ◀── conversation (streams: stream::Stitch · bodies: session::body) ◀────────┘
//! ```
//! The operator alone names the upstream: nothing in a request can choose host, scheme or key. Whatever is not a
//! request of an API in `provider::wire` passes through unchanged.

mod access;
mod admin;
mod body;
mod breaker;
mod connections;
mod conversation;
mod encoding;
mod exchange;
mod first;
mod frames;
mod further;
mod gate;
mod kept;
mod listen;
mod listener;
mod measured;
mod metrics;
mod refusal;
mod serve;
mod socket;
#[cfg(unix)]
mod socket_file;
mod tls;
mod upstream;
mod whole;
mod worker;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use tokio::time::Instant;

pub use access::Access;
use breaker::Breaker;
#[cfg(feature = "cli")]
pub(crate) use conversation::{is_stream, is_transient, retry_after};
use exchange::Exchange;
pub use listen::{Listen, Listening, Server};
#[cfg(feature = "cli")]
pub(crate) use refusal::OwnError;

pub use tls::ServerTls;

use gate::Unfinished;
use metrics::Metrics;

use crate::Limits;
use crate::client::Client;
use crate::provider::capability::cache::CapabilityCache;
use crate::provider::capability::{Capability, CapabilityHint, Table};
use crate::repair::RepairLevel;
use crate::session::relay::Output;
use crate::session::{CallEnd, CutCause, FailureReason, GiveUp, Prompt, SessionEvent, StopReason};
use crate::shape::{RootKind, Shape};

/// A proxy in front of one upstream.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use restitch::internal::client::{Client, Upstream};
/// use restitch::internal::proxy::Proxy;
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
    access: Access,
    limits: Limits,
    prompt: Arc<Prompt>,
    capabilities: Table,
    adapts: bool,
    shapes: Vec<Shape>,
    token_factor: u32,
    give_up: GiveUp,
    repair: RepairLevel,
    /// What refusals have said about models.
    cache: Arc<Mutex<CapabilityCache>>,
    /// How the calls of the last seconds have ended.
    breaker: Arc<Mutex<Breaker>>,
    /// The moment that all times of the proxy count from.
    origin: Instant,
    observer: Option<Observer>,
    tap: Option<Arc<dyn Tap>>,
    /// How many threads serve connections. 0: the caller's runtime does.
    threads: usize,
    unfinished: Unfinished,
    /// The address of the admin listener, if there is to be one.
    admin: Option<SocketAddr>,
    /// Set where the admin listener shows them.
    metrics: Option<Arc<Metrics>>,
}

/// Sees the bodies of chat completions on their way, which hold what users wrote. It sees no headers. It must not block
/// for long.
pub trait Tap: Send + Sync {
    /// Called when a request goes out. The first call is 0. A request that is sent again in another form has the same
    /// number.
    fn request(&self, number: u32, body: &[u8]);
    /// Called with bytes of the event stream that answers, or of a refusal that was read.
    fn response(&self, bytes: &[u8]);
}

/// Sees the calls, the steps of the loop and the outcomes of all answers. It must not block.
pub type Observer = Arc<dyn Fn(&Output) + Send + Sync>;

impl Proxy {
    /// Creates a proxy in front of the client's upstream.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            access: Access::default(),
            limits: Limits::default(),
            prompt: Arc::default(),
            capabilities: Table::default(),
            adapts: false,
            shapes: Shape::stages(),
            token_factor: 1,
            give_up: GiveUp::Leave,
            repair: RepairLevel::Strict,
            cache: cache(&Limits::default()),
            breaker: breaker(&Limits::default()),
            origin: Instant::now(),
            observer: None,
            tap: None,
            threads: 0,
            unfinished: Unfinished::new(Limits::default().server.max_unfinished_bytes),
            admin: None,
            metrics: None,
        }
    }

    /// Sets who may use the proxy, and for what.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.unfinished = Unfinished::new(limits.server.max_unfinished_bytes);
        self.client = self.client.keeping(limits.transport.max_idle_connections);
        (self.cache, self.breaker) = (cache(&limits), breaker(&limits));
        self.limits = limits;
        self
    }

    /// Sets how many threads serve connections, each with upstream connections of its own. Default: 0, the caller's runtime
    /// serves them.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the address of a second listener, for metrics and readiness. Port 0 takes a free port. It asks for no token.
    /// Default: none, and nothing is measured.
    #[must_use]
    pub fn admin(mut self, addr: Option<SocketAddr>) -> Self {
        self.admin = addr;
        self
    }

    /// Sets what is delivered when the rest can't be had, where the request does not say. Default: [`GiveUp::Leave`], so
    /// that a client sees the failure that it would have seen without the proxy.
    #[must_use]
    pub fn give_up(mut self, give_up: GiveUp) -> Self {
        self.give_up = give_up;
        self
    }

    /// Sets how much of the JSON in an answer may be changed, where the request does not say. Default:
    /// [`RepairLevel::Strict`], so that a healthy answer's bytes stay as they are.
    #[must_use]
    pub fn repair(mut self, level: RepairLevel) -> Self {
        self.repair = level;
        self
    }

    /// Sets the words of the re-prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompt = Arc::new(prompt);
        self
    }

    /// Sets the table of what models can be asked for.
    #[must_use]
    pub fn capabilities(mut self, table: Table) -> Self {
        self.capabilities = table;
        self
    }

    /// Sets whether first requests are adapted to their model and stage. Default: they are not, so that a client gets what it
    /// asks for, and its error.
    #[must_use]
    pub fn adapt(mut self, adapts: bool) -> Self {
        self.adapts = adapts;
        self
    }

    /// Adds shapes to the built-in stages, for requests that name one.
    #[must_use]
    pub fn shapes(mut self, shapes: impl IntoIterator<Item = Shape>) -> Self {
        self.shapes.extend(shapes);
        self
    }

    /// Returns whether the stage with this name expects JSON. An error is a message for the client.
    fn expects_json(&self, stage: &str) -> Result<bool, String> {
        let name = stage.replace('-', "_");
        let shape = self.shapes.iter().find(|shape| shape.name == stage || shape.name == name);
        shape
            .map(|shape| shape.root != RootKind::Text)
            .ok_or_else(|| format!("`x-restitch-stage`: `{stage}` is no stage"))
    }

    /// Sets by what factor each further call of an answer may be longer than the one before, where the request limits
    /// its tokens, up to [`max_extra_tokens`](crate::ContinuationLimits::max_extra_tokens). Default: 1, every call has the
    /// limit of the first.
    #[must_use]
    pub fn raise_max_tokens(mut self, factor: u32) -> Self {
        self.token_factor = factor.max(1);
        self
    }

    /// Calls `observer` with every output except the bytes.
    #[must_use]
    pub fn observe(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Calls `tap` with requests and responses. It is made for one conversation at a time.
    #[must_use]
    pub fn tap(mut self, tap: Arc<dyn Tap>) -> Self {
        self.tap = Some(tap);
        self
    }

    /// Answers one request of an API without a socket of its own. The request's path is appended to the upstream's.
    #[cfg(feature = "cli")]
    pub(crate) async fn ask(
        self: Arc<Self>,
        dialect: crate::provider::Dialect,
        request: http::Request<bytes::Bytes>,
    ) -> http::Response<crate::client::Body> {
        serve::ask(self, dialect, request).await
    }

    /// Listens on `addr`, without TLS. Port 0 takes a free port.
    ///
    /// # Errors
    /// The address can't be listened on, or that of the admin listener.
    pub async fn bind(self, addr: SocketAddr) -> std::io::Result<Server> {
        listen::bind(self, addr).await
    }

    /// Listens on an address of any kind. Port 0 takes a free port.
    ///
    /// # Errors
    /// The address can't be listened on.
    pub async fn listen(self, listen: &Listen) -> std::io::Result<Listening> {
        listen::listen(self, listen).await
    }

    /// Returns what a model can be asked for: the table, corrected by what refusals have said.
    fn capability(&self, model: &str) -> Capability {
        let capability = self.capabilities.of(model, Some(self.client.upstream().host()));
        self.cache().correct(model, capability, self.origin.elapsed())
    }

    /// Records what a refusal says about a model.
    fn record(&self, model: &str, hint: CapabilityHint) {
        let mut cache = self.cache();
        if cache.record(model, hint, self.origin.elapsed()) {
            let recorded = cache.recorded();
            drop(cache);
            tracing::info!(?model, ?hint, recorded, "recorded what a refusal says about a model");
        }
    }

    /// Counts a call of a model that has ended with a status, or without one.
    fn count(&self, model: &str, status: Option<StatusCode>) {
        let failed = status.is_none_or(conversation::is_transient);
        let changed = self.breaker().count(model, self.origin.elapsed(), failed);
        match changed {
            Some((true, calls)) => {
                let (calls, failed) = (calls.made, calls.failed);
                tracing::warn!(?model, calls, failed, "most calls fail: no continuations are asked for");
            }
            Some((false, _)) => tracing::info!(?model, "continuations are asked for again"),
            None => {}
        }
    }

    /// Returns whether most calls of a model fail.
    fn is_overloaded(&self, model: &str) -> bool {
        self.breaker().is_open(model, self.origin.elapsed())
    }

    /// As with the cache, each change is one call.
    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A panic elsewhere leaves the cache valid, since each change to it is one call.
    fn cache(&self) -> MutexGuard<'_, CapabilityCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the log and the observer. Neither text, nor paths inside documents, nor headers of a request are logged.
    fn observed(&self, output: &Output, exchange: &Exchange) {
        exchange.note_output(output);
        match output {
            Output::Call { request, .. } => match &request.turn {
                Some(turn) => tracing::info!(call = request.number, mode = turn.mode.as_str(), "asking for the rest"),
                None if request.resume.is_some() => {
                    tracing::info!(call = request.number, "attaching to the answer again");
                }
                None => tracing::info!(call = request.number, "sending the request again"),
            },
            Output::Event(SessionEvent::Joined { seam, elapsed, .. }) => tracing::info!(
                offset = seam.offset,
                alignment = seam.alignment.as_str(),
                overlap = seam.overlap,
                held = seam.pending,
                posterior = seam.posterior,
                ambiguous = seam.ambiguous,
                early_end = seam.early_end,
                elapsed_ms = elapsed.as_millis() as u64,
                "joined"
            ),
            Output::Event(SessionEvent::Cut { call, end, offset, .. }) => {
                tracing::info!(call, cause = end.cause().map(CutCause::as_str), offset, "cut");
            }
            Output::Event(SessionEvent::Failed { call, reason, .. }) => warn_of_failure(*call, reason),
            Output::Done { outcome, .. } => tracing::info!(
                status = outcome.status().as_str(),
                stop = outcome.reason().map(StopReason::as_str),
                limit = outcome.tally().limit.as_ref().map(tracing::field::display),
                cause = outcome.cause().map(CutCause::as_str),
                continuations = outcome.tally().continuations,
                failures = outcome.tally().failures,
                synthesized = outcome.synthesized().len(),
                "done"
            ),
            Output::Event(_) | Output::Usage(_) | Output::Bytes(_) => {}
        }
        if let Some(observer) = &self.observer {
            observer(output);
        }
    }
}

fn breaker(limits: &Limits) -> Arc<Mutex<Breaker>> {
    Arc::new(Mutex::new(Breaker::new(&limits.continuation)))
}

fn cache(limits: &Limits) -> Arc<Mutex<CapabilityCache>> {
    Arc::new(Mutex::new(CapabilityCache::new(limits.continuation.max_hint_age)))
}

/// Logs why a call failed. Leaves out the upstream's own words, since they may quote the request or its key.
fn warn_of_failure(call: u32, reason: &FailureReason) {
    let cause = match reason {
        FailureReason::Nothing(end) => end.cause(),
        FailureReason::Merge(_) | FailureReason::Schema(_) | FailureReason::Rejected(_) => None,
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
