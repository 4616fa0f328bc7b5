//! Decodes escapes of one letter in blocks of bytes.

use fearless_simd::{Level, Simd, dispatch, prelude::*, u8x32};

/// The length from which on a text is decoded in blocks.
// Chosen: the buffer of the decoded bytes is set up for each text, and a delta is shorter.
pub(super) const LONG: usize = 256;
/// The number of bytes that are searched for a backslash together.
const BLOCK: usize = 32;
/// The number of decoded bytes after which they are given out.
// Chosen: they are on the stack and stay in the first cache.
const CHUNK: usize = 1024;

/// Returns the character of an escape of one letter.
pub(super) fn decoded(letter: u8) -> Option<u8> {
    Some(match letter {
        b'"' | b'\\' | b'/' => letter,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

/// Decodes the start of `raw`, which is between two characters: up to an escape of another kind, or
/// its last bytes. Passes the text to `put` in pieces. Returns the rest of `raw`.
pub(super) fn decode_start(raw: &str, mut put: impl FnMut(&str)) -> &str {
    let level = Level::new();
    let (mut rest, mut text) = (raw, [0; CHUNK + BLOCK]);
    // On other processors the search for each escape is faster.
    while !level.is_fallback() {
        let (mut read, mut written) =
            dispatch!(level, simd => decode_blocks(simd, rest.as_bytes(), &mut text));
        // The last block may end inside a character, which was copied byte by byte.
        while !rest.is_char_boundary(read) {
            (read, written) = (read - 1, written - 1);
        }
        let decoded = text.get(..written).map(std::str::from_utf8);
        let (Some(Ok(decoded)), Some(after), 1..) = (decoded, rest.get(read..), read) else {
            break;
        };
        put(decoded);
        rest = after;
    }
    rest
}

/// Returns how many bytes it has read, and how many written.
#[inline(always)]
fn decode_blocks<S: Simd>(simd: S, raw: &[u8], text: &mut [u8; CHUNK + BLOCK]) -> (usize, usize) {
    let (mut read, mut written) = (0, 0);
    while written < CHUNK
        && let Some(block) = raw.get(read..).and_then(|rest| rest.first_chunk::<BLOCK>())
    {
        // The bytes after the first backslash are written over.
        text[written..written + BLOCK].copy_from_slice(block);
        let backslashes = u8x32::simd_from(simd, *block)
            .simd_eq(u8x32::splat(simd, b'\\'))
            .to_bitmask();
        let plain = (backslashes.trailing_zeros() as usize).min(BLOCK);
        (read, written) = (read + plain, written + plain);
        if plain == BLOCK {
            continue;
        }
        let Some(character) = raw.get(read + 1).and_then(|letter| decoded(*letter)) else {
            break;
        };
        text[written] = character;
        (read, written) = (read + 2, written + 1);
    }
    (read, written)
}

#[cfg(test)]
mod tests {
    use super::{LONG, decode_start};
    use crate::json::string::Unescaper;
    use restitch_testing::Rng;

    /// The slow twin: texts that are too short for blocks.
    fn slow(raw: &str) -> (String, u64) {
        let (mut unescaper, mut text, mut rest) = (Unescaper::default(), String::new(), raw);
        while !rest.is_empty() {
            let length = match rest.as_bytes() {
                [b'\\', b'u', ..] if rest.is_char_boundary(6) => 6,
                [b'\\', _, ..] if rest.is_char_boundary(2) => 2,
                _ => rest.chars().next().map_or(1, char::len_utf8),
            };
            let (unit, after) = rest.split_at(length.min(rest.len()));
            unescaper.push(unit, &mut text);
            rest = after;
        }
        (text, unescaper.finish())
    }

    #[test]
    fn blocks_decode_as_single_escapes_do() {
        let pieces = [
            "a",
            "0123456789",
            r#"\""#,
            r"\\",
            r"\n",
            r"\/",
            r"\u00e9",
            r"\ud83d",
            r"\ude00",
            "é",
            "😀",
            r"\x",
            "— and so on, with more text than a block has, ",
        ];
        let mut rng = Rng::new(3);
        for round in 0..3000 {
            // Few kinds of pieces in each text: some have no escape with a number.
            let kinds: Vec<_> = (0..1 + rng.below(4)).map(|_| rng.pick(&pieces)).collect();
            let length = rng.below(4 * LONG);
            let mut raw = String::new();
            while raw.len() < length {
                raw.push_str(rng.pick(&kinds));
            }
            let (mut unescaper, mut text) = (Unescaper::default(), String::new());
            unescaper.push(&raw, &mut text);
            assert_eq!((text, unescaper.finish()), slow(&raw), "{round}: {raw:?}");
        }
    }

    #[test]
    fn blocks_end_before_escapes_of_another_kind_and_at_the_last_bytes() {
        let plain = "é\\n".repeat(400);
        let raw = format!("{plain}\\u0041 and more {plain}");
        let mut text = String::new();
        let rest = decode_start(&raw, |piece| text.push_str(piece));
        assert_eq!(text, "é\n".repeat(400));
        assert_eq!(rest, &raw[plain.len()..]);
    }
}
