//! Builds outgoing requests, and filters the headers of both directions.

use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST,
    HeaderMap, HeaderName, HeaderValue,
};
use http::request::Parts;
use http::{Method, Request, Response, Uri};
use tokio::time::sleep;

use super::access::{API_KEYS, ClientToken, QUERY_KEY};
use super::allowed::{members, query_of};
use super::secret::Secret;
use crate::route_config::holds_secret;
use crate::route_config::{ContinueBy, RouteConfig};
use restitch::ContinuationLimits;
use restitch::internal::limits::{TimeLimit, is_probability};
use restitch::internal::wire::PlainPrompt;
use restitch::provider::Dialect;
use restitch::repair::RepairLevel;
use restitch::session::{GiveUp, Rungs, below};
use restitch_http::{Body, Client, Error, Received};

/// Sends a client's request to the upstream, with its method, path and headers and with `body`.
/// `limit`: the time limit for the head of the response, once the body is sent.
pub(super) async fn send(
    client: &Client,
    head: &Head,
    body: Body,
    limit: TimeLimit,
) -> Result<Response<Received>, Error> {
    let (body, sent) = body.awaited();
    let mut request = Request::new(body);
    *request.method_mut() = head.0.method.clone();
    let path = head
        .0
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str());
    *request.uri_mut() = client.upstream().uri_for(path)?;
    *request.headers_mut() = head.0.headers.clone();
    let is_late = async {
        sent.await;
        sleep(limit.time).await;
    };
    tokio::select! {
        // A head that arrives together with the limit is an answer.
        biased;
        response = client.send(request) => response,
        () = is_late => Err(late(limit)),
    }
}

/// Returns the error of an upstream that has sent no answer in the time of a limit.
pub(super) fn late(limit: TimeLimit) -> Error {
    Error::Late {
        limit: limit.name,
        after: limit.time,
    }
}

/// The head of a client's request for the upstream.
#[derive(Clone, Debug)]
pub(super) struct Head(Parts);

impl Head {
    /// Removes the headers that concern only the connection between the client and the proxy. The
    /// HTTP client writes the length of the body itself.
    pub(super) fn new(mut parts: Parts) -> Self {
        remove_hop_by_hop(&mut parts.headers);
        // `Host` names the proxy, and hyper answers `Expect` itself.
        for name in [HOST, CONTENT_LENGTH, EXPECT] {
            parts.headers.remove(name);
        }
        // An upstream has no use for the proxy's directives, and may refuse unknown headers.
        let ours: Vec<_> = parts
            .headers
            .keys()
            .filter(|name| is_own(name))
            .cloned()
            .collect();
        for name in ours {
            parts.headers.remove(name);
        }
        for (name, value) in &mut parts.headers {
            // The `Debug` output of headers omits sensitive values.
            value.set_sensitive(value.is_sensitive() || holds_secret(name.as_str()));
        }
        Self(parts)
    }

    /// Returns the same head with replaced or added headers.
    pub(super) fn with(&self, headers: HeaderMap) -> Self {
        let mut with = self.clone();
        with.0.headers.extend(headers);
        with
    }

    /// Creates a head from the proxy's own parts.
    pub(super) fn of(parts: Parts) -> Self {
        Self(parts)
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    pub(super) fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.0.headers
    }

    pub(super) fn query(&self) -> Option<&str> {
        self.0.uri.query()
    }

    /// Returns the client's token, if the proxy needs one.
    pub(super) fn token(&self) -> Option<&ClientToken> {
        ClientToken::of(&self.0.extensions)
    }

    /// Replaces the client's credential by the operator's key: in the header of the path's API, or
    /// in the client's own if that is for keys alone. Clients send a token in `authorization` to any
    /// API, but not all APIs take keys there. `dialect`: the path's API.
    pub(super) fn replace_key(&mut self, key: &Secret, dialect: Option<Dialect>) {
        let of_token = self.token().map(|token| token.header.clone());
        let headers = &mut self.0.headers;
        let own = API_KEYS
            .into_iter()
            .find(|name| headers.contains_key(name) || of_token.as_ref() == Some(name));
        for name in API_KEYS {
            headers.remove(name);
        }
        let of_api = || {
            let plain = PlainPrompt::default();
            dialect.map_or(BEARER, |dialect| {
                dialect.wire().new_request(&plain).key_header
            })
        };
        match own.filter(|name| *name != AUTHORIZATION) {
            Some(name) => self.insert_key((name.as_str(), ""), key),
            None => self.insert_key(of_api(), key),
        }
        remove_key(&mut self.0.uri);
    }

