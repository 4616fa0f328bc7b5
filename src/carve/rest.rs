//! The grammar of the legal rests of a cut root.

use super::grammar::{Expr, Grammar, Name, Rule, many, optional, some, text};
use crate::envelope::AllowedRoots;
use crate::json::{GrammarState, Kind, Machine};

use Expr::{All, Any, Class};
use GrammarState as S;

/// The rest of the cut token, and the structure up to the end of the innermost value or member.
struct CutToken {
    /// The rule for the rest of the token, if the token is neither whole nor a literal.
    rest: Option<Expr>,
    /// The beginning of the start rule.
    first: Vec<Expr>,
    /// Whether `first` also closes the innermost open container.
    closes: bool,
}

/// Returns the grammar of the rests of a root that has begun. `open` is the text of the escape or
/// surrogate pair in which the text stops.
pub(super) fn of_root(machine: &Machine, open: &str) -> Grammar {
    let token = CutToken::of(machine.state(), machine.in_key(), open);
    let tails = machine.frames().iter().rev().map(|frame| match frame.kind {
        Kind::Object => rule(Name::ObjectTail),
        Kind::Array => rule(Name::ArrayTail),
    });
    let mut start = token.first;
    start.extend(tails.skip(usize::from(token.closes)));
    grammar(start, token.rest)
}

/// Returns the grammar of the texts before whose root `fence` must come: the rest of a line.
pub(super) fn before_root(fence: &'static str, roots: AllowedRoots) -> Grammar {
    let root = match roots {
        AllowedRoots::Any => rule(Name::Value),
        AllowedRoots::Containers => Any(vec![rule(Name::Object), rule(Name::Array)]),
    };
    let fence = (!fence.is_empty()).then(|| text(fence));
    let start = fence.into_iter().chain([rule(Name::White), root]);
    grammar(start.collect(), None)
}

/// Returns a grammar with this start, after which only white space follows.
fn grammar(mut start: Vec<Expr>, rest: Option<Expr>) -> Grammar {
    start.push(rule(Name::White));
    let start = Rule {
        name: Name::Root,
        body: All(start),
    };
    let rest = rest.map(|body| Rule {
        name: Name::Rest,
        body,
    });
    let rules = [start].into_iter().chain(rest).chain(json());
    Grammar {
        rules: rules.collect(),
    }
}

impl CutToken {
    fn of(state: GrammarState, in_key: bool, open: &str) -> Self {
        let number = number_rest(state);
        let is_optional = state.number_may_end();
        let (rest, first, closes) = match state {
            S::Value => (None, vec![rule(Name::White), rule(Name::Value)], false),
            S::FirstElement => (None, vec![rule(Name::Items)], true),
            S::FirstKey => (None, vec![rule(Name::Fields)], true),
            S::Key => (None, vec![rule(Name::White), rule(Name::Member)], false),
            S::Colon => (None, vec![rule(Name::Pair)], false),
            state if state.in_string() && in_key => (
                Some(string_rest(state, open)),
                vec![rule(Name::Rest), rule(Name::Pair)],
                false,
            ),
            state if state.in_string() => (
                Some(string_rest(state, open)),
                vec![rule(Name::Rest)],
                false,
            ),
            state if state.in_literal() => (None, vec![text(state.rest_of_literal())], false),
            _ if is_optional => (number, vec![optional(rule(Name::Rest))], false),
            _ if number.is_some() => (number, vec![rule(Name::Rest)], false),
            _ => (None, Vec::new(), false),
        };
        Self {
            rest,
            first,
            closes,
        }
    }
}

fn rule(name: Name) -> Expr {
    Expr::Rule(name)
}

/// Returns the rest of a number. Where the number may end, this is a rest that is not empty:
/// readers of Lark refuse terminals that match nothing.
fn number_rest(state: GrammarState) -> Option<Expr> {
    let digits = || rule(Name::Digits);
    let fraction = || rule(Name::Fraction);
    let exponent = || rule(Name::Exponent);
    let fraction_first = || All(vec![fraction(), optional(exponent())]);
    Some(match state {
        S::Minus => All(vec![
            rule(Name::Integer),
            optional(fraction()),
            optional(exponent()),
        ]),
        S::Zero => Any(vec![fraction_first(), exponent()]),
        S::Integer => Any(vec![
            All(vec![digits(), optional(fraction()), optional(exponent())]),
            fraction_first(),
            exponent(),
        ]),
        S::Point => All(vec![digits(), optional(exponent())]),
        S::Fraction => Any(vec![All(vec![digits(), optional(exponent())]), exponent()]),
        S::Exponent => All(vec![optional(Class("-+")), digits()]),
        S::ExponentSign | S::ExponentDigits => digits(),
        _ => return None,
    })
}

