//! Reads and writes `[access]`: the restrictions on the proxy's clients.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::route::{NAME, is_name};
use crate::secret::SecretSource;

/// The restrictions on the proxy's clients and on their requests. An empty list is the default that
/// its key describes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AccessConfig {
    /// The environment variable with a token, named `default`. Where there is a token, a request
    /// without one is refused.
    pub token_variable: Option<String>,
    /// The accepted hosts of requests, with or without a port; none: all.
    #[serde(deserialize_with = "hosts")]
    pub allow_hosts: Vec<String>,
    /// The accepted origins of pages in browsers, `*` for all; none: no page.
    #[serde(deserialize_with = "origins")]
    pub allow_origins: Vec<String>,
    /// The accepted paths, where a `*` at the end matches any rest; none: all.
    #[serde(deserialize_with = "paths")]
    pub allow_paths: Vec<String>,
    /// Further accepted hosts of the admin listener. Its own address, loopback addresses and
    /// `localhost` always are.
    #[serde(deserialize_with = "hosts")]
    pub admin_hosts: Vec<String>,
    /// Tokens of clients, with names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_TOKENS))]
    pub token: Vec<TokenConfig>,
}

/// A token of clients. Two tokens may have one name, the old and the new one of a rotation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenConfig {
    /// The name in routes, the log and the page.
    pub name: String,
    /// Where the token is: `env:VARIABLE`, or `file:PATH`, which the proxy reads again every 10
    /// seconds.
    #[schemars(with = "String")]
    pub secret: SecretSource,
}

impl AccessConfig {
    /// Returns the first mistake in the tokens, with the number of its token.
    pub(super) fn mistake_of_tokens(&self) -> Option<(usize, String)> {
        let mistake = |(number, token): (usize, &TokenConfig)| {
            let mistake = match is_name(&token.name) {
                _ if number >= MAX_TOKENS => format!("there can be {MAX_TOKENS} tokens"),
                true => return None,
                false => format!("`{}` is not a token's name: {NAME}", token.name),
            };
            Some((number, mistake))
        };
        self.token.iter().enumerate().find_map(mistake)
    }
}

/// Tokens of a file. Each request is compared with all of them.
const MAX_TOKENS: usize = 100;

/// Declares the check of an entry, and a function that reads a list of such entries from a file: an
/// invalid entry would never match a request.
macro_rules! entries {
    ($($list:ident of $entry:ident: $is_right:expr, $kind:literal;)+) => { $(
        fn $entry(entry: &str) -> Result<String, String> {
            let is_right: fn(&str) -> bool = $is_right;
            is_right(entry).then(|| entry.to_owned()).ok_or_else(|| format!("`{entry}` is not {}", $kind))
        }

        fn $list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
            let entries = Vec::<String>::deserialize(deserializer)?;
            entries.iter().map(|entry| $entry(entry)).collect::<Result<_, _>>().map_err(D::Error::custom)
        }
    )+ };
}

entries! {
    hosts of host: is_host, "a host like `llm.example`, `llm.example:8080` or `[::1]`";
    origins of origin: |origin| {
        matches!(origin, "*" | "null") || origin.split_once("://").is_some_and(|(_, host)| is_host(host))
    }, "an origin like `https://app.example`, without a path, nor `null`, nor `*`";
    paths of path: |path| {
        let path = path.strip_suffix('*').unwrap_or(path);
        path.starts_with('/') && !path.contains(['*', '?', '#', ' '])
    }, "a path like `/v1/models` or `/v1/*`";
}

fn is_host(host: &str) -> bool {
    !host.is_empty() && !host.contains(['/', '@', '*', ',', ' '])
}
