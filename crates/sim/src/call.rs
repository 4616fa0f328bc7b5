//! Reads requests: which conversation a request belongs to, and whether it is a first call or a
//! continuation.
//!
//! Knows messages in the format of the Chat Completions API, into which the [`wire`] converts them,
//! and the layout of a continuation request, but not which step answers it.

use std::hash::{DefaultHasher, Hash, Hasher};

use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

use super::members::schema_of;
use super::profile::ProviderProfile;
use super::question::{anchor, mark, members, own_script};
use super::script::{Script, Step};
use super::token::{Token, is_reached, limit_of};
use super::tool::Tool;
use super::wire::{self, Wire};

/// One request that the server received, and its answer. Recorded before the first byte of the
/// answer is sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// The request's method.
    pub method: Method,
    /// Its path, with the query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; bytes that are not UTF-8 are replaced.
    pub body: String,
    /// Whether it was a first call or a continuation.
    pub kind: CallKind,
    /// The step that answered it; `None` if no step did.
    pub step: Option<Step>,
    /// The response's status; `None` if the connection was closed instead.
    pub status: Option<StatusCode>,
}

/// The type of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallKind {
    /// A call for a document from its beginning.
    First,
    /// A call for the rest of a document.
    Continuation {
        /// The text that the request asked the model to repeat first.
        anchor: String,
        /// How many bytes of the document had been delivered.
        position: usize,
    },
    /// Neither: another path, or a body that was rejected.
    Other,
}

/// A request for an answer, parsed.
pub(super) struct ParsedRequest {
    /// A hash that is the same for all calls for one document.
    pub(super) conversation: u64,
    /// The script in the prompt, which replaces the server's.
    pub(super) script: Option<Script>,
    pub(super) continuation: Option<Continuation>,
    /// The limit on the answer's tokens.
    pub(super) max_tokens: Option<u64>,
    /// The request has a grammar, which the answer follows: llama.cpp's, vLLM's or SGLang's.
    pub(super) has_grammar: bool,
    /// The request turns reasoning off.
    pub(super) reasoning_off: bool,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// The tool that an answer may call.
    pub(super) tool: Option<Tool>,
    /// Bytes of all messages, from which the prompt's token count is estimated.
    pub(super) prompt_bytes: usize,
}

/// How a request says where its answer continues.
#[derive(Clone, Debug, Default)]
pub(super) enum Asked {
    /// By a question.
    #[default]
    Question,
    /// By a question for the missing parts, under this schema.
    Members { schema: Value, question: String },
    /// By a prefill.
    Prefill,
    /// By a token. `is_exhausted`: earlier calls have used all tokens that the request allows.
    Token { is_exhausted: bool },
}

/// The parts of a continuation request.
#[derive(Default)]
pub(super) struct Continuation {
    /// The text delivered so far, including its envelope.
    pub(super) delivered: String,
    /// The text between the tags.
    pub(super) anchor: String,
    /// White space between the anchor's end and the cut. It follows a repeated anchor.
    pub(super) gap: String,
    /// The text that the request asked the model to write between the anchor and the new text.
    pub(super) mark: Option<String>,
    /// How many bytes of the document the delivered text has.
    pub(super) position: usize,
    pub(super) asked: Asked,
    /// The answer begins again: the question asks for that, or the format does not apply to the
    /// prefill.
    pub(super) restarts: bool,
}

/// A request that gets no step: a status, and a message that names the client's mistake.
#[derive(Debug)]
pub(super) struct RequestError {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// The body of the response, if it is not made from the message.
    pub body: Option<&'static str>,
}

impl RequestError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            body: None,
        }
    }
}

