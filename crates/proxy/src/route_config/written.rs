//! How values are written in a configuration file, for serde.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::FallbackConfig;
use restitch::internal::limits::is_probability;
use restitch::repair::RepairLevel;

/// Reads and writes values as the text that they are on the command line.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        String::deserialize(deserializer)?
            .parse()
            .map(Some)
            .map_err(D::Error::custom)
    }

    pub(crate) fn serialize<S: Serializer, T: Display>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }
}

pub(crate) fn repair<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<RepairLevel>, D::Error> {
    RepairLevel::named(&String::deserialize(deserializer)?)
        .map(Some)
        .map_err(D::Error::custom)
}

pub(super) fn probability<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    number(deserializer, is_probability, "a number from 0 to 1")
}

pub(crate) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    number(
        deserializer,
        |share| (0.0..=1000.0).contains(&share),
        "a number from 0 to 1000; 0.5 is one half",
    )
}

pub(super) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    number(
        deserializer,
        |seconds| (0.0..=YEAR).contains(&seconds),
        "seconds, from 0 to a year",
    )
}

pub(super) fn positive_seconds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    number(
        deserializer,
        |seconds| (0.001..=YEAR).contains(&seconds),
        "seconds, from 0.001 to a year",
    )
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

/// Reads and writes an API by its name.
pub(super) mod wire {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use restitch::provider::Dialect;

    pub(in crate::route_config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Dialect>, D::Error> {
        let name = String::deserialize(deserializer)?;
        super::named(&Dialect::ALL, Dialect::as_str, &name)
            .map(Some)
            .map_err(D::Error::custom)
    }

    pub(in crate::route_config) fn serialize<S: Serializer>(
        wire: &Option<Dialect>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match wire {
            Some(wire) => serializer.serialize_str(wire.as_str()),
            None => serializer.serialize_none(),
        }
    }
}

fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    is_right: impl Fn(f64) -> bool,
    kind: &str,
) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(deserializer)?;
    is_right(number)
        .then_some(Some(number))
        .ok_or_else(|| D::Error::custom(format!("`{number}` is not {kind}")))
}

/// Returns the value with a name. An error lists the names.
pub(super) fn named<T: Copy>(
    all: &[T],
    as_str: fn(T) -> &'static str,
    name: &str,
) -> Result<T, String> {
    let found = all.iter().copied().find(|value| as_str(*value) == name);
    found.ok_or_else(|| {
        let names: Vec<_> = all
            .iter()
            .map(|value| format!("`{}`", as_str(*value)))
            .collect();
        format!("`{name}` is not one of {}", names.join(", "))
    })
}

/// Fallbacks of a route: a client waits for all of them in turn.
const MAX_FALLBACKS: usize = 8;

const YEAR: f64 = 365.0 * 24.0 * 60.0 * 60.0;
