//! Makes the first call, and adapts its request to the model if the operator has enabled that.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::time::{Instant, sleep, timeout};

use super::body::Collected;
use super::conversation::{Conversation, REFUSAL, is_invalid_request, is_unavailable, retry_after};
use super::fallback::{Part, Sent, has_failed, why};
use super::refusal::{Refusal, SHOULD_RETRY, unreachable};
use super::retries::FIRST_PAUSE;
use super::upstream;
use restitch::internal::capability::{self, CapabilityHint};
use restitch::internal::chat;
use restitch::internal::chat::Adaptation;
use restitch::internal::record::CallKind;
use restitch::provider::Dialect;
use restitch_http::{Body, ConnectionError, Error, PathError, Received};

/// Makes the first call and answers with its response, continued if it is cut. A header names the
/// changed members of the request.
pub(super) async fn answer(mut conversation: Box<Conversation>) -> Response<Body> {
    if conversation.proxy.asking.adapts {
        conversation.adapt();
        if conversation.may_keep_stream() && conversation.head.name_stream() {
            conversation.adapted.insert(upstream::CONVERSATION);
            tracing::debug!("asked for a stream that is kept");
        }
    }
    let mut adapted = BTreeSet::new();
    let mut response = first_call(conversation, &mut adapted).await;
    for member in adapted {
        response
            .headers_mut()
            .append(ADAPTED, HeaderValue::from_static(member));
    }
    response
}

/// Makes the first call, and repeats it if a refusal teaches the proxy to adapt the request, or to
/// withdraw its own addition. `adapted`: the members and headers that the proxy has changed in the
/// answered request.
async fn first_call(
    mut conversation: Box<Conversation>,
    adapted: &mut BTreeSet<&'static str>,
) -> Response<Body> {
    adapted.clone_from(&conversation.adapted);
    let response = match send(&conversation).await {
        Ok(response) => response,
        Err(refused) => return refused,
    };
    if !conversation.proxy.asking.adapts || !is_invalid_request(response.status()) {
        return conversation.answer(response).await;
    }
    let (parts, body) = response.into_parts();
    let idle = conversation.limits.transport.idle();
    let body = match Collected::read(body, REFUSAL, Some([idle, idle])).await {
        Ok(Collected::Whole(body)) => body,
        Ok(Collected::Larger(body)) => return Response::from_parts(parts, body),
        Err(_) => return UPSTREAM_BROKE_OFF.answer(Some(conversation.dialect)),
    };
    conversation.show_refusal(&body);
    let is_known = conversation.records_refusal(&body);
    // The upstream may refuse the proxy's addition although the model supports it: OpenAI requires
    // the word "json" in a message.
    let is_withdrawn = conversation.withdraw_json_mode();
    if !is_known && !is_withdrawn {
        return Response::from_parts(parts, Body::full(body));
    }
    conversation.adapt();
    adapted.clone_from(&conversation.adapted);
    match send(&conversation).await {
        Ok(response) => conversation.answer(response).await,
        Err(refused) => refused,
    }
}

/// Makes the first call. If it fails, asks the fallbacks of the same API in turn. If they fail,
/// too, the client gets the error of its own upstream: a fallback's error is about the operator's
/// key.
async fn send(conversation: &Conversation) -> Result<Response<Received>, Response<Body>> {
    tokio::select! {
        answer = first_answer(conversation) => answer,
        () = conversation.exchange.stopped() => Err(ended(conversation, STOPPED)),
        () = conversation.exchange.cut() => Err(ended(conversation, DRAINED)),
    }
}

/// Refuses a request whose call is still open.
fn ended(conversation: &Conversation, refusal: Refusal) -> Response<Body> {
    conversation.exchange.note_stop();
    refusal.answer(Some(conversation.dialect))
}

