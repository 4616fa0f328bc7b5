//! Where a continuation meets what was delivered: text against text, without knowing what either means.

mod anchor;
mod matcher;

pub use anchor::Anchor;
pub use matcher::{Hit, Matcher};
