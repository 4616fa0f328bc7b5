//! The grammar of the legal rests of a cut root.

use super::grammar::{Expr, Grammar, Rule, RuleName, many, optional, some, text};
use crate::envelope::AllowedRoots;
use crate::json::{GrammarState, Kind, Machine};

use Expr::{All, Any, Class};
use GrammarState as S;

/// The rest of the cut token, and the structure up to the end of the innermost value or member.
pub(super) struct TokenRest {
    /// The rule for the rest of the token, if the token is neither whole nor a literal.
    pub(super) rest: Option<Expr>,
    /// The beginning of the start rule.
    pub(super) first: Vec<Expr>,
    /// Whether `first` also closes the innermost open container.
    pub(super) closes: bool,
}

/// Returns the grammar of the rests of a root that has begun. `open` is the text of the escape or
/// surrogate pair in which the text stops.
pub(super) fn of_root(machine: &Machine, open: &str) -> Grammar {
    let token = TokenRest::of(machine.state(), machine.in_key(), open);
    let tails = machine.frames().iter().rev().map(|frame| match frame.kind {
        Kind::Object => rule(RuleName::ObjectTail),
        Kind::Array => rule(RuleName::ArrayTail),
    });
    let mut start = token.first;
    start.extend(tails.skip(usize::from(token.closes)));
    grammar(start, token.rest, Vec::new())
}

/// Returns the grammar of a whole root after `fence`, the rest of the line that opens a fence.
pub(super) fn before_root(fence: &'static str, roots: AllowedRoots) -> Grammar {
    let root = match roots {
        AllowedRoots::Any => rule(RuleName::Value),
        AllowedRoots::Containers => Any(vec![rule(RuleName::Object), rule(RuleName::Array)]),
    };
    let fence = (!fence.is_empty()).then(|| text(fence));
    let start = fence.into_iter().chain([rule(RuleName::White), root]);
    grammar(start.collect(), None, Vec::new())
}

/// Returns a grammar with this start, after which only white space follows. `shapes`: rules for the
/// request's schema.
pub(super) fn grammar(mut start: Vec<Expr>, rest: Option<Expr>, shapes: Vec<Rule>) -> Grammar {
    start.push(rule(RuleName::White));
    let start = Rule {
        name: RuleName::Root,
        body: All(start),
    };
    let rest = rest.map(|body| Rule {
        name: RuleName::Rest,
        body,
    });
    let rules = [start].into_iter().chain(rest).chain(shapes);
    Grammar {
        rules: rules.chain(structure()).chain(terminals()).collect(),
    }
}

impl TokenRest {
    pub(super) fn of(state: GrammarState, in_key: bool, open: &str) -> Self {
        let number = number_rest(state);
        let is_optional = state.number_may_end();
        let (rest, first, closes) = match state {
            S::Value => (
                None,
                vec![rule(RuleName::White), rule(RuleName::Value)],
                false,
            ),
            S::FirstElement => (None, vec![rule(RuleName::Items)], true),
            S::FirstKey => (None, vec![rule(RuleName::Fields)], true),
            S::Key => (
                None,
                vec![rule(RuleName::White), rule(RuleName::Member)],
                false,
            ),
            S::Colon => (None, vec![rule(RuleName::Pair)], false),
            state if state.in_string() && in_key => (
                Some(string_rest(state, open)),
                vec![rule(RuleName::Rest), rule(RuleName::Pair)],
                false,
            ),
            state if state.in_string() => (
                Some(string_rest(state, open)),
                vec![rule(RuleName::Rest)],
                false,
            ),
            state if state.in_literal() => (None, vec![text(state.rest_of_literal())], false),
            _ if is_optional => (number, vec![optional(rule(RuleName::Rest))], false),
            _ if number.is_some() => (number, vec![rule(RuleName::Rest)], false),
            _ => (None, Vec::new(), false),
        };
        Self {
            rest,
            first,
            closes,
        }
    }
}

fn rule(name: RuleName) -> Expr {
    Expr::Rule(name)
}

