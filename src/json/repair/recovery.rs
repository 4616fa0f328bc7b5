//! The table of certain recoveries: the meaning of a deviation from the grammar at the level
//! `syntax`.
//!
//! A pure function of the position in the grammar and of the text after it. Recoveries that choose
//! between readings are in `guess`.

use super::super::grammar::GrammarState;
use super::super::stack::Kind;
use super::RepairRule;
use super::backslash::{CODE, EscapeWord};

/// The context of a deviation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deviation<'a> {
    pub(super) state: GrammarState,
    /// The innermost open container.
    pub(super) parent: Option<Kind>,
    /// The part of the open token that the grammar accepts; for a string, its open escape.
    pub(super) open: &'a str,
    /// The text from the deviation on.
    pub(super) rest: &'a str,
    /// Whether `rest` ends with the text.
    pub(super) is_end: bool,
}

/// The recovery from a deviation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// The table has no recovery.
    None,
    /// The decision needs text that has not been received.
    Wait,
    /// The `len` bytes at the deviation are replaced.
    Replace {
        len: usize,
        by: String,
        rule: RepairRule,
    },
    /// The open token or escape is replaced, with the `len` bytes that follow it.
    ReplaceOpen {
        len: usize,
        by: String,
        rule: RepairRule,
    },
    /// A comma is added after the last value.
    AddComma,
    /// The comma after the last value is removed.
    DropComma,
    /// A string begins whose quotes are not `"`.
    Quote(Quote),
    /// A comment begins.
    Comment(Comment),
}

/// Quotes around a string other than `"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    /// One of these characters ends the string.
    Until(&'static [char]),
    /// This character, repeated the given number of times.
    Repeated(char, usize),
    /// `\"`
    Escaped,
}

/// Opening quotes, and the characters that close them.
const QUOTES: [(char, &[char]); 9] = [
    ('\'', &['\'']),
    ('`', &['`', '\u{b4}']),
    ('\u{b4}', &['\u{b4}']),
    ('\u{2018}', &['\u{2019}']),
    ('\u{201c}', &['\u{201d}']),
    ('\u{201e}', &['\u{201c}', '\u{201d}']),
    ('\u{ab}', &['\u{bb}']),
    // Full-width quotes.
    ('\u{ff02}', &['\u{ff02}']),
    ('\u{ff07}', &['\u{ff07}']),
];

impl Quote {
    /// Returns the quotes that a string begins with.
    pub(super) fn opening(c: char) -> Option<Self> {
        QUOTES
            .iter()
            .find(|(opening, _)| *opening == c)
            .map(|(_, closing)| Self::Until(closing))
    }

    /// Returns quotes that `c` closes.
    pub(super) fn closing(c: char) -> Option<Self> {
        QUOTES
            .iter()
            .find(|(_, closing)| closing.contains(&c))
            .map(|(_, closing)| Self::Until(closing))
    }

    /// Whether `c` ends the string.
    pub(super) fn ends(self, c: char) -> bool {
        match self {
            Self::Until(closing) => closing.contains(&c),
            Self::Repeated(quote, _) => quote == c,
            Self::Escaped => false,
        }
    }
}

/// How a comment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comment {
    Line,
    /// Ends with this text.
    Block(&'static str),
}

/// Returns the recovery from a deviation.
pub(super) fn recovery(place: &Deviation<'_>) -> Recovery {
    let Some(c) = place.rest.chars().next() else {
        return Recovery::Wait;
    };
    match place.state {
        state if state.in_open_escape() => escape(place, c),
        state if state.in_string() => control(c),
        state if state.in_literal() => literal(place),
        state if state.in_number() => match place.open {
            // A single dash begins a number; a second one may follow.
            "-" if place.rest == "-" && !place.is_end => Recovery::Wait,
            "-" if is_dashes(place.rest.strip_prefix('-')) => Recovery::Comment(Comment::Line),
            _ => Recovery::None,
        },
        // A fence ends the block around the root, and is not a quote.
        _ if c == '`' && place.rest.starts_with(FENCE) => Recovery::None,
        _ if c == '`' && FENCE.starts_with(place.rest) && !place.is_end => Recovery::Wait,
        state => match between(place, c) {
            Recovery::None => token(state, place, c),
            found => found,
        },
    }
}

/// Returns the escape of a control character that has a short one. No writer of JSON writes the
/// others by mistake.
fn control(c: char) -> Recovery {
    let by = match c {
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        _ => return Recovery::None,
    };
    Recovery::Replace {
        len: 1,
        by: by.to_owned(),
        rule: RepairRule::ControlCharacter,
    }
}

/// A backslash before a letter or a digit is a part of the text: `C:\x`, `\alpha`, `\1`. Before
/// other characters it was meant as an escape: `\_`, `\'`. `\u` with digits is a broken code of an
/// unknown character; without digits it is a word.
fn escape(place: &Deviation<'_>, c: char) -> Recovery {
    let rule = RepairRule::InvalidEscape;
    if place.state == GrammarState::Escape {
        let by = if c.is_alphanumeric() { "\\\\" } else { "" };
        return Recovery::ReplaceOpen {
            len: 0,
            by: by.to_owned(),
            rule,
        };
    }
    let given = place.open.strip_prefix("\\u").unwrap_or_default();
    let code: String = given.chars().chain(place.rest.chars()).take(CODE).collect();
    match EscapeWord::after(&code, place.is_end) {
        EscapeWord::Open => Recovery::Wait,
        EscapeWord::Broken => Recovery::None,
        EscapeWord::Whole => Recovery::ReplaceOpen {
            len: 0,
            by: format!("\\\\u{given}"),
            rule,
        },
    }
}

