//! Reads and writes `[limits]`: bytes, counts and seconds.

use std::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::route_config::written;
use restitch::internal::limits::MAX_SEAM_BYTES;

/// Declares a table whose keys are the members of [`Limits`](restitch::Limits). Each is optional.
macro_rules! limits {
    ($($group:ident: $ty:ident { $($key:ident: $type:ty),+ $(,)? })+) => {
        #[derive(Debug, Default, Deserialize, Serialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct Limits {
            $($(#[serde(skip_serializing_if = "Option::is_none")] $key: Option<$type>,)+)+
        }

        impl From<Limits> for restitch::Limits {
            fn from(file: Limits) -> Self {
                let mut limits = Self::default();
                $($(if let Some(value) = file.$key { limits.$group.$key = value.into(); })+)+
                limits
            }
        }

        impl From<&restitch::Limits> for Limits {
            fn from(limits: &restitch::Limits) -> Self {
                // The members are named one by one, so that a limit without a key does not compile.
                $(let restitch::$ty { $($key),+ } = limits.$group.clone();)+
                Self { $($($key: Some($key.into()),)+)+ }
            }
        }
    };
}

limits! {
    parser: ParserLimits {
        max_depth: Positive,
        max_line_bytes: Positive,
        max_event_bytes: Positive,
        max_pending_bytes: SeamBytes<1>,
        overlap_window: SeamBytes<0>,
        max_children: usize,
        max_lookahead: usize,
        max_repairs: usize,
        max_readings: usize,
        max_text_bytes: Positive,
        max_preamble_bytes: usize,
    }
    continuation: ContinuationLimits {
        max_anchor_chars: usize,
        max_verbatim_context: usize,
        context_budget_chars: usize,
        max_risk: Risk,
        max_risk_arguments: Risk,
        max_continuations: u32,
        max_consecutive_failures: u32,
        max_no_progress: u32,
        max_stalled_reports: u32,
        max_total_tokens: OptionalCount,
        max_extra_tokens: u32,
        max_extra_share: OptionalShare,
        max_total_time: Seconds,
        patience: Seconds,
        max_hint_age: Seconds,
        overload_window: Seconds,
        overload_min_calls: u32,
    }
    transport: TransportLimits {
        max_read_ahead_bytes: usize,
        max_body_bytes: usize,
        idle_timeout: PositiveSeconds,
        first_byte_timeout: PositiveSeconds,
        text_timeout: PositiveSeconds,
        connect_timeout: PositiveSeconds,
        tls_timeout: PositiveSeconds,
        keep_alive_interval: Seconds,
        max_backoff: Seconds,
        max_idle_connections: usize,
    }
    server: ServerLimits {
        max_connections: Positive,
        max_connections_per_client: Positive,
        max_unfinished_bytes: Positive,
        max_head_bytes: Positive,
        max_head_fields: Positive,
        head_timeout: PositiveSeconds,
        handshake_timeout: PositiveSeconds,
        unused_timeout: PositiveSeconds,
        body_timeout: PositiveSeconds,
        write_timeout: PositiveSeconds,
        drain_timeout: PositiveSeconds,
        max_metric_models: usize,
        max_page_answer_bytes: usize,
        max_page_bytes: usize,
    }
    keep: KeepLimits {
        max_keep_time: Seconds,
        max_kept_answers: usize,
        max_kept_answer_bytes: Positive,
        max_kept_bytes: Positive,
    }
}

/// A number that must not be 0.
#[derive(Clone, Copy, Debug, Serialize)]
struct Positive(usize);

impl<'de> Deserialize<'de> for Positive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = usize::deserialize(deserializer)?;
        let refused = || D::Error::invalid_value(Unexpected::Unsigned(0), &"a number above 0");
        Some(Self(number))
            .filter(|_| number > 0)
            .ok_or_else(refused)
    }
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

/// Bytes that are compared at a seam, from `LEAST` to [`MAX_SEAM_BYTES`].
#[derive(Clone, Copy, Debug, Serialize)]
struct SeamBytes<const LEAST: usize>(usize);

