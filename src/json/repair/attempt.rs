//! One reading of the text: a machine, the repaired text that it accepts, and the changes that led
//! there.

use std::borrow::Cow;

use super::super::event::{Event, Live, Sink};
use super::super::stack::{self, Frame};
use super::super::{Machine, Span};
use super::habit::Mistake;
use super::recovery::{self, Comment, Deviation, Quote, Recovery};
use super::writer::EscapeEvidence;
use super::{Repair, RepairOptions, RepairRule};
use crate::error::SyntaxError;

/// The text that an attempt reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct RepairInput<'a> {
    /// The text as written, from the offset `from` on.
    pub(super) window: &'a str,
    pub(super) from: usize,
    /// Whether the text ends after `window`.
    pub(super) is_end: bool,
    /// Whether it may have been cut there: then an open string or an open root is not evidence
    /// against a reading.
    pub(super) is_cut: bool,
    pub(super) options: &'a RepairOptions,
    /// The repaired text that is final, from the root on: keys of the path are in it.
    pub(super) released: &'a str,
    /// The repaired text between `released` and the start of the attempts. No guess changes it any
    /// more.
    pub(super) held: &'a str,
}

impl<'a> RepairInput<'a> {
    /// Returns the text as written from the offset `at` on.
    pub(super) fn rest(&self, at: usize) -> &'a str {
        self.window
            .get(at.saturating_sub(self.from)..)
            .unwrap_or_default()
    }

    /// Returns the repaired text before the attempts, between two offsets.
    fn before(&self, start: usize, end: usize) -> Cow<'a, str> {
        let Some(from) = start.checked_sub(self.released.len()) else {
            let final_part = self
                .released
                .get(start..end.min(self.released.len()))
                .unwrap_or_default();
            return match end.checked_sub(self.released.len()) {
                Some(held @ 1..) => [final_part, self.held.get(..held).unwrap_or_default()]
                    .concat()
                    .into(),
                _ => final_part.into(),
            };
        };
        self.held
            .get(from..end.saturating_sub(self.released.len()))
            .unwrap_or_default()
            .into()
    }

    /// Returns the text as written between two offsets.
    pub(super) fn part(&self, start: usize, end: usize) -> &'a str {
        let rest = self.rest(start);
        rest.get(..end.saturating_sub(start)).unwrap_or_default()
    }
}

/// A change that is not final.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub(super) repair: Repair,
    /// Where the replacement begins in the repaired text.
    pub(super) out: usize,
    /// A separator between tokens that nothing separates as written.
    pub(super) is_tight: bool,
    /// The mistake that this edit explains, if it is a guess.
    pub(super) guess: Option<Mistake>,
}

impl Edit {
    pub(super) fn out_end(&self) -> usize {
        self.out + self.repair.replacement.len()
    }
}

/// The grammar of the next text: between tokens, or inside a token that JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadMode {
    Json,
    Quoted(Quote),
    Comment { start: usize, kind: Comment },
}

/// Why an attempt stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadStop {
    /// All text was read, or the decision needs later text.
    End,
    /// The root is closed.
    Done,
    /// No certain recovery is known. The offset is in the text as written.
    Deviation(SyntaxError),
}

/// A token of the repaired text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The number of containers around it.
    pub(super) depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Key,
    String,
    Scalar,
    Open,
    Close,
}

impl TokenKind {
    pub(super) fn is_string(self) -> bool {
        matches!(self, Self::Key | Self::String)
    }

    /// Whether a value ends with the token.
    pub(super) fn ends_value(self) -> bool {
        matches!(self, Self::String | Self::Scalar | Self::Close)
    }
}

/// Records tokens while a guess may need them.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    pub(super) is_on: bool,
    pub(super) tokens: Vec<Token>,
}

impl Sink for Recorder {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        let Span { start, end } = event.span();
        let (kind, start, end) = match event {
            Event::Begin { .. } => (TokenKind::Open, start, end),
            Event::End { .. } => (TokenKind::Close, end - 1, end),
            Event::Key(_) => (TokenKind::Key, start - 1, end + 1),
            Event::StringEnd(_) => (TokenKind::String, start, end),
            Event::Scalar { .. } => (TokenKind::Scalar, start, end),
            Event::StringBegin(_) | Event::Fragment(_) => return,
        };
        self.tokens.push(Token {
            kind,
            start,
            end,
            depth: live.frames.len(),
        });
    }

    fn is_idle(&self) -> bool {
        !self.is_on
    }
}

