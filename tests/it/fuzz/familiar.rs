//! An event that resembles the one before means what it means to a reader that has seen no such
//! event.
//!
//! The first byte of an input chooses the API. The rest is the data of its events, one a line.

use restitch::internal::json::walk;
use restitch::internal::wire::Dialect;

/// The name of an event, and its data.
pub(crate) type Event = (String, String);

/// The wires whose readers remember the form of an event.
pub(crate) const WIRES: [Dialect; 4] = [
    Dialect::Chat,
    Dialect::Messages,
    Dialect::Responses,
    Dialect::Gemini,
];

pub(crate) fn check(input: &[u8]) {
    let Some((first, data)) = input.split_first() else {
        return;
    };
    let data = String::from_utf8_lossy(data);
    let events: Vec<Event> = data
        .split('\n')
        .map(|data| ("message".to_owned(), data.to_owned()))
        .collect();
    check_events(WIRES[usize::from(*first) % WIRES.len()], &events);
}

/// Compares with the same events, none of which is familiar.
pub(crate) fn check_events(dialect: Dialect, events: &[Event]) {
    assert_eq!(
        deltas(dialect, events),
        deltas(dialect, &unfamiliar(dialect, events)),
        "{events:?}"
    );
}

/// Returns events with the same meaning that the reader does not recognise: a reader of chats or of Gemini
/// takes events of one name for familiar alone, and in front of an object white space means nothing.
fn unfamiliar(dialect: Dialect, events: &[Event]) -> Vec<Event> {
    let mut apart = events.to_vec();
    for (at, (name, data)) in apart.iter_mut().enumerate() {
        if matches!(dialect, Dialect::Chat | Dialect::Gemini) && name != "error" {
            *name = at.to_string();
        } else if data.starts_with('{') && walk::is_valid(data) {
            data.insert_str(0, &" ".repeat(at + 1));
        }
    }
    apart
}

/// Returns each delta on one line, and what a reader keeps for the next call.
fn deltas(dialect: Dialect, events: &[Event]) -> Vec<String> {
    let (mut reader, mut seen) = (dialect.wire().reader(), Vec::new());
    for (name, data) in events {
        let kind = reader.read(name, data, &mut |delta| seen.push(format!("{delta:?}")));
        seen.push(format!("{kind:?}"));
    }
    seen.push(format!("{:?}", reader.checkpoints()));
    seen
}
