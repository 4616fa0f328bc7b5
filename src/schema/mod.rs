//! What a JSON Schema requires of a document, judged while the document is received.
//!
//! Only `type`, `enum` (with `const`), `required` and `minItems` are judged: a document that lacks
//! a required member or element is not whole, although its root is closed. Every other keyword may
//! only widen what is legal here. So a schema that is not understood has no shortfall.

mod check;
mod rules;

pub(crate) use check::{SchemaCheck, Shortfall};
pub(crate) use rules::SchemaRules;

#[cfg(test)]
mod tests;
