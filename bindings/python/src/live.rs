//! A value that grows with the deltas of a stream.

use std::sync::Mutex;

use pyo3::prelude::*;
use restitch::{Document, Limits};

use crate::locked;
use crate::partial::syntax_error;
use crate::tree::{Changes, Tree};

/// The value of a JSON document while its text arrives, in a stream of a model's text.
///
/// A delta costs time for what it changes, and not for the whole value: the value is the same
/// object each time, and grows in place. Copy it to keep a state.
#[pyclass(frozen, module = "restitch")]
#[derive(Debug)]
pub(crate) struct LiveValue(Mutex<Live>);

#[derive(Debug)]
struct Live {
    document: Document,
    tree: Tree,
    shows_open: bool,
}

#[pymethods]
impl LiveValue {
    /// `strings`: the value has the received part of an open string.
    #[new]
    #[pyo3(signature = (*, strings = true))]
    fn new(strings: bool) -> Self {
        Self(Mutex::new(Live {
            document: Document::new(Limits::default().parser.max_depth),
            tree: Tree::default(),
            shows_open: strings,
        }))
    }

    /// Takes more text. Returns the received part of the value; `None` before its first bracket.
    fn feed(&self, py: Python<'_>, delta: &str) -> PyResult<Py<PyAny>> {
        let mut live = locked(&self.0, py);
        let mut changes = Changes::default();
        let document = &mut live.document;
        let result = match delta.len() < LARGE {
            true => document.push_with(delta, &mut changes),
            false => py.detach(|| document.push_with(delta, &mut changes)),
        };
        let shows_open = live.shows_open;
        live.tree.apply(py, changes, shows_open)?;
        result.map_err(|error| syntax_error(py, &live.document, &error))?;
        Ok(live.tree.root(py))
    }

    /// The received part of the value; `None` before its first bracket.
    #[getter]
    fn value(&self, py: Python<'_>) -> Py<PyAny> {
        locked(&self.0, py).tree.root(py)
    }

    /// Whether the document is complete.
    #[getter]
    fn is_complete(&self, py: Python<'_>) -> bool {
        locked(&self.0, py).document.is_complete()
    }

    /// The JSON Pointer of the value that is open or due.
    #[getter]
    fn path(&self, py: Python<'_>) -> String {
        locked(&self.0, py).document.cut().path
    }

    /// All text so far.
    #[getter]
    fn text(&self, py: Python<'_>) -> String {
        locked(&self.0, py).document.text().to_owned()
    }
}

/// The bytes of a delta from which on releasing the interpreter's lock is cheap beside the reading.
const LARGE: usize = 1 << 10;
