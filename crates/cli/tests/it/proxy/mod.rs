//! The proxy over sockets, in front of the scripted model server.

mod access;
mod admin;
mod books;
mod certificates;
mod clients;
mod clock;
mod content_types;
mod credentials;
mod encoded;
mod fallbacks;
mod forced;
mod limits;
mod listeners;
mod logged;
pub(crate) mod made;
mod named_tokens;
#[cfg(feature = "otlp")]
mod otlp;
mod outages;
mod output_limits;
mod page;
mod passthrough;
mod prose;
mod raw;
mod reload;
mod requests;
mod resume;
mod routes;
mod sdks;
mod seen;
mod tokens;
mod ways;

use std::time::Duration;

use http_body_util::BodyExt;
use restitch::Limits;
use restitch::internal::chat;
use restitch::internal::chat::Transcript;
use restitch::session::GiveUp;
use restitch::sse::Decoder;
use restitch_http::{Body, Client, Upstream};
use restitch_sim::{Server, Sim};
use serde_json::{Value, json};

use crate::proxy::made::{Start, TestProxy};
use restitch_testing::Rng;
use restitch_testing::rows::Rows;
use restitch_testing::says::Says;

/// Has everything that a seam can meet: escapes, several scripts, numbers, nested containers,
/// similar rows.
const DOCUMENT: &str = r#"{"title": "Seams \u00e9 \ud83d\ude00 – \"quoted\"", "sections": [{"type": "text", "content": "It was a dark and stormy night; the rain fell in torrents, except at occasional intervals."}, {"type": "table", "rows": [[1, -2.5e3, true], [2, 0.125, false], [3, 17, null]]}, {"type": "list", "items": ["один", "два", "三"]}], "done": true}"#;

struct Setup {
    sim: Server,
    proxy: restitch_proxy::Server,
}

impl Setup {
    async fn new(script: &str) -> Self {
        Self::with(script, Limits::default()).await
    }

    async fn with(script: &str, limits: Limits) -> Self {
        Self::of(script, |proxy| proxy.limits(limits)).await
    }

    async fn of(script: &str, change: impl FnOnce(TestProxy) -> TestProxy) -> Self {
        logged::watch_the_log();
        let sim = Sim::new(DOCUMENT, script.parse().unwrap()).start().await;
        let upstream = sim.url();
        let proxy = change(TestProxy::new(upstream)).start().await;
        Self { sim, proxy }
    }

    async fn stream(&self) -> Answer {
        ask(&self.proxy.url(), &request(true, "A document, please.")).await
    }
}

fn request(stream: bool, prompt: &str) -> Value {
    json!({
        "model": "sim", "stream": stream, "stream_options": {"include_usage": true},
        "response_format": {"type": "json_object"}, "messages": [{"role": "user", "content": prompt}],
    })
}

/// The answer that a client received.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Vec<u8>,
    /// Whether the transport ended as announced.
    whole: bool,
}

