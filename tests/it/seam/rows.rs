//! Joins fragments after cuts: every style at a few cuts of each document, complete and cut again.

use restitch::splice::Expect;

use super::documents::{Sample, sample};
use super::join::{self, Outcome, join};
use super::judge::{Brings, Case, Verdict, seam};
use super::reading::{Node, read, root_end};
use super::style::{ContinuationStyle, Cut, Group, write};
use super::support::Rng;

/// The fragments of one style, and what the request asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) style: ContinuationStyle,
    pub(crate) name: &'static str,
    pub(crate) group: Group,
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
    /// The innermost element that is cut has an `id`.
    pub(crate) identified: bool,
}

/// Returns all styles with their requests: `exact` where a prefill was requested, and all others where an anchor was.
pub(crate) fn lines() -> impl Iterator<Item = Line> {
    ContinuationStyle::ALL.iter().map(|&style| {
        let expect = if style == ContinuationStyle::Exact { Expect::Exact } else { Expect::Anchor };
        Line { style, name: style.name(), group: style.group(), expect }
    })
}

/// Runs every line at `cuts` cuts of each of the documents of `seeds`. One third of the fragments is run once more, cut
/// again.
pub(crate) fn for_every_row(seeds: std::ops::Range<u64>, cuts: usize, mut body: impl FnMut(&Row<'_>)) {
    let lines: Vec<Line> = lines().collect();
    for seed in seeds {
        let sample = sample(seed);
        let truth = read(&sample.text).unwrap();
        let mut rng = Rng::new(seed);
        for cut in cuts_of(&sample.text, cuts, &mut rng) {
            at_cut(&lines, &sample, &truth, cut, &mut rng, &mut body);
        }
    }
}

fn at_cut(lines: &[Line], sample: &Sample, truth: &Node, cut: usize, rng: &mut Rng, body: &mut impl FnMut(&Row<'_>)) {
    let (delivered, rest) = sample.text.split_at(cut);
    let identified = read(delivered).is_some_and(|part| part.is_cut_in_identified(truth));
    let place = Cut { document: &sample.text, offset: cut, anchor: join::anchor(delivered) };
    for line in lines {
        let seed = rng.next();
        let Some(fragment) = write(line.style, &place, seed) else { continue };
        let closers = sample.text.trim_end();
        let brings = match line.style {
            ContinuationStyle::Empty
            | ContinuationStyle::Refusal
            | ContinuationStyle::SameAgain
            | ContinuationStyle::OnlyDelivered => Brings::Nothing,
            ContinuationStyle::ClosedDelivered => Brings::Closers,
            ContinuationStyle::CloserMissing => Brings::Part { missing: &closers[closers.len() - 1..], compared: true },
            _ => Brings::Rest,
        };
        let seam = seam(&fragment, delivered, rest.trim_end());
        let mut row = Row {
            line: *line,
            sample,
            cut,
            seed,
            case: Case { truth, delivered, fragment: &fragment, brings, seam },
            again: false,
            identified,
        };
        body(&row);
        let Some(end) = cut_again(&fragment, rng) else { continue };
        row.again = true;
        row.case.fragment = &fragment[..end];
        row.case.brings = match brings {
            Brings::Nothing => Brings::Nothing,
            Brings::Rest => Brings::Part { missing: &fragment[end..], compared: seam.is_some() },
            // Nothing would close what is missing of these.
            Brings::Part { .. } | Brings::Closers => continue,
        };
        body(&row);
    }
}

/// Cuts a fragment again, one time in three.
fn cut_again(fragment: &str, rng: &mut Rng) -> Option<usize> {
    let wanted = rng.below(3) == 0 && fragment.len() > 1;
    wanted.then(|| 1 + rng.below(fragment.len() - 1)).filter(|&end| fragment.is_char_boundary(end))
}

/// Chooses cuts between characters before the root's end: half of them anywhere, half of them beside bytes of the
/// grammar.
pub(crate) fn cuts_of(text: &str, count: usize, rng: &mut Rng) -> Vec<usize> {
    let end = root_end(text).unwrap_or(text.trim_end().len());
    let mut cuts = Vec::new();
    for n in 0..count {
        let at = 1 + rng.below(end - 1);
        let near = |byte: &u8| b"{}[]\",:\\-.eEtfn\r\n ".contains(byte);
        let beside = text.as_bytes()[at..end].iter().position(near).map_or(at, |found| at + found + n / 2 % 2);
        let cut = if n % 2 == 0 { at } else { beside };
        if (1..end).contains(&cut) && text.is_char_boundary(cut) && !cuts.contains(&cut) {
            cuts.push(cut);
        }
    }
    cuts
}

impl Row<'_> {
    pub(crate) fn join(&self, chunk: usize) -> Outcome {
        join(self.case.delivered, self.case.fragment, self.line.expect, chunk)
    }

    /// Prints everything that helps to investigate a row.
    pub(crate) fn show(&self, outcome: &Outcome, verdict: Verdict) -> String {
        let (delivered, again) = (self.case.delivered, if self.again { " cut again" } else { "" });
        let joined = outcome.text.strip_prefix(delivered).unwrap_or(&outcome.text);
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
    &text[..(0..=bytes.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap()]
}

pub(crate) fn last(text: &str, bytes: usize) -> &str {
    &text[(text.len().saturating_sub(bytes)..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap()..]
}
