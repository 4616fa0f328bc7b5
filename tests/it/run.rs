//! `restitch run` against the model server: the program itself, over real sockets.

use std::fs;
use std::path::Path;

use restitch::sim::{Flavour, Sim};
use serde_json::{Value, json};

use crate::cli::{Ran, folder, run};

const DOCUMENT: &str = r#"{"title": "Report", "rows": [{"id": 1, "name": "Alma"}, {"id": 2, "name": "Berta"}, {"id": 3, "name": "Cilli"}, {"id": 4, "name": "Dora"}]}"#;

/// A row for every model, which is wrong where a prefix is refused.
const TURN: &str = "[limits]\ncontext_budget = 54\n[[capability]]\nmodel = \"*\"\nprefix = \"turn\"\ntrims = true\n";

/// Runs the command against a server with this script; how it ended, and the prompts of all calls.
fn ask(name: &str, script: &str, arguments: &[&str]) -> (Ran, Vec<Value>) {
    ask_of(Sim::new(DOCUMENT, script.parse().unwrap()), name, arguments)
}

fn ask_of(server: Sim, name: &str, arguments: &[&str]) -> (Ran, Vec<Value>) {
    let folder = folder(name, &[("prompt.txt", b"The rows, as JSON."), ("turn.toml", TURN.as_bytes())]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(server.chunk(7).bind(([127, 0, 0, 1], 0).into())).unwrap();
    let url = format!("{}/v1", server.url());
    let mut all = vec!["run", "--base-url", &url, "--model", "m", "--prompt-file", "prompt.txt"];
    all.extend(arguments);
    let ran = run(&folder, &all, b"");
    let calls = server.calls().iter().map(|call| serde_json::from_str(&call.body).unwrap()).collect();
    runtime.block_on(server.shutdown());
    (ran, calls)
}

#[test]
fn a_cut_document_is_made_whole() {
    let (ran, calls) = ask("run-whole", "answer@60!drop | refusal anchor@40!length anchor", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, DOCUMENT), "{}", ran.err);
    assert_eq!(calls.len(), 4);
    let first = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "The rows, as JSON."}]});
    assert_eq!(calls[0], first);
    assert!(ran.err.contains("call 3 at byte 100: joined: anchor"), "{}", ran.err);
}

#[test]
fn the_answer_in_json_has_every_call() {
    let (ran, _) = ask("run-json", "answer@60!length | refusal anchor", &["--json", "-o", "out.json"]);
    let answers = ran.answers();
    let [answer] = answers.as_slice() else { panic!("{}", ran.out) };
    assert_eq!((ran.code, &answer["status"], &answer["document"]), (0, &json!("complete"), &json!(DOCUMENT)));
    assert_eq!((&answer["continuations"], &answer["failures"]), (&json!(2), &json!(1)));
    let calls: Vec<_> = answer["iterations"].as_array().unwrap().iter().map(|i| (&i["call"], &i["offset"])).collect();
    assert_eq!(calls, [(&json!(0), &json!(0)), (&json!(1), &json!(60)), (&json!(2), &json!(60))]);
    assert_eq!(answer["iterations"][2]["alignment"], "anchor");
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/run-json/out.json");
    assert_eq!(fs::read_to_string(written).unwrap(), DOCUMENT);
}

#[test]
fn what_is_given_up_is_closed_and_said() {
    let (ran, calls) = ask("run-closed", "answer@60!length | refusal", &["--json"]);
    let answer = &ran.answers()[0];
    assert_eq!((ran.code, &answer["status"]), (3, &json!("closed")), "{}", ran.err);
    assert!(ran.err.contains("given up and closed"), "{}", ran.err);
    let document: Value = serde_json::from_str(answer["document"].as_str().unwrap()).unwrap();
    assert_eq!(document["rows"][0], json!({"id": 1, "name": "Alma"}));
    assert_eq!(calls.len(), 4, "three failures in a row");
    let (ran, calls) = ask("run-none", "answer@60!length | anchor", &["--max-continuations", "0"]);
    assert_eq!((ran.code, calls.len()), (3, 1));
}

