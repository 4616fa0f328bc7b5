//! The capabilities of models: a table with a source for each row, and the hints that a process
//! records.
//!
//! A [`Table`] is a list of [`Row`]s. Each row names models by a pattern, and optionally a host or
//! the software of a server, and has their known capabilities. For each member the first row that
//! has a value counts, so a
//! row in front corrects one member and leaves the others. A model that no row names is treated
//! like OpenAI's models: it accepts `response_format` and tools, it continues no prefill, and a
//! re-prompt asks it for the rest.
//!
//! ```
//! use restitch::provider::capability::{PrefillForm, Row, Table};
//!
//! let table = Table::default();
//! assert_eq!(table.of("claude-sonnet-4-5-20250929", None).prefill, PrefillForm::Turn);
//! assert_eq!(table.of("claude-opus-4-6", None).prefill, PrefillForm::None);
//! assert_eq!(table.of("qwen3-32b", Some("127.0.0.1")).prefill, PrefillForm::None);
//!
//! // A server of your own continues any prefill.
//! let table = table.with([Row::of("*").at("127.0.0.1").prefill(PrefillForm::Final)]);
//! assert_eq!(table.of("qwen3-32b", Some("127.0.0.1")).prefill, PrefillForm::Final);
//! ```

pub(crate) mod by_model;
pub(crate) mod cache;
pub(crate) mod hint;
pub(crate) mod pattern;
mod table;
pub(crate) mod too_long;

pub(crate) use hint::CapabilityHint;
use serde::{Deserialize, Serialize};

/// How a request marks its last message, an assistant's message, as one to continue literally.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PrefillForm {
    /// Not at all: such a message is refused, or is answered instead of continued.
    #[default]
    None,
    /// By its position alone: it is the last message.
    Turn,
    /// By `"prefix": true` in the message.
    #[serde(rename = "prefix")]
    Flag,
    /// By `"partial": true` in the message.
    Partial,
    /// By `"continue_final_message": true` and `"add_generation_prompt": false` beside the
    /// messages.
    #[serde(rename = "continue-final-message")]
    Final,
}

impl PrefillForm {
    /// All variants, with their names in a configuration.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("none", Self::None),
        ("turn", Self::Turn),
        ("prefix", Self::Flag),
        ("partial", Self::Partial),
        ("continue-final-message", Self::Final),
    ];

    /// Returns the member of the message whose value `true` marks it, if there is one.
    pub fn flag(self) -> Option<&'static str> {
        match self {
            Self::Flag => Some("prefix"),
            Self::Partial => Some("partial"),
            Self::None | Self::Turn | Self::Final => None,
        }
    }

    /// Returns the name in a configuration.
    pub fn as_str(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, prefix)| *prefix == self)
            .map_or("none", |(name, _)| name)
    }
}

/// How a request has the grammar that the answer must follow.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum GrammarForm {
    /// Not at all: a grammar is refused, or has no effect.
    #[default]
    None,
    /// In `grammar`, as llama.cpp takes it.
    Member,
    /// In `structured_outputs`, as vLLM takes it.
    StructuredOutputs,
    /// In `ebnf`, as SGLang takes it.
    Ebnf,
    /// In `response_format`, without a prefill, as Fireworks takes it.
    ResponseFormat,
    /// As the format of a custom tool that the model must call, as OpenAI's models take it. The
    /// answer is the tool's input.
    CustomTool,
    /// Not as a grammar: as a JSON Schema, in the member that the API has for the format of an
    /// answer. The answer is an object with the parts that are missing.
    JsonSchema(SchemaSubset),
}

/// The part of JSON Schema that a provider enforces. A request with other parts is refused.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaSubset {
    /// The whole language.
    Full,
    /// Objects have no optional members and no others than those that are named, as OpenAI demands.
    Strict,
    /// No counts of elements and no limits of numbers and strings, as Anthropic demands.
    Plain,
}

impl GrammarForm {
    /// Whether the request has a schema instead of a grammar.
    #[doc(hidden)]
    pub fn is_schema(self) -> bool {
        matches!(self, Self::JsonSchema(_))
    }

    /// All variants, with their names in a configuration.
    pub const NAMES: [(&'static str, Self); 9] = [
        ("none", Self::None),
        ("grammar", Self::Member),
        ("structured-outputs", Self::StructuredOutputs),
        ("ebnf", Self::Ebnf),
        ("response-format", Self::ResponseFormat),
        ("custom-tool", Self::CustomTool),
        ("json-schema", Self::JsonSchema(SchemaSubset::Full)),
        ("json-schema-strict", Self::JsonSchema(SchemaSubset::Strict)),
        ("json-schema-plain", Self::JsonSchema(SchemaSubset::Plain)),
    ];

    /// Returns the name in a configuration.
    pub fn as_str(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, form)| *form == self)
            .map_or("none", |(name, _)| name)
    }
}

