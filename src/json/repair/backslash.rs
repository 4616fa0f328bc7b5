//! Finds the meaning of a backslash in a string by the text after it.

use memchr::memchr2;

use super::recovery::Quote;

/// The meaning of a backslash. A *raw* string is one whose writer did not escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// An escape in every string.
    Plain,
    /// An escape that proves a writer who escapes.
    Escape,
    /// An escaped backslash, which also proves such a writer.
    Pair,
    /// Two backslashes: both are text in a raw string; elsewhere they are one escaped backslash.
    RowEnd,
    /// Text in a raw string, unless its writer escapes other characters.
    Word,
    /// Text in a raw string.
    Either,
    /// Text in any string.
    Text,
    /// The last character of a raw string, before its closing quote.
    Last,
}

/// Returns the length and the meaning of the escape at the start of `text`; `None` if it needs more
/// text. `is_first`: the string begins here. `may_close`: the string is raw, and no escape precedes
/// this one.
pub(super) fn meaning(
    text: &str,
    quote: Option<Quote>,
    is_first: bool,
    may_close: bool,
    is_end: bool,
) -> Option<(usize, Meaning)> {
    let rest = text.strip_prefix('\\').unwrap_or_default();
    let ends = |c: char| match quote {
        None => c == '"',
        Some(quote) => c == '"' || quote.ends(c),
    };
    let Some(c) = rest.chars().next() else {
        return is_end.then_some((1, Meaning::Plain));
    };
    let after = rest.get(c.len_utf8()..).unwrap_or_default();
    let found = match c {
        '\\' if is_first && begins_share(after).or(is_end.then_some(false))? => {
            Some(Meaning::RowEnd)
        }
        '\\' => pair(after, ends),
        '"' if quote.is_none() && may_close => closes(after, is_end).map(|is_last| {
            if is_last {
                Meaning::Last
            } else {
                Meaning::Escape
            }
        }),
        c if ends(c) => Some(Meaning::Escape),
        // An escaped apostrophe, as in other languages.
        '\'' => Some(Meaning::Plain),
        'n' | 'r' | 't' => short(c, after, is_end),
        'b' | 'f' | '/' => Some(Meaning::Either),
        'u' => code(after, is_end),
        c if c.is_alphanumeric() => Some(Meaning::Text),
        _ => Some(Meaning::Either),
    };
    // At the end of the text the missing characters decide nothing.
    let found = found.or_else(|| is_end.then_some(Meaning::Plain))?;
    Some((1 + c.len_utf8(), found))
}

/// Returns the meaning of two backslashes before `after`. In a formula, two backslashes before
/// white space or another backslash end a row. Before a closing quote even a raw string needs two
/// backslashes.
fn pair(after: &str, ends: impl Fn(char) -> bool) -> Option<Meaning> {
    let mut chars = after.chars();
    Some(match chars.next()? {
        '\\' => match chars.next()? {
            c if c == '\\' || ends(c) => Meaning::Pair,
            _ => Meaning::RowEnd,
        },
        c if ends(c) => Meaning::Plain,
        c if c.is_whitespace() => Meaning::RowEnd,
        _ => Meaning::Pair,
    })
}

/// Whether a quote after a backslash closes a raw string, as in `"C:\docs\", "n": 1`: structure
/// follows this quote, but not the next one. `None` if the answer needs more text.
fn closes(after: &str, is_end: bool) -> Option<bool> {
    let text = after
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|&end| end <= NEXT_QUOTE)
        .last();
    let text = after.get(..text.unwrap_or(0)).unwrap_or_default();
    let is_whole = is_end || text.len() < after.len();
    let missing = || is_whole.then_some(false);
    let next = |text: &str| text.trim_ascii_start().chars().next();
    let Some(separator) = next(text) else {
        return missing();
    };
    let is_structure = match separator {
        '}' | ']' => true,
        ',' => match text.split_once(',').and_then(|(_, rest)| next(rest)) {
            Some(c) => matches!(c, '"' | '{' | '['),
            None => return missing(),
        },
        _ => false,
    };
    if !is_structure {
        return Some(false);
    }
    let mut rest = text;
    while let Some(at) = memchr2(b'\\', b'"', rest.as_bytes()) {
        let Some(after) = rest.get(at..).and_then(|rest| rest.strip_prefix('"')) else {
            let mut escaped = rest.get(at + 1..).unwrap_or_default().chars();
            escaped.next();
            rest = escaped.as_str();
            continue;
        };
        return match next(after) {
            Some(c) => Some(!matches!(c, ',' | '}' | ']' | ':')),
            None => missing(),
        };
    }
    is_whole.then_some(is_end && text.len() == after.len())
}

/// The most bytes between such a quote and the next one: no name is longer.
// A stream at the level `syntax` waits for this text after `\"` in a raw string. It is also the
// longest name of a file in common file systems, so a path that ends there has its closing quote in
// it.
const NEXT_QUOTE: usize = 256;

/// Whether two backslashes begin the path of a network share, as in `\\server\share`. `None` if the
/// answer needs more text.
fn begins_share(after: &str) -> Option<bool> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: usize = after
        .chars()
        .take(NAME + 1)
        .take_while(|&c| is_name(c))
        .map(char::len_utf8)
        .sum();
    if name > NAME {
        return Some(false);
    }
    let mut chars = after.get(name..).unwrap_or_default().chars();
    Some(chars.next()? == '\\' && name > 1 && !matches!(chars.next()?, '\\' | '"'))
}

