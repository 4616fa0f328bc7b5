//! A map by the model names of requests.

use std::collections::BTreeMap;

use super::NAME;

/// Values by the names of models. Names come from requests, and any client can invent them: all
/// values are dropped before the 1,025th model, and names of more than 256 bytes have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByModel<T>(BTreeMap<String, T>);

impl<T> Default for ByModel<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Default> ByModel<T> {
    /// Returns the value of a model.
    pub fn get(&self, model: &str) -> Option<&T> {
        self.0.get(model)
    }

    /// Returns the value of a model, to change it.
    pub fn get_mut(&mut self, model: &str) -> Option<&mut T> {
        self.0.get_mut(model)
    }

    /// Returns the value of a model, which may be new. `None`: its name is too long.
    pub fn entry(&mut self, model: &str) -> Option<&mut T> {
        if model.len() > NAME {
            return None;
        }
        // Most names are known, and are not copied.
        if !self.0.contains_key(model) {
            if self.0.len() >= MODELS {
                self.0.clear();
            }
            self.0.insert(model.to_owned(), T::default());
        }
        self.0.get_mut(model)
    }

    /// Returns the models and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(model, value)| (model.as_str(), value))
    }

    /// Returns how many models have a value.
    pub fn models(&self) -> usize {
        self.0.len()
    }
}

/// The most models that have a value.
const MODELS: usize = 1024;
