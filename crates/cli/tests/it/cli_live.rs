//! `events` and `paths` as a shell uses them: their output and its timing.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ChildStdin;
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use crate::cli::{LONG, check, event, folder, run, start};

/// Runs one command on standard input and checks its exit code, standard output and standard error.
fn check_all(args: &[&str], stdin: impl AsRef<[u8]>, code: i32, out: &str, err: &str) {
    let ran = run(Path::new("."), args, stdin.as_ref());
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (code, out, err),
        "{args:?}"
    );
}

const SMALL: &str = "{\"a~\": [1.50, \"x\\u00e9\\\"\"],\n \"n\": null}\n";

#[test]
fn events_are_lines() {
    let out = r#"0..1              begin                (root)  {
2..4                key                /a~0  "a~"
7..8                begin              /a~0  [
8..12                 number           /a~0/0  1.50
14..15                string_begin     /a~0/1  "
15..24                fragment         /a~0/1  "x\u00e9\""
14..25                string_end       /a~0/1  "x\u00e9\""
7..26               end                /a~0  [1.50, "x\u00e9\""]
30..31              key                /n  "n"
34..38              null               /n  null
0..39             end                  (root)  {"a~": [1.50, "x\u00e9\""],\n "n": null}
"#;
    check_all(&["events"], SMALL, 0, out, "");
    // Of long text the beginning, and nothing that moves a terminal's cursor.
    let text = format!("\"\u{85}{}\"", "é".repeat(100));
    let piece = format!("\\u{{85}}{}", "é".repeat(47));
    let out = format!(
        "0..1              string_begin         (root)  \"\n\
         1..203            fragment             (root)  \"{piece}…\"\n\
         0..204            string_end           (root)  \"\\u{{85}}{}…\n",
        "é".repeat(46)
    );
    check_all(&["events"], text, 0, &out, "");
}

#[test]
fn events_are_answers() {
    let out = r#"{"event":"begin","path":"","start":0,"end":1,"kind":"object"}
{"event":"key","path":"/a~0","start":2,"end":4,"text":"a~","value":"a~"}
{"event":"begin","path":"/a~0","start":7,"end":8,"kind":"array"}
{"event":"number","path":"/a~0/0","start":8,"end":12,"text":"1.50"}
{"event":"string_begin","path":"/a~0/1","start":14,"end":15}
{"event":"fragment","path":"/a~0/1","start":15,"end":24,"text":"x\\u00e9\\\"","value":"xé\""}
{"event":"string_end","path":"/a~0/1","start":14,"end":25,"text":"\"x\\u00e9\\\"\"","value":"xé\""}
{"event":"end","path":"/a~0","start":7,"end":26,"kind":"array"}
{"event":"key","path":"/n","start":30,"end":31,"text":"n","value":"n"}
{"event":"null","path":"/n","start":34,"end":38,"text":"null"}
{"event":"end","path":"","start":0,"end":39,"kind":"object"}
"#;
    check_all(&["events", "--json"], SMALL, 0, out, "");
    check_all(
        &["events", "--json", "-"],
        "",
        3,
        "",
        "restitch: -: cut at byte 0, in `start`, at the root\n",
    );
    // Only the end of the text ends a number at the root. The second root ends the first number.
    let out = r#"{"event":"true","path":"","start":0,"end":4,"text":"true"}
{"event":"number","path":"","start":5,"end":7,"text":"-2","root":1}
"#;
    check_all(&["events", "--json"], "true\n-2", 0, out, "");
}

/// The lines of all chunkings, fragments joined, are the same.
#[test]
fn chunks_show_in_fragments_alone() {
    let text = "[\"\u{e9}\\n\u{1f600}\\ud83d\\ude00\", {\"k\\\"\": \"\"}, -0.5e1]\n[]";
    let joined = |chunk: &str| -> Vec<Value> {
        let ran = run(
            Path::new("."),
            &["events", "--json", "--chunk", chunk],
            text.as_bytes(),
        );
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let mut lines: Vec<Value> = Vec::new();
        for mut line in ran.answers() {
            match lines.last_mut() {
                Some(last) if last["event"] == "fragment" && line["event"] == "fragment" => {
                    assert_eq!(last["end"], line["start"]);
                    last["end"] = line["end"].take();
                    for part in ["text", "value"] {
                        last[part] = json!(format!(
                            "{}{}",
                            last[part].as_str().unwrap(),
                            line[part].as_str().unwrap()
                        ));
                    }
                }
                _ => lines.push(line),
            }
        }
        lines
    };
    let whole = joined("65536");
    assert_eq!(whole.len(), 13);
    assert_eq!(whole[2]["value"], "é\n😀😀");
    for chunk in ["1", "2", "3", "5", "7", "11"] {
        assert_eq!(joined(chunk), whole, "{chunk}");
    }
    let out = "{\"event\":\"string_begin\",\"path\":\"\",\"start\":0,\"end\":1}\n\
         {\"event\":\"fragment\",\"path\":\"\",\"start\":1,\"end\":3,\"text\":\"ab\",\"value\":\"ab\"}\n\
         {\"event\":\"fragment\",\"path\":\"\",\"start\":3,\"end\":4,\"text\":\"c\",\"value\":\"c\"}\n\
         {\"event\":\"string_end\",\"path\":\"\",\"start\":0,\"end\":5,\"text\":\"\\\"abc\\\"\",\"value\":\"abc\"}\n";
    check(&["events", "--json", "--chunk", "3"], "\"abc\"", 0, out);
}

#[test]
fn what_is_before_a_deviation_is_written() {
    let begin = "0..1              begin                (root)  [\n";
    let number = "1..2                number             /0  1\n";
    let string = "1..2                string_begin       /0  \"\n2..5                fragment           /0  \"caf\"\n";
    for (text, code, more, err) in [
        (
            &b"[1,\n x]"[..],
            4,
            number,
            "unexpected `x`, line 2, column 2 (byte 5), at /1: ` →x]`",
        ),
        (b"[1,", 3, number, "cut at byte 3, in `value`, at /1"),
        // Not UTF-8: as `check` has it, and it is not left out.
        (
            b"[\"caf\xe9\"]",
            4,
            string,
            "invalid UTF-8 at byte 0x22, line 1, column 6 (byte 6), at /0: `[\"caf→`",
        ),
        (
            b"[\"caf\xff",
            4,
            string,
            "invalid UTF-8 at byte 0xff, line 1, column 6 (byte 5), at /0: `[\"caf→`",
        ),
        // Cut inside a character.
        (
            b"[\"caf\xc3",
            3,
            string,
            "cut at byte 5, in `string`, at /0",
        ),
        (
            b"[1,\xc3\xa9",
            4,
            number,
            "unexpected `\\xc3`, line 1, column 4 (byte 3), at /1: `[1,→é`",
        ),
        (
            b"[1,\xc3",
            4,
            number,
            "unexpected `\\xc3`, line 1, column 4 (byte 3), at /1: `[1,→`",
        ),
    ] {
        for chunk in ["1", "65536"] {
            let ran = run(Path::new("."), &["events", "--chunk", chunk], text);
            assert_eq!(ran.code, code, "{err}");
            if chunk == "1" {
                // The excerpt shows only the bytes after the error that have arrived.
                let place = err.split('`').take(3).collect::<Vec<_>>().join("`");
                assert!(
                    ran.err.starts_with(&format!("restitch: -: {place}")),
                    "{err}: {}",
                    ran.err
                );
            } else {
                assert_eq!(
                    (ran.out, ran.err),
                    (format!("{begin}{more}"), format!("restitch: -: {err}\n"))
                );
            }
        }
    }
    check_all(
        &["events"],
        "Hello.",
        4,
        "",
        "restitch: -: there is no JSON in the text\n",
    );
    let err = "restitch: -: invalid UTF-8 at byte 0xff, line 1, column 1 (byte 0): `→`\n";
    check_all(&["events"], b"\xff[]", 4, "", err);
}

#[test]
fn text_after_a_root_is_as_asked() {
    let (one, two) = (
        "{\"pattern\":\"\",\"path\":\"\",\"value\":1}\n",
        "{\"pattern\":\"\",\"path\":\"\",\"value\":2,\"root\":1}\n",
    );
    let both = format!("{one}{two}");
    let hint = "restitch: with --trailing stop, the text after the first root is ignored\n";
    check_all(&["paths", ""], "1\n2\n", 0, &both, "");
    check_all(&["paths", "", "--trailing", "next"], "1 2", 0, &both, "");
    check_all(
        &["paths", "", "--trailing", "stop"],
        b"1 \xff2 x",
        0,
        one,
        "",
    );
    let err = format!(
        "restitch: -: text after the root, at `2`, line 2, column 1 (byte 2): `→2`\n{hint}"
    );
    check_all(&["paths", "", "--trailing", "error"], "1\n2", 4, one, &err);
    check_all(&["paths", "", "--trailing", "error"], "1\n \n", 0, one, "");
    let err = format!("restitch: -: unexpected `x`, line 1, column 3 (byte 2): `1 →x`\n{hint}");
    check_all(&["paths", ""], "1 x", 4, one, &err);
    // Text that models write around JSON.
    let fenced = "Sure:\n```json\n1\n```\n";
    let one_fenced = "```json\n[1]\n```\n";
    check_all(
        &["paths", "/0"],
        one_fenced,
        0,
        "{\"pattern\":\"/0\",\"path\":\"/0\",\"value\":1}\n",
        "",
    );
    check_all(&["paths", ""], fenced, 0, one, "");
    // The last line of a log is cut.
    let err = "restitch: -: cut at byte 16, in `number`, at /a\n";
    let out = "{\"pattern\":\"/a\",\"path\":\"/a\",\"value\":1}\n";
    check_all(&["paths", "/a"], "{\"a\": 1}\n{\"a\": 2", 3, out, err);
}

#[test]
fn events_of_several_files() {
    let folder = folder("events", &[("one", b"1"), ("bad", b"[}"), ("two", b"true")]);
    let ran = run(&folder, &["events", "one", "missing", "bad", "two"], b"");
    let line = |name: &str, text: &str| {
        format!("0..{}              {name:<20} (root)  {text}\n", text.len())
    };
    let out = [
        "one:\n",
        &line("number", "1"),
        "missing:\n",
        "bad:\n",
        &line("begin", "["),
        "two:\n",
        &line("true", "true"),
    ];
    assert_eq!((ran.code, ran.out), (1, out.concat()));
    assert_eq!(ran.err.lines().count(), 2, "{}", ran.err);
    let ran = run(&folder, &["events", "--json", "one", "-"], b"2");
    let line = |file, text| json!({"event": "number", "path": "", "start": 0, "end": 1, "text": text, "file": file});
    assert_eq!(
        (ran.code, ran.answers()),
        (0, vec![line("one", "1"), line("-", "2")])
    );
    assert_eq!(run(&folder, &["events", "-", "-"], b"").code, 2);
}

const ITEMS: &str = "{\"items\": [1.50, {\"k\": \"v\\n\",\r\n\t\"l\" : [\n]}, \"caf\u{e9}\"], \"k\": {\"items\": [2]}}";

#[test]
fn paths_are_answered_as_they_complete() {
    let out = "{\"pattern\":\"/items/*\",\"path\":\"/items/0\",\"value\":1.50}\n\
         {\"pattern\":\"/items/*/k\",\"path\":\"/items/1/k\",\"value\":\"v\\n\"}\n\
         {\"pattern\":\"/items/*\",\"path\":\"/items/1\",\"value\":{\"k\": \"v\\n\",\"l\" : []}}\n\
         {\"pattern\":\"/items/*\",\"path\":\"/items/2\",\"value\":\"caf\u{e9}\"}\n";
    for chunk in ["1", "2", "3", "65536"] {
        check(
            &["paths", "/items/*", "/items/*/k", "--chunk", chunk],
            ITEMS,
            0,
            out,
        );
    }
    check(
        &["paths", "--raw", "/k", "/items/0"],
        ITEMS,
        0,
        "1.50\n{\"items\": [2]}\n",
    );
    check(&["paths", "/nothing/*"], ITEMS, 0, "");
    check(
        &["paths", "/*", "--first", "1"],
        "{\"a\": 1, \"b\": 2, oops",
        0,
        "{\"pattern\":\"/*\",\"path\":\"/a\",\"value\":1}\n",
    );
    check(&["paths", "/*"], "", 3, "");
    // A key that has a quote, and a pattern that has one.
    let out = "{\"pattern\":\"/\\\"\",\"path\":\"/\\\"\",\"value\":0}\n";
    check(&["paths", "/\""], "{\"\\\"\": 0}", 0, out);
}

#[test]
fn paths_grow() {
    let out = r#"{"phase":"begin","pattern":"/*","path":"/0"}
{"phase":"grow","pattern":"/*","path":"/0","more":"a"}
{"phase":"grow","pattern":"/*","path":"/0","more":"\né"}
{"phase":"complete","pattern":"/*","path":"/0","value":"a\n\u00e9"}
{"phase":"begin","pattern":"/*","path":"/1"}
{"phase":"complete","pattern":"/*","path":"/1","value":[]}
"#;
    // Chunks of three: `["a`, `\n\`, `u00`, `e9"`.
    let ran = run(
        Path::new("."),
        &["paths", "--grow", "/*", "--chunk", "3"],
        br#"["a\n\u00e9", []]"#,
    );
    let more: String = ran
        .answers()
        .iter()
        .filter_map(|line| line["more"].as_str().map(str::to_owned))
        .collect();
    assert_eq!((ran.code, more.as_str()), (0, "a\né"));
    let without = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| !line.contains("grow"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(without(&ran.out), without(out));
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
        assert_eq!(
            (ran.code, ran.out.as_str(), ran.err.as_str()),
            (0, "1\n2\n", ""),
            "{args:?}"
        );
    }
    for args in [
        &["paths", "--raw", "/0"][..],
        &["paths", "--raw", "/0", "-"],
        &["paths", "--raw", "/0", "-f", "-"],
    ] {
        let ran = run(&folder, args, b"[3]");
        assert_eq!(
            (ran.code, ran.out.as_str(), ran.err.as_str()),
            (0, "3\n", ""),
            "{args:?}"
        );
    }
    // A name alone, or with -f, is a pattern, whatever files exist.
    for args in [&["paths", file][..], &["paths", "/0", file, "-f", "-"]] {
        let ran = run(&folder, args, b"{}");
        assert_eq!(
            (ran.code, ran.out.as_str(), ran.err.as_str()),
            (0, "", ""),
            "{args:?}"
        );
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
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(!ran.err.is_empty());
    }
    assert_eq!(run(&folder, &["paths", "/a", "missing"], b"").code, 1);
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
    for chunk in ["1", "7", "65536"] {
        check(
            &["paths", "--raw", "/*", "--chunk", chunk],
            &stream(&pieces, &stop),
            0,
            out,
        );
    }
    check(
        &["paths", "--raw", "/*", "--dialect", "openai-chat"],
        &stream(&pieces, &stop),
        0,
        out,
    );
    let lines =
        "{\"response\":\"{\\\"a\\\": \",\"done\":false}\n{\"response\":\"12}\",\"done\":true}\n";
    let array = "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"{\\\"a\\\": \"}]}}]},\n\
        {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"12}\"}]}}]}]";
    for (dialect, body) in [("ollama", lines), ("gemini", array)] {
        for chunk in ["1", "7", "65536"] {
            check(
                &[
                    "paths",
                    "--raw",
                    "/*",
                    "--chunk",
                    chunk,
                    "--dialect",
                    dialect,
                ],
                body,
                0,
                "12\n",
            );
        }
    }
    // The slot is a tool call, not the text of the same number.
    let cohere = "data: {\"type\":\"tool-call-start\",\"index\":0,\"delta\":{\"message\":{\"tool_calls\":{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":12}\"}}}}}\n\n\
        data: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"no\"}}}}\n\n";
    check(&["paths", "--raw", "/*"], cohere, 0, "12\n");
    // As text it is not JSON.
    assert_eq!(
        run(
            Path::new("."),
            &["paths", "/*", "--dialect", "text"],
            stream(&pieces, &stop).as_bytes()
        )
        .code,
        4
    );
    // Cut by the limit, and by an error that the server reports.
    check_all(
        &["paths", "--raw", "/*"],
        stream(&pieces[..2], &stop),
        3,
        "\"x\u{1f600}\"\n",
        "restitch: -: cut at byte 23, in `key`, at the root\n",
    );
    let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
    let words = "restitch: -: the server reports an error: overloaded\n";
    check_all(
        &["paths", "--raw", "/*"],
        stream(&pieces, error),
        4,
        out,
        words,
    );
    // Behind the root, too, an error counts.
    check_all(
        &["paths", "--raw", "/*", "--trailing", "stop"],
        stream(&pieces, error),
        4,
        out,
        words,
    );
    // A tool call.
    let call = |arguments: &str| {
        event(&format!(
            "\"delta\":{{\"tool_calls\":[{{\"index\":1,\"function\":{{\"arguments\":{}}}}}]}}",
            json!(arguments)
        ))
    };
    let body = call("{\"x\": [") + &call("1, 2]}") + &stop;
    check(
        &["paths", "--raw", "/x/*", "--slot", "0.1"],
        &body,
        0,
        "1\n2\n",
    );
    let words = "restitch: -: the stream has no text in this slot: see --slot\n";
    check_all(&["paths", "--raw", "/x/*"], &body, 3, "", words);
    // No API has such events.
    let ran = run(
        Path::new("."),
        &["events"],
        b"event: gopher\ndata: {\"type\":\"gopher\"}\n\n",
    );
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    assert!(
        ran.err.contains("of an API that is read here"),
        "{}",
        ran.err
    );
    // Offsets are those of the text.
    let ran = run(
        Path::new("."),
        &["events", "--json"],
        stream(&["[tr", "ue]"], &stop).as_bytes(),
    );
    assert_eq!(
        ran.answers()[1],
        json!({"event": "true", "path": "/0", "start": 1, "end": 5, "text": "true"})
    );
}

