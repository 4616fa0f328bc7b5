//! One request and its answer in the log: every line has the request's id, and the last line sums
//! up.

mod client;
mod line;
mod path;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{HeaderMap, HeaderName};
use http::{HeaderValue, Request, Response, StatusCode};
use tokio::time::Instant;
use tracing::Span;
use tracing::field::{Empty, display};

pub(super) use line::{AccessLine, KeptLine, log_unread};

use super::access::ClientToken;
use super::answers::{AnswerList, ListedAnswer, Stop, Stopped};
use super::gate::Peer;
use super::measured::Measured;
use super::metrics::Metrics;
use super::otlp::Parent;
use super::route::Route;
use super::shared::Shared;
use super::upstream::random_name;
use crate::address::TrustedProxy;
use crate::route_config::RouteConfig;
use restitch::internal::record::{AnswerRecord, CallKind, Change, RequestInfo};
use restitch::internal::relay::Output;
use restitch::provider::Dialect;
use restitch_http::{Error, Upstream};

/// One request and its answer. Handlers record results here.
pub(super) struct Exchange {
    line: RequestLine,
    /// The span whose lines carry the id.
    span: Span,
    began: Instant,
    state: Mutex<AnswerState>,
    record: SharedRecord,
    /// `None`: nothing is measured.
    metrics: Option<Arc<Metrics>>,
    /// `None`: there is no page.
    answers: Option<Arc<AnswerList>>,
    /// The signal that the time to drain is over.
    pub(super) cut: Arc<Stop>,
    /// The client's span, if spans are pushed.
    parent: Option<Parent>,
}

/// The names of a request in the log.
struct RequestLine {
    id: String,
    method: String,
    /// The path without its query, which may hold a key, and without ids of kept answers.
    path: String,
    /// `None`: a client of a Unix socket, or of another process.
    client: Option<IpAddr>,
}

/// The state of the answer so far.
#[derive(Default)]
struct AnswerState {
    /// The name of the client's token. `None`: the proxy needs none, or the request has none.
    token: Option<Arc<str>>,
    /// `None`: the request was refused before it had a route.
    route: Option<Arc<RouteConfig>>,
    /// The host of the route's own upstream, with the port if the configuration names one.
    upstream: Option<String>,
    /// The upstreams that have answered calls, in order, without repetitions.
    answered: Vec<String>,
    status: Option<StatusCode>,
    upstream_status: Option<StatusCode>,
    /// The ids that upstreams have given its calls.
    upstream_requests: Vec<String>,
    /// The measurements of the request. `None`: nothing is measured, or the path belongs to no API.
    measured: Option<Measured>,
    /// The answer's entry on the page. `None`: there is no page, or the path belongs to no API.
    answer: Option<Arc<ListedAnswer>>,
    /// The answer is kept: its client may leave before it ends.
    is_kept: bool,
}

/// The record of an answer, which its exchange and its entry on the page share. Locked after all
/// other parts of an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedRecord(Arc<Mutex<AnswerRecord>>);

impl SharedRecord {
    /// A panic elsewhere leaves the record valid, since each change to it is one assignment.
    pub(super) fn lock(&self) -> MutexGuard<'_, AnswerRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    /// Begins an exchange. Its id is the `x-request-id` of the request if that is short and plain,
    /// else a random one. A `traceparent` ([W3C Trace
    /// Context](https://www.w3.org/TR/trace-context/)) names the trace.
    pub(super) fn begin<B>(request: &Request<B>, shared: &Shared) -> Self {
        let headers = request.headers();
        let id = request_id(headers);
        // A takeover begins within the request of a reader, which has an id of its own.
        let span =
            tracing::info_span!(parent: None, "request", id = %id, trace = Empty, answer = Empty);
        if let Some(trace) = text(headers, &TRACE).and_then(trace_id) {
            span.record("trace", display(trace));
        }
        Self {
            line: RequestLine {
                id,
                method: shortened(request.method().as_str()),
                path: shortened(&path::without_ids(request.uri().path())),
                client: None,
            },
            span,
            began: Instant::now(),
            state: Mutex::default(),
            record: SharedRecord::default(),
            metrics: shared.metrics.clone(),
            answers: shared.answers.clone(),
            cut: Arc::clone(&shared.cut),
            parent: shared
                .otlp
                .as_ref()
                .and_then(|otlp| Parent::of(otlp, headers)),
        }
    }

