//! What a prompt tells a model of the document that it is to continue: reads of a [`Document`] and its sinks.
//!
//! Nothing is parsed again: the open containers say where the cut is, spans say what stands before it, and what has no
//! span is read backwards from the cut, as far as it is shown. Each costs O(depth + what it prints) at any size of
//! document, but for the search of the anchor. docs/contexts.md has them on one page.
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
//! Text of the document stands in its contexts as it is; whoever puts them into a prompt keeps them apart from its own
//! words. What is made here is not made by such text: a hint stands outside of quotes, a section is one line.

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
use crate::json::{Event, Live, Sink};
use crate::limits::Limits;
pub use budget::{Rendering, hierarchy_context_for_prompt};
pub use element::{cut_off_element, element_before_cutoff};
pub use parts::{CompletePart, Overlap, complete_part, hierarchy_context, overlap_context};
pub use progress::{KPI_QUESTION, Progress, extract, validate};
pub use sections::{Sections, sections_of};
pub use summary::{Count, Section, merge_sections};

/// Characters of values in the text as cut for a prompt, where nothing else is said.
pub const BUDGET: usize = 500;

/// What the contexts of a document are read from, beside its text: a [`Sink`] to lend to every push.
///
/// Follows the document's sections and the whole children of its open containers. Keeps spans and counts, no text. Where a
/// document is [set back](Document::restore), a clone that was taken together with the checkpoint goes on.
#[derive(Clone, Debug)]
pub struct ContextIndex {
    sections: Sections,
    children: ChildIndex,
}

impl ContextIndex {
    /// Remembers as many children as `limits` allow, and 4,096 sections.
    pub fn new(limits: &Limits) -> Self {
        Self { sections: Sections::default(), children: ChildIndex::new(limits.max_children) }
    }

    /// Returns the sections that are remembered, in the order in which they begin. O(sections).
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
    fn event(&mut self, event: Event, live: &Live<'_>) {
        (&mut self.sections, &mut self.children).event(event, live);
    }
}

/// What contexts are made with.
#[derive(Clone, Copy, Debug)]
pub struct ContextOptions<'a> {
    budget: usize,
    max_anchor: usize,
    last_raw_json: Option<&'a str>,
}

impl Default for ContextOptions<'_> {
    fn default() -> Self {
        Self { budget: BUDGET, max_anchor: Limits::default().max_anchor_chars, last_raw_json: None }
    }
}

impl<'a> ContextOptions<'a> {
    /// Sets the characters of values in `hierarchy_context_for_prompt`. Default 500.
    #[must_use]
    pub fn budget(mut self, characters: usize) -> Self {
        self.budget = characters;
        self
    }

    /// Sets the characters of the longest overlap context. Default: that of [`Limits`].
    #[must_use]
    pub fn max_anchor(mut self, characters: usize) -> Self {
        self.max_anchor = characters;
        self
    }

    /// Sets the last fragment as it was received. Default: there was one, the text of the document.
    #[must_use]
    pub fn last_raw_json(mut self, fragment: &'a str) -> Self {
        self.last_raw_json = Some(fragment);
        self
    }
}

/// All contexts of a document. Borrows its text: nothing that is long is copied, but for what is printed.
#[derive(Clone, Debug, Serialize)]
pub struct Contexts<'a> {
    /// The end of the text that a continuation is asked to repeat. Empty where the root is closed, and before it.
    pub overlap_context: &'a str,
    /// That end stands elsewhere, too, or goes on as it began: a seam that rests on it alone is ambiguous.
    pub ambiguous: bool,
    /// The root up to its last safe point, closed. Empty as text where there is none yet.
    #[serde(serialize_with = "part_or_empty")]
    pub complete_part: Option<CompletePart<'a>>,
    /// There is a complete part. It is valid JSON.
    pub json_parsing_success: bool,
    /// The root as cut.
    pub hierarchy_context: &'a str,
    /// The root as cut, within the budget.
    pub hierarchy_context_for_prompt: String,
    /// A line for each section.
    pub delivered_summary: String,
    /// The innermost array element that holds the cut, as cut.
    pub cut_off_element: Option<&'a str>,
    /// Its last whole sibling.
    pub element_before_cutoff: Option<&'a str>,
    /// The last fragment as it was received.
    pub last_raw_json: &'a str,
    /// Asks how much has been delivered.
    pub kpi_question: &'static str,
}

impl<'a> Contexts<'a> {
    /// Reads the contexts of a document, all of whose text `index` has followed.
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
            hierarchy_context_for_prompt: hierarchy_context_for_prompt(document, children, options.budget).text,
            delivered_summary: index.summary(document),
            cut_off_element: cut_off_element(document),
            element_before_cutoff: element_before_cutoff(document, children),
            last_raw_json: options.last_raw_json.unwrap_or_else(|| document.text()),
            kpi_question: KPI_QUESTION,
        }
    }
}

fn part_or_empty<S: Serializer>(part: &Option<CompletePart<'_>>, serializer: S) -> Result<S::Ok, S::Error> {
    match part {
        Some(part) => part.serialize(serializer),
        None => serializer.serialize_str(""),
    }
}
