//! Values as soon as they are whole.

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
use crate::paths::Paths;

/// The values that a pattern matches, each as soon as it is whole; [`LiveExt::completed`] makes it.
#[must_use = "streams do nothing unless polled"]
pub struct Completed<S: LiveExt, T>(Adapter<S, Found<T>>);

impl<S: LiveExt, T> Completed<S, T> {
    pub(super) fn new(stream: S, pattern: &str) -> Self {
        let (paths, error) = match Paths::completions([pattern]) {
            Ok(paths) => (Some(paths), None),
            Err(error) => (None, Some(error)),
        };
        let mut adapter = Adapter::new(stream, Found { paths, read: VecDeque::new() });
        if let Some(error) = error {
            adapter.feed.fail(LiveError::Pattern(error));
        }
        Self(adapter)
    }
}

shell!(Completed<S, T>);

impl<S: LiveExt, T: DeserializeOwned> Stream for Completed<S, T> {
    type Item = Result<T, LiveError<Own<S>>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().0.poll_next(cx)
    }
}

/// Where the values are. They are read when they are asked for, or when their text is about to be dropped.
struct Found<T> {
    paths: Option<Paths>,
    /// Values whose text was dropped.
    read: VecDeque<Result<T, TypeError>>,
}

impl<T: DeserializeOwned> Found<T> {
    fn read(&mut self, document: &Document) -> Option<Result<T, TypeError>> {
        let found = self.paths.as_mut()?.poll_match()?;
        Some(found.parse(document.text()).map_err(|error| TypeError::json(found.path, error)))
    }
}

impl<T> Sink for Found<T> {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        self.paths.event(event, live);
    }

    fn is_idle(&self) -> bool {
        self.paths.is_idle()
    }
}

impl<T: DeserializeOwned> Take for Found<T> {
    type Item = T;

    fn settle(&mut self, document: &Document) {
        while let Some(value) = self.read(document) {
            self.read.push_back(value);
        }
    }

    fn next(&mut self, document: &Document) -> Option<Result<T, TypeError>> {
        self.read.pop_front().or_else(|| self.read(document))
    }
}
