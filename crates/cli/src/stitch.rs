//! `restitch stitch`: joins a document's parts.

use std::io;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::console::{count, is_zero};
use super::encoding::{EncodedText, open_character};
use super::output::To;
use super::parsed::Parsed;
use super::{Console, Exit, epilogue, explain, jsonl};
use restitch::Limits;
use restitch::internal::prose::{StitchedText, stitch_text};
use restitch::session::{Explanation, Rewind, Status, StitchOptions, Stitched, stitch_with};
use restitch::splice::{Expect, Seam};
use restitch_proxy::config::value::Risk;

/// Arguments of `restitch stitch`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct StitchArgs {
    /// The parts, in order; `-` is standard input.
    #[arg(value_name = "PART", default_value = "-")]
    parts: Vec<PathBuf>,
    /// How the requests asked for the continuations.
    #[arg(long, value_enum, default_value_t = Expected::Any)]
    expect: Expected,
    /// The largest probability of a wrong join that is accepted, from 0 to 1. 0 joins only what was
    /// asked for. [default: 0.001]
    #[arg(long, value_name = "RISK")]
    max_risk: Option<Risk>,
    /// Explain for each part why it was joined where it was, or skipped. docs/internals/seam.md
    /// has an example.
    #[arg(long)]
    explain: bool,
    /// If a part contradicts the element that was cut, replace the element by the part's own.
    #[arg(long)]
    rewind: bool,
    /// Join text that is not JSON: prose, Markdown or code.
    #[arg(long, conflicts_with = "rewind")]
    text: bool,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
    /// Read {"id", "parts", "expect"} from each line of standard input, and answer each in JSON.
    #[arg(long, conflicts_with = "parts")]
    jsonl: bool,
    #[command(flatten)]
    to: To,
}

const EXAMPLES: &str = r#"Examples:
  restitch stitch first.json second.json > whole.json
  restitch decode second.sse | restitch stitch --expect anchor first.json -
  restitch stitch --json part*.txt | jq .seams
  restitch stitch --explain first.json second.json > /dev/null
  restitch stitch --text --expect exact page1.md page2.md
  echo '{"id": 1, "parts": ["[1, 2", ", 3]"], "expect": "exact"}' | restitch stitch --jsonl

A part that fails to merge is skipped. A later part is joined only if repeated text proves its place; without such a
part the document is closed. Fences, preambles and repeated text are removed. The document goes to standard output,
notes on the seams to standard error.

With --json: {"status": "complete|closed|failed", "json", "seams": [{"offset", "overlap", "alignment", "posterior"}],
"failures"}. The posterior is the probability that the part belongs there; it is 1 where it was asked for. If the
first part has a mistake, no other part is joined to it: `json` is closed before the mistake, as by `restitch close`,
and `error` says what is wrong. With --rewind, `rewound` has the paths of the elements that were replaced. Bytes that
are not UTF-8 are removed, and `removed_bytes` counts them. `failed` names the parts that were skipped or joined in
part: {"part", "reason"}; the first part is 1. With --explain, seams and skipped parts have a member `explain`: {"part",
"expect", "cut", "anchor", "candidates", "pending", "decided", "repairs"}.

With --text, parts are joined at their anchors only, or as they are with `--expect exact`. The text counts as complete
if every part was joined; the answer has `text` in place of `json`.

With --jsonl, a line without `expect` follows --expect.

Exit codes: 0 complete; 3 cut: closed where the parts end, or nothing is certain there; 4 the first part is malformed, or
bytes are not UTF-8; 1 unreadable."#;

/// How the requests asked for the continuations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Expected {
    /// They were asked to repeat the end of the text before.
    Anchor,
    /// They were asked to continue exactly at the cut.
    Exact,
    /// The requests are unknown.
    Any,
}

impl From<Expected> for Expect {
    fn from(expected: Expected) -> Self {
        match expected {
            Expected::Anchor => Self::Anchor,
            Expected::Exact => Self::Exact,
            Expected::Any => Self::Any,
        }
    }
}

#[derive(Serialize)]
struct StitchReport {
    status: &'static str,
    /// With `--text` the answer has `text`, else `json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    seams: Vec<Join>,
    failures: usize,
    /// The mistake in the first part. Left out if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Left out if no part failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<explain::FailedReport>,
    /// Left out if nothing was replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rewound: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    removed_bytes: usize,
}

#[derive(Serialize)]
struct Join {
    offset: usize,
    overlap: usize,
    alignment: &'static str,
    /// The probability that the part belongs there; 1 if the request asked for this offset.
    posterior: f64,
    /// Left out if it is false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ambiguous: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<explain::Explain>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    early_end: bool,
}

