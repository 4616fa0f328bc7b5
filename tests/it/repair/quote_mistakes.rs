//! Mistakes with quotes: lost, unescaped, too many.

use std::ops::Range;

use super::mistake::{Edit, Mistake, Row, one};
use super::source::{Class, Source, units};
use restitch_testing::Rng;

/// The kinds.
pub(crate) const GUESS: &[Row] = &[
    ("lost quote after a key, string", |s, rng| {
        after_key(s, rng, |value| value == b'"')
    }),
    ("lost quote after a key, object", |s, rng| {
        after_key(s, rng, |value| value == b'{')
    }),
    ("lost quote after a key, array", |s, rng| {
        after_key(s, rng, |value| value == b'[')
    }),
    ("lost quote after a key, number", |s, rng| {
        after_key(s, rng, |value| value == b'-' || value.is_ascii_digit())
    }),
    ("lost quote after a key, literal", |s, rng| {
        after_key(s, rng, |value| b"tfn".contains(&value))
    }),
    ("quote after the colon, string", key_colon_quote),
    ("lost quote before a key", before_key),
    ("quotes as in HTML, unescaped", |s, rng| {
        bare_quotes(s, rng, true)
    }),
    ("quotes of other text, unescaped", |s, rng| {
        bare_quotes(s, rng, false)
    }),
    ("HTML attribute inserted", html_attribute),
    ("quoted words inserted", quoted_words),
    ("quoted words at an end", quoted_end),
    ("unterminated string, value", |s, rng| {
        unterminated(s, rng, true)
    }),
    ("unterminated string, element", |s, rng| {
        unterminated(s, rng, false)
    }),
    ("lost quote before a value", before_value),
    ("stray quote between objects", stray_quote),
    ("unquoted key", unquoted_key),
    ("unquoted words", unquoted_words),
];

fn first_byte(source: &Source, index: usize) -> u8 {
    source.text.as_bytes()[source.tokens[index].range.start]
}

fn after_key(source: &Source, rng: &mut Rng, is_value: impl Fn(u8) -> bool) -> Option<Mistake> {
    let key = one(source, rng, |s, i| {
        s.class(i) == Some(Class::Key) && is_value(first_byte(s, i + 2))
    })?;
    let end = source.tokens[key].range.end;
    Some(Mistake::replace(end - 1..end, ""))
}

/// The key's quote comes after the colon: `"key": "text"` becomes `"key: "text"`, or
/// `"key:" "text"`.
fn key_colon_quote(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let is_near = |s: &Source, i: usize| s.tokens[i].range.end == s.tokens[i + 1].range.start;
    let key = one(source, rng, |s, i| {
        s.class(i) == Some(Class::Key) && first_byte(s, i + 2) == b'"' && is_near(s, i)
    })?;
    let end = source.tokens[key].range.end;
    Some(Mistake::replace(end - 1..end + 1, ":\""))
}

fn before_key(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let key = one(source, rng, |s, i| {
        s.class(i) == Some(Class::Key) && is_wordy(s, i)
    })?;
    let start = source.tokens[key].range.start;
    Some(Mistake::replace(start..start + 1, ""))
}

fn before_value(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let value = one(source, rng, |s, i| {
        s.class(i) == Some(Class::Text) && is_wordy(s, i)
    })?;
    let start = source.tokens[value].range.start;
    Some(Mistake::replace(start..start + 1, ""))
}

/// Whether a string has letters, spaces and dashes alone, is no literal, and begins and ends with a
/// letter.
fn is_wordy(source: &Source, index: usize) -> bool {
    let inner = &source.text[source.inner(index)];
    let is_part = |c: char| c.is_alphabetic() || matches!(c, ' ' | '-' | '_');
    let ends = inner.starts_with(char::is_alphabetic) && inner.ends_with(char::is_alphabetic);
    let lower = inner.to_lowercase();
    ends && inner.chars().all(is_part)
        && ![
            "true",
            "false",
            "null",
            "none",
            "nan",
            "infinity",
            "undefined",
        ]
        .contains(&lower.as_str())
}

/// All escaped quotes of a string lose their backslashes.
fn bare_quotes(source: &Source, rng: &mut Rng, is_html: bool) -> Option<Mistake> {
    let quotes = |s: &Source, i: usize| {
        let all = units(&s.text, s.inner(i)).filter(|unit| &s.text[unit.clone()] == "\\\"");
        all.collect::<Vec<_>>()
    };
    let fits = |s: &Source, i: usize| {
        s.class(i) == Some(Class::Text)
            && s.of(i).contains("=\\\"") == is_html
            && !quotes(s, i).is_empty()
    };
    let string = one(source, rng, fits)?;
    let edits = quotes(source, string).into_iter().map(|unit| Edit {
        range: unit.start..unit.start + 1,
        text: "".into(),
    });
    Some(Mistake {
        broken: edits.collect(),
        ..Mistake::default()
    })
}

