//! What a process records about models in addition to the table.

use std::collections::{BTreeMap, BTreeSet};

use super::{Capability, CapabilityHint, NAME, PrefillForm};

/// Hints by model. Where it is shared, it is behind a lock.
///
/// ```
/// use restitch::provider::capability::{PrefillForm, Table};
/// use restitch::internal::capability::{CapabilityCache, CapabilityHint};
///
/// let mut cache = CapabilityCache::default();
/// assert!(cache.record("claude-sonnet-4-5", CapabilityHint::NoPrefill));
/// assert!(!cache.record("claude-sonnet-4-5", CapabilityHint::NoPrefill));
///
/// let mut capability = Table::default().of("claude-sonnet-4-5", None);
/// cache.correct("claude-sonnet-4-5", &mut capability);
/// assert_eq!(capability.prefill, PrefillForm::None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapabilityCache {
    models: BTreeMap<String, BTreeSet<CapabilityHint>>,
}

impl CapabilityCache {
    /// Records a hint. Returns whether the hint is new. The cache is cleared before the 1,025th model, and names of
    /// more than 256 bytes are not recorded.
    pub fn record(&mut self, model: &str, hint: CapabilityHint) -> bool {
        if model.len() > NAME {
            return false;
        }
        if self.models.len() >= MODELS && !self.models.contains_key(model) {
            self.models.clear();
        }
        self.models.entry(model.to_owned()).or_default().insert(hint)
    }

    /// Corrects what the table says about a model.
    pub fn correct(&self, model: &str, capability: &mut Capability) {
        for hint in self.models.get(model).into_iter().flatten() {
            match *hint {
                CapabilityHint::NoPrefill => capability.prefill = PrefillForm::None,
                CapabilityHint::RejectsTrailingSpace => capability.rejects_trailing_space = true,
                CapabilityHint::NoMember("response_format") => capability.response_format = false,
                CapabilityHint::NoMember("tools" | "tool_choice") => capability.tools = false,
                CapabilityHint::NoMember(key) => {
                    capability.reasoning_off.take_if(|switch| switch.key == key);
                }
            }
        }
    }
}

/// The most models that are recorded. Names come from requests, and anybody can invent them.
const MODELS: usize = 1024;
