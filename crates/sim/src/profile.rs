//! Differences between providers: whether and how they continue a prefill, which requests they
//! reject, and their error messages.
//!
//! The messages are those of real responses; `provider::capability` names their sources.

use serde_json::Value;
use strum::{IntoStaticStr, VariantArray};

use restitch::provider::capability::PrefillForm;

use super::call::WHITE_SPACE;
use super::token::Token;

/// The provider whose behaviour the server imitates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
#[non_exhaustive]
pub enum ProviderProfile {
    /// Continues no prefill: ignores a last message of the assistant's.
    #[default]
    OpenAi,
    /// Up to 4.5: continues a last message, which may not end in white space.
    Anthropic,
    /// From 4.6 on: rejects such a message.
    #[strum(serialize = "anthropic-4.6")]
    Anthropic46,
    /// Up to 3.5 Flash: continues a last message.
    Gemini,
    /// From 3.6 Flash on: rejects it.
    #[strum(serialize = "gemini-3.6")]
    Gemini36,
    /// From 3.8 on: rejects it, too, and continues its own answers from tokens.
    #[strum(serialize = "gemini-3.8")]
    Gemini38,
    /// Continues it with `"prefix": true` below `/beta`, and rejects it otherwise.
    DeepSeek,
    /// Continues it with `"prefix": true` and returns the prefill at the start of the answer;
    /// rejects it otherwise.
    Mistral,
    /// Continues it with `"partial": true`.
    Partial,
    /// Continues it with `"continue_final_message": true`, unless the request adds a generation
    /// prompt, too. Under a format of the request the answer is a new document.
    Vllm,
    /// Continues it under the format of the request, and rejects it while reasoning is on. A whole
    /// body begins with the prefill. Keeps a stream under its `X-Conversation-Id`.
    #[strum(serialize = "llama.cpp")]
    LlamaCpp,
    /// Continues no prefill, and rejects a `response_format` of `json_object`.
    Perplexity,
}

impl ProviderProfile {
    /// All profiles.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the name of the profile.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns how a client marks a prefill as one to continue.
    pub fn prefill(self) -> PrefillForm {
        match self {
            Self::OpenAi
            | Self::Anthropic46
            | Self::Gemini36
            | Self::Gemini38
            | Self::Perplexity => PrefillForm::None,
            Self::Anthropic | Self::Gemini | Self::LlamaCpp => PrefillForm::Turn,
            Self::DeepSeek | Self::Mistral => PrefillForm::Flag,
            Self::Partial => PrefillForm::Partial,
            Self::Vllm => PrefillForm::Final,
        }
    }

    /// Returns whether the answer begins with the prefill.
    pub(super) fn returns_prefill(self, stream: bool) -> bool {
        self == Self::Mistral || self == Self::LlamaCpp && !stream
    }

    /// Returns whether a format of the request applies to the answer without the prefill, which is
    /// then a new document.
    pub(super) fn restarts_format(self, body: &Value) -> bool {
        self == Self::Vllm && body.get("response_format").is_some()
    }

    /// Returns whether the server keeps a stream under its `X-Conversation-Id`.
    pub(super) fn keeps_streams(self) -> bool {
        self == Self::LlamaCpp
    }

    /// Returns whether answers have tokens from which the server continues them.
    pub(super) fn sends_tokens(self) -> bool {
        self == Self::Gemini38
    }

