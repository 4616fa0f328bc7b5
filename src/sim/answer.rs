//! The text of a step's answer, and its form in the Chat Completions API: an event stream or one body.
//!
//! Has no sockets: it makes frames, and says what follows the last one.

use bytes::Bytes;
use serde_json::{Value, json};

use super::call::Continuation;
use super::continued::Continued;
use super::script::{AnswerEnd, Behaviour, Step};

/// An answer's text and its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    /// The reasoning before the text.
    pub(super) reasoning: Option<&'static str>,
    /// How many bytes of the document the text has that were not delivered before.
    pub(super) delivered: usize,
    pub(super) end: AnswerEnd,
    /// The finish reason that belongs to the end, if one is sent.
    pub(super) finish: Option<&'static str>,
}

impl Answer {
    /// Returns the answer that `step` gives. A style that does not apply at the cut is answered as `anchor`.
    pub(super) fn new(step: &Step, document: &str, continuation: Option<&Continuation>) -> Self {
        if let Behaviour::Style(style) = step.behaviour {
            let continued = continuation.and_then(|c| Continued::new(style, step.bytes, document, c));
            return match continued {
                Some(Continued { text, delivered, stops }) => Self::ending(step, text, delivered, stops),
                None => Self::new(&Step { behaviour: Behaviour::Anchor, ..*step }, document, continuation),
            };
        }
        let rest = continuation.map_or(document, |c| &document[c.position..]);
        let (mut delivered, mut whole) = (0, false);
        let text = match (step.behaviour, envelope(step.behaviour, continuation.is_none())) {
            (behaviour, Some((before, after))) => {
                let garbage = behaviour == Behaviour::Garbage;
                let limit = if garbage { GOOD_BYTES.min(rest.len().saturating_sub(1)) } else { rest.len() };
                delivered = floor_char_boundary(rest, step.bytes.unwrap_or(limit));
                whole = delivered == rest.len();
                let mut text = before.concat();
                if behaviour == Behaviour::Progress {
                    text = format!("PROGRESS: {}\n", (document.len() - rest.len()) * 100 / document.len().max(1));
                }
                if let Some(c) = continuation.filter(|_| behaviour != Behaviour::Exact) {
                    text.push_str(&c.anchor);
                    text.push_str(&c.gap);
                }
                text.push_str(&rest[..delivered]);
                if whole || garbage {
                    text.push_str(after);
                }
                text
            }
            (Behaviour::Repeat, None) => {
                debug_assert!(continuation.is_some(), "a script has no `repeat` as a first answer");
                continuation.map(|c| c.delivered.clone()).unwrap_or_default()
            }
            (Behaviour::Prose, None) => PROSE.to_owned(),
            (Behaviour::Refusal, None) => REFUSAL.to_owned(),
            (_, None) => String::new(),
        };
        // A behaviour that delivers nothing of the document on purpose is finished; a repeat was cut again.
        let stops = whole || matches!(step.behaviour, Behaviour::Prose | Behaviour::Refusal | Behaviour::Empty);
        Self::ending(step, text, delivered, stops)
    }

    /// Adds the step's end, or the usual one: `stop` where the text is complete, else `length`.
    fn ending(step: &Step, text: String, delivered: usize, stops: bool) -> Self {
        let usual = if stops { AnswerEnd::Stop } else { AnswerEnd::Length };
        let end = if step.behaviour == Behaviour::Drop { AnswerEnd::Drop } else { step.end.unwrap_or(usual) };
        let finish = match if matches!(end, AnswerEnd::Reset(_)) { usual } else { end } {
            AnswerEnd::Length => Some("length"),
            AnswerEnd::Stop => Some("stop"),
            AnswerEnd::Filter => Some("content_filter"),
            _ => None,
        };
        let reasoning = (step.behaviour == Behaviour::Reasoning).then_some(REASONING);
        Self { text, reasoning, delivered, end, finish }
    }
}

