//! Finds where a continuation meets the delivered text: compares text with text and does not know what either means.

mod anchor;
mod borders;
mod fold;
mod matcher;
mod near;

pub use anchor::Anchor;
pub(crate) use anchor::{EVIDENCE, is_unbordered, proves_place};
pub(crate) use matcher::Run;
pub use matcher::{Hits, Matcher};
pub use near::{Edits, NearAnchor};
