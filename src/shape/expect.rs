//! The expectation of a caller about a response.

use super::schema::Schema;
use super::{RootKind, Shape, Violation};
use crate::json::repair::RepairOptions;

/// The expectation about a response: any JSON, or a shape; a JSON Schema; and how much may be
/// repaired.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    shape: Option<Shape>,
    schema: Option<Schema>,
    options: RepairOptions,
}

impl Expect {
    /// Expects any JSON. The built-in stages are recognised.
    pub fn any() -> Self {
        Self::default()
    }

    /// Expects a shape.
    pub fn shape(shape: Shape) -> Self {
        Self {
            shape: Some(shape),
            ..Self::default()
        }
    }

    /// Expects values that are valid under a schema. It is checked at the end, and chooses among
    /// several roots and among guesses about a mistake that are nearly as likely; otherwise the
    /// schema changes nothing.
    #[cfg(feature = "schema")]
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets which repairs are made. Default: all.
    #[must_use]
    pub fn repairs(mut self, options: RepairOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the options of the repair; the schema decides between guesses.
    pub(super) fn options(&self) -> RepairOptions {
        if let Some(schema) = self.schema.clone() {
            return self
                .options
                .clone()
                .preferring(move |json| schema.is_valid(json));
        }
        self.options.clone()
    }

    pub(super) fn chosen(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }

    pub(super) fn is_text(&self) -> bool {
        self.shape
            .as_ref()
            .is_some_and(|shape| shape.root == RootKind::Text)
    }

    /// Returns whether the built-in stages are recognised: not beside a schema or a shape of the
    /// user's own.
    pub(super) fn detects(&self) -> bool {
        if self.schema.is_some() && self.shape.is_none() {
            return false;
        }
        self.shape.as_ref().is_none_or(Shape::is_stage)
    }

    pub(super) fn violations(&self, json: &str, mismatch: Option<String>) -> Vec<Violation> {
        let mut violations: Vec<Violation> = mismatch
            .into_iter()
            .map(|message| Violation {
                path: String::new(),
                message,
            })
            .collect();
        violations.extend(
            self.schema
                .iter()
                .flat_map(|schema| schema.violations(json)),
        );
        violations.dedup();
        violations
    }

    /// Returns whether a value in its shape is valid under the schema, if there is one.
    pub(super) fn is_valid(&self, json: &str) -> bool {
        self.schema
            .as_ref()
            .is_none_or(|schema| schema.is_valid(json))
    }
}