/// A member of a request, and the value with which a model answers without reasoning first.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The member's key.
    pub key: String,
    /// Its value, as JSON.
    pub value: String,
}

impl Switch {
    /// Returns the member with which a model of OpenAI's does not reason.
    pub fn no_effort() -> Self {
        Self {
            key: table::EFFORT.to_owned(),
            value: table::NO_EFFORT.to_owned(),
        }
    }
}

/// The capabilities of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capability {
    /// How the model continues a prefill.
    pub prefill: PrefillForm,
    /// A prefill that ends in white space is refused.
    pub rejects_trailing_space: bool,
    /// The answer starts with the prefill, sent back.
    pub returns_prefill: bool,
    /// An answer in one body starts with the prefill, and a stream does not, as with llama.cpp.
    pub returns_prefill_whole: bool,
    /// With a prefill, the format that the request asks for applies to the whole document, so a
    /// request with a prefill keeps its format: llama.cpp feeds the prefill to the grammar. Servers
    /// without this, such as vLLM and SGLang, begin the format anew at the cut.
    pub prefill_keeps_format: bool,
    /// The replacement for `/v1` at the start of the path of a request with a prefill, for example
    /// `/beta`.
    pub prefill_path: Option<String>,
    /// How a request has the grammar of its answer. `None`: as the models of its API usually do.
    pub grammar: Option<GrammarForm>,
    /// `response_format` is taken.
    pub response_format: bool,
    /// A continuation may leave `response_format` out. If not, a request with JSON mode keeps it,
    /// and the model writes the rest as a JSON document of its own.
    pub drops_json_mode: bool,
    /// Tools are taken.
    pub tools: bool,
    /// The member and value that turn thinking off, if there are any.
    pub reasoning_off: Option<Switch>,
    /// The same for a call of a custom tool, if the model takes no tool while it reasons.
    pub tool_reasoning_off: Option<Switch>,
    /// The server keeps a stream under the `X-Conversation-Id` of its request, and sends it again
    /// from any byte, as llama.cpp does: <https://github.com/ggml-org/llama.cpp/pull/23226>.
    pub keeps_streams: bool,
}

impl Default for Capability {
    fn default() -> Self {
        Self {
            prefill: PrefillForm::None,
            rejects_trailing_space: false,
            returns_prefill: false,
            returns_prefill_whole: false,
            prefill_keeps_format: false,
            prefill_path: None,
            grammar: None,
            response_format: true,
            drops_json_mode: true,
            tools: true,
            reasoning_off: None,
            tool_reasoning_off: None,
            keeps_streams: false,
        }
    }
}

impl Capability {
    /// Returns whether JSON mode must stay in a continuation: the model accepts it, and a request
    /// can't leave it out.
    #[doc(hidden)]
    pub fn keeps_json_mode(&self) -> bool {
        self.response_format && !self.drops_json_mode
    }

    /// Returns whether an answer starts with the prefill. `is_stream`: it is a stream.
    #[doc(hidden)]
    pub fn returns_prefill_in(&self, is_stream: bool) -> bool {
        self.returns_prefill || self.returns_prefill_whole && !is_stream
    }
}

/// The known capabilities of the models that a pattern names. `None` means unknown: a later row may
/// have the value.
///
/// In a pattern `*` matches any text. Upper and lower case are equal, and so are the separators
/// `-`, `.`, `_`, `:` and `@`: `claude-*-4-5*` matches `claude-sonnet-4.5` and
/// `claude-opus-4-5@20251101`.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// A pattern of model names.
    pub model: String,
    /// A pattern of hosts. `None` means every host.
    pub host: Option<String>,
    /// A pattern of `Server` headers, by which the upstream's responses name its software. `None`
    /// means any, and none.
    pub server: Option<String>,
    /// See [`Capability::prefill`].
    pub prefill: Option<PrefillForm>,
    /// See [`Capability::rejects_trailing_space`].
    pub rejects_trailing_space: Option<bool>,
    /// See [`Capability::returns_prefill`].
    pub returns_prefill: Option<bool>,
    /// See [`Capability::returns_prefill_whole`].
    pub returns_prefill_whole: Option<bool>,
    /// See [`Capability::prefill_keeps_format`].
    pub prefill_keeps_format: Option<bool>,
    /// See [`Capability::prefill_path`]. Empty means none.
    pub prefill_path: Option<String>,
    /// See [`Capability::grammar`].
    pub grammar: Option<GrammarForm>,
    /// See [`Capability::response_format`].
    pub response_format: Option<bool>,
    /// See [`Capability::drops_json_mode`].
    pub drops_json_mode: Option<bool>,
    /// See [`Capability::tools`].
    pub tools: Option<bool>,
    /// See [`Capability::reasoning_off`]. An empty key means that reasoning can't be turned off.
    pub reasoning_off: Option<Switch>,
    /// See [`Capability::keeps_streams`].
    pub keeps_streams: Option<bool>,
}

