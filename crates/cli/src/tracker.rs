//! Knows line, column and path of a text that is read in pieces and not kept.
//!
//! It keeps the keys of the open containers, each up to a limit, so that memory depends only on the
//! depth.

use restitch::internal::json::Frame;
use restitch::internal::json::Machine;
use restitch::json::{ParserView, Span};

/// Counts lines and characters, and remembers keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracker {
    lines: usize,
    /// Characters since the last line feed.
    characters: usize,
    /// The newest key of each open container: its frame, and its span in `text`.
    keys: Vec<(Frame, Span)>,
    text: String,
    /// The beginning of a key that is open.
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
        // All bytes of a character except the first have the form 10xxxxxx.
        let is_first = |byte: &u8| u8::from(byte & 0xc0 != 0x80);
        // A run of 255 can't overflow its sum of bytes, which is fast to compute.
        let runs = bytes
            .chunks(255)
            .map(|run| run.iter().map(is_first).sum::<u8>());
        self.characters += runs.map(usize::from).sum::<usize>();
    }

    /// Remembers the keys in `bytes`, which begin at offset `base`. `machine` has consumed them up
    /// to the first error.
    pub(super) fn remember(&mut self, machine: &Machine, base: usize, bytes: &[u8]) {
        let frames = machine.frames();
        self.keys.truncate(frames.len());
        // If a container is the same and has no newer key, so are all around it.
        while let Some((seen, _)) = self.keys.last()
            && frames
                .get(self.keys.len() - 1)
                .is_none_or(|frame| (frame.start, frame.key) != (seen.start, seen.key))
        {
            self.keys.pop();
        }
        self.text
            .truncate(self.keys.last().map_or(0, |(_, key)| key.end));
        for frame in frames.iter().skip(self.keys.len()) {
            let until = frame.key.end.saturating_sub(base);
            let new = bytes
                .get(frame.key.start.saturating_sub(base)..until)
                .unwrap_or_default();
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
            self.keys.push((
                *frame,
                Span {
                    start,
                    end: self.text.len(),
                },
            ));
        }
        let in_key = machine.in_string() && machine.path("").len() < frames.len();
        let start_of_key = machine.token_start() + 1;
        if !in_key || start_of_key >= base {
            self.open.clear();
        }
        if in_key {
            self.lengthen(
                bytes
                    .get(start_of_key.saturating_sub(base)..)
                    .unwrap_or_default(),
            );
        }
    }

    fn lengthen(&mut self, key: &[u8]) {
        let room = KEY.saturating_sub(self.open.len());
        self.open.extend(key.iter().take(room));
    }

    /// Returns the line. Counts from 1.
    pub(super) fn line(&self) -> usize {
        self.lines + 1
    }

    /// Returns the column in characters. Counts from 1.
    pub(super) fn column(&self) -> usize {
        self.characters + 1
    }

    /// Returns the path, as the machine would if the text were kept. Long keys are cut.
    pub(super) fn path(&self, machine: &Machine) -> String {
        // The same containers, with the spans of their keys in `text`.
        let keys = machine.frames().iter().zip(&self.keys);
        let frames: Vec<Frame> = keys
            .map(|(frame, (_, key))| {
                Frame::known(frame.kind, frame.start, *key, frame.count, frame.end)
            })
            .collect();
        let named = frames.get(..machine.path("").len()).unwrap_or_default();
        ParserView {
            text: &self.text,
            frames: named,
        }
        .path()
        .to_string()
    }
}

/// Bytes that are kept of a key.
const KEY: usize = 4096;
