//! What a prompt tells a model of the document that it is to continue: reads of a [`Document`] and its sinks.
//!
//! Nothing is parsed again: the open containers say where the cut is, spans say what stands before it, and what has no
//! span is read backwards from the cut, as far as it is shown. Each costs O(depth + what it prints) at any size of
//! document, but for the search of the anchor. docs/contexts.md has them on one page.
//!
//! ```
//! use restitch::context::{Contexts, Options, Sections};
//! use restitch::Document;
//!
//! let (mut document, mut sections) = (Document::new(64), Sections::default());
//! document.push_with(r#"{"sections": [{"id": "s1", "items": [1, 2]}, {"id": "s2", "ite"#, &mut sections)?;
//! let contexts = Contexts::of(&document, &sections, &Options::default());
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
mod progress;
mod sections;
mod summary;

use std::fmt;

use serde::{Serialize, Serializer};

use crate::document::Document;
use crate::json::CloseOptions;
use crate::limits::Limits;
use crate::overlap::Anchor;
use crate::siblings::Siblings;
pub use budget::{Rendering, hierarchy_context_for_prompt};
pub use element::{cut_off_element, element_before_cutoff};
pub use progress::{KPI_QUESTION, Progress, extract, validate};
pub use sections::{Sections, sections_of};
pub use summary::{Count, Section, merge_sections};

/// Characters of values in the text as cut for a prompt, where nothing else is said.
pub const BUDGET: usize = 500;

/// What contexts are made with.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Characters of values in `hierarchy_context_for_prompt`. Default 500.
    pub budget: usize,
    /// Characters of the longest anchor ([`Limits::max_anchor_chars`]).
    pub anchor: usize,
    /// The whole children of the document's open containers, which tell where large values begin. Default none.
    pub siblings: Option<&'a Siblings>,
    /// The last fragment as it was received. Default none: there was one, the text of the document.
    pub last_raw_json: Option<&'a str>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { budget: BUDGET, anchor: Limits::default().max_anchor_chars, siblings: None, last_raw_json: None }
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
    /// The contexts of a document. `sections` followed all of its text.
    pub fn of(document: &'a Document, sections: &Sections, options: &Options<'a>) -> Self {
        let overlap = overlap_context(document, options.anchor);
        let complete_part = complete_part(document);
        Self {
            overlap_context: overlap.text,
            ambiguous: overlap.ambiguous,
            json_parsing_success: complete_part.is_some(),
            complete_part,
            hierarchy_context: hierarchy_context(document),
            hierarchy_context_for_prompt: hierarchy_context_for_prompt(document, options.siblings, options.budget).text,
            delivered_summary: sections.summary(document),
            cut_off_element: cut_off_element(document),
            element_before_cutoff: element_before_cutoff(document, options.siblings),
            last_raw_json: options.last_raw_json.unwrap_or_else(|| document.text()),
            kpi_question: KPI_QUESTION,
        }
    }
}

/// The end of the delivered text that a continuation is asked to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap<'a> {
    /// Empty where nothing is to be continued: the root is closed, or has not begun.
    pub text: &'a str,
    /// It stands elsewhere, too, or goes on as it began.
    pub ambiguous: bool,
}

/// The anchor ([`Anchor::of`], rule 3 of the specification), of at most about `cap` characters. Searches the text: ask
/// once a cut.
pub fn overlap_context(document: &Document, cap: usize) -> Overlap<'_> {
    // A closed root needs no continuation; before a root there is nothing that one could repeat.
    let is_open = document.root_start().is_some() && !document.is_complete();
    let anchor = is_open.then(|| Anchor::of(document.text(), cap)).flatten();
    let ambiguous = anchor.as_ref().is_some_and(|anchor| anchor.ambiguous);
    let text = anchor.map(|anchor| anchor.range).and_then(|range| {
        debug_assert!(document.text().get(range.clone()).is_some(), "the anchor {range:?} is in the text");
        document.text().get(range)
    });
    Overlap { text: text.unwrap_or_default(), ambiguous }
}

/// The root as cut: with it the next fragment is joined. Without what stands around the root; empty before it. O(1).
pub fn hierarchy_context(document: &Document) -> &str {
    document.root().unwrap_or_default()
}

/// The complete part, as a view: the text up to its last safe point, and what closes it. Prints as the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletePart<'a> {
    /// From the first byte of the root on.
    pub text: &'a str,
    /// Goes behind it.
    pub suffix: String,
}

impl fmt::Display for CompletePart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)?;
        f.write_str(&self.suffix)
    }
}

impl Serialize for CompletePart<'_> {
    /// As one string.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The document's complete part ([`Document::complete_into`]). `None` before the first safe point. O(depth).
pub fn complete_part(document: &Document) -> Option<CompletePart<'_>> {
    let mut suffix = String::new();
    let end = document.complete_into(CloseOptions::default(), &mut suffix)?;
    Some(CompletePart { text: document.text().get(document.root_start()?..end)?, suffix })
}

fn part_or_empty<S: Serializer>(part: &Option<CompletePart<'_>>, serializer: S) -> Result<S::Ok, S::Error> {
    match part {
        Some(part) => part.serialize(serializer),
        None => serializer.serialize_str(""),
    }
}
