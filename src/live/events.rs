//! The events of a stream, one by one.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::error::TypeError;
use super::feed::{Adapter, Items, StreamError, adapter_methods};
use super::{LiveError, LiveExt};
use crate::Document;
use crate::json::{Event, Kind, ParserView, Sink, Span};

/// A stream of the events of a JSON text. Made by [`LiveExt::events`].
#[must_use = "streams do nothing unless polled"]
pub struct Events<S: LiveExt>(Adapter<S, EventQueue>);

/// An event, and where it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveEvent {
    /// The event. Its spans count from the start of the stream's text.
    pub event: Event,
    /// The JSON Pointer of the value that the event is about; for a key, that of its member.
    /// Consecutive events with the same path share it.
    pub path: Arc<str>,
    /// The decoded text of a key or of a string fragment; a number, `true`, `false` or `null` as
    /// written. Empty for all other events: their text is in other events, and a whole container is
    /// not copied again.
    pub text: String,
    /// The number of roots before the one of this event; 0 except with
    /// [`Trailing::Next`](crate::Trailing::Next).
    pub root: usize,
}

/// Writes the event's name, path and text: `fragment /title Ti`.
impl fmt::Display for LiveEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.event.name(), self.path)?;
        if self.text.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", self.text)
        }
    }
}

/// Writes `event`, `path`, `start` and `end` (the span in bytes); the `kind` of a container; the `value` of a key or fragment; the `text` of a number,
/// `true`, `false` or `null`; `root` after the first root.
impl Serialize for LiveEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let span = self.event.span();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("event", self.event.name())?;
        map.serialize_entry("path", &*self.path)?;
        map.serialize_entry("start", &span.start)?;
        map.serialize_entry("end", &span.end)?;
        match self.event {
            Event::Begin { kind, .. } | Event::End { kind, .. } => {
                map.serialize_entry("kind", Kind::as_str(kind))?;
            }
            Event::Key(_) | Event::Fragment(_) => map.serialize_entry("value", &self.text)?,
            Event::Scalar { .. } => map.serialize_entry("text", &self.text)?,
            Event::StringBegin(_) | Event::StringEnd(_) | Event::Withdrawn(_) => {}
        }
        if self.root > 0 {
            map.serialize_entry("root", &self.root)?;
        }
        map.end()
    }
}

impl<S: LiveExt> Events<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(Adapter::new(stream, EventQueue::default()))
    }
}

adapter_methods!(Events<S>);

impl<S: LiveExt> Stream for Events<S> {
    type Item = Result<LiveEvent, LiveError<StreamError<S>>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().0.poll_next(cx)
    }
}

/// A sink that collects a piece's events.
#[derive(Debug, Default)]
struct EventQueue {
    events: VecDeque<LiveEvent>,
    /// The path of the newest event, and a buffer for the next path.
    path: Arc<str>,
    printed: String,
    root: usize,
    /// The number of bytes that the document has dropped.
    base: usize,
}

impl Sink for EventQueue {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        self.printed.clear();
        // Writing to a string does not fail.
        let _ = write!(self.printed, "{}", live.path());
        if *self.path != *self.printed {
            self.path = self.printed.as_str().into();
        }
        let text = match event {
            Event::Key(span) => live.key(span).into_owned(),
            Event::Fragment(span) => live.decoded(span).into_owned(),
            Event::Scalar { span, .. } => span.of(live.text).to_owned(),
            Event::Begin { .. }
            | Event::End { .. }
            | Event::StringBegin(_)
            | Event::StringEnd(_)
            | Event::Withdrawn(_) => String::new(),
        };
        if matches!(event, Event::Withdrawn(_)) {
            // No root was before it.
            self.root = 0;
        }
        let event = moved(event, self.base);
        self.events.push_back(LiveEvent {
            event,
            path: Arc::clone(&self.path),
            text,
            root: self.root,
        });
        self.root += usize::from(event.ends_value() && live.frames.is_empty());
    }
}

impl Items for EventQueue {
    type Item = LiveEvent;

    fn settle(&mut self, document: &Document) {
        // The document is about to drop its text up to the end of the root.
        self.base = document.base() + document.root_end().unwrap_or_default();
    }

    fn next(&mut self, _: &Document) -> Option<Result<LiveEvent, TypeError>> {
        self.events.pop_front().map(Ok)
    }
}

/// Returns the event with its spans moved by `base` bytes.
fn moved(event: Event, base: usize) -> Event {
    let span = |span: Span| Span {
        start: span.start + base,
        end: span.end + base,
    };
    match event {
        Event::Begin { kind, at } => Event::Begin {
            kind,
            at: at + base,
        },
        Event::End {
            kind,
            count,
            span: own,
        } => Event::End {
            kind,
            count,
            span: span(own),
        },
        Event::Key(own) => Event::Key(span(own)),
        Event::StringBegin(at) => Event::StringBegin(at + base),
        Event::Fragment(own) => Event::Fragment(span(own)),
        Event::StringEnd(own) => Event::StringEnd(span(own)),
        Event::Withdrawn(own) => Event::Withdrawn(span(own)),
        Event::Scalar { kind, span: own } => Event::Scalar {
            kind,
            span: span(own),
        },
    }
}
