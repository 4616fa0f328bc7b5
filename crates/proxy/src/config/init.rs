//! The file that an operator begins with, which is also the guide to the settings.

use schemars::JsonSchema;
use serde::Serialize;

use super::{AccessConfig, Config, Key, LimitsConfig, ProxyConfig, TlsConfig, prompt, written};

impl Config {
    /// Returns a file to begin with: the settings that most operators decide on, with their
    /// defaults, and the others as comments, each with its description.
    pub fn init(upstream: &str) -> String {
        let proxy = ProxyConfig {
            upstream: Some(upstream.to_owned()),
            ..ProxyConfig::default()
        };
        [
            HEAD,
            &annotated("proxy", &proxy),
            &annotated("access", &AccessConfig::default()),
            TOKENS,
            &annotated("tls", &TlsConfig::default()),
            &annotated("limits", &LimitsConfig::default()),
            &annotated("prompt", &prompt::Prompt::default()),
            INSTRUCTION,
            ROUTES,
            CAPABILITIES,
        ]
        .concat()
    }
}

/// Returns a table of the file: first the settings that most operators decide on, then the others
/// as comments.
fn annotated<T: Serialize + JsonSchema>(name: &str, table: &T) -> String {
    let examples = EXAMPLES.iter().filter(|(of, ..)| *of == name);
    let examples = examples.map(|(_, key, value)| format!("{key} = {value}\n"));
    let lines = written(table) + &examples.collect::<String>();
    let (live, others): (Vec<_>, Vec<_>) =
        lines.lines().partition(|line| LIVE.contains(&key(line)));
    let live = live.iter().map(|line| described(name, line, ""));
    let others = others.iter().map(|line| described(name, line, "#"));
    format!("\n[{name}]\n{}", live.chain(others).collect::<String>())
}

/// Returns the line of a setting below its description.
fn described(table: &str, line: &str, mark: &str) -> String {
    let declared = Key::of(&format!("{table}.{}", key(line)));
    let mut text = String::new();
    let mut width = WIDTH;
    for word in declared.map_or("", |key| &key.meaning).split(' ') {
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
    ("proxy", "admin", r#""127.0.0.1:7379""#),
    ("proxy", "tls_cert", r#""/etc/restitch/llm.pem""#),
    ("proxy", "tls_key", r#""/etc/restitch/llm.key""#),
    ("proxy", "upstream_key", r#""env:PROVIDER_API_KEY""#),
    ("access", "token_variable", r#""LLM_PROXY_TOKEN""#),
    ("tls", "ca_file", r#""/etc/restitch/roots.pem""#),
    ("tls", "client_cert", r#""/etc/restitch/client.pem""#),
    ("tls", "client_key", r#""/etc/restitch/client.key""#),
    ("limits", "max_connections_per_client", "1000"),
];

/// The columns of a description.
const WIDTH: usize = 100;

const HEAD: &str = "\
# The configuration of `restitch proxy`. `#key = value` is a setting with its default, or with an
# example where it has none: take the `#` away to set it. A setting that is a comment follows the
# defaults of newer versions.
#
#   restitch config check FILE       restitch config show --changed --config FILE
#   restitch proxy --config FILE     restitch config explain --config FILE --model NAME
#
# Sizes are in bytes. Times are \"90s\", \"1m 30s\", or a number of seconds. A secret is never in this
# file: `env:NAME` is a variable of the environment, `file:PATH` a file that has it alone.
";

const TOKENS: &str = r#"
# Tokens with names, one for each team; routes, the log and the page have the names. Two may have
# one name: the old and the new of a rotation. A client sends its token in `x-restitch-token`, or as
# its API key.
#[[access.token]]
#name = "team-a"
#secret = "file:/run/secrets/team-a"
#[[access.token]]
#name = "team-b"
#secret = "env:TEAM_B_TOKEN"
"#;

const INSTRUCTION: &str = r#"# A text of your own in place of the message that asks for the rest, wherever the model repeats the
# end of its text and goes on. `{{overlap_context}}` must be there: the text to repeat, in its tag.
# `{{context}}` is what is known of the cut, in tags; `{{continue_mark}}` a mark in its tag, where
# the question has one. Write in the first person: models take an operator's notice for an attack.
#instruction = """
#Die Verbindung ist abgerissen. Das habe ich bisher:
#
#{{context}}
#
#Bitte wiederhole genau den Text zwischen den ersten beiden Tags, und schreibe dann ohne Pause weiter,
#bis zum Ende des Dokuments. Steht danach noch ein Zeichen in Tags, so schreibe es dazwischen.
#
#{{overlap_context}}
#
#{{continue_mark}}"""
"#;

const ROUTES: &str = r#"
# Routes give requests another upstream or other settings. The first one whose conditions all hold
# counts. Conditions: `path`, `model` and the values of `header` are patterns, in which `*` matches
# any text; `token` has names. Settings that are missing have the values from above.
#[[route]]
#name = "batch"
#header = { x-team = "batch-*" }
#max_continuations = 20
#max_total_time = "30m"
#on_give_up = "close"
#
#[[route]]
#name = "team-a"
#token = ["team-a"]
#model = "claude-*"
#upstream = "https://api.anthropic.com"
#key = "env:ANTHROPIC_API_KEY"
#
# Fallbacks answer where the upstream does not: it can't be reached, is silent for
# `first_byte_timeout`, or answers 429 or 5xx. A fallback of another API only continues answers. None
# gets the client's own key.
#[[route]]
#name = "answers"
#path = "/v1/chat/completions"
#prose = "anchor"
#retries = 1
#first_byte_timeout = "10s"
#
#[[route.fallback]]
#upstream = "https://openrouter.ai/api"
#model = "openai/gpt-5-mini"
#key = "env:OPENROUTER_API_KEY"
#
#[[route.fallback]]
#upstream = "https://api.anthropic.com"
#model = "claude-sonnet-4-5"
#key = "env:ANTHROPIC_API_KEY"
#wire = "anthropic"
#
# A server whose answers pass unread.
#[[route]]
#path = "/v1/embeddings"
#upstream = "http://127.0.0.1:8080"
#continuation = "off"
"#;

const CAPABILITIES: &str = r#"
# What models can do, where the built-in table has no row or a wrong one. The first row that has a
# key counts. `restitch doctor` finds out how a server continues an answer.
#[[capability]]
#model = "*"
#host = "10.0.0.*"
#prefill = "continue-final-message"
#reasoning_off = '{"enable_thinking": false}'
"#;
