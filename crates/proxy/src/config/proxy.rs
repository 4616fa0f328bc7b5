//! Reads and writes `[proxy]`: how the proxy runs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::ArgAction;
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::schema;
use super::value::Time;
use crate::address::{ListenAddress, SocketMode, TrustedProxy, one_socket};
use crate::route_config::written;
use restitch::repair::RepairLevel;
use restitch::session::{GiveUp, Prose};

/// How the proxy runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = schema::without_threads)]
#[non_exhaustive]
pub struct ProxyConfig {
    /// The address to listen on: `127.0.0.1:7378`, `[::1]:7378`, `localhost:7378` (IPv4 and IPv6),
    /// `:7378` (all addresses) or `unix:/path/to.sock`. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    #[serde(with = "written::text")]
    #[schemars(with = "String")]
    pub listen: ListenAddress,
    /// The permissions of a Unix socket, in octal.
    #[arg(long, value_name = "MODE")]
    #[serde(with = "written::text")]
    #[schemars(with = "String")]
    pub socket_mode: SocketMode,
    /// The proxy's certificate for its clients, with its chain, in PEM. Clients then use https.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// Networks of proxies whose `x-forwarded-for` names the client in the log, or `unix`. With
    /// commas between. `unix`: all clients of a Unix socket.
    #[arg(
        long,
        value_name = "NETWORKS",
        value_delimiter = ',',
        hide_short_help = true
    )]
    #[serde(with = "written::texts")]
    #[schemars(with = "Vec<String>")]
    pub trusted_proxies: Vec<TrustedProxy>,
    /// The address of a second listener, for a page of the answers (`/`), metrics (`/metrics`) and
    /// readiness (`/readyz`). `127.0.0.1:7379`, `localhost:7379` or `:7379` (all addresses of the
    /// machine). None: there is no such listener.
    #[arg(long, value_name = "ADDRESS", value_parser = one_socket)]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "admin")]
    #[schemars(with = "Option<String>")]
    pub admin: Option<SocketAddr>,
    /// Keep the text of the last N answers in memory and show it on that page. 0: the page shows no
    /// text.
    #[arg(long, value_name = "N")]
    pub page_answers: usize,
    /// The provider's address: `https://host[:port][/prefix]`; one `/v1` at its end and one at the
    /// start of a request's path become one.
    #[arg(long, value_name = "URL", hide_env_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The environment variable with a key for that upstream. It replaces the clients' own.
    #[arg(long, value_name = "VARIABLE", hide_short_help = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_key_variable: Option<String>,
    /// The file with that key. The proxy reads it again every 10 seconds.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_key_file: Option<PathBuf>,
    /// Threads that serve connections, each with upstream connections of its own.
    #[arg(long, value_name = "N", value_parser = thread_number())]
    #[serde(deserialize_with = "threads")]
    #[schemars(range(min = 1, max = Self::MOST_THREADS))]
    pub threads: usize,
    /// Adapt first requests to their model. Remove a `response_format` that the model rejects, and
    /// ask the Messages API for tool arguments as they are written.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub adapt: bool,
    /// The factor by which each further call may be longer than the one before, where the request
    /// limits its tokens.
    #[arg(long, value_name = "FACTOR", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(deserialize_with = "factor")]
    #[schemars(range(min = 1))]
    pub raise_max_tokens: u32,
    /// What to do with an answer that can't be completed. leave: add nothing, and end it as its
    /// last call ended. close: close its JSON, so that it parses. error: end it with an error.
    #[arg(long, value_name = "HOW", value_parser = one_of(&GiveUp::ALL, GiveUp::as_str))]
    #[serde(with = "written::text")]
    #[schemars(schema_with = "schema::give_up")]
    pub on_give_up: GiveUp,
    /// What to do with an answer in prose whose connection is lost. pass: nothing. anchor: ask for
    /// its rest, and join it where it repeats the end of the answer.
    #[arg(long, value_name = "HOW", value_parser = one_of(&[Prose::Pass, Prose::Anchor], prose_name))]
    #[schemars(schema_with = "schema::prose")]
    pub prose: Prose,
    /// How much of the JSON in an answer may be changed. strict: nothing. syntax: what leaves every
    /// whole token as it is. guess: also what is a guess; up to 4 KiB of a stream are held back.
    #[arg(long, value_name = "LEVEL", value_parser = one_of(&RepairLevel::ALL, RepairLevel::as_str))]
    #[serde(deserialize_with = "written::repair")]
    #[schemars(schema_with = "schema::repair")]
    pub repair: RepairLevel,
    /// Time for which each streamed answer is kept for a client that loses its connection. The
    /// answer continues meanwhile. The request header `x-restitch-keep` overrides it.
    #[arg(long, value_name = "TIME")]
    pub keep: Time,
    /// Where kept answers are: memory, a folder (`file:/path`), or the address of a Redis or Valkey
    /// server. Files outlive the process, and several proxies can share a server.
    #[arg(long, value_name = "ADDRESS", value_parser = store_address, hide_env_values = true)]
    #[serde(deserialize_with = "store")]
    pub store: String,
    /// The log on standard error: off, error, warn, info, debug or trace, or a list of them by
    /// module, such as `warn,restitch::access=info`. It has neither keys nor texts. -v and -q win
    /// over it.
    #[arg(long, value_name = "FILTER", value_parser = log_filter)]
    #[serde(deserialize_with = "log")]
    pub log: String,
    /// The format of its lines: text, or one JSON object per line.
    #[arg(long, value_name = "FORMAT")]
    pub log_format: LogFormat,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            listen: Self::LISTEN.into(),
            socket_mode: SocketMode::default(),
            tls_cert: None,
            tls_key: None,
            trusted_proxies: Vec::new(),
            admin: None,
            page_answers: 0,
            upstream: None,
            upstream_key_variable: None,
            upstream_key_file: None,
            // One for each core.
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            adapt: false,
            raise_max_tokens: 1,
            // A client would take a closed document for a whole one.
            on_give_up: GiveUp::Leave,
            prose: Prose::Pass,
            repair: RepairLevel::Strict,
            keep: Time::default(),
            store: "memory".to_owned(),
            log: "info".to_owned(),
            log_format: LogFormat::Text,
        }
    }
}

