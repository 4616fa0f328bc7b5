//! `restitch stitch`: joins a document's parts.

use std::path::PathBuf;

use serde::Serialize;

use super::console::{Notes, count, is_zero, place};
use super::encoding::{EncodedText, open_character};
use super::output::To;
use super::parsed::Parsed;
use super::repairs::note_others;
use super::{Console, Exit, Failure, epilogue, jsonl};
use restitch::Limits;
use restitch::internal::prose::{StitchedText, stitch_text};
use restitch::session::{
    Explanation, FailedPart, Rewind, Status, StitchOptions, Stitched, stitch_with,
};
use restitch::splice::Expect;
use restitch_proxy::config::value::risk;

/// Arguments of `restitch stitch`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct StitchArgs {
    /// The parts, in order; `-` is standard input.
    #[arg(value_name = "PART", default_value = "-")]
    parts: Vec<PathBuf>,
    /// How the requests asked for the continuations: `anchor`, to repeat the end of the text before;
    /// `exact`, to continue exactly at the cut; or `any`, if that is unknown.
    #[arg(long, value_name = "HOW", default_value = "any", value_parser = expect)]
    expect: Expect,
    /// The largest probability of a wrong join that is accepted, from 0 to 1. 0 joins only what was
    /// asked for. [default: 0.001]
    #[arg(long, value_name = "RISK", value_parser = risk)]
    max_risk: Option<f64>,
    /// List for each part the places that were tried. docs/internals/seam.md explains their scores;
    /// --json has the whole decision.
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
  restitch stitch --expect anchor first.json - < second.json
  restitch stitch --json part*.txt | jq .seams
  restitch stitch --explain first.json second.json > /dev/null
  restitch stitch --text --expect exact page1.md page2.md
  echo '{"id": 1, "parts": ["[1, 2", ", 3]"], "expect": "exact"}' | restitch stitch --jsonl

A part that fails to merge is skipped. A later part is joined only if repeated text proves its place; without such a
part the document is closed. Fences, preambles and repeated text are removed. The document goes to standard output,
notes on the seams to standard error.

With --json: {"status": "complete|closed|failed", "json", "seams": [{"offset", "path", "overlap", "alignment", "ambiguous",
"pending", "decided", "rivals", "posterior", "early_end"}], "failed": [{"part", "reason"}]}. The posterior is the
probability that the part belongs there; it is 1 where it was asked for. `failed` names the parts that were skipped or
joined in part; the first part is 1. If the first part has a mistake, no other part is joined to it: `json` is closed
before the mistake, as by `restitch inspect --close`, and `error` says what is wrong. `others` has further roots. With --rewind, `rewound` has the paths of
the elements that were replaced. Bytes that are not UTF-8 are removed, and `removed_bytes` counts them. With --explain,
`explanations` has for each further part {"part", "after_gap", "expect", "cut", "anchor", "candidates", "unlisted",
"is_crowded", "pending", "seam", "failure", "repairs"}.

With --text, parts are joined at their anchors only, or as they are with `--expect exact`. The text counts as complete
if every part was joined; the answer has `text` in place of `json`.

With --jsonl, a line without `expect` follows --expect.

Exit codes: 0 complete; 3 cut: closed where the parts end, or nothing is certain there; 4 the first part is malformed, or
bytes are not UTF-8; 1 unreadable."#;

/// Parses how the requests asked for the continuations.
fn expect(word: &str) -> Result<Expect, &'static str> {
    match word {
        "anchor" => Ok(Expect::Anchor),
        "exact" => Ok(Expect::Exact),
        "any" => Ok(Expect::Any),
        _ => Err("`expect` is anchor, exact or any"),
    }
}

#[derive(Serialize)]
struct StitchReport {
    #[serde(flatten)]
    result: StitchResult,
    /// The mistake in the first part. Left out if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    removed_bytes: usize,
}

#[derive(Serialize)]
#[serde(untagged)]
enum StitchResult {
    Json(Stitched),
    Text(StitchedText),
}

impl StitchReport {
    fn new(args: &StitchArgs, texts: &[EncodedText], expect: Expect, limits: &Limits) -> Self {
        let removed_bytes = texts.iter().map(EncodedText::left_out).sum();
        let parts = texts.iter().map(|part| part.text.as_str());
        if args.text {
            return Self {
                result: StitchResult::Text(stitch_text(parts, expect, limits)),
                error: None,
                removed_bytes,
            };
        }
        let mut options = StitchOptions::new().expect(expect);
        if args.rewind {
            options = options.rewind(Rewind::Element);
        }
        if args.explain {
            options = options.explained();
        }
        let stitched = stitch_with(parts, &options, limits);
        // No part is joined to one that has a mistake.
        let first = texts
            .iter()
            .find(|part| !part.text.is_empty() || !part.half.is_empty())
            .filter(|part| {
                let ends_in_half = texts.len() == 1 && !part.half.is_empty();
                stitched.status == Status::Failed || ends_in_half
            });
        Self {
            error: first.and_then(|part| Parsed::new(part).mistake()),
            result: StitchResult::Json(stitched),
            removed_bytes,
        }
    }

