//! The members of a request for a response that hold no credential.
//!
//! The members are those of OpenAI's schema (`ResponseCreateParams`, `ResponseInputItem` and `Tool`
//! of its SDKs). Not among them: `metadata`, which serves the account that it was sent to; in tools
//! `authorization`, `headers`, `connector_id`, `tunnel_id` and `domain_secrets`; items that bring
//! tools of their own.

use crate::provider::allowed::{CACHE, COMPATIBLE, FUNCTION, LOCATION, Members, PROVIDERS, Rule};

pub(super) const REQUEST: Members = &[
    (
        &[
            "background",
            "include",
            "instructions",
            "max_output_tokens",
            "max_tool_calls",
            "model",
            "parallel_tool_calls",
            "previous_response_id",
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "service_tier",
            "store",
            "stream",
            "temperature",
            "top_logprobs",
            "top_p",
            "truncation",
            "user",
        ],
        Rule::Plain,
    ),
    (COMPATIBLE, Rule::Plain),
    (&["input"], INPUT),
    (&["tools"], TOOLS),
    (&["tool_choice"], CHOICE),
    (&["conversation"], Rule::Settings(&[(&["id"], Rule::Plain)])),
    (
        &["context_management"],
        Rule::Settings(&[(&["compact_threshold", "type"], Rule::Plain)]),
    ),
    (
        &["prompt"],
        Rule::Settings(&[
            (&["id", "version"], Rule::Plain),
            (&["variables"], Rule::Text),
        ]),
    ),
    (&["prompt_cache_options"], CACHE),
    (
        &["reasoning"],
        Rule::Settings(&[(
            &[
                "context",
                "effort",
                "enabled",
                "generate_summary",
                "max_tokens",
                "mode",
                "summary",
            ],
            Rule::Plain,
        )]),
    ),
    (
        &["stream_options"],
        Rule::Settings(&[(&["include_obfuscation"], Rule::Plain)]),
    ),
    (
        &["text"],
        Rule::Settings(&[
            (&["verbosity"], Rule::Plain),
            (
                &["format"],
                Rule::Settings(&[
                    (&["description", "name", "strict", "type"], Rule::Plain),
                    (&["schema"], Rule::Text),
                ]),
            ),
        ]),
    ),
    (&["provider"], PROVIDERS),
];

const INPUT: Rule = Rule::Content(
    &[
        "",
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "compaction",
        "compaction_trigger",
        "computer_call",
        "computer_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "file_search_call",
        "function_call",
        "function_call_output",
        "image_generation_call",
        "item_reference",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "message",
        "program",
        "program_output",
        "reasoning",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "web_search_call",
    ],
    &[
        (
            &[
                "approval_request_id",
                "approve",
                "call_id",
                "code",
                "container_id",
                "encrypted_content",
                "execution",
                "fingerprint",
                "id",
                "max_output_length",
                "name",
                "namespace",
                "phase",
                "queries",
                "reason",
                "result",
                "role",
                "server_label",
                "status",
                "type",
            ],
            Rule::Plain,
        ),
        (&["content", "output", "summary"], CONTENT),
        // The model's own words.
        (
            &["arguments", "error", "input", "outputs", "results"],
            Rule::Text,
        ),
        (
            &["acknowledged_safety_checks", "pending_safety_checks"],
            Rule::Text,
        ),
        (
            &["tools"],
            Rule::Settings(&[
                (&["description", "name"], Rule::Plain),
                (&["annotations", "input_schema"], Rule::Text),
            ]),
        ),
        (
            &["action", "actions"],
            Rule::Settings(&[
                (
                    &[
                        "button",
                        "command",
                        "commands",
                        "keys",
                        "max_output_length",
                        "scroll_x",
                        "scroll_y",
                        "timeout_ms",
                        "type",
                        "user",
                        "working_directory",
                        "x",
                        "y",
                    ],
                    Rule::Plain,
                ),
                (
                    &[
                        "path", "pattern", "queries", "query", "sources", "text", "url",
                    ],
                    Rule::Text,
                ),
                // The schema requires the member. Its variables are left out.
                (&["env"], Rule::Settings(&[])),
            ]),
        ),
        (
            &["operation"],
            Rule::Settings(&[(&["diff", "path", "type"], Rule::Plain)]),
        ),
        (
            &["caller"],
            Rule::Settings(&[(&["caller_id", "type"], Rule::Plain)]),
        ),
        (
            &["environment"],
            Rule::Settings(&[(&["container_id", "type"], Rule::Plain)]),
        ),
    ],
);

