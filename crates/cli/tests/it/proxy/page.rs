//! The operator's page: its view of answers, its access, its bounds, and its button that stops an
//! answer.

mod browser;
pub(super) mod driver;

use restitch::Limits;
use restitch_proxy::Server;
use serde_json::{Value, json};

use super::raw::*;
use crate::proxy::made::{Access, TestProxy};

/// Returns a proxy that keeps the texts of its last answers.
async fn proxy(raw: &Raw, keeps: usize, limits: Limits) -> Server {
    in_front_of(raw, limits, |proxy| proxy.page_answers(keeps)).await
}

async fn in_front_of(
    raw: &Raw,
    limits: Limits,
    with: impl FnOnce(TestProxy) -> TestProxy,
) -> Server {
    with(raw.unbound(limits).admin(Some(LOOPBACK)))
        .start()
        .await
}

/// Returns the answer of the listener to a request with these lines.
async fn sent(proxy: &Server, line: &str, headers: &str) -> String {
    exchange(
        proxy.admin_addr().unwrap(),
        &format!("{line} HTTP/1.1\r\n{headers}\r\n"),
    )
    .await
}

async fn get(proxy: &Server, path: &str) -> String {
    sent(proxy, &format!("GET {path}"), "host: 127.0.0.1\r\n").await
}

pub(super) async fn json_of(proxy: &Server, path: &str) -> Value {
    let answer = get(proxy, path).await;
    serde_json::from_str(&body_of(&answer).0)
        .unwrap_or_else(|error| panic!("{path}: {error}: {answer}"))
}

