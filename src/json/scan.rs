//! Bulk skipping: the number of bytes that the machine may skip without examining each one.

use super::index::StructuralIndex;
use crate::work::bytes_examined;

/// A word with the byte 1 in each position.
const ONES: u64 = 0x0101_0101_0101_0101;
/// A word with the high bit of each byte.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The rest of a push.
pub(super) trait ScanInput {
    /// Returns the number of bytes that are left.
    fn left(&self) -> usize;

    /// Returns the next byte.
    fn first(&self) -> Option<u8>;

    /// Skips `count` bytes, which must be there.
    fn skip(&mut self, count: usize);

    /// Returns how many of the next bytes are plain text inside a string: no quote, no backslash,
    /// no control character, and no byte beyond ASCII whose encoding is unchecked.
    fn plain(&self) -> usize;

    /// Returns how many of the next bytes are digits.
    fn digits(&self) -> usize;

    /// Returns how many of the next bytes are spaces.
    fn spaces(&self) -> usize;

    /// Returns the length of the next character if it is beyond ASCII, well-formed and whole; else
    /// 0.
    fn character(&self) -> usize;
}

/// A push, before the fast path for its length is picked.
pub(super) trait ScanPush: ScanInput + Sized {
    /// The same bytes in a register.
    type Short: ScanInput;

    /// Returns `None` for more than eight bytes.
    fn short(&self) -> Option<Self::Short>;

    /// Returns the first bytes, at most `length`.
    fn start(&self, length: usize) -> Self;

    /// Returns the index of the tokens; `in_string` is that of [`StructuralIndex::new`].
    fn index(&self, in_string: bool) -> Option<StructuralIndex<'_>>;
}

impl ScanPush for &[u8] {
    type Short = ByteWord;

    #[inline(always)]
    fn short(&self) -> Option<ByteWord> {
        ByteWord::new(self)
    }

    fn start(&self, length: usize) -> Self {
        self.get(..length).unwrap_or(self)
    }

    fn index(&self, in_string: bool) -> Option<StructuralIndex<'_>> {
        StructuralIndex::new(self, in_string, false)
    }
}

/// Bytes of a `str`: their encoding is valid and is not checked again.
#[derive(Clone, Copy)]
pub(super) struct CheckedUtf8<I>(I);

impl<'a> CheckedUtf8<&'a [u8]> {
    /// Returns the text after an offset.
    #[inline(always)]
    pub(super) fn from(text: &'a str, offset: usize) -> Self {
        Self(text.as_bytes().get(offset..).unwrap_or_default())
    }
}

impl ScanPush for CheckedUtf8<&[u8]> {
    type Short = CheckedUtf8<ByteWord>;

    #[inline(always)]
    fn short(&self) -> Option<CheckedUtf8<ByteWord>> {
        ByteWord::new(self.0).map(CheckedUtf8)
    }

    fn start(&self, length: usize) -> Self {
        Self(self.0.start(length))
    }

    fn index(&self, in_string: bool) -> Option<StructuralIndex<'_>> {
        StructuralIndex::new(self.0, in_string, true)
    }
}

impl<I: ScanInput + Runs> ScanInput for CheckedUtf8<I> {
    #[inline(always)]
    fn left(&self) -> usize {
        self.0.left()
    }

    #[inline(always)]
    fn first(&self) -> Option<u8> {
        self.0.first()
    }

    #[inline(always)]
    fn skip(&mut self, count: usize) {
        self.0.skip(count);
    }

    #[inline(always)]
    fn plain(&self) -> usize {
        self.0.run(not_plain_text)
    }

    #[inline(always)]
    fn digits(&self) -> usize {
        self.0.digits()
    }

    #[inline(always)]
    fn spaces(&self) -> usize {
        self.0.spaces()
    }

    #[inline(always)]
    fn character(&self) -> usize {
        self.0.character()
    }
}

/// Bytes that are searched eight at a time.
pub(super) trait Runs {
    /// Returns the number of leading bytes that `stops` does not mark. It marks zeros.
    fn run(&self, stops: impl Fn(u64) -> u64) -> usize;
}

