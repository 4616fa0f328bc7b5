//! The configuration file: one TOML text with limits, the words of the prompt, what models can be asked for, and how the
//! proxy runs. docs/configuration.md has all of it.
//!
//! ```
//! use restitch::config::Config;
//! use restitch::provider::capability::PrefillForm;
//!
//! let config = Config::parse(r#"
//!     [limits]
//!     continuations = 4
//!
//!     [prompt]
//!     progress = true
//!
//!     [[capability]]
//!     model = "*"
//!     host = "127.0.0.1"
//!     prefix = "continue-final-message"
//! "#)?;
//! assert_eq!(config.limits.max_continuations, 4);
//! assert_eq!(config.table().of("llama", Some("127.0.0.1")).prefix, PrefillForm::Final);
//!
//! let error = Config::parse("[limits]\ncontinuation = 4\n").unwrap_err();
//! assert_eq!(error.line, 2);
//! # Ok::<(), restitch::config::ConfigError>(())
//! ```
//! It reads no files and no environment: it is given text.

mod capability;
mod limits;
mod prompt;
mod proxy;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use proxy::Proxy;

use crate::Limits;
use crate::provider::capability::{Row, Table};
use crate::session::Prompt;

/// What a configuration file says, and the defaults for what it doesn't.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// `[limits]`.
    pub limits: Limits,
    /// `[prompt]`.
    pub prompt: Prompt,
    /// `[[capability]]`, in their order.
    pub capabilities: Vec<Row>,
    /// `[proxy]`.
    pub proxy: Proxy,
}

/// The text, table by table.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    proxy: proxy::Proxy,
    limits: limits::Limits,
    prompt: prompt::Prompt,
    capability: Vec<capability::Row>,
}

impl Config {
    /// Reads a file's text.
    ///
    /// # Errors
    /// It is no TOML, names a table or a key that there is none of, or a value makes no sense.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| ConfigError::new(text, &error))?;
        Ok(Self {
            limits: file.limits.into(),
            prompt: file.prompt.into(),
            capabilities: file.capability.into_iter().map(Row::from).collect(),
            proxy: file.proxy,
        })
    }

    /// The rows of the configuration in front of those that are known.
    pub fn table(&self) -> Table {
        Table::default().with(self.capabilities.iter().cloned())
    }

    /// All of it as a file's text, with the defaults and the rows that are known. Parsed again, it says the same, and
    /// shows the same: a row that stands in the configuration is not repeated.
    pub fn show(&self) -> String {
        let known = Table::default();
        let others = known.rows().iter().filter(|row| !self.capabilities.contains(row));
        let file = File {
            proxy: self.proxy.filled(),
            limits: (&self.limits).into(),
            prompt: (&self.prompt).into(),
            capability: self.capabilities.iter().chain(others).map(capability::Row::from).collect(),
        };
        // There is no value in it that TOML can't write.
        toml::to_string_pretty(&file).unwrap_or_default()
    }
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// From 1 on.
    pub line: usize,
    /// Characters from the start of the line, from 1 on.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl ConfigError {
    fn new(text: &str, error: &toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let before = text.get(..at).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            message: error.message().trim().replace('\n', ", "),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ConfigError {}
