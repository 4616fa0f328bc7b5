//! The listener for the operator and their tools: the page, metrics, and whether the proxy is
//! ready. It checks no token, so its address should be reachable for the operator alone.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, HeaderMap, HeaderValue, ORIGIN};
use http::{Method, Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Proxy;
use super::access::FETCH_SITE;
use super::allowed::members;
use super::exchange::request_id;
use super::gate::Gate;
use super::listen::ACCEPT_RETRY;
use super::metrics::Moment;
use super::page::{Guard, Page, with_type};
use super::record::REQUEST_ID;
use super::reload::{Current, ReloadError, Reloader};
use super::serve::HEALTH;
use restitch_http::{Body, Client};

/// A listener that is bound. It runs in its own task until the last answers of the proxy have
/// ended.
pub(super) struct Admin {
    listener: TcpListener,
    pub(super) addr: SocketAddr,
}

impl Admin {
    pub(super) async fn bind(addr: SocketAddr) -> io::Result<Self> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("the admin listener {addr}: {error}"))
        };
        let listener = TcpListener::bind(addr).await.map_err(named)?;
        let addr = listener.local_addr().map_err(named)?;
        if !addr.ip().to_canonical().is_loopback() {
            tracing::warn!(%addr, "everybody who reaches this address may read the metrics and the page, and stop answers: listen on 127.0.0.1");
        }
        Ok(Self { listener, addr })
    }

    /// Serves until its task is dropped.
    pub(super) async fn serve(self, (current, gate): (Current, Gate), reloader: Reloader) {
        let page = current.get().shared.answers.clone().map(Page::new);
        let bound = self.addr;
        let state = Arc::new(AdminState {
            bound,
            current,
            gate,
            page,
            reloader,
            reached: Mutex::default(),
        });
        let mut connections = AdminConnections::default();
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => connections.add(stream, &state),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of the admin listener");
                    sleep(ACCEPT_RETRY).await;
                }
            }
            // Yields so that a request that arrived with its connection is read before the loop
            // accepts many others.
            yield_now().await;
        }
    }
}

/// The open connections, each in its own task. At the limit a new connection replaces an old one: a
/// probe must not wait for clients that send nothing.
#[derive(Default)]
struct AdminConnections {
    tasks: JoinSet<()>,
    /// The oldest first.
    open: VecDeque<OpenConnection>,
}

/// An open connection.
struct OpenConnection {
    task: AbortHandle,
    /// Set once the head of its request is read.
    has_head: Arc<AtomicBool>,
}

impl AdminConnections {
    fn add(&mut self, stream: TcpStream, state: &Arc<AdminState>) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|open| !open.task.is_finished());
        if self.open.len() >= MOST_CONNECTIONS {
            self.drop_one();
        }
        let has_head = Arc::new(AtomicBool::new(false));
        let task = self
            .tasks
            .spawn(connection(stream, Arc::clone(state), Arc::clone(&has_head)));
        self.open.push_back(OpenConnection { task, has_head });
    }

    /// Drops the connection that has waited longest for the head of a request, or else the oldest
    /// one. A page reconnects after that.
    fn drop_one(&mut self) {
        let waiting = self
            .open
            .iter()
            .position(|open| !open.has_head.load(Ordering::Relaxed));
        if let Some(dropped) = self.open.remove(waiting.unwrap_or(0)) {
            dropped.task.abort();
            tracing::debug!("dropped a connection of the admin listener: there are too many");
        }
    }
}

/// The data that responses are built from.
struct AdminState {
    /// The address of the listener.
    bound: SocketAddr,
    current: Current,
    /// The connections of clients.
    gate: Gate,
    page: Option<Page>,
    reloader: Reloader,
    /// The time and the result of the last connections to the upstreams.
    reached: Mutex<Option<(Instant, String)>>,
}

