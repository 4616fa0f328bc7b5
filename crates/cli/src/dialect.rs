//! Detects the API of a body by its events, and reads them with that API's reader.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use restitch::internal::wire::{Dialect, Reader};
use restitch::provider::{Delta, Kind};

/// Returns a parser of an argument that is the name of a dialect.
pub(super) fn named() -> impl TypedValueParser<Value = Dialect> {
    let of = |name: String| {
        Dialect::ALL
            .into_iter()
            .find(|dialect| dialect.as_str() == name)
    };
    PossibleValuesParser::new(Dialect::ALL.map(Dialect::as_str))
        .try_map(move |name| of(name).ok_or("it is no API"))
}

/// A reader of the events of any API.
#[derive(Debug, Default)]
pub struct AnyReader {
    dialect: Option<Dialect>,
    reader: Option<Box<dyn Reader>>,
    /// The events from before the API was known: at most [`PENDING`].
    pending: Vec<(String, String)>,
    /// The APIs that lack a pending event.
    denied: Vec<Dialect>,
}

impl AnyReader {
    /// Creates a reader. With `None` the first event that only one API has decides.
    pub fn new(dialect: Option<Dialect>) -> Self {
        Self {
            dialect,
            reader: dialect.map(|dialect| dialect.wire().reader()),
            ..Self::default()
        }
    }

    /// Returns the API, once it is known.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Reads one event and calls `on` for each delta in it, and before that for those of the events
    /// that were pending.
    pub fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) {
        if let Some(reader) = &mut self.reader {
            reader.read(event_type, data, on);
            return;
        }
        self.pending.push((event_type.to_owned(), data.to_owned()));
        if let Some(dialect) = self.recognize(event_type, data) {
            self.decide(dialect, on);
        } else if self.pending.len() >= PENDING {
            self.finish(on);
            self.pending.clear();
        }
    }

    /// Ends the events. If no event was decisive, chooses the first API that allows all events and
    /// understands at least one.
    pub fn finish(&mut self, on: &mut dyn FnMut(Delta<'_>)) {
        if self.dialect.is_some() {
            return;
        }
        let pending = &self.pending;
        let understands = |dialect: &Dialect| {
            let mut reader = dialect.wire().reader();
            pending
                .iter()
                .any(|(event_type, data)| reader.read(event_type, data, &mut |_| {}) != Kind::Other)
        };
        let mut possible = Dialect::ALL
            .into_iter()
            .filter(|dialect| !self.denied.contains(dialect));
        if let Some(dialect) = possible.find(understands) {
            self.decide(dialect, on);
        }
    }

    /// Returns the API if no other has this event, and records the APIs that can't have it.
    fn recognize(&mut self, event_type: &str, data: &str) -> Option<Dialect> {
        for dialect in Dialect::ALL {
            match dialect.wire().recognizes(event_type, data) {
                Some(true) => return Some(dialect),
                Some(false) if !self.denied.contains(&dialect) => self.denied.push(dialect),
                _ => {}
            }
        }
        None
    }

    fn decide(&mut self, dialect: Dialect, on: &mut dyn FnMut(Delta<'_>)) {
        let mut reader = dialect.wire().reader();
        for (event_type, data) in self.pending.drain(..) {
            reader.read(&event_type, &data, on);
        }
        (self.dialect, self.reader) = (Some(dialect), Some(reader));
    }
}

/// The most events that wait until the API is known. Streams open with a few pings and empty chunks
/// at most.
const PENDING: usize = 64;
