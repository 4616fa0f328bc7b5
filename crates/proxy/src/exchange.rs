//! One request and its answer in the log: every line has the request's id, and the last line sums
//! up.

mod line;
mod path;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{HeaderMap, HeaderName};
use http::{HeaderValue, Request, Response, StatusCode};
use tokio::time::Instant;
use tracing::Span;
use tracing::field::{Empty, display};

pub(super) use line::{AccessLine, KeptLine, log_unread};

use super::answers::{Answer, Answers, Asked, Stop, Stopped};
use super::measured::{Measured, Way};
use super::metrics::{Metrics, cause_of};
use super::otlp::Parent;
use super::refusal::OwnError;
use super::route::Route;
use super::shared::Shared;
use super::upstream::random_name;
use crate::route_config::RouteConfig;
use restitch::internal::chat::answer_tokens;
use restitch::internal::relay::Output;
use restitch::provider::Dialect;
use restitch::session::{Outcome, SessionEvent};
use restitch_http::{Error, Upstream};

/// One request and its answer. Handlers record results here.
pub(super) struct Exchange {
    /// The id of the request.
    id: String,
    /// The span whose lines carry the id.
    span: Span,
    began: Instant,
    method: String,
    /// The path without its query, which may hold a key, and without ids of kept answers.
    path: String,
    facts: Mutex<Facts>,
    /// `None`: nothing is measured.
    metrics: Option<Arc<Metrics>>,
    /// `None`: there is no page.
    answers: Option<Arc<Answers>>,
    /// The signal that the time to drain is over.
    cut: Arc<Stop>,
    /// The client's span, if spans are pushed.
    parent: Option<Parent>,
}

/// The facts about the answer so far.
#[derive(Default)]
struct Facts {
    /// `None`: the request was refused before it had a route.
    route: Option<Arc<RouteConfig>>,
    /// The host of the route's own upstream, with the port if the configuration names one.
    upstream: Option<String>,
    /// The upstreams that have answered calls, in order, without repetitions.
    answered: Vec<String>,
    dialect: Option<Dialect>,
    model: Option<String>,
    status: Option<StatusCode>,
    upstream_status: Option<StatusCode>,
    spent: Spent,
    outcome: Option<Outcome>,
    /// The measurements of the request. `None`: nothing is measured, or the path belongs to no API.
    measured: Option<Measured>,
    /// The answer's entry on the page. `None`: there is no page, or the path belongs to no API.
    answer: Option<Arc<Answer>>,
    /// The answer is kept: its client may leave before it ends.
    is_kept: bool,
}

/// The calls of an answer so far, and their tokens.
#[derive(Default)]
struct Spent {
    /// The strategy of the last call. `None`: no call yet.
    way: Option<Way>,
    /// Why calls were cut, in their order.
    causes: Vec<&'static str>,
    /// Calls for the rest, and repeated calls for the whole answer.
    continuations: u32,
    failures: u32,
    /// Tokens of the first call and its reattachments, if the upstream reports them.
    kept: Option<u64>,
    /// Tokens of all other calls.
    regenerated: Option<u64>,
}

impl Spent {
    fn note(&mut self, output: &Output) {
        match output {
            Output::Event(event) => {
                self.causes.extend(event.new_cut().map(cause_of));
                self.failures += u32::from(matches!(event, SessionEvent::Failed { .. }));
            }
            Output::Usage(usage) => {
                let is_kept = self.way.is_none_or(Way::keeps_tokens);
                let sum = if is_kept {
                    &mut self.kept
                } else {
                    &mut self.regenerated
                };
                let tokens = answer_tokens(usage);
                *sum = tokens
                    .map(|tokens| sum.unwrap_or_default().saturating_add(tokens))
                    .or(*sum);
            }
            Output::Done { outcome, .. } => {
                // The tally counts a refused call and its adapted repeat as one call.
                (self.continuations, self.failures) =
                    (outcome.tally().continuations, outcome.tally().failures);
            }
            Output::Call { .. } | Output::Bytes(_) => {}
        }
    }
}

impl Exchange {
    /// Begins an exchange. Its id is the `x-request-id` of the request if that is short and plain,
    /// else a random one. A `traceparent` ([W3C Trace
    /// Context](https://www.w3.org/TR/trace-context/)) names the trace.
    pub(super) fn begin<B>(request: &Request<B>, shared: &Shared) -> Self {
        let headers = request.headers();
        let id = text(headers, "x-request-id")
            .filter(|id| is_plain(id))
            .map_or_else(random_name, str::to_owned);
        let span = tracing::info_span!("request", id = %id, trace = Empty);
        if let Some(trace) = text(headers, "traceparent").and_then(trace_id) {
            span.record("trace", display(trace));
        }
        Self {
            id,
            span,
            began: Instant::now(),
            method: shortened(request.method().as_str()),
            path: shortened(&path::without_ids(request.uri().path())),
            facts: Mutex::default(),
            metrics: shared.metrics.clone(),
            answers: shared.answers.clone(),
            cut: Arc::clone(&shared.cut),
            parent: shared.otlp.as_ref().and_then(|otlp| otlp.parent(headers)),
        }
    }

    /// Returns the span of all lines about this request.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Adds the id to the proxy's own errors, so that a person can find the error that an SDK shows
    /// in the log. An upstream's response keeps its own id.
    pub(super) fn name_own_error<B>(&self, mut response: Response<B>) -> Response<B> {
        if response.extensions().get::<OwnError>().is_some()
            && let Ok(id) = HeaderValue::try_from(&self.id)
        {
            response.headers_mut().insert("x-request-id", id);
        }
        response
    }

