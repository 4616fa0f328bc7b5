//! The patterns of conditions: a `*` matches any text, including none.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use restitch::internal::capability::{matches, matches_exactly};

/// Declares a text that is checked when it is read.
macro_rules! checked {
    ($(#[$docs:meta])* $name:ident, $check:ident) => {
        $(#[$docs])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                $check(&text).map(Self)
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(checked: $name) -> Self {
                checked.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

checked! {
    /// A pattern of paths, byte by byte.
    PathPattern, path
}

checked! {
    /// A pattern of models, as the capability table has them: upper and lower case are equal, and
    /// so are separators.
    ModelPattern, model
}

checked! {
    /// The name of a header, in lower case.
    HeaderName, header
}

checked! {
    /// A pattern of a header's values, byte by byte.
    ValuePattern, value
}

impl PathPattern {
    /// Returns whether a path, without its query, is of the pattern.
    pub fn matches(&self, path: &str) -> bool {
        matches_exactly(&self.0, path)
    }

    /// Returns whether every path of another pattern certainly matches this one. A literal
    /// comparison, so it is conservative.
    pub fn covers(&self, other: &Self) -> bool {
        matches_exactly(&self.0, &other.0)
    }
}

impl ModelPattern {
    /// Returns whether a name is of the pattern.
    pub fn matches(&self, model: &str) -> bool {
        model.len() <= LONGEST && matches(&self.0, model)
    }

    /// Like [`PathPattern::covers`].
    pub fn covers(&self, other: &Self) -> bool {
        matches(&self.0, &other.0)
    }
}

impl HeaderName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ValuePattern {
    /// Returns whether a value is of the pattern.
    pub fn matches(&self, value: &str) -> bool {
        matches_exactly(&self.0, value)
    }

    /// Like [`PathPattern::covers`].
    pub fn covers(&self, other: &Self) -> bool {
        matches_exactly(&self.0, &other.0)
    }
}

fn path(text: &str) -> Result<String, String> {
    let is_path = text.starts_with(['/', '*']) && text.len() <= LONGEST;
    match is_path
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'))
    {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{}` is no pattern of paths like `/v1/messages` or `/v1/*`",
            shown(text)
        )),
    }
}

fn model(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.len() <= LONGEST && !text.contains(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{}` is no pattern of models like `gpt-5-mini` or `claude-*`",
            shown(text)
        )),
    }
}

fn header(text: &str) -> Result<String, String> {
    let name = text.to_ascii_lowercase();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > LONGEST || !name.bytes().all(is_token) {
        return Err(format!("`{}` is no name of a header", shown(text)));
    }
    match holds_secret(&name) {
        false => Ok(name),
        true => Err(format!(
            "`{text}` may hold a secret, which a configuration file must not have: name another header"
        )),
    }
}

fn value(text: &str) -> Result<String, String> {
    match !text.is_empty()
        && text.len() <= LONGEST
        && text.trim() == text
        && !text.contains(char::is_control)
    {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{}` is no pattern of a header's value like `batch` or `batch-*`",
            shown(text)
        )),
    }
}

/// Returns the beginning of a text, for an error about it.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN).collect();
    if start.len() < text.len() {
        start + "…"
    } else {
        start
    }
}

/// Returns whether a header may hold a secret, by its name in lower case.
pub(crate) fn holds_secret(name: &str) -> bool {
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// Parts of the names of headers that hold secrets.
const SECRETS: [&str; 5] = ["authorization", "key", "token", "secret", "cookie"];

/// Bytes of the longest pattern and of the longest model that is compared with one. The time of a
/// comparison grows with their product.
const LONGEST: usize = 256;

/// Characters of a wrong text that an error shows.
const SHOWN: usize = 60;
