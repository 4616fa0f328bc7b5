//! What the loop did, and what is said of it at the end.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::key::Key;
use super::{Args, Failed};
use crate::Document;
use crate::cli::{Console, Exit};
use crate::session::relay::Output;
use crate::session::{Event, Outcome, Status, StopReason};

/// One call, and what became of it.
#[derive(Clone, Debug, Default, Serialize)]
struct Iteration {
    call: u32,
    /// Bytes of the document before it.
    offset: usize,
    /// `answered` (the first one), `joined`, why it failed, or how it ended.
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap: Option<usize>,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    document: &'a str,
    continuations: u32,
    failures: u32,
    ambiguous: u32,
    filled: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentage: Option<u8>,
    repairs: &'a BTreeMap<&'static str, u32>,
    /// Of each call, the first one first.
    tokens: &'a [Option<u64>],
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<&'a str>,
    iterations: &'a [Iteration],
}

/// What the loop tells while it runs.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Left out of what servers say.
    pub(super) key: Key,
    iterations: Vec<Iteration>,
    /// Bytes of the document at the last cut.
    offset: usize,
    pub(super) percentage: Option<u8>,
    outcome: Option<Outcome>,
}

impl Seen {
    pub(super) fn new(key: Key) -> Self {
        Self { key, ..Self::default() }
    }

    pub(super) fn calls(&self) -> u32 {
        self.iterations.last().map_or(1, |iteration| iteration.call + 1)
    }

    pub(super) fn note(&mut self, output: &Output) {
        let first = Iteration { outcome: "answered".to_owned(), ..Iteration::default() };
        if self.iterations.is_empty() {
            self.iterations.push(first);
        }
        match output {
            Output::Call { request, .. } => {
                // One that was asked for in another way has the same number.
                self.iterations.retain(|iteration| iteration.call < request.number);
                let offset = self.offset;
                self.iterations.push(Iteration { call: request.number, offset, ..Iteration::default() });
            }
            Output::Event(Event::Cut { end, offset, .. }) => {
                // What is asked for may be a rendering, or end before the white space: its length is none of the text.
                self.offset = *offset;
                if let Some(iteration) = self.iterations.last_mut().filter(|iteration| iteration.outcome.is_empty()) {
                    end.as_str().clone_into(&mut iteration.outcome);
                }
            }
            Output::Event(Event::Joined { seam, .. }) => {
                let Some(iteration) = self.iterations.last_mut() else { return };
                "joined".clone_into(&mut iteration.outcome);
                (iteration.alignment, iteration.overlap) = (Some(seam.alignment.as_str()), Some(seam.overlap));
            }
            Output::Event(Event::Progress { percentage, .. }) => self.percentage = Some(*percentage),
            Output::Event(Event::Failed { reason, .. }) => {
                let Some(iteration) = self.iterations.last_mut() else { return };
                iteration.outcome = self.key.out_of(&reason.to_string());
            }
            Output::Done { outcome, .. } => self.outcome = Some(outcome.clone()),
            _ => {}
        }
    }
}

pub(super) fn write(file: &Path, text: &str) -> Result<(), Failed> {
    std::fs::write(file, text).map_err(|error| Failed::Io(format!("{}: {error}", file.display())))
}

/// Says what has become of the document, and writes it where it is wanted.
pub(super) fn report(args: &Args, document: &Document, seen: &Seen, console: &mut Console) -> Result<(), Failed> {
    let Some(outcome) = &seen.outcome else {
        return Err(Failed::Io("the answer is no event stream".to_owned()));
    };
    for iteration in &seen.iterations {
        let Iteration { call, offset, outcome, alignment, overlap } = iteration;
        if *call > 0 {
            let how = alignment.zip(*overlap).map(|(alignment, overlap)| format!(": {alignment}, {overlap} bytes"));
            console.note(format_args!("call {call} at byte {offset}: {outcome}{}", how.unwrap_or_default()));
        }
    }
    let is_whole = document.is_complete() && outcome.status != Status::Closed;
    let exit = match outcome.status {
        Status::Complete | Status::PassedThrough if is_whole => Exit::Complete,
        Status::Closed => Exit::Cut,
        _ => Exit::Invalid,
    };
    match exit {
        Exit::Cut => {
            let why = outcome.stop.map_or("the end", StopReason::as_str);
            let filled =
                if outcome.synthesized.is_empty() { "nothing".to_owned() } else { outcome.synthesized.join(", ") };
            console.note(format_args!("given up and closed ({why}); invented: {filled}"));
        }
        Exit::Invalid => {
            let begins: String = document.text().trim_start().chars().take(BEGINS).collect();
            console.note(format_args!("the answer holds no whole JSON document; it begins: {begins}"));
        }
        _ => {}
    }
    console.verdict(exit);
    let text = document.root().unwrap_or_default();
    if let Some(file) = args.output.as_deref().filter(|_| exit != Exit::Invalid) {
        write(file, text)?;
    }
    if args.json {
        console.answer(&Answer {
            status: outcome.status.as_str(),
            document: text,
            continuations: outcome.continuations,
            failures: outcome.failures,
            ambiguous: outcome.ambiguous,
            filled: &outcome.synthesized,
            stop: outcome.stop.map(StopReason::as_str),
            percentage: outcome.percentage,
            repairs: &outcome.repairs,
            tokens: &outcome.tokens,
            finish: outcome.finish.as_ref().map(|finish| finish.as_str()),
            iterations: &seen.iterations,
        })?;
    }
    Ok(())
}

/// Characters of an answer that is no document, for people to see what it is.
const BEGINS: usize = 80;
