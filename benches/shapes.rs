//! Events of the recorded shapes, and a reader of them with types of its own, as a program has it.

use std::borrow::Cow;
use std::hint::black_box;

use restitch::internal::wire::Dialect;
use serde::Deserialize;

/// The shapes of recorded events, in their order of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A chat event of 330 bytes without padding.
    Chat,
    /// A chat event with padding, as OpenAI sends it.
    PaddedChat,
    Messages,
    /// An event of the Responses API with a number and padding.
    Responses,
    /// An event of Gemini, which has usage in each.
    Gemini,
}

impl Shape {
    pub(crate) const ALL: [Self; 5] = [
        Self::Chat,
        Self::PaddedChat,
        Self::Messages,
        Self::Responses,
        Self::Gemini,
    ];

    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Chat | Self::PaddedChat => Dialect::Chat,
            Self::Messages => Dialect::Messages,
            Self::Responses => Dialect::Responses,
            Self::Gemini => Dialect::Gemini,
        }
    }

    /// Returns the events before the first text.
    pub(crate) fn start(self) -> &'static str {
        match self {
            Self::Chat | Self::PaddedChat | Self::Gemini => "",
            Self::Messages => concat!(
                "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n",
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,",
                "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            ),
            Self::Responses => concat!(
                "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,",
                "\"response\":{\"id\":\"r\",\"output\":[]}}\n\n",
                "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":1,",
                "\"output_index\":0,\"item\":{\"id\":\"msg\",\"type\":\"message\",\"content\":[]}}\n\n",
            ),
        }
    }

    /// Returns the `n`th event with text.
    pub(crate) fn event(self, n: usize, text: &str) -> String {
        let text = serde_json::Value::from(text);
        let padding = &"0123456789abcdef"[..1 + n * 7 % 15];
        let choice = format!(
            r#""choices":[{{"index":0,"delta":{{"content":{text}}},"logprobs":null,"finish_reason":null}}]"#
        );
        let head = r#""id":"chatcmpl-0123456789abcdef0123456789","object":"chat.completion.chunk","created":1750000000"#;
        match self {
            Self::Chat => format!(
                r#"data: {{{head},"model":"a-model-2026-01-01-with-a-long-name","service_tier":"default","system_fingerprint":"fp_0123456789",{choice},"usage":null}}"#
            ),
            Self::PaddedChat => format!(
                r#"data: {{{head},"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_0123456789",{choice},"obfuscation":"{padding}"}}"#
            ),
            Self::Messages => format!(
                r#"event: content_block_delta
data: {{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{text}}}}}"#
            ),
            Self::Responses => format!(
                r#"event: response.output_text.delta
data: {{"type":"response.output_text.delta","sequence_number":{},"item_id":"msg_0123456789abcdef0123456789abcdef0123456789abcdef","output_index":0,"content_index":0,"delta":{text},"logprobs":[],"obfuscation":"{padding}"}}"#,
                n + 2
            ),
            Self::Gemini => {
                let (answer, total) = (5 * n, 361 + 5 * n);
                format!(
                    r#"data: {{"candidates": [{{"content": {{"parts": [{{"text": {text}}}],"role": "model"}},"index": 0}}],"usageMetadata": {{"promptTokenCount": 135,"candidatesTokenCount": {answer},"totalTokenCount": {total},"promptTokensDetails": [{{"modality": "TEXT","tokenCount": 135}}],"thoughtsTokenCount": 226,"serviceTier": "standard"}},"modelVersion": "gemini-0-pro-preview","responseId": "ABCDabcd01234567ABCDabcd"}}"#
                )
            }
        }
    }

    /// Reads an event as a program with its own types for the wire would. Strings are borrowed.
    /// Returns the bytes of the text.
    pub(crate) fn typed(self, data: &str) -> usize {
        fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Option<T> {
            serde_json::from_str(data).ok()
        }
        let is_empty = |word: &Option<Text<'_>>| word.as_ref().is_some_and(|w| w.0.is_empty());
        match self {
            Self::Chat | Self::PaddedChat => read::<Chunk<'_>>(data).map_or(0, |chunk| {
                let choice = chunk.choices.first();
                assert!(choice.is_none_or(|choice| choice.index < 9));
                assert!(choice.is_none_or(|choice| !is_empty(&choice.finish_reason)));
                length(choice.and_then(|choice| choice.delta.as_ref()?.content.as_ref()))
            }),
            Self::Messages => read::<Message<'_>>(data).map_or(0, |event| {
                assert!(!event.r#type.is_empty() && event.index != Some(9999));
                let delta = event.delta.as_ref();
                assert!(delta.is_none_or(|delta| !is_empty(&delta.stop_reason)));
                length(delta.and_then(|delta| delta.text.as_ref()))
            }),
            Self::Responses => read::<Response<'_>>(data).map_or(0, |event| {
                assert!(!event.r#type.is_empty());
                assert!(event.output_index != Some(9999) && event.content_index != Some(9999));
                match &*event.r#type {
                    "response.output_text.delta" => length(event.delta.as_ref()),
                    _ => 0,
                }
            }),
            Self::Gemini => read::<Content<'_>>(data).map_or(0, |event| {
                black_box(
                    event
                        .usage
                        .map(|usage| (usage.prompt, usage.answer, usage.total)),
                );
                let candidate = event.candidates.first();
                assert!(candidate.is_none_or(|candidate| !is_empty(&candidate.finish_reason)));
                let parts = candidate.and_then(|candidate| candidate.content.as_ref());
                parts.map_or(0, |content| {
                    content
                        .parts
                        .iter()
                        .filter(|part| !part.thought)
                        .map(|part| length(part.text.as_ref()))
                        .sum()
                })
            }),
        }
    }
}

fn length(text: Option<&Text<'_>>) -> usize {
    text.map_or(0, |text| text.0.len())
}

/// A string, borrowed if it has no escape. (serde does not borrow an optional `Cow`.)
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

// The members that a program reads of each API.

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow)]
    delta: Option<ChatDelta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct ChatDelta<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    index: Option<u32>,
    #[serde(borrow)]
    delta: Option<MessagesDelta<'a>>,
}

#[derive(Deserialize)]
struct MessagesDelta<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    output_index: Option<u32>,
    content_index: Option<u32>,
    #[serde(borrow)]
    delta: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    candidates: Vec<Candidate<'a>>,
    #[serde(rename = "usageMetadata")]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Parts<'a>>,
    #[serde(borrow, rename = "finishReason")]
    finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow, default)]
    parts: Vec<Part<'a>>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(default)]
    thought: bool,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(rename = "promptTokenCount")]
    prompt: Option<u64>,
    #[serde(rename = "candidatesTokenCount")]
    answer: Option<u64>,
    #[serde(rename = "totalTokenCount")]
    total: Option<u64>,
}