/// Makes the first call, and repeats it for a short time while the upstream and its fallbacks are
/// unavailable.
async fn first_answer(conversation: &Conversation) -> Result<Response<Received>, Response<Body>> {
    let patience = FIRST_PATIENCE.min(conversation.limits.continuation.patience);
    let mut pause = FIRST_PAUSE;
    // The deadline for repeats, counted from the first failure.
    let mut due = None;
    // The provider's last refusal.
    let mut refusal = None;
    loop {
        let asked_at = Instant::now();
        let answer = ask_each_upstream(conversation).await;
        let (ended_at, is_repeated) = (Instant::now(), due.is_some());
        let due = *due.get_or_insert(ended_at + patience);
        let is_lost_late =
            matches!(answer, Err(Error::Unanswered(_))) && ended_at - asked_at > SOON;
        let wait = match wait_before_repeat(&answer, pause, due.saturating_duration_since(ended_at))
        {
            Some(_) if is_lost_late && !is_gone(conversation).await => None,
            wait => wait,
        };
        let Some(wait) = wait else {
            let mut answer = answer
                .or_else(|error| refusal.ok_or(error))
                .map_err(|cause| unreachable(Some(conversation.dialect), &cause));
            match &mut answer {
                // The client's SDK would start all these repeats again.
                Ok(response) if is_repeated && !response.status().is_success() => {
                    response
                        .headers_mut()
                        .insert(SHOULD_RETRY, HeaderValue::from_static("false"));
                }
                // The proxy has not repeated the call, so the SDK decides by its own rule, as
                // without a proxy.
                Err(refused)
                    if is_lost_late && !is_repeated && !conversation.route.asks_again() =>
                {
                    refused.headers_mut().remove(SHOULD_RETRY);
                }
                _ => {}
            }
            return answer;
        };
        tracing::warn!(
            why = why(&answer),
            wait_ms = wait.as_millis() as u64,
            "the first call is made again"
        );
        refusal = answer.ok().or(refusal);
        sleep(wait).await;
        pause *= 2;
    }
}

/// Asks the upstream, and then its fallbacks in turn until one succeeds.
async fn ask_each_upstream(conversation: &Conversation) -> Result<Response<Received>, Error> {
    let mut answer = ask_upstream(conversation).await;
    if conversation.route.fallbacks.is_empty()
        || !(has_failed(&answer) || is_too_long(conversation, &mut answer).await)
    {
        return answer;
    }
    let (place, mut reason) = (conversation.place(), why(&answer));
    while conversation.move_on(Part::Whole, &reason) {
        let other = ask_upstream(conversation).await;
        if other
            .as_ref()
            .is_ok_and(|response| response.status().is_success())
        {
            return other;
        }
        reason = why(&other);
    }
    if conversation.place() > place {
        tracing::warn!(
            why = reason,
            "no fallback has answered: the client gets what the first upstream has said"
        );
    }
    conversation.move_back(place);
    conversation
        .exchange
        .note_upstream(answer.as_ref().ok().map(Response::status));
    answer
}

/// Asks one upstream. Repeats the call if the route allows it, or if the upstream requests a short
/// wait.
async fn ask_upstream(conversation: &Conversation) -> Result<Response<Received>, Error> {
    let has_fallback = !conversation.route.fallbacks.is_empty();
    let mut has_waited = false;
    loop {
        let answer = match has_fallback {
            true => send_to_first_byte(conversation).await,
            false => send_and_note(conversation).await,
        };
        // A silent upstream may be silent again, which would double the client's wait.
        if !has_failed(&answer) || answer.as_ref().is_err_and(Error::is_timeout) {
            return answer;
        }
        let asked = answer
            .as_ref()
            .ok()
            .and_then(|response| retry_after(response.headers()));
        let short = asked.filter(|wait| has_fallback && !has_waited && *wait <= SHORT_WAIT);
        let Some(wait) = short.or_else(|| conversation.pause_before_retry(asked)) else {
            return answer;
        };
        has_waited = true;
        tracing::info!(
            why = why(&answer),
            wait_ms = wait.as_millis() as u64,
            "the upstream is asked again"
        );
        sleep(wait).await;
    }
}

/// Returns whether an upstream refuses a request because it is too long for the model, so that
/// another model may accept it. Leaves the body of the refusal complete.
async fn is_too_long(
    conversation: &Conversation,
    answer: &mut Result<Response<Received>, Error>,
) -> bool {
    let Ok(response) = answer else { return false };
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return true;
    }
    if !is_invalid_request(response.status()) {
        return false;
    }
    let time = conversation.limits.transport.idle().time;
    let _ = timeout(time, poll_fn(|cx| response.body_mut().poll_first(cx))).await;
    let first = response.body().first().unwrap_or_default();
    capability::is_too_long(&String::from_utf8_lossy(&first[..first.len().min(REFUSAL)]))
}