/// Returns the rest of a number. Where the number may end, this is a rest that is not empty:
/// readers of Lark refuse terminals that match nothing.
fn number_rest(state: GrammarState) -> Option<Expr> {
    let digits = || rule(RuleName::Digits);
    let fraction = || rule(RuleName::Fraction);
    let exponent = || rule(RuleName::Exponent);
    let fraction_first = || All(vec![fraction(), optional(exponent())]);
    Some(match state {
        S::Minus => All(vec![
            rule(RuleName::Integer),
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
pub(super) fn string_rest(state: GrammarState, open: &str) -> Expr {
    let mut parts = if state.in_escape() {
        escape_rest(open)
    } else {
        Vec::new()
    };
    parts.extend([many(rule(RuleName::Character)), text("\"")]);
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
        return vec![rule(RuleName::Escape)];
    };
    let mut parts = vec![rule(RuleName::Hex); ESCAPE - 2 - digits.len().min(4)];
    let mut digits = digits.bytes();
    let is_high = matches!(digits.next(), Some(b'd' | b'D'))
        && matches!(digits.next(), Some(b'8' | b'9' | b'a' | b'b' | b'A' | b'B'));
    if is_high {
        parts.extend(low_surrogate(0));
    }
    parts
}

/// Returns the rest of an escape for a low surrogate whose first `given` bytes were delivered.
fn low_surrogate(given: usize) -> Vec<Expr> {
    let parts = [
        text("\\"),
        text("u"),
        Class("dD"),
        Class("c-fC-F"),
        rule(RuleName::Hex),
        rule(RuleName::Hex),
    ];
    parts.into_iter().skip(given).collect()
}

/// Returns the rules for the structure of JSON.
fn structure() -> Vec<Rule> {
    let w = || rule(RuleName::White);
    let next = |child| All(vec![text(","), w(), rule(child), w()]);
    let tail = |child, closer| All(vec![w(), many(next(child)), text(closer)]);
    let after_opener = |child, tail, closer| {
        let children = All(vec![rule(child), rule(tail)]);
        All(vec![w(), Any(vec![text(closer), children])])
    };
    let literals = ["true", "false", "null"].map(text);
    let kinds = [
        RuleName::Object,
        RuleName::Array,
        RuleName::String,
        RuleName::Number,
    ]
    .map(rule);
    let rules = [
        (
            RuleName::Value,
            Any(kinds.into_iter().chain(literals).collect()),
        ),
        (
            RuleName::Object,
            All(vec![text("{"), rule(RuleName::Fields)]),
        ),
        (
            RuleName::Fields,
            after_opener(RuleName::Member, RuleName::ObjectTail, "}"),
        ),
        (RuleName::ObjectTail, tail(RuleName::Member, "}")),
        (
            RuleName::Member,
            All(vec![rule(RuleName::String), rule(RuleName::Pair)]),
        ),
        (
            RuleName::Pair,
            All(vec![w(), text(":"), w(), rule(RuleName::Value)]),
        ),
        (RuleName::Array, All(vec![text("["), rule(RuleName::Items)])),
        (
            RuleName::Items,
            after_opener(RuleName::Value, RuleName::ArrayTail, "]"),
        ),
        (RuleName::ArrayTail, tail(RuleName::Value, "]")),
        // A rule, because a terminal must not match nothing.
        (RuleName::White, optional(rule(RuleName::Spaces))),
    ];
    named(rules)
}

/// Returns the terminals of JSON.
fn terminals() -> Vec<Rule> {
    let digits = || rule(RuleName::Digits);
    let quote = || text("\"");
    let character = Any(vec![
        Class(r#"^"\\\x00-\x1f"#),
        All(vec![text("\\"), rule(RuleName::Escape)]),
    ]);
    let mut unicode = vec![text("u")];
    unicode.extend(vec![rule(RuleName::Hex); 4]);
    let number = vec![
        optional(text("-")),
        rule(RuleName::Integer),
        optional(rule(RuleName::Fraction)),
        optional(rule(RuleName::Exponent)),
    ];
    let without_leading_zero = All(vec![Class("1-9"), many(Class("0-9"))]);
    let rules = [
        (RuleName::Spaces, some(Class(r" \t\n\r"))),
        (
            RuleName::String,
            All(vec![quote(), many(rule(RuleName::Character)), quote()]),
        ),
        (RuleName::Character, character),
        (
            RuleName::Escape,
            Any(vec![Class(r#""\\/bfnrt"#), All(unicode)]),
        ),
        (RuleName::Hex, Class("0-9a-fA-F")),
        (RuleName::Number, All(number)),
        (
            RuleName::Integer,
            Any(vec![text("0"), without_leading_zero]),
        ),
        (RuleName::Fraction, All(vec![text("."), digits()])),
        (
            RuleName::Exponent,
            All(vec![Class("eE"), optional(Class("-+")), digits()]),
        ),
        (RuleName::Digits, some(Class("0-9"))),
    ];
    named(rules)
}

fn named<const N: usize>(rules: [(RuleName, Expr); N]) -> Vec<Rule> {
    rules.map(|(name, body)| Rule { name, body }).into()
}
