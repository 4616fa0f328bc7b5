//! `restitch run` against the model server: the program itself, over real sockets.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use restitch_sim::{ProviderProfile, Sim};
use serde_json::{Value, json};

use crate::cli::{Ran, folder, run};

mod wires;

const DOCUMENT: &str = r#"{"title": "Report", "rows": [{"id": 1, "name": "Alma"}, {"id": 2, "name": "Berta"}, {"id": 3, "name": "Cilli"}, {"id": 4, "name": "Dora"}]}"#;

/// A row for every model, which is wrong where a prefix is refused.
const TURN: &str =
    "[[capability]]\nmodel = \"*\"\nprefill = \"turn\"\nrejects_trailing_space = true\n";

/// Runs the command against a server with this script; how it ended, and the prompts of all calls.
fn ask(name: &str, script: &str, arguments: &[&str]) -> (Ran, Vec<Value>) {
    ask_of(Sim::new(DOCUMENT, script.parse().unwrap()), name, arguments)
}

fn ask_of(server: Sim, name: &str, arguments: &[&str]) -> (Ran, Vec<Value>) {
    let folder = folder(name, &[("turn.toml", TURN.as_bytes())]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime
        .block_on(server.chunk(7).bind(([127, 0, 0, 1], 0).into()))
        .unwrap();
    let url = format!("{}/v1", server.url());
    let mut all = vec![
        "run",
        "--base-url",
        &url,
        "--model",
        "m",
        "The rows, as JSON.",
    ];
    all.extend(arguments);
    let ran = run(&folder, &all, b"");
    let calls = server
        .calls()
        .iter()
        .map(|call| serde_json::from_str(&call.body).unwrap())
        .collect();
    runtime.block_on(server.shutdown());
    (ran, calls)
}

#[test]
fn a_cut_document_is_made_whole() {
    let (ran, calls) = ask(
        "run-whole",
        "answer@60!drop | refusal anchor@40!length anchor",
        &[],
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, DOCUMENT), "{}", ran.err);
    assert_eq!(calls.len(), 4);
    let first = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "The rows, as JSON."}]});
    assert_eq!(calls[0], first);
    assert!(
        ran.err.contains("call 3 at byte 100: joined: anchor"),
        "{}",
        ran.err
    );
}

#[test]
fn the_answer_in_json_has_every_call() {
    let (ran, _) = ask(
        "run-json",
        "answer@60!length | refusal anchor",
        &["--json", "-o", "out.json"],
    );
    let answers = ran.answers();
    let [answer] = answers.as_slice() else {
        panic!("{}", ran.out)
    };
    assert_eq!(
        (ran.code, &answer["status"], &answer["document"]),
        (0, &json!("complete"), &json!(DOCUMENT))
    );
    assert_eq!(
        (&answer["continuations"], &answer["failures"]),
        (&json!(2), &json!(1))
    );
    let calls: Vec<_> = answer["iterations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| (&i["call"], &i["offset"]))
        .collect();
    assert_eq!(
        calls,
        [
            (&json!(0), &json!(0)),
            (&json!(1), &json!(60)),
            (&json!(2), &json!(60))
        ]
    );
    let titles: Vec<_> = answer["sections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|section| &section["title"])
        .collect();
    assert_eq!(titles, ["Alma", "Berta", "Cilli", "Dora"]);
    // A retry asks for a longer anchor, here all of the text.
    assert_eq!(answer["iterations"][0]["rung"], "first");
    assert_eq!(answer["iterations"][2]["rung"], "words");
    assert_eq!(answer["iterations"][2]["alignment"], "anchor");
    assert_eq!(
        (answer.get("completion_tokens"), &answer["tokens"]),
        (None, &json!([null, null, null]))
    );
    assert_eq!(answer.get("synthesized"), None);
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/run-json/out.json");
    assert_eq!(fs::read_to_string(written).unwrap(), DOCUMENT);
}

#[test]
fn what_is_given_up_is_closed_and_said() {
    let (ran, calls) = ask("run-closed", "answer@60!length | refusal", &["--json"]);
    let answer = &ran.answers()[0];
    assert_eq!(
        (ran.code, &answer["status"]),
        (3, &json!("closed")),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("given up and closed"), "{}", ran.err);
    let document: Value = serde_json::from_str(answer["document"].as_str().unwrap()).unwrap();
    assert_eq!(document["rows"][0], json!({"id": 1, "name": "Alma"}));
    assert_eq!(calls.len(), 4, "three failures in a row");
    let (ran, calls) = ask(
        "run-none",
        "answer@60!length | anchor",
        &["--max-continuations", "0"],
    );
    assert_eq!((ran.code, calls.len()), (3, 1));
}

/// The label of each count names its unit; `tokens` has the counts, too.
#[test]
fn the_tokens_of_each_call_are_counted() {
    let folder = folder("run-tokens", &[]);
    let answer = |text: &str, finish: &str, tokens: u32| {
        let delta =
            json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]});
        let usage = json!({"choices": [], "usage": {"completion_tokens": tokens}});
        response(
            "200 OK",
            "text/event-stream",
            &format!("data: {delta}\n\ndata: {usage}\n\ndata: [DONE]\n\n"),
        )
    };
    let url = scripted(vec![
        answer("[1, 2", "length", 5),
        answer("[1, 2, 3]", "stop", 9),
    ]);
    let ran = run(
        &folder,
        &["run", "--base-url", &url, "--model", "m", "Go", "--json"],
        b"",
    );
    let answer = &ran.answers()[0];
    assert_eq!(
        (ran.code, &answer["completion_tokens"]),
        (0, &json!(14)),
        "{}",
        ran.err
    );
    let counts: Vec<_> = answer["iterations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| &i["completion_tokens"])
        .collect();
    assert_eq!(
        (json!(counts), &answer["tokens"]),
        (json!([5, 9]), &json!([5, 9]))
    );
}

