//! The table of results: what becomes of documents with seeded mistakes, by kind of mistake.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use restitch::repair::{RepairOptions, RepairStatus, RepairedRoot, repair_root, undo};

use super::mistake::{Kind, Mistake, apply, kinds};
use super::source::{Source, canonical, is_json};
use restitch_testing::Rng;
use restitch_testing::rows::Rows;

/// What became of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// The value is the document's, and a text that ends too early is said to be truncated.
    Restored,
    /// The text is said to be malformed.
    Refused,
    /// Another value, and the text is said to be truncated.
    Truncated,
    /// Another value, and nothing says so.
    Silent,
    /// A promise about any answer is not kept: the result is not JSON, or undoing the repairs does
    /// not give the text.
    Broken,
    /// The mistake left valid JSON: another document that nobody can tell from a right one.
    StillValid,
}

/// The counts of one row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    counts: [usize; 6],
}

impl Cell {
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.counts[verdict as usize]
    }

    /// Returns the number of texts that were read; those that stayed valid are counted apart.
    pub(crate) fn rows(&self) -> usize {
        self.counts[..Verdict::StillValid as usize].iter().sum()
    }

    pub(crate) fn percent(&self, verdict: Verdict) -> f64 {
        100.0 * self.count(verdict) as f64 / self.rows().max(1) as f64
    }

    fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
    }
}

/// A text that was not restored.
pub(crate) struct Miss {
    pub(crate) broken: Broken,
    pub(crate) verdict: Verdict,
    pub(crate) answer: Option<RepairedRoot>,
}

/// The results by kind of mistake; of several mistakes, by the kind of the first one.
#[derive(Default)]
pub(crate) struct Table {
    cells: BTreeMap<&'static str, Cell>,
    pub(crate) misses: Vec<Miss>,
}

/// What is measured.
#[derive(Clone)]
pub(crate) struct Plan {
    /// Each seed breaks each document once with each kind.
    pub(crate) seeds: Range<u64>,
    /// Mistakes in one text. Under an odd seed all are of one kind, else the further ones are of
    /// any.
    pub(crate) mistakes: usize,
    /// The kinds of the first mistake: those whose name contains this.
    pub(crate) kind: String,
    pub(crate) options: RepairOptions,
}

/// A text with mistakes, and what was meant.
pub(crate) struct Broken {
    /// The kind of the first mistake.
    pub(crate) kind: &'static str,
    /// The name of the document.
    pub(crate) document: String,
    pub(crate) text: String,
    /// Where the first mistake is.
    pub(crate) place: usize,
    /// The value that was meant, in canonical form.
    pub(crate) truth: String,
    /// Whether the text ends too early.
    pub(crate) is_cut: bool,
}

/// Breaks the documents, repairs them, and compares, for the rows that `rows` chooses. With `keep`,
/// the texts that were not restored are kept.
pub(crate) fn measure(
    documents: &[(String, Source)],
    plan: &Plan,
    rows: &mut Rows,
    keep: bool,
) -> Table {
    let mut table = Table::default();
    for_every_text(documents, plan, rows, |broken| {
        let (verdict, answer) = judge(&broken.text, &broken.truth, broken.is_cut, &plan.options);
        table.cells.entry(broken.kind).or_default().counts[verdict as usize] += 1;
        if keep && !matches!(verdict, Verdict::Restored | Verdict::StillValid) {
            table.misses.push(Miss {
                broken,
                verdict,
                answer,
            });
        }
    });
    table
}

/// Breaks the documents by the plan, for the rows that `rows` chooses.
pub(crate) fn for_every_text(
    documents: &[(String, Source)],
    plan: &Plan,
    rows: &mut Rows,
    mut on: impl FnMut(Broken),
) {
    let all: Vec<Kind> = kinds()
        .filter(|kind| kind.level <= plan.options.level())
        .collect();
    let further: Vec<&Kind> = all.iter().filter(|kind| kind.is_decidable).collect();
    let is_chosen =
        |kind: &&Kind| kind.name.contains(&plan.kind) && (kind.is_decidable || plan.mistakes == 1);
    let chosen: Vec<&Kind> = all.iter().filter(is_chosen).collect();
    for (name, source) in documents {
        let plain = canonical(&source.text).unwrap();
        for kind in &chosen {
            for seed in plan.seeds.clone() {
                let mut rng = Rng::new(seed ^ (source.text.len() as u64) << 20);
                rng = Rng::new(rng.next() ^ Rng::of(kind.name.as_bytes()).next());
                let same = [*kind];
                let others = if seed % 2 == 1 {
                    &same[..]
                } else {
                    &further[..]
                };
                let Some(mistakes) = make(source, kind, others, plan.mistakes, &mut rng) else {
                    continue;
                };
                if !rows.runs_next() {
                    continue;
                }
                let is_plain = mistakes.iter().all(|mistake| mistake.truth.is_empty());
                let truth = || {
                    apply(
                        &source.text,
                        mistakes.iter().flat_map(|mistake| &mistake.truth),
                    )
                };
                on(Broken {
                    kind: kind.name,
                    document: format!("{name}, seed {seed}"),
                    text: apply(
                        &source.text,
                        mistakes.iter().flat_map(|mistake| &mistake.broken),
                    ),
                    place: mistakes
                        .iter()
                        .map(|mistake| mistake.place().start)
                        .min()
                        .unwrap_or(0),
                    truth: if is_plain {
                        plain.clone()
                    } else {
                        canonical(&truth()).unwrap()
                    },
                    is_cut: mistakes.iter().any(|mistake| mistake.is_cut),
                });
            }
        }
    }
}

