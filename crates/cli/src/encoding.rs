//! The bytes of a whole file as text.

use restitch::clean_encoding;

/// The text of a file, and the bytes that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EncodedText {
    pub(super) text: String,
    /// Bytes that are not UTF-8.
    pub(super) removed: usize,
    /// The bytes of the character that the end of the file cuts. Empty if the file ends with a
    /// whole one.
    pub(super) half: Vec<u8>,
    /// The file's bytes, if they are not those of the text.
    raw: Option<Vec<u8>>,
}

impl EncodedText {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let raw = match String::from_utf8(bytes) {
            Ok(text) => return text.into(),
            Err(error) => error.into_bytes(),
        };
        let (whole, half) = raw.split_at(open_character(&raw).unwrap_or(raw.len()));
        let (text, removed) = clean_encoding(whole);
        Self {
            text: text.into_owned(),
            removed,
            half: half.to_vec(),
            raw: Some(raw),
        }
    }

    /// Returns the file's bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.text.as_bytes())
    }

    /// Returns the number of bytes that are not in the text.
    pub(super) fn left_out(&self) -> usize {
        self.removed + self.half.len()
    }
}

impl From<String> for EncodedText {
    fn from(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

/// Returns the start of the character that the end of `bytes` cuts.
pub(super) fn open_character(bytes: &[u8]) -> Option<usize> {
    let last = bytes.len().saturating_sub(4);
    let tail = bytes.get(last..).unwrap_or_default();
    let start = tail.iter().rposition(|byte| byte & 0xc0 != 0x80)?;
    let open = std::str::from_utf8(tail.get(start..)?).err()?;
    // Without a length, more bytes could complete it.
    open.error_len().is_none().then_some(last + start)
}
