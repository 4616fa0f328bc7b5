//! The live value: after every push it is what the slow twin finds complete, and it only grew.

use std::collections::HashSet;

use restitch::AllowedRoots;
use restitch::json::Partial;
use restitch::value::{LiveValue, SnapshotErrorKind, ValueKind, View};
use restitch::{Document, Trailing};
use serde_json::Value;

use crate::reference::{Scan, Told, oracle};
use restitch_testing::{Rng, chunks, random_cuts};

/// A view, read node by node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    /// A value that never changes, `null`, a boolean or a number, as it is printed.
    Atom(String),
    Text(String, bool),
    Array(Vec<Tree>, bool),
    Object(Vec<(String, Tree)>, bool),
}

impl Tree {
    /// Reads a view node by node, and compares the shortcuts with it.
    pub(crate) fn of(view: View<'_>) -> Self {
        let whole = view.is_whole();
        match view.kind() {
            ValueKind::Null | ValueKind::Bool | ValueKind::Number => {
                assert!(whole && view.is_empty() && view.last().is_none());
                Self::Atom(view.to_string())
            }
            ValueKind::String => Self::Text(view.as_str().unwrap().to_owned(), whole),
            ValueKind::Array => {
                let elements: Vec<_> = view.elements().collect();
                assert_eq!((view.len(), view.members().count()), (elements.len(), 0));
                assert_eq!(
                    view.last().map(View::path),
                    elements.last().map(|element| element.path())
                );
                assert!(elements.iter().all(|element| element.key().is_none()));
                Self::Array(elements.into_iter().map(Self::of).collect(), whole)
            }
            ValueKind::Object => {
                let members: Vec<_> = view.members().collect();
                assert_eq!((view.len(), view.elements().count()), (members.len(), 0));
                assert_eq!(
                    view.last().and_then(View::key),
                    members.last().map(|(key, _)| *key)
                );
                assert!(members.iter().all(|(key, value)| value.key() == Some(key)));
                Self::Object(
                    members
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), Self::of(value)))
                        .collect(),
                    whole,
                )
            }
        }
    }

    /// Returns whether everything that was visible is still there: only the end of the last open
    /// part may have grown.
    pub(crate) fn is_prefix_of(&self, later: &Self) -> bool {
        fn children<T>(now: &[T], later: &[T], whole: bool, same: impl Fn(&T, &T) -> bool) -> bool {
            let Some((last, before)) = now.split_last() else {
                return !whole || later.is_empty();
            };
            later.len() >= now.len()
                && (!whole || later.len() == now.len())
                && before
                    .iter()
                    .zip(later)
                    .all(|(now, later)| same(now, later))
                && same(last, &later[before.len()])
        }
        match (self, later) {
            (Self::Atom(now), Self::Atom(later)) => now == later,
            (Self::Text(now, true), Self::Text(later, whole)) => *whole && now == later,
            (Self::Text(now, false), Self::Text(later, _)) => later.starts_with(now.as_str()),
            (Self::Array(now, was), Self::Array(later, whole)) => {
                (*whole || !was) && children(now, later, *was, |now, later| now.is_prefix_of(later))
            }
            (Self::Object(now, was), Self::Object(later, whole)) => {
                (*whole || !was)
                    && children(now, later, *was, |now, later| {
                        now.0 == later.0 && now.1.is_prefix_of(&later.1)
                    })
            }
            _ => false,
        }
    }
}

/// Returns the keys that occur again in their object, as the slow twin's UTF-16.
fn repeated(text: &str, told: &[Told]) -> Vec<(usize, usize)> {
    let (mut open, mut repeated) = (vec![HashSet::new()], Vec::new());
    for Told { name, span, .. } in told {
        match *name {
            "begin" => open.push(HashSet::new()),
            "end" => drop(open.pop()),
            "key"
                if !open
                    .last_mut()
                    .unwrap()
                    .insert(units(&text[span.0..span.1])) =>
            {
                repeated.push(*span);
            }
            _ => {}
        }
    }
    repeated
}