async fn ask(url: &str, request: &Value) -> Answer {
    let client = Client::new(Upstream::parse(url).unwrap()).unwrap();
    let uri = client.upstream().uri_for("/v1/chat/completions").unwrap();
    let request = http::Request::post(uri)
        .header("content-type", "application/json")
        .header("authorization", "Bearer sk-test")
        .body(Body::full(request.to_string()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let status = response.status().as_u16();
    let mut frames = response.into_body();
    let mut body = Vec::new();
    let whole = loop {
        match tokio::time::timeout(Duration::from_secs(30), frames.frame())
            .await
            .expect("the proxy hangs")
        {
            Some(Ok(frame)) => body.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Some(Err(_)) => break false,
            None => break true,
        }
    };
    Answer {
        status,
        body,
        whole,
    }
}

impl Answer {
    /// Returns the payloads of all events.
    fn chunks(&self) -> Vec<Value> {
        restitch_testing::event_data(&self.body)
    }

    fn transcript(&self) -> Transcript {
        let mut decoder = Decoder::new(&Limits::default());
        let mut reader = chat::ChatReader::new();
        let mut transcript = Transcript::default();
        let mut input = self.body.as_slice();
        while let Some(event) = decoder.next_event(&mut input).unwrap() {
            reader.read(&event.event, &event.data, |delta| transcript.push(&delta));
        }
        transcript
    }

    fn text(&self) -> String {
        self.transcript().text.remove("0").unwrap_or_default()
    }

    /// Returns the `restitch` member, which only the last chunk may have.
    fn report(&self) -> Value {
        let chunks = self.chunks();
        let data: Vec<_> = chunks.iter().filter(|chunk| !chunk.is_null()).collect();
        let with: Vec<_> = data
            .iter()
            .filter(|chunk| chunk.get("restitch").is_some())
            .collect();
        assert_eq!(with.len(), 1, "{}", String::from_utf8_lossy(&self.body));
        data.last().unwrap()["restitch"].clone()
    }

    /// Checks that the stream is complete and has one finish, one usage, one `[DONE]` and one
    /// identity.
    fn assert_seamless(&self, expected: &str, context: &str) {
        let shown = || format!("{context}\n{}", String::from_utf8_lossy(&self.body));
        assert!(self.whole && self.status == 200, "{}", shown());
        assert_eq!(self.text(), expected, "{}", shown());
        let chunks = self.chunks();
        let (done, chunks): (Vec<_>, Vec<_>) = chunks.iter().partition(|chunk| chunk.is_null());
        assert_eq!(done.len(), 1, "{}", shown());
        assert!(self.body.ends_with(b"data: [DONE]\n\n"), "{}", shown());
        let finishes = chunks.iter().filter(|chunk| {
            chunk
                .pointer("/choices/0/finish_reason")
                .is_some_and(|r| !r.is_null())
        });
        assert_eq!(finishes.count(), 1, "{}", shown());
        assert!(
            chunks
                .iter()
                .filter(|chunk| chunk["usage"].is_object())
                .count()
                <= 1,
            "{}",
            shown()
        );
        let roles = chunks
            .iter()
            .filter(|chunk| chunk.pointer("/choices/0/delta/role").is_some());
        assert_eq!(roles.count(), 1, "{}", shown());
        for member in ["id", "model", "created"] {
            assert!(
                chunks
                    .iter()
                    .all(|chunk| chunk[member] == chunks[0][member]),
                "{member}: {}",
                shown()
            );
        }
    }
}

#[tokio::test]
async fn a_healthy_stream_passes_unchanged() {
    for script in [
        "answer",
        "answer!length",
        "fence",
        "prose",
        "answer@40!filter",
    ] {
        let setup = Setup::new(script).await;
        let through = setup.stream().await;
        let direct = Setup::new(script).await;
        let direct = ask(&direct.sim.url(), &request(true, "A document, please.")).await;
        assert_eq!(
            String::from_utf8_lossy(&through.body),
            String::from_utf8_lossy(&direct.body),
            "{script}"
        );
        assert!(through.whole);
        assert_eq!(setup.sim.calls().len(), 1, "{script}");
    }
}

/// A long text is rendered in the question, and the rest is still exact.
#[tokio::test]
async fn a_large_answer_is_continued_after_a_rendering() {
    let rows: Vec<_> = (0..1300)
        .map(|n| format!(r#"{{"id": {n}, "text": "Row {n} of the report"}}"#))
        .collect();
    let document = format!(r#"{{"rows": [{}]}}"#, rows.join(", "));
    for at in [20_000, 50_001] {
        let script = format!("answer@{at} | anchor");
        let sim = Sim::new(document.clone(), script.parse().unwrap())
            .start()
            .await;
        let proxy = TestProxy::new(sim.url()).start().await;
        let answer = ask(&proxy.url(), &request(true, "A document, please.")).await;
        answer.assert_seamless(&document, &script);
        let calls = sim.calls();
        let sizes: Vec<_> = calls.iter().map(|call| call.body.len()).collect();
        assert!(
            matches!(sizes[..], [_, second] if second < 10_000),
            "{sizes:?}"
        );
    }
}

#[tokio::test]
async fn every_behaviour_first_and_the_anchor_then() {
    let ends = [
        "length",
        "stop",
        "drop",
        "eof",
        "error",
        "done",
        "malformed",
    ];
    let behaviours = [
        "anchor@60",
        "exact",
        "fence",
        "fence-open",
        "preamble",
        "preamble-fence",
        "epilogue",
        "repeat",
        "refusal",
        "empty",
        "garbage",
        "drop",
        "no-response",
        "500~0",
        "429~0",
        "404",
        "anchor@30!drop",
        "exact@90!eof",
        "anchor@50!stop",
        "anchor!length",
        "fence@40",
        "anchor@20!error",
    ];
    for (n, behaviour) in behaviours.iter().enumerate() {
        let end = ends[n % ends.len()];
        let cut = [10, 61, 140, 230][n % 4];
        let script = format!("answer@{cut}!{end} | {behaviour} anchor");
        let setup = Setup::new(&script).await;
        let answer = setup.stream().await;
        answer.assert_seamless(DOCUMENT, &script);
        assert_eq!(answer.report()["status"], "complete", "{script}");
        assert!(
            setup
                .sim
                .calls()
                .iter()
                .all(|call| call.status.is_none_or(|status| status != 422)),
            "{script}"
        );
    }
}

#[tokio::test]
async fn behaviours_that_never_deliver_end_closed_and_flagged() {
    for behaviour in [
        "refusal",
        "empty",
        "repeat",
        "drop",
        "no-response",
        "500~0",
        "429~0",
        "404",
    ] {
        // Without patience a lost call is a failure.
        let limits = Limits::default().with_patience(Duration::ZERO);
        let with = |proxy: TestProxy| proxy.limits(limits).give_up(GiveUp::Close);
        let setup = Setup::of(&format!("answer@100 | {behaviour}"), with).await;
        let answer = setup.stream().await;
        let text = answer.text();
        text.of(behaviour).begins(&DOCUMENT[..100]);
        serde_json::from_str::<Value>(&text).unwrap();
        answer.assert_seamless(&text, behaviour);
        let report = answer.report();
        assert_eq!(report["status"], "closed", "{behaviour}");
        assert!(report["synthesized"].is_array());
        assert_eq!(answer.transcript().finish["0"], "length", "{behaviour}");
        let calls = match behaviour {
            "repeat" => 3,
            // A connection that was used before and ends without a byte counts as nothing: that
            // request is sent again.
            "no-response" => 5,
            _ => 4,
        };
        assert_eq!(setup.sim.calls().len(), calls, "{behaviour}");
    }
}

#[tokio::test]
async fn resets_at_every_event_edge_and_at_seeded_offsets() {
    let setup = Setup::new("answer").await;
    let healthy = ask(&setup.sim.url(), &request(true, "healthy")).await;
    let length = healthy.body.len();
    let edges = (0..length).filter(|&at| healthy.body[..at].ends_with(b"\n\n"));
    let mut rng = Rng::new(7);
    let seeded = (0..300).map(|_| rng.below(length));
    let offsets: Vec<usize> = edges.chain(seeded).collect();
    let mut rows = Rows::of("resets of a stream");
    for (n, at) in offsets.iter().enumerate() {
        if !rows.runs_next() {
            continue;
        }
        let prompt = format!("{n} [[script: answer!drop={at} answer | anchor]]");
        let answer = ask(&setup.proxy.url(), &request(true, &prompt)).await;
        answer.assert_seamless(DOCUMENT, &format!("reset at {at} of {length}"));
    }
    println!("{} resets of {length} bytes", offsets.len());
}
