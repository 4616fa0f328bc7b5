//! Sockets, connections and routes.
//!
//! The modules above decide on the content of an answer; this module sends it, with the delays,
//! cuts and losses that they choose.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, iter};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, SERVER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::Sim;
use super::answer::Answer;
use super::call::{Asked, Call, CallKind, ParsedRequest, RequestError};
use super::delivery::{Delivery, Ending, Frames};
use super::members::missing_members;
use super::profile::{NOT_FOUND, ProviderProfile};
use super::script::{AnswerEnd, Behaviour, Step};
use super::state::State;
use super::token::Tokens;
use super::wire::{self, Message, Problem, Wire};
use restitch::Limits;
use restitch_http::server_socket::{Cut, Socket};

/// A model server that listens. Dropping it closes its socket and every connection.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    shared: Arc<SharedState>,
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

    /// Returns the last 10,000 requests, with at most 64 MiB of their bodies, oldest first.
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

    /// Waits until no scripted answer is in progress: each has ended, was dropped, or its peer has
    /// left.
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

    async fn wait(&self, until: impl FnMut(&RequestCounts) -> bool) {
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
    let shared = Arc::new(SharedState {
        sim,
        state: Mutex::default(),
        counts: watch::Sender::default(),
    });
    let accept = tokio::spawn(accept(listener, Arc::clone(&shared)));
    Ok(Server {
        addr,
        shared,
        accept,
    })
}

/// The state that all connections share.
#[derive(Debug)]
struct SharedState {
    sim: Sim,
    state: Mutex<State>,
    counts: watch::Sender<RequestCounts>,
}

impl SharedState {
    /// A panic elsewhere leaves the state consistent, because each change is one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The numbers that tests wait for.
#[derive(Debug, Default)]
struct RequestCounts {
    received: usize,
    open: usize,
}

async fn accept(listener: TcpListener, shared: Arc<SharedState>) {
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

async fn connection(stream: TcpStream, shared: Arc<SharedState>) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "no TCP_NODELAY");
    }
    let cut = Cut::default();
    let io = Socket::new(stream, cut.clone());
    let service = service_fn(|request| respond(Arc::clone(&shared), cut.clone(), request));
    // There is no timer and so no time-out, because a test server waits for its tests, also on a
    // paused clock.
    if let Err(error) = http1::Builder::new().serve_connection(io, service).await {
        debug!(%error, "a connection ended early");
    }
}

/// Makes the server close the connection without a response: hyper does so after an error.
fn no_response() -> io::Error {
    io::Error::other("the script hangs up")
}

type Reply = Response<Either<Full<Bytes>, Delivery>>;

async fn respond(
    shared: Arc<SharedState>,
    cut: Cut,
    request: Request<Incoming>,
) -> io::Result<Reply> {
    let (parts, body) = request.into_parts();
    let (body, too_large) = match Limited::new(body, Limits::default().transport.max_body_bytes)
        .collect()
        .await
    {
        Ok(body) => (body.to_bytes(), false),
        Err(error) if error.is::<LengthLimitError>() => (Bytes::new(), true),
        // The peer has left in the middle of its request.
        Err(_) => return Err(no_response()),
    };
    let mut call = Call {
        method: parts.method.clone(),
        path: parts.uri.to_string(),
        headers: parts.headers.clone(),
        body: String::from_utf8_lossy(&body).into_owned(),
        kind: CallKind::Other,
        step: None,
        status: None,
    };
    let mut reply = if too_large {
        let error = RequestError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is larger than 32 MiB",
        );
        Ok(refuse(wire::chat(), &error))
    } else {
        route(&shared, &cut, &parts, &body, &mut call)
    };
    if let (Ok(reply), Some(server)) = (&mut reply, shared.sim.profile.server()) {
        let server = HeaderValue::from_static(server);
        reply.headers_mut().insert(SERVER, server);
    }
    call.status = reply.as_ref().ok().map(Response::status);
    debug!(method = %call.method, path = parts.uri.path(), status = ?call.status, step = ?call.step, "request");
    shared.state().log.push(call);
    shared.counts.send_modify(|counts| counts.received += 1);
    reply
}

