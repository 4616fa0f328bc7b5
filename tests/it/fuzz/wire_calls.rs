//! Tool calls that are written in turn, in an answer that breaks off at any byte: each call that is
//! cut becomes whole.
//!
//! The first bytes of an input choose how many calls there are and where the stream breaks off. The
//! rest becomes a text in the arguments.

use restitch::internal::relay::Relay;
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::session::{Request, Status, StopReason};
use serde_json::{Value, json};

use super::continued::{Fault, check_form, read, relay, relayed};
use restitch_testing::answers::answer;
use restitch_testing::chat::{DONE, delta};
use restitch_testing::{Rng, chunks, is_doubtful_end, random_cuts, text_cuts};

pub(crate) fn check(input: &[u8]) {
    let Some((&[count, at, at_low, fault], text)) = input.split_first_chunk::<4>() else {
        return;
    };
    let mut rng = Rng::of(input);
    let text = String::from_utf8_lossy(text);
    let arguments: Vec<_> = (0..=count % 3)
        .map(|call| json!({"call": call, "list": [1, {"n": 2}], "text": text}).to_string())
        .collect();
    let mut stream = String::new();
    let mut left: Vec<_> = arguments
        .iter()
        .map(|arguments| parts(arguments, &mut rng))
        .collect();
    let mut begun = vec![false; left.len()];
    while left.iter().any(|parts| !parts.is_empty()) {
        let call = rng.below(left.len());
        if !left[call].is_empty() {
            let part = left[call].remove(0);
            stream += &delta(
                &piece(call, part, std::mem::replace(&mut begun[call], true)),
                None,
            );
        }
    }
    stream += &(delta(&json!({}), Some("tool_calls")) + DONE);

    let at = usize::from(u16::from_be_bytes([at, at_low])) % (stream.len() + 1);
    let mut first = stream[..floor(&stream, at)].to_owned();
    if fault & 4 == 4 {
        // The limit is reached after a whole event.
        first.truncate(whole_events(&first).len());
        if !first.contains("finish_reason\":\"tool_calls") {
            first += &delta(&json!({}), Some("length"));
        }
    }
    let fault = [Fault::Clean, Fault::Dropped, Fault::Stall][usize::from(fault) % 3];
    // A server that closes the connection may leave the last blank line out.
    let is_torn = fault != Fault::Clean;
    let before = read(
        Dialect::Chat,
        if is_torn {
            whole_events(&first)
        } else {
            &first
        },
    );
    let seed = rng.next();
    let split = |body: &[u8]| random_cuts(body.len(), &mut Rng::new(seed ^ body.len() as u64));
    let reply = |_: &Relay, request: &Request| {
        let prompt = request
            .turn
            .as_ref()
            .map(|turn| turn.prompt.as_str())
            .unwrap_or_default();
        let asked = arguments
            .iter()
            .enumerate()
            .find(|(call, _)| prompt.contains(&format!("save_{call}")));
        let (_, rest) = asked.unwrap_or_else(|| panic!("no tool is named: {request:?}"));
        (
            answer(Dialect::Chat, SlotKind::Text, rest, Some("stop"))
                .stream()
                .into_bytes(),
            Fault::Clean,
        )
    };
    if before.tool_args.is_empty() {
        return;
    }
    let found = relayed(
        relay(Dialect::Chat),
        first.as_bytes(),
        fault,
        |body| chunks(body, &split(body)),
        reply,
    );
    let (outcome, _) = found.end().unwrap();
    let body = String::from_utf8_lossy(&found.body);
    let context = format!("{:?} {outcome:?}\n{first}\n\n{body}", fault);
    let is_whole = outcome.status() == Status::Complete;
    let after = match is_whole {
        false if is_torn => read(Dialect::Chat, whole_events(&body)),
        _ => read(Dialect::Chat, &body),
    };
    if is_whole {
        check_form(Dialect::Chat, &body);
    }
    assert_eq!(after.tool_args.len(), before.tool_args.len(), "{context}");
    if outcome.reason() == Some(StopReason::EarlyEnd) {
        // The rest of a call has closers only: nobody knows whether more was due.
        let is_doubtful = before.tool_args.iter().any(|(slot, call)| {
            let whole = &arguments[slot.trim_start_matches("0.").parse::<usize>().unwrap()];
            is_doubtful_end(whole, call.args.len())
        });
        assert!(is_doubtful, "{context}");
        return;
    }
    for (slot, call) in &before.tool_args {
        let whole = &arguments[slot.trim_start_matches("0.").parse::<usize>().unwrap()];
        let expected = if call.args.is_empty() {
            ""
        } else {
            whole.as_str()
        };
        assert_eq!(after.tool_args[slot].args, expected, "{slot} {context}");
        assert_eq!(after.tool_args[slot].id, call.id, "{slot} {context}");
    }
    assert!(
        is_whole || outcome.status() == Status::PassedThrough,
        "{context}"
    );
}

/// Returns a stream without an event that breaks off.
fn whole_events(stream: &str) -> &str {
    &stream[..stream.rfind("\n\n").map_or(0, |end| end + 2)]
}

/// Returns the last place at or before `at` that is between two characters.
fn floor(text: &str, at: usize) -> usize {
    (0..=at)
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

/// Returns arguments in pieces. Several servers begin a call without arguments.
fn parts<'a>(arguments: &'a str, rng: &mut Rng) -> Vec<&'a str> {
    let parts = chunks(arguments.as_bytes(), &text_cuts(arguments, rng));
    let parts = parts
        .into_iter()
        .map(|part| std::str::from_utf8(part).unwrap());
    (rng.below(2) == 0)
        .then_some("")
        .into_iter()
        .chain(parts)
        .collect()
}

/// Returns a delta with more of a call.
fn piece(call: usize, arguments: &str, has_begun: bool) -> Value {
    let mut piece = json!({"index": call, "function": {"arguments": arguments}});
    if !has_begun {
        (piece["id"], piece["type"]) = (format!("call_{call}").into(), "function".into());
        piece["function"]["name"] = format!("save_{call}").into();
    }
    json!({"tool_calls": [piece]})
}
