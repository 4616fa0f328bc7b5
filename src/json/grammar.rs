//! The grammar of [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259), one byte at a time: maps a
//! state and a byte to the next state and to an act of the machine. [`rule`] is the readable form;
//! the table that runs is computed from it.
//!
//! Knows neither offsets nor the open containers: an [`Act`] leaves the decision or the record to
//! the machine.

use super::CutState;

/// A position in the grammar, as a number, so that a table maps it to the next state. States with a
/// common property have consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrammarState(u8);

/// Names the states in the order of their numbers.
#[rustfmt::skip]
#[allow(non_upper_case_globals, reason = "states are used as the variants of an enum are")]
impl GrammarState {
    // States that runs of bytes lead back to, and that can be skipped in bulk:
    /// In a string, with nothing pending.
    pub(crate) const Plain: Self = Self(0);
    pub(crate) const Integer: Self = Self(1);
    pub(crate) const Fraction: Self = Self(2);
    pub(crate) const ExponentDigits: Self = Self(3);

    // In a number that may end here, and in one that may not:
    pub(crate) const Zero: Self = Self(4);
    pub(crate) const Minus: Self = Self(5);
    pub(crate) const Point: Self = Self(6);
    pub(crate) const Exponent: Self = Self(7);
    pub(crate) const ExponentSign: Self = Self(8);

    // In a string:
    /// After a whole `\uD800`–`\uDBFF`: its other half may follow.
    pub(crate) const High: Self = Self(9);
    /// After a backslash.
    pub(crate) const Escape: Self = Self(10);
    /// After `\u`.
    pub(crate) const Hex: Self = Self(11);
    /// After one digit that is not `d`, and so on.
    pub(crate) const Hex1: Self = Self(12);
    pub(crate) const Hex2: Self = Self(13);
    pub(crate) const Hex3: Self = Self(14);
    /// After `\ud`.
    pub(crate) const HexD: Self = Self(15);
    /// After `\ud8`–`\udb`, the beginning of a high surrogate.
    pub(crate) const HexHigh2: Self = Self(16);
    pub(crate) const HexHigh3: Self = Self(17);
    /// In a UTF-8 sequence: how many bytes are missing, and the range of the next one ([Unicode,
    /// table 3-7](https://www.unicode.org/versions/latest/core-spec/chapter-3/#G7404)).
    pub(crate) const Utf8Last: Self = Self(18);
    pub(crate) const Utf8Two: Self = Self(19);
    pub(crate) const Utf8TwoFromA0: Self = Self(20);
    pub(crate) const Utf8TwoTo9F: Self = Self(21);
    pub(crate) const Utf8Three: Self = Self(22);
    pub(crate) const Utf8ThreeFrom90: Self = Self(23);
    pub(crate) const Utf8ThreeTo8F: Self = Self(24);

    // In a literal:
    pub(crate) const T: Self = Self(25);
    pub(crate) const Tr: Self = Self(26);
    pub(crate) const Tru: Self = Self(27);
    pub(crate) const F: Self = Self(28);
    pub(crate) const Fa: Self = Self(29);
    pub(crate) const Fal: Self = Self(30);
    pub(crate) const Fals: Self = Self(31);
    pub(crate) const N: Self = Self(32);
    pub(crate) const Nu: Self = Self(33);
    pub(crate) const Nul: Self = Self(34);

    // Between tokens:
    pub(crate) const Start: Self = Self(35);
    /// After a colon, or after a comma in an array.
    pub(crate) const Value: Self = Self(36);
    /// After `[`: a value or the closer.
    pub(crate) const FirstElement: Self = Self(37);
    /// After `{`: a key or the closer.
    pub(crate) const FirstKey: Self = Self(38);
    /// After a comma in an object.
    pub(crate) const Key: Self = Self(39);
    pub(crate) const Colon: Self = Self(40);
    /// After a whole value in an array.
    pub(crate) const AfterElement: Self = Self(41);
    /// After a whole value in an object.
    pub(crate) const AfterMember: Self = Self(42);
    pub(crate) const Done: Self = Self(43);

    const COUNT: usize = 44;
}