#[test]
fn large_text_is_taken() {
    let rows = 20_000;
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
    let ran = run(
        Path::new("."),
        &["paths", "--raw", "/items/*/id"],
        text.as_bytes(),
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out == lines, "{} lines", ran.out.lines().count());
    let ran = run(Path::new("."), &["events"], text.as_bytes());
    // Around the rows one key and two containers; of a row three keys, three containers, two
    // scalars, a string.
    let lines = ran.out.lines().filter(|line| !line.contains("fragment"));
    assert_eq!((ran.code, lines.count()), (0, 5 + rows * (3 + 6 + 2 + 2)));
    let deep = format!("{}1{}", "[".repeat(1024), "]".repeat(1024));
    let ran = run(
        Path::new("."),
        &["paths", "--raw", &"/0".repeat(1024)],
        deep.as_bytes(),
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "1\n"));
    let ran = run(Path::new("."), &["events"], format!("[{deep}").as_bytes());
    assert_eq!((ran.code, ran.out.lines().count()), (4, 1024));
    assert!(
        ran.err.contains("column 1025 (byte 1024)") && ran.err.contains('…'),
        "{}",
        ran.err
    );
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
        assert!(lines.recv_timeout(LONG).unwrap().contains(expect));
    }
    input
        .write_all(event(r#""delta":{"content":"lo\"}"},"finish_reason":"stop""#).as_bytes())
        .unwrap();
    for expect in ["\"more\":\"lo\"", "\"value\":\"Hello\""] {
        assert!(lines.recv_timeout(LONG).unwrap().contains(expect));
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn events_are_written_at_once() {
    let (mut child, mut input, lines) = live(&["events"]);
    for (bytes, names) in [
        (&b"{\"k"[..], &["begin"][..]),
        (b"\": \"\xc3", &["key", "string_begin"]),
        (b"\xa9", &["fragment"]),
        (b"\"}\n", &["string_end", "end"]),
        (b"7\n", &["number"]),
    ] {
        input.write_all(bytes).unwrap();
        for name in names {
            assert_eq!(
                lines.recv_timeout(LONG).unwrap().split_whitespace().nth(1),
                Some(*name)
            );
        }
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_command_that_has_seen_enough_ends() {
    for args in [
        &["paths", "--first", "2", "/*"][..],
        &["paths", "--trailing", "stop", "/*"],
    ] {
        let (mut child, mut input, lines) = live(args);
        input.write_all(b"[1, 2]").unwrap();
        assert_eq!(lines.iter().count(), 2);
        // The input is still open.
        assert_eq!(child.wait().unwrap().code(), Some(0));
        drop(input);
    }
}

#[test]
fn a_reader_that_leaves_ends_them_quietly() {
    for args in [&["events"][..], &["events", "--json"], &["paths", "/*"]] {
        let mut child = start(Path::new("."), args);
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"[1, 2, ").unwrap();
        let mut words = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut words)
            .unwrap();
        assert_eq!(
            (child.wait().unwrap().code(), words.as_str()),
            (Some(0), ""),
            "{args:?}"
        );
        drop(input);
    }
}

/// One chunk has more lines than the buffer holds until the chunk ends.
#[test]
fn lines_that_do_not_wait_keep_their_order() {
    let text = format!("{{\"{}\": [{}1]}}", "k".repeat(500), "1,".repeat(9_999));
    let folder = folder("long", &[]);
    let ran = run(&folder, &["events", "--json"], text.as_bytes());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let ends: Vec<u64> = ran
        .out
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["end"]
                .as_u64()
                .unwrap()
        })
        .collect();
    assert_eq!(ends.len(), 10_005);
    assert!(ran.out.len() > 4 << 20 && ends.is_sorted());
}

/// Of a stream of roots, one is kept at a time.
#[cfg(target_os = "linux")]
#[test]
fn a_stream_of_roots_takes_the_memory_of_one() {
    for args in [&["paths", "/n"][..], &["events"]] {
        let mut child = start(Path::new("."), args);
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let reader =
            thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()).unwrap());
        let row = format!("{{\"text\": \"{}\", \"n\": 1}}\n", "x".repeat(4000)).repeat(16);
        for _ in 0..1000 {
            input.write_all(row.as_bytes()).unwrap();
        }
        // The program has read 64 MB, except the bytes in the pipe.
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
        assert!(kilobytes < 8 << 10, "{args:?}: {kilobytes} kB");
    }
}