    /// Inserts the header with the operator's key. `before`: the text before the key.
    pub(super) fn insert_key(&mut self, (name, before): (&str, &str), key: &Secret) {
        let value = HeaderValue::try_from(format!("{before}{}", key.value()));
        debug_assert!(value.is_ok(), "a key is visible ASCII");
        if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), value) {
            // The `Debug` output of headers, and so the log, omits it.
            value.set_sensitive(true);
            self.0.headers.insert(name, value);
        }
    }

    /// Returns the request's path, without its query.
    pub(super) fn path(&self) -> &str {
        self.0.uri.path()
    }

    /// Returns the head for a further call, without the headers that fit the first one alone.
    pub(super) fn for_further_call(&self) -> Self {
        let mut again = self.clone();
        for name in [
            // The upstream would replay the first answer, or report a mismatch with the new body.
            "idempotency-key",
            // A digest of the first body does not match the new one.
            "content-digest",
            "content-md5",
            "digest",
            "repr-digest",
            // The name belongs to the first call's stream.
            CONVERSATION,
        ] {
            again.0.headers.remove(name);
        }
        again
    }

    /// Adds the name under which the server keeps the stream, if the request has none. Returns
    /// whether it added one.
    pub(super) fn name_stream(&mut self) -> bool {
        let is_unnamed = !self.0.headers.contains_key(CONVERSATION);
        if is_unnamed {
            self.0.headers.extend(
                HeaderValue::try_from(own_stream_name())
                    .map(|name| (HeaderName::from_static(CONVERSATION), name)),
            );
        }
        is_unnamed
    }

    /// Returns the name under which the server keeps the stream, if a query may contain it.
    pub(super) fn stream_name(&self) -> Option<&str> {
        let name = self.0.headers.get(CONVERSATION)?.to_str().ok()?;
        // The name goes into a query without escapes.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        Some(name).filter(|name| !name.is_empty() && name.bytes().all(is_plain))
    }

    /// Returns the head of the request that reads the server's kept stream. `query` names the first
    /// byte.
    pub(super) fn of_kept_stream(&self, query: &str) -> Option<Self> {
        let more = query.strip_prefix('?').map(|more| format!("&{more}"))?;
        let path = self.path_of_stream(self.stream_name()?)? + &more;
        self.without_body(Method::GET, &path)
    }

    /// Returns the head of the request that stops a kept stream. `None`: the client, not the proxy,
    /// has named the stream.
    pub(super) fn stopping(&self) -> Option<Self> {
        // A client that has named its stream may want to read it later.
        let name = self
            .stream_name()
            .filter(|name| name.starts_with(OWN_STREAMS))?;
        self.without_body(Method::DELETE, &self.path_of_stream(name)?)
    }

    /// Returns the head of a request that stops a stream which does not exist: the answer shows
    /// whether the server stops streams.
    pub(super) fn stopping_none(&self) -> Option<Self> {
        let path = self.path_of_stream(&own_stream_name())?;
        self.without_body(Method::DELETE, &path)
    }

    /// Returns the path and query of a kept stream: `/v1/stream?conv_id=NAME`.
    fn path_of_stream(&self, name: &str) -> Option<String> {
        // The server takes requests with and without `/v1`, and an operator's prefix may precede it.
        let prefix = self.path().strip_suffix("/chat/completions")?;
        let prefix = prefix.strip_suffix("/v1").unwrap_or(prefix);
        Some(format!("{prefix}/v1/stream?conv_id={name}"))
    }

    fn without_body(&self, method: Method, path: &str) -> Option<Self> {
        let mut other = self.for_further_call();
        // Without the headers of the first call: neither its idempotency key nor its digests fit.
        other.0.method = method;
        // A request without a body has no content type.
        other.0.headers.remove(CONTENT_TYPE);
        other.0.uri = path.parse().ok()?;
        Some(other)
    }

    /// Returns the head of the request that reattaches to the same answer; `query` follows the
    /// path.
    pub(super) fn resuming(&self, query: &str) -> Option<Self> {
        // The client's query may select the version of the API (`api-version`), so it goes along.
        let own = self
            .0
            .uri
            .query()
            .map(|own| format!("&{own}"))
            .unwrap_or_default();
        self.without_body(Method::GET, &format!("{}{query}{own}", self.path()))
    }

    /// Returns the head for a call below another path: `prefix` replaces `/v1`, or is added.
    pub(crate) fn below(mut self, prefix: &str) -> Self {
        let path = self
            .0
            .uri
            .path_and_query()
            .map_or("/", |path| path.as_str());
        if let Some(uri) = below(prefix, path).and_then(|path| path.parse().ok()) {
            self.0.uri = uri;
        }
        self
    }

    /// Requests an uncompressed answer, since the proxy reads it.
    pub(super) fn uncompressed(mut self) -> Self {
        self.0
            .headers
            .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        self
    }

    /// Copies the values and the path. Without the copy, they would hold the connection's read
    /// buffer in memory as long as the answer runs.
    pub(super) fn copied(mut self) -> Self {
        // One allocation for all values: they live and die together.
        let length = self.0.headers.values().map(HeaderValue::len).sum();
        let mut values = Vec::with_capacity(length);
        for value in self.0.headers.values() {
            values.extend_from_slice(value.as_bytes());
        }
        let mut values = Bytes::from(values);
        for value in self.0.headers.values_mut() {
            let bytes = values.split_to(value.len());
            if let Ok(mut copy) = HeaderValue::from_maybe_shared(bytes) {
                copy.set_sensitive(value.is_sensitive());
                *value = copy;
            }
        }
        if let Ok(uri) = self.0.uri.to_string().try_into() {
            self.0.uri = uri;
        }
        self
    }
}

