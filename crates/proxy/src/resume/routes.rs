//! Requests for the rest of a kept answer.

use std::sync::Arc;
use std::time::Duration;

use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, CACHE_CONTROL, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use http::{Method, Request, Response, StatusCode};
use tracing::Span;

use super::caller::{Credential, name_in_log};
use super::restore::TakeoverContext;
use super::{KEEP, KeptAnswers, STATE, STREAM, STREAMS, durable, follow, response_name, set};
use crate::Proxy;
use crate::access::ClientToken;
use crate::allowed::values;
use crate::refusal::Refusal;
use crate::store::{AnswerId, End, Found, Log, Name, Position, StoreError};
use restitch::provider::Dialect;
use restitch_http::Body;

/// A request for a kept answer.
pub(crate) struct ReadRequest {
    answers: Arc<KeptAnswers>,
    credential: Credential,
    takeover: Arc<TakeoverContext>,
    method: Method,
    target: ResumeTarget,
    /// The last event that the client has.
    last: Option<Vec<u8>>,
    /// The query if it has parameters of Durable Streams.
    durable: Option<Result<durable::Query, Refusal>>,
    origin: Option<HeaderValue>,
}

/// The answer that a request names.
enum ResumeTarget {
    /// By its id. `None`: the id is malformed.
    Stream(Option<AnswerId>),
    /// By its id in the Responses API, with the last event that the client has.
    Response {
        id: String,
        starting_after: Option<u64>,
    },
    /// A response of the Responses API to delete.
    DeletedResponse { id: String },
}

impl ReadRequest {
    /// Reads a request. `None`: the request does not name a kept answer.
    pub(crate) fn of<B>(
        proxy: &Arc<Proxy>,
        answers: &Arc<KeptAnswers>,
        request: &Request<B>,
    ) -> Option<Self> {
        let (path, query) = (request.uri().path(), request.uri().query());
        let target = match path.strip_prefix(STREAMS) {
            Some(id) => ResumeTarget::Stream(id.parse().ok()),
            None if request.method() == Method::GET => ResumeTarget::of_response(path, query)?,
            None if request.method() == Method::DELETE => ResumeTarget::DeletedResponse {
                id: id_of_response(path)?.to_owned(),
            },
            None => return None,
        };
        let (headers, token) = (request.headers(), ClientToken::of(request.extensions()));
        Some(Self {
            answers: Arc::clone(answers),
            credential: Credential::of(headers, query, token),
            takeover: TakeoverContext::new(proxy, answers, headers, query, token, None),
            method: request.method().clone(),
            target,
            last: headers
                .get(LAST_EVENT_ID)
                .map(|last| last.as_bytes().to_vec()),
            durable: durable::Query::of(query, headers),
            origin: headers.get(ORIGIN).cloned(),
        })
    }

    /// Answers the request. `None`: the proxy has not issued the id, so the request goes to the
    /// upstream.
    pub(crate) async fn answer(self) -> Option<Response<Body>> {
        let origin = self.origin.clone();
        let mut response = match &self.target {
            ResumeTarget::Stream(id) => {
                let id = *id;
                let mut response = self
                    .of_stream(id)
                    .await
                    .unwrap_or_else(|refusal| refusal.answer(None));
                durable::protect(response.headers_mut());
                response
            }
            ResumeTarget::Response { id, starting_after } => {
                self.of_response(id, *starting_after).await?
            }
            ResumeTarget::DeletedResponse { id } => {
                // The upstream has the response itself, and answers.
                self.forget_response(id).await;
                return None;
            }
        };
        if let Some(origin) = origin {
            // `Access` has already refused pages of other origins.
            let headers = response.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            set(
                headers,
                ACCESS_CONTROL_EXPOSE_HEADERS,
                &format!("x-restitch-stream, x-restitch-keep, {}", durable::EXPOSED),
            );
            // A cache must not give this response, with its permission, to a page of another origin.
            headers.insert(VARY, HeaderValue::from_static("origin"));
        }
        Some(response)
    }