const CONTENT: Rule = Rule::Content(
    &[
        "",
        "computer_screenshot",
        "input_audio",
        "input_file",
        "input_image",
        "input_text",
        "output_text",
        "reasoning_text",
        "refusal",
        "summary_text",
        "text",
    ],
    &[
        (
            &[
                "detail",
                "file_id",
                "file_url",
                "filename",
                "image_url",
                "refusal",
                "stderr",
                "stdout",
                "text",
                "type",
            ],
            Rule::Plain,
        ),
        (&["file_data"], Rule::Address),
        (&["annotations", "logprobs"], Rule::Text),
        (
            &["input_audio"],
            Rule::Settings(&[(&["data", "format"], Rule::Plain)]),
        ),
        (
            &["outcome"],
            Rule::Settings(&[(&["exit_code", "type"], Rule::Plain)]),
        ),
        (&["prompt_cache_breakpoint"], CACHE),
    ],
);

const TOOLS: Rule = Rule::Tool(
    &[
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use",
        "computer_use_preview",
        "custom",
        "file_search",
        "function",
        "image_generation",
        "local_shell",
        "mcp",
        "namespace",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
        "web_search",
        "web_search_preview",
    ],
    &[
        (
            &[
                "action",
                "allowed_callers",
                "background",
                "defer_loading",
                "description",
                "display_height",
                "display_width",
                "execution",
                "external_web_access",
                "input_fidelity",
                "max_num_results",
                "model",
                "moderation",
                "name",
                "output_compression",
                "output_format",
                "partial_images",
                "quality",
                "search_content_types",
                "search_context_size",
                "server_description",
                "server_label",
                "size",
                "strict",
                "type",
                "vector_store_ids",
            ],
            Rule::Plain,
        ),
        (&["output_schema", "parameters"], Rule::Text),
        // A search in files has comparisons with attributes, which have any names.
        (&["filters"], Rule::Text),
        (&["server_url"], Rule::Server),
        (&["allowed_tools"], FILTER),
        (
            &["require_approval"],
            Rule::Tool(&[], &[(&["always", "never"], FILTER)]),
        ),
        (
            &["container", "environment"],
            Rule::Tool(
                &[],
                &[
                    (
                        &["container_id", "file_ids", "memory_limit", "type"],
                        Rule::Plain,
                    ),
                    (
                        &["network_policy"],
                        Rule::Tool(&[], &[(&["allowed_domains", "type"], Rule::Plain)]),
                    ),
                ],
            ),
        ),
        (
            &["format"],
            Rule::Tool(&[], &[(&["definition", "syntax", "type"], Rule::Plain)]),
        ),
        (
            &["input_image_mask"],
            Rule::Tool(&[], &[(&["file_id", "image_url"], Rule::Plain)]),
        ),
        (
            &["ranking_options"],
            Rule::Tool(
                &[],
                &[
                    (&["ranker", "score_threshold"], Rule::Plain),
                    (
                        &["hybrid_search"],
                        Rule::Tool(&[], &[(&["embedding_weight", "text_weight"], Rule::Plain)]),
                    ),
                ],
            ),
        ),
        (&["user_location"], LOCATION),
        (
            &["tools"],
            Rule::Tool(
                &["custom", "function"],
                &[
                    (
                        &[
                            "allowed_callers",
                            "defer_loading",
                            "description",
                            "name",
                            "strict",
                            "type",
                        ],
                        Rule::Plain,
                    ),
                    (&["output_schema", "parameters"], Rule::Text),
                ],
            ),
        ),
        (&["function"], FUNCTION),
    ],
);

/// Which tools of a server are meant.
const FILTER: Rule = Rule::Tool(&[], &[(&["read_only", "tool_names"], Rule::Plain)]);

const CHOICE: Rule = Rule::Settings(&[
    (&["mode", "name", "server_label", "type"], Rule::Plain),
    (
        &["tools"],
        Rule::Settings(&[(&["name", "server_label", "type"], Rule::Plain)]),
    ),
]);
