//! Where a text stands that is read in pieces and not kept: its line, its column and the path.
//!
//! What it keeps is the keys of the open containers, each up to a limit: so memory depends on the depth alone.

use crate::json::{Frame, Live, Machine, Span};

/// Counts lines and characters, and remembers keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracker {
    lines: usize,
    /// Characters since the last line feed.
    characters: usize,
    /// The newest key of each open container: where it stands in the text, and where in `text`.
    keys: Vec<(Frame, Span)>,
    text: String,
    /// What has come of a key that is open.
    open: Vec<u8>,
}

impl Tracker {
    /// Counts `bytes`, which the machine may have consumed in part only.
    pub(super) fn count(&mut self, mut bytes: &[u8]) {
        if let Some(last) = memchr::memrchr(b'\n', bytes) {
            self.lines += memchr::memchr_iter(b'\n', bytes).count();
            self.characters = 0;
            bytes = bytes.get(last + 1..).unwrap_or_default();
        }
        // All bytes of a character but the first are of this form.
        let is_first = |byte: &u8| u8::from(byte & 0xc0 != 0x80);
        // So many fit into a byte: sums of bytes are fast.
        let runs = bytes.chunks(255).map(|run| run.iter().map(is_first).sum::<u8>());
        self.characters += runs.map(usize::from).sum::<usize>();
    }

    /// Remembers the keys that `bytes` brought. They stand at offset `base`, and `machine` has consumed them as far as
    /// it could.
    pub(super) fn remember(&mut self, machine: &Machine, base: usize, bytes: &[u8]) {
        let frames = machine.frames();
        self.keys.truncate(frames.len());
        // Where a container is the same and has no newer key, those around it are and have none, either.
        while let Some((seen, _)) = self.keys.last()
            && frames.get(self.keys.len() - 1).is_none_or(|frame| (frame.start, frame.key) != (seen.start, seen.key))
        {
            self.keys.pop();
        }
        self.text.truncate(self.keys.last().map_or(0, |(_, key)| key.end));
        for frame in frames.iter().skip(self.keys.len()) {
            let until = frame.key.end.saturating_sub(base);
            let new = bytes.get(frame.key.start.saturating_sub(base)..until).unwrap_or_default();
            if frame.key.start < base {
                self.lengthen(new);
            } else {
                self.open.clear();
                self.lengthen(new);
            }
            let start = self.text.len();
            if !frame.key.is_empty() {
                self.text.push_str(&String::from_utf8_lossy(&self.open));
            }
            self.keys.push((*frame, Span { start, end: self.text.len() }));
        }
        let in_key = machine.in_string() && machine.path("").len() < frames.len();
        let begun = machine.token_start() + 1;
        if !in_key || begun >= base {
            self.open.clear();
        }
        if in_key {
            self.lengthen(bytes.get(begun.saturating_sub(base)..).unwrap_or_default());
        }
    }

    fn lengthen(&mut self, key: &[u8]) {
        let room = KEY.saturating_sub(self.open.len());
        self.open.extend(key.iter().take(room));
    }

    /// From 1 on.
    pub(super) fn line(&self) -> usize {
        self.lines + 1
    }

    /// In characters, from 1 on.
    pub(super) fn column(&self) -> usize {
        self.characters + 1
    }

    /// As the machine would tell it if the text were at hand; of long keys the beginning.
    pub(super) fn path(&self, machine: &Machine) -> String {
        // The same containers with their keys where `text` has them.
        let keys = machine.frames().iter().zip(&self.keys);
        let frames: Vec<Frame> =
            keys.map(|(frame, (_, key))| Frame::known(frame.kind, frame.start, *key, frame.count, frame.end)).collect();
        let named = frames.get(..machine.path("").len()).unwrap_or_default();
        Live { text: &self.text, frames: named }.path().to_string()
    }
}

/// Bytes that are kept of a key.
const KEY: usize = 4096;
