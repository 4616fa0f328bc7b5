//! Contexts: descriptions of a cut document for the prompt that asks a model to continue it.
//!
//! Contexts are read off a [`Document`] and a [`ContextIndex`]; nothing is parsed again. The open
//! containers determine the cut, spans locate the values before it, and the visible part of text
//! without spans is read backwards from the cut. Each context costs O(depth + its length) at any
//! document size, except the search of the overlap context. docs/internals/contexts.md lists all
//! contexts.
//!
//! ```
//! use restitch::context::{ContextIndex, ContextOptions, Contexts};
//! use restitch::Document;
//!
//! let (mut document, mut index) = (Document::new(64), ContextIndex::default());
//! document.push_with(r#"{"sections": [{"id": "s1", "items": [1, 2]}, {"id": "s2", "ite"#, &mut index)?;
//! let contexts = Contexts::of(&document, &index, &ContextOptions::default());
//! assert_eq!(contexts.complete_part.unwrap().to_string(), r#"{"sections": [{"id": "s1", "items": [1, 2]}, {"id": "s2"}]}"#);
//! assert_eq!(contexts.cut_off_element, Some(r#"{"id": "s2", "ite"#));
//! assert_eq!(contexts.element_before_cutoff, Some(r#"{"id": "s1", "items": [1, 2]}"#));
//! # Ok::<(), restitch::SyntaxError>(())
//! ```
//!
//! A context holds unchanged text of the document: separate it from the other words of a prompt.
//! Document text cannot imitate the additions of this module: a hint is outside of quotes, and a
//! section is one line.

mod back;
mod budget;
mod element;
mod parts;
mod progress;
mod sections;
mod summary;

use serde::{Serialize, Serializer};

use crate::children::ChildIndex;
use crate::document::Document;
use crate::json::{Event, ParserView, Sink};
use crate::limits::Limits;
pub(crate) use element::cut_child;
pub(crate) use internal::*;
#[doc(hidden)]
pub use parts::CompletePart;
#[doc(hidden)]
pub use summary::{Count, Section};

/// The default number of characters of values in `hierarchy_context_for_prompt`.
#[doc(hidden)]
pub const BUDGET: usize = 500;

/// Items for the rest of the crate, its tests and its benches, beside the API.
pub(crate) mod internal {
    pub use crate::context::budget::{Rendering, hierarchy_context_for_prompt};
    pub use crate::context::element::{cut_off_element, element_before_cutoff};
    pub use crate::context::parts::{Overlap, complete_part, hierarchy_context, overlap_context};
    pub use crate::context::progress::{KPI_QUESTION, Progress, extract, validate};
    pub use crate::context::sections::{Sections, sections_of};
    pub use crate::context::summary::merge_sections;
}

/// The data for contexts besides the document's text: a [`Sink`] to lend to every push.
///
/// Follows the document's sections and the complete children of its open containers. Keeps spans
/// and counts, no text. If a document is [restored](Document::restore), continue with a clone that
/// was made with the checkpoint.
#[derive(Clone, Debug)]
pub struct ContextIndex {
    sections: Sections,
    children: ChildIndex,
}

impl ContextIndex {
    /// Creates an index of at most
    /// [`max_children`](crate::Limits::with_max_children) children and 4,096
    /// sections.
    pub fn new(limits: &Limits) -> Self {
        Self {
            sections: Sections::default(),
            children: ChildIndex::new(limits.parser.max_children),
        }
    }

    /// Returns the remembered sections, in the order in which they start. O(sections).
    #[doc(hidden)]
    pub fn sections(&self, document: &Document) -> Vec<Section> {
        self.sections.list(document)
    }

    /// Returns the `delivered_summary`: a line for each section.
    pub fn summary(&self, document: &Document) -> String {
        self.sections.summary(document)
    }
}

impl Default for ContextIndex {
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

impl Sink for ContextIndex {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        (&mut self.sections, &mut self.children).event(event, live);
    }
}

/// The options of [`Contexts::of`].
#[derive(Clone, Copy, Debug)]
pub struct ContextOptions<'a> {
    budget: usize,
    max_anchor: usize,
    last_raw_json: Option<&'a str>,
}

impl Default for ContextOptions<'_> {
    fn default() -> Self {
        Self {
            budget: BUDGET,
            max_anchor: Limits::default().continuation.max_anchor_chars,
            last_raw_json: None,
        }
    }
}

impl<'a> ContextOptions<'a> {
    /// Sets the number of characters of values in `hierarchy_context_for_prompt`. Default: 500.
    #[must_use]
    pub fn budget(mut self, characters: usize) -> Self {
        self.budget = characters;
        self
    }

    /// Sets the length of the longest overlap context, in characters. Default: that of [`Limits`].
    #[must_use]
    pub fn max_anchor(mut self, characters: usize) -> Self {
        self.max_anchor = characters;
        self
    }

    /// Sets the last fragment, unchanged. Default: the text of the document, as its only fragment.
    #[must_use]
    pub fn last_raw_json(mut self, fragment: &'a str) -> Self {
        self.last_raw_json = Some(fragment);
        self
    }
}

/// All contexts of a document. They borrow the document's text: only printed contexts are copies.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Contexts<'a> {
    /// The end of the text that a continuation is asked to repeat. Empty before the root and after
    /// it.
    pub overlap_context: &'a str,
    /// The overlap context occurs elsewhere too, or its end repeats its start: its position is not
    /// certain.
    pub ambiguous: bool,
    /// The root up to its last safe point, closed. Serialized as empty text before the first safe
    /// point.
    #[serde(serialize_with = "part_or_empty")]
    pub complete_part: Option<CompletePart<'a>>,
    /// Whether there is a complete part, which is valid JSON.
    pub json_parsing_success: bool,
    /// The root as cut.
    pub hierarchy_context: &'a str,
    /// The root as cut, within the budget.
    pub hierarchy_context_for_prompt: String,
    /// A line for each section.
    pub delivered_summary: String,
    /// The innermost array element that holds the cut, as cut.
    pub cut_off_element: Option<&'a str>,
    /// The last complete sibling of the cut element.
    pub element_before_cutoff: Option<&'a str>,
    /// The last fragment, unchanged.
    pub last_raw_json: &'a str,
    /// A question about how much of the content has been delivered.
    pub kpi_question: &'static str,
}

impl<'a> Contexts<'a> {
    /// Reads the contexts of a document. `index` must have followed all of its text.
    pub fn of(document: &'a Document, index: &ContextIndex, options: &ContextOptions<'a>) -> Self {
        let children = Some(&index.children);
        let overlap = overlap_context(document, options.max_anchor);
        let complete_part = complete_part(document);
        Self {
            overlap_context: overlap.text,
            ambiguous: overlap.ambiguous,
            json_parsing_success: complete_part.is_some(),
            complete_part,
            hierarchy_context: hierarchy_context(document),
            hierarchy_context_for_prompt: hierarchy_context_for_prompt(
                document,
                children,
                options.budget,
            )
            .text,
            delivered_summary: index.summary(document),
            cut_off_element: cut_off_element(document),
            element_before_cutoff: element_before_cutoff(document, children),
            last_raw_json: options.last_raw_json.unwrap_or_else(|| document.text()),
            kpi_question: KPI_QUESTION,
        }
    }
}

fn part_or_empty<S: Serializer>(
    part: &Option<CompletePart<'_>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match part {
        Some(part) => part.serialize(serializer),
        None => serializer.serialize_str(""),
    }
}