    /// Names the client: `peer`, or the client of a trusted proxy.
    pub(super) fn of_client(
        mut self,
        peer: Peer,
        headers: &HeaderMap,
        trusted: &[TrustedProxy],
    ) -> Self {
        self.line.client = client::address_of(peer, headers, trusted);
        self
    }

    /// Returns the span of all lines about this request.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Gives a response the id of its request, so that a person can find the id that an SDK shows in
    /// the log. The upstream's own id moves to [`UPSTREAM_REQUEST`].
    pub(super) fn name_response<B>(&self, mut response: Response<B>) -> Response<B> {
        let Ok(id) = HeaderValue::try_from(&self.line.id) else {
            return response;
        };
        let headers = response.headers_mut();
        let of_upstream = headers.insert(REQUEST_ID, id);
        if let Some(of_upstream) = of_upstream.filter(|of_upstream| *of_upstream != self.line.id) {
            headers.insert(UPSTREAM_REQUEST, of_upstream);
        }
        response
    }

    /// Notes the token of the request.
    pub(super) fn note_token(&self, token: Option<&ClientToken>) {
        self.state().token = token.map(|token| Arc::clone(&token.name));
    }

    /// Notes the route of the request.
    pub(super) fn note_route(&self, route: &Route) {
        let mut state = self.state();
        (state.route, state.upstream) = (
            Some(Arc::clone(&route.config)),
            Some(route.client.upstream().authority().to_owned()),
        );
    }

    /// Notes the switch to a fallback, for the whole answer or for its rest.
    pub(super) fn note_fallback(&self, host: &str, part: &'static str) {
        if let Some(metrics) = &self.metrics {
            metrics.requests.count_fallback(
                self.state().route.as_ref().map(|route| &*route.name),
                host,
                part,
            );
        }
    }

    /// Notes the route and the API of a request, the requested model, and whether the request asks
    /// for a stream.
    pub(super) fn note_request(
        &self,
        route: &Route,
        dialect: Dialect,
        model: &str,
        is_stream: bool,
    ) {
        self.note_route(route);
        let request = RequestInfo {
            dialect,
            // The page itself marks characters that can't be seen.
            model: model.chars().take(LONGEST_NAME).collect(),
            is_stream,
        };
        let mut state = self.state();
        let measured = self.metrics.clone().map(|metrics| {
            let asked = (route, state.token.clone());
            Measured::new(metrics, request.clone(), asked, self.parent.as_ref())
        });
        self.record().request = Some(request);
        let answer = self.answers.as_ref().map(|answers| {
            let asked = (state.token.clone(), state.route.clone());
            answers.begin(&self.line.id, asked, self.record.clone())
        });
        if let (Some(answer), Some(upstream)) = (&answer, &state.upstream) {
            answer.note_upstream(upstream);
        }
        (state.measured, state.answer) = (measured, answer);
    }

    /// Returns the answer's entry on the page.
    pub(super) fn answer(&self) -> Option<Arc<ListedAnswer>> {
        self.answers.as_ref()?;
        self.state().answer.clone()
    }

    /// Returns a future that is ready when the operator ends the answer.
    pub(super) fn stopped(&self) -> Stopped {
        self.answer()
            .map_or_else(Stopped::never, |answer| answer.stopped())
    }

    /// Is ready when the operator has ended the answer, or the time to drain is over.
    pub(super) async fn ended(&self) {
        tokio::select! {
            () = self.stopped() => {}
            () = self.cut.asked() => {}
        }
    }

