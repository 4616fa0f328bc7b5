//! The members of a Messages request that hold no credential.
//!
//! The members are those of Anthropic's schema (`MessageCreateParams` of its SDKs, the beta members
//! included) and of the same API on Bedrock and Vertex. Not among them: `authorization_token` of a
//! server of tools, `fallback_credit_token`, `configs` of a tool set (it has any names), and blocks
//! that add tools.

use crate::provider::allowed::{CACHE, LOCATION, Members, Rule};

pub(super) const REQUEST: Members = &[
    (
        &[
            "anthropic_beta",
            "anthropic_version",
            "inference_geo",
            "max_tokens",
            "model",
            "service_tier",
            "speed",
            "stop_sequences",
            "stream",
            "temperature",
            "top_k",
            "top_p",
        ],
        Rule::Plain,
    ),
    (
        &["messages"],
        Rule::Settings(&[(&["role"], Rule::Plain), (&["content"], CONTENT)]),
    ),
    (&["system"], BLOCKS),
    (&["tools"], TOOLS),
    (&["mcp_servers"], SERVERS),
    (
        &["tool_choice"],
        Rule::Settings(&[(&["disable_parallel_tool_use", "name", "type"], Rule::Plain)]),
    ),
    (&["cache_control"], CACHE),
    (
        &["container"],
        Rule::Tool(
            &[],
            &[
                (&["id"], Rule::Plain),
                (
                    &["skills"],
                    Rule::Tool(&[], &[(&["skill_id", "type", "version"], Rule::Plain)]),
                ),
            ],
        ),
    ),
    (
        &["context_management"],
        Rule::Settings(&[(&["edits"], EDITS)]),
    ),
    (
        &["metadata"],
        Rule::Settings(&[(&["user_id"], Rule::Plain)]),
    ),
    (
        &["output_config"],
        Rule::Settings(&[
            (&["effort"], Rule::Plain),
            (&["format"], FORM),
            (
                &["task_budget"],
                Rule::Settings(&[(&["remaining", "total", "type"], Rule::Plain)]),
            ),
        ]),
    ),
    (&["output_format"], FORM),
    (
        &["thinking"],
        Rule::Settings(&[(&["budget_tokens", "display", "type"], Rule::Plain)]),
    ),
];

const FORM: Rule = Rule::Settings(&[(&["type"], Rule::Plain), (&["schema"], Rule::Text)]);

const EDITS: Rule = Rule::Settings(&[
    (
        &[
            "clear_tool_inputs",
            "exclude_tools",
            "instructions",
            "pause_after_compaction",
            "type",
        ],
        Rule::Plain,
    ),
    (
        &["clear_at_least", "keep", "trigger"],
        Rule::Settings(&[(&["type", "value"], Rule::Plain)]),
    ),
]);

const CONTENT: Rule = Rule::Content(
    &[
        "advisor_tool_result",
        "bash_code_execution_tool_result",
        "code_execution_tool_result",
        "compaction",
        "container_upload",
        "document",
        "image",
        "mcp_tool_result",
        "mcp_tool_use",
        "redacted_thinking",
        "search_result",
        "server_tool_use",
        "text",
        "text_editor_code_execution_tool_result",
        "thinking",
        "tool_reference",
        "tool_result",
        "tool_search_tool_result",
        "tool_use",
        "web_fetch_tool_result",
        "web_search_tool_result",
    ],
    &[
        (
            &[
                "context",
                "data",
                "encrypted_content",
                "file_id",
                "id",
                "is_error",
                "name",
                "server_name",
                "signature",
                "text",
                "thinking",
                "title",
                "tool_name",
                "tool_use_id",
                "type",
            ],
            Rule::Plain,
        ),
        // The arguments of a call, and who made it.
        (&["input"], Rule::Text),
        (
            &["caller"],
            Rule::Settings(&[(&["tool_id", "type"], Rule::Plain)]),
        ),
        (&["source"], SOURCE),
        (&["citations"], CITATIONS),
        (&["content"], RESULT),
        (&["cache_control"], CACHE),
    ],
);

/// Texts and pictures in results of tools and in the instructions.
const BLOCKS: Rule = Rule::Content(
    &[
        "document",
        "image",
        "search_result",
        "text",
        "tool_reference",
    ],
    &[
        (
            &["context", "text", "title", "tool_name", "type"],
            Rule::Plain,
        ),
        (&["source"], SOURCE),
        (&["citations"], CITATIONS),
        (&["content"], TEXTS),
        (&["cache_control"], CACHE),
    ],
);

