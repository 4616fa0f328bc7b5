//! `[proxy]`: how the proxy runs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// What flags of `restitch proxy` say, too; a flag wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Proxy {
    /// Where to listen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Where requests go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// First requests are adapted to what their model can be asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapt: Option<bool>,
    /// By what factor each further call may be longer than the one before.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "factor")]
    pub raise_max_tokens: Option<u32>,
    /// What is told on standard error: one of [`LEVELS`](Self::LEVELS).
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "level")]
    pub log: Option<String>,
}

impl Proxy {
    /// Of what is told, from nothing to everything.
    pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

    /// Where it listens unless told otherwise.
    pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8787);

    /// With the defaults for what is not said; there is none for the upstream.
    #[must_use]
    pub fn filled(&self) -> Self {
        Self {
            listen: self.listen.or(Some(Self::LISTEN)),
            upstream: self.upstream.clone(),
            adapt: self.adapt.or(Some(false)),
            raise_max_tokens: self.raise_max_tokens.or(Some(1)),
            log: self.log.clone().or(Some("info".to_owned())),
        }
    }
}

fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let level = String::deserialize(deserializer)?;
    if Proxy::LEVELS.contains(&level.as_str()) {
        return Ok(Some(level));
    }
    Err(D::Error::custom(format!("`{level}` is no level: there are {}", Proxy::LEVELS.join(", "))))
}

fn factor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(D::Error::custom("a factor of 0 leaves no tokens")),
        factor => Ok(Some(factor)),
    }
}
