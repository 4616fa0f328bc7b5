//! The types of the values in a configuration: numbers and times with their ranges.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use restitch::internal::limits::is_probability;

/// Declares a number with a range.
macro_rules! numbers {
    ($($(#[$docs:meta])* $name:ident($number:ty), $is_right:expr, $expected:literal, $schema:tt;)+) => { $(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub $number);

        impl $name {
            fn checked(number: $number) -> Result<Self, String> {
                let is_right: fn($number) -> bool = $is_right;
                let right = is_right(number).then_some(Self(number));
                right.ok_or_else(|| format!("`{number}` is not {}", $expected))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::checked(<$number>::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }

        impl From<$name> for $number {
            fn from(number: $name) -> Self {
                number.0
            }
        }

        impl From<$number> for $name {
            fn from(number: $number) -> Self {
                Self(number)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )+ };
}

numbers! {
    /// A number above 0.
    Positive(usize), |number| number > 0, "a number above 0", { "type": "integer", "minimum": 1 };
    /// A probability, from 0 to 1.
    Risk(f64), is_probability, "a number from 0 to 1", { "type": "number", "minimum": 0, "maximum": 1 };
}

/// Reads a probability from a flag.
impl FromStr for Risk {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let number = written.parse();
        number
            .map_err(|_| format!("`{written}` is not a number from 0 to 1"))
            .and_then(Self::checked)
    }
}

/// A number above 0, or `auto`: the proxy chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoCount(pub Option<usize>);

impl<'de> Deserialize<'de> for AutoCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a number above 0, or `auto`")]
        enum Written {
            Number(u64),
            Text(String),
        }
        let wrong = |written: &dyn fmt::Display| {
            D::Error::custom(format!("`{written}` is not a number above 0, nor `{AUTO}`"))
        };
        match Written::deserialize(deserializer)? {
            Written::Text(text) if text == AUTO => Ok(Self(None)),
            Written::Text(text) => Err(wrong(&text)),
            Written::Number(number) => match usize::try_from(number) {
                Ok(count) if count > 0 => Ok(Self(Some(count))),
                _ => Err(wrong(&number)),
            },
        }
    }
}

impl Serialize for AutoCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(number) => number.serialize(serializer),
            None => serializer.serialize_str(AUTO),
        }
    }
}

impl JsonSchema for AutoCount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AutoCount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "const": AUTO }] })
    }
}

/// The word for a number that the proxy chooses.
const AUTO: &str = "auto";

/// A time from 0 to a year: `"30s"`, `"5m"`, `"1h 30m"`, or a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

/// The same, from a millisecond on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PositiveTime(pub Duration);

/// The longest time, as `1y` has it.
const YEAR: Duration = Duration::from_secs(31_557_600);

/// The shortest time that is not 0.
const SHORTEST: Duration = Duration::from_millis(1);

/// Characters of a time with units, and of a number in it. Times up to a year need fewer, and the
/// parser panics where the sum of the parts overflows.
const LONGEST: (usize, usize) = (60, 11);

/// A time as text, for JSON Schemas: seconds, or numbers with units. The units are those of `humantime`.
const TIME: &str = "^\\s*([0-9]+(\\.[0-9]+)?|([0-9.]+\\s*[A-Za-zµ]+\\s*)+)$";

/// Reads a time.
struct TimeVisitor {
    least: Duration,
}

impl TimeVisitor {
    fn checked(
        &self,
        time: Option<Duration>,
        written: &dyn fmt::Display,
    ) -> Result<Duration, String> {
        time.filter(|time| (self.least..=YEAR).contains(time))
            .ok_or_else(|| format!("`{written}` is not {self}"))
    }

    fn seconds(&self, seconds: f64) -> Result<Duration, String> {
        self.checked(Duration::try_from_secs_f64(seconds).ok(), &seconds)
    }

    fn text(&self, written: &str) -> Result<Duration, String> {
        // A flag and a variable are text, so a number of seconds comes as text from them.
        if let Ok(seconds) = written.parse() {
            return self.seconds(seconds);
        }
        let mut numbers = written.split(|letter: char| !letter.is_ascii_digit());
        let is_short =
            written.len() <= LONGEST.0 && numbers.all(|number| number.len() <= LONGEST.1);
        let time = is_short.then(|| humantime::parse_duration(written).ok());
        self.checked(time.flatten(), &written)
    }
}

impl fmt::Display for TimeVisitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = humantime::format_duration(self.least);
        write!(f, "a time from {least} to a year, such as `30s` or `5m`")
    }
}

impl Visitor<'_> for TimeVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Duration, E> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a year of seconds is far below the precision of a double"
        )]
        self.visit_f64(seconds as f64)
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Duration, E> {
        self.seconds(seconds).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, written: &str) -> Result<Duration, E> {
        self.text(written).map_err(E::custom)
    }
}

/// Declares how a time is read and written.
macro_rules! times {
    ($($name:ident from $least:expr;)+) => { $(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(TimeVisitor { least: $least }).map(Self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "description": format!("{}, or a number of seconds.", TimeVisitor { least: $least }),
                    "type": ["number", "string"],
                    "minimum": $least.as_secs_f64(),
                    "maximum": YEAR.as_secs(),
                    "pattern": TIME,
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&humantime::format_duration(self.0))
            }
        }

        impl From<$name> for Duration {
            fn from(time: $name) -> Self {
                time.0
            }
        }

        impl From<Duration> for $name {
            fn from(time: Duration) -> Self {
                Self(time)
            }
        }
    )+ };
}

times! {
    Time from Duration::ZERO;
    PositiveTime from SHORTEST;
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
