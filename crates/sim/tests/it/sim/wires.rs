//! Every API × {whole, cut by the limit, dropped, error, one body} × {text, arguments}.

use serde_json::{Value, json};

use restitch_sim::{ProviderProfile, Sim};

use super::family::{ALL, Arguments, Family, Seen};
use super::{DOCUMENT, Got, exchange, request, serve};

const LEAD: &str = "I'll write the file.";

impl Family {
    /// Returns a first request; `is_stream` says how the answer comes.
    fn first(&self, is_stream: bool) -> Value {
        let mut body = (self.request)(&[("user", "a document\n")]);
        body["stream"] = is_stream.into();
        body
    }

    fn with_tools(&self, is_stream: bool) -> Value {
        let mut body = self.first(is_stream);
        body["tools"] = serde_json::from_str(self.tools).unwrap();
        body
    }

    async fn post(&self, script: &str, body: &Value, is_stream: bool) -> Got {
        let path = if is_stream {
            self.stream_path
        } else {
            self.body_path
        };
        exchange(&serve(script).await, &request(path, body))
            .await
            .unwrap()
    }

    async fn stream(&self, script: &str, body: &Value) -> Seen {
        let got = self.post(script, body, true).await;
        assert_eq!(got.status, 200, "{} {script}: {}", self.name, got.body);
        assert!(
            got.head
                .contains(&format!("content-type: {}\r\n", self.content_type)),
            "{}",
            self.name
        );
        assert_eq!(
            got.whole,
            !script.contains("drop"),
            "{} {script}",
            self.name
        );
        (self.read)(&got.body)
    }
}

/// The arguments: text as it is written, or an object in the order of its keys.
fn arguments(family: &Family, text: &str) -> String {
    match family.arguments {
        Arguments::Object => serde_json::from_str::<Value>(text).unwrap().to_string(),
        _ => text.to_owned(),
    }
}

#[tokio::test]
async fn text_on_every_wire() {
    for family in ALL {
        let [length, stop, _] = family.finishes;
        let cases = [
            ("answer", DOCUMENT, Some(stop), true),
            ("answer@14", &DOCUMENT[..14], Some(length), true),
            ("answer@14!stop", &DOCUMENT[..14], Some(stop), true),
            ("answer@14!drop", &DOCUMENT[..14], None, false),
            ("answer@14!eof", &DOCUMENT[..14], None, false),
            ("empty", "", Some(stop), true),
            ("drop", "", None, false),
        ];
        for (script, text, finish, is_ended) in cases {
            let seen = family.stream(script, &family.first(true)).await;
            let expected = Seen {
                text: text.into(),
                finish: finish.map(str::to_owned),
                is_ended,
                ..Seen::default()
            };
            assert_eq!(seen, expected, "{} {script}", family.name);
            if is_ended {
                let got = family.post(script, &family.first(false), false).await;
                let whole = (family.whole)(&got.json());
                assert_eq!(
                    (whole.text, whole.finish),
                    (expected.text, expected.finish),
                    "{} {script}",
                    family.name
                );
            }
        }
        let seen = family.stream("answer@14!error", &family.first(true)).await;
        assert_eq!(
            (seen.text.as_str(), seen.has_error),
            (&DOCUMENT[..14], true),
            "{}",
            family.name
        );
        let got = family
            .post("answer!error", &family.first(false), false)
            .await;
        assert!(
            got.status == 200 && got.body.contains("The server had an error"),
            "{}",
            family.name
        );
        let got = family
            .post("answer@14!malformed", &family.first(true), true)
            .await;
        let (good, bad) = got.body.rsplit_once("{\"malformed\": tru").unwrap();
        let good = good.strip_suffix("data: ").unwrap_or(good);
        assert_eq!(
            ((family.read)(good).text.as_str(), bad.trim(), got.whole),
            (&DOCUMENT[..14], "", true)
        );
        let got = family
            .post("answer!malformed", &family.first(false), false)
            .await;
        assert!(
            got.whole && serde_json::from_str::<Value>(&got.body).is_err(),
            "{}",
            family.name
        );
        let got = family.post("429~2", &family.first(true), true).await;
        assert!(
            got.status == 429 && got.json().to_string().contains("The script says 429."),
            "{}",
            family.name
        );
    }
}