/// Removes the key that clients of Gemini may send in the query.
fn remove_key(uri: &mut Uri) {
    if !members(uri.query()).any(|(name, _)| name == QUERY_KEY) {
        return;
    }
    let rest = members(uri.query()).filter(|(name, _)| *name != QUERY_KEY);
    let query = query_of(rest.map(|(_, member)| member));
    if let Ok(without) = [uri.path(), &query].concat().parse() {
        *uri = without;
    }
}

fn own_stream_name() -> String {
    format!("{OWN_STREAMS}{}", random_name())
}

/// Returns a unique name: 32 hexadecimal digits. It is not a secret.
pub(super) fn random_name() -> String {
    // Each `RandomState` has its own keys, from the random bits of the system.
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

// Shorter words, such as `Bearer`, also occur in ordinary texts, and would be removed from them.
/// The fewest bytes of a word that may be a key.
pub(super) const SHORTEST_KEY: usize = 8;

/// The header that names a stream for the server to keep (llama.cpp).
pub(super) const CONVERSATION: &str = "x-conversation-id";

// The proxy stops only the streams that it has named: a client may read its own later.
/// The prefix of the proxy's own names for kept streams.
const OWN_STREAMS: &str = "restitch-";

/// The header of most APIs for a key, and the word before the key.
const BEARER: (&str, &str) = ("authorization", "Bearer ");

/// Returns whether a header is addressed to the proxy.
pub(super) fn is_own(name: &HeaderName) -> bool {
    name.as_str().starts_with(OWN_HEADERS)
}

/// The prefix of the headers that are addressed to the proxy, which does not forward them.
const OWN_HEADERS: &str = "x-restitch";

/// The directives for the proxy in a request's headers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestDirectives {
    /// `x-restitch: off`: the request and its answer pass unchanged.
    pub(super) off: bool,
    /// `x-restitch-continuations`: the most calls after the first one.
    pub(super) continuations: Option<u32>,
    /// `x-restitch-max-risk`: the largest accepted probability of a wrong join. It can only lower
    /// the operator's limit.
    pub(super) max_risk: Option<f64>,
    /// `x-restitch-give-up`: the ending of an answer that can't be completed.
    pub(super) give_up: Option<GiveUp>,
    /// `x-restitch-repair`: how much repair may change the JSON in the answer.
    pub(super) repair: Option<RepairLevel>,
    /// `x-restitch-rungs`: the rungs that may be used. It can only restrict the operator's.
    pub(super) rungs: Option<Rungs>,
    /// `x-restitch-keep`: how long the proxy keeps the answer after its last read.
    pub(super) keep: Option<Duration>,
}

impl RequestDirectives {
    /// Returns whether the request wants its answer kept. `x-restitch-keep: 0` declines that.
    pub(super) fn asks_keep(&self) -> bool {
        self.keep.is_some_and(|keep| !keep.is_zero())
    }

