//! Chooses the rows of a large table that a test runs: a seeded tenth, or the whole table.

use std::hash::{BuildHasher, RandomState};

use crate::Rng;

/// A choice of rows: one of every ten, or every row where `RESTITCH_TABLES` is `whole`.
///
/// A seed chooses them: `PROPTEST_RNG_SEED`, or a new one in each run. Leaving a row out must not
/// change the rows after it, so a test makes the input of every row and asks here before it runs
/// the row.
#[derive(Debug, Default)]
pub struct Rows {
    /// `None`: all rows run.
    rng: Option<Rng>,
    /// The rows of this ten that were asked for, and the one that runs.
    at: usize,
    chosen: usize,
}

impl Rows {
    /// Chooses rows of the table of this name, and prints how.
    #[expect(
        clippy::disallowed_methods,
        clippy::print_stdout,
        reason = "the environment asks for the whole table; a test that fails shows its seed"
    )]
    pub fn of(table: &str) -> Self {
        if std::env::var("RESTITCH_TABLES").is_ok_and(|rows| rows == "whole") {
            return Self::whole();
        }
        let seed = std::env::var("PROPTEST_RNG_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| RandomState::new().hash_one(table));
        println!("{table}: a tenth of the rows, PROPTEST_RNG_SEED={seed}");
        Self::seeded(table, seed)
    }

    /// Chooses all rows.
    pub fn whole() -> Self {
        Self::default()
    }

    fn seeded(table: &str, seed: u64) -> Self {
        Self {
            // Two tables with one seed run different rows.
            rng: Some(Rng::new(seed ^ Rng::of(table.as_bytes()).next())),
            ..Self::default()
        }
    }

    pub fn is_whole(&self) -> bool {
        self.rng.is_none()
    }

    /// Returns whether the next row runs.
    pub fn runs_next(&mut self) -> bool {
        let Some(rng) = &mut self.rng else {
            return true;
        };
        if self.at == 0 {
            self.chosen = rng.below(PART);
        }
        let runs = self.at == self.chosen;
        self.at = (self.at + 1) % PART;
        runs
    }

    /// Returns how many of `count` rows run, or one less.
    pub fn share(&self, count: usize) -> usize {
        if self.is_whole() {
            count
        } else {
            (count / PART).saturating_sub(1)
        }
    }

    /// Returns whether a whole table with `found` in `rows` rows has more than `percent` of them. A
    /// tenth has more only where chance gives as many once in a million runs.
    pub fn exceeds(&self, found: usize, rows: usize, percent: f64) -> bool {
        let share = percent / 100.0;
        if self.is_whole() || share <= 0.0 || share >= 1.0 {
            return found as f64 > rows as f64 * share;
        }
        at_least(found, rows, share) < CHANCE
    }
}

/// A tenth runs.
const PART: usize = 10;

/// A run by hand draws new rows and tests some hundred rates: chance fails one run in ten thousand.
const CHANCE: f64 = 1e-6;

/// Returns how probable it is that at least `found` of `rows` rows have what `share` of all have.
fn at_least(found: usize, rows: usize, share: f64) -> f64 {
    // Logarithms, since the first terms are smaller than any number where there are many rows.
    let mut term = rows as f64 * (1.0 - share).ln();
    let mut fewer = 0.0;
    for count in 0..found.min(rows) {
        fewer += term.exp();
        term += ((rows - count) as f64 / (count + 1) as f64).ln() + (share / (1.0 - share)).ln();
    }
    1.0 - fewer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_of_ten_runs_and_each_can() {
        let mut seen = [0; 10];
        for seed in 0..200 {
            let mut rows = Rows::seeded("a table", seed);
            for _ in 0..20 {
                let ten: Vec<usize> = (0..10).filter(|_| rows.runs_next()).collect();
                assert_eq!(ten.len(), 1);
                seen[ten[0]] += 1;
            }
        }
        // 400 are expected of each.
        assert!(
            seen.iter().all(|runs| (300..500).contains(runs)),
            "{seen:?}"
        );
        let choice = |table, seed| {
            let mut rows = Rows::seeded(table, seed);
            (0..100).map(|_| rows.runs_next()).collect::<Vec<_>>()
        };
        assert_eq!(choice("a table", 1), choice("a table", 1));
        assert_ne!(choice("a table", 1), choice("a table", 2));
        assert_ne!(choice("a table", 1), choice("another", 1));
    }

    #[test]
    fn the_whole_table_runs_every_row_and_has_exact_rates() {
        let mut rows = Rows::whole();
        assert!((0..25).all(|_| rows.runs_next()));
        assert_eq!(rows.share(300), 300);
        assert!(!rows.exceeds(2, 1000, 0.2) && rows.exceeds(3, 1000, 0.2));
        assert!(!rows.exceeds(0, 1000, 0.0) && rows.exceeds(1, 1000, 0.0));
    }

    /// The chances are those of a table of the binomial distribution: of 100 rows at one percent, five
    /// or more have it with 0.34 percent.
    #[test]
    fn a_tenth_exceeds_a_rate_where_chance_does_not_explain_it() {
        assert!((at_least(5, 100, 0.01) - 0.003_43).abs() < 1e-5);
        assert!((at_least(1, 10, 0.5) - (1.0 - 0.5f64.powi(10))).abs() < 1e-12);
        assert!((at_least(0, 10, 0.5) - 1.0).abs() < 1e-12);
        assert!((at_least(5000, 10_000, 0.5) - 0.504).abs() < 1e-3);
        let rows = Rows::seeded("a table", 1);
        assert_eq!(rows.share(300), 29);
        // None may have it: one is too many. All may: none is.
        assert!(rows.exceeds(1, 1000, 0.0) && !rows.exceeds(0, 1000, 0.0));
        assert!(!rows.exceeds(1000, 1000, 100.0));
        assert!(!rows.exceeds(8, 1000, 0.2) && rows.exceeds(20, 1000, 0.2));
    }
}
