//! The JSON Schema of a configuration file. It is made from the declarations of the tables: their
//! documentation, types and defaults.

use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use restitch::provider::Dialect;
use restitch::provider::capability::{GrammarForm, PrefillForm};
use restitch::repair::RepairLevel;
use restitch::session::{GiveUp, Rung};

/// Returns the schema of a file with these tables.
pub(super) fn of<File: JsonSchema>() -> Value {
    let mut schema = SchemaGenerator::default().into_root_schema_for::<File>();
    RecursiveTransform(shortened).transform(&mut schema);
    schema.into()
}

/// Shortens a description to its first paragraph, as the help of flags is. The rest gives reasons
/// for readers of the code. Removes the default of a key without one: TOML has no `null`.
fn shortened(schema: &mut Schema) {
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let end = text.find("\n\n").unwrap_or(text.len());
        text.truncate(end);
        *text = text.replace('\n', " ");
    }
}

/// Takes out the default of `threads`, which is the number of cores: the schema is the same on each
/// machine.
pub(super) fn without_threads(schema: &mut Schema) {
    let threads = schema.pointer_mut("/properties/threads");
    if let Some(threads) = threads.and_then(Value::as_object_mut) {
        threads.remove("default");
    }
}

/// Returns the schema of `continuation`: `auto`, `off`, or a list of rungs.
pub(crate) fn continuation(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [
        { "enum": ["auto", "off"] },
        { "type": "array", "items": { "enum": Rung::ALL.map(Rung::as_str) } },
    ] })
}

/// Declares the schemas of values that are one of several names.
macro_rules! names {
    ($($name:ident: $all:expr, $as_str:expr;)+) => { $(
        pub(crate) fn $name(_: &mut SchemaGenerator) -> Schema {
            let names: Vec<_> = $all.into_iter().map($as_str).collect();
            json_schema!({ "enum": names })
        }
    )+ };
}

names! {
    give_up: GiveUp::ALL, GiveUp::as_str;
    prose: ["pass", "anchor"], |name| name;
    repair: RepairLevel::ALL, RepairLevel::as_str;
    wire: Dialect::ALL, Dialect::as_str;
    mark: ["always", "on-retries", "never"], |name| name;
    prefill: PrefillForm::NAMES, |(name, _)| name;
    grammar: GrammarForm::NAMES, |(name, _)| name;
}
