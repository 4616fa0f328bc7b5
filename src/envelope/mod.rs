//! What models write around JSON and around continuations: white space, prose, reasoning tags, Markdown fences.
//!
//! [`EnvelopeScanner`] says where content may begin, [`RootFinder`] which of these places is the root of a document, and
//! `fence` where a fence ends. This module knows lines and tags, and nothing of what is between them.

mod fence;
mod root;
mod scanner;

pub(crate) use fence::{AfterRoot, FENCE, FenceCloser, ends_in_block, missing_fence, ticks_of};
pub use root::AllowedRoots;
pub(crate) use root::RootFinder;
pub(crate) use scanner::{ContentStart, EnvelopeScanner, after_reasoning};
