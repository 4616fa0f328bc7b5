//! A call for the rest of an answer at one model: its strategy, its limit on tokens, and the meaning
//! of a refusal.
//!
//! HTTP statuses are numbers here: the engine has no HTTP client.

use std::time::Duration;

use super::{
    CallEnd, ContinuationMode, ContinuationStrategy, PrefillOptions, Request, Retry, Turn,
};
use crate::provider::Dialect;
use crate::provider::capability::too_long::is_too_long;
use crate::provider::capability::{Capability, CapabilityHint, GrammarForm, PrefillForm};
use crate::provider::wire;

/// Returns the strategy of a request's further calls. `capability`: that of the model, with the
/// grammar of its API. `asked_by`: the API of these calls. `is_foreign`: that is not the request's
/// API.
pub fn strategy(
    request: &wire::Request,
    capability: &Capability,
    asked_by: Dialect,
    is_foreign: bool,
) -> ContinuationStrategy {
    let wire = asked_by.wire();
    // The other prefill variants, and the path, need members of Chat Completions.
    let is_of_wire = match capability.prefill {
        PrefillForm::None => false,
        PrefillForm::Turn => true,
        _ => wire.has_chat_requests(),
    };
    // Reasoning rules out a prefill, but a translated request never asks for reasoning.
    let goes = is_of_wire && (is_foreign || !request.wants_reasoning) || wire.always_continues();
    let options = PrefillOptions {
        rejects_trailing_space: capability.rejects_trailing_space,
        returns_prefill: capability.returns_prefill_in(request.stream),
        keeps_format: !is_foreign
            && wire.has_chat_requests()
            && request.has_json_mode
            && capability.prefill_keeps_format,
    };
    // The other grammars exclude reasoning: it is the first text of an answer.
    let takes_grammar = |form: &GrammarForm| {
        !request.wants_reasoning || matches!(form, GrammarForm::CustomTool) || form.is_schema()
    };
    let grammar = capability.grammar.filter(takes_grammar);
    ContinuationStrategy {
        prefill: goes.then_some(options),
        grammar: grammar.unwrap_or_default(),
        keeps_json_mode: !is_foreign && request.has_json_mode && capability.keeps_json_mode(),
        reduce_reasoning: capability.reasoning_off.is_some(),
        ..ContinuationStrategy::default()
    }
}

/// The most bytes that are read of a refusal. A larger one gives no hint about the model.
pub const REFUSAL: usize = 64 << 10;

/// Returns an estimate of a request's tokens, for a provider that does not report them.
pub fn estimated_tokens(body: &[u8]) -> u64 {
    body.len() as u64 / BYTES_PER_TOKEN
}

// A rough average for English and for JSON.
/// Bytes of a request that count as a token.
const BYTES_PER_TOKEN: u64 = 4;

/// The limits on the tokens of further calls, for a request that limits its answer.
#[derive(Clone, Copy, Debug)]
pub struct TokenLimits {
    /// The request's own limit.
    pub own: u64,
    /// Each call may have this many times the tokens of the call before it.
    pub factor: u32,
    /// The extra tokens of all calls, as a multiple of the request's own limit.
    pub max_extra: u32,
}

impl TokenLimits {
    /// Returns the limit of a call for the rest, if it is not the request's own: raised by the
    /// factor and by the text that the answer repeats.
    pub fn of(self, request: &Request) -> Option<u64> {
        let repeated = request.turn.as_ref().map_or(0, Turn::repeated_bytes);
        let limit = with_repeated(self.raised(request.number), repeated as u64);
        (limit != self.own).then_some(limit)
    }

    /// Returns the limit of a call that continues an answer from its token after the limit of the
    /// request. `None`: no higher one is allowed.
    pub fn after_limit(self) -> Option<u64> {
        Some(self.raised(1)).filter(|limit| *limit > self.own)
    }

    /// Returns the limit of a further call: `factor` times the previous call's limit, until the
    /// extra tokens of all calls add up to the most. After that it is the request's own limit
    /// again.
    fn raised(self, number: u32) -> u64 {
        let (own, factor) = (self.own, self.factor);
        let (mut limit, mut left) = (own, own.saturating_mul(self.max_extra.into()));
        let mut extra = 0;
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

/// Returns whether the same request may succeed a little later.
pub fn is_transient(status: u16) -> bool {
    status == 429 || status >= 500
}

/// Returns whether a status means that the upstream can't take requests now: 429, 502, 503, and
/// 529, which Anthropic sends when it is overloaded. Such a call brings no text and costs no
/// tokens.
pub fn is_unavailable(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 529)
}

/// Returns whether a status means that the request's body is invalid.
pub fn is_invalid_request(status: u16) -> bool {
    matches!(status, 400 | 422)
}

/// Returns how a call for the rest has ended that was answered with a status other than 200.
/// `None`: the body of the response decides ([`refusal`]). `name`: the status in reports.
pub fn end_of_status(status: u16, name: &str, retry_after: Option<Duration>) -> Option<CallEnd> {
    let reason = format!("the upstream answered {name}");
    Some(match status {
        // 413 is about the request as a whole, so its words are not read.
        413 => CallEnd::TooLong(reason),
        status if is_invalid_request(status) => return None,
        status if is_unavailable(status) => CallEnd::Unavailable {
            reason,
            retry_after,
        },
        status => CallEnd::Rejected {
            reason,
            transient: is_transient(status),
            retry_after,
        },
    })
}

/// The meaning of a refusal of a call for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Send the call again, with reasoning off: [`CapabilityHint::NoToolWithReasoning`].
    WithoutEffort,
    /// Send the call again, without the switch that turns reasoning off.
    WithoutSwitch(CapabilityHint),
    /// The call is over. The hint, if there is one, is about all calls to the model.
    End(CallEnd, Option<CapabilityHint>),
}

