//! Finds the tokens of a long push, 64 bytes at a time: brackets, colons and commas outside of
//! strings, both quotes of a string, and the first byte of a number or a literal. These positions
//! are the *marks*; every byte between two of them is white space, text of a string, or the rest of
//! a number or literal.
//!
//! The machine interprets the marks, because the index does not know the grammar. The index checks
//! the text of strings, so that the machine need not: control characters, escapes, and the
//! encoding. It ends before the first block of 64 bytes in which it finds an error, and the machine
//! finds the byte.

use fearless_simd::{Level, Simd, dispatch, prelude::*, u8x32, u8x64};

use super::scan;
use crate::work::bytes_examined;

/// The number of bytes that are examined together, one bit of a word each.
const BLOCK: usize = 64;
/// The number of marks that the index finds ahead of the machine.
// An index is on the stack: with this room its marks take 2.3 KB, and one fill reads 8 blocks of
// dense JSON. Half the room fills twice as often; more room indexes text that a cut string or an
// error then takes byte by byte. `scripts/instructions` counts both kinds of pushes.
const ROOM: usize = 512;
/// The number of bytes whose encoding is checked in one call.
// The check of the encoding has a fixed cost a call, and its bytes are read again for the marks, so
// they must stay in the first cache: less pays the call more often, much more reads memory twice.
// `scripts/instructions` counts text beyond ASCII.
const CHECKED: usize = 4096;
/// The longest escape is a surrogate pair: `\ud83d\ude00`.
const ESCAPE: usize = 12;
/// The number of escapes in a block from which on they are checked together.
// One escape is checked faster alone than a block of them: the block needs a classification of all
// 64 bytes. `scripts/instructions` counts a text with many escapes.
const MANY_ESCAPES: u32 = 4;
/// The most marks of a member with a scalar value, including the comma after it.
// Two quotes of a key, the colon, two quotes of a string, and the comma. A walk that has them needs
// no test for the end of the marks within a member.
pub(super) const AHEAD: usize = 6;
/// The number of bytes of a number that are examined together, one bit of a word each.
// The shortest form of an `f64` has at most 24 bytes.
const NUMBER: usize = 32;
/// Set in the position of a closing quote if the string has an escape.
const HAS_ESCAPE: u32 = 1 << 31;

/// The marks of a push, in order.
pub(super) struct StructuralIndex<'a> {
    bytes: &'a [u8],
    level: Level,
    /// The positions that were found last, and after them several that are the end of the bytes.
    marks: [Mark; ROOM + BLOCK + 2 * AHEAD],
    /// The next mark.
    next: usize,
    /// How many were found.
    count: usize,
    /// The offset up to which marks were found: a multiple of [`BLOCK`], or the end of the bytes.
    end: usize,
    /// The offset up to which the encoding was checked. Bytes that are all ASCII need no check.
    encoded: usize,
    /// No further marks can be found.
    is_over: bool,
    carry: Carry,
}

/// The state that a block passes to the next one.
#[derive(Clone, Copy, Default)]
struct Carry {
    /// 1 if the last byte is the backslash of an escape, else 0.
    is_escaped: u64,
    /// All bits if a string is open, else 0.
    in_string: u64,
    /// 1 if the open string has an escape, else 0.
    has_escape: u64,
    /// 1 if the last byte belongs to a number, a literal, or an invalid token, else 0.
    in_scalar: u64,
    /// Which of the last 64 bytes begin an escape; the last byte is the highest bit.
    escapes: u64,
}

/// The position of a token.
#[derive(Clone, Copy)]
pub(super) struct Mark(u32);

impl Mark {
    #[inline(always)]
    pub(super) fn at(self) -> usize {
        (self.0 & !HAS_ESCAPE) as usize
    }

    /// Whether a closing quote ends a string with an escape.
    #[inline(always)]
    pub(super) fn has_escape(self) -> bool {
        self.0 & HAS_ESCAPE != 0
    }
}

