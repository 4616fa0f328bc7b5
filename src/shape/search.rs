//! Finds the roots of a whole text: after reasoning and comments, in fences, and between brackets
//! in prose. A root before a tag that ends reasoning is a draft: it counts only if nothing follows
//! the tag.
//!
//! Unlike the finder of a stream it may look ahead. A root is read from its first bracket on, so
//! that brackets and fences inside its strings are ignored. Linear: brackets that begin no root are
//! read a bounded number of times.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr3, memmem};

use super::report::{Repaired, Root};
use super::{around, list};
use crate::document::choice::{self, Doubt, Rival};
use crate::envelope::{FENCE, after_reasoning, block_end, is_reasoning, reasoning_end};
use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::json::Machine;
use crate::json::repair::{
    Repair, RepairLevel, RepairOptions, RepairStatus, RepairedRoot, repair_root,
};
use crate::json::walk::{self, Raw, ValueKind, elements};

/// The roots of a text, in its order.
pub(super) struct Found<'t> {
    pub(super) roots: Vec<FoundRoot<'t>>,
    /// The result for a text without a root.
    pub(super) nothing: Repaired<'t>,
}

pub(super) struct FoundRoot<'t> {
    pub(super) root: Root<'t>,
    pub(super) repairs: Vec<Repair>,
    pub(super) is_fenced: bool,
    /// It begins its line, its block or the text.
    pub(super) begins_line: bool,
    /// How similar the root is to other text: prose, or code in another language.
    pub(super) doubt: Doubt,
}

impl FoundRoot<'_> {
    /// Returns the facts that decide among several roots.
    pub(super) fn rival(&self, text: &str) -> Rival {
        let Root {
            status,
            json,
            range,
        } = &self.root;
        Rival {
            range: range.clone(),
            first: json.bytes().next(),
            is_fenced: self.is_fenced,
            begins_line: self.begins_line,
            is_cut: *status == RepairStatus::Truncated && is_blank(text.get(range.end..)),
            doubt: self.doubt,
            is_malformed: matches!(status, RepairStatus::Malformed(_)),
        }
    }
}

/// Finds the roots of `text`.
pub(super) fn find<'t>(text: &'t str, options: &RepairOptions) -> Found<'t> {
    let text = before_tokens(text);
    let lead = skip_lead(text);
    let mut search = Search {
        text,
        options,
        at: lead,
        fresh: Some(lead),
        fence: None,
        examined: 0,
        roots: Vec::new(),
    };
    search.roots.extend(search.scalar(lead));
    if search.roots.is_empty() {
        search.run();
    }
    search.look_around(lead);
    search.doubt_arrays();
    // Reasoning that was cut has drafts alone.
    let is_cut = is_reasoning(text.get(lead..).unwrap_or_default());
    for found in search.roots.iter_mut().filter(|_| is_cut) {
        found.root.status = RepairStatus::Truncated;
    }
    let is_open =
        is_cut || search.fence.is_some() && search.fresh.is_some_and(|at| is_blank(text.get(at..)));
    let status = match text.as_bytes().get(lead) {
        Some(&byte) if !is_open => RepairStatus::Malformed(SyntaxError {
            kind: SyntaxErrorKind::UnexpectedByte(byte),
            offset: lead,
        }),
        _ => RepairStatus::Truncated,
    };
    let nothing = Repaired {
        status,
        json: Cow::Borrowed(""),
        range: lead..lead,
        repairs: Vec::new(),
        others: Vec::new(),
    };
    Found {
        roots: search.roots,
        nothing,
    }
}

/// Returns a text without the special tokens of a model at its end: `<|im_end|>`.
pub(super) fn before_tokens(mut text: &str) -> &str {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '▁' | '-' | '.');
    let bars = ["|", "｜"];
    while let Some(before) = bars.iter().find_map(|bar| {
        let token = text.trim_end().strip_suffix('>')?.strip_suffix(bar)?;
        let (before, name) = token.rsplit_once(bar)?;
        before
            .strip_suffix('<')
            .filter(|_| name.chars().all(is_part))
    }) {
        text = before;
    }
    text
}

