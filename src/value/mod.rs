//! The value of a document that is still being written: kept, never rebuilt, and there to be looked at after every
//! push.
//!
//! A [`LiveValue`] takes a document's events and appends them to a tape; a [`View`] reads the tape, by hand or through
//! serde. Nothing here knows the document or its text: what a value shows it has copied, decoded, when it was told.

mod de;
mod error;
mod keys;
mod name;
mod number;
mod print;
mod sink;
mod view;

pub use crate::json::walk::ValueKind;
use crate::json::{Kind, Partial, Span};
pub use error::{SnapshotError, SnapshotErrorKind};
use keys::{Keys, Spares};
pub use number::{Number, NumberError, OwnedNumber};
use serde::de::DeserializeOwned;
pub use view::View;

/// The value of a document as far as it is certain: a sink that is lent to every push.
///
/// Between two pushes only two things happen to what it shows: something is added at its end, and the string that was
/// open there grows. A number, a literal, a key or an escape that is not whole is not shown, and neither is a member
/// without its value. Where a document holds several roots, the value is that of the newest one.
///
/// An event costs O(1) amortised, whatever the size of the document. A clone is a checkpoint: it goes with that of the
/// document, and costs a copy of all that is shown.
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
    /// The values and keys in the order of the document. A container stands before all that it holds.
    nodes: Vec<Node>,
    /// What keys and strings say, and numbers as they are written, one behind the other.
    text: String,
    open: Vec<Open>,
    spares: Spares,
    duplicates: Vec<Duplicate>,
    /// In a string: the offset in the document behind what was told of it.
    emitted: usize,
    is_stale: bool,
}

/// One node of the tape. Ranges are of the value's text.
#[derive(Clone, Copy, Debug)]
enum Node {
    /// Its value follows at once; until that comes, it is the last node.
    Key {
        start: usize,
        end: usize,
        /// It has half of a surrogate pair, and stands there as it is written.
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
        /// Behind its last node; [`OPEN`] while it is open.
        end: usize,
        /// Members or elements, but for a string that is open.
        count: usize,
        /// The newest of those: of a member, the value.
        last: usize,
    },
}

const _: () = assert!(size_of::<Node>() <= 32, "a tape of a document is a few times its size");

/// The end of a container that has none yet: no tape is so long.
const OPEN: usize = usize::MAX;

/// An open container.
#[derive(Clone, Debug)]
struct Open {
    node: usize,
    /// Where it begins in the document.
    start: usize,
    keys: Keys,
}

/// A key that its object had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The key in the document's text, between its quotes.
    pub span: Span,
    node: usize,
}

impl LiveValue {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The root, with an open string as far as it has come. `None` before anything of a root is certain. O(1).
    #[must_use]
    pub fn view(&self) -> Option<View<'_>> {
        self.view_with(Partial::Include)
    }

    /// The root, with an open string or without. Held back, neither the string nor the member that it belongs to is
    /// there yet. O(1).
    #[must_use]
    pub fn view_with(&self, strings: Partial) -> Option<View<'_>> {
        let mut end = self.nodes.len();
        if strings == Partial::Omit && self.in_string() {
            end -= 1;
        }
        if let Some(Node::Key { .. }) = self.nodes.get(..end).and_then(<[_]>::last) {
            end -= 1;
        }
        (end > 0).then(|| View::new(self, end, 0))
    }

    /// The root as a `T`, with an open string as far as it has come.
    ///
    /// What has not come is for the type to allow: with `Option` fields and `#[serde(default)]` a snapshot can be taken
    /// from the first bracket on.
    ///
    /// # Errors
    /// See [`SnapshotErrorKind`]. One that [is early](SnapshotError::is_early) may pass with more text.
    pub fn snapshot<T: DeserializeOwned>(&self) -> Result<T, SnapshotError> {
        self.snapshot_with(Partial::Include)
    }

    /// The root as a `T`, with an open string or without. Half of a string that names a variant, or holds a date, is
    /// better held back.
    ///
    /// # Errors
    /// Those of [`snapshot`](Self::snapshot).
    pub fn snapshot_with<T: DeserializeOwned>(&self, strings: Partial) -> Result<T, SnapshotError> {
        self.view_with(strings).ok_or_else(|| SnapshotError::nothing(""))?.read()
    }

    /// What a JSON Pointer names, as a `T`, with an open string as far as it has come. See [`View::pointer`].
    ///
    /// # Errors
    /// Those of [`snapshot`](Self::snapshot). Where the pointer names nothing that is there,
    /// [`Nothing`](SnapshotErrorKind::Nothing) if it may still come, else [`Mismatch`](SnapshotErrorKind::Mismatch).
    pub fn snapshot_at<T: DeserializeOwned>(&self, pointer: &str) -> Result<T, SnapshotError> {
        self.snapshot_at_with(pointer, Partial::Include)
    }

    /// What a JSON Pointer names, as a `T`, with an open string or without.
    ///
    /// # Errors
    /// Those of [`snapshot_at`](Self::snapshot_at).
    pub fn snapshot_at_with<T: DeserializeOwned>(&self, pointer: &str, strings: Partial) -> Result<T, SnapshotError> {
        let Some(root) = self.view_with(strings) else { return Err(SnapshotError::nothing(pointer)) };
        match root.locate(pointer) {
            Ok(view) => view.read(),
            Err(true) => Err(SnapshotError::nothing(pointer)),
            Err(false) => Err(SnapshotError::nowhere(pointer)),
        }
    }

    /// Every key of the root that its object had before, in the order of the document. Flagged when the key ends,
    /// before its value comes.
    pub fn duplicates(&self) -> &[Duplicate] {
        &self.duplicates
    }

    /// JSON Pointer of the member that a key repeats. O(what stands before it).
    pub fn path_of(&self, duplicate: &Duplicate) -> String {
        view::path(self, duplicate.node)
    }

    /// The value was not lent to every push, and events are missing: what it shows is what came before, and it will not
    /// grow before the next root. [`Document::replay`](crate::Document::replay) brings it up to date.
    ///
    /// That is known with the first event behind those that are missing. Until one comes, nothing tells of them.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// What stands between two offsets of the value's text.
    fn text(&self, start: usize, end: usize) -> &str {
        let text = self.text.get(start..end);
        debug_assert!(text.is_some(), "a node is within the text: {start}..{end}");
        text.unwrap_or_default()
    }

    /// The node behind the value (or the key) at `at` and all that it holds.
    fn behind(&self, at: usize) -> usize {
        match self.nodes.get(at) {
            Some(&Node::Container { end, .. }) => end.min(self.nodes.len()),
            _ => at + 1,
        }
    }

    /// A string is open: it is the last node then.
    fn in_string(&self) -> bool {
        matches!(self.nodes.last(), Some(Node::String { is_whole: false, .. }))
    }
}
