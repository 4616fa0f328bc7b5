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

use crate::cli::{Ran, folder, run, shell};
use restitch_testing::says::Says;

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
    ran.gives(0, DOCUMENT);
    assert_eq!(calls.len(), 4);
    let first = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "The rows, as JSON."}]});
    assert_eq!(calls[0], first);
    ran.err.has("call 3 at byte 100: joined: anchor");
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
    ran.exits(0);
    assert_eq!(answer["status"], "complete");
    assert_eq!(answer["document"], json!(DOCUMENT));
    assert_eq!(answer["continuations"], 2);
    assert_eq!(answer["failures"], 1);
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
    assert_eq!(answer.get("completion_tokens"), None);
    assert_eq!(answer["tokens"], json!([null, null, null]));
    assert_eq!(answer.get("synthesized"), None);
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/run-json/out.json");
    assert_eq!(fs::read_to_string(written).unwrap(), DOCUMENT);
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
    ran.exits(0);
    assert_eq!(answer["completion_tokens"], 14);
    let counts: Vec<_> = answer["iterations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| &i["completion_tokens"])
        .collect();
    assert_eq!(json!(counts), json!([5, 9]));
    assert_eq!(answer["tokens"], json!([5, 9]));
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
    ran.exits(3);
    assert_eq!(answer["status"], "closed");
    assert_eq!(answer["document"], json!(complete));
    assert_eq!(answer.get("synthesized"), None);
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/run-complete-part/out.json");
    assert_eq!(fs::read_to_string(written).unwrap(), complete);
    ran.err.has("elements may be missing");

    let (ran, _) = ask("run-streamed", script, &[]);
    ran.exits(3);
    ran.out.begins(&DOCUMENT[..70]);
    assert!(
        serde_json::from_str::<Value>(&ran.out).is_ok(),
        "{}",
        ran.out
    );
    ran.err
        .has("; synthesized: /rows/1/")
        .has("given up and closed");
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
    ran.gives(0, DOCUMENT);
    // Bytes that are not UTF-8 are not sent, and that is said.
    let files = ["--system-file", "system.txt", "--json"];
    let ran = run(&folder, &[&common[..], &files].concat(), b"The r\xffows.");
    ran.exits(4);
    assert_eq!(ran.answers()[0]["removed_bytes"], 2);
    ran.err.has("-: not UTF-8: removed 1 byte\n");
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
    run(&folder, &common, b"").exits(2);
    for wrong in [&["x", "y"][..], &["--system-file", "-"]] {
        run(&folder, &[&common[..], wrong].concat(), b"").exits(2);
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
        ran.exits(0);
        assert_eq!(answer["upstream"]["status"], 200);
        assert_eq!(answer["prefill"]["form"], json!(form), "{answer}");
        assert_eq!(answer["prefill"]["known"], json!(known), "{answer}");
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
        ran.out.has("\nstatus = 200\n");
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
    ran.exits(4);
    ran.out.has("\nform = \"unknown\"\n");
    ran.out.lacks("[[capability]]");
}

#[test]
fn doctor_says_what_cannot_be_reached() {
    let ran = shell("doctor --upstream http://127.0.0.1:9");
    ran.exits(1);
    ran.out.has("error = ");
    let refusal = r#"{"error": {"message": "Incorrect API key provided: sk-1."}}"#;
    let url = scripted(vec![response(
        "401 Unauthorized",
        "application/json",
        refusal,
    )]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
    command
        .env_remove("RESTITCH_CORPUS")
        .env_remove("RESTITCH_TABLES");
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
    out.has("\nstatus = 401\n").has("provided: [key].");
    for args in [
        &["--upstream", "ftp://x"][..],
        &["--provider", "nobody"],
        &["--model", "m"],
    ] {
        run(Path::new("."), &[&["doctor"], args].concat(), b"").exits(2);
    }
}

#[test]
fn a_busy_server_is_asked_again_and_a_refusal_told() {
    let (ran, calls) = ask("run-busy", "503~0 429~0 answer", &[]);
    ran.gives(0, DOCUMENT);
    assert_eq!(calls.len(), 3);
    let (ran, calls) = ask("run-refused", "401", &[]);
    assert_eq!((ran.code, calls.len()), (1, 1));
    ran.err.has("the server answered 401");
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
    response().has("Incorrect API key");
    assert_eq!(mode("a/trace/000-request.json"), 0o600);

    // A link in place of the folder is refused.
    symlink(folder.join("a"), folder.join("link")).unwrap();
    let (code, _, err) = refused(&["--trace", "link"]);
    assert_eq!(code, 1, "{err}");
    err.has("--trace: the folder is a symbolic link");
}

#[test]
fn the_model_says_how_far_it_is() {
    let script = "answer@60!length | progress@20!length progress@20!length anchor";
    let (ran, calls) = ask("run-progress", script, &["--ask-progress", "--json"]);
    let answer = &ran.answers()[0];
    ran.exits(0);
    assert_eq!(answer["document"], json!(DOCUMENT));
    // 60 and 80 of 139 bytes.
    assert_eq!((DOCUMENT.len(), &answer["percentage"]), (139, &json!(57)));
    let prompt = calls[1]["messages"][2]["content"].as_str().unwrap();
    prompt.has("`PROGRESS: `");
    // Unless it is asked, a line before the anchor is an envelope and no more.
    let (ran, calls) = ask("run-no-progress", script, &["--json"]);
    assert_eq!(ran.answers()[0]["document"], json!(DOCUMENT));
    assert_eq!(ran.answers()[0]["percentage"], Value::Null);
    calls[1]["messages"][2]["content"]
        .as_str()
        .unwrap()
        .lacks("PROGRESS");
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
    ran.exits(3);
    assert_eq!(answer["stop"], "continuations");
    assert_eq!(calls.len(), 2);
    calls[1]["messages"][2]["content"]
        .as_str()
        .unwrap()
        .has("Weiter bei <overlap_context>");
    let (ran, _) = ask(
        "run-config",
        script,
        &[&with[..], &["--max-continuations", "2"]].concat(),
    );
    ran.exits(0);
    assert_eq!(ran.answers()[0]["document"], json!(DOCUMENT));
    let wrong = at.join("wrong.toml");
    let (ran, calls) = ask("run-config", script, &["--config", wrong.to_str().unwrap()]);
    assert_eq!((ran.code, calls.len()), (2, 0));
    ran.err.has("line 2, column 1");
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
    ran.exits(0);
    assert_eq!(answer["document"], json!(DOCUMENT));
    assert_eq!(calls.len(), 3);
    assert_eq!(answer["continuations"], 1);
    assert_eq!(answer["failures"], 0);
    let iterations = answer["iterations"].as_array().unwrap();
    assert_eq!(iterations.len(), 2, "{iterations:?}");
    assert_eq!(iterations[1]["offset"], 60);
    assert_eq!(iterations[1]["outcome"], "joined");

    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/run-refused-prefix/trace");
    let read = |name: &str| fs::read_to_string(trace.join(name)).unwrap();
    let request = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
    assert_eq!(request("001-request.json"), calls[1]);
    read("001-response.txt").has("does not support assistant message prefill");
    assert_eq!(request("001-2-request.json"), calls[2]);
    read("001-2-response.txt").ends("data: [DONE]\n\n");
    let contexts = request("001-contexts.json");
    assert_eq!(contexts["hierarchy_context"], DOCUMENT[..60]);
}

/// A call says where the text was cut, also where its prefix ends before.
#[test]
fn a_call_is_told_by_the_byte_of_its_cut() {
    let server = Sim::new(DOCUMENT, "answer@10!length | anchor".parse().unwrap())
        .profile(ProviderProfile::Anthropic);
    let (ran, calls) = ask_of(server, "run-trimmed", &["--json", "--config", "turn.toml"]);
    ran.exits(0);
    assert_eq!(calls[1]["messages"][1]["content"], "{\"title\":");
    assert_eq!(ran.answers()[0]["iterations"][1]["offset"], 10);
}

/// The request contains an excerpt of a long text; the offset of a call still counts the whole
/// document.
#[test]
fn the_offset_of_a_call_counts_the_document() {
    let rows = (0..600).map(|n| format!(r#"{{"id": {n}, "text": "Row {n} of the report"}}"#));
    let document = format!("[{}]", rows.collect::<Vec<_>>().join(", "));
    let server = Sim::new(document, "answer@20000!length | anchor".parse().unwrap());
    let (ran, calls) = ask_of(server, "run-offset", &["--json"]);
    ran.exits(0);
    assert!(calls[1].to_string().len() < 10_000, "{}", calls[1]);
    assert_eq!(ran.answers()[0]["iterations"][1]["offset"], 20_000);
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
    ran.exits(3);
    assert_eq!(answer["stop"], "finish");
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
    command.current_dir(folder).args(["run", "--base-url", url]);
    command.args(["--model", "m", "The rows, as JSON."]);
    command
        .args(["--key-variable", "RESTITCH_TEST_KEY"])
        .args(arguments);
    command
        .env_remove("RESTITCH_CORPUS")
        .env_remove("RESTITCH_TABLES");
    let Ran { code, out, err, .. } = Ran::of(command.env("RESTITCH_TEST_KEY", "sk-secret-1"));
    (code, out, err)
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
    err.ends("401 Unauthorized: Incorrect API key provided: [key].\n");
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
    err.of(format!("{err}{out}"))
        .has("no credit left for [key]");
    out.of(&err).has("no credit left for [key]");
    err.of(format!("{err}{out}")).lacks("sk-secret");
    out.of(&err).lacks("sk-secret");
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
    err.begins("restitch: http://127.0.0.1");
    err.ends(": the upstream does not answer: no answer came for 0.05 s (`first_byte_timeout`)\n");
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
    assert!(code == 1, "{err}");
    err.has("the server answered 503");
    let waits = err.split("wait_ms=").skip(1);
    let waited: u64 = waits
        .filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    assert!((1..=300).contains(&waited), "{err}");
}

#[test]
fn a_place_where_nothing_can_be_written_is_told_before_anything_is_asked() {
    for (place, words) in [
        ("none/out.json", "none/out.json: No such file"),
        (".", ".: is a directory"),
    ] {
        let (ran, calls) = ask("run-place", "answer", &["-o", place]);
        assert_eq!((ran.code, calls.len()), (1, 0), "{place}: {}", ran.err);
        ran.err.of(place).has(words);
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
    command
        .env_remove("RESTITCH_CORPUS")
        .env_remove("RESTITCH_TABLES");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = command.stdout(writer).output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
    assert_eq!(String::from_utf8(ran.stderr).unwrap().as_str(), "");
}
