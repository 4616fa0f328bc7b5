//! The configuration file: a TOML text with the limits, the words of the re-prompt, the
//! capabilities of models, the settings of the proxy, and the restrictions on its clients.
//! docs/configuration.md describes it.
//!
//! ```
//! use restitch_proxy::config::Config;
//! use restitch::provider::capability::PrefillForm;
//!
//! let mut config = Config::parse(r#"
//!     [limits]
//!     max_continuations = 4
//!
//!     [[capability]]
//!     model = "*"
//!     host = "127.0.0.1"
//!     prefill = "continue-final-message"
//! "#)?;
//! assert_eq!(config.limits.max_continuations, 4);
//! assert_eq!(config.table().of("llama", Some("127.0.0.1")).prefill, PrefillForm::Final);
//! config.set("limits.max_continuations", "2").unwrap();
//! assert_eq!(config.limits.max_continuations, 2);
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
mod key;
mod limits;
mod prompt;
mod proxy;
mod route;
pub(crate) mod schema;
mod tls;
pub mod value;

use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use access::{AccessConfig, TokenConfig};
pub use key::{Key, nearest};
pub use limits::LimitsConfig;
pub use proxy::{LogFormat, ProxyConfig};
pub use tls::TlsConfig;

use crate::route_config::RouteConfig;
pub use crate::secret::SecretSource;
use restitch::Limits;
use restitch::provider::capability::{Row, Table};
use restitch::session::Prompt;

/// The settings of a configuration file, with defaults for missing ones.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// `[proxy]`.
    pub proxy: ProxyConfig,
    /// `[access]`.
    pub access: AccessConfig,
    /// `[tls]`.
    pub tls: TlsConfig,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// The limits without a key, which tests lower.
    #[doc(hidden)]
    pub fixed: Limits,
    /// `[prompt]`.
    pub prompt: Prompt,
    /// `[[capability]]`, in the order of the file.
    pub capabilities: Vec<Row>,
    /// `[[route]]`, in the order of the file, each with a name.
    pub routes: Vec<RouteConfig>,
}

/// The configuration of restitch. Each table and key may be left out.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "restitch")]
struct File {
    proxy: ProxyConfig,
    access: AccessConfig,
    tls: TlsConfig,
    limits: LimitsConfig,
    prompt: prompt::Prompt,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<RouteConfig>", length(max = route::MAX_ROUTES))]
    route: Vec<toml::Spanned<RouteConfig>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capability: Vec<capability::Row>,
}

impl Config {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The text is not TOML, has an unknown table or key, or a value that is not valid.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| ConfigError::new(text, &error))?;
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
            fixed: Limits::default(),
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

    /// Sets a key of `[proxy]`, `[access]`, `[tls]`, `[limits]` or `[prompt]`, named like
    /// `limits.max_continuations`. `text`: its value as TOML, or a text without quotes.
    ///
    /// # Errors
    /// Fails when there is no such key, or when the value is not valid. The message names the
    /// nearest known key, and never repeats a secret.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let Some((table, key)) = name.split_once('.') else {
            return Err(Key::unknown(name));
        };
        let mut prompt = prompt::Prompt::from(&self.prompt);
        let set = match table {
            "proxy" => set(&mut self.proxy, key, text),
            "access" => set(&mut self.access, key, text),
            "tls" => set(&mut self.tls, key, text),
            "limits" => set(&mut self.limits, key, text),
            "prompt" => set(&mut prompt, key, text),
            _ => return Err(Key::unknown(name)),
        };
        set.map_err(|error| match Key::is_known(name) {
            true => error.message().to_owned(),
            false => Key::unknown(name),
        })?;
        self.prompt = prompt.into();
        match self.access.mistake_of_tokens() {
            Some((_, mistake)) => Err(mistake),
            None => Ok(()),
        }
    }

    /// Returns the JSON Schema of a configuration file, of draft 2020-12. It describes and checks
    /// each key alone: [`parse`](Self::parse) also checks how keys agree, and the texts of
    /// addresses and patterns.
    pub fn schema() -> Value {
        schema::of::<File>()
    }

    /// Returns the limits of `[limits]`, and those without a key.
    pub fn all_limits(&self) -> Limits {
        self.limits.over(&self.fixed)
    }

    /// Sets all limits, with or without a key.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = LimitsConfig::of(&limits);
        self.fixed = limits;
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
    /// the same configuration, except for passwords in addresses: `***` replaces them.
    pub fn show(&self) -> String {
        written(&self.file())
    }

    /// Returns the settings that differ from their defaults, like [`show`](Self::show).
    pub fn show_changed(&self) -> String {
        let mut changed = table(&self.file());
        let defaults = table(&File::default());
        for (name, own) in &mut changed {
            if let (Some(own), Some(default)) = (own.as_table_mut(), defaults.get(name)) {
                own.retain(|key, value| default.get(key) != Some(value));
            }
        }
        changed.retain(|_, value| value.as_table().is_none_or(|table| !table.is_empty()));
        written(&changed)
    }

    /// Returns the file of this configuration, without passwords: what is shown ends up in issues
    /// and logs.
    fn file(&self) -> File {
        let mut proxy = self.proxy.clone();
        proxy.upstream = proxy.upstream.as_deref().map(proxy::without_password);
        proxy.store = proxy::without_password(&proxy.store);
        let mut routes = self.routes.clone();
        for route in &mut routes {
            route.upstream = route.upstream.as_deref().map(proxy::without_password);
            route.fallback = route::without_passwords(&route.fallback);
        }
        File {
            proxy,
            access: self.access.clone(),
            tls: self.tls.clone(),
            limits: self.limits.clone(),
            prompt: prompt::Prompt::from(&self.prompt),
            route: routes
                .into_iter()
                .map(|route| toml::Spanned::new(0..0, route))
                .collect(),
            capability: self
                .capabilities
                .iter()
                .map(capability::Row::from)
                .collect(),
        }
    }
}

/// Sets a key of a table.
fn set<T: DeserializeOwned + Serialize>(
    own: &mut T,
    key: &str,
    text: &str,
) -> Result<(), toml::de::Error> {
    let with = |value: toml::Value| {
        let mut all = table(own);
        all.insert(key.to_owned(), value);
        all.try_into::<T>()
    };
    let literal = format!("value = {text}").parse::<toml::Table>();
    let literal = literal.ok().filter(|table| table.len() == 1);
    let plain = || with(toml::Value::String(text.to_owned()));
    *own = match literal.and_then(|mut table| table.remove("value")) {
        // A text may look like a number. Then its own error is the better one.
        Some(value) => with(value).or_else(|error| {
            let is_text = error.message().starts_with("invalid type");
            plain().map_err(|plain| if is_text { plain } else { error })
        })?,
        None => plain()?,
    };
    Ok(())
}

/// Returns the keys and values of a table. All values of a configuration can be written.
fn table(table: &impl Serialize) -> toml::Table {
    let table = toml::Table::try_from(table);
    debug_assert!(table.is_ok(), "{table:?}");
    table.unwrap_or_default()
}

/// Returns a table as TOML. All values of a configuration can be written.
fn written(table: &impl Serialize) -> String {
    let written = toml::to_string_pretty(table);
    debug_assert!(written.is_ok(), "{written:?}");
    written.unwrap_or_default()
}

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
        let message =
            key::unknown_field(error.message()).unwrap_or_else(|| error.message().to_owned());
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
