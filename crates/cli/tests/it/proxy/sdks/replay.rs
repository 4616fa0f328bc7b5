//! Recorded streams that a limit has cut, through the proxy to the official clients. The rest is a
//! text of the same API.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};

use restitch::Limits;
use restitch::internal::wire::{Dialect, SlotKind};
use serde_json::{Value, json};
use tokio::process::Command;

use super::super::raw::{Piece, Raw, stream};
use super::{answers, javascript, python, sdks, skip};
use restitch_testing::answers::answer;
use restitch_testing::says::Says;
use restitch_testing::{corpus_rows, is_doubtful_end, skipped};

/// A function of a script, the API that it asks, the finish of a whole call, and how many of the
/// recorded rows the client shows at least: some streams it does not read, cut or not.
type Api = (&'static str, Dialect, &'static str, usize);

const PYTHON: &[Api] = &[
    ("chat", Dialect::Chat, "tool_calls", 26),
    ("responses", Dialect::Responses, "completed", 18),
    ("messages", Dialect::Messages, "tool_use", 44),
    ("pydantic_chat_parts", Dialect::Chat, "", 31),
    ("pydantic_responses_parts", Dialect::Responses, "", 18),
    ("pydantic_messages_parts", Dialect::Messages, "", 15),
];

const JAVASCRIPT: &[Api] = &[
    ("chat_tools", Dialect::Chat, "tool_calls", 30),
    ("responses_tools", Dialect::Responses, "completed", 18),
    ("messages_tools", Dialect::Messages, "tool_use", 34),
    ("ai_chat", Dialect::Chat, "tool-calls", 31),
    ("ai_responses", Dialect::Responses, "tool-calls", 20),
    ("ai_messages", Dialect::Messages, "tool-calls", 42),
];

/// Characters before the cut with which the rest begins: more than a recorded program repeats.
const REPEATED: usize = 200;

#[tokio::test]
#[ignore = "nightly: needs the packages of the SDKs"]
async fn recorded_cuts_reach_python_clients_whole() {
    match python() {
        Ok((program, folder)) => {
            check(
                Command::new(program).arg(sdks().join("clients.py")),
                &folder,
                PYTHON,
            )
            .await;
        }
        Err(reason) => skip("Python", &reason),
    }
}

#[tokio::test]
#[ignore = "nightly: needs the packages of the SDKs"]
async fn recorded_cuts_reach_javascript_clients_whole() {
    match javascript() {
        Ok(folder) => {
            check(
                Command::new("node").arg(sdks().join("clients.mjs")),
                &folder,
                JAVASCRIPT,
            )
            .await;
        }
        Err(reason) => skip("JavaScript", &reason),
    }
}

/// A recorded stream and a client that reads it.
struct Case {
    api: Api,
    row: Value,
    /// The server of the cut stream and of its rest.
    _upstream: Raw,
    proxy: restitch_proxy::Server,
}

impl Case {
    async fn new(api: Api, folder: &Path, row: Value) -> Self {
        let of = |member: &str| row[member].as_str().unwrap();
        let start = of("delivered")
            .char_indices()
            .rev()
            .nth(REPEATED - 1)
            .map_or(0, |(at, _)| at);
        let rest =
            stream(&answer(api.1, SlotKind::Text, &of("full")[start..], Some("stop")).stream());
        let cut = stream(&fs::read_to_string(folder.join(of("file"))).unwrap());
        let calls: Vec<Vec<Piece>> = [cut].into_iter().chain(vec![rest; 8]).collect();
        let upstream = Raw::new(calls).await;
        let proxy = upstream.proxy(Limits::default()).await;
        Self {
            api,
            row,
            _upstream: upstream,
            proxy,
        }
    }

    /// Returns the client, and its stream before the cut.
    fn before(&self) -> (&'static str, &str) {
        (self.api.0, self.row["from"].as_str().unwrap())
    }

