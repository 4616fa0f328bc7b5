//! Routes: which requests the operator sends where, and within which limits. Reads no files and
//! opens no sockets.

mod pattern;
pub(crate) mod written;

use std::collections::BTreeMap;
use std::fmt;

pub(crate) use pattern::holds_secret;
pub use pattern::{HeaderName, ModelPattern, PathPattern, ValuePattern};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::schema;
use crate::config::value::{PositiveTime, Time};
use crate::secret::SecretSource;
use restitch::provider::Dialect;
use restitch::repair::RepairLevel;
use restitch::session::{GiveUp, Prose, Rungs};

/// A route, as a configuration file has it: conditions, and settings for the requests that meet all
/// of them. An unset condition holds for every request; an unset setting has the value for all
/// requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RouteConfig {
    /// The name in the log and in metrics.
    pub name: String,
    /// Condition: the path, without its query.
    pub path: Option<PathPattern>,
    /// Condition: the model that the request names.
    pub model: Option<ModelPattern>,
    /// Condition: the name of the client's token is one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub token: Vec<String>,
    /// The upstream's address.
    pub upstream: Option<String>,
    /// Where a key for that upstream is, in place of the client's own: `env:VARIABLE` or
    /// `file:PATH`.
    #[schemars(with = "Option<String>")]
    pub key: Option<SecretSource>,
    /// Whether and how restitch obtains the rest of cut answers.
    #[schemars(schema_with = "schema::continuation")]
    pub continuation: ContinueBy,
    /// How much of the JSON in an answer may be changed.
    #[schemars(schema_with = "schema::repair")]
    pub repair: Option<RepairLevel>,
    /// How an answer ends when its rest can't be obtained.
    #[schemars(schema_with = "schema::give_up")]
    pub on_give_up: Option<GiveUp>,
    /// How an answer in prose is handled when its connection is lost.
    #[schemars(schema_with = "schema::prose")]
    pub prose: Option<Prose>,
    /// Calls after the first one, as in `[limits]`.
    pub max_continuations: Option<u32>,
    /// The lowest limit on an answer's tokens: a request with a lower one gets this one.
    pub min_output_tokens: Option<u32>,
    /// Time after which no call is made, as in `[limits]`.
    pub max_total_time: Option<Time>,
    /// The time that the head of a response may take.
    pub first_byte_timeout: Option<PositiveTime>,
    /// How often the same upstream gets a call again before a fallback is asked.
    pub retries: Option<u32>,
    /// The upstreams that are asked where the first one fails, in their order.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "written::fallbacks"
    )]
    #[schemars(length(max = written::MAX_FALLBACKS))]
    pub fallback: Vec<FallbackConfig>,
    /// Condition: headers, and a pattern for the value of each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<HeaderName, ValuePattern>,
}

/// An upstream that is asked where others fail, as a configuration file has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FallbackConfig {
    /// Its address.
    pub upstream: String,
    /// The model's name there. `None`: the same.
    pub model: Option<String>,
    /// Where its key is: `env:VARIABLE` or `file:PATH`. `None`: it needs none.
    #[schemars(with = "Option<String>")]
    pub key: Option<SecretSource>,
    /// The API that it is asked by. `None`: that of the request.
    #[serde(default)]
    #[schemars(schema_with = "schema::wire")]
    pub wire: Option<Dialect>,
}

/// The parts of a request's body that routes look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The model's name.
    pub model: &'a str,
}

/// Returns all values of a header, by its name in lower case.
pub(crate) type Headers<'a> = &'a dyn Fn(&str) -> Vec<String>;

impl RouteConfig {
    /// Returns the first condition about the request's head that does not hold. `token`: the name of
    /// the client's token.
    pub fn head_mismatch(
        &self,
        path: &str,
        token: Option<&str>,
        headers: Headers<'_>,
    ) -> Option<Mismatch> {
        if let Some(wanted) = self.path.as_ref().filter(|wanted| !wanted.matches(path)) {
            return Some(Mismatch::Path(wanted.clone()));
        }
        let has_token = || self.token.iter().any(|name| Some(&**name) == token);
        if !self.token.is_empty() && !has_token() {
            return Some(Mismatch::Token {
                found: token.map(str::to_owned),
                wanted: self.token.clone(),
            });
        }
        self.header.iter().find_map(|(name, wanted)| {
            let values = headers(name.as_str());
            let has_one = values.iter().any(|value| wanted.matches(value));
            let (name, wanted) = (name.clone(), wanted.clone());
            (!has_one).then_some(Mismatch::Header {
                name,
                wanted,
                is_missing: values.is_empty(),
            })
        })
    }

