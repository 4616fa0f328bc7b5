//! The values of a stream that match a pattern, each available when it is complete.

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
use crate::paths::Paths;

/// A stream of the values that match a pattern, each available when it is complete. Made by
/// [`LiveExt::completed`].
#[must_use = "streams do nothing unless polled"]
pub struct Completed<S: LiveExt, T>(Adapter<S, FoundItem<T>>);

impl<S: LiveExt, T> Completed<S, T> {
    pub(super) fn new(stream: S, pattern: &str) -> Self {
        let (paths, error) = match Paths::completions([pattern]) {
            Ok(paths) => (Some(paths), None),
            Err(error) => (None, Some(error)),
        };
        let mut adapter = Adapter::new(
            stream,
            FoundItem {
                paths,
                read: VecDeque::new(),
            },
        );
        if let Some(error) = error {
            adapter.feed.fail(LiveError::Pattern(error));
        }
        Self(adapter)
    }
}

adapter_methods!(Completed<S, T>);

impl<S: LiveExt, T: DeserializeOwned> Stream for Completed<S, T> {
    type Item = Result<T, LiveError<StreamError<S>>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().0.poll_next(cx)
    }
}

/// Finds the matching values. Parses each when the reader asks for it, or before the document drops
/// its text.
struct FoundItem<T> {
    paths: Option<Paths>,
    /// Values that were parsed because their text was about to be dropped.
    read: VecDeque<Result<T, TypeError>>,
}

impl<T: DeserializeOwned> FoundItem<T> {
    fn read(&mut self, document: &Document) -> Option<Result<T, TypeError>> {
        let found = self.paths.as_mut()?.poll_match()?;
        Some(
            found
                .parse(document.text())
                .map_err(|error| TypeError::json(found.path, error)),
        )
    }
}

impl<T> Sink for FoundItem<T> {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        self.paths.event(event, live);
    }

    fn is_idle(&self) -> bool {
        self.paths.is_idle()
    }
}

impl<T: DeserializeOwned> Items for FoundItem<T> {
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
