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
mod allowed;
mod answers;
mod body;
mod breaker;
mod certificates;
mod connections;
mod content;
mod conversation;
mod encoding;
mod exchange;
mod fallback;
mod first;
mod frames;
mod further;
mod gate;
mod kept;
mod listen;
mod listener;
mod masked;
mod measured;
mod metrics;
#[cfg_attr(not(feature = "otlp"), path = "otlp_off.rs")]
mod otlp;
mod page;
mod recorded;
mod redactor;
mod refusal;
mod reload;
mod resume;
mod retries;
mod route;
mod serve;
mod shared;
mod socket;
#[cfg(unix)]
mod socket_file;
mod tls;
mod upstream;
mod whole;
mod woken;
mod worker;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use access::Access;
#[cfg(feature = "cli")]
pub(crate) use conversation::{is_stream, is_transient, retry_after};
use exchange::Exchange;
pub use fallback::Fallback;
pub use listen::{Listen, Listening, Server};
#[cfg(feature = "otlp")]
pub use otlp::Otlp;
#[cfg(feature = "cli")]
pub(crate) use redactor::Redactor;
#[cfg(feature = "cli")]
pub(crate) use refusal::{OwnError, SHOULD_RETRY};
pub use reload::{Loaded, Loader, ReloadError, Reloader};

pub use tls::ServerTls;
#[cfg(feature = "cli")]
pub(crate) use upstream::RequestDirectives;

use route::Route;
use shared::Shared;

use crate::Limits;
use crate::client::{Client, Upstream};
use crate::provider::capability::{Capability, Table};
use crate::repair::RepairLevel;
use crate::route::RouteConfig;
use crate::session::relay::{Output, TransportEnd};
use crate::session::{CallEnd, CutCause, FailureReason, GiveUp, Outcome, Prompt, Prose, SessionEvent, StopReason};
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
    /// How a request is answered that no route matches.
    base: Arc<Route>,
    /// The first one that matches a request answers it.
    routes: Vec<Arc<Route>>,
    access: Access,
    limits: Limits,
    asking: Asking,
    shared: Shared,
    /// How many threads serve connections. 0: the caller's runtime does.
    threads: usize,
    /// The address of the admin listener, if there is to be one.
    admin: Option<SocketAddr>,
    /// Reads the configuration again.
    loader: Option<Loader>,
    /// How many of the last answers keep their text for its page.
    page_answers: usize,
    /// How long answers are kept whose request does not say.
    keep: Duration,
    /// The address of the store that they are kept in.
    store: String,
}

