//! The native part of the Python package: the engine, as objects of Python.
//!
//! The transports and their I/O are written in Python, in `python/restitch`.
#![forbid(unsafe_code)]

mod exchange;
mod live;
mod partial;
mod tree;

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;

/// Locks a state. Another thread may hold the lock without the interpreter's.
fn locked<'m, T>(state: &'m Mutex<T>, py: Python<'_>) -> MutexGuard<'m, T> {
    state
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner)
}

/// The native part of the package.
#[pymodule]
mod _restitch {
    #[pymodule_export]
    use crate::exchange::Exchange;
    #[pymodule_export]
    use crate::live::LiveValue;
    #[pymodule_export]
    use crate::partial::{Repaired, complete, loads, repair};
}