/// Returns the wait before the first call is repeated: `Retry-After`, or `pause` cut to the
/// remaining time, so that the last call starts at the deadline. `None`: another call would not
/// help, or would start too late.
fn wait_before_repeat(
    answer: &Result<Response<Received>, Error>,
    pause: Duration,
    left: Duration,
) -> Option<Duration> {
    let asked = match answer {
        Ok(response) if is_unavailable(response.status()) => retry_after(response.headers()),
        Err(error) if error.is_connect() || matches!(error, Error::Unanswered(_)) => None,
        _ => return None,
    };
    Some(asked.unwrap_or(pause.min(left))).filter(|wait| *wait <= left && !left.is_zero())
}

/// Returns whether the upstream refuses connections. Such an upstream can't finish the lost call,
/// so a repeat is not billed twice.
async fn is_gone(conversation: &Conversation) -> bool {
    conversation.client().reach().await.is_err()
}

/// Makes the first call of a route with fallbacks, and waits for a stream's first byte: until then
/// a fallback can take over, so a head alone is not an answer.
async fn send_to_first_byte(conversation: &Conversation) -> Result<Response<Received>, Error> {
    let mut response = send_once(conversation).await?;
    if response.status().is_success() {
        conversation.first_byte(&mut response).await?;
        conversation.note_answer();
    }
    Ok(response)
}

async fn send_and_note(conversation: &Conversation) -> Result<Response<Received>, Error> {
    let response = send_once(conversation).await?;
    if response.status().is_success() {
        conversation.note_answer();
    }
    Ok(response)
}

async fn send_once(conversation: &Conversation) -> Result<Response<Received>, Error> {
    let Some(Sent { head, body }) = conversation.sent() else {
        return Err(Error::Path(PathError::TooLong));
    };
    conversation.show_request(0, &body);
    let sent = conversation
        .make_call(CallKind::First, &head, Body::full(body))
        .await;
    let status = sent.as_ref().ok().map(Response::status);
    if status.is_some() {
        conversation.exchange.note_upstream(status);
    }
    conversation.count_failure(&sent);
    sent
}

/// The longest wait that an upstream may ask for before a fallback is asked: within so short a time
/// a fallback would not answer sooner.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// The time within which an upstream loses the connection of a request that it has not started to
/// process.
const SOON: Duration = Duration::from_secs(1);

/// The longest time for repeats of a first call. It is short, since a client has its own retries
/// and should see the provider's status soon.
const FIRST_PATIENCE: Duration = Duration::from_secs(5);

/// The response header that names a member of the request, or a header, that the proxy has changed.
const ADAPTED: HeaderName = HeaderName::from_static("x-restitch-adapted");

const STOPPED: Refusal = Refusal::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "stopped",
    "the operator of the proxy has stopped this answer before it began",
)
.after_calls();
const DRAINED: Refusal = Refusal::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "drain_timeout",
    "the proxy ends, and the upstream has not answered in the time that was left: send the request again",
);
const UPSTREAM_BROKE_OFF: Refusal = Refusal::new(
    StatusCode::BAD_GATEWAY,
    "upstream_broke_off",
    "the upstream broke off in the middle of an error: send the request again",
)
.after_calls();

impl Conversation {
    /// Waits for the first byte of a successful stream.
    pub(super) async fn first_byte(&self, response: &mut Response<Received>) -> Result<(), Error> {
        if !self.request.stream {
            return Ok(());
        }
        let limit = self.head_limit();
        let error =
            match timeout(limit.time, poll_fn(|cx| response.body_mut().poll_first(cx))).await {
                Ok(true) => return Ok(()),
                Ok(false) => Error::Failed(ConnectionError::Closed),
                Err(_) => limit.into(),
            };
        self.exchange.note_head(Err(&error));
        self.count(None);
        Err(error)
    }

