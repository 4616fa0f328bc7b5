//! One reading of the text: a machine, the repaired text that it accepts, and the changes that led
//! there.

use std::borrow::Cow;

use memchr::memchr;

use super::super::grammar::GrammarState;
use super::super::stack::{self, Frame, Kind};
use super::super::{Machine, Span};
use super::input::RepairInput;
use super::recovery::{self, Comment, Deviation, Quote, Recovery};
use super::repaired_text::{Edit, RepairedText};
use super::token::{Recorder, Token};
use super::writer::{EscapeEvidence, Fate};
use super::{Repair, RepairRule};
use crate::error::{SyntaxError, SyntaxErrorKind};

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

/// One reading of the text after the final part. Offsets of the machine and of tokens count in the
/// repaired text, from the root on.
#[derive(Clone, Debug)]
pub(super) struct RepairAttempt {
    pub(super) machine: Machine,
    pub(super) text: RepairedText,
    /// The end of the text as written that was read.
    pub(super) at: usize,
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
            text: RepairedText::at(machine.offset(), written),
            at: written,
            mode: ReadMode::Json,
            writer: None,
            recorder: Recorder::default(),
        }
    }

    /// Reads until the grammar and the certain recoveries stop.
    pub(super) fn run(&mut self, input: &RepairInput<'_>) -> ReadStop {
        loop {
            let rest = input.rest(self.at);
            let read = match self.mode {
                ReadMode::Json => self.json(input, rest),
                ReadMode::Quoted(quote) => self.quoted(quote, input, rest),
                ReadMode::Comment { start, kind } => self.comment(start, kind, input, rest),
            };
            match read {
                _ if self.machine.is_done() && self.mode == ReadMode::Json => {
                    return ReadStop::Done;
                }
                Ok(true) => {}
                Ok(false) => return ReadStop::End,
                Err(error) => match self.recover(input) {
                    Some(true) => {}
                    Some(false) => return ReadStop::End,
                    None => {
                        // The number before this character, if any, has ended.
                        let next = input.rest(self.at).chars().next().map_or(0, char::len_utf8);
                        let next = input.part(self.at, self.at + next);
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
        self.text.out.push_str(text.get(..read).unwrap_or_default());
        self.at += read;
        result.map(|_| false)
    }

    /// Applies the recovery of the deviation here. Returns `None` if the table has no recovery, and
    /// false if the decision needs later text.
    fn recover(&mut self, input: &RepairInput<'_>) -> Option<bool> {
        let next = input.rest(self.at).chars().next()?;
        if self.is_after_number(next) {
            if self.machine.frames().is_empty() {
                // A root that is a number ends with white space alone, as in the grammar.
                return None;
            }
            self.machine.end_number("", &mut self.recorder);
        }
        let open = self.open_start();
        let deviation = Deviation {
            state: self.machine.state(),
            parent: self.machine.frames().last().map(|frame| frame.kind),
            open: self.text.after(open),
            rest: input.rest(self.at),
            is_end: input.is_end,
        };
        let found = recovery::recovery(&deviation);
        let allows = |rule| input.options.allows(rule);
        match found {
            Recovery::None => None,
            Recovery::Wait => (!input.is_end).then_some(false),
            Recovery::Replace { len, by, rule } => {
                (allows(rule) && self.replace(input, len, by, rule)).then_some(true)
            }
            // A token that began in final text can't be replaced.
            Recovery::ReplaceOpen { len, by, rule } if allows(rule) && self.text.has(open) => {
                let start = self.text.in_offset(open);
                let len = self.at - start + len;
                self.take_back(open);
                self.at = start;
                self.replace(input, len, by, rule).then_some(true)
            }
            Recovery::AddComma
                if allows(RepairRule::MissingComma) && !self.is_after_string(input) =>
            {
                self.add_comma(input)
            }
            Recovery::DropComma if allows(RepairRule::ExtraComma) => self.drop_comma(input),
            Recovery::Quote(quote) if allows(RepairRule::Quotes) => {
                let len = input.rest(self.at).chars().next().map_or(1, char::len_utf8);
                let is_open = self.replace(input, len, "\"".to_owned(), RepairRule::Quotes);
                self.mode = if is_open {
                    ReadMode::Quoted(quote)
                } else {
                    ReadMode::Json
                };
                is_open.then_some(true)
            }
            Recovery::Comment(kind) if allows(RepairRule::Comment) && self.text.has(open) => {
                self.at = self.text.in_offset(open);
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
    fn is_after_string(&self, input: &RepairInput<'_>) -> bool {
        input.options.allows(RepairRule::InnerQuote)
            && self.text.out.trim_ascii_end().ends_with('"')
    }

    /// Returns where the open escape, number or literal begins, or the end of the repaired text if
    /// no such token is open.
    fn open_start(&self) -> usize {
        let state = self.machine.state();
        if state.in_escape() {
            let from = self
                .machine
                .pending_start()
                .saturating_sub(self.text.origin);
            let pending = self.text.out.get(from..).unwrap_or_default();
            self.text.origin + from + pending.rfind('\\').unwrap_or(0)
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
        self.text.truncate(offset);
    }

    /// Replaces the next `len` bytes of the text as written by `by`. Returns false, and changes
    /// nothing, if the grammar rejects the replacement.
    pub(super) fn replace(
        &mut self,
        input: &RepairInput<'_>,
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
        let path = self.path(input);
        self.machine = machine;
        self.text.out.push_str(&by);
        let range = self.at..self.at + len;
        let original = input.part(range.start, range.end).to_owned();
        self.at = range.end;
        self.text.edits.push(Edit {
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

    /// Returns the JSON Pointer of the value that is open or due, else of the innermost open
    /// container.
    fn path(&self, input: &RepairInput<'_>) -> String {
        let mut path = String::new();
        for frame in self.machine.path("").frames {
            // A key may be final in part.
            let before = input.before(
                frame.key.start.min(self.text.origin),
                frame.key.end.min(self.text.origin),
            );
            let from = frame.key.start.max(self.text.origin) - self.text.origin;
            let after = self
                .text
                .out
                .get(from..frame.key.end.saturating_sub(self.text.origin))
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

    /// Adds a comma after the last whole child.
    fn add_comma(&mut self, input: &RepairInput<'_>) -> Option<bool> {
        let (end, tail) = self.after_child()?;
        let (path, start) = (self.path(input), self.text.in_offset(end));
        self.rewrite_after(end, &format!(",{tail}"))?;
        let at = self.text.shift(start, end, 1);
        let (rule, range, replacement) = (RepairRule::MissingComma, start..start, ",".to_owned());
        let repair = Repair {
            rule,
            range,
            original: String::new(),
            replacement,
            path,
        };
        self.text.edits.insert(
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
    fn drop_comma(&mut self, input: &RepairInput<'_>) -> Option<bool> {
        let (end, tail) = self.after_child()?;
        let out = end + tail.find(',')?;
        let (path, start) = (self.path(input), self.text.in_offset(out));
        self.rewrite_after(end, &tail.replacen(',', "", 1))?;
        let at = self.text.shift(start, out, -1);
        let last = at.checked_sub(1).and_then(|last| self.text.edits.get(last));
        if last.is_some_and(|edit| edit.out == out && edit.out_end() > out) {
            // The comma was added: it is not in the text as written.
            self.text.edits.remove(at - 1);
            return Some(true);
        }
        let (rule, range) = (RepairRule::ExtraComma, start..start + 1);
        let original = input.part(start, start + 1).to_owned();
        let repair = Repair {
            rule,
            range,
            original,
            replacement: String::new(),
            path,
        };
        self.text.edits.insert(
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
            .filter(|&end| self.text.has(end))?;
        Some((end, self.text.after(end).to_owned()))
    }

    /// Replaces the repaired text after a child that ends at `end`, if the grammar takes that.
    fn rewrite_after(&mut self, end: usize, tail: &str) -> Option<()> {
        let mut machine = self.machine.clone();
        machine.set_back(end);
        machine.feed_with(tail.as_bytes(), &mut ()).ok()?;
        self.machine = machine;
        self.text.truncate(end);
        self.text.out.push_str(tail);
        Some(())
    }

    /// Reads text up to the next backslash or deviation. A backslash in a string is read once its
    /// meaning is known.
    pub(super) fn json(
        &mut self,
        input: &RepairInput<'_>,
        rest: &str,
    ) -> Result<bool, SyntaxError> {
        let backslash = |from: usize| {
            let after = rest.as_bytes().get(from..).unwrap_or_default();
            memchr(b'\\', after).map_or(rest.len(), |at| from + at)
        };
        let end = match self.fate(None, input, rest) {
            None => backslash(usize::from(rest.starts_with('\\'))),
            Some(Fate::Keep(len)) => backslash(len),
            Some(Fate::Double(len)) => return Ok(self.double(input, len)),
            Some(Fate::Wait) => return Ok(false),
        };
        self.feed(rest.get(..end).unwrap_or_default())
            .map(|_| end < rest.len())
    }

    /// Decides about the backslash at the start of `rest`. `None` if no escape begins there.
    pub(super) fn fate(
        &mut self,
        quote: Option<Quote>,
        input: &RepairInput<'_>,
        rest: &str,
    ) -> Option<Fate> {
        let state = self.machine.state();
        let is_new = rest.starts_with('\\') && state.in_string() && !state.in_open_escape();
        if !is_new || !input.options.allows(RepairRule::InvalidEscape) {
            return None;
        }
        let token = self.machine.token_start();
        let known = self.writer.filter(|writer| writer.token == token);
        let is_first = self.machine.offset() == token + 1;
        let writer = self
            .writer
            .insert(known.unwrap_or_else(|| EscapeEvidence::new(token, self.at, is_first)));
        Some(writer.fate(self.at, quote, input))
    }

    /// Doubles the next `len` bytes, which are backslashes.
    pub(super) fn double(&mut self, input: &RepairInput<'_>, len: usize) -> bool {
        self.replace(input, len, "\\".repeat(2 * len), RepairRule::InvalidEscape)
    }

    /// Returns the part of the attempt from the offset `base` on. No edit may straddle `base`.
    /// Reading it again needs a machine at `base`.
    pub(super) fn rebased(&self, base: usize) -> Self {
        let first = self
            .recorder
            .tokens
            .partition_point(|token| token.start < base);
        let tokens = self.recorder.tokens.get(first..).unwrap_or_default();
        Self {
            machine: self.machine.clone(),
            text: self.text.rebased(base),
            at: self.at,
            mode: self.mode,
            writer: self.writer,
            recorder: Recorder {
                is_on: self.recorder.is_on,
                tokens: tokens.to_vec(),
            },
        }
    }

    /// Replaces the end of this attempt by an attempt that began inside it.
    pub(super) fn replace_tail(&mut self, tail: Self) {
        self.text.replace_tail(tail.text);
        (self.machine, self.at, self.mode) = (tail.machine, tail.at, tail.mode);
        self.writer = tail.writer;
        self.recorder = Recorder::default();
    }

    /// Returns the tokens of the repaired text after the offset of `settled`.
    pub(super) fn tokens(&self, settled: &Machine) -> Vec<Token> {
        let mut recorder = Recorder::on(Vec::new());
        let text = self.text.after(settled.offset());
        let _ = settled.clone().feed_with(text.as_bytes(), &mut recorder);
        recorder.tokens
    }

    /// Returns the end of the text that no certain recovery changes.
    pub(super) fn certain(&self) -> usize {
        let machine = &self.machine;
        let state = machine.state();
        if state.in_string() {
            return machine.certain_string();
        }
        if state.in_literal() || state == GrammarState::Minus {
            // A second dash would make it a comment.
            return machine.token_start();
        }
        match machine.frames().last() {
            _ if state.in_token() || state == GrammarState::Colon => machine.offset(),
            Some(frame) if state == GrammarState::Value && frame.kind == Kind::Object => {
                machine.offset()
            }
            Some(frame) => frame.end.max(self.text.origin),
            None => machine.offset(),
        }
    }

    /// Returns the deviation at which the certain reading stops if the text ends here.
    pub(super) fn failure(&self, input: &RepairInput<'_>) -> SyntaxError {
        match self.clone().run(input) {
            ReadStop::Deviation(error) => error,
            ReadStop::End | ReadStop::Done => SyntaxError {
                kind: SyntaxErrorKind::UnexpectedEnd,
                offset: self.at,
            },
        }
    }
}
