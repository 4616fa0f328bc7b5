//! The table of results, by style and by group.

use std::collections::BTreeMap;
use std::ops::Range;

use super::documents;
use super::join::Outcome;
use super::judge::Verdict;
use super::retry::{Ended, retried};
use super::rows::{Class, Line, Row, lines, rows_of};
use restitch_testing::rows::Rows;

/// The counts of some rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) rows: usize,
    pub(crate) right: usize,
    pub(crate) flagged: usize,
    pub(crate) closed: usize,
    pub(crate) wrong: usize,
    pub(crate) ambiguous: usize,
    pending: Vec<u32>,
    distance: Vec<u32>,
}

/// Which rows are counted together. `None`: all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) class: Option<Class>,
    pub(crate) name: Option<&'static str>,
    pub(crate) periodic: Option<bool>,
    pub(crate) again: bool,
    /// The documents whose root is a scalar. No stream has such a root, so they are counted
    /// separately.
    pub(crate) scalars: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    name: &'static str,
    scalar: bool,
    periodic: bool,
    again: bool,
}

/// Rows, counted; and the silently wrong ones with the names of their styles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    cells: BTreeMap<Key, Cell>,
    pub(crate) wrong: Vec<(&'static str, String)>,
    /// True ends that are given up like early ends, see [`Row::is_doubtful_end`]. They count as
    /// right.
    pub(crate) doubtful: usize,
}

/// The size of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    Documents(u64),
    /// At least this many merges in each of [`ROWS`], and no more documents for a row that has
    /// them.
    Merges(usize),
}

/// Runs the chosen rows of the styles over the documents of `seeds`.
pub(crate) fn measure(seeds: Range<u64>, size: Size, cuts: usize, rows: &mut Rows) -> Table {
    let mut table = Table::default();
    for seed in seeds.clone() {
        let is_periodic = documents::is_periodic(seed);
        let wanted: Vec<Line> = match size {
            Size::Documents(count) if seed - seeds.start >= count => break,
            Size::Documents(_) => lines().collect(),
            Size::Merges(least) => {
                let due: Vec<_> = ROWS
                    .iter()
                    .filter(|row| table.sum(row.rows).rows < least)
                    .collect();
                if due.is_empty() {
                    break;
                }
                let fits = |row: &TableRow, line: &Line| {
                    row.rows.class == Some(line.class)
                        && row.rows.periodic.is_none_or(|is| is == is_periodic)
                };
                lines()
                    .filter(|line| due.iter().any(|row| fits(row, line)))
                    .collect()
            }
        };
        rows_of(seed, cuts, &wanted, rows, &mut |row| {
            if matches!(row.line.class, Class::EarlyEnd | Class::Recorded) {
                if let Some(ended) = retried(row).filter(|_| !row.again) {
                    table.count_ended(row, &ended);
                }
                return;
            }
            let outcome = row.join(1);
            // Giving it up is right.
            let is_doubtful = outcome.how == "EarlyEnd" && row.is_doubtful_end();
            table.doubtful += usize::from(is_doubtful);
            table.count(
                row,
                &outcome,
                if is_doubtful {
                    Verdict::Right
                } else {
                    row.case.judge(&outcome)
                },
            );
        });
    }
    table
}

/// A row of the short table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableRow {
    pub(crate) name: &'static str,
    pub(crate) rows: Filter,
}

const fn row(name: &'static str, class: Class, periodic: Option<bool>) -> TableRow {
    TableRow {
        name,
        rows: Filter {
            class: Some(class),
            name: None,
            periodic,
            again: false,
            scalars: false,
        },
    }
}

/// The short table: rates have bounds here. Early ends count after the model was asked once more.
pub(crate) const ROWS: [TableRow; 9] = [
    row("anchored", Class::Anchored, None),
    row("anchor with noise", Class::Noise, None),
    row("restarts, elements differ", Class::Restart, Some(false)),
    row("restarts, periodic", Class::Restart, Some(true)),
    row("exact, half, reopened", Class::Unasked, None),
    row("re-rooted", Class::ReRooted, None),
    row("early ends, asked again", Class::EarlyEnd, None),
    row("exact, as requested", Class::Exact, None),
    row("other", Class::Other, None),
];

impl Table {
    pub(crate) fn count(&mut self, row: &Row<'_>, outcome: &Outcome, verdict: Verdict) {
        if verdict == Verdict::Wrong {
            self.wrong.push((row.line.name, row.show(outcome, verdict)));
        }
        let distance = outcome
            .pushed_at
            .zip(row.case.seam)
            .map(|(pushed, seam)| pushed.saturating_sub(seam) as u32);
        let cell = self.cell(row);
        cell.add(verdict);
        cell.ambiguous += usize::from(outcome.ambiguous);
        cell.pending.push(outcome.pending as u32);
        cell.distance.extend(distance);
    }

    /// Counts a fragment that went through a session.
    fn count_ended(&mut self, row: &Row<'_>, ended: &Ended) {
        if ended.verdict == Verdict::Wrong {
            let (sample, cut, seed) = (&row.sample.name, row.cut, row.seed);
            let said = ended.said.join(", ");
            let shown = format!(
                "{sample} at {cut} {} (seed {seed:#x}), {said}: {:?}",
                row.line.name, row.case.fragment
            );
            self.wrong.push((row.line.name, shown));
        }
        self.count_verdict(row, ended.verdict);
    }

