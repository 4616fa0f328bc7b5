//! Reads and writes `[access]`: the restrictions on the proxy's clients.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The restrictions on the proxy's clients and on their requests. An empty list is the default that
/// its key describes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Access {
    /// The environment variable that has the token which every request has to carry. `None`: no
    /// token is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_variable: Option<String>,
    /// The accepted hosts of requests, with or without a port. Empty: all.
    #[serde(deserialize_with = "hosts")]
    pub allow_hosts: Vec<String>,
    /// The accepted origins of pages in browsers; `*` accepts all. Empty: none.
    #[serde(deserialize_with = "origins")]
    pub allow_origins: Vec<String>,
    /// The accepted paths; a `*` at the end matches any rest. Empty: all.
    #[serde(deserialize_with = "paths")]
    pub allow_paths: Vec<String>,
    /// The accepted methods. Empty: all but `TRACE`.
    #[serde(deserialize_with = "methods")]
    pub allow_methods: Vec<String>,
}

/// Reads a list and checks its entries: an invalid entry would never match a request.
fn list<'de, D: Deserializer<'de>>(
    deserializer: D,
    is_right: impl Fn(&str) -> bool,
    kind: &str,
) -> Result<Vec<String>, D::Error> {
    let entries = Vec::<String>::deserialize(deserializer)?;
    match entries.iter().find(|entry| !is_right(entry)) {
        Some(entry) => Err(D::Error::custom(format!("`{entry}` is not {kind}"))),
        None => Ok(entries),
    }
}

fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let is_right = |host: &str| !host.is_empty() && !host.contains(['/', '@', '*', ',', ' ']);
    list(
        deserializer,
        is_right,
        "a host like `llm.example`, `llm.example:8080` or `[::1]`",
    )
}

fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let is_right = |origin: &str| {
        let host = origin.split_once("://").map_or("", |(_, host)| host);
        matches!(origin, "*" | "null")
            || !host.is_empty() && !host.contains(['/', '@', '*', ',', ' '])
    };
    list(
        deserializer,
        is_right,
        "an origin like `https://app.example`, without a path, nor `null`, nor `*`",
    )
}

fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let is_right = |path: &str| {
        let path = path.strip_suffix('*').unwrap_or(path);
        path.starts_with('/') && !path.contains(['*', '?', '#', ' '])
    };
    list(
        deserializer,
        is_right,
        "a path like `/v1/models` or `/v1/*`",
    )
}

fn methods<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let is_right = |method: &str| {
        !method.is_empty()
            && method
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_'))
    };
    list(deserializer, is_right, "a method like `POST`, in capitals")
}