/// Reads the list until an answer is as it should be.
pub(super) async fn wait_for(proxy: &Server, is: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..1000 {
        let list = json_of(proxy, "/answers").await;
        if let Some(answer) = list["answers"]
            .as_array()
            .unwrap()
            .iter()
            .find(|answer| is(answer))
        {
            return answer.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no such answer: {}", json_of(proxy, "/answers").await);
}

fn asked_as(id: &str, body: &str) -> String {
    post(body).replace("host: h", &format!("host: h\r\nx-request-id: {id}"))
}

/// The answer `[1, 2` is cut, and the continuation repeats the whole text.
async fn cut_and_joined() -> Raw {
    Raw::new(vec![limited("[1, 2"), full("[1, 20, \"é\"]")]).await
}

#[tokio::test]
async fn facts_are_shown_and_no_text_by_default() {
    let raw = Raw::new(vec![
        limited("{\"secret key\": \"secret"),
        full("{\"secret key\": \"secret value\"}"),
    ])
    .await;
    let proxy = proxy(&raw, 0, Limits::default()).await;
    exchange(proxy.addr(), &asked_as("mine", ASK)).await;
    let shown = wait_for(&proxy, |answer| answer["phase"] == "ended").await;
    for (name, value) in [
        ("id", json!("mine")),
        ("request_id", json!("mine")),
        ("model", json!("m")),
        ("wire", json!("openai-chat")),
        ("stream", json!(true)),
        ("outcome", json!("complete")),
        ("end", json!("whole")),
        ("status", json!(200)),
        ("calls", json!(2)),
        ("causes", json!(["length"])),
        ("failures", json!(0)),
        ("keeps_text", json!(false)),
    ] {
        assert_eq!(shown[name], value, "{name}: {shown}");
    }
    let report = json_of(&proxy, "/answers/mine?view=report").await;
    let steps: Vec<_> = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["step"].as_str().unwrap())
        .collect();
    let expected = [
        "call",
        "answered",
        "cut",
        "requested",
        "call",
        "answered",
        "joined",
        "done",
    ];
    assert_eq!(steps, expected, "{report}");
    report.to_string().of(report).lacks("secret");
    for view in ["text", "closed", "added"] {
        let answer = get(&proxy, &format!("/answers/mine?view={view}")).await;
        answer.of(view).begins("HTTP/1.1 404");
        answer.of(view).has("--page-answers N");
    }
}

/// The upstream's word for the end of an answer is its own text, and a byte that the grammar
/// refuses is the model's.
#[tokio::test]
async fn words_of_an_upstream_are_no_facts() {
    let calls = || {
        vec![
            limited("{\"a\": [1, 2"),
            limited("§ no JSON §"),
            stream(&(chunk("```json\n{\"a\": [1, 2, 3") + &finish("a secret refusal"))),
        ]
    };
    for keeps in [0, 1] {
        let raw = Raw::new(calls()).await;
        let proxy = proxy(&raw, keeps, Limits::default()).await;
        exchange(proxy.addr(), &asked_as("mine", ASK)).await;
        wait_for(&proxy, |answer| answer["phase"] == "ended").await;
        let report = json_of(&proxy, "/answers/mine?view=report").await;
        let steps = report["steps"].as_array().unwrap();
        let last = steps.iter().rfind(|step| step["step"] == "cut").unwrap();
        assert_eq!(
            last["end"],
            if keeps > 0 {
                "a secret refusal"
            } else {
                "other"
            },
            "{report}"
        );
        let reasons: Vec<_> = steps
            .iter()
            .filter_map(|step| step["candidates"].as_array())
            .flatten()
            .filter_map(|candidate| candidate["reason"].as_str())
            .collect();
        assert!(!reasons.is_empty(), "{report}");
        let quotes = |reason: &str| reason.contains('`') || reason.contains("0x");
        assert_eq!(
            reasons.iter().any(|reason| quotes(reason)),
            keeps > 0,
            "{reasons:?}"
        );
    }
}

#[tokio::test]
async fn a_text_is_shown_with_its_seams_and_scores() {
    let raw = cut_and_joined().await;
    let proxy = proxy(&raw, 1, Limits::default()).await;
    exchange(proxy.addr(), &asked_as("mine", ASK)).await;
    wait_for(&proxy, |answer| answer["phase"] == "ended").await;
    let text = get(&proxy, "/answers/mine?view=text").await;
    text.has("content-type: text/plain; charset=utf-8\r\n");
    assert_eq!(body_of(&text).0, "[1, 20, \"é\"]");
    assert_eq!(
        json_of(&proxy, "/answers/mine?view=closed").await,
        json!([1, 20, "é"])
    );
    let report = json_of(&proxy, "/answers/mine?view=report").await;
    let joined = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|step| step["step"] == "joined")
        .unwrap();
    assert_eq!(joined["path"], "/1");
    assert_eq!(joined["offset"], 5);
    assert_eq!(joined["call"], 1);
    let candidates = joined["candidates"].as_array().unwrap();
    assert_eq!(candidates[0]["status"], "won", "{joined}");
    assert!(
        candidates
            .iter()
            .all(|one| one["score"].is_number() && one["posterior"].is_number()),
        "{joined}"
    );
    assert_eq!(report["report"]["status"], "complete");
    // A reader that has one byte gets the rest, divided at the seam.
    for (query, added) in [
        (
            "",
            json!([{"call": null, "text": "[1, 2"}, {"call": 1, "text": "0, \"é\"]"}]),
        ),
        (
            "&restarts=0&from=1",
            json!([{"call": null, "text": "1, 2"}, {"call": 1, "text": "0, \"é\"]"}]),
        ),
        ("&restarts=0&from=13", json!([])),
        (
            "&restarts=7&from=13",
            json!([{"call": null, "text": "[1, 2"}, {"call": 1, "text": "0, \"é\"]"}]),
        ),
    ] {
        assert_eq!(
            json_of(&proxy, &format!("/answers/mine?view=added{query}")).await,
            json!({
                "restarts": 0,
                "slots": [{"name": "text 0", "bytes": 13, "added": added}],
                "missing": null,
            }),
            "{query}"
        );
    }
    for (query, status) in [
        ("view=text&slot=1", 404),
        ("view=text&slot=x", 400),
        ("view=live", 400),
    ] {
        let answer = get(&proxy, &format!("/answers/mine?{query}")).await;
        answer.of(query).begins(format!("HTTP/1.1 {status}"));
    }
    get(&proxy, "/answers/other").await.begins("HTTP/1.1 404");
    let closed = get(&proxy, "/answers/mine?view=closed").await;
    assert_eq!(
        body_of(&get(&proxy, "/answers/mine").await),
        body_of(&closed),
        "the closed JSON is what there is first"
    );
}

