//! One request of a client and the calls that answer it: all that a binding to an HTTP client needs.
//!
//! An exchange reads the client's request, and decides by the head of the first response whether
//! it reads the answer: a stream through a [`Relay`], a whole body through a [`BodyRelay`]. The
//! caller makes the calls and has the clock.

mod io;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
pub use io::{ExchangeCall, ExchangeOutput, ResponseHead};

use super::answer_options::AnswerOptions;
use super::body::BodyRelay;
use super::relay::{Reattach, Relay};
use super::rest_call::{self, Refusal, TokenLimits, rejected};
use super::wire::{Output, TransportEnd};
use super::{
    CallEnd, CallStats, GiveUp, HopEnd, LimitReached, Outcome, Prose, Request, Resume, Retry,
    SessionEvent, Status, StopReason,
};
use crate::json::repair::{RepairLevel, RepairOptions};
use crate::limits::{Limits, TimeLimit};
use crate::provider::Dialect;
use crate::provider::capability::{Capability, Switch, Table};
use crate::provider::request::body_text;
use crate::provider::wire;
use crate::sse::Framing;

/// A request of a client and the calls that answer it, without I/O and without a clock.
///
/// Make the client's call unchanged, but ask for an uncompressed answer. Give its response to
/// [`handle_response`](Self::handle_response), [`handle_bytes`](Self::handle_bytes) and
/// [`handle_end`](Self::handle_end), and drain [`poll_output`](Self::poll_output) after every
/// input. An [`ExchangeOutput::Call`] ends the open call: close it, make the requested one, and
/// give its response to the same methods. `now` is a duration since any fixed moment.
///
/// ```
/// use std::time::Duration;
/// use restitch::Limits;
/// use restitch::session::{Exchange, ExchangeOutput, ResponseHead, Status, TransportEnd};
///
/// let now = Duration::ZERO;
/// let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Count to three."}]}"#;
/// let mut exchange = Exchange::for_request("api.openai.com", "/v1/chat/completions", body.as_bytes(), Limits::default()).unwrap();
/// let chunk = |text: &str| format!("data: {{\"id\":\"a\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text:?}}}}}]}}\n\n");
/// let head = ResponseHead::of(200, "text/event-stream");
///
/// assert!(exchange.handle_response(now, &head));
/// exchange.handle_bytes(now, chunk("[1, 2").into());
/// assert_eq!(exchange.poll_output(), Some(ExchangeOutput::Bytes(chunk("[1, 2").into())));
///
/// exchange.handle_end(now, TransportEnd::Dropped);
/// let call = std::iter::from_fn(|| exchange.poll_output()).find_map(|output| match output {
///     ExchangeOutput::Call(call) => Some(call),
///     _ => None,
/// });
/// assert!(call.unwrap().body.contains("<overlap_context>"));
///
/// assert!(exchange.handle_response(now, &head));
/// exchange.handle_bytes(now, format!("{}data: [DONE]\n\n", chunk("[1, 2, 3]")).into());
/// let outputs: Vec<_> = std::iter::from_fn(|| exchange.poll_output()).collect();
/// let Some(ExchangeOutput::Done { outcome, last, .. }) = outputs.last() else { panic!() };
/// assert_eq!(outcome.status(), Status::Complete);
/// assert!(last.ends_with(b"data: [DONE]\n\n"));
/// ```
#[derive(Debug)]
pub struct Exchange {
    request: ReadRequest,
    options: ExchangeSettings,
    engine: Engine,
    phase: Phase,
    /// A first body has failed so late that another call is not worth its wait.
    is_late: bool,
    outputs: VecDeque<ExchangeOutput>,
    outcome: Option<Outcome>,
}

/// The client's request.
#[derive(Debug)]
struct ReadRequest {
    dialect: Dialect,
    path: String,
    body: Bytes,
    parsed: wire::Request,
    /// The host of the upstream, unless the caller has set the capability of the model.
    host: Option<String>,
    /// The capability of the model, without a switch that it has refused.
    capability: Capability,
}

/// The capabilities of models without settings of the caller.
static TABLE: LazyLock<Table> = LazyLock::new(Table::default);

#[derive(Debug)]
struct ExchangeSettings {
    limits: Limits,
    give_up: GiveUp,
    repair: RepairOptions,
    prose: Prose,
}

