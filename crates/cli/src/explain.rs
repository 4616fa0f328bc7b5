//! `restitch stitch --explain`: the decision on each part, for people and for programs.

use serde::Serialize;

use super::Console;
use super::console::short;
use super::inspect::CutReport;
use restitch::session::{Explanation, FailedPart, Rung};
use restitch::splice::{AttemptStatus, Candidate, Expect, RequestedAnchor};

/// The decision on one part.
#[derive(Serialize)]
pub(super) struct Explain {
    /// The parts count from 1 here.
    part: usize,
    /// A part before it was skipped, so only repeated text proves where it belongs. Left out if
    /// false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    after_gap: bool,
    expect: &'static str,
    cut: CutReport,
    anchor: Option<RequestedAnchor>,
    #[serde(flatten)]
    tried: TriedCandidates,
    pending: usize,
    decided: Option<usize>,
    repairs: Vec<ExplainedRepair>,
}

/// The candidates of a decision, and those that are not listed.
#[derive(Serialize)]
struct TriedCandidates {
    candidates: Vec<ExplainedAttempt>,
    #[serde(skip_serializing_if = "is_zero")]
    unlisted: usize,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    crowded: bool,
}

/// A part that was skipped, or broke off after its seam.
#[derive(Serialize)]
pub(super) struct FailedReport {
    /// The parts count from 1 here.
    pub(super) part: usize,
    pub(super) reason: String,
    /// Present if there is a seam.
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Explain>,
}

/// A candidate, its path in the document, and the text that it would add.
#[derive(Serialize)]
struct ExplainedAttempt {
    #[serde(flatten)]
    candidate: Candidate,
    path: String,
    adds: String,
}

#[derive(Serialize)]
struct ExplainedRepair {
    rule: &'static str,
    offset: usize,
}

impl From<&Explanation> for Explain {
    fn from(why: &Explanation) -> Self {
        let explained = &why.explained;
        let cut = &explained.cut;
        let seam = why.seam();
        let places = explained
            .candidates
            .iter()
            .zip(&explained.paths)
            .zip(&why.adds);
        let candidates = places.map(|((candidate, path), adds)| ExplainedAttempt {
            candidate: candidate.clone(),
            path: path.clone(),
            adds: adds.clone(),
        });
        Self {
            part: why.part + 1,
            after_gap: why.after_gap,
            expect: name_of(explained.expect),
            cut: CutReport {
                offset: cut.offset,
                path: cut.path.clone(),
                state: cut.state.as_str(),
            },
            anchor: explained.anchor,
            tried: TriedCandidates {
                candidates: candidates.collect(),
                unlisted: explained.unlisted,
                crowded: explained.is_crowded,
            },
            pending: explained.pending,
            decided: seam.map(|seam| seam.decided),
            repairs: explained
                .repairs
                .iter()
                .map(ExplainedRepair::from)
                .collect(),
        }
    }
}

impl FailedReport {
    /// Creates the report on a part that failed. `why`: the explanations of all parts, or empty
    /// without `--explain`.
    pub(super) fn new(failed: &FailedPart, why: &[Explanation]) -> Self {
        let own = why
            .iter()
            .find(|why| why.part == failed.part && why.seam().is_none());
        Self {
            part: failed.part + 1,
            reason: failed.reason.to_string(),
            explain: own.map(Explain::from),
        }
    }
}

impl From<&restitch::splice::Repair> for ExplainedRepair {
    fn from(repair: &restitch::splice::Repair) -> Self {
        Self {
            rule: repair.rule.as_str(),
            offset: repair.offset,
        }
    }
}

