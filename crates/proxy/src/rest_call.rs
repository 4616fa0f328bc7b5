//! One call for the rest of a cut answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};

use super::caller::Caller;
use super::conversation::{is_invalid_request, is_transient, is_unavailable, retry_after};
use super::encoding::{self, DecodedBody};
use super::fallback::Part;
use restitch::internal::capability::{CapabilityHint, is_too_long};
use restitch::internal::limits::TimeLimit;
use restitch::internal::record::CallKind;
use restitch::provider::Dialect;
use restitch::provider::capability::{Capability, GrammarForm, PrefillForm, Switch};
use restitch::session::{CallEnd, ContinuationMode, HopEnd, Request, Resume, Retry, Rung, Turn};
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
            let mut request = self.request.clone();
            if is_without_effort {
                request.reduce_reasoning = true;
                capability.reasoning_off = Some(no_effort());
            }
            let retry = self.retry(request, &capability);
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
                caller.note_answer();
                let unknown = |name| {
                    rejected(
                        format!("the upstream answered in the encoding `{name}`"),
                        false,
                    )
                };
                return encoding::decoded(response).map_err(|encoding| unknown(encoding.name));
            }
            let reason = format!("the upstream answered {status}");
            // 413 is about the request as a whole, so its words are not read.
            if status == StatusCode::PAYLOAD_TOO_LARGE {
                return Err(CallEnd::TooLong(reason));
            }
            if !is_invalid_request(status) {
                let retry_after = retry_after(response.headers());
                return Err(match is_unavailable(status) {
                    true => CallEnd::Unavailable {
                        reason,
                        retry_after,
                    },
                    false => CallEnd::Rejected {
                        reason,
                        transient: is_transient(status),
                        retry_after,
                    },
                });
            }
            let refusal = caller.refusal(response).await;
            if !is_without_effort && allows_tool_without_effort(&refusal, &retry) {
                is_without_effort = true;
                continue;
            }
            // A call without effort has a member that no table supplies, so its refusal is not a hint
            // about the table's.
            let hint = CapabilityHint::read(&refusal)
                .filter(|hint| !is_without_effort && is_about(hint, &retry));
            let hint = hint.or_else(|| names_grammar(&refusal, &retry));
            let Some(hint) = hint else {
                return Err(if is_too_long(&refusal) {
                    CallEnd::TooLong(reason)
                } else if retry.is_forced() {
                    // Whatever it is about: without the grammar the request is like the first one.
                    CallEnd::FormRejected(reason)
                } else if retry.is_prefill() && retry.keeps_format() {
                    // The delivered text does not follow the format, for example since prose
                    // precedes the JSON. Without the format the server accepts it.
                    CallEnd::FormRejected(reason)
                } else {
                    rejected(reason, false)
                });
            };
            // Other answers of this model need not make the same refused call.
            caller.upstreams.record(caller.model(), hint);
            if matches!(
                hint,
                CapabilityHint::NoPrefill
                    | CapabilityHint::NoGrammar
                    | CapabilityHint::RejectsTrailingSpace
            ) {
                return Err(CallEnd::FormRejected(reason));
            }
            // The hint is about the switch that turns reasoning off: the call is made without it.
            is_switch_refused = true;
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
        if retry.is_forced() && capability.grammar == GrammarForm::None {
            return Err(CallEnd::FormRejected(
                "another call has found that no grammar is taken".to_owned(),
            ));
        }
        let sent = caller.sent();
        let body = sent
            .as_ref()
            .and_then(|sent| retry.try_body(std::str::from_utf8(&sent.body).ok()?))
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
        let exchange = &self.caller.exchange;
        exchange.note_answer(self.caller.upstreams.address());
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
    fn retry(&self, asked: Request, capability: &Capability) -> Retry {
        let (caller, request) = (self.caller, self.request);
        let retry = Retry::new(asked, Arc::new(capability.clone())).with_dialect(caller.asked_by());
        let Some(own) = caller.request.parsed.max_tokens else {
            return retry;
        };
        let most = own.saturating_mul(caller.limits.continuation.max_extra_tokens.into());
        let limit = raised(own, caller.proxy.policy.token_factor, request.number, most);
        let repeated = request.turn.as_ref().map_or(0, Turn::repeated_bytes);
        let limit = with_repeated(limit, repeated as u64);
        // The token limit must stay above a reasoning budget, so the share does not lower it for
        // requests with reasoning.
        let share = request
            .most_tokens
            .filter(|_| !caller.request.parsed.wants_reasoning);
        let least = if caller.asked_by() == Dialect::Responses {
            LEAST_OF_RESPONSES
        } else {
            1
        };
        let limit = share.map_or(limit, |share| limit.min(share.max(least)));
        // An equal limit is not written, so the member keeps the client's own bytes.
        if limit == own {
            retry
        } else {
            retry.with_max_tokens(limit)
        }
    }
}

