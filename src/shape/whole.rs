//! A whole text as a document.

use super::repair;
use crate::document::Document;
use crate::envelope::AllowedRoots;
use crate::error::SyntaxError;
use crate::json::Sink;
use crate::json::repair::{RepairLevel, RepairOptions};
use crate::limits::ParserLimits;

/// Reads a whole text without repairs. Returns its document, the sink of its events, and the
/// deviation, if there is one. A text without an object or an array may be a scalar.
pub fn read_whole<S: Sink + Default>(text: &str) -> (Document, S, Result<(), SyntaxError>) {
    let depth = ParserLimits::default().max_depth;
    let read = |roots, prose: usize| {
        let (mut document, mut sink) = (Document::with_roots(depth, roots), S::default());
        let (prose, rest) = text.split_at_checked(prose).unwrap_or(("", text));
        let mut read = document.push_with(prose, &mut sink);
        if !prose.is_empty() {
            document.begin_root();
        }
        read = read.and_then(|()| document.push_with(rest, &mut sink));
        let ended = read.and_then(|()| document.finish_with(&mut sink));
        let result = ended.and_then(|()| document.text_after_scalar().map_or(Ok(()), Err));
        (document, sink, result)
    };
    let containers = read(AllowedRoots::Containers, 0);
    if containers.0.root_start().is_some() {
        return containers;
    }
    // In a sentence only the whole text shows whether a bracket begins JSON.
    let found = repair(text, &RepairOptions::new(RepairLevel::Strict));
    match found.range.start {
        start if start > 0 && found.json.starts_with(['{', '[']) => {
            read(AllowedRoots::Containers, start)
        }
        _ => read(AllowedRoots::Any, 0),
    }
}