/// Returns the text before the document's, and the text after it where the document ends; `None` for behaviours that
/// have no such text.
fn envelope(behaviour: Behaviour, first: bool) -> Option<(&'static [&'static str], &'static str)> {
    Some(match behaviour {
        Behaviour::Answer | Behaviour::Anchor | Behaviour::Exact | Behaviour::Progress => (&[], ""),
        Behaviour::Fence => (&[FENCE], FENCE_END),
        Behaviour::FenceOpen => (&[FENCE], ""),
        Behaviour::Preamble if first => (&[PREAMBLE, FENCE], FENCE_END),
        Behaviour::Preamble => (&[PREAMBLE_THEN], ""),
        Behaviour::PreambleFence => (&[PREAMBLE_THEN, FENCE], FENCE_END),
        Behaviour::Epilogue => (&[], EPILOGUE),
        Behaviour::Garbage => (&[], GARBAGE),
        _ => return None,
    })
}

/// The members that are the same in all JSON of a response.
pub(super) struct Header<'a> {
    /// Counts the server's answers, so that each has its own id and time.
    pub(super) number: u64,
    pub(super) model: &'a str,
    pub(super) prompt_tokens: usize,
}

impl Header<'_> {
    /// Returns the members before `choices`, in a provider's order. `object` is `chat.completion` or its `.chunk`.
    fn open(&self, object: &str) -> String {
        format!(
            r#"{{"id":"chatcmpl-sim-{}","object":"{object}","created":{},"model":{},"system_fingerprint":"fp_sim","#,
            self.number,
            CREATED + self.number,
            Value::from(self.model),
        )
    }

    fn usage(&self, text: &str) -> Value {
        let (prompt, completion) = (self.prompt_tokens, text.len() / 4);
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
    }
}

/// The data frames of one response's body, in order.
pub(super) enum Frames {
    /// One event a frame. Boxed, because it is many times larger than the other variant.
    Events(Box<Events>),
    /// One frame; `None` once it is taken.
    Body(Option<Bytes>),
}

impl Iterator for Frames {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Events(events) => events.next(),
            Self::Body(body) => body.take(),
        }
    }
}

/// An answer as events. An event is written when it is polled, because it is many times longer than its text.
pub(super) struct Events {
    answer: Answer,
    /// Where the next delta begins in the text.
    at: usize,
    /// Characters in a delta.
    chunk: usize,
    /// The text that each event begins with, `data: ` included.
    open: String,
    /// The usage at the end, if the request asked for it. All other events then have a `usage` of `null`.
    usage: Option<Value>,
    stage: Stage,
}

/// The next part of the stream.
#[derive(Clone, Copy)]
enum Stage {
    Role,
    Reasoning,
    Text,
    Finish,
    Usage,
    Done,
    Error,
    Over,
}

impl Events {
    pub(super) fn new(answer: Answer, header: &Header<'_>, chunk: usize, include_usage: bool) -> Self {
        let open = format!("data: {}", header.open("chat.completion.chunk"));
        let usage = include_usage.then(|| header.usage(&answer.text));
        Self { answer, at: 0, chunk: chunk.max(1), open, usage, stage: Stage::Role }
    }

