//! Providers by name: the APIs that each speaks and their addresses, and the variables that have
//! the keys.
//!
//! Any other server is `--base-url`.

use restitch::internal::wire::PlainPrompt;
use restitch::provider::Dialect;

/// A provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Provider {
    pub name: &'static str,
    /// The APIs with their addresses, up to the path of
    /// [`new_request`](restitch::internal::wire::Wire::new_request). The first one is the default.
    speaks: &'static [(Dialect, &'static str)],
    /// The variables from which clients read the key; the provider's own clients read the first
    /// one. Empty: no key is needed.
    keys: &'static [&'static str],
}

impl Provider {
    /// Returns the default API of the provider.
    pub(super) fn dialect(&self) -> Dialect {
        self.speaks
            .first()
            .map_or_else(Dialect::default, |(dialect, _)| *dialect)
    }

    /// Returns the address of an API. `None`: the provider does not speak it.
    pub(crate) fn base_url(&self, dialect: Dialect) -> Option<&'static str> {
        self.speaks
            .iter()
            .find(|(spoken, _)| *spoken == dialect)
            .map(|(_, base_url)| *base_url)
    }

    /// Returns the names of the APIs, for errors.
    pub(super) fn dialects(&self) -> String {
        self.speaks
            .iter()
            .map(|(dialect, _)| dialect.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// All providers. All speak Chat Completions, at the address that their documentation gives for
/// OpenAI's clients.
pub(crate) const PROVIDERS: [Provider; 12] = [
    Provider {
        name: "openai",
        speaks: &[
            (Dialect::Chat, "https://api.openai.com/v1"),
            (Dialect::Responses, "https://api.openai.com/v1"),
            (Dialect::Completions, "https://api.openai.com/v1"),
        ],
        keys: &["OPENAI_API_KEY"],
    },
    Provider {
        name: "openrouter",
        speaks: &[(Dialect::Chat, "https://openrouter.ai/api/v1")],
        keys: &["OPENROUTER_API_KEY"],
    },
    // docs.anthropic.com/en/api/messages, docs.anthropic.com/en/api/openai-sdk
    Provider {
        name: "anthropic",
        speaks: &[
            (Dialect::Messages, "https://api.anthropic.com/v1"),
            (Dialect::Chat, "https://api.anthropic.com/v1"),
        ],
        keys: &["ANTHROPIC_API_KEY"],
    },
    // ai.google.dev/api/generate-content, ai.google.dev/gemini-api/docs/openai
    Provider {
        name: "gemini",
        speaks: &[
            (
                Dialect::Gemini,
                "https://generativelanguage.googleapis.com/v1beta",
            ),
            (
                Dialect::Chat,
                "https://generativelanguage.googleapis.com/v1beta/openai",
            ),
        ],
        keys: &["GEMINI_API_KEY"],
    },
    // github.com/ollama/ollama/blob/main/docs/api.md,
    // github.com/ollama/ollama/blob/main/docs/openai.md
    Provider {
        name: "ollama",
        speaks: &[
            (Dialect::Ollama, "http://127.0.0.1:11434"),
            (Dialect::Chat, "http://127.0.0.1:11434/v1"),
            (Dialect::Completions, "http://127.0.0.1:11434/v1"),
        ],
        keys: &[],
    },
    // docs.cohere.com/reference/chat, docs.cohere.com/docs/compatibility-api; CO_API_KEY is read by
    // Cohere's own clients, COHERE_API_KEY by many others.
    Provider {
        name: "cohere",
        speaks: &[
            (Dialect::Cohere, "https://api.cohere.com"),
            (Dialect::Chat, "https://api.cohere.ai/compatibility/v1"),
        ],
        keys: &["CO_API_KEY", "COHERE_API_KEY"],
    },
    Provider {
        name: "deepseek",
        speaks: &[(Dialect::Chat, "https://api.deepseek.com")],
        keys: &["DEEPSEEK_API_KEY"],
    },
    Provider {
        name: "mistral",
        speaks: &[(Dialect::Chat, "https://api.mistral.ai/v1")],
        keys: &["MISTRAL_API_KEY"],
    },
    Provider {
        name: "perplexity",
        speaks: &[(Dialect::Chat, "https://api.perplexity.ai")],
        keys: &["PERPLEXITY_API_KEY"],
    },
    Provider {
        name: "groq",
        speaks: &[(Dialect::Chat, "https://api.groq.com/openai/v1")],
        keys: &["GROQ_API_KEY"],
    },
    Provider {
        name: "qwen",
        speaks: &[(
            Dialect::Chat,
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        )],
        keys: &["DASHSCOPE_API_KEY"],
    },
    Provider {
        name: "moonshot",
        speaks: &[(Dialect::Chat, "https://api.moonshot.ai/v1")],
        keys: &["MOONSHOT_API_KEY"],
    },
];

/// Returns the provider of this name, if one is given. An error lists the known ones.
pub(crate) fn named(name: Option<&str>) -> Result<Option<Provider>, String> {
    let Some(name) = name else {
        return Ok(None);
    };
    let mut all = PROVIDERS.into_iter();
    let found = all.find(|provider| provider.name == name);
    let names = || PROVIDERS.map(|provider| provider.name).join(", ");
    let unknown = || format!("--provider {name}: not known; known are {}", names());
    found.map(Some).ok_or_else(unknown)
}

/// Returns a line for each provider with the APIs that it speaks, and for each API with the path
/// after its address, for the help.
pub(super) fn listed() -> (String, String) {
    let provider = |provider: Provider| format!("  {:<11} {}", provider.name, provider.dialects());
    let dialect = |dialect: Dialect| {
        let path = dialect
            .wire()
            .new_request(&PlainPrompt {
                model: "NAME",
                ..PlainPrompt::default()
            })
            .path;
        format!("  {dialect:<19} {path}")
    };
    (
        PROVIDERS.map(provider).join("\n"),
        Dialect::ALL.map(dialect).join("\n"),
    )
}

/// Returns the key that the environment has: in the chosen variable, or else in the first of the
/// provider's that is not empty. Fails if a key is needed and no variable has one. A provider
/// without variables needs no key.
pub(crate) fn key(
    chosen: Option<&str>,
    provider: Option<Provider>,
    is_needed: bool,
) -> Result<String, String> {
    let own = provider.map_or(&[][..], |provider| provider.keys);
    let variables = chosen.map_or(own.to_vec(), |variable| vec![variable]);
    #[expect(
        clippy::disallowed_methods,
        reason = "a command does I/O: keys come from the environment"
    )]
    let mut keys = variables
        .iter()
        .filter_map(|variable| std::env::var(variable).ok());
    match keys.find(|key| !key.is_empty()) {
        None if is_needed && !variables.is_empty() => Err(format!(
            "the environment has no key: set {}",
            variables.join(" or ")
        )),
        key => Ok(key.unwrap_or_default()),
    }
}
