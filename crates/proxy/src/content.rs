//! The text of requests and answers in the log, for development. No other log line contains such
//! text.

use tracing::Span;

use super::answers::Changes;
use super::redactor::Redactor;
use super::upstream::Head;
use restitch::internal::wire::{Slot, SlotKind};

/// Warns at the start that the log contains texts.
pub(super) fn warn() {
    tracing::warn!(
        "log_content: the log has the text of requests and answers, which users and models write; never in production"
    );
}

/// Logs the texts of one request and its answer. Replaces the request's keys by `[key]` wherever a
/// text quotes them.
#[derive(Clone, Debug)]
pub(super) struct Content {
    keys: Vec<String>,
}

impl Content {
    /// `own`: the operator's keys, which the request does not contain but an upstream's error may
    /// quote.
    pub(super) fn new<'a>(head: &Head, own: impl Iterator<Item = &'a str>) -> Self {
        let keys = head
            .keys()
            .into_iter()
            .chain(own.map(str::to_owned))
            .collect();
        Self { keys }
    }

    /// Logs a whole body.
    pub(super) fn log(&self, what: &'static str, call: u32, body: &[u8]) {
        let (mut lines, mut left) = (Lines::new(&self.keys), MOST);
        lines.push(body, &mut left, |from, text| {
            write(what, Some(call), None, from, text);
        });
        lines.finish(|from, text| write(what, Some(call), None, from, text));
    }

    /// Returns a log of a streamed answer's text.
    pub(super) fn answer(&self) -> AnswerLog {
        AnswerLog {
            span: Span::current(),
            keys: self.keys.clone(),
            slots: Vec::new(),
            left: MOST,
            unlisted: 0,
        }
    }
}

/// Logs the text of an answer that is streamed. Parallel slots get their text token by token in
/// turn, so each slot collects its own lines: a key is found only in contiguous text.
#[derive(Debug)]
pub(super) struct AnswerLog {
    /// The span of the request.
    span: Span,
    keys: Vec<String>,
    slots: Vec<(Slot, Lines)>,
    /// The remaining bytes that may be logged, for all slots together.
    left: usize,
    /// Bytes of the slots after the first [`MOST_SLOTS`], which are not logged.
    unlisted: usize,
}

impl AnswerLog {
    pub(super) fn add(&mut self, changes: &Changes) {
        changes.each(|text| match text {
            Some((slot, text)) => self.text(slot, text),
            None => self.end(),
        });
    }

    fn text(&mut self, slot: Slot, text: &str) {
        if !self.slots.iter().any(|(known, _)| *known == slot) {
            // Each slot keeps an incomplete line, so their number is bounded.
            if self.slots.len() >= MOST_SLOTS {
                self.unlisted = self.unlisted.saturating_add(text.len());
                return;
            }
            self.slots.push((slot, Lines::new(&self.keys)));
        }
        if let Some((slot, lines)) = self.slots.iter_mut().rfind(|(known, _)| *known == slot) {
            lines.push(text.as_bytes(), &mut self.left, |from, text| {
                write_slot(&self.span, *slot, from, text);
            });
        }
    }

    /// Logs all collected text, since the answer has ended or begins again.
    fn end(&mut self) {
        for (slot, mut lines) in self.slots.drain(..) {
            lines.finish(|from, text| write_slot(&self.span, slot, from, text));
        }
        let unlisted = std::mem::take(&mut self.unlisted);
        if unlisted > 0 {
            self.span
                .in_scope(|| write("answer", None, None, 0, Logged::LeftOut(unlisted)));
        }
    }
}

impl Drop for AnswerLog {
    fn drop(&mut self) {
        self.end();
    }
}

fn write_slot(span: &Span, slot: Slot, from: usize, text: Logged<'_>) {
    let name = match slot.kind {
        SlotKind::Text => "text",
        SlotKind::Arguments => "arguments",
    };
    span.in_scope(|| {
        write(
            "answer",
            None,
            Some(format_args!("{name} {}", slot.id)),
            from,
            text,
        );
    });
}

