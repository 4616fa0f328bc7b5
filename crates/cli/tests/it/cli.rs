//! The commands as a shell sees them: the program itself, its streams and its exit codes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use restitch_testing::says::Says;

/// A command's result.
#[derive(Debug)]
pub(crate) struct Ran {
    #[expect(dead_code, reason = "a failure shows it")]
    args: String,
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Waits for the end of a command.
    pub(crate) fn of(command: &mut Command) -> Self {
        let args = format!("{command:?}");
        let ran = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            args,
            code: ran.status.code().unwrap(),
            out: text(ran.stdout),
            err: text(ran.stderr),
        }
    }

    /// The answers, a line each.
    pub(crate) fn answers(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[track_caller]
    pub(crate) fn exits(&self, code: i32) {
        assert_eq!(self.code, code, "{self:#?}");
    }

    #[track_caller]
    pub(crate) fn gives(&self, code: i32, out: &str) {
        assert_eq!((self.code, self.out.as_str()), (code, out), "{self:#?}");
    }

    #[track_caller]
    pub(crate) fn is(&self, code: i32, out: &str, err: &str) {
        self.gives(code, out);
        assert_eq!(self.err, err, "{self:#?}");
    }
}

pub(crate) fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
    command
        .current_dir(folder)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // The tests' own variable is none of the program's.
    command
        .env_remove("RESTITCH_CORPUS")
        .env_remove("RESTITCH_TABLES")
        .spawn()
        .unwrap()
}

/// Runs a command to its end, which must come within a minute.
pub(crate) fn run(folder: &Path, args: &[&str], stdin: &[u8]) -> Ran {
    let mut child = start(folder, args);
    let mut input = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    // A command that reads no input leaves early: then the rest can't be written.
    thread::spawn(move || drop(input.write_all(&stdin)));
    let read = |mut from: Box<dyn Read + Send>| {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            sender.send(String::from_utf8(bytes).unwrap())
        });
        receiver
    };
    let out = read(Box::new(child.stdout.take().unwrap()));
    let err = read(Box::new(child.stderr.take().unwrap()));
    let texts = out
        .recv_timeout(LONG)
        .and_then(|out| Ok((out, err.recv_timeout(LONG)?)));
    let Ok((out, err)) = texts else {
        child.kill().unwrap();
        panic!("{args:?} does not end");
    };
    Ran {
        args: args.join(" "),
        code: child.wait().unwrap().code().unwrap(),
        out,
        err,
    }
}

/// Runs a command line without input.
pub(crate) fn shell(line: &str) -> Ran {
    pipe(line, "")
}

pub(crate) fn shell_in(folder: &Path, line: &str) -> Ran {
    run(folder, &line.split(' ').collect::<Vec<_>>(), b"")
}

/// Runs a command line on standard input.
pub(crate) fn pipe(line: &str, stdin: impl AsRef<[u8]>) -> Ran {
    let args: Vec<_> = line.split(' ').collect();
    run(Path::new("."), &args, stdin.as_ref())
}

/// Far more than any command here needs, on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A fresh folder with these files.
pub(crate) fn folder(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cli")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    folder
}

/// Texts of all kinds.
const FILES: [(&str, &[u8]); 8] = [
    ("good", b" {\"a\": [1, \"\xc3\xa9\"]}\n"),
    ("number", b"-12.5"),
    ("cut", b"{\"items\": [1, {\"k\": \"v\\u00"),
    ("bad", b"{\"a\": [1, 01]}"),
    ("tail", b"[] x"),
    ("empty", b""),
    ("latin", b"[\"caf\xe9\"]"),
    ("prose", b"Hello."),
];

