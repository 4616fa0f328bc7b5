//! The members of a request to Ollama that hold no credential.
//!
//! The members are those of Ollama's schema (`ChatRequest`, `GenerateRequest` and `Options` of its
//! SDKs).

use crate::provider::allowed::{FUNCTION, Members, Rule};

pub(super) const REQUEST: Members = &[
    (
        &[
            "context",
            "height",
            "images",
            "keep_alive",
            "logprobs",
            "model",
            "prompt",
            "raw",
            "shift",
            "steps",
            "stream",
            "suffix",
            "system",
            "template",
            "think",
            "top_logprobs",
            "truncate",
            "width",
        ],
        Rule::Plain,
    ),
    (
        &["messages"],
        Rule::Settings(&[
            (
                &[
                    "content",
                    "images",
                    "name",
                    "role",
                    "thinking",
                    "tool_call_id",
                    "tool_name",
                ],
                Rule::Plain,
            ),
            (
                &["tool_calls"],
                Rule::Settings(&[
                    (&["id", "type"], Rule::Plain),
                    (
                        &["function"],
                        Rule::Settings(&[
                            (&["index", "name"], Rule::Plain),
                            (&["arguments"], Rule::Text),
                        ]),
                    ),
                ]),
            ),
        ]),
    ),
    (
        &["tools"],
        Rule::Tool(
            &["", "function"],
            &[(&["type"], Rule::Plain), (&["function"], FUNCTION)],
        ),
    ),
    // `json`, or a schema.
    (&["format"], Rule::Text),
    (&["options"], Rule::Settings(&[(OPTIONS, Rule::Plain)])),
];

const OPTIONS: &[&str] = &[
    "draft_num_predict",
    "embedding_only",
    "f16_kv",
    "frequency_penalty",
    "logits_all",
    "low_vram",
    "main_gpu",
    "min_p",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_ctx",
    "num_gpu",
    "num_keep",
    "num_predict",
    "num_thread",
    "numa",
    "penalize_newline",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "seed",
    "stop",
    "temperature",
    "tfs_z",
    "top_k",
    "top_p",
    "typical_p",
    "use_mlock",
    "use_mmap",
    "vocab_only",
];
