//! One answer, as the operator's page shows it: facts, the steps of its loop, and its text if the
//! page keeps it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::AnswerList;
use super::stop::{Stop, Stopped};
use super::text::{Changes, Texts};
use crate::exchange::SharedRecord;
use crate::metrics::cause_name;
use crate::route_config::RouteConfig;
use crate::steps;
use restitch::internal::record::{AnswerRecord, CallKind, Change};
use restitch::internal::relay::Output;
use restitch::session::{Outcome, Status, StopReason};

/// A running or finished answer.
#[derive(Debug)]
pub(in super::super) struct ListedAnswer {
    /// The answer's number in the order in which requests came.
    pub(super) number: u64,
    pub(in super::super) names: Names,
    began: Instant,
    state: Mutex<PageState>,
    record: SharedRecord,
    /// `None`: its text is not kept.
    texts: Option<Mutex<Texts>>,
    stop: Stop,
    /// The list that contains it.
    answers: Weak<AnswerList>,
}

/// The names of an answer.
#[derive(Debug)]
pub(in super::super) struct Names {
    /// The name on the page, unique among the listed answers.
    pub(in super::super) id: String,
    /// The id of its request in the log.
    pub(super) request_id: String,
    /// The name of its client's token. `None`: the proxy needs none.
    pub(super) token: Option<Arc<str>>,
    pub(super) route: Option<Arc<RouteConfig>>,
}

/// The phase of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Phase {
    /// The upstream has not answered yet.
    #[default]
    Waiting,
    Running,
    /// It was cut, and its rest has not arrived yet.
    Pending,
    Ended,
}

impl Phase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Pending => "pending",
            Self::Ended => "ended",
        }
    }
}

/// The state that the page shows beside the record.
#[derive(Debug, Default)]
struct PageState {
    phase: Phase,
    /// The host that has answered last, or the route's own.
    upstream: Option<String>,
    /// The steps of the loop, each with its time.
    steps: Vec<Value>,
    /// The number of steps that were not kept.
    unlisted: usize,
    /// Since the request.
    first_byte: Option<Duration>,
    ended: Option<End>,
}

/// How an answer has ended for its client.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct End {
    pub(in super::super) status: Option<StatusCode>,
    /// `whole`, `broken` or `left`.
    pub(in super::super) how: &'static str,
    /// Bytes of the body.
    pub(in super::super) bytes: u64,
    /// Since the request.
    pub(in super::super) duration: Duration,
}

impl ListedAnswer {
    /// Creates an answer that begins now.
    pub(super) fn new(
        number: u64,
        names: Names,
        record: SharedRecord,
        answers: &Arc<AnswerList>,
    ) -> Self {
        Self {
            number,
            names,
            began: Instant::now(),
            state: Mutex::default(),
            record,
            texts: (answers.keeps > 0).then(Mutex::default),
            stop: Stop::new(),
            answers: Arc::downgrade(answers),
        }
    }

    /// Notes that an upstream call is made.
    pub(in super::super) fn note_call(&self, kind: CallKind) {
        let at = self.began.elapsed();
        let mut state = self.state();
        let call = self.newest_call();
        state.add(
            at,
            json!({"step": "call", "call": call, "rung": kind.as_str()}),
        );
    }

    /// Notes the status of the upstream's response, or the error in its place.
    pub(in super::super) fn note_head(&self, head: Result<StatusCode, &'static str>) {
        let at = self.began.elapsed();
        let mut state = self.state();
        let call = self.newest_call();
        if state.phase == Phase::Waiting && head.is_ok() {
            state.phase = Phase::Running;
        }
        state.add(
            at,
            match head {
                Ok(status) => json!({"step": "answered", "call": call, "status": status.as_u16()}),
                Err(error) => json!({"step": "answered", "call": call, "error": error}),
            },
        );
    }

    /// Notes the host of its upstream.
    pub(in super::super) fn note_upstream(&self, host: &str) {
        self.state().upstream = Some(host.to_owned());
    }

    /// Returns the number of the newest call that was made.
    fn newest_call(&self) -> u32 {
        self.record.lock().made().saturating_sub(1)
    }