    async fn of_stream(self, id: Option<AnswerId>) -> Result<Response<Body>, Refusal> {
        if !matches!(self.method, Method::GET | Method::HEAD | Method::DELETE) {
            return Err(METHOD);
        }
        let id = id.ok_or_else(|| self.answers.refuse("unknown", UNKNOWN))?;
        name_in_log(id, &Span::current());
        if self.method == Method::DELETE {
            self.answers.delete(id, &self.credential).await?;
            return Ok(no_content());
        }
        let found = self.answers.find(id, &self.credential).await?;
        let log = found
            .log
            .map_err(|gone| self.answers.refused(&gone.into()))?;
        match self.durable {
            _ if self.method == Method::HEAD => Ok(described(id, &found, log)),
            Some(query) => {
                let query = query.map_err(|mistake| self.answers.refuse("refused", mistake))?;
                self.answers
                    .bytes(id, (&found, log), query, &self.takeover)
                    .await
            }
            None => {
                let after = position(self.last.as_deref())
                    .map_err(|mistake| self.answers.refuse("refused", mistake))?;
                if self.answers.has_all(&found, after)? {
                    self.answers.count_read(&found);
                    return Ok(no_content());
                }
                self.answers
                    .rest(id, &found, (after, None), &self.takeover)
                    .await
            }
        }
    }

    /// Deletes the kept answer of a response. The upstream, which stores the response itself,
    /// answers the request.
    async fn forget_response(&self, id: &str) {
        let Some(name) = response_name(&self.credential, id) else {
            return;
        };
        if let Ok(Some((id, Found { log: Ok(_), .. }))) =
            self.answers.one_named(name, &self.credential).await
        {
            name_in_log(id, &Span::current());
            // `refused` has already logged a failure of the store.
            let _ = self.answers.delete(id, &self.credential).await;
        }
    }

    /// Answers for an id of the Responses API. `None`: this caller has no kept answer with this id.
    async fn of_response(&self, id: &str, starting_after: Option<u64>) -> Option<Response<Body>> {
        let name = response_name(&self.credential, id)?;
        let (answers, after) = (&self.answers, (Position::START, starting_after));
        let rest = match answers.one_named(name, &self.credential).await {
            Ok(found) => answers.rest_of(found?, after, &self.takeover).await,
            Err(refusal) => Err(refusal),
        };
        Some(rest.unwrap_or_else(|refusal| refusal.answer(Some(Dialect::Responses))))
    }
}

fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Returns the id in `/v1/responses/{id}`, below any prefix.
fn id_of_response(path: &str) -> Option<&str> {
    let (before, id) = path.rsplit_once('/')?;
    (before.ends_with("/responses") && !id.is_empty()).then_some(id)
}

impl ResumeTarget {
    /// Reads `/v1/responses/{id}?stream=true&starting_after=N`, below any prefix.
    fn of_response(path: &str, query: Option<&str>) -> Option<Self> {
        let id = id_of_response(path)?;
        let is_stream = values(query, "stream").next() == Some("true");
        let starting_after = values(query, "starting_after").next();
        let starting_after = starting_after.map(str::parse).transpose().ok()?;
        is_stream.then(|| Self::Response {
            id: id.to_owned(),
            starting_after,
        })
    }
}

