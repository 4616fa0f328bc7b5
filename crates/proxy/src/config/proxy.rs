//! Reads and writes `[proxy]`: how the proxy runs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::schema;
use super::value::Time;
use crate::address::{ListenAddress, SocketMode, TrustedProxy, one_socket};
use crate::route_config::written;
use crate::secret::SecretSource;
use restitch::repair::RepairLevel;
use restitch::session::{GiveUp, Prose};

/// How the proxy runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = schema::without_threads)]
#[non_exhaustive]
pub struct ProxyConfig {
    /// The address to listen on; `:7378` is all addresses. `127.0.0.1:7378`, `[::1]:7378`,
    /// `localhost:7378` (IPv4 and IPv6) or `unix:/path/to.sock`. Port 0 takes a free one.
    #[serde(with = "written::text")]
    #[schemars(with = "String")]
    pub listen: ListenAddress,
    /// The permissions of a Unix socket, in octal.
    #[serde(with = "written::text")]
    #[schemars(with = "String")]
    pub socket_mode: SocketMode,
    /// The proxy's certificate for its clients, with its chain, in PEM. Clients then use https.
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    pub tls_key: Option<PathBuf>,
    /// Networks of proxies whose `x-forwarded-for` names the client in the log, or `unix`. `unix`: all clients of a Unix socket.
    #[serde(with = "written::texts")]
    #[schemars(with = "Vec<String>")]
    pub trusted_proxies: Vec<TrustedProxy>,
    /// The address of a listener with a page, metrics and `/readyz`. `127.0.0.1:7379`, `localhost:7379` or `:7379` (all addresses of the
    /// machine). None: there is no such listener.
    #[serde(deserialize_with = "admin")]
    #[schemars(with = "Option<String>")]
    pub admin: Option<SocketAddr>,
    /// Keep the text of the last N answers in memory and show it on that page. 0: the page shows no
    /// text.
    pub page_answers: usize,
    /// The provider's address: `https://host[:port][/prefix]`. One `/v1` at its end and one at the
    /// start of a request's path become one.
    pub upstream: Option<String>,
    /// Where a key for that upstream is, in place of the clients' own: `env:VARIABLE`, or
    /// `file:PATH`, which the proxy reads again every 10 seconds.
    #[schemars(with = "Option<String>")]
    pub upstream_key: Option<SecretSource>,
    /// Threads that serve connections, each with upstream connections of its own. Default: one for
    /// each core.
    #[serde(deserialize_with = "threads")]
    #[schemars(range(min = 1, max = Self::MOST_THREADS))]
    pub threads: usize,
    /// Adapt first requests to their model. Remove a `response_format` that the model rejects, and
    /// ask the Messages API to stream tool arguments without buffering.
    pub adapt: bool,
    /// The factor by which each further call may be longer than the one before, where the request
    /// limits its tokens.
    pub raise_max_tokens: NonZeroU32,
    /// What to do with an answer that can't be completed. leave: add nothing, and end it as its
    /// last call ended. close: close its JSON, so that it parses. error: end it with an error.
    #[schemars(schema_with = "schema::give_up")]
    pub on_give_up: GiveUp,
    /// What to do with an answer in prose whose connection is lost. pass: nothing. anchor: ask for
    /// its rest, and join it where it repeats the end of the answer.
    #[schemars(schema_with = "schema::prose")]
    pub prose: Prose,
    /// How much of the JSON in an answer may be changed. strict: nothing. syntax: what leaves every
    /// whole token as it is. guess: also what is a guess; up to 4 KiB of a stream are held back.
    #[schemars(schema_with = "schema::repair")]
    pub repair: RepairLevel,
    /// Time for which each streamed answer is kept for a client that loses its connection. The
    /// answer continues meanwhile. The request header `x-restitch-keep` overrides it.
    pub keep: Time,
    /// Where kept answers are: memory, a folder (`file:/path`), or the address of a Redis or Valkey
    /// server. Files outlive the process, and several proxies can share a server.
    #[serde(deserialize_with = "store")]
    pub store: String,
    /// The log on standard error: off, error, warn, info, debug or trace. Or a list of them by
    /// module, such as `warn,restitch::access=info`. It has neither keys nor texts. -v and -q win
    /// over it.
    #[serde(deserialize_with = "log")]
    pub log: String,
    /// The format of its lines: text, or one JSON object per line.
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
            upstream_key: None,
            // One for each core.
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            adapt: false,
            raise_max_tokens: NonZeroU32::MIN,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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