    /// Removes or adds `response_format`, and adds the web-search suffix to the model's name. In
    /// other APIs than Chat Completions, requests streamed tool arguments. A body that fits its
    /// model stays unchanged, to the byte.
    pub(super) fn adapt(&mut self) {
        if self.dialect != Dialect::Chat {
            return self.stream_arguments();
        }
        let capability = self.capability();
        let Ok(body) = std::str::from_utf8(&self.body) else {
            return;
        };
        let suffix = capability
            .web_search
            .filter(|suffix| !self.request.model.ends_with(suffix.as_str()));
        let model = suffix.map(|suffix| format!("{}{suffix}", self.request.model));
        // Hints are recorded under the name with the suffix.
        let takes = capability.response_format
            && model.as_ref().is_none_or(|model| {
                self.proxy
                    .capability(&self.route, self.client().upstream(), model)
                    .response_format
            });
        let refused = !takes && chat::has_member(body, RESPONSE_FORMAT);
        let adds_json_mode = takes && self.expects_json && !chat::has_form(body);
        if !refused && !adds_json_mode && model.is_none() {
            return;
        }
        let without = refused.then_some(RESPONSE_FORMAT);
        let adaptation = Adaptation {
            without,
            model: model.as_deref(),
            adds_json_mode,
            streams_arguments: false,
        };
        if let Some(body) = chat::adapt(body, &adaptation).map(Bytes::from) {
            let searches = model.is_some();
            tracing::debug!(
                model = self.request.model.as_str(),
                refused,
                adds_json_mode,
                searches,
                "adapted a request to its model"
            );
            self.adapted
                .extend((refused || adds_json_mode).then_some(RESPONSE_FORMAT));
            self.adapted.extend(searches.then_some("model"));
            self.body = body;
            self.request.has_json_mode = adds_json_mode || (self.request.has_json_mode && !refused);
            self.adds_json_mode = adds_json_mode;
        }
        self.request.model = model.unwrap_or(std::mem::take(&mut self.request.model));
    }

    /// Requests tool arguments as a stream from APIs that send each value whole otherwise: such an
    /// API would never send the beginning of a value that a cut interrupts.
    fn stream_arguments(&mut self) {
        let adaptation = Adaptation {
            streams_arguments: true,
            ..Adaptation::default()
        };
        let Ok(body) = std::str::from_utf8(&self.body) else {
            return;
        };
        if let Some(adapted) = self.dialect.wire().adapt(body, &adaptation) {
            tracing::debug!("asked for the arguments of tools as they are written");
            self.adapted.insert("tools");
            self.body = adapted.into();
        }
    }

    /// Removes the `response_format` that the proxy has added. Returns whether there was one.
    fn withdraw_json_mode(&mut self) -> bool {
        if !std::mem::take(&mut self.adds_json_mode) {
            return false;
        }
        (self.expects_json, self.request.has_json_mode) = (false, false);
        self.adapted.remove(RESPONSE_FORMAT);
        let adaptation = Adaptation {
            without: Some(RESPONSE_FORMAT),
            ..Adaptation::default()
        };
        let body = std::str::from_utf8(&self.body)
            .ok()
            .and_then(|body| chat::adapt(body, &adaptation));
        self.body = body.map_or_else(|| self.body.clone(), Bytes::from);
        true
    }

    /// Records that the model does not support `response_format`, if the refusal says so. Returns
    /// whether that changes the request. A refused value is not recorded, since another client's
    /// value may be valid.
    fn records_refusal(&self, refusal: &[u8]) -> bool {
        let hint = CapabilityHint::read(&String::from_utf8_lossy(refusal));
        let sent = std::str::from_utf8(&self.body);
        debug_assert!(sent.is_ok(), "a chat completion is JSON, and that is text");
        let sent = sent.unwrap_or_default();
        match hint {
            Some(hint @ CapabilityHint::NoMember(RESPONSE_FORMAT))
                if self.dialect == Dialect::Chat && chat::has_member(sent, RESPONSE_FORMAT) =>
            {
                self.record(hint);
                !self.capability().response_format
            }
            _ => false,
        }
    }
}

const RESPONSE_FORMAT: &str = "response_format";
