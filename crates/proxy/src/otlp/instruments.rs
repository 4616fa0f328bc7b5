//! Instruments of the SDK that take the labels of the proxy's metrics.

use opentelemetry::{KeyValue, metrics};

use super::Otlp;
use crate::recorded::Labels;

/// A histogram that is pushed.
#[derive(Clone, Debug)]
pub(in super::super) struct Histogram(metrics::Histogram<f64>);

impl Histogram {
    /// Creates the instrument. `None`: no metrics are pushed.
    pub(in super::super) fn new(
        otlp: &Otlp,
        name: &'static str,
        unit: &'static str,
        help: &'static str,
        boundaries: &[f64],
    ) -> Option<Self> {
        let histogram = otlp
            .meter()?
            .f64_histogram(name)
            .with_description(help)
            .with_boundaries(boundaries.to_vec());
        Some(Self(histogram.with_unit(unit).build()))
    }

    pub(in super::super) fn record(&self, labels: &impl Labels, value: f64) {
        self.0.record(value, &attributes(labels));
    }
}

/// A counter that is pushed.
#[derive(Clone, Debug)]
pub(in super::super) struct Counter(metrics::Counter<u64>);

impl Counter {
    /// Creates the instrument. `None`: no metrics are pushed.
    pub(in super::super) fn new(
        otlp: &Otlp,
        name: &'static str,
        unit: &'static str,
        help: &'static str,
    ) -> Option<Self> {
        let counter = otlp.meter()?.u64_counter(name).with_description(help);
        Some(Self(counter.with_unit(unit).build()))
    }

    pub(in super::super) fn add(&self, labels: &impl Labels, count: u64) {
        self.0.add(count, &attributes(labels));
    }
}

/// A number that rises and falls, and is pushed.
#[derive(Clone, Debug)]
pub(in super::super) struct UpDownCounter(metrics::UpDownCounter<i64>);

impl UpDownCounter {
    /// Creates the instrument. `None`: no metrics are pushed.
    pub(in super::super) fn new(
        otlp: &Otlp,
        name: &'static str,
        unit: &'static str,
        help: &'static str,
    ) -> Option<Self> {
        let counter = otlp
            .meter()?
            .i64_up_down_counter(name)
            .with_description(help);
        Some(Self(counter.with_unit(unit).build()))
    }

    pub(in super::super) fn add(&self, count: i64) {
        self.0.add(count, &[]);
    }
}

fn attributes(labels: &impl Labels) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    labels.each(&mut |name, value| attributes.push(KeyValue::new(name, value.to_owned())));
    attributes
}
