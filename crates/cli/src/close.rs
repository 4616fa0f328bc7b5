//! `restitch close`: the complete part of a cut-off text.

use std::io;

use clap::ValueEnum;
use serde::Serialize;

use super::parsed::{Answers, Input, LATER_ROOT, Parsed};
use super::{Console, epilogue};
use restitch::json::{CloseOptions, Partial};

/// Arguments of `restitch close`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct CloseArgs {
    #[command(flatten)]
    input: Input,
    /// What to do with a string that is cut.
    #[arg(long, value_enum, default_value_t = CutToken::Include)]
    strings: CutToken,
    /// What to do with `true`, `false` or `null` when only some of its letters have arrived.
    #[arg(long, value_enum, default_value_t = CutToken::Omit)]
    literals: CutToken,
}

const EXAMPLES: &str = r#"Examples:
  restitch close cut.json > closed.json
  printf '{"title": "Hel' | restitch close
  restitch close --json cut.json other.json
  restitch close -o cut.json cut.json
  restitch close --strings omit --literals include cut.json
  echo '{"id": "a", "text": "[1, 2"}' | restitch close --jsonl

Whatever is not certain is dropped: an unfinished number, literal, escape or key, a comma, a key without its value. A
cut string is kept, unless --strings omit is given. A cut literal can be completed, since its letters allow one value
only. Text around the JSON, for example a Markdown fence, is left out.

With --json: {"complete", "json"}. `json` is "" if nothing is certain yet. Of a text with a mistake, `json` is the
part before the mistake, and `error` says what is wrong. Bytes that are not UTF-8 are removed, and `removed_bytes`
counts them. With several files, each closed text ends with a line feed, and each answer in JSON names its `file`.

Of several roots the first is closed. If the text is cut in a later one, the first is not the whole answer: exit code 3.

Exit codes: 0 the text was complete, 3 it was cut and is closed, 4 it is malformed (the part before the error is
closed) or not UTF-8, 1 unreadable. A text that ends inside a character, and an empty one, are cut. Of several files
the worst counts."#;

#[derive(Serialize)]
pub(super) struct CloseReport {
    complete: bool,
    json: String,
}

/// What to do with a token that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CutToken {
    /// Drop it.
    Omit,
    /// Keep and complete it.
    Include,
}

impl From<CutToken> for Partial {
    fn from(token: CutToken) -> Self {
        match token {
            CutToken::Omit => Self::Omit,
            CutToken::Include => Self::Include,
        }
    }
}

impl Answers for CloseOptions {
    type Sink = ();
    type Answer<'a> = CloseReport;

    fn answer(&self, parsed: &Parsed<()>) -> CloseReport {
        let json = parsed
            .shows_json()
            .then(|| parsed.document.complete_with(*self))
            .flatten();
        CloseReport {
            complete: parsed.is_complete(),
            json: json.unwrap_or_default(),
        }
    }

    fn print(
        &self,
        file: &str,
        are_several: bool,
        parsed: &Parsed<()>,
        console: &mut Console,
    ) -> io::Result<()> {
        let answer = self.answer(parsed);
        if parsed.is_cut() {
            let cut = parsed.document.cut();
            let outcome = if answer.json.is_empty() {
                "nothing is certain yet"
            } else {
                "closed"
            };
            if parsed.is_cut_later {
                console.notes.note(format_args!(
                    "{file}: {LATER_ROOT}, at byte {}: this is the first root",
                    cut.offset
                ));
            } else {
                console.notes.note(format_args!(
                    "{file}: cut at byte {}, in `{}`: {outcome}",
                    cut.offset,
                    cut.state.as_str()
                ));
            }
        }
        if are_several {
            console.lines(&format!("{}\n", answer.json))
        } else {
            console.text(&answer.json)
        }
    }
}

pub(super) fn run(args: &CloseArgs, console: &mut Console) -> io::Result<()> {
    let closing = CloseOptions {
        strings: args.strings.into(),
        literals: args.literals.into(),
    };
    args.input.run(console, &closing)
}