/// One reading of the text after the final part. Offsets of the machine and of tokens count in the
/// repaired text, from the root on.
#[derive(Clone, Debug)]
pub(super) struct RepairAttempt {
    pub(super) machine: Machine,
    /// The repaired text that is not final; it begins at the offset `origin`, which is `origin_in`
    /// as written.
    pub(super) out: String,
    pub(super) origin: usize,
    pub(super) origin_in: usize,
    /// The end of the text as written that was read.
    pub(super) at: usize,
    pub(super) edits: Vec<Edit>,
    pub(super) mode: ReadMode,
    /// The evidence in the last string with a backslash.
    pub(super) writer: Option<EscapeEvidence>,
    pub(super) recorder: Recorder,
}

impl RepairAttempt {
    /// Creates an attempt after text that is final, up to the offset `written` in the text as
    /// written.
    pub(super) fn after(machine: &Machine, written: usize) -> Self {
        Self {
            machine: machine.clone(),
            out: String::new(),
            origin: machine.offset(),
            origin_in: written,
            at: written,
            edits: Vec::new(),
            mode: ReadMode::Json,
            writer: None,
            recorder: Recorder::default(),
        }
    }

    /// Reads until the grammar and the certain recoveries stop.
    pub(super) fn run(&mut self, source: &RepairInput<'_>) -> ReadStop {
        loop {
            let rest = source.rest(self.at);
            let read = match self.mode {
                ReadMode::Json => self.json(source, rest),
                ReadMode::Quoted(quote) => self.quoted(quote, source, rest),
                ReadMode::Comment { start, kind } => self.comment(start, kind, source, rest),
            };
            match read {
                _ if self.machine.is_done() && self.mode == ReadMode::Json => {
                    return ReadStop::Done;
                }
                Ok(true) => {}
                Ok(false) => return ReadStop::End,
                Err(error) => match self.recover(source) {
                    Some(true) => {}
                    Some(false) => return ReadStop::End,
                    None => {
                        // The number before this character, if any, has ended.
                        let next = source
                            .rest(self.at)
                            .chars()
                            .next()
                            .map_or(0, char::len_utf8);
                        let next = source.part(self.at, self.at + next);
                        let error = self
                            .machine
                            .clone()
                            .feed(next.as_bytes())
                            .err()
                            .unwrap_or(error);
                        return ReadStop::Deviation(SyntaxError {
                            offset: self.at,
                            ..error
                        });
                    }
                },
            }
        }
    }

    /// Feeds unchanged text, up to a deviation. Returns whether there may be more to read.
    pub(super) fn feed(&mut self, text: &str) -> Result<bool, SyntaxError> {
        let before = self.machine.offset();
        let result = self.machine.feed_with(text.as_bytes(), &mut self.recorder);
        let read = self.machine.offset() - before;
        self.out.push_str(text.get(..read).unwrap_or_default());
        self.at += read;
        result.map(|_| false)
    }

    /// Applies the recovery of the deviation here. Returns `None` if the table has no recovery, and
    /// false if the decision needs later text.
    fn recover(&mut self, source: &RepairInput<'_>) -> Option<bool> {
        let next = source.rest(self.at).chars().next()?;
        if self.is_after_number(next) {
            if self.machine.frames().is_empty() {
                // A root that is a number ends with white space alone, as in the grammar.
                return None;
            }
            self.machine.end_number("", &mut self.recorder);
        }
        let open = self.open_start();
        let place = Deviation {
            state: self.machine.state(),
            parent: self.machine.frames().last().map(|frame| frame.kind),
            open: self
                .out
                .get(open.saturating_sub(self.origin)..)
                .unwrap_or_default(),
            rest: source.rest(self.at),
            is_end: source.is_end,
        };
        let found = recovery::recovery(&place);
        let allows = |rule| source.options.allows(rule);
        match found {
            Recovery::None => None,
            Recovery::Wait => (!source.is_end).then_some(false),
            Recovery::Replace { len, by, rule } => {
                (allows(rule) && self.replace(source, len, by, rule)).then_some(true)
            }
            // A token that began in final text can't be replaced.
            Recovery::ReplaceOpen { len, by, rule } if allows(rule) && open >= self.origin => {
                let start = self.in_offset(open);
                let len = self.at - start + len;
                self.take_back(open);
                self.at = start;
                self.replace(source, len, by, rule).then_some(true)
            }
            Recovery::AddComma
                if allows(RepairRule::MissingComma) && !self.is_after_string(source) =>
            {
                self.add_comma(source)
            }
            Recovery::DropComma if allows(RepairRule::ExtraComma) => self.drop_comma(source),
            Recovery::Quote(quote) if allows(RepairRule::Quotes) => {
                let len = source
                    .rest(self.at)
                    .chars()
                    .next()
                    .map_or(1, char::len_utf8);
                let is_open = self.replace(source, len, "\"".to_owned(), RepairRule::Quotes);
                self.mode = if is_open {
                    ReadMode::Quoted(quote)
                } else {
                    ReadMode::Json
                };
                is_open.then_some(true)
            }
            Recovery::Comment(kind) if allows(RepairRule::Comment) && open >= self.origin => {
                self.at = self.in_offset(open);
                self.take_back(open);
                self.mode = ReadMode::Comment {
                    start: self.at,
                    kind,
                };
                Some(true)
            }
            _ => None,
        }
    }

