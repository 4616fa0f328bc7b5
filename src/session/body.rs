//! Answers that are not streamed: whole bodies through a session.
//!
//! The same loop as for streams, with one difference: nothing of a body is sent until the body is
//! whole, so the client waits, and gets one response.

use std::collections::VecDeque;
use std::time::Duration;

use super::answer_options::AnswerOptions;
use super::choice_ends::ChoiceEnds;
use super::event_summary::EventSummary;
use super::slots::Slots;
use super::wire::failure;
pub(crate) use super::wire::{Output, TransportEnd};
use super::{CallEnd, HopEnd, Input, Outcome, Request, Resume, Rung, Session};
use super::{LimitReached, NextStep, StopReason};
use crate::document::Document;
use crate::json::repair::RepairLevel;
use crate::json::walk;
use crate::limits::Limits;
use crate::provider::checkpoints::MAX_HOPS;
use crate::provider::wire::{Ending, Tool, Wire};
use crate::provider::{Delta, Dialect, Finish, add_usage, answer_tokens};

/// A response's body, made whole: [`Output::Bytes`] is the whole body of the response, and occurs
/// once. Without [`dialect`](Self::dialect) it is one of Chat Completions. Drain
/// [`poll_output`](Self::poll_output) after every input.
#[derive(Debug)]
pub struct BodyRelay {
    slots: Slots,
    /// The body that the response is built from: the first one with an answer.
    first: Option<String>,
    usages: Option<String>,
    /// The upstream's last error message.
    last_error: Option<String>,
    outputs: VecDeque<Output>,
    /// The relay continues an answer from its token.
    continues_by_token: bool,
    /// It does so after the limit on tokens, too, which the caller then raises.
    raises_limit: bool,
    /// The answer that the open call continues from its token.
    hop: Option<String>,
    /// How many calls continued the answer from a token.
    hops: u32,
    /// The token of the last one.
    last_token: Option<String>,
}

impl AnswerOptions for BodyRelay {
    fn configure(mut self, change: impl Fn(&mut Session)) -> Self {
        self.slots.configure(change);
        self
    }
}

impl BodyRelay {
    /// Returns a relay before the first body.
    pub fn new(limits: Limits) -> Self {
        let wire = Dialect::default().wire();
        let mut slots = Slots::new(wire, Session::new(limits));
        slots.configure(|session| session.channel.settings.sends_at_end = true);
        Self {
            slots,
            first: None,
            usages: None,
            last_error: None,
            outputs: VecDeque::new(),
            continues_by_token: false,
            raises_limit: false,
            hop: None,
            hops: 0,
            last_token: None,
        }
    }

    /// Continues an answer from its token, where the provider can send the rest of the same answer:
    /// [`Request::resume`](super::Request).
    #[must_use]
    pub fn continuing_by_token(mut self) -> Self {
        self.continues_by_token = true;
        self
    }

    /// Continues an answer from its token after the limit on its tokens, too, which the caller then
    /// raises.
    #[must_use]
    pub fn raising_limit(mut self, raises_limit: bool) -> Self {
        self.raises_limit = raises_limit;
        self
    }

