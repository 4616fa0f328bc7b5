//! What a server sends in one call: an answer in pieces, and what else may come between them.

use restitch::internal::wire::{Dialect, SlotKind};
use restitch::session::{ContinuationMode, Request};
use serde_json::json;

use super::root;
use restitch_testing::answers::Answer;

/// The documents whose text is told.
pub(super) const DOCUMENTS: [&str; 8] = [
    r#"{"title": "Tides", "rows": [{"id": 1, "text": "high \"water\" é"}, {"id": 2, "text": "low 😀"}], "n": 12}"#,
    r#"{"a": 1, "b": {"c": [true, null, -1.5e3]}, "d": ""}"#,
    r#"{"rows": [[0, 1], [2, 3], [4, 5]], "path": "C:\\dir\u00e9\n"}"#,
    r#"{"k": "v"}"#,
    "{\n  \"list\": [\n    10,\n    20,\n    {\"x\": \"y\"}\n  ],\n  \"end\": false\n}",
    r#"["alpha", "beta", {"gamma": "delta", "epsilon": [1, 2, 3]}, "zeta"]"#,
    "```json\n{\"name\": \"fence\", \"items\": [\"one\", \"two\"]}\n```",
    "Here it is:\n\n[{\"id\": 7, \"note\": \"first\"}, {\"id\": 8, \"note\": \"second\"}]",
];

/// Documents that arguments may have: objects without anything around them.
pub(super) const ARGUMENTS: usize = 5;

/// The last event of two of the APIs.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Comments, and what is no event of any API. Only the comments belong in a stream.
const OTHERS: [&[u8]; 12] = [
    b": ping\n\n",
    b":\n\n",
    b": one\n: two\n\n",
    b": ping\n\n",
    b"data: {oops\n\n",
    b"data: \xff\xfe\n\n",
    b"event: ping\ndata: {}\n\n",
    b"data\n\n",
    b"\r\n\r\n",
    b"id: 7\nretry: 5\n",
    b"{\"choices\":[{\"delta\":{\"content\":\"x",
    b"data: [1, 2\ndata: 3]\n\n",
];

/// The stream of one call, and how much of it has been sent.
#[derive(Clone, Debug)]
pub(super) struct Call {
    dialect: Dialect,
    kind: SlotKind,
    /// Tells the identity of its chunks from that of another call's.
    number: usize,
    /// The texts that are true, if this call may tell any: what follows a prefill, the anchor and
    /// the rest, the document.
    truths: Vec<String>,
    /// The text that it tells, and how much of it was told.
    source: Option<(String, usize)>,
    parts: Vec<String>,
    /// Bytes of the answer that are in the stream.
    written: usize,
    pub(super) stream: Vec<u8>,
    pub(super) sent: usize,
    /// A finish reason is in the stream.
    pub(super) has_finish: bool,
    /// The end of the stream is in it.
    has_done: bool,
    /// Something follows the end of the answer, or is no event of its API.
    pub(super) is_irregular: bool,
    /// Text came that is not of the document.
    pub(super) is_invented: bool,
}

impl Call {
    pub(super) fn new(
        dialect: Dialect,
        kind: SlotKind,
        number: usize,
        truths: Vec<String>,
    ) -> Self {
        Self {
            dialect,
            kind,
            number,
            truths,
            source: None,
            parts: Vec::new(),
            written: 0,
            stream: Vec::new(),
            sent: 0,
            has_finish: false,
            has_done: false,
            is_irregular: false,
            is_invented: false,
        }
    }

    /// Returns the call for a request, after `delivered`. Its texts are true where nothing was
    /// invented before.
    pub(super) fn of(
        dialect: Dialect,
        kind: SlotKind,
        number: usize,
        request: &Request,
        told: (&str, &str),
    ) -> Self {
        let (document, delivered) = told;
        // What is around the document may have come otherwise.
        let after = |delivered: &str| match root(delivered).len() {
            0 => document,
            length => root(document).get(length..).unwrap_or_default(),
        };
        let truths = match &request.turn {
            None => vec![document.to_owned()],
            Some(turn) if turn.mode == ContinuationMode::Prefill => {
                vec![after(delivered).to_owned()]
            }
            Some(turn) => {
                let mark = turn.mark.as_deref().unwrap_or_default();
                let rest = after(delivered.trim_end());
                let anchor = &turn.anchor;
                vec![
                    format!("{anchor}{mark}{rest}"),
                    document.to_owned(),
                    format!("{anchor}{rest}"),
                ]
            }
        };
        let kind = if request.turn.is_none() {
            kind
        } else {
            SlotKind::Text
        };
        Self::new(dialect, kind, number, truths)
    }

    /// Tells up to `length` more characters of a true text. `which` chooses the text of a call that
    /// has told nothing.
    pub(super) fn tell(&mut self, which: usize, length: usize) {
        let truths = &self.truths;
        let (source, told) = self
            .source
            .get_or_insert_with(|| (truths[which % truths.len()].clone(), 0));
        let piece: String = source[*told..].chars().take(length).collect();
        *told += piece.len();
        if !piece.is_empty() {
            self.text(&piece);
        }
    }

