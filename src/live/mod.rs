//! JSON that is used while it comes: events, snapshots and whole elements of any [`Stream`] of text.
//!
//! A stream may be of bytes, cut anywhere, or of text deltas, bare or as results: see [`Piece`]. A
//! [`StitchText`](crate::stream::StitchText) is one, so a text that was cut is made whole and typed in one line; a
//! [`Stitch`](crate::stream::Stitch) is none, since its bytes are a response's, not its text.
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
//! # What all adapters have in common
//! * They poll the stream when they are polled and have nothing left to give; a slow reader slows the stream.
//! * A `next()` that is dropped loses nothing.
//! * They end with the root, and poll the stream no more: [`into_inner`](Events::into_inner) gives it back, to be read
//!   to its end (a `StitchText` knows its outcome there). With [`Trailing::Next`](crate::Trailing::Next) they end with
//!   the stream, which may then hold no root at all.
//! * Of a stream that fails or ends early, all that was read comes first, then the [`LiveError`], then `None` for good.
//! * The whole text is kept; [`document`](Events::document) shows it.
//! * A type is read to a depth of its own: a value with more containers within each other than [`completed`] and
//!   [`into_final`] (127, the limit of `serde_json`) or [`snapshots`] (128) lead a type through is an [`LiveError::Type`],
//!   however deep the text may be. What a type does not look at does not count.
//!
//! [`completed`]: LiveExt::completed
//! [`into_final`]: LiveExt::into_final
//! [`snapshots`]: LiveExt::snapshots

mod completed;
mod error;
mod events;
mod feed;
mod piece;
mod snapshots;
mod whole;

use futures_core::Stream;
use serde::de::DeserializeOwned;

pub use completed::Completed;
pub use error::{LiveError, TypeError};
pub use events::{Events, LiveEvent};
pub use piece::{AsText, Piece, Text};
pub use snapshots::Snapshots;
pub use whole::IntoFinal;

/// What a stream of JSON text can be turned into. Every [`Stream`] whose items are [`Piece`]s has it.
pub trait LiveExt: Stream<Item: Piece> + Sized {
    /// Every event: a container begins, a key, the next part of a string, a number. For texts that are shown letter by
    /// letter.
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

    /// The root so far as a `T`, after every piece that changed what it shows: closed where it stops, an open string as
    /// far as it has come. A state that is no `T` yet, since a field is missing that may still come, is passed over;
    /// one that can't become one is an [`LiveError::Type`], and so is one that is missing something at the end of the root.
    /// Behind it the next state may fit again.
    ///
    /// Each `T` costs a pass over the whole value, so a long root in many pieces costs that many passes. The cheap way
    /// is a [`LiveValue`](crate::value::LiveValue) and its `view()`, which builds nothing; [`Snapshots::value`] lends
    /// the one in here.
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

    /// Every value whose path matches `pattern`, as a `T`, as soon as its last byte is there. A value that is no `T` is
    /// an [`LiveError::Type`] in its place, and so is one that holds more than 127 containers within each other, counted from
    /// the value itself: as deep as `serde_json` goes. A pattern that is none is the first and only item, an
    /// [`LiveError::Pattern`].
    /// [`Paths`](crate::paths::Paths) says what patterns there are.
    fn completed<T: DeserializeOwned>(self, pattern: &str) -> Completed<Self, T> {
        Completed::new(self, pattern)
    }

    /// The root as a `T`, as soon as it is whole; with [`Trailing::Error`](crate::Trailing::Error) or
    /// [`Trailing::Next`](crate::Trailing::Next), at the end of the stream, the last one. When it has resolved it stays
    /// pending. A root of more than 127 containers within each other is an [`LiveError::Type`]: `serde_json` goes no deeper.
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
