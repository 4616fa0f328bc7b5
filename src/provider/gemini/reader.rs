//! Reads the events of a Gemini stream.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::CONTINUATION;
use crate::json::edit::Edits;
use crate::json::string::{decode, quoted};
use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::checkpoints::{Checkpoints, Differs, TextKind};
use crate::provider::fields::{self, Channel, Texts};
use crate::provider::form::Form;
use crate::provider::{Delta, Kind, SlotId, wire};

/// A reader for one stream, event by event.
#[derive(Debug, Default)]
pub(super) struct GeminiReader {
    texts: Texts<Channel>,
    /// How many function calls each candidate has made.
    calls: BTreeMap<u32, u32>,
    checkpoints: Checkpoints,
    form: Form<Channel>,
}

impl wire::Reader for GeminiReader {
    /// Reads one event. Deltas follow the order of the candidates and of their parts, then the
    /// finish; usage, which every event has, and an error follow it.
    ///
    /// A blocked prompt counts as a refusal with the reason, because the response has no candidate
    /// that could end.
    fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        let data = data.trim_matches([' ', '\t', '\r', '\n']);
        if let Some(event) = self.form.read(event_type, data) {
            self.piece(event.subject, event.text, on);
            if !event.passed.is_empty() {
                on(Delta::Usage { raw: event.passed });
            }
            return Kind::Chunk;
        }
        self.form.start();
        let kind = self.read_fully(event_type, data, on);
        if kind == Kind::Chunk {
            self.form.remember(event_type, data);
        }
        kind
    }

    fn checkpoints(&mut self) -> Option<&mut Checkpoints> {
        Some(&mut self.checkpoints)
    }

    fn without_repeated(&mut self, data: &str) -> Result<Option<String>, Differs> {
        if !self.checkpoints.is_repeating() {
            return Ok(None);
        }
        let candidate = fields::object(data)
            .and_then(|root| root.member("candidates"))
            .and_then(|candidates| candidates.elements().next());
        let Some(candidate) = candidate else {
            return Ok(None);
        };
        let mut edits = Edits::default();
        for part in parts_of(candidate.member("content")) {
            let Some((kind, text)) = text_of(part) else {
                match self.checkpoints.is_repeating() {
                    true => return Err(Differs),
                    false => break,
                }
            };
            let repeated = self.checkpoints.repeat(kind, &text)?;
            let new = text.get(repeated..).unwrap_or_default();
            if repeated > 0 {
                edits.object(part, &[], &[("text", &quoted(new))]);
            }
        }
        if candidate.member("finishReason").is_some() && self.checkpoints.is_repeating() {
            return Err(Differs);
        }
        Ok(Some(edits.apply(data)))
    }
}

/// Returns the parts of a candidate's content.
fn parts_of<'a>(content: Option<Raw<'a>>) -> impl Iterator<Item = Raw<'a>> {
    let parts = content.and_then(|content| content.member("parts"));
    parts.into_iter().flat_map(|parts| parts.elements())
}

/// Returns the text of a part that has one.
fn text_of(part: Raw<'_>) -> Option<(TextKind, Cow<'_, str>)> {
    let kind = match fields::is_true(part.member("thought")) {
        true => TextKind::Reasoning,
        false => TextKind::Answer,
    };
    Some((kind, fields::text(part.member("text"))?))
}

impl GeminiReader {
    fn read_fully(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        let mut table = Table::default();
        match fields::recorded_object(&mut table, data) {
            Some(root) => self.response(event_type, root, on),
            None => fields::no_object(event_type, data, on),
        }
    }