use GrammarState as S;

impl GrammarState {
    /// Whether a run of bytes may lead back to this state.
    #[inline(always)]
    pub(super) fn has_runs(self) -> bool {
        self.0 <= S::ExponentDigits.0
    }

    /// Whether this state is inside a string.
    #[inline(always)]
    pub(crate) const fn in_string(self) -> bool {
        self.0 == S::Plain.0 || S::High.0 <= self.0 && self.0 <= S::Utf8ThreeTo8F.0
    }

    /// Whether this state is inside an escape or after a high surrogate.
    pub(crate) const fn in_escape(self) -> bool {
        S::High.0 <= self.0 && self.0 <= S::HexHigh3.0
    }

    /// Whether this state is inside an escape that takes some characters alone.
    pub(super) const fn in_open_escape(self) -> bool {
        S::High.0 < self.0 && self.0 <= S::HexHigh3.0
    }

    pub(super) const fn in_number(self) -> bool {
        S::Integer.0 <= self.0 && self.0 <= S::ExponentSign.0
    }

    pub(crate) fn in_literal(self) -> bool {
        (S::T.0..=S::Nul.0).contains(&self.0)
    }

    /// Whether this state is inside a string, a number or a literal.
    pub(super) fn in_token(self) -> bool {
        self.0 < S::Start.0
    }

    /// Whether this state is inside a number that may end here.
    pub(crate) fn number_may_end(self) -> bool {
        (S::Integer.0..=S::Zero.0).contains(&self.0)
    }

    /// Whether a quote begins a string here.
    #[inline(always)]
    pub(super) fn takes_quote(self) -> bool {
        (S::Start.0..=S::Key.0).contains(&self.0)
    }

    /// Whether a value may begin here.
    #[inline(always)]
    pub(super) fn takes_value(self) -> bool {
        (S::Start.0..=S::FirstElement.0).contains(&self.0)
    }

    /// Whether white space may follow here.
    #[inline(always)]
    pub(super) fn takes_space(self) -> bool {
        (S::Start.0..=S::AfterMember.0).contains(&self.0)
    }

    /// Whether a quote begins a key here.
    #[inline(always)]
    pub(super) fn takes_key(self) -> bool {
        self.0 == S::FirstKey.0 || self.0 == S::Key.0
    }

    /// Whether a child of a container may begin here: its key or, in an array, the value.
    #[inline(always)]
    pub(super) fn takes_child(self) -> bool {
        (S::Value.0..=S::Key.0).contains(&self.0)
    }

    /// Whether a whole child of a container is before this state.
    #[inline(always)]
    pub(super) fn is_after_child(self) -> bool {
        self.0 == S::AfterElement.0 || self.0 == S::AfterMember.0
    }

    /// Whether the container may end here.
    #[inline(always)]
    pub(super) fn takes_closer(self) -> bool {
        self.0 == S::FirstElement.0 || self.0 == S::FirstKey.0 || self.is_after_child()
    }

    /// After a key or a value: returns the byte that nearly always follows, and the state that it
    /// leads to.
    #[inline(always)]
    pub(super) fn due(self) -> Option<(u8, Self)> {
        match self {
            S::Colon => Some((b':', S::Value)),
            S::AfterElement => Some((b',', S::Value)),
            S::AfterMember => Some((b',', S::Key)),
            _ => None,
        }
    }

    /// Whether a value is due or open. `in_key`: the open string is a key.
    #[inline(always)]
    pub(super) fn is_in_value(self, in_key: bool) -> bool {
        IN_VALUE >> self.0 & 1 > u64::from(in_key)
    }

    /// Returns the public name of the state. `in_key`: the open string is a key.
    #[inline(always)]
    pub(super) fn cut_state(self, in_key: bool) -> CutState {
        CUT_STATES[(usize::from(in_key) * ROW + usize::from(self.0)) % CUT_STATES.len()]
    }

    /// Returns the rest of the open literal.
    pub(crate) fn rest_of_literal(self) -> &'static str {
        match self {
            S::T => "rue",
            S::Tr => "ue",
            S::Tru | S::Fals => "e",
            S::F => "alse",
            S::Fa => "lse",
            S::Fal => "se",
            S::N => "ull",
            S::Nu => "ll",
            S::Nul => "l",
            _ => "",
        }
    }
}