impl Runs for &[u8] {
    #[inline(always)]
    fn run(&self, stops: impl Fn(u64) -> u64) -> usize {
        run(self, stops)
    }
}

impl Runs for ByteWord {
    // The zeros after the last byte end every run.
    #[inline(always)]
    fn run(&self, stops: impl Fn(u64) -> u64) -> usize {
        bytes_examined(self.left);
        (stops(self.bytes).trailing_zeros() / 8) as usize
    }
}

impl ScanInput for &[u8] {
    #[inline(always)]
    fn left(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn first(&self) -> Option<u8> {
        (**self).first().copied()
    }

    #[inline(always)]
    fn skip(&mut self, count: usize) {
        *self = self.get(count..).unwrap_or_default();
    }

    #[inline]
    fn plain(&self) -> usize {
        run(self, not_plain)
    }

    #[inline]
    fn digits(&self) -> usize {
        run(self, not_digit)
    }

    #[inline]
    fn spaces(&self) -> usize {
        run(self, not_space)
    }

    #[inline]
    fn character(&self) -> usize {
        match self.first_chunk::<4>() {
            Some(&next) => character(u32::from_le_bytes(next)),
            None => ByteWord::new(self).map_or(0, |word| word.character()),
        }
    }
}

/// At most eight bytes in a register: most pushes of a stream are a few bytes long.
#[derive(Clone, Copy)]
pub(super) struct ByteWord {
    /// The first byte is the lowest one; zeros follow the last one.
    bytes: u64,
    left: usize,
}

impl ByteWord {
    /// Returns `None` for more than eight bytes.
    #[inline(always)]
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        let left = bytes.len();
        let word = match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
            _ if left > 8 => return None,
            // The bytes in which both overlap are equal.
            (Some(&first), Some(&last)) => {
                u64::from(u32::from_le_bytes(first))
                    | u64::from(u32::from_le_bytes(last)) << (left * 8 - 32)
            }
            _ => bytes
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        Some(Self { bytes: word, left })
    }
}

impl ScanInput for ByteWord {
    #[inline(always)]
    fn left(&self) -> usize {
        self.left
    }

    #[inline(always)]
    fn first(&self) -> Option<u8> {
        (self.left > 0).then_some(self.bytes as u8)
    }

    #[inline(always)]
    fn skip(&mut self, count: usize) {
        // In two steps: a shift by eight bytes would overflow.
        self.bytes = self.bytes >> (count * 4) >> (count * 4);
        self.left -= count;
    }

    #[inline(always)]
    fn plain(&self) -> usize {
        self.run(not_plain)
    }

    #[inline(always)]
    fn digits(&self) -> usize {
        self.run(not_digit)
    }

    #[inline(always)]
    fn spaces(&self) -> usize {
        self.run(not_space)
    }

    // A zero ends no character either.
    #[inline(always)]
    fn character(&self) -> usize {
        character(self.bytes as u32)
    }
}

/// Returns where the number that begins at `at` ends, if a byte follows it.
#[inline(always)]
pub(super) fn number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + usize::from(bytes.get(at) == Some(&b'-'));
    match bytes.get(at)? {
        b'0' => at += 1,
        b'1'..=b'9' => at = digits_end(bytes, at + 1),
        _ => return None,
    }
    if bytes.get(at) == Some(&b'.') {
        at = digits_end(bytes, at + 1);
        if bytes.get(at - 1) == Some(&b'.') {
            return None;
        }
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if !bytes.get(at)?.is_ascii_digit() {
            return None;
        }
        at = digits_end(bytes, at);
    }
    (at < bytes.len()).then_some(at)
}

