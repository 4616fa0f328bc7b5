//! `restitch close`: the complete part of a cut-off text.

use std::io;

use clap::ValueEnum;
use serde::Serialize;

use super::parsed::{Answers, Input, Parsed};
use super::{Console, epilogue};
use crate::json::{CloseOptions, Partial};

/// Arguments of `restitch close`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// What becomes of a string that is cut.
    #[arg(long, value_enum, default_value_t = Begun::Show)]
    strings: Begun,
    /// What becomes of `true`, `false` or `null` of which only some letters have come.
    #[arg(long, value_enum, default_value_t = Begun::Hold)]
    literals: Begun,
}

const EXAMPLES: &str = r#"Examples:
  restitch close cut.json > closed.json
  printf '{"title": "Hel' | restitch close
  restitch close --json cut.json other.json
  restitch close -o cut.json cut.json
  restitch close --strings hold --literals show cut.json
  echo '{"id": "a", "text": "[1, 2"}' | restitch close --jsonl

What is not certain is dropped: an unfinished number, literal, escape or key, a comma, a key without its value. A
partial string is kept, unless --strings hold says otherwise; a literal can be completed, for it can only become one
thing. What stands around the JSON, a Markdown fence say, is left out.
With --json: {"complete", "json"}; `json` is "" where nothing is certain yet. With several files, each closed text
ends with a line feed, and each answer in JSON has the name in `file`. Bytes that are not UTF-8 are removed, and
`removed_bytes` says how many.

Exit codes: 0 it was complete, 3 it was cut and is closed, 4 it is malformed (the part before the deviation is closed)
or not UTF-8, 1 unreadable; of several files the worst counts."#;

#[derive(Serialize)]
pub(super) struct Answer {
    complete: bool,
    json: String,
}

/// Whether what is only begun is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Begun {
    /// It is dropped.
    Hold,
    /// It is kept, and completed.
    Show,
}

impl From<Begun> for Partial {
    fn from(begun: Begun) -> Self {
        match begun {
            Begun::Hold => Self::Omit,
            Begun::Show => Self::Include,
        }
    }
}

impl Answers for CloseOptions {
    type Sink = ();
    type Answer<'a> = Answer;

    fn answer(&self, parsed: &Parsed<()>) -> Answer {
        let document = &parsed.document;
        Answer { complete: document.is_complete(), json: document.complete_with(*self).unwrap_or_default() }
    }

    fn print(&self, file: &str, are_several: bool, parsed: &Parsed<()>, console: &mut Console) -> io::Result<()> {
        let answer = self.answer(parsed);
        if parsed.is_cut() {
            let cut = parsed.document.cut();
            let outcome = if answer.json.is_empty() { "nothing is certain yet" } else { "closed" };
            console.note(format_args!("{file}: cut at byte {}, in `{}`: {outcome}", cut.offset, cut.state.as_str()));
        }
        if are_several { console.lines(&format!("{}\n", answer.json)) } else { console.text(&answer.json) }
    }
}

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    let closing = CloseOptions { strings: args.strings.into(), literals: args.literals.into() };
    args.input.run(console, &closing)
}