/// The meaning of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrammarStep {
    /// Go to this state.
    Go(GrammarState),
    /// Do this, which leads to the next state.
    Act(Act),
}

/// An act of the machine for a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Act {
    /// A number or a literal begins. [`after`] returns the next state.
    Token,
    /// An escape or a UTF-8 sequence begins: its text becomes certain once the sequence is whole.
    /// [`after`] returns the next state.
    Pend,
    /// A `\u` escape has ended in a high surrogate; its first byte is five bytes back.
    PendHigh,
    /// A string begins or ends.
    Quote,
    /// The literal ends with this byte.
    LiteralEnd,
    /// The number has ended before this byte, if the byte may follow a value here.
    NumberEnd,
    /// An object begins, if the depth allows it.
    Object,
    /// An array begins, if the depth allows it.
    Array,
    /// The innermost container ends.
    Close,
    /// The grammar rejects the byte. A number that is the root may end before it.
    Reject,
}

/// The whole grammar on one page: the step for a byte in a state.
///
/// The second value is the state that [`after`] returns.
const fn rule(state: GrammarState, byte: u8) -> (GrammarStep, GrammarState) {
    const fn go(state: GrammarState) -> (GrammarStep, GrammarState) {
        (GrammarStep::Go(state), state)
    }
    const fn act(act: Act) -> (GrammarStep, GrammarState) {
        (GrammarStep::Act(act), S::Start)
    }
    const fn start(act: Act, state: GrammarState) -> (GrammarStep, GrammarState) {
        (GrammarStep::Act(act), state)
    }
    match (state, byte) {
        (
            S::Start
            | S::Value
            | S::FirstElement
            | S::FirstKey
            | S::Key
            | S::Colon
            | S::AfterElement
            | S::AfterMember,
            b' ' | b'\n' | b'\r' | b'\t',
        ) => go(state),

        (S::FirstElement, b']') | (S::FirstKey, b'}') => act(Act::Close),
        (S::Start | S::Value | S::FirstElement, _) => match byte {
            b'"' => act(Act::Quote),
            b'{' => act(Act::Object),
            b'[' => act(Act::Array),
            b'-' => start(Act::Token, S::Minus),
            b'0' => start(Act::Token, S::Zero),
            b'1'..=b'9' => start(Act::Token, S::Integer),
            b't' => start(Act::Token, S::T),
            b'f' => start(Act::Token, S::F),
            b'n' => start(Act::Token, S::N),
            _ => act(Act::Reject),
        },
        (S::FirstKey | S::Key, b'"') => act(Act::Quote),
        (S::Colon, b':') => go(S::Value),
        (S::AfterElement, b',') => go(S::Value),
        (S::AfterMember, b',') => go(S::Key),
        (S::AfterElement, b']') | (S::AfterMember, b'}') => act(Act::Close),

        // After a high surrogate a backslash may begin the other half; any other byte makes it a
        // lone one.
        (S::Plain | S::High, b'"') => act(Act::Quote),
        (S::High, b'\\') => go(S::Escape),
        (S::Plain, b'\\') => start(Act::Pend, S::Escape),
        (S::Plain | S::High, 0x20..=0x7f) => go(S::Plain),
        (S::Plain | S::High, 0xc2..=0xdf) => start(Act::Pend, S::Utf8Last),
        (S::Plain | S::High, 0xe0) => start(Act::Pend, S::Utf8TwoFromA0),
        (S::Plain | S::High, 0xe1..=0xec | 0xee..=0xef) => start(Act::Pend, S::Utf8Two),
        (S::Plain | S::High, 0xed) => start(Act::Pend, S::Utf8TwoTo9F),
        (S::Plain | S::High, 0xf0) => start(Act::Pend, S::Utf8ThreeFrom90),
        (S::Plain | S::High, 0xf1..=0xf3) => start(Act::Pend, S::Utf8Three),
        (S::Plain | S::High, 0xf4) => start(Act::Pend, S::Utf8ThreeTo8F),

        (S::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => go(S::Plain),
        (S::Escape, b'u') => go(S::Hex),
        (S::Hex, b'd' | b'D') => go(S::HexD),
        (S::HexD, b'8' | b'9' | b'a' | b'b' | b'A' | b'B') => go(S::HexHigh2),
        (S::Hex, _) if byte.is_ascii_hexdigit() => go(S::Hex1),
        (S::Hex1 | S::HexD, _) if byte.is_ascii_hexdigit() => go(S::Hex2),
        (S::Hex2, _) if byte.is_ascii_hexdigit() => go(S::Hex3),
        (S::Hex3, _) if byte.is_ascii_hexdigit() => go(S::Plain),
        (S::HexHigh2, _) if byte.is_ascii_hexdigit() => go(S::HexHigh3),
        (S::HexHigh3, _) if byte.is_ascii_hexdigit() => act(Act::PendHigh),

        (S::Utf8Last, 0x80..=0xbf) => go(S::Plain),
        (S::Utf8Two, 0x80..=0xbf)
        | (S::Utf8TwoFromA0, 0xa0..=0xbf)
        | (S::Utf8TwoTo9F, 0x80..=0x9f) => go(S::Utf8Last),
        (S::Utf8Three, 0x80..=0xbf)
        | (S::Utf8ThreeFrom90, 0x90..=0xbf)
        | (S::Utf8ThreeTo8F, 0x80..=0x8f) => go(S::Utf8Two),

        (S::Minus, b'0') => go(S::Zero),
        (S::Minus, b'1'..=b'9') => go(S::Integer),
        (S::Integer, b'0'..=b'9') => go(S::Integer),
        (S::Zero | S::Integer, b'.') => go(S::Point),
        (S::Zero | S::Integer | S::Fraction, b'e' | b'E') => go(S::Exponent),
        (S::Point | S::Fraction, b'0'..=b'9') => go(S::Fraction),
        (S::Exponent, b'+' | b'-') => go(S::ExponentSign),
        (S::Exponent | S::ExponentSign | S::ExponentDigits, b'0'..=b'9') => go(S::ExponentDigits),
        (
            S::Zero | S::Integer | S::Fraction | S::ExponentDigits,
            b' ' | b'\n' | b'\r' | b'\t' | b',' | b']' | b'}',
        ) => act(Act::NumberEnd),

        (S::T, b'r') => go(S::Tr),
        (S::Tr, b'u') => go(S::Tru),
        (S::F, b'a') => go(S::Fa),
        (S::Fa, b'l') => go(S::Fal),
        (S::Fal, b's') => go(S::Fals),
        (S::N, b'u') => go(S::Nu),
        (S::Nu, b'l') => go(S::Nul),
        (S::Tru | S::Fals, b'e') | (S::Nul, b'l') => act(Act::LiteralEnd),

        _ => act(Act::Reject),
    }
}

/// Returns the step for `byte` in `state`.
#[inline(always)]
pub(super) fn step(state: GrammarState, byte: u8) -> GrammarStep {
    let step = STEPS[index(state, byte)];
    match step.checked_sub(ACT) {
        None => GrammarStep::Go(GrammarState(step)),
        Some(act) => GrammarStep::Act(ACTS[usize::from(act) % ACTS.len()]),
    }
}

/// Returns the state after the first byte of a number, a literal, an escape or a UTF-8 sequence.
#[inline]
pub(super) fn after(state: GrammarState, byte: u8) -> GrammarState {
    GrammarState(BEHIND[index(state, byte)])
}

#[inline(always)]
fn index(state: GrammarState, byte: u8) -> usize {
    (usize::from(state.0) * ROW + usize::from(CLASSES[usize::from(byte)])) % STEPS.len()
}

/// Classes of bytes that every state treats alike, so that the table is a few kilobytes.
static CLASSES: [u8; 256] = CLASSES_OF;
const CLASSES_OF: [u8; 256] = classes();

/// The length of a table row, in classes; both dimensions are powers of two, so that an index needs
/// no check.
const ROW: usize = 64;
static STEPS: [u8; 64 * ROW] = tables().0;
static BEHIND: [u8; 64 * ROW] = tables().1;
static CUT_STATES: [CutState; 2 * ROW] = cut_states();

/// An entry of [`STEPS`] that is not a state is this plus the number of an act.
const ACT: u8 = 64;

/// The acts in the order of their numbers.
const ACTS: [Act; 16] = {
    let mut acts = [Act::Reject; 16];
    let all = [
        Act::Token,
        Act::Pend,
        Act::PendHigh,
        Act::Quote,
        Act::LiteralEnd,
        Act::NumberEnd,
        Act::Object,
        Act::Array,
        Act::Close,
    ];
    let mut n = 0;
    while n < all.len() {
        acts[all[n] as usize] = all[n];
        n += 1;
    }
    acts
};

/// The states in which a value is due or open, or a key: one bit each.
const IN_VALUE: u64 = ((1 << S::Start.0) - 1) | (1 << S::Value.0) | (1 << S::FirstElement.0);

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut count = 0;
    let mut byte = 0;
    while byte < 256 {
        // The class of an earlier byte that is treated alike, or a new one.
        let mut other = 0;
        while other < byte && !alike(other as u8, byte as u8) {
            other += 1;
        }
        if other < byte {
            classes[byte] = classes[other];
        } else {
            classes[byte] = count as u8;
            count += 1;
        }
        byte += 1;
    }
    assert!(count <= ROW, "a row is too short");
    classes
}

