//! The target of a flow: a copy of the machine, or the document.

use crate::error::SyntaxError;
use crate::json::{Machine, Sink};
use crate::splice::slot::Slot;

/// The target of a flow.
pub(in crate::splice) trait FlowTarget {
    fn machine(&self) -> &Machine;
    /// Returns the slot, whose text may have grown since the cut.
    fn slot(&self) -> &Slot;
    fn take(&mut self, text: &str) -> Result<(), SyntaxError>;
}

/// A copy of the machine, which delivers nothing.
pub(in crate::splice) struct DryRun<'a> {
    pub(in crate::splice) machine: &'a mut Machine,
    pub(in crate::splice) slot: &'a Slot,
    /// The hash of the text that has passed.
    pub(in crate::splice) sum: &'a mut TextSum,
}

/// A hash of text without white space between tokens: two attempts with the same hash give the same
/// document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::splice) struct TextSum {
    hash: u64,
    bytes: usize,
}

impl TextSum {
    /// Whether no more has flowed than the byte that ends a number.
    pub(in crate::splice) fn is_short(self) -> bool {
        self.bytes <= 1
    }

    #[cfg(test)]
    pub(in crate::splice) fn of(text: &str) -> Self {
        let mut sum = Self::default();
        text.bytes().for_each(|byte| sum.add(byte));
        sum
    }

    fn add(&mut self, byte: u8) {
        // Fowler, Noll and Vo.
        self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.bytes += 1;
    }
}

impl FlowTarget for DryRun<'_> {
    fn machine(&self) -> &Machine {
        self.machine
    }

    fn slot(&self) -> &Slot {
        self.slot
    }

    fn take(&mut self, text: &str) -> Result<(), SyntaxError> {
        let mut rest = text.as_bytes();
        while let Some(first) = rest.first() {
            let in_string = self.machine.in_string();
            let run = if in_string { skippable_len(rest) } else { 0 };
            let (now, later) = rest.split_at(run.max(1));
            if in_string || !first.is_ascii_whitespace() {
                now.iter().for_each(|&byte| self.sum.add(byte));
            }
            self.machine.feed(now)?;
            rest = later;
        }
        Ok(())
    }
}

/// The slot itself.
pub(in crate::splice) struct Delivered<'a, S: ?Sized> {
    pub(in crate::splice) slot: &'a mut Slot,
    pub(in crate::splice) sink: &'a mut S,
}

impl<S: Sink + ?Sized> FlowTarget for Delivered<'_, S> {
    fn machine(&self) -> &Machine {
        self.slot.document().machine()
    }

    fn slot(&self) -> &Slot {
        self.slot
    }

    fn take(&mut self, text: &str) -> Result<(), SyntaxError> {
        let result = self.slot.push_with(text, self.sink);
        self.slot.drop_tail();
        result
    }
}

/// Returns the number of bytes that neither end a string nor begin an escape in it, and are legal
/// there.
pub(in crate::splice) fn skippable_len(text: &[u8]) -> usize {
    let is_stop = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
    text.iter().position(is_stop).unwrap_or(text.len())
}
