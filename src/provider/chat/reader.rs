//! Reads the events of a Chat Completions stream.

use super::calls::Calls;
use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::chunks::Choices;
use crate::provider::fields::{
    Texts, has_escapes, message, no_object, present, recorded_object, says_error, word,
};
use crate::provider::form::{Familiar, Form};
use crate::provider::{Delta, Finish, Kind, SlotId};

/// A reader for one stream, event by event.
///
/// It keeps halves of surrogate pairs, since a later event may have the other half, and the
/// template of the last event around its text.
#[derive(Clone, Debug, Default)]
pub struct ChatReader {
    texts: Texts<ChatChannel>,
    pub(super) choices: Choices,
    /// Whether an event of this stream had a `delta`.
    has_deltas: bool,
    form: Form<Subject>,
    /// The time in the last event that was read in full.
    created: Option<u64>,
    calls: Calls,
}

/// The meaning of the text in an event with a template.
#[derive(Clone, Copy, Debug)]
struct Subject {
    channel: ChatChannel,
    /// An empty text follows. Some servers send one with each piece of reasoning.
    has_empty_text: bool,
}

/// A sequence of strings that together are one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChatChannel {
    Text(u32),
    Refusal(u32),
    Reasoning(u32),
    Arguments(SlotId),
}

impl ChatChannel {
    fn slot(self) -> SlotId {
        match self {
            Self::Text(choice) | Self::Refusal(choice) | Self::Reasoning(choice) => {
                SlotId::of(choice)
            }
            Self::Arguments(slot) => slot,
        }
    }
}

