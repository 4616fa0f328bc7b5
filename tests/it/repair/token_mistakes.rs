//! Mistakes in single tokens and between them: what the level `syntax` repairs.

use super::mistake::{Edit, Mistake, Row, one};
use super::source::{Class, Source, units};
use restitch_testing::Rng;

/// The kinds.
pub(crate) const SYNTAX: &[Row] = &[
    ("trailing comma", trailing_comma),
    ("doubled comma", doubled_comma),
    ("leading comma", leading_comma),
    ("missing comma", missing_comma),
    ("raw control character", raw_control),
    ("escaped underscore or apostrophe", escaped_mark),
    ("halved backslash", halved_backslash),
    ("single quotes", single_quotes),
    ("typographic quotes", typographic_quotes),
    ("Python literal", python_literal),
    ("printed by Python", printed_by_python),
    ("comment", comment),
    ("BOM or foreign space", foreign_space),
    ("cut before the closers", cut),
];

fn is_string(source: &Source, index: usize) -> bool {
    matches!(source.class(index), Some(Class::Key | Class::Text))
}

fn trailing_comma(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let closer = one(source, rng, |s, i| {
        i > 0 && s.class(i) == Some(Class::Close) && s.class(i - 1) != Some(Class::Open)
    })?;
    let at = match rng.below(3) {
        0 => source.tokens[closer].range.start,
        _ => source.tokens[closer - 1].range.end,
    };
    Some(Mistake::insert(at, ","))
}

fn doubled_comma(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let comma = one(source, rng, |s, i| s.class(i) == Some(Class::Comma))?;
    Some(Mistake::insert(
        source.tokens[comma].range.end,
        rng.pick(&[",", " ,", "\n,"]),
    ))
}

fn leading_comma(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let is_opener =
        |s: &Source, i| s.class(i) == Some(Class::Open) && s.class(i + 1) != Some(Class::Close);
    let opener = one(source, rng, is_opener)?;
    Some(Mistake::insert(
        source.tokens[opener].range.end,
        rng.pick(&[",", " , "]),
    ))
}

/// Two numbers or words without white space between them would become one: a space takes the
/// comma's place there.
fn missing_comma(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let comma = one(source, rng, |s, i| s.class(i) == Some(Class::Comma))?;
    let range = source.tokens[comma].range.clone();
    let is_word = |index| matches!(source.class(index), Some(Class::Number | Class::Literal));
    let is_joined = source.tokens[comma + 1].range.start == range.end
        && is_word(comma - 1)
        && is_word(comma + 1);
    Some(Mistake::replace(range, if is_joined { " " } else { "" }))
}

fn raw_control(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    const ESCAPES: [(&str, &str); 3] = [("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r")];
    let has = |unit: &str| ESCAPES.iter().find(|(escape, _)| *escape == unit);
    let has_one = |s: &Source, i| {
        is_string(s, i) && units(&s.text, s.inner(i)).any(|unit| has(&s.text[unit]).is_some())
    };
    let string = one(source, rng, has_one)?;
    let all = units(&source.text, source.inner(string));
    let edits = all.filter_map(|unit| has(&source.text[unit.clone()]).map(|(_, raw)| (unit, raw)));
    Some(some_of(
        edits
            .map(|(range, raw)| Edit {
                range,
                text: (*raw).to_owned(),
            })
            .collect(),
        rng,
    ))
}

fn escaped_mark(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let is_mark = |unit: &str| matches!(unit, "_" | "'");
    let has_one = |s: &Source, i| {
        is_string(s, i) && units(&s.text, s.inner(i)).any(|unit| is_mark(&s.text[unit]))
    };
    let string = one(source, rng, has_one)?;
    let marks = units(&source.text, source.inner(string))
        .filter(|unit| is_mark(&source.text[unit.clone()]));
    Some(some_of(
        marks
            .map(|unit| Edit {
                range: unit.start..unit.start,
                text: "\\".into(),
            })
            .collect(),
        rng,
    ))
}

/// A backslash of the text that was not escaped, before a letter that makes no escape: `C:\\dir`
/// becomes `C:\dir`.
fn halved_backslash(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let halves = |s: &Source, i: usize| {
        let after = |end: usize| s.text[end..].chars().next().unwrap_or('"');
        let all = units(&s.text, s.inner(i)).filter(|unit| &s.text[unit.clone()] == "\\\\");
        let is_lost = |c: char| c.is_ascii_alphabetic() && !"bfnrtu".contains(c);
        all.filter(|unit| is_lost(after(unit.end)))
            .map(|unit| unit.start..unit.start + 1)
            .collect::<Vec<_>>()
    };
    let string = one(source, rng, |s, i| {
        is_string(s, i) && !halves(s, i).is_empty()
    })?;
    let edits = halves(source, string).into_iter().map(|range| Edit {
        range,
        text: String::new(),
    });
    Some(some_of(edits.collect(), rng))
}

