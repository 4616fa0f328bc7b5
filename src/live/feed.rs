//! What all live adapters share: the stream, the document that it fills, and the order in which they are asked.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::error::TypeError;
use super::piece::{AsText, Piece, Text};
use super::{LiveError, LiveExt};
use crate::json::Sink;
use crate::json::envelope::Roots;
use crate::{Document, Limits, SyntaxError, Trailing, Utf8, Utf8Error};

/// The error of a stream's pieces.
pub(super) type Own<S> = <<S as Stream>::Item as Piece>::Error;

/// What polling an adapter gives.
pub(super) type Next<S, T> = Poll<Option<Result<T, LiveError<Own<S>>>>>;

/// A sink that collects items for the reader.
pub(super) trait Take: Sink {
    /// What the reader gets.
    type Item;

    /// Reads what needs the text of a root that has ended: the document is about to drop it.
    fn settle(&mut self, document: &Document) {
        let _ = document;
    }

    /// The next item of what was taken so far.
    fn next(&mut self, document: &Document) -> Option<Result<Self::Item, TypeError>>;
}

/// A stream, a document, and a sink.
pub(super) struct Adapter<S: LiveExt, K> {
    pub(super) feed: Feed<S>,
    pub(super) take: K,
}

impl<S: LiveExt, K> Adapter<S, K> {
    pub(super) fn new(stream: S, take: K) -> Self {
        Self { feed: Feed::new(stream), take }
    }
}

impl<S: LiveExt, K: Take> Adapter<S, K> {
    /// All that was taken goes out before the stream is asked for more, and before the error that ended it.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Next<S, K::Item> {
        loop {
            if let Some(item) = self.take.next(&self.feed.document) {
                return Poll::Ready(Some(item.map_err(LiveError::Type)));
            }
            if self.feed.is_over {
                return Poll::Ready(self.feed.error.take().map(Err));
            }
            ready!(self.feed.poll(cx, &mut self.take));
        }
    }
}

/// Fills a document from a stream.
pub(super) struct Feed<S: LiveExt> {
    pub(super) stream: Pin<Box<S>>,
    pub(super) document: Document,
    pub(super) options: Options,
    utf8: Utf8,
    /// The stream is not polled any more.
    pub(super) is_over: bool,
    /// Why.
    pub(super) error: Option<LiveError<Own<S>>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) depth: usize,
    pub(super) roots: Roots,
    pub(super) trailing: Trailing,
}

impl Options {
    fn document(self) -> Document {
        Document::with_options(self.depth, self.roots, self.trailing)
    }

    /// What stands behind the root is not looked at, not even whether it is text.
    fn is_over(self, document: &Document) -> bool {
        self.trailing == Trailing::Stop && document.is_complete()
    }
}

impl<S: LiveExt> Feed<S> {
    pub(super) fn new(stream: S) -> Self {
        let options =
            Options { depth: Limits::default().max_depth, roots: Roots::Containers, trailing: Trailing::default() };
        Self {
            stream: Box::pin(stream),
            document: options.document(),
            options,
            utf8: Utf8::new(),
            is_over: false,
            error: None,
        }
    }

    /// Changes the options of a document that has not begun.
    pub(super) fn set(&mut self, change: impl FnOnce(&mut Options)) {
        if self.document.text().is_empty() {
            change(&mut self.options);
            self.document = self.options.document();
        }
    }

    /// Ends with an error.
    pub(super) fn fail(&mut self, error: LiveError<Own<S>>) {
        (self.is_over, self.error) = (true, Some(error));
    }

    /// Takes one piece of the stream, or its end. Must not be called when it is over.
    pub(super) fn poll<K: Take>(&mut self, cx: &mut Context<'_>, take: &mut K) -> Poll<()> {
        let result = match ready!(self.stream.as_mut().poll_next(cx)) {
            Some(piece) => match piece.into_result() {
                Ok(text) => self.push(text.as_text(), take),
                Err(error) => Err(LiveError::Stream(error)),
            },
            None => {
                self.is_over = true;
                self.finish(take)
            }
        };
        if let Err(error) = result {
            self.fail(error);
        }
        Poll::Ready(())
    }

