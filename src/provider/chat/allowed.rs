//! The members of a chat completion's request that hold no credential.
//!
//! The members are those of OpenAI's schema (`CompletionCreateParams` of its SDKs), and of servers
//! that speak the API. Not among them: `metadata` and `store`, which serve the account that they
//! were sent to, and whose names or values are anything.

use crate::provider::allowed::{
    CACHE, COMPATIBLE, FORM, FUNCTION, LOCATION, Members, PROVIDERS, Rule, STRUCTURED, TEMPLATE,
};

pub(super) const REQUEST: Members = &[
    (
        &[
            "frequency_penalty",
            "logprobs",
            "max_completion_tokens",
            "max_tokens",
            "modalities",
            "model",
            "n",
            "parallel_tool_calls",
            "presence_penalty",
            "prompt_cache_key",
            "prompt_cache_retention",
            "reasoning_effort",
            "safety_identifier",
            "seed",
            "service_tier",
            "stop",
            "stream",
            "temperature",
            "top_logprobs",
            "top_p",
            "user",
            "verbosity",
        ],
        Rule::Plain,
    ),
    (COMPATIBLE, Rule::Plain),
    (&["messages"], MESSAGES),
    (&["tools"], TOOLS),
    (&["functions"], FUNCTION),
    (&["function_call"], NAME),
    (&["tool_choice"], CHOICE),
    (&["response_format"], FORM),
    (
        &["audio"],
        Rule::Settings(&[(&["format"], Rule::Plain), (&["voice"], ID)]),
    ),
    (&["logit_bias"], Rule::Numbers),
    (
        &["prediction"],
        Rule::Settings(&[(&["type"], Rule::Plain), (&["content"], CONTENT)]),
    ),
    (&["prompt_cache_options", "cache_control"], CACHE),
    (
        &["reasoning", "thinking"],
        Rule::Settings(&[(
            &[
                "budget_tokens",
                "clear_thinking",
                "effort",
                "enabled",
                "exclude",
                "max_tokens",
                "summary",
                "type",
            ],
            Rule::Plain,
        )]),
    ),
    (
        &["stream_options"],
        Rule::Settings(&[(&["include_obfuscation", "include_usage"], Rule::Plain)]),
    ),
    (
        &["web_search_options"],
        Rule::Tool(
            &[],
            &[
                (&["search_context_size"], Rule::Plain),
                (
                    &["user_location"],
                    Rule::Tool(
                        &[],
                        &[(&["type"], Rule::Plain), (&["approximate"], LOCATION)],
                    ),
                ),
            ],
        ),
    ),
    (&["chat_template_kwargs"], TEMPLATE),
    (&["guided_json", "json_schema"], Rule::Text),
    (&["structured_outputs"], STRUCTURED),
    (&["provider"], PROVIDERS),
    (&["usage"], Rule::Settings(&[(&["include"], Rule::Plain)])),
];

const MESSAGES: Rule = Rule::Settings(&[
    (
        &[
            "name",
            "partial",
            "prefix",
            "reasoning",
            "reasoning_content",
            "refusal",
            "role",
            "tool_call_id",
        ],
        Rule::Plain,
    ),
    (&["content"], CONTENT),
    (&["annotations", "reasoning_details"], Rule::Text),
    (
        &["audio"],
        Rule::Settings(&[(&["data", "expires_at", "id", "transcript"], Rule::Plain)]),
    ),
    (&["function_call"], CALL),
    (
        &["tool_calls"],
        Rule::Settings(&[
            (&["id", "index", "type"], Rule::Plain),
            (&["custom", "function"], CALL),
            (
                &["extra_content"],
                Rule::Settings(&[(
                    &["google"],
                    Rule::Settings(&[(&["thought_signature"], Rule::Plain)]),
                )]),
            ),
        ]),
    ),
    (&["cache_control"], CACHE),
]);

const CONTENT: Rule = Rule::Content(
    &[
        "",
        "audio_url",
        "file",
        "image_url",
        "input_audio",
        "input_image",
        "input_text",
        "output_text",
        "refusal",
        "text",
        "thinking",
        "video_url",
    ],
    &[
        (
            &["refusal", "signature", "text", "thinking", "type"],
            Rule::Plain,
        ),
        (
            &["audio_url", "image_url", "video_url"],
            Rule::Settings(&[(&["detail", "format", "url"], Rule::Plain)]),
        ),
        (
            &["input_audio"],
            Rule::Settings(&[(&["data", "format"], Rule::Plain)]),
        ),
        (
            &["file"],
            Rule::Settings(&[
                (&["file_id", "filename", "format"], Rule::Plain),
                (&["file_data"], Rule::Address),
            ]),
        ),
        (&["cache_control", "prompt_cache_breakpoint"], CACHE),
    ],
);

const CALL: Rule = Rule::Settings(&[
    (&["name"], Rule::Plain),
    (&["arguments", "input"], Rule::Text),
]);

const TOOLS: Rule = Rule::Tool(
    &["", "builtin_function", "custom", "function"],
    &[
        (&["defer_loading", "type"], Rule::Plain),
        (&["function"], FUNCTION),
        (
            &["custom"],
            Rule::Tool(
                &[],
                &[
                    (&["description", "name"], Rule::Plain),
                    (
                        &["format"],
                        Rule::Tool(
                            &[],
                            &[
                                (&["type"], Rule::Plain),
                                (
                                    &["grammar"],
                                    Rule::Tool(&[], &[(&["definition", "syntax"], Rule::Plain)]),
                                ),
                            ],
                        ),
                    ),
                ],
            ),
        ),
        (&["cache_control"], CACHE),
    ],
);

const NAME: Rule = Rule::Settings(&[(&["name"], Rule::Plain)]);
const ID: Rule = Rule::Settings(&[(&["id"], Rule::Plain)]);

const CHOICE: Rule = Rule::Settings(&[
    (&["type"], Rule::Plain),
    (&["custom", "function"], NAME),
    (
        &["allowed_tools"],
        Rule::Settings(&[
            (&["mode"], Rule::Plain),
            (
                &["tools"],
                Rule::Settings(&[(&["type"], Rule::Plain), (&["custom", "function"], NAME)]),
            ),
        ]),
    ),
]);
