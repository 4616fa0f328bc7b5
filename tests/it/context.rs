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
