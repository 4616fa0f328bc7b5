//! Recognizes the refusal of a request that is too long for its model. The texts are from real
//! refusals.

/// Returns whether a provider refuses a request because it has more tokens than the model accepts.
/// The body may quote the request, so the proxy may ask another model for this reason, but must not
/// change a request.
pub fn is_too_long(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    TOO_LONG.iter().any(|said| body.contains(said))
}

/// Codes and parts of messages, in lower case.
const TOO_LONG: [&str; 14] = [
    // The code of OpenAI, Groq and others.
    "context_length_exceeded",
    // OpenAI, vLLM, OpenRouter: "This model's maximum context length is 8192 tokens. However, you
    // requested …", github.com/hncboy/ai-beehive/issues/50.
    "maximum context length",
    // vLLM: "The prompt (total length …) is too long to fit into the model",
    // github.com/vllm-project/vllm/issues/12165.
    "too long to fit into the model",
    // SGLang: "The input (… tokens) is longer than the model's context length (… tokens)."
    "longer than the model's context length",
    // OpenAI, Responses: "Your input exceeds the context window of this model."
    "context window",
    // Anthropic: "prompt is too long: 202095 tokens > 200000 maximum",
    // github.com/stackblitz/bolt.new/issues/2449.
    "prompt is too long",
    // Anthropic, with the limit on output: github.com/anymorph-ai/Claudable/issues/3.
    "exceed context limit",
    // Gemini: "The input token count (…) exceeds the maximum number of tokens allowed (…)."
    "input token count",
    // xAI: github.com/cline/cline/issues/3120.
    "maximum prompt length",
    // Bedrock: "Input is too long for requested model."
    "input is too long",
    // llama.cpp: "the request exceeds the available context size".
    "available context size",
    // llama.cpp's type for this error, and the type of other servers:
    // github.com/antirez/ds4/pull/150.
    "exceed_context_size",
    "context_exceeded",
    // Mistral: "Prompt contains … tokens … too large for model with … maximum context length";
    // Groq.
    "reduce the length of the messages",
];

#[cfg(test)]
mod tests {
    use super::is_too_long;

    #[test]
    fn a_refusal_of_a_long_request_is_told_from_others() {
        for (body, is) in [
            (
                r#"{"error": {"message": "…", "code": "context_length_exceeded"}}"#,
                true,
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 202095 tokens > 200000 maximum"}}"#,
                true,
            ),
            (
                r#"{"error": {"message": "Input length and `max_tokens` exceed context limit: 198981 + 21333 > 200000"}}"#,
                true,
            ),
            (
                r#"{"error": {"code": 400, "message": "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", "status": "INVALID_ARGUMENT"}}"#,
                true,
            ),
            (
                r#"{"error":{"code":400,"message":"request (9032 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9032,"n_ctx":8192}}"#,
                true,
            ),
            (
                r#"{"object":"error","message":"This model's maximum context length is 200 tokens. However, your request has 203 input tokens.","code":400}"#,
                true,
            ),
            (
                r#"{"object":"error","message":"The prompt (total length 25938) is too long to fit into the model (context length 4096).","code":400}"#,
                true,
            ),
            (
                r#"{"error":{"message":"The input (5000 tokens) is longer than the model's context length (4096 tokens)."}}"#,
                true,
            ),
            (r#"{"error": {"message": "Invalid API key"}}"#, false),
            (
                r#"{"error": {"message": "Unsupported parameter: response_format"}}"#,
                false,
            ),
            ("", false),
        ] {
            assert_eq!(is_too_long(body), is, "{body}");
        }
    }
}
