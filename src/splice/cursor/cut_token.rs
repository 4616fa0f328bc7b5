//! The token at the cut, and how text compares with it.

use memchr::memchr;

use crate::json::{CutState, Kind, string};
use crate::splice::slot::Slot;

/// The token at the cut, in the innermost open container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::splice) enum TokenAtCut {
    /// A string that is a value.
    String(CutString),
    /// A key, likewise.
    Key(CutString),
    /// A number or literal, as written.
    Scalar(String),
    Colon,
    MemberValue,
    Element,
    MemberKey,
    AfterValue,
}

/// A string that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::splice) struct CutString {
    /// The decoded bytes before the cut.
    said: Vec<u8>,
    /// An escape that is cut, as written.
    escape: String,
}

impl TokenAtCut {
    pub(in crate::splice) fn of(slot: &Slot) -> Self {
        let machine = slot.document().machine();
        let text = slot.text();
        let token = machine.token_start();
        if machine.in_string() {
            let from = token.saturating_add(1);
            let certain = machine.certain_string().max(from);
            let said = string::exact(text.get(from..certain).unwrap_or_default()).into_owned();
            let escape = text.get(certain..).unwrap_or_default().to_owned();
            let string = CutString { said, escape };
            return if is_in_key(slot) {
                Self::Key(string)
            } else {
                Self::String(string)
            };
        }
        let in_object = slot
            .frames()
            .last()
            .is_some_and(|frame| frame.kind == Kind::Object);
        match machine.cut_state() {
            CutState::Number | CutState::Literal => {
                Self::Scalar(text.get(token..).unwrap_or_default().to_owned())
            }
            CutState::Key if text.trim_end().ends_with('"') => Self::Colon,
            CutState::Key => Self::MemberKey,
            CutState::AfterValue => Self::AfterValue,
            _ if in_object => Self::MemberValue,
            _ => Self::Element,
        }
    }
}

/// Returns where the open value at this depth begins: a container of the path, or the value that
/// was cut; the cut itself if the value has not begun.
pub(in crate::splice) fn value_start(slot: &Slot, depth: usize) -> usize {
    let machine = slot.document().machine();
    match slot.frames().get(depth) {
        Some(frame) => frame.start,
        None if machine.in_token() => machine.token_start(),
        None => slot.text().len(),
    }
}

/// Whether the string that is open at the end of the text is a key.
pub(in crate::splice) fn is_in_key(slot: &Slot) -> bool {
    let machine = slot.document().machine();
    let before = slot
        .text()
        .get(..machine.token_start())
        .unwrap_or_default()
        .trim_end();
    let in_object = slot
        .frames()
        .last()
        .is_some_and(|frame| frame.kind == Kind::Object);
    machine.in_string() && in_object && before.ends_with(['{', ','])
}

/// How a string of the fragment compares with the one that was cut.
pub(super) enum StringComparison {
    /// The first `end` bytes repeat the string up to the cut; `rest` is the missing end of the cut
    /// escape.
    Arrived {
        end: usize,
        rest: String,
    },
    /// All of this text repeats the string: this number of decoded bytes.
    On(usize),
    Differs,
}

impl CutString {
    /// Returns how many bytes of `text`, which has no escape, repeat the decoded bytes from `from`
    /// on, without their last one.
    pub(in crate::splice) fn same_len(&self, text: &[u8], from: usize) -> usize {
        let left = self.said.get(from..).unwrap_or_default();
        let left = left.get(..left.len().saturating_sub(1)).unwrap_or_default();
        text.iter()
            .zip(left)
            .take_while(|(own, said)| own == said)
            .count()
    }

    /// Compares `raw`, as written, with the decoded bytes from `from` on and with the escape after
    /// them.
    pub(super) fn follow(&self, raw: &str, from: usize) -> StringComparison {
        let (mut at, mut compared) = (0, from);
        let is_same = self
            .said
            .get(from..from + raw.len())
            .is_some_and(|said| said == raw.as_bytes());
        if is_same && from + raw.len() < self.said.len() && memchr(b'\\', raw.as_bytes()).is_none()
        {
            return StringComparison::On(raw.len());
        }
        loop {
            if compared == self.said.len() && self.escape.is_empty() {
                return StringComparison::Arrived {
                    end: at,
                    rest: String::new(),
                };
            }
            let Some(rest) = raw.get(at..).filter(|rest| !rest.is_empty()) else {
                return StringComparison::On(compared - from);
            };
            let (code, length) = string::first_unit(rest);
            if compared == self.said.len()
                && begins(rest.get(..length).unwrap_or_default(), &self.escape)
            {
                // The fragment completes the escape as it began.
                return StringComparison::Arrived {
                    end: at + self.escape.len(),
                    rest: String::new(),
                };
            }
            at += length;
            if compared == self.said.len() {
                return match complete_escape(&self.escape, code) {
                    Some(rest) => StringComparison::Arrived { end: at, rest },
                    None => StringComparison::Differs,
                };
            }
            let mut bytes = [0; 4];
            let bytes = string::encode(code, &mut bytes);
            if self.said.get(compared..compared + bytes.len()) != Some(bytes) {
                return StringComparison::Differs;
            }
            compared += bytes.len();
        }
    }
}

/// Whether the escape begins as this one and has more.
fn begins(whole: &str, begun: &str) -> bool {
    let head = whole.get(..begun.len());
    whole.len() > begun.len() && head.is_some_and(|head| head.eq_ignore_ascii_case(begun))
}

/// Returns the missing end of an escape that begins with `begun`, for the character with this code.
fn complete_escape(begun: &str, code: u32) -> Option<String> {
    let digits = |unit: u32| format!("{unit:04x}");
    let long = match code {
        0x1_0000.. => {
            let code = code - 0x1_0000;
            format!(
                "\\u{}\\u{}",
                digits(0xd800 + (code >> 10)),
                digits(0xdc00 + (code & 0x3ff))
            )
        }
        _ => format!("\\u{}", digits(code)),
    };
    let short = match code {
        0x22 => "\\\"",
        0x5c => "\\\\",
        0x2f => "\\/",
        0x08 => "\\b",
        0x0c => "\\f",
        0x0a => "\\n",
        0x0d => "\\r",
        0x09 => "\\t",
        _ => "",
    };
    let whole = [short, long.as_str()]
        .into_iter()
        .find(|whole| begins(whole, begun))?;
    whole.get(begun.len()..).map(str::to_owned)
}
