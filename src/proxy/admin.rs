//! The listener for the operator's tools: metrics, and whether the proxy is ready. It reads no token, so it is meant for an
//! address that only they reach.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Proxy;
use super::listen::ACCEPT_RETRY;
use super::metrics::Metrics;
use super::serve::HEALTH;
use crate::client::Body;

/// A listener that is bound. It serves in a task of its own, until the last answers of the proxy have ended.
pub(super) struct Admin {
    listener: TcpListener,
    pub(super) addr: SocketAddr,
}

impl Admin {
    pub(super) async fn bind(addr: SocketAddr) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("the admin listener {addr}: {error}"));
        let listener = TcpListener::bind(addr).await.map_err(named)?;
        let addr = listener.local_addr().map_err(named)?;
        if !addr.ip().to_canonical().is_loopback() {
            tracing::warn!(%addr, "everybody who reaches this address may read the metrics: listen on 127.0.0.1");
        }
        Ok(Self { listener, addr })
    }

    /// Serves for ever. `stopped`: set, or without a sender, once the proxy takes no more connections.
    pub(super) async fn serve(self, metrics: Arc<Metrics>, proxy: Proxy, stopped: watch::Receiver<bool>) {
        let state = Arc::new(State { metrics, proxy, stopped, reached: Mutex::default() });
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                    Ok((stream, _)) => drop(connections.spawn(connection(stream, Arc::clone(&state)))),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection of the admin listener");
                        sleep(ACCEPT_RETRY).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

/// What the answers are made from.
struct State {
    metrics: Arc<Metrics>,
    proxy: Proxy,
    stopped: watch::Receiver<bool>,
    /// When the upstream was tried last, and why it was not reached.
    reached: Mutex<Option<(Instant, Result<(), String>)>>,
}

/// Serves one request. Each has a connection of its own, so that unused connections leave room for others.
async fn connection(stream: TcpStream, state: Arc<State>) {
    let head_timeout = state.proxy.limits.server.head_timeout.min(CONNECTION);
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, std::convert::Infallible>(state.respond(&request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head_timeout).keep_alive(false);
    match timeout(CONNECTION, builder.serve_connection(TokioIo::new(stream), service)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection of the admin listener ended early"),
        Err(_) => tracing::debug!("a connection of the admin listener took too long"),
    }
}

impl State {
    async fn respond<B>(&self, request: &Request<B>) -> Response<Body> {
        let path = request.uri().path();
        if !matches!(path, METRICS | HEALTH | READY) {
            return plain(StatusCode::NOT_FOUND, format!("there is {METRICS}, {HEALTH} and {READY}\n"));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match path {
            METRICS => self.metrics(),
            READY => match self.ready().await {
                Ok(()) => plain(StatusCode::OK, "ready\n"),
                Err(reason) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
            },
            _ => plain(StatusCode::OK, "ok\n"),
        }
    }

    fn metrics(&self) -> Response<Body> {
        match self.metrics.text() {
            Ok(text) => with_type(StatusCode::OK, OPEN_METRICS, text),
            Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("the metrics cannot be written: {error}\n")),
        }
    }

    /// Returns why the proxy is not ready.
    async fn ready(&self) -> Result<(), String> {
        // The configuration is valid: the proxy has started.
        if *self.stopped.borrow() || self.stopped.has_changed().is_err() {
            return Err("draining: the proxy was told to stop".to_owned());
        }
        // Probes that come together wait for one attempt.
        let mut reached = self.reached.lock().await;
        match &*reached {
            Some((at, result)) if at.elapsed() < FRESH => result.clone(),
            _ => {
                let result = match timeout(REACH, self.proxy.base.client.reach()).await {
                    Ok(result) => result.map_err(|error| format!("the upstream is not reached: {error}")),
                    Err(_) => Err(format!("the upstream is not reached in {} s", REACH.as_secs())),
                };
                *reached = Some((Instant::now(), result.clone()));
                result
            }
        }
    }
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    with_type(status, "text/plain; charset=utf-8", text.into())
}

fn with_type(status: StatusCode, media_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

const METRICS: &str = "/metrics";
const READY: &str = "/readyz";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Connections at a time: a scraper, a probe, and a few people. Further ones wait.
const MOST_CONNECTIONS: usize = 16;
/// How long a connection may take in all.
const CONNECTION: Duration = Duration::from_secs(10);
/// How long a connection to the upstream may take.
const REACH: Duration = Duration::from_secs(2);
/// How long it counts that the upstream was reached, or was not.
const FRESH: Duration = Duration::from_secs(3);
