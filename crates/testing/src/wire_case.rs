//! The cases of `tests/wire-cases`: one request of a client, the calls that answer it, and what the
//! client receives. The engine, the proxy and `restitch run` replay them.
//!
//! `tests/wire-cases/README.md` defines the facts and the blocks.

use std::time::Duration;

use restitch::Limits;
use restitch::repair::RepairLevel;
use restitch::session::{GiveUp, Prose};
use serde_json::Value;

use crate::case_file::{CaseFile, read_files};

const FACTS: [&str; 10] = [
    "path",
    "call",
    "max_continuations",
    "idle_timeout",
    "first_byte_timeout",
    "on_give_up",
    "repair",
    "prose",
    "status",
    "end",
];
const BLOCKS: [&str; 5] = ["request", "upstream", "asked", "client", "report"];

/// A case as its file has it.
#[derive(Debug)]
pub struct WireCase {
    pub name: String,
    /// The request's path, with its query.
    pub path: String,
    /// The body of the request.
    pub request: String,
    pub calls: Vec<Call>,
    pub limits: Limits,
    pub give_up: GiveUp,
    pub repair: RepairLevel,
    pub prose: Prose,
    /// A pattern of the report.
    pub report: String,
    file: CaseFile,
}

/// The upstream's reaction to a call.
#[derive(Clone, Debug)]
pub enum Call {
    /// The connection is refused.
    Refused,
    Answered(Answer),
}

/// An upstream's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    /// The body.
    pub pieces: Vec<String>,
    pub end: AnswerEnd,
}

/// The end of an answer, after its last piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    Closed,
    /// The connection is lost.
    Dropped,
    /// The connection stays open, and nothing follows.
    Silent,
}

/// The observations of a replay.
#[derive(Debug, Default, PartialEq)]
pub struct Received {
    /// The status of the client's response.
    pub status: u16,
    pub body: String,
    /// Whether the client's connection was lost.
    pub is_dropped: bool,
    /// The body of each call after the first, or `GET` and its path. `None`: a call whose connection
    /// is refused reaches no server.
    pub asked: Vec<Option<String>>,
    /// The report of the answer.
    pub report: String,
}

impl WireCase {
    /// Reads all cases.
    pub fn all() -> Vec<Self> {
        let cases = read_files("tests/wire-cases", &FACTS, &BLOCKS);
        assert!(cases.len() >= 127, "{} files", cases.len());
        cases.into_iter().map(Self::of).collect()
    }

    fn of(file: CaseFile) -> Self {
        let seconds = |name| {
            let time: Option<f64> = file.fact(name).map(|time| time.parse().unwrap());
            time.map(Duration::from_secs_f64)
        };
        let most = file.fact("max_continuations");
        let limits = Limits::of_exchange(
            most.map(|most| most.parse().unwrap()),
            None,
            seconds("idle_timeout"),
            seconds("first_byte_timeout"),
        );
        let calls = {
            let mut bodies = file.blocks("upstream");
            let calls = file.facts("call");
            let calls = calls.map(|call| Call::of(call, &mut bodies)).collect();
            assert_eq!(bodies.next(), None, "{}: a body too many", file.name);
            calls
        };
        Self {
            name: file.name.clone(),
            path: file.fact("path").unwrap().to_owned(),
            request: file.block("request").unwrap().to_owned(),
            calls,
            limits,
            give_up: file.fact("on_give_up").unwrap_or("leave").parse().unwrap(),
            repair: RepairLevel::named(file.fact("repair").unwrap_or("strict")).unwrap(),
            prose: file.fact("prose").unwrap_or("pass").parse().unwrap(),
            report: file.block("report").unwrap().to_owned(),
            file,
        }
    }

    /// Returns the patterns of the events that the client receives, or that of a whole body.
    pub fn client(&self) -> Vec<&str> {
        self.file.block("client").unwrap().lines().collect()
    }

    /// Returns whether the events of the answer are lines of JSON.
    fn has_lines(&self) -> bool {
        let first = self.file.fact("call").unwrap_or_default();
        first.contains("application/x-ndjson")
    }

    /// Returns how a replay differs from the file.
    pub fn differences(&self, received: &Received) -> Vec<String> {
        let mut found = self.differences_of_calls(&received.asked);
        let mut compare = |what, pattern, value: &str| {
            found.extend(difference(what, pattern, value));
        };
        let body = received.body.replace("\r\n", "\n");
        let events: Vec<_> = if self.has_lines() {
            body.lines().map(str::to_owned).collect()
        } else {
            body.split("\n\n")
                .filter_map(|event| Some(event.split_once("data: ")?.1.to_owned()))
                .collect()
        };
        let is_whole = events.is_empty();
        let events = if is_whole { vec![body] } else { events };
        let wanted = self.client();
        for at in 0..wanted.len().max(events.len()) {
            let value = events.get(at).map_or(NOTHING, String::as_str);
            compare("client", wanted.get(at).unwrap_or(&NOTHING), value);
        }
        compare("report", &self.report, &received.report);
        let end = match received.is_dropped {
            true => "dropped",
            false => "closed",
        };
        compare("end", self.file.fact("end").unwrap_or("closed"), end);
        if is_whole {
            let status = received.status.to_string();
            compare("status", self.file.fact("status").unwrap_or("200"), &status);
        }
        found
    }

