//! The types of the values in a configuration: numbers and times with their ranges.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use restitch::internal::limits::is_probability;

/// Reads a number above 0.
pub(super) fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        0 => Err(D::Error::custom("`0` is not a number above 0")),
        number => Ok(number),
    }
}

/// Reads a probability, from 0 to 1.
pub(super) fn probability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    checked_risk(f64::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Reads a probability from a flag.
///
/// # Errors
/// Fails when the text is not a number from 0 to 1.
pub fn risk(written: &str) -> Result<f64, String> {
    checked_risk(written.parse().unwrap_or(f64::NAN))
        .map_err(|_| format!("`{written}` is not a number from 0 to 1"))
}

fn checked_risk(risk: f64) -> Result<f64, String> {
    let right = Some(risk).filter(|risk| is_probability(*risk));
    right.ok_or_else(|| format!("`{risk}` is not a number from 0 to 1"))
}

/// A time from `LEAST` milliseconds to a year: `"30s"`, `"5m"`, `"1h 30m"`, or a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time<const LEAST: u64 = 0>(pub Duration);

/// A time from a millisecond on.
pub type PositiveTime = Time<1>;

/// The longest time, as `1y` has it.
const YEAR: Duration = Duration::from_secs(31_557_600);

/// Characters of a time with units, and of a number in it. Times up to a year need fewer, and the
/// parser panics where the sum of the parts overflows.
const LONGEST: (usize, usize) = (60, 11);

/// A time as text, for JSON Schemas: seconds, or numbers with units. The units are those of `humantime`.
const TIME: &str = "^\\s*([0-9]+(\\.[0-9]+)?|([0-9.]+\\s*[A-Za-zµ]+\\s*)+)$";

/// A time as a file has it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Seconds(f64),
    Text(String),
}

impl Written {
    fn time(&self) -> Option<Duration> {
        let seconds = match self {
            Self::Seconds(seconds) => Some(*seconds),
            // A flag and a variable are text, so a number of seconds comes as text from them.
            Self::Text(text) => text.parse().ok(),
        };
        match (self, seconds) {
            (_, Some(seconds)) => Duration::try_from_secs_f64(seconds).ok(),
            (Self::Text(text), None) => with_units(text),
            (Self::Seconds(_), None) => None,
        }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(seconds) => seconds.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

fn with_units(text: &str) -> Option<Duration> {
    let mut numbers = text.split(|letter: char| !letter.is_ascii_digit());
    let is_short = text.len() <= LONGEST.0 && numbers.all(|number| number.len() <= LONGEST.1);
    is_short.then(|| humantime::parse_duration(text).ok())?
}

impl<const LEAST: u64> Time<LEAST> {
    /// Returns the description of these times.
    fn range() -> String {
        let least = humantime::format_duration(Duration::from_millis(LEAST));
        format!("a time from {least} to a year, such as `30s` or `5m`")
    }
}

impl<'de, const LEAST: u64> Deserialize<'de> for Time<LEAST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)
            .map_err(|_| D::Error::custom(format!("the value is not {}", Self::range())))?;
        let range = Duration::from_millis(LEAST)..=YEAR;
        let time = written.time().filter(|time| range.contains(time));
        time.map(Self)
            .ok_or_else(|| D::Error::custom(format!("`{written}` is not {}", Self::range())))
    }
}

impl<const LEAST: u64> Serialize for Time<LEAST> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(self.0))
    }
}

impl<const LEAST: u64> JsonSchema for Time<LEAST> {
    fn schema_name() -> Cow<'static, str> {
        match LEAST {
            0 => "Time".into(),
            _ => "PositiveTime".into(),
        }
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": format!("{}, or a number of seconds.", Self::range()),
            "type": ["number", "string"],
            "minimum": Duration::from_millis(LEAST).as_secs_f64(),
            "maximum": YEAR.as_secs(),
            "pattern": TIME,
        })
    }
}

impl<const LEAST: u64> From<Time<LEAST>> for Duration {
    fn from(time: Time<LEAST>) -> Self {
        time.0
    }
}

impl<const LEAST: u64> From<Duration> for Time<LEAST> {
    fn from(time: Duration) -> Self {
        Self(time)
    }
}

/// 0 means no limit.
impl From<Time> for Option<Duration> {
    fn from(time: Time) -> Self {
        Some(time.0).filter(|time| !time.is_zero())
    }
}

impl From<Option<Duration>> for Time {
    fn from(time: Option<Duration>) -> Self {
        Self(time.unwrap_or_default())
    }
}