/// Returns the limit on the tokens of a call that continues an answer from its token after the limit
/// of the request. `None`: the request has no limit, or the operator allows no higher one.
pub(super) fn raised_limit(caller: &Caller) -> Option<u64> {
    let own = caller.request.parsed.max_tokens?;
    let most = own.saturating_mul(caller.limits.continuation.max_extra_tokens.into());
    let limit = raised(own, caller.proxy.policy.token_factor, 1, most);
    (limit > own).then_some(limit)
}

// The API refuses less with "Expected a value >= 16".
/// The lowest `max_output_tokens` that the Responses API takes.
const LEAST_OF_RESPONSES: u64 = 16;

/// Returns the limit on the tokens of a further call: `factor` times the previous call's limit,
/// until the extra tokens of all calls add up to `most`. After that it is the request's own limit
/// again.
fn raised(own: u64, factor: u32, number: u32, most: u64) -> u64 {
    let (mut limit, mut left, mut extra) = (own, most, 0);
    for _ in 0..number {
        if left == 0 {
            return own;
        }
        limit = limit.saturating_mul(factor.into());
        extra = left.min(limit.saturating_sub(own));
        left -= extra;
        // At the largest number, all further limits are equal.
        if factor < 2 || extra == 0 {
            break;
        }
    }
    own.saturating_add(extra)
}

/// Returns a limit on tokens with room for text that the answer repeats before new text.
fn with_repeated(limit: u64, bytes: u64) -> u64 {
    let room = limit.saturating_add(bytes.div_ceil(BYTES_OF_SHORT_TOKEN));
    limit.max(room.min(SMALL_LIMIT))
}

// The anchor is often numbers and brackets, whose tokens are short.
/// The bytes of a token of repeated text.
const BYTES_OF_SHORT_TOKEN: u64 = 2;

// Every current model allows this number. A higher limit may be refused, and an anchor costs
// little of it.
/// The most tokens up to which a limit is raised for the repeated text.
const SMALL_LIMIT: u64 = 4096;

/// Returns whether a refusal of a custom tool is about reasoning beside tools. Chat Completions of
/// newer models refuses both together: "Function tools with reasoning_effort are not supported".
fn allows_tool_without_effort(refusal: &str, retry: &Retry) -> bool {
    let refusal = refusal.to_ascii_lowercase();
    let names_effort = ["reasoning_effort", "reasoning effort"]
        .iter()
        .any(|name| refusal.contains(name));
    retry.calls_custom_tool() && names_effort && refusal.contains("tool")
}

/// Returns the member with which a model of OpenAI's does not reason.
fn no_effort() -> Switch {
    Switch {
        key: "reasoning_effort".to_owned(),
        value: r#""none""#.to_owned(),
    }
}

