//! Sockets, connections and routes.
//!
//! The modules above decide what an answer says; this one sends it, delayed, cut and dropped as they say.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Sleep, sleep};
use tracing::{debug, warn};

use super::Sim;
use super::answer::{self, Answer, Events, Frames, Header};
use super::call::{Call, CallKind, ParsedRequest, RequestError};
use super::script::{AnswerEnd, Behaviour, Step};
use super::state::State;
use crate::Limits;
use crate::socket::{Cut, Socket};

/// A model server that listens. Dropping it closes its socket and every connection.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    shared: Arc<Shared>,
    /// Accepts connections, and owns their tasks.
    accept: JoinHandle<()>,
}

impl Server {
    /// Returns the address it listens on, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://` and the address, without a path. OpenAI clients need `/v1` after it.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Returns the requests received so far, oldest first. The last 10,000 are kept, with 64 MiB of their bodies.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.state().log.calls().cloned().collect()
    }

    /// Returns how many scripted answers are in progress.
    pub fn open(&self) -> usize {
        self.shared.counts.borrow().open
    }

    /// Waits until at least `calls` requests have been received in all.
    pub async fn received(&self, calls: usize) {
        self.wait(|counts| counts.received >= calls).await;
    }

    /// Waits until no scripted answer is in progress: each has ended, was dropped, or its peer has left.
    pub async fn idle(&self) {
        self.wait(|counts| counts.open == 0).await;
    }

    /// Serves until `signal` is ready, then closes the socket and every connection.
    pub async fn serve_until(self, signal: impl Future<Output = ()>) {
        signal.await;
        self.shutdown().await;
    }

    /// Closes the socket and every connection; afterwards the port is free.
    pub async fn shutdown(mut self) {
        self.accept.abort();
        // A task that was aborted has no result.
        let _ = (&mut self.accept).await;
    }

    async fn wait(&self, until: impl FnMut(&Counts) -> bool) {
        // This fails only when the sender is gone, and `self` holds it.
        let _ = self.shared.counts.subscribe().wait_for(until).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

pub(super) async fn bind(sim: Sim, addr: SocketAddr) -> io::Result<Server> {
    let listener = TcpListener::bind(addr).await?;
    let addr = listener.local_addr()?;
    let shared = Arc::new(Shared { sim, state: Mutex::default(), counts: watch::Sender::default() });
    let accept = tokio::spawn(accept(listener, Arc::clone(&shared)));
    Ok(Server { addr, shared, accept })
}

/// The state that all connections share.
#[derive(Debug)]
struct Shared {
    sim: Sim,
    state: Mutex<State>,
    counts: watch::Sender<Counts>,
}

impl Shared {
    /// A panic elsewhere leaves the state consistent, because each change of it is one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The numbers that tests wait for.
#[derive(Debug, Default)]
struct Counts {
    received: usize,
    open: usize,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // The connections are dropped with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, Arc::clone(&shared)))),
                Err(error) => {
                    // Mostly a lack of file descriptors; the wait lets other tasks free some.
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_AGAIN).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "no TCP_NODELAY");
    }
    let cut = Cut::default();
    let io = Socket::new(stream, cut.clone());
    let service = service_fn(|request| respond(Arc::clone(&shared), cut.clone(), request));
    // There is no timer and so no time-out: a test server waits for its tests, also on a paused clock.
    if let Err(error) = http1::Builder::new().serve_connection(io, service).await {
        debug!(%error, "a connection ended early");
    }
}

/// The connection is to be closed without a response. hyper is told so by an error.
#[derive(Debug)]
struct NoResponse;

impl fmt::Display for NoResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the script hangs up")
    }
}

impl std::error::Error for NoResponse {}

type Reply = Response<Either<Full<Bytes>, Delivery>>;