impl ParsedRequest {
    /// Reads a request's body. `document` is needed to find where the continuation begins.
    pub(super) fn read(
        wire: &Wire,
        body: &[u8],
        document: &str,
        profile: ProviderProfile,
        path: &str,
    ) -> Result<Self, RequestError> {
        let mut body: Value =
            serde_json::from_slice(body).map_err(|e| bad(format!("the body is not JSON: {e}")))?;
        let Some(turns) = wire.turns(&body, document) else {
            return Err(bad(format!(
                "`{}` is not a text or an array, or is empty",
                wire.member
            )));
        };
        let messages = turns.messages.as_slice();
        if let Some(object) = body.as_object_mut() {
            object.insert("messages".into(), messages.into());
        }
        if let Some(refusal) = profile.refusal(path, &body, document) {
            return Err(RequestError {
                body: Some(refusal),
                ..bad(String::new())
            });
        }
        let is_prefill = turns.is_prefill || profile.continues(&body);
        let (messages, prefill) = match messages.split_last() {
            Some((last, before)) if is_prefill => (before, Some(text(last))),
            _ => (messages, None),
        };
        let max_tokens = limit_of(&body);
        let token = Token::read(&body, document).filter(|_| profile.sends_tokens());
        let again = Continuation::again(messages, document).filter(|_| !is_prefill);
        let (mut continuation, mut prompt) = match (token, again) {
            (Some(token), _) => {
                let is_exhausted = max_tokens.is_some_and(|most| is_reached(most, token.position));
                let asked = Continuation::after(token, is_exhausted, document);
                (Some(asked), messages)
            }
            (None, Some((continuation, prompt))) => (Some(continuation), prompt),
            (None, None) => (Continuation::asked(messages, prefill, document)?, messages),
        };
        if let Some(continuation) = &mut continuation {
            continuation.restarts |= is_prefill && profile.restarts_format(&body);
            if let Some((schema, question)) = members_asked(messages, &body) {
                continuation.asked = Asked::Members { schema, question };
            }
        }
        while let Some((begin, Some(_), _)) = last_turn(prompt) {
            prompt = &prompt[..begin];
        }
        let mut hasher = DefaultHasher::new();
        let texts = prompt.iter().map(Value::to_string);
        texts.for_each(|text| text.hash(&mut hasher));
        Ok(Self {
            conversation: hasher.finish(),
            script: script(prompt)?,
            continuation,
            max_tokens,
            has_grammar: ["/grammar", "/structured_outputs/grammar", "/ebnf"]
                .iter()
                .any(|member| body.pointer(member).is_some_and(Value::is_string)),
            reasoning_off: reasoning_off(&body),
            stream: wire.streams(&body),
            include_usage: body["stream_options"]["include_usage"] == true,
            tool: Tool::read(&body).filter(|_| wire.has_tools),
            prompt_bytes: messages
                .iter()
                .map(|message| message.to_string().len())
                .sum(),
        })
    }
}

/// Returns the schema of the answer and the question for the parts that are missing, if the last
/// message asks for them.
fn members_asked(messages: &[Value], body: &Value) -> Option<(Value, String)> {
    let question = text(messages.last()?);
    Some((schema_of(body)?.clone(), members(&question)?.to_owned()))
}

/// Returns the script in the last message of the user's that has one.
fn script(prompt: &[Value]) -> Result<Option<Script>, RequestError> {
    let mut scripts = prompt
        .iter()
        .filter(|m| role(m) == "user")
        .filter_map(|m| own_script(&text(m)));
    scripts
        .next_back()
        .map(|script| {
            script
                .parse()
                .map_err(|e| bad(format!("the prompt's script: {e}")))
        })
        .transpose()
}

fn bad(message: String) -> RequestError {
    RequestError::new(StatusCode::BAD_REQUEST, message)
}

fn unprocessable(message: impl Into<String>) -> RequestError {
    RequestError::new(StatusCode::UNPROCESSABLE_ENTITY, message)
}

impl Continuation {
    /// Returns the continuation from a token.
    fn after(token: Token, is_exhausted: bool, document: &str) -> Self {
        let delivered = document.get(..token.position).unwrap_or_default();
        Self {
            delivered: delivered.to_owned(),
            position: token.position,
            asked: Asked::Token { is_exhausted },
            ..Self::default()
        }
    }

