//! Any bytes as streams of each API through a relay: the chunks change nothing, an answer that
//! passes loses nothing, and the relay ends.
//!
//! The first bytes of an input choose the API and the settings. The rest is the streams of the
//! calls.

use std::collections::BTreeSet;

use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, Reattach, Relay, TransportEnd};
use restitch::internal::wire::Dialect;
use restitch::repair::RepairOptions;
use restitch::session::{ContinuationStrategy, GiveUp, Request, Status};
use serde_json::{Value, json};

use super::continued::{Fault, Relayed, relayed};
use restitch_testing::{Rng, chunks, random_cuts};

/// Separates the streams of the calls.
const SEPARATOR: u8 = 0x1f;

pub(crate) fn check(input: &[u8]) {
    let Some((&[dialect, settings, fault], streams)) = input.split_first_chunk::<3>() else {
        return;
    };
    let dialect = Dialect::ALL[usize::from(dialect) % Dialect::ALL.len()];
    let fault = [Fault::Clean, Fault::Dropped, Fault::Stall][usize::from(fault) % 3];
    let streams: Vec<_> = streams.split(|byte| *byte == SEPARATOR).collect();
    let play = |cuts: &dyn Fn(usize) -> Vec<usize>| {
        let mut rest = streams.iter().skip(1);
        let reply = |_: &Relay, _: &Request| {
            (
                rest.next().map_or_else(Vec::new, |stream| stream.to_vec()),
                Fault::Clean,
            )
        };
        relayed(
            relay(dialect, settings),
            streams[0],
            fault,
            |body| chunks(body, &cuts(body.len())),
            reply,
        )
    };
    let whole = play(&|_| Vec::new());
    assert_eq!(play(&|len| (1..len).collect()), whole, "byte by byte");
    let seed = Rng::of(input).next();
    assert_eq!(
        play(&|len| random_cuts(len, &mut Rng::new(seed ^ len as u64))),
        whole,
        "in pieces"
    );
    check_passed(streams[0], fault, settings, &whole);
    if settings >> 2 & 1 == 0 && whole.calls() == 0 {
        check_finishes(streams[0], &whole);
    }
}

fn relay(dialect: Dialect, settings: u8) -> Relay {
    let is_on = |bit: u8| settings >> bit & 1 == 1;
    let mut relay =
        Relay::new(Limits::default().with_max_line_bytes(if is_on(0) { 60 } else { 1 << 20 }));
    relay = relay
        .dialect(dialect)
        .request(Vec::new(), if is_on(1) { 2 } else { 1 });
    if is_on(2) {
        relay = relay.repair(RepairOptions::default());
    }
    if is_on(3) {
        relay = relay.strategy(ContinuationStrategy::default().prefill(Default::default()));
    }
    if is_on(4) {
        relay = relay.reattaching(if is_on(7) {
            Reattach::NextByte
        } else {
            Reattach::NextEvent
        });
    }
    if is_on(5) {
        relay = relay.trust_stop();
    }
    relay.give_up(if is_on(6) {
        GiveUp::Leave
    } else {
        GiveUp::Close
    })
}

/// Checks that an answer that passes and whose text is not changed leaves with all its bytes.
fn check_passed(first: &[u8], fault: Fault, settings: u8, relayed: &Relayed) {
    let (outcome, transport_end) = relayed.end().unwrap();
    if outcome.status() != Status::PassedThrough || relayed.calls() > 0 || settings >> 2 & 1 == 1 {
        return;
    }
    // Where only the end of a stream was lost, it is written in place of the event that broke off.
    let is_ended = fault != Fault::Clean && transport_end == TransportEnd::Closed;
    // Where a limit ends it, an error is.
    let is_ended = is_ended || fault == Fault::Stall && outcome.tally().limit.is_some();
    let shown = || String::from_utf8_lossy(&relayed.body);
    assert!(
        is_ended || relayed.body.starts_with(first) || is_kept_back(first, &relayed.body),
        "{}",
        shown()
    );
    if is_ended {
        let same = relayed
            .body
            .iter()
            .zip(first)
            .take_while(|(own, first)| own == first)
            .count();
        let lost = &first[same..];
        assert!(
            !lost.windows(2).any(|pair| pair == b"\n\n"),
            "{lost:?} {}",
            shown()
        );
    }
}

/// Returns whether all whole events of a stream have left, and nothing but the finishes of some was
/// kept back, which events between them tell.
fn is_kept_back(first: &[u8], body: &[u8]) -> bool {
    let without_finishes = |event: &str| {
        let mut data: Value = serde_json::from_str(event.strip_prefix("data:")?).ok()?;
        let choices = data.get_mut("choices")?.as_array_mut()?;
        for choice in choices.iter_mut().filter_map(Value::as_object_mut) {
            choice.insert("finish_reason".to_owned(), Value::Null);
        }
        Some(data)
    };
    let (first, body) = (
        String::from_utf8_lossy(first),
        String::from_utf8_lossy(body),
    );
    let mut sent = body.split("\n\n");
    // A finish that the stream has itself, or that of a choice whose end never came.
    let tells_finish = |event: &str| {
        let data: Option<Value> = event
            .strip_prefix("data:")
            .and_then(|data| serde_json::from_str(data).ok());
        let choices = data
            .as_ref()
            .and_then(|data| data.get("choices")?.as_array());
        let is_own = |reason: &Value| {
            reason.is_string() && (reason == "length" || first.contains(&reason.to_string()))
        };
        choices.is_some_and(|choices| {
            !choices.is_empty()
                && choices
                    .iter()
                    .all(|one| one["delta"] == json!({}) && is_own(&one["finish_reason"]))
        })
    };
    let is_sent = |event: &str| {
        let is_same = |sent: &str| {
            event == sent
                || without_finishes(event).is_some_and(|own| Some(own) == without_finishes(sent))
        };
        sent.find(|sent| is_same(sent) || !tells_finish(sent))
            .is_some_and(is_same)
    };
    let (whole, _) = first.rsplit_once("\n\n").unwrap_or_default();
    whole.split("\n\n").all(is_sent)
}

/// Checks that the client sees each finish reason of an answer that is not continued: whether its
/// end was kept back, or left as it came.
fn check_finishes(first: &[u8], relayed: &Relayed) {
    let (own, client) = (finish_reasons(first), finish_reasons(&relayed.body));
    let shown = || String::from_utf8_lossy(&relayed.body);
    assert!(
        own.iter().all(|reason| client.contains(reason)),
        "{own:?} {client:?} {}",
        shown()
    );
}

/// Returns the finish reasons in the whole events of a stream, where no event can be read in two
/// ways.
fn finish_reasons(stream: &[u8]) -> BTreeSet<String> {
    const NAME: &str = "\"finish_reason\"";
    let stream = String::from_utf8_lossy(stream);
    let data = stream
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data:"));
    let events = data
        .filter(|data| data.matches(NAME).count() == 1)
        .map(serde_json::from_str::<Value>);
    let choices = events
        .flatten()
        .filter_map(|event| event["choices"].as_array().cloned())
        .flatten();
    choices
        .filter_map(|choice| Some(choice["finish_reason"].as_str()?.to_owned()))
        .collect()
}
