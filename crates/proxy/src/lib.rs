//! The proxy that clients of a provider's API use as their base URL.
//!
//! ```text
//!  client ──▶ listen, serve (connections, routes) ──▶ upstream (the request that goes out) ──▶ provider
//!    ▲                                                                                    │
//!    └── body ◀── conversation (streams: stream::Stitch · bodies: session::body) ◀────────┘
//! ```
//! The operator alone names the upstream: nothing in a request can choose host, scheme or key.
//! Every request outside the APIs of `provider::wire` passes through unchanged.

mod access;
pub mod address;
mod admin;
mod allowed;
mod answers;
mod body;
mod breaker;
mod certificates;
pub mod config;
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
pub mod route_config;
mod serve;
mod shared;
mod socket;
#[cfg(unix)]
mod socket_file;
mod store;
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
pub use conversation::{is_stream, is_transient, retry_after};
use exchange::Exchange;
pub use fallback::Fallback;
pub use listen::{Listen, Listening, Server};
#[cfg(feature = "otlp")]
pub use otlp::Otlp;
pub use redactor::Redactor;
pub use refusal::{OwnError, SHOULD_RETRY};
pub use reload::{Loaded, Loader, ReloadError, Reloader};

pub use tls::ServerTls;
pub use upstream::RequestDirectives;

use route::Route;
use shared::Shared;

use crate::route_config::RouteConfig;
use restitch::Limits;
use restitch::internal::relay::{Output, TransportEnd};
use restitch::provider::capability::{Capability, Table};
use restitch::repair::RepairLevel;
use restitch::session::{
    CallEnd, CutCause, FailureReason, GiveUp, Outcome, Prompt, Prose, SessionEvent, StopReason,
};
use restitch::shape::{RootKind, Shape};
use restitch_http::{Client, Upstream};

/// A proxy in front of one upstream.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use restitch_http::{Client, Upstream};
/// use restitch_proxy::Proxy;
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
    /// The route of requests that no other route matches.
    base: Arc<Route>,
    /// The configured routes. The first one that matches a request answers it.
    routes: Vec<Arc<Route>>,
    access: Access,
    limits: Limits,
    asking: Asking,
    shared: Shared,
    /// The number of threads that serve connections. 0: the caller's runtime serves them.
    threads: usize,
    /// The address of the admin listener. `None`: the proxy starts none.
    admin: Option<SocketAddr>,
    /// Reads the configuration again.
    loader: Option<Loader>,
    /// The number of last answers that keep their text for the admin page.
    page_answers: usize,
    /// How long the proxy keeps an answer whose request and route do not set a time.
    keep: Duration,
    /// The address of the store for kept answers.
    store: String,
}

/// The settings for adapting requests to their models, and for asking for the rest of an answer.
#[derive(Clone)]
struct Asking {
    prompt: Arc<Prompt>,
    capabilities: Table,
    adapts: bool,
    shapes: Vec<Shape>,
    token_factor: u32,
}

/// An observer of the bodies of requests and answers, which contain the users' texts. It gets no
/// headers. It must not block for long.
pub trait Tap: Send + Sync {
    /// Called when a request goes out. The first call is 0. An adapted repeat of a request has the
    /// same number.
    fn request(&self, number: u32, body: &[u8]);
    /// Called with bytes of the answering event stream, or of a refusal that the proxy has read.
    fn response(&self, bytes: &[u8]);
}

