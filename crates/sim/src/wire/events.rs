//! The order of a stream: which moment follows which, whatever the API.

use std::collections::VecDeque;

use bytes::Bytes;

use super::super::script::AnswerEnd;
use super::{Message, Moment, Part, Wire};

/// The data frames of a response's body, in order.
pub(in super::super) enum Frames {
    /// One event a frame. Boxed, because it is many times larger than the other variant.
    Events(Box<Events>),
    /// One frame; `None` once it is taken.
    Body(Option<Bytes>),
}

impl Iterator for Frames {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Events(events) => events.next(),
            Self::Body(body) => body.take(),
        }
    }
}

/// An answer as events. An event is written when it is polled, because it is many times longer than
/// its text.
pub(in super::super) struct Events {
    wire: &'static dyn Wire,
    message: Message,
    end: AnswerEnd,
    /// Characters in a delta.
    chunk: usize,
    stage: EventStage,
    /// Events that are written and not yet sent.
    ready: VecDeque<Bytes>,
}

/// The next part of the stream.
#[derive(Clone, Copy)]
enum EventStage {
    Start,
    Open(usize),
    /// The delta that begins at a byte of a part.
    Delta(usize, usize),
    Close(usize),
    End,
    Over,
}

impl Events {
    pub(in super::super) fn new(
        wire: &'static dyn Wire,
        message: Message,
        end: AnswerEnd,
        chunk: usize,
    ) -> Self {
        Self {
            wire,
            message,
            end,
            chunk: chunk.max(1),
            stage: EventStage::Start,
            ready: VecDeque::new(),
        }
    }

    /// Writes the events of the next moment, if any, and moves on to the moment after it.
    fn advance(&mut self) {
        let (moment, next) = match self.stage {
            EventStage::Start => (Some(Moment::Start), EventStage::Open(0)),
            EventStage::Open(part) if part < self.message.parts.len() => {
                (Some(Moment::Open(part)), EventStage::Delta(part, 0))
            }
            EventStage::Open(_) => (None, EventStage::End),
            EventStage::Delta(part, at) => match self
                .message
                .parts
                .get(part)
                .and_then(|part| delta(part, at, self.chunk))
            {
                Some(text) => {
                    let end = at + text.len();
                    let is_last = self.is_finished()
                        && part + 1 == self.message.parts.len()
                        && self
                            .message
                            .parts
                            .get(part)
                            .is_some_and(|part| end == part.text().len());
                    (
                        Some(Moment::Delta {
                            part,
                            text,
                            end,
                            is_last,
                        }),
                        EventStage::Delta(part, end),
                    )
                }
                None => (None, EventStage::Close(part)),
            },
            // A part has an end if another part follows, or if the answer is finished.
            EventStage::Close(part) => {
                let is_closed = part + 1 < self.message.parts.len()
                    || self.is_finished()
                    || self.end == AnswerEnd::Done;
                (
                    is_closed.then_some(Moment::Close(part)),
                    EventStage::Open(part + 1),
                )
            }
            EventStage::End => {
                if self.end == AnswerEnd::Malformed {
                    self.ready.push_back(self.wire.malformed().into());
                }
                let moment = match self.end {
                    _ if self.is_finished() => Some(Moment::Finish),
                    AnswerEnd::Done => Some(Moment::Done),
                    AnswerEnd::Error => Some(Moment::Error),
                    _ => None,
                };
                (moment, EventStage::Over)
            }
            EventStage::Over => (None, EventStage::Over),
        };
        if let Some(moment) = moment {
            let mut events = Vec::new();
            self.wire.write(moment, &self.message, &mut events);
            self.message.sent += events.len() as u64;
            self.ready.extend(events.into_iter().map(Bytes::from));
        }
        self.stage = next;
    }

    fn is_finished(&self) -> bool {
        use AnswerEnd::{Filter, Length, Reset, Stop, Tool};
        matches!(self.end, Length | Stop | Filter | Tool | Reset(_))
    }
}

impl Iterator for Events {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if matches!(self.stage, EventStage::Over) {
                return None;
            }
            self.advance();
        }
    }
}

/// Returns the next text of a part, which is not empty. Reasoning is one delta.
fn delta(part: &Part, at: usize, chunk: usize) -> Option<&str> {
    let rest = part.text().get(at..)?;
    let length = match part {
        Part::Reasoning(_) => rest.len(),
        _ => rest
            .char_indices()
            .nth(chunk)
            .map_or(rest.len(), |(at, _)| at),
    };
    rest.get(..length).filter(|text| !text.is_empty())
}