impl KeptAnswers {
    /// Returns the store's state of an answer of this caller.
    pub(super) async fn find(
        &self,
        id: AnswerId,
        credential: &Credential,
    ) -> Result<Found, Refusal> {
        match self.store.look_up(id).await {
            Ok(found) if credential.is_of(id, &found.caller) => Ok(found),
            // Another caller gets the same error as for a missing answer.
            Ok(_) | Err(StoreError::Unknown) => Err(self.refuse("unknown", UNKNOWN)),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Returns the answer with a name. Prefers a kept answer to expired ones.
    pub(super) async fn one_named(
        &self,
        name: Name,
        credential: &Credential,
    ) -> Result<Option<(AnswerId, Found)>, Refusal> {
        let ids = self
            .store
            .named(name)
            .await
            .map_err(|error| self.refused(&error))?;
        let mut gone = None;
        let mut kept = None;
        for id in ids {
            let found = match self.store.look_up(id).await {
                Ok(found) => found,
                Err(StoreError::Unknown) => continue,
                Err(error) => return Err(self.refused(&error)),
            };
            if !credential.is_of(id, &found.caller) {
                continue;
            }
            match (found.log, &kept) {
                (Err(_), _) => gone = Some((id, found)),
                (Ok(_), None) => kept = Some((id, found)),
                // Nothing decides between two: a wrong one would be another text.
                (Ok(_), Some(_)) => return Err(self.refuse("refused", SEVERAL)),
            }
        }
        Ok(kept.or(gone))
    }

    /// Returns the events after a position as a response, if the answer is kept.
    pub(super) async fn rest_of(
        &self,
        (id, found): (AnswerId, Found),
        after: (Position, Option<u64>),
        takeover: &Arc<TakeoverContext>,
    ) -> Result<Response<Body>, Refusal> {
        name_in_log(id, &Span::current());
        found.log.map_err(|gone| self.refused(&gone.into()))?;
        self.rest(id, &found, after, takeover).await
    }

    /// Returns the events after a position as a response.
    async fn rest(
        &self,
        id: AnswerId,
        found: &Found,
        (after, starting_after): (Position, Option<u64>),
        takeover: &Arc<TakeoverContext>,
    ) -> Result<Response<Body>, Refusal> {
        if self.has_all(found, after)? {
            self.count_read(found);
            let mut response = Response::new(Body::empty());
            described_by(response.headers_mut(), id, found);
            return Ok(response);
        }
        self.check(id, found, after).await?;
        self.revive(id, found, takeover).await?;
        // The reader keeps the answer in the store from here on.
        let follow = self.follow(
            (id, found.keep),
            after,
            self.reader(id, after),
            &takeover.proxy.limits,
        );
        // Before the head is sent: later, an error could only break the body off.
        match self.store.read_after(id, after, Duration::ZERO).await {
            Ok(_) | Err(StoreError::Unwritten) => {}
            Err(error) => return Err(self.refused(&error)),
        }
        self.count_read(found);
        let follow = follow
            .starting_after(starting_after)
            .with_takeover(Arc::clone(takeover));
        let mut response = Response::new(Body::stream(follow.stream()));
        let headers = response.headers_mut();
        described_by(headers, id, found);
        Ok(response)
    }

    /// Checks before the response begins that a position belongs to the answer. After a failure the
    /// store may lack events that clients have, and a resuming process writes different ones.
    async fn check(&self, id: AnswerId, found: &Found, at: Position) -> Result<(), Refusal> {
        if found.log.is_ok_and(|log| at > log.last) {
            return Err(self.refuse("refused", AHEAD));
        }
        if at == Position::START
            || self
                .store
                .has(id, at)
                .await
                .map_err(|error| self.refused(&error))?
        {
            return Ok(());
        }
        match self.store.read_after(id, at, Duration::ZERO).await {
            Ok(_) | Err(StoreError::Ahead | StoreError::Unwritten) => {
                Err(self.refuse("refused", AHEAD))
            }
            // The event was dropped, or the answer is gone.
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Resumes an unfinished answer without a writer.
    async fn revive(
        &self,
        id: AnswerId,
        found: &Found,
        takeover: &Arc<TakeoverContext>,
    ) -> Result<(), Refusal> {
        if found
            .log
            .is_ok_and(|log| log.end.is_none() && !log.is_written)
        {
            takeover
                .take_over(id)
                .await
                .map_err(|error| self.refused(&error))?;
        }
        Ok(())
    }

    /// Returns whether a client that has the events up to a position has the whole answer. Such a
    /// read does not renew the answer's time: an `EventSource` connects again after each end of a
    /// stream, until it gets a 204 or an error.
    fn has_all(&self, found: &Found, after: Position) -> Result<bool, Refusal> {
        let log = found.log.as_ref().ok();
        let log = log.filter(|log| log.last == after && after != Position::START);
        match log.and_then(|log| log.end) {
            None => Ok(false),
            Some(End::Whole) => Ok(true),
            Some(End::Broken) => Err(self.refuse("refused", BROKEN)),
        }
    }

    fn count_read(&self, found: &Found) {
        self.count(if found.log.is_ok_and(|log| log.end.is_some()) {
            "ended"
        } else {
            "running"
        });
    }

    /// Returns the events after an offset in the protocol of Durable Streams.
    async fn bytes(
        &self,
        id: AnswerId,
        (found, log): (&Found, Log),
        query: durable::Query,
        takeover: &Arc<TakeoverContext>,
    ) -> Result<Response<Body>, Refusal> {
        if let Some(at) = query.after() {
            self.check(id, found, at).await?;
        }
        self.revive(id, found, takeover).await?;
        let source = durable::AnswerSource {
            store: Arc::clone(&self.store),
            id,
            content_type: EVENT_STREAM,
            write: follow::write,
            patience: PATIENCE,
        };
        let response = durable::answer(source, log, query)
            .await
            .map_err(|error| self.refused(&error))?;
        self.count_read(found);
        Ok(response)
    }

    /// Stops an answer of this caller and removes it.
    async fn delete(&self, id: AnswerId, credential: &Credential) -> Result<(), Refusal> {
        // First the writer: it would write events to an answer that the store no longer has.
        let is_running = self.stop_running(id, credential);
        if !is_running {
            self.find(id, credential)
                .await?
                .log
                .map_err(|gone| self.refused(&gone.into()))?;
        }
        match self.store.delete(id).await {
            // The store has no events of it: none have arrived yet, or only connected readers get
            // them.
            Err(StoreError::Unknown) if is_running => {}
            deleted => deleted.map_err(|error| self.refused(&error))?,
        }
        tracing::debug!("a kept answer was deleted");
        Ok(())
    }

    /// Stops an answer of this caller that this process writes, and returns whether it writes it.
    /// Readers of an answer that the store no longer keeps lose their connection.
    fn stop_running(&self, id: AnswerId, credential: &Credential) -> bool {
        let running = self.running();
        let own = running
            .get(&id)
            .filter(|running| credential.is_of(id, &running.caller));
        own.map(|running| running.live.stop()).is_some()
    }

    pub(super) fn refuse(&self, outcome: &'static str, refusal: Refusal) -> Refusal {
        self.count(outcome);
        refusal
    }

    /// Returns the refusal for an error of the store.
    pub(super) fn refused(&self, error: &StoreError) -> Refusal {
        match error {
            StoreError::Unknown => self.refuse("unknown", UNKNOWN),
            StoreError::Expired => self.refuse("expired", EXPIRED),
            StoreError::Dropped(limit) => self.refuse("expired", dropped(limit)),
            StoreError::Ahead => self.refuse("refused", AHEAD),
            StoreError::Full(_)
            | StoreError::Fenced
            | StoreError::Unwritten
            | StoreError::Failed(_) => {
                tracing::warn!(%error, "the store of kept answers failed");
                self.refuse("failed", UNREACHABLE)
            }
        }
    }
}

/// Reads `Last-Event-ID`. A client without events sends none, or an empty one.
fn position(last: Option<&[u8]>) -> Result<Position, Refusal> {
    let Some(last) = last.map(<[u8]>::trim_ascii).filter(|last| !last.is_empty()) else {
        return Ok(Position::START);
    };
    let last = std::str::from_utf8(last)
        .ok()
        .and_then(|last| last.parse().ok());
    last.ok_or_else(|| {
        Refusal::of_mistake("`Last-Event-ID` is no id of an event of this proxy".to_owned())
    })
}

/// Describes an answer without its events.
fn described(id: AnswerId, found: &Found, log: Log) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    described_by(headers, id, found);
    set(headers, LAST_EVENT_ID, &log.last);
    let state = match log.end {
        None => "running",
        Some(End::Whole) => "whole",
        Some(End::Broken) => "broken",
    };
    headers.insert(STATE, HeaderValue::from_static(state));
    durable::describe(headers, log);
    response
}

fn described_by(headers: &mut HeaderMap, id: AnswerId, found: &Found) {
    headers.insert(CONTENT_TYPE, EVENT_STREAM);
    // An answer grows, so a stored response would be its beginning.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set(headers, STREAM, &id);
    set(headers, KEEP, &found.keep.as_secs());
}

pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// The longest wait of a poll, and the silence of an event stream before a comment.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) const UNKNOWN: Refusal = Refusal::new(
    StatusCode::NOT_FOUND,
    "unknown_stream",
    "this proxy keeps no such answer for you: send the credential that the request had, or ask again",
);
const EXPIRED: Refusal = Refusal::new(
    StatusCode::GONE,
    "expired_stream",
    "the answer is no longer kept, since nobody has read it for too long: ask again",
);
const BROKEN: Refusal = Refusal::new(
    StatusCode::GONE,
    "broken_stream",
    "the answer broke off, and you have all its events: ask again",
);
const SEVERAL: Refusal = Refusal::new(
    StatusCode::CONFLICT,
    "several_streams",
    "several answers to this request are kept: name one in the header `x-restitch-stream`",
);
const AHEAD: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "unknown_event",
    "the answer has no event at this position: send the last `Last-Event-ID` or `offset` that came from this answer",
);
const METHOD: Refusal = Refusal::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "method_refused",
    "a kept answer can be read with GET, described with HEAD, and stopped with DELETE",
)
.allowing("GET, HEAD, DELETE");
const UNREACHABLE: Refusal = Refusal::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "store",
    "the store of kept answers does not answer: try again later",
);

/// Returns the refusal that names the limit which has dropped the requested events.
fn dropped(limit: &'static str) -> Refusal {
    Refusal::of(
        StatusCode::GONE,
        limit,
        format!(
            "the events after this one are no longer kept, since `{limit}` was reached: ask again"
        ),
    )
}
