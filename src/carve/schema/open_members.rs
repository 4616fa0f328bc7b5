//! The keys of the open containers.

use crate::json::{Event, ParserView, Sink};

/// Collects the keys of each open container: a sink for [`Document::replay`](crate::Document::replay).
#[derive(Debug, Default)]
pub(super) struct OpenMembers {
    open: Vec<Vec<String>>,
}

impl OpenMembers {
    /// Returns the keys of the open container at this depth; none for an array.
    pub(super) fn keys(&self, depth: usize) -> &[String] {
        self.open.get(depth).map_or(&[], Vec::as_slice)
    }

    /// Adds a key of the open container at this depth.
    pub(super) fn add(&mut self, depth: usize, key: &str) {
        if let Some(keys) = self.open.get_mut(depth) {
            keys.push(key.to_owned());
        }
    }
}

impl Sink for OpenMembers {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        match event {
            Event::Begin { .. } => self.open.push(Vec::new()),
            Event::End { .. } => drop(self.open.pop()),
            Event::Key(key) => {
                if let Some(keys) = self.open.last_mut() {
                    keys.push(live.key(key).into_owned());
                }
            }
            _ => {}
        }
    }
}