/// Reads the body of a response whose status blames the request. `name`: the status in reports.
pub fn refusal(body: &str, name: &str, retry: &Retry) -> Refusal {
    let is_without_effort = retry.tool_reasoning_off().is_some();
    if !is_without_effort && allows_tool_without_effort(body, retry) {
        return Refusal::WithoutEffort;
    }
    let reason = format!("the upstream answered {name}");
    let hint =
        CapabilityHint::read(body).filter(|hint| !is_without_effort && is_about(hint, retry));
    match hint.or_else(|| names_grammar(body, retry)) {
        Some(
            hint @ (CapabilityHint::NoPrefill
            | CapabilityHint::NoGrammar
            | CapabilityHint::RejectsTrailingSpace),
        ) => Refusal::End(CallEnd::FormRejected(reason), Some(hint)),
        Some(hint) => Refusal::WithoutSwitch(hint),
        None if is_too_long(body) => Refusal::End(CallEnd::TooLong(reason), None),
        // The request may succeed without the grammar or the format: prose before the JSON, for
        // example, violates a format.
        None if retry.is_forced() || retry.is_prefill() && retry.keeps_format() => {
            Refusal::End(CallEnd::FormRejected(reason), None)
        }
        None => Refusal::End(rejected(reason), None),
    }
}

/// Returns the end of a call that was refused for good.
pub(super) fn rejected(reason: String) -> CallEnd {
    CallEnd::Rejected {
        reason,
        transient: false,
        retry_after: None,
    }
}

/// Returns whether a refusal of a custom tool is about reasoning beside tools. Chat Completions of
/// newer models refuses both together: "Function tools with reasoning_effort are not supported".
fn allows_tool_without_effort(refusal: &str, retry: &Retry) -> bool {
    let refusal = refusal.to_ascii_lowercase();
    let names_effort = ["reasoning_effort", "reasoning effort"]
        .iter()
        .any(|name| refusal.contains(name));
    retry.calls_custom_tool() && names_effort && refusal.contains("tool")
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
        true => {
            SCHEMA_MEMBERS.iter().any(|name| refusal.contains(name))
                && NOT_TAKEN.iter().any(|said| refusal.contains(said))
                && !refusal.contains(BAD_SCHEMA)
        }
        false => is_named,
    };
    (retry.is_forced() && is_named && !is_too_long(&refusal)).then_some(CapabilityHint::NoGrammar)
}

/// The members that have a schema, in lower case.
const SCHEMA_MEMBERS: [&str; 5] = [
    "response_format",
    "output_config",
    "text.format",
    "responsejsonschema",
    "responseschema",
];

/// OpenAI: "Invalid schema for response_format 'x': In context=('properties', 'y'), 'default' is not
/// permitted."
const BAD_SCHEMA: &str = "invalid schema";

/// Phrases that refuse a member, not its value.
const NOT_TAKEN: [&str; 5] = [
    "not supported with this model",
    "does not support",
    "unknown",
    "unrecognized",
    "not permitted",
];

/// Returns whether a refusal is about an addition to the request: the prefill, or the switch that
/// turns reasoning off. The capability table, not the client, supplies that switch and its value.
fn is_about(hint: &CapabilityHint, retry: &Retry) -> bool {
    match hint {
        CapabilityHint::NoPrefill | CapabilityHint::RejectsTrailingSpace => retry.is_prefill(),
        CapabilityHint::NoGrammar => retry.is_forced(),
        CapabilityHint::NoMember(key) | CapabilityHint::RefusedValue(key) => retry
            .reasoning_off()
            .is_some_and(|switch| switch.key == *key),
        CapabilityHint::PrefillDropsFormat
        | CapabilityHint::NoKeptStreams
        | CapabilityHint::NoToolWithReasoning => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{TokenLimits, with_repeated};

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
        let raised = |own, factor, number, max_extra| {
            TokenLimits {
                own,
                factor,
                max_extra,
            }
            .raised(number)
        };
        let limits = |factor, most| {
            (1..=8)
                .map(|call| raised(100, factor, call, most))
                .collect::<Vec<_>>()
        };
        assert_eq!(limits(2, 4), [200, 400, 100, 100, 100, 100, 100, 100]);
        assert_eq!(limits(2, 10), [200, 400, 700, 100, 100, 100, 100, 100]);
        assert_eq!(limits(3, 0), [100; 8]);
        assert_eq!(limits(1, 4), [100; 8]);
        // Large numbers neither overflow nor loop for long.
        assert_eq!(raised(u64::MAX, u32::MAX, u32::MAX, u32::MAX), u64::MAX);
        assert_eq!(raised(1, 1, u32::MAX, 4), 1);
        assert_eq!(raised(0, 2, u32::MAX, 0), 0);
        assert_eq!(
            (1..=8).map(|call| raised(100, 2, call, 4)).sum::<u64>(),
            8 * 100 + 400
        );
    }
}
