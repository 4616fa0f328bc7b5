//! Event streams: the result does not depend on the chunks, the ranges cover the stream, and the
//! decoder reads what the encoder writes.

use std::ops::Range;

use restitch::Limits;
use restitch::sse::{DecodeError, Decoder, Encoder, Event};

use restitch_testing::{Rng, chunks, random_cuts};

/// An event that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) event: String,
    pub(crate) data: String,
    pub(crate) id: String,
    pub(crate) range: Range<u64>,
    pub(crate) terminated: bool,
}

/// Everything that a decoder reported about a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) events: Vec<Seen>,
    pub(crate) error: Option<DecodeError>,
    pub(crate) offset: u64,
    pub(crate) boundary: u64,
    pub(crate) retry: Option<u64>,
    pub(crate) last_event_id: String,
}

/// Pushes `input` in the pieces between `cuts`, and ends the stream.
pub(crate) fn decode(limits: &Limits, input: &[u8], cuts: &[usize]) -> Record {
    let mut decoder = Decoder::new(limits);
    let mut events = Vec::new();
    let error = drain(&mut decoder, input, cuts, &mut events).err();
    if let Some(error) = error {
        let mut more = &b"data: more\n\n"[..];
        assert_eq!(
            decoder.next_event(&mut more),
            Err(error),
            "a failure is final"
        );
        assert_eq!(more.len(), 12, "a failed decoder takes nothing");
        assert_eq!(decoder.finish(), Err(error));
    }
    Record {
        events,
        error,
        offset: decoder.offset(),
        boundary: decoder.boundary(),
        retry: decoder.retry(),
        last_event_id: decoder.last_event_id().to_owned(),
    }
}

fn drain(
    decoder: &mut Decoder,
    input: &[u8],
    cuts: &[usize],
    events: &mut Vec<Seen>,
) -> Result<(), DecodeError> {
    let mut pushed = 0;
    for mut chunk in chunks(input, cuts) {
        pushed += chunk.len() as u64;
        loop {
            let event = decoder.next_event(&mut chunk)?;
            let Some(event) = event.map(seen) else { break };
            events.push(event);
            assert_eq!(decoder.offset(), pushed - chunk.len() as u64);
            assert_eq!(
                decoder.boundary(),
                decoder.offset(),
                "an event ends at a blank line"
            );
        }
        assert!(chunk.is_empty(), "`None` means drained");
        assert_eq!(decoder.offset(), pushed);
        assert!(decoder.boundary() <= pushed);
    }
    events.extend(decoder.finish()?.map(seen));
    assert_eq!(decoder.finish(), Ok(None));
    Ok(())
}

fn seen(event: Event<'_>) -> Seen {
    Seen {
        event: event.event.into_owned(),
        data: event.data.into_owned(),
        id: event.id.into_owned(),
        range: event.range,
        terminated: event.terminated,
    }
}

/// Ranges start at 0, have no gap, and end at the boundary or, in a CRLF, one byte before it. Only
/// the last event can lack its blank line; then it has the rest of the stream.
pub(crate) fn assert_tiles(record: &Record) {
    let mut end = 0;
    for (at, event) in record.events.iter().enumerate() {
        assert_eq!(event.range.start, end, "event {at}");
        assert!(event.range.start < event.range.end, "event {at}");
        end = event.range.end;
        if event.terminated {
            assert!(end <= record.boundary, "event {at}");
        } else {
            assert_eq!(
                at + 1,
                record.events.len(),
                "an unterminated event is the last one"
            );
            assert_eq!(end, record.offset);
        }
    }
    assert!(record.boundary <= record.offset);
}

pub(crate) fn check(input: &[u8]) {
    let seed = input.iter().fold(input.len() as u64, |seed, &byte| {
        seed.rotate_left(8) ^ u64::from(byte)
    });
    let mut rng = Rng::new(seed);
    let tight = Limits::default()
        .with_max_line_bytes(1 + rng.below(40))
        .with_max_event_bytes(1 + rng.below(80));
    for limits in [&Limits::default(), &tight] {
        let whole = decode(limits, input, &[]);
        assert_tiles(&whole);
        let bytewise: Vec<_> = (1..input.len()).collect();
        assert_eq!(decode(limits, input, &bytewise), whole, "byte by byte");
        for _ in 0..4 {
            let cuts = random_cuts(input.len(), &mut rng);
            assert_eq!(decode(limits, input, &cuts), whole, "cut at {cuts:?}");
        }
        assert_round_trip(&whole.events);
    }
}

/// Decoded text has no CR, so the encoder can write all of it.
fn assert_round_trip(events: &[Seen]) {
    let mut out = Vec::new();
    let mut expect = Vec::new();
    for event in events {
        let start = out.len() as u64;
        Encoder::comment(&mut out, &event.data);
        Encoder::event(&mut out, Some(&event.event), Some(&event.id), &event.data);
        expect.push(Seen {
            range: start..out.len() as u64,
            terminated: true,
            ..event.clone()
        });
    }
    let record = decode(&Limits::default(), &out, &[]);
    assert_eq!(record.events, expect);
    assert_eq!(record.boundary, out.len() as u64);
    assert_eq!(record.error, None);
}