    /// Returns the first condition about the request's body that does not hold. `asked`: `None`
    /// where the body is not read.
    pub fn body_mismatch(&self, asked: Option<&Asked<'_>>) -> Option<Mismatch> {
        if !self.needs_body() {
            return None;
        }
        let Some(asked) = asked else {
            return Some(Mismatch::Unread);
        };
        let wanted = self.model.as_ref();
        let wanted = wanted.filter(|wanted| !wanted.matches(asked.model));
        wanted.map(|wanted| Mismatch::Model {
            found: asked.model.to_owned(),
            wanted: wanted.clone(),
        })
    }

    /// Returns whether a condition is about the body.
    pub fn needs_body(&self) -> bool {
        self.model.is_some()
    }

    /// Returns whether this route takes every request that another one takes, so that the other is
    /// never reached after it. `false` where that is not certain.
    pub fn covers(&self, other: &Self) -> bool {
        let path = match (&self.path, &other.path) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => own.covers(other),
        };
        let model = match (&self.model, &other.model) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => own.covers(other),
        };
        let covers = |(name, own): (&HeaderName, &ValuePattern)| {
            other
                .header
                .get(name)
                .is_some_and(|other| own.covers(other))
        };
        let is_own = |name: &String| self.token.contains(name);
        let token = match (&self.token[..], &other.token[..]) {
            ([], _) => true,
            (_, []) => false,
            (_, other) => other.iter().all(is_own),
        };
        path && token && model && self.header.iter().all(covers)
    }
}

/// Whether and how restitch obtains the rest of cut answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "written::Continuation", into = "written::Continuation")]
#[non_exhaustive]
pub enum ContinueBy {
    /// Not at all: requests and answers pass.
    Off,
    /// By these rungs, if the model's row of the capability table has them.
    Rungs(Rungs),
}

impl Default for ContinueBy {
    fn default() -> Self {
        Self::Rungs(Rungs::ALL)
    }
}

impl ContinueBy {
    /// Returns the rungs that may be used.
    pub fn rungs(self) -> Rungs {
        match self {
            Self::Off => Rungs::from_iter([]),
            Self::Rungs(rungs) => rungs,
        }
    }

    /// Leaves out the rungs that a request does not allow.
    #[must_use]
    pub fn restricted(self, allowed: Option<Rungs>) -> Self {
        match (self, allowed) {
            (Self::Rungs(rungs), Some(allowed)) => Self::Rungs(rungs.and(allowed)),
            (by, _) => by,
        }
    }
}

/// Why a route does not match a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The path does not match.
    Path(PathPattern),
    /// No header of this name has such a value. The value that was sent is not kept.
    Header {
        /// The header.
        name: HeaderName,
        /// The pattern for its value.
        wanted: ValuePattern,
        /// The request has no such header.
        is_missing: bool,
    },
    /// The client has another token, or none.
    Token {
        /// The name of the client's token.
        found: Option<String>,
        /// The route's names.
        wanted: Vec<String>,
    },
    /// The route needs to know the body, and the body is not read.
    Unread,
    /// The model does not match.
    Model {
        /// The request's.
        found: String,
        /// The route's.
        wanted: ModelPattern,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(wanted) => write!(f, "the path is not `{wanted}`"),
            Self::Header {
                name,
                wanted,
                is_missing: true,
            } => {
                write!(f, "no header `{name}`, which is to be `{wanted}`")
            }
            Self::Header { name, wanted, .. } => write!(f, "the header `{name}` is not `{wanted}`"),
            Self::Token { found, wanted } => {
                let (found, wanted) = (found.as_deref(), wanted.join("`, `"));
                match found {
                    Some(found) => write!(f, "the token is `{found}`, not `{wanted}`"),
                    None => write!(f, "the request has no token; the route needs `{wanted}`"),
                }
            }
            Self::Unread => f.write_str("the body is not read, so its model is not known"),
            Self::Model { found, wanted } if found.is_empty() => {
                write!(f, "no model is named; it is to be `{wanted}`")
            }
            Self::Model { found, wanted } => write!(f, "the model is `{found}`, not `{wanted}`"),
        }
    }
}

/// The name for requests that no route matches.
pub const DEFAULT: &str = "default";
