//! The official clients, and frameworks on top, against the proxy: `tests/sdks` has the scripts
//! that ask.
//!
//! `scripts/test-tools` installs the packages of each ecosystem. Where packages are missing, or
//! their pins have changed, the test reports that it is skipped.

mod replay;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use restitch::Limits;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use super::{DOCUMENT, Setup};
use restitch_testing::skipped;

/// The longest that all cases of a script take.
const RUNS: Duration = Duration::from_secs(120);
/// Where answers are given up. The byte is in the middle of a member's name.
const CUT: usize = 90;

/// The part of an answer that a script's API shows.
#[derive(Clone, Copy)]
enum Shows {
    /// The text of a stream.
    Text,
    /// The same from an API that continues its prompt: whatever follows is text.
    RawText,
    /// The arguments of a tool call in a stream.
    Call,
    /// The same in one body.
    BodyCall,
    /// The document as an object, from a stream of text.
    TextValue,
    /// The document as an object, from a streamed tool call.
    Value,
    /// The same from one body.
    BodyValue,
    /// The same from one body that has no arguments if they are cut, so that they pass through as
    /// they are.
    PassedValue,
}

impl Shows {
    /// Returns whether the answer is text or a call, as a behaviour of the model server.
    fn behaviour(self) -> &'static str {
        if matches!(self, Self::Text | Self::RawText | Self::TextValue) {
            "answer"
        } else {
            "tool"
        }
    }

    /// Returns the scripts after which the document must be whole.
    fn scripts(self) -> Vec<String> {
        let behaviour = self.behaviour();
        let any = [
            "X@90!length | anchor",
            "X@40!length | refusal anchor@60!length preamble-fence",
            "X@90!drop | anchor",
            "X@140!eof | anchor",
            "X@200!error | anchor",
            "X@61!malformed | anchor",
            "X@90!done | anchor",
            "drop X@90!length | anchor",
        ];
        let call = [
            "X@90!tool | anchor",
            "reasoning+text+X@90!length | anchor",
            "reasoning+text+X@200!drop | refusal anchor",
            "call+X@40!length | anchor",
            "X",
        ];
        let scripts: Vec<&str> = match self {
            Self::Text => any.to_vec(),
            Self::RawText => any
                .into_iter()
                .filter(|script| !script.contains("refusal"))
                .collect(),
            Self::Call => any.into_iter().chain(call).collect(),
            Self::BodyCall | Self::BodyValue => vec![any[0], any[1], call[0], call[4]],
            Self::PassedValue => vec![call[4]],
            Self::TextValue => any[..3].to_vec(),
            Self::Value => any.into_iter().chain(call[..3].iter().copied()).collect(),
        };
        scripts
            .into_iter()
            .map(|script| script.replace('X', behaviour))
            .collect()
    }
}