    /// Whether a number is open, and `next` can't belong to it.
    pub(super) fn is_after_number(&self, next: char) -> bool {
        let may_go_on = next.is_alphanumeric() || matches!(next, '.' | '+' | '-' | '_');
        self.machine.state().number_may_end() && !may_go_on
    }

    /// Whether a missing comma is a guess here: after a string, its closing quote may be a part of
    /// its text.
    fn is_after_string(&self, source: &RepairInput<'_>) -> bool {
        source.options.allows(RepairRule::InnerQuote) && self.out.trim_ascii_end().ends_with('"')
    }

    /// Returns where the open escape, number or literal begins, or the end of the repaired text if
    /// no such token is open.
    fn open_start(&self) -> usize {
        let state = self.machine.state();
        if state.in_escape() {
            let from = self.machine.pending_start().saturating_sub(self.origin);
            let pending = self.out.get(from..).unwrap_or_default();
            self.origin + from + pending.rfind('\\').unwrap_or(0)
        } else if state.in_token() && !state.in_string() {
            self.machine.token_start()
        } else {
            self.machine.offset()
        }
    }

    /// Truncates the repaired text to `offset` and resets the machine to it. `offset` must be one
    /// where the state of the machine is known.
    fn take_back(&mut self, offset: usize) {
        if offset < self.machine.offset() {
            self.machine.set_back(offset);
        }
        self.out.truncate(offset.saturating_sub(self.origin));
    }

    /// Replaces the next `len` bytes of the text as written by `by`. Returns false, and changes
    /// nothing, if the grammar rejects the replacement.
    pub(super) fn replace(
        &mut self,
        source: &RepairInput<'_>,
        len: usize,
        by: String,
        rule: RepairRule,
    ) -> bool {
        let out = self.machine.offset();
        let mut machine = self.machine.clone();
        let recorded = self.recorder.tokens.len();
        if machine
            .feed_with(by.as_bytes(), &mut self.recorder)
            .is_err()
        {
            self.recorder.tokens.truncate(recorded);
            return false;
        }
        let path = self.path(source);
        self.machine = machine;
        self.out.push_str(&by);
        let range = self.at..self.at + len;
        let original = source.part(range.start, range.end).to_owned();
        self.at = range.end;
        self.edits.push(Edit {
            repair: Repair {
                rule,
                range,
                original,
                replacement: by,
                path,
            },
            out,
            is_tight: false,
            guess: None,
        });
        true
    }

    /// Adds a comma after the last whole child.
    fn add_comma(&mut self, source: &RepairInput<'_>) -> Option<bool> {
        let (end, tail) = self.after_child()?;
        let (path, start) = (self.path(source), self.in_offset(end));
        self.rewrite_after(end, &format!(",{tail}"))?;
        let at = self
            .edits
            .partition_point(|edit| edit.repair.range.end <= start && edit.out <= end);
        for edit in self.edits.iter_mut().skip(at) {
            edit.out += 1;
        }
        let (rule, range, replacement) = (RepairRule::MissingComma, start..start, ",".to_owned());
        let repair = Repair {
            rule,
            range,
            original: String::new(),
            replacement,
            path,
        };
        self.edits.insert(
            at,
            Edit {
                repair,
                out: end,
                is_tight: tail.is_empty(),
                guess: None,
            },
        );
        Some(true)
    }

    /// Removes the comma after the last whole child.
    fn drop_comma(&mut self, source: &RepairInput<'_>) -> Option<bool> {
        let (end, tail) = self.after_child()?;
        let out = end + tail.find(',')?;
        let (path, start) = (self.path(source), self.in_offset(out));
        self.rewrite_after(end, &tail.replacen(',', "", 1))?;
        let at = self
            .edits
            .partition_point(|edit| edit.repair.range.end <= start && edit.out <= out);
        for edit in self.edits.iter_mut().skip(at) {
            edit.out -= 1;
        }
        let last = at.checked_sub(1).and_then(|last| self.edits.get(last));
        if last.is_some_and(|edit| edit.out == out && edit.out_end() > out) {
            // The comma was added: it is not in the text as written.
            self.edits.remove(at - 1);
            return Some(true);
        }
        let (rule, range) = (RepairRule::ExtraComma, start..start + 1);
        let original = source.part(start, start + 1).to_owned();
        let repair = Repair {
            rule,
            range,
            original,
            replacement: String::new(),
            path,
        };
        self.edits.insert(
            at,
            Edit {
                repair,
                out,
                is_tight: false,
                guess: None,
            },
        );
        Some(true)
    }

