//! The upstreams that are asked where a route's own one fails.
//!
//! Nothing of the client's head goes to another upstream but what is listed here: a client may have its key in any header, and
//! in the query.

use std::fmt;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap,
    HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::request::Parts;
use http::{Request, Response};

use super::conversation::{Conversation, is_transient};
use super::upstream::Head;
use crate::client::{Client, Error, Received};
use crate::json::walk::Raw;
use crate::provider::Dialect;
use crate::provider::translate::translated;
use crate::provider::wire::{Adaptation, PlainPrompt};
use crate::session::{CallEnd, Redirect};

/// An upstream that is asked where others fail.
#[derive(Clone)]
pub struct Fallback {
    /// Its client.
    pub client: Client,
    /// The model's name there. `None`: the same.
    pub model: Option<String>,
    /// The API that it is asked by. `None`: that of the request.
    pub wire: Option<Dialect>,
    /// Its key. `None`: it needs none.
    pub key: Option<String>,
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback")
            .field("client", &self.client)
            .field("model", &self.model)
            .field("wire", &self.wire)
            .field("key", &self.key.as_ref().map(|_| "***"))
            .finish()
    }
}

/// What of an answer a fallback is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it: nothing has come.
    Whole,
    Rest,
}

impl Part {
    fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Rest => "rest",
        }
    }
}

/// What is sent in place of the client's request.
pub(super) struct Sent {
    pub(super) head: Head,
    pub(super) body: Bytes,
}

impl Conversation {
    /// Returns the fallback that is asked. `None`: the route's own upstream is.
    pub(super) fn fallback(&self) -> Option<&Fallback> {
        self.at.load(Ordering::Relaxed).checked_sub(1).and_then(|at| self.route.fallbacks.get(at))
    }

    /// Returns the client of the upstream that is asked.
    pub(super) fn client(&self) -> &Client {
        self.fallback().map_or(&self.route.client, |fallback| &fallback.client)
    }

    /// Returns the name of the model there.
    pub(super) fn model(&self) -> &str {
        self.fallback().and_then(|fallback| fallback.model.as_deref()).unwrap_or(&self.request.model)
    }

    /// Returns the API that the upstream is asked by.
    pub(super) fn asked_by(&self) -> Dialect {
        self.fallback().and_then(|fallback| fallback.wire).unwrap_or(self.dialect)
    }

    /// Asks the next fallback from now on, if there is one that can take over. For the rest of an answer it may have another
    /// API. `why`: what the upstream that was asked last has answered.
    pub(super) fn move_on(&self, part: Part, why: &str) -> bool {
        if !self.route.fallbacks.is_empty() && has_credentials(&self.body) {
            tracing::warn!(why, "no fallback is asked: the body of the request has credentials of its client");
            return false;
        }
        let at = self.at.load(Ordering::Relaxed);
        let can_take = |fallback: &Fallback| match fallback.wire.filter(|wire| *wire != self.dialect) {
            None => true,
            // A body that is not streamed can't be read as a stream of another API.
            Some(_) if part == Part::Whole || !self.request.stream => false,
            Some(wire) => self.translated(wire, fallback).is_some(),
        };
        let next = self.route.fallbacks.iter().enumerate().skip(at).find(|(_, fallback)| can_take(fallback));
        let Some((number, fallback)) = next else { return false };
        self.at.store(number + 1, Ordering::Relaxed);
        self.restart_retries();
        let upstream = fallback.client.upstream().authority();
        tracing::warn!(upstream, part = part.as_str(), why, "the next calls go to a fallback");
        self.exchange.note_fallback(upstream, part.as_str());
        true
    }

    /// Returns which upstream is asked, to go [back](Self::move_back) to it.
    pub(super) fn place(&self) -> usize {
        self.at.load(Ordering::Relaxed)
    }

    pub(super) fn move_back(&self, place: usize) {
        self.at.store(place, Ordering::Relaxed);
    }

