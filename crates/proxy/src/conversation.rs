//! One answer: whether the proxy reads it, and how it continues a cut one.

mod opening;
mod response;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt, iter};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyDataStream;
use tokio::time::timeout;
use tracing::Instrument;

use opening::Opening;
pub(super) use response::is_invalid_request;
pub use response::is_stream;
pub(super) use response::is_unavailable;
use response::{EVENT_STREAM, JSON, media_type, media_type_in_log};
pub(crate) use response::{is_transient, retry_after};

use super::answers::{ObservedStream, Stopped};
use super::body::IdleTimeoutBody;
use super::caller::Caller;
use super::encoding::{self, DecodedBody};
use super::error_redactor::{RedactedBody, without_key};
use super::fallback::without_foreign_headers;
use super::kept::StopOnDrop;
use super::record::Event;
use super::refusal::{RetryAdvice, unreachable};
use super::rest_call::{RestCall, lost, raised_limit, rejected};
use super::resume::Retention;
use super::upstream::late;
use restitch::TransportLimits;
use restitch::internal::capability::CapabilityHint;
use restitch::internal::record::Change;
use restitch::internal::relay::{AnswerOptions, BodyRelay, Output, Reattach, Relay, TransportEnd};
use restitch::internal::wire::Framing;
use restitch::repair::RepairLevel;
use restitch::session::{CallEnd, FailureReason, GiveUp, Request, Retry};
use restitch::stream::Stitch;
use restitch_http::{Body, BodyError, Error, Received};

/// A request that the proxy has read, and whose answer it can continue.
pub(super) struct Conversation {
    pub(super) caller: Caller,
    pub(super) policy: AnswerPolicy,
}

/// The treatment of an answer.
pub(super) struct AnswerPolicy {
    /// The ending of an answer that can't be completed.
    pub(super) give_up: GiveUp,
    /// How much repair may change the JSON in the answer.
    pub(super) repair: RepairLevel,
    /// `None`: the answer ends with its client.
    pub(super) keep: Option<Retention>,
}

/// The bytes of a call's stream.
type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, CallError>> + Send>>;

/// The reason why a further call brought no stream.
#[derive(Debug)]
pub(super) struct CallError(pub(super) CallEnd);

impl From<BodyError> for CallError {
    fn from(error: BodyError) -> Self {
        Self(CallEnd::Error(error.to_string()))
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(reason) = self.0.refusal() {
            return f.write_str(reason);
        }
        match &self.0 {
            CallEnd::Error(reason) => f.write_str(reason),
            CallEnd::Overloaded => f.write_str("most calls to the upstream fail"),
            CallEnd::Stopped => f.write_str("the answer was stopped"),
            _ => f.write_str("the upstream broke off"),
        }
    }
}

impl std::error::Error for CallError {}

impl Conversation {
    /// Creates a conversation with the route's settings. Boxed, since it is large and moves through
    /// several functions.
    pub(super) fn new(caller: Caller) -> Box<Self> {
        let policy = AnswerPolicy {
            give_up: caller.route.give_up,
            repair: caller.route.repair,
            keep: None,
        };
        Box::new(Self { caller, policy })
    }

    /// Reports an output of the session to the log, the metrics and the page, and notes whether the
    /// upstream has failed.
    pub(super) fn observed(&self, output: &Output) {
        let change = self.caller.proxy.observed(output, &self.caller);
        let Some(at) = change.and_then(Change::call) else {
            return;
        };
        let record = self.caller.exchange.record();
        let Some(call) = record.answer.calls.get(at) else {
            return;
        };
        match (change, &call.failure, &call.cut) {
            (Some(Change::Failed(_)), Some(failure), _) => {
                let upstreams = &self.caller.upstreams;
                match &failure.reason {
                    // A call that finished with reasoning alone is not a failure of the upstream,
                    // so the session calls it again.
                    FailureReason::Nothing(end) => {
                        upstreams.set_failed(!matches!(end, CallEnd::Finished(_)));
                    }
                    FailureReason::NewDocument { keeps_format } => {
                        let hint = match keeps_format {
                            true => CapabilityHint::PrefillDropsFormat,
                            false => CapabilityHint::NoPrefill,
                        };
                        upstreams.record(self.caller.model(), hint);
                    }
                    FailureReason::Unenforced => {
                        upstreams.record(self.caller.model(), CapabilityHint::NoGrammar);
                    }
                    _ => {}
                }
            }
            (Some(Change::Cut(_)), _, Some(cut)) if self.was_silent(&cut.end, cut.quiet) => {
                self.caller.upstreams.set_failed(true);
            }
            _ => {}
        }
    }

