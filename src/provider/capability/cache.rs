//! The hints that a process records about models, which correct the table. The cache has no clock:
//! `now` is a duration since any fixed moment.

use std::collections::BTreeMap;
use std::time::Duration;

use super::by_model::ByModel;
use super::{Capability, CapabilityHint, GrammarForm, PrefillForm, Switch};

/// Hints by model, each for a limited time. Its owner locks it.
///
/// ```
/// use std::time::Duration;
/// use restitch::provider::capability::{PrefillForm, Table};
/// use restitch::internal::capability::{CapabilityCache, CapabilityHint};
///
/// let (now, hour) = (Duration::ZERO, Duration::from_secs(3600));
/// let mut cache = CapabilityCache::new(hour);
/// assert!(cache.record("claude-sonnet-4-5", CapabilityHint::NoPrefill, now));
/// assert!(!cache.record("claude-sonnet-4-5", CapabilityHint::NoPrefill, now));
///
/// let table = Table::default();
/// let at = |now| cache.correct("claude-sonnet-4-5", table.of("claude-sonnet-4-5", None), now).prefill;
/// assert_eq!((at(now), at(now + hour)), (PrefillForm::None, PrefillForm::Turn));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityCache {
    /// When each hint was recorded.
    models: ByModel<BTreeMap<CapabilityHint, Duration>>,
    /// How long a hint counts.
    max_age: Duration,
    recorded: u64,
}

impl CapabilityCache {
    /// Returns an empty cache whose hints count for `max_age`.
    pub fn new(max_age: Duration) -> Self {
        Self {
            models: ByModel::default(),
            max_age,
            recorded: 0,
        }
    }

    /// Records a hint. Returns whether the hint is new. The cache is cleared before the 1,025th
    /// model, and names of more than 256 bytes are not recorded.
    pub fn record(&mut self, model: &str, hint: CapabilityHint, now: Duration) -> bool {
        let max_age = self.max_age;
        let Some(hints) = self.models.entry(model).filter(|_| !max_age.is_zero()) else {
            return false;
        };
        hints.retain(|_, at| counts(*at, now, max_age));
        let is_new = !hints.contains_key(&hint);
        if is_new {
            hints.insert(hint, now);
            self.recorded = self.recorded.saturating_add(1);
        }
        is_new
    }

    /// Returns how many hints were recorded.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Corrects the table's capability of a model by the recorded hints.
    #[must_use]
    pub fn correct(&self, model: &str, capability: Capability, now: Duration) -> Capability {
        let mut capability = capability;
        let hints = self.models.get(model).into_iter().flatten();
        for (hint, _) in hints.filter(|(_, at)| counts(**at, now, self.max_age)) {
            match *hint {
                CapabilityHint::NoPrefill => capability.prefill = PrefillForm::None,
                CapabilityHint::NoGrammar => capability.grammar = Some(GrammarForm::None),
                CapabilityHint::RejectsTrailingSpace => capability.rejects_trailing_space = true,
                CapabilityHint::PrefillDropsFormat => capability.prefill_keeps_format = false,
                CapabilityHint::NoKeptStreams => capability.keeps_streams = false,
                CapabilityHint::NoToolWithReasoning => {
                    capability.tool_reasoning_off = Some(Switch::no_effort());
                }
                CapabilityHint::NoMember("response_format") => capability.response_format = false,
                CapabilityHint::NoMember("tools" | "tool_choice") => capability.tools = false,
                // The refused switch and value are the table's own, so either hint shows that the
                // switch does not work.
                CapabilityHint::NoMember(key) | CapabilityHint::RefusedValue(key) => {
                    capability.reasoning_off.take_if(|switch| switch.key == key);
                }
            }
        }
        capability
    }
}

/// Returns whether a hint that was recorded at a time still counts.
fn counts(at: Duration, now: Duration, max_age: Duration) -> bool {
    now.saturating_sub(at) < max_age
}
