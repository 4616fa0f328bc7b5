//! The configuration file: a TOML text with the limits, the templates of the re-prompt, the
//! capabilities of models, the settings of the proxy, and the restrictions on its clients.
//! docs/configuration.md describes it.
//!
//! ```
//! use restitch_proxy::config::Config;
//! use restitch::provider::capability::PrefillForm;
//!
//! let config = Config::parse(r#"
//!     [limits]
//!     max_continuations = 4
//!
//!     [prompt]
//!     progress = true
//!
//!     [[capability]]
//!     model = "*"
//!     host = "127.0.0.1"
//!     prefill = "continue-final-message"
//! "#)?;
//! assert_eq!(config.limits.max_continuations, 4);
//! assert_eq!(config.table().of("llama", Some("127.0.0.1")).prefill, PrefillForm::Final);
//!
//! let error = Config::parse("[limits]\nmax_continuation = 4\n").unwrap_err();
//! assert_eq!(error.line, 2);
//! # Ok::<(), restitch_proxy::config::ConfigError>(())
//! ```
//! This module parses text; it reads no files and no environment. One default depends on the
//! machine: `threads`.

mod access;
mod capability;
mod init;
mod limits;
mod prompt;
mod proxy;
mod route;
pub(crate) mod schema;
mod tls;
pub mod value;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use access::{AccessConfig, TokenConfig};
pub use limits::{EngineConfig, LimitsConfig};
pub use proxy::{LogFormat, ProxyConfig};
pub use tls::TlsConfig;

use crate::route_config::RouteConfig;
use restitch::Limits;
use restitch::provider::capability::{Row, Table};
use restitch::session::Prompt;

/// The settings of a configuration file, with defaults for missing ones. The tables that derive
/// [`Args`](clap::Args) declare a flag for each key, too: `update_from_arg_matches` puts the given
/// flags over the file.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[non_exhaustive]
pub struct Config {
    /// `[proxy]`.
    #[command(flatten)]
    pub proxy: ProxyConfig,
    /// `[access]`.
    #[command(flatten)]
    pub access: AccessConfig,
    /// `[tls]`.
    #[command(flatten)]
    pub tls: TlsConfig,
    /// `[limits]`.
    #[command(flatten)]
    pub limits: LimitsConfig,
    /// `[engine]`. A file alone sets it.
    #[arg(skip)]
    pub engine: EngineConfig,
    /// `[prompt]`.
    #[arg(skip)]
    pub prompt: Prompt,
    /// `[[capability]]`, in the order of the file.
    #[arg(skip)]
    pub capabilities: Vec<Row>,
    /// `[[route]]`, in the order of the file, each with a name.
    #[arg(skip)]
    pub routes: Vec<RouteConfig>,
}

/// The configuration of restitch. Each table and key may be left out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "restitch")]
struct File {
    proxy: ProxyConfig,
    access: AccessConfig,
    tls: TlsConfig,
    limits: LimitsConfig,
    engine: EngineConfig,
    prompt: prompt::Prompt,
    capability: Vec<capability::Row>,
    #[schemars(with = "Vec<RouteConfig>", length(max = route::MAX_ROUTES))]
    route: Vec<toml::Spanned<RouteConfig>>,
}

