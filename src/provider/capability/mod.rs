//! What models can be asked for: data, with a source for each row, and what a process learns beside it.
//!
//! A [`Table`] is a list of [`Row`]s. Each names models by a pattern, maybe a host, and says what it knows of them; of
//! each member the first row that says something counts, so that a row put in front corrects one member and leaves the
//! others. What is in no row is taken to be as OpenAI's own models are: `response_format` and tools are taken, and the
//! rest of an answer is asked for in words, since no prefix is continued.
//!
//! ```
//! use restitch::provider::capability::{PrefillForm, Row, Table};
//!
//! let table = Table::default();
//! assert_eq!(table.of("claude-sonnet-4-5-20250929", None).prefix, PrefillForm::Turn);
//! assert_eq!(table.of("claude-opus-4-6", None).prefix, PrefillForm::None);
//! assert_eq!(table.of("qwen3-32b", Some("127.0.0.1")).prefix, PrefillForm::None);
//!
//! // A server of one's own continues what it is told to.
//! let table = table.with([Row::of("*").at("127.0.0.1").prefill(PrefillForm::Final)]);
//! assert_eq!(table.of("qwen3-32b", Some("127.0.0.1")).prefix, PrefillForm::Final);
//! ```

mod cache;
mod hint;
mod pattern;
mod table;

pub use cache::CapabilityCache;
pub use hint::CapabilityHint;

/// How a provider is told to continue the last message, an assistant's, literally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PrefillForm {
    /// In no way: such a message is refused, or answered instead of continued.
    #[default]
    None,
    /// By its place alone: it is the last one.
    Turn,
    /// By `"prefix": true` in the message.
    Flag,
    /// By `"partial": true` in the message.
    Partial,
    /// By `"continue_final_message": true` and `"add_generation_prompt": false` beside the messages.
    Final,
}

impl PrefillForm {
    /// All of them, with the names that a configuration calls them by.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("none", Self::None),
        ("turn", Self::Turn),
        ("prefix", Self::Flag),
        ("partial", Self::Partial),
        ("continue-final-message", Self::Final),
    ];

    /// Returns the member of the message that tells a provider so with `true`, where there is one.
    pub fn flag(self) -> Option<&'static str> {
        match self {
            Self::Flag => Some("prefix"),
            Self::Partial => Some("partial"),
            Self::None | Self::Turn | Self::Final => None,
        }
    }

    /// The name in a configuration.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, prefix)| *prefix == self).map_or("none", |(name, _)| name)
    }
}

/// A member of the request, and the value that makes a model answer without thinking first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The member's key.
    pub key: String,
    /// Its value, as JSON.
    pub value: String,
}

/// What a model can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capability {
    /// How it continues a prefix.
    pub prefill: PrefillForm,
    /// A prefix that ends in white space is refused.
    pub rejects_trailing_space: bool,
    /// The answer begins with the prefix, sent back.
    pub returns_prefill: bool,
    /// What a request with a prefix has in front of its path, in the place of `/v1`: `/beta`.
    pub prefix_path: Option<String>,
    /// `response_format` is taken.
    pub response_format: bool,
    /// Tools are taken.
    pub tools: bool,
    /// What the model's name ends with where it is to search the web: `:online`.
    pub web_search: Option<String>,
    /// How thinking is turned off, where it can be.
    pub reasoning_off: Option<Switch>,
}

impl Default for Capability {
    fn default() -> Self {
        Self {
            prefill: PrefillForm::None,
            rejects_trailing_space: false,
            returns_prefill: false,
            prefix_path: None,
            response_format: true,
            tools: true,
            web_search: None,
            reasoning_off: None,
        }
    }
}