    /// Returns whether the proxy ends the answer: the operator has stopped it, or the time to drain
    /// is over.
    pub(super) fn is_stopped(&self) -> bool {
        self.cut.is_asked() || self.answer().is_some_and(|answer| answer.is_stopped())
    }

    /// Notes that the open call ends because the proxy ends the answer.
    pub(super) fn note_stop(&self) {
        self.record().note_error("stopped");
    }

    /// Returns whether calls are measured.
    pub(super) fn is_measured(&self) -> bool {
        self.metrics.is_some()
    }

    /// Notes that a call to an upstream is made. `asked`: the upstream's API, and its name of the
    /// model. Returns the headers that name its span, if spans are pushed.
    pub(super) fn note_call(
        &self,
        kind: CallKind,
        upstream: &Upstream,
        asked: (Dialect, &str),
    ) -> Option<HeaderMap> {
        self.record().begin_call(kind);
        self.measure(|measured, record| measured.begin_call(record, upstream, asked));
        self.answer()
            .iter()
            .for_each(|answer| answer.note_call(kind));
        self.parent.as_ref()?;
        self.state().measured.as_ref().and_then(Measured::trace)
    }

    /// Notes the result of the upstream call: the status of a response, or an error.
    pub(super) fn note_head(&self, head: Result<StatusCode, &Error>) {
        let head = head.map_err(|error| {
            if let Error::Late { .. } = error {
                "timeout"
            } else {
                "connection"
            }
        });
        self.record().note_head(head.map(|status| status.as_u16()));
        if head == Ok(StatusCode::OK) {
            self.measure(Measured::note_answer);
        }
        self.answer()
            .iter()
            .for_each(|answer| answer.note_head(head));
    }

    /// Notes the upstream that has answered a call. If the route has fallbacks, a stream's head
    /// alone is not an answer.
    pub(super) fn note_answer(&self, host: &str) {
        let mut state = self.state();
        if state.answered.last().is_none_or(|last| last != host) {
            state.answered.push(host.to_owned());
            let answer = state.answer.clone();
            drop(state);
            answer.iter().for_each(|answer| answer.note_upstream(host));
        }
    }

    /// Notes the first bytes of an upstream call's stream.
    pub(super) fn note_first_chunk(&self) {
        self.measure(|measured, _| measured.note_first_chunk());
    }

    fn measure(&self, change: impl FnOnce(&mut Measured, &AnswerRecord)) {
        if !self.is_measured() {
            return;
        }
        if let Some(measured) = &mut self.state().measured {
            change(measured, &self.record());
        }
    }

    /// Notes the id that an upstream has given a call.
    pub(super) fn note_upstream_request(&self, headers: &HeaderMap) {
        for name in UPSTREAM_IDS {
            // Some upstreams send the id back that the proxy has sent.
            let id = text(headers, &name).filter(|id| is_plain(id) && *id != self.line.id);
            if let Some(id) = id {
                let known = &mut self.state().upstream_requests;
                if known.len() < MOST_IDS {
                    known.push(id.to_owned());
                }
                return;
            }
        }
    }

    /// Notes the status of the first call's response. `None`: no response came.
    pub(super) fn note_upstream(&self, status: Option<StatusCode>) {
        self.state().upstream_status = status;
    }

    /// Notes the status that the client gets.
    pub(super) fn note_status(&self, status: StatusCode) {
        self.state().status = Some(status);
    }

    /// Notes an output of the answer's session. Returns the change of the record.
    pub(super) fn note_output(&self, output: &Output) -> Option<Change> {
        let change = self.record().note(output);
        if let Some(change) = change {
            self.measure(|measured, record| measured.note(record, change));
        }
        self.answer()
            .iter()
            .for_each(|answer| answer.note_output(output, change));
        change
    }

    /// Returns the record of the answer.
    pub(super) fn record(&self) -> MutexGuard<'_, AnswerRecord> {
        self.record.lock()
    }

    /// A panic elsewhere leaves the state valid, since each change to it is one assignment.
    fn state(&self) -> MutexGuard<'_, AnswerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("method", &self.line.method)
            .field("path", &self.line.path)
            .finish_non_exhaustive()
    }
}

