//! Closes an open text, in two ways: [`close_into`] drops uncertain text and gives the complete
//! part; [`completion`] drops nothing and gives the shortest legal suffix. A stream that gives up
//! needs the second one, because it can't take back text that it has sent.

use super::grammar::GrammarState;
use super::stack::{self, Frame, Kind};
use super::{Machine, Span, string};

/// The suffix that makes an open text a whole document, and the values that it had to invent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The text to append: the rest of an open token, a `null` that is due, the closing brackets.
    pub suffix: String,
    /// JSON Pointers of the values with invented text: a `null`, the rest of a literal, a digit,
    /// the end of an escape. A string that is only closed is not listed.
    pub synthesized: Vec<String>,
    /// The JSON Pointer of the number or string value in which the text stopped: its value may be
    /// the beginning of another one, as `5` of `5150`.
    pub cut_value: Option<String>,
}

/// Whether an unfinished value belongs to the complete part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Partial {
    /// The value is left out until it is whole.
    Omit,
    /// The certain part of the value is included.
    Include,
}

/// How the complete part treats the last token. An unfinished number or key is always left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CloseOptions {
    /// A string that is a value. Included by default: it can only grow.
    pub strings: Partial,
    /// `true`, `false` or `null` with at least one letter: the first letter determines the literal.
    /// Left out by default.
    pub literals: Partial,
}

impl Default for CloseOptions {
    fn default() -> Self {
        Self {
            strings: Partial::Include,
            literals: Partial::Omit,
        }
    }
}

/// Returns where the complete part ends, and writes to `suffix` the text that closes it there.
pub(super) fn close_into(
    machine: &Machine,
    closing: CloseOptions,
    suffix: &mut String,
) -> Option<usize> {
    suffix.clear();
    let mut end = machine.frames().last().map(|frame| frame.end);
    match machine.state() {
        GrammarState::Done => return Some(machine.offset()),
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
    suffix.extend(
        machine
            .frames()
            .iter()
            .rev()
            .map(|frame| frame.kind.closer()),
    );
    end
}

/// The second half for a high surrogate that has none: the first low surrogate.
const LOW_SURROGATE: &str = "\\udc00";

/// Bytes of an escape `\uXXXX`.
const ESCAPE: usize = 6;

pub(super) fn completion(machine: &Machine, text: &str) -> Completion {
    let mut suffix = String::new();
    let invented = match machine.state() {
        GrammarState::Start | GrammarState::Value => {
            suffix.push_str("null");
            true
        }
        GrammarState::Key => {
            suffix.push('"');
            true
        }
        GrammarState::Colon => {
            suffix.push_str(":null");
            true
        }
        state if state.in_escape() => {
            end_of_escape(
                text.get(machine.pending_start()..).unwrap_or_default(),
                &mut suffix,
            );
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
    let in_key = machine.state() == GrammarState::Key || (machine.in_string() && machine.in_key());
    let invented = invented || in_key;
    if in_key {
        let start = if machine.in_string() {
            machine.token_start() + 1
        } else {
            text.len()
        };
        let key = format!("{}{suffix}", text.get(start..).unwrap_or_default());
        let opened = usize::from(machine.state() == GrammarState::Key);
        let raw = key.get(opened..).unwrap_or_default();
        let fresh = machine
            .frames()
            .last()
            .map_or(0, |frame| strokes_to_be_fresh(frame, text, raw));
        suffix.extend(std::iter::repeat_n('_', fresh));
        let raw = format!("{raw}{}", "_".repeat(fresh));
        let key = Span {
            start: 0,
            end: raw.len(),
        };
        let frame = Frame {
            key,
            is_escaped: true,
            ..Frame::open(Kind::Object, 0)
        };
        stack::push_token(&mut path, &frame, &raw);
        suffix.push_str("\":null");
    } else if machine.state() == GrammarState::Colon {
        if let Some(frame) = machine.frames().last() {
            stack::push_token(&mut path, frame, text);
        }
    } else if machine.in_string() {
        suffix.push('"');
    }
    suffix.extend(
        machine
            .frames()
            .iter()
            .rev()
            .map(|frame| frame.kind.closer()),
    );
    let is_cut = machine.state().in_number() || machine.in_string() && !machine.in_key();
    let cut_value = is_cut.then(|| path.clone());
    Completion {
        suffix,
        synthesized: if invented { vec![path] } else { Vec::new() },
        cut_value,
    }
}

/// Finishes an open escape, or the surrogate pair to which it belongs; `open` is the part that was
/// received. The grammar allows half of a surrogate pair but most readers reject it, so the other
/// half is added.
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
                low if is_paired && LOW_SURROGATE[2..].starts_with(low) => {
                    LOW_SURROGATE[2..].to_owned()
                }
                "" => "fffd".to_owned(),
                // Many readers reject U+0000.
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

/// Returns how many `_` make `raw` a key that the open object does not have yet: in most readers a
/// `null` under a delivered key would overwrite its value. Only this function reads delivered text
/// again, once, when a stream gives up inside a key. Members of nested containers are skipped by
/// their own frames. Keys are compared decoded: `"\u0061"` is `"a"`.
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
