//! A small grammar in memory, and the two syntaxes in which servers accept it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A context-free grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grammar {
    /// The first rule is the start.
    pub(super) rules: Vec<Rule>,
}

/// A rule of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) name: RuleName,
    pub(super) body: Expr,
}

/// The name of a rule.
// GBNF allows letters, digits and `-` only. Names that rules repeat have one letter: a grammar is
// sent with each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleName {
    /// The start of the grammar.
    Root,
    /// The rest of the cut token.
    Rest,
    Value,
    Object,
    Array,
    /// After `{`.
    Fields,
    /// After `[`.
    Items,
    /// After a whole member of an object, to the closing bracket.
    ObjectTail,
    /// After a whole element of an array, to the closing bracket.
    ArrayTail,
    /// A key with its value.
    Member,
    /// After a key.
    Pair,
    /// White space, or nothing.
    White,
    String,
    Number,
    Integer,
    Fraction,
    Exponent,
    Digits,
    /// One character of a string, or one escape.
    Character,
    /// After a backslash.
    Escape,
    Hex,
    Spaces,
    /// A shape of the request's schema, or a part of one.
    Shape(usize),
}

impl RuleName {
    /// Returns whether the rule is a terminal: it matches text without structure, and Lark writes
    /// its name in capitals.
    fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Rest
                | Self::String
                | Self::Number
                | Self::Integer
                | Self::Fraction
                | Self::Exponent
                | Self::Digits
                | Self::Character
                | Self::Escape
                | Self::Hex
                | Self::Spaces
        )
    }

    fn print(self, out: &mut String, syntax: Syntax) {
        let name = match self {
            Self::Root => "root",
            Self::Rest => "rest",
            Self::Value => "v",
            Self::Object => "object",
            Self::Array => "array",
            Self::Fields => "fields",
            Self::Items => "items",
            Self::ObjectTail => "o",
            Self::ArrayTail => "a",
            Self::Member => "m",
            Self::Pair => "pair",
            Self::White => "w",
            Self::String => "s",
            Self::Number => "n",
            Self::Integer => "int",
            Self::Fraction => "frac",
            Self::Exponent => "exp",
            Self::Digits => "d",
            Self::Character => "c",
            Self::Escape => "esc",
            Self::Hex => "h",
            Self::Spaces => "space",
            Self::Shape(number) => {
                // Writing to a string does not fail.
                let _ = write!(out, "r{number}");
                return;
            }
        };
        match syntax {
            Syntax::Lark if self == Self::Root => out.push_str("start"),
            Syntax::Lark if self.is_terminal() => out.push_str(&name.to_ascii_uppercase()),
            _ => out.push_str(name),
        }
    }
}

/// The right side of a rule. Its depth is that of this module's own expressions, not of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// This text.
    Text(Cow<'static, str>),
    /// One character of a set, as a regular expression writes it between brackets.
    Class(&'static str),
    Rule(RuleName),
    /// All, in this order.
    All(Vec<Expr>),
    /// One of these.
    Any(Vec<Expr>),
    Repeat(Box<Expr>, Occurs),
}

/// How often an expression occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurs {
    /// Once or not at all.
    Optional,
    /// Any number of times, also none.
    Many,
    /// Once or more.
    Some,
}

/// Returns an expression for this text.
pub(super) fn text(text: impl Into<Cow<'static, str>>) -> Expr {
    Expr::Text(text.into())
}

/// Returns an expression for one or more of these.
pub(super) fn some(expr: Expr) -> Expr {
    Expr::Repeat(Box::new(expr), Occurs::Some)
}

/// Returns an expression for any number of these.
pub(super) fn many(expr: Expr) -> Expr {
    Expr::Repeat(Box::new(expr), Occurs::Many)
}

/// Returns an expression for this or nothing.
pub(super) fn optional(expr: Expr) -> Expr {
    Expr::Repeat(Box::new(expr), Occurs::Optional)
}

/// A notation for grammars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// The EBNF of llama.cpp (`grammar`), vLLM (`structured_outputs`) and SGLang (`ebnf`).
    Gbnf,
    /// The dialect of Lark that llguidance and OpenAI's custom tools read.
    Lark,
}

impl Grammar {
    /// Prints the grammar. The start matches `head`, which may be empty, and then its own rule.
    pub(super) fn print(&self, syntax: Syntax, head: &str) -> String {
        let mut out = String::with_capacity(1024);
        for (n, rule) in self.rules.iter().enumerate() {
            rule.name.print(&mut out, syntax);
            out.push_str(match syntax {
                Syntax::Gbnf => " ::= ",
                Syntax::Lark => ": ",
            });
            if n == 0 && !head.is_empty() {
                push_literal(&mut out, head);
                out.push(' ');
            }
            rule.body.print(&mut out, syntax);
            out.push('\n');
        }
        out
    }
}

impl Expr {
    fn print(&self, out: &mut String, syntax: Syntax) {
        match self {
            Self::Text(text) => push_literal(out, text),
            Self::Class(class) => match syntax {
                Syntax::Gbnf => out.extend(["[", class, "]"]),
                // A slash would end the regular expression.
                Syntax::Lark => out.extend(["/[", &class.replace('/', "\\/"), "]/"]),
            },
            Self::Rule(name) => name.print(out, syntax),
            Self::All(parts) => Self::print_list(parts, " ", out, syntax),
            Self::Any(parts) => Self::print_list(parts, " | ", out, syntax),
            Self::Repeat(part, count) => {
                part.print_part(out, syntax);
                out.push(match count {
                    Occurs::Optional => '?',
                    Occurs::Many => '*',
                    Occurs::Some => '+',
                });
            }
        }
    }

    fn print_list(parts: &[Self], separator: &str, out: &mut String, syntax: Syntax) {
        for (n, part) in parts.iter().enumerate() {
            if n > 0 {
                out.push_str(separator);
            }
            match part {
                // A sequence binds tighter than a choice.
                Self::All(_) if separator != " " => part.print(out, syntax),
                _ => part.print_part(out, syntax),
            }
        }
    }

    /// Prints the expression as a part of another one, in parentheses where it is a list.
    fn print_part(&self, out: &mut String, syntax: Syntax) {
        if matches!(self, Self::All(_) | Self::Any(_)) {
            out.push('(');
            self.print(out, syntax);
            out.push(')');
        } else {
            self.print(out, syntax);
        }
    }
}

/// Writes `text` in quotes, with the escapes that both syntaxes read alike. Characters that are not
/// ASCII stay as they are.
fn push_literal(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
