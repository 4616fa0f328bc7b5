//! The row of Chat Completions in the table of wires.

use super::{ask, parse, write_body};
use crate::provider::chunks::Choices;
use crate::provider::translate::PlainMessage;
use crate::provider::wire::{
    self, Adaptation, Changes, Ending, NewRequest, PlainPrompt, Request, Rest, SlotText, Wire,
};
use crate::provider::{Delta, Kind, SlotId, fields, translate};

#[derive(Debug)]
pub(crate) struct Chat;

impl Wire for Chat {
    fn takes_path(&self, path: &str) -> bool {
        path.ends_with("/chat/completions")
    }

    fn has_chat_requests(&self) -> bool {
        true
    }

    fn recognizes(&self, _event_type: &str, data: &str) -> Option<bool> {
        let root = fields::object(data)?;
        let object = fields::text(root.member("object")).unwrap_or_default();
        if object.starts_with("chat.completion") {
            return Some(true);
        }
        match root.member("choices") {
            // Text completions have a `text` in each choice. Any server may open or end with an
            // empty list.
            Some(choices) => choices.elements().next().map(|choice| {
                choice
                    .member("delta")
                    .or(choice.member("message"))
                    .is_some()
            }),
            // Errors and usage look alike in several APIs, except for the `type` that others give
            // every event.
            None if root.member("type").is_some() => Some(false),
            None if root.member("error").is_some() || root.member("usage").is_some() => None,
            None => Some(false),
        }
    }

    fn reader(&self) -> Box<dyn wire::Reader> {
        Box::new(super::ChatReader::new())
    }

    fn writer(&self) -> Box<dyn wire::Writer> {
        Box::new(super::writer::ChatWriter::default())
    }

    fn write_body(
        &self,
        first_body: &str,
        texts: &[SlotText<'_>],
        ending: &Ending<'_>,
    ) -> Option<String> {
        write_body(first_body, texts, ending)
    }

    fn parse(&self, _path: &str, body: &[u8]) -> Option<Request> {
        parse(body)
    }

    fn plain_messages(&self, body: &str) -> Option<Vec<PlainMessage>> {
        let (_, messages) = fields::object_with(body, "messages")?;
        translate::messages_of(messages)
    }

    fn version(&self) -> &'static str {
        "/v1"
    }

    fn allowed(&self) -> crate::provider::allowed::Members {
        super::allowed::REQUEST
    }

    fn new_request(&self, prompt: &PlainPrompt<'_>) -> NewRequest {
        super::new_request(prompt)
    }

    fn ask(&self, body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
        ask(body, rest, changes)
    }

    fn choice_of(&self, slot: SlotId) -> u32 {
        slot.item
    }

    fn adapt(&self, body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
        super::adapt(body, adaptation)
    }
}

impl wire::Reader for super::ChatReader {
    fn expect_choices(&mut self, choices: u64) {
        self.choices = Choices::of(choices);
    }

    fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        self.read(event_type, data, on)
    }
}