    /// Notes the time until the client got its first bytes.
    pub(in super::super) fn note_first_byte(&self, after: Duration) {
        self.state().first_byte = Some(after);
    }

    /// Notes an output of the answer's session, which has changed the record.
    pub(in super::super) fn note_output(&self, output: &Output, change: Option<Change>) {
        let at = self.began.elapsed();
        let mut state = self.state();
        match change {
            Some(Change::Cut { is_new, .. }) => {
                state.phase = Phase::Pending;
                if let Some(answers) = self.answers.upgrade().filter(|_| is_new) {
                    answers.count_cut(&self.record.lock());
                }
            }
            Some(Change::Joined(_)) => state.phase = Phase::Running,
            _ => {}
        }
        let Output::Event(event) = output else { return };
        let record = self.record.lock();
        let call = change.and_then(Change::call).unwrap_or_default();
        let number = record.number(call);
        // Quotes of a document or an upstream are content, which the page shows only if it keeps
        // texts.
        let shows = self.texts.is_some();
        let step = steps::json_of(event, number, record.made(), shows);
        step.into_iter().for_each(|step| state.add(at, step));
        if let Some(Change::Joined(_)) = change
            && let Some(seam) = record.calls.get(call).and_then(|call| call.seam.as_ref())
        {
            self.texts()
                .into_iter()
                .for_each(|mut texts| texts.joined(number, seam.seam.offset));
        }
    }

    /// Adds changes of its texts.
    pub(super) fn add(&self, changes: &mut Changes) {
        let (false, Some(answers)) = (changes.is_empty(), self.answers.upgrade()) else {
            return;
        };
        let most = answers.most.of_answer;
        let fits = self
            .texts()
            .filter(|texts| texts.missing.is_none())
            .map(|texts| changes.fitting(texts.bytes, most));
        // Text that is not kept needs no room.
        let Some(fits) = fits else {
            return changes.clear();
        };
        let bytes = changes.bytes();
        // Does not hold the lock of its own texts: `reserve` locks and drops the texts of other
        // answers.
        let has_room = answers.reserve(fits, self);
        let reserved = if has_room { fits } else { 0 };
        let Some(mut texts) = self.texts() else {
            return answers.release(reserved);
        };
        if !has_room {
            texts.missing.get_or_insert("max_page_bytes");
        }
        let freed = changes.apply(&mut texts, most);
        drop(texts);
        // Bytes without a reservation were never counted, so they are not released.
        answers.release(freed.saturating_sub(bytes - reserved));
    }

    /// Adds the texts of a whole body.
    pub(in super::super) fn add_body(&self, body: &str) {
        if self.keeps_text() {
            let mut changes = Changes::default();
            let request = self.record.lock().request.clone();
            let dialect = request.map(|request| request.dialect).unwrap_or_default();
            dialect
                .wire()
                .read_body(body, &mut |delta| changes.add(&delta));
            self.add(&mut changes);
        }
    }

    /// Forgets its texts, since a limit was reached.
    pub(super) fn drop_text(&self, limit: &'static str) {
        let dropped = self.texts().map(|mut texts| texts.drop_all(limit));
        if let (Some(dropped), Some(answers)) = (dropped, self.answers.upgrade()) {
            answers.release(dropped);
        }
    }

    /// Notes how it has ended for its client.
    pub(in super::super) fn end(&self, end: End) {
        let mut state = self.state();
        state.phase = Phase::Ended;
        state.ended = Some(end);
        let has_failed = has_failed(&state, &self.record.lock());
        drop(state);
        if let Some(answers) = self.answers.upgrade() {
            answers.end(self, has_failed);
        }
    }

    /// Returns whether its text is kept.
    pub(in super::super) fn keeps_text(&self) -> bool {
        self.texts.is_some()
    }

    pub(in super::super) fn has_ended(&self) -> bool {
        self.state().phase == Phase::Ended
    }

    /// Ends the answer: closes its call, and asks for no rest.
    pub(in super::super) fn stop(&self) {
        self.stop.ask();
    }

    /// Returns whether the operator has ended the answer.
    pub(in super::super) fn is_stopped(&self) -> bool {
        self.stop.is_asked()
    }

    /// Returns a future that is ready when the operator ends the answer.
    pub(in super::super) fn stopped(&self) -> Stopped {
        self.stop.asked()
    }

