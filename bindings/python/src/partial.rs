//! Partial JSON: one text to a value, to its complete part, or to its repair.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};
use restitch::internal::document::read_whole;
use restitch::repair::{RepairLevel, RepairOptions};
use restitch::{Document, SourceLocation, SyntaxError};

use crate::tree::{Changes, Tree};

/// Returns the exception for a place in a text: it has `byte`, `line`, `column` and `path`.
fn error_at(py: Python<'_>, message: &str, place: &SourceLocation) -> PyErr {
    let arguments = (
        message,
        place.offset,
        place.line,
        place.column,
        place.path.as_str(),
    );
    // The stable form of Python's interface has no subclasses of exceptions before 3.12, so the
    // class is one of Python's.
    let error = py
        .import("restitch._errors")
        .and_then(|module| module.getattr("JSONError"))
        .and_then(|class| class.call1(arguments));
    error.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the exception for a deviation in a document.
pub(crate) fn syntax_error(py: Python<'_>, document: &Document, error: &SyntaxError) -> PyErr {
    let place = document.explain(error);
    error_at(py, &format!("{}: {place}", error.kind), &place)
}

/// Returns a text without a copy, if it is valid.
fn text_of<'a>(text: &'a Bound<'_, PyAny>) -> PyResult<std::borrow::Cow<'a, str>> {
    let not_utf8 = || PyValueError::new_err("the text is not UTF-8");
    if let Ok(text) = text.cast::<PyString>() {
        return text.to_cow();
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return std::str::from_utf8(bytes.as_bytes())
            .map(Into::into)
            .map_err(|_| not_utf8());
    }
    if let Ok(bytes) = text.cast::<PyByteArray>() {
        return String::from_utf8(bytes.to_vec())
            .map(Into::into)
            .map_err(|_| not_utf8());
    }
    Err(PyTypeError::new_err(
        "the text is a str, bytes or bytearray",
    ))
}

/// Reads JSON in the text of a model, also if it is cut off, or in a Markdown fence or prose.
///
/// `partial`: a text that is cut off is read up to the cut, an open string with its received part.
/// Numbers, literals, keys and escapes that may be incomplete are left out. Otherwise a cut is an
/// error.
#[pyfunction]
#[pyo3(signature = (text, *, partial = false))]
pub(crate) fn loads(py: Python<'_>, text: &Bound<'_, PyAny>, partial: bool) -> PyResult<Py<PyAny>> {
    let text = text_of(text)?;
    let text = text.as_ref();
    let (document, changes, result) = py.detach(|| read_whole::<Changes>(text));
    let has_root = document.root_start().is_some();
    if let Err(error) = result
        && has_root
        && !(partial && error.is_truncated())
    {
        return Err(syntax_error(py, &document, &error));
    }
    let mut tree = Tree::default();
    tree.apply(py, changes, true)?;
    if tree.has_root() {
        return Ok(tree.root(py));
    }
    Err(error_at(
        py,
        "there is no JSON in the text",
        &SourceLocation::at(text, text.len()),
    ))
}

/// Returns the complete part of a text that is cut off: valid JSON, with the received part of an
/// open string, and without anything that may be incomplete. `None` if nothing of a document is
/// certain.
#[pyfunction]
pub(crate) fn complete(py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let text = text_of(text)?;
    let text = text.as_ref();
    let (document, _, result) = py.detach(|| read_whole::<Changes>(text));
    match result {
        Err(error) if !error.is_truncated() => Err(syntax_error(py, &document, &error)),
        _ => Ok(document.complete()),
    }
}

/// The result of a repair.
#[pyclass(frozen, get_all, module = "restitch")]
#[derive(Debug)]
pub(crate) struct Repaired {
    /// The repaired JSON, or the complete part of a text that is malformed or cut off.
    json: String,
    /// `valid`, `repaired`, `truncated` or `malformed`.
    status: String,
    /// The changes as dicts: `rule`, `level`, `range` (bytes of the text), `original`,
    /// `replacement`, `path`.
    repairs: Py<PyAny>,
}

#[pymethods]
impl Repaired {
    fn __str__(&self) -> &str {
        &self.json
    }

    fn __repr__(&self) -> String {
        format!("<Repaired {}: {}>", self.status, self.json)
    }
}

/// Repairs the mistakes that models make in JSON. Text around the JSON, such as a fence or prose,
/// is left out. Valid JSON stays unchanged.
///
/// `level`: `strict` repairs nothing, `syntax` changes no whole token, `guess` also
/// chooses between readings.
#[pyfunction]
#[pyo3(signature = (text, *, level = "guess"))]
pub(crate) fn repair(py: Python<'_>, text: &Bound<'_, PyAny>, level: &str) -> PyResult<Repaired> {
    let level = RepairLevel::named(level).map_err(PyValueError::new_err)?;
    let text = text_of(text)?;
    let text = text.as_ref();
    let repaired =
        py.detach(|| restitch::shape::repair(text, &RepairOptions::new(level)).into_owned());
    let status = repaired.status.as_str().to_owned();
    let repairs = serde_json::to_string(&repaired.repairs).unwrap_or_default();
    Ok(Repaired {
        json: repaired.json.into(),
        status,
        repairs: from_json(py, &repairs)?,
    })
}

/// Reads JSON that the engine has written.
pub(crate) fn from_json(py: Python<'_>, json: &str) -> PyResult<Py<PyAny>> {
    let mut tree = Tree::default();
    let (_, changes, _) = read_whole(json);
    tree.apply(py, changes, false)?;
    Ok(tree.root(py))
}