    /// Returns where the last whole child ends, and the repaired text after it.
    fn after_child(&self) -> Option<(usize, String)> {
        let end = self
            .machine
            .frames()
            .last()
            .map(|frame| frame.end)
            .filter(|&end| end >= self.origin)?;
        Some((end, self.out.get(end - self.origin..)?.to_owned()))
    }

    /// Replaces the repaired text after a child that ends at `end`, if the grammar takes that.
    fn rewrite_after(&mut self, end: usize, tail: &str) -> Option<()> {
        let mut machine = self.machine.clone();
        machine.set_back(end);
        machine.feed_with(tail.as_bytes(), &mut ()).ok()?;
        self.machine = machine;
        self.out.truncate(end - self.origin);
        self.out.push_str(tail);
        Some(())
    }

    /// Returns the offset in the text as written of an offset in the repaired text.
    pub(super) fn in_offset(&self, out: usize) -> usize {
        let before = self.edits.partition_point(|edit| edit.out_end() <= out);
        match before.checked_sub(1).and_then(|last| self.edits.get(last)) {
            Some(edit) => edit.repair.range.end + (out - edit.out_end()),
            None => self.origin_in + (out - self.origin),
        }
        .min(
            self.edits
                .get(before)
                .map_or(usize::MAX, |edit| edit.repair.range.start),
        )
    }

    /// Returns the offset in the repaired text of an offset in the text as written.
    pub(super) fn out_offset(&self, at: usize) -> usize {
        let before = self
            .edits
            .partition_point(|edit| edit.repair.range.end <= at);
        match before.checked_sub(1).and_then(|last| self.edits.get(last)) {
            Some(edit) => edit.out_end() + (at - edit.repair.range.end),
            None => self.origin + at.saturating_sub(self.origin_in),
        }
        .min(self.edits.get(before).map_or(usize::MAX, |edit| edit.out))
    }

    /// Returns the JSON Pointer of the value that is open or due, else of the innermost open
    /// container.
    fn path(&self, source: &RepairInput<'_>) -> String {
        let mut path = String::new();
        for frame in self.machine.path("").frames {
            // A key may be final in part.
            let before = source.before(
                frame.key.start.min(self.origin),
                frame.key.end.min(self.origin),
            );
            let from = frame.key.start.max(self.origin) - self.origin;
            let after = self
                .out
                .get(from..frame.key.end.saturating_sub(self.origin))
                .unwrap_or_default();
            let text = if before.is_empty() {
                Cow::Borrowed(after)
            } else {
                before + after
            };
            stack::push_token(
                &mut path,
                &Frame {
                    key: Span {
                        start: 0,
                        end: text.len(),
                    },
                    ..*frame
                },
                &text,
            );
        }
        path
    }

    /// Returns the part of the attempt from the offset `base` on. No edit may straddle `base`.
    /// Reading it again needs a machine at `base`.
    pub(super) fn rebased(&self, base: usize) -> Self {
        let count = self.edits.partition_point(|edit| edit.out_end() <= base);
        let first = self
            .recorder
            .tokens
            .partition_point(|token| token.start < base);
        let (edits, tokens) = (self.edits.get(count..), self.recorder.tokens.get(first..));
        Self {
            machine: self.machine.clone(),
            out: self
                .out
                .get(base - self.origin..)
                .unwrap_or_default()
                .to_owned(),
            origin: base,
            origin_in: self.in_offset(base),
            at: self.at,
            edits: edits.unwrap_or_default().to_vec(),
            mode: self.mode,
            writer: self.writer,
            recorder: Recorder {
                is_on: self.recorder.is_on,
                tokens: tokens.unwrap_or_default().to_vec(),
            },
        }
    }

    /// Replaces the end of this attempt by an attempt that began inside it.
    pub(super) fn replace_tail(&mut self, tail: Self) {
        self.out.truncate(tail.origin - self.origin);
        self.out.push_str(&tail.out);
        let count = self
            .edits
            .partition_point(|edit| edit.out_end() <= tail.origin);
        self.edits.truncate(count);
        self.edits.extend(tail.edits);
        (self.machine, self.at, self.mode) = (tail.machine, tail.at, tail.mode);
        self.writer = tail.writer;
        self.recorder = Recorder::default();
    }

    /// Moves the repaired text up to the offset `to`, and the changes in it, to the final text.
    pub(super) fn release(&mut self, to: usize, text: &mut String, log: &mut Vec<Repair>) {
        if to < self.origin {
            return;
        }
        let origin_in = self.in_offset(to);
        let count = self.edits.partition_point(|edit| edit.out_end() <= to);
        log.extend(self.edits.drain(..count).map(|edit| edit.repair));
        text.push_str(self.out.get(..to - self.origin).unwrap_or_default());
        self.out.drain(..to - self.origin);
        (self.origin, self.origin_in) = (to, origin_in);
    }
}