/// What is known of the models that a pattern names. `None`: nothing, a later row may know it.
///
/// In a pattern `*` stands for any text. Case does not count, nor which of `-`, `.`, `_`, `:` and `@` separates:
/// `claude-*-4-5*` names `claude-sonnet-4.5` and `claude-opus-4-5@20251101`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Which models.
    pub model: String,
    /// At which hosts, as a pattern; `None`: wherever they are served.
    pub host: Option<String>,
    /// See [`Capability::prefix`].
    pub prefill: Option<PrefillForm>,
    /// See [`Capability::rejects_trailing_space`].
    pub rejects_trailing_space: Option<bool>,
    /// See [`Capability::returns_prefill`].
    pub returns_prefill: Option<bool>,
    /// See [`Capability::prefix_path`]; empty: none.
    pub prefix_path: Option<String>,
    /// See [`Capability::response_format`].
    pub response_format: Option<bool>,
    /// See [`Capability::tools`].
    pub tools: Option<bool>,
    /// See [`Capability::web_search`]; empty: none.
    pub web_search: Option<String>,
    /// See [`Capability::reasoning_off`]; an empty key: thinking can't be turned off.
    pub reasoning_off: Option<Switch>,
}

impl Row {
    /// A row that says nothing yet of the models that `pattern` names.
    pub fn of(pattern: impl Into<String>) -> Self {
        Self {
            model: pattern.into(),
            host: None,
            prefill: None,
            rejects_trailing_space: None,
            returns_prefill: None,
            prefix_path: None,
            response_format: None,
            tools: None,
            web_search: None,
            reasoning_off: None,
        }
    }

    /// Only at hosts that `pattern` names.
    #[must_use]
    pub fn at(mut self, pattern: impl Into<String>) -> Self {
        self.host = Some(pattern.into());
        self
    }

    /// They continue a prefix in this way.
    #[must_use]
    pub fn prefill(mut self, prefill: PrefillForm) -> Self {
        self.prefill = Some(prefill);
        self
    }

    /// Thinking is turned off by a member `key` with a `value` in JSON.
    #[must_use]
    pub fn reasoning_off(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.reasoning_off = Some(Switch { key: key.into(), value: value.into() });
        self
    }

    fn names(&self, model: &str, host: Option<&str>) -> bool {
        let host_fits = match (&self.host, host) {
            (None, _) => true,
            (Some(pattern), Some(host)) => pattern::matches(pattern, host),
            (Some(_), None) => false,
        };
        host_fits && pattern::matches(&self.model, model)
    }
}

/// Rows, from the one that counts most.
///
/// [`Table::default`] has those that are known; [`Table::with`] puts others in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    rows: Vec<Row>,
}

impl Default for Table {
    fn default() -> Self {
        Self { rows: table::rows() }
    }
}

impl Table {
    /// With other rows in front.
    #[must_use]
    pub fn with(mut self, rows: impl IntoIterator<Item = Row>) -> Self {
        self.rows.splice(0..0, rows);
        self
    }

    /// The rows, from the one that counts most.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What the rows say of a model at a host (without a port). A name of more than 256 bytes is in no row.
    pub fn of(&self, model: &str, host: Option<&str>) -> Capability {
        let mut found = Capability::default();
        if model.len() > NAME {
            return found;
        }
        let named: Vec<&Row> = self.rows.iter().filter(|row| row.names(model, host)).collect();
        let text = |of: fn(&Row) -> Option<&String>| {
            named.iter().find_map(|row| of(row)).filter(|text| !text.is_empty()).cloned()
        };
        let flag = |of: fn(&Row) -> Option<bool>, default| named.iter().find_map(|row| of(row)).unwrap_or(default);
        found.prefill = named.iter().find_map(|row| row.prefill).unwrap_or_default();
        found.rejects_trailing_space = flag(|row| row.rejects_trailing_space, found.rejects_trailing_space);
        found.returns_prefill = flag(|row| row.returns_prefill, found.returns_prefill);
        found.prefix_path = text(|row| row.prefix_path.as_ref());
        found.response_format = flag(|row| row.response_format, found.response_format);
        found.tools = flag(|row| row.tools, found.tools);
        found.web_search = text(|row| row.web_search.as_ref());
        let switch = named.iter().find_map(|row| row.reasoning_off.as_ref());
        found.reasoning_off = switch.filter(|switch| !switch.key.is_empty()).cloned();
        found
    }
}

/// Bytes of the longest name that is looked up: it comes from a request.
const NAME: usize = 256;
