//! One answer, as the operator's page shows it: facts, the steps of its loop, and its text if the
//! page keeps it.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::AnswerList;
use super::stop::{Stop, Stopped};
use super::text::Texts;
use crate::record::{Record, SharedRecord};
use crate::steps;
use restitch::internal::record::Change;
use restitch::internal::wire::{Slot, SlotKind};
use restitch::provider::Delta;
use restitch::session::{Outcome, StopReason};

/// A running or finished answer.
#[derive(Debug)]
pub(in super::super) struct ListedAnswer {
    /// The answer's number in the order in which requests came.
    pub(super) number: u64,
    /// The name on the page, unique among the listed answers.
    pub(in super::super) id: String,
    record: SharedRecord,
    /// `None`: its text is not kept.
    texts: Option<Mutex<Texts>>,
    stop: Stop,
    /// The list that contains it.
    answers: Weak<AnswerList>,
}

impl ListedAnswer {
    pub(super) fn new(
        number: u64,
        id: String,
        record: SharedRecord,
        answers: &Arc<AnswerList>,
    ) -> Self {
        Self {
            number,
            id,
            record,
            texts: (answers.keeps > 0).then(Mutex::default),
            stop: Stop::default(),
            answers: Arc::downgrade(answers),
        }
    }

    /// Marks a seam in the texts, and moves an answer that has ended in the list.
    pub(in super::super) fn follow(&self, record: &Record, change: Option<Change>) {
        let Some(answers) = self.answers.upgrade() else {
            return;
        };
        if let Some(Change::Joined(call)) = change {
            let joined = record.answer.calls.get(call);
            let seam = joined.and_then(|call| call.seam.as_ref());
            if let (Some(seam), Some(mut texts)) = (seam, self.texts()) {
                texts.joined(record.answer.number(call), seam.seam.offset);
            }
        }
        if record.has_ended() {
            answers.end(self, record.has_failed());
        }
    }

    /// Adds a delta to its texts.
    pub(super) fn add(&self, delta: &Delta<'_>) {
        let slot = |id, kind| Slot { id, kind };
        match *delta {
            Delta::Text { slot: id, text } => self.add_text(slot(id, SlotKind::Text), None, text),
            Delta::ToolCall {
                slot: id,
                name,
                arguments,
                ..
            } => self.add_text(slot(id, SlotKind::Arguments), name, arguments),
            Delta::Restart => self.restart(),
            _ => {}
        }
    }

    fn add_text(&self, slot: Slot, tool: Option<&str>, text: &str) {
        let Some(answers) = self.answers.upgrade() else {
            return;
        };
        let most = answers.most.of_answer;
        let Some(mut texts) = self.texts().filter(|texts| texts.missing.is_none()) else {
            return;
        };
        if texts.bytes.saturating_add(text.len()) > most {
            texts.missing = Some("max_page_answer_bytes");
            return;
        }
        // `reserve` locks and drops the texts of other answers, whose writers may do the same.
        drop(texts);
        let has_room = answers.reserve(text.len(), self);
        let Some(mut texts) = self.texts() else {
            return;
        };
        if !has_room {
            texts.missing.get_or_insert("max_page_bytes");
        } else if texts.missing.is_some() || !texts.push(slot, tool, text) {
            texts.missing.get_or_insert("max_slots");
            answers.release(text.len());
        }
    }

    /// Forgets its texts, since the answer begins again.
    fn restart(&self) {
        let texts = self.texts().filter(|texts| texts.missing.is_none());
        let freed = texts.map(|mut texts| texts.restart());
        if let (Some(freed), Some(answers)) = (freed, self.answers.upgrade()) {
            answers.release(freed);
        }
    }

    /// Notes that the rest of the stream can't be decoded.
    pub(super) fn end_unread(&self) {
        if let Some(mut texts) = self.texts() {
            texts.missing.get_or_insert("undecodable");
        }
    }

    /// Adds the texts of a whole body.
    pub(in super::super) fn add_body(&self, body: &str) {
        if self.keeps_text() {
            let dialect = self.record.lock().dialect();
            dialect
                .wire()
                .read_body(body, &mut |delta| self.add(&delta));
        }
    }

    /// Forgets its texts, since a limit was reached.
    pub(super) fn drop_text(&self, limit: &'static str) {
        let dropped = self.texts().map(|mut texts| texts.drop_all(limit));
        if let (Some(dropped), Some(answers)) = (dropped, self.answers.upgrade()) {
            answers.release(dropped);
        }
    }

    /// Returns whether its text is kept.
    pub(in super::super) fn keeps_text(&self) -> bool {
        self.texts.is_some()
    }

    pub(in super::super) fn has_ended(&self) -> bool {
        self.record.lock().has_ended()
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
        self.summary_of(&self.record.lock())
    }

    /// Returns all facts, with the steps of its loop and its report.
    pub(in super::super) fn report(&self) -> Value {
        let record = self.record.lock();
        let mut report = self.summary_of(&record);
        if let Some(page) = &record.page {
            report["steps"] = page.steps.clone().into();
            report["unlisted_steps"] = page.unlisted.into();
        }
        let outcome = record.answer.outcome.as_ref();
        report["report"] = outcome.map_or(Value::Null, |outcome| {
            steps::report_of(outcome, self.keeps_text())
        });
        report
    }

    fn summary_of(&self, record: &Record) -> Value {
        let request = record.answer.request.as_ref();
        let (age, delivery) = (record.request.began.elapsed(), &record.delivery);
        let has_ended = record.has_ended();
        let answered = record.upstream.answered.last();
        let outcome = record.answer.outcome.as_ref();
        let status = record.status.filter(|_| has_ended);
        json!({
            "id": self.id,
            "request_id": record.request.id,
            "token": record.token.as_deref(),
            "route": record.route_name(),
            "upstream": answered.map_or(record.own_upstream(), String::as_str),
            "has_failed": has_ended && record.has_failed(),
            "wire": request.map(|request| request.dialect.as_str()),
            "model": request.map(|request| &request.model),
            "stream": request.map(|request| request.is_stream),
            "phase": record.page.as_ref().map(|page| page.phase),
            "outcome": outcome.map(|outcome| outcome.status().as_str()),
            "stop": outcome.and_then(Outcome::reason).map(StopReason::as_str),
            "end": has_ended.then(|| delivery.end.as_str()),
            "status": status.map(|status| status.as_u16()),
            "calls": record.answer.made(),
            "causes": record.causes(),
            "failures": outcome.map(|outcome| outcome.tally().failures),
            "bytes": has_ended.then_some(delivery.bytes),
            "age_ms": steps::milliseconds(age),
            "duration_ms": steps::milliseconds(delivery.duration.unwrap_or(age)),
            "first_byte_ms": delivery.first_byte.map(steps::milliseconds),
            "keeps_text": self.texts().is_some_and(|texts| !texts.is_dropped),
            "is_stopped": self.is_stopped(),
        })
    }

    fn texts(&self) -> Option<MutexGuard<'_, Texts>> {
        self.texts.as_ref().map(Mutex::lock)
    }
}

impl Drop for ListedAnswer {
    fn drop(&mut self) {
        self.drop_text("page_answers");
    }
}