async fn respond(shared: Arc<Shared>, cut: Cut, request: Request<Incoming>) -> Result<Reply, NoResponse> {
    let (parts, body) = request.into_parts();
    let (body, too_large) = match Limited::new(body, Limits::default().transport.max_body_bytes).collect().await {
        Ok(body) => (body.to_bytes(), false),
        Err(error) if error.is::<LengthLimitError>() => (Bytes::new(), true),
        // The peer has left in the middle of its request.
        Err(_) => return Err(NoResponse),
    };
    let mut call = Call {
        method: parts.method.clone(),
        path: parts.uri.to_string(),
        headers: redacted(&parts.headers),
        body: String::from_utf8_lossy(&body).into_owned(),
        kind: CallKind::Other,
        step: None,
        delivered: 0,
        status: None,
    };
    let reply = if too_large {
        let error = RequestError::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 32 MiB");
        Ok(refuse(&error))
    } else {
        route(&shared, &cut, &parts, &body, &mut call)
    };
    call.status = reply.as_ref().ok().map(Response::status);
    debug!(method = %call.method, path = parts.uri.path(), status = ?call.status, step = ?call.step, "request");
    shared.state().log.push(call);
    shared.counts.send_modify(|counts| counts.received += 1);
    reply
}

fn route(shared: &Arc<Shared>, cut: &Cut, parts: &Parts, body: &[u8], call: &mut Call) -> Result<Reply, NoResponse> {
    let path = parts.uri.path();
    if parts.method == Method::POST && path.ends_with("/chat/completions") {
        return match ParsedRequest::read(body, &shared.sim.document, shared.sim.profile, path) {
            Ok(parsed) => complete(shared, cut, &parsed, call),
            Err(error) => Ok(refuse(&error)),
        };
    }
    if parts.method == Method::GET && path.ends_with("/models") {
        let model = json!({"id": shared.sim.model, "object": "model", "created": 0, "owned_by": "restitch"});
        return Ok(json_reply(StatusCode::OK, &json!({"object": "list", "data": [model]})));
    }
    if parts.method == Method::GET && path == "/healthz" {
        return Ok(json_reply(StatusCode::OK, &json!({"status": "ok"})));
    }
    Ok(refuse(&RequestError::new(StatusCode::NOT_FOUND, format!("nothing answers {} {path}", parts.method))))
}

/// Takes the conversation's next step.
fn complete(shared: &Arc<Shared>, cut: &Cut, parsed: &ParsedRequest, call: &mut Call) -> Result<Reply, NoResponse> {
    let sim = &shared.sim;
    let continuation = parsed.continuation.as_ref();
    let script = parsed.script.as_ref().unwrap_or(&sim.script);
    let (step, number) = {
        let mut state = shared.state();
        state.answers += 1;
        (state.conversations.next(parsed.conversation, continuation.is_some(), script), state.answers)
    };
    let spoken = match step.behaviour {
        Behaviour::Reasoning if parsed.reasoning_off && continuation.is_some() => Behaviour::Anchor,
        Behaviour::Reasoning if parsed.reasoning_off => Behaviour::Answer,
        behaviour => behaviour,
    };
    let mut answer = Answer::new(&Step { behaviour: spoken, ..step }, &sim.document, continuation);
    if let Some(c) = continuation.filter(|_| parsed.is_prefill && sim.profile.returns_prefill()) {
        answer.text.insert_str(0, &c.delivered);
    }
    call.step = Some(step);
    call.delivered = answer.delivered;
    call.kind = continuation
        .map_or(CallKind::First, |c| CallKind::Continuation { anchor: c.anchor.clone(), position: c.position });
    match step.behaviour {
        Behaviour::NoResponse => return Err(NoResponse),
        Behaviour::Status { code, retry_after } => return Ok(status(code, retry_after)),
        _ => {}
    }

    let header = Header { number, model: &sim.model, prompt_tokens: parsed.prompt_bytes / 4 };
    let ending = match answer.end {
        AnswerEnd::Drop => Ending::Cut,
        AnswerEnd::Stall => Ending::Stall,
        _ => Ending::Clean,
    };
    let left = match answer.end {
        AnswerEnd::Reset(bytes) => Some(bytes),
        _ => None,
    };
    let mut response = Response::builder();
    let frames = if parsed.stream {
        response = response.header(CONTENT_TYPE, "text/event-stream").header(CACHE_CONTROL, "no-cache");
        Frames::Events(Box::new(Events::new(answer, &header, sim.chunk, parsed.include_usage)))
    } else {
        let mut body = Bytes::from(answer::body(&answer, &header));
        // The length is that of the complete body, so that the peer can see that some of it is missing.
        response = response.header(CONTENT_TYPE, "application/json").header(CONTENT_LENGTH, body.len());
        match (ending, step.behaviour) {
            (Ending::Clean, _) => {}
            (_, Behaviour::Drop) => body.clear(),
            _ => body.truncate(body.len() / 2),
        }
        Frames::Body(Some(body))
    };
    let delivery =
        Delivery { frames, ending, left, delay: sim.delay, pause: None, cut: cut.clone(), _open: Open::new(shared) };
    Ok(built(response.body(Either::Right(delivery))))
}

