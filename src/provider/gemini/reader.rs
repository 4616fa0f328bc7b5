//! Reads the events of a Gemini stream.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::CONTINUATION;
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, ValueKind};
use crate::provider::checkpoints::{Checkpoints, Differs, TextKind};
use crate::provider::fields::{self, Channel, Texts};
use crate::provider::{Delta, Kind, SlotId, wire};

/// A reader for one stream, event by event.
#[derive(Debug, Default)]
pub(super) struct GeminiReader {
    texts: Texts<Channel>,
    /// How many function calls each candidate has made.
    calls: BTreeMap<u32, u32>,
    checkpoints: Checkpoints,
}

impl wire::Reader for GeminiReader {
    /// Reads one event. Deltas follow the order of the candidates and of their parts, then the
    /// finish; usage, which every event has, and an error follow it.
    ///
    /// A blocked prompt counts as a refusal with the reason, because the response has no candidate
    /// that could end.
    fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        let data = data.trim_matches([' ', '\t', '\r', '\n']);
        let Some(root) = fields::object(data) else {
            return fields::no_object(event_type, data, on);
        };
        let candidates = root
            .member("candidates")
            .filter(|candidates| candidates.kind() == ValueKind::Array);
        for (at, candidate) in candidates
            .into_iter()
            .flat_map(|candidates| candidates.elements())
            .enumerate()
        {
            self.candidate(candidate, at, on);
        }
        let feedback = fields::object_of(root, "promptFeedback");
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
        let usage = fields::object_of(root, "usageMetadata");
        if let Some(usage) = usage {
            on(Delta::Usage {
                raw: usage.as_str(),
            });
        }
        let error = root.member("error").filter(fields::says_error);
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
        for part in parts_of(candidate) {
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

/// Returns the parts of a candidate.
fn parts_of<'a>(candidate: Raw<'a>) -> impl Iterator<Item = Raw<'a>> {
    let content = candidate.member("content");
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
    fn candidate(&mut self, raw: Raw<'_>, at: usize, on: &mut dyn FnMut(Delta<'_>)) {
        let candidate = fields::number_or(raw.member("index"), at);
        for part in parts_of(raw) {
            self.part(part, candidate, on);
            if candidate == 0 && self.checkpoints.token().is_some() {
                match text_of(part) {
                    Some((kind, text)) => self.checkpoints.note_text(kind, &text),
                    None => self.checkpoints.note_other(),
                }
            }
        }
        // Only the first candidate has tokens.
        if candidate == 0
            && let Some(token) = raw
                .member("continuationToken")
                .filter(|token| fields::word(Some(*token)).is_some())
        {
            self.checkpoints.note_token(token.as_str());
        }
        if let Some(word) = fields::word(raw.member("finishReason")) {
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
    fn part(&mut self, part: Raw<'_>, candidate: u32, on: &mut dyn FnMut(Delta<'_>)) {
        let slot = SlotId::of(candidate);
        if let Some(inner) = part.member("text").and_then(|text| text.inner()) {
            if fields::is_true(part.member("thought")) {
                let text = self.texts.decode(Channel::Reasoning(slot), inner);
                if !text.is_empty() {
                    on(Delta::Reasoning { slot, text });
                }
            } else {
                on(Delta::Text {
                    slot,
                    text: self.texts.decode(Channel::Text(slot), inner),
                });
            }
        }
        if let Some(call) = fields::object_of(part, "functionCall") {
            let count = self.calls.entry(candidate).or_default();
            let slot = SlotId::part(candidate, *count);
            *count = count.saturating_add(1);
            let (id, name) = (
                fields::word(call.member("id")),
                fields::word(call.member("name")),
            );
            let arguments = call.member("args").map_or("", |args| args.as_str());
            on(Delta::ToolCall {
                slot,
                id: id.as_deref(),
                name: name.as_deref(),
                arguments,
            });
        }
    }
}
