//! What the items of a stream may be: text or bytes, bare or as a result.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

/// An item of a stream: [`AsText`], or a `Result` of it. Implemented for every such type.
pub trait Piece {
    /// What it holds.
    type Text: AsText;
    /// Why it may hold nothing; [`Infallible`] of a bare one.
    type Error;

    /// Opens it.
    ///
    /// # Errors
    /// The stream's own.
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

/// Holds a piece of the text. To be implemented for an SDK's own delta type, too.
pub trait AsText {
    /// Lends it.
    fn as_text(&self) -> Text<'_>;
}

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// Whole characters.
    Str(&'a str),
    /// Bytes that may begin and end inside a character.
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
