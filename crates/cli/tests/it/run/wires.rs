//! `restitch run` in each API: the requests as the server saw them, and what becomes of whole, cut
//! and refused answers.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;

use restitch_sim::{self, Call, Sim};
use serde_json::json;
use tokio::runtime::Runtime;

use super::{response, scripted, scripted_and_seen};
use crate::cli::{Ran, folder, run, shell_in};
use restitch_testing::says::Says;

const DOCUMENT: &str = r#"{"title": "Report", "rows": [{"id": 1, "name": "Alma"}, {"id": 2, "name": "Größe \"7\" 😀"}, {"id": 3, "name": "Cilli\n\u0041"}, {"id": 4, "name": "Dora"}]}"#;

/// An API, and the server's view of a first request to it.
struct Expected {
    dialect: &'static str,
    /// The path below `/v1`.
    path: &'static str,
    /// The header that has the key `sk-1`.
    key: &'static str,
    /// The body of a request with a system message and a limit.
    full: &'static str,
    /// The body of a request with a prompt alone.
    plain: &'static str,
    /// The tokens of an answer of 60 bytes, as the server counts them.
    tokens: Option<u64>,
}

const ALL: [Expected; 7] = [
    Expected {
        dialect: "openai-chat",
        path: "/chat/completions",
        key: "authorization: Bearer sk-1",
        full: r#"{"model":"m","stream":true,"messages":[{"role":"system","content":"Be \"brief\"."},{"role":"user","content":"Rows!"}],"max_tokens":100}"#,
        plain: r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Rows!"}]}"#,
        // Usage comes only if it is asked for.
        tokens: None,
    },
    Expected {
        dialect: "openai-completions",
        path: "/completions",
        key: "authorization: Bearer sk-1",
        full: r#"{"model":"m","stream":true,"max_tokens":100,"prompt":"Be \"brief\".\n\nRows!"}"#,
        plain: r#"{"model":"m","stream":true,"max_tokens":1024,"prompt":"Rows!"}"#,
        tokens: None,
    },
    Expected {
        dialect: "openai-responses",
        path: "/responses",
        key: "authorization: Bearer sk-1",
        full: r#"{"model":"m","stream":true,"instructions":"Be \"brief\".","input":"Rows!","max_output_tokens":100}"#,
        plain: r#"{"model":"m","stream":true,"input":"Rows!"}"#,
        tokens: Some(15),
    },
    Expected {
        dialect: "anthropic",
        path: "/messages",
        key: "x-api-key: sk-1",
        full: r#"{"model":"m","stream":true,"max_tokens":100,"system":"Be \"brief\".","messages":[{"role":"user","content":"Rows!"}]}"#,
        plain: r#"{"model":"m","stream":true,"max_tokens":8192,"messages":[{"role":"user","content":"Rows!"}]}"#,
        tokens: Some(15),
    },
    Expected {
        dialect: "gemini",
        path: "/models/m:streamGenerateContent?alt=sse",
        key: "x-goog-api-key: sk-1",
        full: r#"{"systemInstruction":{"parts":[{"text":"Be \"brief\"."}]},"contents":[{"role":"user","parts":[{"text":"Rows!"}]}],"generationConfig":{"maxOutputTokens":100}}"#,
        plain: r#"{"contents":[{"role":"user","parts":[{"text":"Rows!"}]}]}"#,
        tokens: Some(15),
    },
    Expected {
        dialect: "ollama",
        path: "/api/chat",
        key: "authorization: Bearer sk-1",
        full: r#"{"model":"m","stream":true,"messages":[{"role":"system","content":"Be \"brief\"."},{"role":"user","content":"Rows!"}],"options":{"num_predict":100}}"#,
        plain: r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Rows!"}]}"#,
        tokens: Some(15),
    },
    Expected {
        dialect: "cohere-v2",
        path: "/v2/chat",
        key: "authorization: Bearer sk-1",
        full: r#"{"model":"m","stream":true,"messages":[{"role":"system","content":"Be \"brief\"."},{"role":"user","content":"Rows!"}],"max_tokens":100}"#,
        plain: r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Rows!"}]}"#,
        tokens: Some(15),
    },
];

/// A model server with this script.
struct Server {
    runtime: Runtime,
    running: restitch_sim::Server,
}

impl Server {
    fn new(script: &str) -> Self {
        Self::of(Sim::new(DOCUMENT, script.parse().unwrap()))
    }

