//! The native part of the npm package: the engine, as objects of JavaScript.
//!
//! The calls and their I/O are written in JavaScript, in `lib`.
#![deny(unsafe_code)]

mod exchange;
mod live;
mod partial;
