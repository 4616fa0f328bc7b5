//! The types of the values in a configuration: numbers and times with the range that a file, a flag
//! and a variable may give them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use restitch::internal::limits::{MAX_SEAM_BYTES, is_probability};

/// Declares a number with a range, read from TOML and from the text of a flag.
macro_rules! numbers {
    ($($(#[$docs:meta])* $name:ident$(<const $least:ident: usize>)?($number:ty), $is_right:expr, $expected:expr;)+) => { $(
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
    )+ };
}

numbers! {
    /// A number above 0.
    Positive(usize), |number| number > 0, "a number above 0";
    /// The number of bytes that are compared at a seam, from `LEAST` to 262144.
    SeamBytes<const LEAST: usize>(usize),
        |number| (LEAST..=MAX_SEAM_BYTES).contains(&number),
        format_args!("a number from {LEAST} to {MAX_SEAM_BYTES}: in text that repeats itself, a seam takes seconds");
    /// A probability, from 0 to 1.
    Risk(f64), is_probability, "a number from 0 to 1";
    /// A share of something, from 0 to 1000; 0 means no limit.
    Share(f64), |share| (0.0..=1000.0).contains(&share), "a number from 0 to 1000; 0.5 is one half";
    /// A number for which 0 means no limit, up to the largest that TOML can write.
    Count(u64), |number| i64::try_from(number).is_ok(), "a number up to 9223372036854775807";
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

/// A time from 0 to a year, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub Duration);

/// A time from a millisecond to a year, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PositiveSeconds(pub Duration);

const YEAR: f64 = 365.0 * 24.0 * 60.0 * 60.0;

/// The shortest time that is not 0.
const SHORTEST: f64 = 0.001;

/// Reads a time.
struct TimeVisitor {
    least: f64,
}

impl TimeVisitor {
    fn seconds(&self, seconds: f64) -> Option<Duration> {
        let fits = (self.least..=YEAR).contains(&seconds);
        Duration::try_from_secs_f64(seconds).ok().filter(|_| fits)
    }

    fn text(&self, written: &str) -> Result<Duration, String> {
        written
            .parse()
            .ok()
            .and_then(|seconds| self.seconds(seconds))
            .ok_or_else(|| format!("`{written}` is not {self}"))
    }
}

impl fmt::Display for TimeVisitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seconds, from {} to a year", self.least)
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
        self.seconds(seconds)
            .ok_or_else(|| E::custom(format!("`{seconds}` is not {self}")))
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

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match u32::try_from(self.0.as_secs()).ok().filter(|_| self.0.subsec_nanos() == 0) {
                    Some(whole) => serializer.serialize_u32(whole),
                    None => serializer.serialize_f64(self.0.as_secs_f64()),
                }
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
    Seconds from 0.0;
    PositiveSeconds from SHORTEST;
}

/// 0 means no limit.
impl From<Seconds> for Option<Duration> {
    fn from(time: Seconds) -> Self {
        Some(time.0).filter(|time| !time.is_zero())
    }
}

impl From<Option<Duration>> for Seconds {
    fn from(time: Option<Duration>) -> Self {
        Self(time.unwrap_or_default())
    }
}