const fn alike(a: u8, b: u8) -> bool {
    let mut state = 0;
    while state < GrammarState::COUNT {
        let (a, b) = (
            coded(GrammarState(state as u8), a),
            coded(GrammarState(state as u8), b),
        );
        if a.0 != b.0 || a.1 != b.1 {
            return false;
        }
        state += 1;
    }
    true
}

/// [`rule`] in numbers.
const fn coded(state: GrammarState, byte: u8) -> (u8, u8) {
    match rule(state, byte) {
        (GrammarStep::Go(next), _) => (next.0, next.0),
        (GrammarStep::Act(act), after) => (ACT + act as u8, after.0),
    }
}

const fn tables() -> ([u8; 64 * ROW], [u8; 64 * ROW]) {
    let (mut steps, mut after) = ([ACT + Act::Reject as u8; 64 * ROW], [0; 64 * ROW]);
    let mut state = 0;
    while state < GrammarState::COUNT {
        let mut byte = 0;
        while byte < 256 {
            let at = state * ROW + CLASSES_OF[byte] as usize;
            (steps[at], after[at]) = coded(GrammarState(state as u8), byte as u8);
            byte += 1;
        }
        state += 1;
    }
    (steps, after)
}

const fn cut_states() -> [CutState; 2 * ROW] {
    let mut states = [CutState::Done; 2 * ROW];
    let mut state = 0;
    while state < GrammarState::COUNT {
        let here = GrammarState(state as u8);
        let (in_value, in_key) = match here {
            S::Start => (CutState::Start, CutState::Start),
            S::Value | S::FirstElement => (CutState::Value, CutState::Value),
            S::FirstKey | S::Key | S::Colon => (CutState::Key, CutState::Key),
            S::AfterElement | S::AfterMember => (CutState::AfterValue, CutState::AfterValue),
            S::Done => (CutState::Done, CutState::Done),
            _ if here.in_escape() => (CutState::Escape, CutState::Escape),
            _ if here.in_string() => (CutState::String, CutState::Key),
            _ if here.in_number() => (CutState::Number, CutState::Number),
            _ => (CutState::Literal, CutState::Literal),
        };
        (states[state], states[ROW + state]) = (in_value, in_key);
        state += 1;
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_the_rule() {
        for state in (0..GrammarState::COUNT).map(|n| GrammarState(n as u8)) {
            for byte in 0..=255 {
                let (ruled, next) = rule(state, byte);
                assert_eq!(
                    (step(state, byte), after(state, byte)),
                    (ruled, next),
                    "{state:?} {byte}"
                );
            }
        }
    }
}
