//! The body that a fallback gets: without anything that may be a credential, and with everything
//! that a request needs.

use std::time::Duration;

use restitch::Limits;
use restitch_sim::{self, Sim};
use serde_json::{Value, json};

use super::DOCUMENT;
use super::logged::{Log, listen};
use super::raw::*;
use super::routes::with_routes;
use crate::proxy::made::TestProxy;
use restitch_testing::corpus_documents;

/// An API and one of its requests.
struct Api {
    name: &'static str,
    /// The path for a stream, and for one body.
    paths: [&'static str; 2],
    body: fn() -> Value,
}

const APIS: [Api; 8] = [
    Api {
        name: "chat",
        paths: ["/v1/chat/completions"; 2],
        body: turns,
    },
    Api {
        name: "completions",
        paths: ["/v1/completions"; 2],
        body: prompt,
    },
    Api {
        name: "responses",
        paths: ["/v1/responses"; 2],
        body: || json!({"model": "m", "input": "x"}),
    },
    Api {
        name: "messages",
        paths: ["/v1/messages"; 2],
        body: || json!({"model": "m", "max_tokens": 9999, "messages": [{"role": "user", "content": "x"}]}),
    },
    Api {
        name: "gemini",
        paths: [
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            "/v1beta/models/m:generateContent",
        ],
        body: || json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]}),
    },
    Api {
        name: "ollama",
        paths: ["/api/chat"; 2],
        body: turns,
    },
    Api {
        name: "ollama-generate",
        paths: ["/api/generate"; 2],
        body: prompt,
    },
    Api {
        name: "cohere",
        paths: ["/v2/chat"; 2],
        body: turns,
    },
];

fn turns() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "x"}]})
}

fn prompt() -> Value {
    json!({"model": "m", "prompt": "x"})
}

impl Api {
    fn of(name: &str) -> &'static Self {
        APIS.iter().find(|api| api.name == name).unwrap()
    }

    /// Returns a request with further members.
    fn request(&self, stream: bool, more: &[(&str, Value)]) -> String {
        let mut body = (self.body)();
        if !self.name.starts_with("gemini") {
            body["stream"] = stream.into();
        }
        for (place, value) in more {
            put(&mut body, place, value.clone());
        }
        post(&body.to_string()).replace("/v1/chat/completions", self.paths[usize::from(!stream)])
    }
}

/// Puts a member at a place: a JSON pointer whose parent exists, or is made as an object.
pub(super) fn put(body: &mut Value, place: &str, value: Value) {
    let (parent, name) = place.rsplit_once('/').unwrap();
    if body.pointer(parent).is_none() {
        put(body, parent, json!({}));
    }
    match body.pointer_mut(parent).unwrap() {
        Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
        object => object[name] = value,
    }
}

/// A credential that a test finds.
fn secret(of: &str) -> Value {
    format!("canary-{of}").into()
}

/// Members in which gateways and SDKs take credentials, whatever the API is. A fallback's request
/// goes without them.
pub(super) fn anywhere() -> Vec<(&'static str, Value)> {
    vec![
        ("/api_key", secret("1")),
        ("/apiKey", secret("2")),
        ("/key", secret("3")),
        ("/token", secret("4")),
        ("/authorization", secret("5")),
        ("/headers", json!({"Authorization": secret("6")})),
        ("/extra_headers", json!({"x-api-key": secret("7")})),
        ("/extra_query", json!({"key": secret("8")})),
        (
            "/extra_body",
            json!({"nested": [{"deep": {"k": secret("9")}}]}),
        ),
        (
            "/user_config",
            json!({"model_list": [{"litellm_params": {"api_key": secret("10")}}]}),
        ),
        ("/litellm_params", json!({"api_key": secret("11")})),
        ("/model_list", json!([{"api_key": secret("12")}])),
        (
            "/fallbacks",
            json!([{"model": "b", "api_key": secret("13")}]),
        ),
        (
            "/api_base",
            json!("https://user:canary-14@gateway.example/v1?key=canary-14"),
        ),
        ("/aws_secret_access_key", secret("15")),
        ("/vertex_credentials", json!({"private_key": secret("16")})),
        ("/azure_ad_token", secret("17")),
        ("/fallback_credit_token", json!({"token": secret("18")})),
        ("/metadata/key", secret("19")),
        ("/unheard_of", json!({"a": [{"b": secret("20")}]})),
        // A name that is listed, with what its value never is.
        ("/temperature", json!({"api_key": secret("21")})),
        ("/stop", json!([{"api_key": secret("22")}])),
        (
            "/stream_options",
            json!({"include_usage": true, "api_key": secret("23")}),
        ),
        ("/proxy", json!({"url": "http://u:canary-24@proxy"})),
        ("/labels", json!({"owner": secret("25")})),
    ]
}