    /// Returns whether silence ended a call: a time limit ended it, or the upstream closed the
    /// stream after a silence of at least half the idle timeout.
    fn was_silent(&self, end: &CallEnd, quiet: Duration) -> bool {
        match end {
            CallEnd::TimedOut(_) => true,
            // A gateway before the model may give up earlier than this proxy does.
            CallEnd::Dropped | CallEnd::Closed => {
                quiet >= self.caller.limits.transport.idle().time / 2
            }
            _ => false,
        }
    }

    /// Returns the bytes of a response's body, and records the time of the first ones.
    fn frames(&self, body: DecodedBody, framing: Framing) -> Frames {
        let body = RedactedBody::new(body, self.caller.error_redactor(Some(framing)));
        let tap = self.caller.proxy.shared.tap.clone();
        let mut waiting = Some(Arc::clone(&self.caller.exchange));
        Box::pin(BodyDataStream::new(body).map(move |data| {
            let data = data?;
            if let Some(exchange) = waiting.take() {
                exchange.apply(Event::FirstChunk);
            }
            if let Some(tap) = &tap {
                tap.response(&data);
            }
            Ok::<_, CallError>(data)
        }))
    }

    /// Answers with the first call's response. Continues a cut answer if it has the format that the
    /// request asked for.
    pub(super) async fn answer(self: Box<Self>, response: Response<Received>) -> Response<Body> {
        let response = match self.caller.upstreams.fallback() {
            Some(fallback) => without_foreign_headers(response, fallback),
            None => response,
        };
        tracing::debug!(
            continuations = self.caller.limits.continuation.max_continuations,
            on_give_up = self.policy.give_up.as_str(),
            repair = self.policy.repair.as_str(),
            "answering"
        );
        // An error passes, whatever its content type: there is nothing to continue.
        let media_type =
            media_type(response.headers()).filter(|_| response.status() == StatusCode::OK);
        let framing = media_type.and_then(|media_type| self.framing(media_type));
        if response.status() == StatusCode::OK && self.may_be_events(framing) {
            return Box::pin(self.by_first_bytes(response, framing)).await;
        }
        if !self.caller.route.continues()
            || framing.is_none() && (self.caller.request.parsed.stream || media_type != Some(JSON))
        {
            let is_read = framing.is_some() || media_type == Some(JSON);
            let redactor = match response.status().is_success() {
                false => self.caller.refusal_redactor(),
                true if is_read => self.caller.error_redactor(framing),
                true => None,
            };
            let Some(redactor) = redactor else {
                return self.stoppable(response);
            };
            // Compression would hide the key from the redactor.
            return match encoding::decoded(response) {
                Ok(response) => self.stoppable(without_key(response, Some(redactor))),
                Err(_) => encoding::UNREADABLE.answer(Some(self.caller.request.dialect)),
            };
        }
        match self.decoded(response) {
            Ok(response) => match framing {
                Some(framing) => self.stream(response, framing).await,
                None => Box::pin(self.whole(response)).await,
            },
            Err(passed) => *passed,
        }
    }

    /// Decodes a response. Fails with a response to pass on if its encoding is unknown.
    fn decoded(
        &self,
        response: Response<Received>,
    ) -> Result<Response<DecodedBody>, Box<Response<Body>>> {
        encoding::decoded(response).map_err(|unknown| {
            tracing::warn!(
                encoding = unknown.name,
                "an answer passes as it came, cut or not: its encoding is not known"
            );
            Box::new(self.stoppable(unknown.response))
        })
    }

