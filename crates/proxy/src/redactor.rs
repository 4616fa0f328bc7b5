//! Removes keys from texts that people read, even if a text escapes them.

use memchr::memchr3;

/// Removes a key from text that arrives in pieces. Finds the key also if any of its bytes are
/// escaped.
#[derive(Debug)]
pub struct Redactor {
    key: String,
    /// The withheld end of the text so far, which may be the beginning of the key.
    pending: Vec<u8>,
}

impl Redactor {
    /// Creates a redactor of one key.
    pub fn new(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            pending: Vec::new(),
        }
    }

    /// Returns a redactor of the same key for another text.
    pub fn another(&self) -> Self {
        Self::new(&self.key)
    }

    /// Adds text, and returns all text that can't be part of a key.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        let (certain, used) = self.redacted();
        self.pending.drain(..used);
        certain
    }

    /// Returns the withheld text, and begins a new text.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Returns whether a whole text has the key.
    pub(super) fn finds(&self, text: &[u8]) -> bool {
        finds(text, &self.key)
    }

    /// Returns a whole text without the key.
    pub fn whole(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut whole = self.push(bytes);
        whole.append(&mut self.finish());
        whole
    }

    /// Returns the pending text without keys, up to the offset at which another key may begin, and
    /// that offset.
    fn redacted(&self) -> (Vec<u8>, usize) {
        let (text, key) = (&self.pending[..], self.key.as_bytes());
        let (mut certain, mut at) = (Vec::with_capacity(text.len()), 0);
        while let Some(start) = next_start(&text[at..], key) {
            certain.extend_from_slice(&text[at..at + start]);
            at += start;
            match begins_with(&text[at..], key) {
                FoundKey::Key(length) => {
                    certain.extend_from_slice(b"[key]");
                    at += length;
                }
                FoundKey::Part => return (certain, at),
                FoundKey::Nothing => {
                    certain.push(text[at]);
                    at += 1;
                }
            }
        }
        certain.extend_from_slice(&text[at..]);
        (certain, text.len())
    }
}

