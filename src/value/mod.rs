//! The value of a document that is still being received. The value is never rebuilt, and can be
//! read after every push.
//!
//! A [`LiveValue`] appends a document's events to a tape; a [`View`] reads the tape, with its own
//! methods or through serde. It does not know the document or its text: a live value keeps decoded
//! copies of the visible text. [`from_partial_str`] reads a text that may be cut in one call.

mod de;
mod error;
mod keys;
mod name;
mod number;
mod partial;
mod print;
mod sink;
mod view;

pub use crate::json::walk::ValueKind;
use crate::json::{Kind, Partial, Span};
pub use error::{SnapshotError, SnapshotErrorKind};
use keys::{Keys, Spares};
pub use number::{Number, OwnedNumber};
pub use partial::from_partial_str;
use serde::de::DeserializeOwned;
pub use view::View;

/// The certain part of a document's value: a sink to lend to every push.
///
/// Between two pushes a value changes in two ways only: something is added at its end, and an open
/// string grows. An incomplete number, literal, key or escape is not shown, and neither is a member
/// without its value. For a document with several roots, the value is that of the newest root.
///
/// An event costs amortized O(1), at any document size. A clone is a checkpoint to go with one of
/// the document; it copies everything that is shown.
///
/// ```
/// use restitch::Document;
/// use restitch::value::LiveValue;
///
/// #[derive(serde::Deserialize)]
/// struct Report {
///     title: String,
///     #[serde(default)]
///     pages: Vec<u32>,
/// }
///
/// let (mut document, mut value) = (Document::new(64), LiveValue::new());
/// let mut shown = Vec::new();
/// for delta in ["{\"ti", "tle\": \"Ti", "des\", \"pages\": [1", "2, 3", "]}"] {
///     document.push_with(delta, &mut value)?;
///     shown.push(value.view().map_or_else(String::new, |view| view.to_string()));
/// }
/// assert_eq!(shown, [
///     r#"{}"#,
///     r#"{"title":"Ti"}"#,
///     r#"{"title":"Tides","pages":[]}"#,
///     r#"{"title":"Tides","pages":[12]}"#,
///     r#"{"title":"Tides","pages":[12,3]}"#,
/// ]);
/// let report: Report = value.snapshot()?;
/// assert_eq!((report.title.as_str(), report.pages), ("Tides", vec![12, 3]));
/// assert_eq!(value.snapshot_at::<u32>("/pages/1")?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LiveValue {
    /// The values and keys in document order. A container precedes its content.
    nodes: Vec<ValueNode>,
    /// Decoded keys and strings, and numbers as written, without separators.
    text: String,
    open: Vec<OpenNode>,
    spares: Spares,
    duplicates: Vec<Duplicate>,
    /// In a string: the document offset after its newest fragment.
    emitted: usize,
    is_stale: bool,
}

/// A node of the tape. `start` and `end` are offsets in the value's text.
#[derive(Clone, Copy, Debug)]
enum ValueNode {
    /// A key. Its value is the next node; until that exists, the key is the last node.
    Key {
        start: usize,
        end: usize,
        /// The key has a lone half of a surrogate pair and is kept as written.
        is_raw: bool,
    },
    String {
        start: usize,
        end: usize,
        is_whole: bool,
    },
    Number {
        start: usize,
        end: usize,
    },
    Bool(bool),
    Null,
    Container {
        kind: Kind,
        /// The index after its last node; [`OPEN`] while it is open.
        end: usize,
        /// The number of members or elements, except an open string.
        count: usize,
        /// The newest child; for a member, the node of its value.
        last: usize,
    },
}

const _: () = assert!(
    size_of::<ValueNode>() <= 32,
    "a tape of a document is a few times its size"
);

/// The end of an open container. No tape is this long.
const OPEN: usize = usize::MAX;

/// An open container.
#[derive(Clone, Debug)]
struct OpenNode {
    node: usize,
    /// The document offset of its bracket.
    start: usize,
    keys: Keys,
}

/// A key that its object had before.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The key in the document's text, without its quotes.
    pub span: Span,
    node: usize,
}