/// Returns a text without reasoning before it and a fence around it, and whether there is such a
/// fence.
pub(super) fn body(text: &str) -> (Range<usize>, bool) {
    let trimmed = |range: Range<usize>| {
        let part = text.get(range.clone()).unwrap_or_default();
        let start = range.start + part.len() - part.trim_start_matches(is_space).len();
        start..start + part.trim_matches(is_space).len()
    };
    let start = text.len() - after_reasoning(text.trim_start()).len();
    // Only a tag at the start of a line counts: elsewhere the text may mention the tag.
    let end =
        reasoning_end(text).filter(|end| text.get(..end.start).unwrap_or_default().ends_with('\n'));
    let all = trimmed(start.max(end.map_or(0, |end| end.end))..text.len());
    let part = text.get(all.clone()).unwrap_or_default();
    let fenced = part.strip_prefix(FENCE).and_then(|rest| {
        let (label, block) = rest.split_once('\n')?;
        let block = block.trim_end_matches('`');
        let is_one = !label.contains('`')
            && !block.contains("\n```")
            && block.len() + FENCE.len() <= rest.len();
        let start = all.end - rest.len() + label.len() + 1;
        (is_one && part.ends_with(FENCE)).then_some(start..start + block.len())
    });
    match fenced {
        Some(block) => (trimmed(block), true),
        None => (all, false),
    }
}

/// White space of JSON.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_blank(text: Option<&str>) -> bool {
    text.unwrap_or_default().trim_start().is_empty()
}

/// Returns the offset after leading white space, byte order mark, reasoning and comments.
fn skip_lead(text: &str) -> usize {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    loop {
        let trimmed = rest.trim_start();
        let after = after_reasoning(trimmed);
        let after = match after.get(..2) {
            Some("//") => after
                .get(memchr(b'\n', after.as_bytes()).unwrap_or(after.len())..)
                .unwrap_or_default(),
            Some("/*") => memmem::find(after.as_bytes(), b"*/")
                .and_then(|at| after.get(at + 2..))
                .unwrap_or(after),
            _ => after,
        };
        if after.len() == rest.len() {
            return text.len() - rest.len();
        }
        rest = after;
    }
}

struct Search<'t, 'o> {
    text: &'t str,
    options: &'o RepairOptions,
    at: usize,
    /// Where the text or a block begins, while only white space has followed.
    fresh: Option<usize>,
    fence: Option<Fence>,
    /// Bytes that were read of roots.
    examined: usize,
    roots: Vec<FoundRoot<'t>>,
}

#[derive(Clone, Copy)]
struct Fence {
    ticks: usize,
    /// Its label is empty or begins with `json`.
    may_be_json: bool,
}