/// A page whose name was made to point here reads nothing: no answer, no name of a model or of an
/// upstream.
#[tokio::test]
async fn the_page_is_shown_to_its_own_readers() {
    let raw = cut_and_joined().await;
    let proxy = in_front_of(&raw, Limits::default(), |proxy| {
        proxy.page_answers(1).access(Access {
            hosts: vec!["llm.example".to_owned()],
            admin_hosts: vec!["ops.example".to_owned()],
            ..Default::default()
        })
    })
    .await;
    let ask = asked_as("mine", ASK).replace("host: h", "host: llm.example");
    exchange(proxy.addr(), &ask).await.has("[DONE]");
    let port = proxy.admin_addr().unwrap().port();
    let own = format!("host: 127.0.0.1:{port}\r\n");
    for headers in [
        own.clone(),
        "host: localhost\r\n".to_owned(),
        "host: ops.example:9\r\n".to_owned(),
        format!("{own}sec-fetch-site: none\r\n"),
        format!("{own}sec-fetch-site: same-origin\r\norigin: http://127.0.0.1:{port}\r\n"),
    ] {
        for path in ["/", "/page.js", "/answers", "/answers/mine?view=text"] {
            let answer = sent(&proxy, &format!("GET {path}"), &headers).await;
            answer.of((path, &headers)).begins("HTTP/1.1 200").has_all([
                "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                 base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n",
                "x-content-type-options: nosniff\r\n",
                "cross-origin-resource-policy: same-origin\r\n",
                "cache-control: no-store\r\n",
            ]);
        }
        for path in ["/metrics", "/readyz?verbose"] {
            let answer = sent(&proxy, &format!("GET {path}"), &headers).await;
            answer.of((path, &headers)).begins("HTTP/1.1 200");
        }
    }
    for headers in [
        String::new(),
        "host: rebound.example\r\n".to_owned(),
        // A name of the proxy is not one of this listener.
        "host: llm.example\r\n".to_owned(),
        format!("host: rebound.example:{port}\r\norigin: http://rebound.example:{port}\r\n"),
        format!("{own}host: 127.0.0.1\r\n"),
        format!("{own}sec-fetch-site: cross-site\r\n"),
        format!("{own}sec-fetch-site: same-site\r\n"),
        format!("{own}origin: http://127.0.0.1:1\r\n"),
        format!("{own}origin: null\r\n"),
    ] {
        // A request needs one host.
        let is_request = headers.matches("host:").count() == 1;
        let statuses: &[&str] = if is_request {
            &["403"]
        } else {
            &["400", "403"]
        };
        for line in [
            "GET /",
            "GET /answers",
            "GET /answers/mine?view=text",
            "POST /answers/mine/stop",
            "GET /metrics",
            "GET /readyz?verbose",
            "GET /readyz?a&verbose=1",
        ] {
            let answer = sent(&proxy, line, &format!("{headers}x-restitch-page: 1\r\n")).await;
            let status = answer.get(9..12).unwrap_or_default();
            assert!(statuses.contains(&status), "{line} {headers}: {answer}");
            answer
                .lacks("[1, 20")
                .lacks("restitch_running")
                .lacks(raw.addr.to_string());
        }
        // A probe names the pod as it likes, and learns nothing.
        for (path, end) in [("/healthz", "\r\nok\n"), ("/readyz", "\r\nready\n")] {
            if is_request {
                sent(&proxy, &format!("GET {path}"), &headers)
                    .await
                    .of(&headers)
                    .ends(end);
            }
        }
    }
    for (line, status) in [
        ("POST /answers/mine/stop", 403),
        ("GET /answers/mine/stop", 405),
        ("POST /answers", 403),
        ("DELETE /", 405),
    ] {
        let answer = sent(&proxy, line, &own).await;
        answer.of(line).begins(format!("HTTP/1.1 {status}"));
    }
}

pub(super) async fn stop(proxy: &Server, id: &str) -> String {
    sent(
        proxy,
        &format!("POST /answers/{id}/stop"),
        "host: 127.0.0.1\r\nx-restitch-page: 1\r\n",
    )
    .await
}

/// A stopped answer ends as one that is given up, and its call ends.
#[tokio::test]
async fn an_answer_is_stopped() {
    let raw = Raw::new(vec![held("[1, 2")]).await;
    let proxy = in_front_of(&raw, Limits::default(), |proxy| {
        proxy.give_up(restitch::session::GiveUp::Close)
    })
    .await;
    let mut client = begin(proxy.addr(), &asked_as("urn:mine", ASK)).await;
    read_until(&mut client, "[1, 2").await;
    // As a browser writes it.
    let stopped = stop(&proxy, "urn%3Amine").await;
    stopped.begins("HTTP/1.1 202");
    let rest = read_to_end(&mut client).await;
    rest.has_all([
        "\"status\":\"closed\"",
        "\"stop\":\"stopped\"",
        "data: [DONE]",
    ]);
    rest.of("nothing has cut it").lacks("\"cause\"");
    raw.wait(|state| state.left == 1).await;
    assert_eq!(raw.asked(), 1);
    let shown = wait_for(&proxy, |answer| answer["phase"] == "ended").await;
    assert_eq!(shown["outcome"], "closed");
    assert_eq!(shown["stop"], "stopped");
    assert_eq!(shown["id"], "urn:mine", "the upstream has cut nothing");
    assert_eq!(shown["causes"], json!([]), "the upstream has cut nothing");
    let metrics = get(&proxy, "/metrics").await;
    let has_cuts = metrics
        .lines()
        .any(|line| line.starts_with("restitch_cuts_total{") && !line.ends_with(" 0"));
    assert!(!has_cuts, "{metrics}");
    metrics.has("error_type=\"stopped\"");
    let again = stop(&proxy, "urn:mine").await;
    again.begins("HTTP/1.1 409");
    stop(&proxy, "other").await.begins("HTTP/1.1 404");
}

