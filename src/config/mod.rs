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
#[derive(Debug, Default, Deserialize)]
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

    /// All of it as a file's text, with the defaults. Parsed again, it says the same, and shows the same.
    ///
    /// The rows that are known stand there as comments: a file that is made of this text follows later versions of
    /// restitch in what models can be asked for. A password in the upstream is left out.
    pub fn show(&self) -> String {
        let mut text = self.show_own();
        let built_in = written_rows(&self.built_in());
        text.push_str(if built_in.is_empty() { "" } else { BUILT_IN });
        for line in built_in.lines() {
            text.push_str(if line.is_empty() { "#" } else { "# " });
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// The same with the rows that are known as rows: a file that is made of this text knows no others. A row that
    /// stands in the configuration is not repeated.
    pub fn show_all(&self) -> String {
        self.show_own() + &written_rows(&self.built_in())
    }

    /// What is the configuration's own, with the defaults.
    fn show_own(&self) -> String {
        let mut proxy = self.proxy.filled();
        proxy.upstream = proxy.upstream.as_deref().map(proxy::without_password);
        let mut text = format!("[proxy]\n{}", written(&proxy));
        if proxy.upstream.is_none() {
            text.push_str(NO_UPSTREAM);
        }
        text += &format!("\n[limits]\n{}", written(&limits::Limits::from(&self.limits)));
        text += &format!("\n[prompt]\n{}", written(&prompt::Prompt::from(&self.prompt)));
        text + &written_rows(&self.capabilities)
    }

    /// The rows that are known and are not the configuration's own.
    fn built_in(&self) -> Vec<Row> {
        let known = Table::default();
        known.rows().iter().filter(|row| !self.capabilities.contains(row)).cloned().collect()
    }
}

/// `[[capability]]`, as a file has it.
#[derive(Debug, Serialize)]
struct Rows {
    capability: Vec<capability::Row>,
}

/// The rows as a file has them, after an empty line; nothing where there are none.
fn written_rows(rows: &[Row]) -> String {
    match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}", written(&Rows { capability: rows.iter().map(capability::Row::from).collect() })),
    }
}

/// There is no value in a configuration that TOML can't write.
fn written(table: &impl Serialize) -> String {
    let written = toml::to_string_pretty(table);
    debug_assert!(written.is_ok(), "{written:?}");
    written.unwrap_or_default()
}

/// What stands where no upstream is named.
const NO_UPSTREAM: &str = "# upstream = \"https://api.example.com\"\n";

/// What stands before the rows that are known.
const BUILT_IN: &str = "\n\
    # (What is known of models without a row of your own; newer versions know more. A row above wins over these.)\n";

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
        debug_assert!(text.is_char_boundary(at), "a span of the parser's starts inside a character");
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