/// The same in members that one API has.
fn of_one_api() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("chat", "/messages/0/api_key", secret("a")),
        (
            "chat",
            "/messages/0/content",
            json!([{"type": "text", "text": "x", "authorization": secret("b")}]),
        ),
        (
            "chat",
            "/response_format",
            json!({"type": "json_object", "token": secret("c")}),
        ),
        (
            "chat",
            "/chat_template_kwargs",
            json!({"enable_thinking": false, "api_key": secret("d")}),
        ),
        (
            "chat",
            "/provider",
            json!({"order": ["a"], "api_key": secret("e")}),
        ),
        ("chat", "/logit_bias", json!({"1": secret("f")})),
        (
            "responses",
            "/input",
            json!([{"role": "user", "content": "x", "api_key": secret("g")}]),
        ),
        (
            "responses",
            "/text",
            json!({"format": {"type": "text", "key": secret("h")}}),
        ),
        ("messages", "/messages/0/api_key", secret("i")),
        (
            "messages",
            "/thinking",
            json!({"type": "disabled", "token": secret("j")}),
        ),
        (
            "gemini",
            "/generationConfig",
            json!({"seed": 1, "apiKey": secret("k")}),
        ),
        (
            "gemini",
            "/generation_config",
            json!({"seed": 1, "api_key": secret("l")}),
        ),
        (
            "ollama",
            "/options",
            json!({"seed": 1, "api_key": secret("m")}),
        ),
        (
            "ollama-generate",
            "/options",
            json!({"seed": 1, "api_key": secret("n")}),
        ),
        ("cohere", "/messages/0/api_key", secret("o")),
        (
            "cohere",
            "/citation_options",
            json!({"mode": "off", "key": secret("p")}),
        ),
    ]
}