impl Row {
    /// Creates a row without values for the models that `pattern` matches.
    pub fn of(pattern: impl Into<String>) -> Self {
        Self {
            model: pattern.into(),
            host: None,
            server: None,
            prefill: None,
            rejects_trailing_space: None,
            returns_prefill: None,
            returns_prefill_whole: None,
            prefill_keeps_format: None,
            prefill_path: None,
            grammar: None,
            response_format: None,
            drops_json_mode: None,
            tools: None,
            reasoning_off: None,
            keeps_streams: None,
        }
    }

    /// Limits the row to hosts that `pattern` matches.
    #[must_use]
    pub fn at(mut self, pattern: impl Into<String>) -> Self {
        self.host = Some(pattern.into());
        self
    }

    /// Sets how the models continue a prefill.
    #[must_use]
    pub fn prefill(mut self, prefill: PrefillForm) -> Self {
        self.prefill = Some(prefill);
        self
    }

    /// Sets how a request has the grammar of its answer.
    #[must_use]
    pub fn grammar(mut self, grammar: GrammarForm) -> Self {
        self.grammar = Some(grammar);
        self
    }

    /// Sets the member `key`, and its value in JSON, with which the models do not reason.
    #[must_use]
    pub fn reasoning_off(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.reasoning_off = Some(Switch {
            key: key.into(),
            value: value.into(),
        });
        self
    }

    fn names(&self, model: &str, host: Option<&str>, server: Option<&str>) -> bool {
        let fits = |pattern: &Option<String>, name: Option<&str>| match (pattern, name) {
            (None, _) => true,
            (Some(pattern), Some(name)) => pattern::matches(pattern, name),
            (Some(_), None) => false,
        };
        fits(&self.host, host) && fits(&self.server, server) && pattern::matches(&self.model, model)
    }
}

/// Capability rows; a row takes precedence over later rows.
///
/// [`Table::default`] has the built-in rows. [`Table::with`] puts other rows in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    rows: Vec<Row>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            rows: table::rows(),
        }
    }
}

impl Table {
    /// Puts other rows in front.
    #[must_use]
    pub fn with(mut self, rows: impl IntoIterator<Item = Row>) -> Self {
        self.rows.splice(0..0, rows);
        self
    }

    /// Returns the rows. A row takes precedence over later rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the capability of a model at a host (without a port), whose software is unknown. No
    /// row matches a name of more
    /// than 256 bytes.
    pub fn of(&self, model: &str, host: Option<&str>) -> Capability {
        self.of_server(model, host, None)
    }

    /// Returns whether a row is for upstreams with this `Server` header.
    #[doc(hidden)]
    pub fn knows_server(&self, server: &str) -> bool {
        let patterns = self.rows.iter().filter_map(|row| row.server.as_deref());
        server.len() <= NAME && { patterns }.any(|pattern| pattern::matches(pattern, server))
    }

    /// Returns the capability of a model at a host (without a port) whose responses have this
    /// `Server` header.
    #[doc(hidden)]
    pub fn of_server(&self, model: &str, host: Option<&str>, server: Option<&str>) -> Capability {
        let mut found = Capability::default();
        if model.len() > NAME {
            return found;
        }
        let named: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| row.names(model, host, server))
            .collect();
        let flag = |of: fn(&Row) -> Option<bool>, default| {
            named.iter().find_map(|row| of(row)).unwrap_or(default)
        };
        found.prefill = named.iter().find_map(|row| row.prefill).unwrap_or_default();
        found.rejects_trailing_space = flag(
            |row| row.rejects_trailing_space,
            found.rejects_trailing_space,
        );
        found.returns_prefill = flag(|row| row.returns_prefill, found.returns_prefill);
        found.returns_prefill_whole =
            flag(|row| row.returns_prefill_whole, found.returns_prefill_whole);
        found.prefill_keeps_format =
            flag(|row| row.prefill_keeps_format, found.prefill_keeps_format);
        let path = named.iter().find_map(|row| row.prefill_path.as_ref());
        found.prefill_path = path.filter(|path| !path.is_empty()).cloned();
        found.grammar = named.iter().find_map(|row| row.grammar);
        found.response_format = flag(|row| row.response_format, found.response_format);
        found.drops_json_mode = flag(|row| row.drops_json_mode, found.drops_json_mode);
        found.tools = flag(|row| row.tools, found.tools);
        let switch = named.iter().find_map(|row| row.reasoning_off.as_ref());
        found.keeps_streams = flag(|row| row.keeps_streams, found.keeps_streams);
        found.reasoning_off = switch.filter(|switch| !switch.key.is_empty()).cloned();
        found
    }
}

/// The longest name that is looked up, in bytes. Names come from requests and responses.
const NAME: usize = 256;
