//! The client's request: how it is adapted to its model, and the parts of it that each upstream
//! gets.
//!
//! A fallback gets only listed members of the client's request (`allowed`): a client may have its
//! key in any header, in the query, and in the body.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;

use super::allowed::{SHARED_HEADERS, VERSION_HEADERS};
use super::fallback::Target;
use super::upstream::{self, Head};
use restitch::internal::chat;
use restitch::internal::chat::{Adaptation, Changes};
use restitch::internal::request::{Allowed, Refused, allowed, body_text, translated};
use restitch::internal::rest_call;
use restitch::internal::wire::PlainPrompt;
use restitch::provider::Dialect;
use restitch::provider::capability::Capability;

/// A request of a client, which the proxy has read.
pub(super) struct ClientRequest {
    pub(super) head: Head,
    /// JSON, so it is UTF-8.
    pub(super) body: Bytes,
    pub(super) dialect: Dialect,
    pub(super) parsed: chat::Request,
    /// The client's limit on the answer's tokens, if the proxy has raised it.
    raised_from: Option<u64>,
    /// The members and headers of the request that the proxy has changed.
    pub(super) adapted: BTreeSet<&'static str>,
}

/// A request for one upstream, derived from the client's.
pub(super) struct UpstreamRequest<'r> {
    pub(super) head: Cow<'r, Head>,
    pub(super) body: Bytes,
}

impl ClientRequest {
    /// Returns an estimate of the request's tokens, for a provider that does not report them.
    pub(super) fn estimated_tokens(&self) -> u64 {
        rest_call::estimated_tokens(&self.body)
    }

    /// Returns the body as text.
    fn text(&self) -> &str {
        let text = body_text(&self.body);
        debug_assert!(text.is_some(), "a request is JSON, and that is text");
        text.unwrap_or_default()
    }

    pub(super) fn new(head: Head, body: Bytes, dialect: Dialect, parsed: chat::Request) -> Self {
        Self {
            head,
            body,
            dialect,
            parsed,
            raised_from: None,
            adapted: BTreeSet::new(),
        }
    }

    /// Removes a `response_format` that the model does not take. In other APIs than Chat Completions,
    /// requests streamed tool arguments. A body that fits its model stays unchanged, to the byte.
    pub(super) fn adapt(&mut self, capability_of: impl Fn(&str) -> Capability) {
        if !self.dialect.wire().has_chat_requests() {
            return self.stream_arguments();
        }
        let takes = capability_of(&self.parsed.model).response_format;
        if takes || !self.has_response_format() {
            return;
        }
        let adaptation = Adaptation {
            without: Some(RESPONSE_FORMAT),
            ..Adaptation::default()
        };
        if let Some(body) = chat::adapt(self.text(), &adaptation).map(Bytes::from) {
            tracing::debug!(
                model = self.parsed.model.as_str(),
                "adapted a request to its model"
            );
            self.adapted.insert(RESPONSE_FORMAT);
            self.body = body;
            self.parsed.has_json_mode = false;
        }
    }

    /// Requests tool arguments as a stream from APIs that send each value whole otherwise: such an
    /// API would never send the beginning of a value that a cut interrupts.
    fn stream_arguments(&mut self) {
        // A request without tools has no arguments to stream.
        if !self.dialect.wire().can_stream_arguments() || self.parsed.tools.is_empty() {
            return;
        }
        let adaptation = Adaptation {
            streams_arguments: true,
            ..Adaptation::default()
        };
        if let Some(adapted) = self.dialect.wire().adapt(self.text(), &adaptation) {
            tracing::debug!("asked for the arguments of tools as they are written");
            self.adapted.insert("tools");
            self.body = adapted.into();
        }
    }

    /// Raises the client's limit on the answer's tokens to `least`, if it is lower.
    pub(super) fn raise_limit(&mut self, least: u64) {
        let own = self.parsed.max_tokens.filter(|own| *own < least);
        if let Some(own) = own.filter(|_| self.set_limit(least)) {
            self.raised_from = Some(own);
            self.adapted.insert(self.limit_member());
            tracing::debug!(own, limit = least, "raised the limit on an answer's tokens");
        }
    }

    /// Restores the client's limit on the answer's tokens. Returns whether it was raised.
    pub(super) fn withdraw_limit(&mut self) -> bool {
        let Some(own) = self.raised_from.take() else {
            return false;
        };
        self.adapted.remove(self.limit_member());
        self.set_limit(own)
    }

