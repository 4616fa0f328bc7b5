//! The fallbacks: upstreams that take over when a route's own upstream fails.
//!
//! A fallback gets only listed members of the client's request (`allowed`): a client may have its
//! key in any header, in the query, and in the body.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE,
    HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::request::Parts;
use http::{Request, Response};

use super::allowed::{SHARED_HEADERS, VERSION_HEADERS};
use super::conversation::{Conversation, is_transient};
use super::upstream::Head;
use restitch::internal::chat::Adaptation;
use restitch::internal::request::translated;
use restitch::internal::request::{Allowed, Refused, allowed};
use restitch::internal::wire::PlainPrompt;
use restitch::provider::Dialect;
use restitch::session::{CallEnd, Redirect};
use restitch_http::{Client, Error, Received};

/// An upstream that takes over when others fail.
#[derive(Clone)]
pub(super) struct Fallback {
    /// The client that connects to it.
    pub(super) client: Client,
    /// The model's name at the fallback. `None`: the name in the request.
    pub(super) model: Option<String>,
    /// The API of the fallback. `None`: the API of the request.
    pub(super) wire: Option<Dialect>,
    /// The operator's key for the fallback. `None`: the fallback needs no key.
    pub(super) key: Option<String>,
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

/// The part of an answer that a fallback delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole answer, since nothing has arrived.
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

/// A request for the current upstream, derived from the client's.
pub(super) struct Sent {
    pub(super) head: Head,
    pub body: Bytes,
}

impl Conversation {
    /// Returns the current fallback. `None`: the route's own upstream is current.
    pub(super) fn fallback(&self) -> Option<&Fallback> {
        self.at
            .load(Ordering::Relaxed)
            .checked_sub(1)
            .and_then(|at| self.route.fallbacks.get(at))
    }

    /// Returns the client of the current upstream.
    pub(super) fn client(&self) -> &Client {
        self.fallback()
            .map_or(&self.route.client, |fallback| &fallback.client)
    }

    /// Returns the model's name at the current upstream.
    pub(super) fn model(&self) -> &str {
        self.fallback()
            .and_then(|fallback| fallback.model.as_deref())
            .unwrap_or(&self.request.model)
    }

    /// Returns the API of the current upstream.
    pub(super) fn asked_by(&self) -> Dialect {
        self.fallback()
            .and_then(|fallback| fallback.wire)
            .unwrap_or(self.dialect)
    }

    /// Switches to the next fallback that can take over, if there is one. A fallback with another
    /// API can only take over the rest of an answer. `why`: the failure of the current upstream,
    /// for the log.
    pub(super) fn move_on(&self, part: Part, why: &str) -> bool {
        let at = self.at.load(Ordering::Relaxed);
        if at >= self.route.fallbacks.len() || self.is_refused.load(Ordering::Relaxed) {
            return false;
        }
        let shared = match self.shared_body() {
            Ok(shared) => shared,
            Err(Refused(member)) => {
                self.is_refused.store(true, Ordering::Relaxed);
                tracing::warn!(
                    why,
                    %member,
                    "no fallback is asked: a tool, a data source or a part of a message may hold a credential"
                );
                return false;
            }
        };
        let can_take =
            |fallback: &Fallback| match fallback.wire.filter(|wire| *wire != self.dialect) {
                None => true,
                // Another API can only continue a stream: the session can't read that API's whole
                // body as an answer.
                Some(_) if part == Part::Whole || !self.request.stream => false,
                Some(wire) => self.translated(&shared.body, wire, fallback).is_some(),
            };
        let next = self
            .route
            .fallbacks
            .iter()
            .enumerate()
            .skip(at)
            .find(|(_, fallback)| can_take(fallback));
        let Some((number, fallback)) = next else {
            return false;
        };
        self.at.store(number + 1, Ordering::Relaxed);
        self.restart_retries();
        let upstream = fallback.client.upstream().authority();
        let mut left_out = shared.left_out;
        self.head
            .unlisted_query()
            .for_each(|name| left_out.add(&format!("?{name}")));
        tracing::warn!(upstream, part = part.as_str(), why, %left_out, "the next calls go to a fallback");
        self.exchange.note_fallback(upstream, part.as_str());
        true
    }

    /// Returns the index of the current upstream, for [`move_back`](Self::move_back).
    pub(super) fn place(&self) -> usize {
        self.at.load(Ordering::Relaxed)
    }

    pub(super) fn move_back(&self, place: usize) {
        self.at.store(place, Ordering::Relaxed);
    }

    /// Returns the redirect that tells the session about the new upstream after
    /// [`move_on`](Self::move_on).
    pub(super) fn redirected(&self) -> CallEnd {
        let wire = self.asked_by();
        let foreign = (wire != self.dialect).then(|| (wire, wire.wire().framing()));
        let upstream = self.address().to_owned();
        let model = self.model().to_owned();
        CallEnd::Redirected(Box::new(Redirect {
            strategy: self.strategy(),
            foreign,
            upstream,
            model,
        }))
    }