    fn status(&self) -> Status {
        match &self.result {
            StitchResult::Json(stitched) => stitched.status,
            StitchResult::Text(stitched) => stitched.status,
        }
    }

    fn text(&self) -> &str {
        match &self.result {
            StitchResult::Json(stitched) => &stitched.json,
            StitchResult::Text(stitched) => &stitched.text,
        }
    }

    fn exit(&self) -> Exit {
        match self.status() {
            _ if self.error.is_some() => Exit::Invalid,
            Status::Complete => Exit::Complete,
            _ => Exit::Cut,
        }
    }

    /// Reports the seams, the replaced values, the parts that failed, and the end.
    fn note(&self, notes: Notes) {
        let (seams, failures) = match &self.result {
            StitchResult::Text(stitched) => (&stitched.seams, stitched.failures),
            StitchResult::Json(stitched) => {
                for why in &stitched.explanations {
                    explain(why, notes);
                }
                (&stitched.seams, stitched.failed.len())
            }
        };
        for seam in seams {
            let ambiguous = if seam.ambiguous { ", ambiguous" } else { "" };
            let early_end = if seam.early_end { ", an early end" } else { "" };
            notes.note(format_args!(
                "seam at byte {}: {}, {} repeated{ambiguous}{early_end}",
                seam.offset,
                seam.alignment.as_str(),
                count(seam.overlap, "byte")
            ));
        }
        if let StitchResult::Json(stitched) = &self.result {
            for path in &stitched.rewound {
                notes.note(format_args!("replaced: {}", place(path)));
            }
            note_others("the parts", stitched.others.len(), notes);
            for FailedPart { part, reason, .. } in &stitched.failed {
                notes.note(format_args!("part {} failed: {reason}", part + 1));
            }
        }
        if failures > 0 {
            notes.note(format_args!("{} failed to merge", count(failures, "part")));
        }
        let is_text = matches!(self.result, StitchResult::Text(_));
        match (self.status(), self.error.is_some()) {
            (Status::Complete, _) => {}
            (Status::Closed, false) if is_text => {}
            (_, true) if self.text().is_empty() => {
                notes.note("no document could be made of the parts");
            }
            (_, true) => notes.note("the first part has a mistake: closed before it"),
            (_, false) if self.text().is_empty() => {
                notes.note("nothing of the document is certain yet");
            }
            (_, false) => notes.note("the parts end before the document does: closed"),
        }
    }
}

/// Reports why a part was joined where it was, or skipped: one line, and one for each candidate.
fn explain(why: &Explanation, notes: Notes) {
    let part = why.part + 1;
    match (why.seam(), &why.explained.failure) {
        (Some(seam), _) => notes.note(format_args!(
            "part {part}: joined at byte {}: {}",
            seam.offset,
            seam.alignment.as_str()
        )),
        (None, Some(reason)) => notes.note(format_args!("part {part}: skipped: {reason}")),
        (None, None) => notes.note(format_args!("part {part}: skipped")),
    }
    for candidate in &why.explained.candidates {
        // A candidate can always be serialized.
        let candidate = serde_json::to_string(candidate).unwrap_or_default();
        notes.detail(&format!("  {candidate}"));
    }
}

pub(super) fn run(args: &StitchArgs, console: &mut Console) -> Result<(), Failure> {
    console.write_to(args.to.output.as_deref());
    let mut limits = Limits::default();
    limits.continuation.max_risk = args.max_risk.unwrap_or(limits.continuation.max_risk);
    if args.jsonl {
        return jsonl::serve(console, |line, console| {
            let parts = line.parts(console)?.into_iter().map(EncodedText::from);
            let expect = match line.word("expect")? {
                Some(word) => expect(&word)?,
                None => args.expect,
            };
            let report = StitchReport::new(args, &parts.collect::<Vec<_>>(), expect, &limits);
            console.verdict(report.exit());
            serde_json::to_string(&report).map_err(|error| error.to_string())
        });
    }
    Console::check_stdin(&args.parts)?;
    // A missing part may cause a wrong join, so the command reads all parts before it joins any.
    let mut parts: Vec<Vec<u8>> = args
        .parts
        .iter()
        .filter_map(|path| console.read(path))
        .collect();
    if parts.len() < args.parts.len() {
        return Err(Failure::Reported);
    }
    mend_characters(&mut parts);
    let texts: Vec<EncodedText> = parts.into_iter().map(EncodedText::new).collect();
    for (text, path) in texts.iter().zip(&args.parts) {
        console.left_out(path, text);
    }
    let report = StitchReport::new(args, &texts, args.expect, &limits);
    console.verdict(report.exit());
    if args.json {
        return console.answer(&report);
    }
    let first = texts.iter().zip(&args.parts);
    let first = first
        .filter(|(text, _)| !text.bytes().is_empty())
        .map(|(_, path)| path);
    if let Some((error, path)) = report.error.as_ref().zip({ first }.next()) {
        console
            .notes
            .note(format_args!("{}: {error}", path.display()));
    }
    report.note(console.notes);
    console.text(report.text(), false)
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