    fn of(sim: Sim) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let running = runtime
            .block_on(sim.chunk(7).bind(([127, 0, 0, 1], 0).into()))
            .unwrap();
        Self { runtime, running }
    }

    /// Runs the command with an API and a prompt.
    fn ask(&self, folder: &Path, dialect: &str, more: &[&str]) -> Ran {
        let url = format!("{}/v1", self.running.url());
        let common = [
            "run",
            "--base-url",
            &url,
            "--dialect",
            dialect,
            "--model",
            "m",
            "Rows!",
        ];
        run(folder, &[&common[..], more].concat(), b"")
    }

    /// Ends the server: all calls.
    fn end(self) -> Vec<Call> {
        let calls = self.running.calls();
        self.runtime.block_on(self.running.shutdown());
        calls
    }
}

/// Runs the command with these variables, and without those of the caller that have keys.
fn with_keys(folder: &Path, arguments: &[&str], keys: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
    command
        .current_dir(folder)
        .args(["run", "--model", "m"])
        .args(arguments);
    for name in [
        "RESTITCH_CORPUS",
        "RESTITCH_TABLES",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "CO_API_KEY",
        "COHERE_API_KEY",
    ] {
        command.env_remove(name);
    }
    Ran::of(command.envs(keys.iter().copied()))
}

#[test]
fn the_first_request_is_that_of_the_api() {
    let folder = folder("run-wire-request", &[("system.txt", b"Be \"brief\".")]);
    for Expected {
        dialect,
        path,
        key,
        full,
        plain,
        ..
    } in ALL
    {
        for (more, body) in [
            (
                &["--system-file", "system.txt", "--max-tokens", "100"][..],
                full,
            ),
            (&[], plain),
        ] {
            let (seen, requests) = channel();
            let refusal = response("401 Unauthorized", "application/json", "{}");
            let url = scripted_and_seen(vec![refusal], seen);
            let common = [
                "--base-url",
                &url,
                "--dialect",
                dialect,
                "Rows!",
                "--key-variable",
                "KEY_OF_TEST",
            ];
            with_keys(
                &folder,
                &[&common[..], more].concat(),
                &[("KEY_OF_TEST", "sk-1")],
            );
            let request = requests.recv().unwrap();
            let (head, sent) = request.split_once("\r\n\r\n").unwrap();
            assert_eq!(sent, body, "{dialect}");
            let mut lines = head.lines();
            assert_eq!(
                lines.next(),
                Some(format!("POST /v1{path} HTTP/1.1").as_str()),
                "{dialect}"
            );
            let mut headers: Vec<&str> = lines.filter(|line| !line.starts_with("host: ")).collect();
            headers.sort_unstable();
            let length = format!("content-length: {}", body.len());
            let mut expected = vec![
                "accept-encoding: identity",
                &length,
                "content-type: application/json",
                key,
            ];
            expected.extend((dialect == "anthropic").then_some("anthropic-version: 2023-06-01"));
            expected.sort_unstable();
            assert_eq!(headers, expected, "{dialect}");
        }
    }
}

#[test]
fn an_answer_in_json_has_the_tokens_that_each_api_counts() {
    let folder = folder("run-wire-document", &[]);
    for Expected {
        dialect, tokens, ..
    } in ALL
    {
        let server = Server::new("answer@60!length | anchor");
        let ran = server.ask(&folder, dialect, &["--json", "-o", "out.json"]);
        let answer = &ran.answers()[0];
        assert_eq!(answer["document"], json!(DOCUMENT), "{dialect}");
        assert_eq!(answer["status"], "complete", "{dialect}");
        assert_eq!(answer["finish"], "stop", "{dialect}");
        assert_eq!(answer["continuations"], 1, "{dialect}");
        assert_eq!(answer["tokens"][0].as_u64(), tokens, "{dialect}: {answer}");
        assert_eq!(
            fs::read_to_string(folder.join("out.json")).unwrap(),
            DOCUMENT,
            "{dialect}"
        );
    }
}

/// Of a text completion, reasoning is nothing, and an end by the limit is continued.
#[test]
fn an_answer_without_a_document_is_told_in_every_api() {
    let folder = folder("run-wire-closed", &[]);
    for (script, words) in [
        (
            "refusal",
            "the answer has no complete JSON document; it begins: I'm sorry, but I can't help with that.",
        ),
        ("empty", "the answer has no text"),
        (
            "reasoning",
            "the answer has no text and ended with `length`",
        ),
    ] {
        for Expected { dialect, .. } in ALL {
            if (dialect, script) == ("openai-completions", "reasoning") {
                continue;
            }
            let ran = Server::new(script).ask(&folder, dialect, &[]);
            let words = format!("restitch: {words}\n");
            ran.is(4, "", words.as_str());
        }
    }
}