impl<'t> Search<'t, '_> {
    fn run(&mut self) {
        // Each byte may be read a few times: as a root, as the rest of a block, to find where a
        // broken root ends.
        let most = self.text.len().saturating_mul(4);
        let mut drafts = Vec::new();
        let mut end =
            reasoning_end(self.rest(self.at)).map(|end| end.start + self.at..end.end + self.at);
        while let Some(found) = memchr3(b'{', b'[', b'`', self.rest(self.at).as_bytes())
            && self.examined <= most
        {
            let at = self.at + found;
            if let Some(tag) = end.as_ref().filter(|tag| tag.start < at) {
                if tag.start >= self.at {
                    drafts = std::mem::take(&mut self.roots);
                    (self.at, self.fresh, self.fence) = (tag.end, Some(tag.end), None);
                }
                // A tag before this offset is in a string of a root.
                end = reasoning_end(self.rest(self.at))
                    .map(|end| end.start + self.at..end.end + self.at);
                continue;
            }
            self.at = if self.byte(at) == Some(b'`') {
                self.backticks(at)
            } else {
                self.bracket(at)
            };
        }
        if self.roots.is_empty() {
            self.roots = drafts;
        }
    }

    /// Marks roots as malformed if text around them belongs to them: the reading of the root must
    /// not drop that text.
    fn look_around(&mut self, lead: usize) {
        let mut from = lead;
        for index in 0..self.roots.len() {
            let next = self
                .roots
                .get(index + 1)
                .map_or(self.text.len(), |next| next.root.range.start);
            let Some(found) = self.roots.get_mut(index) else {
                return;
            };
            let Range { start, end } = found.root.range;
            let before = self.text.get(from..start).unwrap_or_default();
            let after = self.text.get(end..next).unwrap_or_default();
            let began = std::mem::replace(&mut from, end);
            if matches!(found.root.status, RepairStatus::Malformed(_)) {
                continue;
            }
            let is_listed = after.trim_matches(is_space) == ",";
            let error =
                if let Some(at) = around::belongs_before(before, is_listed).map(|at| began + at) {
                    // Nothing of the text is read.
                    found.root.range = at..at;
                    found.root.json = Cow::Borrowed("");
                    found.repairs.clear();
                    self.text
                        .as_bytes()
                        .get(at)
                        .map(|&byte| (SyntaxErrorKind::UnexpectedByte(byte), at))
                } else if around::belongs_after(after) {
                    let at = end + after.len() - after.trim_start_matches(is_space).len();
                    self.text
                        .as_bytes()
                        .get(at)
                        .map(|&byte| (SyntaxErrorKind::TrailingText(byte), at))
                } else {
                    None
                };
            if let Some((kind, offset)) = error {
                found.root.status = RepairStatus::Malformed(SyntaxError { kind, offset });
                found.doubt = if found.root.range.start > lead {
                    Doubt::Malformed
                } else {
                    Doubt::None
                };
            }
        }
    }

    /// Doubts arrays of scalars before an object: they may be references or times.
    fn doubt_arrays(&mut self) {
        let mut objects = [false; 2];
        for found in self.roots.iter_mut().rev() {
            let Some(has_object) = objects.get_mut(usize::from(found.is_fenced)) else {
                return;
            };
            let json = &found.root.json;
            if json.starts_with('{') {
                *has_object |= found.doubt < Doubt::Malformed;
            } else if *has_object && found.doubt == Doubt::None && json.len() < SCALARS {
                let is_closed = matches!(
                    found.root.status,
                    RepairStatus::Valid | RepairStatus::Repaired
                );
                let is_scalar =
                    |value: Raw<'_>| !matches!(value.kind(), ValueKind::Object | ValueKind::Array);
                let has_elements = elements(json).next().is_some();
                if is_closed && has_elements && elements(json).all(is_scalar) {
                    found.doubt = Doubt::Some;
                }
            }
        }
    }

    fn rest(&self, at: usize) -> &'t str {
        self.text.get(at..).unwrap_or_default()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Reads backticks, which may open or close a block. Returns the offset to continue at.
    fn backticks(&mut self, at: usize) -> usize {
        let rest = self.rest(at);
        let ticks = rest.len() - rest.trim_start_matches('`').len();
        let after = at + ticks;
        if ticks < FENCE.len() {
            return after;
        }
        let rest = self.rest(after);
        let end = rest
            .bytes()
            .take(LABEL)
            .position(|byte| matches!(byte, b'\n' | b'{' | b'['))
            .unwrap_or(0);
        let label = rest
            .get(..end)
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let closes = self.fence.is_some_and(|fence| ticks >= fence.ticks) && label.is_empty();
        self.fence = None;
        if closes || label.contains('`') {
            self.fresh = None;
            return after;
        }
        let may_be_json = label.is_empty() || label.starts_with("json");
        self.fence = Some(Fence { ticks, may_be_json });
        self.fresh = Some(after + end);
        self.scalar_block(after + end);
        after + end
    }

    /// Reads text that begins with a bracket. Returns the offset to continue at.
    fn bracket(&mut self, at: usize) -> usize {
        let is_first = self
            .fresh
            .take()
            .is_some_and(|start| is_blank(self.text.get(start..at)));
        let fence = self.fence;
        let before = self.roots.last().map(|root| root.rival(self.text));
        let begins_line = is_first || choice::begins_line(self.text, at, before.as_ref());
        let is_strong = begins_json(self.rest(at));
        let begins_fence = self.rest(at + 1).trim_start().starts_with('`');
        if begins_fence || !(is_strong || is_first) {
            return at + 1;
        }
        let mut read = self.read(at, fence.map(|fence| fence.ticks));
        let is_valid = read.status == RepairStatus::Valid;
        let copy = (!is_valid).then(|| self.cut_copy(at)).flatten();
        if let Some(end) = copy {
            read = repair_root(self.text.get(at..end).unwrap_or_default(), self.options);
        }
        let mut end = at + read.end;
        let is_malformed = matches!(read.status, RepairStatus::Malformed(_));
        let read = placed(self.text, at, read);
        let root = if is_first && !is_malformed {
            list::finish(self.text, read, self.options)
        } else {
            read
        };
        end = end.max(root.0.range.end);
        let is_array = self.byte(at) == Some(b'[');
        let is_link = is_array && !is_first && self.byte(end) == Some(b'(');
        let is_code = fence.is_some_and(|fence| !fence.may_be_json);
        let doubt = if is_malformed && !(is_first && is_strong) {
            Doubt::Malformed
        } else if !is_strong || is_code || copy.is_some() || !is_first && is_reference(&root.0.json)
        {
            Doubt::Some
        } else {
            Doubt::None
        };
        if is_malformed && !is_strong {
            // Words in brackets: `[see {"a": 1}]`.
            return at + 1;
        }
        if is_malformed {
            end = self.end_of_malformed(at);
        }
        if !is_link {
            let is_fenced = fence.is_some() && !is_code;
            self.roots.push(FoundRoot {
                root: root.0,
                repairs: root.1,
                is_fenced,
                begins_line,
                doubt,
            });
        }
        end.max(at + 1)
    }

    /// Repairs the root at `at`. In a block whose fence has `ticks` backticks the root may be cut
    /// where the block ends.
    fn read(&mut self, at: usize, ticks: Option<usize>) -> RepairedRoot {
        let rest = self.rest(at);
        let whole = repair_root(rest, self.options);
        self.examined += whole.end;
        let end = ticks.and_then(|ticks| block_end(rest, ticks));
        let Some(end) = end.filter(|_| whole.status != RepairStatus::Valid) else {
            return whole;
        };
        let block = repair_root(rest.get(..end).unwrap_or_default(), self.options);
        self.examined += end;
        // A string may hold a fence and raw line ends: then only the whole text has the end of the
        // root.
        let is_cut = !matches!(block.status, RepairStatus::Valid | RepairStatus::Repaired);
        if is_cut && whole.status == RepairStatus::Repaired {
            whole
        } else {
            block
        }
    }

    /// Returns where a cut copy of an object ends, if the text ends with that object, whole, right
    /// after it.
    fn cut_copy(&mut self, at: usize) -> Option<usize> {
        let rest = self.rest(at);
        let key = rest.get(..=memchr(b':', rest.as_bytes())?)?;
        if !key.starts_with('{') {
            return None;
        }
        self.examined += rest.len();
        let is_copy = |start: &usize| {
            let (cut, whole) = rest.split_at(*start);
            // Where a value is due the object may be that value.
            let mut machine = Machine::new(self.options.depth());
            let is_cut = machine.feed(cut.as_bytes()).is_ok()
                && (machine.in_string() || machine.feed(b"{").is_err());
            let value = || Raw::root(whole).filter(|value| walk::is_valid(value.as_str()));
            let ends = |value: Raw<'_>| is_blank(whole.get(value.range().end..));
            is_cut && whole.starts_with(cut) && value().is_some_and(ends)
        };
        let mut starts = memmem::find_iter(rest.as_bytes(), key).skip(1).take(COPIES);
        starts.find(is_copy).map(|start| at + start)
    }

    /// Returns where to look for further roots after one that can't be repaired: after the bracket
    /// that closes it, never inside it; else at the next line that begins with a bracket, or the
    /// end of the block.
    fn end_of_malformed(&mut self, at: usize) -> usize {
        let rest = self.rest(at);
        self.examined += rest.len();
        if let Some(value) = Raw::root(rest) {
            return at + value.range().end;
        }
        let starts = ["\n{", "\n[", "\n```"];
        let next = starts
            .iter()
            .filter_map(|start| memmem::find(rest.as_bytes(), start.as_bytes()))
            .min();
        next.map_or(self.text.len(), |found| at + found)
    }

    /// Reads a text that is one value without brackets, or a list of values.
    fn scalar(&self, at: usize) -> Option<FoundRoot<'t>> {
        let body = self.rest(at).trim_end_matches(is_space);
        if !begins_scalar(body) {
            return None;
        }
        let repaired = repair_root(body, self.options);
        // A guess about a lone word or sentence would make JSON of prose.
        let is_sure = repaired
            .repairs
            .iter()
            .all(|repair| repair.level() <= RepairLevel::Syntax)
            && !matches!(repaired.status, RepairStatus::Malformed(_));
        if repaired.end == body.len() && is_sure {
            let (root, repairs) = placed(self.text, at, repaired);
            return Some(FoundRoot {
                root,
                repairs,
                is_fenced: false,
                begins_line: true,
                doubt: Doubt::None,
            });
        }
        let first = Raw::root(body).filter(|value| walk::is_valid(value.as_str()))?;
        let end = first.range().end;
        let json = first.as_str().to_owned();
        let first = RepairedRoot {
            status: RepairStatus::Valid,
            json,
            end,
            repairs: Vec::new(),
        };
        let (root, repairs) = list::finish(self.text, placed(self.text, at, first), self.options);
        let is_all = root.range.end == at + body.len();
        let doubt = Doubt::None;
        is_all.then_some(FoundRoot {
            root,
            repairs,
            is_fenced: false,
            begins_line: true,
            doubt,
        })
    }

    /// Takes a block that is one value without brackets.
    fn scalar_block(&mut self, at: usize) {
        let rest = self.rest(at);
        let end = memmem::find(rest.as_bytes(), FENCE.as_bytes()).unwrap_or(rest.len());
        let block = rest.get(..end).unwrap_or_default();
        let body = block.trim_matches(is_space);
        if self.fence.is_some_and(|fence| fence.may_be_json)
            && begins_scalar(body)
            && walk::is_valid(body)
        {
            let start = at + block.len() - block.trim_start_matches(is_space).len();
            let root = Root {
                status: RepairStatus::Valid,
                json: Cow::Borrowed(body),
                range: start..start + body.len(),
            };
            let doubt = Doubt::None;
            self.roots.push(FoundRoot {
                root,
                repairs: Vec::new(),
                is_fenced: true,
                begins_line: true,
                doubt,
            });
            self.fresh = None;
        }
    }
}