/// Without streaming, the program writes the complete part of the model's text at the end. With
/// streaming, it has written that part already.
#[test]
fn the_complete_part_of_a_document_that_was_given_up_is_written() {
    // The cut is inside the key `name` of the second row.
    let script = "answer@70!length | refusal";
    let complete = r#"{"title": "Report", "rows": [{"id": 1, "name": "Alma"}, {"id": 2}]}"#;
    let (ran, _) = ask("run-complete-part", script, &["--json", "-o", "out.json"]);
    let answer = &ran.answers()[0];
    assert_eq!(
        (ran.code, &answer["status"], &answer["document"]),
        (3, &json!("closed"), &json!(complete))
    );
    assert_eq!(answer.get("synthesized"), None);
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/run-complete-part/out.json");
    assert_eq!(fs::read_to_string(written).unwrap(), complete);
    assert!(ran.err.contains("elements may be missing"), "{}", ran.err);

    let (ran, _) = ask("run-streamed", script, &[]);
    assert!(
        ran.code == 3 && ran.out.starts_with(&DOCUMENT[..70]),
        "{}",
        ran.out
    );
    assert!(
        serde_json::from_str::<Value>(&ran.out).is_ok(),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("; synthesized: /rows/1/"), "{}", ran.err);
}

#[test]
fn the_prompt_is_an_argument_or_standard_input() {
    let server = Sim::new(DOCUMENT, "answer".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime
        .block_on(server.bind(([127, 0, 0, 1], 0).into()))
        .unwrap();
    let url = format!("{}/v1", server.url());
    let common = ["run", "--base-url", &url, "--model", "m"];
    let folder = folder("run-prompt", &[("system.txt", b"Be br\xc3ief.")]);
    let ran = run(&folder, &[&common[..], &["Rows!"]].concat(), b"");
    assert_eq!((ran.code, ran.out.as_str()), (0, DOCUMENT), "{}", ran.err);
    // Bytes that are not UTF-8 are not sent, and that is said.
    let files = ["--system-file", "system.txt", "--json"];
    let ran = run(&folder, &[&common[..], &files].concat(), b"The r\xffows.");
    assert_eq!(
        (ran.code, &ran.answers()[0]["removed_bytes"]),
        (4, &json!(2)),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("-: not UTF-8: removed 1 byte\n"),
        "{}",
        ran.err
    );
    let calls: Vec<Value> = server
        .calls()
        .iter()
        .map(|call| serde_json::from_str(&call.body).unwrap())
        .collect();
    assert_eq!(
        calls[0]["messages"],
        json!([{"role": "user", "content": "Rows!"}])
    );
    assert_eq!(calls[1]["messages"][1]["content"], "The rows.");
    runtime.block_on(server.shutdown());
    assert_eq!(run(&folder, &common, b"").code, 2);
    for wrong in [&["x", "y"][..], &["--system-file", "-"]] {
        assert_eq!(run(&folder, &[&common[..], wrong].concat(), b"").code, 2);
    }
}

/// The array that the probe asks for, as the probe begins it.
const NUMBERS: &str = "[1, 2,3, 4, 5, 6, 7, 8, 9, 10, 11, 12]";

#[test]
fn doctor_says_whether_a_prefill_is_continued() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    for (profile, form) in [
        (ProviderProfile::OpenAi, "none"),
        (ProviderProfile::Anthropic, "turn"),
        (ProviderProfile::Anthropic46, "none"),
        (ProviderProfile::Mistral, "prefix"),
        (ProviderProfile::LlamaCpp, "turn"),
    ] {
        // The server's responses name its software.
        let known = match profile {
            ProviderProfile::LlamaCpp => "turn",
            _ => "none",
        };
        // A model that answers in place of continuing has white space of its own.
        let numbers = if form == "none" {
            &NUMBERS.replace(",3", ", 3")
        } else {
            NUMBERS
        };
        let server = Sim::new(numbers, "answer | exact".parse().unwrap()).profile(profile);
        let server = runtime
            .block_on(server.bind(([127, 0, 0, 1], 0).into()))
            .unwrap();
        let args = [
            "doctor",
            "--upstream",
            &server.url(),
            "--model",
            "m",
            "--json",
        ];
        let ran = run(Path::new("."), &args, b"");
        let answer = &ran.answers()[0];
        assert_eq!(
            (ran.code, &answer["upstream"]["status"]),
            (0, &json!(200)),
            "{}",
            ran.err
        );
        assert_eq!(
            (&answer["prefill"]["form"], &answer["prefill"]["known"]),
            (&json!(form), &json!(known)),
            "{answer}"
        );
        let rungs = match profile {
            ProviderProfile::LlamaCpp => json!(["reattach", "prefill (turn)", "words"]),
            _ if form == "none" => json!(["again", "words"]),
            _ => json!([format!("prefill ({form})"), "words"]),
        };
        assert_eq!(answer["prefill"]["rungs"], rungs, "{answer}");
        assert_eq!(
            answer["prefill"]["returns_prefill_whole"],
            json!(profile == ProviderProfile::LlamaCpp),
            "{answer}"
        );
        assert_eq!(
            answer["prefill"]["returns_prefill"],
            json!(profile == ProviderProfile::Mistral),
            "{answer}"
        );
        let ran = run(Path::new("."), &args[..5], b"");
        assert!(ran.out.contains("\nstatus = 200\n"), "{}", ran.out);
        assert_eq!(
            ran.out.contains(&format!("\nprefill = \"{form}\"\n")),
            form != known,
            "{}",
            ran.out
        );
        let calls = server.calls();
        let asked = calls.iter().filter(|call| !call.body.is_empty());
        assert!(
            { asked }.all(|call| call.body.contains("\"max_tokens\":32")
                && call.body.contains("\"temperature\":0")),
            "{calls:?}"
        );
        runtime.block_on(server.shutdown());
    }
}

