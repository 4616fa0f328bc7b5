//! `paths` as a shell uses it: its output and its timing.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::ChildStdin;
use std::sync::mpsc;
use std::thread;

use serde_json::json;

use crate::cli::{LONG, check, check_all, event, folder, pipe, run, shell_in, start};
use restitch_testing::says::Says;

#[test]
fn writes_what_is_before_a_deviation() {
    let number = "{\"pattern\":\"/0\",\"path\":\"/0\",\"value\":1}\n";
    for (text, code, out, err) in [
        (
            &b"[1,\n x]"[..],
            4,
            number,
            "unexpected `x`, line 2, column 2 (byte 5), at /1: ` →x]`",
        ),
        (b"[1,", 3, number, "cut at byte 3, in `value`, at /1"),
        // Bytes that are not UTF-8 are an error, as for `check`.
        (
            b"[\"caf\xe9\"]",
            4,
            "",
            "invalid UTF-8 at byte 0x22, line 1, column 6 (byte 6), at /0: `[\"caf→`",
        ),
        (b"\xff[]", 4, "", "the text is not UTF-8"),
        // The text ends inside a character.
        (b"[\"caf\xc3", 3, "", "cut at byte 5, in `string`, at /0"),
        (
            b"[1,\xc3",
            4,
            number,
            "unexpected `\\xc3`, line 1, column 4 (byte 3), at /1: `[1,→`",
        ),
        (b"Hello.", 4, "", "there is no JSON in the text"),
    ] {
        check_all(
            "paths /0",
            text,
            code,
            out,
            &format!("restitch: -: {err}\n"),
        );
    }
}

#[test]
fn each_root_is_read() {
    let (one, two) = (
        "{\"pattern\":\"\",\"path\":\"\",\"value\":1}\n",
        "{\"pattern\":\"\",\"path\":\"\",\"value\":2,\"root\":1}\n",
    );
    let both = format!("{one}{two}");
    check_all("paths ", "1\n2\n", 0, &both, "");
    check_all("paths ", "1 2", 0, &both, "");
    let err = "restitch: -: unexpected `x`, line 1, column 3 (byte 2): `1 →x`\n";
    check_all("paths ", "1 x", 4, one, err);
    // Text that models write around JSON.
    let fenced = "Sure:\n```json\n1\n```\n";
    let one_fenced = "```json\n[1]\n```\n";
    check_all(
        "paths /0",
        one_fenced,
        0,
        "{\"pattern\":\"/0\",\"path\":\"/0\",\"value\":1}\n",
        "",
    );
    check_all("paths ", fenced, 0, one, "");
    // The last line of a log is cut.
    let err = "restitch: -: cut at byte 16, in `number`, at /a\n";
    let out = "{\"pattern\":\"/a\",\"path\":\"/a\",\"value\":1}\n";
    check_all("paths /a", "{\"a\": 1}\n{\"a\": 2", 3, out, err);
}

const ITEMS: &str = "{\"items\": [1.50, {\"k\": \"v\\n\",\r\n\t\"l\" : [\n]}, \"caf\u{e9}\"], \"k\": {\"items\": [2]}}";

#[test]
fn paths_are_answered_as_they_complete() {
    let out = "{\"pattern\":\"/items/*\",\"path\":\"/items/0\",\"value\":1.50}\n\
         {\"pattern\":\"/items/*/k\",\"path\":\"/items/1/k\",\"value\":\"v\\n\"}\n\
         {\"pattern\":\"/items/*\",\"path\":\"/items/1\",\"value\":{\"k\": \"v\\n\",\"l\" : []}}\n\
         {\"pattern\":\"/items/*\",\"path\":\"/items/2\",\"value\":\"caf\u{e9}\"}\n";
    check("paths /items/* /items/*/k", ITEMS, 0, out);
    check(
        "paths --raw /k /items/0",
        ITEMS,
        0,
        "1.50\n{\"items\": [2]}\n",
    );
    check("paths /nothing/*", ITEMS, 0, "");
    check(
        "paths /* --first 1",
        "{\"a\": 1, \"b\": 2, oops",
        0,
        "{\"pattern\":\"/*\",\"path\":\"/a\",\"value\":1}\n",
    );
    check("paths /*", "", 3, "");
    // A key that has a quote, and a pattern that has one.
    let out = "{\"pattern\":\"/\\\"\",\"path\":\"/\\\"\",\"value\":0}\n";
    check("paths /\"", "{\"\\\"\": 0}", 0, out);
}

