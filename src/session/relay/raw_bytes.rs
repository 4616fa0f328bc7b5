//! The raw bytes of a first call: those that have arrived, and those that may leave.

use bytes::{Bytes, BytesMut};

use crate::provider::SlotId;
use crate::provider::wire::{Framing, Slot};

/// Blocks that are held back until the end of the answer decides about them.
#[derive(Debug)]
pub(super) struct HeldBlocks {
    /// Their offset.
    pub(super) from: u64,
    /// The slots that they end.
    pub(super) slots: Vec<SlotId>,
    /// Texts that are in them and in no event before.
    pub(super) texts: Vec<(Slot, String)>,
}

/// Raw bytes of the open call that have not left: first the rest of the chunks before, then the
/// chunk that is being read.
#[derive(Debug, Default)]
pub(super) struct RawBytes {
    pending: BytesMut,
    chunk: Bytes,
    /// Bytes of the call that have left: the offset at which `pending` begins.
    forwarded: u64,
    /// Blocks that wait for the end of the answer. The bytes after them wait, too.
    pub(super) held: Option<HeldBlocks>,
    framing: Framing,
    /// The offset at which the range of the current event begins.
    event_start: u64,
}

impl RawBytes {
    pub(super) fn new(framing: Framing) -> Self {
        Self {
            framing,
            ..Self::default()
        }
    }

    /// Records the offset at which the range of an event begins.
    pub(super) fn begin_event(&mut self, start: u64) {
        self.event_start = start;
    }

    /// Adds a chunk that is about to be read. It is sent without a copy, even if the start of an
    /// event waits: copying a whole read costs more than sending one more piece.
    pub(super) fn push(&mut self, bytes: &Bytes) {
        self.keep_chunk();
        self.chunk = bytes.clone();
    }

    /// Keeps the unsent bytes of the chunk.
    pub(super) fn keep_chunk(&mut self) {
        self.pending
            .extend_from_slice(&std::mem::take(&mut self.chunk));
    }

    /// Takes the bytes up to an absolute offset that may leave: those before the held-back blocks.
    pub(super) fn release_to(&mut self, to: u64) -> [Bytes; 2] {
        // Bytes after a held-back block would overtake it.
        let to = self.held.as_ref().map_or(to, |held| held.from.min(to));
        self.take_to(to)
    }

    /// Takes the bytes up to an absolute offset.
    fn take_to(&mut self, to: u64) -> [Bytes; 2] {
        let length = usize::try_from(to.saturating_sub(self.forwarded)).unwrap_or(usize::MAX);
        // Two pieces, so that neither is copied.
        let waiting = length.min(self.pending.len());
        let read = (length - waiting).min(self.chunk.len());
        self.forwarded += (waiting + read) as u64;
        [
            self.pending.split_to(waiting).freeze(),
            self.chunk.split_to(read),
        ]
    }

    /// Returns the offset of the block that ends at an absolute offset.
    pub(super) fn start_of_block(&mut self, end: u64) -> u64 {
        if !self.pending.is_empty() {
            // The block may begin in the waiting bytes and end in the chunk.
            self.keep_chunk();
        }
        let raw = if self.pending.is_empty() {
            &self.chunk[..]
        } else {
            &self.pending[..]
        };
        let length = usize::try_from(end.saturating_sub(self.forwarded))
            .unwrap_or(usize::MAX)
            .min(raw.len());
        let start = match self.framing {
            Framing::Lines => last_line(&raw[..length]),
            Framing::Events => last_block(&raw[..length]),
            // An element has the comma before it.
            Framing::Array => return self.event_start.max(self.forwarded),
        };
        self.forwarded + start as u64
    }

    /// Drops the bytes up to an absolute offset.
    pub(super) fn skip_to(&mut self, to: u64) {
        let _ = self.take_to(to);
    }

    /// Returns the number of bytes of the call that were forwarded.
    pub(super) fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// Returns how many bytes wait for the rest of an event that begins at `boundary`, or for the
    /// decision about held-back blocks.
    pub(super) fn waiting_after(&self, boundary: u64) -> u64 {
        let held = self.held.as_ref();
        let leaves = held.map_or(boundary, |held| held.from.min(boundary));
        self.received().saturating_sub(leaves)
    }

    /// Returns how many bytes of the call have arrived.
    pub(super) fn received(&self) -> u64 {
        self.forwarded + (self.pending.len() + self.chunk.len()) as u64
    }

    /// Returns whether bytes wait.
    pub(super) fn has_bytes(&self) -> bool {
        !self.pending.is_empty() || !self.chunk.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.pending.clear();
        self.chunk.clear();
    }
}

/// Returns where the last block of `raw` begins, which ends with its blank line or at the end.
fn last_block(raw: &[u8]) -> usize {
    let (mut start, mut line, mut at) = (0, 0, 0);
    while at < raw.len() {
        let length = match raw[at..] {
            [b'\r', b'\n', ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            _ => 0,
        };
        let is_blank = length > 0 && line == at;
        at += length.max(1);
        if length > 0 {
            line = at;
        }
        if is_blank && at < raw.len() {
            start = at;
        }
    }
    start
}

/// Returns where the last line of `raw` begins, which ends with its line end or at the end.
fn last_line(raw: &[u8]) -> usize {
    let line = raw.strip_suffix(b"\n").unwrap_or(raw);
    memchr::memrchr(b'\n', line).map_or(0, |end| end + 1)
}