#[tokio::test]
async fn arguments_on_every_wire() {
    for family in ALL
        .iter()
        .filter(|family| family.arguments != Arguments::None)
    {
        let [length, _, tool] = family.finishes;
        let cut = &DOCUMENT[..14];
        let cases = [
            ("tool", DOCUMENT, Some(tool), true),
            ("tool@14", cut, Some(length), true),
            ("tool@14!tool", cut, Some(tool), true),
            ("tool@14!drop", cut, None, false),
            ("tool@0", "", Some(length), true),
        ];
        for (script, text, finish, is_ended) in cases {
            let seen = family.stream(script, &family.with_tools(true)).await;
            let is_whole = text.len() == DOCUMENT.len();
            // Objects come when they are whole, or not at all.
            let has_call = is_whole || family.arguments == Arguments::Text;
            let calls = if has_call {
                vec![("save".to_owned(), arguments(family, text))]
            } else {
                Vec::new()
            };
            let finish = finish.map(str::to_owned);
            let expected = Seen {
                calls,
                finish: finish.clone(),
                is_ended,
                ..Seen::default()
            };
            assert_eq!(seen, expected, "{} {script}", family.name);
            if is_ended {
                let got = family.post(script, &family.with_tools(false), false).await;
                let whole = (family.whole)(&got.json());
                assert_eq!(whole.finish, finish, "{} {script}", family.name);
                // The Messages API has objects in a body.
                let text = if family.name == "messages" {
                    if is_whole {
                        serde_json::from_str::<Value>(text).unwrap().to_string()
                    } else {
                        "{}".to_owned()
                    }
                } else if has_call {
                    arguments(family, text)
                } else {
                    continue;
                };
                assert_eq!(
                    whole.calls,
                    [("save".to_owned(), text)],
                    "{} {script}",
                    family.name
                );
            }
        }
        let seen = family
            .stream("tool@14!error", &family.with_tools(true))
            .await;
        assert!(seen.has_error, "{}", family.name);
        if family.arguments == Arguments::Text {
            assert_eq!(
                seen.calls,
                [("save".to_owned(), cut.to_owned())],
                "{}",
                family.name
            );
        }
    }
}

