//! Small readers of streams: they check the order, the ids and the numbers of all events.

use serde_json::{Value, json};

use super::family::{Seen, content};

/// The events of a stream, with their names; an incomplete one is an error.
fn events(body: &str) -> Vec<(String, Value)> {
    assert!(body.is_empty() || body.ends_with("\n\n"), "{body:?}");
    let event = |event: &str| {
        let (name, data) = match event.split_once('\n') {
            Some((name, data)) => (name.strip_prefix("event: ").unwrap(), data),
            None => ("", event),
        };
        let data = data.strip_prefix("data: ").unwrap();
        let data = if data == "[DONE]" {
            Value::from(data)
        } else {
            serde_json::from_str(data).unwrap()
        };
        // Where an event has a name, its type says the same.
        assert!(name.is_empty() || data["type"] == name, "{name}: {data}");
        (name.to_owned(), data)
    };
    body.split_terminator("\n\n").map(event).collect()
}

pub(super) fn chat(body: &str) -> Seen {
    let (mut seen, mut id, mut call) = (Seen::default(), None, None);
    for (at, (_, event)) in events(body).iter().enumerate() {
        assert!(!seen.is_ended, "{event} after the end");
        if event == "[DONE]" {
            seen.is_ended = true;
            continue;
        }
        if event.get("error").is_some() {
            seen.has_error = true;
            continue;
        }
        assert_eq!(event["object"], "chat.completion.chunk");
        assert_eq!(id.get_or_insert_with(|| event["id"].clone()), &event["id"]);
        let choice = &event["choices"][0];
        assert!(seen.finish.is_none(), "{event} after the finish");
        assert_eq!(choice["delta"].get("role").is_some(), at == 0, "{event}");
        seen.text.push_str(&content(&choice["delta"]["content"]));
        seen.reasoning
            .push_str(&content(&choice["delta"]["reasoning_content"]));
        for piece in choice["delta"]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if let Some(id) = piece.get("id") {
                assert_ne!(call.replace(id.clone()).as_ref(), Some(id), "{event}");
                seen.add_call(&piece["function"]["name"]);
            }
            assert_eq!(
                piece["index"].as_u64().unwrap() + 1,
                seen.calls.len() as u64
            );
            seen.add_arguments(&piece["function"]["arguments"]);
        }
        seen.finish(&choice["finish_reason"]);
    }
    seen
}

pub(super) fn completions(body: &str) -> Seen {
    let mut seen = Seen::default();
    for (_, event) in events(body) {
        if event == "[DONE]" {
            seen.is_ended = true;
            continue;
        }
        seen.has_error |= event.get("error").is_some();
        seen.text.push_str(&content(&event["choices"][0]["text"]));
        seen.finish(&event["choices"][0]["finish_reason"]);
    }
    seen
}

pub(super) fn response(body: &Value) -> Seen {
    let mut seen = Seen::default();
    assert_eq!(body["object"], "response");
    for item in body["output"].as_array().unwrap() {
        match item["type"].as_str().unwrap() {
            "message" => seen
                .text
                .push_str(item["content"][0]["text"].as_str().unwrap()),
            "reasoning" => seen
                .reasoning
                .push_str(item["summary"][0]["text"].as_str().unwrap()),
            "function_call" => seen
                .calls
                .push((content(&item["name"]), content(&item["arguments"]))),
            other => panic!("{other}"),
        }
    }
    match body["status"].as_str().unwrap() {
        "incomplete" => seen.finish(&body["incomplete_details"]["reason"]),
        "failed" => seen.has_error = body["error"]["message"].is_string(),
        "completed" => seen.finish(&body["status"]),
        other => assert_eq!(other, "in_progress"),
    }
    seen
}

pub(super) fn responses(body: &str) -> Seen {
    let (mut seen, mut items, mut open) = (Seen::default(), Vec::<Value>::new(), None::<String>);
    for (number, (name, event)) in events(body).iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
        if let Some(id) = event.get("item_id") {
            assert_eq!(Some(id.as_str().unwrap()), open.as_deref());
            assert_eq!(event["output_index"], items.len(), "{event}");
        }
        let delta = || event["delta"].as_str().unwrap();
        match name.as_str() {
            "response.created" | "response.in_progress" => {
                assert!(number < 2 && event["response"]["output"] == json!([]));
            }
            "response.output_item.added" => {
                let item = &event["item"];
                assert_eq!(
                    (event["output_index"].as_u64().unwrap(), open.clone()),
                    (items.len() as u64, None)
                );
                open = Some(content(&item["id"]));
                if item["type"] == "function_call" {
                    assert_eq!(item["arguments"], "");
                    seen.add_call(&item["name"]);
                }
            }
            "response.output_item.done" => {
                assert_eq!(open.take(), Some(content(&event["item"]["id"])));
                items.push(event["item"].clone());
            }
            "response.output_text.delta" => seen.text.push_str(delta()),
            "response.reasoning_summary_text.delta" => seen.reasoning.push_str(delta()),
            "response.function_call_arguments.delta" => seen.add_arguments(&event["delta"]),
            "response.reasoning_summary_text.done" => assert_eq!(event["text"], seen.reasoning),
            "response.output_text.done" => {
                assert!(seen.text.ends_with(event["text"].as_str().unwrap()));
            }
            "response.function_call_arguments.done" => {
                assert_eq!(event["arguments"], seen.calls.last().unwrap().1);
            }
            "response.completed" | "response.incomplete" => {
                assert_eq!(event["response"]["output"], json!(items));
                let whole = response(&event["response"]);
                assert_eq!((&whole.text, &whole.calls), (&seen.text, &seen.calls));
                (seen.finish, seen.is_ended) = (whole.finish, true);
            }
            "error" => assert!(event["error"]["message"].is_string()),
            "response.failed" => seen.has_error = response(&event["response"]).has_error,
            _ => assert!(name.contains("_part."), "{name}"),
        }
    }
    seen
}