    /// Returns how the calls after the first differ from the file.
    pub fn differences_of_calls(&self, asked: &[Option<String>]) -> Vec<String> {
        let patterns: Vec<_> = self.file.blocks("asked").collect();
        let mut found = Vec::new();
        for at in 0..patterns.len().max(asked.len()) {
            let value = match asked.get(at) {
                Some(None) => continue,
                Some(Some(value)) => value,
                None => NOTHING,
            };
            let pattern = patterns.get(at).unwrap_or(&NOTHING);
            found.extend(difference("asked", pattern, value));
        }
        found
    }
}

impl Call {
    fn of<'a>(text: &str, bodies: &mut impl Iterator<Item = &'a str>) -> Self {
        if text == "refused" {
            return Self::Refused;
        }
        let [status, content_type, end] = text.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{text}");
        };
        Self::Answered(Answer {
            status: status.parse().unwrap(),
            content_type: content_type.to_owned(),
            pieces: { bodies.next().unwrap() }
                .split("----\n")
                .map(str::to_owned)
                .collect(),
            end: match end {
                "closed" => AnswerEnd::Closed,
                "dropped" => AnswerEnd::Dropped,
                "silent" => AnswerEnd::Silent,
                other => panic!("{other}"),
            },
        })
    }
}

/// Stands for an event or a call that is missing.
const NOTHING: &str = "nothing";

/// Returns how a value differs from its pattern. A text that is not JSON must be equal.
fn difference(what: &str, pattern: &str, value: &str) -> Option<String> {
    let is_equal = match (serde_json::from_str(pattern), serde_json::from_str(value)) {
        (Ok(pattern), Ok(value)) => fits(&pattern, &value),
        _ => pattern == value,
    };
    (!is_equal).then(|| format!("{what}\n  wanted {pattern}\n  found  {value}"))
}

/// Returns whether a value fits a pattern.
pub fn fits(pattern: &Value, value: &Value) -> bool {
    match (pattern, value) {
        (Value::Object(pattern), Value::Object(value)) => pattern
            .iter()
            .all(|(key, pattern)| value.get(key).is_some_and(|value| fits(pattern, value))),
        (Value::Array(pattern), Value::Array(value)) => {
            pattern.len() == value.len() && pattern.iter().zip(value).all(|(a, b)| fits(a, b))
        }
        (Value::String(pattern), Value::String(value)) => text_fits(pattern, value),
        _ => pattern == value,
    }
}

/// Returns whether a text fits one in which `…` fits any text.
fn text_fits(pattern: &str, text: &str) -> bool {
    let Some((first, others)) = pattern.split_once('…') else {
        return pattern == text;
    };
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = others.rsplit_once('…').unwrap_or(("", others));
    for part in middle.split('…') {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pattern that fits every value would test nothing.
    #[test]
    fn a_pattern_can_fail() {
        use serde_json::json;

        for (pattern, value, is_equal) in [
            (json!({"a": 1}), json!({"a": 1, "b": 2}), true),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!({"a": null}), json!({}), false),
            (json!([1, {}]), json!([1, {"a": 2}]), true),
            (json!([1]), json!([1, 2]), false),
            (json!("a…c…"), json!("abcd"), true),
            (json!("…c"), json!("abcd"), false),
            (json!("a…b"), json!("ab"), true),
            (json!("ab…ba"), json!("aba"), false),
        ] {
            assert_eq!(fits(&pattern, &value), is_equal, "{pattern} {value}");
        }
    }

    /// A replay that leaves out an event, a call or the report differs.
    #[test]
    fn a_replay_that_lacks_something_differs() {
        let cases = WireCase::all();
        let case = cases.iter().find(|case| case.name == "chat-stream-healthy");
        let case = case.unwrap();
        let Call::Answered(answer) = &case.calls[0] else {
            panic!("it is answered");
        };
        let whole = || Received {
            status: 200,
            body: answer.pieces.concat(),
            report: r#"{"status":"passed","continuations":0,"failures":0}"#.to_owned(),
            ..Received::default()
        };
        assert_eq!(case.differences(&whole()), Vec::<String>::new());
        let changes: [fn(&mut Received); 4] = [
            |received| received.body.truncate(received.body.len() - 14),
            |received| received.is_dropped = true,
            |received| received.asked.push(Some("{}".to_owned())),
            |received| received.report.clear(),
        ];
        for change in changes {
            let mut received = whole();
            change(&mut received);
            assert_eq!(case.differences(&received).len(), 1, "{received:?}");
        }
    }
}
