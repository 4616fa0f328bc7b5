//! Records the steps of the loop, and reports them at the end.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::key::Key;
use super::{Args, Failed};
use crate::console::{count, is_zero};
use crate::{Console, Exit};
use restitch::Document;
use restitch::context::Section;
use restitch::internal::context::sections_of;
use restitch::internal::relay::Output;
use restitch::provider::Finish;
use restitch::session::{CutCause, Outcome, SessionEvent, Status, StopReason};

/// One call, and how it ended.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: Status,
    document: &'a str,
    continuations: u32,
    failures: u32,
    ambiguous: u32,
    early_end: u32,
    synthesized: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<StopReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<CutCause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentage: Option<u8>,
    repairs: &'a BTreeMap<String, u32>,
    /// Tokens of all answers together. Left out if the provider counts none.
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
    /// Tokens of the answer of each call, the first one first.
    tokens: &'a [Option<u64>],
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<&'a str>,
    iterations: &'a [Iteration],
    /// The sections of the document.
    sections: &'a [Section],
    #[serde(skip_serializing_if = "is_zero")]
    removed_bytes: usize,
}

/// The loop's reports so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The key, which is removed from all server messages.
    pub(super) key: Key,
    iterations: Vec<Iteration>,
    /// Bytes of the document at the last cut.
    offset: usize,
    pub(super) percentage: Option<u8>,
    /// Bytes of text before it was closed.
    given_up_at: Option<usize>,
    outcome: Option<Outcome>,
}

impl Seen {
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            ..Self::default()
        }
    }

    pub(super) fn calls(&self) -> u32 {
        self.iterations
            .last()
            .map_or(1, |iteration| iteration.call + 1)
    }

    pub(super) fn note(&mut self, output: &Output) {
        let first = Iteration {
            outcome: "answered".to_owned(),
            ..Iteration::default()
        };
        if self.iterations.is_empty() {
            self.iterations.push(first);
        }
        match output {
            Output::Call { request, .. } => {
                // A call that is repeated with another strategy has the same number.
                self.iterations
                    .retain(|iteration| iteration.call < request.number);
                let offset = self.offset;
                self.iterations.push(Iteration {
                    call: request.number,
                    offset,
                    ..Iteration::default()
                });
            }
            Output::Event(SessionEvent::Cut { end, offset, .. }) => {
                // A request may have a shorter text than the document, so the offset is that of the
                // cut.
                self.offset = *offset;
                if let Some(iteration) = self
                    .iterations
                    .last_mut()
                    .filter(|iteration| iteration.outcome.is_empty())
                {
                    end.as_str().clone_into(&mut iteration.outcome);
                }
            }
            Output::Event(SessionEvent::Joined { seam, .. }) => {
                let Some(iteration) = self.iterations.last_mut() else {
                    return;
                };
                "joined".clone_into(&mut iteration.outcome);
                (iteration.alignment, iteration.overlap) =
                    (Some(seam.alignment.as_str()), Some(seam.overlap));
            }
            Output::Event(SessionEvent::Progress { percentage, .. }) => {
                self.percentage = Some(*percentage);
            }
            Output::Event(SessionEvent::Failed { reason, .. }) => {
                let Some(iteration) = self.iterations.last_mut() else {
                    return;
                };
                iteration.outcome = self.key.out_of(&reason.to_string());
            }
            Output::Event(SessionEvent::Fallback { offset, .. }) => {
                self.given_up_at = Some(*offset);
            }
            Output::Done { outcome, .. } => self.outcome = Some(outcome.clone()),
            _ => {}
        }
    }
}

pub(super) fn write(file: &Path, text: &str) -> Result<(), Failed> {
    std::fs::write(file, text).map_err(|error| Failed::Io(format!("{}: {error}", file.display())))
}