impl ChatReader {
    /// Creates a reader for one stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one event and calls `on` for each delta in it. Returns the kind of the event.
    ///
    /// `event_type` is the event's name (`message` if it has none), `data` its data. Deltas follow
    /// the order of the choices; in a choice, reasoning, text, refusal and tool calls precede the
    /// finish. Usage and an error follow all choices, wherever the server put them. Data that is
    /// not valid JSON is [`Kind::Other`], except in an event named `error`.
    ///
    /// Servers differ in these points: content as an array of parts; reasoning as
    /// `reasoning_content`, `reasoning` or parts; a whole `message` instead of a `delta` (read only
    /// in streams without any `delta`, since some servers repeat the text in it); tool calls
    /// without an index, or all with the same (a new id is a new call, no id is the last call), or
    /// with a new id in each piece of one index; one choice whose index counts up;
    /// `function_call` (tool call 0); an empty string for no finish; usage in `x_groq`.
    pub fn read(&mut self, event_type: &str, data: &str, mut on: impl FnMut(Delta<'_>)) -> Kind {
        if let Some(event) = self.form.read(event_type, data).filter(is_readable) {
            let Subject {
                channel,
                has_empty_text,
            } = event.subject;
            self.emit(channel, event.text, event.has_escapes, &mut on);
            if has_empty_text {
                on(Delta::Text {
                    slot: channel.slot(),
                    text: "",
                });
            }
            return Kind::Chunk;
        }
        let data = data.trim_matches([' ', '\t', '\r', '\n']);
        if data == "[DONE]" {
            on(Delta::Done { word: data });
            return Kind::Done;
        }
        self.form.start();
        let mut deltas = 0;
        let kind = self.read_fully(event_type, data, &mut |delta| {
            deltas += 1;
            on(delta);
        });
        let expected = self
            .form
            .noted_subject()
            .map(|subject| 1 + usize::from(subject.has_empty_text));
        if kind == Kind::Chunk && Some(deltas) == expected {
            self.form.remember(event_type, data);
        }
        kind
    }

    fn read_fully(&mut self, event_type: &str, data: &str, on: &mut impl FnMut(Delta<'_>)) -> Kind {
        let mut table = Table::default();
        let Some(root) = recorded_object(&mut table, data) else {
            return no_object(event_type, data, on);
        };

        let (mut choices, mut usage, mut groq, mut error, mut object) =
            (None, None, None, None, None);
        for (key, value) in root.members() {
            match &*key.decode().unwrap_or_default() {
                "choices" => choices = Some(value),
                "usage" => usage = Some(value),
                "x_groq" => groq = Some(value),
                "error" => error = Some(value),
                "object" => object = Some(value),
                // Most servers write the same time into all events; comparing it is cheaper than
                // scanning it.
                "created"
                    if std::mem::replace(&mut self.created, value.as_u64()) == value.as_u64() => {}
                name if IGNORED.contains(&name) => self.form.note_changing(value),
                _ => {}
            }
        }
        let mut error = error.filter(says_error);
        for (at, choice) in choices
            .into_iter()
            .flat_map(|choices| choices.elements())
            .enumerate()
        {
            error = error.or(self.choice(choice, at, on));
        }
        // Groq's earlier versions report usage only in a member of their own.
        let is_usage = |usage: &Raw<'_>| usage.kind() == ValueKind::Object;
        let usage = usage
            .filter(is_usage)
            .or(groq.and_then(|groq| groq.member("usage")).filter(is_usage));
        if let Some(usage) = usage {
            on(Delta::Usage {
                raw: usage.as_str(),
            });
        }

        // FastChat and older versions of vLLM mark the object itself as the error.
        let is_error =
            event_type == "error" || object.and_then(|object| object.inner()) == Some("error");
        if let Some(error) = error.or(is_error.then_some(root)) {
            on(Delta::Error {
                message: &message(error),
                raw: error.as_str(),
            });
            return Kind::Error;
        }
        if choices.is_some() || usage.is_some() {
            Kind::Chunk
        } else {
            Kind::Other
        }
    }

    /// Returns how many halves of surrogate pairs were removed because the other half was missing.
    pub fn removed(&self) -> u64 {
        self.texts.removed()
    }

    /// Ends the stream: halves that still wait are removed. Returns how many were removed in total.
    pub fn finish(&mut self) -> u64 {
        self.texts.finish()
    }

    /// Reads one choice. Returns the error of the choice, if it has one (OpenRouter puts one beside
    /// the finish).
    fn choice<'a>(
        &mut self,
        raw: Raw<'a>,
        at: usize,
        on: &mut impl FnMut(Delta<'_>),
    ) -> Option<Raw<'a>> {
        let (mut index, mut delta, mut message, mut finish, mut error) =
            (None, None, None, None, None);
        for (key, value) in raw.members() {
            match &*key.decode().unwrap_or_default() {
                "index" => index = Some(value),
                "delta" => delta = Some(value),
                "message" => message = Some(value),
                "finish_reason" => finish = Some(value),
                "error" => error = Some(value),
                _ => {}
            }
        }
        let choice = self.choices.number(index, at);
        let delta = delta.filter(|delta| delta.kind() == ValueKind::Object);
        if delta.is_some() && !self.has_deltas {
            self.has_deltas = true;
            // From here on a `message` is a repetition.
            self.form.forget();
        }
        if let Some(delta) = delta.or(message.filter(|_| !self.has_deltas)) {
            self.delta(delta, choice, on);
        }
        if let Some(word) = finish
            .and_then(|finish| finish.decode())
            .filter(|word| !word.is_empty())
        {
            on(Delta::Finish {
                choice,
                reason: Finish::from(&*word),
                word: &word,
            });
        }
        error.filter(says_error)
    }

    fn delta(&mut self, raw: Raw<'_>, choice: u32, on: &mut impl FnMut(Delta<'_>)) {
        let (mut content, mut reasoning, mut reasoning_content, mut refusal) =
            (None, None, None, None);
        let (mut tool_calls, mut function_call) = (None, None);
        for (key, value) in raw.members() {
            match &*key.decode().unwrap_or_default() {
                "content" => content = Some(value),
                "reasoning" => reasoning = Some(value),
                "reasoning_content" => reasoning_content = Some(value),
                "refusal" => refusal = Some(value),
                "tool_calls" => tool_calls = Some(value),
                "function_call" => function_call = Some(value),
                _ => {}
            }
        }
        // Servers that send both names send the same text under both.
        let is_reasoning = |raw: &Raw<'_>| raw.inner().is_some_and(|inner| !inner.is_empty());
        let reasoning = reasoning_content
            .filter(is_reasoning)
            .or(reasoning.filter(is_reasoning));
        let has_empty_text =
            reasoning.is_some() && content.and_then(|content| content.inner()) == Some("");
        if let Some(text) = reasoning {
            let channel = ChatChannel::Reasoning(choice);
            self.form.note_text(
                Subject {
                    channel,
                    has_empty_text,
                },
                text,
            );
            self.text(channel, text, on);
        }
        if let Some(content) = content {
            let channel = ChatChannel::Text(choice);
            if !has_empty_text {
                self.form.note_text(
                    Subject {
                        channel,
                        has_empty_text,
                    },
                    content,
                );
            }
            self.text(channel, content, on);
            for part in content.elements() {
                self.part(part, choice, on);
            }
        }
        if let Some(refusal) = refusal {
            self.text(ChatChannel::Refusal(choice), refusal, on);
        }
        for (at, call) in tool_calls
            .into_iter()
            .flat_map(|calls| calls.elements())
            .enumerate()
        {
            let function = present(call.member("function"));
            let id = word(call.member("id"));
            let name = function.and_then(|function| word(function.member("name")));
            let index = call.member("index");
            let slot = (self.calls).place(choice, index, id.as_deref(), name.as_deref(), at);
            // Which call a number belongs to may have changed.
            self.form.forget();
            // The input of a custom tool is text of any kind, so a first answer with one passes: like
            // a call that has no id. In a call for the rest it is the rest.
            let id = call.member("id").filter(|_| function.is_some());
            let function = function.or_else(|| call.member("custom"));
            self.call(slot, id, function, on);
        }
        if let Some(call) = function_call.filter(|call| call.kind() == ValueKind::Object) {
            self.call(SlotId::part(choice, 0), None, Some(call), on);
        }
    }