/// Serves one request per connection, so that idle connections leave room for others. Sets
/// `has_head` once it has read the request's head.
async fn connection(stream: TcpStream, state: Arc<AdminState>, has_head: Arc<AtomicBool>) {
    let head_timeout = state
        .current
        .get()
        .limits
        .server
        .head_timeout
        .min(CONNECTION);
    let service = service_fn(move |request| {
        has_head.store(true, Ordering::Relaxed);
        let state = Arc::clone(&state);
        async move {
            let mut response = state.respond(&request).await;
            if let Ok(id) = HeaderValue::try_from(request_id(request.headers())) {
                response.headers_mut().insert(REQUEST_ID, id);
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .keep_alive(false);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    match timeout(CONNECTION, serving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection of the admin listener ended early"),
        Err(_) => tracing::debug!("a connection of the admin listener took too long"),
    }
}

impl AdminState {
    async fn respond<B>(&self, request: &Request<B>) -> Response<Body> {
        let path = request.uri().path();
        let proxy = self.current.get();
        let guard = Guard {
            bound: self.bound,
            hosts: &proxy.access.rules.admin_hosts,
        };
        if let Some(page) = &self.page
            && let Some(response) = page.respond(request, guard)
        {
            return response;
        }
        if path == RELOAD {
            return self.reload(request).await;
        }
        if !matches!(path, METRICS | HEALTH | READY) {
            return plain(
                StatusCode::NOT_FOUND,
                format!("there is /, {METRICS}, {HEALTH}, {READY} and {RELOAD}\n"),
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return wrong_method("GET, HEAD");
        }
        match path {
            METRICS => match guard.admit(request) {
                Ok(()) => metrics(&proxy, &self.process(&proxy), request.headers()),
                Err(refusal) => refusal.response(None),
            },
            // This answer names the upstreams, so a page of another site must not read it.
            READY if members(request.uri().query()).any(|(name, _)| name == "verbose") => {
                match guard.admit(request) {
                    Ok(()) => self.readiness(Some(self.upstreams().await)),
                    Err(refusal) => refusal.response(None),
                }
            }
            READY => self.readiness(None),
            _ => plain(StatusCode::OK, "ok\n"),
        }
    }

    /// Reloads the configuration. Refuses every page in a browser: a page can POST to any address,
    /// but the browser then adds `Origin` or `Sec-Fetch-Site`.
    async fn reload<B>(&self, request: &Request<B>) -> Response<Body> {
        if *request.method() != Method::POST {
            return wrong_method("POST");
        }
        if [ORIGIN, FETCH_SITE]
            .iter()
            .any(|name| request.headers().contains_key(name))
        {
            tracing::warn!(reason = "origin", "refused a reload");
            return plain(StatusCode::FORBIDDEN, "no page in a browser may do this\n");
        }
        match self.reloader.reload().await {
            Ok(fixed) if fixed.is_empty() => plain(StatusCode::OK, "reloaded\n"),
            Ok(fixed) => {
                let fixed = fixed.join(", ");
                plain(
                    StatusCode::OK,
                    format!("reloaded; these differ and hold only after a restart: {fixed}\n"),
                )
            }
            Err(error @ ReloadError::NoFile) => plain(StatusCode::CONFLICT, format!("{error}\n")),
            Err(error @ ReloadError::Invalid(_)) => {
                plain(StatusCode::UNPROCESSABLE_ENTITY, format!("{error}\n"))
            }
        }
    }

    /// Reports whether the proxy takes requests. A running proxy has a valid configuration and
    /// listens, so only draining makes it not ready. An unreachable upstream does not: requests go
    /// to a fallback or get the upstream's own error, and removing a replica because of its
    /// upstream helps no client. `upstreams`: lines about the upstreams.
    fn readiness(&self, upstreams: Option<String>) -> Response<Body> {
        let (status, line) = match self.is_draining() {
            true => (
                StatusCode::SERVICE_UNAVAILABLE,
                "draining: the proxy was told to stop\n",
            ),
            false => (StatusCode::OK, "ready\n"),
        };
        plain(status, [line, &upstreams.unwrap_or_default()].concat())
    }

    fn is_draining(&self) -> bool {
        self.current.get().shared.stopping.load(Ordering::Relaxed)
    }

    /// Returns the state of the process for the metrics.
    fn process(&self, proxy: &Proxy) -> Moment {
        let upstreams: BTreeSet<_> = proxy
            .routes
            .clients()
            .map(|client| client.upstream().authority())
            .collect();
        let breakers = upstreams.into_iter();
        let answers = &proxy.shared.answers;
        Moment {
            running: answers.as_ref().map_or(0, |answers| answers.running()),
            connections: self.gate.open(),
            max_connections: proxy.limits.server.max_connections,
            is_draining: self.is_draining(),
            upstreams: breakers
                .map(|upstream| (upstream.to_owned(), proxy.shared.is_failing(upstream)))
                .collect(),
        }
    }

    /// Returns a line for each upstream. Concurrent requests share one attempt.
    async fn upstreams(&self) -> String {
        let mut reached = self.reached.lock().await;
        match &*reached {
            Some((at, lines)) if at.elapsed() < FRESH => lines.clone(),
            _ => {
                let lines = reach(&self.current.get()).await;
                *reached = Some((Instant::now(), lines.clone()));
                lines
            }
        }
    }
}

fn metrics(proxy: &Proxy, state: &Moment, headers: &HeaderMap) -> Response<Body> {
    let accept = headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or_default();
    // Clients of the older format name it alone; Prometheus names both formats.
    let is_old = accept.contains("text/plain") && !accept.contains("openmetrics");
    match proxy
        .shared
        .metrics
        .as_ref()
        .map_or_else(|| Ok(String::new()), |metrics| metrics.text(state))
    {
        Ok(text) if is_old => with_type(StatusCode::OK, PROMETHEUS_TEXT, prometheus_text(&text)),
        Ok(text) => with_type(StatusCode::OK, OPEN_METRICS, text),
        Err(error) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the metrics cannot be written: {error}\n"),
        ),
    }
}

/// Converts metrics to Prometheus' own text format, which differs from OpenMetrics in the names of
/// counters and in two comments.
fn prometheus_text(metrics: &str) -> String {
    let types = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: HashSet<&str> = types
        .filter_map(|line| line.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(metrics.len());
    for line in metrics
        .lines()
        .filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF")
    {
        let comment = line
            .split_once(' ')
            .filter(|(mark, _)| *mark == "#")
            .and_then(|(_, rest)| rest.split_once(' '));
        match comment.and_then(|(kind, rest)| Some((kind, rest.split_once(' ')?))) {
            Some((kind, (name, rest))) if counters.contains(name) => {
                text.extend(["# ", kind, " ", name, "_total ", rest, "\n"]);
            }
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

/// Connects to the upstreams of all routes and their fallbacks, each once. Returns a line for each.
async fn reach(proxy: &Proxy) -> String {
    let mut clients: Vec<&Client> = Vec::new();
    let origin = |client: &Client| {
        (
            client.upstream().is_https(),
            client.upstream().authority().to_owned(),
        )
    };
    for client in proxy.routes.clients() {
        if !clients.iter().any(|known| origin(known) == origin(client)) {
            clients.push(client);
        }
    }
    let (places, due) = (
        Arc::new(Semaphore::new(MOST_REACHED)),
        Instant::now() + REACH,
    );
    let mut tries = JoinSet::new();
    for (number, client) in clients.into_iter().cloned().enumerate() {
        let (places, metrics) = (Arc::clone(&places), proxy.shared.metrics.clone());
        tries.spawn(async move {
            let tried = async {
                let _place = places.acquire().await;
                client.reach().await
            };
            let reached = timeout_at(due, tried).await;
            let authority = client.upstream().authority();
            if let Some(metrics) = metrics {
                metrics.reached(authority, matches!(reached, Ok(Ok(()))));
            }
            let found = match reached {
                Ok(Ok(())) => "reached".to_owned(),
                Ok(Err(error)) => format!("not reached: {error}"),
                Err(_) => format!("not reached in {} s", REACH.as_secs()),
            };
            (number, format!("upstream {authority}: {found}\n"))
        });
    }
    let mut lines: Vec<_> = tries.join_all().await;
    lines.sort_unstable();
    lines.into_iter().map(|(_, line)| line).collect()
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    with_type(status, "text/plain; charset=utf-8", text)
}

fn wrong_method(allowed: &'static str) -> Response<Body> {
    let mut response = plain(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("allowed: {allowed}\n"),
    );
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

const METRICS: &str = "/metrics";
const RELOAD: &str = "/reload";
const READY: &str = "/readyz";
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

// A scraper, a probe, and a few people with pages that follow an answer. The listener drops a probe
// only if 64 others connect between the probe's connection and its head, which arrive together.
/// Connections at a time.
const MOST_CONNECTIONS: usize = 64;
// Stalled clients have to leave room for others.
/// The longest time that a connection may take in total.
const CONNECTION: Duration = Duration::from_secs(10);
// A probe waits for them.
/// The longest time for the connections to the upstreams.
const REACH: Duration = Duration::from_secs(2);
// A configuration may have hundreds of routes, and the answers need the same file descriptors.
/// The most concurrent connections to upstreams in one check.
const MOST_REACHED: usize = 32;
// Frequent probes must not connect each time.
/// How long the result of the last connections to the upstreams is reused.
const FRESH: Duration = Duration::from_secs(3);
