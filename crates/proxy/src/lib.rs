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
mod caller;
mod certificates;
mod client_request;
pub mod config;
mod connections;
mod conversation;
mod early_call;
mod encoding;
mod error_redactor;
mod exchange;
mod fallback;
mod first_call;
mod gate;
mod kept;
mod listen;
mod listener;
mod metrics;
#[cfg_attr(not(feature = "otlp"), path = "otlp_off.rs")]
mod otlp;
mod page;
mod record;
mod redactor;
mod refusal;
mod refused;
mod reload;
mod rest_call;
mod resume;
mod route;
pub mod route_config;
mod secret;
mod serve;
mod setup;
mod shared;
mod socket;
#[cfg(unix)]
mod socket_file;
mod steps;
mod store;
mod tls;
mod upstream;
mod upstreams;
mod wake_gated_body;
mod whole;
mod worker;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

pub use conversation::is_stream;
pub use listen::{Listen, Listening, Server};
pub use metrics::{MetricRow, metric_rows};
#[cfg(feature = "otlp")]
pub use otlp::Otlp;
pub use redactor::Redactor;
pub use refusal::OwnError;
pub use reload::{Loaded, Loader, ReloadError, Reloader};
pub use setup::{SetupError, check_secret_files};

pub use tls::ServerTls;
pub use upstream::RequestDirectives;

use access::Access;
use caller::Caller;
use record::Event;
use route::{Route, Routes};
use secret::Secret;
use setup::Setup;
use shared::Shared;

use crate::config::Config;
use restitch::Limits;
use restitch::internal::record::{AnswerRecord, Change};
use restitch::internal::relay::{Output, TransportEnd};
use restitch::provider::capability::{Capability, Table};
use restitch::session::Prompt;
use restitch_http::Upstream;

/// A proxy in front of one upstream.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use restitch_proxy::Proxy;
/// use restitch_proxy::config::Config;
///
/// let config = Config::parse("[proxy]\nupstream = \"http://127.0.0.1:9/prefix\"\n")?;
/// // The configuration names no variable of the environment.
/// let proxy = Proxy::new(config, &|_| None)?;
/// let server = proxy.bind(([127, 0, 0, 1], 0).into()).await?;
/// assert_ne!(server.addr().port(), 0);
/// server.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Proxy {
    routes: Routes,
    access: Access,
    limits: Limits,
    policy: RequestPolicy,
    shared: Shared,
    /// The configuration that the other fields are made of.
    config: Arc<Config>,
    /// Reads the configuration again.
    loader: Option<Loader>,
}

/// The settings for adapting requests to their models, and for asking for the rest of an answer.
#[derive(Clone)]
struct RequestPolicy {
    prompt: Arc<Prompt>,
    capabilities: Table,
    adapts: bool,
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

/// An observer of the records of all answers. It must not block.
pub type Observer = Arc<dyn Fn(&AnswerRecord) + Send + Sync>;

impl Proxy {
    /// Creates the proxy of a configuration. `variable` returns the value of a variable of the
    /// environment: a token of clients, or the key of an upstream.
    ///
    /// # Errors
    /// A setting is missing or invalid, a variable has no usable value, or a file of `[tls]`, a token
    /// or a key can't be used.
    pub fn new(
        config: Config,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, SetupError> {
        let mut setup = Setup::new(&config, variable);
        let (limits, own) = (config.all_limits(), &config.proxy);
        let base = Route::new(setup.base()?, limits.clone(), own);
        let mut configured = Vec::with_capacity(config.routes.len());
        for route in &config.routes {
            let (own, fallbacks) = setup.route(route)?;
            configured.push(Arc::new(base.with(route.clone(), own, fallbacks)));
        }
        Ok(Self {
            shared: Shared::new(&limits),
            routes: Routes {
                base: Arc::new(base),
                configured,
            },
            access: setup.access()?,
            limits,
            policy: RequestPolicy {
                prompt: Arc::new(config.prompt.clone()),
                capabilities: config.table(),
                adapts: own.adapt,
                token_factor: own.raise_max_tokens.get(),
            },
            loader: None,
            config: Arc::new(config),
        })
    }

    /// Returns the upstream of requests that no route matches.
    pub fn upstream(&self) -> &Upstream {
        self.routes.base.own.client.upstream()
    }

    /// Sets the function that reads the configuration again; see [`Reloader`]. Default: none.
    #[must_use]
    pub fn loader(mut self, loader: Loader) -> Self {
        self.loader = Some(loader);
        self
    }

    /// Sets the collector that gets spans. Default: none.
    #[cfg(feature = "otlp")]
    #[must_use]
    pub fn otlp(mut self, otlp: Option<Otlp>) -> Self {
        self.shared.otlp = otlp;
        self
    }

    /// Calls `observer` with the record of an answer after every output except the bytes.
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

    /// Returns the secrets of the operator.
    fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let tokens = self.access.tokens.iter().map(|token| &token.secret);
        tokens.chain(self.routes.keys())
    }

    /// Takes over newer values of secrets.
    fn update_secrets(&mut self, newer: &[Secret]) {
        for token in &mut self.access.tokens {
            token.secret.update(newer);
        }
        self.routes.update_keys(newer);
    }

    /// Returns the same proxy with upstream connections of its own.
    fn apart(&self) -> Self {
        let mut apart = self.clone();
        apart.routes.part();
        apart
    }

    /// Returns the capability of a model at an upstream on a route: the table's entry, corrected by
    /// recorded refusals.
    fn capability(&self, upstream: &Upstream, model: &str) -> Capability {
        let server = self.shared.server(upstream.authority());
        let capabilities = &self.policy.capabilities;
        let known = capabilities.of_server(model, Some(upstream.host()), server.as_deref());
        self.shared.correct(upstream.authority(), model, known)
    }

    /// Reports an output to the log, the record of the answer and the observer. Returns the change
    /// of the record.
    fn observed(&self, output: &Output, caller: &Caller) -> Option<Change> {
        let exchange = &caller.exchange;
        let _entered = exchange.span().enter();
        if exchange.is_stopped() {
            // The proxy has ended the answer, so the end must not be reported as the upstream's.
            if steps::leads_to_call(output) {
                // The session announces a call that the proxy never makes.
                exchange.apply(Event::Stopped);
                return None;
            }
            if let Output::Done {
                transport_end: TransportEnd::Dropped,
                ..
            } = output
            {
                exchange.apply(Event::Stopped);
            }
        }
        let change = exchange.apply(Event::Output(output));
        steps::log(output, caller);
        if let Some(observer) = &self.shared.observer {
            observer(&exchange.record().answer);
        }
        change
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("base", &self.routes.base)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
