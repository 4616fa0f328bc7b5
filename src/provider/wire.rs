//! The wires: one row for each API that is read and written.
//!
//! A wire is a folder with a reader of its events, a writer of further events, and the edits of its
//! requests and whole bodies. [`Dialect::ALL`] is the table. Nothing outside of the folder names a
//! wire's members.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::allowed::Members;
use super::checkpoints::{Checkpoints, Differs};
use super::translate::PlainMessage;
use super::{Delta, Finish, Kind, SlotId};
use crate::json::string::quoted;
use crate::provider::capability::Capability;
use crate::provider::capability::{GrammarForm, PrefillForm, Switch};
use crate::sse::Encoder;
pub(crate) use crate::sse::Framing;

/// The API that a response is of.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Dialect {
    /// OpenAI's Chat Completions, which many servers speak.
    #[default]
    #[serde(rename = "openai-chat")]
    Chat,
    /// OpenAI's legacy Completions.
    #[serde(rename = "openai-completions")]
    Completions,
    /// OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    Responses,
    /// Anthropic's Messages.
    #[serde(rename = "anthropic")]
    Messages,
    /// Google's Gemini: `generateContent`.
    Gemini,
    /// Ollama's own API.
    Ollama,
    /// Cohere's Chat, version 2.
    #[serde(rename = "cohere-v2")]
    Cohere,
}

impl Dialect {
    /// All APIs, in the order in which detection tries them.
    pub const ALL: [Self; 7] = [
        Self::Chat,
        Self::Completions,
        Self::Responses,
        Self::Messages,
        Self::Gemini,
        Self::Ollama,
        Self::Cohere,
    ];

