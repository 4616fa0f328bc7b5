//! Whole responses: the JSON in them, repaired, in the shape that the caller expects.
//!
//! [`repair`] finds the root of a text among fences, prose and reasoning, and repairs it. [`parse`] also returns the
//! effort ([`Attempt`]), and gives the value its shape: the chosen one ([`Expect`]), or a recognised one. It keeps the
//! bytes of the value, as written or repaired. docs/shapes.md describes both.
//!
//! ```
//! use restitch::shape::{Expect, Shape, parse};
//!
//! let stage = Shape::stage("extract_prompts").unwrap();
//! let parsed = parse("Here it is:\n```json\n{\"section_title\": \"One\"}\n```\n", &Expect::shape(stage))?;
//! assert_eq!((parsed.attempt.as_str(), &*parsed.json), ("3", r#"[{"section_title": "One"}]"#));
//! # Ok::<(), restitch::shape::ParseError>(())
//! ```
//! For a response that is still on its way there are [`Document`](crate::Document) and
//! [`live`](crate::live).

mod apply;
mod around;
mod attempt;
mod expect;
mod list;
mod report;
#[cfg_attr(not(feature = "schema"), path = "schema_off.rs")]
mod schema;
mod search;
mod stage;
pub(crate) mod whole;

use std::borrow::Cow;

#[doc(hidden)]
pub use attempt::Attempt;
pub use expect::Expect;
#[doc(hidden)]
pub use report::ParseError;
pub use report::Parsed;
#[doc(hidden)]
pub use report::{Dropped, Renamed, Repaired, Root, Violation};
#[cfg(feature = "schema")]
pub use schema::Schema;
#[cfg(feature = "schema")]
#[doc(hidden)]
pub use schema::SchemaError;
pub use stage::{RootKind, Shape};

use crate::document::choice::{self, Doubt};
use crate::json::repair::{RepairOptions, RepairStatus};
use search::Found;

/// Finds the root of a whole text, and repairs it. Fences, prose and reasoning around the root do
/// not count as mistakes.
///
/// Among several roots, takes one in a fence, else one in which the text is cut, or that begins a
/// line, ends the text or is far larger than all others, else the first one. The report has the
/// others.
///
/// ```
/// use restitch::repair::{RepairOptions, RepairStatus};
///
/// let repaired = restitch::shape::repair("Here it is: {\"a\": 1}. Bye", &RepairOptions::default());
/// assert_eq!((repaired.status, &*repaired.json, repaired.range), (RepairStatus::Valid, "{\"a\": 1}", 12..20));
/// ```
#[doc(hidden)]
pub fn repair<'t>(text: &'t str, options: &RepairOptions) -> Repaired<'t> {
    repair_expected(text, &Expect::any().repairs(options.clone()))
}

/// Like [`repair`], but among several roots takes the first one that is expected. The value keeps
/// its own shape.
#[doc(hidden)]
pub fn repair_expected<'t>(text: &'t str, expect: &Expect) -> Repaired<'t> {
    search::find(text, &expect.options())
        .choose(text, |root| apply::fits(&root.json, expect))
        .0
}

/// Finds the JSON of a whole response, repairs it, and gives it the expected shape.
///
/// A shape is applied if the value has it, also without an expectation, but a single object is
/// wrapped in an array only if a shape was chosen. A text that ends too early is closed without an
/// error: [`Parsed::status`] shows it.
///
/// # Errors
/// There is no JSON in the text, or it can't be repaired.
pub fn parse<'t>(text: &'t str, expect: &Expect) -> Result<Parsed<'t>, ParseError> {
    if expect.is_text() {
        return parse_text(text, expect);
    }
    let found = search::find(text, &expect.options());
    let (mut repaired, is_fenced) = found.choose(text, |root| apply::fits(&root.json, expect));
    if matches!(repaired.status, RepairStatus::Malformed(_)) || repaired.json.is_empty() {
        return Err(ParseError {
            status: repaired.status,
            range: repaired.range,
        });
    }
    let attempt = Attempt::of(text, &repaired, is_fenced);
    let applied = apply::apply(std::mem::take(&mut repaired.json), expect);
    let violations = expect.violations(&applied.json, applied.mismatch);
    Ok(Parsed {
        attempt,
        status: repaired.status,
        json: applied.json,
        shape: applied.shape,
        range: repaired.range,
        repairs: repaired.repairs,
        renamed: applied.renamed,
        dropped: applied.dropped,
        others: repaired.others,
        violations,
    })
}

/// Takes a response that is text: removes a fence around it and reasoning before it.
fn parse_text<'t>(text: &'t str, expect: &Expect) -> Result<Parsed<'t>, ParseError> {
    let (range, is_fenced) = search::body(text);
    let body = text.get(range.clone()).unwrap_or_default();
    if body.is_empty() {
        return Err(ParseError {
            status: RepairStatus::Truncated,
            range,
        });
    }
    // A string that is JSON already is not encoded again.
    let is_json = body.starts_with('"') && crate::json::walk::is_valid(body);
    let json = if is_json {
        Cow::Borrowed(body)
    } else {
        Cow::Owned(crate::json::string::quoted(body))
    };
    let around = text.len()
        - text
            .trim_start_matches(search::is_space)
            .trim_end_matches(search::is_space)
            .len();
    let attempt = match is_fenced {
        true => Attempt::Fence,
        false if body.len() + around < text.len() => Attempt::Around,
        false => Attempt::Standard,
    };
    let violations = expect.violations(&json, None);
    Ok(Parsed {
        attempt,
        status: RepairStatus::Valid,
        json,
        shape: expect.chosen().map(|shape| shape.name.clone()),
        range,
        repairs: Vec::new(),
        renamed: Vec::new(),
        dropped: Vec::new(),
        others: Vec::new(),
        violations,
    })
}

impl<'t> Found<'t> {
    /// Takes one of the roots, and returns whether it is in a fence.
    fn choose(mut self, text: &str, fits: impl Fn(&Root<'t>) -> bool) -> (Repaired<'t>, bool) {
        let is_one = self.roots.len() == 1;
        // A root that was not read has no value to compare.
        let fits = |root: &Root<'t>| is_one || root.json.is_empty() || fits(root);
        let text = search::before_tokens(text);
        let rivals: Vec<_> = self.roots.iter().map(|found| found.rival(text)).collect();
        let fits = |at: usize| self.roots.get(at).is_none_or(|found| fits(&found.root));
        let Some(best) = choice::best(text, &rivals, fits) else {
            return (self.nothing, false);
        };
        let chosen = self.roots.remove(best);
        let others = self
            .roots
            .into_iter()
            .filter(|found| found.doubt < Doubt::Malformed);
        let others = others.map(|found| found.root).collect();
        let Root {
            status,
            json,
            range,
        } = chosen.root;
        (
            Repaired {
                status,
                json,
                range,
                repairs: chosen.repairs,
                others,
            },
            chosen.is_fenced,
        )
    }
}
