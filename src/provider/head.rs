//! The members that all events of an answer share.

use std::borrow::Cow;

use super::fields;
use crate::json::edit::Edits;
use crate::json::walk::Raw;

/// Members as the first answer wrote them: names and raw values on one line.
#[derive(Debug, Default)]
pub(super) struct Head(Vec<(&'static str, String)>);

impl Head {
    /// Takes those of an event's members that all events repeat.
    pub(super) fn of<'a>(
        members: impl IntoIterator<Item = (Cow<'a, str>, Raw<'a>)>,
        repeated: &'static [&'static str],
    ) -> Self {
        let member = |(key, value): (Cow<'_, str>, Raw<'_>)| {
            let name = repeated.iter().find(|name| **name == key)?;
            Some((*name, fields::one_line(value.as_str())))
        };
        Self(members.into_iter().filter_map(member).collect())
    }

    /// Returns whether a member is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members().any(|(key, _)| key == name)
    }

    /// Returns the members in their order.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (*key, value.as_str()))
    }

    /// Returns another answer's event with these members instead of its own, except for `kept`.
    /// Every other byte stays.
    pub(super) fn adopt(&self, data: &str, kept: &[&str]) -> String {
        let ours: Vec<_> = self
            .members()
            .filter(|(key, _)| !kept.contains(key))
            .collect();
        let mut edits = Edits::default();
        if let Some(root) = fields::object(data) {
            edits.object(root, &[], &ours);
        }
        edits.apply(data)
    }
}