/// Returns the id of a request: its `x-request-id` if that is short and plain, else a random one.
pub(super) fn request_id(headers: &HeaderMap) -> String {
    text(headers, &REQUEST_ID)
        .filter(|id| is_plain(id))
        .map_or_else(random_name, str::to_owned)
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Returns whether a log may contain a client's id: a short one without characters that could forge
/// log lines.
fn is_plain(id: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(is_plain)
}

/// Returns the id of the trace that a `traceparent` names: 32 hexadecimal digits, not all of them
/// zero.
fn trace_id(traceparent: &str) -> Option<&str> {
    let mut fields = traceparent.split('-');
    let (version, trace, parent) = (fields.next()?, fields.next()?, fields.next()?);
    let is_hex = |field: &str, length: usize| {
        field.len() == length
            && field
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_valid = is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(parent, 16);
    Some(trace).filter(|trace| is_valid && trace.bytes().any(|digit| digit != b'0'))
}

/// Returns the first characters of a text that a client has chosen. Escapes invisible characters
/// and those that some readers take for line ends, since JSON would leave them unescaped.
pub(super) fn shortened(text: &str) -> String {
    let mut short = String::with_capacity(text.len().min(LONGEST_NAME));
    for c in text.chars().take(LONGEST_NAME) {
        match c {
            '"' | '\'' | '\\' => short.push(c),
            c => short.extend(c.escape_debug()),
        }
    }
    short
}

/// The header with the id of a request.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The response header with the upstream's own `x-request-id`.
const UPSTREAM_REQUEST: HeaderName = HeaderName::from_static("x-restitch-upstream-request-id");
/// The headers in which upstreams name a request: OpenAI and most others, Anthropic, Bedrock, Azure.
const UPSTREAM_IDS: [HeaderName; 4] = [
    REQUEST_ID,
    HeaderName::from_static("request-id"),
    HeaderName::from_static("x-amzn-requestid"),
    HeaderName::from_static("apim-request-id"),
];
/// The header with the trace of a request.
const TRACE: HeaderName = HeaderName::from_static("traceparent");
/// The most ids of upstreams in a line: an answer with more calls is rare.
const MOST_IDS: usize = 8;
// A client chooses its id, and every line of its request repeats it.
/// The most bytes of a client's id that the log takes.
const LONGEST_ID: usize = 128;
/// The most characters that are logged of a path or a model's name.
const LONGEST_NAME: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_plain_and_short() {
        for id in [
            "a",
            "8f14e45f-ceea-467f",
            "req_1:2.3",
            &"x".repeat(LONGEST_ID),
        ] {
            assert!(is_plain(id), "{id}");
        }
        for id in ["", "a b", "a\n", "é", "\"", &"x".repeat(LONGEST_ID + 1)] {
            assert!(!is_plain(id), "{id}");
        }
    }

    #[test]
    fn texts_of_clients_are_short_and_visible() {
        assert_eq!(shortened("gpt-5 \"é\\'\""), "gpt-5 \"é\\'\"");
        assert_eq!(
            shortened("a\u{2028}b\u{9b}c\u{202e}\n"),
            r"a\u{2028}b\u{9b}c\u{202e}\n"
        );
        assert_eq!(shortened(&"é".repeat(300)), "é".repeat(200));
    }

    #[test]
    fn a_trace_has_a_valid_parent() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(
            trace_id(&format!("00-{trace}-00f067aa0ba902b7-01")),
            Some(trace)
        );
        // A later version may have more fields.
        assert_eq!(
            trace_id(&format!("cc-{trace}-00f067aa0ba902b7-01-more")),
            Some(trace)
        );
        for wrong in [
            String::new(),
            trace.to_owned(),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{trace}-00f0-01"),
        ] {
            assert_eq!(trace_id(&wrong), None, "{wrong}");
        }
    }
}