/// The reader of the answer.
#[derive(Debug)]
enum Engine {
    /// The first call has not answered, or its answer is not read.
    None,
    /// All calls of a stream have its framing.
    Stream(Box<Relay>, Framing),
    Body(Box<BodyRelay>),
}

/// The state of the open call.
#[derive(Debug)]
enum Phase {
    /// The first call has not answered.
    First,
    /// A further call is requested.
    Requested(RestCall),
    /// It was refused: the body of the response says why.
    Refused(RestCall, u16, Vec<u8>),
    /// The stream of the open call is read.
    Streaming,
    /// The body of the open call is collected. `heard_at`: when its last byte has arrived.
    Collecting {
        body: Vec<u8>,
        heard_at: Duration,
    },
    /// The first body is larger than the limit, and passes unread.
    Passing,
    Done,
}

/// A requested call.
#[derive(Clone, Debug)]
struct RestCall {
    request: Request,
    at: Duration,
}

impl Exchange {
    /// Reads a client's request. `path` may have a query. Returns `None` if the request is not one
    /// of an API of [`Dialect`], is not valid, or is larger than `max_body_bytes`: make the call and
    /// hand its response on.
    pub fn for_request(host: &str, path: &str, body: &[u8], limits: Limits) -> Option<Self> {
        let plain_path = path.split_once('?').map_or(path, |(plain, _)| plain);
        let dialect = Dialect::of_path(plain_path)?;
        if body.len() > limits.transport.max_body_bytes {
            return None;
        }
        let parsed = dialect.wire().parse(plain_path, body)?;
        let capability = TABLE.of(&parsed.model, Some(host));
        let mut limits = limits;
        // A client that limits an answer's tokens must not pay for many times as many, however often
        // the answer is cut.
        if let Some(own) = parsed.max_tokens {
            let own = own.saturating_mul(parsed.n.max(1));
            limits.continuation.limit_total_tokens(own);
        }
        Some(Self {
            request: ReadRequest {
                dialect,
                path: path.to_owned(),
                body: Bytes::copy_from_slice(body),
                parsed,
                host: Some(host.to_owned()),
                capability,
            },
            options: ExchangeSettings {
                limits,
                give_up: GiveUp::default(),
                repair: RepairLevel::Strict.into(),
                prose: Prose::default(),
            },
            engine: Engine::None,
            phase: Phase::First,
            is_late: false,
            outputs: VecDeque::new(),
            outcome: None,
        })
    }

    /// Sets how an incomplete answer ends. Default: [`GiveUp::Leave`].
    #[must_use]
    pub fn give_up(mut self, give_up: GiveUp) -> Self {
        self.options.give_up = give_up;
        self
    }

    /// Sets how much of the text inside the root may be changed. Default: nothing.
    #[must_use]
    pub fn repair(mut self, options: impl Into<RepairOptions>) -> Self {
        self.options.repair = options.into();
        self
    }

    /// Sets how an answer in prose is handled. Default: it passes unchanged.
    #[must_use]
    pub fn prose(mut self, prose: Prose) -> Self {
        self.options.prose = prose;
        self
    }

    /// Sets the capability of the model. Default: that of the built-in [`Table`], by the model's
    /// name, the host, and the server of the first response.
    #[must_use]
    pub fn capability(mut self, capability: Capability) -> Self {
        self.request.host = None;
        self.request.capability = capability;
        self
    }

    /// Returns whether the request asks for a stream.
    pub fn is_stream(&self) -> bool {
        self.request.parsed.stream
    }

