//! Upstreams that force the rest by a grammar, and upstreams that refuse to.

use restitch::provider::capability::{GrammarForm, PrefillForm, Row, SchemaSubset};
use restitch_sim::{ProviderProfile, Sim};
use serde_json::{Value, json};

use super::raw::*;
use super::ways::{cut, proxy, rest, seen, told};
use crate::proxy::made::TestProxy;
use restitch_testing::rows::Rows;

/// An answer that calls the custom tool with this input.
fn input(text: &str) -> Vec<Piece> {
    let event = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "b", "choices": [choice]}))
    };
    let call = |custom: Value| json!({"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": custom}]});
    let body = event(call(json!({"name": "write_rest", "input": ""})), None)
        + &event(
            json!({"tool_calls": [{"index": 0, "custom": {"input": text}}]}),
            None,
        )
        + &event(json!({}), Some("tool_calls"))
        + "data: [DONE]\n\n";
    stream(&body)
}

const CUT: &str = "{\"place\": \"Norway, north of Bergen\", \"name\": \"Aurora Bo";

/// Whatever the refusal says: the grammar is what is new in the request.
#[tokio::test]
async fn a_refused_grammar_is_learned_and_is_no_failure() {
    let raw = Raw::new(vec![
        cut("[1, 2"),
        respond("400 Bad Request", r#"{"error":{"message":"Invalid grammar: too complex","type":"invalid_request_error"}}"#),
        rest("[1, 2, 3]"),
        cut("[4, 5"),
        rest("[4, 5, 6]"),
    ])
    .await;
    let proxy = proxy(
        &raw,
        Row::of("*").grammar(GrammarForm::CustomTool),
        |proxy| proxy,
    )
    .await;
    let (text, report) = told(&exchange(proxy.addr(), &post(ASK)).await);
    assert_eq!(text, "[1, 2, 3]");
    assert_eq!(
        report,
        json!({"status": "complete", "continuations": 1, "failures": 0, "rungs": ["grammar", "words"], "cut_values": {"/1": 5}})
    );
    assert_eq!(seen(&raw, 2).1["tools"], Value::Null);
    let (text, _) = told(&exchange(proxy.addr(), &post(ASK)).await);
    assert_eq!(text, "[4, 5, 6]");
    assert_eq!(seen(&raw, 4).1["tools"], Value::Null);
    assert_eq!(raw.asked(), 5);
}

/// The next answer is not asked for by a grammar again.
#[tokio::test]
async fn an_answer_outside_its_grammar_is_learned_and_is_no_failure() {
    let raw = Raw::new(vec![
        cut("[1, 2"),
        rest("Sure! Here it is"),
        rest("[1, 2, 3]"),
        cut("[4, 5"),
        rest("[4, 5, 6]"),
    ])
    .await;
    let row = Row::of("*").grammar(GrammarForm::ResponseFormat);
    let proxy = proxy(&raw, row, |proxy| proxy).await;
    let (text, report) = told(&exchange(proxy.addr(), &post(ASK)).await);
    assert_eq!(text, "[1, 2, 3]");
    assert_eq!(report["failures"], 0);
    assert_eq!(report["rungs"], json!(["grammar", "words"]));
    assert_eq!(seen(&raw, 1).1["response_format"]["type"], "grammar");
    let (text, _) = told(&exchange(proxy.addr(), &post(ASK)).await);
    assert_eq!(text, "[4, 5, 6]");
    assert_eq!(seen(&raw, 4).1["response_format"], Value::Null);
    assert_eq!(raw.asked(), 5);
}

/// Sends a request, and returns the text that the client has of the answer and its report.
async fn asked(proxy: &restitch_proxy::Server, path: &str, body: Value) -> (String, Value) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nconnection: close\r\n"
    );
    let body = body.to_string();
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let (body, whole) = body_of(&exchange(proxy.addr(), &request).await);
    assert!(whole, "{body}");
    let (mut text, mut report) = (String::new(), Value::Null);
    // Ollama's lines are events, and the other APIs' events are in lines.
    let events = body
        .lines()
        .filter_map(|line| match line.strip_prefix("data: ") {
            Some(data) => Some(data).filter(|data| *data != "[DONE]"),
            None => Some(line).filter(|line| line.starts_with('{')),
        });
    for data in events {
        let event: Value = serde_json::from_str(data).unwrap();
        let delta = &event["choices"][0]["delta"];
        let pieces = match event["type"].as_str() {
            Some("response.output_text.delta" | "response.function_call_arguments.delta") => {
                event["delta"].as_str()
            }
            Some("content_block_delta") => event["delta"]["text"]
                .as_str()
                .or(event["delta"]["partial_json"].as_str()),
            Some(_) => None,
            None => delta["content"]
                .as_str()
                .or(delta["tool_calls"][0]["function"]["arguments"].as_str())
                .or(event["message"]["content"].as_str())
                .or(event["candidates"][0]["content"]["parts"][0]["text"].as_str()),
        };
        text += pieces.unwrap_or_default();
        let told = event
            .get("restitch")
            .or(event.pointer("/response/restitch"));
        report = told.cloned().unwrap_or(report);
    }
    (text, report)
}