/// The slow twin: valid JSON without white space, whose strings are read by serde_json and written
/// again.
///
/// serde_json rejects half of a surrogate pair: in a value it is U+FFFD, and a key that has one is
/// kept as it is written.
pub(crate) fn compact(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (String::new(), 0);
    while at < bytes.len() {
        let start = at;
        at += 1;
        if bytes[start] != b'"' {
            out.extend(Some(char::from(bytes[start])).filter(|c| !c.is_ascii_whitespace()));
            continue;
        }
        while bytes[at] != b'"' {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        at += 1;
        let raw = &text[start + 1..at - 1];
        let is_key = text[at..].trim_start().starts_with(':');
        let said = serde_json::from_str(&text[start..at]).unwrap_or_else(|_| {
            if is_key {
                raw.to_owned()
            } else {
                String::from_utf16_lossy(&units(raw))
            }
        });
        out.push_str(&serde_json::to_string(&said).unwrap());
    }
    out
}

/// Returns a string's UTF-16, each escape as one unit.
fn units(raw: &str) -> Vec<u16> {
    let mut units = Vec::new();
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        let len = match rest.as_bytes() {
            [b'\\', b'u', ..] => {
                units.push(u16::from_str_radix(&rest[2..6], 16).unwrap());
                6
            }
            [b'\\', ..] => {
                units.extend(
                    serde_json::from_str::<String>(&format!("\"{}\"", &rest[..2]))
                        .unwrap()
                        .encode_utf16(),
                );
                2
            }
            _ => {
                units.extend(rest[..c.len_utf8()].encode_utf16());
                c.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    units
}

/// serde_json reads some fractions as a neighbour of the nearest `f64`; everything else is equal.
pub(crate) fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            a == b || (a - b).abs() <= f64::EPSILON * a.abs().max(b.abs())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|((ka, a), (kb, b))| ka == kb && same(a, b))
        }
        _ => ours == theirs,
    }
}

/// The slow twin's reading of the newest root of a document, and the text that it read.
fn known(document: &Document, is_finished: bool) -> (Scan, String) {
    let mut text =
        document.text()[document.root_start().unwrap_or(document.text().len())..].to_owned();
    // Ends a number at the root, and changes no other complete value.
    text.push_str(if is_finished { " " } else { "" });
    (oracle(text.as_bytes(), DEPTH), text)
}

/// Returns the complete part, with an open string or without.
fn complete((scan, text): &(Scan, String), strings: Partial) -> Option<String> {
    let (end, suffix) = scan.complete(strings == Partial::Include, false)?;
    Some([&text[..end], &suffix].concat())
}

/// Compares a live value with what is complete of its document.
pub(crate) fn check_against(document: &Document, value: &LiveValue) {
    check_known(document, value, &known(document, false));
}

fn check_known(document: &Document, value: &LiveValue, known: &(Scan, String)) {
    assert!(!value.is_stale());
    if !known.0.told.is_empty() {
        let start = document.root_start().unwrap();
        let flagged = value
            .duplicates()
            .iter()
            .map(|one| (one.span.start - start, one.span.end - start));
        assert_eq!(
            flagged.collect::<Vec<_>>(),
            repeated(&known.1, &known.0.told),
            "{}",
            document.text()
        );
    }
    for strings in [Partial::Include, Partial::Omit] {
        let part = complete(known, strings);
        if part.is_none() && document.roots() > 0 {
            // The newest root has no text yet: the root before it is still visible.
            continue;
        }
        let shown = value.view_with(strings).map(|view| view.to_string());
        assert_eq!(
            shown,
            part.as_deref().map(compact),
            "{strings:?} at the end of {:?}",
            document.text()
        );
        let Some(part) = part else {
            let error = value.snapshot_with::<Value>(strings).unwrap_err();
            assert_eq!(error.kind(), SnapshotErrorKind::Nothing);
            continue;
        };
        let ours = value.snapshot_with::<Value>(strings);
        match serde_json::from_str::<Value>(&part) {
            Ok(theirs) => assert!(same(ours.as_ref().unwrap(), &theirs), "{ours:?} of {part}"),
            Err(error) if error.to_string().contains("number out of range") => {
                assert_eq!(ours.unwrap_err().kind(), SnapshotErrorKind::Mismatch);
            }
            // One open container more than serde_json allows.
            Err(error) if error.to_string().contains("recursion limit") => {
                assert!(
                    ours.is_ok()
                        || ours.is_err_and(|error| error.kind() == SnapshotErrorKind::TooDeep)
                );
            }
            Err(error) => {
                let error = error.to_string();
                assert!(
                    ["surrogate", "hex escape"]
                        .iter()
                        .any(|known| error.contains(known)),
                    "{error} in {part}"
                );
            }
        }
    }
}