    /// Sets the API of the body.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.slots.list.wire = dialect.wire();
        self
    }

    /// Sets the tools that the request declares.
    #[must_use]
    pub fn tools(mut self, tools: Vec<Tool>) -> Self {
        self.slots.tools = tools;
        self
    }

    /// Ends the answer on the operator's wish, with the open call, which is then ended. `limit`:
    /// the one that ends it.
    pub fn stop(&mut self, limit: Option<LimitReached>) {
        self.slots.configure(|session| session.decisions.stop());
        limit
            .into_iter()
            .for_each(|limit| self.slots.note_limit(limit));
    }

    /// The session of the slot that got text last, for a look at the document.
    pub fn session(&self) -> &Session {
        self.slots.session()
    }

    /// A call has answered with this body.
    pub fn handle_body(&mut self, now: Duration, body: impl Into<String>) {
        let mut body = body.into();
        if let Some(first) = self.hop.take() {
            match self.joined(now, &first, &body) {
                Some(joined) => body = joined,
                // The client gets the answer that the provider has sent, with its token.
                None => (body, self.continues_by_token) = (first, false),
            }
        }
        if self.continue_by_token(now, &body) {
            self.hop = Some(body);
            return;
        }
        self.read_body(now, body);
    }

    /// Reads the body of a call.
    fn read_body(&mut self, now: Duration, body: String) {
        let wire = if self.slots.session().is_first() {
            self.slots.list.wire
        } else {
            self.slots.further.wire(self.slots.list.wire)
        };
        let BodySummary {
            answer,
            is_known,
            is_whole,
        } = self.summary(wire, &body);
        if answer.error.is_some() {
            self.last_error.clone_from(&answer.error);
        }
        if let Some(usage) = &answer.usage {
            add_usage(&mut self.usages, usage);
            if self.hops == 0 || !self.slots.session().is_first() {
                self.count_usage(now, usage);
            }
        }
        if answer.is.reasoning {
            self.slots.session_mut().handle_input(now, Input::Reasoning);
        }
        let end = answer.end().unwrap_or(CallEnd::Closed);
        if self.slots.session().is_first() {
            // The response is built from this body: members that no reader knows stay in it.
            self.first = Some(body);
            if is_whole {
                self.slots.pass();
            } else {
                self.first_body(now, &answer, is_known);
            }
            let mut ends = ChoiceEnds::default();
            ends.note(&answer);
            return self.end_of_first(now, &ends, &end);
        }
        let Slots { list, further, .. } = &mut self.slots;
        further.read(list, now, &answer);
        self.end_call(now, end);
    }

    /// Reads a body. A text that is a whole document is only checked: if all texts are, there is
    /// nothing to compare, to repair or to keep.
    fn summary(&self, wire: &dyn Wire, body: &str) -> BodySummary {
        let session = self.slots.session();
        let may_pass = session.is_first()
            && !session.repairs_text()
            && session.channel.text.base.prefill().is_empty();
        let max_depth = session.channel.settings.limits.parser.max_depth;
        let is_whole = |text: &str| {
            may_pass
                && text.trim_start().starts_with(['{', '['])
                && walk::is_valid_within(text, max_depth)
        };
        let (mut answer, mut texts, mut whole) = (EventSummary::default(), 0, 0);
        let is_known = wire.read_body(body, &mut |mut delta| {
            if let Delta::Text { text, .. }
            | Delta::ToolCall {
                arguments: text, ..
            } = &mut delta
            {
                // A call's name may come without arguments.
                texts += usize::from(!text.is_empty());
                if is_whole(text) {
                    whole += 1;
                    *text = "";
                }
            }
            answer.add(delta);
        });
        // Two texts of one choice are one piece, and no whole document.
        let is_separate = texts == answer.pieces.len();
        let is_whole = whole > 0 && whole == texts && is_separate && answer.text.is_empty();
        if whole > 0 && !is_whole {
            // The session needs the whole documents, too: it compares all texts. They are decoded
            // twice.
            answer = EventSummary::of_body(wire, body);
        }
        BodySummary {
            answer,
            is_known,
            is_whole,
        }
    }

    /// Counts the usage of a call.
    fn count_usage(&mut self, now: Duration, usage: &str) {
        self.slots.note_usage_of_prompt(usage);
        if let Some(tokens) = answer_tokens(usage) {
            self.slots
                .session_mut()
                .handle_input(now, Input::Tokens(tokens));
        }
        self.outputs.push_back(Output::Usage(usage.to_owned()));
    }

    /// Counts the usage of one of several bodies that become one.
    fn count_part(&mut self, now: Duration, body: &str) {
        let part = EventSummary::of_body(self.slots.list.wire, body);
        if let Some(usage) = &part.usage {
            self.count_usage(now, usage);
        }
    }

    /// Joins the body of a call that continues an answer from its token. `None`: the body is not
    /// the rest of the answer.
    fn joined(&mut self, now: Duration, first: &str, next: &str) -> Option<String> {
        let joined = self.slots.list.wire.join_bodies(first, next)?;
        let is_larger = joined.len()
            > self
                .slots
                .session()
                .channel
                .settings
                .limits
                .parser
                .max_event_bytes;
        if is_larger {
            return None;
        }
        self.count_part(now, next);
        Some(joined)
    }

    /// Asks the provider to continue an answer from its token. Returns whether it did.
    fn continue_by_token(&mut self, now: Duration, body: &str) -> bool {
        let limits = &self.slots.session().channel.settings.limits;
        let is_possible = self.continues_by_token
            && self.slots.session().channel.settings.allows(Rung::Token)
            && limits.continuation.max_continuations > 0
            && self.hops < MAX_HOPS
            && self.slots.session().is_first()
            && !self.slots.session().is_done();
        let Some((finish, token)) = is_possible
            .then(|| self.slots.list.wire.token_of_body(body))
            .flatten()
        else {
            return false;
        };
        let after = match finish {
            // Prose ends where the client wanted it to end.
            Finish::Length if !(self.raises_limit && self.is_cut_document(body)) => return false,
            Finish::Length => HopEnd::Limit,
            _ => HopEnd::Asked,
        };
        if self.last_token.as_ref() == Some(&token) {
            // The same token would only repeat the call.
            return false;
        }
        if self.hops == 0 {
            self.count_part(now, body);
        }
        self.hops += 1;
        // More raises would add up to more tokens than the operator allows.
        self.raises_limit &= after != HopEnd::Limit;
        self.last_token = Some(token.clone());
        let resume = Resume::Token {
            token: token.into(),
            after,
        };
        let session = self.slots.session_mut();
        session.channel.journal.stats.note_rung(Rung::Token);
        let request = Request::resuming(session.tally().continuations, resume);
        self.outputs.push_back(Output::Call { request, at: now });
        true
    }

    /// Returns whether the text of a body is a document that is cut.
    fn is_cut_document(&self, body: &str) -> bool {
        let summary = EventSummary::of_body(self.slots.list.wire, body);
        let mut document = Document::new(self.slots.session().document().max_depth());
        let is_legal = summary.texts().all(|(_, text)| document.push(text).is_ok());
        is_legal && document.root_start().is_some() && !document.is_whole()
    }

    fn first_body(&mut self, now: Duration, answer: &EventSummary, known: bool) {
        if answer.is.opaque || answer.texts().filter(|(_, text)| !text.is_empty()).count() > 1 {
            // Their texts pass unchanged.
            self.slots
                .configure(|session| session.set_repair(RepairLevel::Strict));
        }
        for (piece, text) in answer.texts() {
            let mut rest = text;
            // A slot may have no text.
            self.slots.text(now, piece, next_piece(&mut rest));
            while !rest.is_empty() {
                self.slots.text(now, piece, next_piece(&mut rest));
            }
        }
        // An unknown body passes: its rest can't be written into it.
        if answer.is.opaque || !known || answer.error.is_some() {
            self.slots.pass();
        }
    }

    /// A call has failed, or its body was cut off.
    pub fn handle_end(&mut self, now: Duration, end: CallEnd) {
        if let CallEnd::Redirected(redirect) = &end {
            self.slots.redirect(redirect);
            return self.end_call(now, end);
        }
        if let Some(first) = self.hop.take() {
            // The client gets the answer that the provider has sent, with its token.
            return self.read_body(now, first);
        }
        if self.slots.session().is_first() {
            return self.end_of_first(now, &ChoiceEnds::default(), &end);
        }
        self.end_call(now, end);
    }

    /// Gives the answer up: the caller does not make the requested call.
    pub fn give_up_unasked(&mut self, now: Duration) {
        let session = self.slots.session_mut();
        if !session.is_done() {
            session.channel.journal.uncount_call();
            session.follow(now, NextStep::GiveUp(StopReason::Failures, None));
        }
        self.end_slot(now);
    }

    fn end_of_first(&mut self, now: Duration, ends: &ChoiceEnds, end: &CallEnd) {
        self.slots.end(now, ends, end);
        let end = self.slots.next().unwrap_or_else(|| end.clone());
        self.end_call(now, end);
    }

    fn end_call(&mut self, now: Duration, end: CallEnd) {
        self.slots
            .session_mut()
            .handle_input(now, Input::CallEnd(end));
        self.end_slot(now);
    }

    /// Goes on with the next slot if the session of this one is done.
    fn end_slot(&mut self, now: Duration) {
        while let Some(outcome) = self.drain() {
            self.slots.list.entry_mut().keep(outcome);
            let Some(end) = self.slots.next() else {
                return self.finish();
            };
            self.slots
                .session_mut()
                .handle_input(now, Input::CallEnd(end));
        }
    }

    /// Handles the session's outputs. Returns the outcome if the session is done.
    fn drain(&mut self) -> Option<Outcome> {
        let mut done = None;
        while let Some(output) = self.slots.session_mut().poll_output() {
            match output {
                super::Output::Text(_) => {}
                super::Output::Event(event) => self.outputs.push_back(Output::Event(event)),
                super::Output::Call { request, at } => {
                    self.slots.asked();
                    self.outputs.push_back(Output::Call { request, at });
                }
                super::Output::Done(outcome) => done = Some(outcome),
            }
        }
        done
    }

    fn finish(&mut self) {
        let Some(outcome) = self.slots.outcome() else {
            debug_assert!(false, "every slot that was asked for has an outcome");
            return;
        };
        let body = self.body(&outcome);
        self.outputs.push_back(Output::Bytes(body.into()));
        let slot = self.slots.slot().kind;
        self.outputs.push_back(Output::Done {
            outcome,
            slot,
            transport_end: TransportEnd::Closed,
        });
    }

    /// Returns the next output; `None` until there is more input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns the first answer's body: with edited spans, or unchanged if the answer passed.
    fn body(&mut self, outcome: &Outcome) -> String {
        let report = outcome.report();
        if let Outcome::Failed { .. } = outcome {
            let began = self.slots.session().channel.text.has_begun();
            let (message, code) = failure(outcome, began, self.last_error.as_deref());
            return self.slots.list.wire.error_body(&message, code, &report);
        }
        let first = self.first.take().unwrap_or_default();
        let is_passed = matches!(outcome, Outcome::PassedThrough { .. });
        // A malformed answer that is cut has its report.
        let is_cut = outcome.tally().malformed && outcome.finish().is_some_and(Finish::is_cut);
        if is_passed && !is_cut {
            return first;
        }
        let reasons: Vec<_> = self
            .slots
            .list
            .choices()
            .into_iter()
            .map(|choice| (choice, self.slots.reason(choice)))
            .collect();
        let usage = self.usages.as_deref();
        let ending = Ending {
            reasons: &reasons,
            usage,
            usage_apart: false,
            report: Some(&report),
        };
        self.slots
            .list
            .wire
            .write_body(
                &first,
                &(self.slots.list).texts(|entry| entry.outcome.is_some() && !is_passed),
                &ending,
            )
            .unwrap_or(first)
    }
}

/// The content of a body.
struct BodySummary {
    answer: EventSummary,
    /// The body is an answer or an error of the API.
    is_known: bool,
    /// All texts are whole documents. `answer` is without them.
    is_whole: bool,
}

/// Takes the next piece of a text.
fn next_piece<'t>(rest: &mut &'t str) -> &'t str {
    let end = (PIECE..rest.len()).find(|at| rest.is_char_boundary(*at));
    let (piece, later) = rest.split_at(end.unwrap_or(rest.len()));
    *rest = later;
    piece
}

// Prose is recognized between two pieces, and the rest of it is not read.
/// The number of bytes of a text that the session takes at a time.
const PIECE: usize = 16 << 10;
