//! One call for the rest of a cut answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};

use super::caller::Caller;
use super::conversation::retry_after;
use super::encoding::{self, DecodedBody};
use super::fallback::Part;
use super::record::Event;
use restitch::internal::capability::CapabilityHint;
use restitch::internal::limits::TimeLimit;
use restitch::internal::record::CallKind;
use restitch::internal::request::body_text;
use restitch::internal::rest_call::{self, Refusal, TokenLimits};
use restitch::provider::capability::{Capability, GrammarForm, PrefillForm, Switch};
use restitch::session::{CallEnd, HopEnd, Request, Resume, Retry, Rung};
use restitch_http::{Body, Error, Received};

/// One call for the rest of an answer, or for the whole of it again.
pub(super) struct RestCall<'c> {
    caller: &'c Caller,
    request: &'c Request,
}

impl<'c> RestCall<'c> {
    pub(super) fn new(caller: &'c Caller, request: &'c Request) -> Self {
        Self { caller, request }
    }

    /// Makes a further call. If it fails, redirects the session to the next fallback, if there is
    /// one.
    pub(super) async fn make(&self) -> Result<Response<DecodedBody>, CallEnd> {
        let (caller, request) = (self.caller, self.request);
        match &request.resume {
            Some(Resume::Stream(query)) => {
                tracing::debug!(call = request.number, "attaching to the answer again");
                return self.resume(query).await;
            }
            Some(Resume::Token { after, .. }) => return self.continue_by_token(*after).await,
            None => {}
        }
        let part = if request.turn.is_some() {
            Part::Rest
        } else {
            Part::Whole
        };
        if let Some(redirected) = caller.leave_failed(part) {
            return Err(redirected);
        }
        self.call_here()
            .await
            .map_err(|end| self.after_refusal(end, part))
    }

    /// Returns the session's next step after a call without a stream: ask the same upstream again,
    /// ask a fallback, or count a failure.
    fn after_refusal(&self, end: CallEnd, part: Part) -> CallEnd {
        match end {
            CallEnd::Unavailable {
                reason,
                retry_after,
            }
            | CallEnd::Rejected {
                reason,
                transient: true,
                retry_after,
            } if self
                .caller
                .upstreams
                .wait_before_repeat(retry_after, &self.caller.limits)
                .is_some() =>
            {
                // For an unavailable upstream the session waits, and does not count the call.
                CallEnd::Unavailable {
                    reason,
                    retry_after,
                }
            }
            end if is_for_fallback(&end) && self.caller.move_on(part, why_left(&end)) => {
                self.caller.redirected()
            }
            end => end,
        }
    }

    /// Makes a further call to the current upstream. Repeats it without a member that this proxy
    /// has added, if the upstream refuses that member.
    async fn call_here(&self) -> Result<Response<DecodedBody>, CallEnd> {
        let (caller, request) = (self.caller, self.request);
        let max_backoff = caller.limits.transport.max_backoff;
        // While most calls of a model fail, a further call adds to the load that makes them fail.
        if !caller.upstreams.is_admitted(caller.model(), max_backoff) {
            return Err(CallEnd::Overloaded);
        }
        if let Some(kept) = caller.kept_stream().filter(|_| request.number == 1) {
            // A server with one slot answers no other call before the kept stream has stopped.
            kept.stop().await;
        }
        // The loop has three rounds at most: each later one sends one member less or more.
        let (mut is_switch_refused, mut is_without_effort) = (false, false);
        loop {
            let mut capability = caller.capability();
            if is_switch_refused {
                capability.reasoning_off = None;
            }
            // The record may be off, or full.
            if is_without_effort {
                capability.tool_reasoning_off = Some(Switch::no_effort());
            }
            let retry = self.retry(&capability);
            let response = self.send(&retry, &capability).await?;
            let status = response.status();
            // The APIs answer with 200 alone: 204, for example, has no body.
            if status == StatusCode::OK {
                let mut response = response;
                if !caller.route.fallbacks.is_empty() {
                    // Until the first byte a fallback can take over, so a head alone is not an
                    // answer.
                    caller.first_byte(&mut response).await.map_err(lost)?;
                }
                caller.answered();
                let unknown = |name| {
                    rejected(
                        format!("the upstream answered in the encoding `{name}`"),
                        false,
                    )
                };
                return encoding::decoded(response).map_err(|encoding| unknown(encoding.name));
            }
            let name = status.to_string();
            let after = retry_after(response.headers());
            if let Some(end) = rest_call::end_of_status(status.as_u16(), &name, after) {
                return Err(end);
            }
            let body = caller.refusal(response).await;
            match rest_call::refusal(&body, &name, &retry) {
                // Other answers of this model need not make the same refused call.
                Refusal::WithoutEffort => {
                    let hint = CapabilityHint::NoToolWithReasoning;
                    caller.upstreams.record(caller.model(), hint);
                    is_without_effort = true;
                }
                Refusal::WithoutSwitch(hint) => {
                    caller.upstreams.record(caller.model(), hint);
                    is_switch_refused = true;
                }
                Refusal::End(end, hint) => {
                    hint.into_iter()
                        .for_each(|hint| caller.upstreams.record(caller.model(), hint));
                    return Err(end);
                }
            }
        }
    }