    /// Reads one part of a content array: `{"type":"text","text":…}`,
    /// `{"type":"refusal","refusal":…}` or Mistral's
    /// `{"type":"thinking","thinking":[{"type":"text","text":…}]}`.
    fn part(&mut self, part: Raw<'_>, choice: u32, on: &mut impl FnMut(Delta<'_>)) {
        for (key, value) in part.members() {
            match &*key.decode().unwrap_or_default() {
                "text" => self.text(ChatChannel::Text(choice), value, on),
                "refusal" => self.text(ChatChannel::Refusal(choice), value, on),
                "thinking" => {
                    self.text(ChatChannel::Reasoning(choice), value, on);
                    for text in value.elements().filter_map(|part| part.member("text")) {
                        self.text(ChatChannel::Reasoning(choice), text, on);
                    }
                }
                _ => {}
            }
        }
    }

    /// Emits the text of a string. Emits nothing for another value.
    fn text(&mut self, channel: ChatChannel, raw: Raw<'_>, on: &mut impl FnMut(Delta<'_>)) {
        if let Some(inner) = raw.inner() {
            self.emit(channel, inner, has_escapes(inner), on);
        }
    }

    /// Emits the text between two quotes, even an empty one.
    fn emit(
        &mut self,
        channel: ChatChannel,
        inner: &str,
        has_escapes: bool,
        on: &mut impl FnMut(Delta<'_>),
    ) {
        let slot = channel.slot();
        let text = self.texts.decode_known(channel, inner, has_escapes);
        match channel {
            ChatChannel::Text(_) => on(Delta::Text { slot, text }),
            ChatChannel::Refusal(_) => on(Delta::Refusal { slot, text }),
            // Servers whose models do not reason send an empty string.
            ChatChannel::Reasoning(_) if text.is_empty() => {}
            ChatChannel::Reasoning(_) => on(Delta::Reasoning { slot, text }),
            ChatChannel::Arguments(_) => {
                self.calls.note(slot, text);
                on(Delta::ToolCall {
                    slot,
                    id: None,
                    name: None,
                    arguments: text,
                });
            }
        }
    }

    fn call(
        &mut self,
        slot: SlotId,
        id: Option<Raw<'_>>,
        function: Option<Raw<'_>>,
        on: &mut impl FnMut(Delta<'_>),
    ) {
        let (id, name) = (
            word(id),
            word(function.and_then(|function| function.member("name"))),
        );
        // The input of a custom tool is text.
        let arguments = function.and_then(|function| {
            let arguments = function.member("arguments");
            arguments.or_else(|| function.member("input"))
        });
        if let Some(raw) = arguments.filter(|_| id.is_none() && name.is_none()) {
            self.form.note_text(
                Subject {
                    channel: ChatChannel::Arguments(slot),
                    has_empty_text: false,
                },
                raw,
            );
        }
        let arguments = match arguments {
            // Some servers send the arguments of a whole call as JSON instead of as text.
            Some(raw) if raw.kind() == ValueKind::Object => raw.as_str(),
            Some(raw) => {
                let inner = raw.inner().unwrap_or_default();
                self.texts.decode(ChatChannel::Arguments(slot), inner)
            }
            None => "",
        };
        self.calls.note(slot, arguments);
        on(Delta::ToolCall {
            slot,
            id: id.as_deref(),
            name: name.as_deref(),
            arguments,
        });
    }
}

/// Returns whether this text has the same meaning as the text of the event before. Empty reasoning
/// counts as missing, and another member may replace it.
fn is_readable(event: &Familiar<'_, Subject>) -> bool {
    !(event.text.is_empty() && matches!(event.subject.channel, ChatChannel::Reasoning(_)))
}

/// Members that change from event to event and are not read.
const IGNORED: [&str; 3] = ["obfuscation", "p", "created"];

#[cfg(test)]
mod tests {
    use super::*;

    fn deltas(reader: &mut ChatReader, data: &str) -> Vec<String> {
        let mut seen = Vec::new();
        let kind = reader.read("message", data, |delta| seen.push(format!("{delta:?}")));
        seen.push(format!("{kind:?}"));
        seen
    }

    #[test]
    fn a_familiar_event_says_what_a_full_reading_says() {
        let event = |text: &str, rest: &str| {
            format!(
                r#"{{"id":"x","choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":{rest}}}]}}"#
            )
        };
        let mut events = Vec::new();
        for rest in [
            "null",
            "null",
            "\"stop\"",
            "null}],\"usage\":{\"a\":1},\"b\":[{\"c\":1",
        ] {
            let bodies = [
                "plain",
                "",
                "é 😀",
                r#"\n\"\\"#,
                r"\u00e9",
                r"\ud83d",
                r"\ude00",
                r"\",
                "\n",
                r#"","finish_reason":"length","x":""#,
                r#"a","content":"b"#,
                r#"{\"a\": [1, 2"#,
                r"\x",
                "plain again",
            ];
            events.extend(bodies.iter().map(|body| event(body, rest)));
        }
        let (mut known, mut full) = (ChatReader::new(), ChatReader::new());
        let mut hits = 0;
        for event in &events {
            hits += usize::from(known.form.read("message", event).is_some());
            full.form.forget();
            assert_eq!(
                deltas(&mut known, event),
                deltas(&mut full, event),
                "{event}"
            );
        }
        assert!(hits > 8, "{hits} events were familiar");
    }
}
