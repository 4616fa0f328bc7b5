//! Mistakes with brackets and colons.

use super::mistake::{Mistake, Row, one};
use super::source::{Class, Source};
use restitch_testing::Rng;

/// The kinds that the text after the mistake decides.
pub(crate) const GUESS: &[Row] = &[
    ("missing colon", missing_colon),
    ("missing closer, object among elements", |s, rng| {
        missing_closer(s, rng, "}", "[")
    }),
    ("missing closer, array in an object", |s, rng| {
        missing_closer(s, rng, "]", "{")
    }),
    ("closer of another kind too many", other_closer),
    ("stray bracket between objects", |s, rng| {
        stray_bracket(s, rng, false)
    }),
    ("stray bracket between objects of the root", |s, rng| {
        stray_bracket(s, rng, true)
    }),
    ("closer doubled, the root goes on", |s, rng| {
        doubled_closer(s, rng, true)
    }),
    ("text after the root", |s, rng| {
        after_root(
            s,
            rng,
            &["\nI hope this helps!", "\n```\n", "  Done: \"all\" [1]."],
        )
    }),
    ("closer after the root", |s, rng| {
        after_root(s, rng, &["}", "]", "]}", "\n}"])
    }),
];

/// The kinds whose broken text reads like a valid continuation. A container without its closer
/// takes the members of the one around it; a second closer ends the container around.
pub(crate) const UNDECIDABLE: &[Row] = &[
    ("(missing closer, object in an object)", |s, rng| {
        missing_closer(s, rng, "}", "{")
    }),
    ("(missing closer, array among elements)", |s, rng| {
        missing_closer(s, rng, "]", "[")
    }),
    ("(closer doubled)", |s, rng| doubled_closer(s, rng, false)),
];

fn missing_colon(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let colon = one(source, rng, |s, i| s.class(i) == Some(Class::Colon))?;
    Some(Mistake::replace(source.tokens[colon].range.clone(), ""))
}

/// Removes `closer` of a container that is directly inside one that `around` opens.
fn missing_closer(source: &Source, rng: &mut Rng, closer: &str, around: &str) -> Option<Mistake> {
    let fits = |s: &Source, i: usize| {
        s.class(i) == Some(Class::Close)
            && s.of(i) == closer
            && s.class(i - 1) != Some(Class::Open)
            && s.tokens[i]
                .parent
                .is_some_and(|parent| s.of(parent) == around)
    };
    let index = one(source, rng, fits)?;
    Some(Mistake::replace(source.tokens[index].range.clone(), ""))
}

/// Inserts a closer after the closer of an inner container, of a kind that the container around
/// can't have.
fn other_closer(source: &Source, rng: &mut Rng) -> Option<Mistake> {
    let index = one(source, rng, |s, i| {
        s.class(i) == Some(Class::Close) && s.tokens[i].parent.is_some()
    })?;
    let closer = if source.in_object(index) { "]" } else { "}" };
    Some(Mistake::insert(source.tokens[index].range.end, closer))
}

/// Inserts a closer after the closer of an inner container that ends the container around before
/// its next member: the root, or another one.
fn doubled_closer(source: &Source, rng: &mut Rng, is_root: bool) -> Option<Mistake> {
    let fits = |s: &Source, i: usize| {
        s.class(i) == Some(Class::Close)
            && s.class(i + 1) == Some(Class::Comma)
            && s.tokens[i]
                .parent
                .is_some_and(|parent| (parent == 0) == is_root)
    };
    let index = one(source, rng, fits)?;
    let closer = if source.in_object(index) { "}" } else { "]" };
    Some(Mistake::insert(source.tokens[index].range.end, closer))
}

/// `}, {` becomes `}], {`, in an array that a member has, or in the root.
fn stray_bracket(source: &Source, rng: &mut Rng, is_root: bool) -> Option<Mistake> {
    let is_object = |s: &Source, i| s.class(i).is_some() && s.of(i) == "{";
    let fits = |s: &Source, i: usize| {
        s.class(i) == Some(Class::Close)
            && s.of(i) == "}"
            && s.class(i + 1) == Some(Class::Comma)
            && is_object(s, i + 2)
            && s.tokens[i].parent.is_some_and(|parent| {
                if is_root {
                    parent == 0
                } else {
                    s.in_object(parent)
                }
            })
    };
    let index = one(source, rng, fits)?;
    Some(Mistake::insert(source.tokens[index].range.end, "]"))
}

fn after_root(source: &Source, rng: &mut Rng, texts: &[&str]) -> Option<Mistake> {
    let end = source.tokens.last()?.range.end;
    Some(Mistake::replace(end..source.text.len(), rng.pick(texts)))
}
