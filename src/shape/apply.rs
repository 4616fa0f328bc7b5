//! Brings a value into its shape: which shape it has, which member is taken out, whether it is
//! wrapped, and which keys are renamed.

use std::borrow::Cow;
use std::ops::Range;

use super::stage::{member, unescaped};
use super::{Dropped, Expect, Renamed, RootKind, Shape};
use crate::json::event::{Event, each};
use crate::json::string::{self, quoted};
use crate::json::walk::{Raw, ValueKind};
use crate::json::{Machine, ParserView};

/// A value in its shape.
pub(super) struct Applied<'t> {
    pub(super) json: Cow<'t, str>,
    pub(super) shape: Option<String>,
    pub(super) renamed: Vec<Renamed>,
    pub(super) dropped: Vec<Dropped>,
    /// Why the value does not have the chosen shape.
    pub(super) mismatch: Option<String>,
}

/// The changes that bring a value into its shape.
struct Plan {
    /// The shape that it has.
    shape: Option<Shape>,
    /// The member that is taken out.
    unwrap: Option<String>,
    wrap: bool,
}

/// Brings a valid value into the expected shape, or into the shape that it has.
pub(super) fn apply<'t>(json: Cow<'t, str>, expect: &Expect) -> Applied<'t> {
    let plan = Raw::root(&json).map(|root| plan(root, expect));
    let Some(Plan {
        shape,
        unwrap,
        wrap,
    }) = plan
    else {
        return Applied {
            json,
            shape: None,
            renamed: Vec::new(),
            dropped: Vec::new(),
            mismatch: None,
        };
    };
    let (mut json, renamed) = match &shape {
        Some(shape) => rename(json, shape),
        None => (json, Vec::new()),
    };
    let mut dropped = Vec::new();
    if let Some(key) = unwrap
        && let Some(range) = Raw::root(&json).and_then(|root| taken_out(root, &key, &mut dropped))
    {
        json = sliced(json, range);
    }
    if wrap {
        json = Cow::Owned(format!("[{json}]"));
    }
    let chosen = expect.chosen();
    let mismatch = chosen.and_then(|chosen| chosen.mismatch(Raw::root(&json)?));
    Applied {
        json,
        shape: shape.map(|shape| shape.name),
        renamed,
        dropped,
        mismatch,
    }
}

/// Returns whether a value, once it is in its shape, is as expected.
pub(super) fn fits(json: &str, expect: &Expect) -> bool {
    let applied = apply(Cow::Borrowed(json), expect);
    let Some(value) = Raw::root(&applied.json) else {
        return false;
    };
    let has_keys = expect.chosen().is_none_or(|shape| {
        let is_described = !shape.required.is_empty() || !shape.any_of.is_empty();
        !is_described
            || !matches!(shape.root, RootKind::Object | RootKind::Array)
            || shape.is_shape_of(value)
    });
    applied.mismatch.is_none() && has_keys && expect.is_valid(&applied.json)
}

/// Decides how to change a value. Objects with the keys of a shape are compared before members are
/// taken out, so that a document with a member `data` stays whole. So does one whose member has no
/// shape, if none was chosen: GraphQL writes `errors` beside `data`.
fn plan(root: Raw<'_>, expect: &Expect) -> Plan {
    let chosen = expect.chosen();
    let shapes = if expect.detects() {
        Shape::stages()
    } else {
        chosen.cloned().into_iter().collect()
    };
    if root.kind() != ValueKind::Object {
        let shape = known(root, &shapes).or(chosen
            .filter(|shape| shape.mismatch(root).is_none())
            .cloned());
        return Plan {
            shape,
            unwrap: None,
            wrap: false,
        };
    }
    if let Some(shape) = known(root, &shapes) {
        return Plan {
            shape: Some(shape),
            unwrap: None,
            wrap: false,
        };
    }
    let wraps = chosen.filter(|shape| shape.wrap && shape.root == RootKind::Array);
    let mut keys: Vec<&String> = Vec::new();
    for key in shapes.iter().flat_map(|shape| &shape.unwrap) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    for key in keys {
        let Some(inner) = member(root, key) else {
            continue;
        };
        let found = known(inner, &shapes);
        let wrap = wraps.is_some() && inner.kind() == ValueKind::Object && found.is_none();
        let Some(shape) = found.or_else(|| chosen.cloned()) else {
            continue;
        };
        return Plan {
            shape: Some(shape),
            unwrap: Some(key.clone()),
            wrap,
        };
    }
    let shape = wraps
        .or(chosen.filter(|shape| shape.mismatch(root).is_none()))
        .cloned();
    Plan {
        shape,
        unwrap: None,
        wrap: wraps.is_some(),
    }
}

