//! The root as a value of a type, over and over, while it grows.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde::de::DeserializeOwned;

use super::error::TypeError;
use super::feed::{Adapter, Own, Take, shell};
use super::{LiveError, LiveExt};
use crate::Document;
use crate::json::{Event, Live, Sink};
use crate::value::LiveValue;

/// The root so far, after every piece that changed it; [`LiveExt::snapshots`] makes it.
#[must_use = "streams do nothing unless polled"]
pub struct Snapshots<S: LiveExt, T>(Adapter<S, Shown<T>>);

impl<S: LiveExt, T> Snapshots<S, T> {
    pub(super) fn new(stream: S) -> Self {
        let shown = Shown {
            value: LiveValue::new(),
            has_changed: false,
            is_early: false,
            is_new: false,
            queue: VecDeque::new(),
        };
        Self(Adapter::new(stream, shown))
    }

    /// The newest root so far, to be looked at without a `T`: costs nothing.
    pub fn value(&self) -> &LiveValue {
        &self.0.take.value
    }
}

shell!(Snapshots<S, T>);

impl<S: LiveExt, T: DeserializeOwned> Stream for Snapshots<S, T> {
    type Item = Result<T, LiveError<Own<S>>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().0.poll_next(cx)
    }
}

/// A value, and the snapshots of it that are due.
struct Shown<T> {
    value: LiveValue,
    /// It shows something else than at the last look.
    has_changed: bool,
    /// At the last look the type asked for more.
    is_early: bool,
    /// Something came since the last look.
    is_new: bool,
    /// Of roots that ended within the piece.
    queue: VecDeque<Result<T, TypeError>>,
}

impl<T: DeserializeOwned> Shown<T> {
    /// Takes a snapshot if it can differ from the one before. More text cures one that is early, unless the root is
    /// whole.
    fn look(&mut self, is_whole: bool) {
        let is_new = std::mem::take(&mut self.is_new);
        let has_changed = std::mem::take(&mut self.has_changed);
        let may_be_cured = self.is_early && is_new;
        if !has_changed && !may_be_cured {
            return;
        }
        let snapshot = self.value.snapshot();
        self.is_early = snapshot.as_ref().is_err_and(|error| error.is_early() && !is_whole);
        if !self.is_early {
            self.queue.push_back(snapshot.map_err(TypeError::snapshot));
        }
    }
}

impl<T: DeserializeOwned> Sink for Shown<T> {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        let is_root = live.frames.is_empty();
        // It clears itself before a root, and keeps its memory.
        self.value.event(event, live);
        self.is_new = true;
        // A key shows with its value, an end shows nothing.
        self.has_changed |= event.begins_value() || matches!(event, Event::Fragment(_));
        if is_root && event.ends_value() {
            self.look(true);
        }
    }
}

impl<T: DeserializeOwned> Take for Shown<T> {
    type Item = T;

    fn next(&mut self, _: &Document) -> Option<Result<T, TypeError>> {
        self.look(false);
        self.queue.pop_front()
    }
}
