//! Reads and writes `[[capability]]`, rows of the capability table.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::schema;
use restitch::provider::capability::{self, GrammarForm, PrefillForm, Switch};

/// The abilities of the models that a row names.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Capability")]
pub(super) struct Row {
    /// A pattern of model names; required.
    model: String,
    /// A pattern of hosts, without a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// A pattern of the upstream's `Server` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// How a request marks the last assistant message for continuation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::prefill")]
    prefill: Option<PrefillName>,
    /// A prefill must not end in white space.
    #[serde(skip_serializing_if = "Option::is_none")]
    rejects_trailing_space: Option<bool>,
    /// The answer starts with the prefill.
    #[serde(skip_serializing_if = "Option::is_none")]
    returns_prefill: Option<bool>,
    /// So does a whole body, but no stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    returns_prefill_whole: Option<bool>,
    /// The server applies `response_format` to prefill and answer, so it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefill_keeps_format: Option<bool>,
    /// Replaces `/v1` in the path of a request with a prefill.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    prefill_path: Option<PrefillPath>,
    /// How a request has a grammar of the rest, which the server enforces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::grammar")]
    grammar: Option<GrammarName>,
    /// The model accepts it; if not, `adapt` removes it. Default: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<bool>,
    /// A further call may leave `response_format` out. If not, it asks for one JSON document.
    /// Default: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    drops_json_mode: Option<bool>,
    /// The model accepts tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<bool>,
    /// The member that turns reasoning off, and its value as JSON; `key = ""`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_off: Option<Off>,
    /// The server keeps a stream under its `X-Conversation-Id`: restitch attaches again after a
    /// lost connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    keeps_streams: Option<bool>,
}

/// The member of a request that turns reasoning off, and its value in JSON.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "RowMember")]
struct Off {
    key: String,
    #[schemars(with = "String")]
    value: Json,
}

/// The same before it is checked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RowMember {
    /// The name of the member. Empty: none.
    key: String,
    /// Its value, as JSON.
    #[schemars(with = "String")]
    value: Json,
}

impl TryFrom<RowMember> for Off {
    type Error = &'static str;

    fn try_from(RowMember { key, value }: RowMember) -> Result<Self, Self::Error> {
        if !key.is_empty() && value.0.is_empty() {
            return Err("a member needs a value");
        }
        Ok(Self { key, value })
    }
}

#[derive(Debug)]
struct PrefillName(PrefillForm);

#[derive(Debug)]
struct GrammarName(GrammarForm);

/// Text that is JSON, or is empty.
#[derive(Debug, Serialize)]
struct Json(String);

/// A path that precedes another path, or is empty.
#[derive(Debug, Serialize)]
struct PrefillPath(String);

impl From<Row> for capability::Row {
    fn from(file: Row) -> Self {
        let mut row = Self::of(file.model);
        row.host = file.host;
        row.server = file.server;
        row.prefill = file.prefill.map(|way| way.0);
        row.rejects_trailing_space = file.rejects_trailing_space;
        row.returns_prefill = file.returns_prefill;
        row.returns_prefill_whole = file.returns_prefill_whole;
        row.prefill_keeps_format = file.prefill_keeps_format;
        row.prefill_path = file.prefill_path.map(|path| path.0);
        row.grammar = file.grammar.map(|form| form.0);
        row.response_format = file.response_format;
        row.drops_json_mode = file.drops_json_mode;
        row.tools = file.tools;
        row.keeps_streams = file.keeps_streams;
        row.reasoning_off = file.reasoning_off.map(|off| Switch {
            key: off.key,
            value: off.value.0,
        });
        row
    }
}

impl From<&capability::Row> for Row {
    fn from(row: &capability::Row) -> Self {
        let row = row.clone();
        Self {
            model: row.model,
            host: row.host,
            server: row.server,
            prefill: row.prefill.map(PrefillName),
            rejects_trailing_space: row.rejects_trailing_space,
            returns_prefill: row.returns_prefill,
            returns_prefill_whole: row.returns_prefill_whole,
            prefill_keeps_format: row.prefill_keeps_format,
            prefill_path: row.prefill_path.map(PrefillPath),
            grammar: row.grammar.map(GrammarName),
            response_format: row.response_format,
            drops_json_mode: row.drops_json_mode,
            tools: row.tools,
            keeps_streams: row.keeps_streams,
            reasoning_off: row.reasoning_off.map(|switch| Off {
                key: switch.key,
                value: Json(switch.value),
            }),
        }
    }
}

/// Reads and writes the name of a form.
macro_rules! named_form {
    ($name:ident, $form:ident, $what:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                let found = $form::NAMES.iter().find(|(known, _)| *known == name);
                found.map(|(_, form)| Self(*form)).ok_or_else(|| {
                    let names = $form::NAMES.iter().map(|(name, _)| format!("`{name}`"));
                    let names = names.collect::<Vec<_>>().join(", ");
                    D::Error::custom(format!(
                        "`{name}` is not a {} form: there are {names}",
                        $what
                    ))
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.0.as_str())
            }
        }
    };
}

named_form!(PrefillName, PrefillForm, "prefill");
named_form!(GrammarName, GrammarForm, "grammar");

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if !text.is_empty() {
            serde_json::from_str::<serde::de::IgnoredAny>(&text)
                .map_err(|error| D::Error::custom(format!("the value is no JSON: {error}")))?;
        }
        Ok(Self(text))
    }
}

impl<'de> Deserialize<'de> for PrefillPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = String::deserialize(deserializer)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_".contains(c);
        let fits =
            path.is_empty() || path.starts_with('/') && path.len() > 1 && !path.ends_with('/');
        if fits && path.chars().all(plain) {
            return Ok(Self(path));
        }
        Err(D::Error::custom(format!(
            "`{path}` is no path as `/beta` is one: letters, digits, `-`, `_` and slashes"
        )))
    }
}
