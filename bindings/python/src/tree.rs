//! A value of Python's that grows in place while its text arrives.

use std::mem;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use restitch::json::{Event, Kind, ParserView, Scalar, Sink};

/// A change of the value. The events of a push are collected without the interpreter's lock.
#[derive(Debug)]
enum Change {
    Begin(Kind),
    End,
    Key(String),
    StringBegin,
    Fragment(String),
    StringEnd,
    Number(String),
    Bool(bool),
    Null,
    Withdrawn,
}

/// The changes of one push.
#[derive(Debug, Default)]
pub(crate) struct Changes(Vec<Change>);

impl Sink for Changes {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        self.0.push(match event {
            Event::Begin { kind, .. } => Change::Begin(kind),
            Event::End { .. } => Change::End,
            Event::Key(span) => Change::Key(live.key(span).into_owned()),
            Event::StringBegin(_) => Change::StringBegin,
            Event::Fragment(span) => Change::Fragment(live.decoded(span).into_owned()),
            Event::StringEnd(_) => Change::StringEnd,
            Event::Scalar { kind, span } => match kind {
                Scalar::Number => Change::Number(span.of(live.text).to_owned()),
                Scalar::True => Change::Bool(true),
                Scalar::False => Change::Bool(false),
                Scalar::Null => Change::Null,
            },
            Event::Withdrawn(_) => Change::Withdrawn,
        });
    }
}

/// The value so far.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    root: Option<Py<PyAny>>,
    /// The open containers, the root first.
    open: Vec<Container>,
    /// The open string.
    string: Option<OpenString>,
}

#[derive(Debug)]
enum Container {
    /// The key is that of the member that is due or open.
    Object(Py<PyDict>, Option<Py<PyString>>),
    Array(Py<PyList>),
}

#[derive(Debug, Default)]
struct OpenString {
    /// The part that is not in the value.
    rest: String,
    /// The part before it is in the value.
    is_shown: bool,
}

impl Tree {
    /// Returns the root; `None` before anything of it is certain.
    pub(crate) fn root(&self, py: Python<'_>) -> Py<PyAny> {
        match &self.root {
            Some(root) => root.clone_ref(py),
            None => py.None(),
        }
    }

    /// Returns whether anything of a root is certain.
    pub(crate) fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// Applies the changes of a push. `shows_open`: the received part of an open string is a part
    /// of the value.
    pub(crate) fn apply(
        &mut self,
        py: Python<'_>,
        changes: Changes,
        shows_open: bool,
    ) -> PyResult<()> {
        for change in changes.0 {
            match change {
                Change::Begin(Kind::Object) => {
                    let object = PyDict::new(py);
                    self.put(py, object.as_any())?;
                    self.open.push(Container::Object(object.unbind(), None));
                }
                Change::Begin(Kind::Array) => {
                    let array = PyList::empty(py);
                    self.put(py, array.as_any())?;
                    self.open.push(Container::Array(array.unbind()));
                }
                Change::End => drop(self.open.pop()),
                Change::Key(text) => {
                    if let Some(Container::Object(_, key)) = self.open.last_mut() {
                        *key = Some(PyString::new(py, &text).unbind());
                    }
                }
                Change::StringBegin => self.string = Some(OpenString::default()),
                Change::Fragment(text) => {
                    if let Some(string) = &mut self.string {
                        match string.rest.is_empty() {
                            true => string.rest = text,
                            false => string.rest.push_str(&text),
                        }
                    }
                }
                Change::StringEnd => {
                    let string = self.string.take().unwrap_or_default();
                    self.put_string(py, &string)?;
                }
                Change::Number(text) => {
                    let number = number(py, &text)?;
                    self.put(py, &number)?;
                }
                Change::Bool(value) => self.put(py, PyBool::new(py, value).as_any())?,
                Change::Null => self.put(py, py.None().bind(py))?,
                Change::Withdrawn => *self = Self::default(),
            }
        }
        if shows_open && let Some(string) = mem::take(&mut self.string) {
            self.put_string(py, &string)?;
            self.string = Some(OpenString {
                rest: String::new(),
                is_shown: true,
            });
        }
        Ok(())
    }

    /// Puts a string where its value is due, or appends it to its part that is shown.
    fn put_string(&mut self, py: Python<'_>, string: &OpenString) -> PyResult<()> {
        static GROW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if !string.is_shown {
            return self.put(py, PyString::new(py, &string.rest).as_any());
        }
        if string.rest.is_empty() {
            return Ok(());
        }
        let grow = GROW.import(py, "restitch._grow", "grow")?;
        match self.open.last() {
            Some(Container::Array(array)) => {
                let last = array.bind(py).len().saturating_sub(1);
                grow.call1((array, last, &string.rest))?;
            }
            Some(Container::Object(object, key)) => {
                grow.call1((object, key, &string.rest))?;
            }
            // Only a text that is read at once has a string as its root.
            None => {}
        }
        Ok(())
    }

    /// Puts a value where one is due.
    fn put(&mut self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.open.last() {
            None => self.root = Some(value.clone().unbind()),
            Some(Container::Array(array)) => array.bind(py).append(value)?,
            Some(Container::Object(object, Some(key))) => object.bind(py).set_item(key, value)?,
            Some(Container::Object(_, None)) => {}
        }
        Ok(())
    }
}

/// Reads a number as `json.loads` does: an `int` of any size, or a `float`.
fn number<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(number) = text.parse::<i64>() {
        return Ok(PyInt::new(py, number).into_any());
    }
    if text.contains(['.', 'e', 'E']) {
        // Every number of JSON is one of Rust's; a number that is too large becomes infinite.
        let number = text.parse().unwrap_or(f64::INFINITY);
        return Ok(PyFloat::new(py, number).into_any());
    }
    py.get_type::<PyInt>().call1((text,))
}
