//! The native part of the Python package: the engine, as objects of Python.
//!
//! The transports and their I/O are written in Python, in `python/restitch`.
#![forbid(unsafe_code)]

mod exchange;
mod live;
mod partial;
mod tree;

use pyo3::prelude::*;

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
