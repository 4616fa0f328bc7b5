//! Where a continuation meets what was delivered: text against text, without knowing what either means.

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
