//! Members that several APIs have, and those of servers that speak OpenAI's APIs.

use super::Rule;

/// Members of servers that speak OpenAI's APIs, beside OpenAI's own: vLLM (`ChatCompletionRequest`,
/// `CompletionRequest`), llama.cpp's server, SGLang, OpenRouter, DeepSeek, Mistral and Qwen.
/// Settings of the sampling and of the template.
pub(in crate::provider) const COMPATIBLE: &[&str] = &[
    "add_generation_prompt",
    "add_special_tokens",
    "allowed_token_ids",
    "bad_words",
    "cache_prompt",
    "chat_template",
    "continue_final_message",
    "dry_allowed_length",
    "dry_base",
    "dry_multiplier",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "dynatemp_exponent",
    "dynatemp_range",
    "ebnf",
    "echo",
    "enable_search",
    "enable_thinking",
    "grammar",
    "guided_choice",
    "guided_decoding_backend",
    "guided_grammar",
    "guided_regex",
    "id_slot",
    "ignore_eos",
    "include_reasoning",
    "include_stop_str_in_output",
    "length_penalty",
    "min_keep",
    "min_p",
    "min_tokens",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "models",
    "n_keep",
    "n_predict",
    "n_probs",
    "no_stop_trim",
    "priority",
    "prompt_logprobs",
    "random_seed",
    "reasoning_format",
    "reasoning_split",
    "regex",
    "repeat_last_n",
    "repeat_penalty",
    "repetition_penalty",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "route",
    "safe_prompt",
    "samplers",
    "separate_reasoning",
    "session_id",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stop_regex",
    "stop_token_ids",
    "stream_reasoning",
    "t_max_predict_ms",
    "thinking_budget",
    "thinking_token_budget",
    "top_a",
    "top_k",
    "top_n_sigma",
    "transforms",
    "truncate_prompt_tokens",
    "truncation_side",
    "typical_p",
    "use_beam_search",
    "xtc_probability",
    "xtc_threshold",
];

/// Settings of chat templates (vLLM, SGLang, Qwen).
pub(in crate::provider) const TEMPLATE: Rule = Rule::Settings(&[(
    &[
        "add_vision_id",
        "enable_thinking",
        "preserve_thinking",
        "reasoning_effort",
        "thinking",
        "thinking_budget",
    ],
    Rule::Plain,
)]);

/// The output constraint that vLLM enforces.
pub(in crate::provider) const STRUCTURED: Rule = Rule::Settings(&[
    (&["json"], Rule::Text),
    (
        &[
            "choice",
            "disable_any_whitespace",
            "grammar",
            "json_object",
            "regex",
        ],
        Rule::Plain,
    ),
]);

/// Which providers OpenRouter may ask.
pub(in crate::provider) const PROVIDERS: Rule = Rule::Settings(&[
    (
        &[
            "allow_fallbacks",
            "data_collection",
            "enforce_distillable_text",
            "ignore",
            "only",
            "order",
            "preferred_max_latency",
            "preferred_min_throughput",
            "quantizations",
            "require_parameters",
            "zdr",
        ],
        Rule::Plain,
    ),
    (
        &["sort"],
        Rule::Settings(&[(&["by", "partition"], Rule::Plain)]),
    ),
    (
        &["max_price"],
        Rule::Settings(&[(
            &["audio", "completion", "image", "prompt", "request"],
            Rule::Plain,
        )]),
    ),
]);

/// A format of the answer in OpenAI's layout: a schema has any names.
pub(in crate::provider) const FORM: Rule = Rule::Settings(&[
    (
        &[
            "description",
            "grammar",
            "name",
            "pattern",
            "strict",
            "type",
        ],
        Rule::Plain,
    ),
    (
        &["format", "schema", "structures", "triggers", "value"],
        Rule::Text,
    ),
    (
        &["json_schema"],
        Rule::Settings(&[
            (&["description", "name", "strict"], Rule::Plain),
            (&["schema"], Rule::Text),
        ]),
    ),
]);

/// Where a prompt is cached (Anthropic and its clients by other APIs; OpenAI).
pub(in crate::provider) const CACHE: Rule =
    Rule::Settings(&[(&["mode", "ttl", "type"], Rule::Plain)]);

/// A function that the model may call, and its parameters.
pub(in crate::provider) const FUNCTION: Rule = Rule::Tool(
    &[],
    &[
        (
            &["defer_loading", "description", "name", "strict"],
            Rule::Plain,
        ),
        (&["output_schema", "parameters", "response"], Rule::Text),
    ],
);

/// The location of the user of a search.
pub(in crate::provider) const LOCATION: Rule = Rule::Tool(
    &[],
    &[(
        &["city", "country", "region", "timezone", "type"],
        Rule::Plain,
    )],
);