fn status(code: u16, retry_after: Option<u32>) -> Reply {
    let status = StatusCode::from_u16(code);
    debug_assert!(status.is_ok(), "a script has no status {code}");
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (kind, code) = match status {
        StatusCode::TOO_MANY_REQUESTS => ("requests", "rate_limit_exceeded"),
        status if status.is_server_error() => ("server_error", "server_error"),
        _ => ("invalid_request_error", "scripted"),
    };
    let message = format!("The script says {}.", status.as_u16());
    let mut reply = json_reply(status, &answer::error(kind, Some(code), &message));
    if let Some(seconds) = retry_after {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

fn refuse(error: &RequestError) -> Reply {
    if let Some(body) = error.body {
        let response = Response::builder().status(error.status).header(CONTENT_TYPE, "application/json");
        return built(response.body(Either::Left(Full::new(Bytes::from_static(body.as_bytes())))));
    }
    json_reply(error.status, &answer::error("invalid_request_error", None, &error.message))
}

fn json_reply(status: StatusCode, body: &Value) -> Reply {
    let body = Full::new(Bytes::from(body.to_string()));
    built(Response::builder().status(status).header(CONTENT_TYPE, "application/json").body(Either::Left(body)))
}

/// Unwraps a response. All headers are constants or numbers, so it cannot fail; if it did, the answer is an empty 500.
fn built(response: http::Result<Reply>) -> Reply {
    response.unwrap_or_else(|error| {
        debug_assert!(false, "a response of constants is valid: {error}");
        let mut response = Response::new(Either::Left(Full::default()));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

fn redacted(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for (name, value) in &mut headers {
        if SECRETS.contains(&name.as_str()) {
            *value = HeaderValue::from_static("[redacted]");
        }
    }
    headers
}

/// The body of a response that is being sent.
struct Delivery {
    frames: Frames,
    ending: Ending,
    /// Bytes until the connection is cut, if it is cut at a byte.
    left: Option<u64>,
    delay: Duration,
    /// The wait before the next frame; `None` before the first, and where there is no delay.
    pause: Option<Pin<Box<Sleep>>>,
    /// Tells the connection's socket to close after its next flush.
    cut: Cut,
    _open: Open,
}

/// What follows the last frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Clean,
    Cut,
    Stall,
}

impl Body for Delivery {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let Some(pause) = &mut this.pause {
            ready!(pause.as_mut().poll(cx));
            this.pause = None;
        }
        let frame = if this.left == Some(0) { None } else { this.frames.next() };
        let Some(mut frame) = frame else {
            let ending = if this.left == Some(0) { Ending::Cut } else { this.ending };
            return match ending {
                Ending::Clean => Poll::Ready(None),
                // Nothing wakes a stalled body. hyper still notices when the peer leaves, because it keeps reading.
                Ending::Stall => Poll::Pending,
                // A body that is pending is followed by a flush, and the socket then closes: see `Socket`.
                Ending::Cut => {
                    this.cut.ask();
                    Poll::Pending
                }
            };
        };
        if let Some(left) = &mut this.left {
            frame.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= frame.len() as u64;
        }
        if !this.delay.is_zero() {
            this.pause = Some(Box::pin(sleep(this.delay)));
        }
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }
}

/// Counts an answer as in progress while it lives.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.counts.send_modify(|counts| counts.open += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counts.send_modify(|counts| counts.open -= 1);
    }
}

/// Headers whose values never reach the log.
const SECRETS: [&str; 6] = ["authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"];

/// The wait after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