#[test]
fn paths_grow() {
    let out = r#"{"phase":"begin","pattern":"/*","path":"/0"}
{"phase":"grow","pattern":"/*","path":"/0","more":"a\né"}
{"phase":"complete","pattern":"/*","path":"/0","value":"a\n\u00e9"}
{"phase":"begin","pattern":"/*","path":"/1"}
{"phase":"complete","pattern":"/*","path":"/1","value":[]}
"#;
    check("paths --grow /*", r#"["a\n\u00e9", []]"#, 0, out);
}

#[test]
fn paths_tell_patterns_from_files() {
    let folder = folder("paths", &[("answer.json", b"{\"a\": 1, \"b\": 2}")]);
    let file = folder.join("answer.json");
    let file = file.to_str().unwrap();
    for args in [
        &["paths", "--raw", "/a", "/b", "answer.json"][..],
        &["paths", "--raw", "/a", "/b", file],
        &["paths", "--raw", "/a", "/b", "-f", file],
        &["paths", "--raw", "--file", "answer.json", "/a", "/b"],
    ] {
        let ran = run(&folder, args, b"[3]");
        ran.is(0, "1\n2\n", "");
    }
    for args in [
        &["paths", "--raw", "/0"][..],
        &["paths", "--raw", "/0", "-"],
        &["paths", "--raw", "/0", "-f", "-"],
    ] {
        let ran = run(&folder, args, b"[3]");
        ran.is(0, "3\n", "");
    }
    // A name alone, or with -f, is a pattern, whatever files exist.
    for args in [&["paths", file][..], &["paths", "/0", file, "-f", "-"]] {
        let ran = run(&folder, args, b"{}");
        ran.is(0, "", "");
    }
    for args in [
        &["paths"][..],
        &["paths", "answer.json"],
        &["paths", "a", "answer.json"],
        &["paths", "/a", "answer.json", "-f", "answer.json"],
        &["paths", "/a", "--raw", "--grow"],
        &["paths", "/a", "--first", "0"],
        &["paths", "/a", "--slot", "x"],
    ] {
        let ran = run(&folder, args, b"");
        ran.gives(2, "");
        assert!(!ran.err.is_empty());
    }
    shell_in(&folder, "paths /a missing").exits(1);
}

/// A stream of deltas, with the text as pieces.
fn stream(pieces: &[&str], end: &str) -> String {
    let mut body = String::from(": hello\n\n");
    for piece in pieces {
        body.push_str(&event(&format!(
            "\"delta\":{{\"content\":{}}}",
            json!(piece)
        )));
    }
    body + end
}

#[test]
fn the_text_of_an_event_stream_is_looked_at() {
    let stop = event(r#""delta":{},"finish_reason":"stop""#) + "data: [DONE]\n\n";
    let pieces = [
        "```json\n{\"a\": \"x",
        "\u{1f600}\", ",
        "\"b\": 12}",
        "\n```\nDone.",
    ];
    let out = "\"x\u{1f600}\"\n12\n";
    let body = stream(&pieces, &stop);
    check("paths --raw /*", &body, 0, out);
    check("paths --raw /* --dialect openai-chat", &body, 0, out);
    let lines =
        "{\"response\":\"{\\\"a\\\": \",\"done\":false}\n{\"response\":\"12}\",\"done\":true}\n";
    let array = "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"{\\\"a\\\": \"}]}}]},\n\
        {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"12}\"}]}}]}]";
    for (dialect, body) in [("ollama", lines), ("gemini", array)] {
        check(
            &format!("paths --raw /* --dialect {dialect}"),
            body,
            0,
            "12\n",
        );
    }
    // The slot is a tool call, not the text of the same number.
    let cohere = "data: {\"type\":\"tool-call-start\",\"index\":0,\"delta\":{\"message\":{\"tool_calls\":{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":12}\"}}}}}\n\n\
        data: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"no\"}}}}\n\n";
    check("paths --raw /*", cohere, 0, "12\n");
    // Cut by the limit, and by an error that the server reports.
    check_all(
        "paths --raw /*",
        stream(&pieces[..2], &stop),
        3,
        "\"x\u{1f600}\"\n",
        "restitch: -: cut at byte 23, in `key`, at the root\n",
    );
    let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
    let words = "restitch: -: the server reports an error: overloaded\n";
    check_all("paths --raw /*", stream(&pieces, error), 4, out, words);
    // A tool call.
    let call = |arguments: &str| {
        event(&format!(
            "\"delta\":{{\"tool_calls\":[{{\"index\":1,\"function\":{{\"arguments\":{}}}}}]}}",
            json!(arguments)
        ))
    };
    let body = call("{\"x\": [") + &call("1, 2]}") + &stop;
    check("paths --raw /x/* --slot 0.1", &body, 0, "1\n2\n");
    let words = "restitch: -: the stream has no text in this slot: see --slot\n";
    check_all("paths --raw /x/*", &body, 3, "", words);
    // No API has such events.
    let ran = pipe(
        "paths /a",
        b"event: gopher\ndata: {\"type\":\"gopher\"}\n\n",
    );
    ran.gives(4, "");
    ran.err.has("belong to none of the known APIs");
}

#[test]
fn large_text_is_taken() {
    let rows = 4_000;
    let mut text = String::from("{\"items\": [\n");
    let mut lines = String::new();
    for row in 0..rows {
        let comma = if row > 0 { ",\n" } else { "" };
        write!(
            text,
            "{comma}{{\"id\": {row}, \"name\": \"caf\u{e9}\", \"list\": [true, {{}}]}}"
        )
        .unwrap();
        writeln!(lines, "{row}").unwrap();
    }
    text.push_str("]}");
    let ran = pipe("paths --raw /items/*/id", text.as_bytes());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out == lines, "{} lines", ran.out.lines().count());
    let deep = format!("{}1{}", "[".repeat(1024), "]".repeat(1024));
    let ran = run(
        Path::new("."),
        &["paths", "--raw", &"/0".repeat(1024)],
        deep.as_bytes(),
    );
    ran.gives(0, "1\n");
    let ran = pipe("paths /0", format!("[{deep}").as_bytes());
    ran.gives(4, "");
    assert!(ran.err.contains('…'), "{}", ran.err);
    ran.err.has("column 1025 (byte 1024)");
}

