//! Adds up the usage of several calls: JSON objects whose members differ from server to server.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::json::edit::Edits;
use crate::json::walk::{self, Raw, ValueKind};

/// Adds the usage object `raw` to `total`.
///
/// Numbers under the same key are added, also inside nested objects (`completion_tokens_details`),
/// up to eight levels deep. A `null` is replaced by the other side's value. Of any other value (a
/// tier's name, an array) the first one is kept. The order of the members is kept, and `total` is
/// kept if `raw` is not a JSON object.
pub(crate) fn add_usage(total: &mut Option<String>, raw: &str) {
    let object = |text| {
        Raw::root(text).filter(|root| root.kind() == ValueKind::Object && walk::is_valid(text))
    };
    let Some(more) = object(raw) else { return };
    let sum = match total.as_deref().and_then(object) {
        Some(first) => {
            let mut sum = String::new();
            add(first, more, DEPTH, &mut sum);
            sum
        }
        None => more.as_str().to_owned(),
    };
    *total = Some(sum);
}

/// Sets the members of the usage object `raw` in `total`: the later count of the same call. A
/// `null` sets nothing.
pub(crate) fn update_usage(total: &mut Option<String>, raw: &str) {
    let object = |text| {
        Raw::root(text).filter(|root| root.kind() == ValueKind::Object && walk::is_valid(text))
    };
    let Some(later) = object(raw) else { return };
    let updated = match total
        .as_deref()
        .and_then(|text| Some((text, object(text)?)))
    {
        Some((text, earlier)) => {
            let mut members: BTreeMap<Cow<'_, str>, &str> = BTreeMap::new();
            for (key, value) in later.members().filter(|(_, value)| !value.is_null()) {
                members.insert(key.decode().unwrap_or_default(), value.as_str());
            }
            let set: Vec<_> = members
                .iter()
                .map(|(key, value)| (key.as_ref(), *value))
                .collect();
            let mut edits = Edits::default();
            edits.object(earlier, &[], &set);
            edits.apply(text)
        }
        None => later.as_str().to_owned(),
    };
    *total = Some(updated);
}

/// Returns the answer's tokens in a usage object: `completion_tokens`, or one of its names in other
/// formats. Cohere has it one level deeper, in `tokens`.
pub(crate) fn answer_tokens(raw: &str) -> Option<u64> {
    count(
        raw,
        [
            "completion_tokens",
            "output_tokens",
            "candidatesTokenCount",
            "eval_count",
        ],
    )
}

/// Returns the request's tokens in a usage object: `prompt_tokens`, or one of its names in other
/// formats.
pub fn prompt_tokens(raw: &str) -> Option<u64> {
    count(
        raw,
        [
            "prompt_tokens",
            "input_tokens",
            "promptTokenCount",
            "prompt_eval_count",
        ],
    )
}

/// Returns the request's tokens, those from the provider's cache included. Messages counts the
/// latter apart.
pub(crate) fn sent_tokens(raw: &str) -> Option<u64> {
    let root = Raw::root(raw);
    let of = |key| root?.member(key)?.as_u64();
    let cached = ["cache_read_input_tokens", "cache_creation_input_tokens"];
    let cached = cached.into_iter().filter_map(of);
    Some(cached.fold(prompt_tokens(raw)?, u64::saturating_add))
}

/// Returns the first of these members that a usage object has.
fn count(raw: &str, names: [&str; 4]) -> Option<u64> {
    let root = Raw::root(raw).filter(|_| walk::is_valid(raw))?;
    let of = |object: Raw<'_>| {
        names
            .into_iter()
            .find_map(|key| object.member(key)?.as_u64())
    };
    of(root).or_else(|| of(root.member("tokens")?))
}

/// Writes the sum of two values. Recurses at most [`DEPTH`] times, whatever the input is.
fn add(first: Raw<'_>, second: Raw<'_>, depth: usize, out: &mut String) {
    match (first.kind(), second.kind()) {
        (ValueKind::Object, ValueKind::Object) if depth > 0 => {
            let mut others: BTreeMap<Cow<'_, str>, (Raw<'_>, Raw<'_>)> = BTreeMap::new();
            for (key, value) in second.members() {
                others.insert(key.decode().unwrap_or_default(), (key, value));
            }
            let mut separator = '{';
            for (key, value) in first.members() {
                out.extend([std::mem::replace(&mut separator, ',')]);
                out.extend([key.as_str(), ":"]);
                match others.remove(&key.decode().unwrap_or_default()) {
                    Some((_, other)) => add(value, other, depth - 1, out),
                    None => out.push_str(value.as_str()),
                }
            }
            for (key, value) in second.members() {
                // `others` has only the last of duplicate keys.
                let name = key.decode().unwrap_or_default();
                if others
                    .get(&name)
                    .is_some_and(|(last, _)| last.offset() == key.offset())
                {
                    out.extend([std::mem::replace(&mut separator, ',')]);
                    out.extend([key.as_str(), ":", value.as_str()]);
                }
            }
            out.push_str(if separator == '{' { "{}" } else { "}" });
        }
        (ValueKind::Number, ValueKind::Number) => match sum(first.as_str(), second.as_str()) {
            Some(sum) => out.push_str(&sum),
            None => out.push_str(first.as_str()),
        },
        (ValueKind::Null, _) => out.push_str(second.as_str()),
        _ => out.push_str(first.as_str()),
    }
}