    /// Takes the head of the response to the open call. Returns whether its body has to be given to
    /// the exchange. If not: of the first call, hand the response on, and drop the exchange; of a
    /// further call, close the response.
    pub fn handle_response(&mut self, now: Duration, head: &ResponseHead<'_>) -> bool {
        let is_read = match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::First => self.first_response(now, head),
            Phase::Requested(call) => self.rest_response(now, head, call),
            other => {
                self.phase = other;
                false
            }
        };
        self.drain(now);
        is_read
    }

    /// Takes bytes of the open call's body.
    pub fn handle_bytes(&mut self, now: Duration, bytes: Bytes) {
        let most = self.options.limits.parser.max_event_bytes;
        match (&mut self.phase, &mut self.engine) {
            (Phase::Streaming, Engine::Stream(relay, _)) => relay.handle_bytes(now, bytes),
            (Phase::Collecting { body, heard_at }, Engine::Body(relay)) => {
                *heard_at = now;
                body.extend_from_slice(&bytes);
                if body.len() > most && relay.session().is_first() {
                    // A whole body has no place for a report.
                    let body = std::mem::take(body);
                    self.phase = Phase::Passing;
                    self.outputs.push_back(ExchangeOutput::Bytes(body.into()));
                } else if body.len() > most {
                    let end = format!("the answer is larger than {most} bytes");
                    relay.handle_end(now, CallEnd::Error(end));
                }
            }
            (Phase::Refused(_, _, body), _) => {
                let room = rest_call::REFUSAL
                    .saturating_sub(body.len())
                    .min(bytes.len());
                body.extend_from_slice(bytes.get(..room).unwrap_or_default());
            }
            (Phase::Passing, _) => self.outputs.push_back(ExchangeOutput::Bytes(bytes)),
            _ => {}
        }
        self.drain(now);
    }

    /// Takes the end of the open call's body.
    pub fn handle_end(&mut self, now: Duration, transport_end: TransportEnd) {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Streaming => {
                self.phase = Phase::Streaming;
                if let Engine::Stream(relay, _) = &mut self.engine {
                    relay.handle_transport_end(now, transport_end);
                }
            }
            Phase::Collecting { body, heard_at } => {
                self.body_end(now, transport_end, body, heard_at);
            }
            Phase::Refused(call, status, body) => self.refused(now, call, status, &body),
            Phase::Passing => {
                let limit = self.options.limits.parser.max_event_bytes;
                let limit = LimitReached::new("max_event_bytes", limit);
                self.pass(transport_end, Bytes::new(), Some(limit));
            }
            other => self.phase = other,
        }
        self.drain(now);
    }

    /// Takes the end of a requested call that has no response: the connection was refused
    /// ([`CallEnd::Unavailable`]) or lost, or the call was not made ([`CallEnd::Stopped`]).
    pub fn handle_call_end(&mut self, now: Duration, end: CallEnd) {
        if let Phase::Requested(call) | Phase::Refused(call, ..) = &self.phase {
            let end = of_hop(&call.request, end);
            self.engine.end_call(now, end);
        }
        self.drain(now);
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due, unless there is input before.
    pub fn poll_timeout(&self) -> Option<Duration> {
        match &self.engine {
            Engine::Stream(relay, _) => relay.poll_timeout(),
            Engine::None | Engine::Body(_) => self.silent_at(),
        }
    }

    /// Returns when silence ends the open call. A caller that can't act while it reads the upstream
    /// limits its reads to this time, and needs no other timer: the others keep a client's
    /// connection alive.
    pub fn silent_at(&self) -> Option<Duration> {
        match &self.engine {
            Engine::Stream(relay, _) => relay.silent_at(),
            Engine::None | Engine::Body(_) => self
                .body_silence()
                .map(|(at, limit)| at.saturating_add(limit.time)),
        }
    }

    /// Handles a timeout.
    pub fn handle_timeout(&mut self, now: Duration) {
        if let Engine::Stream(relay, _) = &mut self.engine {
            relay.handle_timeout(now);
        } else if let Some((at, limit)) = self.body_silence()
            && at.saturating_add(limit.time) <= now
        {
            self.note_failure(now, at);
            self.engine.end_call(now, limit.into());
        }
        self.drain(now);
    }

    /// Returns the next output; `None` until there is more input.
    pub fn poll_output(&mut self) -> Option<ExchangeOutput> {
        self.outputs.pop_front()
    }

    /// Returns how the answer ended; [`StopReason::Abandoned`] if it has not: the client has left.
    /// Many clients leave with the last event, before the end of the body, and have a whole answer.
    pub fn outcome(&self) -> Outcome {
        let abandoned = |tally: CallStats| Outcome::Incomplete {
            reason: StopReason::Abandoned,
            cause: None,
            finish: None,
            tally,
        };
        match (&self.outcome, &self.engine) {
            (Some(outcome), _) => outcome.clone(),
            (None, Engine::None) => abandoned(CallStats::default()),
            (None, Engine::Stream(relay, _)) => relay
                .outcome_so_far()
                .unwrap_or_else(|| abandoned(relay.session().tally().clone())),
            (None, Engine::Body(relay)) => abandoned(relay.session().tally().clone()),
        }
    }

    /// Takes the head of the first response.
    fn first_response(&mut self, now: Duration, head: &ResponseHead<'_>) -> bool {
        // Errors pass unchanged: there is nothing to continue.
        if head.status != OK || head.is_encoded() {
            return false;
        }
        if let Some(host) = self.request.host.as_deref() {
            let model = &self.request.parsed.model;
            self.request.capability = TABLE.of_server(model, Some(host), head.server);
        }
        match (self.request.parsed.stream, self.request.framing(head)) {
            (true, Some(framing)) => {
                let relay = self.request.relay(framing, &self.options);
                let mut relay = relay.reattaching(Reattach::NextEvent);
                relay.handle_open(now);
                self.engine = Engine::Stream(Box::new(relay), framing);
                self.phase = Phase::Streaming;
                true
            }
            (false, Some(Framing::Array)) => {
                let relay = self.request.body_relay(&self.options);
                self.engine = Engine::Body(Box::new(relay));
                self.phase = collecting(now);
                true
            }
            _ => false,
        }
    }

    /// Takes the head of the response to a further call.
    fn rest_response(&mut self, now: Duration, head: &ResponseHead<'_>, call: RestCall) -> bool {
        let refused = |reason: &str| rejected(reason.to_owned());
        let name = head.status.to_string();
        if head.status == OK {
            let is_framed = match &self.engine {
                Engine::Stream(_, framing) => self.request.framing(head) == Some(*framing),
                Engine::None | Engine::Body(_) => true,
            };
            if head.is_encoded() {
                self.engine
                    .end_call(now, refused("the answer to a further call is compressed"));
            } else if !is_framed {
                let found = head.content_type.unwrap_or("no type");
                let found = format!("the upstream answered with {found}");
                self.engine.end_call(now, rejected(found));
            } else if let Engine::Stream(relay, _) = &mut self.engine {
                relay.handle_open(now);
                self.phase = Phase::Streaming;
                return true;
            } else {
                self.phase = collecting(now);
                return true;
            }
            return false;
        }
        if call.request.resume.is_some() {
            // The session asks for the rest instead.
            self.engine
                .end_call(now, refused(&format!("the upstream answered {name}")));
            return false;
        }
        match rest_call::end_of_status(head.status, &name, head.retry_after) {
            Some(end) => {
                self.engine.end_call(now, end);
                false
            }
            None => {
                self.phase = Phase::Refused(call, head.status, Vec::new());
                true
            }
        }
    }

    /// Takes a refusal.
    fn refused(&mut self, now: Duration, mut call: RestCall, status: u16, body: &[u8]) {
        let retry = self
            .request
            .retry(&call, self.options.limits.continuation.max_extra_tokens);
        let (body, name) = (String::from_utf8_lossy(body), status.to_string());
        match rest_call::refusal(&body, &name, &retry) {
            Refusal::WithoutEffort => {
                self.request.capability.tool_reasoning_off = Some(Switch::no_effort());
            }
            // The table's switch does not work with this model.
            Refusal::WithoutSwitch(_) => self.request.capability.reasoning_off = None,
            Refusal::End(end, _) => return self.engine.end_call(now, end),
        }
        call.at = now;
        self.request_call(now, call);
    }

    /// Takes the end of a whole body.
    fn body_end(
        &mut self,
        now: Duration,
        transport_end: TransportEnd,
        body: Vec<u8>,
        heard_at: Duration,
    ) {
        if transport_end == TransportEnd::Dropped {
            self.note_failure(now, heard_at);
            return self.engine.end_call(now, CallEnd::Dropped);
        }
        let Engine::Body(relay) = &mut self.engine else {
            return;
        };
        match String::from_utf8(body) {
            Ok(body) => relay.handle_body(now, body),
            // A body that is not UTF-8 is not JSON, so it can't be continued, and passes unchanged.
            Err(error) if relay.session().is_first() => {
                self.pass(transport_end, error.into_bytes().into(), None);
            }
            // Replacing invalid UTF-8 by U+FFFD would invent text.
            Err(_) => relay.handle_end(now, CallEnd::Error("the answer is not UTF-8".to_owned())),
        }
    }

    /// Ends an answer that passes unread.
    fn pass(&mut self, transport_end: TransportEnd, last: Bytes, limit: Option<LimitReached>) {
        let outcome = Outcome::PassedThrough {
            finish: None,
            tally: CallStats {
                limit,
                ..CallStats::default()
            },
        };
        self.end(outcome, last, transport_end);
    }

    /// Notes whether a first body has failed late: another call may be silent just as long.
    fn note_failure(&mut self, now: Duration, heard_at: Duration) {
        let is_first = match &self.engine {
            Engine::Body(relay) => relay.session().is_first(),
            Engine::None | Engine::Stream(..) => false,
        };
        let patience = self.options.limits.continuation.patience;
        self.is_late = is_first && now.saturating_sub(heard_at) > patience / 2;
    }

    /// Returns since when the open call of a whole answer is silent, and the limit on that time.
    fn body_silence(&self) -> Option<(Duration, TimeLimit)> {
        let transport = &self.options.limits.transport;
        match &self.phase {
            Phase::Collecting { body, heard_at } => {
                let limit = match body.is_empty() {
                    true => transport.first_byte(),
                    false => transport.idle(),
                };
                Some((*heard_at, limit))
            }
            Phase::Requested(call) | Phase::Refused(call, ..) => {
                Some((call.at, transport.first_byte()))
            }
            Phase::First | Phase::Streaming | Phase::Passing | Phase::Done => None,
        }
    }

    /// Takes the outputs of the engine.
    fn drain(&mut self, now: Duration) {
        loop {
            match self.engine.poll_output() {
                None => break,
                Some(Output::Bytes(bytes)) => self.outputs.push_back(ExchangeOutput::Bytes(bytes)),
                // An answer with several slots ends once.
                Some(Output::Event(SessionEvent::Done(_)) | Output::Usage(_)) => {}
                Some(Output::Event(event)) => self.outputs.push_back(ExchangeOutput::Event(event)),
                Some(Output::Call { .. }) if std::mem::take(&mut self.is_late) => {
                    if let Engine::Body(relay) = &mut self.engine {
                        relay.give_up_unasked(now);
                    }
                }
                Some(Output::Call { request, at }) => {
                    let call = RestCall { request, at };
                    self.request_call(now, call);
                }
                Some(Output::Done {
                    outcome,
                    transport_end,
                    ..
                }) => {
                    let last = match self.outputs.pop_back() {
                        Some(ExchangeOutput::Bytes(bytes)) => bytes,
                        other => {
                            self.outputs.extend(other);
                            Bytes::new()
                        }
                    };
                    self.end(outcome, last, transport_end);
                }
            }
        }
        self.is_late = false;
    }

    fn end(&mut self, outcome: Outcome, last: Bytes, transport_end: TransportEnd) {
        let status = match (outcome.status(), outcome.reason()) {
            (Status::Failed, Some(StopReason::Stopped)) => 503,
            (Status::Failed, _) => 502,
            _ => OK,
        };
        self.phase = Phase::Done;
        self.outcome = Some(outcome.clone());
        self.outputs.push_back(ExchangeOutput::Done {
            outcome,
            last,
            transport_end,
            status,
        });
    }

    /// Requests a call from the caller.
    fn request_call(&mut self, now: Duration, call: RestCall) {
        let path = &self.request.path;
        let output = match &call.request.resume {
            Some(Resume::Stream(query)) => Some(ExchangeCall {
                method: "GET",
                path: resuming(path, query),
                body: String::new(),
                at: call.at,
            }),
            _ => {
                let retry = self
                    .request
                    .retry(&call, self.options.limits.continuation.max_extra_tokens);
                let body = body_text(&self.request.body);
                let body = body.and_then(|body| retry.try_body(body));
                body.map(|body| ExchangeCall {
                    method: "POST",
                    path: retry.path(path).into_owned(),
                    body,
                    at: call.at,
                })
            }
        };
        self.phase = Phase::Requested(call);
        match output {
            Some(call) => self.outputs.push_back(ExchangeOutput::Call(call)),
            None => self
                .engine
                .end_call(now, rejected("the request can't be continued".to_owned())),
        }
    }
}