    /// Reads the continuation that a request asks for, if it asks for one.
    fn asked(
        messages: &[Value],
        prefill: Option<String>,
        document: &str,
    ) -> Result<Option<Self>, RequestError> {
        if let Some(delivered) = prefill {
            // White space at the end of a prefill belongs to it and is not repeated.
            let read = Self::read(delivered, String::new(), document)?;
            return Ok(Some(Self {
                gap: String::new(),
                asked: Asked::Prefill,
                ..read
            }));
        }
        let Some((_, delivered, anchor)) = last_turn(messages) else {
            return Ok(None);
        };
        let Some(delivered) = delivered else {
            return Err(unprocessable(
                "a continuation is asked for, but no assistant message before it has the delivered text",
            ));
        };
        let question = messages
            .iter()
            .rfind(|message| role(message) == "user")
            .map(text);
        let mark = question.and_then(|question| mark(&question).map(str::to_owned));
        Ok(Some(Self {
            mark,
            ..Self::read(delivered, anchor, document)?
        }))
    }

    /// Reads a question for the whole document once more: a last message of the user's without an
    /// anchor, after a message with a part of the document. Returns the messages before it, too.
    fn again<'m>(messages: &'m [Value], document: &str) -> Option<(Self, &'m [Value])> {
        let [prompt @ .., said, question] = messages else {
            return None;
        };
        let question = (role(question) == "user").then(|| text(question))?;
        let has_part = anchor(&question).is_some() || members(&question).is_some();
        let delivered = (role(said) == "assistant" && !has_part).then(|| text(said))?;
        let asked = Self {
            restarts: true,
            ..Self::read(delivered, String::new(), document).ok()?
        };
        (0 < asked.position && asked.position < document.len()).then_some((asked, prompt))
    }

    fn read(delivered: String, anchor: String, document: &str) -> Result<Self, RequestError> {
        let position = position(document, &delivered);
        let rendered = || end_of_rendering(document, &delivered, &anchor);
        let (position, delivered) = match position.as_ref().err().and_then(|_| rendered()) {
            Some(end) => (end, document[..end].to_owned()),
            None => (position?, delivered),
        };
        let end = delivered.trim_end_matches(WHITE_SPACE).len();
        let begin = end.checked_sub(anchor.trim_end_matches(WHITE_SPACE).len());
        let gap = begin.and_then(|begin| delivered.get(begin..)?.strip_prefix(anchor.as_str()));
        let Some(gap) = gap.map(str::to_owned) else {
            return Err(unprocessable(format!(
                "the overlap context is not the end of the delivered text: {:?}",
                tail(&anchor)
            )));
        };
        Ok(Self {
            delivered,
            anchor,
            gap,
            position,
            ..Self::default()
        })
    }
}

/// Returns how many bytes of `document` the text `delivered` has. A fence or a preamble before the
/// root is skipped.
fn position(document: &str, delivered: &str) -> Result<usize, RequestError> {
    // A document that is not an object or array has no opener to look for; then nothing may precede
    // it.
    let begin = document.len() - document.trim_start_matches(WHITE_SPACE).len();
    let (begin, root) = if document[begin..].starts_with(OPENERS) {
        (
            begin,
            delivered.find(OPENERS).map_or("", |at| &delivered[at..]),
        )
    } else {
        (0, delivered)
    };
    let expected = &document[begin..];
    if expected.starts_with(root) {
        return Ok(begin + root.len());
    }
    let same = expected
        .bytes()
        .zip(root.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let shown = |text: &str| {
        String::from_utf8_lossy(&text.as_bytes()[same..text.len().min(same + 24)]).into_owned()
    };
    Err(unprocessable(format!(
        "the delivered text is not a prefix of the document: at byte {} it has {:?} instead of {:?}",
        begin + same,
        shown(root),
        shown(expected),
    )))
}

/// Returns where the delivered text ends that a message renders: hints replace most of its values,
/// and its end, which the client asks to repeat, is the text itself. `None` if there are no hints.
fn end_of_rendering(document: &str, rendering: &str, anchor: &str) -> Option<usize> {
    const HINTS: [&str; 7] = [
        "…", "<str>", "<object>", "<array>", "<bool>", "<null>", "<number>",
    ];
    let has_hints = HINTS.iter().any(|hint| rendering.contains(hint));
    let end = rendering.trim_end_matches(WHITE_SPACE).len();
    let begin = end.checked_sub(anchor.trim_end_matches(WHITE_SPACE).len())?;
    let end = rendering
        .get(begin..)
        .filter(|end| has_hints && !anchor.is_empty() && end.starts_with(anchor))?;
    // A client chooses an anchor that occurs once in the text that it has.
    Some(document.find(end)? + end.len())
}

/// Returns, if the last user message asks for a continuation: where its turn begins, the delivered
/// text of the assistant message before it, if there is one, and the anchor.
fn last_turn(messages: &[Value]) -> Option<(usize, Option<String>, String)> {
    let user = messages
        .iter()
        .rposition(|message| role(message) == "user")?;
    let question = text(&messages[user]);
    // A question for the missing parts names no text to repeat.
    let anchor = anchor(&question).or(members(&question).map(|_| ""))?;
    let anchor = anchor.to_owned();
    let assistant = messages[..user]
        .iter()
        .rposition(|message| role(message) == "assistant");
    Some((
        assistant.unwrap_or(user),
        assistant.map(|at| text(&messages[at])),
        anchor,
    ))
}

/// Returns whether a request turns reasoning off, by any provider's member.
fn reasoning_off(body: &Value) -> bool {
    const OFF: [(&str, &[&str]); 8] = [
        ("/thinking/type", &["disabled"]),
        ("/enable_thinking", &["false"]),
        ("/chat_template_kwargs/enable_thinking", &["false"]),
        ("/reasoning/enabled", &["false"]),
        ("/reasoning_effort", &["none", "minimal"]),
        ("/reasoning/effort", &["none", "minimal"]),
        ("/generationConfig/thinkingConfig/thinkingBudget", &["0"]),
        ("/think", &["false"]),
    ];
    OFF.iter().any(|(pointer, off)| {
        let value = body.pointer(pointer).map(Value::to_string);
        value.is_some_and(|value| off.contains(&value.trim_matches('"')))
    })
}

fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}