    /// Returns the name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Completions => "openai-completions",
            Self::Responses => "openai-responses",
            Self::Messages => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Cohere => "cohere-v2",
        }
    }

    /// Returns the API of a path without a query.
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.wire().takes_path(path))
    }

    /// Returns the row of the API.
    #[doc(hidden)]
    pub fn wire(self) -> &'static dyn Wire {
        match self {
            Self::Chat => &super::chat::Chat,
            Self::Completions => &super::completions::Completions,
            Self::Responses => &super::responses::Responses,
            Self::Messages => &super::messages::Messages,
            Self::Gemini => &super::gemini::Gemini,
            Self::Ollama => &super::ollama::Ollama,
            Self::Cohere => &super::cohere::Cohere,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The interface of an API.
pub trait Wire: fmt::Debug + Send + Sync {
    /// Returns whether requests to this path, without its query, are of this API.
    fn takes_path(&self, path: &str) -> bool;

    /// Returns whether an event is one that only this API has. `None`: other APIs have such events,
    /// too.
    fn recognizes(&self, event_type: &str, data: &str) -> Option<bool>;

    /// Returns the framing of its streams.
    fn framing(&self) -> Framing {
        Framing::Events
    }

    /// Creates a reader for one stream.
    fn reader(&self) -> Box<dyn Reader>;

    /// Creates a writer for one response.
    fn writer(&self) -> Box<dyn Writer>;

    /// Returns a writer for a response that is one JSON array of its events, if the API has such
    /// responses. Each event is written with a comma before it.
    fn array_writer(&self) -> Option<Box<dyn Writer>> {
        None
    }

    /// Reads a whole answer and calls `on` for each delta in it. Returns whether `body` is an
    /// answer or an error. By default a body is the only event of a stream.
    fn read_body(&self, body: &str, on: &mut dyn FnMut(Delta<'_>)) -> bool {
        matches!(
            self.reader().read("message", body, on),
            Kind::Chunk | Kind::Error
        )
    }

    /// Returns the token with which the provider continues a whole answer, raw JSON, and why the
    /// answer has ended: its finish asks for the next call, or names the limit on tokens.
    fn token_of_body(&self, body: &str) -> Option<(Finish, String)> {
        let _ = body;
        None
    }

    /// Returns the body of an answer and of its continuation from a token. `None`: one of them is
    /// not a whole answer.
    fn join_bodies(&self, first: &str, next: &str) -> Option<String> {
        let _ = (first, next);
        None
    }

    /// Writes the first answer's body with other texts and another end. Every other byte is kept.
    /// `None`: the body is not an answer.
    fn write_body(
        &self,
        first_body: &str,
        texts: &[SlotText<'_>],
        ending: &Ending<'_>,
    ) -> Option<String>;

    /// Reads a request. `None`: it is not a request of this API, or not a valid one.
    fn parse(&self, path: &str, body: &[u8]) -> Option<Request>;

    /// Returns the members of a request that hold no credential, which fallbacks and stores get.
    fn allowed(&self) -> Members;

    /// Returns a request for a new, streamed answer to a prompt.
    fn new_request(&self, prompt: &PlainPrompt<'_>) -> NewRequest;

    /// Returns the messages of a request, if they have text alone. Other members of the request are
    /// left out. `None` if the API has no messages.
    fn plain_messages(&self, body: &str) -> Option<Vec<PlainMessage>> {
        let _ = body;
        None
    }

    /// Returns the path of a request like one of another path, for another model, if a path has
    /// more than the API. It follows the address that the provider's clients have.
    fn path_like(&self, path: &str, model: &str) -> Option<String> {
        let _ = (path, model);
        None
    }

    /// Returns the end of the address that the provider's clients have: `/v1`. Empty if they have a
    /// bare host.
    fn version(&self) -> &'static str {
        ""
    }

    /// Returns the request for the rest of an answer, or the original request with changes. `None`
    /// if [`parse`](Self::parse) returns `None`.
    fn ask(&self, body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String>;

    /// Returns a first request that is adapted to its model; `None` if nothing changes.
    fn adapt(&self, body: &str, adaptation: &Adaptation<'_>) -> Option<String>;

    /// Returns the number of the choice that a slot is in. An API that has no choices has choice 0.
    fn choice_of(&self, slot: SlotId) -> u32 {
        let _ = slot;
        0
    }

    /// Returns whether the arguments of tool calls are text, which can be cut. If not, they are
    /// objects that arrive whole.
    fn has_argument_text(&self) -> bool {
        true
    }

    /// Returns whether requests can ask for the arguments of tools while the model writes them:
    /// [`Adaptation::streams_arguments`].
    fn can_stream_arguments(&self) -> bool {
        false
    }

    /// Returns the body of an error of a whole response: a message, a code, and the report.
    fn error_body(&self, message: &str, code: &str, report: &str) -> String {
        let message = quoted(message);
        format!(
            r#"{{"error":{{"message":{message},"type":"upstream_error","param":null,"code":"{code}"}},"restitch":{report}}}"#
        )
    }

    /// Returns the body of an error that no upstream has sent: its status, a code, and a message.
    fn own_error_body(&self, status: u16, code: &str, message: &str) -> String {
        let _ = status;
        let (message, code) = (quoted(message), quoted(code));
        format!(
            r#"{{"error":{{"message":{message},"type":"proxy_error","param":null,"code":{code}}}}}"#
        )
    }

    /// Returns whether requests have the members of Chat Completions: `response_format`, the flags
    /// of prefills, and streams that a server keeps.
    fn has_chat_requests(&self) -> bool {
        false
    }

    /// Returns how requests have a grammar or a schema: as the model takes it, if the API can say
    /// so, or as all models of the API do.
    fn grammar(&self, known: Option<GrammarForm>) -> GrammarForm {
        let form = known.unwrap_or_else(|| self.usual_grammar());
        match self.takes_grammar(form) {
            true => form,
            false => GrammarForm::None,
        }
    }

    /// Returns whether a stream of the API can have this framing.
    fn takes_framing(&self, framing: Framing) -> bool {
        framing == self.framing() || framing == Framing::Array && self.array_writer().is_some()
    }

    /// Returns whether requests can have a grammar in this form.
    fn takes_grammar(&self, form: GrammarForm) -> bool {
        let _ = form;
        self.has_chat_requests()
    }

    /// Returns how each model of the API takes a grammar or a schema, if all of them do.
    fn usual_grammar(&self) -> GrammarForm {
        GrammarForm::None
    }

    /// Returns whether every model continues text that it is given, as completions do.
    fn always_continues(&self) -> bool {
        false
    }
}

/// A reader of a stream's events.
pub trait Reader: fmt::Debug + Send + Sync {
    /// Sets how many choices the request asks for, before the first event. 0: unknown.
    fn expect_choices(&mut self, choices: u64) {
        let _ = choices;
    }

    /// Reads one event and calls `on` for each delta in it. Returns the kind of the event.
    /// `event_type` is the event's name (`message` if it has none).
    fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind;

    /// Returns the tokens with which the provider continues the answer, if the API has such tokens.
    fn checkpoints(&mut self) -> Option<&mut Checkpoints> {
        None
    }

    /// Returns the data of an event without the text that the open hop repeats, or `None` if
    /// nothing changes. Call this before [`read`](Self::read).
    fn without_repeated(&mut self, data: &str) -> Result<Option<String>, Differs> {
        let _ = data;
        Ok(None)
    }
}

/// A writer of events that continue a response, so that the client sees one response. Each method
/// appends whole events to `out`.
pub trait Writer: fmt::Debug + Send + Sync {
    /// Takes note of an event of the first answer, which the client gets.
    fn observe(&mut self, event_type: &str, data: &str);

    /// Returns whether the client knows the answer by an event that was observed.
    fn has_begun(&self) -> bool;

    /// Returns the size of the kept items without their texts.
    fn kept(&self) -> Kept {
        Kept::default()
    }

    /// Takes note that the client did not get the events that ended a slot.
    fn reopen(&mut self, slot: SlotId) {
        let _ = slot;
    }

    /// Returns the suffix that turns the request's path into the path of the rest of the same
    /// answer, if the provider keeps the answer.
    fn resume(&self) -> Option<String> {
        None
    }

    /// Takes note of the token with which the provider continues the answer, raw JSON: the client
    /// gets it where the answer ends with the finish that asks for it.
    fn note_token(&mut self, token: &str) {
        let _ = token;
    }

    /// Writes more text of a slot. The slot may be new to the client.
    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str);

    /// Writes the end of the response, or of some of its choices. [`Self::done`] ends the stream.
    fn finish(&mut self, out: &mut Vec<u8>, texts: &[SlotText<'_>], ending: &Ending<'_>);

    /// Writes the event after the end of the answer that ends the stream, if the API has one.
    fn done(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Writes the report alone, if the response has no end.
    fn report(&mut self, out: &mut Vec<u8>, report: &str);

    /// Writes an error that ends the response: a message, a code, and the report.
    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str);

    /// Writes an event of the first answer with changed data.
    fn rewrite(&mut self, out: &mut Vec<u8>, event_type: &str, data: &str) {
        // The name of an event that has none.
        let name = Some(event_type).filter(|name| !matches!(*name, "" | "message"));
        Encoder::event(out, name, None, data);
    }

    /// Writes an event of another answer as one of this answer, unless the client knows its
    /// content.
    fn adopt(&mut self, out: &mut Vec<u8>, event_type: &str, data: &str);

    /// Returns the data of an event with its only text replaced. `None` if the event can't have
    /// text.
    fn with_text(&self, data: &str, text: &str) -> Option<String>;

    /// Replaces the whole texts that an event repeats by `texts`. Returns the changed data, or
    /// `None` if nothing changes.
    fn with_whole_texts(&mut self, data: &str, texts: &[SlotText<'_>]) -> Option<String> {
        let _ = (data, texts);
        None
    }

    /// Returns the data of an event without the finish in it.
    fn without_end(&self, data: &str) -> String;

    /// Writes an event that clients ignore, to keep the stream alive.
    fn keep_alive(&mut self, out: &mut Vec<u8>);
}

/// The items that a writer keeps, without their texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Items, those with texts among them.
    pub items: usize,
    /// Bytes of the items without their texts.
    pub bytes: usize,
}

/// A slot of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// Where it is.
    pub id: SlotId,
    /// The kind of its text.
    pub kind: SlotKind,
}

/// The kind of a slot's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SlotKind {
    /// Text of the answer.
    #[default]
    Text,
    /// The arguments of a tool call, as JSON text.
    Arguments,
}

/// A slot's whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotText<'a> {
    /// The slot.
    pub slot: Slot,
    /// Its text.
    pub text: &'a str,
}

/// How a response ends.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    /// The choices that end, and why, in the words of Chat Completions. At least one.
    pub reasons: &'a [(u32, Finish)],
    /// The sum of the usages of all calls: a JSON object.
    pub usage: Option<&'a str>,
    /// The upstream sends usage in an event of its own.
    pub usage_apart: bool,
    /// A report of the repairs and continuations: a JSON object.
    pub report: Option<&'a str>,
}

/// The facts about a request that a continuation needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The client asks for a stream.
    pub stream: bool,
    /// How many answers are requested. 1 by default.
    pub n: u64,
    /// The request has stop sequences, so an answer may end early on purpose.
    pub has_stop: bool,
    /// The request asks for JSON.
    pub has_json_mode: bool,
    /// The schema of the answer, as JSON, if the request has one.
    pub schema: Option<String>,
    /// The model's name. Empty if there is none.
    pub model: String,
    /// The request asks the model to reason first, by any member. A prefill can't be used then.
    pub wants_reasoning: bool,
    /// The most tokens of the answer, if the request limits them.
    pub max_tokens: Option<u64>,
    /// The tools that it declares.
    pub tools: Vec<Tool>,
    /// The base of the answer's document.
    pub base: Base,
}