/// Reports how the answer ended, and writes the document to a file or as JSON.
pub(super) fn report(
    args: &Args,
    document: &Document,
    seen: &Seen,
    removed_bytes: usize,
    console: &mut Console,
) -> Result<(), Failed> {
    let Some(outcome) = &seen.outcome else {
        return Err(Failed::Io("the answer is no stream".to_owned()));
    };
    note_calls(seen, console);
    let exit = exit_of(outcome, document);
    let given_up = given_up(document, seen);
    let kept = match &given_up {
        Some(said) => said.complete().unwrap_or_default(),
        None => document.root().unwrap_or_default().to_owned(),
    };
    // The complete part has no synthesized values and no cut number.
    let (synthesized, cut_value) = match args.is_written_at_the_end() {
        true => (&[][..], None),
        false => (outcome.synthesized(), outcome.cut_value()),
    };
    note_end(exit, document, outcome, (synthesized, cut_value), console);
    console.verdict(exit);
    if let Some(file) = args.output.as_deref().filter(|_| exit != Exit::Invalid) {
        write(file, &kept)?;
    }
    if args.json {
        let tokens = &outcome.tally().tokens;
        let iterations = seen.iterations.iter().map(|iteration| {
            let call = usize::try_from(iteration.call).unwrap_or(usize::MAX);
            let completion_tokens = tokens.get(call).copied().flatten();
            Iteration {
                completion_tokens,
                ..iteration.clone()
            }
        });
        console.answer(&Answer {
            status: outcome.status(),
            document: &kept,
            continuations: outcome.tally().continuations,
            failures: outcome.tally().failures,
            ambiguous: outcome.tally().ambiguous,
            early_end: outcome.tally().early_end,
            synthesized,
            stop: outcome.reason(),
            cause: outcome.cause(),
            percentage: outcome.tally().percentage,
            repairs: &outcome.tally().repairs,
            completion_tokens: tokens
                .iter()
                .any(Option::is_some)
                .then(|| outcome.tally().total_tokens()),
            tokens,
            finish: outcome.finish().map(|finish| finish.as_str()),
            iterations: &iterations.collect::<Vec<_>>(),
            sections: &sections_of(given_up.as_ref().unwrap_or(document)),
            removed_bytes,
        })?;
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
    let said = document.text().get(..seen.given_up_at?)?;
    let mut given_up = Document::new(usize::MAX);
    // The same text was taken before.
    let _ = given_up.push(said);
    Some(given_up)
}

/// Reports how each call after the first ended.
fn note_calls(seen: &Seen, console: &Console) {
    for Iteration {
        call,
        offset,
        outcome,
        alignment,
        overlap,
        ..
    } in &seen.iterations
    {
        if *call > 0 {
            let overlap = overlap.map(|overlap| count(overlap, "byte"));
            let how = alignment
                .zip(overlap)
                .map(|(alignment, overlap)| format!(": {alignment}, {overlap}"));
            console.note(format_args!(
                "call {call} at byte {offset}: {outcome}{}",
                how.unwrap_or_default()
            ));
        }
    }
}

/// Reports how the answer ended, if it is not complete.
fn note_end(
    exit: Exit,
    document: &Document,
    outcome: &Outcome,
    (synthesized, cut_value): (&[String], Option<&str>),
    console: &Console,
) {
    match exit {
        Exit::Cut => {
            let why = outcome.reason().map_or("the end", StopReason::as_str);
            let added = if synthesized.is_empty() {
                String::new()
            } else {
                format!("; synthesized: {}", synthesized.join(", "))
            };
            let cut = cut_value
                .map(|path| format!("; cut in {path}"))
                .unwrap_or_default();
            console.note(format_args!(
                "given up and closed ({why}): elements may be missing{added}{cut}"
            ));
        }
        Exit::Invalid => {
            let begins: String = document.text().trim_start().chars().take(BEGINS).collect();
            let what = if begins.is_empty() {
                "text"
            } else {
                "complete JSON document"
            };
            let finish = outcome.finish().filter(|finish| **finish != Finish::Stop);
            let end = finish
                .map(|finish| format!(" and ended with `{}`", finish.as_str()))
                .unwrap_or_default();
            let begins = if begins.is_empty() {
                begins
            } else {
                format!("; it begins: {begins}")
            };
            console.note(format_args!("the answer has no {what}{end}{begins}"));
        }
        _ => {}
    }
}

/// Characters that are shown of an answer that is not a document.
const BEGINS: usize = 80;
