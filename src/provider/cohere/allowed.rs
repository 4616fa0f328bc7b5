//! The members of a request for Cohere's Chat that hold no credential.
//!
//! The members are those of Cohere's schema (`V2ChatRequest` of its SDKs). Documents are written
//! out in the request, as data of any names.

use crate::provider::allowed::{FUNCTION, Members, Rule};

pub(super) const REQUEST: Members = &[
    (
        &[
            "frequency_penalty",
            "k",
            "logprobs",
            "max_tokens",
            "model",
            "p",
            "presence_penalty",
            "priority",
            "raw_prompting",
            "reasoning_effort",
            "safety_mode",
            "seed",
            "stop_sequences",
            "stream",
            "strict_tools",
            "temperature",
            "tool_choice",
        ],
        Rule::Plain,
    ),
    (&["messages"], MESSAGES),
    (&["documents"], DOCUMENT),
    (
        &["tools"],
        Rule::Tool(
            &["", "function"],
            &[(&["type"], Rule::Plain), (&["function"], FUNCTION)],
        ),
    ),
    (
        &["citation_options"],
        Rule::Settings(&[(&["mode"], Rule::Plain)]),
    ),
    (
        &["response_format"],
        Rule::Settings(&[
            (&["type"], Rule::Plain),
            (&["json_schema", "schema"], Rule::Text),
        ]),
    ),
    (
        &["thinking"],
        Rule::Settings(&[(&["token_budget", "type"], Rule::Plain)]),
    ),
];

const DOCUMENT: Rule = Rule::Tool(&[], &[(&["id"], Rule::Plain), (&["data"], Rule::Text)]);

const MESSAGES: Rule = Rule::Settings(&[
    (&["role", "tool_call_id", "tool_plan"], Rule::Plain),
    (
        &["content"],
        Rule::Content(
            &["", "document", "image_url", "text", "thinking"],
            &[
                (&["text", "thinking", "type"], Rule::Plain),
                (
                    &["image_url"],
                    Rule::Settings(&[(&["detail", "url"], Rule::Plain)]),
                ),
                (&["document"], DOCUMENT),
            ],
        ),
    ),
    // The model's own words.
    (&["citations"], Rule::Text),
    (
        &["tool_calls"],
        Rule::Settings(&[
            (&["id", "type"], Rule::Plain),
            (
                &["function"],
                Rule::Settings(&[(&["name"], Rule::Plain), (&["arguments"], Rule::Text)]),
            ),
        ]),
    ),
]);
