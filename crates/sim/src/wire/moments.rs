//! The order of a stream: which moment follows which, whatever the API.

use std::iter;
use std::sync::Arc;

use bytes::Bytes;

use super::{AnswerEnd, Message, Part, Wire};

/// A moment of an answer. Parts are numbered from 0 and follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the first part.
    Start,
    /// A part begins.
    Open(usize),
    /// Bytes of a part, never empty.
    Delta {
        part: usize,
        start: usize,
        end: usize,
    },
    /// A part ends. A part that was dropped in the middle has no end.
    Close(usize),
    /// The finish, the usage and the end of a stream.
    Finish,
    /// The end of a stream, without a finish.
    Done,
    /// An error instead of a finish.
    Error,
    /// An event that is not JSON.
    Malformed,
    /// The whole answer.
    Body,
    /// A part of a whole answer.
    Item(usize),
}

/// Returns the end of the delta that begins at a byte of a part, whose number is given, too. `None`:
/// the delta is the rest of the part.
pub(in super::super) trait Divide:
    Fn(&Part, usize, usize) -> Option<usize> + Clone + Send
{
}

impl<F: Fn(&Part, usize, usize) -> Option<usize> + Clone + Send> Divide for F {}

/// Divides parts into deltas of some characters. Reasoning is one delta.
pub(in super::super) fn by_characters(chunk: usize) -> impl Divide {
    move |part: &Part, _: usize, start: usize| {
        let rest = part.text().get(start..)?;
        let next = rest.char_indices().nth(chunk);
        let is_reasoning = matches!(part, Part::Reasoning(_));
        next.filter(|_| !is_reasoning).map(|(at, _)| start + at)
    }
}

/// Returns the events of an answer. An event is written when it is polled, because it is many times
/// longer than its text.
pub(in super::super) fn events(
    wire: &'static Wire,
    message: Message,
    end: AnswerEnd,
    divide: impl Divide,
) -> impl Iterator<Item = Bytes> + Send {
    let message = Arc::new(message);
    let mut sent = 0;
    moments(Arc::clone(&message), end, divide).flat_map(move |moment| {
        let events = wire.write(&message, moment, sent);
        sent += events.len() as u64;
        events
    })
}

fn moments(
    message: Arc<Message>,
    end: AnswerEnd,
    divide: impl Divide,
) -> impl Iterator<Item = Moment> + Send {
    use AnswerEnd::{Filter, Length, Reset, Stop, Tool};
    let last = match end {
        Length | Stop | Filter | Tool | Reset(_) => Some(Moment::Finish),
        AnswerEnd::Done => Some(Moment::Done),
        AnswerEnd::Error => Some(Moment::Error),
        AnswerEnd::Malformed => Some(Moment::Malformed),
        AnswerEnd::Drop | AnswerEnd::Eof | AnswerEnd::Stall => None,
    };
    let count = message.parts.len();
    let parts = (0..count).flat_map(move |part| {
        // A part has an end if another part follows, or if the answer is finished.
        let is_closed = part + 1 < count || matches!(last, Some(Moment::Finish | Moment::Done));
        iter::once(Moment::Open(part))
            .chain(deltas(Arc::clone(&message), part, divide.clone()))
            .chain(is_closed.then_some(Moment::Close(part)))
    });
    iter::once(Moment::Start).chain(parts).chain(last)
}

fn deltas(
    message: Arc<Message>,
    part: usize,
    divide: impl Divide,
) -> impl Iterator<Item = Moment> + Send {
    let mut start = 0;
    iter::from_fn(move || {
        let own = message.parts.get(part)?;
        let most = Some(own.text().len()).filter(|most| start < *most)?;
        let end = divide(own, part, start).unwrap_or(most);
        Some(Moment::Delta {
            part,
            start: std::mem::replace(&mut start, end),
            end,
        })
    })
}