impl LiveValue {
    /// Creates an empty value.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the root, with the received part of an open string. `None` before anything of a root
    /// is certain. O(1).
    #[must_use]
    pub fn view(&self) -> Option<View<'_>> {
        self.view_with(Partial::Include)
    }

    /// Returns the root, with or without an open string. `Omit` leaves out the string and the
    /// member that it belongs to. O(1).
    #[must_use]
    pub fn view_with(&self, strings: Partial) -> Option<View<'_>> {
        let mut end = self.nodes.len();
        if strings == Partial::Omit && self.in_string() {
            end -= 1;
        }
        if let Some(ValueNode::Key { .. }) = self.nodes.get(..end).and_then(<[_]>::last) {
            end -= 1;
        }
        (end > 0).then(|| View::new(self, end, 0))
    }

    /// Returns the root as a `T`, with the received part of an open string.
    ///
    /// The type decides what may be missing: with `Option` fields and `#[serde(default)]` a
    /// snapshot succeeds from the first bracket on.
    ///
    /// # Errors
    /// See [`SnapshotErrorKind`]. More text may cure an error that [is
    /// early](SnapshotError::is_early).
    pub fn snapshot<T: DeserializeOwned>(&self) -> Result<T, SnapshotError> {
        self.snapshot_with(Partial::Include)
    }

    /// Returns the root as a `T`, with or without an open string. Omit a string that names a
    /// variant or holds a date while it is open.
    ///
    /// # Errors
    /// Those of [`snapshot`](Self::snapshot).
    pub fn snapshot_with<T: DeserializeOwned>(&self, strings: Partial) -> Result<T, SnapshotError> {
        self.view_with(strings)
            .ok_or_else(|| SnapshotError::nothing(""))?
            .read()
    }

    /// Returns the value at a JSON Pointer as a `T`, with the received part of an open string. See
    /// [`View::pointer`].
    ///
    /// # Errors
    /// Those of [`snapshot`](Self::snapshot). If the pointer names no value:
    /// [`Nothing`](SnapshotErrorKind::Nothing) if the value may still be received, else
    /// [`Mismatch`](SnapshotErrorKind::Mismatch).
    pub fn snapshot_at<T: DeserializeOwned>(&self, pointer: &str) -> Result<T, SnapshotError> {
        let Some(root) = self.view() else {
            return Err(SnapshotError::nothing(pointer));
        };
        match root.locate(pointer) {
            Ok(view) => view.read(),
            Err(true) => Err(SnapshotError::nothing(pointer)),
            Err(false) => Err(SnapshotError::nowhere(pointer)),
        }
    }

    /// Returns the repeated keys of the root, in document order. A key is added when it ends,
    /// before its value is received.
    pub fn duplicates(&self) -> &[Duplicate] {
        &self.duplicates
    }

    /// Returns the JSON Pointer of the member with a repeated key. Costs a walk over everything
    /// before it.
    pub fn path_of(&self, duplicate: &Duplicate) -> String {
        view::path(self, duplicate.node)
    }

    /// Returns whether the value missed events: it was not lent to every push. It then stays at its
    /// state before the gap, and does not grow until the next root.
    /// [`Document::replay`](crate::Document::replay) brings it up to date.
    ///
    /// A gap is noticed with the first event after it, not earlier.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Returns the value's text between two offsets.
    fn text(&self, start: usize, end: usize) -> &str {
        let text = self.text.get(start..end);
        debug_assert!(text.is_some(), "a node is within the text: {start}..{end}");
        text.unwrap_or_default()
    }

    /// Returns the index after the value (or key) at `at` and everything in it.
    fn after(&self, at: usize) -> usize {
        match self.nodes.get(at) {
            Some(&ValueNode::Container { end, .. }) => end.min(self.nodes.len()),
            _ => at + 1,
        }
    }

    /// Returns whether a string is open. It is the last node then.
    fn in_string(&self) -> bool {
        matches!(
            self.nodes.last(),
            Some(ValueNode::String {
                is_whole: false,
                ..
            })
        )
    }
}
