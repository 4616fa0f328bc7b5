//! Replaces `otlp` in a build without that feature: the proxy pushes nothing.

use std::convert::Infallible;

use http::{HeaderMap, StatusCode};

use super::metrics::Operation;
use super::recorded::Labels;
use restitch::internal::record::{AnswerRecord, CutRecord, SeamRecord};
use restitch_http::Upstream;

/// Declares types without values.
macro_rules! absent {
    ($($name:ident),+) => {$(
        #[derive(Clone, Debug)]
        pub(super) struct $name(Infallible);
    )+};
}

absent!(
    Otlp,
    Parent,
    AnswerSpan,
    CallSpan,
    Histogram,
    Counter,
    UpDownCounter
);

impl Parent {
    pub(super) fn of(otlp: &Otlp, _: &HeaderMap) -> Option<Self> {
        match otlp.0 {}
    }

    pub(super) fn begin_answer(&self, _: &Operation, _: &'static str) -> AnswerSpan {
        match self.0 {}
    }
}

impl AnswerSpan {
    pub(super) fn begin_call(&self, _: &Operation, _: &'static str, _: &Upstream) -> CallSpan {
        match self.0 {}
    }

    pub(super) fn end(self, _: &AnswerRecord, _: &'static str, _: Option<StatusCode>, _: &str) {
        match self.0 {}
    }
}

impl CallSpan {
    pub(super) fn headers(&self) -> HeaderMap {
        match self.0 {}
    }

    pub(super) fn note_cut(&mut self, _: &CutRecord) {
        match self.0 {}
    }

    pub(super) fn note_seam(&mut self, _: &SeamRecord) {
        match self.0 {}
    }

    pub(super) fn note_tokens(&mut self, _: &'static str, _: u64) {
        match self.0 {}
    }

    pub(super) fn end(self, _: Option<StatusCode>, _: &str) {
        match self.0 {}
    }
}

impl Histogram {
    pub(super) fn new(
        otlp: &Otlp,
        _: &'static str,
        _: &'static str,
        _: &'static str,
        _: &[f64],
    ) -> Option<Self> {
        match otlp.0 {}
    }

    pub(super) fn record(&self, labels: &impl Labels, _: f64) {
        labels.each(&mut |_, _| {});
        match self.0 {}
    }
}

impl Counter {
    pub(super) fn new(
        otlp: &Otlp,
        _: &'static str,
        _: &'static str,
        _: &'static str,
    ) -> Option<Self> {
        match otlp.0 {}
    }

    pub(super) fn add(&self, labels: &impl Labels, _: u64) {
        labels.each(&mut |_, _| {});
        match self.0 {}
    }
}

impl UpDownCounter {
    pub(super) fn new(
        otlp: &Otlp,
        _: &'static str,
        _: &'static str,
        _: &'static str,
    ) -> Option<Self> {
        match otlp.0 {}
    }

    pub(super) fn add(&self, _: i64) {
        match self.0 {}
    }
}
