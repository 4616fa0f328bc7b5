//! Code for all live adapters: the stream, the document that it fills, and the order in which they
//! are polled.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::error::TypeError;
use super::outcome::{LiveOutcome, cut};
use super::piece::{AsText, Piece, Text};
use super::{LiveError, LiveExt};
use crate::envelope::AllowedRoots;
use crate::json::Sink;
use crate::json::repair::{RepairLevel, RepairOptions};
use crate::{Document, Limits, SyntaxError, Trailing, Utf8, Utf8Error};

/// The error type of a stream's pieces.
pub(super) type StreamError<S> = <<S as Stream>::Item as Piece>::Error;

/// The result of polling an adapter.
pub(super) type Next<S, T> = Poll<Option<Result<T, LiveError<StreamError<S>>>>>;

/// A sink that collects items for the reader.
pub(super) trait Items: Sink {
    /// The item type of the reader.
    type Item;

    /// Reads all items that need the text of a root that has ended, because the document is about
    /// to drop that text.
    fn settle(&mut self, document: &Document) {
        let _ = document;
    }

    /// Returns the next collected item.
    fn next(&mut self, document: &Document) -> Option<Result<Self::Item, TypeError>>;
}

/// A stream, the document that it fills, and a sink.
pub(super) struct Adapter<S: LiveExt, K> {
    pub(super) feed: Feed<S>,
    pub(super) items: K,
}

impl<S: LiveExt, K> Adapter<S, K> {
    pub(super) fn new(stream: S, items: K) -> Self {
        Self {
            feed: Feed::new(stream),
            items,
        }
    }
}

impl<S: LiveExt, K: Items> Adapter<S, K> {
    /// Returns all collected items before it polls the stream again, and before the error that
    /// ended the stream.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Next<S, K::Item> {
        loop {
            if let Some(item) = self.items.next(&self.feed.document) {
                return Poll::Ready(Some(item.map_err(LiveError::Type)));
            }
            if self.feed.is_over {
                return Poll::Ready(self.feed.error.take().map(Err));
            }
            ready!(self.feed.poll(cx, &mut self.items));
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
    /// The error that ended the stream.
    pub(super) error: Option<LiveError<StreamError<S>>>,
    /// How the text ended.
    pub(super) outcome: Option<LiveOutcome>,
    /// Asks the stream whether its answer is cut at the end of the text read. The model did not
    /// write text after that. Always false for a plain stream.
    is_cut: IsCut<S>,
}

/// Returns whether a stream's answer is cut: it was given up, or ended early.
pub(crate) type IsCut<S> = fn(&S) -> bool;

#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) depth: usize,
    pub(super) roots: AllowedRoots,
    pub(super) trailing: Trailing,
    pub(super) repair: RepairLevel,
}

impl Options {
    fn document(self) -> Document {
        let limits = Limits::default().with_max_depth(self.depth);
        let repair = RepairOptions::new(self.repair).within(&limits);
        Document::with_options(self.depth, self.roots, self.trailing).repairing(repair)
    }

    /// With `Trailing::Stop` the feed ends with the root: text after it may even be invalid UTF-8.
    /// Only a scalar needs the byte that ends it, and `[1]` the text that shows whether it is a
    /// reference.
    fn is_over(self, document: &Document) -> bool {
        self.trailing == Trailing::Stop && document.is_settled()
    }
}

impl<S: LiveExt> Feed<S> {
    pub(super) fn new(stream: S) -> Self {
        let options = Options {
            depth: Limits::default().parser.max_depth,
            roots: AllowedRoots::Containers,
            trailing: Trailing::default(),
            repair: RepairLevel::Syntax,
        };
        Self {
            stream: Box::pin(stream),
            document: options.document(),
            options,
            utf8: Utf8::new(),
            is_over: false,
            error: None,
            outcome: None,
            is_cut: |_| false,
        }
    }