/// Returns the distance of two cuts: `least` in the whole table, and three times that else.
fn steps(table: &str, least: usize) -> usize {
    if Rows::of(table).is_whole() {
        least
    } else {
        3 * least
    }
}

/// A request with a prompt.
type Ask<'a> = &'a dyn Fn(&str) -> Value;

/// At every seventh byte, or at fewer, for each kind of server that enforces the grammar of a request, text
/// and arguments come back whole, with one call for each cut.
#[tokio::test]
async fn a_cut_costs_one_call_where_the_server_enforces_the_grammar() {
    let document = r#"{"title": "Seams \u00e9 \ud83d\ude00 – \"quoted\"", "rows": [[1, -2.5e3, true], [2, 0.125, false], [3, 17, null]], "items": ["один", "два", "三"], "done": true}"#;
    let tool = Row::of("*").grammar(GrammarForm::CustomTool);
    let vllm = Row::of("*")
        .prefill(PrefillForm::Final)
        .grammar(GrammarForm::StructuredOutputs);
    let llama = Row::of("*")
        .prefill(PrefillForm::Turn)
        .grammar(GrammarForm::Member);
    let alone = Row::of("*").grammar(GrammarForm::Ebnf);
    let chat = |prompt: &str| json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": prompt}]});
    let responses = |prompt: &str| json!({"model": "m", "stream": true, "input": prompt});
    let call = |prompt: &str| {
        let mut body = chat(prompt);
        body["tools"] = json!([{"type": "function", "function": {"name": "save"}}]);
        body["tool_choice"] = json!("required");
        body
    };
    use ProviderProfile as P;
    let path = "/v1/chat/completions";
    let shapes: [(&str, P, &Row, &str, Ask<'_>); 8] = [
        ("chat", P::OpenAi, &tool, path, &chat),
        ("arguments", P::OpenAi, &tool, path, &call),
        ("responses", P::OpenAi, &tool, "/v1/responses", &responses),
        ("vllm", P::Vllm, &vllm, path, &chat),
        ("llama.cpp", P::LlamaCpp, &llama, path, &chat),
        ("arguments, vllm", P::Vllm, &vllm, path, &call),
        ("arguments, llama.cpp", P::LlamaCpp, &llama, path, &call),
        ("without a prefill", P::OpenAi, &alone, path, &chat),
    ];
    let step = steps("grammars", 7);
    for (name, profile, row, path, body) in shapes {
        let sim = Sim::new(document, "answer".parse().unwrap()).profile(profile);
        let sim = sim.start().await;
        let proxy = TestProxy::new(sim.url()).row(row.clone()).start().await;
        let cuts = cuts(document, step);
        costs_one_call(name, &proxy, path, body, cuts, |text| text == document).await;
    }
}

/// Returns every `step`th byte at which a document can be cut.
fn cuts(document: &str, step: usize) -> impl Iterator<Item = usize> {
    let all = (1..document.len() - 1).step_by(step);
    all.filter(|at| document.is_char_boundary(*at))
}

/// Checks that each answer is whole after one call for its rest. Returns the number of cuts.
async fn costs_one_call(
    name: &str,
    proxy: &restitch_proxy::Server,
    path: &str,
    body: Ask<'_>,
    cuts: impl Iterator<Item = usize>,
    is_whole: impl Fn(&str) -> bool,
) -> usize {
    let mut count = 0;
    for at in cuts {
        // The steps of the script are styles of models that answer in words: a server that enforces
        // a grammar writes the rest instead.
        let prompt = format!("[[script: answer@{at}!length | element anchor]]");
        let (text, report) = asked(proxy, path, body(&prompt)).await;
        assert!(is_whole(&text), "{name} at {at}: {text}");
        assert_eq!(report["status"], "complete", "{name} at {at}: {report}");
        assert_eq!(report["failures"], 0, "{name} at {at}: {report}");
        assert_eq!(report["continuations"], 1, "{name} at {at}: {report}");
        count += 1;
    }
    assert!(count >= 6, "{name}: {count}");
    count
}

/// Newer models refuse tools in Chat Completions while they reason.
#[tokio::test]
async fn a_custom_tool_that_excludes_reasoning_is_called_without_it() {
    let refused = r#"{"error":{"message":"Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use /v1/responses instead.","type":"invalid_request_error","param":"reasoning_effort"}}"#;
    let refused = || respond("400 Bad Request", refused);
    let row = || Row::of("*").grammar(GrammarForm::CustomTool);
    let raw = Raw::new(vec![
        cut(CUT),
        refused(),
        input("\"name\": \"Aurora Borealis\"}"),
        cut(CUT),
        input("\"name\": \"Aurora Borealis\"}"),
    ])
    .await;
    let server = proxy(&raw, row(), |proxy| proxy).await;
    let (text, report) = told(&exchange(server.addr(), &post(ASK)).await);
    assert_eq!(text, format!("{CUT}realis\"}}"));
    assert_eq!(
        report,
        json!({"status": "complete", "continuations": 1, "failures": 0, "rungs": ["grammar"]})
    );
    let efforts: Vec<_> = (1..3)
        .map(|n| seen(&raw, n).1["reasoning_effort"].clone())
        .collect();
    assert_eq!(efforts, [Value::Null, json!("none")]);
    // The next answer of this model is continued without a refused call.
    let (text, report) = told(&exchange(server.addr(), &post(ASK)).await);
    assert_eq!(text, format!("{CUT}realis\"}}"));
    assert_eq!(report["rungs"], json!(["grammar"]));
    let efforts: Vec<_> = (3..5)
        .map(|n| seen(&raw, n).1["reasoning_effort"].clone())
        .collect();
    assert_eq!(efforts, [Value::Null, json!("none")]);
    assert_eq!(raw.asked(), 5);
    // Where that is refused, too, the next rung asks.
    let raw = Raw::new(vec![cut("[1, 2"), refused(), refused(), rest("[1, 2, 3]")]).await;
    let server = proxy(&raw, row(), |proxy| proxy).await;
    let (text, report) = told(&exchange(server.addr(), &post(ASK)).await);
    assert_eq!(text, "[1, 2, 3]");
    assert_eq!(report["failures"], 0);
    assert_eq!(report["rungs"], json!(["grammar", "words"]));
}

/// A call of the client's own custom tool has text of any kind, so it passes. Another call beside
/// it is continued.
#[tokio::test]
async fn a_call_beside_a_custom_tools_call_is_continued() {
    let custom = json!({"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}});
    let function = json!({"index": 1, "id": "c2", "type": "function", "function": {"name": "write", "arguments": "{\"rows\": [1, 2"}});
    let calls = json!([custom, function]);
    let tools = json!([
        {"type": "custom", "custom": {"name": "sql"}},
        {"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}},
    ]);
    let text = "{\"rows\": [1, 2, 3, 4]}";
    let ask = |is_stream: bool| {
        let messages = json!([{"role": "user", "content": "x"}]);
        let ask = json!({"model": "m", "stream": is_stream, "messages": messages, "tools": tools});
        post(&ask.to_string())
    };
    let choice = json!({"index": 0, "delta": {"tool_calls": calls}, "finish_reason": null});
    let event = json!({"id": "a", "choices": [choice]});
    let first = stream(&(format!("data: {event}\n\n") + &finish("length")));
    let raw = Raw::new(vec![first, rest(text)]).await;
    let server = proxy(&raw, Row::of("m"), |proxy| proxy).await;
    let (body, _) = body_of(&exchange(server.addr(), &ask(true)).await);
    let events = restitch_testing::event_data(body.as_bytes());
    let calls_of = |event: &Value| {
        event["choices"][0]["delta"]["tool_calls"]
            .as_array()
            .cloned()
    };
    let arguments: String = events
        .iter()
        .flat_map(|event| calls_of(event).unwrap_or_default())
        .filter_map(|call| call["function"]["arguments"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(arguments, text, "{body}");

    let whole = |message: Value, reason: &str| {
        let choice = json!({"index": 0, "message": message, "finish_reason": reason});
        respond(
            "200 OK",
            &json!({"id": "a", "choices": [choice]}).to_string(),
        )
    };
    let first = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let second = json!({"role": "assistant", "content": text});
    let raw = Raw::new(vec![whole(first, "length"), whole(second, "stop")]).await;
    let server = proxy(&raw, Row::of("m"), |proxy| proxy).await;
    let (body, _) = body_of(&exchange(server.addr(), &ask(false)).await);
    let body: Value = serde_json::from_str(&body).unwrap();
    let calls = &body["choices"][0]["message"]["tool_calls"];
    assert_eq!(calls[0]["custom"]["input"], "SELECT 1", "{body}");
    assert_eq!(calls[1]["function"]["arguments"], text, "{body}");
    assert_eq!(body["restitch"]["status"], "complete", "{body}");
}

/// The same for a whole body of Responses, also where the item after the call is a text.
#[tokio::test]
async fn an_item_after_a_custom_tools_call_is_continued_in_a_body() {
    let text = "{\"rows\": [1, 2, 3, 4]}";
    let custom = json!({"type": "custom_tool_call", "id": "i1", "call_id": "c1", "name": "sql", "input": "SELECT 1", "status": "completed"});
    let message = |text: &str| {
        let part = json!({"type": "output_text", "annotations": [], "text": text});
        json!({"type": "message", "id": "i2", "role": "assistant", "status": "incomplete", "content": [part]})
    };
    let call = json!({"type": "function_call", "id": "i2", "call_id": "c2", "name": "write", "arguments": "{\"rows\": [1, 2", "status": "incomplete"});
    for (item, pointer) in [
        (call, "/output/1/arguments"),
        (message("{\"rows\": [1, 2"), "/output/1/content/0/text"),
    ] {
        let first = json!({"id": "r", "object": "response", "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"}, "output": [custom, item]});
        let second = json!({"id": "s", "object": "response", "status": "completed", "output": [message(text)]});
        let raw = Raw::new(vec![
            respond("200 OK", &first.to_string()),
            respond("200 OK", &second.to_string()),
        ])
        .await;
        let server = proxy(&raw, Row::of("m"), |proxy| proxy).await;
        let ask = json!({"model": "m", "input": "x", "tools": [
            {"type": "custom", "name": "sql"},
            {"type": "function", "name": "write", "parameters": {"type": "object"}},
        ]});
        let ask = post(&ask.to_string()).replace("/v1/chat/completions", "/v1/responses");
        let (body, _) = body_of(&exchange(server.addr(), &ask).await);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body.pointer(pointer), Some(&json!(text)), "{body}");
        assert_eq!(body["output"][0], custom, "{body}");
        assert_eq!(body["restitch"]["status"], "complete", "{body}");
    }
}

/// At every fifth byte, or at fewer, in the APIs whose providers enforce a schema, text and arguments are
/// whole, with one call for each cut.
#[tokio::test]
async fn a_cut_costs_one_call_where_the_server_enforces_a_schema() {
    let document = r#"{"title": "Seams \u00e9 \ud83d\ude00 – \"quoted\"", "rows": [{"id": 1, "tag": "один"}, {"id": 23, "tag": "三"}], "done": true}"#;
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["title", "rows", "done"],
        "properties": {
            "title": {"type": "string"},
            "rows": {"type": "array", "minItems": 2, "items": {
                "type": "object", "additionalProperties": false, "required": ["id", "tag"],
                "properties": {"id": {"type": "integer"}, "tag": {"type": "string"}},
            }},
            "done": {"type": "boolean"},
        },
    });
    let chat = |prompt: &str| {
        json!({
            "model": "m", "stream": true, "messages": [{"role": "user", "content": prompt}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
        })
    };
    let arguments = |prompt: &str| {
        let function = json!({"name": "save", "parameters": schema});
        json!({
            "model": "m", "stream": true, "messages": [{"role": "user", "content": prompt}],
            "tools": [{"type": "function", "function": function}], "tool_choice": "required",
        })
    };
    let responses = |prompt: &str| {
        let format = json!({"type": "json_schema", "name": "a", "schema": schema});
        json!({"model": "m", "stream": true, "input": prompt, "text": {"format": format, "verbosity": "low"}})
    };
    let messages = |prompt: &str| {
        let format = json!({"type": "json_schema", "schema": schema});
        json!({
            "model": "m", "stream": true, "max_tokens": 100, "output_config": {"format": format, "effort": "low"},
            "messages": [{"role": "user", "content": prompt}],
        })
    };
    let tool_use = |prompt: &str| {
        json!({
            "model": "m", "stream": true, "max_tokens": 100, "tool_choice": {"type": "any"},
            "tools": [{"name": "save", "input_schema": schema, "eager_input_streaming": true}],
            "messages": [{"role": "user", "content": prompt}],
        })
    };
    let gemini = |prompt: &str| {
        json!({
            "contents": [{"role": "user", "parts": [{"text": prompt}]}],
            "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema},
        })
    };
    let ollama = |prompt: &str| json!({"model": "m", "messages": [{"role": "user", "content": prompt}], "format": schema});
    use ProviderProfile as P;
    let shapes: [(&str, P, &str, Ask<'_>); 7] = [
        ("chat", P::OpenAi, "/v1/chat/completions", &chat),
        ("arguments", P::OpenAi, "/v1/chat/completions", &arguments),
        ("responses", P::OpenAi, "/v1/responses", &responses),
        ("messages", P::Anthropic46, "/v1/messages", &messages),
        ("tool use", P::Anthropic46, "/v1/messages", &tool_use),
        (
            "gemini",
            P::Gemini36,
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            &gemini,
        ),
        ("ollama", P::OpenAi, "/api/chat", &ollama),
    ];
    let step = steps("schemas", 5);
    for (name, profile, path, body) in shapes {
        let sim = Sim::new(document, "answer".parse().unwrap()).profile(profile);
        let sim = sim.start().await;
        let row = Row::of("*").grammar(GrammarForm::JsonSchema(SchemaSubset::Full));
        // Ollama needs no row.
        let proxy = match name {
            "ollama" => TestProxy::new(sim.url()),
            _ => TestProxy::new(sim.url()).row(row),
        };
        let proxy = proxy.start().await;
        let expected: Value = serde_json::from_str(document).unwrap();
        // No key has an escape, so every cut has a schema.
        let is_whole =
            |text: &str| serde_json::from_str(text).is_ok_and(|value: Value| value == expected);
        let count = costs_one_call(name, &proxy, path, body, cuts(document, step), is_whole).await;
        // A missing value alone is a member of its own name.
        let asked_by_schema = sim
            .calls()
            .into_iter()
            .filter(|call| call.body.contains("<missing_members>"));
        assert!(asked_by_schema.count() * 10 >= count * 9, "{name}");
    }
}
