//! Bulk skipping: how far may a machine run without looking at single bytes?

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The number of leading bytes that stand for themselves inside a string: no quote, no backslash, no control
/// character, nothing beyond ASCII.
pub(super) fn plain(bytes: &[u8]) -> usize {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (n, chunk) in chunks.iter().enumerate() {
        let v = u64::from_le_bytes(*chunk);
        let quote = v ^ (ONES * b'"' as u64);
        let backslash = v ^ (ONES * b'\\' as u64);
        // Each term sets the high bit of a byte that matches. A borrow may set it in a byte above as well, so only
        // the lowest one is asked for.
        let quote = quote.wrapping_sub(ONES) & !quote;
        let backslash = backslash.wrapping_sub(ONES) & !backslash;
        let control = v.wrapping_sub(ONES * 0x20) & !v;
        let stop = (quote | backslash | control | v) & HIGH;
        if stop != 0 {
            looked((n + 1) * 8);
            return n * 8 + stop.trailing_zeros() as usize / 8;
        }
    }
    let words = bytes.len() - rest.len();
    looked(words);
    words + run(rest, is_plain)
}

/// The slow twin of [`plain`], a byte at a time.
fn is_plain(byte: u8) -> bool {
    (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\'
}

/// The number of leading white space bytes.
pub(super) fn white_space(bytes: &[u8]) -> usize {
    run(bytes, |byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
}

/// The number of leading digits.
pub(super) fn digits(bytes: &[u8]) -> usize {
    run(bytes, |byte| byte.is_ascii_digit())
}

/// The number of leading bytes of a kind.
#[inline(always)]
fn run(bytes: &[u8], is_of_kind: impl Fn(u8) -> bool) -> usize {
    let run = bytes.iter().position(|&byte| !is_of_kind(byte)).unwrap_or(bytes.len());
    looked(bytes.len().min(run + 1));
    run
}

/// So many bytes were looked at: counted where unit tests ask whether that is linear, and nothing elsewhere.
#[inline(always)]
pub(super) fn looked(bytes: usize) {
    #[cfg(test)]
    tests::LOOKED.set(tests::LOOKED.get() + bytes);
    #[cfg(not(test))]
    let _ = bytes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Machine;

    thread_local! {
        /// Bytes that this thread's machines have looked at.
        pub(super) static LOOKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// How often a machine looks at a byte of `text`, on average, in pushes of `size`.
    fn looks(text: &str, size: usize) -> f64 {
        let mut machine = Machine::new(text.len());
        LOOKED.set(0);
        for chunk in text.as_bytes().chunks(size) {
            machine.feed(chunk).unwrap();
        }
        assert!(machine.is_done());
        LOOKED.get() as f64 / text.len() as f64
    }

    /// A search may run past the byte that is asked for, by a word and no further: not to the end of a push, which is
    /// how a text of nothing but quotes becomes quadratic.
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
                assert!((1.0..20.0).contains(&looks), "{name} in pushes of {size}: {looks} looks at a byte");
            }
        }
    }

    #[test]
    fn the_fast_skip_agrees_with_its_twin() {
        for length in 0..40 {
            for place in 0..length {
                for byte in 0..=255u8 {
                    for filler in [b'a', b'!', 0x7f, b'#', b'[', b']', b' '] {
                        let mut text = vec![filler; length];
                        text[place] = byte;
                        let slow = text.iter().position(|&b| !is_plain(b)).unwrap_or(length);
                        assert_eq!(plain(&text), slow, "{text:?}");
                    }
                }
            }
        }
    }
}