impl Config {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The text is not TOML, has an unknown table or key, or a value that is not valid.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| ConfigError::new(text, &error))?;
        route::check_key(text, &file.proxy)?;
        if let Some((number, mistake)) = file.access.mistake_of_tokens() {
            return Err(ConfigError::at(
                text,
                route::token_start(text, number),
                &mistake,
            ));
        }
        let tokens: Vec<_> = file.access.token.iter().map(|token| &*token.name).collect();
        let routes = route::checked(text, file.route, &tokens)?;
        Ok(Self {
            limits: file.limits,
            engine: file.engine,
            prompt: file.prompt.into(),
            capabilities: file.capability.into_iter().map(Row::from).collect(),
            proxy: file.proxy,
            access: file.access,
            tls: file.tls,
            routes,
        })
    }

    /// Like [`parse`](Self::parse), and also checks the addresses of the upstreams: no request can
    /// be sent to an invalid one.
    ///
    /// # Errors
    /// Fails like [`parse`](Self::parse), or when an upstream is not an address. The error does not
    /// repeat the address.
    pub fn parse_checked(text: &str) -> Result<Self, ConfigError> {
        let config = Self::parse(text)?;
        route::check_upstreams(text).map(|()| config)
    }

    /// Returns the JSON Schema of a configuration file, of draft 2020-12. It describes and checks
    /// each key alone: [`parse`](Self::parse) also checks how keys agree, and the texts of
    /// addresses, patterns and templates.
    pub fn schema() -> Value {
        schema::of::<File>()
    }

    /// Returns the defaults of all settings that have one, by their keys, as a flag takes them. One
    /// depends on the machine: `threads`.
    pub fn defaults() -> BTreeMap<String, String> {
        let tables = Self::default().tables();
        let values = tables.into_iter().flat_map(|(_, table)| table);
        let texts = values.filter_map(|(key, value)| match value {
            toml::Value::Array(_) => None,
            toml::Value::String(text) => Some((key, text)),
            value => Some((key, value.to_string())),
        });
        texts.collect()
    }

    /// Returns the tables of single settings, with their names.
    fn tables(&self) -> [(&'static str, toml::Table); 5] {
        [
            ("proxy", table(&self.proxy)),
            ("access", table(&self.access)),
            ("tls", table(&self.tls)),
            ("limits", table(&self.limits)),
            ("engine", table(&self.engine)),
        ]
    }

    /// Returns the limits of `[limits]` and `[engine]`.
    pub fn all_limits(&self) -> Limits {
        limits::joined(&self.limits, &self.engine)
    }

    /// Sets all keys of `[limits]` and `[engine]`.
    pub fn set_limits(&mut self, limits: Limits) {
        (self.limits, self.engine) = limits::split(limits);
    }

    /// Returns the settings for the requests of a route, or of no route: its own settings, and the
    /// general ones for the rest. The result has no conditions, and `***` replaces a password in
    /// the upstream.
    pub fn effective(&self, route: Option<&RouteConfig>) -> RouteConfig {
        route::effective(self, route)
    }

    /// Returns a route as a file has it, without the line `[[route]]`.
    pub fn show_route(route: &RouteConfig) -> String {
        written(route)
    }

    /// Returns the built-in capability table with this configuration's rows in front.
    pub fn table(&self) -> Table {
        Table::default().with(self.capabilities.iter().cloned())
    }

    /// Returns the whole configuration as a file's text, with the defaults. Parsing that text gives
    /// the same configuration.
    ///
    /// The built-in capability rows are comments: a file that is made from this text gets the rows
    /// of later versions. A password in the upstream is replaced by `***`.
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

    /// Returns the same text with the built-in capability rows as rows. A file that is made from it
    /// keeps these rows even when a later version has others. A row that the configuration has is
    /// not repeated.
    pub fn show_all(&self) -> String {
        self.show_own() + &written_rows(&self.built_in())
    }

    /// Returns the text of this configuration with the defaults, without built-in rows.
    fn show_own(&self) -> String {
        let shown = self.without_passwords();
        let mut text = format!("[proxy]\n{}", written(&shown.proxy));
        if shown.proxy.upstream.is_none() {
            text.push_str(NO_UPSTREAM);
        }
        let access = Access {
            access: &self.access,
        };
        text += &format!("\n{}", written(&access));
        if self.access.token_variable.is_none() && self.access.token.is_empty() {
            text.push_str(NO_TOKEN);
        }
        text += &format!("\n[tls]\n{}", written(&self.tls));
        text += &format!("\n[limits]\n{}", written(&self.limits));
        text += &format!(
            "\n[engine]\n# (Leave these alone.)\n{}",
            written(&self.engine)
        );
        text += &format!(
            "\n[prompt]\n{}",
            written(&prompt::Prompt::from(&self.prompt))
        );
        text + &shown.show_lists()
    }

    /// Returns the same configuration with `***` instead of passwords in addresses: what is shown
    /// ends up in issues and logs.
    fn without_passwords(&self) -> Self {
        let mut shown = self.clone();
        let own = &mut shown.proxy;
        own.upstream = own.upstream.as_deref().map(proxy::without_password);
        own.store = proxy::without_password(&own.store);
        for route in &mut shown.routes {
            route.upstream = route.upstream.as_deref().map(proxy::without_password);
            route.fallback = route::without_passwords(&route.fallback);
        }
        shown
    }

    /// Returns the text of the routes and the capability rows.
    fn show_lists(&self) -> String {
        let mut text = String::new();
        if !self.routes.is_empty() {
            let route = self.routes.clone();
            text += &format!("\n{}", written(&Routes { route }));
        }
        text + &written_rows(&self.capabilities)
    }

    /// Returns the built-in rows that this configuration does not have.
    fn built_in(&self) -> Vec<Row> {
        let known = Table::default();
        known
            .rows()
            .iter()
            .filter(|row| !self.capabilities.contains(row))
            .cloned()
            .collect()
    }
}

