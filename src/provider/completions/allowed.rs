//! The members of a completion's request that hold no credential.
//!
//! The members are those of OpenAI's schema (`CompletionCreateParams` of its SDKs), and of servers
//! that speak the API.

use crate::provider::allowed::{COMPATIBLE, FORM, Members, PROVIDERS, Rule, STRUCTURED};

pub(super) const REQUEST: Members = &[
    (
        &[
            "best_of",
            "frequency_penalty",
            "logprobs",
            "max_tokens",
            "model",
            "n",
            "presence_penalty",
            "prompt",
            "seed",
            "stop",
            "stream",
            "suffix",
            "temperature",
            "top_p",
            "user",
        ],
        Rule::Plain,
    ),
    (COMPATIBLE, Rule::Plain),
    (&["logit_bias"], Rule::Numbers),
    (
        &["stream_options"],
        Rule::Settings(&[(&["include_obfuscation", "include_usage"], Rule::Plain)]),
    ),
    (&["response_format"], FORM),
    (&["guided_json", "json_schema"], Rule::Text),
    (&["structured_outputs"], STRUCTURED),
    (&["provider"], PROVIDERS),
    (&["usage"], Rule::Settings(&[(&["include"], Rule::Plain)])),
];