    /// Returns the `Server` header of all responses.
    pub(super) fn server(self) -> Option<&'static str> {
        (self == Self::LlamaCpp).then_some("llama.cpp")
    }

    /// Returns whether a request's last message is a prefill to continue.
    pub(super) fn continues(self, body: &Value) -> bool {
        last_of_assistant(body).is_some_and(|message| match self.prefill() {
            PrefillForm::Turn => true,
            PrefillForm::Flag => message["prefix"] == true,
            PrefillForm::Partial => message["partial"] == true,
            PrefillForm::Final => body["continue_final_message"] == true,
            _ => false,
        })
    }

    /// Returns the body of the 400 that a request gets, if it gets one.
    pub(super) fn refusal(self, path: &str, body: &Value, document: &str) -> Option<&'static str> {
        let last = last_of_assistant(body);
        let is_asked = self.continues(body);
        let ends_in_space = || {
            let text = last.and_then(|message| message["content"].as_str());
            text.is_some_and(|text| text.ends_with(WHITE_SPACE))
        };
        let thinks = || body["chat_template_kwargs"]["enable_thinking"] == true;
        let is_json = || body["response_format"]["type"] == "json_object";
        let adds = || body["add_generation_prompt"] != false;
        match self {
            Self::Anthropic if last.is_some() && ends_in_space() => Some(TRAILING_SPACE),
            Self::Anthropic46 if last.is_some() => Some(NO_PREFILL),
            Self::Gemini36 | Self::Gemini38 if last.is_some() => Some(MODEL_TURN),
            Self::Gemini | Self::Gemini36 if Token::is_sent(body) => Some(NO_TOKEN),
            Self::Gemini38 if Token::is_sent(body) && Token::read(body, document).is_none() => {
                Some(BAD_TOKEN)
            }
            Self::DeepSeek if is_asked && !path.contains("/beta/") => Some(BETA_ONLY),
            Self::DeepSeek if last.is_some() && !is_asked => Some(PREFIX_MODE),
            Self::Mistral if last.is_some() && !is_asked => Some(LAST_ROLE),
            Self::Vllm if is_asked && adds() => Some(BOTH),
            Self::LlamaCpp if last.is_some() && thinks() => Some(THINKING),
            Self::Perplexity if is_json() => Some(NO_FORMAT),
            _ => None,
        }
    }
}

fn last_of_assistant(body: &Value) -> Option<&Value> {
    let last = body["messages"].as_array()?.last()?;
    (last["role"] == "assistant").then_some(last)
}

/// llama.cpp's answer at an unknown path, and about a stream that it does not keep.
pub(super) const NOT_FOUND: &str =
    r#"{"error":{"message":"File Not Found","type":"not_found_error","code":404}}"#;
const NO_PREFILL: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support assistant message prefill. The conversation must end with a user message."}}"#;
const TRAILING_SPACE: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages: final assistant content cannot end with trailing whitespace"}}"#;
const MODEL_TURN: &str = r#"{"error":{"code":400,"message":"Requests ending with a model turn are not supported.","status":"INVALID_ARGUMENT"}}"#;
const NO_TOKEN: &str = r#"{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"continuationToken\": Cannot find field.","status":"INVALID_ARGUMENT"}}"#;
const BAD_TOKEN: &str = r#"{"error":{"code":400,"message":"The continuation token is invalid.","status":"INVALID_ARGUMENT"}}"#;
const BETA_ONLY: &str = r#"{"error":{"message":"prefix is only available when using beta api (set base_url=\"https://api.deepseek.com/beta\")","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#;
const PREFIX_MODE: &str = r#"{"error":{"message":"The last message of deepseek-reasoner must be a user message, or an assistant message with prefix mode on (refer to https://api-docs.deepseek.com/guides/chat_prefix_completion).","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#;
const LAST_ROLE: &str = r#"{"object":"error","message":"Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant","type":"invalid_request_error","param":null,"code":null}"#;
const BOTH: &str = r#"{"object":"error","message":"Cannot set both `continue_final_message` and `add_generation_prompt` to True.","type":"BadRequestError","param":null,"code":400}"#;
const THINKING: &str = r#"{"error":{"code":400,"message":"Assistant response prefill is incompatible with enable_thinking.","type":"invalid_request_error"}}"#;
const NO_FORMAT: &str = r#"{"error":{"message":"[\"At body -> response_format -> ResponseFormatText -> type: Input should be 'text'\"]","type":"bad_request","code":400}}"#;
