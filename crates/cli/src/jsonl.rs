//! `--jsonl`: reads requests from standard input, one JSON object per line, and answers each.

use std::io::{self, BufRead};

use serde_json::json;

use super::check::check;
use super::{Console, Exit, Failure};
use restitch::internal::json::string::Unescaper;
use restitch::internal::json::walk::{Raw, ValueKind};

/// One line: `{"id": …, …}`. It has spans instead of a parsed tree: an id is returned as written,
/// and a string may have half a surrogate pair, which readers of whole values refuse.
#[derive(Debug)]
pub(super) struct LineRequest<'a> {
    root: Raw<'a>,
    /// Its name for people: `line 3`.
    pub name: String,
}

/// Reads requests to the end of standard input, and writes the JSON object that `answer` returns for
/// each. A line that is not a request, or that `answer` refuses, is answered with an error, under its id if it has one; other lines are not affected.
/// Empty lines have no answer.
pub(super) fn serve(
    console: &mut Console,
    mut answer: impl FnMut(&LineRequest<'_>, &mut Console) -> Result<String, String>,
) -> Result<(), Failure> {
    let mut stdin = io::stdin().lock();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        match stdin.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                console.unreadable::<()>("-".as_ref(), &error);
                break;
            }
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let name = format!("line {number}");
        let request = read(&line, &name);
        let id = request
            .as_ref()
            .ok()
            .and_then(|request| request.root.member("id"));
        let id = id.map_or("null", |id| id.as_str()).to_owned();
        let answer = request.and_then(|request| answer(&request, console));
        let answer = answer.unwrap_or_else(|error| {
            console.verdict(Exit::Invalid);
            json!({"error": format!("{name}: {error}")}).to_string()
        });
        console.answer_to(&id, &answer)?;
    }
    Ok(())
}

fn read<'a>(line: &'a [u8], name: &str) -> Result<LineRequest<'a>, String> {
    let text = std::str::from_utf8(line)
        .map_err(|error| format!("not UTF-8 (byte {})", error.valid_up_to()))?;
    let checked = check(line);
    if let Some(error) = checked.error {
        return Err(format!("{error} (byte {})", checked.offset));
    }
    let root = Raw::root(text)
        .filter(|root| root.kind() == ValueKind::Object && checked.complete)
        .ok_or("not a whole JSON object")?;
    Ok(LineRequest {
        root,
        name: name.to_owned(),
    })
}

impl LineRequest<'_> {
    /// Returns the string under `text`.
    pub(super) fn text(&self, console: &Console) -> Result<String, String> {
        let raw = self.root.member("text").and_then(|text| text.inner());
        let raw = raw.ok_or("there is no string `text`")?;
        Ok(self.decode([raw], console).concat())
    }

    /// Returns the strings under `parts`. A surrogate pair may be split between two strings.
    pub(super) fn parts(&self, console: &Console) -> Result<Vec<String>, String> {
        let parts = self
            .root
            .member("parts")
            .filter(|parts| parts.kind() == ValueKind::Array);
        let parts = parts.ok_or("there is no array `parts`")?;
        let raw: Option<Vec<_>> = parts.elements().map(|part| part.inner()).collect();
        Ok(self.decode(raw.ok_or("not all of `parts` are strings")?, console))
    }

    /// Returns the string under `key`; `None` if it is missing or `null`.
    pub(super) fn word(&self, key: &str) -> Result<Option<String>, String> {
        match self.root.member(key) {
            Some(raw) if !raw.is_null() => raw
                .decode()
                .map(|word| Some(word.into_owned()))
                .ok_or(format!("`{key}` is no string")),
            _ => Ok(None),
        }
    }

    fn decode<'a>(&self, raw: impl IntoIterator<Item = &'a str>, console: &Console) -> Vec<String> {
        let mut unescaper = Unescaper::default();
        let mut decode = |raw| {
            let mut text = String::new();
            unescaper.push(raw, &mut text);
            text
        };
        let texts = raw.into_iter().map(&mut decode).collect();
        let removed = unescaper.finish();
        if removed > 0 {
            let halves = if removed == 1 {
                "half a surrogate pair"
            } else {
                &format!("{removed} halves of surrogate pairs")
            };
            console
                .notes
                .note(format_args!("{}: removed {halves}", self.name));
        }
        texts
    }
}
