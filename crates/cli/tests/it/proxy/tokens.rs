//! Answers that Gemini continues from its own tokens.

use restitch::Limits;
use restitch_sim::{ProviderProfile, Sim};
use serde_json::{Value, json};

use super::raw::*;
use crate::proxy::made::TestProxy;

const ASK: &str = r#"{"contents":[{"role":"user","parts":[{"text":"x"}]}],"generationConfig":{"maxOutputTokens":9,"responseMimeType":"application/json"}}"#;
const DOCUMENT: [&str; 6] = ["{\"a\": [1, ", "2", "2, \"x", "\\\"y\", 3", "3", "]}"];
const PROSE: [&str; 6] = ["It ", "rained ", "all ", "day ", "and ", "night."];

/// Returns the responses from a piece on. Every second one has a token.
fn responses(pieces: &[&str], from: usize, to: usize, end: &str) -> Vec<String> {
    let response = |at: usize| {
        let mut candidate =
            json!({"content": {"parts": [{"text": pieces[at]}], "role": "model"}, "index": 0});
        if (at + 1).is_multiple_of(2) || at + 1 == to && end == "CONTINUATION" {
            candidate["continuationToken"] = json!(format!("t{}", at + 1));
        }
        if at + 1 == to {
            candidate["finishReason"] = json!(end);
        }
        let usage = json!({"promptTokenCount": 5, "candidatesTokenCount": at + 1 - from});
        json!({"candidates": [candidate], "usageMetadata": usage, "responseId": format!("r{from}")})
            .to_string()
    };
    (from..to).map(response).collect()
}

fn events(pieces: &[&str], from: usize, to: usize, end: &str) -> Vec<String> {
    responses(pieces, from, to, end)
        .into_iter()
        .map(|response| format!("data: {response}\r\n\r\n"))
        .collect()
}

fn lost(bytes: &[u8]) -> Vec<Piece> {
    let head = STREAM.replace("\r\n\r\n", "\r\ncontent-length: 100000\r\n\r\n");
    let body = String::from_utf8_lossy(bytes);
    vec![send(format!("{head}{body}")), Piece::Reset]
}

/// Sends a request through a proxy. Returns the client's response.
async fn run(raw: &Raw, method: &str) -> String {
    let proxy = raw.proxy(Limits::default()).await;
    let path = format!("/v1beta/models/gemini-4:{method}");
    exchange(
        proxy.addr(),
        &post(ASK).replace("/v1/chat/completions", &path),
    )
    .await
}

/// Returns the text of a stream, its finish reasons, and its last usage.
fn read(body: &str) -> (String, Vec<String>, Value) {
    let (mut text, mut finishes, mut usage) = (String::new(), Vec::new(), Value::Null);
    for data in body.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let response: Value = serde_json::from_str(data).unwrap();
        let candidate = &response["candidates"][0];
        text += candidate["content"]["parts"][0]["text"]
            .as_str()
            .unwrap_or_default();
        finishes.extend(candidate["finishReason"].as_str().map(str::to_owned));
        usage = response.get("usageMetadata").cloned().unwrap_or(usage);
        assert_eq!(response["responseId"], "r0", "{body}");
    }
    (text, finishes, usage)
}

/// Checks that a request is the original one with a token.
fn check_request(raw: &Raw, number: usize, token: &str) {
    let request = raw.request(number);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST "), "{head}");
    let first = raw.request(0);
    assert_eq!(head.lines().next(), first.lines().next());
    let mut expected: Value = serde_json::from_str(ASK).unwrap();
    expected["continuationToken"] = json!(token);
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
}

#[tokio::test]
async fn a_lost_stream_continues_from_its_last_token() {
    for pieces in [DOCUMENT, PROSE] {
        let first = events(&pieces, 0, 6, "STOP");
        let stream_of = first.concat();
        let ends: Vec<usize> = first
            .iter()
            .scan(0, |end, event| {
                *end += event.len();
                Some(*end)
            })
            .collect();
        let offsets = (ends[1]..ends[4]).step_by(29).chain([ends[2], ends[3]]);
        for at in offsets {
            let token = if at >= ends[3] - 1 { 4 } else { 2 };
            let raw = Raw::new(vec![
                lost(&stream_of.as_bytes()[..at]),
                stream(&events(&pieces, token, 6, "STOP").concat()),
            ])
            .await;
            let (body, is_whole) = body_of(&run(&raw, "streamGenerateContent?alt=sse").await);
            let (text, finishes, _) = read(&body);
            assert!(is_whole, "{at}: {body}");
            assert_eq!(
                (text, finishes),
                (pieces.concat(), vec!["STOP".to_owned()]),
                "{at}"
            );
            check_request(&raw, 1, &format!("t{token}"));
        }
    }
}

/// A connection that fails before the first byte is made again.
#[tokio::test]
async fn a_hop_is_made_three_times() {
    let first = events(&PROSE, 0, 6, "STOP");
    let raw = Raw::new(vec![
        lost(first[..3].concat().as_bytes()),
        vec![Piece::Reset],
        lost(b""),
        stream(&events(&PROSE, 2, 6, "STOP").concat()),
    ])
    .await;
    let (body, is_whole) = body_of(&run(&raw, "streamGenerateContent?alt=sse").await);
    assert!(is_whole, "{body}");
    assert_eq!(read(&body).0, PROSE.concat());
    for number in 1..4 {
        check_request(&raw, number, "t2");
    }
}

/// Asks a scripted server in its own API through a proxy. Returns the text, the finish reasons and
/// the report that the client gets, and the server's calls.
async fn scripted(
    script: &str,
    method: &str,
    limit: Option<u64>,
) -> (String, Vec<String>, Value, Vec<restitch_sim::Call>) {
    let sim = Sim::new(LONG, script.parse().unwrap()).profile(ProviderProfile::Gemini38);
    let sim = sim.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    // The token of an answer that has reached its limit needs a higher one, which the operator allows.
    let proxy = TestProxy::new(sim.url()).raise_max_tokens(4);
    let proxy = proxy.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
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
    let stream = "streamGenerateContent?alt=sse";
    let mut calls = 0;
    for at in (30..LONG.len())
        .step_by(31)
        .filter(|at| LONG.is_char_boundary(*at))
    {
        // Before the end of the document, where the answer would end as a whole one.
        let half = 20.min((LONG.len() - at) / 2);
        // The second event has the first token.
        for (script, method) in [
            (format!("answer@{at}!drop | refusal"), stream),
            (format!("answer@{at}!eof | refusal"), stream),
            (
                format!("answer@{at}!drop | exact@{half}!drop refusal"),
                stream,
            ),
            (format!("answer@{at}!length | refusal"), stream),
            (
                format!("answer@{at}!length | exact@{half}!length refusal"),
                stream,
            ),
            (
                format!("answer@{at}!drop | refusal"),
                "streamGenerateContent",
            ),
            (
                format!("answer@{at}!length | refusal"),
                "streamGenerateContent",
            ),
            (format!("answer@{at}!length | refusal"), "generateContent"),
        ] {
            let (text, finishes, report, seen) = scripted(&script, method, None).await;
            assert_eq!(
                (text.as_str(), finishes.as_slice()),
                (LONG, &["STOP".to_owned()][..]),
                "{script}"
            );
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
    assert_eq!(
        (text.as_str(), finishes.as_slice()),
        (LONG, &["STOP".to_owned()][..])
    );
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
