//! The conversation of a request as plain messages, and as a request of another API.

use super::fields::{present, text, word};
use super::wire::{Changes, Dialect, NewRequest, PlainPrompt, Rest};
use crate::json::walk::{Raw, ValueKind};

/// A message of a conversation that has text alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainMessage {
    /// The speaker.
    pub role: Role,
    /// Its text.
    pub text: String,
}

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The instructions before the conversation.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// Returns a request of another API for the answer to the same conversation. `None`: the
/// conversation has more than text, does not end with the user's words, or its API has no
/// conversations.
///
/// The new request lacks the other members of the request: tools, formats of the answer, sampling.
/// The rest of an answer is text that fits no format.
pub fn translated(
    (from, body): (Dialect, &str),
    (to, model): (Dialect, &str),
    max_tokens: Option<u64>,
) -> Option<NewRequest> {
    let messages = from.wire().plain_messages(body)?;
    let (system, turns): (Vec<_>, Vec<_>) = messages
        .into_iter()
        .partition(|message| message.role == Role::System);
    let system = system
        .into_iter()
        .map(|message| message.text)
        .collect::<Vec<_>>()
        .join("\n\n");
    let turns = merged(turns);
    let (first, others) = turns
        .split_first()
        .filter(|(first, _)| first.role == Role::User)?;
    let system = Some(system.as_str()).filter(|system| !system.is_empty());
    let mut request = to.wire().new_request(&PlainPrompt {
        model,
        system,
        text: &first.text,
        max_tokens,
    });
    for pair in others.chunks(2) {
        let [answer, question] = pair else {
            return None;
        };
        let rest = Rest::Reprompt {
            delivered: &answer.text,
            prompt: &question.text,
        };
        request.body = to
            .wire()
            .ask(&request.body, Some(&rest), &Changes::default())?;
    }
    Some(request)
}

/// Joins successive messages by the same speaker. After that the speakers alternate.
fn merged(messages: Vec<PlainMessage>) -> Vec<PlainMessage> {
    let mut merged: Vec<PlainMessage> = Vec::new();
    for message in messages {
        match merged.last_mut().filter(|last| last.role == message.role) {
            Some(last) => {
                last.text.push_str("\n\n");
                last.text.push_str(&message.text);
            }
            None => merged.push(message),
        }
    }
    merged
}

/// Returns messages with a `role` and a `content`, as most APIs have them.
pub(super) fn messages_of(messages: Raw<'_>) -> Option<Vec<PlainMessage>> {
    messages.elements().map(message_of).collect()
}

fn message_of(message: Raw<'_>) -> Option<PlainMessage> {
    let has_more = ["tool_calls", "function_call", "images", "audio"]
        .iter()
        .any(|key| present(message.member(key)).is_some());
    let role = match word(message.member("role"))?.as_ref() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return None,
    };
    Some(PlainMessage {
        role,
        text: text_of(message.member("content")?)?,
    })
    .filter(|_| !has_more)
}

/// Returns a text, or that of a list of blocks that have text alone.
pub(super) fn text_of(content: Raw<'_>) -> Option<String> {
    if content.kind() != ValueKind::Array {
        return text(Some(content)).map(|text| text.into_owned());
    }
    let of_block = |block: Raw<'_>| {
        let kind = word(block.member("type"));
        let is_text =
            kind.is_none_or(|kind| matches!(kind.as_ref(), "text" | "input_text" | "output_text"));
        text(block.member("text"))
            .filter(|_| is_text)
            .map(|text| text.into_owned())
    };
    content
        .elements()
        .map(of_block)
        .collect::<Option<Vec<_>>>()
        .map(|texts| texts.join("\n\n"))
}

/// Puts the instructions in front, if an API has them beside its messages.
pub(super) fn with_system(
    system: Option<Raw<'_>>,
    messages: Vec<PlainMessage>,
) -> Option<Vec<PlainMessage>> {
    let Some(system) = present(system) else {
        return Some(messages);
    };
    let system = PlainMessage {
        role: Role::System,
        text: text_of(system)?,
    };
    Some(std::iter::once(system).chain(messages).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_messages(from: Dialect, body: &str) -> Option<String> {
        translated((from, body), (Dialect::Messages, "m"), Some(9)).map(|request| request.body)
    }

    #[test]
    fn a_conversation_is_the_same_in_another_api() {
        let turns = r#""messages":[{"role":"user","content":"a\n\nb"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]}"#;
        let expected =
            format!(r#"{{"model":"m","stream":true,"max_tokens":9,"system":"S",{turns}"#);
        let messages = r#"{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":"c"},{"role":"user","content":"d"}"#;
        for (from, body) in [
            (Dialect::Chat, format!(r#"{{"tools":[],"messages":[{{"role":"system","content":"S"}},{messages}]}}"#)),
            (Dialect::Cohere, format!(r#"{{"messages":[{{"role":"system","content":"S"}},{messages}]}}"#)),
            (Dialect::Ollama, format!(r#"{{"messages":[{{"role":"system","content":"S"}},{messages}]}}"#)),
            (Dialect::Messages, format!(r#"{{"system":[{{"type":"text","text":"S"}}],"messages":[{messages}]}}"#)),
            (Dialect::Responses, format!(r#"{{"instructions":"S","input":[{messages}]}}"#)),
            (
                Dialect::Gemini,
                r#"{"systemInstruction":{"parts":[{"text":"S"}]},"contents":[{"parts":[{"text":"a\n\n"},{"text":"b"}]},{"role":"model","parts":[{"text":"c"}]},{"role":"user","parts":[{"text":"d"}]}]}"#.to_owned(),
            ),
        ] {
            assert_eq!(to_messages(from, &body).as_deref(), Some(expected.as_str()), "{from}");
        }
        let body = r#"{"input":"a"}"#;
        let expected = r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"a"}]}"#;
        assert_eq!(
            to_messages(Dialect::Responses, body).as_deref(),
            Some(expected)
        );
    }

    #[test]
    fn what_has_more_than_text_is_not_translated() {
        for (from, body) in [
            (Dialect::Chat, r#"{"messages":[]}"#),
            (
                Dialect::Chat,
                r#"{"messages":[{"role":"assistant","content":"a"}]}"#,
            ),
            (
                Dialect::Chat,
                r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#,
            ),
            (
                Dialect::Chat,
                r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}"#,
            ),
            (
                Dialect::Chat,
                r#"{"messages":[{"role":"user","content":"a"},{"role":"tool","content":"b"}]}"#,
            ),
            (
                Dialect::Chat,
                r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{}]}]}"#,
            ),
            (
                Dialect::Ollama,
                r#"{"messages":[{"role":"user","content":"a","images":["x"]}]}"#,
            ),
            (Dialect::Ollama, r#"{"prompt":"a"}"#),
            (
                Dialect::Messages,
                r#"{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}"#,
            ),
            (
                Dialect::Responses,
                r#"{"input":"a","previous_response_id":"b"}"#,
            ),
            (
                Dialect::Responses,
                r#"{"input":[{"type":"function_call_output"}]}"#,
            ),
            (
                Dialect::Gemini,
                r#"{"contents":[{"parts":[{"inlineData":{}}]}]}"#,
            ),
            (Dialect::Completions, r#"{"prompt":"a"}"#),
        ] {
            assert_eq!(to_messages(from, body), None, "{from}: {body}");
        }
    }
}
