//! Detects the API of a body by its events, and reads them with that API's reader.

use restitch::internal::wire::{Dialect, Reader};
use restitch::provider::{Delta, Kind};

/// A reader of the events of any API.
#[derive(Debug)]
pub enum AnyReader {
    /// The events from before the API is known: at most 64.
    Pending(Vec<(String, String)>),
    /// The API, and its reader.
    Known(Dialect, Box<dyn Reader>),
}

impl AnyReader {
    /// Creates a reader. With `None` the first event that only one API has decides.
    pub fn new(dialect: Option<Dialect>) -> Self {
        match dialect {
            Some(dialect) => Self::Known(dialect, dialect.wire().reader()),
            None => Self::Pending(Vec::new()),
        }
    }

    /// Returns the API, once it is known.
    pub fn dialect(&self) -> Option<Dialect> {
        match self {
            Self::Pending(_) => None,
            Self::Known(dialect, _) => Some(*dialect),
        }
    }

    /// Reads one event and calls `on` for each delta in it, and before that for those of the events
    /// that were pending.
    pub fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) {
        let pending = match self {
            Self::Known(_, reader) => {
                reader.read(event_type, data, on);
                return;
            }
            Self::Pending(pending) => pending,
        };
        pending.push((event_type.to_owned(), data.to_owned()));
        let mut all = Dialect::ALL.into_iter();
        let own = all.find(|dialect| dialect.wire().recognizes(event_type, data) == Some(true));
        let is_full = pending.len() >= PENDING;
        if let Some(dialect) = own {
            self.decide(dialect, on);
        } else if is_full {
            self.finish(on);
        }
    }

    /// Ends the events. If no event was decisive, chooses the first API that allows all events and
    /// understands at least one.
    pub fn finish(&mut self, on: &mut dyn FnMut(Delta<'_>)) {
        let Self::Pending(pending) = self else {
            return;
        };
        let is_possible = |dialect: &Dialect| {
            let (wire, mut reader) = (dialect.wire(), dialect.wire().reader());
            let mut events = pending.iter();
            let is_allowed = events.all(|(name, data)| wire.recognizes(name, data) != Some(false));
            let mut read = |(name, data): &(String, String)| reader.read(name, data, &mut |_| {});
            is_allowed && pending.iter().any(|event| read(event) != Kind::Other)
        };
        match Dialect::ALL.into_iter().find(is_possible) {
            Some(dialect) => self.decide(dialect, on),
            None => pending.clear(),
        }
    }

    fn decide(&mut self, dialect: Dialect, on: &mut dyn FnMut(Delta<'_>)) {
        let known = Self::Known(dialect, dialect.wire().reader());
        if let Self::Pending(pending) = std::mem::replace(self, known) {
            for (event_type, data) in pending {
                self.read(&event_type, &data, on);
            }
        }
    }
}

/// The most events that wait until the API is known. Streams open with a few pings and empty chunks
/// at most.
const PENDING: usize = 64;