/// llama.cpp answers 503 while it loads the model, which says nothing about the model.
#[test]
fn doctor_does_not_judge_a_model_that_is_loading() {
    let loading = || {
        response(
            "503 Service Unavailable",
            "application/json",
            r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#,
        )
    };
    let url = scripted(vec![loading(), loading()]);
    let args = ["doctor", "--upstream", &url, "--model", "m"];
    let ran = run(Path::new("."), &args, b"");
    assert_eq!(ran.code, 4, "{}", ran.out);
    assert!(
        ran.out.contains("\nform = \"unknown\"\n") && !ran.out.contains("[[capability]]"),
        "{}",
        ran.out
    );
}

#[test]
fn doctor_says_what_cannot_be_reached() {
    let ran = run(
        Path::new("."),
        &["doctor", "--upstream", "http://127.0.0.1:9"],
        b"",
    );
    assert!(ran.code == 1 && ran.out.contains("error = "), "{}", ran.out);
    let refusal = r#"{"error": {"message": "Incorrect API key provided: sk-1."}}"#;
    let url = scripted(vec![response(
        "401 Unauthorized",
        "application/json",
        refusal,
    )]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
    command.env_remove("RESTITCH_CORPUS");
    command
        .args([
            "doctor",
            "--upstream",
            &url,
            "--key-variable",
            "RESTITCH_TEST_KEY",
        ])
        .env("RESTITCH_TEST_KEY", "sk-1");
    let ran = command.output().unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(4), "{out}");
    assert!(
        out.contains("\nstatus = 401\n") && out.contains("provided: [key]."),
        "{out}"
    );
    for args in [
        &["--upstream", "ftp://x"][..],
        &["--provider", "nobody"],
        &["--model", "m"],
    ] {
        assert_eq!(
            run(Path::new("."), &[&["doctor"], args].concat(), b"").code,
            2,
            "{args:?}"
        );
    }
}