impl StitchReport {
    fn new(stitched: Stitched, why: &[Explanation]) -> Self {
        let mut seams: Vec<Join> = stitched.seams.iter().map(Join::from).collect();
        let joined = why.iter().filter(|why| why.seam().is_some());
        for (seam, why) in seams.iter_mut().zip(joined) {
            seam.explain = Some(why.into());
        }
        Self {
            failed: stitched
                .failed
                .iter()
                .map(|failed| explain::FailedReport::new(failed, why))
                .collect(),
            status: stitched.status.as_str(),
            json: Some(stitched.json),
            text: None,
            seams,
            failures: stitched.failed.len(),
            error: None,
            rewound: stitched.rewound,
            removed_bytes: 0,
        }
    }
}

impl From<StitchedText> for StitchReport {
    fn from(stitched: StitchedText) -> Self {
        Self {
            failed: Vec::new(),
            status: stitched.status.as_str(),
            json: None,
            text: Some(stitched.text),
            seams: stitched.seams.iter().map(Join::from).collect(),
            failures: usize::try_from(stitched.failures).unwrap_or(usize::MAX),
            error: None,
            rewound: Vec::new(),
            removed_bytes: 0,
        }
    }
}

impl From<&Seam> for Join {
    fn from(seam: &Seam) -> Self {
        Self {
            offset: seam.offset,
            overlap: seam.overlap,
            alignment: seam.alignment.as_str(),
            posterior: seam.posterior,
            ambiguous: seam.ambiguous,
            explain: None,
            early_end: seam.early_end,
        }
    }
}

pub(super) fn run(args: &StitchArgs, console: &mut Console) -> io::Result<()> {
    console.write_to(args.to.output.as_deref());
    let mut limits = Limits::default();
    limits.continuation.max_risk = args
        .max_risk
        .map_or(limits.continuation.max_risk, f64::from);
    if args.jsonl {
        return run_jsonl(args, &limits, console);
    }
    if !console.names_stdin_once(&args.parts) {
        return Ok(());
    }
    let mut parts = Vec::new();
    for path in &args.parts {
        // A missing part may cause a wrong join, so the command reads all parts before it joins
        // any.
        let Some(part) = console.read(path) else {
            continue;
        };
        parts.push(part);
    }
    if parts.len() < args.parts.len() {
        return Ok(());
    }
    mend_characters(&mut parts);
    let texts: Vec<EncodedText> = parts.into_iter().map(EncodedText::new).collect();
    texts
        .iter()
        .zip(&args.parts)
        .for_each(|(text, path)| console.left_out(path, text));
    let Outcome {
        status,
        answer,
        why,
        wrong,
    } = stitched(args, &texts, args.expect, &limits);
    console.verdict(exit(status, wrong.is_some()));
    if let Some((path, parsed)) =
        wrong.and_then(|(part, parsed)| Some((args.parts.get(part)?, parsed)))
    {
        parsed.note_deviation(&path.display().to_string(), console);
    }
    if args.json {
        return console.answer(&answer);
    }
    why.iter().for_each(|why| explain::print(why, console));
    print_notes(&answer, console);
    let is_empty = answer
        .json
        .as_ref()
        .or(answer.text.as_ref())
        .is_none_or(String::is_empty);
    match (status, answer.error.is_some()) {
        (Status::Complete, _) => {}
        (Status::Closed, false) if args.text => {}
        (_, true) if is_empty => console.notes.note("no document could be made of the parts"),
        (_, true) => console
            .notes
            .note("the first part has a mistake: closed before it"),
        (_, false) if is_empty => console.notes.note("nothing of the document is certain yet"),
        (_, false) => console
            .notes
            .note("the parts end before the document does: closed"),
    }
    console.text(answer.json.or(answer.text).as_deref().unwrap_or_default())
}

/// Answers each line of standard input, which has a single document's parts.
fn run_jsonl(args: &StitchArgs, limits: &Limits, console: &mut Console) -> io::Result<()> {
    jsonl::serve(console, |request, console| {
        let parts: Vec<EncodedText> = request
            .parts(console)?
            .into_iter()
            .map(EncodedText::from)
            .collect();
        let expect = match request.word("expect")? {
            Some(word) => Expected::from_str(&word, false)
                .map_err(|_| "`expect` is anchor, exact or any".to_owned())?,
            None => args.expect,
        };
        let Outcome {
            status,
            answer,
            wrong,
            ..
        } = stitched(args, &parts, expect, limits);
        console.verdict(exit(status, wrong.is_some()));
        Ok(answer)
    })
}

/// Prints the seams, the replaced values, and the number of failed parts.
fn print_notes(answer: &StitchReport, console: &Console) {
    for Join {
        offset,
        overlap,
        alignment,
        ambiguous,
        early_end,
        ..
    } in &answer.seams
    {
        let ambiguous = if *ambiguous { ", ambiguous" } else { "" };
        let early_end = if *early_end { ", an early end" } else { "" };
        console.notes.note(format_args!(
            "seam at byte {offset}: {alignment}, {} repeated{ambiguous}{early_end}",
            count(*overlap, "byte")
        ));
    }
    for path in &answer.rewound {
        console.notes.note(format_args!(
            "replaced: {}",
            if path.is_empty() { "the root" } else { path }
        ));
    }
    for failed in &answer.failed {
        console.notes.note(format_args!(
            "part {} failed: {}",
            failed.part, failed.reason
        ));
    }
    if answer.failures > 0 {
        console.notes.note(format_args!(
            "{} failed to merge",
            count(answer.failures, "part")
        ));
    }
}

