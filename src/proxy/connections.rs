//! The connections that one thread serves.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use hyper_util::server::graceful::GracefulShutdown;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

use super::Proxy;
use super::body::Flushed;
use super::exchange::{AccessLine, Exchange};
use super::serve::{HEALTH, respond};
use super::socket::{Activity, ClientSocket};
use crate::client::Body;
use crate::socket::{Cut, Socket};

/// Open connections, each a task.
pub(super) struct Connections {
    proxy: Arc<Proxy>,
    graceful: GracefulShutdown,
    tasks: JoinSet<()>,
}

impl Connections {
    pub(super) fn new(proxy: &Proxy) -> Self {
        Self { proxy: Arc::new(proxy.clone()), graceful: GracefulShutdown::new(), tasks: JoinSet::new() }
    }

    /// Serves a connection. `permit` is dropped when it ends.
    pub(super) fn add(&mut self, stream: TcpStream, permit: impl Send + 'static) {
        configure(&stream);
        let proxy = Arc::clone(&self.proxy);
        let limits = &proxy.limits;
        let (cut, activity) = (Cut::default(), Activity::default());
        let socket = ClientSocket::new(Socket::new(stream, cut.clone()), activity.clone(), limits.server.clone());
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            // The socket has these times.
            .header_read_timeout(None)
            .max_headers(limits.server.max_head_fields)
            .max_header_size(limits.server.max_head_bytes)
            // One flat buffer bounds the read-ahead: hyper polls a response's body until the buffer is full, writes the
            // buffer in one call, and stops polling while the client reads nothing.
            .writev(false)
            .max_buf_size(limits.transport.max_read_ahead_bytes.max(limits.server.max_head_bytes).max(SMALLEST_BUFFER));
        let service = service_fn(move |request| {
            let (proxy, cut, answering) = (Arc::clone(&proxy), cut.clone(), activity.begin());
            let exchange = Arc::new(Exchange::begin(&request, proxy.metrics.clone()));
            let line = (request.uri().path() != HEALTH).then(|| AccessLine::new(Arc::clone(&exchange)));
            async move {
                // hyper keeps room for the future of an answer as long as the connection lives: 5.6 KiB, boxed a pointer.
                let responded = Box::pin(respond(proxy, request, &exchange)).instrument(exchange.span().clone());
                let response = responded.await;
                exchange.note_status(response.status());
                Ok::<_, Infallible>(response.map(|body| Body::wrap(Flushed::new(body, cut, line, answering))))
            }
        });
        let connection = self.graceful.watch(builder.serve_connection(socket, service));
        self.tasks.spawn(async move {
            let _permit = permit;
            if let Err(error) = connection.await {
                // hyper has answered what is no HTTP: nothing in it names an API.
                match error.is_parse() {
                    true => tracing::warn!(%error, reason = "no_http", "refused a request"),
                    false => tracing::debug!(%error, "a connection ended early"),
                }
            }
        });
    }

    /// Forgets a connection that has ended. Waits for one for ever if there are none.
    pub(super) async fn reap(&mut self) {
        if self.tasks.join_next().await.is_none() {
            pending::<()>().await;
        }
    }

    /// Waits until every answer under way has ended, for a limited time. Returns whether all have ended; the others are
    /// cut.
    pub(super) async fn drain(mut self, most: Duration) -> bool {
        let has_ended = timeout(most, self.graceful.shutdown()).await.is_ok();
        if !has_ended {
            tracing::warn!(limit = "drain_timeout", open = self.tasks.len(), "cut the open answers");
        }
        self.tasks.shutdown().await;
        has_ended
    }
}

fn configure(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    // Without it small events wait for the acknowledgement of the one before.
    let set = stream.set_nodelay(true);
    let set = set.and_then(|()| socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE)));
    let set = set.and_then(|()| socket.set_send_buffer_size(SEND_BUFFER));
    if let Err(error) = set {
        tracing::debug!(%error, "a socket could not be configured");
    }
}

/// The smallest buffer that hyper accepts.
const SMALLEST_BUFFER: usize = 8192;
/// Silence after which the kernel asks whether a client is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Bytes that the kernel keeps for a client that is slow. Linux doubles it, and would let it grow to megabytes otherwise.
const SEND_BUFFER: usize = 256 << 10;