/// A command whose input comes in pieces: its lines, as they come.
fn live(args: &[&str]) -> (std::process::Child, ChildStdin, mpsc::Receiver<String>) {
    let mut child = start(Path::new("."), args);
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(output)
            .lines()
            .try_for_each(|line| sender.send(line.unwrap()))
    });
    (child, input, lines)
}

#[test]
fn a_match_is_written_before_the_text_goes_on() {
    let (mut child, mut input, lines) = live(&["paths", "/items/*"]);
    input.write_all(b"{\"items\": [").unwrap();
    for index in 0..3 {
        write!(input, "\"caf\u{e9}\",").unwrap();
        let expect = format!(
            "{{\"pattern\":\"/items/*\",\"path\":\"/items/{index}\",\"value\":\"caf\u{e9}\"}}"
        );
        assert_eq!(lines.recv_timeout(LONG).unwrap(), expect);
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn a_match_in_an_event_stream_is_written_at_once() {
    let (mut child, mut input, lines) = live(&["paths", "--grow", "/a"]);
    input
        .write_all(event(r#""delta":{"content":"{\"a\": \"Hel"}"#).as_bytes())
        .unwrap();
    for expect in ["\"phase\":\"begin\"", "\"more\":\"Hel\""] {
        lines.recv_timeout(LONG).unwrap().has(expect);
    }
    input
        .write_all(event(r#""delta":{"content":"lo\"}"},"finish_reason":"stop""#).as_bytes())
        .unwrap();
    for expect in ["\"more\":\"lo\"", "\"value\":\"Hello\""] {
        lines.recv_timeout(LONG).unwrap().has(expect);
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_command_that_has_seen_enough_ends() {
    let (mut child, mut input, lines) = live(&["paths", "--first", "2", "/*"]);
    input.write_all(b"[1, 2]").unwrap();
    assert_eq!(lines.iter().count(), 2);
    // The input is still open.
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(input);
}

/// Of a stream of roots, one is kept at a time.
#[cfg(target_os = "linux")]
#[test]
fn a_stream_of_roots_takes_the_memory_of_one() {
    let mut child = start(Path::new("."), &["paths", "/n"]);
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let reader = thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()).unwrap());
    let row = format!("{{\"text\": \"{}\", \"n\": 1}}\n", "x".repeat(4000)).repeat(16);
    for _ in 0..320 {
        input.write_all(row.as_bytes()).unwrap();
    }
    // The program has read 20 MB, except the bytes in the pipe.
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    // Pages of the executable would count its size, not the text.
    let anonymous = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .unwrap();
    let kilobytes: u64 = anonymous.trim().trim_end_matches(" kB").parse().unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    reader.join().unwrap();
    assert!(kilobytes < 8 << 10, "{kilobytes} kB");
}
