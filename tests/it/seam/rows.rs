//! Joins fragments after cuts: every style at a few cuts of each document, complete and cut again.

use restitch::splice::Expect;

use super::documents::{Sample, sample};
use super::join::{self, Outcome, join};
use super::judge::{Brings, Case, Verdict, seam};
use super::reading::{Node, read, root_end};
use super::style::{ContinuationStyle, Cut, Group, write};
use restitch_testing::rows::Rows;
use restitch_testing::{Rng, is_doubtful_end, only_closes};

/// The groups in which styles are counted: the rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// The anchor, plain and in its wrappings.
    Anchored,
    /// The anchor with noise.
    Noise,
    /// Restarts and new layouts.
    Restart,
    /// Exact, half or reopened, though the anchor was asked for.
    Unasked,
    /// The rest in a root of its own or without one.
    ReRooted,
    /// Early ends. These go through a session, which asks once more.
    EarlyEnd,
    /// The rest alone, as requested.
    Exact,
    /// What adds nothing new, contradicts what was delivered, or loses a space.
    Other,
    /// As small models were recorded to answer. These go through a session, too.
    Recorded,
}

impl Class {
    pub(crate) const ALL: [(Self, &str); 9] = [
        (Self::Anchored, "anchored"),
        (Self::Noise, "anchor with noise"),
        (Self::Restart, "restarts"),
        (Self::Unasked, "exact, half, reopened"),
        (Self::ReRooted, "re-rooted"),
        (Self::EarlyEnd, "early ends, asked again"),
        (Self::Exact, "exact, as requested"),
        (Self::Other, "other"),
        (Self::Recorded, "recorded, asked again"),
    ];

    pub(crate) fn of(style: ContinuationStyle) -> Self {
        match style {
            ContinuationStyle::Reopened => return Self::Unasked,
            ContinuationStyle::NewRootRest | ContinuationStyle::NewRootWithout => {
                return Self::ReRooted;
            }
            ContinuationStyle::ElementOnly => return Self::Recorded,
            _ if is_bare(style) => return Self::ReRooted,
            _ => {}
        }
        match style.group() {
            Group::Anchored => Self::Anchored,
            Group::Noise => Self::Noise,
            Group::Restart => Self::Restart,
            Group::Unasked => Self::Unasked,
            Group::NewRoot => Self::ReRooted,
            Group::EarlyEnd => Self::EarlyEnd,
            Group::Exact => Self::Exact,
            Group::Rest => Self::Other,
            Group::Recorded => Self::Recorded,
        }
    }
}

/// Returns whether the style writes elements and nothing that is after their array.
fn is_bare(style: ContinuationStyle) -> bool {
    matches!(
        style,
        ContinuationStyle::Bare
            | ContinuationStyle::BareCut
            | ContinuationStyle::BareNext
            | ContinuationStyle::BareList
            | ContinuationStyle::BareListCut
            | ContinuationStyle::ElementOnly
    )
}

/// The fragments of one style, and what the request asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) style: ContinuationStyle,
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    pub(crate) expect: Expect,
}

/// One fragment and its result.
pub(crate) struct Row<'a> {
    pub(crate) line: Line,
    pub(crate) sample: &'a Sample,
    pub(crate) cut: usize,
    pub(crate) seed: u64,
    pub(crate) case: Case<'a>,
    /// The fragment was cut again.
    pub(crate) again: bool,
}

/// Returns all styles with their requests: `exact` where a prefill was requested, and all others
/// where an anchor was.
pub(crate) fn lines() -> impl Iterator<Item = Line> {
    ContinuationStyle::ALL.iter().map(|&style| {
        let expect = if style == ContinuationStyle::Exact {
            Expect::Exact
        } else {
            Expect::Anchor
        };
        Line {
            style,
            name: style.name(),
            class: Class::of(style),
            expect,
        }
    })
}