#[test]
fn text_around_a_document_is_not_written() {
    for script in ["fence", "preamble", "epilogue"] {
        let (ran, _) = ask("run-fence", script, &[]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, DOCUMENT),
            "{script}: {}",
            ran.err
        );
    }
}

#[test]
fn what_is_no_document_is_an_error() {
    let (ran, _) = ask("run-prose", "prose", &["-o", "out.json"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{}", ran.err);
    assert!(
        ran.err.contains("no complete JSON document; it begins: "),
        "{}",
        ran.err
    );
    assert!(
        !Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("cli/run-prose/out.json")
            .exists()
    );
}

#[test]
fn a_busy_server_is_asked_again_and_a_refusal_told() {
    let (ran, calls) = ask("run-busy", "503~0 429~0 answer", &[]);
    assert_eq!(
        (ran.code, ran.out.as_str(), calls.len()),
        (0, DOCUMENT, 3),
        "{}",
        ran.err
    );
    let (ran, calls) = ask("run-refused", "401", &[]);
    assert_eq!((ran.code, calls.len()), (1, 1));
    assert!(ran.err.contains("the server answered 401"), "{}", ran.err);
}

#[test]
fn the_trace_has_every_request_and_response() {
    let (ran, _) = ask(
        "run-trace",
        "answer@60!length | anchor",
        &["--trace", "trace"],
    );
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
    assert_eq!(
        contexts["element_before_cutoff"],
        r#"{"id": 1, "name": "Alma"}"#
    );
    assert!(!trace.join("000-contexts.json").exists() && !trace.join("002-contexts.json").exists());
}

/// Prompts and answers are private, and a folder may hold links that somebody else has made.
#[cfg(unix)]
#[test]
fn the_trace_is_for_its_owner_alone() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = folder(
        "run-trace-private",
        &[("prompt.txt", b"x"), ("other.txt", b"kept")],
    );
    let body =
        r#"{"error": {"message": "Incorrect API key: sk-sec\u0072et-1, sk\u002Dsecret-1."}}"#;
    let refused = |arguments: &[&str]| {
        let url = scripted(vec![response("401 Unauthorized", "application/json", body)]);
        with_key(&folder, &url, arguments)
    };
    let mode = |path: &str| {
        fs::metadata(folder.join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    let (_, _, err) = refused(&["--trace", "a/trace"]);
    for made in ["a", "a/trace"] {
        assert_eq!(mode(made), 0o700, "{made}: {err}");
    }
    for made in ["a/trace/000-request.json", "a/trace/000-response.txt"] {
        assert_eq!(mode(made), 0o600, "{made}");
    }
    let response = || fs::read_to_string(folder.join("a/trace/000-response.txt")).unwrap();
    assert_eq!(
        response(),
        r#"{"error": {"message": "Incorrect API key: [key], [key]."}}"#
    );

    // A link in place of a file is replaced, and a file of an earlier run too.
    fs::remove_file(folder.join("a/trace/000-response.txt")).unwrap();
    symlink(
        folder.join("other.txt"),
        folder.join("a/trace/000-response.txt"),
    )
    .unwrap();
    fs::set_permissions(
        folder.join("a/trace/000-request.json"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    refused(&["--trace", "a/trace"]);
    assert_eq!(
        fs::read_to_string(folder.join("other.txt")).unwrap(),
        "kept"
    );
    assert!(response().contains("Incorrect API key"));
    assert_eq!(mode("a/trace/000-request.json"), 0o600);

    // A link in place of the folder is refused.
    symlink(folder.join("a"), folder.join("link")).unwrap();
    let (code, _, err) = refused(&["--trace", "link"]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("--trace: the folder is a symbolic link"),
        "{err}"
    );
}

#[test]
fn the_model_says_how_far_it_is() {
    let script = "answer@60!length | progress@20!length progress@20!length anchor";
    let (ran, calls) = ask("run-progress", script, &["--ask-progress", "--json"]);
    let answer = &ran.answers()[0];
    assert_eq!(
        (ran.code, &answer["document"]),
        (0, &json!(DOCUMENT)),
        "{}",
        ran.err
    );
    // 60 and 80 of 139 bytes.
    assert_eq!((DOCUMENT.len(), &answer["percentage"]), (139, &json!(57)));
    let prompt = calls[1]["messages"][2]["content"].as_str().unwrap();
    assert!(prompt.contains("`PROGRESS: `"), "{prompt}");
    // Unless it is asked, a line before the anchor is an envelope and no more.
    let (ran, calls) = ask("run-no-progress", script, &["--json"]);
    assert_eq!(
        (
            &ran.answers()[0]["document"],
            &ran.answers()[0]["percentage"]
        ),
        (&json!(DOCUMENT), &Value::Null)
    );
    assert!(
        !calls[1]["messages"][2]["content"]
            .as_str()
            .unwrap()
            .contains("PROGRESS")
    );
}

#[test]
fn the_configuration_file_counts_and_flags_win() {
    let config = "[limits]\nmax_continuations = 1\n\n[prompt]\ninstruction = \"Weiter bei {{overlap_context}}\"\n";
    let at = folder(
        "run-configured",
        &[
            ("restitch.toml", config.as_bytes()),
            ("wrong.toml", b"[limits]\ntoken = 1\n"),
        ],
    );
    let file = at.join("restitch.toml");
    let script = "answer@60!length | anchor@20!length anchor";
    let with = ["--config", file.to_str().unwrap(), "--json"];
    let (ran, calls) = ask("run-config", script, &with);
    let answer = &ran.answers()[0];
    assert_eq!(
        (ran.code, &answer["stop"], calls.len()),
        (3, &json!("continuations"), 2),
        "{}",
        ran.err
    );
    assert!(
        calls[1]["messages"][2]["content"]
            .as_str()
            .unwrap()
            .contains("Weiter bei <overlap_context>")
    );
    let (ran, _) = ask(
        "run-config",
        script,
        &[&with[..], &["--max-continuations", "2"]].concat(),
    );
    assert_eq!(
        (ran.code, &ran.answers()[0]["document"]),
        (0, &json!(DOCUMENT)),
        "{}",
        ran.err
    );
    let wrong = at.join("wrong.toml");
    let (ran, calls) = ask("run-config", script, &["--config", wrong.to_str().unwrap()]);
    assert_eq!((ran.code, calls.len()), (2, 0));
    assert!(ran.err.contains("line 2, column 1"), "{}", ran.err);
}

/// A call that the program repeats with another strategy is one call, at the byte where the text
/// was cut, and the trace has all its requests.
#[test]
fn a_refused_prefix_is_one_call() {
    let server = Sim::new(DOCUMENT, "answer@60!length | anchor".parse().unwrap())
        .profile(ProviderProfile::Anthropic46);
    let flags = ["--json", "--config", "turn.toml", "--trace", "trace"];
    let (ran, calls) = ask_of(server, "run-refused-prefix", &flags);
    let answer = &ran.answers()[0];
    assert_eq!(
        (ran.code, &answer["document"]),
        (0, &json!(DOCUMENT)),
        "{}",
        ran.err
    );
    assert_eq!(
        (calls.len(), &answer["continuations"], &answer["failures"]),
        (3, &json!(1), &json!(0))
    );
    let iterations = answer["iterations"].as_array().unwrap();
    assert_eq!(iterations.len(), 2, "{iterations:?}");
    assert_eq!(
        (&iterations[1]["offset"], &iterations[1]["outcome"]),
        (&json!(60), &json!("joined"))
    );

    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/run-refused-prefix/trace");
    let read = |name: &str| fs::read_to_string(trace.join(name)).unwrap();
    let request = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
    assert_eq!(request("001-request.json"), calls[1]);
    assert!(read("001-response.txt").contains("does not support assistant message prefill"));
    assert_eq!(request("001-2-request.json"), calls[2]);
    assert!(read("001-2-response.txt").ends_with("data: [DONE]\n\n"));
    let contexts = request("001-contexts.json");
    assert_eq!(contexts["hierarchy_context"], DOCUMENT[..60]);
}

/// A call says where the text was cut, also where its prefix ends before.
#[test]
fn a_call_is_told_by_the_byte_of_its_cut() {
    let server = Sim::new(DOCUMENT, "answer@10!length | anchor".parse().unwrap())
        .profile(ProviderProfile::Anthropic);
    let (ran, calls) = ask_of(server, "run-trimmed", &["--json", "--config", "turn.toml"]);
    assert_eq!(
        (ran.code, &calls[1]["messages"][1]["content"]),
        (0, &json!("{\"title\":")),
        "{}",
        ran.err
    );
    assert_eq!(ran.answers()[0]["iterations"][1]["offset"], 10);
}

/// An empty call with its own reason to end reports that reason.
#[test]
fn every_call_says_how_it_ended() {
    let (ran, _) = ask(
        "run-filtered",
        "answer@60!length | anchor@0!filter",
        &["--json"],
    );
    let answer = &ran.answers()[0];
    assert_eq!(
        (ran.code, &answer["stop"]),
        (3, &json!("finish")),
        "{}",
        ran.err
    );
    let outcomes: Vec<_> = answer["iterations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["outcome"])
        .collect();
    assert!(
        outcomes
            .iter()
            .all(|outcome| !outcome.as_str().unwrap().is_empty()),
        "{outcomes:?}"
    );
}

#[test]
fn bad_arguments_are_named() {
    let folder = folder("run-bad", &[("prompt.txt", b"x")]);
    let prompt = ["The rows, as JSON.", "--model", "m"];
    for (arguments, code, words) in [
        (&["--provider", "nobody"][..], 2, "known are openai, "),
        (
            &["--base-url", "ftp://x"],
            2,
            "--base-url: an upstream starts with",
        ),
        (
            &[
                "--provider",
                "openai",
                "--key-variable",
                "RESTITCH_NO_SUCH_KEY",
            ],
            2,
            "set RESTITCH_NO_SUCH_KEY",
        ),
        (
            &[
                "--base-url",
                "http://127.0.0.1:9/v1",
                "--trace",
                "prompt.txt/x",
            ],
            1,
            "--trace: ",
        ),
    ] {
        let ran = run(&folder, &[&["run"], &prompt[..], arguments].concat(), b"");
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{arguments:?}: {}", ran.err);
    }
}

/// A server that answers each call with the next of these responses, as they are, and the last one
/// in silence: its address.
fn scripted(responses: Vec<String>) -> String {
    scripted_and_seen(responses, channel().0)
}

/// As [`scripted`]. Sends each request as it came.
fn scripted_and_seen(responses: Vec<String>, seen: Sender<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut silent = Vec::new();
        for response in responses {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let (mut request, mut line, mut length) = (String::new(), String::new(), 0);
            while stream.read_line(&mut line).unwrap() > 2 {
                if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = bytes.trim().parse().unwrap();
                }
                request.push_str(&std::mem::take(&mut line));
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            // Most tests do not look at the requests.
            let _ = seen.send(request + &line + std::str::from_utf8(&body).unwrap());
            stream.get_mut().write_all(response.as_bytes()).unwrap();
            if response.is_empty() {
                silent.push(stream);
            }
        }
        // The server stays silent until the program gives up.
        silent
            .iter_mut()
            .for_each(|stream| drop(stream.read(&mut [0])));
    });
    url
}

fn response(status: &str, media_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// Runs the command with a key; its exit code, standard output and standard error.
fn with_key(folder: &Path, url: &str, arguments: &[&str]) -> (i32, String, String) {
    let common = [
        "run",
        "--base-url",
        url,
        "--model",
        "m",
        "The rows, as JSON.",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
    command.env_remove("RESTITCH_CORPUS");
    command
        .current_dir(folder)
        .args(common)
        .args(["--key-variable", "RESTITCH_TEST_KEY"])
        .args(arguments);
    let ran = command
        .env("RESTITCH_TEST_KEY", "sk-secret-1")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        ran.status.code().unwrap(),
        text(ran.stdout),
        text(ran.stderr),
    )
}

#[test]
fn a_server_that_quotes_the_key_does_not_give_it_away() {
    let folder = folder("run-key", &[("prompt.txt", b"x")]);
    let refusal = r#"{"error": {"message": "Incorrect API key provided: sk-secret-1."}}"#;
    let url = scripted(vec![response(
        "401 Unauthorized",
        "application/json",
        refusal,
    )]);
    let (code, _, err) = with_key(&folder, &url, &["--trace", "trace"]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.ends_with("401 Unauthorized: Incorrect API key provided: [key].\n"),
        "{err}"
    );
    let traced = fs::read_to_string(folder.join("trace/000-response.txt")).unwrap();
    assert_eq!(
        traced,
        r#"{"error": {"message": "Incorrect API key provided: [key]."}}"#
    );

    let stream = |body: &str| response("200 OK", "text/event-stream", body);
    let cut =
        r#"data: {"choices":[{"index":0,"delta":{"content":"[1, 2"},"finish_reason":"length"}]}"#;
    let error = r#"data: {"error": {"message": "no credit left for sk-secret-1"}}"#;
    let [cut, error] = [cut, error].map(|event| stream(&format!("{event}\n\n")));
    let url = scripted(vec![cut, error.clone(), error.clone(), error]);
    let (code, out, err) = with_key(&folder, &url, &["--json", "--trace", "trace"]);
    assert_eq!(code, 3, "{err}");
    assert!(
        err.contains("no credit left for [key]") && out.contains("no credit left for [key]"),
        "{err}{out}"
    );
    assert!(
        !err.contains("sk-secret") && !out.contains("sk-secret"),
        "{err}{out}"
    );
    // Each call has its contexts, also those that brought nothing.
    for call in 1..=3 {
        let contexts =
            fs::read_to_string(folder.join(format!("trace/00{call}-contexts.json"))).unwrap();
        let contexts: Value = serde_json::from_str(&contexts).unwrap();
        assert_eq!(contexts["hierarchy_context"], "[1, 2");
    }
}

#[test]
fn a_silent_server_is_given_up() {
    let limits = b"[limits]\nfirst_byte_timeout = 0.05\nidle_timeout = 0.05\n";
    let folder = folder(
        "run-silent",
        &[("prompt.txt", b"x"), ("limits.toml", limits)],
    );
    let url = scripted(vec![String::new()]);
    let (code, _, err) = with_key(&folder, &url, &["--config", "limits.toml"]);
    assert_eq!(code, 1);
    assert!(err.starts_with("restitch: http://127.0.0.1"), "{err}");
    assert!(
        err.ends_with(
            ": the upstream does not answer: no answer came for 0.05 s (`first_byte_timeout`)\n"
        ),
        "{err}"
    );
}

/// The program does not wait `patience` again for a call that it has retried for all of `patience`.
#[test]
fn a_server_that_stays_busy_is_left_after_patience() {
    let folder = folder(
        "run-patience",
        &[
            ("prompt.txt", b"x"),
            ("limits.toml", b"[limits]\npatience = 0.3\n"),
        ],
    );
    let url = scripted(vec![
        response(
            "503 Service Unavailable",
            "text/plain",
            "busy"
        );
        9
    ]);
    let (code, _, err) = with_key(&folder, &url, &["--config", "limits.toml"]);
    assert!(
        code == 1 && err.contains("the server answered 503"),
        "{err}"
    );
    assert!(!err.contains("asking again"), "{err}");
}

#[test]
fn a_place_where_nothing_can_be_written_is_told_before_anything_is_asked() {
    for (place, words) in [
        ("none/out.json", "none/out.json: No such file"),
        (".", ".: is a directory"),
    ] {
        let (ran, calls) = ask("run-place", "answer", &["-o", place]);
        assert_eq!((ran.code, calls.len()), (1, 0), "{place}: {}", ran.err);
        assert!(ran.err.contains(words), "{place}: {}", ran.err);
    }
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let folder = folder("run-head", &[("prompt.txt", b"x")]);
    let event =
        r#"data: {"choices":[{"index":0,"delta":{"content":"[1, 2]"},"finish_reason":"stop"}]}"#;
    let url = scripted(vec![response(
        "200 OK",
        "text/event-stream",
        &format!("{event}\n\ndata: [DONE]\n\n"),
    )]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
    command.current_dir(&folder).args([
        "run",
        "--base-url",
        &url,
        "--model",
        "m",
        "The rows, as JSON.",
    ]);
    command.env_remove("RESTITCH_CORPUS");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = command.stdout(writer).output().unwrap();
    assert_eq!(
        (
            ran.status.code(),
            String::from_utf8(ran.stderr).unwrap().as_str()
        ),
        (Some(0), "")
    );
}