/// The result of a tool. The tools that the provider runs return texts, files by their ids, and
/// addresses from a search.
const RESULT: Rule = Rule::Content(
    &[
        "",
        "advisor_redacted_result",
        "advisor_result",
        "advisor_tool_result_error",
        "bash_code_execution_result",
        "bash_code_execution_tool_result_error",
        "code_execution_result",
        "code_execution_tool_result_error",
        "document",
        "encrypted_code_execution_result",
        "image",
        "search_result",
        "text",
        "text_editor_code_execution_create_result",
        "text_editor_code_execution_str_replace_result",
        "text_editor_code_execution_tool_result_error",
        "text_editor_code_execution_view_result",
        "tool_reference",
        "tool_search_tool_result_error",
        "tool_search_tool_search_result",
        "web_fetch_result",
        "web_fetch_tool_result_error",
        "web_search_result",
        "web_search_tool_result_error",
    ],
    &[
        (
            &[
                "context",
                "encrypted_content",
                "encrypted_stdout",
                "error_code",
                "error_message",
                "file_type",
                "is_file_update",
                "lines",
                "new_lines",
                "new_start",
                "num_lines",
                "old_lines",
                "old_start",
                "page_age",
                "retrieved_at",
                "return_code",
                "start_line",
                "stderr",
                "stdout",
                "stop_reason",
                "text",
                "title",
                "tool_name",
                "total_lines",
                "type",
            ],
            Rule::Plain,
        ),
        // The address is the result of a search.
        (&["url"], Rule::Text),
        (&["source"], SOURCE),
        (&["citations"], CITATIONS),
        (&["content"], TEXTS),
        (
            &["tool_references"],
            Rule::Settings(&[(&["tool_name", "type"], Rule::Plain)]),
        ),
        (&["cache_control"], CACHE),
    ],
);

/// The parts of results and documents.
const TEXTS: Rule = Rule::Content(
    &[
        "bash_code_execution_output",
        "code_execution_output",
        "document",
        "image",
        "text",
    ],
    &[
        (
            &["context", "file_id", "text", "title", "type"],
            Rule::Plain,
        ),
        (&["source"], SOURCE),
        (&["citations"], CITATIONS),
        (&["cache_control"], CACHE),
    ],
);

/// The source of a picture or a document; for a search result, its name or address.
const SOURCE: Rule = Rule::Settings(&[
    (
        &["data", "file_id", "media_type", "type", "url"],
        Rule::Plain,
    ),
    (
        &["content"],
        Rule::Content(
            &["image", "text"],
            &[
                (&["text", "type"], Rule::Plain),
                (
                    &["source"],
                    Rule::Settings(&[(
                        &["data", "file_id", "media_type", "type", "url"],
                        Rule::Plain,
                    )]),
                ),
                (&["cache_control"], CACHE),
            ],
        ),
    ),
]);

const CITATIONS: Rule = Rule::Settings(&[
    (
        &[
            "document_index",
            "document_title",
            "enabled",
            "encrypted_index",
            "end_block_index",
            "end_char_index",
            "end_page_number",
            "file_id",
            "search_result_index",
            "source",
            "start_block_index",
            "start_char_index",
            "start_page_number",
            "title",
            "type",
        ],
        Rule::Plain,
    ),
    (&["cited_text", "url"], Rule::Text),
]);

const TOOLS: Rule = Rule::Tool(
    &[
        "",
        "advisor",
        "bash",
        "code_execution",
        "computer",
        "custom",
        "mcp_toolset",
        "memory",
        "text_editor",
        "tool_search_tool_bm25",
        "tool_search_tool_regex",
        "web_fetch",
        "web_search",
    ],
    &[
        (
            &[
                "allowed_callers",
                "allowed_domains",
                "blocked_domains",
                "defer_loading",
                "description",
                "display_height_px",
                "display_number",
                "display_width_px",
                "eager_input_streaming",
                "enable_zoom",
                "max_characters",
                "max_content_tokens",
                "max_tokens",
                "max_uses",
                "mcp_server_name",
                "model",
                "name",
                "response_inclusion",
                "strict",
                "type",
                "use_cache",
            ],
            Rule::Plain,
        ),
        (&["input_examples", "input_schema"], Rule::Text),
        (
            &["citations"],
            Rule::Tool(&[], &[(&["enabled"], Rule::Plain)]),
        ),
        (
            &["default_config"],
            Rule::Tool(&[], &[(&["defer_loading", "enabled"], Rule::Plain)]),
        ),
        (&["user_location"], LOCATION),
        (&["cache_control", "caching"], CACHE),
    ],
);

const SERVERS: Rule = Rule::Tool(
    &["url"],
    &[
        (&["name", "type"], Rule::Plain),
        (&["url"], Rule::Server),
        (
            &["tool_configuration"],
            Rule::Tool(&[], &[(&["allowed_tools", "enabled"], Rule::Plain)]),
        ),
    ],
);