#[test]
fn a_refusal_is_told_in_the_words_of_the_server() {
    let folder = folder("run-wire-refusal", &[]);
    let openai = r#"{"error":{"message":"Incorrect API key provided: sk-1.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#;
    let openai_said = "Incorrect API key provided: [key].";
    let google = r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"x"}]}}"#;
    for (dialect, body, said) in [
        ("openai-chat", openai, openai_said),
        (
            "anthropic",
            r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"r"}"#,
            "invalid x-api-key",
        ),
        ("gemini", google, "API key not valid."),
        // Without `alt=sse`, or before it is read.
        ("gemini", &format!("[{google}\n]\n"), "API key not valid."),
        (
            "ollama",
            r#"{"error":"model 'm' not found"}"#,
            "model 'm' not found",
        ),
        (
            "cohere-v2",
            r#"{"id":"7","message":"invalid api token"}"#,
            "invalid api token",
        ),
        // Of a server in front of the API, or of another one that speaks it.
        (
            "openai-chat",
            r#"{"object":"error","message":"no such model","code":404}"#,
            "no such model",
        ),
        ("openai-chat", r#"{"detail":"Not Found"}"#, "Not Found"),
        (
            "anthropic",
            r#"{"message":"no Route matched"}"#,
            "no Route matched",
        ),
        ("ollama", r#"{"error":{"message":"nested"}}"#, "nested"),
        (
            "openai-completions",
            "<html>404</html>\n",
            "<html>404</html>",
        ),
        ("cohere-v2", "", ""),
    ] {
        let url = scripted(vec![response("400 Bad Request", "application/json", body)]);
        let arguments = [
            "--base-url",
            &url,
            "--dialect",
            dialect,
            "x",
            "--key-variable",
            "KEY_OF_TEST",
        ];
        let ran = with_keys(&folder, &arguments, &[("KEY_OF_TEST", "sk-1")]);
        let words = format!("restitch: the server answered 400 Bad Request: {said}");
        ran.exits(1);
        assert_eq!(ran.err.trim_end(), words.trim_end(), "{dialect}");
    }
}

/// Some servers report an error with the status of a success, and some do not stream.
#[test]
fn an_answer_that_is_no_stream_is_told() {
    let folder = folder("run-wire-whole", &[]);
    for (dialect, media_type, body, said) in [
        (
            "openai-chat",
            "application/json",
            r#"{"error":{"message":"no credit"}}"#,
            "no credit",
        ),
        (
            "gemini",
            "text/html",
            "<html>Sign in</html>",
            "<html>Sign in</html>",
        ),
        // The media type of another API's streams.
        (
            "ollama",
            "text/event-stream",
            "data: [DONE]\n\n",
            "data: [DONE]",
        ),
    ] {
        let url = scripted(vec![response("200 OK", media_type, body)]);
        let ran = with_keys(
            &folder,
            &["--base-url", &url, "--dialect", dialect, "x"],
            &[],
        );
        let words = format!("restitch: the server answered 200 OK without a stream: {said}\n")
            .replace("]\n\n\n", "]\n");
        ran.exits(1);
        assert_eq!(ran.err, words.as_str(), "{dialect}: {body}");
    }
}

#[test]
fn mistakes_are_told_before_anything_is_asked() {
    let folder = folder("run-wire-mistakes", &[]);
    for Expected { dialect, .. } in ALL {
        let server = Server::new("answer");
        let url = format!("{}/v1", server.running.url());
        let common = ["--base-url", &url, "--dialect", dialect];
        let key = ["x", "--key-variable", "KEY_OF_TEST"];
        let ran = with_keys(
            &folder,
            &[&common[..], &key].concat(),
            &[("KEY_OF_TEST", "sk-\u{7f}1")],
        );
        let words = "restitch: the key has characters that no header may have\n";
        ran.exits(2);
        assert_eq!(ran.err, words, "{dialect}");
        for prompt in [[""], [" \n\t"], ["-"]] {
            let ran = with_keys(&folder, &[&common[..], &prompt].concat(), &[]);
            let words = "restitch: the prompt is empty\n";
            ran.exits(2);
            assert_eq!(ran.err, words, "{dialect}");
        }
        assert_eq!(server.end().len(), 0, "{dialect}");
    }
    for (arguments, words) in [
        (
            &["--provider", "nobody"][..],
            "--provider nobody: not known; known are openai, ",
        ),
        (
            &["--base-url", "ftp://x"],
            "--base-url: an upstream starts with",
        ),
        (
            &["--provider", "openai", "--dialect", "gemini"],
            "--dialect gemini: openai does not speak it; it speaks openai-chat, openai-responses, openai-completions\n",
        ),
        (
            &["--provider", "openai", "--dialect", "telnet"],
            "possible values: openai-chat, openai-completions, openai-responses, anthropic, gemini, ollama, cohere-v2",
        ),
        (
            &["--provider", "openai"],
            "the environment has no key: set OPENAI_API_KEY\n",
        ),
        (
            &["--provider", "cohere"],
            "the environment has no key: set CO_API_KEY or COHERE_API_KEY\n",
        ),
        (
            &["--provider", "ollama", "--key-variable", "KEY_OF_TEST"],
            "the environment has no key: set KEY_OF_TEST\n",
        ),
    ] {
        let ran = with_keys(&folder, &[arguments, &["x"]].concat(), &[]);
        ran.exits(2);
        ran.err.of(arguments).has(words);
    }
}