    /// Returns how the session goes on after [`move_on`](Self::move_on).
    pub(super) fn redirected(&self) -> CallEnd {
        let wire = self.asked_by();
        let foreign = (wire != self.dialect).then(|| (wire, wire.wire().framing()));
        let upstream = self.address().to_owned();
        let model = self.model().to_owned();
        CallEnd::Redirected(Box::new(Redirect { strategy: self.strategy(), foreign, upstream, model }))
    }

    /// Leaves of the head of a fallback's response what is about the form of its body, and names the fallback. The rest is about
    /// the operator's account there, or has its key.
    pub(super) fn without_foreign_headers(&self, response: Response<Received>) -> Response<Received> {
        let Some(fallback) = self.fallback() else { return response };
        let (mut parts, body) = response.into_parts();
        let mut headers = HeaderMap::new();
        for name in ANSWER_HEADERS {
            if let Some(value) = parts.headers.remove(&name) {
                headers.insert(name, value);
            }
        }
        if let Ok(host) = HeaderValue::from_str(fallback.client.upstream().authority()) {
            headers.insert(UPSTREAM, host);
        }
        parts.headers = headers;
        Response::from_parts(parts, body)
    }

    /// Returns the request of the client as the upstream that is asked gets it.
    pub(super) fn sent(&self) -> Option<Sent> {
        let Some(fallback) = self.fallback() else {
            return Some(Sent { head: self.head.clone(), body: self.body.clone() });
        };
        match fallback.wire.filter(|wire| *wire != self.dialect) {
            Some(wire) => self.translated(wire, fallback),
            None => self.readdressed(fallback),
        }
    }

    /// Returns the same request with the model's name and the key of a fallback.
    fn readdressed(&self, fallback: &Fallback) -> Option<Sent> {
        let wire = self.dialect.wire();
        let model = fallback.model.as_deref().filter(|model| *model != self.request.model);
        let adaptation = Adaptation { model, ..Adaptation::default() };
        let body = std::str::from_utf8(&self.body).ok()?;
        let body = model.and_then(|_| wire.adapt(body, &adaptation)).map_or_else(|| self.body.clone(), Bytes::from);
        let new = wire.new_request(&PlainPrompt { model: self.model(), ..PlainPrompt::default() });
        let path = wire.path_like(self.head.path(), self.model()).unwrap_or(new.path) + &self.head.plain_query();
        let mut head = self.head.foreign(&below_version(self.dialect, fallback, &path), &WIRE_HEADERS)?;
        head.add(new.headers);
        head.set_key(new.key_header, fallback.key.as_deref())?;
        Some(Sent { head, body })
    }

    /// Returns a request of another API for the same conversation.
    fn translated(&self, wire: Dialect, fallback: &Fallback) -> Option<Sent> {
        let model = fallback.model.as_deref().unwrap_or(&self.request.model);
        let body = std::str::from_utf8(&self.body).ok()?;
        let new = translated((self.dialect, body), (wire, model), self.request.max_tokens)?;
        let mut head = self.head.foreign(&below_version(wire, fallback, &new.path), &[])?;
        head.add(new.headers);
        head.set_key(new.key_header, fallback.key.as_deref())?;
        Some(Sent { head, body: new.body.into() })
    }
}

/// Returns a path of an API below an address that may have the API's version. Where it has none, the version is added. What the
/// address ends with is not written twice.
fn below_version(wire: Dialect, fallback: &Fallback, path: &str) -> String {
    full_path(fallback.client.upstream().prefix(), wire.wire().version(), path)
}

fn full_path(prefix: &str, version: &str, path: &str) -> String {
    let is_version =
        |segment: &str| segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    // An older address of Azure names a deployment, and its version is in the query.
    let is_whole = prefix.split('/').any(|segment| is_version(segment) || segment == "deployments");
    let path = if is_whole { path.to_owned() } else { [version, path].concat() };
    let first = path.get(1..).and_then(|path| path.split(['/', '?']).next()).unwrap_or_default();
    let is_doubled = !first.is_empty() && prefix.rsplit('/').next() == Some(first);
    if is_doubled { path.get(1 + first.len()..).unwrap_or_default().to_owned() } else { path }
}