    /// Passes a response on unchanged, until the operator ends it.
    fn stoppable<B>(&self, response: Response<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BodyError>,
    {
        let (stopped, limits) = (
            self.caller.exchange.stopped(),
            &self.caller.limits.transport,
        );
        response.map(|body| Body::wrap(punctual(body, limits).until(stopped)))
    }

    /// Returns whether the request asks for an event stream and the content type names another
    /// format. `framing`: the content type's.
    fn may_be_events(&self, framing: Option<Framing>) -> bool {
        let is_expected = self.caller.request.parsed.stream
            && self.caller.asked_by().wire().framing() == Framing::Events;
        is_expected && self.caller.route.continues() && framing != Some(Framing::Events)
    }

    /// Answers with a response whose content type is not an event stream's, by its first bytes.
    async fn by_first_bytes(
        self: Box<Self>,
        response: Response<Received>,
        framing: Option<Framing>,
    ) -> Response<Body> {
        let mut response = match self.decoded(response) {
            Ok(response) => response,
            Err(passed) => return *passed,
        };
        let opening = tokio::select! {
            opening = self.opening(response.body_mut()) => opening,
            // The same signal then ends the body of the response.
            () = self.caller.exchange.ended() => {
                let redactor = self.caller.error_redactor(None);
                return self.stoppable(without_key(response, redactor));
            }
        };
        match (opening, framing) {
            (Err(cause), _) => {
                self.caller.exchange.apply(Event::Head(Err(&cause)));
                self.caller.count(None);
                unreachable(
                    Some(self.caller.request.dialect),
                    &cause,
                    RetryAdvice::Never,
                )
            }
            (Ok(Opening::Events), _) => {
                // A client may check the content type, so the response gets the right one.
                response
                    .headers_mut()
                    .insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
                self.stream(response, Framing::Events).await
            }
            (Ok(_), Some(framing)) => self.stream(response, framing).await,
            (Ok(opening), None) => {
                tracing::warn!(
                    content_type = media_type_in_log(response.headers()),
                    first = opening.as_str(),
                    "an answer passes as it came, cut or not: it is not a stream of its API"
                );
                let is_json =
                    opening == Opening::Json || media_type(response.headers()) == Some(JSON);
                let redactor = if is_json {
                    self.caller.error_redactor(None)
                } else {
                    None
                };
                self.stoppable(without_key(response, redactor))
            }
        }
    }

    /// Reads the first bytes of a body, within the time limit of a response's head.
    async fn opening(&self, body: &mut DecodedBody) -> Result<Opening, Error> {
        let limit = self.caller.route.head_limit;
        timeout(limit.time, Opening::of(body))
            .await
            .map_err(|_| late(limit))
    }

    async fn stream(
        mut self: Box<Self>,
        response: Response<DecodedBody>,
        framing: Framing,
    ) -> Response<Body> {
        let (mut parts, first) = response.into_parts();
        let first = self.frames(first, framing);
        // Continuations may make the stream longer than the first response announced.
        parts.headers.remove(CONTENT_LENGTH);
        let (dialect, proxy, exchange) = (
            self.caller.request.dialect,
            Arc::clone(&self.caller.proxy),
            Arc::clone(&self.caller.exchange),
        );
        let keep = self
            .policy
            .keep
            .take()
            // The store keeps events: the elements of an array and lines have no ids to continue
            // from.
            .filter(|_| framing == Framing::Events);
        let goes_on = keep.as_ref().is_some_and(Retention::outlives_process);
        // Another process resumes the answer, so the end of this process does not end it.
        let cut = if goes_on {
            Stopped::never()
        } else {
            exchange.cut.asked()
        };
        let relay = self.relay(framing);
        let stream = self.stitched(first, relay, framing, cut);
        let body = match keep {
            Some(keep) => {
                let with = (&proxy.limits, &exchange);
                Box::pin(keep.start(stream, dialect, &mut parts.headers, with)).await
            }
            None => Body::stream(stream),
        };
        Response::from_parts(parts, body)
    }

    /// Resumes an answer from its logged events. Never reattaches to the upstream after the last
    /// logged event: after a seam the upstream does not know that event, and would send other bytes
    /// than those in the log.
    pub(super) fn resumed(self: Box<Self>, events: Vec<Bytes>) -> ObservedStream {
        // The first process has shown and measured these events, and is gone: after them the
        // connection counts as lost.
        let lost = Err(CallError(CallEnd::Dropped));
        let log = iter(events.into_iter().map(Ok).chain([lost]));
        let relay = self.relay(Framing::Events).reattaching(Reattach::Never);
        self.stitched(Box::pin(log), relay, Framing::Events, Stopped::never())
    }

    /// Reads the first call's stream, and makes the calls for the rest. `cut`: the signal that ends
    /// the answer.
    fn stitched(
        self: Box<Self>,
        first: Frames,
        relay: Relay,
        framing: Framing,
        cut: Stopped,
    ) -> ObservedStream {
        let is_lost = Arc::new(AtomicBool::new(false));
        let observed = Arc::clone(&is_lost);
        let dialect = self.caller.request.dialect;
        let answer = self.caller.exchange.answer().cloned();
        let limits = self.caller.proxy.limits.clone();
        let kept = self.caller.kept_stream().map(StopOnDrop);
        let conversation: Arc<Self> = Arc::from(self);
        let observing = Arc::clone(&conversation);
        let reopen = move |retry: Retry| {
            let conversation = Arc::clone(&conversation);
            let span = conversation.caller.exchange.span().clone();
            async move { conversation.reopen(retry.request(), framing).await }.instrument(span)
        };
        let stitch = Stitch::new(relay, (Arc::default(), dialect), first, reopen);
        let stitch = stitch
            .on_rejection(|refused: &CallError| refused.0.clone())
            .observe_all(move |output| {
                if matches!(
                    output,
                    Output::Done {
                        transport_end: TransportEnd::Dropped,
                        ..
                    }
                ) {
                    observed.store(true, Ordering::Relaxed);
                }
                observing.observed(output);
            });
        let source = (dialect, framing);
        ObservedStream::new((stitch, is_lost), cut, answer, source, kept, &limits)
    }

    /// Returns the framing of a stream of a media type. `None`: the request asks for no stream, or
    /// the API has no stream of this type.
    fn framing(&self, media_type: &str) -> Option<Framing> {
        let wire = self.caller.asked_by().wire();
        let framing = Framing::of_content_type(media_type)?;
        (self.caller.request.parsed.stream && wire.takes_framing(framing)).then_some(framing)
    }

    /// Makes a further call, and fails unless a stream answers it.
    async fn reopen(&self, request: &Request, framing: Framing) -> Result<Frames, CallError> {
        let mut response = RestCall::new(&self.caller, request)
            .make()
            .await
            .map_err(CallError)?;
        let wire = self.caller.asked_by();
        // An API with several framings answers a further call in that of the first one.
        let framing = if wire == self.caller.request.dialect {
            framing
        } else {
            wire.wire().framing()
        };
        let found = media_type(response.headers()).and_then(|found| self.framing(found));
        let is_framed = found == Some(framing)
            || framing == Framing::Events
                && self.may_be_events(found)
                && self
                    .opening(response.body_mut())
                    .await
                    .map_err(|late| CallError(lost(late)))?
                    == Opening::Events;
        if is_framed {
            return Ok(self.frames(response.into_body(), framing));
        }
        let found = media_type(response.headers()).unwrap_or("no type");
        Err(CallError(rejected(
            format!("the upstream answered with {found}"),
            false,
        )))
    }

    fn relay(&self, framing: Framing) -> Relay {
        let caller = &self.caller;
        let upstreams = &caller.upstreams;
        let is_kept = caller.request.head.stream_name().is_some()
            && caller.may_keep_stream()
            && upstreams.fallback().is_none();
        // llama.cpp's kept stream is read from a byte on, the Responses API's from an event on.
        let reattach = if is_kept {
            Reattach::NextByte
        } else {
            Reattach::NextEvent
        };
        let parsed = &caller.request.parsed;
        let relay = Relay::of(caller.request.dialect, framing, caller.limits.clone())
            .reattaching(reattach)
            .raising_limit(raised_limit(caller).is_some())
            .request(parsed.tools.clone(), parsed.n)
            .prose(caller.route.prose);
        // The report names upstreams only where the client's own one has not answered.
        let relay = match upstreams.fallback() {
            Some(_) => relay.answered_by(upstreams.address()),
            None => relay,
        };
        self.configured(relay)
    }

    pub(super) fn body_relay(&self) -> BodyRelay {
        let caller = &self.caller;
        let relay = BodyRelay::new(caller.limits.clone())
            .dialect(caller.request.dialect)
            .continuing_by_token()
            .raising_limit(raised_limit(caller).is_some())
            .tools(caller.request.parsed.tools.clone());
        self.configured(relay)
    }

    /// Sets the options of a stream and of a whole answer.
    fn configured<R: AnswerOptions>(&self, relay: R) -> R {
        let caller = &self.caller;
        let (request, capability) = (&caller.request, caller.capability());
        let parsed = &request.parsed;
        let base = parsed.base.clone().of_model(&capability, parsed.stream);
        let relay = relay
            .strategy(caller.strategy(capability))
            .give_up(self.policy.give_up)
            .repair(self.policy.repair)
            .schema(parsed.schema.as_deref())
            .client_request(&request.body)
            .prompt_tokens(request.estimated_tokens())
            .raised_limit(request.raised_limit())
            .base(&base)
            .model(caller.model());
        // The client's own stop sequence may end a document before its root is closed.
        match parsed.has_stop {
            true => relay.trust_stop(),
            false => relay,
        }
    }
}

/// Passes a response on unchanged, but fails if its body is silent for too long.
pub(super) fn passed<B>(response: Response<B>, limits: &TransportLimits) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    response.map(|body| Body::wrap(punctual(body, limits)))
}

/// Ends an unread body of an upstream if it is silent for longer than the limit of the first byte,
/// the longest silence that answers may have.
fn punctual<B>(body: B, limits: &TransportLimits) -> IdleTimeoutBody<B> {
    IdleTimeoutBody::new(body, limits.first_byte())
}

pub(super) use restitch::internal::rest_call::REFUSAL;
