//! The key, which is removed from all server messages before people read them.

use std::fmt;

use restitch_proxy::Redactor;

/// A key. Empty if there is none.
#[derive(Clone, Default)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn new(key: &str) -> Self {
        Self(key.to_owned())
    }

    /// Returns a text without the key.
    pub(crate) fn out_of(&self, text: &str) -> String {
        String::from_utf8_lossy(&Redactor::new(&self.0).whole(text.as_bytes())).into_owned()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}