    /// Notes the route of the request.
    pub(super) fn note_route(&self, route: &Route) {
        let mut facts = self.facts();
        (facts.route, facts.upstream) = (
            Some(Arc::clone(&route.config)),
            Some(route.client.upstream().authority().to_owned()),
        );
    }

    /// Notes the switch to a fallback, for the whole answer or for its rest.
    pub(super) fn note_fallback(&self, host: &str, part: &'static str) {
        if let Some(metrics) = &self.metrics {
            metrics.requests.count_fallback(
                self.facts().route.as_ref().map(|route| &*route.name),
                host,
                part,
            );
        }
    }

    /// Notes the API of the request, the upstream's host, the requested model, and whether the
    /// request asks for a stream.
    pub(super) fn note_request(&self, dialect: Dialect, host: &str, model: &str, is_stream: bool) {
        let metrics = self.metrics.clone();
        let measured = metrics.map(|metrics| {
            Measured::new(
                metrics,
                dialect,
                host,
                (model, is_stream),
                self.parent.as_ref(),
            )
        });
        let asked = || Asked {
            request_id: self.id.clone(),
            dialect,
            // The page itself marks characters that can't be seen.
            model: model.chars().take(LONGEST_NAME).collect(),
            is_stream,
        };
        let answer = self.answers.as_ref().map(|answers| answers.begin(asked()));
        let mut facts = self.facts();
        (facts.dialect, facts.model, facts.measured, facts.answer) =
            (Some(dialect), Some(shortened(model)), measured, answer);
    }

    /// Returns the answer's entry on the page.
    pub(super) fn answer(&self) -> Option<Arc<Answer>> {
        self.answers.as_ref()?;
        self.facts().answer.clone()
    }

    /// Returns a future that is ready when the operator ends the answer.
    pub(super) fn stopped(&self) -> Stopped {
        self.answer()
            .map_or_else(Stopped::never, |answer| answer.stopped())
    }

    /// Returns a future that is ready when the time to drain is over.
    pub(super) fn cut(&self) -> Stopped {
        self.cut.asked()
    }

    /// Is ready when the operator has ended the answer, or the time to drain is over.
    pub(super) async fn ended(&self) {
        tokio::select! {
            () = self.stopped() => {}
            () = self.cut() => {}
        }
    }

    /// Returns whether the proxy ends the answer: the operator has stopped it, or the time to drain
    /// is over.
    pub(super) fn is_stopped(&self) -> bool {
        self.has_to_end() || self.answer().is_some_and(|answer| answer.is_stopped())
    }

    /// Returns whether the time to drain is over.
    pub(super) fn has_to_end(&self) -> bool {
        self.cut.is_asked()
    }

    /// Notes that the open call ends because the proxy ends the answer.
    pub(super) fn note_stop(&self) {
        self.measure(Measured::note_stop);
    }

    /// Returns whether calls are measured.
    pub(super) fn is_measured(&self) -> bool {
        self.metrics.is_some()
    }

    /// Notes that a call to an upstream is made. `asked`: the upstream's API, and its name of the
    /// model. Returns the headers that name its span, if spans are pushed.
    pub(super) fn note_call(
        &self,
        way: Way,
        upstream: &Upstream,
        asked: (Dialect, &str),
    ) -> Option<HeaderMap> {
        let mut facts = self.facts();
        facts.spent.way = Some(way);
        facts.spent.continuations += u32::from(!way.keeps_tokens());
        drop(facts);
        self.measure(|measured| measured.begin_call(way, upstream, asked));
        self.answer()
            .iter()
            .for_each(|answer| answer.note_call(way));
        self.parent.as_ref()?;
        self.facts().measured.as_ref().and_then(Measured::trace)
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
        self.measure(|measured| measured.note_head(head));
        self.answer()
            .iter()
            .for_each(|answer| answer.note_head(head));
    }

    /// Notes the upstream that has answered a call. If the route has fallbacks, a stream's head
    /// alone is not an answer.
    pub(super) fn note_answer(&self, host: &str) {
        let mut facts = self.facts();
        if facts.answered.last().is_none_or(|last| last != host) {
            facts.answered.push(host.to_owned());
        }
    }

    /// Notes the first bytes of an upstream call's stream.
    pub(super) fn note_first_chunk(&self) {
        self.measure(|measured| measured.note_first_chunk());
    }

    fn measure(&self, change: impl FnOnce(&mut Measured)) {
        if !self.is_measured() {
            return;
        }
        if let Some(measured) = &mut self.facts().measured {
            change(measured);
        }
    }

    /// Notes the status of the first call's response. `None`: no response came.
    pub(super) fn note_upstream(&self, status: Option<StatusCode>) {
        self.facts().upstream_status = status;
    }

    /// Notes the status that the client gets.
    pub(super) fn note_status(&self, status: StatusCode) {
        self.facts().status = Some(status);
    }

    /// Notes an output of the answer's session.
    pub(super) fn note_output(&self, output: &Output) {
        self.measure(|measured| measured.note_output(output));
        self.answer()
            .iter()
            .for_each(|answer| answer.note_output(output));
        let mut facts = self.facts();
        facts.spent.note(output);
        if let Output::Done { outcome, .. } = output {
            facts.outcome = Some(outcome.clone());
        }
    }

    /// A panic elsewhere leaves the facts valid, since each change to them is one assignment.
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &'static str) -> Option<&'h str> {
    headers.get(HeaderName::from_static(name))?.to_str().ok()
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
fn shortened(text: &str) -> String {
    let mut short = String::with_capacity(text.len().min(LONGEST_NAME));
    for c in text.chars().take(LONGEST_NAME) {
        match c {
            '"' | '\'' | '\\' => short.push(c),
            c => short.extend(c.escape_debug()),
        }
    }
    short
}

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
