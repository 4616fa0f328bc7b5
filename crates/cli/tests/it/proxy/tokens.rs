//! Answers that Gemini continues from its own tokens.

use restitch_sim::{ProviderProfile, Sim};
use serde_json::{Value, json};

use super::raw::*;
use crate::proxy::made::TestProxy;

/// Asks a scripted server in its own API through a proxy. Returns the text, the finish reasons and
/// the report that the client gets, and the server's calls.
async fn scripted(
    script: &str,
    method: &str,
    limit: Option<u64>,
) -> (String, Vec<String>, Value, Vec<restitch_sim::Call>) {
    let sim = Sim::new(LONG, script.parse().unwrap()).profile(ProviderProfile::Gemini38);
    let sim = sim.start().await;
    // The token of an answer that has reached its limit needs a higher one, which the operator allows.
    let proxy = TestProxy::new(sim.url()).raise_max_tokens(4).start().await;
    let mut ask = json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]});
    if let Some(limit) = limit {
        ask["generationConfig"] = json!({"maxOutputTokens": limit});
    }
    let path = format!("/v1beta/models/gemini-3.8-flash:{method}");
    let ask = post(&ask.to_string()).replace("/v1/chat/completions", &path);
    let (body, is_whole) = body_of(&exchange(proxy.addr(), &ask).await);
    assert!(is_whole, "{script}: {body}");
    let responses: Vec<Value> = match method {
        "streamGenerateContent?alt=sse" => body
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
            .collect(),
        "streamGenerateContent" => serde_json::from_str(&body).unwrap(),
        _ => vec![serde_json::from_str(&body).unwrap()],
    };
    let (mut text, mut finishes, mut report) = (String::new(), Vec::new(), Value::Null);
    for response in &responses {
        let candidate = &response["candidates"][0];
        text += candidate["content"]["parts"][0]["text"]
            .as_str()
            .unwrap_or_default();
        finishes.extend(candidate["finishReason"].as_str().map(str::to_owned));
        report = response.get("restitch").cloned().unwrap_or(report);
    }
    (text, finishes, report, sim.calls())
}

const LONG: &str = r#"{"title": "Seams \u00e9 – \"quoted\"", "rows": [{"id": 1, "tag": "один"}, {"id": 23, "tag": "三"}], "text": "It rained all day, and all night.", "done": true}"#;

/// A server that is written from the API's documentation continues by tokens alone.
#[tokio::test]
async fn a_cut_answer_of_a_scripted_gemini_is_identical_without_words() {
    let (events, array) = ("streamGenerateContent?alt=sse", "streamGenerateContent");
    let mut calls = 0;
    for at in (30..LONG.len())
        .step_by(31)
        .filter(|at| LONG.is_char_boundary(*at))
    {
        // Before the end of the document, where the answer would end as a whole one.
        let half = 20.min((LONG.len() - at) / 2);
        // The second event has the first token.
        for (method, script) in [
            (events, "answer@AT!drop | refusal"),
            (events, "answer@AT!eof | refusal"),
            (events, "answer@AT!drop | exact@HALF!drop refusal"),
            // A connection that fails before the first byte is made again.
            (events, "answer@AT!drop | no-response drop refusal"),
            (events, "answer@AT!length | refusal"),
            (events, "answer@AT!length | exact@HALF!length refusal"),
            (array, "answer@AT!drop | refusal"),
            (array, "answer@AT!length | refusal"),
            ("generateContent", "answer@AT!length | refusal"),
        ] {
            let script = script.replace("AT", &at.to_string());
            let script = script.replace("HALF", &half.to_string());
            let (text, finishes, report, seen) = scripted(&script, method, None).await;
            assert_eq!(text, LONG, "{script}");
            assert_eq!(finishes.as_slice(), &["STOP".to_owned()][..], "{script}");
            assert!(seen.len() > 1, "{script}");
            // The report of a whole body is in its head.
            if method != "generateContent" {
                assert_eq!(report["rungs"], json!(["token"]), "{script}: {report}");
            }
            // A call without a status met a connection that the server was closing, and was repeated.
            for call in seen[1..].iter().filter(|call| call.status.is_some()) {
                let body: Value = serde_json::from_str(&call.body).unwrap();
                assert_eq!(call.status.unwrap(), 200, "{script}");
                assert!(body["continuationToken"].is_string(), "{script}: {body}");
                assert_eq!(
                    body["contents"].as_array().unwrap().len(),
                    1,
                    "{script}: {body}"
                );
            }
            calls += seen.len() - 1;
        }
    }
    assert!(calls > 30, "{calls}");
}

/// The limit of the request has ended the answer: the token needs a higher one.
#[tokio::test]
async fn a_scripted_gemini_continues_after_its_limit_with_a_higher_one() {
    let (text, finishes, _, seen) = scripted(
        "answer@60!length | exact",
        "streamGenerateContent?alt=sse",
        Some(12),
    )
    .await;
    assert_eq!(text, LONG);
    assert_eq!(finishes.as_slice(), &["STOP".to_owned()][..]);
    let bodies: Vec<Value> = seen
        .iter()
        .map(|call| serde_json::from_str(&call.body).unwrap())
        .collect();
    assert_eq!(bodies.len(), 2, "{bodies:?}");
    assert!(bodies[1]["continuationToken"].is_string(), "{}", bodies[1]);
    assert!(
        bodies[1]["generationConfig"]["maxOutputTokens"].as_u64() > Some(12),
        "{}",
        bodies[1]
    );
}
