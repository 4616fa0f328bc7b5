//! The cuts of the last hour, for the chart of the page.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use crate::metrics::OTHER;

/// Counts of cuts by model and cause, for each of the last slices of time.
#[derive(Debug, Default)]
pub(super) struct CutHistory {
    /// The oldest one first; slices without cuts are left out.
    slices: VecDeque<Slice>,
}

#[derive(Debug)]
struct Slice {
    /// Since the proxy has started.
    number: u64,
    counts: BTreeMap<(String, &'static str), u64>,
}

impl CutHistory {
    /// Counts a cut. `now`: the time since the proxy has started.
    pub(super) fn count(&mut self, now: Duration, model: &str, cause: &'static str) {
        let number = self.forget(now);
        let known = self.models();
        let has_place = known.contains(model) || known.len() < MOST_MODELS;
        let model = if has_place { model } else { OTHER };
        let key = (model.to_owned(), cause);
        match self
            .slices
            .back_mut()
            .filter(|slice| slice.number == number)
        {
            Some(slice) => *slice.counts.entry(key).or_default() += 1,
            None => self.slices.push_back(Slice {
                number,
                counts: BTreeMap::from([(key, 1)]),
            }),
        }
    }

    /// Returns the counts as JSON: for each model and cause, one number for each slice, the oldest
    /// first.
    pub(super) fn json(&mut self, now: Duration) -> Value {
        let last = self.forget(now);
        let mut rows: BTreeMap<_, [u64; SLICES]> = BTreeMap::new();
        for slice in &self.slices {
            let age = usize::try_from(last - slice.number).unwrap_or(usize::MAX);
            let Some(at) = (SLICES - 1).checked_sub(age) else {
                continue;
            };
            for (key, count) in &slice.counts {
                rows.entry(key).or_default()[at] += count;
            }
        }
        let rows = rows.into_iter().map(
            |((model, cause), counts)| json!({"model": model, "cause": cause, "counts": counts}),
        );
        rows.collect()
    }

    /// Drops the slices that are over. Returns the number of the present one.
    fn forget(&mut self, now: Duration) -> u64 {
        let number = now.as_secs() / SLICE.as_secs();
        let is_old = |slice: &Slice| slice.number + SLICES as u64 <= number;
        while self.slices.front().is_some_and(is_old) {
            self.slices.pop_front();
        }
        number
    }

    fn models(&self) -> BTreeSet<&str> {
        let keys = self.slices.iter().flat_map(|slice| slice.counts.keys());
        keys.map(|(model, _)| &**model).collect()
    }
}

/// The time of a column of the chart.
const SLICE: Duration = Duration::from_secs(300);
/// The columns: one hour.
const SLICES: usize = 12;
/// The most models, since clients choose the names: more than people read.
const MOST_MODELS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept() {
        let mut cuts = CutHistory::default();
        let at = |minutes: u64| Duration::from_secs(60 * minutes);
        cuts.count(at(0), "a", "length");
        cuts.count(at(4), "a", "length");
        cuts.count(at(9), "a", "drop");
        assert_eq!(
            cuts.json(at(59)),
            json!([
                {"model": "a", "cause": "drop", "counts": [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]},
                {"model": "a", "cause": "length", "counts": [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]},
            ])
        );
        cuts.count(at(61), "b", "eof");
        assert_eq!(
            cuts.json(at(61)),
            json!([
                {"model": "a", "cause": "drop", "counts": [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]},
                {"model": "b", "cause": "eof", "counts": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]},
            ])
        );
        assert_eq!(cuts.json(at(1000)), json!([]));
        assert_eq!(cuts.slices.len(), 0);
    }

    #[test]
    fn models_are_bounded() {
        let mut cuts = CutHistory::default();
        for n in 0..100 {
            cuts.count(Duration::ZERO, &format!("model-{n:02}"), "length");
        }
        let rows = cuts.json(Duration::ZERO);
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), MOST_MODELS + 1);
        assert_eq!(rows[MOST_MODELS]["model"], OTHER);
        assert_eq!(rows[MOST_MODELS]["counts"][SLICES - 1], 80);
    }
}
