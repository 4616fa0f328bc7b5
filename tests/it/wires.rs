//! The wires other than Chat Completions, one module each.

mod arguments;
mod array;
mod base;
mod cohere;
mod completions;
pub(crate) mod continued;
mod early_finish;
mod familiar;
mod faults;
mod gemini;
mod given_up;
mod messages;
mod ollama;
mod reattach;
pub(crate) mod recorded;
mod responses;
mod tokens;

use restitch::internal::chat::{Adaptation, Changes, Rest};
use restitch::internal::wire::{Ending, Slot, SlotKind, SlotText, Writer};
use restitch::provider::capability::{PrefillForm, Switch};
use restitch::provider::{Dialect, Finish, SlotId};
use restitch_testing::wires::{events, read_body};

/// A request for the rest in words, after `[1` was delivered.
const REPROMPT: Rest<'static> = Rest::Reprompt {
    delivered: "[1",
    prompt: "Go \"on\"",
};

/// A request that continues `[1` literally.
const PREFILL: Rest<'static> = Rest::Prefill {
    delivered: "[1",
    form: PrefillForm::Turn,
};

/// Returns a slot that holds text.
const fn text(item: u32) -> Slot {
    Slot {
        id: SlotId::of(item),
        kind: SlotKind::Text,
    }
}

/// Reads events and returns what their deltas and kinds are, printed.
fn read(dialect: Dialect, events: &[(&str, &str)]) -> Vec<String> {
    let mut reader = dialect.wire().reader();
    let mut seen = Vec::new();
    for (event_type, data) in events {
        let kind = reader.read(event_type, data, &mut |delta| {
            seen.push(format!("{delta:?}"));
        });
        seen.push(format!("{kind:?}"));
    }
    seen
}

/// Reads data of events without names.
fn read_data(dialect: Dialect, events: &[&str]) -> Vec<String> {
    let events: Vec<_> = events.iter().map(|data| ("message", *data)).collect();
    read(dialect, &events)
}

/// Returns a writer that has observed events.
fn writer_after(dialect: Dialect, events: &[(&str, &str)]) -> Box<dyn Writer> {
    let mut writer = dialect.wire().writer();
    for (event_type, data) in events {
        writer.observe(event_type, data);
    }
    writer
}

/// Returns what a writer writes.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

