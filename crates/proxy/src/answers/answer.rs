//! One answer, as the operator's page shows it: facts, the steps of its loop, and its text if the
//! page keeps it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Answers;
use super::step;
use super::stop::{Stop, Stopped};
use super::text::{Changes, Cursor, News, Texts};
use crate::measured::Way;
use crate::metrics::cause_of;
use restitch::internal::relay::Output;
use restitch::provider::Dialect;
use restitch::session::{Outcome, SessionEvent};

/// A running or finished answer.
#[derive(Debug)]
pub(in super::super) struct Answer {
    /// The answer's number in the order in which requests came.
    pub(super) number: u64,
    /// The name on the page, unique among the listed answers.
    pub(in super::super) id: String,
    asked: Asked,
    began: Instant,
    facts: Mutex<Facts>,
    /// `None`: its text is not kept.
    texts: Option<Mutex<Texts>>,
    stop: Stop,
    /// The list that contains it.
    answers: Weak<Answers>,
}

/// The facts of a request that the page shows.
#[derive(Clone, Debug)]
pub(in super::super) struct Asked {
    /// The id in the log.
    pub(in super::super) request_id: String,
    pub(in super::super) dialect: Dialect,
    pub(in super::super) model: String,
    pub(in super::super) is_stream: bool,
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

#[derive(Debug, Default)]
struct Facts {
    /// Changes so far.
    changes: u64,
    phase: Phase,
    /// The steps of the loop, each with its time.
    steps: Vec<Value>,
    /// The number of steps that were not kept.
    unlisted: usize,
    /// Calls so far.
    calls: u32,
    /// The number of the last call that did not ask for a rest: each slot's first cut belongs to
    /// that call.
    first_call: u32,
    /// Why calls were cut, in their order.
    causes: Vec<&'static str>,
    /// Since the request.
    first_byte: Option<Duration>,
    outcome: Option<Outcome>,
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

impl Answer {
    /// Creates an answer that begins now.
    pub(super) fn new(number: u64, id: String, asked: Asked, answers: &Arc<Answers>) -> Self {
        Self {
            number,
            id,
            asked,
            began: Instant::now(),
            facts: Mutex::default(),
            texts: (answers.keeps > 0).then(Mutex::default),
            stop: Stop::new(),
            answers: Arc::downgrade(answers),
        }
    }

    /// Notes that an upstream call is made.
    pub(in super::super) fn note_call(&self, way: Way) {
        let at = self.began.elapsed();
        let mut facts = self.changed();
        let call = facts.calls;
        facts.calls = facts.calls.saturating_add(1);
        if !way.is_for_rest() {
            facts.first_call = call;
        }
        facts.add(
            at,
            json!({"step": "call", "call": call, "way": way.as_str()}),
        );
    }

    /// Notes the status of the upstream's response, or the error in its place.
    pub(in super::super) fn note_head(&self, head: Result<StatusCode, &'static str>) {
        let at = self.began.elapsed();
        let mut facts = self.changed();
        let call = facts.calls.saturating_sub(1);
        if facts.phase == Phase::Waiting && head.is_ok() {
            facts.phase = Phase::Running;
        }
        facts.add(
            at,
            match head {
                Ok(status) => json!({"step": "answered", "call": call, "status": status.as_u16()}),
                Err(error) => json!({"step": "answered", "call": call, "error": error}),
            },
        );
    }

    /// Notes the time until the client got its first bytes.
    pub(in super::super) fn note_first_byte(&self, after: Duration) {
        self.changed().first_byte = Some(after);
    }

