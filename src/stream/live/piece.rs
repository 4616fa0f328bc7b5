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

/// The start of a character whose end has not come: at most three bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unfinished {
    bytes: [u8; 4],
    len: usize,
}

impl Unfinished {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The characters that `piece` brings or ends, in order. The start of one that it does not end is kept.
    pub(super) fn chars<'a>(&'a mut self, piece: Text<'a>) -> Chars<'a> {
        let (text, rest) = match piece {
            Text::Str(text) if self.is_empty() => (text, [].as_slice()),
            Text::Str(text) => ("", text.as_bytes()),
            Text::Bytes(bytes) => ("", bytes),
        };
        Chars { unfinished: self, text, rest }
    }
}

/// The text in one piece.
#[derive(Debug)]
pub(super) struct Chars<'a> {
    unfinished: &'a mut Unfinished,
    text: &'a str,
    rest: &'a [u8],
}

/// The next byte can't stand in UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotUtf8;

impl Chars<'_> {
    /// Hands the next run of characters to `take`. `Ok(None)`: there is none.
    pub(super) fn next<R>(&mut self, take: impl FnOnce(&str) -> R) -> Result<Option<R>, NotUtf8> {
        if !self.text.is_empty() {
            return Ok(Some(take(std::mem::take(&mut self.text))));
        }
        while let Some((&byte, rest)) = self.rest.split_first().filter(|_| !self.unfinished.is_empty()) {
            let Unfinished { bytes, len } = self.unfinished;
            // Four bytes are a character or an error.
            let Some(slot) = bytes.get_mut(*len) else { return Err(NotUtf8) };
            (*slot, *len, self.rest) = (byte, *len + 1, rest);
            match std::str::from_utf8(bytes.get(..*len).unwrap_or_default()) {
                Ok(text) => {
                    let taken = take(text);
                    *len = 0;
                    return Ok(Some(taken));
                }
                Err(error) if error.error_len().is_some() => return Err(NotUtf8),
                Err(_) => {}
            }
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        match std::str::from_utf8(self.rest) {
            Ok(text) => {
                self.rest = &[];
                Ok(Some(take(text)))
            }
            Err(error) if error.valid_up_to() > 0 => {
                let (valid, rest) = self.rest.split_at(error.valid_up_to());
                self.rest = rest;
                Ok(Some(take(std::str::from_utf8(valid).unwrap_or_default())))
            }
            Err(error) if error.error_len().is_some() => Err(NotUtf8),
            Err(_) => {
                self.unfinished.len = self.rest.len();
                for (slot, byte) in self.unfinished.bytes.iter_mut().zip(std::mem::take(&mut self.rest)) {
                    *slot = *byte;
                }
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of pieces, runs joined, and whether it ends in an error.
    fn read(pieces: &[Text<'_>]) -> (String, bool, usize) {
        let mut unfinished = Unfinished::default();
        let mut text = String::new();
        for piece in pieces {
            let mut chars = unfinished.chars(*piece);
            loop {
                match chars.next(|run| text.push_str(run)) {
                    Ok(Some(())) => {}
                    Ok(None) => break,
                    Err(NotUtf8) => return (text, true, 0),
                }
            }
        }
        (text, false, unfinished.len)
    }

    #[test]
    fn a_character_may_come_in_any_number_of_pieces() {
        let text = "a\u{e9}\u{20ac}\u{1f389}b";
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let bytes = text.as_bytes();
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]].map(Text::Bytes);
                assert_eq!(read(&pieces), (text.to_owned(), false, 0), "{first} {second}");
            }
        }
        let bytes: Vec<_> = text.as_bytes().chunks(1).map(Text::Bytes).collect();
        assert_eq!(read(&bytes), (text.to_owned(), false, 0));
    }

    #[test]
    fn what_is_no_utf_8_is_told_behind_what_is() {
        for (pieces, before) in [
            (vec![b"ab\xff".as_slice()], "ab"),
            (vec![b"a\xe2\x82", b"x"], "a"),
            (vec![b"a\xe2", b"\x82", b"\xff"], "a"),
            (vec![b"\xc3\xa9\xc3", b"\xc3"], "\u{e9}"),
            (vec![b"\xed", b"\xa0"], ""),
            (vec![b"\x80"], ""),
        ] {
            let pieces: Vec<_> = pieces.into_iter().map(Text::Bytes).collect();
            assert_eq!(read(&pieces), (before.to_owned(), true, 0), "{pieces:?}");
        }
        // Text behind half a character.
        assert_eq!(read(&[Text::Bytes(b"a\xc3"), Text::Str("b")]), ("a".to_owned(), true, 0));
        assert_eq!(read(&[Text::Bytes(b"a\xf0\x9f\x8e")]), ("a".to_owned(), false, 3));
    }
}