/// Ends an answer with a usage and a report.
fn ending<'a>(reasons: &'a [(u32, Finish)], usage: &'a str) -> Ending<'a> {
    Ending {
        reasons,
        usage: Some(usage),
        usage_apart: false,
        report: Some(r#"{"calls":2}"#),
    }
}

/// Writes the first answer's body with one text.
fn write_body(dialect: Dialect, body: &str, slot: Slot, new: &str, ending: &Ending<'_>) -> String {
    dialect
        .wire()
        .write_body(body, &[SlotText { slot, text: new }], ending)
        .unwrap()
}

fn ask(dialect: Dialect, body: &str, rest: Rest<'_>) -> String {
    dialect
        .wire()
        .ask(body, Some(&rest), &Changes::default())
        .unwrap()
}

/// Asks for at most seven tokens in the form that the client asked for, with reasoning turned off by
/// this member.
fn ask_without_reasoning(
    dialect: Dialect,
    body: &str,
    rest: Option<&Rest<'_>>,
    (key, value): (&str, &str),
) -> String {
    let switch = Switch {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let changes = Changes {
        reasoning_off: Some(&switch),
        max_tokens: Some(7),
        keeps_json_mode: true,
        ..Changes::default()
    };
    dialect.wire().ask(body, rest, &changes).unwrap()
}

/// Returns a request to another model.
fn to_model(dialect: Dialect, body: &str, model: &str) -> Option<String> {
    let adaptation = Adaptation {
        model: Some(model),
        ..Adaptation::default()
    };
    dialect.wire().adapt(body, &adaptation)
}

/// What cannot be read is passed over, and what cannot be edited stays as it is.
#[test]
fn bad_input_is_passed_over() {
    let bad = [
        "",
        "{",
        "null",
        "[]",
        "7",
        "\"x\"",
        "{\"a\":1}",
        "{\"a\":}",
        "\u{feff}{}",
        "[DONE",
        "{\"type\":7,\"index\":-1}",
    ];
    for dialect in [
        Dialect::Completions,
        Dialect::Gemini,
        Dialect::Ollama,
        Dialect::Cohere,
    ] {
        let wire = dialect.wire();
        let path = "/v1beta/models/m:generateContent";
        for data in bad {
            assert_eq!(read_data(dialect, &[data]), ["Other"], "{dialect} {data}");
            assert_ne!(
                wire.recognizes("message", data),
                Some(true),
                "{dialect} {data}"
            );
            let mut writer = writer_after(dialect, &[("message", data)]);
            assert!(!writer.has_begun(), "{dialect} {data}");
            assert_eq!(
                (writer.with_text(data, "x"), writer.without_end(data)),
                (None, data.to_owned()),
                "{dialect}"
            );
            let _ = written(|out| writer.adopt(out, "message", data));
            assert!(!wire.read_body(data, &mut |_| {}), "{dialect} {data}");
            assert_eq!(
                wire.write_body(data, &[], &ending(&[(0, Finish::Stop)], "{}")),
                None,
                "{dialect} {data}"
            );
            assert_eq!(wire.parse(path, data.as_bytes()), None, "{dialect} {data}");
            assert_eq!(
                wire.ask(data, Some(&REPROMPT), &Changes::default()),
                None,
                "{dialect} {data}"
            );
        }
        assert_eq!(wire.parse(path, b"{\"messages\":[\xff"), None);
    }
}

#[test]
fn paths_tell_the_api() {
    for (path, dialect) in [
        ("/v1/completions", Some(Dialect::Completions)),
        (
            "/openai/deployments/d/completions",
            Some(Dialect::Completions),
        ),
        ("/beta/completions", Some(Dialect::Completions)),
        ("/v1/fim/completions", None),
        ("/v1/chat/completions", Some(Dialect::Chat)),
        (
            "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
            Some(Dialect::Gemini),
        ),
        (
            "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
            Some(Dialect::Gemini),
        ),
        ("/v1beta/models/gemini-2.5-flash:countTokens", None),
        ("/api/chat", Some(Dialect::Ollama)),
        ("/api/generate", Some(Dialect::Ollama)),
        ("/api/tags", None),
        ("/v2/chat", Some(Dialect::Cohere)),
        ("/v1/chat", None),
    ] {
        assert_eq!(Dialect::of_path(path), dialect, "{path}");
    }
}

/// The body of a failure is an error that the API's clients read.
#[test]
fn errors_are_in_the_form_of_the_api() {
    for (dialect, expected) in [
        (
            Dialect::Chat,
            r#"{"error":{"message":"no \"luck\"","type":"upstream_error","param":null,"code":"c"},"restitch":{}}"#,
        ),
        (
            Dialect::Messages,
            r#"{"type":"error","error":{"type":"api_error","message":"no \"luck\""},"restitch":{}}"#,
        ),
        (
            Dialect::Ollama,
            r#"{"error":"no \"luck\"","code":"c","restitch":{}}"#,
        ),
        (
            Dialect::Cohere,
            r#"{"message":"no \"luck\"","code":"c","restitch":{}}"#,
        ),
    ] {
        assert_eq!(
            dialect.wire().error_body("no \"luck\"", "c", "{}"),
            expected
        );
    }
    for dialect in Dialect::ALL {
        let body = dialect.wire().error_body("no \"luck\"", "c", "{}");
        assert_eq!(
            read_body(dialect, &body).error.as_deref(),
            Some("no \"luck\""),
            "{dialect}"
        );
        for status in [400, 401, 403, 405, 414, 501, 502] {
            let body = dialect.wire().own_error_body(status, "c", "no \"luck\"");
            assert_eq!(
                read_body(dialect, &body).error.as_deref(),
                Some("no \"luck\""),
                "{dialect}"
            );
        }
    }
}