    /// Keeps only the listed headers of a fallback's response ([`ANSWER_HEADERS`]), and names the
    /// fallback. Other headers may describe the operator's account or quote its key.
    pub(super) fn without_foreign_headers(
        &self,
        response: Response<Received>,
    ) -> Response<Received> {
        let Some(fallback) = self.fallback() else {
            return response;
        };
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

    /// Returns the client's request as the current upstream gets it.
    pub(super) fn sent(&self) -> Option<Sent> {
        let Some(fallback) = self.fallback() else {
            return Some(Sent {
                head: self.head.clone(),
                body: self.body.clone(),
            });
        };
        let body = self.shared_body().ok()?.body;
        match fallback.wire.filter(|wire| *wire != self.dialect) {
            Some(wire) => self.translated(&body, wire, fallback),
            None => self.readdressed(body, fallback),
        }
    }

    /// Returns the members of the body that fallbacks may get.
    fn shared_body(&self) -> Result<Allowed<'_>, Refused> {
        allowed(
            self.dialect.wire().allowed(),
            std::str::from_utf8(&self.body).unwrap_or_default(),
        )
    }

    /// Returns the request in the same API, with a fallback's model name and key.
    fn readdressed(&self, body: Cow<'_, str>, fallback: &Fallback) -> Option<Sent> {
        let wire = self.dialect.wire();
        let model = fallback
            .model
            .as_deref()
            .filter(|model| *model != self.request.model);
        let adaptation = Adaptation {
            model,
            ..Adaptation::default()
        };
        let body = match model.and_then(|_| wire.adapt(&body, &adaptation)) {
            Some(adapted) => adapted.into(),
            None if matches!(body, Cow::Borrowed(_)) => self.body.clone(),
            None => body.into_owned().into(),
        };
        let new = wire.new_request(&PlainPrompt {
            model: self.model(),
            ..PlainPrompt::default()
        });
        let path = wire
            .path_like(self.head.path(), self.model())
            .unwrap_or(new.path)
            + &self.head.listed_query();
        let mut head = self.head.foreign(
            &below_version(self.dialect, fallback, &path),
            &VERSION_HEADERS,
        )?;
        head.add(new.headers);
        head.set_key(new.key_header, fallback.key.as_deref())?;
        Some(Sent { head, body })
    }

    /// Returns the request translated to a fallback's API.
    fn translated(&self, body: &str, wire: Dialect, fallback: &Fallback) -> Option<Sent> {
        let model = fallback.model.as_deref().unwrap_or(&self.request.model);
        let new = translated((self.dialect, body), (wire, model), self.request.max_tokens)?;
        let mut head = self
            .head
            .foreign(&below_version(wire, fallback, &new.path), &[])?;
        head.add(new.headers);
        head.set_key(new.key_header, fallback.key.as_deref())?;
        Some(Sent {
            head,
            body: new.body.into(),
        })
    }
}

/// Returns the path to append to a fallback's address. Adds the API's version unless the address
/// has one, and does not repeat the address's last segment.
fn below_version(wire: Dialect, fallback: &Fallback, path: &str) -> String {
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
    let is_doubled = !first.is_empty() && prefix.rsplit('/').next() == Some(first);
    if is_doubled {
        path.get(1 + first.len()..).unwrap_or_default().to_owned()
    } else {
        path
    }
}

/// Returns whether the result of a first call is a reason to ask a fallback.
pub(super) fn has_failed(answer: &Result<Response<Received>, Error>) -> bool {
    match answer {
        Ok(response) => is_transient(response.status()),
        // The fault lies in the request, so every upstream would fail alike.
        Err(Error::Path(_) | Error::Foreign(_)) => false,
        Err(_) => true,
    }
}

/// Returns for the log why an upstream has failed. Leaves out the upstream's own words, since they
/// may quote the request.
pub(super) fn why(answer: &Result<Response<Received>, Error>) -> String {
    match answer {
        Ok(response) => response.status().as_u16().to_string(),
        Err(error) => error.to_string(),
    }
}

impl Head {
    /// Returns the head of a request to a fallback, with only the listed headers of the client.
    /// `more`: headers of the fallback's API that are listed, too.
    fn foreign(&self, path: &str, more: &[HeaderName]) -> Option<Self> {
        let own = self.headers();
        let mut parts: Parts = Request::new(()).into_parts().0;
        parts.method = http::Method::POST;
        parts.uri = path.parse().ok()?;
        for name in SHARED_HEADERS.iter().chain(more) {
            if let Some(value) = own.get(name).filter(|value| !value.is_sensitive()) {
                parts.headers.insert(name.clone(), value.clone());
            }
        }
        parts
            .headers
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        parts
            .headers
            .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Some(Self::of(parts))
    }

    /// Adds headers that the API needs, unless the request has them.
    fn add(&mut self, headers: &[(&'static str, &'static str)]) {
        for (name, value) in headers {
            self.headers_mut()
                .entry(HeaderName::from_static(name))
                .or_insert(HeaderValue::from_static(value));
        }
    }

    fn set_key(
        &mut self,
        (name, before): (&'static str, &'static str),
        key: Option<&str>,
    ) -> Option<()> {
        let Some(key) = key else { return Some(()) };
        let mut value = HeaderValue::try_from(format!("{before}{key}")).ok()?;
        value.set_sensitive(true);
        self.headers_mut()
            .insert(HeaderName::from_static(name), value);
        Some(())
    }
}

/// The headers of a fallback's response that the client gets: those that describe the body and its
/// caching, the date, and the response's id. Others may describe the operator's account.
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
/// The response header that names the fallback which has begun the answer.
const UPSTREAM: HeaderName = HeaderName::from_static("x-restitch-upstream");

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
