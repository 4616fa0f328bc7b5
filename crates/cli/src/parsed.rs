//! One whole text as a document.

use super::Exit;
use super::console::Notes;
use super::encoding::EncodedText;
use super::repairs::note_others;
use restitch::context::ContextIndex;
use restitch::internal::document::read_whole;
use restitch::{AllowedRoots, Document, Limits, SyntaxError, SyntaxErrorKind};

/// A whole text as a document, its deviation from the grammar if it has one, and the index of its
/// contexts.
pub(super) struct Parsed {
    pub(super) document: Document,
    pub(super) deviation: Option<SyntaxError>,
    pub(super) index: ContextIndex,
    /// The root is whole, and the text ends inside another one.
    pub(super) is_cut_later: bool,
}

impl Parsed {
    /// Reads a text, which may end inside a character.
    pub(super) fn new(text: &EncodedText) -> Self {
        let mut index = ContextIndex::default();
        let mut document =
            Document::with_roots(Limits::default().parser.max_depth, AllowedRoots::Any);
        let mut deviation = document
            .push_with(&text.text, &mut index)
            .err()
            .or_else(|| half_mistake(&document, &text.half));
        if deviation.is_none() {
            // Ends a number, and settles an array of numbers after prose as the root. The error of
            // an open root is not needed: the document has its cut.
            let _ = document.finish_with(&mut index);
            deviation = document.text_after_scalar();
        }
        if document.root_start().is_none() && deviation.is_none() {
            // A sentence may hold the root.
            let (found, contexts, read) = read_whole(&text.text);
            if found.root_start().is_some() {
                (document, index) = (found, contexts);
                deviation = read.err().filter(|error| !error.is_truncated());
            }
        }
        let is_cut_later = deviation.is_none() && document.ends_in_other_root();
        Self {
            document,
            deviation,
            index,
            is_cut_later,
        }
    }

    pub(super) fn exit(&self) -> Exit {
        if self.deviation.is_some() || self.document.is_prose() {
            Exit::Invalid
        } else if self.document.is_complete() && !self.is_cut_later {
            Exit::Complete
        } else {
            Exit::Cut
        }
    }

    /// Returns the complete part. `None` for a text that is not JSON. Prose may begin with a scalar
    /// that other text touches, or with a bracket without JSON after it: `1.4.5`, `[the docs]`.
    pub(super) fn complete_part(&self) -> Option<String> {
        let inside = || {
            self.document
                .root()
                .and_then(|root| root.strip_prefix(['{', '[']))
        };
        let is_json =
            self.deviation.is_none() || inside().is_some_and(|inside| !inside.trim().is_empty());
        is_json.then(|| self.document.complete()).flatten()
    }

    /// Returns the mistake in the text. A cut is not a mistake, unless it is in a root that is not
    /// in the answer.
    pub(super) fn mistake(&self) -> Option<String> {
        let prose = || self.document.is_prose().then(|| NO_JSON.to_owned());
        let later = || self.is_cut_later.then(|| LATER_ROOT.to_owned());
        self.deviation
            .map(|error| error.to_string())
            .or_else(prose)
            .or_else(later)
    }

    /// Reports where the text leaves the grammar, and the other roots. `name` is the name of the
    /// file or line.
    pub(super) fn note(&self, name: &str, notes: Notes) {
        if let Some(error) = self.deviation {
            notes.deviation(name, &self.document, &error);
        } else if self.document.is_prose() {
            notes.note(format_args!("{name}: {NO_JSON}"));
        }
        note_others(name, self.document.other_roots().count(), notes);
    }
}

/// Returns the mistake at the end of a document whose last bytes are the first bytes of a
/// character. If a character may follow there, the text is only cut and has no mistake.
pub(super) fn half_mistake(document: &Document, half: &[u8]) -> Option<SyntaxError> {
    let first = *half.first()?;
    match document.root_start() {
        _ if document.is_complete() => None,
        // The machine reads bytes, so the answer is the one of `check`.
        Some(_) => document.machine().clone().feed(half).err(),
        None => Some(SyntaxError {
            kind: SyntaxErrorKind::InvalidUtf8(first),
            offset: document.text().len(),
        }),
    }
}

/// The text is cut, and not in the root that is answered.
const LATER_ROOT: &str = "the text is cut in another root";
pub(super) const NO_JSON: &str = "there is no JSON in the text";
