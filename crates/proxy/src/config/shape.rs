//! Reads and writes `[shape.NAME]`: shapes of the user's own.

use crate::route_config::written::named;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::schema;
use restitch::shape::{self, RootKind};

/// The tables by their names.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Shapes(BTreeMap<String, Shape>);

/// A shape of responses.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Shape {
    /// The kind of the root.
    #[schemars(schema_with = "schema::root_kind")]
    root: ShapeKind,
    /// Keys that the object has, or each element of the array.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    required: Vec<String>,
    /// Keys of which the object or element has at least one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    any_of: Vec<String>,
    /// Members that are taken out of an object without these keys: the first one that is there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unwrap: Vec<String>,
    /// A single object becomes an array with one element. Needs `root = "array"`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    wrap: bool,
    /// Further keys at any depth, which are renamed if they came with backslashes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
}

/// A kind by its name.
#[derive(Clone, Copy, Debug, Default)]
struct ShapeKind(RootKind);

impl Shapes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Shapes> for Vec<shape::Shape> {
    fn from(shapes: Shapes) -> Self {
        let shape = |(name, table): (String, Shape)| {
            let mut shape = shape::Shape::new(name, table.root.0);
            shape.required = table.required;
            shape.any_of = table.any_of;
            shape.unwrap = table.unwrap;
            shape.wrap = table.wrap;
            shape.keys = table.keys;
            shape
        };
        shapes.0.into_iter().map(shape).collect()
    }
}

impl From<&[shape::Shape]> for Shapes {
    fn from(shapes: &[shape::Shape]) -> Self {
        let table = |shape: &shape::Shape| {
            let shape = shape.clone();
            let (required, any_of, unwrap) = (shape.required, shape.any_of, shape.unwrap);
            (
                shape.name,
                Shape {
                    root: ShapeKind(shape.root),
                    required,
                    any_of,
                    unwrap,
                    wrap: shape.wrap,
                    keys: shape.keys,
                },
            )
        };
        Self(shapes.iter().map(table).collect())
    }
}

impl<'de> Deserialize<'de> for Shapes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let tables = BTreeMap::<String, Shape>::deserialize(deserializer)?;
        for (name, table) in &tables {
            if name == "list" || shape::Shape::stage(name).is_some() {
                return Err(D::Error::custom(format!(
                    "`{name}` is a built-in stage: a shape needs another name"
                )));
            }
            if table.wrap && table.root.0 != RootKind::Array {
                return Err(D::Error::custom(format!(
                    "`{name}`: `wrap` needs `root = \"array\"`"
                )));
            }
        }
        Ok(Self(tables))
    }
}

impl<'de> Deserialize<'de> for ShapeKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        named(&RootKind::ALL, RootKind::as_str, &name)
            .map(Self)
            .map_err(D::Error::custom)
    }
}

impl Serialize for ShapeKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}