/// Returns where the digits end that begin at `at`; there may be none.
#[inline(always)]
fn digits_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        bytes_examined(8);
        let stop = not_digit(u64::from_le_bytes(word));
        if stop != 0 {
            return at + stop.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Returns the number of leading bytes that `stops` does not mark.
#[inline(always)]
fn run(bytes: &[u8], stops: impl Fn(u64) -> u64) -> usize {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (n, chunk) in chunks.iter().enumerate() {
        let stop = stops(u64::from_le_bytes(*chunk));
        if stop != 0 {
            bytes_examined((n + 1) * 8);
            return n * 8 + stop.trailing_zeros() as usize / 8;
        }
    }
    bytes_examined(bytes.len());
    let last =
        ByteWord::new(rest).map_or(0, |word| stops(word.bytes).trailing_zeros() as usize / 8);
    bytes.len() - rest.len() + last.min(rest.len())
}

/// Sets the high bit of the first byte that is not plain, and perhaps of later ones: a borrow may
/// carry over.
#[inline(always)]
fn not_plain(v: u64) -> u64 {
    not_plain_text(v) | v & HIGH
}

/// Sets the high bit of the first byte that is a quote, a backslash or a control character, and
/// perhaps of later ones.
#[inline(always)]
fn not_plain_text(v: u64) -> u64 {
    let quote = v ^ (ONES * b'"' as u64);
    let backslash = v ^ (ONES * b'\\' as u64);
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    let control = v.wrapping_sub(ONES * 0x20) & !v;
    (quote | backslash | control) & HIGH
}

/// Sets the high bit of the first byte that is not a digit, and perhaps of later ones: a carry may
/// continue.
#[inline(always)]
fn not_digit(v: u64) -> u64 {
    let nibble = v ^ (ONES * b'0' as u64);
    (nibble.wrapping_add(ONES * 0x76) | nibble) & HIGH
}

/// Sets a bit of the first byte that is not a space, and perhaps of later ones.
#[inline(always)]
fn not_space(v: u64) -> u64 {
    v ^ (ONES * b' ' as u64)
}

/// Returns the length of the character beyond ASCII at the start of these four bytes, the first
/// byte lowest; 0 if they are not well-formed (Unicode, table 3-7: no overlong forms, no
/// surrogates, nothing above U+10FFFF).
#[inline(always)]
fn character(v: u32) -> usize {
    bytes_examined(4);
    if v & 0xc0e0 == 0x80c0 {
        return if v & 0x1e != 0 { 2 } else { 0 };
    }
    if v & 0xc0_c0f0 == 0x80_80e0 {
        let (is_overlong, is_surrogate) = (v & 0x200f == 0, v & 0x200f == 0x200d);
        return if is_overlong || is_surrogate { 0 } else { 3 };
    }
    if v & 0xc0c0_c0f8 == 0x8080_80f0 {
        let is_overlong = v & 0x3007 == 0;
        let is_above = v & 7 > 4 || v & 7 == 4 && v & 0x3000 != 0;
        return if is_overlong || is_above { 0 } else { 4 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Machine;
    use crate::work::tests::BYTES_EXAMINED;

    /// Returns how often a machine examines a byte of `text` on average, in pushes of `size`.
    fn looks(text: &str, size: usize) -> f64 {
        let mut machine = Machine::new(text.len());
        BYTES_EXAMINED.set(0);
        for chunk in text.as_bytes().chunks(size) {
            machine.feed(chunk).unwrap();
        }
        assert!(machine.is_done());
        BYTES_EXAMINED.get() as f64 / text.len() as f64
    }

    /// A search may overrun its target by one word at most, not to the end of the push: else a text
    /// of quotes alone would take quadratic time.
    #[test]
    fn a_byte_is_looked_at_a_few_times_at_most() {
        let n = 4000;
        let prose = "{\"id\": 17, \"content\": \"A section says \\\"so\\\" – and on, for as long as it goes.\\n\"}, "
            .repeat(n / 40);
        let texts = [
            ("prose", format!("[{prose}null]")),
            ("one string", format!("[\"{}\"]", "a".repeat(n))),
            ("arrays", "[".repeat(n) + &"]".repeat(n)),
            ("objects", "{\"k\":".repeat(n) + "1" + &"}".repeat(n)),
            ("escapes", format!("[\"{}\"]", "\\n".repeat(n))),
            ("surrogates", format!("[\"{}\"]", "\\ud83d".repeat(n))),
            ("escaped quotes", format!("[\"{}\"]", "\\\"".repeat(n))),
            ("quotes", format!("[{}\"\"]", "\"\",".repeat(n))),
            ("characters", format!("[\"{}\"]", "é".repeat(n))),
            ("digits", format!("[{}]", "1".repeat(n))),
            ("numbers", format!("[{}1]", "1,".repeat(n))),
            ("white space", format!("[{}1]", " ".repeat(n))),
            ("keys", format!("{{{}\"k\":0}}", "\"key\":0,".repeat(n))),
        ];
        for (name, text) in texts {
            for size in [1, 2, 3, 4, 7, 8, 9, 64, 4096, usize::MAX] {
                let looks = looks(&text, size);
                assert!(
                    (1.0..20.0).contains(&looks),
                    "{name} in pushes of {size}: {looks} looks at a byte"
                );
            }
        }
    }

    #[test]
    fn what_follows_a_short_root_is_not_looked_at() {
        let (mut machine, text) = (Machine::new(8), format!("[1, \"a\"]{}", " ".repeat(4000)));
        BYTES_EXAMINED.set(0);
        assert_eq!(machine.feed(text.as_bytes()), Ok(8));
        assert!(BYTES_EXAMINED.get() < 200, "{} looks", BYTES_EXAMINED.get());
    }

    /// The slow twin of [`ScanInput::plain`], which works byte by byte.
    fn is_plain(byte: u8) -> bool {
        (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\'
    }

    /// The same for text with a valid encoding.
    fn is_plain_text(byte: u8) -> bool {
        is_plain(byte) || byte >= 0x80
    }

    fn check(mut input: impl ScanInput, is_plain: fn(u8) -> bool, text: &[u8], at: usize) {
        input.skip(at);
        let rest = &text[at..];
        let plain = rest.iter().take_while(|&&b| is_plain(b)).count();
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let spaces = rest.iter().take_while(|&&b| b == b' ').count();
        assert_eq!(
            (input.plain(), input.digits(), input.spaces()),
            (plain, digits, spaces),
            "{text:?} from {at}"
        );
        assert_eq!(
            (input.first(), input.left()),
            (rest.first().copied(), rest.len())
        );
    }

    #[test]
    fn the_fast_skips_agree_with_their_twins() {
        for length in 0..24 {
            for place in 0..length {
                for byte in 0..=255u8 {
                    for filler in [
                        b'a', b'!', 0x7f, b'#', b'[', b']', b' ', b'0', b'9', b'/', b':',
                    ] {
                        let mut text = vec![filler; length];
                        text[place] = byte;
                        for at in [0, place / 2, length] {
                            check(text.as_slice(), is_plain, &text, at);
                            check(CheckedUtf8(text.as_slice()), is_plain_text, &text, at);
                            if let Some(word) = ByteWord::new(&text) {
                                check(word, is_plain, &text, at);
                                check(CheckedUtf8(word), is_plain_text, &text, at);
                            }
                        }
                    }
                }
            }
        }
        assert!(ByteWord::new(&[b'a'; 9]).is_none());
    }

    /// The slow twin of [`ScanInput::character`]: the character as the standard library decodes it.
    #[test]
    fn characters_are_well_formed() {
        let bytes = [
            0x00, 0x22, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xff,
        ];
        for lead in 0x80..=0xff {
            for (second, third, fourth) in triples(&bytes) {
                let text = [lead, second, third, fourth, b'a'];
                for end in 1..=text.len() {
                    let text = &text[..end];
                    let slow = (2..=4.min(end))
                        .find(|&n| std::str::from_utf8(&text[..n]).is_ok())
                        .unwrap_or(0);
                    assert_eq!(
                        (text.character(), ByteWord::new(text).unwrap().character()),
                        (slow, slow),
                        "{text:x?}"
                    );
                }
            }
        }
    }

    fn triples(bytes: &[u8]) -> impl Iterator<Item = (u8, u8, u8)> + '_ {
        let each = move |a: u8| {
            bytes
                .iter()
                .flat_map(move |&b| bytes.iter().map(move |&c| (a, b, c)))
        };
        bytes.iter().flat_map(move |&a| each(a))
    }
}