/// Pushes `text` in pieces and checks after each `every` of them; stops at a deviation.
pub(crate) fn run(
    text: &str,
    cuts: &[usize],
    trailing: Trailing,
    every: usize,
) -> (Document, LiveValue) {
    let mut document = Document::with_options(DEPTH, AllowedRoots::Any, trailing);
    let mut value = LiveValue::new();
    // The newest root that has something visible: where it begins, and its value.
    let mut shown: Option<(Option<usize>, Tree)> = None;
    let cuts: Vec<_> = cuts
        .iter()
        .copied()
        .filter(|&cut| text.is_char_boundary(cut))
        .collect();
    for (n, chunk) in chunks(text.as_bytes(), &cuts).into_iter().enumerate() {
        let result = document.push_with(std::str::from_utf8(chunk).unwrap(), &mut value);
        if n % every == 0 || result.is_err() {
            let known = known(&document, false);
            check_known(&document, &value, &known);
            if let (Some(view), Some(_)) = (value.view(), complete(&known, Partial::Include)) {
                let now = (document.root_start(), Tree::of(view));
                if let Some((_, before)) = shown.filter(|(root, _)| *root == now.0) {
                    assert!(before.is_prefix_of(&now.1), "{before:?} became {:?}", now.1);
                }
                shown = Some(now);
            }
        }
        if result.is_err() {
            return (document, value);
        }
    }
    let is_finished = document.finish_with(&mut value).is_ok();
    check_known(&document, &value, &known(&document, is_finished));
    (document, value)
}

pub(crate) fn check(input: &[u8]) {
    let Some((&how, rest)) = input.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    let trailing = [Trailing::Stop, Trailing::Error, Trailing::Next][usize::from(how) % 3];
    let size = usize::from(how) / 3 % 16;
    let mut rng = Rng::new(u64::from(how));
    let cuts = if size > 0 {
        (1..text.len()).filter(|at| at % size == 0).collect()
    } else {
        random_cuts(text.len(), &mut rng)
    };
    let every = 1 + text.len() / 1024;
    let (document, value) = run(&text, &cuts, trailing, every);
    let (_, whole) = run(&text, &[], trailing, 1);
    let print = |value: &LiveValue| value.view().map(|view| view.to_string());
    assert_eq!(
        (print(&value), value.duplicates()),
        (print(&whole), whole.duplicates()),
        "chunking shows"
    );
    for duplicate in value.duplicates() {
        let raw = duplicate.span.of(document.text());
        let key: String =
            serde_json::from_str(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.to_owned());
        let token = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        assert!(value.path_of(duplicate).ends_with(&token), "{token}");
    }
    // Read late, from the start.
    let mut late = LiveValue::new();
    document.replay(&mut late);
    assert_eq!(
        (print(&late), late.duplicates()),
        (print(&value), value.duplicates())
    );
}

/// More than the depth of any document here.
const DEPTH: usize = 1024;
