//! `[limits]`: the bytes, counts, times and risks that an operator limits; `[engine]`: those that
//! are best left alone. The engine declares both.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value::{AutoCount, Count, Positive, PositiveTime, Risk, SeamBytes, Share, Time};
use restitch::Limits;
use restitch::internal::limits::each_limit;

/// Declares the two tables: their keys are the members of [`Limits`], with their defaults.
macro_rules! tables {
    ($(
        $(#[doc = $group_doc:tt])*
        $(#[derive($derived:ident)])?
        $group:ident: $ty:ident {
            limits { $(
                $(#[doc = $doc:tt])*
                #[arg($($arg:tt)*)]
                $key:ident $(/ $setter:ident)?: $limit:ty as $type:ty = $default:expr;
            )* }
            engine { $(
                $(#[doc = $engine_doc:tt])*
                $engine_key:ident $(/ $engine_setter:ident)?: $engine_limit:ty as $engine_type:ty = $engine_default:expr;
            )* }
        }
    )+) => {
        /// The bytes, counts, times and risks that an operator limits.
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema, clap::Args)]
        #[serde(deny_unknown_fields, default)]
        #[non_exhaustive]
        pub struct LimitsConfig {
            $($($(#[doc = $doc])* #[arg($($arg)*)] pub $key: $type,)*)+
        }

        /// Bounds on the work for unusual answers. Leave these alone.
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        #[non_exhaustive]
        pub struct EngineConfig {
            $($($(#[doc = $engine_doc])* pub $engine_key: $engine_type,)*)+
        }

        /// Returns the limits of both tables.
        pub(super) fn joined(of_operator: &LimitsConfig, of_engine: &EngineConfig) -> Limits {
            // The tables have a key for each member.
            let mut limits = Limits::default();
            $(
                $(limits.$group.$key = of_operator.$key.into();)*
                $(limits.$group.$engine_key = of_engine.$engine_key.into();)*
            )+
            limits
        }

        /// Returns the tables with these limits.
        pub(super) fn split(limits: Limits) -> (LimitsConfig, EngineConfig) {
            (
                LimitsConfig { $($($key: limits.$group.$key.into(),)*)+ },
                EngineConfig { $($($engine_key: limits.$group.$engine_key.into(),)*)+ },
            )
        }
    };
}

each_limit!(tables);

impl Default for LimitsConfig {
    fn default() -> Self {
        split(Limits::default()).0
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        split(Limits::default()).1
    }
}
