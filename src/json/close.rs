//! CloseOptions an open text without taking anything back: the shortest legal suffix (rule 10 of the specification: a
//! stream that gives up cannot drop what has left).

use super::grammar::State;
use super::stack::{self, Frame, Kind};
use super::{Machine, Span, string};

/// What makes an open text a whole document, and what of it was invented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Goes behind the text: the rest of an open token, a `null` that is due, the closers.
    pub suffix: String,
    /// JSON Pointers of the values that pending_start something nobody wrote: a `null`, the rest of a literal, a digit, the
    /// end of an escape. A string that is only closed is not among them.
    pub synthesized: Vec<String>,
}

/// Whether what is only begun is part of the complete part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Partial {
    /// It waits until it is whole.
    Omit,
    /// It is shown as far as it is certain.
    Include,
}

/// What the complete part does with the last token. An unfinished number or key is always held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CloseOptions {
    /// A string that is a value. Shown by default: it can only grow.
    pub strings: Partial,
    /// `true`, `false` or `null` of which a letter has come: it can only become one thing. Held by default.
    pub literals: Partial,
}

impl Default for CloseOptions {
    fn default() -> Self {
        Self { strings: Partial::Include, literals: Partial::Omit }
    }
}

/// Where the complete part ends, and what closes it.
pub(super) fn close_into(machine: &Machine, closing: CloseOptions, suffix: &mut String) -> Option<usize> {
    suffix.clear();
    let mut end = machine.frames().last().map(|frame| frame.end);
    match machine.state() {
        State::Done => return Some(machine.offset()),
        state if state.in_literal() && closing.literals == Partial::Include => {
            suffix.push_str(state.rest_of_literal());
            end = Some(machine.offset());
        }
        _ if closing.strings == Partial::Include && machine.in_string() && !machine.in_key() => {
            suffix.push('"');
            end = Some(machine.certain_string());
        }
        _ => {}
    }
    suffix.extend(machine.frames().iter().rev().map(|frame| frame.kind.closer()));
    end
}

/// Another half for a high surrogate that has none: the first low one.
const LOW_SURROGATE: &str = "\\udc00";

/// Bytes of a `\uXXXX`.
const ESCAPE: usize = 6;

pub(super) fn completion(machine: &Machine, text: &str) -> Completion {
    let mut suffix = String::new();
    let invented = match machine.state() {
        State::Start | State::Value => {
            suffix.push_str("null");
            true
        }
        State::Key => {
            suffix.push('"');
            true
        }
        State::Colon => {
            suffix.push_str(":null");
            true
        }
        state if state.in_escape() => {
            end_of_escape(text.get(machine.pending_start()..).unwrap_or_default(), &mut suffix);
            true
        }
        state if state.in_literal() => {
            suffix.push_str(state.rest_of_literal());
            true
        }
        state if state.in_number() && !state.number_may_end() => {
            suffix.push('0');
            true
        }
        _ => false,
    };
    let mut path = machine.path(text).to_string();
    let in_key = machine.state() == State::Key || (machine.in_string() && machine.in_key());
    let invented = invented || in_key;
    if in_key {
        let start = if machine.in_string() { machine.token_start() + 1 } else { text.len() };
        let key = format!("{}{suffix}", text.get(start..).unwrap_or_default());
        let opened = usize::from(machine.state() == State::Key);
        let raw = key.get(opened..).unwrap_or_default();
        let fresh = machine.frames().last().map_or(0, |frame| strokes_to_be_fresh(frame, text, raw));
        suffix.extend(std::iter::repeat_n('_', fresh));
        let raw = format!("{raw}{}", "_".repeat(fresh));
        let key = Span { start: 0, end: raw.len() };
        let frame = Frame { key, is_escaped: true, ..Frame::open(Kind::Object, 0) };
        stack::push_token(&mut path, &frame, &raw);
        suffix.push_str("\":null");
    } else if machine.state() == State::Colon {
        if let Some(frame) = machine.frames().last() {
            stack::push_token(&mut path, frame, text);
        }
    } else if machine.in_string() {
        suffix.push('"');
    }
    suffix.extend(machine.frames().iter().rev().map(|frame| frame.kind.closer()));
    Completion { suffix, synthesized: if invented { vec![path] } else { Vec::new() } }
}

/// Finishes an escape that is open, or the pair of which a high surrogate is one half: `open` is all of it that has
/// come. The grammar would allow half of a surrogate pair, its readers do not: the other half is supplied.
fn end_of_escape(open: &str, suffix: &mut String) {
    let (is_paired, open) = match open.get(ESCAPE..) {
        Some(second) => (true, second),
        None => (false, open),
    };
    match open {
        "" => suffix.push_str(LOW_SURROGATE),
        "\\" if is_paired => suffix.push_str(&LOW_SURROGATE[1..]),
        "\\" => suffix.push('\\'),
        _ => {
            let given = open.get(2..).unwrap_or_default().to_ascii_lowercase();
            let digits = match given.as_str() {
                low if is_paired && LOW_SURROGATE[2..].starts_with(low) => LOW_SURROGATE[2..].to_owned(),
                "" => "fffd".to_owned(),
                // U+0000 is refused by too many readers.
                "0" | "00" => "0020".to_owned(),
                "000" => "0009".to_owned(),
                other => format!("{other:0<4}"),
            };
            suffix.push_str(&digits[given.len()..]);
            if (0xd800..0xdc00).contains(&u16::from_str_radix(&digits, 16).unwrap_or_default()) {
                suffix.push_str(LOW_SURROGATE);
            }
        }
    }
}

/// How many `_` make `raw` a key that the open object does not have yet: a `null` under a key that was delivered
/// would overwrite a value in most readers. The only place that reads delivered text again, once, when a stream
/// gives up inside a key; members of nested containers are skipped by their own frames. Keys are compared by what
/// they say: `"\u0061"` is `"a"`.
fn strokes_to_be_fresh(object: &Frame, text: &str, raw: &str) -> usize {
    let mut machine = Machine::new(usize::MAX);
    let wanted = string::key(raw);
    let mut longest: Option<usize> = None;
    let body = text.get(object.start..).unwrap_or_default();
    let mut key = Span::default();
    for byte in body.as_bytes() {
        if machine.feed(std::slice::from_ref(byte)).is_err() {
            break;
        }
        let [frame] = machine.frames() else { continue };
        if frame.key != key {
            key = frame.key;
            if let Some(rest) = string::key(key.of(body)).strip_prefix(wanted.as_ref())
                && rest.bytes().all(|b| b == b'_')
            {
                longest = longest.max(Some(rest.len()));
            }
        }
    }
    longest.map_or(0, |strokes| strokes + 1)
}
