//! The key, which is removed from all that servers say before people read it.

use std::fmt;

/// A key. Empty if there is none.
#[derive(Clone, Default)]
pub(in crate::cli) struct Key(String);

impl Key {
    pub(in crate::cli) fn new(key: &str) -> Self {
        Self(key.to_owned())
    }

    /// Returns a text without the key.
    pub(in crate::cli) fn out_of(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}
