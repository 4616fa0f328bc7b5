//! The parts that the races share: inputs, rounds in turn, tables, proxies.

#![forbid(unsafe_code)]

pub mod input;
pub mod proxies;
pub mod store;
pub mod table;
pub mod timing;
