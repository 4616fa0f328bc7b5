//! The first call of an answer: repeats it, asks fallbacks, and adapts its request to the model.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::time::{Instant, sleep, timeout};

use super::body::Collected;
use super::caller::Caller;
use super::client_request::{RESPONSE_FORMAT, UpstreamRequest};
use super::conversation::{Conversation, REFUSAL, is_invalid_request, is_unavailable, retry_after};
use super::error_redactor::without_key;
use super::fallback::{Part, has_failed, why};
use super::record::Event;
use super::refusal::{Refusal, RetryAdvice, SHOULD_RETRY, unreachable};
use super::upstreams::Backoff;
use restitch::internal::capability::{self, CapabilityHint};
use restitch::internal::record::CallKind;
use restitch_http::{Body, Error, PathError, Received};

/// Makes the first call and answers with its response, continued if it is cut. A header names the
/// changed members of the request.
pub(super) async fn answer(mut conversation: Box<Conversation>) -> Response<Body> {
    let caller = &mut conversation.caller;
    caller.adapt();
    if caller.proxy.policy.adapts {
        // A server keeps only a stream whose own request has named it, so the first call does.
        caller.name_stream().await;
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
    adapted.clone_from(&conversation.caller.request.adapted);
    let response = match send(&conversation.caller).await {
        Ok(response) => response,
        Err(refused) => return refused,
    };
    let caller = &conversation.caller;
    let is_changed = caller.proxy.policy.adapts || caller.request.raised_limit().is_some();
    if !is_changed || !is_invalid_request(response.status()) {
        return conversation.answer(response).await;
    }
    let (parts, body) = response.into_parts();
    let idle = conversation.caller.limits.transport.idle();
    let body = match Collected::read(body, REFUSAL, Some([idle, idle]), |_| true).await {
        Ok(Collected::Whole(body)) => body,
        // Refusals of a member are far shorter, so the body passes unread.
        Ok(Collected::Larger(body)) => {
            let response = Response::from_parts(parts, body);
            return without_key(response, conversation.caller.refusal_redactor()).map(Body::wrap);
        }
        Err(_) => return UPSTREAM_BROKE_OFF.answer(Some(conversation.caller.request.dialect)),
    };
    let caller = &mut conversation.caller;
    caller.show_refusal(&body);
    let is_known = caller.proxy.policy.adapts && records_refusal(caller, &body);
    // A raised limit may be above the model's own.
    let is_withdrawn = caller.request.withdraw_limit();
    if !is_known && !is_withdrawn {
        // The refusal is about the client's own request, so the client gets it.
        let response = Response::from_parts(parts, Body::full(body));
        return without_key(response, conversation.caller.refusal_redactor()).map(Body::wrap);
    }
    caller.adapt();
    // The headers are about the request that is answered: they leave out a withdrawn change.
    adapted.clone_from(&conversation.caller.request.adapted);
    match send(&conversation.caller).await {
        Ok(response) => conversation.answer(response).await,
        Err(refused) => refused,
    }
}

/// Makes the first call. If it fails, asks the fallbacks of the same API in turn. If they fail,
/// too, the client gets the error of its own upstream: a fallback's error is about the operator's
/// key.
async fn send(caller: &Caller) -> Result<Response<Received>, Response<Body>> {
    tokio::select! {
        answer = first_answer(caller) => answer,
        () = caller.exchange.stopped() => Err(ended(caller, STOPPED)),
        () = caller.exchange.cut.asked() => Err(ended(caller, DRAINED)),
    }
}

/// Refuses a request whose call is still open.
fn ended(caller: &Caller, refusal: Refusal) -> Response<Body> {
    caller.exchange.apply(Event::Stopped);
    refusal.answer(Some(caller.request.dialect))
}

/// Makes the first call, and repeats it for a short time while the upstream and its fallbacks are
/// unavailable.
async fn first_answer(caller: &Caller) -> Result<Response<Received>, Response<Body>> {
    // An operator who wants no repeats sets `patience` to 0.
    let budget = FIRST_PATIENCE.min(caller.limits.continuation.patience);
    let mut backoff = Backoff::default();
    // The provider's last refusal.
    let mut refusal = None;
    let earlier = caller.exchange.record().calls_made();
    loop {
        let asked_at = Instant::now();
        let answer = ask_each_upstream(caller).await;
        let is_repeated = backoff.made > 0;
        let is_lost_late = is_lost_late(&answer, asked_at);
        let wait = match may_repeat(&answer).and_then(|asked| backoff.wait(asked, budget, budget)) {
            Some(_) if is_lost_late && !is_gone(caller).await => None,
            wait => wait,
        };
        let Some(wait) = wait else {
            // The only call: the SDK decides by its own rule, as without a proxy.
            let is_only = caller.exchange.record().calls_made() == earlier + 1;
            let advice = if is_lost_late && is_only {
                RetryAdvice::None
            } else {
                RetryAdvice::Never
            };
            // The provider's own refusal explains more than a connection that was lost after it.
            let mut response = answer
                .or_else(|error| refusal.ok_or(error))
                .map_err(|cause| unreachable(Some(caller.request.dialect), &cause, advice))?;
            if is_repeated && !response.status().is_success() {
                // The client's SDK would start all these repeats again.
                response
                    .headers_mut()
                    .insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            return Ok(response);
        };
        tracing::warn!(
            why = why(&answer),
            wait_ms = wait.as_millis() as u64,
            "the first call is made again"
        );
        refusal = answer.ok().or(refusal);
        sleep(wait).await;
    }
}

/// Asks the upstream, and then its fallbacks in turn until one succeeds.
async fn ask_each_upstream(caller: &Caller) -> Result<Response<Received>, Error> {
    let mut answer = ask_upstream(caller).await;
    if caller.route.fallbacks.is_empty()
        || !(has_failed(&answer) || is_too_long(caller, &mut answer).await)
    {
        return answer;
    }
    let (place, mut reason) = (caller.upstreams.at(), why(&answer));
    // A fallback's error never reaches the client: it is about the operator's key and account.
    while caller.move_on(Part::Whole, &reason) {
        let other = ask_upstream(caller).await;
        if other
            .as_ref()
            .is_ok_and(|response| response.status().is_success())
        {
            return other;
        }
        reason = why(&other);
    }
    if caller.upstreams.at() > place {
        tracing::warn!(
            why = reason,
            "no fallback has answered: the client gets what the first upstream has said"
        );
    }
    // The client gets the first upstream's response, so the log has to name that one.
    caller.upstreams.move_back(place);
    let status = answer.as_ref().ok().map(Response::status);
    caller.exchange.apply(Event::First(status));
    answer
}

/// Whether a call was lost so late that its repeat may be billed twice, unless its upstream is gone.
fn is_lost_late(answer: &Result<Response<Received>, Error>, asked_at: Instant) -> bool {
    matches!(answer, Err(Error::Unanswered(_))) && asked_at.elapsed() > SOON
}

/// Asks one upstream. Repeats the call if the route allows it, or if the upstream requests a short
/// wait.
async fn ask_upstream(caller: &Caller) -> Result<Response<Received>, Error> {
    let has_fallback = !caller.route.fallbacks.is_empty();
    let mut has_waited = false;
    loop {
        let asked_at = Instant::now();
        let answer = send_to_answer(caller).await;
        // A silent upstream may be silent again, which would double the client's wait.
        if !has_failed(&answer) || answer.as_ref().is_err_and(Error::is_timeout) {
            return answer;
        }
        let asked = answer
            .as_ref()
            .ok()
            .and_then(|response| retry_after(response.headers()));
        let short = asked.filter(|wait| has_fallback && !has_waited && *wait <= SHORT_WAIT);
        let Some(wait) =
            short.or_else(|| caller.upstreams.wait_before_repeat(asked, &caller.limits))
        else {
            return answer;
        };
        if is_lost_late(&answer, asked_at) && !is_gone(caller).await {
            return answer;
        }
        // One such wait for each upstream: a second one would be longer than a fallback takes.
        has_waited = true;
        tracing::debug!(
            why = why(&answer),
            wait_ms = wait.as_millis() as u64,
            "the upstream is asked again"
        );
        sleep(wait).await;
    }
}

/// Returns whether an upstream refuses a request because it is too long for the model, so that
/// another model may accept it. Leaves the body of the refusal complete.
async fn is_too_long(caller: &Caller, answer: &mut Result<Response<Received>, Error>) -> bool {
    let Ok(response) = answer else { return false };
    // 413 is about the size of the request, so the refusal is not read.
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return true;
    }
    if !is_invalid_request(response.status()) {
        return false;
    }
    let time = caller.limits.transport.idle().time;
    // A refusal whose body does not come counts as one that names no reason.
    let _ = timeout(time, poll_fn(|cx| response.body_mut().poll_first(cx))).await;
    let first = response.body().first().unwrap_or_default();
    capability::is_too_long(&String::from_utf8_lossy(&first[..first.len().min(REFUSAL)]))
}

/// Returns whether another first call may help, with the wait that the upstream asks for, if it
/// does.
fn may_repeat(answer: &Result<Response<Received>, Error>) -> Option<Option<Duration>> {
    match answer {
        Ok(response) if is_unavailable(response.status()) => Some(retry_after(response.headers())),
        // Nothing of an answer has come. After its first byte a repeat would be another answer.
        Err(error) if error.is_connect() || matches!(error, Error::Unanswered(_)) => Some(None),
        _ => None,
    }
}

/// Returns whether the upstream refuses connections. Such an upstream can't finish the lost call,
/// so a repeat is not billed twice.
async fn is_gone(caller: &Caller) -> bool {
    caller.upstreams.client().reach().await.is_err()
}

/// Makes the first call. On a route with fallbacks, waits for a stream's first byte: until then a
/// fallback can take over, so a head alone is not an answer.
async fn send_to_answer(caller: &Caller) -> Result<Response<Received>, Error> {
    let mut response = send_once(caller).await?;
    if response.status().is_success() {
        if !caller.route.fallbacks.is_empty() {
            caller.first_byte(&mut response).await?;
        }
        caller.answered();
    }
    Ok(response)
}

async fn send_once(caller: &Caller) -> Result<Response<Received>, Error> {
    let Some(UpstreamRequest { head, body }) = caller.sent() else {
        return Err(Error::Path(PathError::TooLong));
    };
    // Repeats of the first call keep its number in the tap.
    caller.show_request(0, &body);
    let sent = caller
        .make_call(CallKind::First, &head, Body::full(body))
        .await;
    let status = sent.as_ref().ok().map(Response::status);
    // A lost repeat does not erase the status that the upstream gave before it.
    if status.is_some() {
        caller.exchange.apply(Event::First(status));
    }
    caller.count_failure(&sent);
    sent
}

// A fallback would not answer faster.
/// The longest wait that an upstream may ask for before a fallback is asked.
const SHORT_WAIT: Duration = Duration::from_secs(1);

// A pooled connection that the upstream has just closed fails within milliseconds. A connection
// that is lost later may have delivered the request, which is then billed.
/// The time within which an upstream loses the connection of a request that it has not started to
/// process.
const SOON: Duration = Duration::from_secs(1);

// A client has retries of its own, and should see the provider's status soon.
/// The longest time for repeats of a first call.
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

/// Records that the model does not support `response_format`, if the refusal says so. Returns
/// whether that changes the request.
fn records_refusal(caller: &Caller, refusal: &[u8]) -> bool {
    let hint = CapabilityHint::read(&String::from_utf8_lossy(refusal));
    match hint {
        // A body may quote its request, so the hint counts only if the request has the member. A
        // refused value is not recorded: another client's value may be valid.
        Some(hint @ CapabilityHint::NoMember(RESPONSE_FORMAT))
            if caller.request.has_response_format() =>
        {
            caller.upstreams.record(caller.model(), hint);
            !caller.capability().response_format
        }
        _ => false,
    }
}
