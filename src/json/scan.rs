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
            return n * 8 + stop.trailing_zeros() as usize / 8;
        }
    }
    bytes.len() - rest.len() + rest.iter().position(|&b| !is_plain(b)).unwrap_or(rest.len())
}

/// The slow twin of [`plain`], a byte at a time.
fn is_plain(byte: u8) -> bool {
    (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\'
}

/// The number of leading white space bytes.
pub(super) fn white_space(bytes: &[u8]) -> usize {
    bytes.iter().position(|b| !matches!(b, b' ' | b'\n' | b'\r' | b'\t')).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

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
