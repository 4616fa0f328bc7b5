//! Appending events to the tape.

use std::borrow::Cow;

use memchr::memchr;

use super::keys::Keys;
use super::{Duplicate, LiveValue, OPEN, OpenNode, ValueNode};
use crate::json::{Event, Kind, ParserView, Scalar, Sink, Span, string};

impl LiveValue {
    /// Returns whether the event directly follows the last one that was taken.
    fn follows(&self, event: Event, live: &ParserView<'_>) -> bool {
        let is_inside = self.open.len() == live.frames.len();
        match event {
            Event::End { span, count, .. } => {
                self.open.len() == live.frames.len() + 1
                    && self
                        .open
                        .last()
                        .is_some_and(|open| open.start == span.start && self.has(open, count))
                    && !self.in_string()
                    && !self.is_due()
            }
            Event::Fragment(span) => is_inside && self.in_string() && self.emitted == span.start,
            Event::StringEnd(span) => {
                is_inside && self.in_string() && self.emitted.checked_add(1) == Some(span.end)
            }
            Event::Key(_) | Event::Begin { .. } | Event::StringBegin(_) | Event::Scalar { .. } => {
                let (Some(open), Some(frame)) = (self.open.last(), live.frames.last()) else {
                    return false;
                };
                let same = open.start == frame.start && self.has(open, frame.count);
                let is_due = frame.kind == Kind::Object && !matches!(event, Event::Key(_));
                is_inside && same && !self.in_string() && is_due == self.is_due()
            }
            Event::Withdrawn(_) => true,
        }
    }

    /// Returns whether an open container has this many complete children.
    fn has(&self, open: &OpenNode, children: usize) -> bool {
        matches!(self.nodes.get(open.node), Some(&ValueNode::Container { count, .. }) if count == children)
    }

    /// Returns whether the last node is a key without a value.
    fn is_due(&self) -> bool {
        matches!(self.nodes.last(), Some(ValueNode::Key { .. }))
    }

    /// Counts the value at `at` as a child of the innermost open container.
    fn count(&mut self, at: usize) {
        if let Some(ValueNode::Container { count, last, .. }) = self
            .open
            .last()
            .and_then(|open| self.nodes.get_mut(open.node))
        {
            *count += 1;
            *last = at;
        }
    }

    fn key(&mut self, span: Span, live: &ParserView<'_>) {
        let at = self.nodes.len();
        let start = self.text.len();
        let said = live.key(span);
        // A key with an escape that is still undecoded can't be decoded.
        let is_raw = matches!(said, Cow::Borrowed(raw) if memchr(b'\\', raw.as_bytes()).is_some());
        self.text.push_str(&said);
        self.nodes.push(ValueNode::Key {
            start,
            end: self.text.len(),
            is_raw,
        });
        if let Some(mut open) = self.open.pop() {
            if open
                .keys
                .lacks_table(live.frames.last().map_or(0, |frame| frame.count))
            {
                let table = self.spares.take();
                open.keys.fill(table, self, open.node, at);
            }
            if open.keys.has(self, open.node, at) {
                self.duplicates.push(Duplicate { span, node: at });
            }
            self.open.push(open);
        }
    }

    fn scalar(&mut self, kind: Scalar, span: Span, live: &ParserView<'_>) {
        self.count(self.nodes.len());
        self.nodes.push(match kind {
            Scalar::True => ValueNode::Bool(true),
            Scalar::False => ValueNode::Bool(false),
            Scalar::Null => ValueNode::Null,
            Scalar::Number => {
                let start = self.text.len();
                self.text.push_str(span.of(live.text));
                ValueNode::Number {
                    start,
                    end: self.text.len(),
                }
            }
        });
    }

    /// Clears the value before a root. Keeps its buffers.
    fn clear(&mut self) {
        self.nodes.clear();
        self.text.clear();
        self.open.clear();
        self.duplicates.clear();
        self.is_stale = false;
    }
}

impl Sink for LiveValue {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        if live.frames.is_empty() && event.begins_value() || matches!(event, Event::Withdrawn(_)) {
            self.clear();
        } else if self.is_stale || !self.follows(event, live) {
            self.is_stale = true;
            return;
        }
        match event {
            Event::Begin { kind, at } => {
                let node = self.nodes.len();
                self.count(node);
                self.nodes.push(ValueNode::Container {
                    kind,
                    end: OPEN,
                    count: 0,
                    last: node,
                });
                self.open.push(OpenNode {
                    node,
                    start: at,
                    keys: Keys::default(),
                });
            }
            Event::End { .. } => {
                let after = self.nodes.len();
                let Some(open) = self.open.pop() else { return };
                if let Some(ValueNode::Container { end, .. }) = self.nodes.get_mut(open.node) {
                    *end = after;
                }
                self.spares.put(open.keys);
            }
            Event::Key(span) => self.key(span, live),
            Event::StringBegin(at) => {
                let start = self.text.len();
                self.nodes.push(ValueNode::String {
                    start,
                    end: start,
                    is_whole: false,
                });
                self.emitted = at.saturating_add(1);
            }
            Event::Fragment(span) => {
                string::decode_into(span.of(live.text), &mut self.text);
                if let Some(ValueNode::String { end, .. }) = self.nodes.last_mut() {
                    *end = self.text.len();
                }
                self.emitted = span.end;
            }
            Event::StringEnd(_) => {
                self.count(self.nodes.len().saturating_sub(1));
                if let Some(ValueNode::String { is_whole, .. }) = self.nodes.last_mut() {
                    *is_whole = true;
                }
            }
            Event::Scalar { kind, span } => self.scalar(kind, span, live),
            Event::Withdrawn(_) => {}
        }
    }
}
