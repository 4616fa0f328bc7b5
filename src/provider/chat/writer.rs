//! Writes events that continue a Chat Completions stream.

use crate::json::edit::Edits;
use crate::json::string::escape_into;
use crate::json::walk::{self, Raw, ValueKind};

/// A writer of chunks that look like those of the answer that the client is already reading.
///
/// Every method appends one event with its blank line to `out`. `restitch` is raw JSON, which becomes the last member
/// of the chunk, `"restitch"`.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    /// The members that every chunk repeats, as the first answer wrote them: `"id":"…","object":"…",` …
    head: String,
    /// The index of the first choice, as written.
    index: String,
    /// Set by the first chunk with choices; later chunks are ignored.
    is_settled: bool,
}

impl Writer {
    /// Creates a writer that has seen no chunk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the members to repeat from the data of an event, if it is the first chunk of the answer.
    ///
    /// A chunk without choices is provisional: Azure starts with one whose id and model are empty.
    pub fn observe(&mut self, data: &str) {
        if self.is_settled || !walk::is_valid(data) {
            return;
        }
        let choices = walk::member(data, "choices").filter(|choices| choices.kind() == ValueKind::Array);
        if choices.is_none() && walk::member(data, "id").is_none() {
            return;
        }
        self.head.clear();
        for (key, value) in walk::members(data) {
            if key.decode().is_some_and(|name| REPEATED.contains(&&*name)) {
                self.head.extend([key.as_str(), ":", value.as_str(), ","]);
            }
        }
        if let Some(first) = choices.and_then(|choices| choices.elements().next()) {
            let index = first.member("index").filter(|index| index.kind() == ValueKind::Number);
            self.index = index.map_or("0", |index| index.as_str()).to_owned();
            self.is_settled = true;
        }
    }

    /// Returns whether a chunk with a choice was observed.
    pub(crate) fn has_seen_choice(&self) -> bool {
        self.is_settled
    }

    /// Writes a chunk with `text` as more content.
    pub fn text(&self, out: &mut Vec<u8>, text: &str) {
        self.open(out);
        out.extend_from_slice(b"[{\"index\":");
        out.extend_from_slice(self.index().as_bytes());
        out.extend_from_slice(b",\"delta\":{\"content\":\"");
        escape_into(out, text);
        out.extend_from_slice(b"\"},\"finish_reason\":null}]");
        close(out, None);
    }

    /// Writes the chunk that ends the answer for `reason`. `usage` is a JSON object.
    pub fn finish(&self, out: &mut Vec<u8>, reason: &str, usage: Option<&str>, restitch: Option<&str>) {
        self.end(out, self.index().parse().unwrap_or_default(), reason, usage, restitch);
    }

    /// Writes the chunk that ends a choice.
    pub(super) fn end(
        &self,
        out: &mut Vec<u8>,
        choice: u32,
        reason: &str,
        usage: Option<&str>,
        restitch: Option<&str>,
    ) {
        self.open(out);
        out.extend_from_slice(b"[{\"index\":");
        out.extend_from_slice(choice.to_string().as_bytes());
        out.extend_from_slice(b",\"delta\":{},\"finish_reason\":\"");
        escape_into(out, reason);
        out.extend_from_slice(b"\"}]");
        if let Some(usage) = usage {
            out.extend_from_slice(b",\"usage\":");
            raw_into(out, usage);
        }
        close(out, restitch);
    }

    /// Writes a chunk with a delta, raw JSON, of a choice.
    pub(super) fn delta(&self, out: &mut Vec<u8>, choice: u32, delta: &[u8]) {
        self.open(out);
        out.extend_from_slice(format!("[{{\"index\":{choice},\"delta\":").as_bytes());
        out.extend_from_slice(delta);
        out.extend_from_slice(b",\"finish_reason\":null}]");
        close(out, None);
    }

    /// Writes a chunk with usage and without choices. `usage_raw` is a JSON object.
    pub fn usage(&self, out: &mut Vec<u8>, usage_raw: &str, restitch: Option<&str>) {
        self.open(out);
        out.extend_from_slice(b"[],\"usage\":");
        raw_into(out, usage_raw);
        close(out, restitch);
    }

    /// Writes a chunk without choices that holds the report alone.
    pub fn report(&self, out: &mut Vec<u8>, restitch: &str) {
        self.open(out);
        out.extend_from_slice(b"[]");
        close(out, Some(restitch));
    }

    /// Writes another answer's chunk as one of this answer: the members that all chunks share are replaced, and every
    /// other byte is kept.
    pub fn adopt(&self, out: &mut Vec<u8>, data: &str) {
        let head = format!("{{{}}}", self.head.trim_end_matches(','));
        let ours: Vec<_> = walk::members(&head)
            .filter_map(|(key, value)| Some((key.decode()?.into_owned(), value.as_str())))
            .collect();
        out.extend_from_slice(b"data: ");
        match Raw::root(data).filter(|_| walk::is_valid(data)) {
            Some(root) => {
                let set: Vec<_> = ours.iter().map(|(key, value)| (key.as_str(), *value)).collect();
                let mut edits = Edits::default();
                edits.object(root, &[], &set);
                raw_into(out, &edits.apply(data));
            }
            None => raw_into(out, data),
        }
        out.extend_from_slice(b"\n\n");
    }

    /// Writes the end of the stream.
    pub fn done(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn open(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"data: {");
        raw_into(out, if self.head.is_empty() { UNSEEN } else { &self.head });
        out.extend_from_slice(b"\"choices\":");
    }

    fn index(&self) -> &str {
        if self.index.is_empty() { "0" } else { &self.index }
    }
}

fn close(out: &mut Vec<u8>, restitch: Option<&str>) {
    if let Some(restitch) = restitch {
        out.extend_from_slice(b",\"restitch\":");
        raw_into(out, restitch);
    }
    out.extend_from_slice(b"}\n\n");
}

/// Appends raw JSON on one line, since a line end would end the field. In valid JSON a line end can only be white
/// space.
fn raw_into(out: &mut Vec<u8>, raw: &str) {
    out.extend(raw.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')));
}

/// The members that all chunks of an answer share and that clients read.
const REPEATED: [&str; 7] = ["id", "object", "created", "model", "system_fingerprint", "service_tier", "provider"];

/// The members of an answer that broke off before its first chunk.
const UNSEEN: &str = r#""id":"chatcmpl-restitch","object":"chat.completion.chunk","created":0,"model":"","#;