/// The text that closes a block of code, not quotes.
pub(super) const FENCE: &str = "```";

/// The text that opens a comment of markup.
const MARKUP: &str = "<!--";

/// Recoveries from text between tokens: other white space, and comments.
fn between(place: &Deviation<'_>, c: char) -> Recovery {
    let replace = |by: &str| Recovery::Replace {
        len: c.len_utf8(),
        by: by.to_owned(),
        rule: RepairRule::Space,
    };
    match c {
        // A byte order mark separates nothing, so no space replaces it.
        '\u{feff}' => replace(""),
        '\u{a0}'
        | '\u{180e}'
        | '\u{2000}'..='\u{200b}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{202f}'
        | '\u{205f}'
        | '\u{3000}'
        | '\u{85}'
        | '\u{b}'
        | '\u{c}' => replace(" "),
        '/' => match place.rest.as_bytes().get(1) {
            Some(b'/') => Recovery::Comment(Comment::Line),
            Some(b'*') => Recovery::Comment(Comment::Block("*/")),
            None if !place.is_end => Recovery::Wait,
            _ => Recovery::None,
        },
        '<' if place.rest.starts_with(MARKUP) => Recovery::Comment(Comment::Block("-->")),
        '<' if MARKUP.starts_with(place.rest) && !place.is_end => Recovery::Wait,
        // `#` directly before a word may be a value, such as `#fff`.
        '#' => match place.rest.as_bytes().get(1) {
            Some(b' ' | b'\n' | b'#' | b'!') => Recovery::Comment(Comment::Line),
            None if !place.is_end => Recovery::Wait,
            _ => Recovery::None,
        },
        // White space of a text that was escaped as a whole: a bare word has letters there.
        '\\' => match place.rest.as_bytes() {
            [_, b'n' | b'r' | b't', after, ..] if !after.is_ascii_alphanumeric() => {
                escaped_space(place)
            }
            [_, b'n' | b'r' | b't'] if place.is_end => escaped_space(place),
            [_] | [_, b'n' | b'r' | b't'] if !place.is_end => Recovery::Wait,
            _ => Recovery::None,
        },
        // Where a value is due, a dash begins a number.
        '-' if place.state.takes_value() => Recovery::None,
        '-' => match place.rest.strip_prefix("--") {
            None | Some("") if "--".starts_with(place.rest) && !place.is_end => Recovery::Wait,
            rest if is_dashes(rest) => Recovery::Comment(Comment::Line),
            _ => Recovery::None,
        },
        _ => Recovery::None,
    }
}

/// Returns the white space that an escape between tokens stands for.
fn escaped_space(place: &Deviation<'_>) -> Recovery {
    let by = match place.rest.as_bytes().get(1) {
        Some(b'n') => "\n",
        Some(b'r') => "\r",
        _ => "\t",
    };
    Recovery::Replace {
        len: 2,
        by: by.to_owned(),
        rule: RepairRule::Space,
    }
}

/// Whether white space follows two dashes: then they begin a comment.
fn is_dashes(rest: Option<&str>) -> bool {
    rest.is_some_and(|rest| rest.starts_with([' ', '\t', '\n', '\r']))
}

/// Recoveries where a token or a comma is due.
fn token(state: GrammarState, place: &Deviation<'_>, c: char) -> Recovery {
    let extra = Recovery::Replace {
        len: 1,
        by: String::new(),
        rule: RepairRule::ExtraComma,
    };
    match (state, c) {
        (GrammarState::Value, ',') if place.parent == Some(Kind::Array) => extra,
        (GrammarState::FirstElement | GrammarState::FirstKey | GrammarState::Key, ',') => extra,
        (GrammarState::Value, ']') if place.parent == Some(Kind::Array) => Recovery::DropComma,
        (GrammarState::Key, '}') => Recovery::DropComma,
        (GrammarState::AfterElement, _) if begins_value(c) => Recovery::AddComma,
        // Only a key can follow the comma in an object.
        (GrammarState::AfterMember, c) if c == '"' || Quote::opening(c).is_some() => {
            Recovery::AddComma
        }
        _ if state.takes_quote() => match Quote::opening(c) {
            Some(quote) => Recovery::Quote(quote),
            None if state.takes_value() => literal(place),
            None => Recovery::None,
        },
        _ => Recovery::None,
    }
}

/// Whether a value may begin with this character.
pub(super) fn begins_value(c: char) -> bool {
    matches!(
        c,
        '"' | '{' | '[' | '-' | '0'..='9' | 't' | 'f' | 'n' | 'T' | 'F' | 'N'
    ) || Quote::opening(c).is_some()
}

/// Literals of Python, and literals in another case.
fn literal(place: &Deviation<'_>) -> Recovery {
    let word = |c: &char| c.is_alphanumeric() || *c == '_';
    let rest: String = place.rest.chars().take_while(word).take(LITERAL).collect();
    let start = format!("{}{rest}", place.open).to_ascii_lowercase();
    let may_go_on = ["true", "false", "null", "none"]
        .iter()
        .any(|literal| literal.starts_with(&start));
    if rest.len() == place.rest.len() && !place.is_end && may_go_on {
        return Recovery::Wait;
    }
    let by = match start.as_str() {
        "true" => "true",
        "false" => "false",
        "null" | "none" => "null",
        _ => return Recovery::None,
    };
    Recovery::ReplaceOpen {
        len: rest.len(),
        by: by.to_owned(),
        rule: RepairRule::Literal,
    }
}

/// One more letter than the longest literal has, so that a longer word differs from every literal.
// `false` has five letters: with six, `falsey` differs from it, and `Falsehoods` is not copied to
// its end.
const LITERAL: usize = 6;
