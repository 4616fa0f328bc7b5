//! Reads the deltas of one slot from the bytes of an event stream.

use std::str::FromStr;

use super::decode::says_chat;
use super::source::Refusal;
use crate::Limits;
use crate::provider::chat::Reader;
use crate::provider::{Delta, Kind};
use crate::sse::Decoder;

/// A reader of the deltas of one slot.
#[derive(Debug)]
pub(super) struct Deltas {
    decoder: Decoder,
    reader: Reader,
    answer: Answer,
}

impl Deltas {
    /// Makes a reader. `is_chat` says whether the stream is of Chat Completions, if that is known.
    pub(super) fn new(is_chat: Option<bool>) -> Self {
        let decoder = Decoder::new(&Limits::default());
        Self { decoder, reader: Reader::new(), answer: Answer { is_chat, ..Answer::default() } }
    }

    /// Takes the next bytes and appends the slot's text to `text`.
    pub(super) fn feed(&mut self, mut bytes: &[u8], slot: Slot, text: &mut String) -> Result<(), Refusal> {
        while let Some(event) = self.decoder.next_event(&mut bytes).map_err(Refusal::Stream)? {
            self.answer.read(&mut self.reader, &event.event, &event.data, slot, text)?;
        }
        Ok(())
    }

    /// Ends the bytes.
    pub(super) fn finish(&mut self, slot: Slot, text: &mut String) -> Result<(), Refusal> {
        // As in `decode`, an event that the end cuts off counts.
        if let Some(event) = self.decoder.finish().map_err(Refusal::Stream)? {
            self.answer.read(&mut self.reader, &event.event, &event.data, slot, text)?;
        }
        if self.answer.is_chat.unwrap_or(self.answer.has_spoken) { Ok(()) } else { Err(Refusal::Wire) }
    }
}

/// What was read from the events.
#[derive(Debug, Default)]
struct Answer {
    /// As in `decode`: known by an event that only one API has, else by whether an event was understood.
    is_chat: Option<bool>,
    has_spoken: bool,
    error: Option<String>,
}

impl Answer {
    fn read(
        &mut self,
        reader: &mut Reader,
        event_type: &str,
        data: &str,
        slot: Slot,
        text: &mut String,
    ) -> Result<(), Refusal> {
        let kind = reader.read(event_type, data, |delta| match delta {
            Delta::Text { choice, text: new } if slot == (Slot { choice, tool: None }) => text.push_str(new),
            Delta::ToolCall { choice, index, arguments, .. } if slot == (Slot { choice, tool: Some(index) }) => {
                text.push_str(arguments);
            }
            Delta::Error { message, .. } => self.error = Some(message.to_owned()),
            _ => {}
        });
        self.has_spoken |= kind != Kind::Other;
        if self.is_chat != Some(true) {
            self.is_chat = says_chat(data).or(self.is_chat);
        }
        self.error.take().map_or(Ok(()), |message| Err(Refusal::Server(message)))
    }
}

/// One text of an event stream: `CHOICE`, or `CHOICE.TOOL` for the arguments of a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    choice: u32,
    tool: Option<u32>,
}

impl FromStr for Slot {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| text.parse().map_err(|_| "a slot is CHOICE or CHOICE.TOOL: 0, 1, 0.0");
        let (choice, tool) = text.split_once('.').map_or((text, None), |(choice, tool)| (choice, Some(tool)));
        Ok(Self { choice: number(choice)?, tool: tool.map(number).transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::Slot;

    #[test]
    fn slots_are_read() {
        assert_eq!("1".parse(), Ok(Slot { choice: 1, tool: None }));
        assert_eq!("0.12".parse(), Ok(Slot { choice: 0, tool: Some(12) }));
        for text in ["", ".", "0.", ".0", "a", "0.0.0", "-1"] {
            assert!(text.parse::<Slot>().is_err(), "{text}");
        }
    }
}
