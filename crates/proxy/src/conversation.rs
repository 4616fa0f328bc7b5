//! Decides whether the proxy reads an answer, and how it continues a cut one.

mod opening;
mod response;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Response, StatusCode};
use http_body_util::BodyStream;
use tokio::time::Instant;
use tracing::Instrument;

use opening::Opening;
pub(super) use response::is_invalid_request;
pub use response::is_stream;
pub(super) use response::is_unavailable;
use response::{JSON, framing_of, media_type};
pub use response::{is_transient, retry_after};

use super::Proxy;
use super::answers::{Answer, Stopped, Watched};
use super::body::Punctual;
use super::content::Content;
use super::encoding::{self, DecodedBody};
use super::exchange::Exchange;
use super::frames::{Answering, BrokenOff, Frames, Source};
use super::further::{lost, rejected};
use super::kept::{KeptStream, StopOnDrop};
use super::masked::{Mask, Masked, masked_body};
use super::resume::Keep;
use super::retries::Retries;
use super::route::Route;
use super::upstream::Head;
use restitch::internal::capability::CapabilityHint;
use restitch::internal::chat;
use restitch::internal::relay::{AnswerOptions, Reattach, Relay};
use restitch::internal::relay::{BodyRelay, Output, TransportEnd};
use restitch::internal::wire::{Base, Framing};
use restitch::provider::Dialect;
use restitch::provider::capability::{Capability, PrefillForm};
use restitch::repair::RepairLevel;
use restitch::session::{
    CallEnd, ContinuationStrategy, FailureReason, GiveUp, PrefillOptions, Request, Retry,
    SessionEvent,
};
use restitch::stream::Stitch;
use restitch::{Limits, TransportLimits};
use restitch_http::{Body, BodyError, Error, Received};

