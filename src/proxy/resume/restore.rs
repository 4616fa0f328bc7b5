//! Goes on with an answer whose process has ended.
//!
//! The log of the answer is read as if it were the first call's stream, which then breaks off. What comes out again is skipped,
//! since it is in the log, and the model is asked for the rest.

use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderMap;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, StatusCode};
use serde::{Deserialize, Serialize};

use super::caller::{Credential, KEY, keys};
use super::live::{Live, Reader};
use super::pump::{Pump, Writer};
use super::{Answers, KEEP, STREAM};
use crate::Limits;
use crate::provider::Dialect;
use crate::proxy::Proxy;
use crate::proxy::conversation::Conversation;
use crate::proxy::exchange::{Exchange, KeptLine};
use crate::proxy::serve;
use crate::proxy::upstream::{Head, RequestDirectives, is_own};
use crate::route::holds_secret;
use crate::store::{AnswerId, End, Position, StoreError};

/// A request as it is kept for whoever goes on with its answer: without its credential.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Stored {
    /// The name of the route that answers it.
    route: String,
    /// The path and the query.
    target: String,
    headers: Vec<(String, String)>,
    /// It is JSON.
    body: String,
}

impl Stored {
    /// `own`: the headers that are for the proxy.
    pub(super) fn new(head: &Head, (own, route): (&HeaderMap, &str), body: &Bytes) -> Self {
        let query: Vec<_> =
            head.query().into_iter().flat_map(|query| query.split('&')).filter(|one| !is_key(one)).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())).filter(|_| !holds_secret(name.as_str()))
        };
        Self {
            route: route.to_owned(),
            target: format!("{}{mark}{}", head.path(), query.join("&")),
            headers: head.headers().iter().chain(own).filter_map(text).collect(),
            body: String::from_utf8_lossy(body).into_owned(),
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        // Text and lists of text can be written.
        serde_json::to_vec(self).map(Bytes::from).unwrap_or_default()
    }
}

/// Returns the headers of a request that are for the proxy and say how it is answered.
pub(in crate::proxy) fn own_headers(headers: &HeaderMap) -> HeaderMap {
    let is_kept = |name: &HeaderName| is_own(name) && !holds_secret(name.as_str()) && name != KEEP && name != STREAM;
    headers.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn is_key(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, _)| name == KEY)
}

/// A caller who has come back: their credential goes with the calls for the rest.
pub(super) struct Heir {
    proxy: Arc<Proxy>,
    answers: Arc<Answers>,
    secrets: HeaderMap,
    /// The credential in the query.
    keys: Vec<String>,
    credential: Credential,
}

impl Heir {
    pub(super) fn new(
        proxy: &Arc<Proxy>,
        answers: &Arc<Answers>,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Arc<Self> {
        let secrets = headers.iter().filter(|(name, _)| holds_secret(name.as_str()) && !is_own(name));
        Arc::new(Self {
            proxy: Arc::clone(proxy),
            answers: Arc::clone(answers),
            secrets: secrets.map(|(name, value)| (name.clone(), value.clone())).collect(),
            keys: query.into_iter().flat_map(keys).map(str::to_owned).collect(),
            credential: Credential::of(headers, query),
        })
    }

    /// Returns the limits of the answers that are read for this caller.
    pub(super) fn limits(&self) -> &Limits {
        &self.proxy.limits
    }

    /// As [`Answers::reader`].
    pub(super) fn reader(&self, id: AnswerId, after: Position) -> Option<Arc<Reader>> {
        self.answers.reader(id, after)
    }

    /// Goes on with an answer that nobody writes. Does nothing if another process has begun to.
    pub(super) async fn take_over(&self, id: AnswerId) -> Result<(), StoreError> {
        let Some(taken) = self.answers.store.take_over(id).await? else { return Ok(()) };
        let at = Position { epoch: taken.epoch, seq: 0 };
        let conversation = match self.conversation(&taken.request) {
            Ok(conversation) => conversation,
            Err(reason) => {
                tracing::warn!(reason, "a kept answer cannot be gone on with");
                return self.answers.store.close(id, at.next(), End::Broken).await;
            }
        };
        tracing::info!(events = taken.events.len(), epoch = taken.epoch, "going on with a kept answer");
        self.answers.count("restored");
        let exchange = Arc::clone(&conversation.exchange);
        // Its client has had this status.
        exchange.note_status(StatusCode::OK);
        // The log has no blank lines.
        let stream =
            conversation.resumed(taken.events.iter().map(|event| [event, &b"\n"[..]].concat().into()).collect());
        let writer = Writer {
            answers: Arc::clone(&self.answers),
            id,
            caller: self.credential.digest(id),
            _writing: taken.writing,
            live: Arc::new(Live::after(taken.epoch, taken.last)),
        };
        let pump = Pump::new(writer, at, KeptLine::new(exchange), &self.proxy.limits);
        self.answers.spawn(pump.after(taken.events), stream);
        Ok(())
    }

    /// Returns the request of an answer with the credential of its caller. An error says why it is not asked again.
    fn conversation(&self, request: &[u8]) -> Result<Box<Conversation>, &'static str> {
        let stored: Stored = serde_json::from_slice(request).map_err(|_| UNREADABLE)?;
        // Its conditions are not looked at again: some headers that they name are not kept.
        let route = self.proxy.route_named(&stored.route).filter(|route| route.continues()).ok_or(NO_ROUTE)?;
        let (parts, body) = self.asked(stored).ok_or(UNREADABLE)?;
        let exchange = Arc::new(Exchange::begin(&Request::from_parts(parts.clone(), ()), &self.proxy.shared));
        let dialect = Dialect::of_path(parts.uri.path()).ok_or(UNREADABLE)?;
        let directives = RequestDirectives::read(&parts.headers).map_err(|_| UNREADABLE)?;
        let head = Head::new(parts);
        let request = dialect.wire().parse(head.path(), &body).ok_or(UNREADABLE)?;
        let asked = (route, head, body, dialect, request);
        let conversation = serve::conversation(Arc::clone(&self.proxy), asked, &directives, &exchange);
        let mut conversation = conversation.map_err(|_| UNREADABLE)?;
        if self.proxy.asking.adapts {
            conversation.adapt();
        }
        Ok(conversation)
    }

    /// Adds the caller's credential to a request.
    fn asked(&self, stored: Stored) -> Option<(Parts, Bytes)> {
        let keys: String = self.keys.iter().map(|key| format!("&{KEY}={key}")).collect();
        let target = match stored.target.contains('?') {
            true => stored.target + &keys,
            false => stored.target + &keys.replacen('&', "?", 1),
        };
        let mut request = Request::post(target).body(()).ok()?;
        let headers = request.headers_mut();
        for (name, value) in &stored.headers {
            headers.append(HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?);
        }
        for (name, value) in &self.secrets {
            headers.append(name, value.clone());
        }
        Some((request.into_parts().0, Bytes::from(stored.body)))
    }
}

const UNREADABLE: &str = "its request is not known";
const NO_ROUTE: &str = "its route is gone, or answers of it are not read any more";
