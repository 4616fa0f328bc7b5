//! Other spellings of the same JSON string.

/// A character of a string, or half a surrogate pair, as raw text between the quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    /// Where it begins, in bytes from the start of the text between the quotes.
    pub(crate) at: usize,
    pub(crate) written: &'a str,
    /// The character it means; `None` for half of a surrogate pair that is alone.
    pub(super) says: Option<char>,
}

impl Unit<'_> {
    pub(super) fn is_escaped(&self) -> bool {
        self.written.starts_with('\\')
    }
}

/// How to write a character that has several spellings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// As in the document.
    Same,
    /// With escapes, including line ends and slashes.
    Ascii,
    /// Without escapes.
    Plain,
    /// Escaped if the document has it literally, and literal if the document has it escaped.
    Swapped,
}

/// Returns the characters of the text between two quotes.
pub(crate) fn units(inner: &str) -> impl Iterator<Item = Unit<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &inner[at..];
        let (length, says) = first(rest)?;
        let unit = Unit {
            at,
            written: &rest[..length],
            says,
        };
        at += length;
        Some(unit)
    })
}

/// Returns the length of the first character's spelling, and the character.
fn first(rest: &str) -> Option<(usize, Option<char>)> {
    let first = rest.chars().next()?;
    let decoded = |length: usize| {
        let written = rest.get(..length)?;
        serde_json::from_str::<char>(&format!("\"{written}\"")).ok()
    };
    Some(match first {
        '\\' if rest.starts_with("\\u") => match decoded(SURROGATES) {
            Some(pair) => (SURROGATES, Some(pair)),
            None => (UNICODE.min(rest.len()), decoded(UNICODE)),
        },
        '\\' => (2.min(rest.len()), decoded(2)),
        _ => (first.len_utf8(), Some(first)),
    })
}

/// The lengths of `\uXXXX` and of two of them.
const UNICODE: usize = 6;
const SURROGATES: usize = 2 * UNICODE;

/// Writes the text between two quotes in another spelling.
pub(super) fn respell(inner: &str, spelling: Spelling, out: &mut String) {
    for unit in units(inner) {
        let (Some(says), true) = (unit.says, spelling != Spelling::Same) else {
            out.push_str(unit.written);
            continue;
        };
        let is_long = unit.written.starts_with("\\u");
        // Returns whether to use the longer of two spellings. `has`: the document has the longer
        // one.
        let longer = |has: bool| match spelling {
            Spelling::Same => has,
            Spelling::Ascii => true,
            Spelling::Plain => false,
            Spelling::Swapped => !has,
        };
        let short = match says {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            _ => None,
        };
        match short {
            // Longer spellings of a quote and a backslash are legal, but no model writes them.
            Some(short) if matches!(says, '"' | '\\') || !longer(is_long) => out.push_str(short),
            Some(_) => escape(says, out),
            None if says < ' ' => escape(says, out),
            None if says == '/' => out.push_str(if longer(unit.is_escaped()) {
                "\\/"
            } else {
                "/"
            }),
            None if says.is_ascii() || !longer(unit.is_escaped()) => out.push(says),
            None => escape(says, out),
        }
    }
}

/// Writes `\uXXXX`, twice for a character above the basic plane.
fn escape(says: char, out: &mut String) {
    let mut halves = [0; 2];
    for half in says.encode_utf16(&mut halves) {
        out.push_str(&format!("\\u{half:04x}"));
    }
}