    /// Notes an output of the answer's session.
    pub(in super::super) fn note_output(&self, output: &Output) {
        let at = self.began.elapsed();
        let mut facts = self.changed();
        match output {
            Output::Event(event) => {
                match event {
                    SessionEvent::Cut { .. } => facts.phase = Phase::Pending,
                    SessionEvent::Joined { .. } => facts.phase = Phase::Running,
                    _ => {}
                }
                facts.causes.extend(event.new_cut().map(cause_of));
                // Quotes of a document or an upstream are content, which the page shows only if it
                // keeps texts.
                let shows = self.texts.is_some();
                let call = facts.call_of(event);
                facts.add_some(at, step::of(event, call, shows));
                if let SessionEvent::Joined { seam, .. } = event {
                    self.texts()
                        .into_iter()
                        .for_each(|mut texts| texts.joined(call, seam.offset));
                }
            }
            Output::Done { outcome, .. } => facts.outcome = Some(outcome.clone()),
            Output::Call { .. } | Output::Usage(_) | Output::Bytes(_) => {}
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
            self.asked
                .dialect
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
        let mut facts = self.changed();
        facts.phase = Phase::Ended;
        facts.ended = Some(end);
        drop(facts);
        if let Some(answers) = self.answers.upgrade() {
            answers.end(self);
        }
    }

    /// Returns whether its text is kept.
    pub(in super::super) fn keeps_text(&self) -> bool {
        self.texts.is_some()
    }

    pub(in super::super) fn has_ended(&self) -> bool {
        self.facts().phase == Phase::Ended
    }

    /// Ends the answer: closes its call, and asks for no rest.
    pub(in super::super) fn stop(&self) {
        self.stop.ask();
        drop(self.changed());
    }

    /// Returns whether the operator has ended the answer.
    pub(in super::super) fn is_stopped(&self) -> bool {
        self.stop.is_asked()
    }

    /// Returns a future that is ready when the operator ends the answer.
    pub(in super::super) fn stopped(&self) -> Stopped {
        self.stop.asked()
    }

    /// Returns the part of its texts that a reader has not seen, up to `most` bytes.
    pub(in super::super) fn news(&self, cursor: &mut Cursor, most: usize) -> News {
        self.texts()
            .map(|texts| texts.after(cursor, most))
            .unwrap_or_default()
    }

    /// Returns the text of a slot, if any, and the limit that ended the text.
    pub(in super::super) fn text(&self, slot: usize) -> (Option<String>, Option<&'static str>) {
        let Some(texts) = self.texts() else {
            return (None, None);
        };
        (texts.of(slot).map(str::to_owned), texts.missing)
    }

    /// Returns the number of changes to its facts.
    pub(in super::super) fn changes(&self) -> u64 {
        self.facts().changes
    }

    /// Returns its facts, for the list.
    pub(in super::super) fn summary(&self) -> Value {
        let facts = self.facts();
        self.summary_of(&facts)
    }

    /// Returns all facts, with the steps of its loop and its report.
    pub(in super::super) fn report(&self) -> Value {
        let facts = self.facts();
        let mut report = self.summary_of(&facts);
        report["steps"] = facts.steps.clone().into();
        report["unlisted_steps"] = facts.unlisted.into();
        report["report"] = facts.outcome.as_ref().map_or(Value::Null, |outcome| {
            step::report_of(outcome, self.keeps_text())
        });
        report
    }

    fn summary_of(&self, facts: &Facts) -> Value {
        let Asked {
            request_id,
            dialect,
            model,
            is_stream,
        } = &self.asked;
        let age = self.began.elapsed();
        let duration = facts.ended.map_or(age, |end| end.duration);
        let tally = facts.outcome.as_ref().map(Outcome::tally);
        json!({
            "id": self.id,
            "request_id": request_id,
            "wire": dialect.as_str(),
            "model": model,
            "stream": is_stream,
            "phase": facts.phase.as_str(),
            "outcome": facts.outcome.as_ref().map(|outcome| outcome.status().as_str()),
            "stop": facts.outcome.as_ref().and_then(Outcome::reason).map(restitch::session::StopReason::as_str),
            "end": facts.ended.map(|end| end.how),
            "status": facts.ended.and_then(|end| end.status).map(|status| status.as_u16()),
            "calls": facts.calls,
            "causes": facts.causes,
            "failures": tally.map(|tally| tally.failures),
            "bytes": facts.ended.map(|end| end.bytes),
            "age_ms": step::milliseconds(age),
            "duration_ms": step::milliseconds(duration),
            "first_byte_ms": facts.first_byte.map(step::milliseconds),
            "keeps_text": self.texts().is_some_and(|texts| !texts.is_dropped),
            "is_stopped": self.stop.is_asked(),
        })
    }

    fn texts(&self) -> Option<MutexGuard<'_, Texts>> {
        self.texts
            .as_ref()
            .map(|texts| texts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the facts, to be changed.
    fn changed(&self) -> MutexGuard<'_, Facts> {
        let mut facts = self.facts();
        facts.changes += 1;
        facts
    }

    /// A panic elsewhere leaves the facts valid, since each change to them is one assignment.
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.drop_text("page_answers");
    }
}

impl Facts {
    /// Returns the number of the call that a step is about. The session's own number would not do:
    /// it counts the calls of each slot, without adapted repeats and reattachments.
    fn call_of(&self, event: &SessionEvent) -> u32 {
        match event {
            SessionEvent::Requested { .. } => self.calls,
            event if event.is_of_first() => self.first_call,
            _ => self.calls.saturating_sub(1),
        }
    }

    fn add(&mut self, at: Duration, mut step: Value) {
        if self.steps.len() >= MOST_STEPS {
            self.unlisted = self.unlisted.saturating_add(1);
            return;
        }
        step["at_ms"] = step::milliseconds(at).into();
        self.steps.push(step);
    }

    fn add_some(&mut self, at: Duration, step: Option<Value>) {
        step.into_iter().for_each(|step| self.add(at, step));
    }
}

/// The most steps that are kept of an answer: some ten for each continuation that the default
/// limits allow.
const MOST_STEPS: usize = 100;
