//! Answers of each API that break off at any byte and are continued: the client reads the text
//! once, in one answer that has one end.
//!
//! The first bytes of an input choose the API, where its stream breaks off, how it is written and
//! how it goes on. The rest becomes a text of the document.

use std::fmt::Write;

use restitch::internal::relay::{AnswerOptions, Relay, TransportEnd};
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::session::{ContinuationMode, ContinuationStrategy, Request, Status};
use serde_json::json;

use super::continued::{Fault, carried, check_form, read, relay, relayed, text_of};
use restitch_testing::answers::Answer;
use restitch_testing::{Rng, chunks, random_cuts, text_cuts};

/// Halves of surrogate pairs, while they are in texts: the first high one, and the first low one.
const HALVES: [u32; 2] = [0xf0000, 0xf0400];

/// The digits after `\ud` in a high half and in a low one.
const HIGH: [char; 4] = ['8', '9', 'a', 'b'];
const LOW: [char; 4] = ['c', 'd', 'e', 'f'];

pub(crate) fn check(input: &[u8]) {
    let Some((&[api, at, at_low, fault, style, text_style], body)) = input.split_first_chunk::<6>()
    else {
        return;
    };
    let (dialect, kind) = carried().nth(usize::from(api) % carried().count()).unwrap();
    let mut rng = Rng::of(input);
    let document = document(body, text_style);
    let parts = parts(&document, &mut rng);
    let style = Style { dialect, style };
    let reason = if kind == SlotKind::Text {
        "stop"
    } else {
        "tool_calls"
    };
    let of = |kind, parts: &[String], reason| {
        style.write(&Answer {
            dialect,
            kind,
            parts: parts.iter().map(String::as_str).collect(),
            reason: Some(reason),
        })
    };
    let healthy = of(kind, &parts, reason);
    let split = |body: &[u8], seed| random_cuts(body.len(), &mut Rng::new(seed));
    let seed = rng.next();
    let run = |relay: Relay, first: &[u8], fault, reply: &dyn Fn(&Relay, &Request) -> Vec<u8>| {
        let reply = |relay: &Relay, request: &Request| (reply(relay, request), Fault::Clean);
        relayed(
            relay,
            first,
            fault,
            |body| chunks(body, &split(body, seed)),
            reply,
        )
    };

    let passed = run(relay(dialect), &healthy, Fault::Clean, &|_, _| Vec::new());
    assert!(
        passed.body == healthy && passed.calls() == 0,
        "{dialect} {}",
        show(&passed.body)
    );
    let read_back = read(dialect, std::str::from_utf8(&healthy).unwrap());
    assert_eq!(
        text_of(kind, &read_back),
        document,
        "{dialect} {}",
        show(&healthy)
    );

    let at = usize::from(u16::from_be_bytes([at, at_low]));
    let is_limit = fault & 4 == 4;
    let first = if is_limit {
        let cut = (1..=1 + at % document.len())
            .rev()
            .find(|&at| document.is_char_boundary(at))
            .unwrap_or(0);
        of(kind, &self::parts(&document[..cut], &mut rng), "length")
    } else {
        healthy[..at % (healthy.len() + 1)].to_vec()
    };
    let fault = if is_limit {
        Fault::Clean
    } else {
        [Fault::Clean, Fault::Dropped, Fault::Stall][usize::from(fault % 4) % 3]
    };
    let shown = show(&first);
    // The last event may count without its end.
    if has_open_half(&shown) || has_open_half(end_events(dialect, &shown)) {
        // The half that the client has can't be completed.
        return;
    }
    let is_prefill = dialect == Dialect::Completions || text_style >> 7 == 1;
    let reply = |relay: &Relay, request: &Request| {
        let delivered = relay.session().document().text();
        assert!(document.starts_with(delivered), "{delivered:?}");
        let is_prefill = request
            .turn
            .as_ref()
            .is_some_and(|turn| turn.mode == ContinuationMode::Prefill);
        let rest = if is_prefill {
            &document[delivered.len()..]
        } else {
            document.as_str()
        };
        of(SlotKind::Text, &[rest.to_owned()], "stop")
    };
    let relay = match is_prefill {
        true => {
            relay(dialect).strategy(ContinuationStrategy::default().prefill(Default::default()))
        }
        false => relay(dialect),
    };
    let found = run(relay, &first, fault, &reply);
    let context = format!(
        "{dialect} {kind:?} {fault:?}\n{}\n\n{}",
        show(&first),
        show(&found.body)
    );
    let (outcome, transport_end) = found.end().unwrap();
    let whole = String::from_utf8_lossy(&found.body);
    match outcome.status() {
        Status::Complete => {
            let read = read(dialect, &whole);
            assert_eq!(
                text_of(SlotKind::Text, &read) + &text_of(SlotKind::Arguments, &read),
                document,
                "{context}"
            );
            assert_eq!(transport_end, TransportEnd::Closed, "{context}");
            // The check reads events with a parser that takes no halves of surrogate pairs.
            if last_half(&shown, &HIGH).is_none() {
                check_form(dialect, &whole);
            }
        }
        // The document was there, or nothing of it: then the answer ends as it came.
        Status::PassedThrough => {
            let text = text_of(kind, &read(dialect, end_events(dialect, &whole)));
            assert!(text.is_empty() || text == document, "{context}");
        }
        other => panic!("{other} {outcome:?} {context}"),
    }
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns what of a body clients read: they drop an event that breaks off. A line ends at its CR,
/// whether or not an LF follows.
fn end_events(dialect: Dialect, body: &str) -> &str {
    let ends: &[&str] = if dialect == Dialect::Ollama {
        &["\n"]
    } else {
        &["\n\n", "\r\n\r\n", "\r\n\r", "\r\r"]
    };
    let end = ends
        .iter()
        .filter_map(|end| Some(body.rfind(end)? + end.len()))
        .max();
    &body[..end.unwrap_or(0)]
}

/// Returns whether a stream breaks off between the halves of a surrogate pair.
fn has_open_half(stream: &str) -> bool {
    last_half(stream, &HIGH) > last_half(stream, &LOW)
}

/// Returns the place of the last high half that ends a string, or of the last low one that begins
/// one.
fn last_half(stream: &str, digits: &[char; 4]) -> Option<usize> {
    let is_half = |at: usize| {
        let is_edge = if *digits == HIGH {
            stream
                .get(at + 6..)
                .is_some_and(|after| after.starts_with('"'))
        } else {
            stream[..at].ends_with('"')
        };
        is_edge && stream[at + 3..].starts_with(digits)
    };
    stream
        .rmatch_indices("\\ud")
        .map(|(at, _)| at)
        .find(|&at| is_half(at))
}

/// Returns a document with a text.
fn document(text: &[u8], style: u8) -> String {
    let text = String::from_utf8_lossy(text).replace(is_half, "");
    let value = json!({"title": "Tides", "rows": [{"id": 1, "text": text}, {"id": 2, "text": "low 😀"}], "n": 12});
    let document = if style & 1 == 1 {
        format!("{value:#}")
    } else {
        value.to_string()
    };
    if style & 2 == 2 {
        escaped(&document)
    } else {
        document
    }
}

fn is_half(char: char) -> bool {
    u32::from(char)
        .checked_sub(HALVES[0])
        .is_some_and(|half| half < 0x800)
}

/// Returns a text in pieces. Some surrogate pairs are divided.
fn parts(text: &str, rng: &mut Rng) -> Vec<String> {
    let mut parts: Vec<_> = chunks(text.as_bytes(), &text_cuts(text, rng))
        .into_iter()
        .map(show)
        .collect();
    for at in 1..parts.len() {
        let Some(first) = parts[at]
            .chars()
            .next()
            .filter(|char| char.len_utf16() == 2 && rng.below(2) == 0)
        else {
            continue;
        };
        let halves = first.encode_utf16(&mut [0; 2]).to_vec();
        let [high, low] = [0, 1].map(|place| {
            char::from_u32(HALVES[place] + u32::from(halves[place]) - [0xd800, 0xdc00][place])
                .unwrap()
        });
        parts[at - 1].push(high);
        parts[at].replace_range(..first.len_utf8(), &low.to_string());
    }
    parts
}

/// Returns JSON with escapes in place of all that is not ASCII.
fn escaped(json: &str) -> String {
    let mut out = String::new();
    for char in json.chars() {
        match char {
            '\0'..='\x7f' => out.push(char),
            _ => char
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| write!(out, "\\u{unit:04x}").unwrap()),
        }
    }
    out
}

