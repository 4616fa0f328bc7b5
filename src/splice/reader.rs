//! Reads a fragment's content as separate JSON, and lets cursors follow.

use super::cursor::{CursorArrival, CursorBase, CursorState, PathCursor, Sides, TokenAtCut};
use super::deciding::FragmentCosts;
use super::prior;
use super::seam::Expect;
use super::slot::Slot;
use crate::children::ChildIndex;
use crate::json::{Event, Kind, Machine, ParserView, Sink};

/// One reading of the content: as values in a row, or as members in a row.
#[derive(Clone, Debug)]
pub(super) struct ContentReader {
    /// A bracket that the fragment does not have, and the content.
    text: String,
    machine: Machine,
    children: ChildIndex,
    cursors: Vec<PathCursor>,
    /// Whether every cursor has ended.
    is_over: bool,
}

/// The most cursors that follow at the same time. A value with more occurrences decides nothing.
// Each cursor takes every event of the fragment, so this bounds the work a byte. In an array of
// equal rows each row is a place to follow; from some 48 on, the places differ in nothing that
// could decide.
const CURSORS: usize = 48;

/// Open containers, counted from the innermost, that a fragment may begin again.
// Chosen: models begin again at the row, its table, the section or the root, which is always tried.
// A deeper start costs a cursor for each level and each fragment.
const FRAMES: usize = 4;

impl ContentReader {
    /// Returns the readers of content that begins with `c`, with a cursor for each position where
    /// the content may begin.
    pub(super) fn all(slot: &Slot, c: char, limit: usize) -> Vec<Self> {
        let frames = slot.frames();
        let near = |depth: usize| depth + FRAMES >= frames.len();
        let begins = |depth: usize| {
            frames
                .get(depth)
                .is_some_and(|frame| frame.kind.opener() == c)
        };
        let containers =
            (0..frames.len()).filter(|&depth| (depth == 0 || near(depth)) && begins(depth));
        let mut values: Vec<CursorBase> = containers.map(CursorBase::Value).collect();
        if slot.document().machine().in_token() {
            values.push(CursorBase::Value(frames.len()));
        }
        let inside = |kind: Kind| {
            let of_kind =
                move |&depth: &usize| frames.get(depth).is_some_and(|frame| frame.kind == kind);
            (0..frames.len())
                .filter(move |&depth| near(depth))
                .filter(of_kind)
                .map(CursorBase::Inside)
        };
        let mut readers = Vec::new();
        if matches!(c, '{' | '[' | '"' | '-' | '0'..='9' | 't' | 'f' | 'n') {
            values.extend(inside(Kind::Array));
            readers.push(Self::new(slot, '[', &values, limit));
        }
        if c == '"' {
            let members: Vec<CursorBase> = inside(Kind::Object).collect();
            readers.push(Self::new(slot, '{', &members, limit));
        }
        readers
    }

    fn new(slot: &Slot, bracket: char, bases: &[CursorBase], limit: usize) -> Self {
        let mut children = ChildIndex::of_newest(limit);
        let mut machine = Machine::new(usize::MAX);
        let text = String::from(bracket);
        let cursors = bases
            .iter()
            .map(|&base| PathCursor::new(base, slot))
            .collect::<Vec<_>>();
        // A bracket is legal at the start.
        let is_over = machine.feed_text(&text, &mut children).is_err() || cursors.is_empty();
        Self {
            text,
            machine,
            children,
            cursors,
            is_over,
        }
    }

    /// Whether further text makes no difference.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the best score of the cursors that still follow.
    pub(super) fn following(&self, inputs: &MatchInputs<'_>) -> f32 {
        let following = self
            .cursors
            .iter()
            .filter(|cursor| !self.is_over && cursor.is_following());
        following
            .map(|cursor| cursor.bits(inputs, true))
            .fold(f32::NEG_INFINITY, f32::max)
    }

    /// Returns the best score of the cursors that repeated something and then contradicted the
    /// delivered text.
    pub(super) fn differing(&self, inputs: &MatchInputs<'_>) -> f32 {
        // If another cursor from the same position got further, this one took the wrong child for
        // the open one.
        let is_furthest =
            |cursor: &PathCursor| !self.cursors.iter().any(|other| other.is_ahead_of(cursor));
        let is_differing = |cursor: &&PathCursor| {
            matches!(cursor.state, CursorState::Dead(Some(_)))
                && cursor.has_repeated()
                && is_furthest(cursor)
        };
        let differing = self.cursors.iter().filter(is_differing);
        let bits = differing.map(|cursor| cursor.bits(inputs, false) + prior::DIFFERS);
        bits.fold(f32::NEG_INFINITY, f32::max)
    }

