//! The text of models around JSON and around continuations: white space, prose, reasoning tags,
//! Markdown fences.
//!
//! [`EnvelopeScanner`] finds where content may begin, [`RootFinder`] where the root of a document begins or may begin,
//! and `fence` where a fence ends. This module knows lines and tags, and ignores the text between them.

mod fence;
mod lead;
mod preamble;
mod root;
mod scanner;

pub(crate) use fence::{
    AfterRoot, FENCE, FenceCloser, block_end, ends_in_block, missing_fence, ticks_of,
};
pub use root::AllowedRoots;
pub(crate) use root::{RootFinder, RootStart, SoughtRoot};
pub(crate) use scanner::{
    ContentStart, EnvelopeScanner, after_reasoning, is_reasoning, reasoning_end,
};
