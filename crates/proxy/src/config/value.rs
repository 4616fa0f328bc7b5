//! The types of the values in a configuration: numbers and times with the range that a file, a flag
//! and a variable may give them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use restitch::internal::limits::{MAX_SEAM_BYTES, is_probability};

/// Declares a number with a range, read from TOML and from the text of a flag.
macro_rules! numbers {
    ($($(#[$docs:meta])* $name:ident$(<const $least:ident: usize>)?($number:ty), $is_right:expr, $expected:expr, $schema:tt;)+) => { $(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize)]
        #[serde(transparent)]
        pub struct $name$(<const $least: usize>)?(pub $number);

        impl$(<const $least: usize>)? $name$(<$least>)? {
            fn checked(number: $number) -> Result<Self, String> {
                let is_right: fn($number) -> bool = $is_right;
                is_right(number).then_some(Self(number)).ok_or_else(|| format!("`{number}` is not {}", $expected))
            }
        }

        impl<'de $(, const $least: usize)?> Deserialize<'de> for $name$(<$least>)? {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::checked(<$number>::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }

        impl$(<const $least: usize>)? FromStr for $name$(<$least>)? {
            type Err = String;

            fn from_str(written: &str) -> Result<Self, String> {
                written.parse().map_err(|_| format!("`{written}` is not {}", $expected)).and_then(Self::checked)
            }
        }

        impl$(<const $least: usize>)? JsonSchema for $name$(<$least>)? {
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
    /// The number of bytes that are compared at a seam, from `LEAST` to 262144.
    SeamBytes<const LEAST: usize>(usize),
        |number| (LEAST..=MAX_SEAM_BYTES).contains(&number),
        format_args!("a number from {LEAST} to {MAX_SEAM_BYTES}: in text that repeats itself, a seam takes seconds"),
        { "type": "integer", "minimum": LEAST, "maximum": MAX_SEAM_BYTES };
    /// A probability, from 0 to 1.
    Risk(f64), is_probability, "a number from 0 to 1", { "type": "number", "minimum": 0, "maximum": 1 };
    /// A share of something, from 0 to 1000; 0 means no limit.
    Share(f64), |share| (0.0..=1000.0).contains(&share), "a number from 0 to 1000; 0.5 is one half",
        { "type": "number", "minimum": 0, "maximum": 1000 };
    /// A number for which 0 means no limit, up to the largest that TOML can write.
    Count(u64), |number| i64::try_from(number).is_ok(), "a number up to 9223372036854775807",
        { "type": "integer", "minimum": 0, "maximum": i64::MAX };
}

impl From<Positive> for usize {
    fn from(number: Positive) -> Self {
        number.0
    }
}

impl From<usize> for Positive {
    fn from(number: usize) -> Self {
        Self(number)
    }
}

impl<const LEAST: usize> From<SeamBytes<LEAST>> for usize {
    fn from(number: SeamBytes<LEAST>) -> Self {
        number.0
    }
}

impl<const LEAST: usize> From<usize> for SeamBytes<LEAST> {
    fn from(number: usize) -> Self {
        Self(number.min(MAX_SEAM_BYTES))
    }
}

impl From<Risk> for f64 {
    fn from(risk: Risk) -> Self {
        risk.0
    }
}

impl From<f64> for Risk {
    fn from(risk: f64) -> Self {
        Self(risk)
    }
}

impl From<Count> for Option<u64> {
    fn from(count: Count) -> Self {
        Some(count.0).filter(|count| *count > 0)
    }
}

impl From<Option<u64>> for Count {
    fn from(count: Option<u64>) -> Self {
        Self(count.unwrap_or(0).min(i64::MAX.unsigned_abs()))
    }
}

impl From<Share> for Option<f64> {
    fn from(share: Share) -> Self {
        Some(share.0).filter(|share| *share > 0.0)
    }
}

impl From<Option<f64>> for Share {
    fn from(share: Option<f64>) -> Self {
        Self(share.unwrap_or_default())
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
        let written = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        written.parse().map_err(D::Error::custom)
    }
}

impl FromStr for AutoCount {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        if written == AUTO {
            return Ok(Self(None));
        }
        let number = written.parse().ok().filter(|number| *number > 0);
        number
            .map(|number| Self(Some(number)))
            .ok_or_else(|| format!("`{written}` is not a number above 0, nor `{AUTO}`"))
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

impl From<AutoCount> for Option<usize> {
    fn from(count: AutoCount) -> Self {
        count.0
    }
}

impl From<Option<usize>> for AutoCount {
    fn from(count: Option<usize>) -> Self {
        Self(count)
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

        impl FromStr for $name {
            type Err = String;

            fn from_str(written: &str) -> Result<Self, String> {
                TimeVisitor { least: $least }.text(written).map(Self)
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
