//! The record of one request and its answer. It has each fact about them once.
//!
//! [`Record::apply`] alone changes it. The access line, the metrics, the spans and the page are
//! functions of the record.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::access::ClientToken;
use super::fallback::Part;
use super::metrics::{OTHER, cause_name};
use super::route::Route;
use super::steps;
use crate::route_config::RouteConfig;
use restitch::internal::record::{AnswerRecord, CallKind, CallRecord, Change, RequestInfo};
use restitch::internal::relay::Output;
use restitch::internal::wire::SlotKind;
use restitch::provider::Dialect;
use restitch::session::{Outcome, Status};
use restitch_http::{Error, Upstream};

/// The facts about a request and its answer.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) request: RequestHead,
    /// The name of the client's token. `None`: the proxy needs none, or the request has none.
    pub(super) token: Option<Arc<str>>,
    /// `None`: the request was refused before it had a route.
    pub(super) route: Option<ChosenRoute>,
    /// The status that the client gets.
    pub(super) status: Option<StatusCode>,
    pub(super) upstream: UpstreamFacts,
    /// The report of the answer's session.
    pub(super) answer: AnswerRecord,
    /// The calls of this process.
    calls: Vec<CallFacts>,
    /// The answer is kept: its client may leave before it ends.
    pub(super) is_kept: bool,
    /// The bytes for the client, or for the store if the answer is kept.
    pub(super) delivery: Delivery,
    /// `None`: there is no page.
    pub(super) page: Option<PageFacts>,
}

/// The names of a request, and its time.
#[derive(Debug)]
pub(super) struct RequestHead {
    pub(super) id: String,
    pub(super) method: String,
    /// The path without its query, which may hold a key, and without ids of kept answers.
    pub(super) path: String,
    /// `None`: a client of a Unix socket, or of another process.
    pub(super) client: Option<IpAddr>,
    pub(super) began: Instant,
}

/// The route of a request.
#[derive(Debug)]
pub(super) struct ChosenRoute {
    pub(super) config: Arc<RouteConfig>,
    /// Its own upstream.
    pub(super) upstream: Upstream,
}

/// What upstreams have shown.
#[derive(Debug, Default)]
pub(super) struct UpstreamFacts {
    /// The status of the first call's response.
    pub(super) status: Option<StatusCode>,
    /// The upstreams that have answered calls, in order, without repetitions.
    pub(super) answered: Vec<String>,
    /// The ids that upstreams have given its calls.
    pub(super) requests: Vec<String>,
    /// The fallbacks that took over, and the part of the answer that each delivers.
    pub(super) fallbacks: Vec<(String, Part)>,
}

/// A call that this process has made.
#[derive(Debug)]
pub(super) struct CallFacts {
    /// Its index in [`AnswerRecord::calls`].
    pub(super) at: usize,
    pub(super) upstream: Upstream,
    /// The API of the upstream.
    pub(super) dialect: Dialect,
    /// The model's name at the upstream.
    pub(super) model: String,
    /// Since the request.
    began: Duration,
    /// Since the call. `None`: no byte of its stream has arrived.
    pub(super) first_chunk: Option<Duration>,
    /// `None`: the call is open.
    pub(super) took: Option<Duration>,
}

/// The bytes of a body. All times are since the request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    pub(super) bytes: u64,
    pub(super) first_byte: Option<Duration>,
    pub(super) last_byte: Duration,
    pub(super) longest_silence: Duration,
    pub(super) end: BodyEnd,
    /// `None`: it has not ended.
    pub(super) duration: Option<Duration>,
}

/// How a body ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// The client has left before the end, or the answer or the proxy was stopped.
    #[default]
    Left,
    Whole,
    /// The answer broke off.
    Broken,
}

impl BodyEnd {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Left => LEFT,
            Self::Whole => "whole",
            Self::Broken => "broken",
        }
    }

    /// Returns the error of an answer whose client did not get all of it.
    fn error(self) -> Option<&'static str> {
        (self != Self::Whole).then(|| self.as_str())
    }
}

/// The steps of an answer, for the page.
#[derive(Debug)]
pub(super) struct PageFacts {
    /// The page keeps texts, so steps may quote them.
    shows: bool,
    pub(super) phase: Phase,
    /// The steps of the loop, each with its time.
    pub(super) steps: Vec<Value>,
    /// The number of steps that were not kept.
    pub(super) unlisted: usize,
}

/// The phase of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// The upstream has not answered yet.
    Waiting,
    Running,
    /// It was cut, and its rest has not arrived yet.
    Pending,
    Ended,
}

