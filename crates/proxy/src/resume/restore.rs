//! Resumes an answer whose process has ended.
//!
//! The session reads the log of the answer as the stream of a first call that then breaks off, and
//! asks the model for the rest. The pump skips the reproduced events, since they are in the log.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, HeaderMap, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, ORIGIN, PRAGMA, RANGE, REFERER,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, StatusCode};
use serde::{Deserialize, Serialize};

use super::KeptAnswers;
use super::caller::{Credential, name_in_log};
use super::live::LiveTail;
use super::pump::{Pump, Writer};
use super::routes::LAST_EVENT_ID;
use crate::Proxy;
use crate::access::ClientToken;
use crate::allowed::{is_listed, is_stored, members, query_of, stored_text};
use crate::conversation::Conversation;
use crate::exchange::{AccessLine, Exchange};
use crate::record::Event;
use crate::serve;
use crate::store::{AnswerId, End, Name, Position, StoreError};
use crate::upstream::{Head, RequestDirectives, is_own};
use restitch::internal::request::{allowed, body_text};
use restitch::provider::Dialect;

/// A request as a store keeps it for a takeover: the members that hold no credential.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Stored {
    /// The name of the request's route.
    route: String,
    /// The path and the query.
    target: String,
    headers: Vec<(String, String)>,
    /// JSON. `None`: a tool or a data source in it may hold a credential.
    body: Option<String>,
}

impl Stored {
    /// `own`: the request's headers for the proxy.
    pub(super) fn new(head: &Head, (own, route): (&HeaderMap, &str), body: &Bytes) -> Self {
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), stored_text(value)?.to_owned()))
                .filter(|_| is_stored(name))
        };
        let list = Dialect::of_path(head.path()).map(|dialect| dialect.wire().allowed());
        let body = list.and_then(|list| allowed(list, body_text(body)?).ok());
        if let Some(body) = body
            .as_ref()
            .filter(|body| matches!(body.body, Cow::Owned(_)))
        {
            tracing::debug!(left_out = %body.left_out, "a request is kept without some members");
        }
        Self {
            route: route.to_owned(),
            target: format!("{}{}", head.path(), head.listed_query()),
            headers: head.headers().iter().chain(own).filter_map(text).collect(),
            body: body.map(|body| body.body.into_owned()),
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        // Serializing strings and lists of strings does not fail.
        serde_json::to_vec(self)
            .map(Bytes::from)
            .unwrap_or_default()
    }
}

/// A resuming client. Its request supplies the credential for the further calls, and everything
/// else that the store omits from the original request.
pub(super) struct TakeoverContext {
    pub(super) proxy: Arc<Proxy>,
    pub(super) answers: Arc<KeptAnswers>,
    headers: HeaderMap,
    /// Members of the query.
    query: Vec<String>,
    credential: Credential,
    /// `None`: the proxy needs no token.
    token: Option<ClientToken>,
    /// The name and the body of a request that the client has sent again.
    repeated: Option<(Name, Bytes)>,
}

impl TakeoverContext {
    pub(super) fn new(
        proxy: &Arc<Proxy>,
        answers: &Arc<KeptAnswers>,
        headers: &HeaderMap,
        query: Option<&str>,
        token: Option<&ClientToken>,
        repeated: Option<(Name, Bytes)>,
    ) -> Arc<Self> {
        let goes_along =
            |name: &HeaderName| !is_stored(name) && !is_own(name) && !OF_READING.contains(name);
        let own = headers.iter().filter(|(name, _)| goes_along(name));
        let members = members(query)
            .filter(|(name, _)| !is_listed(name) && !MEMBERS_OF_READING.contains(name));
        Arc::new(Self {
            proxy: Arc::clone(proxy),
            answers: Arc::clone(answers),
            headers: own
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            query: members.map(|(_, member)| member.to_owned()).collect(),
            credential: Credential::of(headers, query, token),
            token: token.cloned(),
            repeated,
        })
    }