/// Reasoning, text and a whole call before the call whose arguments are the document.
#[tokio::test]
async fn a_turn_of_several_parts() {
    for family in ALL
        .iter()
        .filter(|family| family.arguments != Arguments::None)
    {
        let seen = family
            .stream("reasoning+text+call+tool", &family.with_tools(true))
            .await;
        assert!(!seen.reasoning.is_empty(), "{}", family.name);
        assert_eq!(seen.text, LEAD, "{}", family.name);
        let calls: Vec<String> = [r#"{"first": true}"#, DOCUMENT]
            .map(|text| arguments(family, text))
            .into();
        assert_eq!(
            seen.calls
                .iter()
                .map(|(_, text)| text.clone())
                .collect::<Vec<_>>(),
            calls,
            "{}",
            family.name
        );
        assert_eq!(
            seen.finish.as_deref(),
            Some(family.finishes[2]),
            "{}",
            family.name
        );
    }
    // Without tools it is an answer.
    for family in ALL {
        let seen = family.stream("tool@14", &family.first(true)).await;
        assert_eq!(
            (seen.text.as_str(), seen.calls.len()),
            (&DOCUMENT[..14], 0),
            "{}",
            family.name
        );
    }
}

/// Requests for the rest, also of arguments: the text that was delivered, and a question with its
/// anchor.
#[tokio::test]
async fn continuations_on_every_wire() {
    let question = "Go on.\n<overlap_context>\n1, 2\n</overlap_context>\n";
    for family in ALL {
        let mut turns = vec![("user", "a document\n"), ("assistant", &DOCUMENT[..11])];
        let expected = match family.name {
            // There the answer follows the prompt directly.
            "completions" => &DOCUMENT[11..19],
            _ => {
                turns.push(("user", question));
                &DOCUMENT[7..19]
            }
        };
        let mut body = (family.request)(&turns);
        body["stream"] = true.into();
        let seen = family.stream("answer@11 | anchor@8", &body).await;
        let finish = Some(family.finishes[0].to_owned());
        assert_eq!(
            seen,
            Seen {
                text: expected.into(),
                finish,
                is_ended: true,
                ..Seen::default()
            },
            "{}",
            family.name
        );
        // The server rejects text that differs from the document. In a prompt it can't tell the two
        // apart.
        if !family.body_path.contains("generate") || family.name.starts_with("gemini") {
            let mut turns = turns;
            turns[1].1 = r#"{"a": [1, 3"#;
            let got = family.post("", &(family.request)(&turns), false).await;
            assert!(
                got.status == 422 || family.name == "completions",
                "{}: {}",
                family.name,
                got.body
            );
        }
    }
}

/// A forced call needs no word in the script.
#[tokio::test]
async fn a_choice_forces_a_call() {
    let nested = json!([{"type": "function", "function": {"name": "save"}}, {"type": "function", "function": {"name": "other"}}]);
    let mut body = ALL[0].first(true);
    body["tools"] = nested;
    body["tool_choice"] = json!({"type": "function", "function": {"name": "other"}});
    let seen = ALL[0].stream("answer@14", &body).await;
    assert_eq!(
        (seen.calls, seen.text),
        (
            vec![("other".to_owned(), DOCUMENT[..14].to_owned())],
            String::new()
        )
    );
    body["tool_choice"] = "none".into();
    assert!(ALL[0].stream("tool", &body).await.calls.is_empty());
}

/// Anthropic sends a value of the arguments when it is whole, unless the tool says otherwise.
#[tokio::test]
async fn values_are_kept_back_until_they_are_whole() {
    let family = ALL.iter().find(|family| family.name == "messages").unwrap();
    for (is_eager, arguments) in [(false, &DOCUMENT[..15]), (true, &DOCUMENT[..25])] {
        let mut body = family.with_tools(true);
        body["tools"][0]["eager_input_streaming"] = is_eager.into();
        let sim =
            Sim::new(DOCUMENT, "tool@25".parse().unwrap()).profile(ProviderProfile::Anthropic46);
        let server = sim.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let got = exchange(&server, &request(family.stream_path, &body))
            .await
            .unwrap();
        assert_eq!(
            (family.read)(&got.body).calls,
            [("save".to_owned(), arguments.to_owned())]
        );
        assert_eq!(server.calls()[0].delivered, arguments.len());
    }
}

/// The order of a turn's events.
#[tokio::test]
async fn a_turn_of_the_messages_api() {
    let family = ALL.iter().find(|family| family.name == "messages").unwrap();
    let got = family
        .post("reasoning+text+tool@5", &family.with_tools(true), true)
        .await;
    let names: Vec<&str> = got
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    let block = |deltas| {
        let mut names = vec!["content_block_start"];
        names.extend(vec!["content_block_delta"; deltas]);
        names.push("content_block_stop");
        names
    };
    let mut expected = vec![
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
    ];
    expected.extend(["content_block_delta", "content_block_stop"]);
    expected.extend([block(2), block(2)].concat());
    expected.extend(["message_delta", "message_stop"]);
    assert_eq!(names, expected);
    assert!(
        got.body
            .contains(r#"{"type":"tool_use","id":"toolu_sim_1_2","name":"save","input":{}}"#),
        "{}",
        got.body
    );
    assert!(
        got.body
            .contains(r#""delta":{"type":"signature_delta","signature":"c2ln"#),
        "{}",
        got.body
    );
}

/// The key that a path has reaches no log.
#[tokio::test]
async fn the_log_has_no_key() {
    let family = ALL.iter().find(|family| family.name == "gemini").unwrap();
    let server = serve("").await;
    exchange(&server, &request(family.stream_path, &family.first(true)))
        .await
        .unwrap();
    assert!(server.calls()[0].path.ends_with("?alt=sse&key=[redacted]"));
}