/// Returns whether a body has credentials in it: those of the servers that its tools are on (`mcp_servers` of Messages, tools of the
/// kind `mcp` of Responses, `data_sources` of Azure).
fn has_credentials(body: &[u8]) -> bool {
    let Some(root) = std::str::from_utf8(body).ok().and_then(Raw::root) else { return false };
    let lists = ["mcp_servers", "tools", "data_sources"].into_iter().filter_map(|name| root.member(name));
    let mut servers = lists.flat_map(|list| list.elements().filter(|server| !is_function(*server)));
    servers.any(|server| is_secret(server, DEPTH))
}

/// Returns whether a tool is a function of the client's, whose parameters may have any names.
fn is_function(tool: Raw<'_>) -> bool {
    let kind = tool.member("type").and_then(|kind| kind.decode());
    kind.as_deref() == Some("function") || tool.member("input_schema").is_some()
}

/// Returns whether a value has a member that holds credentials, or an address with a user or a query. Recurses at most [`DEPTH`] times.
fn is_secret(value: Raw<'_>, depth: usize) -> bool {
    value.members().any(|(name, value)| {
        let name = name.decode().unwrap_or_default().to_ascii_lowercase();
        let text = value.decode().unwrap_or_default();
        let is_named = ["authorization", "authentication", "headers", "api_key", "token", "password"]
            .iter()
            .any(|secret| name == *secret || name.ends_with(&format!("_{secret}")));
        let is_address = text.contains("://") && text.contains(['@', '?']);
        (is_named && !value.is_null()) || is_address || (depth > 0 && is_secret(value, depth - 1))
    })
}

/// Returns whether the answer to a first call is a reason to ask a fallback.
pub(super) fn has_failed(answer: &Result<Response<Received>, Error>) -> bool {
    match answer {
        Ok(response) => is_transient(response.status()),
        // The request itself can't be sent.
        Err(Error::Path(_) | Error::Foreign(_)) => false,
        Err(_) => true,
    }
}

/// Says for the log why an upstream is left. Its own words may quote the request.
pub(super) fn why(answer: &Result<Response<Received>, Error>) -> String {
    match answer {
        Ok(response) => response.status().as_u16().to_string(),
        Err(error) => error.to_string(),
    }
}

impl Head {
    /// Returns the head of a request to another upstream, without anything of the client's that is not about the form of the
    /// request. `more`: headers of its API that go along.
    fn foreign(&self, path: &str, more: &[&'static str]) -> Option<Self> {
        let own = self.headers();
        let mut parts: Parts = Request::new(()).into_parts().0;
        parts.method = http::Method::POST;
        parts.uri = path.parse().ok()?;
        let kept =
            [ACCEPT].into_iter().chain(PLAIN_HEADERS.iter().chain(more).map(|name| HeaderName::from_static(name)));
        for name in kept {
            if let Some(value) = own.get(&name).filter(|value| !value.is_sensitive()) {
                parts.headers.insert(name, value.clone());
            }
        }
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Some(Self::of(parts))
    }

    /// Returns the members of the query that say how an API is to be spoken. A key may be among the others.
    fn plain_query(&self) -> String {
        let query = self.query().unwrap_or_default();
        let plain: Vec<_> = query
            .split('&')
            .filter(|member| PLAIN_QUERY.iter().any(|name| member.split('=').next() == Some(name)))
            .collect();
        if plain.is_empty() { String::new() } else { format!("?{}", plain.join("&")) }
    }

    /// Adds headers that the API needs, unless the request has them.
    fn add(&mut self, headers: &[(&'static str, &'static str)]) {
        for (name, value) in headers {
            self.headers_mut().entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
        }
    }

    fn set_key(&mut self, (name, before): (&'static str, &'static str), key: Option<&str>) -> Option<()> {
        let Some(key) = key else { return Some(()) };
        let mut value = HeaderValue::try_from(format!("{before}{key}")).ok()?;
        value.set_sensitive(true);
        self.headers_mut().insert(HeaderName::from_static(name), value);
        Some(())
    }
}

/// How deep credentials are looked for.
const DEPTH: usize = 4;
/// Headers of a fallback's response that its client gets.
const ANSWER_HEADERS: [HeaderName; 8] = [
    CONTENT_TYPE,
    CONTENT_LENGTH,
    CONTENT_ENCODING,
    TRANSFER_ENCODING,
    CACHE_CONTROL,
    DATE,
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("request-id"),
];
/// Names the fallback that has begun an answer.
const UPSTREAM: HeaderName = HeaderName::from_static("x-restitch-upstream");

/// Headers that name the request and its trace.
const PLAIN_HEADERS: [&str; 3] = ["x-request-id", "traceparent", "tracestate"];

/// Headers that say which version of an API is spoken.
const WIRE_HEADERS: [&str; 3] = ["anthropic-version", "anthropic-beta", "openai-beta"];

/// Members of a query that do the same.
const PLAIN_QUERY: [&str; 2] = ["alt", "api-version"];

#[cfg(test)]
mod tests {
    use super::{full_path, has_credentials};

