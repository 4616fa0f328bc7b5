//! What must hold of an answer that has ended.

use restitch::internal::relay::{Output, TransportEnd};
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::repair::RepairLevel;
use restitch::session::Status;

use super::client::{Reading, has_document};
use super::{Run, State, root, show};

impl Run<'_> {
    pub(super) fn check_end(&mut self) {
        assert_eq!(self.state, State::Done);
        let Some(Output::Done {
            outcome,
            transport_end,
            ..
        }) = self.steps.last()
        else {
            panic!("{}", self.context())
        };
        let (status, transport_end) = (outcome.status(), *transport_end);
        let reading = Reading::of(self.setup.dialect, &self.body);
        let (text, document) = (reading.text(), self.relay.session().document().text());
        if self.call_number() == 0
            && status == Status::PassedThrough
            && self.setup.repair == RepairLevel::Strict
        {
            self.check_unchanged();
        }
        if !self.known.is_irregular && !self.known.has_other_call {
            self.check_form(&reading, status, transport_end);
        }
        if self.known.has_other_call {
            return;
        }
        match status {
            Status::Complete => {
                assert!(has_document(&text), "{}", self.context());
                // The end of a fence that nobody wrote is no part of the document.
                let added = text
                    .strip_prefix(document)
                    .map(|added| added.trim_matches(['`', '\n']));
                assert_eq!(
                    added,
                    Some(""),
                    "the client has another text: {text:?} {document:?} {}",
                    self.context()
                );
                if !self.known.is_invented {
                    assert_eq!(
                        trimmed(&text),
                        trimmed(self.setup.document),
                        "{}",
                        self.context()
                    );
                }
            }
            Status::Closed => {
                assert!(has_document(&text), "{}", self.context());
                assert!(
                    text.starts_with(document),
                    "{document:?} {}",
                    self.context()
                );
                assert_eq!(
                    self.setup.kind,
                    SlotKind::Text,
                    "arguments are never closed: {}",
                    self.context()
                );
            }
            Status::Incomplete | Status::Failed => {
                // Text that a repair has held back leaves as it came, where nothing follows it.
                let is_exact = self.setup.repair == RepairLevel::Strict;
                assert!(
                    text == document || !is_exact && text.starts_with(document),
                    "the client has another text: {text:?} {document:?} {}",
                    self.context()
                );
            }
            _ => {}
        }
    }

    /// A first answer that passes has each of its bytes, but for an event that breaks off and what
    /// ends a stream.
    fn check_unchanged(&self) {
        if self.known.is_kept_alive {
            return;
        }
        let sent = &self.call.stream[..self.call.sent];
        let same = self
            .body
            .iter()
            .zip(sent)
            .take_while(|(left, right)| left == right)
            .count();
        let is_end = |added: &str| {
            matches!(added, "" | "\n" | "\n\n" | "data: [DONE]\n\n")
                || added.starts_with(": restitch")
                || tells_silence(added)
        };
        // An event that breaks off may begin like the one in its place.
        let at_line = sent[..same]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let same = if is_end(&show(&self.body[same..])) {
            same
        } else {
            at_line
        };
        let (added, missing) = (show(&self.body[same..]), show(&sent[same..]));
        assert!(is_end(&added), "added {added:?}: {}", self.context());
        let missing_events = Reading::of(self.setup.dialect, missing.as_bytes()).events;
        assert!(
            missing_events.is_empty(),
            "missing {missing:?}: {}",
            self.context()
        );
    }

    /// The client reads one answer, with one name, that ends once.
    fn check_form(&self, reading: &Reading, status: Status, transport_end: TransportEnd) {
        let malformed = reading
            .events
            .iter()
            .filter_map(|event| event.as_ref().err())
            .find(|data| *data != "[DONE]");
        assert_eq!(malformed, None, "{}", self.context());
        assert!(
            reading.dones() <= 1 && reading.finishes() <= 1,
            "{}",
            self.context()
        );
        // Of a stream that passes unread nobody knows whether its end has passed.
        let is_unread =
            status == Status::PassedThrough && self.relay.session().document().text().is_empty();
        let silent = usize::from(is_unread && tells_silence(&show(&self.body)));
        assert!(
            reading.finishes() + reading.errors() <= 1 + silent,
            "{}",
            self.context()
        );
        if reading.dones() == 1 && silent == 0 {
            assert!(
                matches!(reading.events.last(), Some(Err(_))),
                "{}",
                self.context()
            );
        }
        assert!(
            reading.names().len() <= 1,
            "{:?} {}",
            reading.names(),
            self.context()
        );
        let is_ended = matches!(status, Status::Complete | Status::Closed);
        if is_ended {
            assert_eq!(transport_end, TransportEnd::Closed, "{}", self.context());
            let has_word = !matches!(self.setup.dialect, Dialect::Messages | Dialect::Responses);
            assert!(!has_word || reading.finishes() == 1, "{}", self.context());
        }
        if status == Status::Failed {
            assert_eq!(reading.errors(), 1, "{}", self.context());
        }
    }
}

/// Returns whether the end of a stream says that the upstream has fallen silent in the middle of
/// what passes.
fn tells_silence(stream: &str) -> bool {
    let end = stream
        .trim_end()
        .trim_end_matches(']')
        .rsplit('\n')
        .next()
        .unwrap_or_default();
    end.contains("the answer breaks off here") && end.contains("_timeout")
}

/// Returns the document of a text, without what is around it.
fn trimmed(text: &str) -> &str {
    root(text).trim_end().trim_end_matches('`').trim_end()
}