/// Returns the sum of two numbers: exact for whole numbers, else in floating point. `None` if JSON
/// can't represent the sum.
fn sum(first: &str, second: &str) -> Option<String> {
    let whole = |text: &str| text.parse::<i128>().ok();
    if let Some(sum) = whole(first)
        .zip(whole(second))
        .and_then(|(first, second)| first.checked_add(second))
    {
        return Some(sum.to_string());
    }
    let sum = first.parse::<f64>().ok()? + second.parse::<f64>().ok()?;
    sum.is_finite().then(|| sum.to_string())
}

/// How many levels of nested objects are added. Providers use two. At deeper levels the first
/// side's value is kept.
const DEPTH: usize = 8;

#[cfg(test)]
mod tests {
    use super::{add_usage, answer_tokens, update_usage};

    fn check(parts: &[&str], expected: Option<&str>) {
        let mut total = None;
        for part in parts {
            add_usage(&mut total, part);
        }
        assert_eq!(total.as_deref(), expected, "{parts:?}");
    }

    #[test]
    fn nested_counts_are_added_and_null_is_no_count() {
        check(
            &[
                r#"{"total_tokens": 3, "details": {"cached": null}}"#,
                r#"{"total_tokens": 4, "details": {"cached": 1}}"#,
            ],
            Some(r#"{"total_tokens":7,"details":{"cached":1}}"#),
        );
    }

    #[test]
    fn numbers_are_added_on_all_levels() {
        check(&[r#"{"a": 1}"#], Some(r#"{"a": 1}"#));
        check(
            &[r#"{"b":1,"a":2}"#, r#"{"a":3,"b":4}"#, r#"{"a":1}"#],
            Some(r#"{"b":5,"a":6}"#),
        );
        check(
            &[
                r#"{"d":{"x":1,"y":{"z":2}}}"#,
                r#"{"d":{"y":{"z":3,"w":4}}}"#,
            ],
            Some(r#"{"d":{"x":1,"y":{"z":5,"w":4}}}"#),
        );
        check(
            &[r#"{"cost":0.25,"t":1}"#, r#"{"cost":0.5,"t":1.5}"#],
            Some(r#"{"cost":0.75,"t":2.5}"#),
        );
        check(
            &[r#"{"a":9007199254740993}"#, r#"{"a":2}"#],
            Some(r#"{"a":9007199254740995}"#),
        );
        check(
            &[r#"{"a":1e308}"#, r#"{"a":1e308}"#],
            Some(r#"{"a":1e308}"#),
        );
    }

    #[test]
    fn what_is_no_number_stays() {
        check(
            &[
                r#"{"a":null,"b":1,"c":null}"#,
                r#"{"a":2,"b":null,"c":null}"#,
            ],
            Some(r#"{"a":2,"b":1,"c":null}"#),
        );
        check(
            &[r#"{"a":null}"#, r#"{"a":{"b":1}}"#],
            Some(r#"{"a":{"b":1}}"#),
        );
        check(
            &[
                r#"{"tier":"default","l":[1]}"#,
                r#"{"tier":"flex","l":[2]}"#,
            ],
            Some(r#"{"tier":"default","l":[1]}"#),
        );
        check(&[r#"{"a":1}"#, r#"{"a":"1"}"#], Some(r#"{"a":1}"#));
        check(&["{}", "{}"], Some("{}"));
        check(&["{}", r#"{"a":1,"\u0061":2}"#], Some(r#"{"\u0061":2}"#));
    }

    #[test]
    fn what_is_no_object_is_passed_over() {
        check(&["null", "", "[1]", "{"], None);
        check(&["null", r#"{"a":1}"#, "7"], Some(r#"{"a":1}"#));
    }

    #[test]
    fn the_answers_tokens_have_several_names() {
        for raw in [
            r#"{"completion_tokens":7}"#,
            r#"{"output_tokens":7}"#,
            r#"{"promptTokenCount":1,"candidatesTokenCount":7,"totalTokenCount":8}"#,
            r#"{"prompt_eval_count":1,"eval_count":7}"#,
            r#"{"billed_units":{"output_tokens":5},"tokens":{"output_tokens":7}}"#,
        ] {
            assert_eq!(answer_tokens(raw), Some(7), "{raw}");
        }
        assert_eq!(answer_tokens(r#"{"total_tokens":7}"#), None);
    }

    #[test]
    fn the_requests_tokens_have_several_names() {
        for raw in [
            r#"{"prompt_tokens":7}"#,
            r#"{"input_tokens":7,"output_tokens":1}"#,
            r#"{"promptTokenCount":7,"candidatesTokenCount":1}"#,
            r#"{"prompt_eval_count":7,"eval_count":1}"#,
            r#"{"billed_units":{"input_tokens":5},"tokens":{"input_tokens":7}}"#,
        ] {
            assert_eq!(super::prompt_tokens(raw), Some(7), "{raw}");
        }
        assert_eq!(super::prompt_tokens(r#"{"completion_tokens":7}"#), None);
    }

    #[test]
    fn a_later_count_replaces_an_earlier_one() {
        let mut total = None;
        update_usage(&mut total, "null");
        assert_eq!(total, None);
        update_usage(&mut total, r#"{"in": 17, "out": 1, "tier":"x"}"#);
        update_usage(&mut total, r#"{"out":227,"in":null,"details":{"a":1}}"#);
        assert_eq!(
            total.as_deref(),
            Some(r#"{"in": 17, "out": 227, "tier":"x","details":{"a":1}}"#)
        );
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("{}1{}", "{\"a\":".repeat(1_000), "}".repeat(1_000));
        check(&[&deep, &deep], Some(&deep));
    }
}