/// Tools, data sources and parts of messages that hold a credential or are not known. Without them
/// the answer is another one.
fn refusing() -> Vec<(&'static str, &'static str, Value)> {
    let azure = json!([{"type": "azure_search", "parameters": {"endpoint": "https://s", "key": secret("1")}}]);
    let server = json!([{"name": "s", "url": "https://tools.example", "headers": {"authorization": secret("2")}}]);
    let mcp = |more: Value| {
        let mut tool =
            json!({"type": "mcp", "server_label": "s", "server_url": "https://tools.example/mcp"});
        tool.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!([tool])
    };
    let image = |url: &str| json!([{"type": "image_url", "image_url": {"url": url}}]);
    let mut refusing: Vec<_> = APIS
        .iter()
        .flat_map(|api| {
            [
                (api.name, "/data_sources", azure.clone()),
                (api.name, "/dataSources", azure.clone()),
                (api.name, "/mcpServers", server.clone()),
                (
                    api.name,
                    "/plugins",
                    json!([{"id": "web", "key": secret("3")}]),
                ),
                (
                    api.name,
                    "/tool_resources",
                    json!({"search": {"token": secret("4")}}),
                ),
                (
                    api.name,
                    "/search_parameters",
                    json!({"sources": [{"type": "rss", "links": [secret("5")]}]}),
                ),
            ]
        })
        .collect();
    refusing.extend([
        ("chat", "/tools", mcp(json!({"authorization": secret("a")}))),
        ("chat", "/tools", json!([{"type": "function", "function": {"name": "f", "api_key": secret("b")}}])),
        ("chat", "/tools", json!([{"type": "web_search", "web_search": {"key": secret("c")}}])),
        ("chat", "/mcp_servers", server.clone()),
        ("chat", "/messages/0/content", image("https://u:canary-d@images.example/a.png")),
        ("chat", "/messages/0/content", image("https://images.example/a.png?X-Amz-Signature=canary-e")),
        ("chat", "/messages/0/content", json!([{"type": "private_file", "token": secret("f")}])),
        ("responses", "/tools", mcp(json!({"authorization": secret("g")}))),
        ("responses", "/tools", mcp(json!({"headers": {"X-Key": secret("h")}}))),
        ("responses", "/tools", mcp(json!({"server_url": "https://tools.example/mcp?key=canary-i"}))),
        ("responses", "/tools", mcp(json!({"server_url": "https://u:canary-j@tools.example/mcp"}))),
        ("responses", "/tools", mcp(json!({"server_url": "https://tools.example/s/canary-k-0123456789/mcp"}))),
        ("responses", "/tools", mcp(json!({"server_url": "https://tools.example/mcp#canary-l"}))),
        ("responses", "/tools", mcp(json!({"connector_id": secret("m")}))),
        (
            "responses",
            "/tools",
            json!([{"type": "code_interpreter", "container": {"type": "auto", "network_policy":
                {"type": "allowlist", "domain_secrets": [{"name": "n", "value": secret("n")}]}}}]),
        ),
        (
            "responses",
            "/input",
            json!([{"role": "user", "content": [{"type": "input_image", "image_url": "https://i.example/a?sig=canary-o"}]}]),
        ),
        ("responses", "/input", json!([{"type": "additional_tools", "tools": mcp(json!({"headers": secret("p")}))}])),
        (
            "messages",
            "/mcp_servers",
            json!([{"type": "url", "name": "s", "url": "https://tools.example/sse", "authorization_token": secret("q")}]),
        ),
        (
            "messages",
            "/mcp_servers",
            json!([{"type": "url", "name": "s", "url": "https://tools.example/sse?key=canary-r"}]),
        ),
        (
            "messages",
            "/messages/0/content",
            json!([{"type": "image", "source": {"type": "url", "url": "https://u:canary-s@i.example/a"}}]),
        ),
        ("messages", "/tools", json!([{"name": "f", "input_schema": {}, "token": secret("t")}])),
        ("gemini", "/tools", json!([{"mcpServers": server}])),
        ("gemini", "/tools", json!([{"googleMaps": {"authConfig": {"apiKeyConfig": {"apiKeyString": secret("u")}}}}])),
        ("gemini", "/tools", json!([{"google_maps": {"auth_config": {"api_key": secret("v")}}}])),
        ("gemini", "/tools", json!([{"retrieval": {"externalApi": {"authConfig": secret("w")}}}])),
        (
            "gemini",
            "/contents/0/parts/0",
            json!({"fileData": {"fileUri": "https://storage.example/a?X-Goog-Signature=canary-x"}}),
        ),
        ("ollama", "/tools", json!([{"type": "function", "function": {"name": "f", "headers": {"k": secret("y")}}}])),
        ("cohere", "/tools", json!([{"type": "function", "function": {"name": "f", "token": secret("z")}}])),
        ("cohere", "/connectors", json!([{"id": "web-search", "user_access_token": secret("0")}])),
    ]);
    refusing
}

/// A proxy in front of the scripted server. Its only fallback notes its requests and closes each
/// connection.
struct Setup {
    _sim: restitch_sim::Server,
    proxy: restitch_proxy::Server,
    other: Raw,
}

impl Setup {
    async fn new(script: &str) -> Self {
        let other = Raw::new(Vec::new()).await;
        let sim = Sim::new(DOCUMENT, script.parse().unwrap())
            .bind(([127, 0, 0, 1], 0).into())
            .await
            .unwrap();
        let proxy = TestProxy::new(sim.url()).limits(limits());
        let proxy = with_routes(proxy, &[&other], ROUTES)
            .bind(([127, 0, 0, 1], 0).into())
            .await
            .unwrap();
        Self {
            _sim: sim,
            proxy,
            other,
        }
    }

    /// Returns the requests that the fallback gets for one request, and the client's answer.
    async fn sent(&self, request: &str) -> (Vec<String>, String) {
        let answer = exchange(self.proxy.addr(), request).await;
        (
            std::mem::take(&mut *self.other.requests.lock().unwrap()),
            answer,
        )
    }
}

