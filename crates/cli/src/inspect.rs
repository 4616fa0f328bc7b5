//! `restitch inspect`: shows where a text stops, the contexts for its continuation, and its complete
//! part.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Serialize, Serializer};

use super::console::{Notes, count, one_line, place};
use super::encoding::EncodedText;
use super::jsonl::LineRequest;
use super::parsed::Parsed;
use super::texts::{TextCommand, Texts};
use super::{Console, Exit, Failure, epilogue};
use restitch::context::{self, ContextOptions, Contexts};
use restitch::{Cut, Limits};

/// Arguments of `restitch inspect`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct InspectArgs {
    #[command(flatten)]
    texts: Texts,
    /// Write only the complete part: the text up to its last certain byte, with the missing
    /// closers.
    #[arg(long, conflicts_with_all = ["json", "jsonl"])]
    close: bool,
    /// Characters that `hierarchy_context_for_prompt` may take of values.
    #[arg(long, value_name = "CHARACTERS", default_value_t = context::BUDGET)]
    budget: usize,
}

const EXAMPLES: &str = r#"Examples:
  restitch inspect cut.json
  restitch inspect --close < cut.json | jq .
  restitch inspect --json cut.json | jq -r .overlap_context
  restitch inspect --json --budget 100 cut.json | jq -r .hierarchy_context_for_prompt
  echo '{"id": 7, "text": "[1, 2"}' | restitch inspect --jsonl

The complete part drops whatever is not certain: an unfinished number, literal, escape or key, a comma, a key without its
value. A cut string is kept. Text around the JSON, for example a Markdown fence, is left out. Of several roots
the answer is chosen as by `restitch parse`. If the text is cut in another one, it is not the whole answer: exit code 3.

With --json: {"cut": {"offset", "path", "in"}, "overlap_context", "ambiguous", "complete_part",
"json_parsing_success", "hierarchy_context", "hierarchy_context_for_prompt", "delivered_summary", "cut_off_element",
"element_before_cutoff", "last_raw_json", "kpi_question", "complete"}, and "others" (further roots). `path` is a JSON Pointer. `in` is one of start,
value, key, string, escape, number, literal, after_value, done. `overlap_context` is the end of the text, which a
continuation is asked to repeat; `ambiguous` says that it also occurs elsewhere, or could go on as it began.
docs/internals/contexts.md explains the others.

Of a malformed text, the part before the error is shown, and `error` says what is wrong. Bytes that are not UTF-8 are
removed, and `removed_bytes` counts them. With several files, each answer names its `file`.

Exit codes: 0 complete, 3 cut (also inside a character), 4 malformed or not UTF-8, 1 unreadable. Of several files the
worst counts."#;

pub(super) fn run(args: &InspectArgs, console: &mut Console) -> Result<(), Failure> {
    args.texts.run(args, console)
}

/// A text. Its contexts are made when the answer is serialized.
pub(super) struct InspectReport {
    parsed: Parsed,
    budget: usize,
}

impl Serialize for InspectReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Members<'a> {
            cut: Cut,
            #[serde(flatten)]
            contexts: Contexts<'a>,
            complete: bool,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            others: Vec<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<String>,
        }
        let Parsed {
            document, index, ..
        } = &self.parsed;
        let options = ContextOptions::default().budget(self.budget);
        Members {
            cut: document.cut(),
            contexts: Contexts::of(document, index, &options),
            complete: self.parsed.exit() == Exit::Complete,
            others: document.other_roots().collect(),
            error: self.parsed.mistake(),
        }
        .serialize(serializer)
    }
}

impl TextCommand for InspectArgs {
    type Report<'t> = InspectReport;

    fn read(
        &self,
        text: &EncodedText,
        _: Option<&LineRequest<'_>>,
    ) -> Result<InspectReport, String> {
        Ok(InspectReport {
            parsed: Parsed::new(text),
            budget: self.budget,
        })
    }

    fn exit(&self, report: &InspectReport) -> Exit {
        report.parsed.exit()
    }

    fn note(&self, name: &str, _: &str, report: &InspectReport, notes: Notes) {
        let parsed = &report.parsed;
        parsed.note(name, notes);
        if self.close && parsed.exit() == Exit::Cut {
            let cut = parsed.document.cut();
            let place = if parsed.is_cut_later {
                "another root than this one"
            } else {
                cut.state.as_str()
            };
            notes.note(format_args!(
                "{name}: cut at byte {}, in {place}",
                cut.offset
            ));
        }
    }

    fn output<'r>(&self, name: &str, report: &'r InspectReport) -> Cow<'r, str> {
        Cow::Owned(if self.close {
            report.parsed.complete_part().unwrap_or_default()
        } else {
            described(name, &report.parsed)
        })
    }
}

/// Returns aligned lines; of the complete part, which may be long, the size and the end.
fn described(name: &str, parsed: &Parsed) -> String {
    let document = &parsed.document;
    let cut = document.cut();
    let stop = format!("byte {}, in `{}`", cut.offset, cut.state.as_str());
    let part = document.complete().map(|part| {
        let start = part.char_indices().rev().nth(SHOWN - 1);
        let start = start.map_or(0, |(at, _)| at);
        let dots = if start > 0 { "…" } else { "" };
        let end = part.get(start..).unwrap_or_default();
        format!("{}: {dots}{end}", count(part.len(), "byte"))
    });
    let anchor = restitch::internal::context::overlap_context(
        document,
        Limits::default().continuation.max_anchor_chars,
    );
    let overlap = Some(anchor.text).filter(|text| !text.is_empty());
    let is_complete = parsed.exit() == Exit::Complete;
    let mut lines = String::new();
    for (key, value) in [
        ("text", name),
        ("cut", &stop),
        ("path", place(&cut.path)),
        ("complete part", part.as_deref().unwrap_or("none yet")),
        ("overlap context", overlap.unwrap_or("none")),
        ("ambiguous", yes_or_no(anchor.ambiguous)),
        ("complete", yes_or_no(is_complete)),
    ] {
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{key:<15}  {}", one_line(value));
    }
    lines
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// Characters that are shown of the complete part's end.
const SHOWN: usize = 60;