fn text(message: &Value) -> String {
    wire::text(message.get("content"))
}

/// Returns the last characters of a text, for messages.
fn tail(text: &str) -> &str {
    let begin = text.char_indices().rev().nth(39).map_or(0, |(at, _)| at);
    &text[begin..]
}

/// White space of RFC 8259.
pub(super) const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

const OPENERS: [char; 2] = ['{', '['];

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{"a": [1, 2, 3], "b": "text"}"#;

    #[test]
    fn the_position_is_the_length_of_the_delivered_root() {
        let envelopes = ["", "```json\n", "Here it is:\n\n```json\n", "\n  "];
        for envelope in envelopes {
            for cut in 0..=DOCUMENT.len() {
                let delivered = format!("{envelope}{}", &DOCUMENT[..cut]);
                assert_eq!(
                    position(DOCUMENT, &delivered).unwrap(),
                    cut,
                    "{delivered:?}"
                );
            }
        }
        assert_eq!(position(" \n[1, 2]", "[1").unwrap(), 4);
        assert_eq!(position("plain text", "plain").unwrap(), 5);
        let error = position(DOCUMENT, r#"{"a": [1, 22, 3]"#).unwrap_err();
        assert_eq!(error.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(
            error.message,
            r#"the delivered text is not a prefix of the document: at byte 11 it has "2, 3]" instead of ", 3], \"b\": \"text\"}""#,
        );
        assert!(position(DOCUMENT, &format!("{DOCUMENT}{DOCUMENT}")).is_err());
    }

    #[test]
    fn a_rendering_ends_where_its_anchor_first_occurs() {
        let document = r#"{"a": [1, 2], "b": "x", "c": [1, 2, 3]}"#;
        let end = |rendering, anchor| end_of_rendering(document, rendering, anchor);
        assert_eq!(
            end(r#"{"a": <array>, "b": "x", "#, r#""b": "x","#),
            Some(24)
        );
        assert_eq!(end(r#"{"a": …, "b": "x"#, r#", "b": "x"#), Some(21));
        // Other text, no hint, or an anchor elsewhere.
        assert_eq!(end(r#"{"a": …, "b": "y"#, r#", "b": "y"#), None);
        assert_eq!(end(r#"{"a": [7], "b": "x"#, r#", "b": "x"#), None);
        assert_eq!(end(r#"{"a": …, "b": "x"#, r#""a": "#), None);
        assert_eq!(end(r#"{"a": …, "b": "x"#, ""), None);
    }
}