/// A server that runs on the user's own machine may not run: the first refused connection is
/// reported before the call is repeated.
#[test]
fn the_address_of_a_server_that_cannot_be_reached_is_told() {
    let folder = folder(
        "run-wire-reached",
        &[("c.toml", b"[limits]\npatience = 0.1\n")],
    );
    let ran = shell_in(
        &folder,
        "run --base-url http://127.0.0.1:9 --model m --config c.toml x",
    );
    ran.exits(1);
    let (first, last) = (
        ran.err.lines().next().unwrap(),
        ran.err.lines().last().unwrap(),
    );
    first.has("the first call is made again why=\"tcp connect error");
    last.begins("restitch: http://127.0.0.1:9: the upstream can't be reached: ");
}

const GEMINI: &str = "models/m:streamGenerateContent?alt=sse";

/// The API and the key of a provider, at another address.
#[test]
fn a_provider_speaks_its_own_api() {
    let folder = folder("run-wire-provider", &[]);
    let keys =
        ["OPENAI", "ANTHROPIC", "GEMINI", "CO", "COHERE"].map(|name| format!("{name}_API_KEY"));
    let keys: Vec<(&str, &str)> = keys
        .iter()
        .map(|name| (name.as_str(), name.as_str()))
        .collect();
    let bearer = "authorization: Bearer ";
    for (provider, dialect, path, header, key) in [
        ("openai", "", "chat/completions", bearer, "OPENAI"),
        ("openai", "openai-responses", "responses", bearer, "OPENAI"),
        ("anthropic", "", "messages", "x-api-key: ", "ANTHROPIC"),
        (
            "anthropic",
            "openai-chat",
            "chat/completions",
            bearer,
            "ANTHROPIC",
        ),
        ("gemini", "", GEMINI, "x-goog-api-key: ", "GEMINI"),
        ("cohere", "", "v2/chat", bearer, "CO"),
        // Without the other variable.
        ("cohere", "", "v2/chat", bearer, "COHERE"),
        ("ollama", "", "api/chat", "", ""),
    ] {
        let (seen, requests) = channel();
        let refused = response("401 Unauthorized", "application/json", "{}");
        let url = scripted_and_seen(vec![refused], seen);
        let mut arguments = vec!["--provider", provider, "--base-url", &url, "x"];
        if !dialect.is_empty() {
            arguments.extend(["--dialect", dialect]);
        }
        let is_set = |(name, _): &(&str, &str)| key != "COHERE" || *name != "CO_API_KEY";
        let keys: Vec<_> = keys.iter().copied().filter(is_set).collect();
        with_keys(&folder, &arguments, &keys);
        let request = requests.recv().unwrap();
        request
            .of(provider)
            .begins(format!("POST /v1/{path} HTTP/1.1\r\n"));
        let found = request.lines().filter(|line| line.contains("_API_KEY"));
        let suffix = if key.is_empty() { "" } else { "_API_KEY" };
        assert_eq!(found.collect::<String>(), format!("{header}{key}{suffix}"));
    }
}

/// The name of a model can't lead to another path.
#[test]
fn the_name_of_a_model_is_one_segment_of_the_path() {
    let folder = folder("run-wire-model", &[]);
    for (model, segments) in [
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/a~b_c", "tunedModels/a~b_c"),
        ("a b?c#d&e", "models/a%20b%3Fc%23d%26e"),
        ("größe", "models/gr%C3%B6%C3%9Fe"),
    ] {
        let (seen, requests) = channel();
        let url = scripted_and_seen(
            vec![response("401 Unauthorized", "application/json", "{}")],
            seen,
        );
        let args = [
            "run",
            "--base-url",
            &url,
            "--dialect",
            "gemini",
            "--model",
            model,
            "x",
        ];
        run(&folder, &args, b"");
        let line = format!("POST /v1/{segments}:streamGenerateContent?alt=sse HTTP/1.1\r\n");
        let request = requests.recv().unwrap();
        request.of(model).begins(&line);
    }
    // A server that decodes would take this name for another path.
    let (seen, requests) = channel();
    let url = scripted_and_seen(
        vec![response("401 Unauthorized", "application/json", "{}")],
        seen,
    );
    let args = [
        "run",
        "--base-url",
        &url,
        "--dialect",
        "gemini",
        "--model",
        "../../x",
        "x",
    ];
    let ran = run(&folder, &args, b"");
    ran.exits(1);
    ran.err.has("the path has a `.` or `..` segment");
    assert!(requests.try_recv().is_err());
}