/// How requests are adapted to their models, and how the rest of an answer is asked for.
#[derive(Clone)]
struct Asking {
    prompt: Arc<Prompt>,
    capabilities: Table,
    adapts: bool,
    shapes: Vec<Shape>,
    token_factor: u32,
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
        let limits = Limits::default();
        Self {
            shared: Shared::new(&limits),
            base: Arc::new(Route::new(client, limits.clone())),
            routes: Vec::new(),
            access: Access::default(),
            limits,
            asking: Asking {
                prompt: Arc::default(),
                capabilities: Table::default(),
                adapts: false,
                shapes: Shape::stages(),
                token_factor: 1,
            },
            threads: 0,
            admin: None,
            loader: None,
            page_answers: 0,
            keep: Duration::ZERO,
            store: String::new(),
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
        self.shared.limit(&limits);
        let base = Arc::make_mut(&mut self.base);
        base.client = base.client.clone().limited(&limits.transport);
        base.head_limit = limits.transport.first_byte();
        base.limits = limits.clone();
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

    /// Sets how the configuration is read again; see [`Reloader`]. Default: it is not.
    #[must_use]
    pub fn loader(mut self, loader: Loader) -> Self {
        self.loader = Some(loader);
        self
    }

    /// Sets how many of the last answers keep their text, which the page of the admin listener then shows. Default: 0.
    #[must_use]
    pub fn page_answers(mut self, most: usize) -> Self {
        self.page_answers = most;
        self
    }

    /// Pushes spans and metrics to a collector. Default: to none.
    #[cfg(feature = "otlp")]
    #[must_use]
    pub fn otlp(mut self, otlp: Option<Otlp>) -> Self {
        self.shared.otlp = otlp;
        self
    }

    /// Sets whether the log has the text of requests and answers, for development. Default: it has none.
    #[must_use]
    pub fn log_content(mut self, logs: bool) -> Self {
        self.shared.logs_content = logs;
        self
    }

    /// Sets how long answers are kept for clients that lose their connection, where the request does not say, up to
    /// [`max_keep_time`](crate::KeepLimits::max_keep_time). Default: zero, they end with their client.
    #[must_use]
    pub fn keep_answers(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Sets the store that answers are kept in: `memory`, or the address of a Redis or Valkey server. Default: the memory of the
    /// process.
    #[must_use]
    pub fn store(mut self, store: impl Into<String>) -> Self {
        self.store = store.into();
        self
    }

    /// Sets what is delivered when the rest can't be had, where the request does not say. Default: [`GiveUp::Leave`], so
    /// that a client sees the failure that it would have seen without the proxy.
    #[must_use]
    pub fn give_up(mut self, give_up: GiveUp) -> Self {
        Arc::make_mut(&mut self.base).give_up = give_up;
        self
    }

    /// Sets what becomes of an answer that is prose when its connection is lost. Default: [`Prose::Pass`].
    #[must_use]
    pub fn prose(mut self, prose: Prose) -> Self {
        Arc::make_mut(&mut self.base).prose = prose;
        self
    }

    /// Sets how much of the JSON in an answer may be changed, where the request does not say. Default:
    /// [`RepairLevel::Strict`], so that a healthy answer's bytes stay as they are.
    #[must_use]
    pub fn repair(mut self, level: RepairLevel) -> Self {
        Arc::make_mut(&mut self.base).repair = level;
        self
    }

    /// Sets the words of the re-prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.asking.prompt = Arc::new(prompt);
        self
    }

    /// Sets the table of what models can be asked for.
    #[must_use]
    pub fn capabilities(mut self, table: Table) -> Self {
        self.asking.capabilities = table;
        self
    }

    /// Sets whether first requests are adapted to their model and stage. Default: they are not, so that a client gets what it
    /// asks for, and its error.
    #[must_use]
    pub fn adapt(mut self, adapts: bool) -> Self {
        self.asking.adapts = adapts;
        self
    }

    /// Adds shapes to the built-in stages, for requests that name one.
    #[must_use]
    pub fn shapes(mut self, shapes: impl IntoIterator<Item = Shape>) -> Self {
        self.asking.shapes.extend(shapes);
        self
    }

    /// Returns whether the stage with this name expects JSON. An error is a message for the client.
    fn expects_json(&self, stage: &str) -> Result<bool, String> {
        let name = stage.replace('-', "_");
        let shape = self.asking.shapes.iter().find(|shape| shape.name == stage || shape.name == name);
        shape
            .map(|shape| shape.root != RootKind::Text)
            .ok_or_else(|| format!("`x-restitch-stage`: `{stage}` is no stage"))
    }

    /// Sets by what factor each further call of an answer may be longer than the one before, where the request limits
    /// its tokens, up to [`max_extra_tokens`](crate::ContinuationLimits::max_extra_tokens). Default: 1, every call has the
    /// limit of the first.
    #[must_use]
    pub fn raise_max_tokens(mut self, factor: u32) -> Self {
        self.asking.token_factor = factor.max(1);
        self
    }

    /// Adds a route, which is tried after those that were added before. What it does not set is as the proxy has it now.
    /// `client`: that of its upstream; `None`: the proxy's. `fallbacks`: the upstreams that are asked where it fails.
    #[must_use]
    pub fn route(mut self, config: RouteConfig, client: Option<Client>, fallbacks: Vec<Fallback>) -> Self {
        self.routes.push(Arc::new(self.base.with(config, client, fallbacks)));
        self
    }

    /// Calls `observer` with every output except the bytes.
    #[must_use]
    pub fn observe(mut self, observer: Observer) -> Self {
        self.shared.observer = Some(observer);
        self
    }

    /// Calls `tap` with requests and responses. It is made for one conversation at a time.
    #[must_use]
    pub fn tap(mut self, tap: Arc<dyn Tap>) -> Self {
        self.shared.tap = Some(tap);
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

    /// Returns the longest time for which the operator keeps answers that nobody asks to keep.
    fn longest_keep(&self) -> Duration {
        let of_routes = self.routes.iter().filter_map(|route| route.config.keep).max().unwrap_or_default();
        self.keep.max(Duration::from_secs(of_routes.into()))
    }

    /// Returns the same proxy with upstream connections of its own. Routes to one upstream share theirs.
    fn apart(&self) -> Self {
        let mut apart = self.clone();
        let mut clients: Vec<Client> = Vec::new();
        for route in std::iter::once(&mut apart.base).chain(&mut apart.routes) {
            for client in Arc::make_mut(route).clients() {
                let known = clients.iter().find(|known| known.upstream() == client.upstream()).cloned();
                *client = known.unwrap_or_else(|| client.apart());
                clients.push(client.clone());
            }
        }
        apart
    }

    /// Returns what a model of an upstream can be asked for on a route: the table, corrected by what refusals have said.
    fn capability(&self, route: &Route, upstream: &Upstream, model: &str) -> Capability {
        let known = route.direct(self.asking.capabilities.of(model, Some(upstream.host())));
        self.shared.correct(upstream.authority(), model, known)
    }

    /// Tells the log and the observer. Neither text, nor paths inside documents, nor headers of a request are logged.
    fn observed(&self, output: &Output, exchange: &Exchange) {
        let _entered = exchange.span().enter();
        if exchange.is_stopped() {
            // The proxy has ended the answer, and not its upstream.
            match output {
                // The call is never made.
                Output::Call { .. } | Output::Event(SessionEvent::Cut { .. }) => return exchange.note_stop(),
                Output::Done { transport_end: TransportEnd::Dropped, .. } => exchange.note_stop(),
                _ => {}
            }
        }
        exchange.note_output(output);
        match output {
            Output::Event(SessionEvent::Joined { seam, elapsed, .. }) => tracing::info!(
                offset = seam.offset,
                alignment = seam.alignment.as_str(),
                overlap = seam.overlap,
                pending = seam.pending,
                posterior = seam.posterior,
                ambiguous = seam.ambiguous,
                early_end = seam.early_end,
                elapsed_ms = elapsed.as_millis() as u64,
                "joined"
            ),
            Output::Event(SessionEvent::Cut { call, end, offset, .. }) => {
                let limit = end.limit().map(tracing::field::display);
                tracing::info!(call, cause = end.cause().map(CutCause::as_str), limit, offset, "cut");
            }
            Output::Event(SessionEvent::Failed { call, reason, .. }) => warn_of_failure(*call, reason),
            Output::Event(SessionEvent::Waiting { call, reason, .. }) => {
                tracing::warn!(call, %reason, "waiting for the upstream");
            }
            Output::Done { outcome, .. } => log_end(outcome),
            Output::Event(_) | Output::Call { .. } | Output::Usage(_) | Output::Bytes(_) => {}
        }
        if let Some(observer) = &self.shared.observer {
            observer(output);
        }
    }
}

/// Logs how an answer has ended. Of one that needed nothing the access line says all.
fn log_end(outcome: &Outcome) {
    let (status, tally) = (outcome.status().as_str(), outcome.tally());
    let is_helped = tally.continuations > 0 || tally.failures > 0 || !outcome.synthesized().is_empty();
    if !is_helped && outcome.reason().is_none() && outcome.cause().is_none() && tally.limit.is_none() {
        tracing::debug!(status, "done");
        return;
    }
    tracing::info!(
        status,
        stop = outcome.reason().map(StopReason::as_str),
        limit = tally.limit.as_ref().map(tracing::field::display),
        cause = outcome.cause().map(CutCause::as_str),
        continuations = tally.continuations,
        failures = tally.failures,
        ambiguous = Some(tally.ambiguous).filter(|seams| *seams > 0),
        early_end = Some(tally.early_end).filter(|seams| *seams > 0),
        synthesized = outcome.synthesized().len(),
        "done"
    );
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
        f.debug_struct("Proxy").field("base", &self.base).field("limits", &self.limits).finish_non_exhaustive()
    }
}
