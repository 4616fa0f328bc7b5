//! The complete root.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::de::DeserializeOwned;

use super::error::TypeError;
use super::feed::{Adapter, Items, StreamError, adapter_methods};
use super::{FinalError, LiveError, LiveExt};
use crate::Document;
use crate::json::{Event, ParserView, Sink};

/// A future of the complete root. Made by [`LiveExt::into_final`].
#[must_use = "futures do nothing unless polled"]
pub struct IntoFinal<S: LiveExt, T>(Adapter<S, Final<T>>);

struct Final<T> {
    is_given: bool,
    /// The newest root whose text was dropped.
    last: Option<String>,
    of: PhantomData<fn() -> T>,
}

impl<S: LiveExt, T> IntoFinal<S, T> {
    pub(super) fn new(stream: S) -> Self {
        Self(Adapter::new(
            stream,
            Final {
                is_given: false,
                last: None,
                of: PhantomData,
            },
        ))
    }
}

adapter_methods!(IntoFinal<S, T>);

impl<T> Sink for Final<T> {
    fn event(&mut self, _: Event, _: &ParserView<'_>) {}

    fn is_idle(&self) -> bool {
        true
    }
}

impl<T> Items for Final<T> {
    type Item = T;

    fn settle(&mut self, document: &Document) {
        if let Some(root) = newest(document) {
            root.clone_into(self.last.get_or_insert_default());
        }
    }

    fn next(&mut self, _: &Document) -> Option<Result<T, TypeError>> {
        None
    }
}

/// Returns the text of the newest root, unless it was dropped.
fn newest(document: &Document) -> Option<&str> {
    document.root().filter(|root| !root.is_empty())
}

impl<S: LiveExt, T: DeserializeOwned> IntoFinal<S, T> {
    /// Reads to the end of the root, or of the stream.
    pub(super) fn read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Adapter { feed, items } = &mut self.0;
        while !feed.is_over {
            ready!(feed.poll(cx, items));
        }
        Poll::Ready(())
    }

    pub(super) fn take_root(&mut self) -> Result<T, FinalError<StreamError<S>>> {
        let Adapter { feed, items } = &mut self.0;
        if let Some(error) = feed.error.take() {
            return Err(FinalError::new(error, &feed.document));
        }
        let root = newest(&feed.document).or(items.last.as_deref());
        let value = root
            .map(serde_json::from_str)
            .ok_or_else(|| LiveError::Truncated(feed.document.cut()));
        let value = value
            .and_then(|value| value.map_err(|error| LiveError::Type(TypeError::json("", error))));
        value.map_err(|error| FinalError::new(error, &feed.document))
    }
}

impl<S: LiveExt, T: DeserializeOwned> Future for IntoFinal<S, T> {
    type Output = Result<T, FinalError<StreamError<S>>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.read(cx));
        if std::mem::replace(&mut self.0.items.is_given, true) {
            return Poll::Pending;
        }
        Poll::Ready(self.take_root())
    }
}
