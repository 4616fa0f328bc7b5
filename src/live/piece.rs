//! The items of a stream: text or bytes, bare or as a result.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

/// An item of a stream: [`AsText`], or a `Result` with it. Implemented for all of these.
pub trait Piece {
    /// The text inside.
    type Text: AsText;
    /// The error of the stream; [`Infallible`] for a bare item.
    type Error;

    /// Returns the text.
    ///
    /// # Errors
    /// The stream's own error.
    fn into_result(self) -> Result<Self::Text, Self::Error>;
}

impl<T: AsText> Piece for T {
    type Text = T;
    type Error = Infallible;

    fn into_result(self) -> Result<T, Infallible> {
        Ok(self)
    }
}

impl<T: AsText, E> Piece for Result<T, E> {
    type Text = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

/// A piece of text. Implement it for an SDK's delta type.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use restitch::live::{AsText, LiveExt, Text};
///
/// struct Delta {
///     content: Option<String>,
/// }
///
/// impl AsText for Delta {
///     fn as_text(&self) -> Text<'_> {
///         Text::Str(self.content.as_deref().unwrap_or_default())
///     }
/// }
///
/// let deltas = [Some("[1, "), None, Some("2]")].map(|content| Delta { content: content.map(str::to_owned) });
/// let list: Vec<u8> = tokio_stream::iter(deltas).into_final().await.unwrap();
/// assert_eq!(list, [1, 2]);
/// # });
/// ```
pub trait AsText {
    /// Returns the text.
    fn as_text(&self) -> Text<'_>;
}

/// A piece of text, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// Whole characters.
    Str(&'a str),
    /// Bytes that may start and end inside a character.
    Bytes(&'a [u8]),
}

macro_rules! as_text {
    ($variant:ident: $($type:ty),+) => {
        $(impl AsText for $type {
            fn as_text(&self) -> Text<'_> {
                Text::$variant(self)
            }
        })+
    };
}

as_text!(Str: str, String, Box<str>, Arc<str>, Cow<'_, str>);
as_text!(Bytes: [u8], Vec<u8>, Box<[u8]>, Arc<[u8]>, Cow<'_, [u8]>, Bytes, BytesMut);

impl<const N: usize> AsText for [u8; N] {
    fn as_text(&self) -> Text<'_> {
        Text::Bytes(self)
    }
}

impl<T: AsText + ?Sized> AsText for &T {
    fn as_text(&self) -> Text<'_> {
        (**self).as_text()
    }
}
