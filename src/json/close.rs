//! Closing an open text without taking anything back: the shortest legal suffix (rule 10 of the specification: a
//! stream that gives up cannot drop what has left).

use super::machine::State;
use super::stack::{self, Frame, Kind};
use super::{CutState, Machine};

/// What makes an open text a whole document, and what of it was invented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Goes behind the text: the rest of an open token, a `null` that is due, the closers.
    pub suffix: String,
    /// JSON Pointers of the values that hold something nobody wrote: a `null`, the rest of a literal, a digit, the
    /// end of an escape. A string that is only closed is not among them.
    pub filled: Vec<String>,
}

/// Another half for a high surrogate that has none: the first low one.
const LOW_SURROGATE: &str = "\\udc00";

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
        State::Escape | State::Hex(_) | State::Plain => end_of_escape(machine, &mut suffix),
        State::Literal(literal, count) => {
            suffix.push_str(&literal.text()[usize::from(count)..]);
            true
        }
        _ if machine.cut_state() == CutState::Number && !machine.number_may_end() => {
            suffix.push('0');
            true
        }
        _ => false,
    };
    let mut path = machine.path(text);
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
        let frame = Frame { key: (0, raw.len()), ..Frame::open(Kind::Object, 0) };
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
    Completion { suffix, filled: if invented { vec![path] } else { Vec::new() } }
}

/// Finishes an escape. The grammar would allow half of a surrogate pair, its readers do not: the other half is
/// supplied. Returns whether anything was.
fn end_of_escape(machine: &Machine, suffix: &mut String) -> bool {
    match machine.state() {
        State::Escape if machine.high() => suffix.push_str(&LOW_SURROGATE[1..]),
        State::Escape => suffix.push('\\'),
        State::Hex(count) => {
            let given = usize::from(count);
            let so_far = format!("{:04x}", machine.hex());
            let so_far = &so_far[4 - given..];
            let digits = match so_far {
                low if machine.high() && LOW_SURROGATE[2..].starts_with(low) => LOW_SURROGATE[2..].to_owned(),
                "" => "fffd".to_owned(),
                // U+0000 is refused by too many readers.
                "0" | "00" => "0020".to_owned(),
                "000" => "0009".to_owned(),
                other => format!("{other:0<4}"),
            };
            suffix.push_str(&digits[given..]);
            if (0xd800..0xdc00).contains(&u16::from_str_radix(&digits, 16).unwrap_or_default()) {
                suffix.push_str(LOW_SURROGATE);
            }
        }
        _ if machine.high() => suffix.push_str(LOW_SURROGATE),
        _ => return false,
    }
    true
}

/// How many `_` make `raw` a key that the open object does not have yet: a `null` under a key that was delivered
/// would overwrite a value in most readers. The only place that reads delivered text again, once, when a stream
/// gives up inside a key; members of nested containers are skipped by their own frames. Keys are compared by what
/// they say: `"\u0061"` is `"a"`.
fn strokes_to_be_fresh(object: &Frame, text: &str, raw: &str) -> usize {
    let mut machine = Machine::new(usize::MAX);
    let wanted = stack::decoded(raw);
    let mut longest: Option<usize> = None;
    let body = text.get(object.start..).unwrap_or_default();
    let mut key = (0, 0);
    for byte in body.as_bytes() {
        if machine.feed(std::slice::from_ref(byte)).is_err() {
            break;
        }
        let [frame] = machine.frames() else { continue };
        if frame.key != key {
            key = frame.key;
            let taken = body.get(key.0..key.1).unwrap_or_default();
            if let Some(rest) = stack::decoded(taken).strip_prefix(wanted.as_ref())
                && rest.bytes().all(|b| b == b'_')
            {
                longest = longest.max(Some(rest.len()));
            }
        }
    }
    longest.map_or(0, |strokes| strokes + 1)
}