/// A request that the proxy has parsed, and whose answer it can continue.
#[derive(Clone, Debug)]
pub(super) struct Conversation {
    pub(super) proxy: Arc<Proxy>,
    pub(super) route: Arc<Route>,
    /// The route's limits, lowered by the request.
    pub(super) limits: Limits,
    /// The ending of an answer that can't be completed.
    pub(super) give_up: GiveUp,
    /// How much repair may change the JSON in the answer.
    pub(super) repair: RepairLevel,
    pub(super) head: Head,
    /// The request's body. It is JSON, so it is UTF-8.
    pub body: Bytes,
    pub(super) dialect: Dialect,
    pub(super) request: chat::Request,
    /// The stage that the request names expects JSON.
    pub(super) expects_json: bool,
    /// The proxy has added `response_format` to the body.
    pub(super) adds_json_mode: bool,
    /// The members and headers of the request that the proxy has changed.
    pub(super) adapted: BTreeSet<&'static str>,
    /// The index of the current upstream: 0 is the route's own one, its fallbacks follow.
    pub at: Arc<AtomicUsize>,
    /// The last call fell silent or brought no text, so the upstream has failed and not the join.
    pub(super) has_failed: Arc<AtomicBool>,
    /// The time since which continuations wait because most calls fail.
    held_since: Arc<Mutex<Option<Instant>>>,
    /// The repeated calls to the current upstream.
    pub(super) retries: Arc<Mutex<Retries>>,
    /// The log already reports that no fallback may get the body.
    pub(super) is_refused: Arc<AtomicBool>,
    pub(super) exchange: Arc<Exchange>,
    /// Set if the log contains the texts of requests and answers.
    pub(super) content: Option<Content>,
    /// `None`: the answer ends with its client.
    pub(super) keep: Option<Keep>,
}

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
    pub(super) fn new(
        proxy: Arc<Proxy>,
        route: Arc<Route>,
        head: Head,
        body: Bytes,
        dialect: Dialect,
        request: chat::Request,
        exchange: Arc<Exchange>,
    ) -> Box<Self> {
        exchange.note_route(&route);
        exchange.note_request(
            dialect,
            route.client.upstream().host(),
            &request.model,
            request.stream,
        );
        let (mut limits, give_up, repair) = (route.limits.clone(), route.give_up, route.repair);
        if let Some(own) = request.max_tokens {
            limits
                .continuation
                .limit_total_tokens(own.saturating_mul(request.n.max(1)));
        }
        let head = head.uncompressed().copied();
        let fallbacks = || {
            route
                .fallbacks
                .iter()
                .filter_map(|fallback| fallback.key.as_deref())
        };
        let own_keys = || fallbacks().chain(proxy.access.token.as_deref());
        let content = proxy
            .shared
            .logs_content
            .then(|| Content::new(&head, own_keys()));
        let (expects_json, adds_json_mode) = (false, false);
        let adapted = BTreeSet::new();
        Box::new(Self {
            proxy,
            route,
            limits,
            give_up,
            repair,
            head,
            body,
            dialect,
            request,
            expects_json,
            adds_json_mode,
            adapted,
            at: Arc::default(),
            has_failed: Arc::default(),
            held_since: Arc::default(),
            retries: Arc::default(),
            is_refused: Arc::default(),
            exchange,
            content,
            keep: None,
        })
    }

    /// Passes a request to the tap, and to the log if the log contains texts.
    pub(super) fn show_request(&self, number: u32, body: &[u8]) {
        if let Some(tap) = &self.proxy.shared.tap {
            tap.request(number, body);
        }
        self.content
            .iter()
            .for_each(|content| content.log("request", number, body));
    }

    /// Passes a refusal to the tap, and to the log if the log contains texts.
    pub(super) fn show_refusal(&self, body: &[u8]) {
        if let Some(tap) = &self.proxy.shared.tap {
            tap.response(body);
        }
        self.content
            .iter()
            .for_each(|content| content.log("refusal", 0, body));
    }

    /// Reports an output of the session to the log, the metrics and the page, and notes whether the
    /// upstream has failed.
    pub(super) fn observed(&self, output: &Output) {
        match output {
            Output::Event(
                SessionEvent::Failed {
                    reason: FailureReason::Nothing(end),
                    ..
                }
                | SessionEvent::Waiting {
                    reason: FailureReason::Nothing(end),
                    ..
                },
            ) => {
                // A call that finished with reasoning alone is not a failure of the upstream, so
                // the session calls it again.
                self.has_failed
                    .store(!matches!(end, CallEnd::Finished(_)), Ordering::Relaxed);
            }
            Output::Event(SessionEvent::Cut { end, quiet, .. }) if self.was_silent(end, *quiet) => {
                self.has_failed.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
        self.proxy.observed(output, &self.exchange);
    }

    /// Returns whether silence ended a call: a time limit ended it, or the upstream closed the
    /// stream after a silence of at least half the idle timeout.
    fn was_silent(&self, end: &CallEnd, quiet: Duration) -> bool {
        match end {
            CallEnd::TimedOut(_) => true,
            CallEnd::Dropped | CallEnd::Closed => quiet >= self.limits.transport.idle().time / 2,
            _ => false,
        }
    }

    /// Returns the capability of the current model.
    pub(super) fn capability(&self) -> Capability {
        self.proxy
            .capability(&self.route, self.client().upstream(), self.model())
    }

    /// Records a capability hint from a refusal of the current model.
    pub(super) fn record(&self, hint: CapabilityHint) {
        self.proxy.shared.record(self.address(), self.model(), hint);
    }

    /// Counts a finished call by its status, or as failed if it has none.
    pub(super) fn count(&self, status: Option<StatusCode>) {
        self.proxy
            .shared
            .count(self.address(), self.model(), status);
    }

    /// Counts a failed call. A 429 with `Retry-After` does not count: an upstream that names the
    /// time for the next call is not in trouble.
    pub(super) fn count_failure(&self, answer: &Result<Response<Received>, Error>) {
        let status = answer.as_ref().ok().map(Response::status);
        let names_time = answer.as_ref().is_ok_and(|response| {
            response.status() == StatusCode::TOO_MANY_REQUESTS
                && retry_after(response.headers()).is_some()
        });
        if !names_time && !status.is_some_and(|status| status.is_success()) {
            self.count(status);
        }
    }

    /// Notes that the upstream has answered a call.
    pub(super) fn note_answer(&self) {
        self.count(Some(StatusCode::OK));
        self.exchange.note_answer(self.address());
    }

    /// Returns whether a continuation may be asked of the model now. While most calls fail, admits
    /// one call a second, and a call of each answer that has waited for `max_backoff`.
    pub(super) fn is_admitted(&self) -> bool {
        let mut held = self
            .held_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let has_waited = held
            .is_some_and(|since| now.duration_since(since) >= self.limits.transport.max_backoff);
        let is_admitted = self.proxy.shared.admits(self.address(), self.model()) || has_waited;
        *held = if is_admitted {
            None
        } else {
            Some(held.unwrap_or(now))
        };
        is_admitted
    }

    /// Returns the current upstream's host, with its port if the configuration names one.
    pub(super) fn address(&self) -> &str {
        self.client().upstream().authority()
    }

    fn frames(&self, body: DecodedBody, framing: Framing) -> Frames {
        let waiting = self
            .exchange
            .is_measured()
            .then(|| Arc::clone(&self.exchange));
        let body = Masked::new(body, self.mask(Some(framing)));
        Frames {
            source: Source::Body(BodyStream::new(body)),
            tap: self.proxy.shared.tap.clone(),
            waiting,
        }
    }

    /// Returns a mask that removes the current fallback's key from its errors.
    fn mask(&self, framing: Option<Framing>) -> Option<Mask> {
        Mask::new(
            self.fallback()?.key.as_deref()?,
            self.asked_by(),
            framing,
            &self.limits,
        )
    }

    /// Removes the current fallback's key from a body that is an error.
    pub(super) fn masked(&self, body: String) -> String {
        match self.fallback().and_then(|fallback| fallback.key.as_deref()) {
            Some(key) => masked_body(body, key, self.asked_by()),
            None => body,
        }
    }

    /// Answers with the first call's response. Continues a cut answer if it has the format that the
    /// request asked for.
    pub(super) async fn answer(self: Box<Self>, response: Response<Received>) -> Response<Body> {
        let response = self.without_foreign_headers(response);
        tracing::debug!(
            continuations = self.limits.continuation.max_continuations,
            on_give_up = self.give_up.as_str(),
            repair = self.repair.as_str(),
            "answering"
        );
        let media_type =
            media_type(response.headers()).filter(|_| response.status() == StatusCode::OK);
        let framing = media_type.and_then(|media_type| self.framing(media_type));
        if response.status() == StatusCode::OK && self.may_be_events(framing) {
            return Box::pin(self.by_first_bytes(response, framing)).await;
        }
        if !self.route.continues()
            || framing.is_none() && (self.request.stream || media_type != Some(JSON))
        {
            let is_read = framing.is_some() || media_type == Some(JSON);
            let mask = if is_read { self.mask(framing) } else { None };
            let (answer, limits) = (self.exchange.answer(), &self.limits.transport);
            let Some(mask) = mask else {
                return stoppable(response, answer, limits);
            };
            // Compression would hide the fallback's key from the mask.
            return match encoding::decoded(response) {
                Ok(response) => self.unread(response, Some(mask)),
                Err(unknown) => stoppable(unknown.response, answer, limits),
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
            Box::new(stoppable(
                unknown.response,
                self.exchange.answer(),
                &self.limits.transport,
            ))
        })
    }

    /// Passes an answer on without reading it.
    fn unread(&self, mut response: Response<DecodedBody>, mask: Option<Mask>) -> Response<Body> {
        if mask.is_some() {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        stoppable(
            response.map(|body| Masked::new(body, mask)),
            self.exchange.answer(),
            &self.limits.transport,
        )
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
            self.dialect,
            Arc::clone(&self.proxy),
            Arc::clone(&self.exchange),
        );
        let keep = self.keep.take().filter(|_| framing == Framing::Events);
        let goes_on = keep.as_ref().is_some_and(Keep::outlives_process);
        let cut = if goes_on {
            Stopped::never()
        } else {
            exchange.cut()
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
    pub(super) fn resumed(self: Box<Self>, events: Vec<Bytes>) -> impl Answering {
        let log = Frames {
            source: Source::Log(events.into_iter()),
            tap: None,
            waiting: None,
        };
        let relay = self.relay(Framing::Events).reattaching(Reattach::Never);
        self.stitched(log, relay, Framing::Events, Stopped::never())
    }

    /// Reads the first call's stream, and makes the calls for the rest. `cut`: the signal that ends
    /// the answer.
    fn stitched(
        self: Box<Self>,
        first: Frames,
        relay: Relay,
        framing: Framing,
        cut: Stopped,
    ) -> impl Answering {
        let is_lost = Arc::new(AtomicBool::new(false));
        let observed = Arc::clone(&is_lost);
        let (dialect, answer) = (self.dialect, self.exchange.answer());
        let limits = self.proxy.limits.clone();
        let content = self.content.as_ref().map(Content::answer);
        let kept = self.kept_stream().map(StopOnDrop);
        let conversation: Arc<Self> = Arc::from(self);
        let observing = Arc::clone(&conversation);
        let reopen = move |retry: Retry| {
            let conversation = Arc::clone(&conversation);
            let span = conversation.exchange.span().clone();
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
        let stream = Watched::new(stitch, cut, (answer, content), (dialect, framing), &limits);
        BrokenOff {
            stream,
            is_lost,
            _kept: kept,
        }
    }

    /// Returns the framing of a stream of a media type. `None`: the request asks for no stream, or
    /// the API has no stream of this type.
    fn framing(&self, media_type: &str) -> Option<Framing> {
        let wire = self.asked_by().wire();
        let framing = framing_of(media_type);
        let is_known =
            framing == wire.framing() || framing == Framing::Array && wire.array_writer().is_some();
        (self.request.stream && is_known).then_some(framing)
    }

    /// Makes a further call, and fails unless a stream answers it.
    async fn reopen(&self, request: &Request, framing: Framing) -> Result<Frames, CallError> {
        let mut response = self.call(request).await.map_err(CallError)?;
        let wire = self.asked_by();
        let framing = if wire == self.dialect {
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
        let is_kept = self.head.stream_name().is_some()
            && self.may_keep_stream()
            && self.fallback().is_none();
        let reattach = if is_kept {
            Reattach::NextByte
        } else {
            Reattach::NextEvent
        };
        let relay = Relay::of(self.dialect, framing, self.limits.clone()).reattaching(reattach);
        let relay = relay.request(self.request.tools.clone(), self.request.n);
        let relay = relay
            .strategy(self.strategy())
            .give_up(self.give_up)
            .repair(self.repair);
        let relay = relay.prose(self.route.prose);
        let relay = self
            .fallback()
            .is_some()
            .then(|| self.address())
            .into_iter()
            .fold(relay, Relay::answered_by);
        let relay = relay.base(&self.base()).model(self.model());
        if self.request.has_stop {
            relay.trust_stop()
        } else {
            relay
        }
    }

    /// Returns the base of the answer's document.
    fn base(&self) -> Base {
        self.request.base.clone().of_model(&self.capability())
    }

    /// Returns whether the server keeps the requested stream if the request names it.
    pub(super) fn may_keep_stream(&self) -> bool {
        let is_chat = self.request.stream && self.dialect == Dialect::Chat;
        is_chat && self.capability().keeps_streams
    }

    /// Returns the stream that the server keeps under a name that the proxy has given it.
    pub(super) fn kept_stream(&self) -> Option<KeptStream> {
        let head = self
            .head
            .stopping()
            .filter(|_| self.fallback().is_none() && self.may_keep_stream())?;
        Some(KeptStream {
            route: Arc::clone(&self.route),
            head,
        })
    }

    pub(super) fn body_relay(&self) -> BodyRelay {
        let relay = BodyRelay::new(self.limits.clone())
            .dialect(self.dialect)
            .strategy(self.strategy());
        let relay = relay.tools(self.request.tools.clone());
        let relay = relay
            .give_up(self.give_up)
            .repair(self.repair)
            .base(&self.base());
        let relay = relay.model(self.model());
        if self.request.has_stop {
            relay.trust_stop()
        } else {
            relay
        }
    }

    /// Returns the strategy of the calls for the rest.
    pub(super) fn strategy(&self) -> ContinuationStrategy {
        let capability = self.capability();
        let upstream = self.client().upstream().prefix();
        let (wire, is_foreign) = (self.asked_by(), self.asked_by() != self.dialect);
        // A prefill path would replace the path that the operator has configured.
        let is_reachable = capability
            .prefill_path
            .as_ref()
            .is_none_or(|path| upstream.is_empty() || upstream.ends_with(path.as_str()));
        // The other prefill variants, and the path, exist in Chat Completions only.
        let is_of_wire = match capability.prefill {
            PrefillForm::None => false,
            PrefillForm::Turn => true,
            _ => wire == Dialect::Chat,
        };
        // Reasoning rules out a prefill, but a translated request never asks for reasoning.
        let goes = is_of_wire && is_reachable && (is_foreign || !self.request.wants_reasoning);
        let goes = goes || wire.wire().always_continues();
        let options = PrefillOptions {
            rejects_trailing_space: capability.rejects_trailing_space,
            returns_prefill: capability.returns_prefill,
        };
        let raises = self.proxy.asking.token_factor > 1 && self.request.max_tokens.is_some();
        let mut strategy = ContinuationStrategy::default();
        strategy.prompt = Arc::clone(&self.proxy.asking.prompt);
        strategy.prefill = goes.then_some(options);
        strategy.keeps_json_mode =
            !is_foreign && self.request.has_json_mode && capability.keeps_json_mode();
        strategy.reduce_reasoning = capability.reasoning_off.is_some() || raises;
        strategy
    }
}

/// Passes a response on unchanged, until the operator ends it.
fn stoppable<B>(
    response: Response<B>,
    answer: Option<Arc<Answer>>,
    limits: &TransportLimits,
) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    let stopped = answer.map_or_else(Stopped::never, |answer| answer.stopped());
    response.map(|body| Body::wrap(punctual(body, limits).until(stopped)))
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
fn punctual<B>(body: B, limits: &TransportLimits) -> Punctual<B> {
    Punctual::new(body, limits.first_byte())
}

/// The most bytes that are read of a refusal. A larger one gives no hint about the model.
pub(super) const REFUSAL: usize = 64 << 10;
