//! Decides which models and providers get labels of their own.

use std::collections::HashSet;

use parking_lot::RwLock;

use super::OTHER;

/// The models that have labels of their own. Clients choose the names, so a name is admitted when
/// the upstream has answered a request with it, up to a limit. Other names share one label.
#[derive(Debug)]
pub(super) struct Models {
    admitted: RwLock<HashSet<String>>,
    most: usize,
}

impl Models {
    pub(super) fn new(most: usize) -> Self {
        Self {
            admitted: RwLock::default(),
            most,
        }
    }

    /// Returns the label of a name.
    pub(super) fn label<'n>(&self, name: &'n str) -> &'n str {
        let is_admitted = self.admitted.read().contains(name);
        if is_admitted { name } else { OTHER }
    }

    /// Admits a name whose request the upstream has answered. Returns its label.
    pub(super) fn admit<'n>(&self, name: &'n str) -> &'n str {
        let label = self.label(name);
        if label == name || shown_model(name) == OTHER {
            return label;
        }
        let mut admitted = self.admitted.write();
        if admitted.len() < self.most {
            admitted.insert(name.to_owned());
        }
        drop(admitted);
        self.label(name)
    }
}

/// Returns the name of a model, or the shared label if the name is empty, long, or has control
/// characters, which break lines in the text format or in a terminal.
pub(crate) fn shown_model(name: &str) -> &str {
    let is_plain =
        !name.is_empty() && name.len() <= LONGEST_MODEL && !name.chars().any(char::is_control);
    if is_plain { name } else { OTHER }
}

/// Returns the provider's name in the conventions: a well-known one, or the host.
pub(crate) fn provider_name(host: &str) -> &str {
    if host.starts_with("bedrock") && host.ends_with(".amazonaws.com") {
        return "aws.bedrock";
    }
    PROVIDERS
        .iter()
        .find(|(end, _)| host.ends_with(end))
        .map_or(host, |(_, name)| name)
}

/// The ends of hosts, and the names of their providers.
const PROVIDERS: [(&str, &str); 16] = [
    ("api.openai.com", "openai"),
    (".openai.azure.com", "azure.ai.openai"),
    (".ai.azure.com", "azure.ai.inference"),
    ("api.anthropic.com", "anthropic"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("api.cohere.com", "cohere"),
    ("api.cohere.ai", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.moonshot.cn", "moonshot_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
    (".ml.cloud.ibm.com", "ibm.watsonx.ai"),
];

/// The most bytes of a model name that can be a label. Names with an organisation and a version
/// have about 60.
const LONGEST_MODEL: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_have_their_names() {
        for (host, name) in [
            ("api.openai.com", "openai"),
            ("eu.api.openai.com", "openai"),
            ("mine.openai.azure.com", "azure.ai.openai"),
            ("us-central1-aiplatform.googleapis.com", "gcp.vertex_ai"),
            ("bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
            ("openrouter.ai", "openrouter.ai"),
            ("api.openai.com.example", "api.openai.com.example"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert_eq!(provider_name(host), name);
        }
    }

    #[test]
    fn models_are_admitted_up_to_a_limit() {
        let models = Models::new(2);
        let long = "x".repeat(LONGEST_MODEL + 1);
        for name in ["", "a\nb", "\u{1b}[2J", &long, OTHER] {
            assert_eq!(models.admit(name), OTHER, "{name:?}");
        }
        assert_eq!(models.label("a"), OTHER, "the upstream has not answered");
        assert_eq!(
            ["a", "b\"", "c", "a"].map(|name| models.admit(name)),
            ["a", "b\"", OTHER, "a"]
        );
        assert_eq!(models.label("a"), "a");
        assert_eq!(Models::new(0).admit("a"), OTHER);
    }
}