    /// Tells a text that may be any.
    pub(super) fn invent(&mut self, text: &str) {
        self.is_invented = true;
        self.text(text);
    }

    fn text(&mut self, text: &str) {
        if self.has_finish {
            return;
        }
        self.parts.push(text.to_owned());
        self.write(None);
    }

    /// Ends the answer. `is_open`: without `[DONE]`.
    pub(super) fn finish(&mut self, reason: &str, is_open: bool) {
        if self.has_finish {
            return;
        }
        self.write(Some(reason));
        self.has_finish = true;
        if is_open && self.stream.ends_with(DONE) {
            self.stream.truncate(self.stream.len() - DONE.len());
        } else {
            self.has_done = true;
        }
    }

    /// Adds what follows in the answer.
    fn write(&mut self, reason: Option<&str>) {
        let parts = self.parts.iter().map(String::as_str).collect();
        let answer = Answer {
            dialect: self.dialect,
            kind: self.kind,
            parts,
            reason,
        }
        .stream();
        let mut more = answer[self.written..].to_owned();
        self.written = answer.len();
        for id in ["chatcmpl-", "cmpl-", "msg_", "resp_"] {
            more = more.replace(&format!("\"{id}1\""), &format!("\"{id}{}\"", self.number));
        }
        self.stream.extend_from_slice(more.as_bytes());
    }

    /// Adds bytes that are no part of an answer's text.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.stream.extend_from_slice(bytes);
    }

    /// Adds an error of the upstream, where the API has events for it.
    pub(super) fn error(&mut self) {
        self.is_irregular = true;
        let error = json!({"message": "overloaded", "type": "overloaded_error", "code": null});
        let data = match self.dialect {
            Dialect::Ollama => {
                return self.push(format!("{}\n", json!({"error": "overloaded"})).as_bytes());
            }
            Dialect::Messages => json!({"type": "error", "error": error}),
            Dialect::Responses => {
                json!({"type": "error", "message": "overloaded", "code": null, "param": null, "sequence_number": 90})
            }
            _ => json!({"error": error}),
        };
        let name = if data["type"] == "error" {
            "event: error\n"
        } else {
            ""
        };
        self.push(format!("{name}data: {data}\n\n").as_bytes());
    }

    /// Adds a chunk of Chat Completions.
    pub(super) fn chunk(&mut self, which: usize) {
        if self.dialect != Dialect::Chat {
            return;
        }
        let id = format!("chatcmpl-sim-{}", self.number);
        let delta = match which {
            0 => json!({"role": "assistant", "content": ""}),
            1 => json!({}),
            2 => json!({"reasoning_content": "so"}),
            _ => return self.usage(&id),
        };
        let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
        self.push(format!("data: {}\n\n", json!({"id": id, "choices": [choice]})).as_bytes());
        self.is_irregular |= self.has_finish;
    }

    /// Adds the end of the stream alone.
    pub(super) fn done(&mut self) {
        if matches!(self.dialect, Dialect::Chat | Dialect::Completions) {
            self.push(DONE);
            self.is_irregular |= !self.has_finish || self.has_done;
            self.has_done = true;
        }
    }

    /// Adds what is no event of an answer.
    pub(super) fn other(&mut self, which: usize) {
        let is_lines = self.dialect == Dialect::Ollama;
        match OTHERS[which % OTHERS.len()] {
            comment if comment.starts_with(b":") && !is_lines => self.push(comment),
            comment if comment.starts_with(b":") => self.push(b"\n"),
            other => {
                self.push(other);
                self.is_irregular = true;
                // A line that is not ended takes the next event along, and its text is missing.
                self.is_invented |= !other.ends_with(b"\n");
            }
        }
    }

    fn usage(&mut self, id: &str) {
        let usage = json!({"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14});
        self.push(
            format!(
                "data: {}\n\n",
                json!({"id": id, "choices": [], "usage": usage})
            )
            .as_bytes(),
        );
        self.is_irregular |= self.has_done;
    }

    /// Adds a piece of a tool call that is not the answer's own, where the API has it in one event.
    pub(super) fn other_call(&mut self, arguments: &str) {
        if self.dialect != Dialect::Chat || self.has_finish {
            return;
        }
        let call = json!({"index": 3, "id": "call_3", "type": "function",
            "function": {"name": "other", "arguments": arguments}});
        let choice = json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null});
        let id = format!("chatcmpl-{}", self.number);
        self.push(format!("data: {}\n\n", json!({"id": id, "choices": [choice]})).as_bytes());
    }

    /// Takes what is to be sent, at most `most` bytes.
    pub(super) fn take(&mut self, most: usize) -> Vec<u8> {
        let end = self.stream.len().min(self.sent.saturating_add(most));
        let bytes = self.stream[self.sent..end].to_vec();
        self.sent = end;
        bytes
    }
}
