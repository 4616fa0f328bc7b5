//! Reads the deltas of one slot from the bytes of an event stream.

use super::decode::says_chat;
use super::source::Refusal;
use crate::Limits;
use crate::provider::chat::Reader;
use crate::provider::{Delta, Kind, SlotId};
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
    pub(super) fn feed(&mut self, mut bytes: &[u8], slot: SlotId, text: &mut String) -> Result<(), Refusal> {
        while let Some(event) = self.decoder.next_event(&mut bytes).map_err(Refusal::Stream)? {
            self.answer.read(&mut self.reader, &event.event, &event.data, slot, text)?;
        }
        Ok(())
    }

    /// Ends the bytes.
    pub(super) fn finish(&mut self, slot: SlotId, text: &mut String) -> Result<(), Refusal> {
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
        slot: SlotId,
        text: &mut String,
    ) -> Result<(), Refusal> {
        let kind = reader.read(event_type, data, |delta| match delta {
            Delta::Text { slot: other, text: new } if slot == other => text.push_str(new),
            Delta::ToolCall { slot: other, arguments, .. } if slot == other => text.push_str(arguments),
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

/// Reads the name of a slot: `CHOICE`, or `CHOICE.TOOL` for the arguments of a tool call.
pub(super) fn slot(text: &str) -> Result<SlotId, &'static str> {
    let number = |text: &str| text.parse().map_err(|_| "a slot is CHOICE or CHOICE.TOOL: 0, 1, 0.0");
    let (item, part) = text.split_once('.').map_or((text, None), |(item, part)| (item, Some(part)));
    Ok(SlotId { item: number(item)?, part: part.map(number).transpose()? })
}

#[cfg(test)]
mod tests {
    use super::slot;
    use crate::provider::SlotId;

    #[test]
    fn slots_are_read() {
        assert_eq!(slot("1"), Ok(SlotId::of(1)));
        assert_eq!(slot("0.12"), Ok(SlotId::part(0, 12)));
        for text in ["", ".", "0.", ".0", "a", "0.0.0", "-1"] {
            assert!(slot(text).is_err(), "{text}");
        }
    }
}