impl ReadRequest {
    /// Returns the framing of a response. `None`: it is not of the API.
    fn framing(&self, head: &ResponseHead<'_>) -> Option<Framing> {
        let framing = Framing::of_content_type(head.content_type?)?;
        let is_known = !self.parsed.stream || self.dialect.wire().takes_framing(framing);
        is_known.then_some(framing)
    }

    /// Returns a further call, which writes itself.
    fn retry(&self, call: &RestCall, max_extra: u32) -> Retry {
        let request = call.request.clone();
        let capability = self.model_capability();
        let limits = self.parsed.max_tokens.map(|own| TokenLimits {
            own,
            factor: 1,
            max_extra,
        });
        let limit = limits.and_then(|limits| match request.resume {
            Some(Resume::Token {
                after: HopEnd::Limit,
                ..
            }) => limits.after_limit(),
            Some(_) => None,
            None => limits.of(&request),
        });
        let retry = Retry::new(request, capability.into()).with_dialect(self.dialect);
        limit.into_iter().fold(retry, Retry::with_max_tokens)
    }

    /// Returns the capability of the model, with the grammar that the API takes.
    fn model_capability(&self) -> Capability {
        let mut capability = self.capability.clone();
        capability.grammar = Some(self.dialect.wire().grammar(capability.grammar));
        capability
    }

