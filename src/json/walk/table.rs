//! Reads a whole text once: checks the grammar, and records the spans of the values.
//!
//! A walk of the values then needs no byte of the text twice, however deep it goes.

use std::borrow::Cow;
use std::ops::Range;

use super::token::{literal, number, string_body};
use super::{Raw, skip_space};
use crate::json::string::decode;
use crate::limits::Limits;
use crate::work::bytes_examined;

/// The values of one text, in their order.
///
/// A text with more values than there is room for is not recorded: its bytes are walked.
#[derive(Debug)]
pub struct Table {
    entries: [Entry; MOST],
    count: usize,
}

// An event with text has some 40 entries. The table is on the stack and is cleared for each text:
// its 1,920 bytes take 60 stores.
/// The most entries of a text.
const MOST: usize = 160;

/// A key, or a value below the root.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) start: u32,
    pub(super) end: u32,
    /// The number of entries inside the value, which follow this one. While the value is open: the
    /// entry of the container around it. Of a key: 1 if it has escapes.
    pub(super) inside: u32,
}

impl Entry {
    /// Returns the text of a key; `text` is the object around it, which begins at `base`.
    #[inline(always)]
    pub(super) fn name<'a>(&self, text: &'a str, base: usize) -> Option<Cow<'a, str>> {
        let name = text.get(self.start as usize + 1 - base..self.end as usize - 1 - base)?;
        Some(match self.inside {
            0 => Cow::Borrowed(name),
            _ => decode(name),
        })
    }
}

impl Default for Table {
    fn default() -> Self {
        Self {
            entries: [Entry::default(); MOST],
            count: 0,
        }
    }
}

impl Table {
    /// Returns the value that `text` is, with white space around it, if it is valid; see
    /// [`is_valid`](super::is_valid). Its walk reads the recorded spans.
    pub fn read<'a>(&'a mut self, text: &'a str) -> Option<Raw<'a>> {
        let range = self.record(text, Limits::default().parser.max_depth)?;
        let inside = self.entries.get(..self.count).unwrap_or_default();
        Some(Raw {
            offset: range.start,
            text: text.get(range)?,
            inside,
        })
    }

    /// Returns the span of the value that `text` is, if it is valid and has at most `max_depth` open
    /// containers.
    pub(super) fn record(&mut self, text: &str, max_depth: usize) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        bytes_examined(bytes.len());
        self.count = match u32::try_from(bytes.len()) {
            Ok(_) => 0,
            Err(_) => FULL,
        };
        let mut open = Containers::default();
        let mut parent = ROOT;
        let root = skip_space(bytes, 0);
        let mut at = root;
        // Each turn reads a value, and the brackets that end with it.
        loop {
            let start = at;
            let mut is_open = false;
            match *bytes.get(at)? {
                b'"' => at = string(bytes, at)?,
                bracket @ (b'{' | b'[') => {
                    let is_object = bracket == b'{';
                    if open.depth == max_depth {
                        return None;
                    }
                    at = skip_space(bytes, at + 1);
                    if bytes.get(at) == Some(&closer(is_object)) {
                        at += 1;
                    } else {
                        open.push(is_object);
                        is_open = true;
                    }
                }
                b'-' | b'0'..=b'9' => at += number(bytes.get(at..)?)?,
                _ => at += literal(bytes.get(at..)?)?,
            }
            if start > root {
                let entry = self.add(start, at);
                if is_open {
                    self.set_inside(entry, parent);
                    parent = entry;
                }
            }
            if is_open {
                if open.is_object {
                    at = self.key(bytes, at)?;
                }
                continue;
            }
            loop {
                let end = at;
                at = skip_space(bytes, at);
                if open.depth == 0 {
                    return (at == bytes.len()).then_some(root..end);
                }
                let byte = *bytes.get(at)?;
                at += 1;
                if byte == b',' {
                    at = skip_space(bytes, at);
                    if open.is_object {
                        at = self.key(bytes, at)?;
                    }
                    break;
                }
                if byte != closer(open.is_object) {
                    return None;
                }
                open.pop();
                parent = self.close(parent, at);
            }
        }
    }

    /// Reads a key and its colon. Returns where the value begins.
    #[inline(always)]
    fn key(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        if bytes.get(at) != Some(&b'"') {
            return None;
        }
        let name = string_body(bytes.get(at + 1..)?)?;
        let end = at + name.length + 2;
        let key = self.add(at, end);
        if name.has_escapes {
            self.set_inside(key, 1);
        }
        let colon = skip_space(bytes, end);
        (bytes.get(colon) == Some(&b':')).then(|| skip_space(bytes, colon + 1))
    }

    /// Adds a key or a value. Returns its number; without room for it, no entry has that number.
    #[inline(always)]
    fn add(&mut self, start: usize, end: usize) -> usize {
        let number = self.count;
        match self.entries.get_mut(number) {
            Some(entry) => {
                *entry = Entry {
                    start: start as u32,
                    end: end as u32,
                    inside: 0,
                };
                self.count += 1;
            }
            None => self.count = FULL,
        }
        number
    }

    #[inline(always)]
    fn set_inside(&mut self, entry: usize, inside: usize) {
        if let Some(entry) = self.entries.get_mut(entry) {
            entry.inside = inside as u32;
        }
    }

    /// Ends an open value. Returns the entry of the container around it.
    #[inline(always)]
    fn close(&mut self, number: usize, end: usize) -> usize {
        let count = self.count;
        let Some(entry) = self.entries.get_mut(number) else {
            return ROOT;
        };
        let parent = entry.inside as usize;
        entry.end = end as u32;
        entry.inside = count.wrapping_sub(number + 1) as u32;
        parent
    }
}

/// The number of the root, which has no entry.
const ROOT: usize = MOST;
/// The number of entries of a text that has too many: those that were recorded don't count.
const FULL: usize = usize::MAX;

/// The open containers.
#[derive(Default)]
struct Containers {
    depth: usize,
    /// Whether the innermost one is an object.
    is_object: bool,
    /// The kinds of the containers around it, the newest in the lowest bit.
    around: u64,
    /// The bits of the older ones: at each 63rd of 64 containers `around` begins again.
    older: Vec<u64>,
}

impl Containers {
    #[inline(always)]
    fn push(&mut self, is_object: bool) {
        if self.depth % 64 == 63 {
            self.older.push(self.around);
        }
        self.around = self.around << 1 | u64::from(self.is_object);
        self.is_object = is_object;
        self.depth += 1;
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.depth -= 1;
        self.is_object = self.around & 1 == 1;
        self.around >>= 1;
        if self.depth % 64 == 63 {
            self.around = self.older.pop().unwrap_or_default();
        }
    }
}

#[inline(always)]
fn closer(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

/// Returns the end of the string whose opening quote is at `quote`.
#[inline(always)]
fn string(bytes: &[u8], quote: usize) -> Option<usize> {
    let start = quote + 1;
    Some(start + string_body(bytes.get(start..)?)?.length + 1)
}
