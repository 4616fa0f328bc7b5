//! `restitch inspect`: shows where a text stops, and the contexts for its continuation.

use std::io;

use serde::Serialize;

use super::console::count;
use super::parsed::{Answers, Input, Parsed};
use super::{Console, epilogue};
use restitch::context::{self, ContextIndex, ContextOptions, Contexts};
use restitch::{Document, Limits};

/// Arguments of `restitch inspect`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct InspectArgs {
    #[command(flatten)]
    input: Input,
    /// Characters that `hierarchy_context_for_prompt` may take of values.
    #[arg(long, value_name = "CHARACTERS", default_value_t = context::BUDGET)]
    budget: usize,
}

const EXAMPLES: &str = r#"Examples:
  restitch inspect cut.json
  printf '{"items": [1, "tw' | restitch inspect
  restitch inspect --json cut.json | jq -r .overlap_context
  restitch inspect --json --budget 100 cut.json | jq -r .hierarchy_context_for_prompt
  echo '{"id": 7, "text": "[1, 2"}' | restitch inspect --jsonl

With --json: {"cut": {"offset", "path", "in"}, "overlap_context", "ambiguous", "complete_part",
"json_parsing_success", "hierarchy_context", "hierarchy_context_for_prompt", "delivered_summary", "cut_off_element",
"element_before_cutoff", "last_raw_json", "kpi_question", "complete"}. `path` is a JSON Pointer. `in` is one of start,
value, key, string, escape, number, literal, after_value, done. `overlap_context` is the end of the text, which a
continuation is asked to repeat; `ambiguous` says that it also occurs elsewhere, or could go on as it began.
docs/internals/contexts.md explains the others.

Of a malformed text, the part before the error is shown, and `error` says what is wrong. Bytes that are not UTF-8 are
removed, and `removed_bytes` counts them. With several files, each answer names its `file`.

Exit codes: 0 complete, 3 cut (also inside a character), 4 malformed or not UTF-8, 1 unreadable. Of several files the
worst counts."#;

#[derive(Serialize)]
pub(super) struct InspectReport<'a> {
    cut: CutReport,
    #[serde(flatten)]
    contexts: Contexts<'a>,
    complete: bool,
}

/// Where a text stops.
#[derive(Serialize)]
pub(super) struct CutReport {
    pub(super) offset: usize,
    pub(super) path: String,
    #[serde(rename = "in")]
    pub(super) state: &'static str,
}

impl CutReport {
    fn of(document: &Document) -> Self {
        let cut = document.cut();
        Self {
            offset: cut.offset,
            path: cut.path,
            state: cut.state.as_str(),
        }
    }
}

impl Answers for InspectArgs {
    type Sink = ContextIndex;
    type Answer<'a> = InspectReport<'a>;

    fn answer<'a>(&self, parsed: &'a Parsed<ContextIndex>) -> InspectReport<'a> {
        let document = &parsed.document;
        let options = ContextOptions::default().budget(self.budget);
        InspectReport {
            cut: CutReport::of(document),
            contexts: Contexts::of(document, &parsed.sink, &options),
            complete: parsed.is_complete(),
        }
    }

    /// Writes aligned lines; of the complete part, which may be long, the size and the end.
    fn print(
        &self,
        file: &str,
        are_several: bool,
        parsed: &Parsed<ContextIndex>,
        console: &mut Console,
    ) -> io::Result<()> {
        if are_several {
            console.line(format_args!("file             {file}"))?;
        }
        let document = &parsed.document;
        let yes_or_no = |yes| if yes { "yes" } else { "no" };
        let cut = CutReport::of(document);
        let path = if cut.path.is_empty() {
            "the root"
        } else {
            &cut.path
        };
        console.line(format_args!(
            "cut              byte {}, in `{}`",
            cut.offset, cut.state
        ))?;
        console.line(format_args!("path             {path}"))?;
        match document.complete() {
            Some(part) => {
                let start = part
                    .char_indices()
                    .rev()
                    .nth(SHOWN - 1)
                    .map_or(0, |(at, _)| at);
                let end = part.get(start..).unwrap_or_default();
                let dots = if start > 0 { "…" } else { "" };
                console.line(format_args!(
                    "complete part    {}: {dots}{end}",
                    count(part.len(), "byte")
                ))?;
            }
            None => console.line("complete part    none yet")?,
        }
        let overlap = restitch::internal::context::overlap_context(
            document,
            Limits::default().continuation.max_anchor_chars,
        );
        if overlap.text.is_empty() {
            console.line("overlap context  none")?;
        } else {
            console.line(format_args!("overlap context  {}", overlap.text))?;
            console.line(format_args!(
                "ambiguous        {}",
                yes_or_no(overlap.ambiguous)
            ))?;
        }
        console.line(format_args!(
            "complete         {}",
            yes_or_no(parsed.is_complete())
        ))?;
        if are_several {
            console.line("")
        } else {
            Ok(())
        }
    }
}

/// Characters that are shown of the complete part's end.
const SHOWN: usize = 60;

pub(super) fn run(args: &InspectArgs, console: &mut Console) -> io::Result<()> {
    args.input.run(console, args)
}
