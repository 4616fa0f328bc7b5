//! The element at the cut, and the element before it.

use super::back::ReverseScanner;
use crate::children::ChildIndex;
use crate::document::Document;
use crate::json::{Frame, Kind, Span};

/// Returns the innermost array element that holds the cut, as cut. `None` if the cut is in no
/// element: outside of arrays, between elements, after the root. O(depth).
///
/// ```
/// use restitch::{Document, internal::context};
///
/// let mut document = Document::new(64);
/// document.push(r#"{"rows": [{"id": 1}, {"id": 2, "tags": ["a", "b"], "n"#)?;
/// assert_eq!(context::cut_off_element(&document), Some(r#"{"id": 2, "tags": ["a", "b"], "n"#));
/// assert_eq!(context::element_before_cutoff(&document, None), Some(r#"{"id": 1}"#));
/// # Ok::<(), restitch::SyntaxError>(())
/// ```
pub fn cut_off_element(document: &Document) -> Option<&str> {
    let (_, start) = holder(document)?;
    document.text().get(start..)
}

/// Returns the last complete sibling of the element at the cut. If no element holds the cut,
/// returns the last complete element of the innermost container. `None` if there is no such
/// element. Costs O(depth + its length).
pub fn element_before_cutoff<'a>(
    document: &'a Document,
    index: Option<&ChildIndex>,
) -> Option<&'a str> {
    let frames = document.machine().frames();
    let last = frames.len().checked_sub(1);
    let depth = match holder(document) {
        Some((depth, _)) => depth,
        None => last.filter(|&last| {
            frames
                .get(last)
                .is_some_and(|frame| frame.kind == Kind::Array)
        })?,
    };
    let frame = frames.get(depth).filter(|frame| frame.count > 0)?;
    let span = last_child(document.text(), index, depth, frame)?;
    Some(span.of(document.text()))
}

/// The child of an open container that holds the cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CutChild {
    /// The offset of its first byte; of a member, that of its key's opening quote.
    pub start: usize,
    /// Its JSON Pointer.
    pub path: String,
}

/// Returns the innermost array element that holds the cut, or else the innermost member. `None` if
/// nothing but the root does. O(depth).
pub(crate) fn cut_child(document: &Document) -> Option<CutChild> {
    let members = document.machine().frames().iter().enumerate().rev();
    let member = || {
        members
            .map(|(depth, frame)| (depth, frame.key.start))
            .find(|(_, key)| *key > 0)
    };
    let (depth, start) =
        holder(document).or_else(|| member().map(|(depth, key)| (depth, key - 1)))?;
    let path = document
        .path()
        .tokens()
        .take(depth + 1)
        .map(|token| format!("/{token}"))
        .collect();
    Some(CutChild { start, path })
}

/// Returns the depth of the innermost array with an open element, and the start of that element.
fn holder(document: &Document) -> Option<(usize, usize)> {
    let machine = document.machine();
    let frames = machine.frames();
    // Every open token in an array is an element.
    let token = machine.in_token().then(|| machine.token_start());
    (0..frames.len()).rev().find_map(|depth| {
        frames
            .get(depth)
            .filter(|frame| frame.kind == Kind::Array)?;
        let start = frames
            .get(depth + 1)
            .map_or(token, |inner| Some(inner.start));
        start.map(|start| (depth, start))
    })
}

/// Returns the last complete child of an open container.
fn last_child(text: &str, index: Option<&ChildIndex>, depth: usize, frame: &Frame) -> Option<Span> {
    let known = index.and_then(|index| known_child(index, depth, frame.end));
    known.or_else(|| ReverseScanner::new(text, frame.start + 1, frame.end, usize::MAX).value())
}

/// Returns the remembered child of the open container at this depth that ends here.
pub(super) fn known_child(index: &ChildIndex, depth: usize, end: usize) -> Option<Span> {
    let children = index.children(depth);
    let at = children.partition_point(|child| child.span.end < end);
    children
        .get(at)
        .map(|child| child.span)
        .filter(|span| span.end == end)
}