/// Runs the chosen rows of every line at `cuts` cuts of each of the documents of `seeds`. One third
/// of the fragments is a second row, cut again.
pub(crate) fn for_every_row(
    seeds: std::ops::Range<u64>,
    cuts: usize,
    rows: &mut Rows,
    mut body: impl FnMut(&Row<'_>),
) {
    let lines: Vec<Line> = lines().collect();
    for seed in seeds {
        rows_of(seed, cuts, &lines, rows, &mut body);
    }
}

/// Runs these lines at `cuts` cuts of the document of a seed.
pub(crate) fn rows_of(
    seed: u64,
    cuts: usize,
    lines: &[Line],
    rows: &mut Rows,
    body: &mut impl FnMut(&Row<'_>),
) {
    let sample = sample(seed);
    let truth = read(&sample.text).unwrap();
    let mut rng = Rng::new(seed);
    let mut run = |row: &Row<'_>| {
        if rows.runs_next() {
            body(row);
        }
    };
    for cut in cuts_of(&sample.text, cuts, &mut rng) {
        at_cut(lines, &sample, &truth, cut, &mut rng, &mut run);
    }
}

fn at_cut(
    lines: &[Line],
    sample: &Sample,
    truth: &Node,
    cut: usize,
    rng: &mut Rng,
    body: &mut impl FnMut(&Row<'_>),
) {
    let (delivered, rest) = sample.text.split_at(cut);
    let place = Cut {
        document: &sample.text,
        offset: cut,
        anchor: join::anchor(delivered),
        mark: None,
    };
    // The styles of recorded answers draw elsewhere, so that the rows of the others stay the same.
    let mut recorded = Rng::new(cut as u64 ^ sample.text.len() as u64);
    for line in lines {
        let rng = match line.class {
            Class::Recorded => &mut recorded,
            _ => &mut *rng,
        };
        let seed = rng.next();
        let Some(fragment) = write(line.style, &place, seed) else {
            continue;
        };
        let closers = sample.text.trim_end();
        let brings = match line.style {
            ContinuationStyle::Empty
            | ContinuationStyle::Refusal
            | ContinuationStyle::SameAgain
            | ContinuationStyle::OnlyDelivered
            | ContinuationStyle::ElementLoop
            | ContinuationStyle::OwnWords => Brings::Nothing,
            ContinuationStyle::ClosedDelivered => Brings::Closers,
            ContinuationStyle::CloserMissing => Brings::Part {
                missing: &closers[closers.len() - 1..],
                compared: true,
            },
            // What is after the array is missing, and perhaps a part of the cut element.
            style if is_bare(style) => Brings::Part {
                missing: "",
                compared: false,
            },
            _ => Brings::Rest,
        };
        let seam = seam(&fragment, delivered, rest.trim_end());
        let mut row = Row {
            line: *line,
            sample,
            cut,
            seed,
            case: Case {
                truth,
                delivered,
                fragment: &fragment,
                brings,
                seam,
            },
            again: false,
        };
        body(&row);
        let Some(end) = cut_again(&fragment, rng) else {
            continue;
        };
        row.again = true;
        row.case.fragment = &fragment[..end];
        row.case.brings = match brings {
            Brings::Nothing => Brings::Nothing,
            Brings::Rest => Brings::Part {
                missing: &fragment[end..],
                compared: seam.is_some(),
            },
            // Nothing would close what is missing of these.
            Brings::Part { .. } | Brings::Closers => continue,
        };
        body(&row);
    }
}

/// Cuts a fragment again, one time in three.
fn cut_again(fragment: &str, rng: &mut Rng) -> Option<usize> {
    let wanted = rng.below(3) == 0 && fragment.len() > 1;
    wanted
        .then(|| 1 + rng.below(fragment.len() - 1))
        .filter(|&end| fragment.is_char_boundary(end))
}

/// Chooses cuts between characters before the root's end: half of them anywhere, half of them
/// beside bytes of the grammar.
pub(crate) fn cuts_of(text: &str, count: usize, rng: &mut Rng) -> Vec<usize> {
    let end = root_end(text).unwrap_or(text.trim_end().len());
    let mut cuts = Vec::new();
    for n in 0..count {
        let at = 1 + rng.below(end - 1);
        let near = |byte: &u8| b"{}[]\",:\\-.eEtfn\r\n ".contains(byte);
        let beside = text.as_bytes()[at..end]
            .iter()
            .position(near)
            .map_or(at, |found| at + found + n / 2 % 2);
        let cut = if n % 2 == 0 { at } else { beside };
        if (1..end).contains(&cut) && text.is_char_boundary(cut) && !cuts.contains(&cut) {
            cuts.push(cut);
        }
    }
    cuts
}

impl Row<'_> {
    pub(crate) fn join(&self, chunk: usize) -> Outcome {
        join(
            self.case.delivered,
            self.case.fragment,
            self.line.expect,
            chunk,
        )
    }

    /// Returns whether the right rest of the document is a doubtful end, which is given up: it has
    /// only closers, and the cut is not after a whole value or the fragment does not begin with the
    /// anchor.
    pub(crate) fn is_doubtful_end(&self) -> bool {
        let anchor = &self.case.delivered[join::anchor(self.case.delivered)..];
        let begins_as_asked = || self.case.fragment.starts_with(anchor.trim_end());
        let text = &self.sample.text;
        self.case.brings == Brings::Rest
            && (is_doubtful_end(text, self.cut)
                || only_closes(&text[self.cut..]) && !begins_as_asked())
    }

    /// Prints everything that helps to investigate a row.
    pub(crate) fn show(&self, outcome: &Outcome, verdict: Verdict) -> String {
        let (delivered, again) = (
            self.case.delivered,
            if self.again { " cut again" } else { "" },
        );
        let joined = outcome
            .text
            .strip_prefix(delivered)
            .unwrap_or(&outcome.text);
        format!(
            "{verdict:?}: {} at {} {}{again} (seed {:#x}), {}\n    delivered …{:?}\n    fragment  {:?}\n    joined    {:?} … {:?}",
            self.sample.name,
            self.cut,
            self.line.name,
            self.seed,
            outcome.how,
            last(delivered, 80),
            first(self.case.fragment, 200),
            first(joined, 120),
            last(joined, 80),
        )
    }
}

pub(crate) fn first(text: &str, bytes: usize) -> &str {
    &text[..(0..=bytes.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap()]
}

pub(crate) fn last(text: &str, bytes: usize) -> &str {
    &text[(text.len().saturating_sub(bytes)..=text.len())
        .find(|&at| text.is_char_boundary(at))
        .unwrap()..]
}
