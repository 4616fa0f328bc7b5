//! The text of requests and answers in the log, for development. Without it no line has any.

use tracing::Span;

use super::answers::Changes;
use super::redactor::Redactor;
use super::upstream::Head;
use crate::provider::wire::{Slot, SlotKind};

/// Says at the start what the log has.
pub(super) fn warn() {
    tracing::warn!(
        "log_content: the log has the text of requests and answers, which users and models write; never in production"
    );
}

/// Writes what one request and its answer say. Keys of the request are replaced by `[key]`, wherever they are quoted.
#[derive(Clone, Debug)]
pub(super) struct Content {
    keys: Vec<String>,
}

impl Content {
    /// `own`: the operator's keys, of which the request has none.
    pub(super) fn new<'a>(head: &Head, own: impl Iterator<Item = &'a str>) -> Self {
        let keys = head.keys().into_iter().chain(own.map(str::to_owned)).collect();
        Self { keys }
    }

    /// Logs a whole body.
    pub(super) fn log(&self, what: &'static str, call: u32, body: &[u8]) {
        let mut lines = Lines::new(&self.keys);
        lines.push(body, |from, text| write(what, Some(call), None, from, text));
        lines.finish(|from, text| write(what, Some(call), None, from, text));
    }

    /// Returns a log of the answer's text as it comes.
    pub(super) fn answer(&self) -> AnswerLog {
        AnswerLog { span: Span::current(), keys: self.keys.clone(), open: None, left: MOST }
    }
}

/// Logs the text of an answer that is streamed.
#[derive(Debug)]
pub(super) struct AnswerLog {
    /// That of the request.
    span: Span,
    keys: Vec<String>,
    /// The slot that got text last.
    open: Option<(Slot, Lines)>,
    /// Bytes that may be logged of the slots to come.
    left: usize,
}

impl AnswerLog {
    pub(super) fn add(&mut self, changes: &Changes) {
        changes.each(|text| match text {
            Some((slot, text)) => self.text(slot, text),
            None => self.end_slot(),
        });
    }

    fn text(&mut self, slot: Slot, text: &str) {
        if self.open.as_ref().is_none_or(|(open, _)| *open != slot) {
            self.end_slot();
            self.open = Some((slot, Lines { most: self.left, ..Lines::new(&self.keys) }));
        }
        if let Some((slot, lines)) = &mut self.open {
            lines.push(text.as_bytes(), |from, text| write_slot(&self.span, *slot, from, text));
        }
    }

    fn end_slot(&mut self) {
        if let Some((slot, mut lines)) = self.open.take() {
            lines.finish(|from, text| write_slot(&self.span, slot, from, text));
            self.left = self.left.saturating_sub(lines.taken);
        }
    }
}

impl Drop for AnswerLog {
    fn drop(&mut self) {
        self.end_slot();
    }
}

fn write_slot(span: &Span, slot: Slot, from: usize, text: Logged<'_>) {
    let name = match slot.kind {
        SlotKind::Text => "text",
        SlotKind::Arguments => "arguments",
    };
    span.in_scope(|| write("answer", None, Some(format_args!("{name} {}", slot.id)), from, text));
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
            tracing::info!(target: "restitch::content", call, slot, from, ?text, "{what}");
        }
        Logged::LeftOut(bytes) => {
            tracing::info!(target: "restitch::content", call, slot, from, left_out = bytes, "{what}");
        }
    }
}

/// Text that is divided into lines of the log.
#[derive(Debug)]
struct Lines {
    /// One for each key; what the first one returns, the next one takes.
    redactors: Vec<Redactor>,
    line: Vec<u8>,
    /// Bytes before the line.
    from: usize,
    /// Bytes that came.
    taken: usize,
    /// The most bytes that are logged.
    most: usize,
}

/// What one line has.
#[derive(Clone, Copy, Debug)]
enum Logged<'a> {
    Text(&'a [u8]),
    /// The number of bytes that are not logged.
    LeftOut(usize),
}

impl Lines {
    fn new(keys: &[String]) -> Self {
        let redactors = keys.iter().map(|key| Redactor::new(key)).collect();
        Self { redactors, line: Vec::new(), from: 0, taken: 0, most: MOST }
    }

    fn push(&mut self, text: &[u8], mut write: impl FnMut(usize, Logged<'_>)) {
        let room = self.most.saturating_sub(self.taken);
        self.taken = self.taken.saturating_add(text.len());
        let mut text = text.get(..room).unwrap_or(text).to_vec();
        for redactor in &mut self.redactors {
            text = redactor.push(&text);
        }
        self.line.extend_from_slice(&text);
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
        if let Some(left_out) = self.taken.checked_sub(self.most).filter(|bytes| *bytes > 0) {
            write(self.from, Logged::LeftOut(left_out));
        }
    }

    /// Writes the first bytes of the line, up to the end of a character.
    fn write(&mut self, most: usize, write: &mut impl FnMut(usize, Logged<'_>)) {
        let mut end = most.min(self.line.len());
        let is_inside = |byte: Option<&u8>| byte.is_some_and(|byte| byte & 0xC0 == 0x80);
        while end > 1 && is_inside(self.line.get(end)) {
            end -= 1;
        }
        write(self.from, Logged::Text(self.line.get(..end).unwrap_or_default()));
        self.line.drain(..end);
        self.from = self.from.saturating_add(end);
    }
}

/// Bytes of text in one line.
const LINE: usize = 4 << 10;
/// Bytes that are logged of one body, or of one answer.
const MOST: usize = 64 << 10;
