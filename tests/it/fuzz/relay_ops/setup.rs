//! What the first bytes of an input choose, and what its operations say.

use std::time::Duration;

use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, Reattach, Relay};
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::repair::RepairLevel;
use restitch::session::{CallEnd, ContinuationStrategy, GiveUp};

use super::super::continued::carried;
use super::upstream::{ARGUMENTS, DOCUMENTS};

/// The settings of an answer.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) dialect: Dialect,
    pub(super) kind: SlotKind,
    pub(super) document: &'static str,
    pub(super) repair: RepairLevel,
    /// The calls that are asked for after the operations are refused. If unset, they are silent.
    pub(super) is_refused: bool,
    give_up: GiveUp,
    is_prefill: bool,
    trusts_stop: bool,
    reattaches: bool,
    limits: Limits,
}

impl Setup {
    pub(super) fn of(head: &[u8; 6]) -> Self {
        let [api, document, style, sizes, times, ways] = head.map(usize::from);
        // Most inputs are of Chat Completions.
        let (dialect, kind) = match api & 0x80 {
            0 => (
                Dialect::Chat,
                if api & 7 == 7 {
                    SlotKind::Arguments
                } else {
                    SlotKind::Text
                },
            ),
            _ => carried().nth(api % carried().count()).unwrap(),
        };
        let documents = if kind == SlotKind::Text {
            DOCUMENTS.len()
        } else {
            ARGUMENTS
        };
        Self {
            dialect,
            kind,
            document: DOCUMENTS[document % documents],
            repair: [
                RepairLevel::Strict,
                RepairLevel::Strict,
                RepairLevel::Syntax,
                RepairLevel::Guess,
            ][style & 3],
            is_refused: ways & 1 == 1,
            give_up: GiveUp::ALL[style >> 2 & 3 & !(style >> 3 & 1)],
            is_prefill: dialect == Dialect::Completions || style >> 4 & 1 == 1,
            trusts_stop: style >> 5 == 7,
            reattaches: ways >> 1 & 7 == 7,
            limits: limits(sizes, times),
        }
    }

    pub(super) fn relay(&self) -> Relay {
        let mut relay = Relay::new(self.limits.clone())
            .dialect(self.dialect)
            .give_up(self.give_up)
            .repair(self.repair);
        if self.is_prefill {
            relay = relay.strategy(ContinuationStrategy::default().prefill(Default::default()));
        }
        if self.trusts_stop {
            relay = relay.trust_stop();
        }
        if self.reattaches {
            relay.reattaching(Reattach::NextByte)
        } else {
            relay
        }
    }

    /// Returns how many calls may follow the first one. The caps count once for the answer and once
    /// for a tool call beside it. Each refused prefill adds a call, and connections that are made
    /// again add eight.
    pub(super) fn most_calls(&self) -> usize {
        2 * (self.limits.continuation.max_continuations as usize + 1) + 8
    }
}

fn limits(sizes: usize, times: usize) -> Limits {
    let mut limits = Limits::default();
    limits.continuation.max_continuations = [8, 8, 8, 0, 1, 2, 3, 8][sizes & 7];
    let usual = limits.parser.max_text_bytes;
    limits.parser.max_text_bytes = [usual, usual, 16, 64][sizes >> 3 & 3];
    let usual = limits.parser.max_event_bytes;
    limits.parser.max_event_bytes = [usual, usual, 128, 400][sizes >> 5 & 3];
    limits.continuation.max_total_time = [
        None,
        None,
        Some(Duration::from_secs(20)),
        Some(Duration::from_secs(90)),
    ][times & 3];
    if times >> 2 & 3 == 3 {
        limits.transport.text_timeout = Duration::from_secs(7);
    }
    if times >> 4 & 3 == 3 {
        limits.transport.keep_alive_interval = Duration::ZERO;
    }
    if times >> 6 == 3 {
        limits.transport.idle_timeout = Duration::from_secs(3);
    }
    limits
}

/// Finish reasons, in the words of Chat Completions.
pub(super) const REASONS: [&str; 8] = [
    "stop",
    "length",
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "eos_budget",
    "stop",
];

/// Pieces of texts that are no part of a document.
const SNIPPETS: [&str; 16] = [
    "{",
    "[",
    "]",
    "}",
    "\"",
    ",",
    ":",
    "\\",
    "\n",
    "1",
    "a",
    "```",
    "é😀",
    "null",
    "Sorry, I ",
    "{\"id\": 3}",
];

/// Returns one or two pieces of text.
pub(super) fn snippets(which: u8) -> String {
    let (first, second) = (usize::from(which & 15), usize::from(which >> 4));
    let second = if second == 15 { "" } else { SNIPPETS[second] };
    format!("{}{second}", SNIPPETS[first])
}

/// Returns how a call is refused.
pub(super) fn rejection(which: u8) -> CallEnd {
    let of = |transient, retry_after| CallEnd::Rejected {
        reason: "no".to_owned(),
        transient,
        retry_after,
    };
    match which % 8 {
        0 | 1 => of(true, None),
        2 => of(true, Some(Duration::from_secs(u64::from(which)))),
        3 | 4 => of(false, None),
        5 => CallEnd::Overloaded,
        _ => CallEnd::FormRejected("no".to_owned()),
    }
}
