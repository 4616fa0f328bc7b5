//! Accepts connections and routes requests.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Proxy;
use super::body::{Collected, Flushed};
use super::conversation::{self, Conversation};
use super::first;
use super::upstream::{self, Head, RequestDirectives};
use crate::client::Body;
use crate::provider::Dialect;
use crate::socket::{Cut, Socket};

/// A proxy that listens. Dropping it closes the socket; answers under way are finished in the background.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    /// Set when no more connections are to be accepted.
    stop: watch::Sender<bool>,
    accept: JoinHandle<()>,
}

impl Server {
    /// Returns the address that the proxy listens on, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns `http://` and the address, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Closes the socket and waits until every answer under way has ended.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        // The task ends on its own, and a panic in it has been reported.
        let _ = self.accept.await;
    }

    /// Serves until `signal` is ready, then shuts down.
    pub async fn serve_until(self, signal: impl Future<Output = ()>) {
        signal.await;
        self.shutdown().await;
    }
}

pub(super) async fn bind(proxy: Proxy, addr: SocketAddr) -> io::Result<Server> {
    let listener = TcpListener::bind(addr).await?;
    let addr = listener.local_addr()?;
    let (stop, stopped) = watch::channel(false);
    let accept = tokio::spawn(accept(listener, Arc::new(proxy), stopped));
    Ok(Server { addr, stop, accept })
}

async fn accept(listener: TcpListener, proxy: Arc<Proxy>, mut stopped: watch::Receiver<bool>) {
    let graceful = GracefulShutdown::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => connection(stream, Arc::clone(&proxy), &graceful),
                Err(error) => {
                    // Mostly the process has no file descriptors left, and other connections must give theirs back
                    // first.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_RETRY).await;
                }
            },
            // The server was told to stop, or was dropped.
            _ = stopped.changed() => break,
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

fn connection(stream: TcpStream, proxy: Arc<Proxy>, graceful: &GracefulShutdown) {
    // Without it small events wait for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let read_ahead = proxy.limits.transport.max_read_ahead_bytes.max(SMALLEST_BUFFER);
    let cut = Cut::default();
    let socket = Socket::new(stream, cut.clone());
    let service = service_fn(move |request| {
        let (proxy, cut) = (Arc::clone(&proxy), cut.clone());
        async move { Ok::<_, Infallible>(respond(proxy, request).await.map(|body| Body::wrap(Flushed::new(body, cut)))) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        // One flat buffer bounds the read-ahead: hyper polls a response's body until the buffer is full, writes the
        // buffer in one call, and stops polling while the client reads nothing.
        .writev(false)
        .max_buf_size(read_ahead)
        .serve_connection(socket, service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
    });
}

async fn respond(proxy: Arc<Proxy>, request: Request<Incoming>) -> Response<Body> {
    if request.uri().path() == "/healthz" {
        return Response::new(Body::full("ok\n"));
    }
    if request.uri().path_and_query().is_none() || request.method() == Method::CONNECT {
        return error(StatusCode::BAD_REQUEST, "a request needs a path");
    }
    if asks_for_websocket(request.headers()) {
        return error(StatusCode::NOT_IMPLEMENTED, NO_WEBSOCKET);
    }
    let mut response = route(proxy, request).await;
    // Each connection has its own version and its own framing.
    *response.version_mut() = Version::HTTP_11;
    if response.headers().contains_key(TRANSFER_ENCODING) {
        // Of the two the upstream means the chunks. A length beside them would frame another body here (RFC 9112,
        // section 6.3).
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    upstream::remove_hop_by_hop(response.headers_mut());
    response
}

/// Returns whether a request asks for a WebSocket. Other upgrades are offers that a server may ignore (RFC 9110,
/// section 7.8).
fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, wanted: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case(wanted))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "websocket")
}

/// Says why there is no WebSocket, and what to do.
const NO_WEBSOCKET: &str = "this proxy passes no WebSockets on: connect to the upstream itself for them";

async fn route(proxy: Arc<Proxy>, request: Request<Incoming>) -> Response<Body> {
    let dialect = Dialect::of_path(request.uri().path()).filter(|_| request.method() == Method::POST);
    let (parts, body) = request.into_parts();
    let directives = RequestDirectives::read(&parts.headers);
    let head = Head::new(parts);
    let directives = match directives {
        Ok(directives) => directives,
        Err(mistake) if dialect.is_some() => return error(StatusCode::BAD_REQUEST, &mistake),
        Err(_) => RequestDirectives::default(),
    };
    let Some(dialect) = dialect.filter(|_| !directives.off) else {
        return pass(&proxy, &head, Body::wrap(body)).await;
    };
    let body = match Collected::read(body, proxy.limits.transport.max_body_bytes, None).await {
        Ok(Collected::Whole(body)) => body,
        Ok(Collected::Larger(body)) => return pass(&proxy, &head, body).await,
        Err(_) => return error(StatusCode::BAD_REQUEST, "the request's body broke off"),
    };
    let expects_json = match directives.stage.as_deref().map(|stage| proxy.expects_json(stage)).transpose() {
        Ok(expects_json) => expects_json.unwrap_or_default(),
        Err(mistake) => return error(StatusCode::BAD_REQUEST, &mistake),
    };
    match dialect.wire().parse(head.path(), &body) {
        Some(request) if request.n <= MAX_CHOICES => {
            let mut conversation = Conversation::new(proxy, head, body, dialect, request);
            directives.lower(&mut conversation.limits.continuation);
            conversation.give_up = directives.give_up.unwrap_or(conversation.give_up);
            conversation.repair = directives.repair.unwrap_or(conversation.repair);
            conversation.expects_json = expects_json;
            first::answer(conversation).await
        }
        _ => pass(&proxy, &head, Body::full(body)).await,
    }
}

/// Answers a request that did not come over a connection.
#[cfg(feature = "cli")]
pub(super) async fn ask(proxy: Arc<Proxy>, dialect: Dialect, request: Request<bytes::Bytes>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    match dialect.wire().parse(parts.uri.path(), &body) {
        Some(request) => first::answer(Conversation::new(proxy, Head::new(parts), body, dialect, request)).await,
        None => error(StatusCode::BAD_REQUEST, &format!("the body is not a request of `{dialect}`")),
    }
}

async fn pass(proxy: &Proxy, head: &Head, body: Body) -> Response<Body> {
    match upstream::send(&proxy.client, head, body).await {
        Ok(response) => conversation::passed(response),
        Err(cause) => unreachable(&cause),
    }
}

pub(super) fn unreachable(cause: &crate::client::Error) -> Response<Body> {
    tracing::warn!(%cause, "the upstream can't be reached");
    error(StatusCode::BAD_GATEWAY, &format!("the upstream can't be reached: {cause}"))
}

/// Returns an error of the proxy's own, in the form of the API.
pub(super) fn error(status: StatusCode, message: &str) -> Response<Body> {
    let body = serde_json::json!({"error": {"message": message, "type": PROXY_ERROR, "param": null, "code": null}});
    let mut response = Response::new(Body::full(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The `type` of errors that no upstream has sent.
pub(crate) const PROXY_ERROR: &str = "proxy_error";
/// The most choices of an answer that is continued. One that asks for more passes.
const MAX_CHOICES: u64 = 128;
/// The smallest buffer that hyper accepts.
const SMALLEST_BUFFER: usize = 8192;
/// How long the head of a request may take.
const HEADER_TIMEOUT: Duration = Duration::from_secs(300);
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