    #[test]
    fn a_path_has_its_version_once() {
        let chat = |prefix: &str| prefix.to_owned() + &full_path(prefix, "/v1", "/chat/completions?api-version=1");
        for (prefix, path) in [
            ("", "/v1/chat/completions"),
            ("/v1", "/v1/chat/completions"),
            ("/api", "/api/v1/chat/completions"),
            ("/api/v1", "/api/v1/chat/completions"),
            ("/openai", "/openai/v1/chat/completions"),
            ("/v1beta/openai", "/v1beta/openai/chat/completions"),
            ("/api/paas/v4", "/api/paas/v4/chat/completions"),
            ("/v1/account/gateway/openai", "/v1/account/gateway/openai/chat/completions"),
            ("/openai/deployments/mine", "/openai/deployments/mine/chat/completions"),
            ("/vendor", "/vendor/v1/chat/completions"),
        ] {
            assert_eq!(chat(prefix), format!("{path}?api-version=1"), "{prefix}");
        }
        for (prefix, version, path, whole) in [
            ("/api", "", "/api/chat", "/api/chat"),
            ("", "", "/api/chat", "/api/chat"),
            ("/v2", "", "/v2/chat", "/v2/chat"),
            ("/v1beta", "/v1beta", "/models/m:generateContent", "/v1beta/models/m:generateContent"),
        ] {
            assert_eq!(prefix.to_owned() + &full_path(prefix, version, path), whole, "{prefix}");
        }
    }

    #[test]
    fn credentials_in_a_body_are_found() {
        for (body, has) in [
            (r#"{"mcp_servers": [{"url": "u"}, {"authorization_token": "t"}]}"#, true),
            (r#"{"mcp_servers": [{"url": "u", "authorization_token": null}]}"#, false),
            (r#"{"tools": [{"type": "function"}, {"type": "mcp", "authorization": "t"}]}"#, true),
            (r#"{"tools": [{"type": "mcp", "headers": {"Authorization": "Bearer t"}}]}"#, true),
            (r#"{"tools": [{"type": "function", "function": {"parameters": {"headers": {}}}}]}"#, false),
            (r#"{"tools": [{"type": "mcp", "server_url": "https://x/?token=t"}]}"#, true),
            (r#"{"tools": [{"type": "mcp", "server_url": "https://x/sse", "server_label": "x"}]}"#, false),
            (r#"{"mcp_servers": [{"url": "https://u:p@x", "name": "n"}]}"#, true),
            (r#"{"tools": [{"type": "mcp", "Authorization": "t"}]}"#, true),
            (r#"{"tools": [{"type": "mcp", "server": {"authorization": "t"}}]}"#, true),
            (r#"{"data_sources": [{"parameters": {"authentication": {"type": "api_key", "key": "k"}}}]}"#, true),
            (r#"{"tools": [{"name": "f", "input_schema": {"properties": {"token": {"type": "string"}}}}]}"#, false),
            (r#"{"tools": [{"googleSearch": {}}, {"functionDeclarations": [{"name": "f"}]}]}"#, false),
            (r#"{"messages": [{"content": "authorization"}]}"#, false),
            ("[", false),
        ] {
            assert_eq!(has_credentials(body.as_bytes()), has, "{body}");
        }
    }
}
