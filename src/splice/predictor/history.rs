//! The bytes before a byte: the longest context of it that is in the counted text, and layout.

use super::suffixes::Piece;

/// The bytes before the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::splice) struct History {
    /// The last of them that occur in the counted text.
    pub(super) known: Piece,
    pub(super) layout: Layout,
}

/// Tells white space between tokens, judging by its neighbours, from the other bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    /// The last byte that is not layout.
    last: Option<u8>,
    /// The last byte is.
    in_layout: bool,
}

impl Layout {
    /// Whether the next byte is layout.
    pub(super) fn has(self, byte: u8) -> bool {
        match byte {
            b'\n' | b'\r' | b'\t' => true,
            b' ' => self.in_layout || matches!(self.last, None | Some(b'{' | b'[' | b',' | b':')),
            _ => false,
        }
    }

    /// Takes the next byte; returns whether it is layout.
    pub(super) fn push(&mut self, byte: u8) -> bool {
        self.in_layout = self.has(byte);
        if !self.in_layout {
            self.last = Some(byte);
        }
        self.in_layout
    }
}