    /// Reads a request's headers. An error is a message for the client.
    pub fn read(headers: &HeaderMap) -> Result<Self, String> {
        // Most requests have no directive.
        if !headers.keys().any(is_own) {
            return Ok(Self::default());
        }
        let off = read(headers, OWN_HEADERS, |value| {
            match value.to_ascii_lowercase().as_str() {
                "off" => Ok(true),
                "on" => Ok(false),
                _ => Err("must be `on` or `off`"),
            }
        })?;
        let continuations = read(headers, "x-restitch-continuations", |value| {
            value.parse().map_err(|_| "must be a whole number")
        })?;
        let max_risk = read(headers, "x-restitch-max-risk", |value| {
            let risk = value.parse().ok().filter(|&risk| is_probability(risk));
            risk.ok_or("must be a number from 0 to 1")
        })?;
        let keep = read(headers, "x-restitch-keep", |value| {
            value
                .parse()
                .map_err(|_| "must be a whole number of seconds")
        })?;
        Ok(Self {
            off: off.unwrap_or_default(),
            continuations,
            max_risk,
            give_up: read(headers, "x-restitch-give-up", str::parse)?,
            repair: read(headers, "x-restitch-repair", RepairLevel::named)?,
            rungs: read(headers, "x-restitch-rungs", str::parse)?,
            keep: keep.map(Duration::from_secs),
        })
    }

    /// Overrides a route's settings by the request's directives.
    pub fn apply(&self, route: &mut RouteConfig) {
        if self.off {
            route.continuation = ContinueBy::Off;
        }
        route.continuation = route.continuation.restricted(self.rungs);
        route.max_continuations = route
            .max_continuations
            .map(|most| most.min(self.continuations.unwrap_or(u32::MAX)));
        route.on_give_up = self.give_up.or(route.on_give_up);
        route.repair = self.repair.or(route.repair);
    }

    /// Lowers the operator's limits to the request's.
    pub(super) fn lower(&self, limits: &mut ContinuationLimits) {
        limits.max_continuations = self
            .continuations
            .unwrap_or(u32::MAX)
            .min(limits.max_continuations);
        limits.max_risk = self.max_risk.unwrap_or(1.0).min(limits.max_risk);
    }
}

/// Reads a directive, if the headers have it. An error is a message for the client.
fn read<T, E: Display>(
    headers: &HeaderMap,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, String> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    // A value that is not text becomes an empty one, which no directive takes.
    match parse(value.to_str().unwrap_or_default().trim()) {
        Ok(value) => Ok(Some(value)),
        Err(mistake) => Err(format!("`{name}`: {mistake}")),
    }
}

/// Removes the hop-by-hop headers ([RFC 9110, section
/// 7.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1)), including those that `Connection`
/// names.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// The headers that always concern one connection only.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // Headers of HTTP/1.0, which old clients and servers still send.
    "keep-alive",
    "proxy-connection",
];

#[cfg(test)]
mod tests {
    use super::*;
    use restitch::Limits;

    /// Returns the operator's limits, lowered by a request's header.
    fn lowered(name: &'static str, value: &'static str) -> Result<(u32, f64), String> {
        let mut limits = Limits::default()
            .with_max_continuations(3)
            .with_max_risk(0.01)
            .continuation;
        let headers = [(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )]
        .into_iter()
        .collect();
        RequestDirectives::read(&headers)?.lower(&mut limits);
        Ok((limits.max_continuations, limits.max_risk))
    }

    #[test]
    fn a_request_only_lowers_limits() {
        for (value, risk) in [
            ("0", 0.0),
            ("0.005", 0.005),
            ("0.01", 0.01),
            ("0.5", 0.01),
            ("1", 0.01),
        ] {
            assert_eq!(
                lowered("x-restitch-max-risk", value),
                Ok((3, risk)),
                "{value}"
            );
        }
        assert_eq!(lowered("x-restitch-continuations", "9"), Ok((3, 0.01)));
        assert_eq!(lowered("x-restitch-continuations", "1"), Ok((1, 0.01)));
        for value in ["-0.1", "1.1", "nan", "inf", "much", ""] {
            let error = "`x-restitch-max-risk`: must be a number from 0 to 1".to_owned();
            assert_eq!(lowered("x-restitch-max-risk", value), Err(error), "{value}");
        }
    }
}