/// Returns the hint of a refusal that names the grammar, or the member that has it. A refusal of a
/// schema is about this document, unless it says that the member is not taken.
fn names_grammar(refusal: &str, retry: &Retry) -> Option<CapabilityHint> {
    let refusal = refusal.to_ascii_lowercase();
    let is_schema = retry.request().turn.as_ref();
    let is_schema = is_schema.is_some_and(|turn| turn.mode == ContinuationMode::Schema);
    // The members that carry a grammar: llama.cpp, SGLang, vLLM, and a custom tool of OpenAI.
    let is_named = ["grammar", "ebnf", "structured_outputs", "tool", "custom"]
        .iter()
        .any(|name| refusal.contains(name));
    let is_named = match is_schema {
        // A quoted schema may contain any name, so a name counts only beside such a phrase.
        true => {
            SCHEMA_MEMBERS.iter().any(|name| refusal.contains(name))
                && NOT_TAKEN.iter().any(|said| refusal.contains(said))
        }
        false => is_named,
    };
    (retry.is_forced() && is_named && !is_too_long(&refusal)).then_some(CapabilityHint::NoGrammar)
}

// Of Chat Completions, Messages, Responses, and the two of Gemini.
/// The members that have a schema, in lower case.
const SCHEMA_MEMBERS: [&str; 5] = [
    "response_format",
    "output_config",
    "text.format",
    "responsejsonschema",
    "responseschema",
];

// Other refusals of a schema are about its content, and the next document has another schema.
/// Words of a refusal of a member, whatever its value is.
const NOT_TAKEN: [&str; 5] = [
    "not supported with this model",
    "does not support",
    "unknown",
    "unrecognized",
    "not permitted",
];

/// Returns whether a refusal is about an addition of the proxy: the prefill, or the switch that
/// turns reasoning off. The capability table, not the client, supplies that switch and its value.
fn is_about(hint: &CapabilityHint, retry: &Retry) -> bool {
    match hint {
        CapabilityHint::NoPrefill | CapabilityHint::RejectsTrailingSpace => retry.is_prefill(),
        CapabilityHint::NoGrammar => retry.is_forced(),
        CapabilityHint::NoMember(key) | CapabilityHint::RefusedValue(key) => retry
            .reasoning_off()
            .is_some_and(|switch| switch.key == *key),
        // An answer shows the one, and another request the other.
        CapabilityHint::PrefillDropsFormat | CapabilityHint::NoKeptStreams => false,
    }
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

#[cfg(test)]
mod tests {
    use super::{raised, with_repeated};

    #[test]
    fn a_small_limit_has_room_for_the_repeated_text() {
        assert_eq!(with_repeated(16, 41), 37);
        assert_eq!(with_repeated(16, 0), 16);
        assert_eq!(with_repeated(4000, 2048), 4096);
        assert_eq!(with_repeated(4096, 2048), 4096);
        assert_eq!(with_repeated(8192, 2048), 8192);
        assert_eq!(with_repeated(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn raised_limits_are_limited_together() {
        let limits = |factor, most| {
            (1..=8)
                .map(|call| raised(100, factor, call, most))
                .collect::<Vec<_>>()
        };
        assert_eq!(limits(2, 400), [200, 400, 100, 100, 100, 100, 100, 100]);
        assert_eq!(limits(2, 1000), [200, 400, 700, 100, 100, 100, 100, 100]);
        assert_eq!(limits(3, 0), [100; 8]);
        assert_eq!(limits(1, 400), [100; 8]);
        // Large numbers neither overflow nor loop for long.
        assert_eq!(raised(u64::MAX, u32::MAX, u32::MAX, u64::MAX), u64::MAX);
        assert_eq!(raised(1, 1, u32::MAX, 4), 1);
        assert_eq!(raised(0, 2, u32::MAX, 0), 0);
        assert_eq!(
            (1..=8).map(|call| raised(100, 2, call, 400)).sum::<u64>(),
            8 * 100 + 400
        );
    }
}