const ROUTES: &str =
    "[[route]]\nfallback = [{ upstream = \"{0}\", model = \"other\", key = \"env:K\" }]\n";

/// Limits with which each upstream is asked once.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.continuation.patience = Duration::ZERO;
    limits.continuation.max_consecutive_failures = 1;
    limits
}

/// The upstream fails before the first byte, and after a part of the answer.
const SCRIPTS: [&str; 2] = ["500 | 500", "answer@60!length | 500"];

#[tokio::test]
async fn no_credential_in_a_body_goes_to_a_fallback() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let mut leaked = Vec::new();
    for script in SCRIPTS {
        for api in &APIS {
            let of_it = of_one_api()
                .into_iter()
                .filter(|(name, ..)| *name == api.name);
            let members: Vec<_> = anywhere()
                .into_iter()
                .chain(of_it.map(|(_, place, value)| (place, value)))
                .collect();
            for stream in [true, false] {
                log.0.lock().unwrap().clear();
                let case = format!("{script}, {}, stream: {stream}", api.name);
                // Of one that is new, no call has failed.
                let setup = Setup::new(script).await;
                let (sent, answer) = setup.sent(&api.request(stream, &members)).await;
                assert_eq!(sent.len(), 1, "{case}: {answer}");
                assert!(
                    sent[0].contains("key-of-K") && !sent[0].contains("\"m\""),
                    "{case}: {}",
                    sent[0]
                );
                let told = log.0.lock().unwrap().clone();
                for (place, value) in &members {
                    let value = value.to_string();
                    let canary = value
                        .split(['"', '@', '?', ':', '='])
                        .find(|part| part.starts_with("canary-"));
                    if sent[0].contains(canary.unwrap()) {
                        leaked.push(format!("{case}: {place}"));
                    }
                    let name = place.rsplit('/').next().unwrap();
                    assert!(!told.contains(canary.unwrap()), "{case}: {told}");
                    if place.matches('/').count() == 1
                        && value.starts_with('"')
                        && !told.contains(name)
                    {
                        leaked.push(format!("{case}: {place} is not in the log"));
                    }
                }
            }
        }
    }
    assert!(
        leaked.is_empty(),
        "{} of the credentials:\n{}",
        leaked.len(),
        leaked.join("\n")
    );
}