    fn relay(&self, framing: Framing, options: &ExchangeSettings) -> Relay {
        let (request, limits) = (&self.parsed, options.limits.clone());
        let relay = Relay::of(self.dialect, framing, limits)
            .request(request.tools.clone(), request.n)
            .prose(options.prose);
        self.configured(relay, options)
    }

    fn body_relay(&self, options: &ExchangeSettings) -> BodyRelay {
        let relay = BodyRelay::new(options.limits.clone())
            .dialect(self.dialect)
            .continuing_by_token()
            .tools(self.parsed.tools.clone());
        self.configured(relay, options)
    }

    /// Configures the engine for the request.
    fn configured<R: AnswerOptions>(&self, relay: R, options: &ExchangeSettings) -> R {
        let request = &self.parsed;
        let capability = self.model_capability();
        let relay = relay
            .strategy(rest_call::strategy(
                request,
                &capability,
                self.dialect,
                false,
            ))
            .give_up(options.give_up)
            .repair(options.repair.clone())
            .schema(request.schema.as_deref())
            .client_request(&self.body)
            .prompt_tokens(rest_call::estimated_tokens(&self.body));
        let base = request.base.clone().of_model(&capability, request.stream);
        let relay = relay.base(&base).model(&request.model);
        // The client's own stop sequence may end a document before its root is closed.
        if request.has_stop {
            relay.trust_stop()
        } else {
            relay
        }
    }
}

