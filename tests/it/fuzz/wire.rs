//! Any bytes as streams of each API through a relay: the chunks change nothing, an answer that passes loses nothing, and
//! the relay ends.
//!
//! The first bytes of an input choose the API and the settings. The rest is the streams of the calls.

use restitch::Limits;
use restitch::internal::relay::{Reattach, Relay, TransportEnd};
use restitch::internal::wire::Dialect;
use restitch::repair::RepairOptions;
use restitch::session::{ContinuationStrategy, GiveUp, Request, Status};

use super::continued::{Fault, Relayed, relayed};
use crate::support::{Rng, chunks, random_cuts};

/// Separates the streams of the calls.
const SEPARATOR: u8 = 0x1f;

pub(crate) fn check(input: &[u8]) {
    let Some((&[dialect, settings, fault], streams)) = input.split_first_chunk::<3>() else { return };
    let dialect = Dialect::ALL[usize::from(dialect) % Dialect::ALL.len()];
    let fault = [Fault::Clean, Fault::Dropped, Fault::Stall][usize::from(fault) % 3];
    let streams: Vec<_> = streams.split(|byte| *byte == SEPARATOR).collect();
    let play = |cuts: &dyn Fn(usize) -> Vec<usize>| {
        let mut rest = streams.iter().skip(1);
        let reply =
            |_: &Relay, _: &Request| (rest.next().map_or_else(Vec::new, |stream| stream.to_vec()), Fault::Clean);
        relayed(relay(dialect, settings), streams[0], fault, |body| chunks(body, &cuts(body.len())), reply)
    };
    let whole = play(&|_| Vec::new());
    assert_eq!(play(&|len| (1..len).collect()), whole, "byte by byte");
    let seed = Rng::of(input).next();
    assert_eq!(play(&|len| random_cuts(len, &mut Rng::new(seed ^ len as u64))), whole, "in pieces");
    check_passed(streams[0], fault, settings, &whole);
}

fn relay(dialect: Dialect, settings: u8) -> Relay {
    let is_on = |bit: u8| settings >> bit & 1 == 1;
    let mut relay = Relay::new(Limits::default().with_max_line_bytes(if is_on(0) { 60 } else { 1 << 20 }));
    relay = relay.dialect(dialect).request(Vec::new(), if is_on(1) { 2 } else { 1 });
    if is_on(2) {
        relay = relay.repair(RepairOptions::default());
    }
    if is_on(3) {
        relay = relay.strategy(ContinuationStrategy::default().prefill(Default::default()));
    }
    if is_on(4) {
        relay = relay.reattaching(if is_on(7) { Reattach::NextByte } else { Reattach::NextEvent });
    }
    if is_on(5) {
        relay = relay.trust_stop();
    }
    relay.give_up(if is_on(6) { GiveUp::Leave } else { GiveUp::Close })
}

/// Checks that an answer that passes and whose text is not changed leaves with all its bytes.
fn check_passed(first: &[u8], fault: Fault, settings: u8, relayed: &Relayed) {
    let (outcome, transport_end) = relayed.end().unwrap();
    if outcome.status() != Status::PassedThrough || relayed.calls() > 0 || settings >> 2 & 1 == 1 {
        return;
    }
    // Where only the end of a stream was lost, it is written in place of the event that broke off.
    let is_ended = fault != Fault::Clean && transport_end == TransportEnd::Closed;
    let shown = || String::from_utf8_lossy(&relayed.body);
    assert!(is_ended || relayed.body.starts_with(first), "{}", shown());
    if is_ended {
        let same = relayed.body.iter().zip(first).take_while(|(own, first)| own == first).count();
        let lost = &first[same..];
        assert!(!lost.windows(2).any(|pair| pair == b"\n\n"), "{lost:?} {}", shown());
    }
}
