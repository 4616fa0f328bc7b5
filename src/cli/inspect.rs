//! `restitch inspect`: where a text stops, and what a continuation needs.

use std::io;

use serde::Serialize;

use super::Console;
use super::parsed::{Input, Parsed};
use crate::Limits;
use crate::overlap::Anchor;

/// Arguments of `restitch inspect`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    input: Input,
}

const EXAMPLES: &str = r#"Examples:
  restitch inspect cut.json
  printf '{"items": [1, "tw' | restitch inspect
  restitch inspect --json cut.json | jq -r .overlap_context
  echo '{"id": 7, "text": "[1, 2"}' | restitch inspect --jsonl

With --json: {"cut": {"offset", "path", "in"}, "overlap_context", "ambiguous", "complete_part",
"json_parsing_success", "complete"}. `path` is a JSON Pointer. `in` is one of start, value, key, string, escape,
number, literal, after_value, done. `overlap_context` is the end of the text that a continuation is asked to repeat;
`ambiguous` says that it stands elsewhere, too, or goes on as it began. Of a malformed text, what stands before the
deviation is shown.

Exit codes: 0 complete, 3 cut, 4 malformed, 1 unreadable."#;

#[derive(Serialize)]
struct Answer {
    cut: Cut,
    overlap_context: String,
    ambiguous: bool,
    complete_part: String,
    json_parsing_success: bool,
    complete: bool,
}

/// Where a text stops.
#[derive(Serialize)]
pub(super) struct Cut {
    pub(super) offset: usize,
    pub(super) path: String,
    #[serde(rename = "in")]
    pub(super) state: &'static str,
}

impl Answer {
    fn new(parsed: &Parsed) -> Self {
        let document = &parsed.document;
        let cut = document.cut();
        // A closed root needs no continuation; before a root there is nothing that one could repeat.
        let is_open = document.root_start().is_some() && !document.is_complete();
        let anchor = is_open.then(|| Anchor::of(document.text(), Limits::default().anchor)).flatten();
        let ambiguous = anchor.as_ref().is_some_and(|anchor| anchor.ambiguous);
        let overlap = anchor.and_then(|anchor| document.text().get(anchor.range)).unwrap_or_default();
        let complete_part = document.complete();
        Self {
            cut: Cut { offset: cut.offset, path: cut.path, state: cut.state.as_str() },
            overlap_context: overlap.to_owned(),
            ambiguous,
            json_parsing_success: complete_part.is_some(),
            complete_part: complete_part.unwrap_or_default(),
            complete: document.is_complete(),
        }
    }

    /// For people: aligned, each text on one line, of the long one its size and end.
    fn print(&self, console: &mut Console) -> io::Result<()> {
        let yes_or_no = |yes| if yes { "yes" } else { "no" };
        let path = if self.cut.path.is_empty() { "the root" } else { &self.cut.path };
        let start = self.complete_part.char_indices().rev().nth(SHOWN - 1).map_or(0, |(at, _)| at);
        let end = self.complete_part.get(start..).unwrap_or_default();
        let dots = if start > 0 { "…" } else { "" };
        console.line(format_args!("cut              byte {}, in `{}`", self.cut.offset, self.cut.state))?;
        console.line(format_args!("path             {path}"))?;
        if self.json_parsing_success {
            let size = self.complete_part.len();
            console.line(format_args!("complete part    {size} bytes: {dots}{end}"))?;
        } else {
            console.line("complete part    none yet")?;
        }
        if self.overlap_context.is_empty() {
            console.line("overlap context  none")?;
        } else {
            console.line(format_args!("overlap context  {}", self.overlap_context))?;
            console.line(format_args!("ambiguous        {}", yes_or_no(self.ambiguous)))?;
        }
        console.line(format_args!("complete         {}", yes_or_no(self.complete)))
    }
}

/// Characters of the complete part's end that people are shown.
const SHOWN: usize = 60;

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    args.input.run(console, Answer::new, |_, _, answer, console| answer.print(console))
}