    /// Counts the verdict about a fragment.
    pub(crate) fn count_verdict(&mut self, row: &Row<'_>, verdict: Verdict) {
        self.cell(row).add(verdict);
    }

    fn cell(&mut self, row: &Row<'_>) -> &mut Cell {
        let Row {
            line,
            sample,
            again,
            ..
        } = *row;
        self.cells
            .entry(Key {
                name: line.name,
                scalar: sample.scalar,
                periodic: sample.periodic,
                again,
            })
            .or_default()
    }

    /// Returns the sum of some rows.
    pub(crate) fn sum(&self, filter: Filter) -> Cell {
        let mut sum = Cell::default();
        for line in lines() {
            let wanted = filter.class.is_none_or(|class| class == line.class)
                && filter.name.is_none_or(|name| name == line.name);
            for (key, cell) in self
                .cells
                .iter()
                .filter(|(key, _)| wanted && key.name == line.name)
            {
                let fits = filter
                    .periodic
                    .is_none_or(|periodic| periodic == key.periodic);
                if fits && filter.again == key.again && filter.scalars == key.scalar {
                    sum.merge(cell);
                }
            }
        }
        sum
    }

    /// Returns the short table as text.
    pub(crate) fn print_short(&self) -> String {
        let lines = ROWS.iter().map(|row| self.sum(row.rows).line(row.name));
        format!("\n{HEADER}\n{}", lines.collect::<String>())
    }

    /// Returns the table as text, one line for each group and each style.
    pub(crate) fn print(&self) -> String {
        let mut out = String::new();
        for (again, part) in [
            (false, "fragments to their end"),
            (true, "fragments cut again"),
        ] {
            for (periodic, which) in [
                (None, "all documents"),
                (Some(false), "where elements differ"),
            ] {
                out += &format!("\n{part}, {which}\n{HEADER}\n");
                let filter = Filter {
                    periodic,
                    again,
                    ..Filter::default()
                };
                for (class, name) in Class::ALL {
                    out += &self
                        .sum(Filter {
                            class: Some(class),
                            ..filter
                        })
                        .line(&format!("= {name}"));
                    for line in lines().filter(|line| line.class == class) {
                        out += &self
                            .sum(Filter {
                                name: Some(line.name),
                                ..filter
                            })
                            .line(&format!("  {}", line.name));
                    }
                }
                out += &self.sum(filter).line("= all");
            }
        }
        out + &self.print_groups(
            "scalar roots",
            Filter {
                scalars: true,
                ..Filter::default()
            },
        )
    }

    /// Returns the table as text, one line for each group.
    pub(crate) fn print_groups(&self, title: &str, rows: Filter) -> String {
        let mut out = String::new();
        for (periodic, which) in [
            (None, "all documents"),
            (Some(false), "where elements differ"),
        ] {
            if rows.scalars && periodic.is_some() {
                continue;
            }
            out += &format!("\n{title}, {which}\n{HEADER}\n");
            for (class, name) in Class::ALL {
                out += &self
                    .sum(Filter {
                        class: Some(class),
                        periodic,
                        ..rows
                    })
                    .line(&format!("= {name}"));
            }
        }
        out
    }
}

const HEADER: &str = "                              rows   right  flagged  closed  wrong  wrong %  ambig.  \
                      pending: median     max  distance: median     max";

impl Cell {
    fn add(&mut self, verdict: Verdict) {
        self.rows += 1;
        *match verdict {
            Verdict::Right => &mut self.right,
            Verdict::Flagged => &mut self.flagged,
            Verdict::Closed => &mut self.closed,
            Verdict::Wrong => &mut self.wrong,
        } += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.right += other.right;
        self.flagged += other.flagged;
        self.closed += other.closed;
        self.wrong += other.wrong;
        self.ambiguous += other.ambiguous;
        self.pending.extend(&other.pending);
        self.distance.extend(&other.distance);
    }

    /// Returns a share of the rows in percent; 100 of no rows.
    pub(crate) fn percent(&self, count: usize) -> f64 {
        if self.rows == 0 {
            100.0
        } else {
            100.0 * count as f64 / self.rows as f64
        }
    }

    fn line(&self, name: &str) -> String {
        if self.rows == 0 {
            return String::new();
        }
        let (pending, most) = spread(&self.pending);
        let (distance, farthest) = spread(&self.distance);
        format!(
            "{name:26} {:8} {:6.2}% {:7.2}% {:7} {:6} {:7.3}% {:7} {pending:>13} {most:>7} {distance:>17} {farthest:>7}\n",
            self.rows,
            self.percent(self.right),
            self.percent(self.flagged),
            self.closed,
            self.wrong,
            100.0 * self.wrong as f64 / self.rows as f64,
            self.ambiguous,
        )
    }
}

/// Returns the median and the maximum.
fn spread(values: &[u32]) -> (String, String) {
    let mut values = values.to_vec();
    values.sort_unstable();
    let show = |value: Option<&u32>| value.map_or("-".to_owned(), u32::to_string);
    (show(values.get(values.len() / 2)), show(values.last()))
}