    /// Returns the text that a reader lacks, as JSON: see [`Texts::added`]. `None`: no text is kept.
    pub(in super::super) fn added(&self, restarts: u32, from: &[usize]) -> Option<Value> {
        self.texts().map(|texts| texts.added(restarts, from))
    }

    /// Returns the text of a slot, if any, and the limit that ended the text.
    pub(in super::super) fn text(&self, slot: usize) -> (Option<String>, Option<&'static str>) {
        let Some(texts) = self.texts() else {
            return (None, None);
        };
        (texts.of(slot).map(str::to_owned), texts.missing)
    }

    /// Returns its facts, for the list.
    pub(in super::super) fn summary(&self) -> Value {
        let state = self.state();
        self.summary_of(&state, &self.record.lock())
    }

    /// Returns all facts, with the steps of its loop and its report.
    pub(in super::super) fn report(&self) -> Value {
        let (state, record) = (self.state(), self.record.lock());
        let mut report = self.summary_of(&state, &record);
        report["steps"] = state.steps.clone().into();
        report["unlisted_steps"] = state.unlisted.into();
        report["report"] = record.outcome.as_ref().map_or(Value::Null, |outcome| {
            steps::report_of(outcome, self.keeps_text())
        });
        report
    }

    fn summary_of(&self, state: &PageState, record: &AnswerRecord) -> Value {
        let request = record.request.as_ref();
        let age = self.began.elapsed();
        let duration = state.ended.map_or(age, |end| end.duration);
        let outcome = record.outcome.as_ref();
        let causes: Vec<_> = record.causes.iter().copied().map(cause_name).collect();
        json!({
            "id": self.names.id,
            "request_id": self.names.request_id,
            "token": self.names.token.as_deref(),
            "route": self.names.route.as_ref().map(|route| &route.name),
            "upstream": state.upstream,
            "has_failed": has_failed(state, record),
            "wire": request.map(|request| request.dialect.as_str()),
            "model": request.map(|request| &request.model),
            "stream": request.map(|request| request.is_stream),
            "phase": state.phase.as_str(),
            "outcome": outcome.map(|outcome| outcome.status().as_str()),
            "stop": outcome.and_then(Outcome::reason).map(StopReason::as_str),
            "end": state.ended.map(|end| end.how),
            "status": state.ended.and_then(|end| end.status).map(|status| status.as_u16()),
            "calls": record.made(),
            "causes": causes,
            "failures": outcome.map(|outcome| outcome.tally().failures),
            "bytes": state.ended.map(|end| end.bytes),
            "age_ms": steps::milliseconds(age),
            "duration_ms": steps::milliseconds(duration),
            "first_byte_ms": state.first_byte.map(steps::milliseconds),
            "keeps_text": self.texts().is_some_and(|texts| !texts.is_dropped),
            "is_stopped": self.stop.is_asked(),
        })
    }

    fn texts(&self) -> Option<MutexGuard<'_, Texts>> {
        self.texts
            .as_ref()
            .map(|texts| texts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A panic elsewhere leaves the state valid, since each change to it is one assignment.
    fn state(&self) -> MutexGuard<'_, PageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether an answer has ended badly for its client, and not by the client's own mistake.
fn has_failed(state: &PageState, record: &AnswerRecord) -> bool {
    let status = record.outcome.as_ref().map(Outcome::status);
    state.ended.is_some_and(|end| {
        end.how == "broken"
            || end.status.is_some_and(|status| status.is_server_error())
            || matches!(
                status,
                Some(Status::Failed | Status::Incomplete | Status::Closed)
            )
    })
}

impl Drop for ListedAnswer {
    fn drop(&mut self) {
        self.drop_text("page_answers");
    }
}

impl PageState {
    fn add(&mut self, at: Duration, mut step: Value) {
        if self.steps.len() >= MOST_STEPS {
            self.unlisted = self.unlisted.saturating_add(1);
            return;
        }
        step["at_ms"] = steps::milliseconds(at).into();
        self.steps.push(step);
    }
}

/// The most steps that are kept of an answer: some ten for each continuation that the default
/// limits allow.
const MOST_STEPS: usize = 100;
