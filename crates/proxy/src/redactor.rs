//! Removes keys from texts that people read, even if a text escapes them.

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
        let key = self.key.as_bytes();
        let is_key = |at| matches!(begins_with(&text[at..], key), FoundKey::Key(_));
        (0..text.len()).any(is_key)
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
        let (mut certain, mut at) = (Vec::with_capacity(self.pending.len()), 0);
        while let Some((&byte, _)) = self.pending.get(at..).and_then(<[u8]>::split_first) {
            match begins_with(
                self.pending.get(at..).unwrap_or_default(),
                self.key.as_bytes(),
            ) {
                FoundKey::Key(length) => {
                    certain.extend_from_slice(b"[key]");
                    at += length;
                }
                FoundKey::Part => break,
                FoundKey::Nothing => {
                    certain.push(byte);
                    at += 1;
                }
            }
        }
        (certain, at)
    }
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
    if key.is_empty() {
        return FoundKey::Nothing;
    }
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
    use super::Redactor;

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
