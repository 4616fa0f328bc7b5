//! Reads an answer under a [`RestSchema`](super::RestSchema), and writes the rest of the document
//! while the answer streams.

use std::collections::VecDeque;

use super::repeat::{Repeat, RepeatStep};
use super::{Content, LEAST_REPEAT, Piece, RestSchema, is_repeatable};
use crate::document::Document;
use crate::json::string::{decode, first_unit, quoted};
use crate::json::{Event, Kind, ParserView, Sink, Span};

/// Writes the rest of a document from the answer to a question for its members.
#[derive(Clone, Debug)]
pub(crate) struct RestReader {
    answer: Document,
    rest: RestWriter,
}

/// Writes the members of an answer into the document.
#[derive(Clone, Debug)]
struct RestWriter {
    /// The pieces that are due, in their order.
    due: VecDeque<Piece>,
    /// Early members: their names and their texts.
    early: Vec<(String, String)>,
    state: State,
    out: String,
    /// The bytes that `early` may have.
    most_early: usize,
    max_depth: usize,
}

/// Where the answer stops.
#[derive(Clone, Debug)]
enum State {
    /// Between two members, or before the first one.
    Between,
    /// After a key of the answer.
    Key(String),
    /// Inside the member that is due. `from`: the offset from which on its text is not written.
    Member {
        open: Box<OpenMember>,
        from: usize,
        is_container: bool,
    },
    /// Inside a value that is written from its beginning, before new text.
    Repeat(Box<Repeat>),
    /// Inside a member that is not due.
    Other { name: String, from: usize },
    /// A member contradicts the document: its copy of delivered text differs, it begins again, or
    /// it leaves its container.
    Contradicts,
    /// The answer does not have the form that was asked for.
    Failed,
}

/// The member that is due, while it is read.
#[derive(Clone, Debug)]
struct OpenMember {
    content: Content,
    has_begun: bool,
    /// The start of its text, while this may repeat delivered text.
    held: String,
    /// Reads the text of a string of JSON: it must not leave its container.
    inside: Option<Document>,
}

impl RestReader {
    /// Waits for an answer. `most_early`: the most bytes of early members.
    pub(crate) fn new(rest: RestSchema, max_depth: usize, most_early: usize) -> Self {
        Self::of(rest.pieces.into(), max_depth, most_early)
    }

    fn of(due: VecDeque<Piece>, max_depth: usize, most_early: usize) -> Self {
        Self {
            answer: Document::new(max_depth),
            // Known text before the first member is written with it: an answer without a member adds
            // nothing to the document.
            rest: RestWriter {
                due,
                early: Vec::new(),
                state: State::Between,
                out: String::new(),
                most_early,
                max_depth,
            },
        }
    }

    /// Takes text of the answer. Returns the new text of the document.
    pub(crate) fn feed(&mut self, text: &str) -> String {
        let is_legal = self.answer.push_with(text, &mut self.rest).is_ok();
        match is_legal {
            true => self.rest.flush(self.answer.text()),
            false => self.rest.state = State::Failed,
        }
        std::mem::take(&mut self.rest.out)
    }

    /// Returns whether the answer can't be the rest of the document.
    pub(crate) fn has_failed(&self) -> bool {
        let is_over = self.answer.is_complete() && !self.rest.due.is_empty();
        is_over || self.rest.has_failed()
    }

    /// Returns whether a member contradicts the document. No schema excludes that.
    pub(crate) fn contradicts(&self) -> bool {
        matches!(self.rest.state, State::Contradicts)
    }
}

