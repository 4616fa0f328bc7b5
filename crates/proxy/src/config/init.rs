//! The file that an operator begins with, and the settings that differ from their defaults.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{AccessConfig, Config, LimitsConfig, ProxyConfig, TlsConfig, prompt, schema, written};

impl Config {
    /// Returns a file to begin with: the settings that most operators decide on, with their
    /// defaults, and the others as comments, each with its description. `[engine]` is not in it,
    /// since it is best left alone.
    pub fn init(upstream: &str) -> String {
        let proxy = ProxyConfig {
            upstream: Some(upstream.to_owned()),
            ..ProxyConfig::default()
        };
        let tables = [
            annotated("proxy", &proxy),
            annotated("access", &AccessConfig::default()) + TOKEN,
            annotated("tls", &TlsConfig::default()),
            annotated("limits", &LimitsConfig::default()),
        ];
        [HEAD, &tables.concat(), ROUTE].concat()
    }

    /// Returns the settings that differ from their defaults, as a file has them. Parsing that text
    /// gives the same configuration, except for passwords: `***` replaces them.
    pub fn show_changed(&self) -> String {
        let tables = |config: &Self| {
            let prompt = super::table(&prompt::Prompt::from(&config.prompt));
            config.tables().into_iter().chain([("prompt", prompt)])
        };
        let own = tables(&self.without_passwords());
        let defaults = tables(&Self::default());
        let mut text = String::new();
        for ((name, mut own), (_, defaults)) in own.zip(defaults) {
            own.retain(|key, value| defaults.get(key) != Some(value));
            if !own.is_empty() {
                let table = toml::Table::from_iter([(name.to_owned(), own.into())]);
                text += &format!("{}\n", written(&table));
            }
        }
        text + self.show_lists().trim_start()
    }
}

/// Returns a table of the file: first the settings that most operators decide on, then the others
/// as comments.
fn annotated<T: Serialize + JsonSchema>(name: &str, table: &T) -> String {
    let schema = schema::of::<T>();
    let examples = EXAMPLES.iter().filter(|(of, ..)| *of == name);
    let examples = examples.map(|(_, key, value)| format!("{key} = \"{value}\"\n"));
    let lines = written(table) + &examples.collect::<String>();
    let (live, others): (Vec<_>, Vec<_>) =
        lines.lines().partition(|line| LIVE.contains(&key(line)));
    let live = live.iter().map(|line| described(&schema, line, ""));
    let others = others.iter().map(|line| described(&schema, line, "#"));
    format!("\n[{name}]\n{}", live.chain(others).collect::<String>())
}

/// Returns the line of a setting below its description.
fn described(schema: &Value, line: &str, mark: &str) -> String {
    let description = &schema["properties"][key(line)]["description"];
    let mut text = String::new();
    let mut width = WIDTH;
    for word in description.as_str().unwrap_or_default().split(' ') {
        if width + word.len() >= WIDTH {
            text.push_str(if text.is_empty() { "#" } else { "\n#" });
            width = 1;
        }
        text.push(' ');
        text.push_str(word);
        width += 1 + word.len();
    }
    format!("{text}\n{mark}{line}\n")
}

/// Returns the key of a line.
fn key(line: &str) -> &str {
    line.split(" =").next().unwrap_or_default()
}

/// The settings that most operators decide on.
const LIVE: [&str; 13] = [
    "upstream",
    "listen",
    "admin",
    "on_give_up",
    "store",
    "log_format",
    "max_continuations",
    "max_total_time",
    "first_byte_timeout",
    "idle_timeout",
    "max_keep_time",
    "shutdown_delay",
    "drain_timeout",
];

/// Values of settings without a default.
const EXAMPLES: [(&str, &str, &str); 9] = [
    ("proxy", "admin", "127.0.0.1:7379"),
    ("proxy", "tls_cert", "/etc/restitch/llm.pem"),
    ("proxy", "tls_key", "/etc/restitch/llm.key"),
    ("proxy", "upstream_key_file", "/run/secrets/upstream-key"),
    ("proxy", "upstream_key_variable", "PROVIDER_API_KEY"),
    ("access", "token_variable", "LLM_PROXY_TOKEN"),
    ("tls", "ca_file", "/etc/restitch/roots.pem"),
    ("tls", "client_cert", "/etc/restitch/client.pem"),
    ("tls", "client_key", "/etc/restitch/client.key"),
];

/// The columns of a description.
const WIDTH: usize = 100;

const HEAD: &str = "\
# The configuration of `restitch proxy`. `#key = value` is a setting with its default, or with an
# example where it has none: take the `#` away to set it. A setting that is a comment follows the
# defaults of newer versions.
#
#   restitch config check FILE       restitch config show --changed --config FILE
#   restitch proxy --config FILE
";

const TOKEN: &str = r#"
# Tokens with names, one for each team. Two may have one name: the old and the new of a rotation.
#[[access.token]]
#name = "team-a"
#file = "/run/secrets/team-a"
"#;

const ROUTE: &str = r#"
# Requests that a route matches have settings of their own, another upstream, or fallbacks.
#[[route]]
#name = "claude"
#model = "claude-*"
#upstream = "https://api.anthropic.com"
"#;
