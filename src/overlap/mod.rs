//! Finds where a continuation meets the delivered text: compares text with text and does not know what either means.

mod anchor;
mod automaton;
mod edges;
mod matcher;
mod search;

pub use anchor::Anchor;
pub(crate) use anchor::{is_unbordered, longest_border};
pub use automaton::{Automaton, Cursor, Occurrences};
pub(crate) use matcher::EVIDENCE;
pub use matcher::{Hit, Hits, Matcher};