    /// Sets how to ask the stream whether its answer is cut.
    #[cfg(feature = "stream")]
    pub(super) fn cut_where(&mut self, is_cut: IsCut<S>) {
        self.is_cut = is_cut;
    }

    /// Changes the options, unless text was read already.
    pub(super) fn set(&mut self, change: impl FnOnce(&mut Options)) {
        if self.document.text().is_empty() {
            change(&mut self.options);
            self.document = self.options.document();
        }
    }

    /// Ends with an error.
    pub(super) fn fail(&mut self, error: LiveError<StreamError<S>>) {
        self.outcome = LiveOutcome::of(&error, &self.document);
        (self.is_over, self.error) = (true, Some(error));
    }

    /// Reads one piece of the stream, or its end. Must not be called when the feed is over.
    pub(super) fn poll<K: Items>(&mut self, cx: &mut Context<'_>, items: &mut K) -> Poll<()> {
        let piece = ready!(self.stream.as_mut().poll_next(cx));
        let is_cut = (self.is_cut)(&self.stream);
        let result = match piece.map(Piece::into_result) {
            // The model did not write this text. The feed still reads the stream to its end, which
            // sets the stream's own outcome.
            Some(Ok(_)) if is_cut => return Poll::Ready(()),
            Some(Ok(text)) => self.push(text.as_text(), items),
            Some(Err(error)) => Err(LiveError::Stream(error)),
            None => {
                self.is_over = true;
                self.finish(is_cut, items)
            }
        };
        match result {
            Err(error) => self.fail(error),
            Ok(()) if self.is_over => self.outcome = Some(LiveOutcome::Complete),
            Ok(()) => {}
        }
        Poll::Ready(())
    }

    fn push<K: Items>(
        &mut self,
        piece: Text<'_>,
        items: &mut K,
    ) -> Result<(), LiveError<StreamError<S>>> {
        let mut bytes = match piece {
            Text::Str(text) if self.utf8.open().is_empty() => return self.push_text(text, items),
            Text::Str(text) => text.as_bytes(),
            Text::Bytes(bytes) => bytes,
        };
        // `push_text` needs `self` while the decoder lends the text.
        let mut utf8 = std::mem::take(&mut self.utf8);
        while !self.is_over {
            match utf8.next_text(&mut bytes) {
                Ok(Some(text)) => self.push_text(text, items)?,
                Ok(None) => break,
                Err(Utf8Error) if self.has_root() => self.is_over = true,
                // All text before the invalid bytes is in the document.
                Err(Utf8Error) => {
                    return Err(LiveError::Encoding {
                        offset: self.length(),
                    });
                }
            }
        }
        self.utf8 = utf8;
        Ok(())
    }

