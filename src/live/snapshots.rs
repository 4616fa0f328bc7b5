//! The root as a typed value, again and again while it grows.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde::de::DeserializeOwned;

use super::error::TypeError;
use super::feed::{Adapter, Items, StreamError, adapter_methods};
use super::{LiveError, LiveExt};
use crate::Document;
use crate::json::{Event, ParserView, Sink};
use crate::value::LiveValue;

/// A stream of the growing root, with an item after every piece that changed it. Made by
/// [`LiveExt::snapshots`].
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

    /// Returns the newest state of the root without building a `T`. O(1).
    pub fn value(&self) -> &LiveValue {
        &self.0.items.value
    }
}

adapter_methods!(Snapshots<S, T>);

impl<S: LiveExt, T: DeserializeOwned> Stream for Snapshots<S, T> {
    type Item = Result<T, LiveError<StreamError<S>>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().0.poll_next(cx)
    }
}

/// A live value, and the snapshots that are due.
struct Shown<T> {
    value: LiveValue,
    /// The visible value differs from the last snapshot.
    has_changed: bool,
    /// The last snapshot failed because something was missing.
    is_early: bool,
    /// Events were received since the last snapshot.
    is_new: bool,
    /// The snapshots of roots that ended within the piece.
    queue: VecDeque<Result<T, TypeError>>,
}

impl<T: DeserializeOwned> Shown<T> {
    /// Takes a snapshot if it can differ from the last one. More text can cure a failure unless the
    /// root is complete.
    fn look(&mut self, is_whole: bool) {
        let is_new = std::mem::take(&mut self.is_new);
        let has_changed = std::mem::take(&mut self.has_changed);
        let may_be_cured = self.is_early && is_new;
        if !has_changed && !may_be_cured {
            return;
        }
        let snapshot = self.value.snapshot();
        self.is_early = snapshot
            .as_ref()
            .is_err_and(|error| error.is_early() && !is_whole);
        if !self.is_early {
            self.queue.push_back(snapshot.map_err(TypeError::snapshot));
        }
    }
}

impl<T: DeserializeOwned> Sink for Shown<T> {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        let is_root = live.frames.is_empty();
        // The value clears itself at the start of a root, and keeps its memory.
        self.value.event(event, live);
        self.is_new = true;
        // A key is shown with its value, and the end of a container changes nothing.
        self.has_changed |= event.begins_value() || matches!(event, Event::Fragment(_));
        if is_root && event.ends_value() {
            self.look(true);
        }
    }
}

impl<T: DeserializeOwned> Items for Shown<T> {
    type Item = T;

    fn next(&mut self, _: &Document) -> Option<Result<T, TypeError>> {
        self.look(false);
        self.queue.pop_front()
    }
}
