//! Reports an answer's calls and how it ended, read off the record of the answer.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::RunArgs;
use super::key::Key;
use crate::console::count;
use crate::{Console, Exit, Failure};
use restitch::Document;
use restitch::context::Section;
use restitch::internal::context::sections_of;
use restitch::internal::record::{AnswerRecord, CallKind, CallRecord};
use restitch::provider::Finish;
use restitch::session::{Outcome, Status, StopReason};

/// One call, and how it ended.
#[derive(Debug, Serialize)]
struct Iteration {
    call: u32,
    /// How the call is made: `first`, `original`, or a rung.
    rung: &'static str,
    /// Bytes of the document before it.
    offset: usize,
    /// `answered` (the first one), `joined`, why it failed, or how it ended.
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
}

/// Returns the report of `--json`.
fn answered(
    outcome: &Outcome,
    document: &str,
    iterations: &[Iteration],
    sections: &[Section],
    removed_bytes: usize,
) -> Value {
    let mut report = json!(outcome);
    if let Some(members) = report.as_object_mut() {
        // The complete part has no synthesized values and no cut value.
        members.retain(|key, _| !matches!(key.as_str(), "synthesized" | "cut_value"));
    }
    report["document"] = document.into();
    report["iterations"] = json!(iterations);
    report["sections"] = json!(sections);
    let tally = outcome.tally();
    if tally.tokens.iter().any(Option::is_some) {
        report["completion_tokens"] = tally.total_tokens().into();
    }
    if removed_bytes > 0 {
        report["removed_bytes"] = removed_bytes.into();
    }
    report
}

/// The record of the answer up to now.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The key, which is removed from all server messages.
    pub(super) key: Key,
    pub(super) record: AnswerRecord,
}

impl Seen {
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            record: AnswerRecord::default(),
        }
    }

    /// Returns the number of calls that the loop has requested: a repeated one counts once.
    pub(super) fn calls(&self) -> u32 {
        self.record.calls.last().map_or(1, |call| call.number + 1)
    }

    /// Returns each call that counts. A call that was repeated is replaced by its repeat.
    fn iterations(&self) -> Vec<Iteration> {
        let mut iterations: Vec<Iteration> = Vec::new();
        for call in &self.record.calls {
            iterations.retain(|iteration| iteration.call < call.number);
            iterations.push(self.iteration(call));
        }
        iterations
    }

    fn iteration(&self, call: &CallRecord) -> Iteration {
        let failure = call.failure.as_ref().filter(|failure| failure.counts);
        let outcome = match (failure, &call.seam, &call.cut) {
            (Some(failure), ..) => self.key.out_of(&failure.reason.to_string()),
            (None, Some(_), _) => "joined".to_owned(),
            (None, None, _) if call.kind == CallKind::First => "answered".to_owned(),
            (None, None, Some(cut)) => cut.end.as_str().to_owned(),
            (None, None, None) => String::new(),
        };
        let tally = self.record.outcome.as_ref().map(Outcome::tally);
        let tokens = tally.and_then(|tally| tally.tokens.get(usize::try_from(call.number).ok()?));
        let seam = call.seam.as_ref().map(|seam| &seam.seam);
        Iteration {
            call: call.number,
            rung: call.kind.as_str(),
            offset: call.offset,
            outcome,
            alignment: seam.map(|seam| seam.alignment.as_str()),
            overlap: seam.map(|seam| seam.overlap),
            completion_tokens: tokens.copied().flatten(),
        }
    }
}

pub(super) fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| Failure::io(format!("{}: {error}", file.display())))
}

/// Reports how the answer ended, and writes the document to a file or as JSON.
pub(super) fn report(
    args: &RunArgs,
    document: &Document,
    seen: &Seen,
    removed_bytes: usize,
    console: &mut Console,
) -> Result<(), Failure> {
    let Some(outcome) = &seen.record.outcome else {
        return Err(Failure::io("the answer is no stream".to_owned()));
    };
    let iterations = seen.iterations();
    note_calls(&iterations, console);
    let exit = exit_of(outcome, document);
    let given_up = given_up(document, seen);
    let kept = match &given_up {
        Some(said) => said.complete().unwrap_or_default(),
        None => document.root().unwrap_or_default().to_owned(),
    };
    note_end(args, exit, document, outcome, console);
    console.verdict(exit);
    if let Some(file) = args.output.as_deref().filter(|_| exit != Exit::Invalid) {
        write(file, &kept)?;
    }
    if args.json {
        let sections = sections_of(given_up.as_ref().unwrap_or(document));
        let report = answered(outcome, &kept, &iterations, &sections, removed_bytes);
        console.answer(&report)?;
    }
    Ok(())
}

fn exit_of(outcome: &Outcome, document: &Document) -> Exit {
    match outcome.status() {
        Status::Complete | Status::PassedThrough if document.is_complete() => Exit::Complete,
        Status::Closed => Exit::Cut,
        _ => Exit::Invalid,
    }
}

/// Returns the document without its closers. `None` if it was not given up.
fn given_up(document: &Document, seen: &Seen) -> Option<Document> {
    let said = document.text().get(..seen.record.given_up_at?)?;
    let mut given_up = Document::new(usize::MAX);
    // The same text was taken before.
    let _ = given_up.push(said);
    Some(given_up)
}

/// Reports how each call after the first ended.
fn note_calls(iterations: &[Iteration], console: &Console) {
    for made in iterations.iter().filter(|made| made.call > 0) {
        let how = made.alignment.zip(made.overlap);
        let how = how.map(|(how, overlap)| format!(": {how}, {}", count(overlap, "byte")));
        let (call, offset, outcome) = (made.call, made.offset, &made.outcome);
        console.notes.note(format_args!(
            "call {call} at byte {offset}: {outcome}{}",
            how.unwrap_or_default()
        ));
    }
}

/// Reports how the answer ended, if it is not complete.
fn note_end(args: &RunArgs, exit: Exit, document: &Document, outcome: &Outcome, console: &Console) {
    let mut words = match exit {
        Exit::Cut => {
            let why = outcome.reason().map_or("the end", StopReason::as_str);
            format!("given up and closed ({why}): elements may be missing")
        }
        Exit::Invalid if document.text().trim().is_empty() => "the answer has no text".to_owned(),
        Exit::Invalid => "the answer has no complete JSON document".to_owned(),
        _ => return,
    };
    if exit == Exit::Cut {
        // The complete part has no synthesized values and no cut value.
        let is_closed = !args.is_written_at_the_end();
        if is_closed && !outcome.synthesized().is_empty() {
            let synthesized = outcome.synthesized().join(", ");
            words.push_str(&format!("; synthesized: {synthesized}"));
        }
        if let Some(path) = outcome.cut_value().filter(|_| is_closed) {
            words.push_str(&format!("; cut in {path}"));
        }
    } else {
        if let Some(finish) = outcome.finish().filter(|finish| **finish != Finish::Stop) {
            words.push_str(&format!(" and ended with `{}`", finish.as_str()));
        }
        let begins: String = document.text().trim_start().chars().take(BEGINS).collect();
        if !begins.is_empty() {
            words.push_str(&format!("; it begins: {begins}"));
        }
    }
    console.notes.note(words);
}

/// Characters that are shown of an answer that is not a document.
const BEGINS: usize = 80;