/// An observer of the calls, the steps of the loop and the outcomes of all answers. It must not
/// block.
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

    /// Sets the rules for access to the proxy.
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

    /// Sets the number of threads that serve connections, each with upstream connections of its
    /// own. Default: 0, the caller's runtime serves them.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the address of a second listener, for metrics and readiness. Port 0 takes a free port.
    /// It checks no token. Default: none, and the proxy measures nothing.
    #[must_use]
    pub fn admin(mut self, addr: Option<SocketAddr>) -> Self {
        self.admin = addr;
        self
    }

    /// Sets the function that reads the configuration again; see [`Reloader`]. Default: none.
    #[must_use]
    pub fn loader(mut self, loader: Loader) -> Self {
        self.loader = Some(loader);
        self
    }

    /// Sets the number of last answers that keep their text for the page of the admin listener.
    /// Default: 0.
    #[must_use]
    pub fn page_answers(mut self, most: usize) -> Self {
        self.page_answers = most;
        self
    }

    /// Sets the collector that gets spans and metrics. Default: none.
    #[cfg(feature = "otlp")]
    #[must_use]
    pub fn otlp(mut self, otlp: Option<Otlp>) -> Self {
        self.shared.otlp = otlp;
        self
    }

    /// Sets whether the log contains the texts of requests and answers, for development. Default:
    /// it does not.
    #[must_use]
    pub fn log_content(mut self, logs: bool) -> Self {
        self.shared.logs_content = logs;
        self
    }

    /// Sets how long the proxy keeps answers for clients that lose their connection, if the request
    /// does not set a time, up to [`max_keep_time`](restitch::KeepLimits::max_keep_time). Default:
    /// zero, an answer ends with its client.
    #[must_use]
    pub fn keep_answers(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Sets the store for kept answers: `memory`, or the address of a Redis or Valkey server.
    /// Default: the memory of the process.
    #[must_use]
    pub fn store(mut self, store: impl Into<String>) -> Self {
        self.store = store.into();
        self
    }

    /// Sets the ending of an answer that can't be completed, if the request does not choose one.
    /// Default: [`GiveUp::Leave`], so that a client sees the failure that it would have seen
    /// without the proxy.
    #[must_use]
    pub fn give_up(mut self, give_up: GiveUp) -> Self {
        Arc::make_mut(&mut self.base).give_up = give_up;
        self
    }

    /// Sets the handling of prose answers that lose their connection. Default: [`Prose::Pass`].
    #[must_use]
    pub fn prose(mut self, prose: Prose) -> Self {
        Arc::make_mut(&mut self.base).prose = prose;
        self
    }

    /// Sets how much repair may change the JSON in an answer, if the request does not choose a
    /// level. Default: [`RepairLevel::Strict`], which leaves a healthy answer's bytes unchanged.
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

    /// Sets the capability table of the models.
    #[must_use]
    pub fn capabilities(mut self, table: Table) -> Self {
        self.asking.capabilities = table;
        self
    }

    /// Sets whether the proxy adapts first requests to their model and stage. Default: off, so
    /// requests go out unchanged and a client sees the upstream's own error.
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
        let shape = self
            .asking
            .shapes
            .iter()
            .find(|shape| shape.name == stage || shape.name == name);
        shape
            .map(|shape| shape.root != RootKind::Text)
            .ok_or_else(|| format!("`x-restitch-stage`: `{stage}` is no stage"))
    }

    /// Sets the factor by which the token limit of each further call exceeds the previous call's,
    /// if the request limits its tokens, up to
    /// [`max_extra_tokens`](restitch::ContinuationLimits::max_extra_tokens). Default: 1, every call
    /// has the first call's limit.
    #[must_use]
    pub fn raise_max_tokens(mut self, factor: u32) -> Self {
        self.asking.token_factor = factor.max(1);
        self
    }

    /// Adds a route after the earlier ones. It inherits unset settings from the proxy's current
    /// ones. `client`: the client of its upstream; `None`: the proxy's. `fallbacks`: the upstreams
    /// that take over when it fails.
    #[must_use]
    pub fn route(
        mut self,
        config: RouteConfig,
        client: Option<Client>,
        fallbacks: Vec<Fallback>,
    ) -> Self {
        self.routes
            .push(Arc::new(self.base.with(config, client, fallbacks)));
        self
    }

    /// Calls `observer` with every output except the bytes.
    #[must_use]
    pub fn observe(mut self, observer: Observer) -> Self {
        self.shared.observer = Some(observer);
        self
    }

    /// Calls `tap` with requests and responses. Concurrent conversations would mix in one tap.
    #[must_use]
    pub fn tap(mut self, tap: Arc<dyn Tap>) -> Self {
        self.shared.tap = Some(tap);
        self
    }

    /// Answers one API request without a socket. Appends the request's path to the upstream's.
    pub async fn ask(
        self: Arc<Self>,
        dialect: restitch::provider::Dialect,
        request: http::Request<bytes::Bytes>,
    ) -> http::Response<restitch_http::Body> {
        serve::ask(self, dialect, request).await
    }

    /// Listens on `addr`, without TLS. Port 0 takes a free port.
    ///
    /// # Errors
    /// Binding the address or the admin listener's address fails, or opening the store.
    pub async fn bind(self, addr: SocketAddr) -> std::io::Result<Server> {
        listen::bind(self, addr).await
    }

    /// Listens on a TCP address or a Unix socket. Port 0 takes a free port.
    ///
    /// # Errors
    /// Binding an address fails, or opening the store.
    pub async fn listen(self, listen: &Listen) -> std::io::Result<Listening> {
        listen::listen(self, listen).await
    }

    /// Returns the longest time for which the operator's settings keep answers without a request to
    /// keep them.
    fn longest_keep(&self) -> Duration {
        let of_routes = self
            .routes
            .iter()
            .filter_map(|route| route.config.keep)
            .max()
            .unwrap_or_default();
        self.keep.max(of_routes.into())
    }

    /// Returns the same proxy with upstream connections of its own. Routes to one upstream share
    /// theirs.
    fn apart(&self) -> Self {
        let mut apart = self.clone();
        let mut clients: Vec<Client> = Vec::new();
        for route in std::iter::once(&mut apart.base).chain(&mut apart.routes) {
            for client in Arc::make_mut(route).clients() {
                let known = clients
                    .iter()
                    .find(|known| known.upstream() == client.upstream())
                    .cloned();
                *client = known.unwrap_or_else(|| client.apart());
                clients.push(client.clone());
            }
        }
        apart
    }

    /// Returns the capability of a model at an upstream on a route: the table's entry, corrected by
    /// recorded refusals.
    fn capability(&self, route: &Route, upstream: &Upstream, model: &str) -> Capability {
        let known = route.direct(self.asking.capabilities.of(model, Some(upstream.host())));
        self.shared.correct(upstream.authority(), model, known)
    }

    /// Reports an output to the log and the observer. Logs no text, no paths inside documents, and
    /// no headers of a request.
    fn observed(&self, output: &Output, exchange: &Exchange) {
        let _entered = exchange.span().enter();
        if exchange.is_stopped() {
            // The proxy has ended the answer, so the end must not be reported as the upstream's.
            match output {
                // The session announces a call that the proxy never makes.
                Output::Call { .. } | Output::Event(SessionEvent::Cut { .. }) => {
                    return exchange.note_stop();
                }
                Output::Done {
                    transport_end: TransportEnd::Dropped,
                    ..
                } => exchange.note_stop(),
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
            Output::Event(SessionEvent::Cut {
                call, end, offset, ..
            }) => {
                let limit = end.limit().map(tracing::field::display);
                tracing::info!(
                    call,
                    cause = end.cause().map(CutCause::as_str),
                    limit,
                    offset,
                    "cut"
                );
            }
            Output::Event(SessionEvent::Failed { call, reason, .. }) => {
                warn_of_failure(*call, reason)
            }
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

/// Logs the end of an answer. If the answer needed no help, the access line suffices.
fn log_end(outcome: &Outcome) {
    let (status, tally) = (outcome.status().as_str(), outcome.tally());
    let is_helped =
        tally.continuations > 0 || tally.failures > 0 || !outcome.synthesized().is_empty();
    if !is_helped
        && outcome.reason().is_none()
        && outcome.cause().is_none()
        && tally.limit.is_none()
    {
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

/// Logs why a call failed. Leaves out the upstream's own words, since they may quote the request or
/// its key.
fn warn_of_failure(call: u32, reason: &FailureReason) {
    let cause = match reason {
        FailureReason::Nothing(end) => end.cause(),
        _ => None,
    };
    let cause = cause.map(CutCause::as_str);
    match reason {
        FailureReason::Nothing(CallEnd::Error(_)) => {
            tracing::warn!(
                call,
                cause,
                reason = "the upstream reported an error",
                "a call failed"
            );
        }
        reason => tracing::warn!(call, cause, %reason, "a call failed"),
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("base", &self.base)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