    /// Reads a response: the data of an event, or the body of an answer.
    pub(super) fn response(
        &mut self,
        event_type: &str,
        root: Raw<'_>,
        on: &mut dyn FnMut(Delta<'_>),
    ) -> Kind {
        let [candidates, feedback, usage, error] =
            root.pick(["candidates", "promptFeedback", "usageMetadata", "error"]);
        let candidates = candidates.filter(|candidates| candidates.kind() == ValueKind::Array);
        let all = || {
            candidates
                .into_iter()
                .flat_map(|candidates| candidates.elements())
        };
        // Only of such an event does the effect depend on nothing but its text and its usage.
        let is_plain = feedback.is_none() && all().count() == 1;
        for (at, candidate) in all().enumerate() {
            self.candidate(candidate, at, is_plain, on);
        }
        let feedback = fields::as_object(feedback);
        if let Some(reason) =
            feedback.and_then(|feedback| fields::word(feedback.member("blockReason")))
        {
            on(Delta::Refusal {
                slot: SlotId::of(0),
                text: &reason,
            });
        }
        if feedback.is_some() {
            // A blocked prompt has no continuation.
            self.checkpoints.close();
        }
        let usage = fields::as_object(usage);
        if let Some(usage) = usage {
            self.form.note_passed(usage);
            on(Delta::Usage {
                raw: usage.as_str(),
            });
        }
        let error = error.filter(fields::says_error);
        if let Some(error) = error.or((event_type == "error").then_some(root)) {
            on(Delta::Error {
                message: &fields::message(error),
                raw: error.as_str(),
            });
            return Kind::Error;
        }
        let is_chunk = candidates.is_some() || feedback.is_some() || usage.is_some();
        if is_chunk { Kind::Chunk } else { Kind::Other }
    }

    fn candidate(
        &mut self,
        raw: Raw<'_>,
        at: usize,
        is_plain: bool,
        on: &mut dyn FnMut(Delta<'_>),
    ) {
        let [index, content, token, finish] =
            raw.pick(["index", "content", "continuationToken", "finishReason"]);
        let candidate = fields::number_or(index, at);
        let is_plain =
            is_plain && token.is_none() && finish.is_none() && parts_of(content).count() == 1;
        for part in parts_of(content) {
            self.part(part, candidate, is_plain, on);
        }
        if candidate == 0
            && let Some(token) = token.filter(|token| fields::word(Some(*token)).is_some())
        {
            self.checkpoints.note_token(token.as_str());
        }
        if let Some(word) = fields::word(finish) {
            if candidate == 0 {
                self.checkpoints.note_finish(word == CONTINUATION);
            }
            on(Delta::Finish {
                choice: candidate,
                reason: super::finish(&word),
                word: &word,
            });
        }
    }

    /// Reads one part: text, reasoning, or a function call. Images, code and its results are passed
    /// over.
    fn part(
        &mut self,
        part: Raw<'_>,
        candidate: u32,
        is_plain: bool,
        on: &mut dyn FnMut(Delta<'_>),
    ) {
        let slot = SlotId::of(candidate);
        let [text, thought, call] = part.pick(["text", "thought", "functionCall"]);
        let call = fields::as_object(call);
        if let Some((text, inner)) = text.and_then(|text| Some((text, text.inner()?))) {
            let channel = match fields::is_true(thought) {
                true => Channel::Reasoning(slot),
                false => Channel::Text(slot),
            };
            if is_plain && call.is_none() {
                self.form.note_text(channel, text);
            }
            self.piece(channel, inner, on);
        } else if candidate == 0 && self.checkpoints.token().is_some() {
            self.checkpoints.note_other();
        }
        if let Some(call) = call {
            let [id, name, arguments] = call.pick(["id", "name", "args"]);
            let count = self.calls.entry(candidate).or_default();
            let slot = SlotId::part(candidate, *count);
            *count = count.saturating_add(1);
            let (id, name) = (fields::word(id), fields::word(name));
            let arguments = arguments.map_or("", |arguments| arguments.as_str());
            on(Delta::ToolCall {
                slot,
                id: id.as_deref(),
                name: name.as_deref(),
                arguments,
            });
        }
    }

    /// Emits the text of a part, which is between two quotes.
    fn piece(&mut self, channel: Channel, inner: &str, on: &mut dyn FnMut(Delta<'_>)) {
        let text = self.texts.decode(channel, inner);
        let (slot, kind) = match channel {
            Channel::Reasoning(slot) => {
                if !text.is_empty() {
                    on(Delta::Reasoning { slot, text });
                }
                (slot, TextKind::Reasoning)
            }
            Channel::Text(slot) | Channel::Arguments(slot) => {
                on(Delta::Text { slot, text });
                (slot, TextKind::Answer)
            }
        };
        // Only the first candidate has tokens.
        if slot == SlotId::of(0) && self.checkpoints.token().is_some() {
            self.checkpoints.note_text(kind, &decode(inner));
        }
    }
}