pub(super) fn anthropic(body: &str) -> Seen {
    let (mut seen, mut blocks, mut open) = (Seen::default(), 0, None::<Value>);
    for (number, (name, event)) in events(body).into_iter().enumerate() {
        assert!(
            !seen.is_ended && (number == 0) == (name == "message_start"),
            "{event}"
        );
        if let Some(index) = event.get("index") {
            assert_eq!(index, blocks, "{event}");
        }
        match name.as_str() {
            "message_start" => assert_eq!(event["message"]["content"], json!([])),
            "ping" => {}
            "content_block_start" => {
                let block = &event["content_block"];
                assert!(open.replace(block["type"].clone()).is_none(), "{event}");
                if block["type"] == "tool_use" {
                    assert_eq!(block["input"], json!({}));
                    seen.add_call(&block["name"]);
                }
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                let kind = open.as_ref().and_then(Value::as_str).unwrap();
                match (kind, delta["type"].as_str().unwrap()) {
                    ("text", "text_delta") => seen.text.push_str(delta["text"].as_str().unwrap()),
                    ("thinking", "thinking_delta") => {
                        seen.reasoning.push_str(delta["thinking"].as_str().unwrap());
                    }
                    ("thinking", "signature_delta") => assert_ne!(delta["signature"], ""),
                    ("tool_use", "input_json_delta") => seen.add_arguments(&delta["partial_json"]),
                    other => panic!("{other:?}"),
                }
            }
            "content_block_stop" => {
                assert!(open.take().is_some());
                blocks += 1;
            }
            "message_delta" => {
                assert!(open.is_none() && event["usage"]["output_tokens"].is_u64());
                seen.finish(&event["delta"]["stop_reason"]);
            }
            "message_stop" => seen.is_ended = true,
            "error" => seen.has_error = event["error"]["message"].is_string(),
            other => panic!("{other}"),
        }
    }
    seen
}

pub(super) fn gemini(chunk: &Value, seen: &mut Seen) {
    if chunk.get("error").is_some() {
        seen.has_error = true;
        return;
    }
    assert!(
        seen.finish.is_none() && chunk["usageMetadata"]["promptTokenCount"].is_u64(),
        "{chunk}"
    );
    let candidate = &chunk["candidates"][0];
    assert_eq!(candidate["content"]["role"], "model");
    for part in candidate["content"]["parts"].as_array().unwrap() {
        if let Some(call) = part.get("functionCall") {
            seen.calls
                .push((content(&call["name"]), call["args"].to_string()));
        } else if part["thought"] == true {
            seen.reasoning.push_str(part["text"].as_str().unwrap());
        } else {
            seen.text.push_str(part["text"].as_str().unwrap());
        }
    }
    seen.finish(&candidate["finishReason"]);
}

pub(super) fn lines(body: &str) -> Seen {
    let mut seen = Seen::default();
    assert!(body.is_empty() || body.ends_with('\n'), "{body:?}");
    for line in body.lines() {
        assert!(!seen.is_ended, "{line} after the end");
        ollama(&serde_json::from_str(line).unwrap(), &mut seen);
    }
    seen
}

pub(super) fn ollama(line: &Value, seen: &mut Seen) {
    if line.get("error").is_some() {
        seen.has_error = true;
        return;
    }
    let message = line.get("message").unwrap_or(line);
    seen.text.push_str(&content(
        message
            .get("content")
            .or_else(|| message.get("response"))
            .unwrap(),
    ));
    seen.reasoning.push_str(&content(&message["thinking"]));
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        seen.calls.push((
            content(&call["function"]["name"]),
            call["function"]["arguments"].to_string(),
        ));
    }
    seen.is_ended = line["done"].as_bool().unwrap();
    seen.finish(&line["done_reason"]);
}

pub(super) fn cohere(body: &str) -> Seen {
    let (mut seen, mut open) = (Seen::default(), None::<(Value, &str)>);
    for (number, (name, event)) in events(body).into_iter().enumerate() {
        if event == "[DONE]" {
            assert!(seen.is_ended);
            continue;
        }
        assert!(
            !seen.is_ended && (number == 0) == (name == "message-start"),
            "{event}"
        );
        let message = &event["delta"]["message"];
        let is_open = |kind| {
            open.as_ref()
                .is_some_and(|(index, open)| *index == event["index"] && *open == kind)
        };
        match name.as_str() {
            "message-start" => assert_eq!(message["role"], "assistant"),
            "tool-plan-delta" => seen.text.push_str(message["tool_plan"].as_str().unwrap()),
            "content-start" => assert!(open.replace((event["index"].clone(), "content")).is_none()),
            "content-delta" => {
                assert!(is_open("content"), "{event}");
                seen.text.push_str(&content(&message["content"]["text"]));
                seen.reasoning
                    .push_str(&content(&message["content"]["thinking"]));
            }
            "tool-call-start" => {
                assert_eq!(event["index"], seen.calls.len());
                assert!(open.replace((event["index"].clone(), "call")).is_none());
                seen.add_call(&message["tool_calls"]["function"]["name"]);
            }
            "tool-call-delta" => {
                assert!(is_open("call"), "{event}");
                seen.add_arguments(&message["tool_calls"]["function"]["arguments"]);
            }
            "content-end" | "tool-call-end" => assert!(open.take().is_some()),
            "message-end" => {
                seen.has_error = event["delta"]["finish_reason"] == "ERROR";
                seen.finish(&event["delta"]["finish_reason"]);
                seen.is_ended = true;
            }
            other => panic!("{other}"),
        }
    }
    seen
}