impl<'a> StructuralIndex<'a> {
    /// The number of bytes that one index can have: a position has 31 bits.
    pub(super) const LONGEST: usize = 1 << 30;

    /// Begins before `bytes`, between two tokens or, if `in_string`, between two characters of a
    /// string. `is_encoded`: their encoding is valid. `None` on processors without the instructions
    /// that make this fast.
    pub(super) fn new(bytes: &'a [u8], in_string: bool, is_encoded: bool) -> Option<Self> {
        let level = Level::new();
        if level.is_fallback() {
            return None;
        }
        let carry = Carry {
            in_string: if in_string { u64::MAX } else { 0 },
            ..Carry::default()
        };
        let encoded = if is_encoded { bytes.len() } else { 0 };
        let is_over = bytes.len() > Self::LONGEST;
        Some(Self {
            bytes,
            level,
            marks: [Mark(bytes.len() as u32); ROOM + BLOCK + 2 * AHEAD],
            next: 0,
            count: 0,
            end: 0,
            encoded,
            is_over,
            carry,
        })
    }

    /// Finds more marks, unless [`AHEAD`] are known.
    #[inline(always)]
    pub(super) fn look_ahead(&mut self) {
        if self.count - self.next < AHEAD && !self.is_over {
            self.fill();
        }
    }

    /// Returns the known marks without passing them; after the last one of all, [`AHEAD`] that are
    /// at the end of the bytes.
    #[inline(always)]
    pub(super) fn ahead(&self) -> &[Mark] {
        let end = if self.is_over {
            self.count + AHEAD
        } else {
            self.count
        };
        self.marks.get(self.next..end).unwrap_or_default()
    }