#[tokio::test]
async fn a_tool_or_source_that_may_hold_a_credential_has_no_fallback() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let mut wrong = Vec::new();
    for script in SCRIPTS {
        let setup = Setup::new(script).await;
        for (name, place, value) in refusing() {
            for stream in [true, false] {
                log.0.lock().unwrap().clear();
                let case = format!("{script}, {name}, stream: {stream}: {place} {value}");
                let (sent, _) = setup
                    .sent(&Api::of(name).request(stream, &[(place, value.clone())]))
                    .await;
                let told = log.0.lock().unwrap().clone();
                assert!(!told.contains("canary"), "{case}: {told}");
                if !sent.is_empty() {
                    wrong.push(format!("{case}: it was asked"));
                } else if told.matches("no fallback is asked").count() != 1 {
                    wrong.push(format!("{case}: the log does not say so once: {told}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Requests with the members that clients use.
fn healthy() -> Vec<(&'static str, Value)> {
    let schema = json!({"type": "object", "properties": {"token": {"type": "string"}, "api_key": {"default": null}}});
    let function = json!({"name": "f", "description": "d", "strict": true, "parameters": schema});
    let calls = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"token\": 1}"}}]);
    let location = json!({"type": "approximate", "city": "c", "country": "DE", "region": "r", "timezone": "t"});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": schema}});
    let cached = json!({"type": "ephemeral", "ttl": "1h"});
    vec![
        (
            "chat",
            json!({
                "model": "m", "messages": [
                    {"role": "developer", "name": "n", "content": [{"type": "text", "text": "S", "cache_control": cached}]},
                    {"role": "user", "content": [
                        {"type": "text", "text": "My key is https://u:p@h/?key=k"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
                        {"type": "image_url", "image_url": {"url": "https://i.example/commons/d/dd/a@2x.jpg?w=800&h=600"}},
                        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}},
                    ]},
                    {"role": "assistant", "content": null, "refusal": null, "reasoning_content": "r", "tool_calls": calls},
                    {"role": "tool", "tool_call_id": "c", "content": "https://u:p@h/?key=k"},
                    {"role": "user", "content": "x"},
                ],
                "tools": [{"type": "function", "function": function}, {"type": "custom", "custom": {"name": "g",
                    "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: A"}}}}],
                "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": true,
                "response_format": format, "stop": ["\n\n"], "seed": 1, "n": 1, "temperature": 0.1, "top_p": 0.9,
                "frequency_penalty": 0, "presence_penalty": 0, "logit_bias": {"50256": -100}, "logprobs": true,
                "top_logprobs": 2, "max_completion_tokens": 9, "max_tokens": 9, "modalities": ["text"], "user": "u",
                "prediction": {"type": "content", "content": "p"}, "reasoning_effort": "low", "verbosity": "low",
                "service_tier": "auto", "prompt_cache_key": "p", "safety_identifier": "s",
                "stream_options": {"include_usage": true, "include_obfuscation": false},
                "web_search_options": {"search_context_size": "low", "user_location": {"type": "approximate", "approximate": {"city": "c"}}},
                "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "chat_template_kwargs": {"enable_thinking": false},
                "structured_outputs": {"json": schema}, "reasoning": {"effort": "low", "exclude": true},
                "provider": {"order": ["a"], "allow_fallbacks": false, "max_price": {"prompt": 1}},
                "usage": {"include": true}, "models": ["a", "b"],
            }),
        ),
        (
            "completions",
            json!({
                "model": "m", "prompt": "https://u:p@h/?key=k", "echo": false, "best_of": 1, "n": 1, "logprobs": 1,
                "max_tokens": 9, "temperature": 0, "top_p": 1, "stop": "\n", "seed": 1, "user": "u",
                "logit_bias": {"1": 2.5}, "presence_penalty": 0, "frequency_penalty": 0, "guided_json": schema,
                "stream_options": {"include_usage": true}, "top_k": 5, "cache_prompt": true,
            }),
        ),
        (
            "responses",
            json!({
                "model": "m", "instructions": "S", "input": [
                    {"role": "user", "content": [
                        {"type": "input_text", "text": "https://u:p@h/?key=k"},
                        {"type": "input_image", "detail": "auto", "image_url": "https://i.example/a.png"},
                        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
                    ]},
                    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "e"},
                    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c", "output": "o"},
                    {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "open_page", "url": "https://a.example/?q=1"}},
                    {"type": "message", "role": "assistant", "id": "i", "status": "completed",
                     "content": [{"type": "output_text", "text": "t", "annotations": [{"type": "url_citation", "url": "https://a.example/?q=1"}]}]},
                    {"type": "item_reference", "id": "i"},
                ],
                "tools": [
                    {"type": "function", "name": "f", "description": "d", "strict": true, "parameters": schema},
                    {"type": "web_search", "search_context_size": "low", "filters": {"allowed_domains": ["a.example"]}, "user_location": location},
                    {"type": "web_search_preview_2025_03_11"},
                    {"type": "file_search", "vector_store_ids": ["v"], "max_num_results": 2,
                     "filters": {"type": "eq", "key": "k", "value": 1}, "ranking_options": {"ranker": "auto", "score_threshold": 0.5}},
                    {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["a"]}},
                    {"type": "image_generation", "size": "auto", "quality": "low"},
                    {"type": "mcp", "server_label": "l", "server_url": "https://mcp.deepwiki.com/mcp", "authorization": null,
                     "allowed_tools": ["a"], "require_approval": {"never": {"tool_names": ["a"]}}},
                    {"type": "custom", "name": "g", "format": {"type": "grammar", "syntax": "regex", "definition": "a"}},
                ],
                "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
                "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": schema, "strict": true}},
                "reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
                "max_output_tokens": 99, "temperature": 1, "top_p": 1, "truncation": "auto", "store": false,
                "parallel_tool_calls": true, "max_tool_calls": 3, "background": false, "service_tier": "auto",
                "prompt_cache_key": "p", "safety_identifier": "s", "user": "u", "top_logprobs": 1,
                "stream_options": {"include_obfuscation": false},
            }),
        ),
        (
            "messages",
            json!({
                "model": "m", "max_tokens": 99, "system": [{"type": "text", "text": "S", "cache_control": cached}],
                "messages": [
                    {"role": "user", "content": [
                        {"type": "text", "text": "https://u:p@h/?key=k"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                        {"type": "document", "title": "t", "citations": {"enabled": true}, "source": {"type": "url", "url": "https://a.example/a.pdf"}},
                        {"type": "search_result", "source": "https://a.example/?q=1", "title": "t", "content": [{"type": "text", "text": "c"}]},
                    ]},
                    {"role": "assistant", "content": [
                        {"type": "thinking", "thinking": "t", "signature": "s"},
                        {"type": "redacted_thinking", "data": "d"},
                        {"type": "server_tool_use", "id": "w", "name": "web_search", "input": {"query": "q"}},
                        {"type": "web_search_tool_result", "tool_use_id": "w", "content": [{"type": "web_search_result",
                         "url": "https://a.example/?q=1", "title": "t", "encrypted_content": "e", "page_age": null}]},
                        {"type": "text", "text": "t", "citations": [{"type": "web_search_result_location", "url": "https://a.example/?q=1",
                         "title": "t", "encrypted_index": "e", "cited_text": "c"}]},
                        {"type": "tool_use", "id": "c", "name": "f", "input": {"token": {"a": 1}}},
                    ]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": false, "content": [
                        {"type": "text", "text": "t"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]}]},
                ],
                "tools": [
                    {"name": "f", "description": "d", "input_schema": schema, "cache_control": cached, "eager_input_streaming": true},
                    {"type": "web_search_20250305", "name": "web_search", "max_uses": 1, "user_location": location},
                    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9},
                    {"type": "bash_20250124", "name": "bash"},
                    {"type": "mcp_toolset", "mcp_server_name": "s", "default_config": {"enabled": true}},
                ],
                "mcp_servers": [{"type": "url", "name": "s", "url": "https://mcp.deepwiki.com/sse", "authorization_token": null}],
                "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}, "metadata": {"user_id": "u"},
                "stop_sequences": ["x"], "temperature": 1, "top_k": 5, "top_p": 0.9, "service_tier": "auto",
                "thinking": {"type": "enabled", "budget_tokens": 1024},
                "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": schema}},
                "context_management": {"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 9}}]},
            }),
        ),
        (
            "gemini",
            json!({
                "systemInstruction": {"parts": [{"text": "S"}]},
                "contents": [
                    {"role": "user", "parts": [
                        {"text": "https://u:p@h/?key=k"},
                        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
                        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://www.youtube.com/watch?v=9hE5-98ZeCg"},
                         "videoMetadata": {"startOffset": "1s"}},
                    ]},
                    {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "f", "args": {"token": {}}}, "thoughtSignature": "t"}]},
                    {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "f", "response": {"token": "t"}}}]},
                ],
                "tools": [{"functionDeclarations": [{"name": "f", "description": "d", "parameters": schema}]},
                    {"googleSearch": {}}, {"codeExecution": {}}, {"url_context": {}}],
                "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
                "safetySettings": [{"category": "c", "threshold": "BLOCK_NONE"}],
                "generationConfig": {"temperature": 1, "topP": 1, "topK": 4, "maxOutputTokens": 99, "stopSequences": ["x"], "seed": 1,
                    "candidateCount": 1, "responseMimeType": "application/json", "responseSchema": schema,
                    "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 0}, "responseModalities": ["TEXT"],
                    "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "v"}}}},
                "cachedContent": "cachedContents/a",
            }),
        ),
        (
            "ollama",
            json!({
                "model": "m", "messages": [
                    {"role": "user", "content": "https://u:p@h/?key=k", "images": ["AA=="]},
                    {"role": "assistant", "content": "", "thinking": "t", "tool_calls": [{"function": {"name": "f", "arguments": {"token": {}}}}]},
                    {"role": "tool", "tool_name": "f", "content": "r"},
                ],
                "tools": [{"type": "function", "function": function}], "format": schema, "think": false, "keep_alive": "5m",
                "options": {"num_ctx": 4096, "temperature": 0, "stop": ["x"], "num_predict": 99},
            }),
        ),
        (
            "ollama-generate",
            json!({
                "model": "m", "prompt": "https://u:p@h/?key=k", "system": "S", "template": "t", "context": [1, 2], "raw": false,
                "images": ["AA=="], "format": "json", "options": {"seed": 1}, "keep_alive": 0,
            }),
        ),
        (
            "cohere",
            json!({
                "model": "m", "messages": [
                    {"role": "system", "content": "S"},
                    {"role": "user", "content": [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
                    {"role": "assistant", "tool_plan": "p", "tool_calls": calls, "citations": [{"start": 0, "sources": [{"type": "tool", "id": "i"}]}]},
                    {"role": "tool", "tool_call_id": "c", "content": [{"type": "document", "document": {"id": "d", "data": {"token": "t"}}}]},
                ],
                "documents": ["a", {"id": "d", "data": {"title": "t", "key": "k"}}], "tools": [{"type": "function", "function": function}],
                "strict_tools": true, "citation_options": {"mode": "FAST"}, "safety_mode": "OFF", "max_tokens": 99,
                "response_format": {"type": "json_object", "json_schema": schema}, "stop_sequences": ["x"], "temperature": 0.1, "seed": 1,
                "k": 1, "p": 0.5, "frequency_penalty": 0, "presence_penalty": 0, "logprobs": false, "tool_choice": "REQUIRED",
                "thinking": {"type": "enabled", "token_budget": 9}, "priority": 1,
            }),
        ),
    ]
}