/// The results of the parts.
struct Outcome {
    status: Status,
    answer: StitchReport,
    why: Vec<Explanation>,
    /// The part that the document begins with, and its number, if that part has a mistake. No other
    /// part is joined to it then.
    wrong: Option<(usize, Parsed<()>)>,
}

fn exit(status: Status, is_wrong: bool) -> Exit {
    match status {
        _ if is_wrong => Exit::Invalid,
        Status::Complete => Exit::Complete,
        _ => Exit::Cut,
    }
}

fn stitched(
    args: &StitchArgs,
    texts: &[EncodedText],
    expect: Expected,
    limits: &Limits,
) -> Outcome {
    let removed_bytes = texts.iter().map(EncodedText::left_out).sum();
    let parts = texts.iter().map(|part| part.text.as_str());
    if args.text {
        let stitched = stitch_text(parts, expect.into(), limits);
        let status = stitched.status;
        return Outcome {
            status,
            answer: StitchReport {
                removed_bytes,
                ..stitched.into()
            },
            why: Vec::new(),
            wrong: None,
        };
    }
    let rewind = if args.rewind {
        Rewind::Element
    } else {
        Rewind::Never
    };
    let mut options = StitchOptions::new().expect(expect.into()).rewind(rewind);
    if args.explain {
        options = options.explained();
    }
    let mut stitched = stitch_with(parts, &options, limits);
    let why = std::mem::take(&mut stitched.explanations);
    let status = stitched.status;
    let first = texts
        .iter()
        .enumerate()
        .find(|(_, part)| !part.text.is_empty() || !part.half.is_empty());
    let first = first
        .filter(|(_, part)| status == Status::Failed || texts.len() == 1 && !part.half.is_empty());
    let wrong = first.map(|(number, part)| (number, Parsed::of(part)));
    let wrong = wrong.filter(|(_, parsed)| parsed.mistake().is_some());
    let error = wrong.as_ref().and_then(|(_, parsed)| parsed.mistake());
    Outcome {
        status,
        answer: StitchReport {
            error,
            removed_bytes,
            ..StitchReport::new(stitched, &why)
        },
        why,
        wrong,
    }
}

/// Moves a character that is cut between two parts into the later one, since neither half is text.
/// Parts between the two that do not begin with the rest of the character are answers that did not
/// continue, for example refusals.
fn mend_characters(parts: &mut [Vec<u8>]) {
    let mut open: Option<(usize, usize)> = None;
    for at in 0..parts.len() {
        if let Some((from, start)) = open {
            let (before, after) = parts.split_at_mut(at);
            if let (Some(head), Some(part)) = (before.get_mut(from), after.first_mut())
                && begins_with_rest(head.get(start..).unwrap_or_default(), part)
            {
                let half = head.split_off(start);
                part.splice(..0, half);
                open = None;
            }
        }
        if let Some(start) = parts.get(at).and_then(|part| open_character(part)) {
            open = Some((at, start));
        }
    }
}

/// Returns whether `part` begins with the rest of the character that begins with `half`.
fn begins_with_rest(half: &[u8], part: &[u8]) -> bool {
    let rest = part.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80);
    let whole: Vec<u8> = half.iter().chain(rest).copied().collect();
    whole.len() > half.len() && std::str::from_utf8(&whole).is_ok()
}

#[cfg(test)]
mod tests {
    use super::mend_characters;

    fn check(parts: &[&[u8]], mended: &[&[u8]]) {
        let mut parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        mend_characters(&mut parts);
        assert_eq!(parts, mended);
    }

    #[test]
    fn a_character_cut_at_a_byte_is_mended() {
        let smile = "😀".as_bytes();
        for cut in 1..4 {
            let (head, tail) = smile.split_at(cut);
            check(
                &[&[b"[\"a", head].concat(), &[tail, b"b\"]"].concat()],
                &[b"[\"a", "😀b\"]".as_bytes()],
            );
            // A refusal is between the two.
            check(&[head, b"no", tail], &[b"", b"no", smile]);
            // The next part repeats the whole text: the half is kept, and removed later.
            check(&[head, smile], &[head, smile]);
        }
        check(&[b"\xe2", b"\x82", b"\xac"], &[b"\xe2", b"\x82", b"\xac"]);
        check(&[b"a\xff", b"\x80", b""], &[b"a\xff", b"\x80", b""]);
        check(&[b"\xc3", b"\xa9\x80"], &[b"\xc3", b"\xa9\x80"]);
    }
}