    /// Passes some of the marks that [`ahead`](Self::ahead) returned.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: usize) {
        self.next += count;
    }

    /// In a string: passes its closing quote. `None` if it is not among the marks.
    pub(super) fn close(&mut self) -> Option<Mark> {
        self.look_ahead();
        let mark = *self.marks.get(self.next..self.count)?.first()?;
        self.next += 1;
        Some(mark)
    }

    /// Returns the byte at a position, 0 after the last one.
    #[inline(always)]
    pub(super) fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Returns all bytes.
    #[inline(always)]
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the last offset in the open string that is known to be between two characters,
    /// outside of an escape and of a surrogate pair, when no marks are left. The string began at
    /// `start`, or before the bytes.
    pub(super) fn last_place(&self, start: usize) -> usize {
        let escapes = self.carry.escapes >> (BLOCK - ESCAPE);
        if escapes != 0 {
            // The first escape that may be open. If it is the second half of a pair, it is whole.
            return start
                .max((self.end + escapes.trailing_zeros() as usize).saturating_sub(ESCAPE));
        }
        let last = self
            .bytes
            .get(..self.end)
            .unwrap_or_default()
            .iter()
            .rev()
            .take(3);
        let cut = last
            .copied()
            .position(|byte| byte >= 0xc0)
            .map_or(0, |n| n + 1);
        start.max(self.end - cut)
    }

    /// Whether the string that is open after the last mark has an escape.
    pub(super) fn has_open_escape(&self) -> bool {
        self.carry.has_escape != 0
    }

    /// Finds more marks, and moves those that are known to the front.
    #[inline(never)]
    fn fill(&mut self) {
        let end = Mark(self.bytes.len() as u32);
        let known = self
            .marks
            .get(self.next..)
            .and_then(|marks| marks.first_chunk::<AHEAD>());
        let known = known.copied().unwrap_or([end; AHEAD]);
        self.marks[..AHEAD].copy_from_slice(&known);
        (self.next, self.count) = (0, self.count - self.next);
        let level = self.level;
        dispatch!(level, simd => self.fill_with(simd));
        self.marks
            .iter_mut()
            .skip(self.count)
            .take(AHEAD)
            .for_each(|mark| *mark = end);
    }

    #[inline(always)]
    fn fill_with<S: Simd>(&mut self, simd: S) {
        while self.count < AHEAD && !self.is_over {
            for _ in 0..ROOM / BLOCK {
                self.next_block(simd);
                if self.is_over {
                    break;
                }
            }
        }
    }

    #[inline(always)]
    fn next_block<S: Simd>(&mut self, simd: S) {
        let rest = self.bytes.get(self.end..).unwrap_or_default();
        self.is_over = match rest.first_chunk::<BLOCK>() {
            Some(block) => !self.block(simd, block, BLOCK),
            None => {
                let _ = !rest.is_empty() && self.block(simd, &last_block(rest), rest.len());
                true
            }
        };
    }

    /// In a string: returns the offset of its closing quote. `None` if it has no end, or there is an
    /// error in the block of the quote or before it.
    pub(super) fn string_end(mut self) -> Option<usize> {
        let level = self.level;
        dispatch!(level, simd => self.string_end_with(simd));
        let quote = self.marks.first().filter(|_| self.count > 0)?;
        Some(quote.at())
    }

    #[inline(always)]
    fn string_end_with<S: Simd>(&mut self, simd: S) {
        while self.count == 0 && !self.is_over {
            self.next_block(simd);
        }
    }

    /// Finds the marks of the next block; its first `length` bytes are text. Returns whether the
    /// block is valid.
    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, block: &[u8; BLOCK], length: usize) -> bool {
        bytes_examined(BLOCK);
        let text = u8x64::simd_from(simd, *block);
        let mut carry = self.carry;

        let beyond_ascii = text.simd_ge(u8x64::splat(simd, 0x80));
        if beyond_ascii.any_true() && !self.is_encoded(length) {
            return false;
        }
        if carry.in_string & !carry.is_escaped == u64::MAX && is_plain(text) {
            carry.escapes = if length == BLOCK {
                0
            } else {
                carry.escapes >> length
            };
            self.carry = carry;
            self.end += length;
            return true;
        }

        let backslashes = equal(text, b'\\');
        let escaped = carry.escaped(backslashes);
        let quotes = equal(text, b'"') & !escaped;
        let in_string = prefix_xor(quotes) ^ carry.in_string;
        carry.in_string = ((in_string as i64) >> 63) as u64;

        let blank = text.simd_le(u8x64::splat(simd, b' ')).to_bitmask();
        let control = blank & !equal(text, b' ');
        if control != 0
            && (control & in_string)
                | (control & !(equal(text, b'\n') | equal(text, b'\r') | equal(text, b'\t')))
                != 0
        {
            return false;
        }

        let mut escaped_ends = 0;
        if escaped | carry.has_escape != 0 {
            // One by one, unless there are many.
            let simple = if escaped.count_ones() > MANY_ESCAPES {
                simple_escapes(text)
            } else {
                0
            };
            if !self.are_escapes(escaped & !simple) {
                return false;
            }
            // The sum carries an escape to the end of its string.
            let (sum, out) = in_string.overflowing_add(escaped & in_string);
            let (sum, more) = sum.overflowing_add(carry.has_escape);
            carry.has_escape = u64::from(out | more);
            escaped_ends = sum & quotes & !in_string;
        }
        let escapes = backslashes & !escaped;
        carry.escapes = if length == BLOCK {
            escapes
        } else {
            escapes << (BLOCK - length) | carry.escapes >> length
        };

        // An opening bracket and a brace differ in this bit, and so do a closing one and its brace.
        let folded = text | u8x64::splat(simd, b'{' ^ b'[');
        let openers = folded.simd_eq(u8x64::splat(simd, b'{'));
        let closers = folded.simd_eq(u8x64::splat(simd, b'}'));
        let separators =
            text.simd_eq(u8x64::splat(simd, b',')) | text.simd_eq(u8x64::splat(simd, b':'));
        let structural = (openers | closers | separators).to_bitmask() & !in_string;
        let scalars = !(structural | blank | quotes | in_string);
        let starts = scalars & !(scalars << 1 | carry.in_scalar);
        carry.in_scalar = scalars >> (BLOCK - 1);

        self.carry = carry;
        self.write(structural | quotes | starts, escaped_ends);
        self.end += length;
        true
    }

    /// Returns where the number that begins at `at` ends, if a byte follows it.
    #[inline(always)]
    pub(super) fn number_end(&self, at: usize) -> Option<usize> {
        let start = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        let level = self.level;
        match start.and_then(|start| dispatch!(level, simd => short_number(simd, start))) {
            Some(length) => Some(at + length),
            None => scan::number_end(self.bytes, at),
        }
    }

    /// Whether the encoding of the next `length` bytes is valid. The end of all bytes may cut the
    /// last character.
    fn is_encoded(&mut self, length: usize) -> bool {
        let end = self.end + length;
        if self.encoded < end {
            let start = self.encoded.max(self.end);
            let stop = self.bytes.len().min(start + CHECKED);
            self.encoded = match simdutf8::compat::from_utf8(
                self.bytes.get(start..stop).unwrap_or_default(),
            ) {
                Ok(_) => stop,
                Err(error) if error.error_len().is_none() && stop == self.bytes.len() => stop,
                Err(error) => start + error.valid_up_to(),
            };
        }
        self.encoded >= end
    }

    /// Whether each of these positions in the next block continues an escape correctly, as far as
    /// its bytes are known.
    #[inline(always)]
    fn are_escapes(&self, places: u64) -> bool {
        // A loop, since a closure is not compiled for the instructions that the rest uses.
        for place in bits(places) {
            let rest = self.bytes.get(self.end + place..).unwrap_or_default();
            let is_right = match rest {
                [b'u', rest @ ..] => match rest.first_chunk() {
                    Some(&four) => are_hex_digits(four),
                    None => rest.iter().all(u8::is_ascii_hexdigit),
                },
                [byte, ..] => {
                    matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
                }
                [] => true,
            };
            if !is_right {
                return false;
            }
        }
        true
    }

    /// Appends the marks of the next block; those of `escaped_ends` are closing quotes of strings
    /// with an escape.
    #[inline(always)]
    fn write(&mut self, marks: u64, escaped_ends: u64) {
        let Some(slots) = self
            .marks
            .get_mut(self.count..)
            .and_then(|free| free.first_chunk_mut::<BLOCK>())
        else {
            return;
        };
        let mut rest = marks;
        // Eight at a time, although some marks may not exist: a branch for each mark would be
        // mispredicted too often.
        for eight in slots.as_chunks_mut::<8>().0 {
            if rest == 0 {
                break;
            }
            for slot in eight {
                *slot = Mark((self.end as u32).wrapping_add(rest.trailing_zeros()));
                rest &= rest.wrapping_sub(1);
            }
        }
        for end in bits(escaped_ends) {
            let before = marks & !(u64::MAX << end);
            slots[before.count_ones() as usize % BLOCK].0 |= HAS_ESCAPE;
        }
        self.count += marks.count_ones() as usize;
    }
}

