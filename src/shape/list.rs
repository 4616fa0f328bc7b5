//! The text after a root at the start of a text: stray brackets and commas, and values that are
//! listed without an array around them.

use super::report::Root;
use super::search::{Placed, is_space, placed};
use crate::envelope::FENCE;
use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::json::repair::{Repair, RepairOptions, RepairRule, RepairStatus, repair_root};
use crate::json::walk::{self, Raw};

/// Reads on after a root: drops closing brackets and a last comma, and takes listed values into one
/// array. If the options do not allow that, the text is malformed there.
pub(super) fn finish<'t>(text: &'t str, first: Placed<'t>, options: &RepairOptions) -> Placed<'t> {
    let mut root = first;
    while let Some((at, byte @ (b'}' | b']'))) = next(text, root.0.range.end) {
        if !drop_text(text, &mut root, RepairRule::ExtraCloser, at + 1, options) {
            return malformed(root, byte, at);
        }
    }
    let Some((comma, b',')) = next(text, root.0.range.end) else {
        return root;
    };
    let after = next(text, comma + 1).map_or(text.len(), |(at, _)| at);
    if is_end(text, after) {
        if root.1.iter().any(|repair| is_bracket(repair.rule)) {
            // The comma shows that more was due, so the repaired bracket did not end the root.
            root.0.status = RepairStatus::Truncated;
            return root;
        }
        return match drop_text(text, &mut root, RepairRule::ExtraComma, comma + 1, options) {
            true => root,
            false => malformed(root, b',', comma),
        };
    }
    let items = items(text, &root.0, options);
    match items.is_empty() {
        true => root,
        false if options.allows(RepairRule::LostBrackets) => joined(text, root, items, options),
        false => malformed(root, b',', comma),
    }
}

/// Whether a rule adds or removes brackets, so that it may have closed the root.
fn is_bracket(rule: RepairRule) -> bool {
    matches!(
        rule,
        RepairRule::MissingCloser | RepairRule::ExtraCloser | RepairRule::WrongCloser
    )
}

/// Returns the values that follow a root, each after a comma. Other text after them is prose,
/// unless all values are containers.
fn items<'t>(text: &'t str, first: &Root<'t>, options: &RepairOptions) -> Vec<Placed<'t>> {
    let mut items: Vec<Placed<'t>> = Vec::new();
    let mut end = first.range.end;
    let mut has_scalars = !first.json.starts_with(['{', '[']);
    while let Some((comma, b',')) = next(text, end)
        && let Some((at, byte)) = next(text, comma + 1)
    {
        let rest = text.get(at..).unwrap_or_default();
        let item = match byte {
            b'{' | b'[' => placed(text, at, repair_root(rest, options)),
            _ => match Raw::root(rest).filter(|value| walk::is_valid(value.as_str())) {
                Some(value) => {
                    has_scalars = true;
                    let json = std::borrow::Cow::Borrowed(value.as_str());
                    (
                        Root {
                            status: RepairStatus::Valid,
                            json,
                            range: at..at + value.range().end,
                        },
                        Vec::new(),
                    )
                }
                None => break,
            },
        };
        if matches!(item.0.status, RepairStatus::Malformed(_)) {
            break;
        }
        end = item.0.range.end;
        items.push(item);
    }
    let rest = match next(text, end) {
        Some((comma, b',')) => next(text, comma + 1).map_or(text.len(), |(at, _)| at),
        Some((at, _)) => at,
        None => text.len(),
    };
    if has_scalars && !is_end(text, rest) {
        items.clear();
    }
    items
}

/// Puts an array around listed values. The text between them stays.
fn joined<'t>(
    text: &'t str,
    first: Placed<'t>,
    items: Vec<Placed<'t>>,
    options: &RepairOptions,
) -> Placed<'t> {
    let start = first.0.range.start;
    let inserted = |at: usize, bracket: &str| Repair {
        rule: RepairRule::LostBrackets,
        range: at..at,
        original: String::new(),
        replacement: bracket.to_owned(),
        path: String::new(),
    };
    let (mut json, mut repairs) = (String::from("["), vec![inserted(start, "[")]);
    let (mut end, mut status) = (start, RepairStatus::Repaired);
    for (index, (root, changes)) in std::iter::once(first).chain(items).enumerate() {
        json.push_str(text.get(end..root.range.start).unwrap_or_default());
        json.push_str(&root.json);
        repairs.extend(changes.into_iter().map(|repair| Repair {
            path: format!("/{index}{}", repair.path),
            ..repair
        }));
        end = root.range.end;
        if root.status == RepairStatus::Truncated {
            status = RepairStatus::Truncated;
        }
    }
    json.push(']');
    repairs.push(inserted(end, "]"));
    let root = Root {
        status,
        json: json.into(),
        range: start..end,
    };
    let mut joined = (root, repairs);
    // `{"a": 1}, [2],`
    if let Some((comma, b',')) = next(text, end)
        && next(text, comma + 1).is_none_or(|(at, _)| is_end(text, at))
    {
        drop_text(
            text,
            &mut joined,
            RepairRule::ExtraComma,
            comma + 1,
            options,
        );
    }
    joined
}

/// Leaves out the text between a root and `end`. Returns whether the rule allows it.
fn drop_text(
    text: &str,
    root: &mut Placed<'_>,
    rule: RepairRule,
    end: usize,
    options: &RepairOptions,
) -> bool {
    let range = root.0.range.end..end;
    if !options.allows(rule) {
        return false;
    }
    let original = text.get(range.clone()).unwrap_or_default().to_owned();
    root.1.push(Repair {
        rule,
        range,
        original,
        replacement: String::new(),
        path: String::new(),
    });
    root.0.range.end = end;
    if root.0.status == RepairStatus::Valid {
        root.0.status = RepairStatus::Repaired;
    }
    true
}

fn malformed<'t>(mut root: Placed<'t>, byte: u8, offset: usize) -> Placed<'t> {
    root.0.status = RepairStatus::Malformed(SyntaxError {
        kind: SyntaxErrorKind::TrailingText(byte),
        offset,
    });
    root
}

/// Returns the next byte that is not white space, and its offset.
fn next(text: &str, from: usize) -> Option<(usize, u8)> {
    let rest = text.get(from..)?;
    let at = from + rest.len() - rest.trim_start_matches(is_space).len();
    Some((at, *text.as_bytes().get(at)?))
}

/// Returns whether the text, or a block, ends at `at`.
fn is_end(text: &str, at: usize) -> bool {
    text.get(at..)
        .is_none_or(|rest| rest.is_empty() || rest.starts_with(FENCE))
}