impl<'de, const LEAST: usize> Deserialize<'de> for SeamBytes<LEAST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = usize::deserialize(deserializer)?;
        if (LEAST..=MAX_SEAM_BYTES).contains(&number) {
            return Ok(Self(number));
        }
        let expected = format!(
            "a number from {LEAST} to {MAX_SEAM_BYTES}: in text that repeats itself, a seam takes seconds"
        );
        Err(D::Error::invalid_value(
            Unexpected::Unsigned(number as u64),
            &expected.as_str(),
        ))
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

/// The probability of `max_risk`, from 0 to 1.
#[derive(Clone, Copy, Debug, Serialize)]
struct Risk(f64);

impl<'de> Deserialize<'de> for Risk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let risk = f64::deserialize(deserializer)?;
        let refused =
            || D::Error::invalid_value(Unexpected::Float(risk), &"`max_risk` from 0 to 1");
        restitch::internal::limits::is_probability(risk)
            .then_some(Self(risk))
            .ok_or_else(refused)
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

/// A number for which 0 means no limit.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct OptionalCount(u64);

impl From<OptionalCount> for Option<u64> {
    fn from(count: OptionalCount) -> Self {
        Some(count.0).filter(|count| *count > 0)
    }
}

impl From<Option<u64>> for OptionalCount {
    fn from(count: Option<u64>) -> Self {
        // TOML can't write a larger number.
        Self(count.unwrap_or(0).min(i64::MAX.unsigned_abs()))
    }
}

/// A share of something, for which 0 means no limit.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct OptionalShare(#[serde(deserialize_with = "share")] f64);

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    written::share(deserializer).map(Option::unwrap_or_default)
}

impl From<OptionalShare> for Option<f64> {
    fn from(share: OptionalShare) -> Self {
        Some(share.0).filter(|share| *share > 0.0)
    }
}

impl From<Option<f64>> for OptionalShare {
    fn from(share: Option<f64>) -> Self {
        Self(share.unwrap_or_default())
    }
}

/// Seconds, whole or not, up to a year.
#[derive(Clone, Copy, Debug)]
struct Seconds(Duration);

/// The same, and more than 0.
#[derive(Clone, Copy, Debug)]
struct PositiveSeconds(Duration);

const YEAR: f64 = 365.0 * 24.0 * 60.0 * 60.0;

struct SecondsVisitor {
    zero: bool,
}

impl Visitor<'_> for SecondsVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.zero {
            "seconds, from 0 to a year"
        } else {
            "seconds, more than 0 and at most a year"
        })
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Duration, E> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a year of seconds is far below the precision of a double"
        )]
        self.visit_f64(seconds as f64)
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Duration, E> {
        let fits = seconds <= YEAR && (seconds > 0.0 || self.zero && seconds == 0.0);
        let duration = Duration::try_from_secs_f64(seconds).ok().filter(|_| fits);
        duration.ok_or_else(|| E::invalid_value(Unexpected::Float(seconds), &self))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(SecondsVisitor { zero: true })
            .map(Self)
    }
}

impl<'de> Deserialize<'de> for PositiveSeconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(SecondsVisitor { zero: false })
            .map(Self)
    }
}

fn write<S: Serializer>(seconds: Duration, serializer: S) -> Result<S::Ok, S::Error> {
    match u32::try_from(seconds.as_secs())
        .ok()
        .filter(|_| seconds.subsec_nanos() == 0)
    {
        Some(whole) => serializer.serialize_u32(whole),
        None => serializer.serialize_f64(seconds.as_secs_f64()),
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self.0, serializer)
    }
}

impl Serialize for PositiveSeconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self.0, serializer)
    }
}

impl From<Seconds> for Duration {
    fn from(seconds: Seconds) -> Self {
        seconds.0
    }
}

impl From<PositiveSeconds> for Duration {
    fn from(wait: PositiveSeconds) -> Self {
        wait.0
    }
}

/// 0 means no limit.
impl From<Seconds> for Option<Duration> {
    fn from(seconds: Seconds) -> Self {
        Some(seconds.0).filter(|seconds| !seconds.is_zero())
    }
}

impl From<Option<Duration>> for Seconds {
    fn from(seconds: Option<Duration>) -> Self {
        Self(seconds.unwrap_or_default())
    }
}

impl From<Duration> for Seconds {
    fn from(seconds: Duration) -> Self {
        Self(seconds)
    }
}

impl From<Duration> for PositiveSeconds {
    fn from(seconds: Duration) -> Self {
        Self(seconds)
    }
}