/// The base of an answer's document: the text before the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Base {
    /// No text: the document begins in the answer.
    #[default]
    Empty,
    /// The request ends with the beginning of the assistant's message.
    Prefill {
        /// The beginning of the message.
        text: String,
        /// The request asks the provider to continue it literally, or the API always does. If
        /// false, the model's capability or the answer shows whether the text is continued.
        is_continued: bool,
        /// The answer repeats the text at its start.
        is_returned: bool,
    },
    /// The answer continues text that is not in the request.
    Elsewhere,
}

impl Base {
    /// Creates a base from the assistant's text at the end of a request, if there is any.
    pub(super) fn prefill(text: Option<String>, is_continued: bool) -> Self {
        match text.filter(|text| !text.trim().is_empty()) {
            Some(text) => Self::Prefill {
                text,
                is_continued,
                is_returned: false,
            },
            None => Self::Empty,
        }
    }

    /// Returns the base for an answer from a model with this capability.
    pub fn of_model(self, capability: &Capability, is_stream: bool) -> Self {
        match self {
            Self::Prefill {
                text, is_continued, ..
            } => Self::Prefill {
                text,
                is_continued: is_continued || capability.prefill == PrefillForm::Turn,
                is_returned: capability.returns_prefill_in(is_stream),
            },
            other => other,
        }
    }
}