fn all_files() -> (PathBuf, [&'static str; 8]) {
    // Tests run at once, each with its own folder.
    let name = thread::current().name().unwrap().replace("::", "-");
    (folder(&name, &FILES), FILES.map(|(name, _)| name))
}

/// Runs one command on standard input.
#[track_caller]
pub(crate) fn check(line: &str, stdin: &str, code: i32, out: &str) {
    pipe(line, stdin).gives(code, out);
}

#[test]
fn check_answers_a_line_a_file() {
    let (folder, files) = all_files();
    let ran = run(&folder, &[&["check", "--json"], &files[..]].concat(), b"");
    assert_eq!(
        ran.out,
        r#"{"file":"good","valid":true,"complete":true,"offset":18,"line":2,"column":1,"path":""}
{"file":"number","valid":true,"complete":true,"offset":5,"line":1,"column":6,"path":""}
{"file":"cut","valid":true,"complete":false,"offset":26,"line":1,"column":27,"path":"/items/1/k"}
{"file":"bad","valid":false,"complete":false,"offset":11,"line":1,"column":12,"path":"/a/1","error":"invalid number at `1`"}
{"file":"tail","valid":false,"complete":false,"offset":3,"line":1,"column":4,"path":"","error":"text after the root, at `x`"}
{"file":"empty","valid":true,"complete":false,"offset":0,"line":1,"column":1,"path":""}
{"file":"latin","valid":false,"complete":false,"offset":6,"line":1,"column":7,"path":"/0","error":"invalid UTF-8 at byte 0x22"}
{"file":"prose","valid":false,"complete":false,"offset":0,"line":1,"column":1,"path":"","error":"unexpected `H`"}
"#
    );
    assert_eq!((ran.code, ran.err.as_str()), (4, ""));
    let words = shell_in(&folder, "check good cut bad").out;
    assert_eq!(
        words,
        "good: complete, 18 bytes\n\
         cut: valid, but cut at line 1, column 27 (byte 26), at /items/1/k\n\
         bad: invalid at line 1, column 12 (byte 11), at /a/1: invalid number at `1`\n"
    );
}

#[test]
fn check_tells_the_place() {
    for (text, line, column, path) in [
        (
            "{\"a\":\n {\"\u{e9}\\\"/~\": [0,\n\n  \u{e9}",
            4,
            3,
            "/a/\u{e9}\"~1~0/1",
        ),
        (
            "{\"a\": [{}, {\"b\": {\"c\": 1}, \"d\": []}, {\"e\": 1, \"\": x",
            1,
            51,
            "/a/2/",
        ),
        (
            "[[[[]], {\"k\": {\"l\": 1}, \"m\": [\r\n1], !",
            2,
            5,
            "/0/1",
        ),
    ] {
        let ran = pipe("check --json", text.as_bytes());
        let answer = &ran.answers()[0];
        let place = (&answer["line"], &answer["column"], &answer["path"]);
        assert_eq!(
            place,
            (&json!(line), &json!(column), &json!(path)),
            "{text}"
        );
        assert_eq!((ran.code, answer["valid"].as_bool()), (4, Some(false)));
    }
}

#[test]
fn of_several_files_the_worst_counts() {
    let (folder, _) = all_files();
    for (files, code) in [
        (&["good", "number"][..], 0),
        (&["good", "cut", "number"], 3),
        (&["bad", "cut", "good"], 4),
        (&["cut", "missing", "bad"], 1),
        (&["missing"], 1),
        (&["."], 1),
        (&["-"], 3),
        (&["-", "-"], 2),
    ] {
        let ran = run(&folder, &[&["check"], files].concat(), b"");
        ran.exits(code);
        assert_eq!(
            ran.err.is_empty(),
            matches!(code, 0 | 3 | 4),
            "{files:?}: {}",
            ran.err
        );
    }
    // A file that can't be read costs its own line only.
    let ran = shell_in(&folder, "check --json missing good");
    ran.err.begins("restitch: missing: ");
    let unread = json!({"file": "missing", "error": "can't be read"});
    assert_eq!(ran.answers()[0], unread);
    assert_eq!((ran.answers().len(), ran.code), (2, 1));
}

#[test]
fn check_takes_large_files() {
    let row =
        br#"{"id": 1234567, "name": "some \u00e9 text", "values": [1.5e3, -0, true, null]}, "#;
    let mut text = b"[".to_vec();
    while text.len() < 4 << 20 {
        text.extend_from_slice(row);
    }
    text.extend_from_slice(b"0]");
    let folder = folder("large", &[("large", &text)]);
    let ran = shell_in(&folder, "check --json large");
    let answer = json!({"valid": true, "complete": true, "offset": text.len(), "line": 1, "column": text.len() + 1, "path": ""});
    assert_eq!((ran.code, ran.answers()), (0, vec![answer]));
}

/// Checks what `inspect --close` writes, and the same part and the mistake as members.
fn check_closed(text: &str, code: i32, part: &str, error: Option<&str>) {
    check("inspect --close", text, code, part);
    let ran = pipe("inspect --json", text.as_bytes());
    let answer = &ran.answers()[0];
    ran.exits(code);
    assert_eq!(answer["complete"], json!(code == 0), "{text}");
    assert_eq!(answer["error"].as_str(), error, "{text}");
    if error.is_none() {
        assert_eq!(answer["complete_part"], part, "{text}");
    }
}

#[test]
fn inspect_closes_to_the_byte() {
    let no_json = Some("there is no JSON in the text");
    for (text, code, part, error) in [
        ("{\"a\": [1, \"tw", 3, "{\"a\": [1, \"tw\"]}", None),
        (" [1]\n", 0, "[1]", None),
        ("{\"a\": tr", 3, "{}", None),
        ("42", 0, "42", None),
        ("```json\n[1, 2]\n```\nDone.", 0, "[1, 2]", None),
        ("", 3, "", None),
        (" \n", 3, "", None),
        ("-", 3, "", None),
        ("]", 4, "", no_json),
        // Text that touches a root.
        (
            "1.2.3.4",
            4,
            "",
            Some("text after the root, at `.` (byte 3)"),
        ),
        ("{}}", 4, "{}", Some("text after the root, at `}` (byte 2)")),
    ] {
        check_closed(text, code, part, error);
    }
    for before in ["**Answer:** ", "[1] Smith 2019\n\n"] {
        check_closed(
            &format!("{before}{{\"a\": 1}}\nBye."),
            0,
            "{\"a\": 1}",
            None,
        );
        check_closed(&format!("{before}{{\"a\": [1, 2"), 3, "{\"a\": [1]}", None);
    }
}

/// The first root alone would be taken for the whole answer.
#[test]
fn inspect_closes_the_later_root_that_is_cut() {
    let first = "{\"type\": \"object\"}";
    for (after, closed) in [
        ("\n{\"a\": 2, \"c\": [", "{\"a\": 2, \"c\": []}"),
        ("\n{\"a\": 2}\n{\"a\": \"x", "{\"a\": \"x\"}"),
        (" {\"b\": 2, \"c", "{\"b\": 2}"),
        (
            "\n\nAnswer:\n{\"summary\": \"Use it\", \"items\": [{\"id\": 1, \"na",
            "{\"summary\": \"Use it\", \"items\": [{\"id\": 1}]}",
        ),
        (
            "\n\nAll of it:\n```json\n[{\"id\": 1}, {\"id\"",
            "[{\"id\": 1}, {}]",
        ),
    ] {
        check_closed(&format!("{first}{after}"), 3, closed, None);
    }
    // An example in a sentence after the answer.
    let error = Some("the text is cut in another root");
    check_closed(&format!("{first}\n\nAs in: {{\"a\": [1"), 3, first, error);
    for after in [
        "\n{\"a\": 2}\n",
        "\n\nUse {x} or [1, see [the docs",
        "\n```js\nf({\n",
    ] {
        check_closed(&format!("{first}{after}"), 0, first, None);
    }
}

#[test]
fn inspect_and_stitch_name_the_other_roots() {
    let text = b"{\"a\": 1} {\"b\": 2}";
    for command in ["inspect --close", "parse"] {
        let ran = pipe(command, text);
        ran.gives(0, "{\"a\": 1}");
        ran.err.has("left out 1 further root");
    }
    let ran = pipe("stitch", text);
    ran.gives(0, "{\"a\": 1}");
    ran.err.has("left out 1 further root");
    let text = b"Schema: {\"type\": \"object\"}\n\n{\"rows\": [1, 2]}";
    for command in ["inspect --json", "stitch --json"] {
        let ran = pipe(command, text);
        assert_eq!(
            ran.answers()[0]["others"],
            json!(["{\"type\": \"object\"}"])
        );
        ran.exits(0);
    }
    pipe("stitch", text).gives(0, "{\"rows\": [1, 2]}");
}

#[test]
fn inspect_says_where_a_text_is_malformed_or_cut() {
    let (folder, _) = all_files();
    let ran = shell_in(&folder, "inspect --close bad");
    ran.gives(4, "{\"a\": [1]}");
    assert_eq!(
        ran.err,
        "restitch: bad: invalid number at `1`, line 1, column 12 (byte 11), at /a/1: `{\"a\": [1, 0→1]}`\n"
    );
    let ran = shell_in(&folder, "inspect --close cut");
    assert_eq!(ran.err, "restitch: cut: cut at byte 26, in escape\n");
    let ran = shell_in(&folder, "inspect missing");
    ran.gives(1, "");
    ran.err.begins("restitch: missing: ");
}

/// The three commands keep the same part of a text with a mistake, and none is silent about the
/// mistake.
#[test]
fn a_mistake_is_told_by_all_commands() {
    for (text, json, words) in [
        ("[01", "[]", "invalid number at `1`"),
        ("{\"a\": [1, 01]}", "{\"a\": [1]}", "invalid number at `1`"),
        ("[1}", "[]", "`}` closes nothing that is open here"),
        (
            "[1] Smith, J. Harbours. 2019.",
            "",
            "there is no JSON in the text",
        ),
    ] {
        for args in [&["inspect", "--close"][..], &["stitch"]] {
            let ran = run(Path::new("."), args, text.as_bytes());
            ran.gives(4, json);
            ran.err
                .of(format!("{args:?} {text}"))
                .has(format!("restitch: -: {words}"));
        }
        for command in ["inspect", "stitch"] {
            for (flag, input) in [("--json", text.to_owned()), ("--jsonl", line(text))] {
                let ran = run(Path::new("."), &[command, flag], input.as_bytes());
                let answer = &ran.answers()[0];
                let is_told = |error: &str| error.starts_with(words);
                assert!(
                    ran.code == 4 && answer["error"].as_str().is_some_and(is_told),
                    "{command} {flag} {text}: {answer}"
                );
                assert!(command == "inspect" || answer["json"] == json, "{answer}");
            }
        }
        pipe("check", text.as_bytes()).exits(4);
    }
    // A cut text contains no mistake, so no command reports one.
    for command in ["stitch", "inspect"] {
        let ran = run(Path::new("."), &[command, "--json"], b"[0, \"a");
        assert!(
            ran.code == 3 && ran.answers()[0].get("error").is_none(),
            "{command}: {}",
            ran.out
        );
    }
    // Nothing is joined to a mistake.
    let folder = folder("mistake", &[("first", b"[1, x"), ("second", b", 2]")]);
    let ran = shell_in(&folder, "stitch first second");
    ran.gives(4, "[1]");
    ran.err
        .ends("restitch: the first part has a mistake: closed before it\n");
}

/// A line that asks `inspect` or `stitch` about one text.
fn line(text: &str) -> String {
    json!({"text": text, "parts": [text]}).to_string()
}

/// A text is cut wherever it ends, also before its first byte and inside a character.
#[test]
fn an_early_end_has_one_exit_code() {
    let commands = [
        &["check"][..],
        &["inspect"],
        &["stitch"],
        &["paths", "/0"],
        &["repair"],
        &["parse"],
    ];
    for (text, code) in [
        (&b""[..], 3),
        (b" \n", 3),
        (b"tr", 3),
        (b"[\"caf\xc3", 3),
        (b"{\"\xf0\x9f\x98", 3),
        // No character may follow here.
        (b"[1, \xc3", 4),
        (b"\xc3", 4),
        (b"[\"a\xff\", \"caf\xc3", 4),
    ] {
        for args in commands {
            // The two change texts, and a character that is out of place is one of the changes.
            if code == 4 && matches!(args[0], "repair" | "parse") {
                continue;
            }
            let ran = run(Path::new("."), args, text);
            ran.exits(code);
        }
    }
    for command in ["inspect", "stitch", "repair"] {
        let ran = run(Path::new("."), &[command, "--json"], b"[\"caf\xc3");
        ran.exits(3);
        assert_eq!(ran.answers()[0]["removed_bytes"], 1);
        ran.err
            .of(command)
            .has("restitch: -: cut inside a character: removed 1 byte\n");
    }
    // Half a character may be whole with the next part. If it is not, it is never dropped in
    // silence.
    let halves = [
        ("first", &b"[\"caf\xc3"[..]),
        ("rest", b"\xa9\"]"),
        ("other", b"\"]"),
        ("blank", b""),
    ];
    let folder = folder("halves", &halves);
    for (next, code, out) in [
        ("rest", 0, "[\"café\"]"),
        ("other", 3, "[\"caf\"]"),
        ("blank", 3, "[\"caf\"]"),
    ] {
        let ran = run(
            &folder,
            &["stitch", "--expect", "exact", "first", next],
            b"",
        );
        ran.gives(code, out);
    }
    shell_in(&folder, "stitch --text first").exits(3);
    shell_in(&folder, "stitch --text blank").exits(3);
}

/// Bytes that are not UTF-8 are removed, but never in silence.
#[test]
fn bytes_that_are_not_utf_8_are_reported() {
    let (folder, _) = all_files();
    let words = "restitch: latin: not UTF-8: removed 1 byte\n";
    let ran = shell_in(&folder, "inspect --close latin");
    ran.is(4, "[\"caf\"]", words);
    let ran = shell_in(&folder, "inspect --json latin");
    ran.exits(4);
    assert_eq!(ran.answers()[0]["removed_bytes"], 1);
    assert_eq!(ran.err.as_str(), words);
    assert_eq!(shell_in(&folder, "inspect latin").err, words);
    for format in [&[][..], &["--text"]] {
        let ran = run(
            &folder,
            &[&["stitch", "--json", "latin"], format].concat(),
            b"",
        );
        ran.exits(4);
        assert_eq!(ran.answers()[0]["removed_bytes"], 1);
        assert_eq!(ran.err.as_str(), words);
    }
    // Where nothing was removed there is no such member.
    let ran = shell_in(&folder, "inspect --json good");
    assert_eq!(ran.answers()[0].get("removed_bytes"), None);
}

#[test]
fn inspect_takes_several_files() {
    let (folder, _) = all_files();
    let ran = shell_in(&folder, "inspect --close good cut");
    ran.gives(3, "{\"a\": [1, \"é\"]}\n{\"items\": [1, {\"k\": \"v\"}]}\n");
    let ran = shell_in(&folder, "inspect --json number missing bad");
    let answers = ran.answers();
    ran.exits(1);
    assert_eq!(answers[0]["file"], "number");
    assert_eq!(answers[2]["file"], "bad");
    assert_eq!(
        answers[1],
        json!({"file": "missing", "error": "can't be read"})
    );
    let ran = shell_in(&folder, "inspect number cut");
    ran.out.begins("text             number\ncut ");
    ran.out.has("\ntext             cut\n");
    shell_in(&folder, "inspect - -").exits(2);
}

#[test]
fn data_goes_to_a_file() {
    let (folder, _) = all_files();
    let written = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    for (args, code, text) in [
        (
            &["inspect", "--close", "cut"][..],
            3,
            "{\"items\": [1, {\"k\": \"v\"}]}",
        ),
        (&["stitch", "cut"], 3, "{\"items\": [1, {\"k\": \"v\"}]}"),
        (&["check", "good"], 0, "good: complete, 18 bytes\n"),
        (
            &["paths", "/a/0", "-f", "good"],
            0,
            "{\"pattern\":\"/a/0\",\"path\":\"/a/0\",\"value\":1}\n",
        ),
        (&["config", "show"], 0, ""),
    ] {
        let ran = run(&folder, &[args, &["-o", "out"]].concat(), b"");
        ran.gives(code, "");
        written("out").of(args).begins(text);
    }
    // `inspect` may replace its input file, which it reads whole. A command that reads piece by piece
    // may not write to its input.
    shell_in(&folder, "inspect --close cut -o cut").exits(3);
    assert_eq!(written("cut"), "{\"items\": [1, {\"k\": \"v\"}]}");
    let ran = shell_in(&folder, "paths /a good -o ./good");
    ran.exits(2);
    assert_eq!(written("good").as_bytes(), FILES[0].1);
    // Where nothing is written no file is made.
    shell_in(&folder, "inspect --close prose -o none").exits(4);
    assert!(!folder.join("none").exists());
    let ran = shell_in(&folder, "inspect good -o no/such/folder");
    ran.gives(1, "");
    ran.err
        .begins("restitch: cannot write the output: no/such/folder: ");
}

#[test]
fn quiet_reports_failures_only() {
    let (folder, _) = all_files();
    for (args, code, is_quiet) in [
        (&["inspect", "--close", "cut"][..], 3, true),
        (&["inspect", "bad"], 4, true),
        (&["inspect", "latin"], 4, true),
        (&["stitch", "--explain", "cut", "prose"], 3, true),
        (&["check", "missing"], 1, false),
        (&["stitch", "-", "-"], 2, false),
    ] {
        for args in [[&["-q"], args].concat(), [args, &["--quiet"]].concat()] {
            let ran = run(&folder, &args, b"");
            ran.exits(code);
            assert_eq!(ran.err.is_empty(), is_quiet);
        }
    }
    shell_in(&folder, "-q -v check good").exits(2);
}

#[test]
fn inspect_shows_the_cut() {
    let check_json = |text: &str, code, wanted: &str| {
        let ran = pipe("inspect --json", text.as_bytes());
        assert_eq!((ran.code, ran.out.lines().count()), (code, 1), "{text:?}");
        let (found, wanted) = (
            ran.answers().remove(0),
            serde_json::from_str::<Value>(wanted).unwrap(),
        );
        for (key, wanted) in wanted.as_object().unwrap() {
            assert_eq!(&found[key], wanted, "{text:?}: {key}");
        }
    };
    check_json(
        "{\"items\": [1, {\"k~/\": \"v\\u00",
        3,
        r#"{"cut":{"offset":28,"path":"/items/1/k~0~1","in":"escape"},"overlap_context":"{\"items\": [1, {\"k~/\": \"v\\u00","ambiguous":false,"complete_part":"{\"items\": [1, {\"k~/\": \"v\"}]}","json_parsing_success":true,"complete":false}"#,
    );
    check_json(
        "[1]",
        0,
        r#"{"cut":{"offset":3,"path":"","in":"done"},"overlap_context":"","ambiguous":false,"complete_part":"[1]","json_parsing_success":true,"complete":true}"#,
    );
    check_json(
        "",
        3,
        r#"{"cut":{"offset":0,"path":"","in":"start"},"overlap_context":"","ambiguous":false,"complete_part":"","json_parsing_success":false,"complete":false}"#,
    );
    check_json(
        "{\"a\": x}",
        4,
        r#"{"cut":{"offset":6,"path":"/a","in":"value"},"overlap_context":"{\"a\":","ambiguous":false,"complete_part":"{}","json_parsing_success":true,"complete":false}"#,
    );
    check("inspect --json --budget 1", "{\"a\": 7, \"b\": [\"x\", \"tw", 3, &r#"{"cut":{"offset":23,"path":"/b/1","in":"string"},"overlap_context":T,"ambiguous":false,"complete_part":"{\"a\": 7, \"b\": [\"x\", \"tw\"]}","json_parsing_success":true,"hierarchy_context":T,"hierarchy_context_for_prompt":"{\"a\": …, \"b\": [<str>, \"…w","delivered_summary":"- a\n- b with 1 b (incomplete)","cut_off_element":"\"tw","element_before_cutoff":"\"x\"","last_raw_json":T,"kpi_question":"Based on the delivered data so far, approximately what percentage (%) of the total required content has been delivered? Respond outside of the JSON, with one line `PROGRESS: n`, where n is an integer between 0-100.","complete":false}
"#.replace(":T,", r#":"{\"a\": 7, \"b\": [\"x\", \"tw","#));
    let zeros = format!("[{}", "0,".repeat(3000));
    let ran = pipe("inspect --json", zeros.as_bytes());
    ran.exits(3);
    assert_eq!(ran.answers()[0]["ambiguous"], true);
    check(
        "inspect",
        "[\"a\n",
        4,
        "text             -\ncut              byte 3, in `string`\npath             /0\ncomplete part    5 bytes: [\"a\"]\n\
         overlap context  [\"a\nambiguous        no\ncomplete         no\n",
    );
    // What people read stays on its line and in the terminal, whatever a text holds.
    let text = format!("{{\"k\\u001b[2J\\n\": \"{}", "é".repeat(500));
    let ran = pipe("inspect", text.as_bytes());
    assert_eq!((ran.code, ran.out.lines().count()), (3, 7));
    ran.out.has("path             /k\\u{1b}[2J\\n\n");
    ran.out.has("1020 bytes: …éé");
}

#[test]
fn stitch_joins_parts() {
    let parts: [(&str, &[u8]); 6] = [
        ("first", b"{\"title\": \"caf\xc3"),
        ("second", b"\xa9\", \"list\": [1, 2"),
        ("refusal", b"I'm sorry, but I can't help with that."),
        (
            "fence",
            b"Sure:\n```json\n{\"title\": \"caf\xc3\xa9\", \"list\": [1, 2, 3]}\n```",
        ),
        ("exact", b", 3]}"),
        ("empty", b""),
    ];
    let folder = folder("stitch", &parts);
    let whole = "{\"title\": \"café\", \"list\": [1, 2, 3]}";

    let ran = shell_in(&folder, "stitch first second exact");
    ran.gives(0, whole);
    assert_eq!(ran.err.lines().count(), 2, "{}", ran.err);
    ran.err
        .begins("restitch: seam at byte 14: exact, 0 bytes repeated\n");

    let ran = shell_in(&folder, "stitch --json first second refusal exact");
    let reasons = [
        "the fragment fits nowhere",
        "a part before the fragment was skipped, and no repeated text proves where it belongs",
    ];
    let mut answer = ran.answers().remove(0);
    let seam = answer["seams"][0].take();
    assert_eq!(seam["offset"], 14);
    assert_eq!(seam["overlap"], 0);
    assert_eq!(seam["alignment"], "exact");
    assert_eq!(seam["path"], "/title");
    assert!((0.0..=1.0).contains(&seam["posterior"].as_f64().unwrap()));
    assert_eq!(
        answer,
        json!({
            "status": "closed", "json": "{\"title\": \"café\", \"list\": [1]}", "seams": [null],
            "failed": [{"part": 3, "reason": reasons[0]}, {"part": 4, "reason": reasons[1]}],
        })
    );
    let ran = shell_in(&folder, "stitch --json first second refusal fence");
    assert_eq!((ran.code, &ran.answers()[0]["json"]), (0, &json!(whole)));
    assert_eq!(ran.answers()[0]["failed"][0]["part"], 3);
    // The requested anchor is after a preamble and a fence.
    let ran = shell_in(&folder, "stitch --expect anchor --json first second fence");
    assert_eq!((ran.code, &ran.answers()[0]["json"]), (0, &json!(whole)));
    let seam = &ran.answers()[0]["seams"][1];
    assert_eq!(seam["offset"], 32);
    assert_eq!(seam["overlap"], 32);
    assert_eq!(seam["alignment"], "anchor");
    assert_eq!(seam["posterior"], 1.0);
    // Standard input is a part, too.
    let ran = run(
        &folder,
        &["stitch", "--expect", "exact", "first", "-", "exact"],
        parts[1].1,
    );
    ran.gives(0, whole);
    let ran = run(&folder, &["stitch", "--json"], b"[1, 2");
    ran.gives(
        3,
        "{\"status\":\"closed\",\"json\":\"[1]\",\"seams\":[],\"failed\":[]}\n",
    );
    for (args, code) in [
        (&["stitch", "empty"][..], 3),
        (&["stitch", "refusal"], 4),
        (&["stitch", "first", "missing"], 1),
        (&["stitch", "-", "-"], 2),
        (&["stitch", "--expect", "hope", "first"], 2),
    ] {
        let ran = run(&folder, args, b"");
        ran.gives(code, "");
        assert!(!ran.err.is_empty());
    }
}

/// A candidate without its bits, after a check that each is a number.
fn unscored(candidate: &Value) -> Value {
    let mut members = candidate.as_object().unwrap().clone();
    for bits in ["prior", "surprise", "misfit", "posterior"] {
        assert!(
            members.remove(bits).is_some_and(|bits| bits.is_number()),
            "{bits} of {candidate}"
        );
    }
    members.into()
}

/// Explains both readings of an ambiguous part, and a part that broke off after its seam.
#[test]
fn stitch_explains_in_json() {
    let parts = |first: &str, second: &str| json!({"parts": [first, second]}).to_string() + "\n";
    let lines = parts(
        r#"[{"id": 1}, {"id": 2}"#,
        r#"{"id": 2}, {"name": "a name as long as it takes"}]"#,
    ) + &parts("[1, 2,", ", 3, x]");
    let ran = pipe("stitch --explain --jsonl", lines.as_bytes());
    let [ambiguous, broken] = &ran.answers()[..] else {
        panic!("{}", ran.out)
    };
    let reason = "the fragment fits in two places, and nothing decides between them";
    assert_eq!(ambiguous["seams"], json!([]));
    assert_eq!(ambiguous["failed"], json!([{"part": 2, "reason": reason}]));
    let explanation = &ambiguous["explanations"][0];
    assert_eq!(
        explanation["cut"],
        json!({"offset": 21, "path": "", "in": "after_value"})
    );
    assert_eq!(explanation["failure"], json!(reason));
    let candidates = explanation["candidates"].as_array().unwrap();
    let reading = |alignment: &str| {
        candidates
            .iter()
            .find(|candidate| candidate["alignment"] == alignment)
            .unwrap()
    };
    assert_eq!(
        unscored(reading("exact")),
        json!({
            "alignment": "exact", "start": "cut", "from": 21, "path": "", "overlap": 0, "at": 0,
            "status": "open", "adds": r#"{"id": 2}, {"name": "a name as long as i"#,
        })
    );
    assert_eq!(
        unscored(reading("reentry")),
        json!({
            "alignment": "reentry", "start": "rerooted", "from": 12, "path": "/1", "overlap": 9, "at": 10,
            "status": "open", "adds": r#" {"name": "a name as long as it takes"}]"#,
        })
    );

    let mut explanation = broken["explanations"][0].clone();
    assert_eq!(
        unscored(&explanation["candidates"].take()[0]),
        json!({
            "alignment": "exact", "start": "cut", "from": 6, "path": "/2", "overlap": 0, "at": 0,
            "status": "won", "adds": ", 3, x]",
        })
    );
    let seam = explanation["seam"].take();
    let posterior = seam["posterior"].as_f64().unwrap();
    assert!(posterior > 0.999 && posterior < 1.0, "{posterior}");
    assert_eq!((&seam["offset"], &seam["decided"]), (&json!(6), &json!(3)));
    let reason = "malformed after the seam: unexpected `x` (byte 10)";
    assert_eq!(
        explanation,
        json!({
            "part": 2, "after_gap": false, "expect": "any", "cut": {"offset": 6, "path": "/2", "in": "value"},
            "anchor": {"length": 6, "ambiguous": false}, "candidates": null, "unlisted": 0,
            "is_crowded": false, "pending": 3, "seam": null, "failure": reason,
            "repairs": [{"rule": "comma_dropped", "offset": 6}],
        })
    );
    assert_eq!(broken["failed"], json!([{"part": 2, "reason": reason}]));
}

/// The guides show the output that the commands print.
#[test]
fn the_pages_show_what_is_said() {
    let pages = [
        (
            "seam",
            include_str!("../../../../docs/internals/seam.md"),
            1,
        ),
        (
            "contexts",
            include_str!("../../../../docs/internals/contexts.md"),
            1,
        ),
        ("shapes", include_str!("../../../../docs/shapes.md"), 2),
    ];
    for (name, page, count) in pages {
        let folder = folder(&format!("{name}-page"), &[]);
        let mut shown = 0;
        for block in page.split("```console\n").skip(1) {
            let (block, _) = block.split_once("\n```").unwrap();
            for said in block.split("$ ").filter(|said| !said.is_empty()) {
                let (command, said) = said.split_once('\n').unwrap();
                if let Some(written) = command.strip_prefix("printf %s '") {
                    let (text, name) = written.split_once("' > ").unwrap();
                    fs::write(folder.join(name), text).unwrap();
                    continue;
                }
                let args: Vec<&str> = command
                    .strip_prefix("restitch ")
                    .unwrap()
                    .split(' ')
                    .collect();
                let ran = run(&folder, &args, b"");
                assert_eq!(
                    (ran.err + &ran.out).trim_end(),
                    said.trim_end(),
                    "{command}"
                );
                shown += 1;
            }
        }
        assert_eq!(shown, count, "{name}");
    }
}

#[test]
fn stitch_replaces_what_is_contradicted() {
    let parts: [(&str, &[u8]); 2] = [
        ("first", b"[{\"a\": 1, \"b\": \"on"),
        ("second", b"[{\"a\": 1, \"b\": \"two\"}]"),
    ];
    let folder = folder("rewind", &parts);
    let ran = shell_in(&folder, "stitch first second");
    ran.gives(3, "[{\"a\": 1, \"b\": \"on\"}]");
    let ran = shell_in(&folder, "stitch --rewind first second");
    ran.gives(0, "[{\"a\": 1, \"b\": \"two\"}]");
    assert!(
        ran.err.lines().any(|line| line == "restitch: replaced: /0"),
        "{}",
        ran.err
    );
    let ran = shell_in(&folder, "stitch --rewind --json first second");
    assert_eq!(ran.answers()[0]["rewound"], json!(["/0"]));
    assert_eq!(ran.answers()[0]["failed"], json!([]));
}

#[test]
fn stitch_joins_text() {
    let parts: [(&str, &[u8]); 4] = [
        ("first", b"# Rain\n\nIt fell in tor"),
        ("second", b"Sure:\n\n# Rain\n\nIt fell in torrents.\n"),
        ("refusal", b"I can't help with that."),
        ("exact", b"rents.\n"),
    ];
    let folder = folder("text", &parts);
    let whole = "# Rain\n\nIt fell in torrents.\n";
    let ran = shell_in(&folder, "stitch --text first second");
    ran.gives(0, whole);
    assert_eq!(
        ran.err,
        "restitch: seam at byte 22: anchor, 22 bytes repeated\n"
    );
    let ran = shell_in(&folder, "stitch --text --expect exact first exact");
    ran.gives(0, whole);
    let ran = shell_in(&folder, "stitch --text first refusal second");
    ran.gives(3, whole);
    let ran = run(&folder, &["stitch", "--text", "-"], b" ");
    ran.exits(3);
    let ran = shell_in(&folder, "stitch --text --rewind first");
    ran.exits(2);
    let line = r#"{"id": 1, "parts": ["One t", "One two"]}"#;
    let ran = run(&folder, &["stitch", "--text", "--jsonl"], line.as_bytes());
    ran.exits(0);
    assert_eq!(ran.answers()[0]["text"], "One two");
}

const LINES: &str = r#"{"id": 1, "text": "[1, 2"}

{"text": "\ud83d[\"\ud83d\ude00\ud83d\"]", "id": {"a": [null, "\ud83d", 1.50]}}
nonsense
{"id": "x", "txt": ""}
[1]
{"text": "[1}"}
{"id": 2, "text": "[1"#;

#[test]
fn lines_are_answered_one_by_one() {
    let id = r#"{"a": [null, "\ud83d", 1.50]}"#;
    let errors = r#"{"id":null,"error":"line 4: invalid literal at `o` (byte 1)"}
{"id":"x","error":"line 5: there is no string `text`"}
{"id":null,"error":"line 6: not a whole JSON object"}
"#;
    let last = "{\"id\":null,\"error\":\"line 8: not a whole JSON object\"}\n";
    let out = format!(
        "{{\"id\":1,\"valid\":true,\"complete\":false,\"offset\":5,\"line\":1,\"column\":6,\"path\":\"/1\"}}\n\
         {{\"id\":{id},\"valid\":true,\"complete\":true,\"offset\":8,\"line\":1,\"column\":6,\"path\":\"\"}}\n\
         {errors}\
         {{\"id\":null,\"valid\":false,\"complete\":false,\"offset\":2,\"line\":1,\"column\":3,\"path\":\"/0\",\"error\":\"`}}` closes nothing that is open here\"}}\n\
         {last}"
    );
    let lines = LINES.replacen("nonsense", "nonsense\r", 1);
    check("check --jsonl", &lines, 4, &out);
    // An id that came as half a character goes back so, and the tests' own reader would refuse it.
    let ran = pipe("inspect --jsonl", LINES.replace(id, "0").as_bytes());
    let paths: Vec<Value> = ran
        .answers()
        .iter()
        .map(|answer| answer["cut"]["path"].clone())
        .collect();
    assert_eq!(
        json!(paths),
        json!(["/1", "", null, null, null, "/0", null])
    );
    ran.err.has("line 3: removed 2 halves of surrogate pairs");

    check("check --jsonl", "", 0, "");
    let ran = pipe(
        "check --jsonl",
        b"{\"text\": \"\xff\"}\n{\"id\":9,\"text\":\"1\"}\n",
    );
    assert_eq!(
        ran.answers()[0],
        json!({"id": null, "error": "line 1: not UTF-8 (byte 10)"})
    );
    assert_eq!((ran.code, &ran.answers()[1]["complete"]), (4, &json!(true)));
    shell("check --jsonl file").exits(2);
}

#[test]
fn stitch_answers_lines() {
    let lines = r#"{"id":1,"parts":["[1, 2",", 3]"],"expect":"exact"}
{"id":2,"parts":["[\"\ud83d","\ude00\"]"]}
{"id":3,"parts":[],"expect":null}
{"id":4,"parts":["[",1]}
{"id":5,"parts":["["],"expect":"luck"}
{"id":6,"expect":"any"}
{"id":7,"parts":["["],"expect":1}
"#;
    let ran = pipe("stitch --jsonl", lines.as_bytes());
    let answers = ran.answers();
    assert_eq!((ran.code, answers.len()), (4, 7), "{}", ran.err);
    for (at, status, json, ambiguous) in [
        (0, "complete", "[1, 2, 3]", json!(false)),
        (1, "complete", "[\"😀\"]", json!(true)),
        (2, "failed", "", Value::Null),
    ] {
        let answer = &answers[at];
        assert_eq!(answer["id"], json!(at + 1));
        assert_eq!(answer["status"], json!(status));
        assert_eq!(answer["json"], json!(json));
        assert_eq!(answer["seams"][0]["ambiguous"], ambiguous, "{answer}");
    }
    for (at, error) in [
        (3, "line 4: not all of `parts` are strings"),
        (4, "line 5: `expect` is anchor, exact or any"),
        (5, "line 6: there is no array `parts`"),
        (6, "line 7: `expect` is no string"),
    ] {
        assert_eq!(answers[at], json!({"id": at + 1, "error": error}));
    }
    // It was asked for.
    assert_eq!(answers[0]["seams"][0]["posterior"], json!(1.0));
}

#[test]
fn a_line_is_answered_before_the_next_one_comes() {
    let mut child = start(Path::new("."), &["check", "--jsonl"]);
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, answers) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(output)
            .lines()
            .try_for_each(|line| sender.send(line.unwrap()))
    });
    for id in 0..3 {
        writeln!(input, "{{\"id\": {id}, \"text\": \"[]\"}}").unwrap();
        answers
            .recv_timeout(LONG)
            .unwrap()
            .begins(format!("{{\"id\":{id},"));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_that_leaves_ends_a_command_quietly() {
    for (args, text, code) in [
        // The first answer meets the closed pipe. The verdict on its line counts.
        (["inspect", "--jsonl"], "{\"text\": \"[1, 2\"}\n", 3),
        (["paths", "/*"], "[1, 2, ", 0),
    ] {
        let mut child = start(Path::new("."), &args);
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        let mut words = String::new();
        let mut errors = child.stderr.take().unwrap();
        errors.read_to_string(&mut words).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{args:?}");
        assert_eq!(words, "", "{args:?}");
        drop(input);
    }
}

/// An event with a delta of the first answer.
pub(crate) fn event(members: &str) -> String {
    format!(
        "data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,{members}}}]}}\n\n"
    )
}

/// All commands.
const COMMANDS: [&str; 13] = [
    "demo", "proxy", "run", "doctor", "sim", "stitch", "inspect", "repair", "parse", "check",
    "paths", "config", "pages",
];

#[test]
fn help_has_examples() {
    for command in COMMANDS.into_iter().filter(|command| *command != "config") {
        let ran = run(Path::new("."), &[command, "--help"], b"");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let (_, examples) = ran.out.split_once("Examples:\n").unwrap();
        examples.of(command).has(format!("restitch {command}"));
        ran.out.has("-h, --help");
    }
    let ran = shell("--help");
    ran.out.has("Exit codes:").has("Examples:");
    ran.out.has("-q, --quiet").has("--color <WHEN>");
    let listed = |command: &&&str| ran.out.contains(&format!("\n  {command} "));
    assert_eq!(COMMANDS.iter().filter(listed).count(), 13);
    for args in [
        &[][..],
        &["nonsense"],
        &["check", "--nonsense"],
        &["inspect", "--budget", "x"],
        &["run", "a", "b"],
    ] {
        let ran = run(Path::new("."), args, b"");
        ran.gives(2, "");
    }
}

/// Runs a command with environment variables.
fn run_with(env: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
    command.args(args).envs(env.iter().copied());
    Ran::of(
        command
            .env_remove("RESTITCH_CORPUS")
            .env_remove("RESTITCH_TABLES")
            .stdin(Stdio::null()),
    )
}

#[test]
fn the_version_says_what_was_built() {
    let ran = shell("--version");
    let (first, features) = ran.out.split_once('\n').unwrap();
    first.begins(concat!("restitch ", env!("CARGO_PKG_VERSION")));
    assert!(
        features.contains("redis") == cfg!(feature = "redis"),
        "{features}"
    );
    features.begins("features: ");
    let ran = shell("-V");
    assert_eq!(
        ran.out,
        concat!("restitch ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn completions_and_manual_pages_know_the_commands() {
    let folder = folder("pages", &[]);
    shell_in(&folder, "pages made").exits(0);
    let written = |name: &str| fs::read_to_string(folder.join("made").join(name)).unwrap();
    for name in [
        "restitch.bash",
        "_restitch",
        "restitch.fish",
        "restitch.elv",
        "_restitch.ps1",
    ] {
        let script = written(name);
        script.of(name).has("stitch").has("rewind");
    }
    for (name, title) in [
        ("restitch.1", ".TH restitch 1"),
        ("restitch-stitch.1", ".TH restitch-stitch 1"),
        ("restitch-config-show.1", ".TH restitch-config-show 1"),
    ] {
        written(name).of(name).has(title);
    }
    let ran = shell_in(&folder, "pages made/restitch.1/folder");
    ran.exits(1);
    ran.err.has("made/restitch.1/folder: ");
}

#[test]
fn the_demo_fits_a_screen() {
    let ran = run_with(&[], &["demo"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.lines().count() <= 40, "{}", ran.out);
    assert!(
        ran.out.lines().all(|line| line.chars().count() <= 80),
        "{}",
        ran.out
    );
    ran.out.has("no JSON, it ends too early").has("valid JSON");
    let ran = run_with(&[], &["demo", "--script", "answer@50!length | refusal"]);
    ran.exits(4);
    ran.out.has("is not the document");
}

#[test]
fn colors_follow_the_environment_and_the_flag() {
    for (env, flags, has_colors) in [
        (&[][..], &[][..], false),
        (&[("CLICOLOR_FORCE", "1")], &[], true),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &[], false),
        (&[("CLICOLOR_FORCE", "1")], &["--color", "never"], false),
        (&[("NO_COLOR", "1")], &["--color=always"], true),
    ] {
        let ran = run_with(env, &[&["demo"], flags].concat());
        ran.exits(0);
        assert_eq!(ran.out.contains("\u{1b}["), has_colors, "{env:?} {flags:?}");
    }
}

#[test]
fn sim_refuses_a_document_that_no_model_could_write() {
    let (folder, _) = all_files();
    for (file, code, words) in [
        ("empty", 4, "empty: the document is empty"),
        ("cut", 3, "cut: the document is cut at byte 26"),
        ("bad", 4, "bad: invalid number"),
        ("latin", 4, "latin: not UTF-8: removed 1 byte"),
        ("missing", 1, "missing: "),
    ] {
        let ran = run(
            &folder,
            &["sim", "--listen", "127.0.0.1:0", "--document", file],
            b"",
        );
        ran.gives(code, "");
        ran.err.of(file).has(words);
    }
}

#[cfg(unix)]
#[test]
fn sim_serves_until_it_is_told_to_end() {
    let folder = folder("sim", &[("document", b"[1, 2, 3]")]);
    let args = [
        "sim",
        "--listen",
        "127.0.0.1:0",
        "--document",
        "document",
        "--script",
        "answer@5",
        "--chunk",
        "2",
    ];
    let mut child = start(&folder, &args);
    let mut words = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    words.read_line(&mut line).unwrap();
    let address = line
        .strip_prefix("restitch: listening on http://")
        .and_then(|rest| rest.split('/').next())
        .unwrap();

    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Go"}]}"#;
    let head =
        "POST /v1/chat/completions HTTP/1.0\r\nhost: sim\r\ncontent-type: application/json\r\n";
    write!(socket, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    let (head, stream) = reply.split_once("\r\n\r\n").unwrap();
    head.begins("HTTP/1.0 200");
    check("paths --raw /0", stream, 3, "1\n");

    // A second one can't have its port.
    let ran = run(&folder, &["sim", "--listen", address], b"");
    ran.gives(1, "");
    assert!(
        Command::new("kill")
            .arg(child.id().to_string())
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(0));
    shell_in(&folder, "sim --document missing").exits(1);
    shell_in(&folder, "sim --script dance").exits(2);
}

/// Runs one command on standard input, and compares its notes, too.
#[track_caller]
pub(crate) fn check_all(line: &str, stdin: impl AsRef<[u8]>, code: i32, out: &str, err: &str) {
    pipe(line, stdin).is(code, out, err);
}

#[test]
fn repair_writes_the_json() {
    check_all("repair", "{\"a\": 1}\n", 0, "{\"a\": 1}", "");
    check_all("repair", "Here: {\"a\": 1}.", 0, "{\"a\": 1}", "");
    check_all("repair", "{\"a\": 1},", 0, "{\"a\": 1}", "");
    check_all(
        "repair --log",
        "{\"a\": 1},",
        0,
        "{\"a\": 1}",
        "restitch: -: line 1, column 9: extra_comma: `,` -> ``\n",
    );
    check_all(
        "repair",
        "[1, [2",
        3,
        "[1, [2]]",
        "restitch: -: the text ends before its root is closed\n",
    );
    check_all(
        "repair",
        "",
        3,
        "",
        "restitch: -: the text ends before its root is closed\n",
    );
    check_all(
        "repair",
        "No.",
        4,
        "",
        "restitch: -: there is no JSON in the text\n",
    );
    // Members without brackets: a member's value is not the root.
    check_all(
        "repair",
        "\"f\": 1, \"o\": {\"a\": 1}",
        4,
        "",
        "restitch: -: there is no JSON in the text\n",
    );
    let ran = pipe("repair --level strict -q", b"[1, 01]");
    ran.is(4, "[1, 0]", "");
    check_all("repair --without extra_comma -q", "{},", 4, "{}", "");
    shell("repair --without commas").exits(2);
}

#[test]
fn repair_only_checks() {
    for (text, code) in [
        ("{}", 0),
        ("```\n{}\n```", 0),
        ("{},", 5),
        ("[1, 2", 3),
        ("No.", 4),
        ("", 3),
    ] {
        let ran = pipe("repair --check", text.as_bytes());
        ran.gives(code, "");
    }
    let folder = folder("repair-check", &[("a", b"{},"), ("b", b"{}")]);
    shell_in(&folder, "repair --check a b").exits(5);
    assert_eq!(shell_in(&folder, "repair a b").out, "{}\n{}\n");
}

#[test]
fn repair_answers_in_json() {
    let row = r#"{"status":"repaired","json":"{}","repairs":[{"rule":"extra_comma","level":"syntax","range":[2,3],"original":",","replacement":"","path":""}],"others":[]}"#;
    check_all("repair --json", "{},", 0, &format!("{row}\n"), "");
    let lines = "{\"id\":\"a\",\"text\":\"{},\"}\n{\"id\":2,\"text\":\"[1] [2]\"}\n";
    let second = r#"{"id":2,"status":"valid","json":"[1]","repairs":[],"others":[{"status":"valid","json":"[2]","range":[4,7]}]}"#;
    check(
        "repair --jsonl",
        lines,
        0,
        &format!("{}\n{second}\n", row.replacen('{', "{\"id\":\"a\",", 1)),
    );
    check(
        "repair --json",
        "x",
        4,
        "{\"status\":\"malformed\",\"json\":\"\",\"repairs\":[],\"others\":[],\"error\":\"unexpected `x` (byte 0)\"}\n",
    );
}

#[test]
fn a_schema_is_checked() {
    let folder = folder(
        "schema",
        &[
            ("schema", b"{\"type\": \"array\"}"),
            ("bad", b"{\"type\": 1}"),
            ("text", b"{\"a\": 1}\n[2]"),
        ],
    );
    for command in ["repair", "parse"] {
        let ran = run(&folder, &[command, "--schema", "schema", "-q", "text"], b"");
        ran.gives(0, "[2]");
        let ran = run(
            &folder,
            &[command, "--schema", "schema", "--json"],
            b"{\"a\": 1}",
        );
        ran.exits(4);
        assert_eq!(ran.answers()[0]["violations"][0]["path"], "", "{command}");
        run(&folder, &[command, "--schema", "bad"], b"[]").exits(2);
        run(&folder, &[command, "--schema", "none"], b"[]").exits(1);
    }
}

#[test]
fn parse_gives_the_shape() {
    check_all(
        "parse --stage extract_prompts",
        "{\"a\": 1}",
        0,
        "[{\"a\": 1}]",
        "",
    );
    check_all(
        "parse --stage fact-check",
        "<p>\"x\"</p>\n",
        0,
        "<p>\"x\"</p>",
        "",
    );
    check_all(
        "parse",
        "{\"data\": [{\"prompt_text\": 1}], \"n\": 2}",
        0,
        "[{\"prompt_text\": 1}]",
        "restitch: -: /n: left out\n",
    );
    check_all(
        "parse",
        "No.",
        4,
        "",
        "restitch: -: there is no JSON in the text\n",
    );
    check_all("parse --or-empty -q", "No.", 4, "[]", "");
    check_all("parse --or-empty -q", "", 3, "[]", "");
    check(
        "parse --json",
        "Here: {\"data\": []}",
        0,
        "{\"attempt\":\"2\",\"status\":\"valid\",\"json\":\"{\\\"data\\\": []}\",\"shape\":null,\"repairs\":[],\"others\":[]}\n",
    );
    let lines = "{\"id\":1,\"text\":\"{}\",\"stage\":\"extract_prompts\"}\n{\"id\":2,\"text\":\"{}\"}\n{\"id\":3,\"text\":\"{}\",\"stage\":\"x\"}\n";
    let ran = pipe("parse --jsonl", lines.as_bytes());
    let answers = ran.answers();
    ran.exits(4);
    assert_eq!(answers[0]["json"], "[{}]");
    assert_eq!(answers[1]["json"], "{}");
    assert_eq!(answers[2]["id"], 3);
    assert!(answers[2]["error"].is_string());
    // Without a file there are no shapes of the user's own.
    let ran = shell("parse --stage list");
    ran.gives(0, "");
    ran.err.has("docs/shapes.md");
    shell("parse --stage none").exits(2);
}

#[test]
fn config_init_replaces_no_file() {
    let folder = folder("init", &[]);
    let args = [
        "config",
        "init",
        "--upstream",
        "http://a",
        "-o",
        "restitch.toml",
    ];
    run(&folder, &args, b"").exits(0);
    let made = std::fs::read(folder.join("restitch.toml")).unwrap();
    let again = run(&folder, &args, b"");
    again.exits(1);
    again.err.has("restitch.toml: the file exists");
    shell_in(&folder, "config check restitch.toml").exits(0);
    let changed = [
        "config",
        "show",
        "--changed",
        "--config",
        "restitch.toml",
        "--set",
        "limits.max_risk=0.0",
    ];
    assert_eq!(
        run(&folder, &changed, b"").out,
        "[limits]\nmax_risk = 0.0\n\n[proxy]\nadmin = \"127.0.0.1:7379\"\nupstream = \"http://a\"\n"
    );
    assert_eq!(std::fs::read(folder.join("restitch.toml")).unwrap(), made);
}

#[test]
fn parse_reads_shapes_from_a_file() {
    let toml = "[reviews]\nroot = \"array\"\nrequired = [\"score\"]\nunwrap = [\"reviews\"]\nwrap = true\n";
    let json = r#"{"reviews": {"root": "array", "required": ["score"], "unwrap": ["reviews"], "wrap": true}}"#;
    let files: [(&str, &[u8]); 2] = [
        ("shapes.toml", toml.as_bytes()),
        ("shapes.json", json.as_bytes()),
    ];
    let folder = folder("shapes", &files);
    for (file, _) in files {
        let args = ["parse", "--shapes", file, "--stage", "reviews", "--json"];
        let text = b"{\"reviews\": {\"score\": 1}, \"data\": 2}";
        let ran = run(&folder, &args, text);
        let answer = &ran.answers()[0];
        ran.exits(0);
        assert_eq!(answer["json"], "[{\"score\": 1}]");
        assert_eq!(answer["shape"], "reviews");
        assert_eq!(answer["dropped"], json!([{"path": "/data", "json": "2"}]));
    }
    for (wrong, told) in [
        ("[extract_prompts]\n", "needs another name"),
        ("[a]\nroot = \"arr\"\n", "unknown variant `arr`"),
        ("[a]\nwrap = true\n", "`wrap` needs `root = \"array\"`"),
        ("[a]\nroots = 1\n", "unknown field `roots`"),
        ("[a]\nname = \"b\"\n", "unknown field `name`"),
        ("{\"a\": 1}", "invalid type"),
    ] {
        std::fs::write(folder.join("wrong"), wrong).unwrap();
        let ran = run(&folder, &["parse", "--shapes", "wrong"], b"{}");
        ran.exits(2);
        ran.err.of(wrong).has(told);
    }
    let listed = ["parse", "--shapes", "shapes.toml", "--stage", "list"];
    assert_eq!(
        run(&folder, &listed, b"").out,
        "reviews: array; has score; is taken out of reviews; a single object is wrapped\n"
    );
    let missing = run(&folder, &["parse", "--shapes", "none"], b"{}");
    missing.exits(1);
}