/// An event that changes a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'e> {
    /// The token of the request is known.
    Token(Option<&'e ClientToken>),
    /// The request has a route.
    Route(&'e Route),
    /// The body of the request is read.
    Request {
        dialect: Dialect,
        model: &'e str,
        is_stream: bool,
    },
    /// A fallback takes over.
    Fallback { upstream: &'e str, part: Part },
    /// A call is made. The model has its name at the upstream.
    Call {
        kind: CallKind,
        upstream: &'e Upstream,
        dialect: Dialect,
        model: &'e str,
    },
    /// The upstream has answered the open call, or has failed.
    Head(Result<(StatusCode, &'e HeaderMap), &'e Error>),
    /// An unread answer has begun.
    Unread(StatusCode, &'e HeaderMap),
    /// The client gets the response with this status. `None`: no upstream has responded.
    First(Option<StatusCode>),
    /// The first bytes of the open call's stream have arrived.
    FirstChunk,
    /// An upstream has answered a call. If the route has fallbacks, a stream's head alone is not an
    /// answer.
    Answered(&'e str),
    /// The session has an output.
    Output(&'e Output),
    /// The proxy ends the answer, and so the open call.
    Stopped,
    /// The client gets this status.
    Status(StatusCode),
    /// The answer is kept.
    Kept,
    /// The first bytes of a body have left, for the store if `is_kept`.
    FirstByte { after: Duration, is_kept: bool },
    /// The answer has ended for its client, or for the store.
    Ended(Delivery),
}

impl Record {
    /// Begins a record. `shows`: whether the page keeps texts; `None`: there is no page.
    pub(super) fn new(request: RequestHead, shows: Option<bool>) -> Self {
        let page = shows.map(|shows| PageFacts {
            shows,
            phase: Phase::Waiting,
            steps: Vec::new(),
            unlisted: 0,
        });
        Self {
            request,
            token: None,
            route: None,
            status: None,
            upstream: UpstreamFacts::default(),
            answer: AnswerRecord::default(),
            calls: Vec::new(),
            is_kept: false,
            delivery: Delivery::default(),
            page,
        }
    }

    /// Applies an event. Returns the change of the session's record.
    pub(super) fn apply(&mut self, event: Event<'_>) -> Option<Change> {
        let now = self.request.began.elapsed();
        let mut change = None;
        match event {
            Event::Token(token) => self.token = token.map(|token| Arc::clone(&token.name)),
            Event::Route(route) => {
                self.route = Some(ChosenRoute {
                    config: Arc::clone(&route.config),
                    upstream: route.own.client.upstream().clone(),
                });
            }
            Event::Request {
                dialect,
                model,
                is_stream,
            } => {
                self.answer.request = Some(RequestInfo {
                    dialect,
                    // The page itself marks characters that can't be seen.
                    model: model.chars().take(LONGEST_MODEL).collect(),
                    is_stream,
                });
            }
            Event::Fallback { upstream, part } => {
                self.upstream.fallbacks.push((upstream.to_owned(), part));
            }
            Event::Call {
                kind,
                upstream,
                dialect,
                model,
            } => {
                // The upstream refused an open call, and this is its adapted repeat.
                self.end_call(now);
                self.calls.push(CallFacts {
                    at: self.answer.begin_call(kind),
                    upstream: upstream.clone(),
                    dialect,
                    model: model.to_owned(),
                    began: now,
                    first_chunk: None,
                    took: None,
                });
            }
            Event::Head(Ok((status, headers))) => {
                self.answer.note_head(Ok(status.as_u16()));
                self.add_upstream_id(headers);
            }
            Event::Head(Err(error)) => self.answer.note_head(Err(error_name(error))),
            Event::Unread(status, headers) => {
                self.upstream.status = Some(status);
                self.add_upstream_id(headers);
            }
            Event::First(status) => self.upstream.status = status,
            Event::FirstChunk => {
                if let Some(call) = self.calls.last_mut().filter(|call| call.took.is_none()) {
                    call.first_chunk = Some(now.saturating_sub(call.began));
                }
            }
            Event::Answered(upstream) => {
                let answered = &mut self.upstream.answered;
                if answered.last().is_none_or(|last| last != upstream) {
                    answered.push(upstream.to_owned());
                }
            }
            Event::Output(output) => {
                change = self.answer.note(output);
                if let Some(Change::Requested | Change::Ended) = change {
                    self.end_call(now);
                }
            }
            Event::Stopped => self.answer.note_error("stopped"),
            Event::Status(status) => self.status = Some(status),
            Event::Kept => self.is_kept = true,
            Event::FirstByte { after, is_kept } => {
                if self.is_kept == is_kept {
                    self.delivery.first_byte = Some(after);
                }
            }
            Event::Ended(delivery) => {
                self.answer.end_call(delivery.end.error());
                // The call of an unread answer ends together with the answer.
                self.end_call(now);
                self.delivery = delivery;
            }
        }
        if let Some(page) = &mut self.page {
            page.apply(now, event, change, &self.answer);
        }
        change
    }

    /// Forgets why calls failed: reasons may quote long texts of an upstream, and the page keeps the
    /// record.
    pub(super) fn forget_reasons(&mut self) {
        self.answer.forget_reasons();
    }

    /// Adds the id that an upstream has given a call.
    fn add_upstream_id(&mut self, headers: &HeaderMap) {
        let id = UPSTREAM_IDS.iter().find_map(|name| {
            let id = headers.get(name)?.to_str().ok()?;
            // Some upstreams send the id back that the proxy has sent.
            (is_plain(id) && id != self.request.id).then_some(id)
        });
        let known = &mut self.upstream.requests;
        if known.len() < MOST_IDS {
            known.extend(id.map(str::to_owned));
        }
    }

    fn end_call(&mut self, now: Duration) {
        if let Some(call) = self.calls.last_mut().filter(|call| call.took.is_none()) {
            call.took = Some(now.saturating_sub(call.began));
        }
    }

    /// Returns the open call.
    pub(super) fn open_call(&self) -> Option<&CallFacts> {
        self.calls.last().filter(|call| call.took.is_none())
    }

    /// Returns the number of calls that this process has made.
    pub(super) fn calls_made(&self) -> usize {
        self.calls.len()
    }

    /// Returns the facts about a call that this process has made. `at`: its index in
    /// [`AnswerRecord::calls`].
    pub(super) fn call(&self, at: usize) -> Option<&CallFacts> {
        self.calls.iter().find(|call| call.at == at)
    }

    /// Returns the call whose answer the client gets: the last one that an upstream has answered,
    /// without those for the rest.
    pub(super) fn answering(&self) -> Option<&CallFacts> {
        self.calls.iter().rev().find(|facts| {
            let call = self.answer.calls.get(facts.at);
            call.is_some_and(|call| call.is_answered() && !call.kind.is_for_rest())
        })
    }

    /// Returns the API of the request.
    pub(super) fn dialect(&self) -> Dialect {
        let request = self.answer.request.as_ref();
        request.map(|request| request.dialect).unwrap_or_default()
    }

    /// Returns the name of the route; empty if the request has none.
    pub(super) fn route_name(&self) -> &str {
        self.route.as_ref().map_or("", |route| &route.config.name)
    }

    /// Returns the address of the upstream whose answer the client gets.
    pub(super) fn answering_upstream(&self) -> Option<&Upstream> {
        let own = self.route.as_ref().map(|route| &route.upstream);
        self.answering().map(|call| &call.upstream).or(own)
    }

    /// Returns the route's own upstream; empty if the request has no route.
    pub(super) fn own_upstream(&self) -> &str {
        self.route
            .as_ref()
            .map_or("", |route| route.upstream.authority())
    }

    /// Returns whether the answer has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.delivery.duration.is_some()
    }

    /// Returns the error of an answer that has ended; empty without one.
    pub(super) fn error(&self) -> Cow<'static, str> {
        let unfinished = || match self.answer.outcome.as_ref().map(Outcome::status) {
            Some(status @ (Status::Failed | Status::Incomplete)) => status.as_str(),
            _ => "",
        };
        self.status
            .and_then(refusal)
            .unwrap_or_else(|| Cow::Borrowed(self.delivery.end.error().unwrap_or_else(unfinished)))
    }

    /// Returns the name of the answer's end: the outcome's status, if the proxy read the answer.
    pub(super) fn outcome(&self) -> &'static str {
        match &self.answer.outcome {
            Some(outcome) => outcome.status().as_str(),
            None if self.status.and_then(refusal).is_some() => REFUSED,
            None if self.delivery.end == BodyEnd::Left => LEFT,
            None => "unread",
        }
    }

    /// Returns whether the answer has ended badly for its client, and not by the client's own
    /// mistake.
    pub(super) fn has_failed(&self) -> bool {
        let status = self.answer.outcome.as_ref().map(Outcome::status);
        self.delivery.end == BodyEnd::Broken
            || self.status.is_some_and(|status| status.is_server_error())
            || matches!(
                status,
                Some(Status::Failed | Status::Incomplete | Status::Closed)
            )
    }

    /// Returns the causes of the cuts.
    pub(super) fn causes(&self) -> Vec<&'static str> {
        let cuts = self.answer.cuts.iter();
        cuts.map(|cut| cause_name(cut.cause)).collect()
    }
}

impl PageFacts {
    /// Adds the step of an event, if it is one.
    fn apply(
        &mut self,
        now: Duration,
        event: Event<'_>,
        change: Option<Change>,
        answer: &AnswerRecord,
    ) {
        let newest = answer.made().saturating_sub(1);
        let step = match event {
            Event::Call { kind, .. } => {
                Some(json!({"step": "call", "call": newest, "rung": kind.as_str()}))
            }
            Event::Head(Ok((status, _))) => {
                if self.phase == Phase::Waiting {
                    self.phase = Phase::Running;
                }
                Some(json!({"step": "answered", "call": newest, "status": status.as_u16()}))
            }
            Event::Head(Err(error)) => {
                Some(json!({"step": "answered", "call": newest, "error": error_name(error)}))
            }
            Event::Output(Output::Event(event)) => {
                match change {
                    Some(Change::Cut(_)) => self.phase = Phase::Pending,
                    Some(Change::Joined(_)) => self.phase = Phase::Running,
                    _ => {}
                }
                let call = change.and_then(Change::call).unwrap_or_default();
                steps::json_of(event, answer.number(call), answer.made(), self.shows)
            }
            Event::Ended(_) => {
                self.phase = Phase::Ended;
                None
            }
            _ => None,
        };
        let Some(mut step) = step else { return };
        if self.steps.len() >= MOST_STEPS {
            self.unlisted = self.unlisted.saturating_add(1);
            return;
        }
        step["at_ms"] = steps::milliseconds(now).into();
        self.steps.push(step);
    }
}

/// A record that its request, its upstream calls and the page share.
pub(super) type SharedRecord = Arc<Mutex<Record>>;

#[cfg(test)]
impl Default for Record {
    fn default() -> Self {
        let request = RequestHead {
            id: String::new(),
            method: String::new(),
            path: String::new(),
            client: None,
            began: Instant::now(),
        };
        Self::new(request, None)
    }
}

/// Returns the error of a call that has ended; empty without one.
pub(super) fn call_error(call: &CallRecord) -> Cow<'static, str> {
    let status = call
        .status
        .and_then(|status| StatusCode::from_u16(status).ok());
    status
        .and_then(refusal)
        .unwrap_or(Cow::Borrowed(call.error.unwrap_or_default()))
}

/// Returns the status of an error as a name. A server may send any number, so statuses outside of
/// 4xx and 5xx share one name.
fn refusal(status: StatusCode) -> Option<Cow<'static, str>> {
    let is_error = status.is_client_error() || status.is_server_error();
    let name = || match is_error {
        true => Cow::Owned(status.as_str().to_owned()),
        false => Cow::Borrowed(OTHER),
    };
    (!status.is_success()).then(name)
}

