//! Every API: the bytes of its answers, and how it reads requests.

use std::fs;

use restitch::provider::Dialect;
use restitch_sim::{ProviderProfile, Server, Sim};
use restitch_testing::wires::transcript;
use serde_json::{Value, json};

use super::{DOCUMENT, Got, exchange, request, serve};

/// An API, with its paths for streams and for bodies.
struct Api {
    name: &'static str,
    stream: &'static str,
    body: &'static str,
    dialect: Dialect,
}

const ALL: [Api; 9] = [
    api(
        "chat",
        "/openai/deployments/d/chat/completions?api-version=1",
        Dialect::Chat,
    ),
    api("completions", "/v1/completions", Dialect::Completions),
    api("responses", "/v1/responses", Dialect::Responses),
    api("messages", "/v1/messages", Dialect::Messages),
    Api {
        body: "/v1beta/models/m:generateContent",
        ..api(
            "gemini",
            "/v1beta/models/m:streamGenerateContent?alt=sse&key=secret",
            Dialect::Gemini,
        )
    },
    Api {
        body: "/v1beta/models/m:generateContent",
        ..api(
            "gemini-array",
            "/v1beta/models/m:streamGenerateContent",
            Dialect::Gemini,
        )
    },
    api("ollama", "/api/chat", Dialect::Ollama),
    api("ollama-generate", "/api/generate", Dialect::Ollama),
    api("cohere", "/v2/chat", Dialect::Cohere),
];

const fn api(name: &'static str, path: &'static str, dialect: Dialect) -> Api {
    Api {
        name,
        stream: path,
        body: path,
        dialect,
    }
}

impl Api {
    /// Makes a request of roles and texts.
    fn request(&self, turns: &[(&str, &str)], is_stream: bool) -> Value {
        let list = |assistant: &str, member: &str| -> Value {
            let turn = |(role, text): &(&str, &str)| {
                let role = if *role == "assistant" {
                    assistant
                } else {
                    role
                };
                match member {
                    "parts" => json!({"role": role, "parts": [{"text": text}]}),
                    _ => json!({"role": role, "content": text}),
                }
            };
            turns.iter().map(turn).collect()
        };
        let prompt = || turns.iter().map(|(_, text)| *text).collect::<String>();
        let mut body = match self.name {
            "completions" | "ollama-generate" => json!({"prompt": prompt()}),
            "responses" => json!({"input": list("assistant", "content")}),
            "gemini" | "gemini-array" => json!({"contents": list("model", "parts")}),
            _ => json!({"messages": list("assistant", "content")}),
        };
        body["stream"] = is_stream.into();
        body["stream_options"] = json!({"include_usage": true});
        body
    }

    fn tools(&self, kind: &str) -> Value {
        match (self.name, kind) {
            ("responses" | "messages", kind) => json!([{"type": kind, "name": "save"}]),
            ("gemini" | "gemini-array", _) => json!([{"functionDeclarations": [{"name": "save"}]}]),
            (_, kind) => json!([{"type": kind, kind: {"name": "save"}}]),
        }
    }

    async fn post(&self, server: &Server, body: &Value) -> Got {
        let is_stream = body["stream"] == true;
        let path = if is_stream { self.stream } else { self.body };
        exchange(server, &request(path, body)).await.unwrap()
    }
}

/// Scripts, and the tool that a request declares.
const ROWS: [(&str, &str); 10] = [
    ("answer", ""),
    ("answer@5", ""),
    ("answer@5!filter", ""),
    ("answer@5!done", ""),
    ("answer@5!error", ""),
    ("answer@5!malformed", ""),
    ("reasoning+text+call+tool", "function"),
    ("tool@5", "function"),
    ("tool@5", "custom"),
    ("429", ""),
];

/// The recordings are of an earlier server, whose events were written one by one. CR is written as
/// `␍` in them.
#[tokio::test]
async fn answers_are_those_of_the_recordings() {
    let folder = restitch_testing::root().join("crates/sim/tests/recorded");
    for api in &ALL {
        let mut found = String::new();
        for (script, tool) in ROWS {
            let sim = Sim::new(r#"{"a": "\"b"}"#, script.parse().unwrap()).chunk(8);
            let server = sim.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
            for (kind, is_stream) in [("stream", true), ("body", false)] {
                let mut body = api.request(&[("user", "a document\n")], is_stream);
                if !tool.is_empty() {
                    body["tools"] = api.tools(tool);
                }
                let got = api.post(&server, &body).await;
                let bytes = got.body.replace('\r', "␍");
                found += &format!("### {script} {tool} {kind}: {}\n{bytes}\n", got.status);
            }
        }
        let recorded = fs::read_to_string(folder.join(format!("{}.txt", api.name))).unwrap();
        for (found, recorded) in found.split("### ").zip(recorded.split("### ")) {
            assert_eq!(found, recorded, "{}", api.name);
        }
        assert_eq!(found.len(), recorded.len(), "{}", api.name);
    }
}

/// Requests for the rest: the text that was delivered, and a question with its anchor.
#[tokio::test]
async fn continuations_on_every_wire() {
    let question = "Go on.\n<overlap_context>\n1, 2\n</overlap_context>\n";
    for api in ALL.iter().filter(|api| api.name != "gemini-array") {
        let mut turns = vec![("user", "a document\n"), ("assistant", &DOCUMENT[..11])];
        let expected = match api.name {
            // There the answer follows the prompt directly.
            "completions" => &DOCUMENT[11..19],
            _ => {
                turns.push(("user", question));
                &DOCUMENT[7..19]
            }
        };
        let server = serve("answer@11 | anchor@8").await;
        let got = api.post(&server, &api.request(&turns, true)).await;
        let text = match api.name {
            "ollama-generate" => texts(&got.body),
            _ => {
                let read = transcript(api.dialect, got.body.as_bytes());
                read.text.into_values().collect()
            }
        };
        assert_eq!(text, expected, "{}", api.name);
        // The server rejects text that differs from the document. In a prompt it can't tell the two
        // apart.
        if !matches!(api.name, "completions" | "ollama-generate") {
            turns[1].1 = r#"{"a": [1, 3"#;
            let got = api.post(&server, &api.request(&turns, false)).await;
            assert_eq!(got.status, 422, "{}: {}", api.name, got.body);
        }
    }
}

/// Returns the text of the lines of `/api/generate`, which the engine has no reader for.
fn texts(body: &str) -> String {
    let lines = body
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| line["response"].as_str().unwrap().to_owned())
        .collect()
}

fn calls(api: &Api, got: &Got) -> Vec<(String, String)> {
    let calls = transcript(api.dialect, got.body.as_bytes()).tool_args;
    calls
        .into_values()
        .map(|call| (call.name.unwrap_or_default(), call.args))
        .collect()
}

/// Anthropic sends a value of the arguments when it is whole, unless the tool says otherwise.
#[tokio::test]
async fn values_are_kept_back_until_they_are_whole() {
    let api = &ALL[3];
    for (is_eager, arguments) in [(false, &DOCUMENT[..15]), (true, &DOCUMENT[..25])] {
        let mut body = api.request(&[("user", "a document\n")], true);
        body["tools"] = api.tools("function");
        body["tools"][0]["eager_input_streaming"] = is_eager.into();
        let sim =
            Sim::new(DOCUMENT, "tool@25".parse().unwrap()).profile(ProviderProfile::Anthropic46);
        let server = sim.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let got = api.post(&server, &body).await;
        assert_eq!(
            calls(api, &got),
            [("save".to_owned(), arguments.to_owned())]
        );
    }
}
