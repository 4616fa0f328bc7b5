//! Reads and writes `[proxy]`: how the proxy runs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::address::{ListenAddress, SocketMode, one_socket};
use crate::route_config::written;
use restitch::repair::RepairLevel;
use restitch::session::{GiveUp, Prose};

/// The settings that `restitch proxy` has flags for, too. A flag wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Proxy {
    /// The address to listen on.
    #[serde(skip_serializing_if = "Option::is_none", with = "written::text")]
    pub listen: Option<ListenAddress>,
    /// The permissions of a Unix socket.
    #[serde(skip_serializing_if = "Option::is_none", with = "written::text")]
    pub socket_mode: Option<SocketMode>,
    /// The proxy's certificate for its clients in PEM, and those that lead to its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// The address of the listener for metrics and readiness. Without one there is no such
    /// listener.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "admin")]
    pub admin: Option<SocketAddr>,
    /// How many of the last answers keep their text, for the page of that listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_answers: Option<usize>,
    /// The upstream's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// How many threads serve connections.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "threads")]
    pub threads: Option<usize>,
    /// Whether first requests are adapted to the capabilities of their model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapt: Option<bool>,
    /// The factor by which each further call may be longer than the one before.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "factor")]
    pub raise_max_tokens: Option<u32>,
    /// How an answer ends when its rest can't be obtained.
    #[serde(skip_serializing_if = "Option::is_none", with = "written::text")]
    pub on_give_up: Option<GiveUp>,
    /// How an answer in prose is handled when its connection is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prose: Option<Prose>,
    /// How much of the JSON in an answer may be changed.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "written::repair"
    )]
    pub repair: Option<RepairLevel>,
    /// Seconds for which answers are kept for clients that lose their connection, if the request
    /// does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
    /// The store of kept answers: `memory`, or the address of a Redis or Valkey server.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "store")]
    pub store: Option<String>,
    /// The filter of the log on standard error: one of [`LEVELS`](Self::LEVELS), or a
    /// comma-separated list of `module=level`, in which a level without a module applies to all
    /// other modules.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "log")]
    pub log: Option<String>,
    /// The format of its lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,
    /// Whether it has the text of requests and answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_content: Option<bool>,
}

/// The format of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogFormat {
    /// Words, for people.
    #[default]
    Text,
    /// One JSON object per line, for programs.
    Json,
}

impl Proxy {
    /// The log levels, from the quietest on.
    pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

    /// The default address.
    pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7378);

    /// The default for answers whose rest can't be obtained: a client would take a closed document
    /// for a whole one.
    pub const ON_GIVE_UP: GiveUp = GiveUp::Leave;

    /// The most threads that can be set.
    pub const MOST_THREADS: usize = 1024;

    /// Returns how many threads serve connections by default: one for each core.
    pub fn default_threads() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Returns the settings, with defaults for unset ones. There is no default upstream, and no
    /// admin listener by default.
    #[must_use]
    pub fn filled(&self) -> Self {
        Self {
            listen: self.listen.clone().or(Some(Self::LISTEN.into())),
            socket_mode: self.socket_mode.or(Some(SocketMode::default())),
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            admin: self.admin,
            page_answers: self.page_answers.or(Some(0)),
            upstream: self.upstream.clone(),
            threads: self.threads.or_else(|| Some(Self::default_threads())),
            adapt: self.adapt.or(Some(false)),
            raise_max_tokens: self.raise_max_tokens.or(Some(1)),
            on_give_up: self.on_give_up.or(Some(Self::ON_GIVE_UP)),
            prose: self.prose.or(Some(Prose::default())),
            repair: self.repair.or(Some(RepairLevel::Strict)),
            keep: self.keep.or(Some(0)),
            store: self.store.clone().or(Some("memory".to_owned())),
            log: self.log.clone().or(Some("info".to_owned())),
            log_format: self.log_format.or(Some(LogFormat::default())),
            log_content: self.log_content.or(Some(false)),
        }
    }
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

fn log<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    log_filter(&String::deserialize(deserializer)?)
        .map(Some)
        .map_err(D::Error::custom)
}

fn store<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    store_address(&String::deserialize(deserializer)?)
        .map(Some)
        .map_err(D::Error::custom)
}

/// Checks the address of a store. It is not repeated, since it may have a password.
pub fn store_address(address: &str) -> Result<String, &'static str> {
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
pub fn log_filter(filter: &str) -> Result<String, String> {
    for directive in filter.split(',') {
        let (module, level) = directive
            .rsplit_once('=')
            .unwrap_or(("restitch", directive));
        if !Proxy::LEVELS.contains(&level) {
            return Err(format!(
                "`{level}` is no level: there are {}",
                Proxy::LEVELS.join(", ")
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

fn threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let threads = usize::deserialize(deserializer)?;
    let wrong = || D::Error::custom(format!("there can be 1 to {} threads", Proxy::MOST_THREADS));
    (1..=Proxy::MOST_THREADS)
        .contains(&threads)
        .then_some(Some(threads))
        .ok_or_else(wrong)
}

fn factor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(D::Error::custom("a factor of 0 leaves no tokens")),
        factor => Ok(Some(factor)),
    }
}