    fn event(&self, delta: &str, finish: Option<&str>) -> Bytes {
        let usage = if self.usage.is_some() { r#","usage":null"# } else { "" };
        Bytes::from(format!(
            "{}\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{}}}]{usage}}}\n\n",
            self.open,
            Value::from(finish),
        ))
    }

    /// Returns the next delta's text, which is not empty.
    fn delta(&mut self) -> Option<&str> {
        let rest = &self.answer.text[self.at..];
        let length = rest.char_indices().nth(self.chunk).map_or(rest.len(), |(at, _)| at);
        self.at += length;
        (length > 0).then_some(&rest[..length])
    }
}

impl Iterator for Events {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.stage {
                Stage::Role => {
                    self.stage = Stage::Reasoning;
                    return Some(self.event(r#"{"role":"assistant","content":""}"#, None));
                }
                Stage::Reasoning => {
                    self.stage = Stage::Text;
                    if let Some(reasoning) = self.answer.reasoning {
                        let delta = format!(r#"{{"reasoning_content":{}}}"#, Value::from(reasoning));
                        return Some(self.event(&delta, None));
                    }
                }
                Stage::Text => {
                    if let Some(text) = self.delta() {
                        let delta = format!(r#"{{"content":{}}}"#, Value::from(text));
                        return Some(self.event(&delta, None));
                    }
                    self.stage = match self.answer.end {
                        AnswerEnd::Length | AnswerEnd::Stop | AnswerEnd::Filter | AnswerEnd::Reset(_) => Stage::Finish,
                        AnswerEnd::Done => Stage::Done,
                        AnswerEnd::Error => Stage::Error,
                        AnswerEnd::Drop | AnswerEnd::Eof | AnswerEnd::Stall => Stage::Over,
                    };
                }
                Stage::Finish => {
                    self.stage = Stage::Usage;
                    return Some(self.event("{}", self.answer.finish));
                }
                Stage::Usage => {
                    self.stage = Stage::Done;
                    if let Some(usage) = &self.usage {
                        return Some(Bytes::from(format!("{}\"choices\":[],\"usage\":{usage}}}\n\n", self.open)));
                    }
                }
                Stage::Done => {
                    self.stage = Stage::Over;
                    return Some(Bytes::from_static(b"data: [DONE]\n\n"));
                }
                Stage::Error => {
                    self.stage = Stage::Over;
                    return Some(Bytes::from(format!("data: {}\n\n", upstream_error())));
                }
                Stage::Over => return None,
            }
        }
    }
}

/// Writes an answer as one JSON body.
pub(super) fn body(answer: &Answer, header: &Header<'_>) -> String {
    if answer.end == AnswerEnd::Error {
        return upstream_error().to_string();
    }
    let reasoning = answer.reasoning.map(|reasoning| format!(r#","reasoning_content":{}"#, Value::from(reasoning)));
    format!(
        "{}\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":{},\"refusal\":null{}}},\
         \"logprobs\":null,\"finish_reason\":{}}}],\"usage\":{}}}",
        header.open("chat.completion"),
        Value::from(answer.text.as_str()),
        reasoning.unwrap_or_default(),
        Value::from(answer.finish),
        header.usage(&answer.text),
    )
}

/// Returns the body of an error, as OpenAI writes it.
pub(super) fn error(kind: &str, code: Option<&str>, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

fn upstream_error() -> Value {
    error("server_error", Some("upstream_error"), "The server had an error while it processed your request.")
}

/// Returns the largest offset up to `at` where a character of `text` begins, or the length of `text`.
pub(super) fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

const FENCE: &str = "```json\n";
const FENCE_END: &str = "\n```";

// None of these has a `{` or `[`: the first opener in the text that a client sends back must be that of the root.
const PREAMBLE: &str = "Here is the document you asked for:\n\n";
const PREAMBLE_THEN: &str = "Sure, here is the rest:\n\n";
const EPILOGUE: &str = "\n\nLet me know if you need anything else.";
const PROSE: &str = "A document needs a purpose first.\nWhat is it for, and who will read it?";
const REASONING: &str = "A document. Where does it begin, and what does it need? There is much to consider.";
const REFUSAL: &str = "I'm sorry, but I can't help with that.";

/// A control character is illegal in every state of the grammar, also in a string and directly after a number, so
/// exactly the text before it was delivered.
const GARBAGE: &str = "\u{1}<<< lost the thread >>>";

/// Bytes before the garbage where the step names no number: more than the rest of a token, less than a delta.
const GOOD_BYTES: usize = 8;

/// The time of answer 0, in seconds since 1970. A constant, so that answers are the same in every run.
const CREATED: u64 = 1_750_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{"name": "Zoë", "n": 12}"#;

    /// The step's answer: text, delivered bytes, finish.
    fn first(step: &str) -> (String, usize, Option<&'static str>) {
        let script: super::super::Script = step.parse().unwrap();
        let answer = Answer::new(&script.first()[0], DOCUMENT, None);
        (answer.text, answer.delivered, answer.finish)
    }

    /// The cut is before `Zo`, after white space that is not in the anchor.
    fn then(step: &str) -> (String, usize, Option<&'static str>) {
        let script: super::super::Script = format!("|{step}").parse().unwrap();
        let continuation = Continuation {
            delivered: "```json\n{\"name\": ".into(),
            anchor: "\"name\":".into(),
            gap: " ".into(),
            mark: None,
            position: 9,
        };
        let answer = Answer::new(&script.then()[0], DOCUMENT, Some(&continuation));
        (answer.text, answer.delivered, answer.finish)
    }

    #[test]
    fn first_answers() {
        let all = DOCUMENT.len();
        let fenced = format!("```json\n{DOCUMENT}");
        let preamble = "Here is the document you asked for:\n\n```json\n";
        let cases = [
            ("answer", DOCUMENT.to_owned(), all, Some("stop")),
            ("answer@9", r#"{"name": "#.into(), 9, Some("length")),
            // Inside the two bytes of `ë`.
            ("answer@13", r#"{"name": "Zo"#.into(), 12, Some("length")),
            ("answer@0", String::new(), 0, Some("length")),
            ("answer@99999", DOCUMENT.into(), all, Some("stop")),
            ("answer!length", DOCUMENT.into(), all, Some("length")),
            ("answer@9!stop", r#"{"name": "#.into(), 9, Some("stop")),
            ("answer@9!filter", r#"{"name": "#.into(), 9, Some("content_filter")),
            ("answer@9!drop=5", r#"{"name": "#.into(), 9, Some("length")),
            ("answer!drop=5", DOCUMENT.into(), all, Some("stop")),
            ("answer!eof", DOCUMENT.into(), all, None),
            ("fence", format!("{fenced}\n```"), all, Some("stop")),
            ("fence@9", "```json\n{\"name\": ".into(), 9, Some("length")),
            ("fence-open", fenced, all, Some("stop")),
            ("preamble", format!("{preamble}{DOCUMENT}\n```"), all, Some("stop")),
            ("preamble@1", format!("{preamble}{{"), 1, Some("length")),
            ("epilogue", format!("{DOCUMENT}\n\nLet me know if you need anything else."), all, Some("stop")),
            ("epilogue@1", "{".into(), 1, Some("length")),
            ("garbage", "{\"name\":\u{1}<<< lost the thread >>>".into(), 8, Some("length")),
            ("garbage@2!stop", "{\"\u{1}<<< lost the thread >>>".into(), 2, Some("stop")),
            ("prose", PROSE.into(), 0, Some("stop")),
            ("refusal", "I'm sorry, but I can't help with that.".into(), 0, Some("stop")),
            ("empty", String::new(), 0, Some("stop")),
            ("empty!length", String::new(), 0, Some("length")),
        ];
        for (step, text, delivered, finish) in cases {
            assert_eq!(first(step), (text, delivered, finish), "{step}");
        }
    }

    #[test]
    fn continuations() {
        let rest = r#""Zoë", "n": 12}"#;
        let all = rest.len();
        let anchored = format!("\"name\": {rest}");
        let cases = [
            ("anchor", anchored.clone(), all, Some("stop")),
            ("anchor@3", r#""name": "Zo"#.into(), 3, Some("length")),
            ("exact", rest.into(), all, Some("stop")),
            ("exact@1", "\"".into(), 1, Some("length")),
            ("fence", format!("```json\n{anchored}\n```"), all, Some("stop")),
            ("fence@1", "```json\n\"name\": \"".into(), 1, Some("length")),
            ("fence-open", format!("```json\n{anchored}"), all, Some("stop")),
            ("preamble", format!("Sure, here is the rest:\n\n{anchored}"), all, Some("stop")),
            ("preamble-fence", format!("Sure, here is the rest:\n\n```json\n{anchored}\n```"), all, Some("stop")),
            ("epilogue", format!("{anchored}\n\nLet me know if you need anything else."), all, Some("stop")),
            ("repeat", "```json\n{\"name\": ".into(), 0, Some("length")),
            ("garbage@3", "\"name\": \"Zo\u{1}<<< lost the thread >>>".into(), 3, Some("length")),
            ("refusal", "I'm sorry, but I can't help with that.".into(), 0, Some("stop")),
        ];
        for (step, text, delivered, finish) in cases {
            assert_eq!(then(step), (text, delivered, finish), "{step}");
        }
    }
}