    /// Appends text. Drops a root that has ended before it reads the next one, so that a stream of
    /// any number of roots needs the memory for one.
    fn push_text<K: Items>(
        &mut self,
        text: &str,
        items: &mut K,
    ) -> Result<(), LiveError<StreamError<S>>> {
        let Self {
            document,
            options,
            is_over,
            ..
        } = self;
        let mut rest = text;
        while !rest.is_empty() && !options.is_over(document) {
            if options.trailing == Trailing::Next && document.is_complete() {
                items.settle(document);
                document.forget_roots();
            }
            let taken = document
                .push_root_with(rest, items)
                .map_err(|error| syntax(document, error))?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        *is_over = options.is_over(document);
        Ok(())
    }

    fn finish<K: Items>(
        &mut self,
        is_cut: bool,
        items: &mut K,
    ) -> Result<(), LiveError<StreamError<S>>> {
        // A scalar root has no certain end at the cut of an answer.
        let is_scalar = self
            .document
            .root()
            .is_some_and(|root| !root.starts_with(['{', '[']));
        if is_cut && is_scalar && !self.document.is_complete() {
            return Err(LiveError::Truncated(cut(&self.document)));
        }
        if let Err(error) = self.document.finish_with(items) {
            if !error.is_truncated() {
                return Err(syntax(&self.document, error));
            }
            return Err(LiveError::Truncated(cut(&self.document)));
        }
        // Further roots may be missing.
        if is_cut && (self.options.trailing == Trailing::Next || !self.document.is_complete()) {
            return Err(LiveError::Truncated(cut(&self.document)));
        }
        if self.utf8.open().is_empty() || self.has_root() {
            return Ok(());
        }
        Err(LiveError::Encoding {
            offset: self.length(),
        })
    }

    /// Whether the only root has ended, so that later bytes may be invalid UTF-8.
    fn has_root(&self) -> bool {
        self.options.trailing == Trailing::Stop && self.document.is_complete()
    }

    /// Returns the length of the stream's text in bytes, dropped roots included.
    fn length(&self) -> usize {
        self.document.base() + self.document.text().len()
    }
}

fn syntax<E>(document: &Document, mut error: SyntaxError) -> LiveError<E> {
    let place = document.explain(&error);
    error.offset += document.base();
    LiveError::Syntax { error, place }
}

// Not derived: the stream need not be `Debug`, and the text may hold private content.
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

/// Implements the members of every adapter: options, accessors, `Debug`, and `Unpin`, since only
/// the boxed stream is pinned.
macro_rules! adapter_methods {
    ($name:ident<S $(, $of:ident)?>) => {
        impl<S: LiveExt $(, $of)?> $name<S $(, $of)?> {
            /// Sets the maximum number of open containers; deeper text is an error. Default: 1,024.
            /// Has no effect once text was read.
            pub fn depth(mut self, depth: usize) -> Self {
                self.0.feed.set(|options| options.depth = depth);
                self
            }

            /// Sets which values may be a root. Default: objects and arrays, also after a preamble
            /// or a Markdown fence. Has no effect once text was read.
            pub fn roots(mut self, roots: $crate::AllowedRoots) -> Self {
                self.0.feed.set(|options| options.roots = roots);
                self
            }

            /// Sets the treatment of text after the root. By default the adapter ends with the root
            /// and does not poll the stream again. Has no effect once text was read.
            pub fn trailing(mut self, trailing: $crate::Trailing) -> Self {
                self.0.feed.set(|options| options.trailing = trailing);
                self
            }

            /// Sets how much of the text inside a root may be changed. Default:
            /// [`Syntax`]($crate::repair::RepairLevel), which withholds a comma and white space
            /// after a value, but no text of a string. `Guess` withholds up to `max_lookahead`
            /// bytes. [`Document::repairs`]($crate::Document::repairs) has the changes. Has no
            /// effect once text was read.
            pub fn repair(mut self, level: $crate::repair::RepairLevel) -> Self {
                self.0.feed.set(|options| options.repair = level);
                self
            }

            /// Returns the document: the received text, the cut, the complete part. With
            /// [`Trailing::Next`]($crate::Trailing::Next), the text from the newest root on:
            /// earlier roots are dropped.
            pub fn document(&self) -> &$crate::Document {
                &self.0.feed.document
            }

            /// Returns how the text ended. `None` before the adapter has reached the end of the
            /// root or of the stream, and after an invalid pattern.
            pub fn outcome(&self) -> Option<&$crate::live::LiveOutcome> {
                self.0.feed.outcome.as_ref()
            }

            /// Sets how to ask the stream whether its answer is cut.
            #[cfg(feature = "stream")]
            pub(crate) fn cut_where(mut self, is_cut: $crate::live::feed::IsCut<S>) -> Self {
                self.0.feed.cut_where(is_cut);
                self
            }

            /// Returns the stream.
            pub fn get_ref(&self) -> &S {
                &self.0.feed.stream
            }

            /// Returns the stream. It continues after the last piece that was read.
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

pub(super) use adapter_methods;