/// Returns the name of why a call has no response.
fn error_name(error: &Error) -> &'static str {
    match error {
        Error::Late { .. } => "timeout",
        _ => "connection",
    }
}

/// Returns the name that the conventions have for an API's operation.
pub(super) fn operation_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Completions => "text_completion",
        Dialect::Gemini => "generate_content",
        _ => "chat",
    }
}

/// Returns the name of a slot's content.
pub(super) fn slot_name(slot: SlotKind) -> &'static str {
    match slot {
        SlotKind::Text => "text",
        SlotKind::Arguments => "arguments",
    }
}

/// Returns whether the log may contain an id of a client or an upstream: a short one without
/// characters that could forge log lines.
pub(super) fn is_plain(id: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(is_plain)
}

/// The end of an answer whose client left too early.
pub(super) const LEFT: &str = "left";
/// The end of an unread answer with an error status.
pub(super) const REFUSED: &str = "refused";
/// The header with the id of a request.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The headers in which upstreams name a request: OpenAI and most others, Anthropic, Bedrock, Azure.
const UPSTREAM_IDS: [HeaderName; 4] = [
    REQUEST_ID,
    HeaderName::from_static("request-id"),
    HeaderName::from_static("x-amzn-requestid"),
    HeaderName::from_static("apim-request-id"),
];
/// The most ids of upstreams in a line: an answer with more calls is rare.
const MOST_IDS: usize = 8;
// A client chooses its id, and every line of its request repeats it.
/// The most bytes of an id that the log takes.
const LONGEST_ID: usize = 128;
/// The most characters that are kept of a model's name.
const LONGEST_MODEL: usize = 200;
/// The most steps that are kept of an answer: some ten for each continuation that the default
/// limits allow.
const MOST_STEPS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_plain_and_short() {
        let longest = "x".repeat(LONGEST_ID);
        for id in ["a", "8f14e45f-ceea-467f", "req_1:2.3", &longest] {
            assert!(is_plain(id), "{id}");
        }
        let longer = "x".repeat(LONGEST_ID + 1);
        for id in ["", "a b", "a\n", "é", "\"", &longer] {
            assert!(!is_plain(id), "{id}");
        }
    }
}
