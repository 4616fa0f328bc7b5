//! Reads what a refusal says about a model. The texts are those of real refusals.

/// What a refusal says about a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CapabilityHint {
    /// The model continues no prefill, or not in the form that was used.
    NoPrefill,
    /// A prefill must not end in white space.
    RejectsTrailingSpace,
    /// This member of a request is not accepted, or not with the value that it had.
    NoMember(&'static str),
}

impl CapabilityHint {
    /// Reads the body of a response whose status says that the request is wrong (400, 422). Returns `None` if it says
    /// nothing about what a model can be asked for. Reads at most 64 KiB.
    ///
    /// A body may quote the request, and so anything that a user wrote. A hint therefore counts only if the request had
    /// what the hint is about.
    ///
    /// ```
    /// use restitch::internal::capability::CapabilityHint;
    ///
    /// let body = r#"{"error": {"message": "Unsupported parameter: response_format"}}"#;
    /// assert_eq!(CapabilityHint::read(body), Some(CapabilityHint::NoMember("response_format")));
    /// assert_eq!(CapabilityHint::read(r#"{"error": {"message": "Invalid API key"}}"#), None);
    /// ```
    pub fn read(body: &str) -> Option<Self> {
        let end = (0..=LONGEST.min(body.len())).rev().find(|&end| body.is_char_boundary(end))?;
        let body = body.get(..end)?.to_ascii_lowercase();
        if body.contains(WHITE_SPACE) {
            return Some(Self::RejectsTrailingSpace);
        }
        if NO_PREFIX.iter().any(|said| body.contains(said)) {
            return Some(Self::NoPrefill);
        }
        if !NOT_TAKEN.iter().any(|said| body.contains(said)) {
            return None;
        }
        if PREFIX_MEMBERS.iter().any(|member| names(&body, member)) {
            return Some(Self::NoPrefill);
        }
        MEMBERS.iter().find(|member| names(&body, member)).map(|member| Self::NoMember(member))
    }
}

/// The bytes of a body that are read.
const LONGEST: usize = 64 << 10;

/// Anthropic: "messages: final assistant content cannot end with trailing whitespace",
/// github.com/tailcallhq/forgecode/issues/1872.
const WHITE_SPACE: &str = "cannot end with trailing whitespace";

/// Texts in lower case. They have no quotes, since a provider that passes another provider's error on escapes them.
const NO_PREFIX: [&str; 7] = [
    // Anthropic, from 4.6 on: github.com/anthropics/claude-code/issues/52433.
    "does not support assistant message prefill",
    // Gemini, from 3.6 Flash on: github.com/Zoo-Code-Org/Zoo-Code/issues/1052.
    "requests ending with a model turn are not supported",
    // llama.cpp: github.com/ggml-org/llama.cpp/issues/20861.
    "assistant response prefill is incompatible with enable_thinking",
    // DeepSeek, at a path that is not the beta one: github.com/BerriAI/litellm/issues/4881.
    "prefix is only available when using beta api",
    // DeepSeek, asked without the flag: github.com/gptme/gptme/issues/467.
    "must be a user message, or an assistant message with prefix mode on",
    // Mistral, asked without the flag: github.com/huggingface/smolagents/issues/757.
    "expected last role user or tool",
    // Anthropic adds this to the first text, and other providers send it alone.
    "the conversation must end with a user message",
];

/// Texts that say that something is not accepted. What it is must be named beside them.
const NOT_TAKEN: [&str; 9] = [
    // OpenAI: github.com/appatalks/eva-agent/issues/83, github.com/router-for-me/CLIProxyAPI/issues/1647.
    "unsupported parameter",
    // Azure: "Invalid parameter: 'response_format' of type 'json_object' is not supported with this model.",
    // github.com/mrwadams/stride-gpt/issues/19.
    "not supported",
    "does not support",
    // OpenAI, in one report: github.com/openai-php/client/issues/251.
    "unrecognized request argument",
    // Servers that validate with pydantic, for example Mistral's: github.com/partITech/php-mistral/issues/76.
    "extra inputs are not permitted",
    "extra_forbidden",
    // Perplexity: "At body -> response_format -> ResponseFormatText -> type: Input should be 'text'",
    // github.com/567-labs/instructor/issues/1005.
    "at body -> response_format",
    // Servers whose requests are protocol buffers, for example Google's.
    "unknown name",
    // OpenRouter, for models that always reason.
    "cannot be disabled",
];

/// The members that ask for a prefill to be continued.
const PREFIX_MEMBERS: [&str; 4] = ["continue_final_message", "add_generation_prompt", "prefix", "partial"];

/// The other members that a refusal may be about.
const MEMBERS: [&str; 8] = [
    "response_format",
    "reasoning_effort",
    "enable_thinking",
    "chat_template_kwargs",
    "tool_choice",
    "tools",
    "thinking",
    "reasoning",
];

/// Returns whether `text` names a member. A member whose name is an English word must be quoted, or must follow a dot
/// or a colon.
fn names(text: &str, member: &str) -> bool {
    let is_word = !member.contains('_');
    text.match_indices(member).any(|(at, _)| {
        let (before, after) = (text.get(..at).unwrap_or_default(), text.get(at + member.len()..).unwrap_or_default());
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let is_whole = !before.ends_with(part) && !after.starts_with(part);
        is_whole && (!is_word || !before.ends_with(' ') || before.ends_with(": "))
    })
}