impl Engine {
    /// Ends the open call.
    fn end_call(&mut self, now: Duration, end: CallEnd) {
        match self {
            Self::None => {}
            Self::Stream(relay, _) => relay.handle_call_end(now, end),
            Self::Body(relay) => relay.handle_end(now, end),
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        match self {
            Self::None => None,
            Self::Stream(relay, _) => relay.poll_output(),
            Self::Body(relay) => relay.poll_output(),
        }
    }
}

/// Returns the end of a call that continues an answer from its token. A connection that fails may be
/// made again with the same token.
fn of_hop(request: &Request, end: CallEnd) -> CallEnd {
    match (&request.resume, end) {
        (Some(Resume::Token { .. }), CallEnd::Unavailable { .. }) => CallEnd::Dropped,
        (_, end) => end,
    }
}

fn collecting(now: Duration) -> Phase {
    Phase::Collecting {
        body: Vec::new(),
        heard_at: now,
    }
}

/// Returns the path of a call that reattaches to the same answer. The client's query may select the
/// version of the API, so it goes along.
fn resuming(path: &str, query: &str) -> String {
    let (path, own): (&str, Cow<'_, str>) = match path.split_once('?') {
        Some((path, own)) => (path, format!("&{own}").into()),
        None => (path, "".into()),
    };
    format!("{path}{query}{own}")
}

const OK: u16 = 200;
