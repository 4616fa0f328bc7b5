//! The connections of one serving thread.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Method};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

use super::body::FlushThenCloseBody;
use super::exchange::{AccessLine, Exchange, client_address};
use super::gate::Peer;
use super::listener::{Accepted, Transport};
use super::record::Event;
use super::reload::Current;
use super::serve::{HEALTH, respond};
use super::socket::{Activity, ClientSocket};
use super::tls::{ServerTls, report_failure};
use super::wake_gated_body::WakeGatedBody;
use restitch_http::Body;
use restitch_http::server_socket::{Cut, Socket};

/// Open connections, each in its own task.
pub(super) struct Connections {
    current: Current,
    tls: Option<ServerTls>,
    graceful: GracefulShutdown,
    /// Closed when the connections are to end.
    draining: watch::Sender<()>,
    tasks: JoinSet<()>,
}

impl Connections {
    pub(super) fn new(current: Current, tls: Option<ServerTls>) -> Self {
        Self {
            current,
            tls,
            graceful: GracefulShutdown::new(),
            draining: watch::Sender::default(),
            tasks: JoinSet::new(),
        }
    }

    /// Serves a connection. `permit` is dropped when it ends.
    pub(super) fn add(&mut self, accepted: Accepted, client: Peer, permit: impl Send + 'static) {
        let transport = match accepted.register() {
            Ok(transport) => transport,
            Err(error) => return tracing::warn!(%error, "lost a connection"),
        };
        let (current, watcher) = (self.current.clone(), self.graceful.watcher());
        let Some(tls) = self.tls.clone() else {
            self.tasks.spawn(async move {
                let _permit = permit;
                serve(current, (transport, client), watcher).await;
            });
            return;
        };
        let mut draining = self.draining.subscribe();
        let handshake_timeout = current.get().limits.server.handshake_timeout;
        self.tasks.spawn(async move {
            let _permit = permit;
            // A client that has not finished its handshake has sent no request, so draining needs
            // no answer for it.
            let encrypted = tokio::select! {
                encrypted = tls.handshake(transport, handshake_timeout) => encrypted,
                _ = draining.changed() => return,
            };
            match encrypted {
                Ok(transport) => serve(current, (transport, client), watcher).await,
                Err(error) => report_failure(&error, current.get().shared.metrics.as_deref()),
            }
        });
    }

    /// Removes a connection that has ended. Never returns if there are no connections.
    pub(super) async fn reap(&mut self) {
        if self.tasks.join_next().await.is_none() {
            pending::<()>().await;
        }
    }

    /// Waits for a limited time until every running answer has ended. Returns whether all have
    /// ended, and cuts the others.
    pub(super) async fn drain(mut self, most: Duration) -> bool {
        drop(self.draining);
        let has_ended = timeout(most, self.graceful.shutdown()).await.is_ok();
        if !has_ended {
            tracing::warn!(
                limit = "drain_timeout",
                open = self.tasks.len(),
                "cut the open answers"
            );
            self.current.get().shared.cut.ask();
            let told = async { while self.tasks.join_next().await.is_some() {} };
            // Cuts clients that have not read their error by then.
            drop(timeout(TELLING, told).await);
        }
        self.tasks.shutdown().await;
        has_ended
    }
}

// The error is one small event, and the process has to end.
/// The time in which clients whose answers are cut can read the error.
const TELLING: Duration = Duration::from_secs(1);

/// Answers the requests of one connection.
async fn serve(current: Current, (transport, client): (Transport, Peer), watcher: Watcher) {
    let proxy = current.get();
    let limits = &proxy.limits;
    let (cut, activity) = (Cut::default(), Activity::default());
    let metrics = proxy.shared.metrics.clone();
    let socket = Socket::new(transport, cut.clone());
    let socket = ClientSocket::new(socket, activity.clone(), limits.server.clone(), metrics);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // The client's socket enforces the timeouts.
        .header_read_timeout(None)
        .max_headers(limits.server.max_head_fields)
        .max_header_size(limits.server.max_head_bytes)
        // One flat buffer bounds the read-ahead: hyper polls a response's body until the buffer is
        // full, writes the buffer in one call, and stops polling while the client reads nothing.
        .writev(false)
        .max_buf_size(
            limits
                .transport
                .max_read_ahead_bytes
                .max(limits.server.max_head_bytes)
                .max(SMALLEST_BUFFER),
        );
    // A connection may outlive a reload, and must not keep the old configuration in memory.
    drop(proxy);
    let service = service_fn(move |request| {
        // The configuration of this moment: a reload may have replaced the one of the last request.
        let (proxy, cut, answering) = (current.get(), cut.clone(), activity.begin());
        let trusted = &proxy.config.proxy.trusted_proxies;
        let address = client_address(client, request.headers(), trusted);
        let exchange = Arc::new(Exchange::begin(&request, &proxy.shared, address));
        let stopping = Arc::clone(&proxy.shared.stopping);
        // Probes come every few seconds, and would fill the log.
        let mut line =
            (request.uri().path() != HEALTH).then(|| AccessLine::new(Arc::clone(&exchange)));
        if request.method() == Method::HEAD {
            // The answer to `HEAD` is complete with its head: hyper reads no body.
            line.iter_mut().for_each(AccessLine::end);
        }
        async move {
            // hyper reserves memory for this future as long as the connection lives: 5.6 KiB, or a
            // pointer if the future is boxed.
            let responded =
                Box::pin(respond(proxy, request, &exchange)).instrument(exchange.span().clone());
            let response = responded.await;
            exchange.apply(Event::Status(response.status()));
            let mut response = exchange.name_response(response);
            // A client with a pool must not send its next request when this connection is closed.
            if stopping.load(Ordering::Relaxed) {
                let headers = response.headers_mut();
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| {
                Body::wrap(WakeGatedBody::new(FlushThenCloseBody::new(
                    body, cut, line, answering,
                )))
            }))
        }
    });
    if let Err(error) = watcher
        .watch(builder.serve_connection(socket, service))
        .await
    {
        // For bytes that are not HTTP, the socket has already logged its refusal, unless they came
        // together with a request.
        match error.is_parse() {
            true => tracing::info!(%error, "the bytes of a connection are no HTTP"),
            false => tracing::debug!(%error, "a connection ended early"),
        }
    }
}

/// The smallest buffer that hyper accepts.
const SMALLEST_BUFFER: usize = 8192;