/// Returns recorded requests of the corpus, where it is there.
fn recorded() -> Vec<(&'static str, Value)> {
    let requests = corpus_documents("docs")
        .into_iter()
        .filter(|(name, _)| name.contains("_req"));
    let requests = requests.map(|(name, text)| {
        let api = ["anthropic", "gemini", "responses"]
            .into_iter()
            .find(|api| name.contains(api));
        let api = api.map_or(
            "chat",
            |api| if api == "anthropic" { "messages" } else { api },
        );
        (api, serde_json::from_str(&text).unwrap())
    });
    requests.collect()
}

/// What clients send of their own accord goes to a fallback to the last member, and the log names
/// nothing.
#[tokio::test]
async fn a_fallback_gets_all_of_a_request_without_credentials() {
    let log = Log::default();
    let _guard = listen(log.clone());
    for (name, body) in healthy().into_iter().chain(recorded()) {
        log.0.lock().unwrap().clear();
        let (base, other) = (Raw::new(Vec::new()).await, Raw::new(Vec::new()).await);
        let proxy = with_routes(base.unbound(limits()), &[&other], ROUTES)
            .bind(([127, 0, 0, 1], 0).into())
            .await
            .unwrap();
        let path = Api::of(name).paths[usize::from(body["stream"] == false)];
        exchange(
            proxy.addr(),
            &post(&body.to_string()).replace("/v1/chat/completions", path),
        )
        .await;
        let told = log.0.lock().unwrap().clone();
        let sent = other.requests.lock().unwrap().clone();
        assert_eq!(sent.len(), 1, "{name}: {told}");
        let got: Value = serde_json::from_str(sent[0].split_once("\r\n\r\n").unwrap().1).unwrap();
        assert!(
            got.get("model").is_none_or(|model| *model == "other"),
            "{name}: {got}"
        );
        for (member, value) in body
            .as_object()
            .unwrap()
            .iter()
            .filter(|(member, _)| *member != "model")
        {
            let is_kept =
                got.get(member).cloned().map(without_nulls) == Some(without_nulls(value.clone()));
            assert!(is_kept, "{name}: {member}: {:?}, {told}", got.get(member));
        }
        assert!(told.contains("left_out= "), "{name}: {told}");
    }
}

/// Returns a value without empty members: unlisted ones are left out without a line in the log.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                members
                    .map(|(name, value)| (name, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        other => other,
    }
}
