//! The table of the metrics: each is registered once, with its name, its labels and its meaning.

use std::array;
use std::ops::Deref;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

/// The description of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricRow {
    /// The name in queries. The names of a histogram's samples add `_bucket`, `_sum` and `_count`.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: Vec<&'static str>,
    /// The help text.
    pub meaning: &'static str,
}

/// Registers metrics, and describes each.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) registry: Registry,
    pub(super) rows: Vec<MetricRow>,
}

impl Table {
    /// Adds a counter for each set of labels. `name`: without `_total`.
    pub(super) fn counters<const N: usize>(
        &mut self,
        name: &'static str,
        labels: [&'static str; N],
        meaning: &'static str,
    ) -> Counters<N> {
        let series = Series {
            labels,
            family: Family::default(),
        };
        self.add("counter", (name, &labels, meaning), series.family.clone());
        series
    }

    /// Adds a histogram for each set of labels. `bounds`: the upper bounds of its buckets.
    pub(super) fn histograms<const N: usize>(
        &mut self,
        name: &'static str,
        labels: [&'static str; N],
        bounds: &'static [f64],
        meaning: &'static str,
    ) -> Histograms<N> {
        let series = Series {
            labels,
            family: Family::new_with_constructor(Buckets(bounds)),
        };
        self.add("histogram", (name, &labels, meaning), series.family.clone());
        series
    }

    /// Adds a gauge with its present value for each value of a label.
    pub(super) fn gauges<'v>(
        &mut self,
        name: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'v str, i64)>,
        meaning: &'static str,
    ) {
        let family: Family<Labels<1>, Gauge> = Family::default();
        for (value, number) in values {
            family
                .get_or_create(&[(label, value.to_owned())])
                .set(number);
        }
        self.add("gauge", (name, &[label], meaning), family);
    }

    /// Adds a gauge without labels, with its present value. `None`: the system does not tell it.
    pub(super) fn gauge(
        &mut self,
        name: &'static str,
        value: impl Into<Option<i64>>,
        meaning: &'static str,
    ) {
        match value.into() {
            Some(value) => self.add("gauge", (name, &[], meaning), ConstGauge::new(value)),
            None => self.describe("gauge", (name, &[], meaning)),
        }
    }

    fn describe(
        &mut self,
        kind: &'static str,
        (name, labels, meaning): (&'static str, &[&'static str], &'static str),
    ) {
        let suffix = if kind == "counter" { "_total" } else { "" };
        self.rows.push(MetricRow {
            name: [name, suffix].concat(),
            kind,
            labels: labels.to_vec(),
            meaning,
        });
    }

    fn add(
        &mut self,
        kind: &'static str,
        (name, labels, meaning): (&'static str, &[&'static str], &'static str),
        metric: impl Metric,
    ) {
        self.describe(kind, (name, labels, meaning));
        // The registry appends the unit to the name, and a full stop to the meaning.
        let units = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)];
        for (suffix, unit) in units {
            if let Some(name) = name.strip_suffix(suffix) {
                return self
                    .registry
                    .register_with_unit(name, meaning, unit, metric);
            }
        }
        self.registry.register(name, meaning, metric);
    }
}

/// The series of a metric, one for each set of labels.
#[derive(Debug)]
pub(crate) struct Series<const N: usize, M, C = fn() -> M> {
    labels: [&'static str; N],
    family: Family<Labels<N>, M, C>,
}

pub(crate) type Counters<const N: usize> = Series<N, Counter>;
pub(crate) type Histograms<const N: usize> = Series<N, Histogram, Buckets>;

type Labels<const N: usize> = [(&'static str, String); N];

impl<const N: usize, M, C: MetricConstructor<M>> Series<N, M, C> {
    /// Returns the series with these values of the labels. Creates it with 0 if it is new.
    pub(crate) fn of(&self, values: [&str; N]) -> impl Deref<Target = M> {
        self.family.get_or_create(&self.labelled(values))
    }

    /// Returns whether a series exists.
    pub(super) fn has(&self, values: [&str; N]) -> bool {
        self.family.get(&self.labelled(values)).is_some()
    }

    fn labelled(&self, values: [&str; N]) -> Labels<N> {
        array::from_fn(|at| (self.labels[at], values[at].to_owned()))
    }
}

/// The upper bounds of a histogram's buckets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}