/// The length of the longest server name, as in DNS.
const NAME: usize = 255;

/// Returns the meaning of `\n`, `\r` or `\t` before `after`: an escape before the beginning of a
/// line, and perhaps a word before a lower-case letter.
fn short(c: char, after: &str, is_end: bool) -> Option<Meaning> {
    let mut chars = after.chars();
    let next = chars.next()?;
    if c == 'r' {
        // No line ends with a carriage return alone, so before a letter the backslash is text.
        return Some(if next.is_alphabetic() {
            Meaning::Either
        } else {
            Meaning::Plain
        });
    }
    if next.is_lowercase() {
        let letters = after
            .bytes()
            .take(COMMAND + 1)
            .take_while(u8::is_ascii_alphabetic)
            .count();
        if letters > COMMAND {
            return Some(Meaning::Word);
        }
        let (name, rest) = after.split_at_checked(letters)?;
        if rest.is_empty() {
            return is_end.then_some(Meaning::Word);
        }
        // A line may begin with `e.g.`.
        return Some(if is_command(c, name) && !rest.starts_with('.') {
            Meaning::Either
        } else {
            Meaning::Word
        });
    }
    let begins_line = match next {
        '-' | '*' | '+' | '#' | '>' | '\u{2022}' => {
            chars.next().map(|c| c.is_whitespace() || c == next)?
        }
        '\\' => true,
        next => next.is_alphanumeric() || next.is_whitespace(),
    };
    Some(if c == 'n' && begins_line {
        Meaning::Escape
    } else {
        Meaning::Plain
    })
}

/// Returns the meaning of `\u` before `after`.
fn code(after: &str, is_end: bool) -> Option<Meaning> {
    let digits = after
        .bytes()
        .take_while(u8::is_ascii_hexdigit)
        .take(CODE)
        .count();
    if digits < CODE {
        if digits == after.len() {
            return None;
        }
        return match EscapeWord::after(after, is_end) {
            EscapeWord::Open => None,
            EscapeWord::Whole => Some(Meaning::Text),
            EscapeWord::Broken => Some(Meaning::Either),
        };
    }
    let (code, rest) = after.split_at_checked(CODE)?;
    if !code.bytes().any(|b| b.is_ascii_digit()) {
        // It may be a word: `\uface`.
        return Some(Meaning::Word);
    }
    let is_high = matches!(
        code.to_ascii_lowercase().get(..2),
        Some("d8" | "d9" | "da" | "db")
    );
    let next = rest.chars().next()?;
    let begins_text = match next {
        '\\' if is_high => {
            let low = rest.get(..LOW).map(str::to_ascii_lowercase)?;
            low.starts_with("\\ud") && low.ends_with(['c', 'd', 'e', 'f'])
        }
        next => next.is_alphabetic() || next.is_whitespace(),
    };
    Some(if begins_text {
        Meaning::Escape
    } else {
        Meaning::Word
    })
}

/// The length of the beginning of a pair's second half, as in `\udc`.
const LOW: usize = 4;

/// The number of digits in a `\u` escape.
pub(super) const CODE: usize = 4;

/// The text after `\u` that is not a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EscapeWord {
    /// The text ends in it.
    Open,
    /// A word without digits: `\users`.
    Whole,
    /// A broken code of an unknown character.
    Broken,
}

impl EscapeWord {
    /// Reads `text`, whose first [`CODE`] characters are not a code.
    pub(super) fn after(text: &str, is_end: bool) -> Self {
        let code: String = text.chars().take(CODE).collect();
        let end = code.find(|c: char| !c.is_ascii_alphanumeric());
        let word = end.and_then(|end| code.get(..end)).unwrap_or(&code);
        if word.len() == code.len() && code.len() < CODE && !is_end {
            Self::Open
        } else if word.is_empty() || word.contains(|c: char| c.is_ascii_digit()) {
            Self::Broken
        } else {
            Self::Whole
        }
    }
}

/// Whether `\n` or `\t` and `rest` are a LaTeX command. Without their first letter these commands
/// are not words (except `\tan`), so no line begins with them: the backslash is text even if the
/// writer escapes line ends.
fn is_command(first: char, rest: &str) -> bool {
    let (names, beginnings): (&[&str], &[&str]) = match first {
        'n' => (&N, &["subset", "supset", "left", "right", "triangle", "eq"]),
        _ => (&T, &["ext", "riangle", "hick"]),
    };
    names.contains(&rest)
        || beginnings
            .iter()
            .any(|beginning| rest.starts_with(beginning))
}

/// Commands of LaTeX that begin with `n`, without this letter.
const N: [&str; 20] = [
    "abla", "atural", "cong", "e", "earrow", "eg", "exists", "geq", "leq", "mid", "ot", "otin",
    "olimits", "onumber", "orm", "parallel", "prec", "sim", "u", "warrow",
];

/// Commands of LaTeX that begin with `t`, without this letter.
const T: [&str; 15] = [
    "ag",
    "an",
    "anh",
    "au",
    "binom",
    "frac",
    "herefore",
    "heta",
    "ilde",
    "imes",
    "iny",
    "o",
    "op",
    "woheadrightarrow",
    "hinspace",
];

/// The length of the longest of these commands.
// A longer run of letters is a word. A stream waits for at most these bytes after `\n` and `\t`.
const COMMAND: usize = 18;