/// Returns the shape whose keys a value has.
fn known(value: Raw<'_>, shapes: &[Shape]) -> Option<Shape> {
    shapes
        .iter()
        .find(|shape| shape.is_shape_of(value))
        .cloned()
}

/// Returns the range of a member's value, and notes the other members as dropped.
fn taken_out(root: Raw<'_>, key: &str, dropped: &mut Vec<Dropped>) -> Option<Range<usize>> {
    let taken = member(root, key)?.range();
    for (name, value) in root.members().filter(|(_, value)| value.range() != taken) {
        let name = string::key(name.inner().unwrap_or_default())
            .replace('~', "~0")
            .replace('/', "~1");
        dropped.push(Dropped {
            path: format!("/{name}"),
            json: value.as_str().to_owned(),
        });
    }
    Some(taken)
}

fn sliced(json: Cow<'_, str>, range: Range<usize>) -> Cow<'_, str> {
    match json {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(range).unwrap_or_default()),
        Cow::Owned(mut text) => {
            text.truncate(range.end);
            text.drain(..range.start);
            Cow::Owned(text)
        }
    }
}

/// A change of a key, and its report.
struct ShapeChange {
    /// The text between the key's quotes.
    range: Range<usize>,
    renamed: Renamed,
}

/// Renames keys that the shape has without backslashes before `_`, unless the object has that key,
/// too. One pass.
fn rename<'t>(json: Cow<'t, str>, shape: &Shape) -> (Cow<'t, str>, Vec<Renamed>) {
    if memchr::memmem::find(json.as_bytes(), br"\\_").is_none() {
        return (json, Vec::new());
    }
    let mut changes: Vec<ShapeChange> = Vec::new();
    // For each open container: its known keys, and where its changes begin.
    let mut open: Vec<(Vec<String>, Vec<ShapeChange>)> = Vec::new();
    let mut sink = each(|event: Event, live: &ParserView<'_>| match event {
        Event::Begin { .. } => open.push((Vec::new(), Vec::new())),
        Event::End { .. } => {
            let (keys, pending) = open.pop().unwrap_or_default();
            changes.extend(
                pending
                    .into_iter()
                    .filter(|change| !keys.contains(&change.renamed.to)),
            );
        }
        Event::Key(span) => {
            let (from, Some((keys, pending))) = (string::key(span.of(&json)), open.last_mut())
            else {
                return;
            };
            match unescaped(&from) {
                Some(to) if shape.knows(&to) => {
                    // A second key that becomes the same would be a duplicate.
                    let is_second = pending.iter().any(|change| change.renamed.to == to);
                    let renamed = Renamed {
                        path: live.path().to_string(),
                        from: from.into_owned(),
                        to,
                    };
                    if !is_second {
                        pending.push(ShapeChange {
                            range: span.range(),
                            renamed,
                        });
                    }
                }
                None if shape.knows(&from) && !keys.iter().any(|key| *key == from) => {
                    keys.push(from.into_owned());
                }
                _ => {}
            }
        }
        _ => {}
    });
    // The text is valid. In invalid text no key is renamed.
    if Machine::new(usize::MAX)
        .feed_text(&json, &mut sink)
        .is_err()
        || changes.is_empty()
    {
        return (json, Vec::new());
    }
    changes.sort_by_key(|change| change.range.start);
    let (mut text, mut copied) = (String::with_capacity(json.len()), 0);
    for ShapeChange { range, renamed } in &changes {
        text.push_str(json.get(copied..range.start).unwrap_or_default());
        let key = quoted(&renamed.to);
        text.push_str(key.get(1..key.len() - 1).unwrap_or_default());
        copied = range.end;
    }
    text.push_str(json.get(copied..).unwrap_or_default());
    (
        Cow::Owned(text),
        changes.into_iter().map(|change| change.renamed).collect(),
    )
}