impl Carry {
    /// Returns which bytes of a block are escaped by the backslash before them.
    #[inline(always)]
    fn escaped(&mut self, backslashes: u64) -> u64 {
        if backslashes == 0 {
            return std::mem::take(&mut self.is_escaped);
        }
        // In a run of backslashes every second one is escaped. A subtraction borrows through each
        // run, and so separates even positions from odd ones.
        const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        let begins = backslashes & !self.is_escaped;
        let alternating = (begins << 1 | ODD).wrapping_sub(begins) ^ ODD;
        let escaped = alternating ^ (backslashes | self.is_escaped);
        self.is_escaped = (alternating & backslashes) >> (BLOCK - 1);
        escaped
    }
}

/// Returns a block that begins with the last bytes, which are fewer.
#[inline(always)]
fn last_block(rest: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    block
        .iter_mut()
        .zip(rest)
        .for_each(|(to, from)| *to = *from);
    block
}

/// Returns the offset of the closing quote of an open string; `start` is an offset in it between
/// two characters.
pub(super) fn closing_quote(bytes: &[u8], start: usize) -> Option<usize> {
    dispatch!(Level::new(), simd => closing_quote_with(simd, bytes, start))
}

#[inline(always)]
fn closing_quote_with<S: Simd>(simd: S, bytes: &[u8], start: usize) -> Option<usize> {
    let (mut carry, mut at) = (Carry::default(), start);
    loop {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        bytes_examined(BLOCK);
        let block = rest
            .first_chunk()
            .copied()
            .unwrap_or_else(|| last_block(rest));
        let text = u8x64::simd_from(simd, block);
        let quotes = equal(text, b'"') & !carry.escaped(equal(text, b'\\'));
        if quotes != 0 {
            return Some(at + quotes.trailing_zeros() as usize);
        }
        at += BLOCK;
    }
}