/// All of the edits, or one of them.
fn some_of(mut edits: Vec<Edit>, rng: &mut Rng) -> Mistake {
    if rng.below(2) == 0 {
        edits = vec![edits.swap_remove(rng.below(edits.len()))];
    }
    Mistake {
        broken: edits,
        ..Mistake::default()
    }
}

/// Returns a string's inner text as Python prints it between single quotes.
fn python_inner(source: &Source, string: usize) -> String {
    let all = units(&source.text, source.inner(string)).map(|unit| match &source.text[unit] {
        "'" => "\\'",
        "\\\"" => "\"",
        "\\/" => "/",
        unit => unit,
    });
    all.collect()
}

fn single_quotes(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let string = one(source, rng, is_string)?;
    Some(Mistake::replace(
        source.tokens[string].range.clone(),
        format!("'{}'", python_inner(source, string)),
    ))
}

/// A string that has the closing mark itself would end there, so it is not taken.
fn typographic_quotes(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    const PAIRS: [&str; 3] = ["“”", "„“", "‘’"];
    let pair = rng.pick(&PAIRS);
    let string = one(source, rng, |s, i| {
        is_string(s, i) && !s.of(i).contains(|c| pair.contains(c))
    })?;
    let mut marks = pair.chars();
    let (open, close) = (marks.next()?, marks.next()?);
    let inner = &source.text[source.inner(string)];
    Some(Mistake::replace(
        source.tokens[string].range.clone(),
        format!("{open}{inner}{close}"),
    ))
}

fn as_python(literal: &str) -> &'static str {
    match literal {
        "true" => "True",
        "false" => "False",
        _ => "None",
    }
}

fn python_literal(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let literal = one(source, rng, |s, i| s.class(i) == Some(Class::Literal))?;
    let python = as_python(source.of(literal));
    let text = if rng.below(4) == 0 {
        source.of(literal).to_uppercase()
    } else {
        python.to_owned()
    };
    Some(Mistake::replace(source.tokens[literal].range.clone(), text))
}

/// A container as Python's `repr` prints it: single quotes, or double ones around text that has
/// single quotes alone.
fn printed_by_python(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let open = one(source, rng, |s, i| {
        s.class(i) == Some(Class::Open) && s.class(i + 1) != Some(Class::Close)
    })?;
    let mut broken = Vec::new();
    for index in open..source.tokens[open].pair {
        let text = match source.class(index)? {
            Class::Key | Class::Text => {
                let (inner, written) = (python_inner(source, index), source.of(index));
                if written.contains('\'') && !written.contains("\\\"") {
                    continue;
                } else {
                    format!("'{inner}'")
                }
            }
            Class::Literal => as_python(source.of(index)).to_owned(),
            _ => continue,
        };
        broken.push(Edit {
            range: source.tokens[index].range.clone(),
            text,
        });
    }
    (!broken.is_empty()).then(|| Mistake {
        broken,
        ..Mistake::default()
    })
}

/// Returns a place between two tokens inside the root: most after a comma, an opener or before a
/// closer.
fn between(source: &Source, rng: &mut Rng) -> Option<usize> {
    let inside = 1..source.tokens.len();
    (inside.end > 1).then_some(())?;
    let index = inside.start + rng.below(inside.len());
    Some(if rng.below(2) == 0 {
        source.tokens[index].range.start
    } else {
        source.tokens[index - 1].range.end
    })
}

fn comment(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    const COMMENTS: [&str; 9] = [
        "// first item\n",
        "// the \"name\" isn't final\n",
        " // see https://example.org/a, b: [c]\n",
        "/* note */",
        " /* spans\n two lines, with a \"quote */ ",
        "/***/",
        "<!-- note, \"a\": [1] -->",
        " # added by hand\n",
        " # don't use {this}\n",
    ];
    Some(Mistake::insert(between(source, rng)?, rng.pick(&COMMENTS)))
}

fn foreign_space(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let space = rng.pick(&[
        "\u{feff}",
        "\u{a0}",
        "\u{2003}",
        "\u{200b}",
        "\u{3000}",
        "\u{a0}\u{a0} ",
    ]);
    Some(Mistake::insert(between(source, rng)?, space))
}

/// The closers of the root are missing, all of them or some.
fn cut(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let closers = source
        .tokens
        .iter()
        .rev()
        .take_while(|token| token.class == Class::Close)
        .count();
    (closers > 0).then_some(())?;
    let first = source.tokens.len() - 1 - rng.below(closers);
    let start = source.tokens[first - 1].range.end;
    Some(Mistake {
        is_cut: true,
        ..Mistake::replace(start..source.text.len(), "")
    })
}
