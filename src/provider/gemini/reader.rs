//! Reads the events of a Gemini stream.

use std::collections::BTreeMap;

use crate::json::walk::{Raw, ValueKind};
use crate::provider::fields::{self, Channel, Texts};
use crate::provider::{Delta, Kind, SlotId, wire};

/// A reader for one stream, event by event.
#[derive(Debug, Default)]
pub(super) struct GeminiReader {
    texts: Texts<Channel>,
    /// How many function calls each candidate has made.
    calls: BTreeMap<u32, u32>,
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
}

impl GeminiReader {
    fn candidate(&mut self, raw: Raw<'_>, at: usize, on: &mut dyn FnMut(Delta<'_>)) {
        let candidate = fields::number_or(raw.member("index"), at);
        let parts = raw
            .member("content")
            .and_then(|content| content.member("parts"));
        for part in parts.into_iter().flat_map(|parts| parts.elements()) {
            self.part(part, candidate, on);
        }
        if let Some(word) = fields::word(raw.member("finishReason")) {
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