/// Returns the length of the number that `bytes` begin with, if a byte follows it in them.
#[inline(always)]
fn short_number<S: Simd>(simd: S, bytes: &[u8; NUMBER]) -> Option<usize> {
    bytes_examined(NUMBER);
    let digits = (u8x32::simd_from(simd, *bytes) - u8x32::splat(simd, b'0'))
        .simd_le(u8x32::splat(simd, 9))
        .to_bitmask();
    let digits_at = |from: usize| (!digits >> (from % 64)).trailing_zeros() as usize;
    let byte = |at: usize| bytes[at % NUMBER];
    let sign = usize::from(byte(0) == b'-');
    let mut length = sign + digits_at(sign);
    if length == sign || length > sign + 1 && byte(sign) == b'0' {
        return None;
    }
    if byte(length) == b'.' {
        let fraction = digits_at(length + 1);
        length += 1 + fraction;
        if fraction == 0 {
            return None;
        }
    }
    if let b'e' | b'E' = byte(length) {
        length += 1 + usize::from(matches!(byte(length + 1), b'+' | b'-'));
        let exponent = digits_at(length);
        length += exponent;
        if exponent == 0 {
            return None;
        }
    }
    (length < NUMBER).then_some(length)
}

/// Returns which bytes of a block are `byte`.
#[inline(always)]
fn equal<S: Simd>(block: u8x64<S>, byte: u8) -> u64 {
    block
        .simd_eq(u8x64::splat(block.witness(), byte))
        .to_bitmask()
}

/// Returns which bytes of a block make an escape of two bytes with a backslash before them.
#[inline(always)]
fn simple_escapes<S: Simd>(block: u8x64<S>) -> u64 {
    let signs = equal(block, b'"') | equal(block, b'\\') | equal(block, b'/');
    let letters = equal(block, b'b')
        | equal(block, b'f')
        | equal(block, b'n')
        | equal(block, b'r')
        | equal(block, b't');
    signs | letters
}

/// Whether no byte of a block ends a string or needs an escape. The encoding is checked elsewhere.
#[inline(always)]
fn is_plain<S: Simd>(block: u8x64<S>) -> bool {
    let [quote, backslash, space] = [b'"', b'\\', b' '].map(
        #[inline(always)]
        |byte| u8x64::splat(block.witness(), byte),
    );
    !(block.simd_eq(quote) | block.simd_eq(backslash) | block.simd_lt(space)).any_true()
}

/// Sets each bit to the parity of the bits up to it.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Returns the positions of the set bits, the lowest first.
#[inline(always)]
fn bits(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        place
    })
}

/// Whether these are hexadecimal digits: a byte's high bit is set if it is not below a limit.
#[inline(always)]
fn are_hex_digits(bytes: [u8; 4]) -> bool {
    const ONES: u32 = 0x0101_0101;
    let v = u32::from_le_bytes(bytes);
    let from = |v: u32, first: u8| v.wrapping_add(ONES * (0x80 - first) as u32);
    let lower = v | (ONES * 0x20);
    let is_digit = from(v, b'0') & !from(v, b'9' + 1);
    let is_letter = from(lower, b'a') & !from(lower, b'f' + 1);
    (is_digit | is_letter) & !v & (ONES * 0x80) == ONES * 0x80
}

#[cfg(test)]
mod tests;
