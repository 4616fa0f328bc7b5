//! What a process has learned of models beside the table.

use std::collections::{BTreeMap, BTreeSet};

use super::{Capability, Lesson, NAME, Prefix};

/// Lessons by model. Whoever shares it holds it behind a lock.
///
/// ```
/// use restitch::provider::capability::{Learned, Lesson, Prefix, Table};
///
/// let mut learned = Learned::default();
/// assert!(learned.learn("claude-sonnet-4-5", Lesson::NoPrefix));
/// assert!(!learned.learn("claude-sonnet-4-5", Lesson::NoPrefix));
///
/// let mut capability = Table::default().of("claude-sonnet-4-5", None);
/// learned.correct("claude-sonnet-4-5", &mut capability);
/// assert_eq!(capability.prefix, Prefix::None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    models: BTreeMap<String, BTreeSet<Lesson>>,
}

impl Learned {
    /// Takes a lesson; returns whether it is a new one. Of more than 1,024 models nothing is remembered, and the next
    /// one begins anew; of a name of more than 256 bytes nothing is.
    pub fn learn(&mut self, model: &str, lesson: Lesson) -> bool {
        if model.len() > NAME {
            return false;
        }
        if self.models.len() >= MODELS && !self.models.contains_key(model) {
            self.models.clear();
        }
        self.models.entry(model.to_owned()).or_default().insert(lesson)
    }

    /// Corrects what the table says of a model.
    pub fn correct(&self, model: &str, capability: &mut Capability) {
        for lesson in self.models.get(model).into_iter().flatten() {
            match *lesson {
                Lesson::NoPrefix => capability.prefix = Prefix::None,
                Lesson::Trims => capability.trims = true,
                Lesson::NoMember("response_format") => capability.response_format = false,
                Lesson::NoMember("tools" | "tool_choice") => capability.tools = false,
                Lesson::NoMember(key) => {
                    capability.reasoning_off.take_if(|switch| switch.key == key);
                }
            }
        }
    }
}

/// Models that are remembered: names come from requests, and anybody can invent them.
const MODELS: usize = 1024;