#[test]
fn what_is_no_document_is_an_error() {
    let (ran, _) = ask("run-prose", "prose", &["-o", "out.json"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(!Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/run-prose/out.json").exists());
}

#[test]
fn a_busy_server_is_asked_again_and_a_refusal_told() {
    let (ran, calls) = ask("run-busy", "503~0 429~0 answer", &[]);
    assert_eq!((ran.code, ran.out.as_str(), calls.len()), (0, DOCUMENT, 3), "{}", ran.err);
    let (ran, calls) = ask("run-refused", "401", &[]);
    assert_eq!((ran.code, calls.len()), (1, 1));
    assert!(ran.err.contains("the server answered 401"), "{}", ran.err);
}

#[test]
fn the_trace_has_every_request_and_response() {
    let (ran, _) = ask("run-trace", "answer@60!length | anchor", &["--trace", "trace"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/run-trace/trace");
    let read = |name: &str| fs::read_to_string(trace.join(name)).unwrap();
    assert!(read("000-request.json").contains("The rows, as JSON."));
    assert!(read("000-response.txt").contains("\"finish_reason\":\"length\""));
    let request: Value = serde_json::from_str(&read("001-request.json")).unwrap();
    assert_eq!(request["messages"][1]["content"], DOCUMENT[..60]);
    assert!(read("001-response.txt").ends_with("data: [DONE]\n\n"));
    let contexts: Value = serde_json::from_str(&read("001-contexts.json")).unwrap();
    assert_eq!(contexts["hierarchy_context"], DOCUMENT[..60]);
    assert_eq!(contexts["cut_off_element"], "{\"id");
    assert_eq!(contexts["element_before_cutoff"], r#"{"id": 1, "name": "Alma"}"#);
    assert!(!trace.join("000-contexts.json").exists() && !trace.join("002-contexts.json").exists());
}

#[test]
fn the_model_says_how_far_it_is() {
    let script = "answer@60!length | progress@20!length progress@20!length anchor";
    let (ran, calls) = ask("run-progress", script, &["--ask-progress", "--json"]);
    let answer = &ran.answers()[0];
    assert_eq!((ran.code, &answer["document"]), (0, &json!(DOCUMENT)), "{}", ran.err);
    // 60 and 80 of 139 bytes.
    assert_eq!((DOCUMENT.len(), &answer["percentage"]), (139, &json!(57)));
    let prompt = calls[1]["messages"][2]["content"].as_str().unwrap();
    assert!(prompt.contains("`PROGRESS: `"), "{prompt}");
    // Unless it is asked, a line before the anchor is an envelope and no more.
    let (ran, calls) = ask("run-no-progress", script, &["--json"]);
    assert_eq!((&ran.answers()[0]["document"], &ran.answers()[0]["percentage"]), (&json!(DOCUMENT), &Value::Null));
    assert!(!calls[1]["messages"][2]["content"].as_str().unwrap().contains("PROGRESS"));
}

#[test]
fn the_configuration_file_counts_and_flags_win() {
    let config = "[limits]\ncontinuations = 1\n\n[prompt]\ninstruction = \"Weiter bei <{{anchor_tag}}>.\"\n";
    let at =
        folder("run-configured", &[("restitch.toml", config.as_bytes()), ("wrong.toml", b"[limits]\ntoken = 1\n")]);
    let file = at.join("restitch.toml");
    let script = "answer@60!length | anchor@20!length anchor";
    let with = ["--config", file.to_str().unwrap(), "--json"];
    let (ran, calls) = ask("run-config", script, &with);
    let answer = &ran.answers()[0];
    assert_eq!((ran.code, &answer["stop"], calls.len()), (3, &json!("continuations"), 2), "{}", ran.err);
    assert!(calls[1]["messages"][2]["content"].as_str().unwrap().contains("Weiter bei <overlap_context>."));
    let (ran, _) = ask("run-config", script, &[&with[..], &["--max-continuations", "2"]].concat());
    assert_eq!((ran.code, &ran.answers()[0]["document"]), (0, &json!(DOCUMENT)), "{}", ran.err);
    let wrong = at.join("wrong.toml");
    let (ran, calls) = ask("run-config", script, &["--config", wrong.to_str().unwrap()]);
    assert_eq!((ran.code, calls.len()), (2, 0));
    assert!(ran.err.contains("line 2, column 1"), "{}", ran.err);
}

/// A call that was asked for in another way is one call, at the byte where the text was cut, and all of it is traced.
#[test]
fn a_refused_prefix_is_one_call() {
    let server = Sim::new(DOCUMENT, "answer@60!length | anchor".parse().unwrap()).flavour(Flavour::Anthropic46);
    let flags = ["--json", "--config", "turn.toml", "--trace", "trace"];
    let (ran, calls) = ask_of(server, "run-refused-prefix", &flags);
    let answer = &ran.answers()[0];
    assert_eq!((ran.code, &answer["document"]), (0, &json!(DOCUMENT)), "{}", ran.err);
    assert_eq!((calls.len(), &answer["continuations"], &answer["failures"]), (3, &json!(1), &json!(0)));
    let iterations = answer["iterations"].as_array().unwrap();
    assert_eq!(iterations.len(), 2, "{iterations:?}");
    assert_eq!((&iterations[1]["offset"], &iterations[1]["outcome"]), (&json!(60), &json!("joined")));

    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/run-refused-prefix/trace");
    let read = |name: &str| fs::read_to_string(trace.join(name)).unwrap();
    let request = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
    assert_eq!(request("001-request.json"), calls[1]);
    assert!(read("001-response.txt").contains("does not support assistant message prefill"));
    assert_eq!(request("001-2-request.json"), calls[2]);
    assert!(read("001-2-response.txt").ends_with("data: [DONE]\n\n"));
    let contexts = request("001-contexts.json");
    assert_eq!(contexts["hierarchy_context"], DOCUMENT[..60]);
    // Within the budget of the configuration.
    let rendering = r#"{"title": …, "rows": [{"id": 1, "name": "Alma"}, {"id"#;
    assert_eq!(contexts["hierarchy_context_for_prompt"], rendering);
}

/// A call says where the text was cut, also where its prefix ends before.
#[test]
fn a_call_is_told_by_the_byte_of_its_cut() {
    let server = Sim::new(DOCUMENT, "answer@10!length | anchor".parse().unwrap()).flavour(Flavour::Anthropic);
    let (ran, calls) = ask_of(server, "run-trimmed", &["--json", "--config", "turn.toml"]);
    assert_eq!((ran.code, &calls[1]["messages"][1]["content"]), (0, &json!("{\"title\":")), "{}", ran.err);
    assert_eq!(ran.answers()[0]["iterations"][1]["offset"], 10);
}

/// A call that brought nothing, and ended for a reason of its own, says so.
#[test]
fn every_call_says_how_it_ended() {
    let (ran, _) = ask("run-filtered", "answer@60!length | anchor@0!filter", &["--json"]);
    let answer = &ran.answers()[0];
    assert_eq!((ran.code, &answer["stop"]), (3, &json!("finish")), "{}", ran.err);
    let outcomes: Vec<_> = answer["iterations"].as_array().unwrap().iter().map(|call| &call["outcome"]).collect();
    assert!(outcomes.iter().all(|outcome| !outcome.as_str().unwrap().is_empty()), "{outcomes:?}");
}

#[test]
fn bad_arguments_are_named() {
    let folder = folder("run-bad", &[("prompt.txt", b"x")]);
    let prompt = ["--prompt-file", "prompt.txt", "--model", "m"];
    for (arguments, code, words) in [
        (&["--provider", "nobody"][..], 2, "known are openai, "),
        (&["--base-url", "ftp://x"], 2, "--base-url: an upstream starts with"),
        (&["--provider", "openai", "--key-variable", "RESTITCH_NO_SUCH_KEY"], 2, "set RESTITCH_NO_SUCH_KEY"),
        (&["--base-url", "http://127.0.0.1:9/v1", "--trace", "prompt.txt/x"], 1, "--trace: "),
    ] {
        let ran = run(&folder, &[&["run"], &prompt[..], arguments].concat(), b"");
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{arguments:?}: {}", ran.err);
    }
    let ran = run(&folder, &["run", "--model", "m", "--prompt-file", "none", "--provider", "openai"], b"");
    assert_eq!(ran.code, 1, "{}", ran.err);
}
