//! Providers by name: the APIs that each speaks and their addresses, and the variables that have
//! the keys.
//!
//! Any other server is `--base-url`.

use crate::proxy::variable;
use restitch::internal::wire::PlainPrompt;
use restitch::provider::Dialect;

/// A provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Provider {
    pub name: &'static str,
    /// The provider's own API with its address, up to the path of
    /// [`new_request`](restitch::internal::wire::Wire::new_request). `None`: Chat Completions is.
    own: Option<(Dialect, &'static str)>,
    /// The address of Chat Completions.
    chat: &'static str,
    others: &'static [(Dialect, &'static str)],
    /// The variables from which clients read the key; the provider's own clients read the first
    /// one. Empty: no key is needed.
    keys: &'static [&'static str],
}

impl Provider {
    const fn of_chat(
        name: &'static str,
        chat: &'static str,
        keys: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            own: None,
            chat,
            others: &[],
            keys,
        }
    }

    /// Returns the APIs with their addresses, the default first.
    fn speaks(&self) -> impl Iterator<Item = (Dialect, &'static str)> {
        let chat = (Dialect::Chat, self.chat);
        let others = self.others.iter().copied();
        self.own.into_iter().chain([chat]).chain(others)
    }

    /// Returns the default API of the provider.
    pub(super) fn dialect(&self) -> Dialect {
        self.own.map_or(Dialect::Chat, |(dialect, _)| dialect)
    }

    /// Returns the address of an API. `None`: the provider does not speak it.
    pub(crate) fn base_url(&self, dialect: Dialect) -> Option<&'static str> {
        let found = self.speaks().find(|(spoken, _)| *spoken == dialect);
        found.map(|(_, base_url)| base_url)
    }

    /// Returns the names of the APIs, for errors.
    pub(super) fn dialects(&self) -> String {
        let names = self.speaks().map(|(dialect, _)| dialect.as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}

/// All providers. All speak Chat Completions, at the address that their documentation gives for
/// OpenAI's clients.
pub(crate) const PROVIDERS: [Provider; 12] = [
    Provider {
        others: &[
            (Dialect::Responses, "https://api.openai.com/v1"),
            (Dialect::Completions, "https://api.openai.com/v1"),
        ],
        ..Provider::of_chat("openai", "https://api.openai.com/v1", &["OPENAI_API_KEY"])
    },
    Provider::of_chat(
        "openrouter",
        "https://openrouter.ai/api/v1",
        &["OPENROUTER_API_KEY"],
    ),
    // docs.anthropic.com/en/api/messages, docs.anthropic.com/en/api/openai-sdk
    Provider {
        own: Some((Dialect::Messages, "https://api.anthropic.com/v1")),
        ..Provider::of_chat(
            "anthropic",
            "https://api.anthropic.com/v1",
            &["ANTHROPIC_API_KEY"],
        )
    },
    // ai.google.dev/api/generate-content, ai.google.dev/gemini-api/docs/openai
    Provider {
        own: Some((
            Dialect::Gemini,
            "https://generativelanguage.googleapis.com/v1beta",
        )),
        ..Provider::of_chat(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            &["GEMINI_API_KEY"],
        )
    },
    // github.com/ollama/ollama/blob/main/docs/api.md,
    // github.com/ollama/ollama/blob/main/docs/openai.md
    Provider {
        own: Some((Dialect::Ollama, "http://127.0.0.1:11434")),
        others: &[(Dialect::Completions, "http://127.0.0.1:11434/v1")],
        ..Provider::of_chat("ollama", "http://127.0.0.1:11434/v1", &[])
    },
    // docs.cohere.com/reference/chat, docs.cohere.com/docs/compatibility-api; CO_API_KEY is read by
    // Cohere's own clients, COHERE_API_KEY by many others.
    Provider {
        own: Some((Dialect::Cohere, "https://api.cohere.com")),
        ..Provider::of_chat(
            "cohere",
            "https://api.cohere.ai/compatibility/v1",
            &["CO_API_KEY", "COHERE_API_KEY"],
        )
    },
    Provider::of_chat(
        "deepseek",
        "https://api.deepseek.com",
        &["DEEPSEEK_API_KEY"],
    ),
    Provider::of_chat("mistral", "https://api.mistral.ai/v1", &["MISTRAL_API_KEY"]),
    Provider::of_chat(
        "perplexity",
        "https://api.perplexity.ai",
        &["PERPLEXITY_API_KEY"],
    ),
    Provider::of_chat("groq", "https://api.groq.com/openai/v1", &["GROQ_API_KEY"]),
    Provider::of_chat("qwen", QWEN, &["DASHSCOPE_API_KEY"]),
    Provider::of_chat(
        "moonshot",
        "https://api.moonshot.ai/v1",
        &["MOONSHOT_API_KEY"],
    ),
];

const QWEN: &str = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1";

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
    let mut keys = variables.iter().filter_map(|name| variable(name));
    match keys.find(|key| !key.is_empty()) {
        None if is_needed && !variables.is_empty() => Err(format!(
            "the environment has no key: set {}",
            variables.join(" or ")
        )),
        key => Ok(key.unwrap_or_default()),
    }
}
