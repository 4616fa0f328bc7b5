//! Metrics that Prometheus can read and that are pushed to a collector, if there is one.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::otlp::{self, Otlp};

/// A set of labels, with the names that they have in the conventions of OpenTelemetry.
pub(super) trait Labels {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str));
}

/// A set of labels that Prometheus takes.
pub(super) trait LabelSet:
    Labels + EncodeLabelSet + Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static
{
}

impl<L: Labels + EncodeLabelSet + Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static> LabelSet
    for L
{
}

/// The name, the unit and the help of a metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    /// The name with dots for the collector. Prometheus replaces the dots by `_`, and adds the unit
    /// and `_total`.
    name: &'static str,
    unit: Scale,
    help: &'static str,
}

impl Name {
    pub(super) const fn new(name: &'static str, unit: Scale, help: &'static str) -> Self {
        Self { name, unit, help }
    }
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scale {
    Seconds,
    Bytes,
    /// A count. The text names the counted items, in braces.
    Of(&'static str),
}

impl Scale {
    /// Returns the unit that Prometheus adds to the name, if any.
    fn prometheus(self) -> Option<Unit> {
        match self {
            Self::Seconds => Some(Unit::Seconds),
            Self::Bytes => Some(Unit::Bytes),
            Self::Of(_) => None,
        }
    }

    fn otlp(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "By",
            Self::Of(annotation) => annotation,
        }
    }
}

/// The registries of metrics.
pub(super) struct Sinks<'a> {
    pub(super) registry: &'a mut Registry,
    pub(super) otlp: Option<&'a Otlp>,
}

impl Sinks<'_> {
    fn register(&mut self, name: Name, metric: impl prometheus_client::registry::Metric) {
        let shown = name.name.replace('.', "_");
        match name.unit.prometheus() {
            Some(unit) => self
                .registry
                .register_with_unit(shown, name.help, unit, metric),
            None => self.registry.register(shown, name.help, metric),
        }
    }

    pub(super) fn histograms<L: LabelSet>(
        &mut self,
        name: Name,
        boundaries: &'static [f64],
        new: fn() -> Histogram,
    ) -> Histograms<L> {
        let family = Family::new_with_constructor(new);
        self.register(name, family.clone());
        let pushed = self.otlp.and_then(|otlp| {
            otlp::Histogram::new(otlp, name.name, name.unit.otlp(), name.help, boundaries)
        });
        Histograms { family, pushed }
    }

    pub(super) fn counters<L: LabelSet>(&mut self, name: Name) -> Counters<L> {
        let family = Family::default();
        self.register(name, family.clone());
        let pushed = self
            .otlp
            .and_then(|otlp| otlp::Counter::new(otlp, name.name, name.unit.otlp(), name.help));
        Counters { family, pushed }
    }

    /// Registers numbers for Prometheus, which are not pushed.
    pub(super) fn numbers<L: LabelSet>(&mut self, name: Name) -> Numbers<L> {
        let family = Family::default();
        self.register(name, family.clone());
        Numbers {
            family,
            shown: Mutex::default(),
        }
    }

    /// Registers a number for Prometheus, which is not pushed.
    pub(super) fn number(&mut self, name: Name) -> Number {
        let gauge = Gauge::default();
        self.register(name, gauge.clone());
        Number(gauge)
    }

    pub(super) fn level(&mut self, name: Name) -> Level {
        let gauge = Gauge::default();
        self.register(name, gauge.clone());
        let pushed = self.otlp.and_then(|otlp| {
            otlp::UpDownCounter::new(otlp, name.name, name.unit.otlp(), name.help)
        });
        Level { gauge, pushed }
    }
}

/// A histogram for each set of labels.
#[derive(Debug)]
pub(super) struct Histograms<L> {
    family: Family<L, Histogram, fn() -> Histogram>,
    pushed: Option<otlp::Histogram>,
}

impl<L: LabelSet> Histograms<L> {
    /// Shows a set of labels before its first value.
    pub(super) fn begin(&self, labels: &L) {
        drop(self.family.get_or_create(labels));
    }

    pub(super) fn observe(&self, labels: &L, value: f64) {
        self.family.get_or_create(labels).observe(value);
        self.pushed
            .iter()
            .for_each(|pushed| pushed.record(labels, value));
    }
}

/// A counter for each set of labels.
#[derive(Debug)]
pub(super) struct Counters<L> {
    family: Family<L, Counter>,
    pushed: Option<otlp::Counter>,
}

impl<L: LabelSet> Counters<L> {
    /// Returns whether a set of labels is shown.
    pub(super) fn has(&self, labels: &L) -> bool {
        self.family.get(labels).is_some()
    }

    /// Shows a set of labels with 0. Prometheus sees no increase in a series that starts at 1.
    pub(super) fn begin(&self, labels: &L) {
        self.add(labels, 0);
    }

    pub(super) fn add(&self, labels: &L, count: u64) {
        self.family.get_or_create(labels).inc_by(count);
        self.pushed
            .iter()
            .for_each(|pushed| pushed.add(labels, count));
    }
}

/// A number for each set of labels: also a state, 0 or 1.
#[derive(Debug)]
pub(super) struct Numbers<L> {
    family: Family<L, Gauge>,
    /// The sets of labels in the family, which does not list them.
    shown: Mutex<HashSet<L>>,
}

impl<L: LabelSet> Numbers<L> {
    pub(super) fn set(&self, labels: &L, number: impl Into<i64>) {
        let mut shown = self.shown();
        if !shown.contains(labels) {
            shown.insert(labels.clone());
        }
        self.family.get_or_create(labels).set(number.into());
    }

    /// Removes the number of a set of labels.
    pub(super) fn remove(&self, labels: &L) {
        self.retain(|shown| shown != labels);
    }

    /// Removes the numbers of all other sets of labels.
    pub(super) fn retain(&self, is_present: impl Fn(&L) -> bool) {
        self.shown().retain(|labels| {
            let is_present = is_present(labels);
            if !is_present {
                self.family.remove(labels);
            }
            is_present
        });
    }

    /// A panic elsewhere leaves the set valid, since each change to it is one call.
    fn shown(&self) -> MutexGuard<'_, HashSet<L>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number without labels.
#[derive(Debug)]
pub(super) struct Number(Gauge);

impl Number {
    pub(super) fn set(&self, number: impl Into<i64>) {
        self.0.set(number.into());
    }
}

/// A number that rises and falls.
#[derive(Debug)]
pub(super) struct Level {
    gauge: Gauge,
    pushed: Option<otlp::UpDownCounter>,
}

impl Level {
    pub(super) fn inc(&self) {
        self.gauge.inc();
        self.pushed.iter().for_each(|pushed| pushed.add(1));
    }

    pub(super) fn dec(&self) {
        self.gauge.dec();
        self.pushed.iter().for_each(|pushed| pushed.add(-1));
    }
}
