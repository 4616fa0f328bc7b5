//! One request and its answer: applies each event to the record, and lets the metrics, the spans and
//! the page read it. Every line of the log about the request has its id.

mod client;
mod line;
mod path;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use http::header::{HeaderMap, HeaderName};
use http::{HeaderValue, Request, Response};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tracing::Span;
use tracing::field::{Empty, display};

pub(super) use client::address_of as client_address;
pub(super) use line::{AccessLine, log_unread};

use super::answers::{AnswerList, ListedAnswer, Stop, Stopped};
use super::metrics::{self, Ended, Metrics};
use super::otlp::Spans;
use super::record::{Event, REQUEST_ID, Record, RequestHead, SharedRecord, is_plain};
use super::shared::Shared;
use super::upstream::random_name;
use restitch::internal::record::Change;
use restitch::provider::Dialect;

/// One request and its answer.
pub(super) struct Exchange {
    /// The span whose lines carry the id.
    span: Span,
    began: Instant,
    record: SharedRecord,
    /// `None`: nothing is measured.
    metrics: Option<Arc<Metrics>>,
    /// `None`: there is no page.
    answers: Option<Arc<AnswerList>>,
    /// The answer's entry on the page, once the request is read.
    listed: OnceLock<Arc<ListedAnswer>>,
    /// The signal that the time to drain is over.
    pub(super) cut: Arc<Stop>,
    /// `None`: no spans are pushed.
    spans: Option<Mutex<Spans>>,
}

impl Exchange {
    /// Begins an exchange. Its id is the `x-request-id` of the request if that is short and plain,
    /// else a random one. A `traceparent` ([W3C Trace
    /// Context](https://www.w3.org/TR/trace-context/)) names the trace. `client`: `None` for a client
    /// of a Unix socket, or of another process.
    pub(super) fn begin<B>(request: &Request<B>, shared: &Shared, client: Option<IpAddr>) -> Self {
        let headers = request.headers();
        let head = RequestHead {
            id: request_id(headers),
            method: shortened(request.method().as_str()),
            path: shortened(&path::without_ids(request.uri().path())),
            client,
            began: Instant::now(),
        };
        // A takeover begins within the request of a reader, which has an id of its own.
        let span = tracing::info_span!(parent: None, "request", id = %head.id, trace = Empty, answer = Empty);
        if let Some(trace) = text(headers, &TRACE).and_then(trace_id) {
            span.record("trace", display(trace));
        }
        let shows = shared.answers.as_ref().map(|answers| answers.keeps() > 0);
        let spans = shared.otlp.as_ref().map(|otlp| Spans::of(otlp, headers));
        Self {
            span,
            began: head.began,
            record: Arc::new(Mutex::new(Record::new(head, shows))),
            metrics: shared.metrics.clone(),
            answers: shared.answers.clone(),
            listed: OnceLock::new(),
            cut: Arc::clone(&shared.cut),
            spans: spans.map(Mutex::new),
        }
    }

    /// Returns the span of all lines about this request.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Gives a response the id of its request, so that a person can find the id that an SDK shows in
    /// the log. The upstream's own id moves to [`UPSTREAM_REQUEST`].
    pub(super) fn name_response<B>(&self, mut response: Response<B>) -> Response<B> {
        let Ok(id) = HeaderValue::try_from(&self.record().request.id) else {
            return response;
        };
        let headers = response.headers_mut();
        let of_upstream = headers.insert(REQUEST_ID, id.clone());
        if let Some(of_upstream) = of_upstream.filter(|of_upstream| *of_upstream != id) {
            headers.insert(UPSTREAM_REQUEST, of_upstream);
        }
        response
    }

    /// Applies an event to the record. Returns the change of the session's record.
    pub(super) fn apply(&self, event: Event<'_>) -> Option<Change> {
        let mut record = self.record();
        let open = record.open_call().map(|call| call.at);
        let change = record.apply(event);
        if let Event::Request { dialect, .. } = event {
            self.begin_answer(&record, dialect);
        }
        let has_ended = matches!(event, Event::Ended(_));
        if let Some(metrics) = &self.metrics {
            let ended = open.and_then(|at| record.call(at));
            if let Some(call) = ended.filter(|call| call.took.is_some()) {
                metrics::record(metrics, &record, Ended::Call(call));
            }
            if has_ended {
                metrics::record(metrics, &record, Ended::Answer);
            }
        }
        if let Some(spans) = &self.spans {
            spans.lock().update(&record);
        }
        if let Some(listed) = self.answer() {
            listed.follow(&record, change);
        }
        if has_ended {
            record.forget_reasons();
        }
        change
    }

    /// Shows an answer on the page, and its possible ends in the metrics.
    fn begin_answer(&self, record: &Record, dialect: Dialect) {
        if let Some(metrics) = &self.metrics {
            let token = record.token.as_deref().unwrap_or_default();
            metrics::begin_wire(metrics, record.route_name(), dialect.as_str(), token);
        }
        if let Some(answers) = &self.answers {
            let listed = || answers.begin(&record.request.id, Arc::clone(&self.record));
            self.listed.get_or_init(listed);
        }
    }

    /// Counts the request, whose response has ended.
    fn count_request(&self) {
        if let Some(metrics) = &self.metrics {
            let record = self.record();
            let answered = record.upstream.answered.first();
            let upstream = answered.map_or(record.own_upstream(), String::as_str);
            metrics.request(record.route_name(), upstream, record.status);
        }
    }

    /// Returns the answer's entry on the page.
    pub(super) fn answer(&self) -> Option<&Arc<ListedAnswer>> {
        self.listed.get()
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

    /// Returns the headers that name the open call's span, if spans are pushed.
    pub(super) fn trace(&self) -> Option<HeaderMap> {
        self.spans.as_ref()?.lock().headers()
    }

    /// Returns the record of the request and its answer. Locked before all other parts of an answer.
    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock()
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
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

/// The response header with the upstream's own `x-request-id`.
const UPSTREAM_REQUEST: HeaderName = HeaderName::from_static("x-restitch-upstream-request-id");
/// The header with the trace of a request.
const TRACE: HeaderName = HeaderName::from_static("traceparent");
/// The most characters that are logged of a path or a model's name.
const LONGEST_NAME: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

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