/// A tool that a request declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The schema of its arguments, as JSON; `None` if it has none.
    pub schema: Option<String>,
}

/// A prompt before it is written for an API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainPrompt<'a> {
    /// The model's name.
    pub model: &'a str,
    /// The system message.
    pub system: Option<&'a str>,
    /// The user's message.
    pub text: &'a str,
    /// The most tokens of the answer. `None`: the provider's limit, or a default of this crate if
    /// the API demands a limit or has a very low one.
    pub max_tokens: Option<u64>,
}

/// A request for a new answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRequest {
    /// The path with its query. It follows the address that the provider's clients have.
    pub path: String,
    /// The header with the key, and the text before the key in its value.
    pub key_header: (&'static str, &'static str),
    /// Further headers.
    pub headers: &'static [(&'static str, &'static str)],
    /// The body.
    pub body: String,
}

impl NewRequest {
    /// Creates a request whose key is a bearer token.
    pub(super) fn new(path: impl Into<String>, body: String) -> Self {
        Self {
            path: path.into(),
            key_header: ("authorization", "Bearer "),
            headers: &[],
            body,
        }
    }
}

/// The messages that ask for the rest, which are appended to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rest<'a> {
    /// Two messages: the assistant's with the delivered text, and the user's.
    Reprompt {
        /// The assistant's message. Left out if it is blank.
        delivered: &'a str,
        /// The user's message.
        prompt: &'a str,
    },
    /// One message, the assistant's, which is continued literally.
    Prefill {
        /// The assistant's message.
        delivered: &'a str,
        /// How the request marks the message. [`PrefillForm::None`] is treated as
        /// [`PrefillForm::Turn`].
        form: PrefillForm,
    },
}

/// Changes in a request besides the appended messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// Turns reasoning off.
    pub reasoning_off: Option<&'a Switch>,
    /// Another limit on the answer's tokens, in the member that had one.
    pub max_tokens: Option<u64>,
    /// The token of the answer that is continued, raw JSON.
    pub token: Option<&'a str>,
    /// The grammar or schema that the answer must follow, and how the request has it.
    pub grammar: Option<(GrammarForm, &'a str)>,
    /// Keeps JSON mode unchanged in the request for the rest.
    pub keeps_json_mode: bool,
    /// The delivered text replaces the assistant's text at the end of the request
    /// ([`Base::Prefill`]), with which it begins.
    pub replaces_prefill: bool,
}

impl<'a> Changes<'a> {
    /// Returns the JSON Schema that the answer must follow, if it must follow one.
    pub(super) fn schema(&self) -> Option<&'a str> {
        self.grammar
            .filter(|(form, _)| form.is_schema())
            .map(|(_, schema)| schema)
    }
}

/// The changes that adapt a first request to its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adaptation<'a> {
    /// The member that is removed.
    pub without: Option<&'a str>,
    /// Another name of the model.
    pub model: Option<&'a str>,
    /// Asks for the arguments of tools while the model writes them.
    pub streams_arguments: bool,
}