    /// Whether all content so far may repeat delivered text.
    pub(super) fn is_repeat(&self) -> bool {
        !self.is_over
            && self
                .cursors
                .iter()
                .any(|cursor| cursor.is_following() && cursor.has_repeated())
    }

    /// Returns the bytes of the content that repeat delivered values for certain, while all of it
    /// may.
    pub(super) fn repeated(&self) -> Option<usize> {
        let following = self
            .cursors
            .iter()
            .filter(|cursor| cursor.is_following() && cursor.has_repeated());
        following
            .map(PathCursor::repeated_bytes)
            .max()
            .filter(|_| !self.is_over)
    }

    /// Returns the last offset at which a reading as a restart contradicted the delivered text.
    pub(super) fn contradicted(&self) -> Option<usize> {
        let at = |cursor: &PathCursor| {
            if let CursorState::Dead(at) = cursor.state {
                at
            } else {
                None
            }
        };
        self.cursors
            .iter()
            .filter(|cursor| cursor.has_repeated())
            .filter_map(at)
            .max()
    }

    /// Whether no cursor examines the text of the open string, or each only compares it with the
    /// cut string.
    pub(super) fn is_in_text(&self, slot: &Slot) -> bool {
        let around = self.machine.frames().len();
        self.is_over
            || self.machine.in_string()
                && self.machine.certain_string() == self.text.len()
                && self
                    .cursors
                    .iter()
                    .all(|cursor| cursor.is_in_text(slot, around))
    }

    /// Returns the bytes of `text` that repeat the cut string without reaching its end, for all
    /// cursors that compare them.
    pub(super) fn same_text_len(&self, token: &TokenAtCut, text: &[u8]) -> usize {
        let comparing = self
            .cursors
            .iter()
            .filter(|cursor| !self.is_over && cursor.is_following());
        comparing
            .filter_map(|cursor| cursor.same_text_len(token, text))
            .fold(text.len(), usize::min)
    }

    /// Takes the next text of the content. Calls `arrived` for each cursor that reaches the cut;
    /// its offsets count from the content's start.
    pub(super) fn feed(
        &mut self,
        slot: &Slot,
        inputs: &MatchInputs<'_>,
        text: &str,
        mut arrived: impl FnMut(CursorArrival),
    ) {
        if self.is_over {
            return;
        }
        self.text.push_str(text);
        let mut sink = Following {
            slot,
            inputs: *inputs,
            children: &mut self.children,
            cursors: &mut self.cursors,
        };
        let is_legal = self.machine.feed_text(&self.text, &mut sink).is_ok();
        for cursor in &mut self.cursors {
            if let CursorState::Arrived(arrival) = &mut cursor.state {
                let mut arrival = arrival.clone();
                cursor.state = CursorState::Dead(None);
                arrival.at -= 1;
                arrived(arrival);
            }
        }
        self.is_over = !is_legal
            || self.machine.is_done()
            || !self.cursors.iter().any(PathCursor::is_following);
    }
}

/// The data that all cursors of a fragment share.
#[derive(Clone, Copy)]
pub(super) struct MatchInputs<'a> {
    pub(super) cut_token: &'a TokenAtCut,
    /// The costs of the fragment's text.
    pub(super) costs: &'a FragmentCosts,
    /// Where the content begins in the fragment.
    pub(super) begin: usize,
    pub(super) expect: Expect,
}

struct Following<'a> {
    slot: &'a Slot,
    inputs: MatchInputs<'a>,
    children: &'a mut ChildIndex,
    cursors: &'a mut Vec<PathCursor>,
}

impl Sink for Following<'_> {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        self.children.event(event, live);
        let sides = Sides {
            slot: self.slot,
            inputs: self.inputs,
            live,
            children: self.children,
        };
        let mut at = 0;
        // A cursor that is added by this event has taken it already.
        let end = self.cursors.len();
        while at < end {
            let following = self
                .cursors
                .get_mut(at)
                .filter(|cursor| cursor.is_following());
            let fork = following.and_then(|cursor| cursor.event(event, &sides));
            if let Some(fork) = fork.filter(|_| self.cursors.len() < CURSORS) {
                self.cursors.push(fork);
            }
            at += 1;
        }
    }
}