    fn push<K: Take>(&mut self, piece: Text<'_>, take: &mut K) -> Result<(), LiveError<Own<S>>> {
        let mut bytes = match piece {
            Text::Str(text) if self.utf8.open().is_empty() => return self.push_text(text, take),
            Text::Str(text) => text.as_bytes(),
            Text::Bytes(bytes) => bytes,
        };
        // `push_text` needs the rest of the feed while the decoder lends the text.
        let mut utf8 = std::mem::take(&mut self.utf8);
        while !self.is_over {
            match utf8.next_text(&mut bytes) {
                Ok(Some(text)) => self.push_text(text, take)?,
                Ok(None) => break,
                // All text before it is in the document.
                Err(Utf8Error) => return Err(LiveError::Encoding { offset: self.length() }),
            }
        }
        self.utf8 = utf8;
        Ok(())
    }

    /// Appends text. Roots that have ended are dropped before the next one is read, so that a stream of any number of
    /// roots takes the memory of one.
    fn push_text<K: Take>(&mut self, text: &str, take: &mut K) -> Result<(), LiveError<Own<S>>> {
        let Self { document, options, is_over, .. } = self;
        let mut rest = text;
        while options.trailing == Trailing::Next && !rest.is_empty() {
            if document.is_complete() {
                take.settle(document);
                document.forget_roots();
            }
            let taken = document.push_root_with(rest, take).map_err(|error| syntax(document, error))?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        document.push_with(rest, take).map_err(|error| syntax(document, error))?;
        *is_over = options.is_over(document);
        Ok(())
    }

    fn finish<K: Take>(&mut self, take: &mut K) -> Result<(), LiveError<Own<S>>> {
        if self.document.finish_with(take).is_err() {
            let mut cut = self.document.cut();
            cut.offset += self.document.base();
            return Err(LiveError::Truncated(cut));
        }
        if self.utf8.open().is_empty() {
            return Ok(());
        }
        Err(LiveError::Encoding { offset: self.length() })
    }

    /// Bytes of all text so far, dropped roots included.
    fn length(&self) -> usize {
        self.document.base() + self.document.text().len()
    }
}

fn syntax<E>(document: &Document, mut error: SyntaxError) -> LiveError<E> {
    let place = document.explain(&error);
    error.offset += document.base();
    LiveError::Syntax { error, place }
}

// Not derived: streams need not be printed, and texts hold what users said.
impl<S: LiveExt> fmt::Debug for Feed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("options", &self.options)
            .field("bytes", &self.document.text().len())
            .field("roots", &self.document.roots())
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

/// What every adapter has: options, views, `Debug`; and `Unpin`, since the stream alone is pinned, in a box.
macro_rules! shell {
    ($name:ident<S $(, $of:ident)?>) => {
        impl<S: LiveExt $(, $of)?> $name<S $(, $of)?> {
            /// Open containers; deeper text is an error. Default 1,024. Not changed once text was read.
            pub fn depth(mut self, depth: usize) -> Self {
                self.0.feed.set(|options| options.depth = depth);
                self
            }

            /// Which values may be a root. By default objects and arrays, behind a Markdown fence or a preamble too,
            /// as models write them. Not changed once text was read.
            pub fn roots(mut self, roots: $crate::json::envelope::Roots) -> Self {
                self.0.feed.set(|options| options.roots = roots);
                self
            }

            /// What becomes of text behind the root. By default the adapter ends with the root, and polls the stream
            /// no more. Not changed once text was read.
            pub fn trailing(mut self, trailing: $crate::Trailing) -> Self {
                self.0.feed.set(|options| options.trailing = trailing);
                self
            }

            /// The text so far, where it stops, its complete part. With [`Trailing::Next`]($crate::Trailing::Next), the
            /// text from the newest root on: the roots before it are dropped.
            pub fn document(&self) -> &$crate::Document {
                &self.0.feed.document
            }

            /// The stream.
            pub fn get_ref(&self) -> &S {
                &self.0.feed.stream
            }

            /// The stream, from behind the last piece that was read.
            pub fn into_inner(self) -> std::pin::Pin<Box<S>> {
                self.0.feed.stream
            }
        }

        impl<S: LiveExt $(, $of)?> Unpin for $name<S $(, $of)?> {}

        impl<S: LiveExt $(, $of)?> std::fmt::Debug for $name<S $(, $of)?> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0.feed).finish()
            }
        }
    };
}

pub(super) use shell;