    /// Returns the limit that the proxy has set instead of the client's.
    pub(super) fn raised_limit(&self) -> Option<u64> {
        self.parsed
            .max_tokens
            .filter(|_| self.raised_from.is_some())
    }

    /// Returns the member of the body that has the limit on the answer's tokens.
    fn limit_member(&self) -> &'static str {
        match self.dialect {
            Dialect::Chat if chat::has_member(self.text(), "max_completion_tokens") => {
                "max_completion_tokens"
            }
            Dialect::Responses => "max_output_tokens",
            Dialect::Gemini => "generationConfig",
            Dialect::Ollama => "options",
            _ => "max_tokens",
        }
    }

    fn set_limit(&mut self, limit: u64) -> bool {
        let changes = Changes {
            max_tokens: Some(limit),
            ..Changes::default()
        };
        let Some(body) = self.dialect.wire().ask(self.text(), None, &changes) else {
            return false;
        };
        self.body = body.into();
        self.parsed.max_tokens = Some(limit);
        true
    }

    /// Asks the server to keep the stream under a name of the proxy's.
    pub(super) fn name_stream(&mut self) {
        if self.head.name_stream() {
            self.adapted.insert(upstream::CONVERSATION);
            tracing::debug!("asked for a stream that is kept");
        }
    }

    /// Returns whether the body has a `response_format`.
    pub(super) fn has_response_format(&self) -> bool {
        self.dialect.wire().has_chat_requests() && chat::has_member(self.text(), RESPONSE_FORMAT)
    }

    /// Returns the request as an upstream gets it. `None`: the route's own upstream. Fails if a
    /// fallback can't get it.
    pub(super) fn sent_to(&self, fallback: Option<&Target>) -> Option<UpstreamRequest<'_>> {
        // The route's own upstream gets every byte of the client, its key among them unless the
        // operator has one.
        let Some(fallback) = fallback else {
            return Some(UpstreamRequest {
                head: Cow::Borrowed(&self.head),
                body: self.body.clone(),
            });
        };
        let body = self.allowed_body().ok()?.body;
        match fallback.wire.filter(|wire| *wire != self.dialect) {
            Some(wire) => self.translated(&body, wire, fallback),
            None => self.readdressed(body, fallback),
        }
    }

    /// Returns the model's name at an upstream.
    pub(super) fn model_at<'r>(&'r self, target: &'r Target) -> &'r str {
        target.model.as_deref().unwrap_or(&self.parsed.model)
    }

    /// Returns the members of the body that fallbacks may get.
    pub(super) fn allowed_body(&self) -> Result<Allowed<'_>, Refused> {
        allowed(self.dialect.wire().allowed(), self.text())
    }

    /// Returns the request in the same API, with a fallback's model name and key.
    fn readdressed(
        &self,
        body: Cow<'_, str>,
        fallback: &Target,
    ) -> Option<UpstreamRequest<'static>> {
        let wire = self.dialect.wire();
        let name = self.model_at(fallback);
        let model = fallback
            .model
            .as_deref()
            .filter(|model| *model != self.parsed.model);
        let adaptation = Adaptation {
            model,
            ..Adaptation::default()
        };
        let body = match model.and_then(|_| wire.adapt(&body, &adaptation)) {
            Some(adapted) => adapted.into(),
            // No member was left out, so the client's own bytes are sent without a copy.
            None if matches!(body, Cow::Borrowed(_)) => self.body.clone(),
            None => body.into_owned().into(),
        };
        // Some APIs name the model in the path, so the path is written for the fallback's model.
        let new = wire.new_request(&PlainPrompt {
            model: name,
            ..PlainPrompt::default()
        });
        let path =
            wire.path_like(self.head.path(), name).unwrap_or(new.path) + &self.head.listed_query();
        let path = below_version(self.dialect, fallback, &path);
        let mut head = foreign_head(&self.head, &path, &VERSION_HEADERS)?;
        add_missing(&mut head, new.headers);
        if let Some(key) = &fallback.key {
            head.insert_key(new.key_header, key);
        }
        let head = Cow::Owned(head);
        Some(UpstreamRequest { head, body })
    }

    /// Returns the request translated to a fallback's API.
    pub(super) fn translated(
        &self,
        body: &str,
        wire: Dialect,
        fallback: &Target,
    ) -> Option<UpstreamRequest<'static>> {
        let model = self.model_at(fallback);
        let new = translated((self.dialect, body), (wire, model), self.parsed.max_tokens)?;
        let path = below_version(wire, fallback, &new.path);
        // The client's headers name a version of its own API, not of this one.
        let mut head = foreign_head(&self.head, &path, &[])?;
        add_missing(&mut head, new.headers);
        if let Some(key) = &fallback.key {
            head.insert_key(new.key_header, key);
        }
        Some(UpstreamRequest {
            head: Cow::Owned(head),
            body: new.body.into(),
        })
    }
}

