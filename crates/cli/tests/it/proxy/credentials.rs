//! The body that a fallback gets: without anything that may be a credential, and with everything
//! that a request needs.

use std::time::Duration;

use restitch::Limits;
use restitch_sim::{self, Sim};
use serde_json::{Value, json};

use super::DOCUMENT;
use super::raw::*;
use super::routes::with_routes;
use crate::proxy::made::TestProxy;
use restitch_testing::case_file::read_rows;
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
    fn request(&self, stream: bool, more: &[(String, Value)]) -> String {
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

/// Members in which gateways and SDKs take credentials, whatever the API is.
pub(super) fn anywhere() -> Vec<(String, Value)> {
    members("credentials.rows", "any")
}

/// Returns the rows of a file for an API: a place, and the value there.
fn members(file: &str, api: &str) -> Vec<(String, Value)> {
    let rows: Vec<(String, String, Value)> = read_rows(file);
    let of_api = rows.into_iter().filter(|(name, ..)| name == api);
    of_api.map(|(_, place, value)| (place, value)).collect()
}

/// Tools, data sources and parts of messages that hold a credential or are not known. Without them
/// the answer is another one.
fn refusing() -> Vec<(&'static Api, String, Value)> {
    let of = |api: &'static Api| {
        let members = ["any", api.name].map(|name| members("sources.rows", name));
        let with_api = move |(place, value)| (api, place, value);
        members.into_iter().flatten().map(with_api)
    };
    APIS.iter().flat_map(of).collect()
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
        let sim = Sim::new(DOCUMENT, script.parse().unwrap()).start().await;
        let proxy = TestProxy::new(sim.url()).limits(limits());
        let proxy = with_routes(proxy, &[&other], ROUTES).start().await;
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
    let (log, _guard) = listening();
    let mut leaked = Vec::new();
    for script in SCRIPTS {
        for api in &APIS {
            let members = [anywhere(), members("credentials.rows", api.name)].concat();
            for stream in [true, false] {
                log.clear();
                let case = format!("{script}, {}, stream: {stream}", api.name);
                // Of one that is new, no call has failed.
                let setup = Setup::new(script).await;
                let (sent, answer) = setup.sent(&api.request(stream, &members)).await;
                assert_eq!(sent.len(), 1, "{case}: {answer}");
                sent[0].of(&case).has("key-of-K").lacks("\"m\"");
                let told = log.text();
                for (place, value) in &members {
                    let value = value.to_string();
                    let canary = value
                        .split(['"', '@', '?', ':', '='])
                        .find(|part| part.starts_with("canary-"));
                    if sent[0].contains(canary.unwrap()) {
                        leaked.push(format!("{case}: {place}"));
                    }
                    let name = place.rsplit('/').next().unwrap();
                    told.of(&case).lacks(canary.unwrap());
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
    let (log, _guard) = listening();
    let mut wrong = Vec::new();
    for script in SCRIPTS {
        let setup = Setup::new(script).await;
        for (api, place, value) in refusing() {
            let name = api.name;
            for stream in [true, false] {
                log.clear();
                let case = format!("{script}, {name}, stream: {stream}: {place} {value}");
                let (sent, _) = setup
                    .sent(&api.request(stream, &[(place.clone(), value.clone())]))
                    .await;
                let told = log.text();
                told.of(&case).lacks("canary");
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

/// Returns recorded requests of the corpus, where it is there.
fn recorded() -> Vec<(String, Value)> {
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
        (api.to_owned(), serde_json::from_str(&text).unwrap())
    });
    requests.collect()
}

/// What clients send of their own accord goes to a fallback to the last member, and the log names
/// nothing.
#[tokio::test]
async fn a_fallback_gets_all_of_a_request_without_credentials() {
    let (log, _guard) = listening();
    let plain: Vec<(String, Value)> = read_rows("plain.rows");
    assert_eq!(plain.len(), APIS.len());
    for (name, body) in plain.into_iter().chain(recorded()) {
        log.clear();
        let (base, other) = (Raw::new(Vec::new()).await, Raw::new(Vec::new()).await);
        let proxy = with_routes(base.unbound(limits()), &[&other], ROUTES)
            .start()
            .await;
        let path = Api::of(&name).paths[usize::from(body["stream"] == false)];
        exchange(
            proxy.addr(),
            &post(&body.to_string()).replace("/v1/chat/completions", path),
        )
        .await;
        let told = log.text();
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
        told.of(name).has("left_out= ");
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
