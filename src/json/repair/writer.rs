//! Whether the writer of a string escaped it, and what that makes of each backslash.
//!
//! A string is escaped or it is not. A backslash before a letter without an escape, as in `\d`, proves that its writer
//! did not escape: `\b` and `\f` in the same string are text, too. Line ends are the exception: many writers of raw
//! formulas and paths still write `\n` for a line end, so `\n`, `\t` and `\r` are text only before a letter that could
//! belong to a word, and only if nothing shows that the writer escapes. The decision needs the rest of the string.

use memchr::memchr2;

use super::attempt::Source;
use super::recovery::Quote;

/// The evidence in the open string: the first offset of each kind in the text as written, `usize::MAX` for none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    /// The opening quote of the string in the repaired text.
    pub(super) token: usize,
    /// The offset of a backslash that begins the string.
    first: Option<usize>,
    /// The end of the text that was searched for evidence, and whether the string ends there.
    read: usize,
    is_over: bool,
    /// A backslash that is text: the writer does not escape.
    raw: usize,
    /// An escape that only a writer who escapes makes.
    escape: usize,
    /// A backslash that was escaped.
    pair: usize,
}

/// What becomes of a backslash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// These bytes are read as the grammar and the other recoveries have them.
    Keep(usize),
    /// So many backslashes are text, and are doubled.
    Double(usize),
    /// The text that follows decides, and has not come.
    Wait,
}

/// What a backslash and the text after it say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The same in every string.
    Plain,
    /// An escape that shows that its writer escapes.
    Escape,
    /// An escaped backslash, which shows the same.
    Pair,
    /// Two backslashes: text in a raw string, one escaped backslash in another.
    RowEnd,
    /// Text in a raw string, unless its writer escapes some characters.
    Word,
    /// Text in a raw string.
    Either,
    /// Text in any string.
    Text,
    /// The last character of a raw string, before its closing quote.
    Last,
}

impl Writer {
    /// Creates the evidence for the string at `token`, before its first backslash at `at`.
    pub(super) fn new(token: usize, at: usize, is_first: bool) -> Self {
        let (first, none) = (is_first.then_some(at), usize::MAX);
        Self { token, first, read: at, is_over: false, raw: none, escape: none, pair: none }
    }

    /// Returns what becomes of the backslash at `at`. A stream decides at the end of the string, or after the look-ahead;
    /// a whole text sees the whole string.
    pub(super) fn fate(&mut self, at: usize, quote: Option<Quote>, source: &Source<'_>) -> Fate {
        if at > self.read {
            // No backslash lies between; or a guess has made the quote that ended the string a part of it.
            (self.read, self.is_over) = (at, false);
        }
        self.search(quote, source);
        let Some((len, meaning)) = self.meaning(at, quote, source) else { return Fate::Wait };
        let reach = if source.is_end { usize::MAX } else { at.saturating_add(source.options.lookahead()) };
        let is_decided = source.is_end || self.is_over || self.read >= reach;
        let is_raw = self.raw < reach;
        let doubled = match meaning {
            Meaning::Plain | Meaning::Escape | Meaning::Pair => Some(false),
            Meaning::Text | Meaning::Last => Some(true),
            Meaning::Word if self.escape < reach => Some(false),
            Meaning::RowEnd if self.pair < reach => Some(false),
            Meaning::Either if is_raw => Some(true),
            _ => is_decided.then_some(is_raw),
        };
        let backslashes = if meaning == Meaning::RowEnd { 2 } else { 1 };
        match doubled {
            None => Fate::Wait,
            Some(true) => Fate::Double(backslashes),
            Some(false) => Fate::Keep(len),
        }
    }

