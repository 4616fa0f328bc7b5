//! Instruments of the SDK that take the labels of the proxy's metrics.

use opentelemetry::{KeyValue, metrics};

use super::Otlp;
use crate::recorded::Labels;

/// A histogram that is pushed.
#[derive(Clone, Debug)]
pub(in super::super) struct Histogram(metrics::Histogram<f64>);

impl Histogram {
    pub(in super::super) fn record(&self, labels: &impl Labels, value: f64) {
        self.0.record(value, &attributes(labels));
    }
}

/// A counter that is pushed.
#[derive(Clone, Debug)]
pub(in super::super) struct Counter(metrics::Counter<u64>);

impl Counter {
    pub(in super::super) fn add(&self, labels: &impl Labels, count: u64) {
        self.0.add(count, &attributes(labels));
    }
}

/// A number that rises and falls, and is pushed.
#[derive(Clone, Debug)]
pub(in super::super) struct UpDownCounter(metrics::UpDownCounter<i64>);

impl UpDownCounter {
    pub(in super::super) fn add(&self, count: i64) {
        self.0.add(count, &[]);
    }
}

/// Instruments. `None`: no metrics are pushed.
impl Otlp {
    pub(in super::super) fn histogram(
        &self,
        name: &'static str,
        unit: &'static str,
        help: &'static str,
        boundaries: &[f64],
    ) -> Option<Histogram> {
        let histogram = self
            .meter()?
            .f64_histogram(name)
            .with_description(help)
            .with_boundaries(boundaries.to_vec());
        Some(Histogram(histogram.with_unit(unit).build()))
    }

    pub(in super::super) fn counter(
        &self,
        name: &'static str,
        unit: &'static str,
        help: &'static str,
    ) -> Option<Counter> {
        Some(Counter(
            self.meter()?
                .u64_counter(name)
                .with_description(help)
                .with_unit(unit)
                .build(),
        ))
    }

    pub(in super::super) fn up_down_counter(
        &self,
        name: &'static str,
        unit: &'static str,
        help: &'static str,
    ) -> Option<UpDownCounter> {
        Some(UpDownCounter(
            self.meter()?
                .i64_up_down_counter(name)
                .with_description(help)
                .with_unit(unit)
                .build(),
        ))
    }

    fn meter(&self) -> Option<&metrics::Meter> {
        self.0.metrics.as_ref().map(|metrics| &metrics.meter)
    }
}

fn attributes(labels: &impl Labels) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    labels.each(&mut |name, value| attributes.push(KeyValue::new(name, value.to_owned())));
    attributes
}