    /// Compares the client's result for the cut stream with `full`, and with its result for the
    /// whole one. Returns the reason if the row does not apply to this client.
    fn check(&self, whole: &Value, seen: &Value) -> Result<(), String> {
        let (name, _, finish, _) = self.api;
        if whole.get("error").is_some() {
            return Err(format!("{} {}", whole["error"], whole["message"]));
        }
        let context = format!("{name} {}: {seen}\nwhole: {whole}", self.row["file"]);
        let full = self.row["full"].as_str().unwrap();
        let text = |seen: &Value| seen["text"].as_str().unwrap_or_default().to_owned();
        text(whole).of(&context).begins(text(seen));
        if is_doubtful_end(full, self.row["delivered"].as_str().unwrap().len()) {
            // A rest with only closers for a cut value is given up: the client has the delivered
            // text, ended by the limit.
            let is_told = seen["message"]
                .as_str()
                .is_some_and(|message| message.contains("length limit"));
            assert!(seen.get("error").is_none() || is_told, "{context}");
            return Ok(());
        }
        assert!(seen.get("error").is_none(), "{context}");
        if self.row["payload"] == "text" {
            assert_eq!(text(seen), full, "{context}");
            return Ok(());
        }
        let list = |seen: &Value| seen["arguments"].as_array().cloned().unwrap_or_default();
        let (whole, calls) = (list(whole), list(seen));
        // `ai` writes the type of a provider's tool before the first member.
        let is_full = |call: &Value| {
            let call = call.as_str().unwrap_or_default();
            call == full || name.starts_with("ai_") && call.ends_with(&full[1..])
        };
        if !whole.iter().any(is_full) {
            return Err("the client does not show the arguments".to_owned());
        }
        // The stream ended with the call that was cut; others may have followed it.
        assert_eq!(whole.get(..calls.len()), Some(&calls[..]), "{context}");
        assert!(calls.last().is_some_and(is_full), "{context}");
        assert_eq!(
            seen["finish"].as_str().unwrap_or_default(),
            finish,
            "{context}"
        );
        Ok(())
    }
}

/// Lets a script read each stream as it was before it was cut, straight from its server, and then
/// all that are cut.
async fn check(command: &mut Command, folder: &Path, apis: &[Api]) {
    let mut cases = Vec::new();
    for (rows, row) in corpus_rows("length_cut/index.jsonl") {
        for &api in apis
            .iter()
            .filter(|(_, dialect, ..)| row["dialect"] == dialect.as_str())
        {
            cases.push(Case::new(api, &rows, row.clone()).await);
        }
    }
    if cases.is_empty() {
        return skipped("there are no recorded cuts without RESTITCH_CORPUS");
    }
    let recorded: BTreeMap<String, (PathBuf, Vec<Value>)> = corpus_rows("streams/index.jsonl")
        .into_iter()
        .map(recorded)
        .collect();
    let ask = |api: &str, url: String, from: &str| json!({"api": api, "prompt": "Hi", "url": url, "tools": recorded[from].1});
    let (mut servers, mut questions, mut places) = (Vec::new(), Vec::new(), BTreeMap::new());
    for case in &cases {
        let (api, from) = case.before();
        if let Entry::Vacant(place) = places.entry((api, from)) {
            let server = Raw::new(vec![stream(
                &fs::read_to_string(&recorded[from].0).unwrap(),
            )])
            .await;
            place.insert(questions.len());
            questions.push(ask(api, format!("http://{}", server.addr), from));
            servers.push(server);
        }
    }
    questions.extend(
        cases
            .iter()
            .map(|case| ask(case.api.0, case.proxy.url(), case.before().1)),
    );
    let (versions, seen) = answers(command, folder, "recorded", &questions).await;
    let mut rows: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for (case, cut) in cases.iter().zip(&seen[places.len()..]) {
        let [whole, unread] = rows.entry(case.api.0).or_default();
        match case.check(&seen[places[&case.before()]], cut) {
            Ok(()) => *whole += 1,
            Err(reason) => {
                *unread += 1;
                println!(
                    "{} does not show {}: {reason}",
                    case.api.0, case.row["from"]
                );
            }
        }
    }
    println!(
        "recorded cuts, [whole, not shown without a cut either]: {rows:?}, through {versions}"
    );
    for &(api, .., least) in apis {
        assert!(rows[api][0] >= least, "{api}: {rows:?}");
    }
}

/// Returns where a recorded stream is, and the names of the tools that it calls.
fn recorded((folder, row): (PathBuf, Value)) -> (String, (PathBuf, Vec<Value>)) {
    let file = row["file"].as_str().unwrap();
    let calls = row["tool_args"].as_object().unwrap().values();
    let names = calls
        .map(|call| call["name"].clone())
        .filter(Value::is_string)
        .collect();
    (file.to_owned(), (folder.join(file), names))
}
