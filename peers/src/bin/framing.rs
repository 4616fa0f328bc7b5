//! The race of decoders of server-sent events: reads of 16 KiB, reads of 1,400 bytes (a TCP segment), and reads of one event
//! each.

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::hint::black_box;
use std::pin::Pin;
use std::slice::Iter;
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use restitch::Limits;
use restitch::sse::Decoder;
use restitch_peers::input::{chat_events, sections};
use restitch_peers::table::{print, row, short};
use restitch_peers::timing::{Party, race};
use sse_stream::SseByteStream;

const ROUNDS: usize = 21;

fn main() {
    let events = chat_events(&sections(64 << 10));
    let body = events.concat();
    let mut rows = vec![row([
        "ns an event (÷ `restitch`)",
        "restitch `Decoder`",
        "`Decoder`, data copied",
        "sse-stream",
    ])];
    let reads: [(&str, Vec<&[u8]>); 3] = [
        ("reads of 16 KiB", body.chunks(16 << 10).collect()),
        ("reads of 1,400 bytes", body.chunks(1_400).collect()),
        (
            "reads of one event",
            events.iter().map(Vec::as_slice).collect(),
        ),
    ];
    for (name, reads) in &reads {
        assert_eq!(restitch(reads, |_| {}), events.len());
        assert_eq!(sse_stream(reads), events.len());
        let mut parties = [
            Party::new("", || {
                black_box(restitch(reads, |data| {
                    black_box(data);
                }));
            }),
            Party::new("", || {
                black_box(restitch(reads, |data| {
                    black_box(data.to_owned());
                }));
            }),
            Party::new("", || {
                black_box(sse_stream(reads));
            }),
        ];
        let times = race(&mut parties, ROUNDS);
        let cell = |n: usize| {
            format!(
                "{} ({:.2})",
                short(times.median(n) / events.len() as f64),
                times.ratio(n, 0)
            )
        };
        rows.push(
            std::iter::once((*name).to_owned())
                .chain((0..3).map(cell))
                .collect(),
        );
    }
    print("Framing of server-sent events", &rows);
}

/// Returns the number of events.
fn restitch(reads: &[&[u8]], mut look: impl FnMut(&str)) -> usize {
    let mut decoder = Decoder::new(&Limits::default());
    let mut count = 0;
    for &read in reads {
        let mut input = black_box(read);
        while let Some(event) = decoder
            .next_event(&mut input)
            .expect("no event is too long")
        {
            look(&event.data);
            count += 1;
        }
    }
    count
}

/// Returns the number of events.
fn sse_stream(reads: &[&[u8]]) -> usize {
    let mut stream = SseByteStream::new(Reads(reads.iter()));
    let mut context = Context::from_waker(Waker::noop());
    let mut count = 0;
    while let Poll::Ready(Some(event)) = Pin::new(&mut stream).poll_next(&mut context) {
        black_box(event.expect("the stream is valid"));
        count += 1;
    }
    count
}

/// A stream whose reads are all there.
struct Reads<'a>(Iter<'a, &'a [u8]>);

impl<'a> Stream for Reads<'a> {
    type Item = Result<&'a [u8], Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().map(|read| Ok(black_box(*read))))
    }
}