/// Returns the keys and values of a table. All values of a configuration can be written.
fn table(table: &impl Serialize) -> toml::Table {
    let table = toml::Table::try_from(table);
    debug_assert!(table.is_ok(), "{table:?}");
    table.unwrap_or_default()
}

/// `[[capability]]`, as a file has it.
#[derive(Debug, Serialize)]
struct CapabilityRows {
    capability: Vec<capability::Row>,
}

/// `[access]` and `[[access.token]]`, as a file has them.
#[derive(Debug, Serialize)]
struct Access<'a> {
    access: &'a AccessConfig,
}

/// `[[route]]`, as a file has them.
#[derive(Debug, Serialize)]
struct Routes {
    route: Vec<RouteConfig>,
}

/// Returns an empty line and the rows as a file has them. Empty if there are no rows.
fn written_rows(rows: &[Row]) -> String {
    match rows.is_empty() {
        true => String::new(),
        false => format!(
            "\n{}",
            written(&CapabilityRows {
                capability: rows.iter().map(capability::Row::from).collect()
            })
        ),
    }
}

/// Returns a table as TOML. All values of a configuration can be written.
fn written(table: &impl Serialize) -> String {
    let written = toml::to_string_pretty(table);
    debug_assert!(written.is_ok(), "{written:?}");
    written.unwrap_or_default()
}

/// The line for an upstream that is not set.
const NO_UPSTREAM: &str = "# upstream = \"https://api.example.com\"\n";

/// The line for a token that is not set.
const NO_TOKEN: &str = "# token_variable = \"LLM_PROXY_TOKEN\"\n";

/// The line before the built-in rows.
const BUILT_IN: &str = "\n\
    # (Built-in rows. Newer versions may have more. A row above wins over these.)\n";

/// Why a configuration was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
    /// The description of the error.
    pub message: String,
}

impl ConfigError {
    fn new(text: &str, error: &toml::de::Error) -> Self {
        let message = unknown_key(error.message()).unwrap_or_else(|| error.message().to_owned());
        Self::at(text, error.span().map_or(0, |span| span.start), &message)
    }

    /// Creates an error at a byte of the text.
    fn at(text: &str, start: usize, message: &str) -> Self {
        let at = start.min(text.len());
        debug_assert!(
            text.is_char_boundary(at),
            "a span of the parser's starts inside a character"
        );
        let before = text.get(..at).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            message: message.trim().replace('\n', ", "),
        }
    }
}

/// Returns the message for an unknown key, with the table that has it or the nearest known one
/// instead of all: serde lists them, and `[limits]` has some forty. `None`: the message is about
/// something else.
fn unknown_key(message: &str) -> Option<String> {
    let (unknown, known) = message.split_once("`, expected ")?;
    let key = unknown.strip_prefix("unknown field `")?;
    let tables = Config::default().tables();
    let table = tables.iter().find(|(_, table)| table.contains_key(key));
    // The message has each name in backticks.
    let known = known.split('`').skip(1).step_by(2);
    Some(match (table, nearest(key, known)) {
        (Some((table, _)), _) => format!("unknown field `{key}`: it is a key of `[{table}]`"),
        (None, Some(near)) => format!("unknown field `{key}`: did you mean `{near}`?"),
        (None, None) => format!("unknown field `{key}`"),
    })
}

/// Returns the known name that is most like another one, if any is.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness > LEAST_LIKENESS)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
}

/// The similarity from which on a known name is suggested: `continuation` is 0.90 like
/// `max_continuations`, and any letter up to 0.71 like a name of eight letters that has it.
const LEAST_LIKENESS: f64 = 0.75;

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.message
        )
    }
}

impl std::error::Error for ConfigError {}

/// Returns whether a text can name a variable of the environment, as shells take it. Most keys
/// can't.
pub fn is_variable(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty()
        && name.bytes().all(is_plain)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}
