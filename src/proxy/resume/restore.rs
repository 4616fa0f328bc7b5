//! Goes on with an answer whose process has ended.
//!
//! The log of the answer is read as if it were the first call's stream, which then breaks off. What comes out again is skipped,
//! since it is in the log, and the model is asked for the rest.

use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{HeaderName, HeaderValue, Request};
use serde::{Deserialize, Serialize};

use super::caller::{KEY, keys};
use super::pump::Pump;
use super::{Answers, KEEP, STREAM};
use crate::provider::Dialect;
use crate::proxy::Proxy;
use crate::proxy::conversation::Conversation;
use crate::proxy::exchange::Exchange;
use crate::proxy::serve;
use crate::proxy::upstream::{Head, RequestDirectives, is_own};
use crate::route::holds_secret;
use crate::store::{AnswerId, End, Position, StoreError};

/// A request as it is kept for whoever goes on with its answer: without its credential.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Stored {
    /// The path and the query.
    target: String,
    headers: Vec<(String, String)>,
    /// It is JSON.
    body: String,
}

impl Stored {
    /// `own`: the headers that are for the proxy.
    pub(super) fn new(head: &Head, own: &HeaderMap, body: &Bytes) -> Self {
        let query: Vec<_> =
            head.query().into_iter().flat_map(|query| query.split('&')).filter(|one| !is_key(one)).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())).filter(|_| !holds_secret(name.as_str()))
        };
        Self {
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
        })
    }

    /// Goes on with an answer that nobody writes. Does nothing if another process has begun to.
    pub(super) async fn take_over(&self, id: AnswerId) -> Result<(), StoreError> {
        let Some(taken) = self.answers.store.take_over(id).await? else { return Ok(()) };
        let at = Position { epoch: taken.epoch, seq: 0 };
        let Some(conversation) = self.conversation(&taken.opening.request) else {
            tracing::warn!("a kept answer cannot be gone on with: its request is not known");
            return self.answers.store.close(id, at.next(), End::Broken).await;
        };
        tracing::info!(events = taken.events.len(), epoch = taken.epoch, "going on with a kept answer");
        self.answers.count("restored");
        // The log has no blank lines.
        let stream =
            conversation.resumed(taken.events.iter().map(|event| [event, &b"\n"[..]].concat().into()).collect());
        self.answers.spawn(id, Pump::new(Arc::clone(&self.answers), id, at, None).after(taken.events), stream);
        Ok(())
    }

    /// Returns the request of an answer with the credential of its caller.
    fn conversation(&self, request: &[u8]) -> Option<Box<Conversation>> {
        let stored: Stored = serde_json::from_slice(request).ok()?;
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
        let exchange = Arc::new(Exchange::begin(&request, &self.proxy.shared));
        let (parts, ()) = request.into_parts();
        let candidates = self.proxy.candidates(&parts);
        let dialect = Dialect::of_path(parts.uri.path())?;
        let directives = RequestDirectives::read(&parts.headers).ok()?;
        let head = Head::new(parts);
        let body = Bytes::from(stored.body);
        let request = dialect.wire().parse(head.path(), &body)?;
        let route = candidates.choose(&self.proxy, Some(&request));
        let asked = (route, head, body, dialect, request);
        let mut conversation = serve::conversation(Arc::clone(&self.proxy), asked, &directives, &exchange).ok()?;
        if self.proxy.asking.adapts {
            conversation.adapt();
        }
        Some(conversation)
    }
}
