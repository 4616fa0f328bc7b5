//! JSON Schemas: requirements for a value. Checking them changes nothing.

use std::fmt;
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use super::Violation;

/// A JSON Schema, of the draft that its `$schema` names, else 2020-12. It can be shared and cloned
/// cheaply.
///
/// ```
/// use restitch::shape::Schema;
///
/// let schema: Schema = r#"{"properties": {"a": {"type": "string"}}}"#.parse()?;
/// let violations = schema.violations(r#"{"a": 1}"#);
/// assert_eq!((violations[0].path.as_str(), violations[0].message.as_str()), ("/a", "1 is not of type \"string\""));
/// # Ok::<(), restitch::shape::SchemaError>(())
/// ```
#[derive(Clone)]
pub struct Schema(Arc<Validator>);

impl Schema {
    /// Returns the violations of the schema in a value, at most 256. The value needs to be JSON.
    pub fn violations(&self, json: &str) -> Vec<Violation> {
        let value = match value(json) {
            Ok(value) => value,
            Err(message) => {
                return vec![Violation {
                    path: String::new(),
                    message,
                }];
            }
        };
        let errors = self.0.iter_errors(&value).take(MAX_VIOLATIONS);
        let violation = |error: jsonschema::ValidationError<'_>| {
            let mut message = error.to_string();
            if message.len() > MESSAGE {
                // The message quotes the whole value.
                message = error.masked().to_string();
            }
            Violation {
                path: error.instance_path().to_string(),
                message,
            }
        };
        errors.map(violation).collect()
    }

    pub(super) fn is_valid(&self, json: &str) -> bool {
        value(json).is_ok_and(|value| self.0.is_valid(&value))
    }
}

fn value(json: &str) -> Result<Value, String> {
    serde_json::from_str(json).map_err(|error| format!("the value can't be checked: {error}"))
}

impl std::str::FromStr for Schema {
    type Err = SchemaError;

    /// Reads a schema. A `$ref` to another document is an error: nothing is fetched.
    fn from_str(text: &str) -> Result<Self, SchemaError> {
        let schema: Value =
            serde_json::from_str(text).map_err(|error| SchemaError(error.to_string()))?;
        let validator = jsonschema::options().offline().build(&schema);
        validator
            .map(|validator| Self(Arc::new(validator)))
            .map_err(|error| SchemaError(error.to_string()))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema(..)")
    }
}

/// Why a text is not a JSON Schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(String);

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a JSON Schema: {}", self.0)
    }
}

impl std::error::Error for SchemaError {}

/// The most violations of one value that are reported: a value that is wrong throughout has one for
/// each element.
const MAX_VIOLATIONS: usize = 256;

/// The most bytes of a message. A longer one quotes a large value, and is replaced by a message
/// without it.
const MESSAGE: usize = 512;
