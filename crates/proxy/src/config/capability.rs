//! Reads and writes `[[capability]]`, rows of the capability table.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::schema;
use restitch::internal::json::string::quoted;
use restitch::provider::capability::{self, GrammarForm, PrefillForm, Switch};

/// The abilities of the models that a row names.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Capability")]
pub(super) struct Row {
    /// A pattern of model names; required.
    model: String,
    /// A pattern of hosts, without a port.
    host: Option<String>,
    /// How a request marks the last assistant message for continuation.
    #[serde(default)]
    #[schemars(schema_with = "schema::prefill")]
    prefill: Option<PrefillForm>,
    /// A prefill must not end in white space.
    rejects_trailing_space: Option<bool>,
    /// The answer starts with the prefill.
    returns_prefill: Option<bool>,
    /// So does a whole body, but no stream.
    returns_prefill_whole: Option<bool>,
    /// The server applies `response_format` to prefill and answer, so it stays.
    prefill_keeps_format: Option<bool>,
    /// How a request has a grammar of the rest, which the server enforces.
    #[serde(default, deserialize_with = "grammar", serialize_with = "grammar_name")]
    #[schemars(schema_with = "schema::grammar")]
    grammar: Option<GrammarForm>,
    /// The model accepts `response_format`; if not, `adapt` removes it. Default: `true`.
    response_format: Option<bool>,
    /// A further call may leave `response_format` out. If not, it asks for one JSON document.
    /// Default: `true`.
    drops_json_mode: Option<bool>,
    /// The member that turns reasoning off, as a JSON object: `{"enable_thinking": false}`; `{}`:
    /// none.
    #[serde(default, deserialize_with = "switch", serialize_with = "switch_text")]
    #[schemars(with = "Option<String>")]
    reasoning_off: Option<Switch>,
}

impl From<Row> for capability::Row {
    fn from(file: Row) -> Self {
        let mut row = Self::of(file.model);
        row.host = file.host;
        row.prefill = file.prefill;
        row.rejects_trailing_space = file.rejects_trailing_space;
        row.returns_prefill = file.returns_prefill;
        row.returns_prefill_whole = file.returns_prefill_whole;
        row.prefill_keeps_format = file.prefill_keeps_format;
        row.grammar = file.grammar;
        row.response_format = file.response_format;
        row.drops_json_mode = file.drops_json_mode;
        row.reasoning_off = file.reasoning_off;
        row
    }
}

impl From<&capability::Row> for Row {
    fn from(row: &capability::Row) -> Self {
        let row = row.clone();
        Self {
            model: row.model,
            host: row.host,
            prefill: row.prefill,
            rejects_trailing_space: row.rejects_trailing_space,
            returns_prefill: row.returns_prefill,
            returns_prefill_whole: row.returns_prefill_whole,
            prefill_keeps_format: row.prefill_keeps_format,
            grammar: row.grammar,
            response_format: row.response_format,
            drops_json_mode: row.drops_json_mode,
            reasoning_off: row.reasoning_off,
        }
    }
}

/// Reads the name of a form.
fn grammar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<GrammarForm>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let mut names = GrammarForm::NAMES.into_iter();
    let found = names.find(|(known, _)| *known == name);
    found.map(|(_, form)| Some(form)).ok_or_else(|| {
        let names = GrammarForm::NAMES.map(|(name, _)| format!("`{name}`"));
        let names = names.join(", ");
        D::Error::custom(format!("`{name}` is not a grammar form: there are {names}"))
    })
}

fn grammar_name<S: Serializer>(
    form: &Option<GrammarForm>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    form.map(GrammarForm::as_str).serialize(serializer)
}

/// Reads a JSON object with at most one member.
fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Switch>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let members: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&text).map_err(|_| D::Error::custom(NOT_A_MEMBER))?;
    if members.len() > 1 {
        return Err(D::Error::custom(NOT_A_MEMBER));
    }
    let member = members.into_iter().next();
    let (key, value) =
        member.map_or_else(Default::default, |(key, value)| (key, value.to_string()));
    Ok(Some(Switch { key, value }))
}

fn switch_text<S: Serializer>(switch: &Option<Switch>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = switch.as_ref().map(|switch| match switch.key.as_str() {
        "" => "{}".to_owned(),
        key => format!("{{{}: {}}}", quoted(key), switch.value),
    });
    text.serialize(serializer)
}

const NOT_A_MEMBER: &str = "the value is not a JSON object with one member";
