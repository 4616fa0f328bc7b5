//! How values are written in a configuration file, for serde.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::{ContinueBy, FallbackConfig};
use restitch::session::{Rung, Rungs};

/// Reads and writes a value as the text that it is on the command line.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }

    pub(crate) fn serialize<S: Serializer, T: Display>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }
}

/// Reads and writes a list of such values.
pub(crate) mod texts {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let values = texts.iter().map(|text| text.parse());
        values.collect::<Result<_, _>>().map_err(D::Error::custom)
    }

    pub(crate) fn serialize<S: Serializer, T: Display>(
        values: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(ToString::to_string))
    }
}

pub(super) fn fallbacks<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<FallbackConfig>, D::Error> {
    let fallbacks = Vec::deserialize(deserializer)?;
    match fallbacks.len() <= MAX_FALLBACKS {
        true => Ok(fallbacks),
        false => Err(D::Error::custom(format!(
            "a route can have {MAX_FALLBACKS} fallbacks"
        ))),
    }
}

/// The value of `continuation`: `auto`, `off`, or the names of rungs.
#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "a list of rungs, `auto` or `off`")]
pub(super) enum Continuation {
    Word(String),
    Rungs(Vec<String>),
}

impl TryFrom<Continuation> for ContinueBy {
    type Error = String;

    fn try_from(written: Continuation) -> Result<Self, String> {
        match written {
            Continuation::Word(word) if word == AUTO => Ok(Self::default()),
            Continuation::Word(word) if word == OFF => Ok(Self::Off),
            Continuation::Word(word) => Err(format!(
                "`{word}` is not `{AUTO}` or `{OFF}`, nor a list of rungs such as [\"words\"]"
            )),
            Continuation::Rungs(names) if names.is_empty() => {
                Err(format!("the list has no rung: write `{OFF}`"))
            }
            Continuation::Rungs(names) => {
                let rungs = names.iter().map(|name| name.parse::<Rung>());
                Ok(Self::Rungs(rungs.collect::<Result<_, _>>()?))
            }
        }
    }
}

impl From<ContinueBy> for Continuation {
    fn from(by: ContinueBy) -> Self {
        match by {
            ContinueBy::Off => Self::Word(OFF.to_owned()),
            ContinueBy::Rungs(Rungs::ALL) => Self::Word(AUTO.to_owned()),
            ContinueBy::Rungs(rungs) => {
                Self::Rungs(rungs.iter().map(|rung| rung.as_str().to_owned()).collect())
            }
        }
    }
}

/// Every rung.
const AUTO: &str = "auto";
const OFF: &str = "off";

/// Fallbacks of a route: a client waits for all of them in turn.
pub(super) const MAX_FALLBACKS: usize = 8;
