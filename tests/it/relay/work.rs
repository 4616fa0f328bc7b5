//! What a relay allocates for an event of a healthy stream.

use allocation_counter::measure;
use bytes::Bytes;
use restitch::Limits;
use restitch::internal::relay::{Output, Relay};
use restitch::internal::wire::Dialect;
use serde_json::{Value, json};

use super::NOW;

/// Returns an event with text and with what changes from event to event.
fn event(dialect: Dialect, n: usize, text: &str) -> Bytes {
    let padding = "p".repeat(n * 7 % 15);
    let (name, data) = match dialect {
        Dialect::Messages => (
            "content_block_delta",
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        ),
        Dialect::Responses => (
            "response.output_text.delta",
            json!({"type": "response.output_text.delta", "sequence_number": n + 10, "item_id": "msg", "output_index": 0,
                "content_index": 0, "delta": text, "logprobs": [], "obfuscation": padding}),
        ),
        _ => (
            "message",
            json!({"id": "a", "created": 17, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}],
                "obfuscation": padding}),
        ),
    };
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// Returns the events before the first text.
fn start(dialect: Dialect) -> String {
    let events: Vec<(&str, Value)> = match dialect {
        Dialect::Messages => vec![
            (
                "message_start",
                json!({"type": "message_start", "message": {"id": "m", "content": []}}),
            ),
            (
                "content_block_start",
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ),
        ],
        Dialect::Responses => vec![
            (
                "response.created",
                json!({"type": "response.created", "sequence_number": 0, "response": {"id": "r", "output": []}}),
            ),
            (
                "response.output_item.added",
                json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0,
                    "item": {"id": "msg", "type": "message", "content": []}}),
            ),
        ],
        _ => Vec::new(),
    };
    events
        .iter()
        .map(|(name, data)| format!("event: {name}\ndata: {data}\n\n"))
        .collect()
}

/// Passes events on, one in each read. Returns how many bytes leave.
fn pass(relay: &mut Relay, events: &[Bytes]) -> usize {
    let mut forwarded = 0;
    for event in events {
        relay.handle_bytes(NOW, event.clone());
        while let Some(output) = relay.poll_output() {
            if let Output::Bytes(bytes) = output {
                forwarded += bytes.len();
            }
        }
    }
    forwarded
}

/// The text, its sections and its children are kept, in buffers that double. Nothing else is
/// allocated.
#[test]
fn an_event_of_a_healthy_stream_allocates_nothing() {
    const EVENTS: usize = 8000;
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        let mut relay = Relay::new(Limits::default()).dialect(dialect);
        pass(
            &mut relay,
            &[start(dialect).into(), event(dialect, 0, "{\"text\": \"")],
        );
        let events: Vec<_> = (1..2 * EVENTS)
            .map(|n| event(dialect, n, "so on\n"))
            .collect();
        let (warm, rest) = events.split_at(EVENTS);
        pass(&mut relay, warm);
        let mut forwarded = 0;
        let cost = measure(|| forwarded = pass(&mut relay, rest));
        assert_eq!(forwarded, rest.iter().map(Bytes::len).sum::<usize>());
        println!(
            "{dialect}: {} allocations in {EVENTS} events",
            cost.count_total
        );
        // The text doubles once or twice; the writer of Responses has a copy of it.
        assert!(cost.count_total <= 8, "{dialect}: {cost:?}");
    }
}
