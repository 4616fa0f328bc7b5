//! Providers by name: the addresses of their Chat Completions APIs, and the variables that have the keys.
//!
//! Any other server is `--base-url`.

/// A provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Provider {
    pub(in crate::cli) name: &'static str,
    /// The address up to `/chat/completions`.
    pub(in crate::cli) base_url: &'static str,
    /// The variable from which the provider's own clients read the key.
    pub(in crate::cli) key: &'static str,
}

/// All providers, with the addresses that their documentation gives for OpenAI's clients.
pub(in crate::cli) const PROVIDERS: [Provider; 10] = [
    Provider { name: "openai", base_url: "https://api.openai.com/v1", key: "OPENAI_API_KEY" },
    Provider { name: "openrouter", base_url: "https://openrouter.ai/api/v1", key: "OPENROUTER_API_KEY" },
    // docs.anthropic.com/en/api/openai-sdk
    Provider { name: "anthropic", base_url: "https://api.anthropic.com/v1", key: "ANTHROPIC_API_KEY" },
    // ai.google.dev/gemini-api/docs/openai
    Provider {
        name: "gemini",
        base_url: "https://generativelanguage.googleapis.com/v1beta/openai",
        key: "GEMINI_API_KEY",
    },
    Provider { name: "deepseek", base_url: "https://api.deepseek.com", key: "DEEPSEEK_API_KEY" },
    Provider { name: "mistral", base_url: "https://api.mistral.ai/v1", key: "MISTRAL_API_KEY" },
    Provider { name: "perplexity", base_url: "https://api.perplexity.ai", key: "PERPLEXITY_API_KEY" },
    Provider { name: "groq", base_url: "https://api.groq.com/openai/v1", key: "GROQ_API_KEY" },
    Provider {
        name: "qwen",
        base_url: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key: "DASHSCOPE_API_KEY",
    },
    Provider { name: "moonshot", base_url: "https://api.moonshot.ai/v1", key: "MOONSHOT_API_KEY" },
];

/// Returns the provider of this name.
pub(in crate::cli) fn by_name(name: &str) -> Option<Provider> {
    PROVIDERS.into_iter().find(|provider| provider.name == name)
}

/// Returns all names, for errors.
pub(in crate::cli) fn names() -> String {
    PROVIDERS.map(|provider| provider.name).join(", ")
}
