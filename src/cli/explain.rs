//! `restitch stitch --explain`: the decision on each part, for people and for programs.

use serde::Serialize;

use super::Console;
use super::console::short;
use super::inspect::Cut;
use crate::session::stitch::{Between, Explanation};
use crate::splice::explain::Candidate;
use crate::splice::{Expect, Fate};

/// The decision on one part.
#[derive(Serialize)]
pub(super) struct Explain {
    /// The parts count from 1 here.
    part: usize,
    /// Only where it is true: parts that were skipped stand in front of it, and offsets count from there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    with_skipped: bool,
    expect: &'static str,
    cut: Cut,
    anchor: Option<Anchor>,
    candidates: Vec<Tried>,
    #[serde(skip_serializing_if = "is_zero")]
    unlisted: usize,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    crowded: bool,
    held: usize,
    decided: Option<usize>,
    repairs: Vec<Repair>,
}

/// A part that was skipped, or broke off behind its seam.
#[derive(Serialize)]
pub(super) struct Failed {
    part: usize,
    reason: String,
    /// Where there is a seam it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Explain>,
}

#[derive(Serialize)]
struct Anchor {
    length: usize,
    ambiguous: bool,
}

#[derive(Serialize)]
struct Tried {
    alignment: &'static str,
    weight: &'static str,
    from: usize,
    path: String,
    overlap: usize,
    at: usize,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    may_recur: bool,
    #[serde(skip_serializing_if = "is_zero")]
    owes: usize,
    passed: bool,
    fate: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    died_at: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    adds: String,
}

#[derive(Serialize)]
struct Repair {
    rule: &'static str,
    offset: usize,
}

impl From<&Explanation> for Explain {
    fn from(why: &Explanation) -> Self {
        let explained = &why.explained;
        let cut = &explained.cut;
        let seam = why.seam();
        Self {
            part: why.part + 1,
            with_skipped: why.between == Between::Skipped,
            expect: name_of(explained.expect),
            cut: Cut { offset: cut.offset, path: cut.path.clone(), state: cut.state.as_str() },
            anchor: explained.anchor.map(|anchor| Anchor { length: anchor.length, ambiguous: anchor.ambiguous }),
            candidates: explained.candidates.iter().zip(&why.adds).map(Tried::from).collect(),
            unlisted: explained.unlisted,
            crowded: explained.is_crowded,
            held: explained.held,
            decided: seam.map(|seam| seam.decided),
            repairs: explained.repairs.iter().map(Repair::from).collect(),
        }
    }
}

impl From<&Explanation> for Failed {
    fn from(why: &Explanation) -> Self {
        let explain = why.seam().is_none().then(|| Explain::from(why));
        Self { part: why.part + 1, reason: reason(why), explain }
    }
}

impl From<(&Candidate, &String)> for Tried {
    fn from((candidate, adds): (&Candidate, &String)) -> Self {
        let (died_at, why) = match candidate.fate {
            Fate::Died { at, why } => (Some(at), Some(why.to_string())),
            _ => (None, None),
        };
        Self {
            alignment: candidate.alignment.as_str(),
            weight: candidate.weight.as_str(),
            from: candidate.from,
            path: candidate.path.clone(),
            overlap: candidate.overlap,
            at: candidate.at,
            may_recur: candidate.may_recur,
            owes: candidate.owes,
            passed: candidate.passed,
            fate: candidate.fate.as_str(),
            died_at,
            why,
            adds: adds.clone(),
        }
    }
}

impl From<&crate::splice::Repair> for Repair {
    fn from(repair: &crate::splice::Repair) -> Self {
        Self { rule: repair.rule.as_str(), offset: repair.offset }
    }
}

/// Tells people the decision on one part: a page.
pub(super) fn print(why: &Explanation, console: &Console) {
    let explained = &why.explained;
    let number = why.part + 1;
    match why.seam() {
        Some(seam) => {
            console.note(format_args!("part {number}: joined at byte {}: {}", seam.offset, seam.alignment.as_str()));
        }
        None => console.note(format_args!("part {number}: skipped: {}", reason(why))),
    }
    let say = |name: &str, words: String| console.detail(format_args!("  {name:<10}  {words}"));
    say("expected", name_of(explained.expect).to_owned());
    let cut = &explained.cut;
    say("cut", format!("byte {}, in `{}`, at {}", cut.offset, cut.state.as_str(), place(&cut.path)));
    let anchor = explained.anchor.map(|anchor| {
        let unique = if anchor.ambiguous { "ambiguous" } else { "unique" };
        format!("{} bytes, {unique}", anchor.length)
    });
    say("anchor", anchor.unwrap_or_else(|| "none".to_owned()));
    match why.between {
        Between::Skipped => say("fragment", "the parts that were skipped before, and this one".to_owned()),
        Between::Unclear => say("fragment", "this part, without those that were skipped before".to_owned()),
        _ => {}
    }
    for (candidate, adds) in explained.candidates.iter().zip(&why.adds) {
        say("candidate", claim(candidate));
        say("", fate(candidate));
        if !matches!(candidate.fate, Fate::Died { .. }) {
            say("", format!("adds `{adds}`"));
        }
    }
    if explained.unlisted > 0 {
        say("", format!("{} more, which died", explained.unlisted));
    }
    if explained.is_crowded {
        say("", "and more than are tried".to_owned());
    }
    let decided = match why.seam() {
        Some(seam) => format!("at byte {} of the fragment", seam.decided),
        None => "never".to_owned(),
    };
    say("decided", format!("{decided}; {} bytes held", explained.held));
    for repair in &explained.repairs {
        say("repair", format!("{} at byte {}", repair.rule.as_str(), repair.offset));
    }
    if let Some(failure) = explained.failure.as_ref().filter(|_| why.seam().is_some()) {
        say("broke off", failure.to_string());
    }
}

/// What it claims, and what speaks for it.
fn claim(candidate: &Candidate) -> String {
    let Candidate { overlap, from, at, .. } = candidate;
    let repeats = match overlap {
        0 => String::from("repeats nothing"),
        _ => format!("repeats {overlap} bytes from byte {from}, {}", place(&candidate.path)),
    };
    format!("{}, {}: {repeats}; new from byte {at}", candidate.alignment.as_str(), candidate.weight.as_str())
}

fn fate(candidate: &Candidate) -> String {
    let mut words = match candidate.fate {
        Fate::Died { at, why } => return format!("died at byte {at}: {why}"),
        Fate::Won => String::from("won"),
        Fate::Same => String::from("gives the same document"),
        Fate::Alive => String::from("alive"),
    };
    if !candidate.passed {
        words.push_str(", on probation");
    }
    if candidate.may_recur {
        words.push_str(", may as well be the next row");
    }
    if candidate.owes > 0 {
        words.push_str(&format!(", must still repeat {} members", candidate.owes));
    }
    words
}

fn reason(why: &Explanation) -> String {
    match (why.between, &why.explained.failure) {
        (Between::Unclear, _) => "it goes on behind the skipped parts as well as without them".to_owned(),
        (_, Some(failure)) => failure.to_string(),
        _ => String::new(),
    }
}

fn place(path: &str) -> String {
    if path.is_empty() { "the root".to_owned() } else { short(path).into_owned() }
}

fn name_of(expect: Expect) -> &'static str {
    match expect {
        Expect::Anchor => "anchor",
        Expect::Exact => "exact",
        Expect::Any => "any",
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that the attribute asks for")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
