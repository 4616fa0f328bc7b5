//! Live adapters: read a [`Stream`] of JSON text as events, snapshots or complete values while it
//! is received.
//!
//! The items of the stream are bytes, cut anywhere, or text deltas, bare or as a `Result`. A
//! [`Reader`] and an `AsyncReader` make a stream of a reader. A
//! [`StitchText`](crate::stream::StitchText) is such a stream, so a cut answer is continued and typed
//! in one line. A [`Stitch`](crate::stream::Stitch) is not: its bytes are an
//! HTTP response, not the text in it.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use restitch::live::LiveExt;
//! use restitch::stream::Stitcher;
//! use tokio_stream::{StreamExt, iter};
//!
//! #[derive(serde::Deserialize)]
//! struct Section {
//!     title: String,
//! }
//!
//! let call = |text: &'static str| iter([Ok::<_, std::io::Error>(text.to_owned())]);
//! let first = call(r#"{"sections": [{"title": "One"}, {"title": "Tw"#);
//! let whole = r#"{"sections": [{"title": "One"}, {"title": "Two"}]}"#;
//! let text = Stitcher::new().text(first, |_| async { Ok(call(whole)) });
//! let mut sections = text.completed::<Section>("/sections/*");
//! let mut titles = Vec::new();
//! while let Some(section) = sections.next().await {
//!     titles.push(section.unwrap().title);
//! }
//! assert_eq!(titles, ["One", "Two"]);
//! # });
//! ```
//!
//! # Common to all adapters
//! * An adapter polls the stream when it is polled and has no item left; a slow reader slows the
//!   stream.
//! * A `next()` that is dropped loses nothing.
//! * An adapter ends with the root and does not poll the stream again.
//!   [`into_inner`](Events::into_inner) returns the stream, for example to read a `StitchText` to
//!   its end and ask for its outcome. With [`Trailing::Next`](crate::Trailing::Next) an adapter
//!   ends with the stream, which may hold no root at all.
//! * If the stream fails or ends early, the adapter returns all items that were read, then the
//!   [`LiveError`], then `None` forever. [`outcome`](Events::outcome) returns how the text ended.
//! * A value counts as whole only if the model closed it. A view of a `StitchText` ends where the
//!   answer was given up. It does not read the text that
//!   [`GiveUp::Close`](crate::session::GiveUp::Close) adds.
//! * The text of the newest root is kept; [`document`](Events::document) returns it.
//! * [`completed`] and [`into_final`] read types through at most 127 nested containers (the limit
//!   of `serde_json`), [`snapshots`] through at most 128. A deeper value is a [`LiveError::Type`].
//!   Containers that the type ignores do not count.
//!
//! [`completed`]: LiveExt::completed
//! [`into_final`]: LiveExt::into_final
//! [`snapshots`]: LiveExt::snapshots

#[cfg(feature = "stream")]
mod async_reader;
mod completed;
mod error;
mod events;
mod feed;
mod outcome;
mod piece;
mod reader;
mod snapshots;
mod whole;

use futures_core::Stream;
use serde::de::DeserializeOwned;

#[cfg(feature = "stream")]
pub use async_reader::AsyncReader;
pub use completed::Completed;
#[doc(hidden)]
pub use error::TypeError;
pub use error::{FinalError, LiveError};
pub use events::{Events, LiveEvent};
pub use outcome::LiveOutcome;
#[doc(hidden)]
pub use piece::Piece;
pub use piece::{AsText, Text};
pub use reader::Reader;
pub use snapshots::Snapshots;
pub use whole::IntoFinal;

/// Turns a stream of JSON text into events, snapshots or values. Implemented for every [`Stream`]
/// whose items are [`Piece`]s.
pub trait LiveExt: Stream<Item: Piece> + Sized {
    /// Returns every event: the start of a container, a key, the next fragment of a string, a
    /// number. For example to show text letter by letter.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use restitch::{json::Event, live::LiveExt};
    /// use tokio_stream::{StreamExt, iter};
    ///
    /// let mut events = iter([r#"{"title": "Ti"#, r#"des\n"}"#]).events();
    /// let mut title = String::new();
    /// while let Some(event) = events.next().await {
    ///     let event = event.unwrap();
    ///     if matches!(event.event, Event::Fragment(_)) && *event.path == *"/title" {
    ///         title.push_str(&event.text);
    ///     }
    /// }
    /// assert_eq!(title, "Tides\n");
    /// # });
    /// ```
    fn events(self) -> Events<Self> {
        Events::new(self)
    }

    /// Returns the root so far as a `T`, after every piece that changed its visible part. Each
    /// snapshot is partial: the root is closed where the text stops, and an open string has its
    /// received text. If [`outcome`](Snapshots::outcome) is `Complete`, the last one is whole.
    ///
    /// A state that is not a `T` yet, because a missing field may still be received, is skipped. A
    /// state that cannot become a `T` is a [`LiveError::Type`]; so is a state that still lacks a
    /// value at the end of the root. Later states may fit again.
    ///
    /// Each `T` costs a pass over the whole value, so a long root in many pieces costs one pass for
    /// each piece. [`LiveValue::view`](crate::value::LiveValue::view) builds nothing;
    /// [`Snapshots::value`] lends the live value.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use restitch::live::LiveExt;
    /// use tokio_stream::{StreamExt, iter};
    ///
    /// let mut lists = iter([r#"["one", "#, r#""tw"#, r#"o""#, r#"]"#]).snapshots::<Vec<String>>();
    /// let mut seen = Vec::new();
    /// while let Some(list) = lists.next().await {
    ///     seen.push(list.unwrap().join("+"));
    /// }
    /// assert_eq!(seen, ["one", "one+tw", "one+two"]);
    /// # });
    /// ```
    fn snapshots<T: DeserializeOwned>(self) -> Snapshots<Self, T> {
        Snapshots::new(self)
    }

    /// Returns every value whose path matches `pattern` as a `T`, when its last byte is received. A
    /// value that is open where the text is cut is not returned. [`Paths`](crate::paths::Paths)
    /// describes patterns.
    ///
    /// For a value that is not a `T`, the item is a [`LiveError::Type`]; so is a value of more than
    /// 127 nested containers, the limit of `serde_json`. An invalid pattern is the first and only
    /// item, a [`LiveError::Pattern`].
    fn completed<T: DeserializeOwned>(self, pattern: &str) -> Completed<Self, T> {
        Completed::new(self, pattern)
    }

    /// Returns the root as a `T` once it is complete. If the document is cut, the error has the
    /// [closed value](FinalError::closed). With [`Trailing::Error`](crate::Trailing::Error) or
    /// [`Trailing::Next`](crate::Trailing::Next), returns the last root at the end of the stream.
    /// Stays pending after that.
    ///
    /// A root of more than 127 nested containers is a [`LiveError::Type`]: the limit of
    /// `serde_json`.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use restitch::live::LiveExt;
    ///
    /// let list: Vec<u8> = tokio_stream::iter(["```json\n[1, ", "2]\n```"]).into_final().await.unwrap();
    /// assert_eq!(list, [1, 2]);
    /// # });
    /// ```
    fn into_final<T: DeserializeOwned>(self) -> IntoFinal<Self, T> {
        IntoFinal::new(self)
    }
}

impl<S: Stream<Item: Piece>> LiveExt for S {}