fn route(
    shared: &Arc<SharedState>,
    cut: &Cut,
    parts: &Parts,
    body: &[u8],
    call: &mut Call,
) -> io::Result<Reply> {
    let path = parts.uri.path();
    if parts.method == Method::POST
        && let Some(wire) = wire::at(path, parts.uri.query().unwrap_or_default())
    {
        return match ParsedRequest::read(wire, body, &shared.sim.document, shared.sim.profile, path)
        {
            Ok(parsed) => {
                let kept = kept_name(parts).filter(|_| shared.sim.profile.keeps_streams());
                complete(shared, cut, wire, &parsed, call, kept)
            }
            Err(error) => Ok(refuse(wire, &error)),
        };
    }
    if parts.method == Method::GET && path.ends_with("/models") {
        let model = json!({"id": shared.sim.model, "object": "model", "created": 0, "owned_by": "restitch"});
        let list = json!({"object": "list", "data": [model]});
        return Ok(reply(StatusCode::OK, JSON, list.to_string()));
    }
    if parts.method == Method::GET && path == "/healthz" {
        return Ok(reply(StatusCode::OK, JSON, r#"{"status":"ok"}"#));
    }
    if shared.sim.profile.keeps_streams() {
        let kept = Some(path).filter(|path| *path == "/v1/stream");
        let kept = kept.and_then(|_| kept_stream(shared, parts));
        return Ok(kept.unwrap_or_else(|| reply(StatusCode::NOT_FOUND, JSON, NOT_FOUND)));
    }
    let message = format!("nothing answers {} {path}", parts.method);
    Ok(refuse(
        wire::chat(),
        &RequestError::new(StatusCode::NOT_FOUND, message),
    ))
}

/// Returns the name under which a request asks the server to keep its stream.
fn kept_name(parts: &Parts) -> Option<String> {
    let name = parts.headers.get("x-conversation-id")?;
    Some(name.to_str().ok()?.to_owned())
}

/// Answers a request about a kept stream: `GET /v1/stream?conv_id=NAME&from=BYTE` sends the stream
/// again from a byte on, and `DELETE /v1/stream?conv_id=NAME` stops it, with a 204 also for a
/// stream that the server does not have.
fn kept_stream(shared: &SharedState, parts: &Parts) -> Option<Reply> {
    let query = parts.uri.query().unwrap_or_default();
    let value = |key: &str| {
        let member = |member: &str| Some(member.strip_prefix(key)?.strip_prefix('=')?.to_owned());
        query.split('&').find_map(member)
    };
    let name = value("conv_id")?;
    let mut state = shared.state();
    match parts.method {
        Method::DELETE => {
            state.kept.retain(|(kept, _)| *kept != name);
            let mut response = Response::new(Either::Left(Full::default()));
            *response.status_mut() = StatusCode::NO_CONTENT;
            Some(response)
        }
        Method::GET => {
            let (_, stream) = state.kept.iter().find(|(kept, _)| *kept == name)?;
            let from: usize = value("from").and_then(|from| from.parse().ok())?;
            let rest = stream.slice(from.min(stream.len())..);
            Some(reply(StatusCode::OK, "text/event-stream", rest))
        }
        _ => None,
    }
}

/// Takes the conversation's next step.
fn complete(
    shared: &Arc<SharedState>,
    cut: &Cut,
    wire: &'static Wire,
    parsed: &ParsedRequest,
    call: &mut Call,
    // The name under which the server keeps the stream.
    kept: Option<String>,
) -> io::Result<Reply> {
    let sim = &shared.sim;
    let continuation = parsed.continuation.as_ref();
    let script = parsed.script.as_ref().unwrap_or(&sim.script);
    let (step, number) = {
        let mut state = shared.state();
        state.answers += 1;
        (
            state
                .conversations
                .next(parsed.conversation, continuation.is_some(), script),
            state.answers,
        )
    };
    let answer = answer(sim, parsed, &step);
    call.step = Some(step);
    call.kind = continuation.map_or(CallKind::First, |c| CallKind::Continuation {
        anchor: c.anchor.clone(),
        position: c.position,
    });
    match step.behaviour {
        Behaviour::NoResponse => return Err(no_response()),
        Behaviour::Status { code, retry_after } => return Ok(status(wire, code, retry_after)),
        _ => {}
    }
    let end = answer.end;
    let ending = match end {
        AnswerEnd::Drop => Ending::Cut,
        AnswerEnd::Stall => Ending::Stall,
        _ => Ending::Clean,
    };
    let left = match end {
        AnswerEnd::Reset(bytes) => Some(bytes),
        _ => None,
    };
    let begin = continuation.map_or(0, |continuation| continuation.position);
    let tokens = |answer: &Answer| Tokens::of(answer, &sim.document, begin, parsed.max_tokens);
    let message = |answer: Answer| Message {
        tokens: tokens(&answer).filter(|_| sim.profile.sends_tokens()),
        number,
        model: sim.model.clone(),
        finish: answer.finish,
        parts: answer.into_parts(),
        prompt_tokens: parsed.prompt_bytes / 4,
        include_usage: parsed.include_usage,
    };
    // A server that keeps the stream writes the whole answer, and the connection loses its end.
    let unlimited = Step {
        bytes: None,
        end: None,
        ..step
    };
    let whole = message(self::answer(sim, parsed, &unlimited));
    let message = message(answer);
    let mut headers = HeaderMap::new();
    let frames: Frames = if parsed.stream {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(wire.content_type()));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let divide = wire::by_characters(sim.chunk);
        let lost = wire::events(wire, message, end, divide.clone());
        match kept.filter(|_| matches!(end, AnswerEnd::Drop | AnswerEnd::Reset(_))) {
            Some(name) => {
                let whole = wire::events(wire, whole, AnswerEnd::Stop, divide);
                let whole = Bytes::from(whole.flatten().collect::<Vec<u8>>());
                let sent = lost.flatten().zip(&whole).take_while(|(a, b)| a == *b);
                let sent = whole.slice(..sent.count());
                shared.state().keep(name, whole);
                Box::new(iter::once(sent))
            }
            None => Box::new(lost),
        }
    } else {
        let body = if end == AnswerEnd::Error {
            wire.failed(&message)
        } else {
            wire.body(&message)
        };
        let mut body = Bytes::from(body);
        if end == AnswerEnd::Malformed {
            body.truncate(body.len() / 2);
        }
        // The length is that of the complete body, so that the peer can detect the missing part.
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        match (ending, step.behaviour) {
            (Ending::Clean, _) => {}
            (_, Behaviour::Drop) => body.clear(),
            _ => body.truncate(body.len() / 2),
        }
        Box::new(iter::once(body))
    };
    let delivery = Delivery {
        frames,
        ending,
        left,
        delay: sim.delay,
        pause: None,
        cut: cut.clone(),
        _open: Open::new(shared),
    };
    let mut response = Response::new(Either::Right(delivery));
    *response.headers_mut() = headers;
    Ok(response)
}

/// Returns a step's answer to a request.
fn answer(sim: &Sim, parsed: &ParsedRequest, step: &Step) -> Answer {
    let continuation = parsed.continuation.as_ref();
    let tool = parsed.tool.as_ref();
    let custom = tool.filter(|tool| tool.is_custom);
    if let Some(continuation) = continuation {
        match &continuation.asked {
            // A token continues the same answer, without the script's behaviour.
            Asked::Token { is_exhausted } => {
                let step = match is_exhausted {
                    true => Step {
                        bytes: Some(0),
                        end: None,
                        ..*step
                    },
                    false => *step,
                };
                return Answer::forced(&step, &sim.document, continuation, None);
            }
            Asked::Prefill | Asked::Question if custom.is_some() || parsed.has_grammar => {
                return Answer::forced(step, &sim.document, continuation, custom);
            }
            Asked::Members { schema, question } => {
                let position = continuation.position;
                let members = missing_members(&sim.document, position, question, schema);
                return Answer::members(step, members.unwrap_or_default());
            }
            Asked::Prefill | Asked::Question => {}
        }
    }
    let behaviour = match step.behaviour {
        Behaviour::Reasoning if parsed.reasoning_off && continuation.is_some() => Behaviour::Anchor,
        Behaviour::Reasoning if parsed.reasoning_off => Behaviour::Answer,
        Behaviour::Answer if tool.is_some_and(|tool| tool.is_forced) => Behaviour::Tool,
        Behaviour::Tool if tool.is_none() => Behaviour::Answer,
        behaviour => behaviour,
    };
    let restarts = continuation.is_some_and(|c| c.restarts);
    let step = step.with(if restarts {
        Behaviour::Answer
    } else {
        behaviour
    });
    let continuation = continuation.filter(|_| !restarts);
    let mut answer = Answer::new(&step, &sim.document, continuation);
    let returns = sim.profile.returns_prefill(parsed.stream);
    if let Some(c) = continuation.filter(|c| matches!(c.asked, Asked::Prefill) && returns) {
        answer.text.insert_str(0, &c.delivered);
    }
    if let Some(tool) = tool.filter(|_| behaviour == Behaviour::Tool) {
        answer.call(tool);
        // Anthropic sends a value when it is whole, unless the tool asks for eager streaming.
        let is_anthropic = matches!(
            sim.profile,
            ProviderProfile::Anthropic | ProviderProfile::Anthropic46
        );
        if is_anthropic && !tool.is_eager {
            answer.keep_whole_members(&sim.document);
        }
    }
    answer
}

fn status(wire: &Wire, code: u16, retry_after: Option<u32>) -> Reply {
    let status = StatusCode::from_u16(code);
    debug_assert!(status.is_ok(), "a script has no status {code}");
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (kind, code) = match status {
        StatusCode::TOO_MANY_REQUESTS => ("requests", "rate_limit_exceeded"),
        status if status.is_server_error() => ("server_error", "server_error"),
        _ => ("invalid_request_error", "scripted"),
    };
    let message = format!("The script says {}.", status.as_u16());
    let problem = Problem {
        status,
        kind,
        code: Some(code),
        message: &message,
    };
    let mut reply = reply(status, JSON, wire.error(&problem));
    if let Some(seconds) = retry_after {
        reply
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

fn refuse(wire: &Wire, error: &RequestError) -> Reply {
    let problem = Problem {
        status: error.status,
        kind: "invalid_request_error",
        code: None,
        message: &error.message,
    };
    match error.body {
        Some(body) => reply(error.status, JSON, body),
        None => reply(error.status, JSON, wire.error(&problem)),
    }
}

fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Either::Left(Full::new(body.into())));
    *reply.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}

/// Counts an answer as in progress while it lives.
pub(super) struct Open(Arc<SharedState>);

impl Open {
    fn new(shared: &Arc<SharedState>) -> Self {
        shared.counts.send_modify(|counts| counts.open += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counts.send_modify(|counts| counts.open -= 1);
    }
}

const JSON: &str = "application/json";

/// The wait after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