/// A root and its repairs, with offsets of the whole text.
pub(super) type Placed<'t> = (Root<'t>, Vec<Repair>);

/// Converts the offsets of a root that was found at `at` to offsets in the whole text.
pub(super) fn placed<'t>(text: &'t str, at: usize, root: RepairedRoot) -> Placed<'t> {
    let RepairedRoot {
        mut status,
        json,
        end,
        mut repairs,
    } = root;
    if let RepairStatus::Malformed(error) = &mut status {
        error.offset += at;
    }
    for repair in &mut repairs {
        repair.range = repair.range.start + at..repair.range.end + at;
    }
    let range = at..at + end;
    let json = match status {
        // Valid text is not copied.
        RepairStatus::Valid => text
            .get(range.clone())
            .map_or(Cow::Owned(json), Cow::Borrowed),
        _ => Cow::Owned(json),
    };
    (
        Root {
            status,
            json,
            range,
        },
        repairs,
    )
}

/// Returns whether the text after an opening bracket looks like JSON: a key, a value, or a closing
/// bracket.
fn begins_json(text: &str) -> bool {
    let inside = text.get(1..).unwrap_or_default().trim_start();
    let Some(first) = inside.chars().next() else {
        return true;
    };
    if text.starts_with('[') {
        let is_literal = ["true", "false", "null", "None", "True", "False"]
            .iter()
            .any(|word| inside.starts_with(word));
        return is_literal
            || matches!(
                first,
                '"' | '\'' | '“' | '{' | '[' | ']' | '-' | '0'..='9' | '/' | ',' | '.' | '\\'
            );
    }
    if matches!(first, '"' | '\'' | '“' | '}' | '/' | ',' | '.' | '\\') {
        return true;
    }
    let after =
        inside.trim_start_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-'));
    after.len() < inside.len() && after.trim_start_matches('"').trim_start().starts_with(':')
}

/// Returns whether an array looks like a reference or a check box in prose: `[1]`, `[2, 3]`, `[ ]`.
fn is_reference(json: &str) -> bool {
    json.starts_with('[')
        && json.len() <= REFERENCE
        && json
            .bytes()
            .all(|byte| matches!(byte, b'[' | b']' | b',' | b' ') || byte.is_ascii_digit())
}

fn begins_scalar(text: &str) -> bool {
    matches!(
        text.as_bytes().first(),
        Some(b'"' | b'\'' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n' | b'T' | b'F' | b'N')
    )
}

/// Places that may be the start of a whole copy. Each is read to the end of the text.
// Chosen: a nested object with the same first key is such a place, too.
const COPIES: usize = 4;
/// Bytes of a line that are read as the label of a fence.
const LABEL: usize = 64;
/// An array of scalars of this length is the root even if an object follows it, as in a stream,
/// which can't wait longer.
const SCALARS: usize = 256;
/// The longest array that counts as a reference, in bytes.
const REFERENCE: usize = 16;