    /// Resumes an answer without a writer. Does nothing if another process has already taken it
    /// over.
    pub(super) async fn take_over(&self, id: AnswerId) -> Result<(), StoreError> {
        let Some(taken) = self.answers.store.take_over(id).await? else {
            return Ok(());
        };
        let body = self.repeated_body(id).await?;
        let conversation = match self.conversation(&taken.request, body) {
            Ok(conversation) => conversation,
            // Without an end, each reader would take the answer over again.
            Err(reason) => {
                tracing::warn!(reason, "a kept answer can't be resumed");
                let first = Position {
                    epoch: taken.epoch,
                    seq: 1,
                };
                return self.answers.store.close(id, first, End::Broken).await;
            }
        };
        self.answers.count("restored");
        let exchange = Arc::clone(&conversation.caller.exchange);
        name_in_log(id, exchange.span());
        exchange.span().in_scope(|| {
            tracing::debug!(
                events = taken.events.len(),
                epoch = taken.epoch,
                "going on with a kept answer"
            );
        });
        // The client already got this status.
        exchange.apply(Event::Status(StatusCode::OK));
        // Adds the blank lines, which the log omits.
        let stream = conversation.resumed(
            taken
                .events
                .iter()
                .map(|event| [event, &b"\n"[..]].concat().into())
                .collect(),
        );
        let writer = Writer {
            answers: Arc::clone(&self.answers),
            id,
            caller: self.credential.digest(id),
            _writing: taken.writing,
            live: Arc::new(LiveTail::after(taken.epoch, taken.last)),
        };
        let limits = &self.proxy.limits;
        let mut pump = Pump::new(writer, AccessLine::kept(exchange), limits);
        pump.logged = taken.events.into();
        pump.spawn(stream.kept(limits));
        Ok(())
    }

    /// Returns the body that the client has sent again, if this answer belongs to that request.
    async fn repeated_body(&self, id: AnswerId) -> Result<Option<Bytes>, StoreError> {
        let Some((name, body)) = &self.repeated else {
            return Ok(None);
        };
        let is_same = self.answers.store.named(*name).await?.contains(&id);
        Ok(is_same.then(|| body.clone()))
    }

    /// Returns the request of an answer, completed from the client's. The error names the reason
    /// why the model can't be called.
    fn conversation(
        &self,
        request: &[u8],
        body: Option<Bytes>,
    ) -> Result<Box<Conversation>, &'static str> {
        let mut stored: Stored = serde_json::from_slice(request).map_err(|_| UNREADABLE)?;
        let body = body
            .or_else(|| stored.body.take().map(Bytes::from))
            .ok_or(UNSHARED)?;
        // Does not check the route's conditions again: the store may have omitted headers that they
        // name.
        let route = self
            .proxy
            .routes
            .named(&stored.route)
            .filter(|route| route.continues())
            .ok_or(NO_ROUTE)?;
        let parts = self.asked(&stored).ok_or(UNREADABLE)?;
        let exchange = Arc::new(Exchange::begin(
            &Request::from_parts(parts.clone(), ()),
            &self.proxy.shared,
            None,
        ));
        exchange.apply(Event::Token(self.token.as_ref()));
        let dialect = Dialect::of_path(parts.uri.path()).ok_or(UNREADABLE)?;
        let directives = RequestDirectives::read(&parts.headers).map_err(|_| UNREADABLE)?;
        let head = Head::new(parts);
        let request = dialect.wire().parse(head.path(), &body).ok_or(UNREADABLE)?;
        let asked = (route, head, body, dialect, request);
        let mut conversation =
            serve::conversation(Arc::clone(&self.proxy), asked, &directives, &exchange);
        // The request is stored as the client has sent it, before its model was known to refuse
        // parts.
        conversation.caller.adapt();
        Ok(conversation)
    }

    /// Returns the head of a stored request, with the client's other headers and query members.
    fn asked(&self, stored: &Stored) -> Option<Parts> {
        let target = stored.target.split_once('?');
        let (path, own) = target.map_or((&*stored.target, None), |(path, own)| (path, Some(own)));
        let query = query_of(own.into_iter().chain(self.query.iter().map(String::as_str)));
        let mut request = Request::post([path, &query].concat()).body(()).ok()?;
        let headers = request.headers_mut();
        for (name, value) in &stored.headers {
            headers.append(
                HeaderName::try_from(name).ok()?,
                HeaderValue::try_from(value).ok()?,
            );
        }
        // The credential of the reader: the store has none.
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        let mut parts = request.into_parts().0;
        self.token
            .clone()
            .map(|token| parts.extensions.insert(token));
        Some(parts)
    }
}

/// The members of a query that control the reading of an answer.
const MEMBERS_OF_READING: [&str; 6] = [
    "cursor",
    "include_obfuscation",
    "live",
    "offset",
    "starting_after",
    "stream",
];

/// Headers that control the reading of an answer or describe the reading page. They are not part of
/// the answer's original request.
const OF_READING: [HeaderName; 12] = [
    ACCEPT_ENCODING,
    CACHE_CONTROL,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    ORIGIN,
    PRAGMA,
    RANGE,
    REFERER,
    LAST_EVENT_ID,
];

const UNREADABLE: &str = "its request is not known";
const NO_ROUTE: &str = "its route is gone, or answers of it are not read any more";
const UNSHARED: &str = "a tool or a data source of its request is not kept: send the request again";