/// Returns whether a whole text has a key.
pub(super) fn finds(text: &[u8], key: &str) -> bool {
    let key = key.as_bytes();
    let mut rest = text;
    while let Some(start) = next_start(rest, key) {
        rest = &rest[start..];
        if matches!(begins_with(rest, key), FoundKey::Key(_)) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

/// Returns the offset of the next byte with which the key may begin: its own first byte, or that of
/// an escape.
fn next_start(text: &[u8], key: &[u8]) -> Option<usize> {
    memchr3(*key.first()?, b'\\', b'%', text)
}

/// The result of looking for the key at the beginning of a text.
enum FoundKey {
    /// The key, written in this number of bytes.
    Key(usize),
    /// The whole text is a prefix of the key.
    Part,
    Nothing,
}

/// Returns whether `text` begins with the key. Each byte may be literal, percent-encoded, or a JSON
/// escape (`\u0041`, `\/`), also in nested JSON strings.
fn begins_with(text: &[u8], key: &[u8]) -> FoundKey {
    let mut at = 0;
    for &byte in key {
        let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) else {
            return FoundKey::Part;
        };
        at += match written(rest, byte) {
            Some(0) => return FoundKey::Part,
            Some(length) => length,
            None => return FoundKey::Nothing,
        };
    }
    FoundKey::Key(at)
}

/// Returns the length of the encoding of `byte` with which `text` begins; 0 if the text ends within
/// that encoding.
fn written(text: &[u8], byte: u8) -> Option<usize> {
    if text.first() == Some(&byte) {
        return Some(1);
    }
    let slashes = text
        .iter()
        .take(SLASHES)
        .take_while(|byte| **byte == b'\\')
        .count();
    let (escape, digits) = match (text.first()?, text.get(slashes)) {
        (b'%', _) => (1, 2),
        (b'\\', None) => return Some(0),
        (b'\\', Some(b'u')) => (slashes + 1, 4),
        (b'\\', Some(next)) => return (*next == byte).then_some(slashes + 1),
        _ => return None,
    };
    let hex = text.get(escape..).unwrap_or_default();
    let hex = hex.get(..digits).unwrap_or(hex);
    let value = std::str::from_utf8(hex)
        .ok()
        .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    match u32::from_str_radix(value, 16) {
        _ if value.len() < digits => Some(0),
        Ok(value) => (value == u32::from(byte)).then_some(escape + digits),
        Err(_) => None,
    }
}

// Each level of nested JSON strings doubles them, so eight are those of four levels.
/// The most backslashes before an escape.
const SLASHES: usize = 8;

#[cfg(test)]
mod tests {
    use restitch_testing::{Rng, chunks, random_cuts};

    use super::*;

    /// Looks for the key at every byte: the slow twin of [`Redactor::redacted`]. Returns the text
    /// without keys, the number of keys, and the withheld end.
    fn redacted_by_bytes(text: &[u8], key: &[u8]) -> (Vec<u8>, usize, Vec<u8>) {
        let (mut certain, mut keys, mut at) = (Vec::new(), 0, 0);
        while at < text.len() {
            match begins_with(&text[at..], key) {
                FoundKey::Key(length) => {
                    certain.extend_from_slice(b"[key]");
                    keys += 1;
                    at += length;
                }
                FoundKey::Part => break,
                FoundKey::Nothing => {
                    certain.push(text[at]);
                    at += 1;
                }
            }
        }
        (certain, keys, text[at..].to_vec())
    }

    #[test]
    fn a_search_by_first_bytes_finds_the_keys_that_a_search_at_every_byte_finds() {
        const PARTS: [&str; 16] = [
            "sk-A/é",
            "sk-",
            "s",
            "k",
            "-A",
            "/",
            "é",
            r"\u0073",
            "%73",
            "%6",
            r"\\",
            r"\",
            "%",
            "x",
            r"sk-\u0041\/é",
            "s%6b-A%2fé",
        ];
        let key = "sk-A/é";
        let (mut rng, mut found) = (Rng::new(7), 0);
        for _ in 0..20_000 {
            let parts: Vec<_> = (0..rng.below(12)).map(|_| rng.pick(&PARTS)).collect();
            let text = parts.concat();
            let text = text.as_bytes();
            let (certain, keys, withheld) = redacted_by_bytes(text, key.as_bytes());
            let mut redactor = Redactor::new(key);
            let cuts = random_cuts(text.len(), &mut rng);
            let chunks = chunks(text, &cuts);
            let out: Vec<u8> = chunks
                .iter()
                .flat_map(|chunk| redactor.push(chunk))
                .collect();
            let out = (out, keys > 0, redactor.finish());
            let expected = (certain, redactor.finds(text), withheld);
            assert_eq!(
                out,
                expected,
                "{:?} {cuts:?}",
                String::from_utf8_lossy(text)
            );
            found += keys;
        }
        assert!(found > 1000, "{found}");
    }

    #[test]
    fn a_key_is_removed_however_it_is_split() {
        let text = b"data: sk-secretsk-sk-secret. sk-secre";
        let expected = "data: [key]sk-[key]. sk-secre";
        for size in 1..=text.len() {
            let mut redactor = Redactor::new("sk-secret");
            let mut out: Vec<u8> = text
                .chunks(size)
                .flat_map(|chunk| redactor.push(chunk))
                .collect();
            out.append(&mut redactor.finish());
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{size}");
        }
        assert_eq!(Redactor::new("").whole(text), text);
    }

    #[test]
    fn a_key_is_removed_however_it_is_escaped() {
        for text in [
            "sk/u-Aé",
            r"sk\/u-\u0041é",
            r"\u0073\u006b\u002f\u0075\u002D\u0041é",
            r"sk\\/u-\\u0041é",
            r"sk\\\/u-\\\u0041é",
            "sk%2Fu-%41%C3%a9",
            "%73k%2fu-A%c3%A9",
        ] {
            let text = format!(r"\ %2 {text}\u00 %4");
            for size in 1..=text.len() {
                let mut redactor = Redactor::new("sk/u-Aé");
                let mut out: Vec<u8> = text
                    .as_bytes()
                    .chunks(size)
                    .flat_map(|chunk| redactor.push(chunk))
                    .collect();
                out.append(&mut redactor.finish());
                assert_eq!(
                    String::from_utf8(out).unwrap(),
                    r"\ %2 [key]\u00 %4",
                    "{text} {size}"
                );
            }
        }
    }
}