/// Inserts a text whose quotes have no backslash; the truth has them.
fn insert_both(at: usize, text: &str) -> Mistake {
    let truth = Edit {
        range: at..at,
        text: text.replace('"', "\\\""),
    };
    Mistake {
        truth: vec![truth],
        ..Mistake::insert(at, text)
    }
}

/// Replaces a range of a string by a text whose quotes have no backslash.
fn replace_both(range: Range<usize>, text: &str) -> Mistake {
    let truth = Edit {
        range: range.clone(),
        text: text.replace('"', "\\\""),
    };
    Mistake {
        truth: vec![truth],
        ..Mistake::replace(range, text)
    }
}

/// Returns a space between two words of a string value that has no quotes yet.
fn gap(source: &Source, rng: &mut Rng) -> Option<usize> {
    let gaps = |s: &Source, i: usize| {
        let inner = s.inner(i);
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_gap = |at: &usize| {
            s.text.as_bytes()[*at] == b' '
                && is_letter(s.text[..*at].chars().next_back())
                && is_letter(s.text[*at + 1..inner.end].chars().next())
        };
        inner.clone().filter(is_gap).collect::<Vec<_>>()
    };
    let has_gap = |s: &Source, i| {
        s.class(i) == Some(Class::Text) && !s.of(i).contains("\\\"") && !gaps(s, i).is_empty()
    };
    let string = one(source, rng, has_gap)?;
    let all = gaps(source, string);
    Some(all[rng.below(all.len())])
}

fn html_attribute(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    const TAGS: [&str; 5] = [
        " <a href=\"https://example.org/a?b=1&c=2\">here</a>",
        " <img src=\"x.png\" alt=\"A, b\"/>",
        " <p class=\"note\">",
        " <code class=\"language-bash\">ls</code>",
        " <td colspan=\"2\" style=\"color: red\">",
    ];
    Some(insert_both(gap(source, rng)?, rng.pick(&TAGS)))
}

fn quoted_words(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    const WORDS: [&str; 6] = [
        " said \"yes\" to",
        " \"smart\"",
        ", \"so it was,\"",
        " the \"A: b\" rule",
        " (\"in short\")",
        " \"is\" and \"was\"",
    ];
    Some(insert_both(gap(source, rng)?, rng.pick(&WORDS)))
}

/// The first or the last words of a string are in quotes.
fn quoted_end(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let at = gap(source, rng)?;
    let string = source.tokens.partition_point(|token| token.range.end <= at);
    let inner = source.inner(string);
    if rng.below(2) == 0 {
        let word = &source.text[inner.start..at];
        Some(replace_both(inner.start..at, &format!("\"{word}\"")))
    } else {
        let word = &source.text[at + 1..inner.end];
        Some(replace_both(at + 1..inner.end, &format!("\"{word}\"")))
    }
}

fn unterminated(source: &Source, rng: &mut Rng, in_object: bool) -> Option<Mistake> {
    let fits = |s: &Source, i| s.class(i) == Some(Class::Text) && s.in_object(i) == in_object;
    let string = one(source, rng, |s, i| fits(s, i) && i + 1 < s.tokens.len())?;
    let end = source.tokens[string].range.end;
    Some(Mistake::replace(end - 1..end, ""))
}

/// `}, {` becomes `},"{`, or `}, {"` loses its place: `},"{"`.
fn stray_quote(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let is_object = |s: &Source, i: usize| {
        s.class(i) == Some(Class::Open) && s.of(i) == "{" && s.class(i + 1) == Some(Class::Key)
    };
    let fits = |s: &Source, i: usize| {
        i >= 2
            && is_object(s, i)
            && s.class(i - 1) == Some(Class::Comma)
            && s.class(i - 2) == Some(Class::Close)
    };
    let open = one(source, rng, fits)?;
    let start = source.tokens[open].range.start;
    Some(Mistake::insert(start, "\""))
}

fn unquoted_key(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let is_name = |s: &Source, i: usize| {
        let inner = &s.text[s.inner(i)];
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
        inner.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '$'))
            && inner.chars().all(is_part)
    };
    let key = one(source, rng, |s, i| {
        s.class(i) == Some(Class::Key) && is_name(s, i)
    })?;
    Some(Mistake::replace(
        source.tokens[key].range.clone(),
        &source.text[source.inner(key)],
    ))
}

fn unquoted_words(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let value = one(source, rng, |s, i| {
        s.class(i) == Some(Class::Text) && is_wordy(s, i)
    })?;
    Some(Mistake::replace(
        source.tokens[value].range.clone(),
        &source.text[source.inner(value)],
    ))
}