/// Returns `count` mistakes that are apart, the first of `kind`, if the document has places for
/// them.
fn make(
    source: &Source,
    kind: &Kind,
    others: &[&Kind],
    count: usize,
    rng: &mut Rng,
) -> Option<Vec<Mistake>> {
    let mut mistakes = vec![(kind.make)(source, rng)?];
    for _ in 0..TRIES {
        if mistakes.len() == count {
            break;
        }
        let Some(next) = (others[rng.below(others.len())].make)(source, rng) else {
            continue;
        };
        if mistakes
            .iter()
            .all(|mistake| mistake.is_apart(&next, source))
        {
            mistakes.push(next);
        }
    }
    (mistakes.len() == count).then_some(mistakes)
}

/// Further mistakes that are tried until enough of them are apart.
const TRIES: usize = 12;

/// Repairs a text and compares the value with `value`, in canonical form.
pub(crate) fn judge(
    text: &str,
    value: &str,
    is_cut: bool,
    options: &RepairOptions,
) -> (Verdict, Option<RepairedRoot>) {
    if is_json(text) {
        return (Verdict::StillValid, None);
    }
    let Ok(answer) = std::panic::catch_unwind(|| repair_root(text, options)) else {
        return (Verdict::Broken, None);
    };
    let is_undone = text.get(..answer.end) == Some(undo(&answer.json, &answer.repairs).as_str());
    let own = canonical(&answer.json);
    let verdict = match answer.status {
        RepairStatus::Malformed(_) => Verdict::Refused,
        _ if own.is_none() || !is_undone => Verdict::Broken,
        RepairStatus::Truncated if own.as_deref() == Some(value) => Verdict::Restored,
        RepairStatus::Truncated => Verdict::Truncated,
        _ if own.as_deref() == Some(value) && !is_cut => Verdict::Restored,
        _ => Verdict::Silent,
    };
    (verdict, Some(answer))
}

impl Table {
    /// Returns the sum of the kinds that can be decided, or of those that can't.
    pub(crate) fn sum(&self, is_decidable: bool) -> Cell {
        let mut sum = Cell::default();
        for kind in kinds().filter(|kind| kind.is_decidable == is_decidable) {
            self.cells
                .get(kind.name)
                .into_iter()
                .for_each(|cell| sum.add(cell));
        }
        sum
    }

    /// Returns the counts of the kinds that can be decided and were measured.
    pub(crate) fn decidable(&self) -> impl Iterator<Item = (&'static str, Cell)> {
        let all = kinds().filter(|kind| kind.is_decidable);
        all.filter_map(|kind| Some((kind.name, *self.cells.get(kind.name)?)))
    }

    /// Returns how many texts of a kind were broken, and how many stayed valid.
    pub(crate) fn of(&self, kind: &str) -> (usize, usize) {
        self.cells.get(kind).map_or((0, 0), |cell| {
            (cell.rows(), cell.count(Verdict::StillValid))
        })
    }

    /// Prints the kinds in their order, and the sums.
    pub(crate) fn print(&self) -> String {
        let mut out = format!(
            "{:42} {:>7} {:>9} {:>8} {:>9} {:>8} {:>7} {:>6}\n",
            "kind", "texts", "restored", "refused", "truncated", "silent", "broken", "valid"
        );
        let rows = kinds().filter_map(|kind| Some((kind.name, *self.cells.get(kind.name)?)));
        let sums = [
            ("all that can be decided", self.sum(true)),
            ("(all that can't)", self.sum(false)),
        ];
        for (name, cell) in rows.chain(sums) {
            let [restored, refused, truncated, silent, broken] = [
                Verdict::Restored,
                Verdict::Refused,
                Verdict::Truncated,
                Verdict::Silent,
                Verdict::Broken,
            ]
            .map(|verdict| cell.percent(verdict));
            let _ = writeln!(
                out,
                "{name:42} {:>7} {restored:>8.2}% {refused:>7.2}% {truncated:>8.2}% {silent:>7.2}% {broken:>6.2}% {:>6}",
                cell.rows(),
                cell.count(Verdict::StillValid)
            );
        }
        out
    }
}

impl Miss {
    /// Shows the text around the mistake, where the value differs, and the log.
    pub(crate) fn print(&self) -> String {
        let Broken {
            kind,
            document,
            text,
            place,
            truth,
            ..
        } = &self.broken;
        let mut out = format!("## {kind}: {:?}, {document} at {place}\n", self.verdict);
        let _ = writeln!(out, "  text:   {}", window(text, *place));
        let Some(answer) = &self.answer else {
            return out + "  it panicked\n";
        };
        let _ = writeln!(
            out,
            "  status: {:?}, {} of {} bytes",
            answer.status,
            answer.end,
            text.len()
        );
        let own = canonical(&answer.json).unwrap_or_else(|| answer.json.clone());
        let differs = own
            .bytes()
            .zip(truth.bytes())
            .take_while(|(own, truth)| own == truth)
            .count();
        let _ = writeln!(out, "  answer: {}", window(&own, differs));
        let _ = writeln!(out, "  truth:  {}", window(truth, differs));
        for repair in answer.repairs.iter().take(REPAIRS_SHOWN) {
            let (rule, range) = (repair.rule, &repair.range);
            let _ = writeln!(
                out,
                "  {rule} {range:?} {:?} -> {:?} {}",
                repair.original, repair.replacement, repair.path
            );
        }
        out
    }
}

const REPAIRS_SHOWN: usize = 8;

/// Returns the text around an offset, on one line.
fn window(text: &str, at: usize) -> String {
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let at = boundary(at.min(text.len()));
    let (start, end) = (
        boundary(at.saturating_sub(60)),
        boundary((at + 100).min(text.len())),
    );
    format!("{:?} <> {:?}", &text[start..at], &text[at..end])
}