    /// Searches the text that has come for evidence, up to the end of the string.
    fn search(&mut self, quote: Option<Quote>, source: &Source<'_>) {
        while !self.is_over {
            let rest = source.rest(self.read);
            let found = match quote {
                None => memchr2(b'\\', b'"', rest.as_bytes()),
                Some(quote) => rest.find(|c: char| c == '\\' || quote.ends(c)),
            };
            self.read += found.unwrap_or(rest.len());
            if found.is_none() {
                return;
            }
            if !source.rest(self.read).starts_with('\\') {
                self.is_over = true;
                return;
            }
            let Some((len, meaning)) = self.meaning(self.read, quote, source) else { return };
            let at = self.read;
            match meaning {
                Meaning::Text => self.raw = self.raw.min(at),
                Meaning::Escape => self.escape = self.escape.min(at),
                Meaning::Pair => (self.escape, self.pair) = (self.escape.min(at), self.pair.min(at)),
                _ => {}
            }
            if meaning == Meaning::Last {
                (self.read, self.is_over) = (at + 1, true);
                return;
            }
            self.read += len;
        }
    }

    /// Returns the length and the meaning of the escape at `at`; `None` if more text must come.
    fn meaning(&self, at: usize, quote: Option<Quote>, source: &Source<'_>) -> Option<(usize, Meaning)> {
        let rest = source.rest(at).strip_prefix('\\').unwrap_or_default();
        let ends = |c: char| match quote {
            None => c == '"',
            Some(quote) => c == '"' || quote.ends(c),
        };
        let Some(c) = rest.chars().next() else { return source.is_end.then_some((1, Meaning::Plain)) };
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let found = match c {
            '\\' if self.first == Some(at) && begins_share(after).or(source.is_end.then_some(false))? => {
                Some(Meaning::RowEnd)
            }
            '\\' => pair(after, ends),
            '"' if quote.is_none() && self.raw < at && self.escape >= at => {
                closes(after, source.is_end).map(|is_last| if is_last { Meaning::Last } else { Meaning::Escape })
            }
            c if ends(c) => Some(Meaning::Escape),
            // An apostrophe that a writer of another language escaped.
            '\'' => Some(Meaning::Plain),
            'n' | 'r' | 't' => short(c, after, source.is_end),
            'b' | 'f' | '/' => Some(Meaning::Either),
            'u' => code(after, source.is_end),
            c if c.is_alphanumeric() => Some(Meaning::Text),
            _ => Some(Meaning::Either),
        };
        // Where the text ends, nothing speaks for a word.
        let found = found.or_else(|| source.is_end.then_some(Meaning::Plain))?;
        Some((1 + c.len_utf8(), found))
    }
}

/// Returns the meaning of two backslashes before `after`. A row of a formula ends with two, and white space or another
/// backslash follows; before a closing quote even a writer who does not escape needs two.
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

/// Whether a quote after a backslash closes a raw string, as in `"C:\\docs\\", "n": 1`: structure follows, and with an
/// escaped quote the string would end where none follows, or not at all. `None` if more text must come.
fn closes(after: &str, is_end: bool) -> Option<bool> {
    let text = after.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&end| end <= NEXT_QUOTE).last();
    let text = after.get(..text.unwrap_or(0)).unwrap_or_default();
    let is_whole = is_end || text.len() < after.len();
    let missing = || is_whole.then_some(false);
    let next = |text: &str| text.trim_ascii_start().chars().next();
    let Some(separator) = next(text) else { return missing() };
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

/// The bytes after a quote in which the next one decides. A name and its colon are shorter.
const NEXT_QUOTE: usize = 256;

/// Whether the name of a server and a single backslash follow, as in `\\server\share`. `None` if more text must come.
fn begins_share(after: &str) -> Option<bool> {
    let name = after.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.')));
    let Some(name) = name else { return (after.len() >= NAME).then_some(false) };
    let mut chars = after.get(name..).unwrap_or_default().chars();
    Some(name > 1 && chars.next() == Some('\\') && !matches!(chars.next()?, '\\' | '"'))
}

/// The longest name of a server.
const NAME: usize = 255;

