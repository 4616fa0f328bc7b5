//! The chunks of Chat Completions and Completions, which have choices.

use super::fields;
use super::head::Head;
use super::wire::Ending;
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, ValueKind};
use crate::sse::Encoder;

/// The numbers of a stream's choices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Choices {
    is_one: bool,
    /// The first number that the server writes.
    first: Option<u32>,
}

impl Choices {
    /// Returns the numbers for a request that asks for `expected` choices. 0: unknown.
    pub(super) fn of(expected: u64) -> Self {
        Self {
            is_one: expected == 1,
            first: None,
        }
    }

    /// Returns the number of the choice at `at` in its chunk: its index, or its position without
    /// one. Some servers count the index of a single choice up from chunk to chunk.
    pub(super) fn number(&mut self, index: Option<Raw<'_>>, at: usize) -> u32 {
        let written = fields::number_or(index, at);
        match self.is_one && at == 0 {
            true => *self.first.get_or_insert(written),
            false => written,
        }
    }
}

/// A writer of chunks that look like those of the answer that the client is already reading.
#[derive(Debug)]
pub(super) struct Chunks {
    /// The members that every chunk repeats.
    head: Head,
    /// The members of an answer that broke off before its first chunk.
    unseen: &'static str,
    /// A chunk with a choice was observed; later chunks are ignored.
    is_settled: bool,
}

impl Chunks {
    /// Creates a writer that has seen no chunk. `unseen`: raw members, each with a comma after it.
    pub(super) fn new(unseen: &'static str) -> Self {
        Self {
            head: Head::default(),
            unseen,
            is_settled: false,
        }
    }

    /// Takes the members to repeat from a chunk: an event with choices, or one whose repeated
    /// members `is_chunk` accepts. A chunk without a choice is provisional: Azure starts with one
    /// whose id and model are empty.
    pub(super) fn observe(
        &mut self,
        data: &str,
        repeated: &'static [&'static str],
        is_chunk: fn(&Head) -> bool,
    ) {
        let Some(root) = fields::object(data) else {
            return;
        };
        let members: Vec<_> = fields::members(root).collect();
        let choices = members
            .iter()
            .rfind(|(key, _)| key == "choices")
            .map(|(_, value)| *value);
        let choices = choices.filter(|choices| choices.kind() == ValueKind::Array);
        let head = Head::of(members, repeated);
        if choices.is_some() || is_chunk(&head) {
            self.head = head;
            self.is_settled = choices.is_some_and(|choices| choices.elements().next().is_some());
        }
    }

    /// Returns whether a chunk with a choice was observed.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Writes a chunk with these choices, raw JSON without brackets. `usage` and `report` are JSON
    /// objects.
    pub(super) fn chunk(
        &self,
        out: &mut Vec<u8>,
        choices: &str,
        usage: Option<&str>,
        report: Option<&str>,
    ) {
        let mut data = String::from("{");
        for (key, value) in self.head.members() {
            data.extend([&quoted(key), ":", value, ","]);
        }
        if self.head.members().next().is_none() {
            data.push_str(self.unseen);
        }
        data.extend(["\"choices\":[", choices, "]"]);
        for (key, value) in [("usage", usage), ("restitch", report)] {
            if let Some(value) = value {
                data.extend([",\"", key, "\":", &fields::one_line(value)]);
            }
        }
        data.push('}');
        Encoder::event(out, None, None, &data);
    }

    /// Writes the ends of choices; `choice` returns the end of a choice, raw JSON.
    pub(super) fn finish(
        &self,
        out: &mut Vec<u8>,
        ending: &Ending<'_>,
        choice: impl Fn(u32, &str) -> String,
    ) {
        // If the upstream sends usage with the finish, the client may not expect a chunk without
        // choices.
        let (beside, apart) = if ending.usage_apart {
            (None, ending.usage)
        } else {
            (ending.usage, None)
        };
        let report = ending.report.filter(|_| apart.is_none());
        let last = ending.reasons.len().saturating_sub(1);
        for (at, (number, reason)) in ending.reasons.iter().enumerate() {
            let (usage, report) = if at == last {
                (beside, report)
            } else {
                (None, None)
            };
            self.chunk(out, &choice(*number, reason.as_str()), usage, report);
        }
        if apart.is_some() {
            self.chunk(out, "", apart, ending.report);
        }
    }

    /// Writes another answer's chunk as one of this answer.
    pub(super) fn adopt(&self, out: &mut Vec<u8>, data: &str) {
        Encoder::event(out, None, None, &self.head.adopt(data, &[]));
    }
}

/// Writes the end of a stream.
pub(super) fn done(out: &mut Vec<u8>) {
    Encoder::event(out, None, None, "[DONE]");
}

/// Returns the data of a chunk without the finish in it.
pub(super) fn without_end(data: &str) -> String {
    let mut edits = Edits::default();
    if let Some(root) = fields::object(data) {
        for choice in root
            .member("choices")
            .into_iter()
            .flat_map(|choices| choices.elements())
        {
            edits.object(choice, &[], &[("finish_reason", "null")]);
        }
        edits.object(root, &["usage"], &[]);
    }
    edits.apply(data)
}

/// Writes a comment, which clients ignore.
pub(super) fn keep_alive(out: &mut Vec<u8>) {
    Encoder::comment(out, "restitch: waiting for the rest");
}
