//! Reads the events of a Completions stream.

use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::chunks::Choices;
use crate::provider::fields::{self, Channel, Texts};
use crate::provider::{Delta, Finish, Kind, SlotId, wire};

/// A reader for one stream, event by event.
#[derive(Debug, Default)]
pub(super) struct CompletionsReader {
    texts: Texts<Channel>,
    choices: Choices,
}

impl wire::Reader for CompletionsReader {
    fn expect_choices(&mut self, choices: u64) {
        self.choices = Choices::of(choices);
    }

    /// Reads one event. Deltas follow the order of the choices, text before the finish; usage and
    /// an error follow. The finish may be on an event with text, and once more on an event without.
    fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        let data = data.trim_matches([' ', '\t', '\r', '\n']);
        if data == "[DONE]" {
            on(Delta::Done { word: data });
            return Kind::Done;
        }
        let mut table = Table::default();
        let Some(root) = fields::recorded_object(&mut table, data) else {
            return fields::no_object(event_type, data, on);
        };
        let choices = root
            .member("choices")
            .filter(|choices| choices.kind() == ValueKind::Array);
        for (at, choice) in choices
            .into_iter()
            .flat_map(|choices| choices.elements())
            .enumerate()
        {
            self.choice(choice, at, on);
        }
        let usage = fields::object_of(root, "usage");
        if let Some(usage) = usage {
            on(Delta::Usage {
                raw: usage.as_str(),
            });
        }
        // vLLM's older versions mark the object itself as the error.
        let is_error = event_type == "error"
            || root.member("object").and_then(|object| object.inner()) == Some("error");
        let error = root.member("error").filter(fields::says_error);
        if let Some(error) = error.or(is_error.then_some(root)) {
            on(Delta::Error {
                message: &fields::message(error),
                raw: error.as_str(),
            });
            return Kind::Error;
        }
        if choices.is_some() || usage.is_some() {
            Kind::Chunk
        } else {
            Kind::Other
        }
    }
}

impl CompletionsReader {
    fn choice(&mut self, raw: Raw<'_>, at: usize, on: &mut dyn FnMut(Delta<'_>)) {
        let choice = self.choices.number(raw.member("index"), at);
        let slot = SlotId::of(choice);
        if let Some(inner) = raw.member("text").and_then(|text| text.inner()) {
            on(Delta::Text {
                slot,
                text: self.texts.decode(Channel::Text(slot), inner),
            });
        }
        if let Some(word) = fields::word(raw.member("finish_reason")) {
            on(Delta::Finish {
                choice,
                reason: Finish::from(&*word),
                word: &word,
            });
        }
    }
}