/// Bytes of an escape `\uXXXX`.
const ESCAPE: usize = 6;

/// Returns the rest of a string with its closing quote. `open` is the text from the backslash of
/// the open escape on, or from that of an open surrogate pair.
fn string_rest(state: GrammarState, open: &str) -> Expr {
    let mut parts = if state.in_escape() {
        escape_rest(open)
    } else {
        Vec::new()
    };
    parts.extend([many(rule(Name::Character)), text("\"")]);
    All(parts)
}

/// Returns the rest of an escape. A high surrogate needs its other half: the grammar of JSON does
/// not ask for it, but many readers reject one without the other.
fn escape_rest(open: &str) -> Vec<Expr> {
    let (is_low, open) = match open.get(ESCAPE..) {
        Some(second) => (true, second),
        None => (false, open),
    };
    if is_low {
        return low_surrogate(open.len());
    }
    let Some(digits) = open.get(2..) else {
        return vec![rule(Name::Escape)];
    };
    let mut parts = vec![rule(Name::Hex); ESCAPE - 2 - digits.len().min(4)];
    let mut digits = digits.bytes();
    let is_high = matches!(digits.next(), Some(b'd' | b'D'))
        && matches!(digits.next(), Some(b'8' | b'9' | b'a' | b'b' | b'A' | b'B'));
    if is_high {
        parts.extend(low_surrogate(0));
    }
    parts
}

/// Returns the rest of an escape for a low surrogate of which `given` bytes are there.
fn low_surrogate(given: usize) -> Vec<Expr> {
    let parts = [
        text("\\"),
        text("u"),
        Class("dD"),
        Class("c-fC-F"),
        rule(Name::Hex),
        rule(Name::Hex),
    ];
    parts.into_iter().skip(given).collect()
}

/// Returns the rules of JSON.
fn json() -> Vec<Rule> {
    let w = || rule(Name::White);
    let rest_of_list = |child: Name, closer: &'static str| {
        let next = All(vec![text(","), w(), rule(child), w()]);
        All(vec![w(), many(next), text(closer)])
    };
    let first_of_list = |child: Name, tail: Name, closer: &'static str| {
        All(vec![
            w(),
            Any(vec![text(closer), All(vec![rule(child), rule(tail)])]),
        ])
    };
    let digits = || rule(Name::Digits);
    let rules = [
        (
            Name::Value,
            Any(vec![
                rule(Name::Object),
                rule(Name::Array),
                rule(Name::String),
                rule(Name::Number),
                text("true"),
                text("false"),
                text("null"),
            ]),
        ),
        (Name::Object, All(vec![text("{"), rule(Name::Fields)])),
        (
            Name::Fields,
            first_of_list(Name::Member, Name::ObjectTail, "}"),
        ),
        (Name::ObjectTail, rest_of_list(Name::Member, "}")),
        (
            Name::Member,
            All(vec![rule(Name::String), rule(Name::Pair)]),
        ),
        (
            Name::Pair,
            All(vec![w(), text(":"), w(), rule(Name::Value)]),
        ),
        (Name::Array, All(vec![text("["), rule(Name::Items)])),
        (
            Name::Items,
            first_of_list(Name::Value, Name::ArrayTail, "]"),
        ),
        (Name::ArrayTail, rest_of_list(Name::Value, "]")),
        // White space that may be missing is a rule, since a terminal must not match nothing.
        (Name::White, optional(rule(Name::Spaces))),
        (Name::Spaces, some(Class(r" \t\n\r"))),
        (
            Name::String,
            All(vec![text("\""), many(rule(Name::Character)), text("\"")]),
        ),
        (
            Name::Character,
            Any(vec![
                Class(r#"^"\\\x00-\x1f"#),
                All(vec![text("\\"), rule(Name::Escape)]),
            ]),
        ),
        (
            Name::Escape,
            Any(vec![
                Class(r#""\\/bfnrt"#),
                All([vec![text("u")], vec![rule(Name::Hex); 4]].concat()),
            ]),
        ),
        (Name::Hex, Class("0-9a-fA-F")),
        (
            Name::Number,
            All(vec![
                optional(text("-")),
                rule(Name::Integer),
                optional(rule(Name::Fraction)),
                optional(rule(Name::Exponent)),
            ]),
        ),
        (
            Name::Integer,
            Any(vec![text("0"), All(vec![Class("1-9"), many(Class("0-9"))])]),
        ),
        (Name::Fraction, All(vec![text("."), digits()])),
        (
            Name::Exponent,
            All(vec![Class("eE"), optional(Class("-+")), digits()]),
        ),
        (Name::Digits, some(Class("0-9"))),
    ];
    rules
        .into_iter()
        .map(|(name, body)| Rule { name, body })
        .collect()
}