/// Returns the path to append to a fallback's address. Adds the API's version unless the address
/// has one, and does not repeat the address's last segment.
fn below_version(wire: Dialect, fallback: &Target, path: &str) -> String {
    full_path(
        fallback.client.upstream().prefix(),
        wire.wire().version(),
        path,
    )
}

fn full_path(prefix: &str, version: &str, path: &str) -> String {
    let is_version = |segment: &str| {
        segment
            .strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    // Azure's older addresses name a deployment, and have the version in the query.
    let is_whole = prefix
        .split('/')
        .any(|segment| is_version(segment) || segment == "deployments");
    let path = if is_whole {
        path.to_owned()
    } else {
        [version, path].concat()
    };
    let first = path
        .get(1..)
        .and_then(|path| path.split(['/', '?']).next())
        .unwrap_or_default();
    // An operator may write the address with the first segment of the path: `/v1`, or a deployment.
    let is_doubled = !first.is_empty() && prefix.rsplit('/').next() == Some(first);
    if is_doubled {
        path.get(1 + first.len()..).unwrap_or_default().to_owned()
    } else {
        path
    }
}

/// Returns the head of a request to a fallback, with only the listed headers of the client.
/// `more`: headers of the fallback's API that are listed, too.
fn foreign_head(client: &Head, path: &str, more: &[HeaderName]) -> Option<Head> {
    // A client may have its key in any header, and a fallback belongs to another provider: only
    // headers that never hold a credential go along.
    let own = client.headers();
    let mut parts: Parts = Request::new(()).into_parts().0;
    parts.method = http::Method::POST;
    parts.uri = path.parse().ok()?;
    for name in SHARED_HEADERS.iter().chain(more) {
        // The operator's pattern for secrets may match a listed header, too.
        if let Some(value) = own.get(name).filter(|value| !value.is_sensitive()) {
            parts.headers.insert(name.clone(), value.clone());
        }
    }
    parts
        .headers
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // The proxy reads the answer, and compression would hide the key from the redactor.
    parts
        .headers
        .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Some(Head::of(parts))
}

/// Adds headers that the API needs, unless the request has them.
fn add_missing(head: &mut Head, headers: &[(&'static str, &'static str)]) {
    for (name, value) in headers {
        // The client may have chosen another version of the API.
        head.headers_mut()
            .entry(HeaderName::from_static(name))
            .or_insert(HeaderValue::from_static(value));
    }
}

pub(super) const RESPONSE_FORMAT: &str = "response_format";

#[cfg(test)]
mod tests {
    use super::full_path;

    #[test]
    fn a_path_has_its_version_once() {
        let chat = |prefix: &str| {
            prefix.to_owned() + &full_path(prefix, "/v1", "/chat/completions?api-version=1")
        };
        for (prefix, path) in [
            ("", "/v1/chat/completions"),
            ("/v1", "/v1/chat/completions"),
            ("/api", "/api/v1/chat/completions"),
            ("/api/v1", "/api/v1/chat/completions"),
            ("/openai", "/openai/v1/chat/completions"),
            ("/v1beta/openai", "/v1beta/openai/chat/completions"),
            ("/api/paas/v4", "/api/paas/v4/chat/completions"),
            (
                "/v1/account/gateway/openai",
                "/v1/account/gateway/openai/chat/completions",
            ),
            (
                "/openai/deployments/mine",
                "/openai/deployments/mine/chat/completions",
            ),
            ("/vendor", "/vendor/v1/chat/completions"),
        ] {
            assert_eq!(chat(prefix), format!("{path}?api-version=1"), "{prefix}");
        }
        for (prefix, version, path, whole) in [
            ("/api", "", "/api/chat", "/api/chat"),
            ("", "", "/api/chat", "/api/chat"),
            ("/v2", "", "/v2/chat", "/v2/chat"),
            (
                "/v1beta",
                "/v1beta",
                "/models/m:generateContent",
                "/v1beta/models/m:generateContent",
            ),
        ] {
            assert_eq!(
                prefix.to_owned() + &full_path(prefix, version, path),
                whole,
                "{prefix}"
            );
        }
    }
}