/// Wherever an answer waits, it is stopped at once.
#[tokio::test]
async fn an_answer_is_stopped_wherever_it_waits() {
    let cut = limited("[1, 2");
    let whole =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
    let passed = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<p>";
    for (name, ask, calls, ends_with) in [
        (
            "no head",
            ASK,
            vec![vec![Piece::Hold]],
            "\"code\":\"stopped\"",
        ),
        (
            "a continuation without a head",
            ASK,
            vec![cut.clone(), vec![Piece::Hold]],
            "\"stop\":\"stopped\"",
        ),
        (
            "a continuation",
            ASK,
            vec![cut, vec![send(STREAM), Piece::Hold]],
            "\"stop\":\"stopped\"",
        ),
        (
            "a whole body",
            ASK_WHOLE,
            vec![vec![send(whole), Piece::Hold]],
            "the operator has stopped the answer",
        ),
        (
            "an answer that passes",
            ASK,
            vec![vec![send(passed), Piece::Hold]],
            "<p>",
        ),
    ] {
        let count = calls.len();
        let raw = Raw::new(calls).await;
        let proxy = proxy(&raw, 0, Limits::default()).await;
        let client = tokio::spawn({
            let (addr, request) = (proxy.addr(), asked_as("mine", ask));
            async move { exchange(addr, &request).await }
        });
        raw.wait(|state| state.requests == count).await;
        if name == "an answer that passes" {
            wait_for(&proxy, |answer| !answer["first_byte_ms"].is_null()).await;
        }
        let stopped = stop(&proxy, "mine").await;
        stopped.of(name).begins("HTTP/1.1 202");
        let answer = client.await.unwrap();
        answer.of(name).has(ends_with);
        assert!(!answer.starts_with("HTTP/1.1 502"), "{name}: {answer}");
        answer.of(name).lacks("\"cause\":\"drop\"");
        raw.wait(|state| state.left == 1).await;
        assert_eq!(raw.asked(), count, "{name}");
    }
}

#[tokio::test]
async fn texts_are_bounded() {
    let answer = |text: &str| full(text);
    let long = format!("[\"{}\"]", "x".repeat(60));
    let mut answers = [&long[..], "[1]", "[2]", "[3]"].map(answer).to_vec();
    // More comes after the text is no longer kept.
    answers.push(stream(&(chunk(&long) + &chunk("more") + &finish("stop"))));
    let raw = Raw::new(answers).await;
    let mut limits = Limits::default();
    (
        limits.server.max_page_answer_bytes,
        limits.server.max_page_bytes,
    ) = (40, 6);
    let proxy = proxy(&raw, 3, limits).await;
    for id in ["long", "one", "two", "three", "long2"] {
        exchange(proxy.addr(), &asked_as(id, ASK)).await;
        wait_for(&proxy, |answer| {
            answer["id"] == id && answer["phase"] == "ended"
        })
        .await;
    }
    // Two are longer than may be kept, and take no room from others. One text was dropped for a
    // fourth, and one for room.
    for (id, limit) in [
        ("long", "page_answers"),
        ("one", "max_page_bytes"),
        ("two", ""),
        ("three", ""),
        ("long2", "max_page_answer_bytes"),
    ] {
        let answer = get(&proxy, &format!("/answers/{id}?view=text")).await;
        let mut lines = answer.lines();
        let found = lines.find_map(|line| line.strip_prefix("x-restitch-limit: "));
        assert_eq!(found.unwrap_or_default(), limit, "{id}");
        let has_text = body_of(&answer).0.starts_with('[');
        assert_eq!(has_text, limit.is_empty(), "{id}: {answer}");
    }
    for (id, has) in [("long", false), ("one", false), ("two", true)] {
        assert_eq!(
            json_of(&proxy, &format!("/answers/{id}?view=report")).await["keeps_text"],
            has,
            "{id}"
        );
    }
}

/// Two answers may have one id.
#[tokio::test]
async fn each_answer_has_a_name_of_its_own() {
    let raw = Raw::new(vec![full("[1]"); 3]).await;
    let proxy = proxy(&raw, 3, Limits::default()).await;
    for id in ["same", "same", ".."] {
        exchange(proxy.addr(), &asked_as(id, ASK)).await;
    }
    wait_for(&proxy, |answer| {
        answer["request_id"] == ".." && answer["phase"] == "ended"
    })
    .await;
    let list = json_of(&proxy, "/answers").await;
    let list = list["answers"].as_array().unwrap();
    let ids: std::collections::BTreeSet<_> = list
        .iter()
        .map(|answer| answer["id"].as_str().unwrap())
        .collect();
    assert!(ids.len() == 3, "{ids:?}");
    assert!(ids.contains("same") && !ids.contains(".."), "{ids:?}");
    for id in ids {
        assert_eq!(
            json_of(&proxy, &format!("/answers/{id}?view=report")).await["outcome"],
            "passed"
        );
    }
}
