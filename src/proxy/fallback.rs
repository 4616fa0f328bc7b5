//! The upstreams that are asked where a route's own one fails.
//!
//! Nothing of the client's head goes to another upstream but what is listed here: a client may have its key in any header, and
//! in the query.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response};

use super::conversation::{Conversation, is_transient, retry_after};
use super::upstream::Head;
use crate::client::{Client, Error, Received};
use crate::provider::Dialect;
use crate::provider::translate::translated;
use crate::provider::wire::{Adaptation, PlainPrompt};
use crate::session::{CallEnd, Redirect, Request as Further};

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
        CallEnd::Redirected(Box::new(Redirect { strategy: self.strategy(), foreign, upstream }))
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

    /// Returns whether a fallback may bring what the call has not: nothing has answered, or what may be over a little later. What
    /// one fallback refuses for any reason, the next may take.
    pub(super) fn is_for_fallback(&self, end: &CallEnd) -> bool {
        match end {
            CallEnd::Rejected { transient, .. } => *transient || self.fallback().is_some(),
            CallEnd::TimedOut(_) | CallEnd::Overloaded => true,
            _ => false,
        }
    }

    /// Returns whether the first call of a further one has to be made elsewhere: nothing of an answer has come, so it was not
    /// the seam that failed.
    pub(super) fn has_failed_here(&self, request: &Further) -> bool {
        let at = self.at.load(Ordering::Relaxed);
        let last = self.last_called.swap(at, Ordering::Relaxed);
        request.turn.is_none() && last == at
    }
}

/// Returns a path of an API below the address that its clients have, or below a bare host, where the version is added.
fn below_version(wire: Dialect, fallback: &Fallback, path: &str) -> String {
    let version = if fallback.client.upstream().prefix().is_empty() { wire.wire().version() } else { "" };
    format!("{version}{path}")
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

/// Returns how long an upstream asks to wait, if that is less than what a fallback costs.
pub(super) fn short_wait(answer: &Result<Response<Received>, Error>) -> Option<Duration> {
    let headers = answer.as_ref().ok().filter(|response| is_transient(response.status()))?.headers();
    retry_after(headers).filter(|wait| *wait <= SHORT_WAIT)
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

/// Headers that name the request and its trace.
const PLAIN_HEADERS: [&str; 3] = ["x-request-id", "traceparent", "tracestate"];

/// Headers that say which version of an API is spoken.
const WIRE_HEADERS: [&str; 3] = ["anthropic-version", "anthropic-beta", "openai-beta"];

/// Members of a query that do the same.
const PLAIN_QUERY: [&str; 2] = ["alt", "api-version"];

/// The longest `Retry-After` that is waited for: to ask another upstream takes as long, and its model is another one.
const SHORT_WAIT: Duration = Duration::from_secs(1);
