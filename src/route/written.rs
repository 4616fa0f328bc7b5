//! How values are written in a configuration file, for serde.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::limits::is_probability;
use crate::repair::RepairLevel;

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
        String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
    }

    pub(crate) fn serialize<S: Serializer, T: Display>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }
}

pub(crate) fn repair<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RepairLevel>, D::Error> {
    RepairLevel::named(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

pub(super) fn probability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    number(deserializer, is_probability, "a number from 0 to 1")
}

pub(crate) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    number(deserializer, |share| (0.0..=1000.0).contains(&share), "a number from 0 to 1000; 0.5 is one half")
}

pub(super) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    number(deserializer, |seconds| (0.0..=YEAR).contains(&seconds), "seconds, from 0 to a year")
}

fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    is_right: impl Fn(f64) -> bool,
    kind: &str,
) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(deserializer)?;
    is_right(number).then_some(Some(number)).ok_or_else(|| D::Error::custom(format!("`{number}` is not {kind}")))
}

/// Returns the value with a name. An error lists the names.
pub(super) fn named<T: Copy>(all: &[T], as_str: fn(T) -> &'static str, name: &str) -> Result<T, String> {
    let found = all.iter().copied().find(|value| as_str(*value) == name);
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|value| format!("`{}`", as_str(*value))).collect();
        format!("`{name}` is not one of {}", names.join(", "))
    })
}

const YEAR: f64 = 365.0 * 24.0 * 60.0 * 60.0;
