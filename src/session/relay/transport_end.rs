//! The end of the transport of the open call.

use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;

use super::call::OpenCall;
use super::{Phase, Relay, TransportEnd};
use crate::provider::wire::Framing;
use crate::session::CallEnd;
use crate::session::event_summary::breaks_off;

/// Properties of the text after the last whole event.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// A chunk without the line end after it, which has not left.
    is_unterminated: bool,
    /// An event that could be read.
    is_known: bool,
}

impl Relay {
    /// The transport of the open call has ended.
    pub fn handle_transport_end(&mut self, now: Duration, transport_end: TransportEnd) {
        let transport = if transport_end == TransportEnd::Closed {
            CallEnd::Closed
        } else {
            CallEnd::Dropped
        };
        match self.phase {
            Phase::Done => return,
            Phase::Unread => return self.passed(now, transport),
            Phase::Open | Phase::Withheld(_) => {}
        }
        let is_whole = self.is_forwarding() && !self.client.finish && self.is_whole();
        let rest = match transport {
            CallEnd::Closed => self.read_rest(now, is_whole),
            _ => ControlFlow::Continue(Rest::default()),
        };
        let ControlFlow::Continue(rest) = rest else {
            if matches!(self.phase, Phase::Unread) {
                self.passed(now, transport);
            }
            return;
        };
        self.finish_whole(now);
        let (forwards, passes) = (self.is_forwarding(), self.passes(&transport));
        let is_text = !self.event_summary.text.is_empty() && self.session().document().is_json();
        let counts = rest.is_unterminated && (is_text || !passes)
            || rest.is_known && is_whole && self.call.raw.has_bytes();
        if counts && forwards && !self.client.finish {
            self.terminate(now);
        }
        if !self.client.finish && self.reattach(now, &transport) {
            return;
        }
        if passes && self.is_first_open() {
            self.passed(now, transport);
        } else {
            // The last event may already have shown how the call ended.
            self.end_as_known(now, transport);
        }
    }

    /// Reads the text after the last whole event. Several servers end without the last blank line:
    /// that text is an event all the same. Breaks when the call is over.
    fn read_rest(&mut self, now: Duration, is_whole: bool) -> ControlFlow<(), Rest> {
        let (wanted, observed) = (self.wants_data(), self.is_forwarding());
        let kept = !observed && self.keeps_raw();
        let OpenCall {
            decoder,
            reader,
            raw,
            adopts,
            ..
        } = &mut self.call;
        // An incomplete event after the document holds nothing that is missed. In a repeated answer
        // it is dropped, too: the relay would write it with an end, and clients would fail on it.
        let is_dropped = is_whole || *adopts;
        let is_of_end = |data: &str| is_dropped && (data.is_empty() || breaks_off(data));
        let Some(event) = decoder
            .finish()
            .ok()
            .flatten()
            .filter(|event| !is_of_end(&event.data))
        else {
            return ControlFlow::Continue(Rest::default());
        };
        raw.begin_event(event.range.start);
        let end = event.range.end;
        if observed {
            self.writer.observe(&event.event, &event.data);
        } else if kept && let Phase::Withheld(withheld) = &mut self.phase {
            withheld.note(&event);
        }
        let data = self.event_summary.read(&mut **reader, event, wanted);
        let is_chunk = self.event_summary.is.chunk;
        self.event(now, end, data)?;
        ControlFlow::Continue(Rest {
            is_unterminated: is_chunk && self.call.raw.has_bytes() && self.call.held.is_none(),
            is_known: !self.event_summary.is.malformed,
        })
    }

    /// Forwards the rest, which counts or has others written after it, with the line end that it
    /// lacks. A client drops it without one.
    fn terminate(&mut self, now: Duration) {
        self.forward(now, u64::MAX);
        let end: &[u8] = match self.framing() {
            Framing::Events => b"\n\n",
            Framing::Lines => b"\n",
            Framing::Array => b"",
        };
        self.send(now, Bytes::from_static(end));
    }

    /// Returns whether a first answer with this end is forwarded unchanged.
    pub(super) fn passes(&self, end: &CallEnd) -> bool {
        let continues =
            !self.call.withheld.is_empty() || self.slots.list.would_continue(&self.call.ends, end);
        self.client.finish || self.is_forwarding() && !continues
    }
}