    /// Sends the request for the rest.
    async fn send(
        &self,
        retry: &Retry,
        capability: &Capability,
    ) -> Result<Response<Received>, CallEnd> {
        let (caller, request) = (self.caller, self.request);
        let is_prefix = retry.is_prefill();
        // The provider has continued the client's own prefill, so it supports prefills, whatever
        // the table says.
        let is_known = request
            .turn
            .as_ref()
            .is_some_and(|turn| turn.replaces_prefill);
        if is_prefix
            && capability.prefill == PrefillForm::None
            && !is_known
            && !caller.asked_by().wire().always_continues()
        {
            return Err(CallEnd::FormRejected(
                "another call has found that no prefix is continued".to_owned(),
            ));
        }
        if retry.is_forced() && capability.grammar == Some(GrammarForm::None) {
            return Err(CallEnd::FormRejected(
                "another call has found that no grammar is taken".to_owned(),
            ));
        }
        let sent = caller.sent();
        let body = sent
            .as_ref()
            .and_then(|sent| retry.try_body(body_text(&sent.body)?))
            .map(Bytes::from);
        let (sent, body) = sent
            .zip(body)
            .ok_or_else(|| rejected("the request can't be continued".to_owned(), false))?;
        let head = sent.head.for_further_call();
        // A path that the operator has configured is not replaced.
        let is_chat = caller.asked_by().wire().has_chat_requests();
        let head = match capability
            .prefill_path
            .as_deref()
            .filter(|_| is_prefix && is_chat)
        {
            Some(path) if caller.upstreams.client().upstream().prefix().is_empty() => {
                head.below(path)
            }
            _ => head,
        };
        caller.show_request(request.number, &body);
        match &request.turn {
            Some(turn) => tracing::debug!(
                call = request.number,
                rung = turn.mode.as_str(),
                "asking for the rest"
            ),
            None if request.resume.is_some() => {
                tracing::debug!(call = request.number, "continuing from a token");
            }
            None => tracing::debug!(call = request.number, "sending the request again"),
        }
        let response = caller
            .make_call(CallKind::of(request), &head, Body::full(body))
            .await;
        caller.count_failure(&response);
        response.map_err(lost)
    }

    /// Reattaches to the same answer. If the provider refuses, the session asks for the rest
    /// instead.
    async fn resume(&self, query: &str) -> Result<Response<DecodedBody>, CallEnd> {
        let caller = self.caller;
        let refused = |reason: String| rejected(reason, false);
        if caller.upstreams.fallback().is_some() {
            // The reattaching request would carry the client's key, which a fallback must not get.
            return Err(refused(
                "the answer of a fallback is not attached to again".to_owned(),
            ));
        }
        // llama.cpp has kept streams under another path; the Responses API, below the answer's id.
        let head = match caller.may_keep_stream() {
            true => caller.request.head.of_kept_stream(query),
            false => caller.request.head.resuming(query),
        };
        let head =
            head.ok_or_else(|| refused("the request's path can't be followed".to_owned()))?;
        let response = caller
            .make_call(CallKind::Rest(Rung::Reattach), &head, Body::full(""))
            .await;
        let response = response.map_err(|error| refused(error.to_string()))?;
        self.answered(response)
    }