/// The format of the log's lines.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogFormat {
    /// Logfmt: `key=value`, one line per event.
    #[default]
    Text,
    /// One JSON object per line, for programs.
    Json,
}

impl ProxyConfig {
    /// The log levels, from the quietest on.
    pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

    /// The default address.
    pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7378);

    /// The most threads that can be set.
    pub const MOST_THREADS: usize = 1024;
}

/// Returns an upstream's address with `***` instead of a password or a query. It may have neither,
/// but people write them, and shown addresses end up in logs.
pub(super) fn without_password(upstream: &str) -> String {
    let (scheme, rest) = upstream
        .split_once("://")
        .map_or(("", upstream), |(scheme, rest)| (scheme, rest));
    // A password may have any character, so it ends at the last `@`.
    let (user_info, rest) = rest
        .rsplit_once('@')
        .map_or((None, rest), |(user_info, rest)| (Some(user_info), rest));
    let (address, query) = match rest.find(['?', '#']) {
        Some(at) => (
            rest.get(..at).unwrap_or_default(),
            format!("{}***", rest.get(at..=at).unwrap_or_default()),
        ),
        None => (rest, String::new()),
    };
    let user = user_info.map(|user_info| match user_info.split_once(':') {
        Some((user, _)) => format!("{user}:***@"),
        // A name without a password may be a key.
        None => "***@".to_owned(),
    });
    let scheme = if scheme.is_empty() {
        String::new()
    } else {
        format!("{scheme}://")
    };
    format!("{scheme}{}{address}{query}", user.unwrap_or_default())
}

fn log<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    log_filter(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn store<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    store_address(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Checks the address of a store. It is not repeated, since it may have a password.
fn store_address(address: &str) -> Result<String, &'static str> {
    let is_known = address == "memory"
        || address
            .strip_prefix("file:")
            .is_some_and(|folder| !folder.trim_start_matches("//").is_empty())
        || STORES.iter().any(|scheme| address.starts_with(scheme));
    is_known.then(|| address.to_owned()).ok_or(
        "a store is `memory`, `file:/path/of/a/folder`, `redis://host:port`, `rediss://host:port` or \
             `redis+unix:///path/to.sock`",
    )
}

/// The schemes of the addresses of stores.
const STORES: [&str; 6] = [
    "redis://",
    "rediss://",
    "redis+unix://",
    "valkey://",
    "valkeys://",
    "unix://",
];

/// Checks a filter of the log. A word that is not a level would be taken for a module whose events
/// are all logged.
fn log_filter(filter: &str) -> Result<String, String> {
    for directive in filter.split(',') {
        let (module, level) = directive
            .rsplit_once('=')
            .unwrap_or(("restitch", directive));
        if !ProxyConfig::LEVELS.contains(&level) {
            return Err(format!(
                "`{level}` is no level: there are {}",
                ProxyConfig::LEVELS.join(", ")
            ));
        }
        if module.is_empty()
            || module.contains(|letter: char| letter.is_whitespace() || letter == '=')
        {
            return Err(format!(
                "`{directive}` names no module: write `module=level`"
            ));
        }
    }
    Ok(filter.to_owned())
}

fn admin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let written = String::deserialize(deserializer)?;
    one_socket(&written).map(Some).map_err(D::Error::custom)
}

fn threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let threads = usize::deserialize(deserializer)?;
    let most = ProxyConfig::MOST_THREADS;
    (1..=most)
        .contains(&threads)
        .then_some(threads)
        .ok_or_else(|| D::Error::custom(format!("there can be 1 to {most} threads")))
}

/// Parses a number of threads.
fn thread_number() -> impl TypedValueParser<Value = usize> {
    let most = i64::try_from(ProxyConfig::MOST_THREADS).unwrap_or(i64::MAX);
    clap::value_parser!(u32)
        .range(1..=most)
        .map(|threads| threads as usize)
}

fn factor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(D::Error::custom("a factor of 0 leaves no tokens")),
        factor => Ok(factor),
    }
}

pub(super) fn prose_name(prose: Prose) -> &'static str {
    match prose {
        Prose::Anchor => "anchor",
        _ => "pass",
    }
}

/// Parses a value by its name. Help and completions list the names.
fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let find = move |given: String| {
        let found = all.iter().copied().find(|value| name(*value) == given);
        found.ok_or("no such name")
    };
    PossibleValuesParser::new(all.iter().map(|value| name(*value))).try_map(find)
}
