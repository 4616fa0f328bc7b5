//! Reads the deltas of a single slot from the bytes of an answer.

use super::dialect::{AnyReader, first_significant, framed};
use super::source::Refusal;
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::provider::{Delta, SlotId};
use restitch::sse::Event;
use restitch::sse::Framed;

/// A reader for a single slot's deltas.
#[derive(Debug)]
pub(super) struct Deltas {
    dialect: Option<Dialect>,
    /// Known by the first significant byte.
    framed: Option<Framed>,
    answer: DeltasReport,
}

impl Deltas {
    /// Makes a reader. With `None` the API is found by the events.
    pub(super) fn new(dialect: Option<Dialect>) -> Self {
        let answer = DeltasReport {
            reader: AnyReader::new(dialect),
            kind: None,
            error: None,
        };
        Self {
            dialect,
            framed: None,
            answer,
        }
    }

    /// Takes the next bytes and appends the slot's text to `text`.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        slot: SlotId,
        text: &mut String,
    ) -> Result<(), Refusal> {
        if self.framed.is_none() {
            self.framed = first_significant(bytes).map(|first| framed(self.dialect, first));
        }
        let Some(framed) = &mut self.framed else {
            return Ok(());
        };
        while let Some(event) = framed.next_event(&mut bytes).map_err(Refusal::Stream)? {
            self.answer.read(&event, slot, text)?;
        }
        Ok(())
    }

    /// Ends the bytes.
    pub(super) fn finish(&mut self, slot: SlotId, text: &mut String) -> Result<(), Refusal> {
        // As in `decode`, an event that is cut off by the end counts.
        if let Some(framed) = &mut self.framed
            && let Some(event) = framed.finish().map_err(Refusal::Stream)?
        {
            self.answer.read(&event, slot, text)?;
        }
        self.answer.finish(slot, text)
    }
}

/// The answer that was read from the events.
#[derive(Debug)]
struct DeltasReport {
    reader: AnyReader,
    /// The type of the slot's contents, known from its first text: in some APIs a text and a tool
    /// call may have the same number.
    kind: Option<SlotKind>,
    error: Option<Refusal>,
}

impl DeltasReport {
    fn read(&mut self, event: &Event<'_>, slot: SlotId, text: &mut String) -> Result<(), Refusal> {
        let Self {
            reader,
            kind,
            error,
        } = self;
        reader.read(&event.event, &event.data, &mut |delta| {
            push(&delta, slot, kind, error, text);
        });
        self.error.take().map_or(Ok(()), Err)
    }

    fn finish(&mut self, slot: SlotId, text: &mut String) -> Result<(), Refusal> {
        let Self {
            reader,
            kind,
            error,
        } = self;
        reader.finish(&mut |delta| push(&delta, slot, kind, error, text));
        self.error.take().map_or(Ok(()), Err)?;
        self.reader.dialect().map(|_| ()).ok_or(Refusal::Wire)
    }
}

/// Appends the text of a slot.
fn push(
    delta: &Delta<'_>,
    slot: SlotId,
    kind: &mut Option<SlotKind>,
    error: &mut Option<Refusal>,
    text: &mut String,
) {
    let (own, new) = match *delta {
        Delta::Text { slot: other, text } if slot == other => (SlotKind::Text, text),
        Delta::ToolCall {
            slot: other,
            arguments,
            ..
        } if slot == other => (SlotKind::Arguments, arguments),
        Delta::Error { message, .. } => return *error = Some(Refusal::Server(message.to_owned())),
        // Text that was read can't be taken back.
        Delta::Restart if kind.is_some() => return *error = Some(Refusal::Restart),
        _ => return,
    };
    if !new.is_empty() && *kind.get_or_insert(own) == own && error.is_none() {
        text.push_str(new);
    }
}

/// Reads the name of a slot, as `decode` writes it: `CHOICE`, or `CHOICE.TOOL` for the arguments of
/// a tool call.
pub(super) fn slot(text: &str) -> Result<SlotId, &'static str> {
    let number = |text: &str| {
        text.parse()
            .map_err(|_| "a slot is CHOICE or CHOICE.TOOL: 0, 1, 0.0")
    };
    let (item, part) = text
        .split_once('.')
        .map_or((text, None), |(item, part)| (item, Some(part)));
    Ok(SlotId {
        item: number(item)?,
        part: part.map(number).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::slot;
    use restitch::provider::SlotId;

    #[test]
    fn slots_are_read() {
        assert_eq!(slot("1"), Ok(SlotId::of(1)));
        assert_eq!(slot("0.12"), Ok(SlotId::part(0, 12)));
        for text in ["", ".", "0.", ".0", "a", "0.0.0", "-1"] {
            assert!(slot(text).is_err(), "{text}");
        }
    }
}