    /// Takes the answer of a call to which the provider sends the rest of the same answer.
    fn answered(&self, response: Response<Received>) -> Result<Response<DecodedBody>, CallEnd> {
        let refused = |reason: String| Err(rejected(reason, false));
        let status = response.status();
        if status != StatusCode::OK {
            return refused(format!("the upstream answered {status}"));
        }
        let upstream = self.caller.upstreams.address();
        self.caller.exchange.apply(Event::Answered(upstream));
        encoding::decoded(response)
            .or_else(|unknown| refused(format!("the encoding is `{}`", unknown.name)))
    }

    /// Asks the provider to continue its own answer, with the original request and a token. If the
    /// provider refuses, the answer ends as the call before it did.
    async fn continue_by_token(&self, after: HopEnd) -> Result<Response<DecodedBody>, CallEnd> {
        let (caller, request) = (self.caller, self.request);
        let refused = |reason: String| rejected(reason, false);
        // A token belongs to the provider that has made it, and to its API.
        if caller.asked_by() != caller.request.dialect {
            return Err(refused(
                "a token is not sent to a fallback with another API".to_owned(),
            ));
        }
        let capability = caller.capability();
        let retry = Retry::new(request.clone(), Arc::new(capability.clone()))
            .with_dialect(caller.asked_by());
        // A call that broke off before its limit keeps the request's own one.
        let limit = raised_limit(caller).filter(|_| after == HopEnd::Limit);
        let retry = limit.into_iter().fold(retry, Retry::with_max_tokens);
        let response = self
            .send(&retry, &capability)
            .await
            .map_err(|end| match end {
                // A connection that fails may be made again with the same token.
                CallEnd::Unavailable { .. } => CallEnd::Dropped,
                end => end,
            })?;
        self.answered(response)
    }

    /// Returns a further call. If the request limits its tokens, raises the limit by the operator's
    /// factor and by the text that the answer repeats, and lowers it to the remaining share of extra
    /// tokens.
    fn retry(&self, capability: &Capability) -> Retry {
        let (caller, request) = (self.caller, self.request);
        let retry = Retry::new(request.clone(), Arc::new(capability.clone()))
            .with_dialect(caller.asked_by());
        let wants_reasoning = caller.request.parsed.wants_reasoning;
        let limit = token_limits(caller)
            .and_then(|limits| limits.of(request, caller.asked_by(), wants_reasoning));
        limit.into_iter().fold(retry, Retry::with_max_tokens)
    }
}

/// Returns the limit on the tokens of a call that continues an answer from its token after the limit
/// of the request. `None`: the request has no limit, or the operator allows no higher one.
pub(super) fn raised_limit(caller: &Caller) -> Option<u64> {
    token_limits(caller)?.after_limit()
}

/// Returns the limits on the tokens of further calls, if the request limits its answer.
fn token_limits(caller: &Caller) -> Option<TokenLimits> {
    Some(TokenLimits {
        own: caller.request.parsed.max_tokens?,
        factor: caller.proxy.policy.token_factor,
        max_extra: caller.limits.continuation.max_extra_tokens,
    })
}

/// Returns whether a fallback may succeed after this end: the upstream is unavailable, silent, or
/// has refused the request. Another upstream may accept a refused request, whatever the reason.
fn is_for_fallback(end: &CallEnd) -> bool {
    matches!(
        end,
        CallEnd::Rejected { .. }
            | CallEnd::TooLong(_)
            | CallEnd::Unavailable { .. }
            | CallEnd::TimedOut(_)
            | CallEnd::Overloaded
    )
}

/// Returns for the log why the session leaves an upstream.
fn why_left(end: &CallEnd) -> &str {
    end.refusal().unwrap_or_else(|| end.as_str())
}

/// Returns the end of a call without a response.
pub(super) fn lost(error: Error) -> CallEnd {
    match error {
        Error::Late { limit, after } => TimeLimit {
            name: limit,
            time: after,
        }
        .into(),
        // The upstream is in trouble, not the model: the session waits, and counts no failure.
        error if error.is_of_connection() => CallEnd::Unavailable {
            reason: error.to_string(),
            retry_after: None,
        },
        error => rejected(error.to_string(), true),
    }
}

pub(super) fn rejected(reason: String, transient: bool) -> CallEnd {
    CallEnd::Rejected {
        reason,
        transient,
        retry_after: None,
    }
}