impl RestWriter {
    fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed | State::Contradicts)
    }

    /// Writes the known text that is due, and the members that came early.
    fn advance(&mut self) {
        loop {
            match self.due.front() {
                Some(Piece::Known(text)) => {
                    self.out.push_str(text);
                    self.due.pop_front();
                }
                Some(Piece::Member { name, .. }) => {
                    let Some(at) = self.early.iter().position(|(early, _)| early == name) else {
                        return;
                    };
                    let (name, text) = self.early.swap_remove(at);
                    let due = self.due.drain(..1).collect();
                    let mut early = RestReader::of(due, self.max_depth, 0);
                    let written = early.feed(&format!("{{{}:{text}}}", quoted(&name)));
                    self.out.push_str(&written);
                    if early.has_failed() {
                        self.state = early.rest.state;
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// Writes the text of an open container up to the end of the answer so far.
    fn flush(&mut self, text: &str) {
        if let State::Member {
            open,
            from,
            is_container: true,
        } = &mut self.state
            && let Some(new) = text.get(*from..)
        {
            let is_new = open.raw(new, &mut self.out).is_some();
            *from = text.len();
            if !is_new {
                self.state = State::Contradicts;
            }
        }
    }

    fn begin(&mut self, event: Event, live: &ParserView<'_>) {
        let State::Key(name) = std::mem::replace(&mut self.state, State::Between) else {
            return;
        };
        let at = event.span().start;
        let position = self
            .due
            .iter()
            .position(|piece| matches!(piece, Piece::Member { name: due, .. } if *due == name));
        let is_next = position.is_some_and(|at| {
            let mut before = self.due.iter().take(at);
            before.all(|piece| matches!(piece, Piece::Known(_)))
        });
        if !is_next {
            self.state = State::Other { name, from: at };
            if let Event::Scalar { span, .. } = event {
                self.end(span, live);
            }
            return;
        }
        self.advance();
        let Some(Piece::Member { content, .. }) = self.due.pop_front() else {
            return;
        };
        if let Content::Repeat(repeat) = content {
            // The schema excludes another type.
            if !repeat.has_type_of(event) {
                self.state = State::Failed;
                return;
            }
            self.state = State::Repeat(Box::new(repeat));
            self.repeat(event, live);
            return;
        }
        let mut open = Box::new(OpenMember::new(content, self.max_depth));
        let from = match (&open.content, event) {
            (Content::Value { delivered }, Event::StringBegin(_)) => {
                match delivered.is_empty() {
                    true => self.out.push('"'),
                    false => open.held.push('"'),
                }
                at + 1
            }
            (Content::Value { .. }, _) => at,
            (Content::Items { kind, .. }, Event::Begin { kind: found, .. }) if *kind == found => {
                at + 1
            }
            (Content::StringRest { .. } | Content::Text { .. }, Event::StringBegin(_)) => at + 1,
            _ => {
                self.state = State::Failed;
                return;
            }
        };
        self.state = State::Member {
            open,
            from,
            is_container: matches!(event, Event::Begin { .. }),
        };
        if let Event::Scalar { span, .. } = event {
            self.end(span, live);
        }
    }

    /// Compares a part of a value that is written from its beginning.
    fn repeat(&mut self, event: Event, live: &ParserView<'_>) {
        let State::Repeat(repeat) = &mut self.state else {
            return;
        };
        match repeat.event(event, live) {
            RepeatStep::Follows => {}
            RepeatStep::Contradicts => self.state = State::Contradicts,
            RepeatStep::Arrived(rest, from) => {
                let end = event.span().end;
                self.out.push_str(&rest);
                let new = live.text.get(from..end).unwrap_or_default();
                self.out.push_str(new);
                let is_child = live.path().len() == 1;
                let content = Content::Value {
                    delivered: String::new(),
                };
                let mut open = Box::new(OpenMember::new(content, self.max_depth));
                open.has_begun = true;
                self.state = State::Member {
                    open,
                    from: from.max(end),
                    is_container: !is_child || matches!(event, Event::Begin { .. }),
                };
                let is_whole = matches!(
                    event,
                    Event::End { .. } | Event::StringEnd(_) | Event::Scalar { .. }
                );
                if is_child && is_whole {
                    self.end(event.span(), live);
                }
            }
        }
    }

    fn fragment(&mut self, span: Span, live: &ParserView<'_>) {
        if let State::Member { open, from, .. } = &mut self.state {
            let is_written = open.string(span.of(live.text), &mut self.out).is_some();
            *from = span.end;
            if !is_written {
                self.state = State::Contradicts;
            }
        }
    }

    fn end(&mut self, span: Span, live: &ParserView<'_>) {
        match std::mem::replace(&mut self.state, State::Between) {
            State::Member { mut open, from, .. } => {
                let rest = Span {
                    start: from,
                    end: span.end,
                };
                if open.end(rest.of(live.text), &mut self.out).is_some() {
                    self.advance();
                } else {
                    self.state = State::Contradicts;
                }
            }
            State::Other { name, from } => {
                let is_due = |piece: &Piece| matches!(piece, Piece::Member { name: due, .. } if *due == name);
                let is_new = self.early.iter().all(|(early, _)| *early != name);
                if is_new && self.due.iter().any(is_due) {
                    let early: usize = self.early.iter().map(|(_, text)| text.len()).sum();
                    let text = live.text.get(from..span.end).unwrap_or_default();
                    if early + text.len() > self.most_early {
                        self.state = State::Failed;
                    } else {
                        self.early.push((name, text.to_owned()));
                    }
                }
            }
            failed @ (State::Failed | State::Contradicts) => self.state = failed,
            State::Between | State::Key(_) | State::Repeat(_) => {}
        }
    }
}

impl Sink for RestWriter {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        if self.has_failed() {
            return;
        }
        if matches!(self.state, State::Repeat(_)) {
            self.repeat(event, live);
            return;
        }
        match (live.path().len(), event) {
            (
                0,
                Event::Begin {
                    kind: Kind::Object, ..
                }
                | Event::End { .. },
            ) => {}
            (0, _) => self.state = State::Failed,
            (1, Event::Key(key)) => self.state = State::Key(live.key(key).into_owned()),
            (1, Event::Begin { .. } | Event::StringBegin(_) | Event::Scalar { .. }) => {
                self.begin(event, live);
            }
            (1, Event::Fragment(span)) => self.fragment(span, live),
            (1, Event::StringEnd(span)) => self.end(span, live),
            (1, Event::End { span, .. }) => self.end(span, live),
            _ => {}
        }
    }
}

impl OpenMember {
    fn new(content: Content, max_depth: usize) -> Self {
        let inside = match content {
            Content::Text { kind, .. } => {
                let mut inside = Document::new(max_depth);
                inside
                    .push(kind.opener().encode_utf8(&mut [0; 4]))
                    .is_ok()
                    .then_some(inside)
            }
            _ => None,
        };
        Self {
            content,
            has_begun: false,
            held: String::new(),
            inside,
        }
    }

    /// Writes text of a container. `None` if it repeats delivered text.
    fn raw(&mut self, text: &str, out: &mut String) -> Option<()> {
        let (separator, delivered) = match &self.content {
            Content::Items {
                separator,
                delivered,
                ..
            } => (*separator, delivered),
            Content::Value { delivered } => ("", delivered),
            _ => return None,
        };
        if self.has_begun {
            out.push_str(text);
            return Some(());
        }
        self.held.push_str(text);
        let new = self.held.trim_ascii_start();
        if new.starts_with(delivered.as_str()) && !delivered.is_empty() {
            return None;
        }
        // It may still become a repeat. Text that is not there yet decides nothing.
        if !delivered.starts_with(new) || delivered.is_empty() && !new.is_empty() {
            out.push_str(separator);
            out.push_str(new);
            self.has_begun = true;
        }
        Some(())
    }

    /// Writes text of a string that ends in no escape. `None` if it does not continue where the
    /// document stops.
    fn string(&mut self, raw: &str, out: &mut String) -> Option<()> {
        match &mut self.content {
            Content::StringRest { open, delivered } => {
                if !open.is_empty() && !raw.is_empty() {
                    let (_, length) = first_unit(raw);
                    let (first, rest) = raw.split_at_checked(length)?;
                    out.push_str(&rest_of_escape(open, first)?);
                    open.clear();
                    delivered.clear();
                    out.push_str(rest);
                    return Some(());
                }
                if delivered.is_empty() {
                    out.push_str(raw);
                    return Some(());
                }
                self.held.push_str(raw);
                let text = decode(&self.held);
                let new = if text.starts_with(delivered.as_str()) {
                    // The model has repeated the string: the text after the repeat is the rest.
                    after_repeat(&self.held, delivered)?
                } else if delivered.starts_with(&*text) {
                    return Some(());
                } else {
                    &self.held
                };
                out.push_str(new);
                self.held.clear();
                delivered.clear();
            }
            Content::Value { delivered } if delivered.is_empty() => out.push_str(raw),
            Content::Value { .. } => return self.raw(raw, out),
            Content::Text { separator, .. } => {
                let text = decode(raw);
                let inside = self.inside.as_mut()?;
                inside.push(&text).ok()?;
                if inside.is_complete() {
                    return None;
                }
                let text = match self.has_begun {
                    true => &*text,
                    false => text.trim_ascii_start(),
                };
                if !text.is_empty() && !std::mem::replace(&mut self.has_begun, true) {
                    out.push_str(separator);
                }
                out.push_str(text);
            }
            Content::Items { .. } | Content::Repeat(_) => return None,
        }
        Some(())
    }

    /// Ends the member; `rest` is its text that was not written, with its closing bracket or quote.
    fn end(&mut self, rest: &str, out: &mut String) -> Option<()> {
        match &self.content {
            Content::StringRest { open, .. } => {
                // The repeat of a part of the string brings nothing.
                if is_repeatable(&decode(&self.held)) {
                    return None;
                }
                out.push_str(&self.held);
                open.is_empty().then_some(())
            }
            Content::Text { kind, .. } => {
                let inside = self.inside.as_mut()?;
                inside.push(kind.closer().encode_utf8(&mut [0; 4])).ok()?;
                inside.is_complete().then_some(())
            }
            Content::Value { .. } => {
                self.raw(rest, out)?;
                if !self.has_begun {
                    out.push_str(&self.held);
                }
                Some(())
            }
            Content::Repeat(_) => None,
            Content::Items { separator, .. } => {
                let separator = *separator;
                self.raw(rest.get(..rest.len().checked_sub(1)?)?, out)?;
                let held = self.held.trim_ascii();
                if !self.has_begun && !held.is_empty() {
                    out.push_str(separator);
                    out.push_str(held);
                }
                Some(())
            }
        }
    }
}

/// Returns the text after the repeat of the delivered text of a string. `None` if the string's own
/// beginning recurs in it: then the rest may begin like the string.
fn after_repeat<'a>(raw: &'a str, delivered: &str) -> Option<&'a str> {
    let end = delivered.char_indices().nth(LEAST_REPEAT);
    let beginning = delivered.get(..end.map_or(delivered.len(), |(at, _)| at))?;
    let later = delivered.char_indices().nth(1)?.0;
    if delivered.get(later..)?.contains(beginning) {
        return None;
    }
    let (mut rest, mut repeated) = (raw, 0);
    while repeated < delivered.len() {
        let (_, length) = first_unit(rest);
        let (unit, others) = rest.split_at_checked(length.max(1))?;
        repeated += decode(unit).len();
        rest = others;
    }
    Some(rest)
}

/// Returns the rest of an escape that begins with `open` and means the same as `first`,
/// one character or escape.
pub(super) fn rest_of_escape(open: &str, first: &str) -> Option<String> {
    let decoded = decode(first);
    let units: String = decoded
        .encode_utf16()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect();
    // The short escape, if the character needs one.
    let quoted = quoted(&decoded);
    let short = quoted.get(1..quoted.len() - 1)?;
    [short, &units].into_iter().find_map(|escape| {
        let (same, rest) = escape.split_at_checked(open.len())?;
        (same.eq_ignore_ascii_case(open)).then(|| rest.to_owned())
    })
}