fn write(
    what: &'static str,
    call: Option<u32>,
    slot: Option<std::fmt::Arguments<'_>>,
    from: usize,
    logged: Logged<'_>,
) {
    let slot = slot.map(tracing::field::display);
    match logged {
        Logged::Text(text) => {
            let text = String::from_utf8_lossy(text);
            tracing::info!(target: "restitch::content", call, slot, from, text = &*text, "{what}");
        }
        Logged::LeftOut(bytes) => {
            tracing::info!(target: "restitch::content", call, slot, from, left_out = bytes, "{what}");
        }
    }
}

/// A text on its way to the log, divided into lines.
#[derive(Debug)]
struct Lines {
    /// One redactor for each key; each one's output is the next one's input.
    redactors: Vec<Redactor>,
    line: Vec<u8>,
    /// Bytes before the line.
    from: usize,
    /// Bytes that are not logged.
    left_out: usize,
}

/// The content of one line.
#[derive(Clone, Copy, Debug)]
enum Logged<'a> {
    Text(&'a [u8]),
    /// The number of bytes that are not logged.
    LeftOut(usize),
}

impl Lines {
    fn new(keys: &[String]) -> Self {
        let redactors = keys.iter().map(|key| Redactor::new(key)).collect();
        Self {
            redactors,
            line: Vec::new(),
            from: 0,
            left_out: 0,
        }
    }

    /// Adds text. `left`: the remaining bytes that may be logged.
    fn push(&mut self, text: &[u8], left: &mut usize, mut write: impl FnMut(usize, Logged<'_>)) {
        let (mut logged, rest) = match text.split_at_checked(*left) {
            Some((logged, rest)) => (logged.to_vec(), rest),
            None => (text.to_vec(), Default::default()),
        };
        *left -= logged.len();
        for redactor in &mut self.redactors {
            logged = redactor.push(&logged);
        }
        self.line.extend_from_slice(&logged);
        if !rest.is_empty() {
            // Text that a redactor holds may be the first half of a key whose second half is left
            // out, so it is not logged either.
            let waits = self
                .redactors
                .iter_mut()
                .map(|redactor| redactor.finish().len())
                .sum::<usize>();
            self.left_out = self
                .left_out
                .saturating_add(waits)
                .saturating_add(rest.len());
        }
        while self.line.len() > LINE {
            self.write(LINE, &mut write);
        }
    }

    fn finish(&mut self, mut write: impl FnMut(usize, Logged<'_>)) {
        let mut rest = Vec::new();
        for redactor in &mut self.redactors {
            rest = redactor.push(&rest);
            rest.append(&mut redactor.finish());
        }
        self.line.append(&mut rest);
        while !self.line.is_empty() {
            self.write(LINE, &mut write);
        }
        if self.left_out > 0 {
            write(self.from, Logged::LeftOut(self.left_out));
        }
    }

    /// Writes at most the first `most` bytes of the line, up to the end of a character.
    fn write(&mut self, most: usize, write: &mut impl FnMut(usize, Logged<'_>)) {
        let mut end = most.min(self.line.len());
        let is_inside = |byte: Option<&u8>| byte.is_some_and(|byte| byte & 0xC0 == 0x80);
        while end > 1 && is_inside(self.line.get(end)) {
            end -= 1;
        }
        write(
            self.from,
            Logged::Text(self.line.get(..end).unwrap_or_default()),
        );
        self.line.drain(..end);
        self.from = self.from.saturating_add(end);
    }
}

/// Bytes of text in one line.
const LINE: usize = 4 << 10;
/// The most bytes that are logged of one body or answer.
const MOST: usize = 64 << 10;
// Answers seldom have more parallel tool calls.
/// The most slots that are logged of an answer.
const MOST_SLOTS: usize = 64;