/// How a stream is written.
#[derive(Clone, Copy)]
struct Style {
    dialect: Dialect,
    style: u8,
}

impl Style {
    fn write(self, answer: &Answer<'_>) -> Vec<u8> {
        let is_on = |bit: u8| self.style >> bit & 1 == 1;
        let mut stream = answer.stream();
        if is_on(0) {
            stream = stream
                .chars()
                .map(|char| {
                    if is_half(char) {
                        char.to_string()
                    } else {
                        escaped(char.encode_utf8(&mut [0; 4]))
                    }
                })
                .collect();
        }
        let mut out = String::new();
        for char in stream.chars() {
            if is_half(char) {
                write!(out, "\\u{:04x}", u32::from(char) - HALVES[0] + 0xd800).unwrap();
            } else {
                out.push(char);
            }
        }
        if self.dialect == Dialect::Ollama {
            return if is_on(1) {
                out.replace('\n', "\r\n")
            } else {
                out
            }
            .into_bytes();
        }
        out = out.replace("\r\n", "\n");
        if is_on(3) {
            out = out
                .replace("\ndata: ", "\ndata:")
                .replace("\nevent: ", "\nevent:");
        }
        if is_on(4) {
            out = out.replace("\n\n", "\n\n: ping\n\n");
        }
        if is_on(5) {
            out = out.replace("\ndata", "\nid: 7\nretry: 5\n:c\ndata");
        }
        if is_on(6) {
            out = format!("\u{feff}{out}");
        }
        match self.style >> 1 & 3 {
            1 => out.replace('\n', "\r\n"),
            2 => out.replace('\n', "\r"),
            _ => out,
        }
        .into_bytes()
    }
}