/// An API's view of an answer that can't be completed.
#[derive(Clone, Copy)]
enum Incomplete {
    /// The text or the arguments up to the cut, and a finish of this name.
    Finish(&'static str),
    /// An exception of this name.
    Raises(&'static str),
    /// The client gets no sign of the missing part, even without a proxy.
    Silent,
}
use Incomplete::{Finish, Raises, Silent};

/// A function of a script: its name, the part that it shows, and the finish of a whole and of an
/// incomplete answer.
type Api = (&'static str, Shows, &'static str, Incomplete);

/// The views that several scripts have.
const LONG: Incomplete = Raises("LengthFinishReasonError");
const MOST: Incomplete = Finish("max_output_tokens");
const MAX: Incomplete = Finish("max_tokens");
const NO_CALL: Incomplete = Raises("IncompleteToolCall");
const UNEXPECTED: Incomplete = Raises("UnexpectedModelBehavior");
const INCOMPLETE: Incomplete = Raises("IncompleteOutputException");
const NO_OBJECT: Incomplete = Raises("AI_NoObjectGeneratedError");

const PYTHON: &[Api] = &[
    ("chat", Shows::Text, "stop", LONG),
    ("chat_tools", Shows::Call, "tool_calls", LONG),
    ("chat_body", Shows::BodyCall, "tool_calls", Finish("length")),
    ("completions", Shows::RawText, "stop", Silent),
    ("responses", Shows::Text, "completed", MOST),
    ("responses_resumed", Shows::Text, "completed", MOST),
    ("responses_tools", Shows::Call, "completed", MOST),
    ("messages", Shows::Text, "end_turn", MAX),
    ("messages_tools", Shows::Call, "tool_use", MAX),
    ("pydantic_chat", Shows::BodyValue, "", NO_CALL),
    ("pydantic_chat_stream", Shows::Value, "", UNEXPECTED),
    ("pydantic_responses", Shows::BodyValue, "", NO_CALL),
    ("pydantic_responses_stream", Shows::Value, "", UNEXPECTED),
    ("pydantic_messages", Shows::PassedValue, "", UNEXPECTED),
    ("pydantic_messages_stream", Shows::Value, "", UNEXPECTED),
    ("instructor", Shows::BodyValue, "", INCOMPLETE),
    ("instructor_messages", Shows::PassedValue, "", INCOMPLETE),
    ("instructor_stream", Shows::Value, "", Silent),
];

const JAVASCRIPT: &[Api] = &[
    ("chat_tools", Shows::Call, "tool_calls", Finish("length")),
    ("responses_resumed", Shows::Text, "completed", MOST),
    ("responses_tools", Shows::Call, "completed", MOST),
    ("messages_tools", Shows::Call, "tool_use", MAX),
    ("ai_chat", Shows::Call, "tool-calls", Finish("length")),
    ("ai_responses", Shows::Call, "tool-calls", Finish("length")),
    ("ai_messages", Shows::Call, "tool-calls", Finish("length")),
    ("ai_chat_object", Shows::TextValue, "", NO_OBJECT),
    ("ai_responses_object", Shows::TextValue, "", NO_OBJECT),
    ("ai_messages_object", Shows::TextValue, "", NO_OBJECT),
];

#[tokio::test]
#[ignore = "nightly: needs the packages of the SDKs"]
async fn official_python_clients_get_whole_answers() {
    let mut cases = cases(PYTHON);
    // The client gives up after a second of silence; the proxy waits for two.
    for (api, finish) in [
        ("chat_tools", "tool_calls"),
        ("responses_tools", "completed"),
        ("messages_tools", "tool_use"),
    ] {
        let script = "tool@90!length | 429~2 anchor".to_owned();
        cases.push(Case {
            api,
            script,
            shows: Shows::Call,
            expected: Ok(finish),
            timeout: 1.0,
        });
    }
    match python() {
        Ok((program, folder)) => {
            check(
                Command::new(program).arg(sdks().join("clients.py")),
                &folder,
                &cases,
            )
            .await;
        }
        Err(reason) => skip("Python", &reason),
    }
}

#[tokio::test]
#[ignore = "nightly: needs the packages of the SDKs"]
async fn official_javascript_clients_get_whole_answers() {
    let cases = cases(JAVASCRIPT);
    match javascript() {
        Ok(folder) => {
            check(
                Command::new("node").arg(sdks().join("clients.mjs")),
                &folder,
                &cases,
            )
            .await;
        }
        Err(reason) => skip("JavaScript", &reason),
    }
}

/// One question, and the answer that a client must see.
struct Case {
    api: &'static str,
    script: String,
    shows: Shows,
    /// The finish of a whole answer, or a client's view of an answer that can't be completed.
    expected: Result<&'static str, Incomplete>,
    /// Seconds of silence after which the client gives up.
    timeout: f32,
}

fn cases(apis: &[Api]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &(api, shows, finish, incomplete) in apis {
        let whole = shows
            .scripts()
            .into_iter()
            .map(|script| (script, Ok(finish)));
        let given_up = Some((
            format!("{}@{CUT}!length | refusal", shows.behaviour()),
            Err(incomplete),
        ));
        let given_up = given_up.filter(|_| !matches!(incomplete, Silent));
        let all = whole.chain(given_up);
        cases.extend(all.map(|(script, expected)| Case {
            api,
            script,
            shows,
            expected,
            timeout: 20.0,
        }));
    }
    cases
}

impl Case {
    fn check(&self, seen: &Value) {
        let context = format!("{} [[script: {}]]: {seen}", self.api, self.script);
        match self.expected {
            Ok(finish) => self.check_whole(seen, finish, &context),
            Err(Raises(name)) => assert_eq!(seen["error"], name, "{context}"),
            Err(Finish(finish)) => {
                assert_eq!(seen["finish"], finish, "{context}");
                // The arguments stay open, so no client takes them for a call.
                let cut = &DOCUMENT[..CUT];
                let (text, calls) = if self.shows.behaviour() == "answer" {
                    (cut, json!([]))
                } else {
                    ("", json!([cut]))
                };
                assert_eq!(seen["text"].as_str().unwrap_or_default(), text, "{context}");
                assert_eq!(seen.get("arguments").unwrap_or(&calls), &calls, "{context}");
            }
            Err(Silent) => {}
        }
    }

    fn check_whole(&self, seen: &Value, finish: &str, context: &str) {
        assert!(seen.get("error").is_none(), "{context}");
        let document = plain(&serde_json::from_str(DOCUMENT).unwrap());
        if matches!(
            self.shows,
            Shows::Value | Shows::BodyValue | Shows::PassedValue | Shows::TextValue
        ) {
            return assert_eq!(plain(&seen["value"]), document, "{context}");
        }
        assert_eq!(seen["finish"], finish, "{context}");
        if self.shows.behaviour() == "answer" {
            return assert_eq!(seen["text"], DOCUMENT, "{context}");
        }
        let has = |lead: &str| self.script.contains(lead);
        let text = if has("text+") {
            "I'll write the file."
        } else {
            ""
        };
        assert_eq!(seen["text"].as_str().unwrap_or_default(), text, "{context}");
        if let Some(names) = seen.get("names") {
            assert!(
                names.as_array().unwrap().iter().all(|name| name == "save"),
                "{context}"
            );
            assert_eq!(seen["has_usage"], true, "{context}");
        }
        let calls = seen["arguments"].as_array().unwrap();
        assert_eq!(calls.len(), if has("call+") { 2 } else { 1 }, "{context}");
        assert_eq!(calls.last().unwrap(), DOCUMENT, "{context}");
        if let Some(values) = seen["value"].as_array() {
            assert_eq!(values.len(), calls.len(), "{context}");
            assert_eq!(values.last().map(plain), Some(document), "{context}");
        }
        if let Some(blocks) = seen.get("blocks") {
            let leads = [
                (has("reasoning+"), "thinking"),
                (has("text+"), "text"),
                (has("call+"), "tool_use"),
            ];
            let mut expected: Vec<_> = leads
                .iter()
                .filter(|(has, _)| *has)
                .map(|(_, block)| *block)
                .collect();
            expected.push("tool_use");
            assert_eq!(blocks, &json!(expected), "{context}");
            assert_eq!(seen["signed"], true, "{context}");
        }
    }
}

/// Returns a value as text. JavaScript writes numbers without a fraction as integers.
fn plain(value: &Value) -> String {
    value.to_string().replace("-2500.0", "-2500")
}

/// Lets a script ask all questions of the cases, and checks its output.
async fn check(command: &mut Command, folder: &Path, cases: &[Case]) {
    let mut limits = Limits::default().with_keep_alive_interval(Duration::from_millis(200));
    limits.keep.max_keep_time = Duration::from_secs(60);
    // Once as they are, and once with an id on every event.
    let first_of_each: Vec<_> = cases
        .iter()
        .enumerate()
        .filter(|(n, case)| cases[..*n].iter().all(|c| c.api != case.api))
        .map(|(_, case)| case)
        .collect();
    check_with(
        command,
        folder,
        &cases.iter().collect::<Vec<_>>(),
        limits.clone(),
        Duration::ZERO,
    )
    .await;
    check_with(
        command,
        folder,
        &first_of_each,
        limits,
        Duration::from_secs(60),
    )
    .await;
}

async fn check_with(
    command: &mut Command,
    folder: &Path,
    cases: &[&Case],
    limits: Limits,
    keep: Duration,
) {
    let setup = Setup::of("answer", |proxy| proxy.limits(limits).keep_answers(keep)).await;
    let question = |(n, case): (usize, &&Case)| {
        let prompt = format!("{n} [[script: {}]]", case.script);
        json!({"api": case.api, "prompt": prompt, "timeout": case.timeout, "url": setup.proxy.url(), "tools": ["save"]})
    };
    let questions: Vec<Value> = cases.iter().enumerate().map(question).collect();
    let (versions, seen) = answers(command, folder, "scripted", &questions).await;
    cases
        .iter()
        .zip(&seen)
        .for_each(|(case, seen)| case.check(seen));
    println!("{} answers, through {versions}", cases.len());
}

/// Lets a script ask all questions. Returns the versions of its clients, and its view of each
/// answer. The questions have a file name of their own.
async fn answers(
    command: &mut Command,
    folder: &Path,
    name: &str,
    questions: &[Value],
) -> (Value, Vec<Value>) {
    let path = folder.join(format!("{name}.jsonl"));
    fs::write(
        &path,
        questions
            .iter()
            .map(|question| format!("{question}\n"))
            .collect::<String>(),
    )
    .unwrap();
    command
        .current_dir(folder)
        .stdin(File::open(&path).unwrap());
    let output = run(command, RUNS).await.unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let mut lines = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let Some(versions) = lines.next() else {
        panic!("the script saw nothing: {stderr}")
    };
    let seen: Vec<Value> = lines.collect();
    assert_eq!(seen.len(), questions.len(), "{stderr}");
    (versions["versions"].clone(), seen)
}

/// Returns the interpreter of an environment with the packages of Python, and its folder.
fn python() -> Result<(PathBuf, PathBuf), String> {
    let folder = installed("python", &["requirements.txt"])?;
    Ok((folder.join("venv/bin/python"), folder))
}

/// Returns a folder with the packages of JavaScript.
pub(super) fn javascript() -> Result<PathBuf, String> {
    installed("javascript", &["package.json", "package-lock.json"])
}

/// Returns the folder of packages that `scripts/test-tools` has installed from these pins. `Err`
/// names the problem.
fn installed(name: &str, pins: &[&str]) -> Result<PathBuf, String> {
    let folder = restitch_testing::root()
        .join("target/test-tools")
        .join(name);
    if !folder.join("made").exists() {
        return Err(format!("{} is missing", folder.display()));
    }
    let is_current =
        |pin: &&str| fs::read(folder.join(pin)).ok() == fs::read(sdks().join(pin)).ok();
    if pins.iter().all(is_current) {
        Ok(folder)
    } else {
        Err(format!("{} has other versions", folder.display()))
    }
}

/// Runs a program to its end, and kills it if it takes too long.
async fn run(command: &mut Command, longest: Duration) -> Result<Output, String> {
    let name = command
        .as_std()
        .get_program()
        .to_string_lossy()
        .into_owned();
    let running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    match timeout(longest, running).await {
        Ok(output) => output.map_err(|error| format!("{name}: {error}")),
        Err(_) => Err(format!("{name}: not done after {} s", longest.as_secs())),
    }
}

/// Says that a test is skipped, because its clients are missing.
pub(super) fn skip(ecosystem: &str, reason: &str) {
    skipped(&format!(
        "the clients of {ecosystem}: {reason}; scripts/test-tools nightly installs them"
    ));
}

fn sdks() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdks")
}
