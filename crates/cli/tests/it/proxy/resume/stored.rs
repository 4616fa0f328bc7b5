//! The request that a store keeps for a takeover: it holds no credential, and the resuming client
//! completes it.

use serde_json::Value;

use super::super::credentials::{anywhere, put};
use super::files::{Folder, addr};
use super::processes::Process;
#[cfg(feature = "redis")]
use super::shared::Redis;
use super::*;
use restitch_testing::says::Says;

/// Stands wherever a client may have a secret.
const HEADERS: [&str; 14] = [
    "x-api-key: canary-h1",
    "api-key: canary-h2",
    "cookie: session=canary-h3",
    "x-company-token: canary-h4",
    "helicone-auth: Bearer canary-h5",
    "cf-aig-authorization: canary-h6",
    "x-portkey-config: canary-h7",
    "x-anything: canary-h8",
    "openai-organization: canary-h9",
    "user-agent: canary-h10",
    "forwarded: for=canary-h11",
    "referer: https://a/?key=canary-h12",
    "x-restitch-tier: canary-h13",
    "idempotency-key: canary-h14",
];

const QUERY: &str =
    "key=canary-q1&api-version=1&access_token=canary-q2&sig=canary-q3&code=canary-q4&canary-q5";

/// Returns a request that is kept, with a secret in every place.
fn secretive() -> String {
    let mut body: Value = serde_json::from_str(ASK).unwrap();
    for (place, value) in anywhere() {
        put(&mut body, &place, value);
    }
    let headers = format!(
        "x-restitch-keep: 30\r\nauthorization: Bearer sk-1\r\nanthropic-beta: b\r\n{}",
        HEADERS.join("\r\n")
    );
    let path = format!("/v1/chat/completions?{QUERY} ");
    with(&post(&body.to_string()), &headers).replace("/v1/chat/completions ", &path)
}

/// An answer that is cut after two events, and its rest.
fn cut() -> Vec<Vec<Piece>> {
    vec![unfinished(), full("[1, 2, 3]")]
}

/// Keeps a request in a store, and returns the id of its answer.
async fn keep(store: String) -> (Raw, Server, String) {
    let raw = Raw::new(cut()).await;
    let proxy = raw.unbound(keeping()).store(store).start().await;
    let id = ask_and_leave(&proxy, &secretive()).await;
    (raw, proxy, id)
}

fn check(stored: &str) {
    stored.has_all([
        "/v1/chat/completions?api-version=1",
        "messages",
        "anthropic-beta",
    ]);
    let at = stored.find("canary-").or(stored.find("sk-1"));
    assert_eq!(at.map(|at| &stored[at..]), None, "{stored}");
}

#[tokio::test]
async fn a_file_holds_no_secret_of_a_request() {
    let folder = Folder::new();
    let (_raw, _proxy, _id) = keep(folder.address()).await;
    let texts = folder.texts();
    assert_eq!(texts.len(), 1);
    check(&texts[0]);
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_server_holds_no_secret_of_a_request() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let (_raw, _proxy, id) = keep(redis.url()).await;
    check(&redis.say(&format!("HGETALL restitch:{{{id}}}:meta")).await);
}

/// An answer whose process was killed after its second event, and the process that has started
/// after it.
struct Killed {
    folder: Folder,
    raw: Raw,
    /// The beginning of the answer.
    seen: String,
    second: Process,
}

impl Killed {
    async fn after(ask: &str) -> Self {
        let (folder, raw) = (Folder::new(), Raw::new(cut()).await);
        let upstream = format!("http://{}", raw.addr);
        let first = Process::start(&upstream, &folder.address()).await;
        let mut client = begin(addr(&first), ask).await;
        let seen = read_until(&mut client, "id: 1-2\n\n").await;
        first.kill().await;
        let second = Process::start(&upstream, &folder.address()).await;
        Self {
            folder,
            raw,
            seen,
            second,
        }
    }
}

/// The resuming client's headers and query complete the stored request.
#[tokio::test]
async fn what_a_store_does_not_keep_comes_with_the_client() {
    let Killed {
        folder: _folder,
        raw,
        seen,
        second,
    } = Killed::after(&secretive()).await;
    let again = "\r\nlast-event-id: 1-2\r\nhelicone-auth: Bearer canary-h5\r\nrange: bytes=1-\r\n\
                 accept-encoding: gzip\r\nx-api-key: canary-h1\r\napi-key: canary-h2";
    let get = about("GET", header(&seen, "x-restitch-stream"), again);
    let get = get.replace(
        " HTTP/1.1",
        "?key=canary-q1&access_token=canary-q2 HTTP/1.1",
    );
    let (rest, is_whole) = body_of(&exchange(addr(&second), &get).await);
    assert!(is_whole, "{rest}");
    rest.has("[DONE]");
    let sent = raw.request(1);
    let target =
        "POST /v1/chat/completions?api-version=1&key=canary-q1&access_token=canary-q2 HTTP/1.1\r\n";
    sent.begins(target);
    for line in [
        "authorization: Bearer sk-1",
        "helicone-auth: Bearer canary-h5",
        "x-api-key: canary-h1",
        "anthropic-beta: b",
    ] {
        sent.of(line).has(format!("{line}\r\n"));
    }
    for name in ["last-event-id", "range", "gzip", "canary-1"] {
        sent.of(name).lacks(name);
    }
}

/// A tool with a key is not stored. A repeated request brings it.
#[tokio::test]
async fn a_request_with_a_key_in_a_tool_goes_on_when_it_is_sent_again() {
    let body = ASK.replacen(
        '{',
        "{\"data_sources\":[{\"parameters\":{\"key\":\"canary-1\"}}],\"api_key\":\"canary-2\",",
        1,
    );
    let ask = with(
        &post(&body),
        "x-restitch-keep: 30\r\nauthorization: Bearer sk-1",
    );
    for is_repeated in [false, true] {
        let Killed {
            folder,
            raw,
            seen,
            second,
        } = Killed::after(&ask).await;
        assert!(
            folder.texts().iter().all(|text| !text.contains("canary-")),
            "{:?}",
            folder.texts()
        );
        let again = if is_repeated {
            with(&ask, "last-event-id: 1-2")
        } else {
            about("GET", header(&seen, "x-restitch-stream"), &after("1-2"))
        };
        let (rest, is_whole) = body_of(&exchange(addr(&second), &again).await);
        assert_eq!(is_whole, is_repeated, "{rest}");
        assert_eq!(raw.asked(), if is_repeated { 2 } else { 1 });
        if is_repeated {
            rest.has("[DONE]");
            raw.request(1).of(rest).has("canary-1");
            raw.request(1).has("canary-2");
        }
    }
}

/// A client may name an answer and send another body.
#[tokio::test]
async fn a_body_that_is_not_the_one_of_the_answer_is_not_asked() {
    let Killed {
        folder: _folder,
        raw,
        seen,
        second,
    } = Killed::after(&ask_kept()).await;
    let other = ask_kept().replace("\"x\"", "\"y\"");
    let named = format!(
        "last-event-id: 1-2\r\nx-restitch-stream: {}",
        header(&seen, "x-restitch-stream")
    );
    let (rest, is_whole) = body_of(&exchange(addr(&second), &with(&other, &named)).await);
    assert!(is_whole, "{rest}");
    rest.has("[DONE]");
    raw.request(1).has("\"x\"").lacks("\"y\"");
}
