//! Contexts: what a prompt tells a model about the document that it continues.

mod cases;
mod injection;
mod progress;
mod properties;
mod reference;
mod sections;
mod work;

use restitch::Document;
use restitch::internal::children::ChildIndex;
use restitch::internal::context::hierarchy_context_for_prompt;

/// Reads a text as a document and an index of children.
fn read(text: &str) -> (Document, ChildIndex) {
    let (mut document, mut index) = (Document::new(usize::MAX), ChildIndex::new(1 << 16));
    document.push_with(text, &mut index).unwrap();
    (document, index)
}

/// Returns the rendering, which is the same with and without an index where nothing is out of
/// reach.
fn rendered(text: &str, budget: usize) -> String {
    let (document, index) = read(text);
    let with = hierarchy_context_for_prompt(&document, Some(&index), budget);
    let without = hierarchy_context_for_prompt(&document, None, budget);
    assert_eq!(
        (&with.text, with.spent),
        (&without.text, without.spent),
        "{text}"
    );
    with.text
}

/// A worked example, cut before the closing quote of `content`.
const WORKED: &str = r#"{
"document": {
"metadata": {
"title": "My Document",
"author": "John Doe",
"version": 1
},
"sections": [
{
"id": "section1",
"title": "Introduction",
"content": "This is the introduction content..."
},
{
"id": "section2",
"title": "Main Content",
"content": "This is a very long content that gets cut right here in the middle of this sentence and the JSON is truncated..."#;

#[test]
fn the_worked_example_at_500() {
    assert_eq!(rendered(WORKED, 500), WORKED);
}

#[test]
fn the_worked_example_at_100() {
    let expected = r#"{
"document": {
"metadata": {
"title": …,
"author": …,
"version": …
},
"sections": [
{
"id": …,
"title": …,
"content": …
},
{
"id": <str>,
"title": <str>,
"content": "…ry long content that gets cut right here in the middle of this sentence and the JSON is truncated..."#;
    assert_eq!(rendered(WORKED, 100), expected);
}

#[test]
fn the_worked_example_at_40() {
    let expected = r#"{
"document": {
"metadata": {
"title": …,
"author": …,
"version": …
},
"sections": [
{
"id": …,
"title": …,
"content": …
},
{
"id": <str>,
"title": <str>,
"content": "…is sentence and the JSON is truncated..."#;
    assert_eq!(rendered(WORKED, 40), expected);
}

/// One case for each part of the rule, by hand.
#[test]
fn the_budget_goes_from_the_cut_to_the_root() {
    let x = |count: usize| "x".repeat(count);
    // A value that does not fit is a hint and free: a value farther away may still fit.
    let text = format!(r#"{{"far": "{}", "long": "{}", "cut": "ab"#, x(20), x(200));
    assert_eq!(
        rendered(&text, 100),
        format!(r#"{{"far": "{}", "long": <str>, "cut": "ab"#, x(20))
    );
    // With fewer than fifty left nothing more is spent: in this container the others are hints,
    // nearer the root keys.
    let text = format!(
        r#"{{"a": 1, "b": [true], "c": {{"d": null, "e": [], "f": {{}}, "g": "{}", "h": "ab"#,
        x(60)
    );
    let out = format!(
        r#"{{"a": …, "b": [… 1 members …], "c": {{"d": <null>, "e": <array>, "f": <object>, "g": "{}", "h": "ab"#,
        x(60)
    );
    assert_eq!(rendered(&text, 100), out);
    // Fifty left is enough, forty-nine is not; the same before the first value.
    assert_eq!(
        rendered(&format!(r#"[7, "{}", "ab"#, x(48)), 100),
        format!(r#"[7, "{}", "ab"#, x(48))
    );
    assert_eq!(
        rendered(&format!(r#"[7, "{}", "ab"#, x(49)), 100),
        format!(r#"[<number>, "{}", "ab"#, x(49))
    );
    assert_eq!(rendered(r#"{"a": 7, "b": {"#, 50), r#"{"a": 7, "b": {"#);
    assert_eq!(
        rendered(r#"{"a": 7, "b": {"#, 49),
        r#"{"a": <number>, "b": {"#
    );
    // A complete container is walked, its last member first. Where the budget runs out in it, its
    // other members are hints; everything around it counts as nearer the root.
    let text = format!(
        r#"{{"a": false, "b": {{"c": 1, "d": [false, "{}"], "e": 2}}, "f": 3, "g": "#,
        x(60)
    );
    let out = format!(
        r#"{{"a": …, "b": {{"c": …, "d": [<bool>, "{}"], "e": 2}}, "f": 3, "g": "#,
        x(60)
    );
    assert_eq!(rendered(&text, 100), out);
    // Numbers and literals as cut values, and none. Characters are counted as written, not bytes.
    assert_eq!(rendered("[1234567", 3), "[…567");
    assert_eq!(rendered("[\"a\", tru", 2), "[<str>, …ru");
    assert_eq!(rendered("[\"é\\u00e9", 3), "[\"…0e9");
    assert_eq!(
        rendered(&format!("[1, \"{}\", \"b", "é".repeat(49)), 100),
        format!("[1, \"{}\", \"b", "é".repeat(49))
    );
    assert_eq!(rendered("[1, 2,", 0), "[<number>, <number>,");
    // The cut value is always shown; an open key is not a value.
    assert_eq!(rendered("{\"a\": \"abc", 0), "{\"a\": \"…");
    assert_eq!(
        rendered("{\"a\": \"abc\", \"key", 0),
        "{\"a\": <str>, \"key"
    );
    // Elements nearer the root collapse; objects show their keys back to the first element that is
    // not an object.
    let text = r#"[[1], {"a": 1}, 2, {"b": {"c": 1}, "d": []}, {}, ["ab"#;
    assert_eq!(
        rendered(text, 10),
        r#"[… 3 members …, {"b": …, "d": …}, {}, ["ab"#
    );
    // Closed roots.
    assert_eq!(rendered(r#"{"a": [1, 2]}"#, 100), r#"{"a": [1, 2]}"#);
    assert_eq!(rendered(r#"{"a": [1, 2]}"#, 49), "<object>");
    assert_eq!(
        rendered(&format!(r#"{{"a": [1, "{}"]}}"#, x(60)), 100),
        format!(r#"{{"a": [<number>, "{}"]}}"#, x(60))
    );
    // Nothing was received.
    assert_eq!(rendered("Here is", 100), "");
    assert_eq!(rendered("```json\n{\"a\"", 100), "{\"a\"");
}

#[test]
fn a_container_prints_sixteen_hints() {
    // Sixteen elements are hints, the others are counted.
    let numbers = (0..1000).map(|n| format!("{n}, ")).collect::<String>();
    let expected = format!("[… 984 members …, {}\"cut", "<number>, ".repeat(16));
    assert_eq!(rendered(&format!("[{numbers}\"cut"), 10), expected);
    // Seventeen long strings, with budget left for more.
    let long = |n: usize| {
        (0..n)
            .map(|n| format!("\"k{n}\": \"{}\", ", "y".repeat(100)))
            .collect::<String>()
    };
    let hints = |n: usize| {
        (0..n)
            .map(|n| format!("\"k{n}\": <str>, "))
            .collect::<String>()
    };
    let text = format!("{{\"first\": 1, {}\"cut\": \"ab", long(16));
    assert_eq!(
        rendered(&text, 90),
        format!("{{\"first\": 1, {}\"cut\": \"ab", hints(16))
    );
    let text = format!("{{\"first\": 1, {}\"cut\": \"ab", long(17));
    let kept = hints(17).split_once(", ").unwrap().1.to_owned();
    assert_eq!(
        rendered(&text, 90),
        format!("{{… 2 members …, {kept}\"cut\": \"ab")
    );
    // Keys of rows nearer the root: five rows have fifteen, the sixth row shows one.
    let rows = (0..100)
        .map(|n| format!("{{\"a\": {n}, \"b\": {n}, \"c\": {n}}}, "))
        .collect::<String>();
    let row = "{\"a\": …, \"b\": …, \"c\": …}, ";
    let expected = format!(
        "[… 94 members …, {{… 2 members …, \"c\": …}}, {}{{\"a\": \"cut",
        row.repeat(5)
    );
    assert_eq!(rendered(&format!("[{rows}{{\"a\": \"cut"), 10), expected);
}