/// Returns the meaning of `\n`, `\r` or `\t` before `after`.
fn short(c: char, after: &str, is_end: bool) -> Option<Meaning> {
    let mut chars = after.chars();
    let next = chars.next()?;
    if c == 'r' {
        // A carriage return stands before a line feed, before a letter it is none.
        return Some(if next.is_alphabetic() { Meaning::Either } else { Meaning::Plain });
    }
    if next.is_lowercase() {
        let letters = after.find(|c: char| !c.is_ascii_alphabetic());
        let Some(letters) = letters else { return (is_end || after.len() > COMMAND).then_some(Meaning::Word) };
        let (name, rest) = after.split_at_checked(letters)?;
        return Some(if is_command(c, name) && !rest.starts_with('.') { Meaning::Either } else { Meaning::Word });
    }
    let begins_line = match next {
        '-' | '*' | '+' | '#' | '>' | '\u{2022}' => chars.next().map(|c| c.is_whitespace() || c == next)?,
        '\\' => true,
        next => next.is_alphanumeric() || next.is_whitespace(),
    };
    Some(if c == 'n' && begins_line { Meaning::Escape } else { Meaning::Plain })
}

/// Returns the meaning of `\u` before `after`.
fn code(after: &str, is_end: bool) -> Option<Meaning> {
    let digits = after.bytes().take_while(u8::is_ascii_hexdigit).take(CODE).count();
    if digits < CODE {
        if digits == after.len() {
            return None;
        }
        return match Word::after(after, is_end) {
            Word::Open => None,
            Word::Whole => Some(Meaning::Text),
            Word::Broken => Some(Meaning::Either),
        };
    }
    let (code, rest) = after.split_at_checked(CODE)?;
    if !code.bytes().any(|b| b.is_ascii_digit()) {
        // As likely a word: `\uface`.
        return Some(Meaning::Word);
    }
    let is_high = matches!(code.to_ascii_lowercase().get(..2), Some("d8" | "d9" | "da" | "db"));
    let next = rest.chars().next()?;
    let begins_text = match next {
        '\\' if is_high => {
            let low = rest.get(..LOW).map(str::to_ascii_lowercase)?;
            low.starts_with("\\ud") && low.ends_with(['c', 'd', 'e', 'f'])
        }
        next => next.is_alphabetic() || next.is_whitespace(),
    };
    Some(if begins_text { Meaning::Escape } else { Meaning::Word })
}

/// The beginning of the second half of a surrogate pair, as in `\udc`.
const LOW: usize = 4;

/// The digits of a `\u` escape.
pub(super) const CODE: usize = 4;

/// The text after `\u` where no code follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The text ends in it.
    Open,
    /// A word without digits: `\users`.
    Whole,
    /// A broken code: nobody knows which character.
    Broken,
}

impl Word {
    /// Returns what `text` is, of which the first [`CODE`] characters are no code.
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

/// Whether `\n` or `\t` and `rest` are a command of a formula. These are no words without their first letter, but for
/// `\tan`: a line end or a tab before them is unlikely, even if the writer escapes those.
fn is_command(first: char, rest: &str) -> bool {
    let (names, beginnings): (&[&str], &[&str]) = match first {
        'n' => (&N, &["subset", "supset", "left", "right", "triangle", "eq"]),
        _ => (&T, &["ext", "riangle", "hick"]),
    };
    names.contains(&rest) || beginnings.iter().any(|beginning| rest.starts_with(beginning))
}

/// Commands that begin with `\n`, without that.
const N: [&str; 20] = [
    "abla", "atural", "cong", "e", "earrow", "eg", "exists", "geq", "leq", "mid", "ot", "otin", "olimits", "onumber",
    "orm", "parallel", "prec", "sim", "u", "warrow",
];

/// Commands that begin with `\t`, without that.
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

/// The longest of them.
const COMMAND: usize = 18;
