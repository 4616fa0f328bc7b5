//! Divides a body into events, detects its API by them, and reads them with that API's reader.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use restitch::Limits;
use restitch::internal::wire::{Dialect, Framing, Reader};
use restitch::provider::{Delta, Kind};
use restitch::sse::Framed;

/// The API of a body, as an argument: `auto` or a name of the table of wires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Found by reading the body.
    #[default]
    Auto,
    /// This one.
    Known(Dialect),
}

impl Choice {
    /// Returns the API, unless it must be detected.
    pub(super) fn dialect(self) -> Option<Dialect> {
        match self {
            Self::Auto => None,
            Self::Known(dialect) => Some(dialect),
        }
    }
}

/// All values of the argument.
const CHOICES: [Choice; Dialect::ALL.len() + 1] = {
    let mut choices = [Choice::Auto; Dialect::ALL.len() + 1];
    let mut at = 0;
    while at < Dialect::ALL.len() {
        choices[at + 1] = Choice::Known(Dialect::ALL[at]);
        at += 1;
    }
    choices
};

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Auto => PossibleValue::new("auto").help("Found by reading the body"),
            Self::Known(dialect) => PossibleValue::new(dialect.as_str()),
        })
    }
}

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

/// Creates a decoder for a body with this first byte after white space. No event stream begins with
/// a bracket.
pub(super) fn framed(dialect: Option<Dialect>, first: u8) -> Framed {
    let framing = match dialect.map(|dialect| dialect.wire().framing()) {
        Some(Framing::Lines) => Framing::Lines,
        _ if first == b'[' => Framing::Array,
        _ => Framing::Events,
    };
    Framed::new(framing, &Limits::default())
}

/// Returns the first byte that is neither white space nor of a byte order mark.
pub(super) fn first_significant(bytes: &[u8]) -> Option<u8> {
    bytes
        .iter()
        .copied()
        .find(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf))
}

/// A reader of the events of any API.
#[derive(Debug, Default)]
pub(super) struct AnyReader {
    dialect: Option<Dialect>,
    reader: Option<Box<dyn Reader>>,
    /// The events from before the API was known: at most [`PENDING`].
    pending: Vec<(String, String)>,
    /// The APIs that lack a pending event.
    denied: Vec<Dialect>,
}

impl AnyReader {
    /// Creates a reader. With `None` the first event that only one API has decides.
    pub(super) fn new(dialect: Option<Dialect>) -> Self {
        Self {
            dialect,
            reader: dialect.map(|dialect| dialect.wire().reader()),
            ..Self::default()
        }
    }

    /// Returns the API, once it is known.
    pub(super) fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Reads one event and calls `on` for each delta in it, and before that for those of the events
    /// that were pending.
    pub(super) fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) {
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

    /// Reads a whole answer that is one JSON object.
    pub(super) fn read_body(&mut self, body: &str, on: &mut dyn FnMut(Delta<'_>)) {
        if let Some(dialect) = self.dialect.or_else(|| self.recognize("message", body))
            && dialect.wire().read_body(body, on)
        {
            self.dialect = Some(dialect);
            return;
        }
        // It may be one event of a stream, or an error that several APIs have.
        self.read("message", body, on);
    }

    /// Ends the events. If no event was decisive, chooses the first API that allows all events and
    /// understands at least one.
    pub(super) fn finish(&mut self, on: &mut dyn FnMut(Delta<'_>)) {
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