/// Tells people the decision on one part: a page.
pub(super) fn print(why: &Explanation, console: &Console) {
    let explained = &why.explained;
    let number = why.part + 1;
    match why.seam() {
        Some(seam) => {
            console.notes.note(format_args!(
                "part {number}: joined at byte {}: {}",
                seam.offset,
                seam.alignment.as_str()
            ));
        }
        None => {
            let reason = explained
                .failure
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            console
                .notes
                .note(format_args!("part {number}: skipped: {reason}"));
        }
    }
    let say =
        |name: &str, words: String| console.notes.detail(format_args!("  {name:<10}  {words}"));
    say("expected", expectation(explained.expect));
    let cut = &explained.cut;
    say(
        "cut",
        format!(
            "byte {}, in `{}`, at {}",
            cut.offset,
            cut.state.as_str(),
            place(&cut.path)
        ),
    );
    let anchor = explained.anchor.map(|anchor| {
        let unique = if anchor.ambiguous {
            "ambiguous"
        } else {
            "unique"
        };
        format!("{} bytes, {unique}", anchor.length)
    });
    say("anchor", anchor.unwrap_or_else(|| "none".to_owned()));
    if why.after_gap {
        say(
            "after",
            "a gap: the text of a part before this one may be missing".to_owned(),
        );
    }
    if !explained.candidates.is_empty() {
        say(
            "candidates",
            format!(
                "{:20} {:>7} {:>8} {:>6} {:>9}",
                "", "prior", "surprise", "misfit", "posterior"
            ),
        );
    }
    for ((candidate, path), adds) in explained
        .candidates
        .iter()
        .zip(&explained.paths)
        .zip(&why.adds)
    {
        say("", describe(candidate, path));
        if !matches!(candidate.status, AttemptStatus::Rejected { .. }) {
            say("", format!("  adds `{adds}`"));
        }
    }
    if explained.unlisted > 0 {
        say(
            "",
            format!("{} more, which were rejected", explained.unlisted),
        );
    }
    if explained.is_crowded {
        say("", "and more than are tried".to_owned());
    }
    let decided = match why.seam() {
        Some(seam) => format!("at byte {} of the fragment", seam.decided),
        None => "never".to_owned(),
    };
    say(
        "decided",
        format!("{decided}; {} bytes pending", explained.pending),
    );
    for repair in &explained.repairs {
        say(
            "repair",
            format!("{} at byte {}", repair.rule.as_str(), repair.offset),
        );
    }
    if let Some(failure) = explained.failure.as_ref().filter(|_| why.seam().is_some()) {
        say("broke off", failure.to_string());
    }
}

/// Describes where the candidate begins, its bits, and its result.
fn describe(candidate: &Candidate, path: &str) -> String {
    let Candidate {
        overlap,
        from,
        at,
        evidence,
        ..
    } = candidate;
    let repeats = match overlap {
        0 => String::from("repeats nothing"),
        _ => format!("repeats {overlap} bytes from byte {from}, {}", place(path)),
    };
    let status = match candidate.status {
        AttemptStatus::Rejected { byte, reason } => format!("rejected at byte {byte}: {reason}"),
        AttemptStatus::Same => "gives the same document".to_owned(),
        status => status.as_str().to_owned(),
    };
    let kind = format!(
        "{}, {}",
        candidate.alignment.as_str(),
        candidate.start.as_str()
    );
    let bits = match candidate.status {
        AttemptStatus::Rejected { .. } => format!("{:7} {:8} {:6} {:9}", "", "", "", ""),
        _ => format!(
            "{:7.1} {:8.1} {:6.1} {:9.6}",
            evidence.prior, evidence.surprise, evidence.misfit, candidate.posterior
        ),
    };
    format!("{kind:20} {bits}  {status}; {repeats}; new from byte {at}")
}

fn place(path: &str) -> String {
    if path.is_empty() {
        "the root".to_owned()
    } else {
        short(path).into_owned()
    }
}

/// Returns the expectation, and the rungs whose answers have it.
fn expectation(expect: Expect) -> String {
    let name = name_of(expect);
    match expect {
        Expect::Anchor => format!("{name}, by the rung {}", Rung::Words.as_str()),
        Expect::Exact => {
            let (prefill, grammar) = (Rung::Prefill.as_str(), Rung::Grammar.as_str());
            format!("{name}, by the rung {prefill} or {grammar}")
        }
        Expect::Any => name.to_owned(),
    }
}

fn name_of(expect: Expect) -> &'static str {
    match expect {
        Expect::Anchor => "anchor",
        Expect::Exact => "exact",
        Expect::Any => "any",
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that the attribute asks for"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
