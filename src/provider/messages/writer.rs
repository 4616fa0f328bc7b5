//! Writes events that continue a Messages stream.

use super::{Messages, is_call, stop_reason};
use crate::json::edit::Edits;
use crate::json::string::{escape_into, quoted};
use crate::json::walk::Raw;
use crate::provider::fields::{object, object_of, place, word};
use crate::provider::usage::update_usage;
use crate::provider::wire::{self, Ending, Kept, Slot, SlotKind, SlotText, Wire};
use crate::provider::{Finish, SlotId};
use crate::sse::Encoder;

/// A writer of events of the message that the client is already reading.
#[derive(Clone, Debug, Default)]
pub(super) struct MessagesWriter {
    has_begun: bool,
    /// The blocks that the client knows.
    blocks: Vec<ContentBlock>,
    /// The usage that the first answer has reported.
    usage: Option<String>,
    /// The `message_delta` with which the first answer ended. The last `message_delta` repeats its
    /// other members.
    end: Option<String>,
}

/// A content block.
#[derive(Clone, Copy, Debug)]
struct ContentBlock {
    /// The slot that writes to it: the index in the answer that is being read. `None`: the block
    /// belongs to an answer that broke off.
    slot: Option<u32>,
    index: u32,
    /// `None`: nothing is written to it.
    kind: Option<SlotKind>,
    is_open: bool,
}

impl ContentBlock {
    fn new(slot: u32, index: u32, block_type: &str) -> Self {
        let kind = match block_type {
            "text" => Some(SlotKind::Text),
            call if is_call(call) => Some(SlotKind::Arguments),
            _ => None,
        };
        Self {
            slot: Some(slot),
            index,
            kind,
            is_open: true,
        }
    }

    /// Returns whether the first text of the next answer belongs to this block: its own answer
    /// broke off before the document began.
    fn is_waiting(&self) -> bool {
        self.is_open && self.slot.is_none() && self.kind == Some(SlotKind::Text)
    }
}

impl wire::Writer for MessagesWriter {
    fn observe(&mut self, event_type: &str, data: &str) {
        // Most events are deltas, and add no block and no usage.
        if event_type == DELTA {
            return;
        }
        let Some(root) = object(data) else { return };
        let [kind, index, block, message, usage] =
            root.pick(["type", "index", "content_block", "message", "usage"]);
        match word(kind).as_deref().unwrap_or(event_type) {
            "message_start" => {
                *self = Self {
                    has_begun: true,
                    ..Self::default()
                };
                let blocks = message.and_then(|message| message.member("content"));
                for (index, block) in
                    (0..).zip(blocks.into_iter().flat_map(|blocks| blocks.elements()))
                {
                    self.note(index, Some(block), false);
                }
                self.note_usage(message.and_then(|message| message.member("usage")));
            }
            "content_block_start" => self.note(place(index), block, true),
            "content_block_stop" => {
                let index = place(index);
                self.blocks
                    .iter_mut()
                    .filter(|block| block.index == index)
                    .for_each(|block| block.is_open = false);
            }
            "message_delta" => {
                self.note_usage(usage);
                self.end = Some(data.to_owned());
            }
            _ => {}
        }
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn kept(&self) -> Kept {
        Kept {
            items: self.blocks.len(),
            bytes: 0,
        }
    }

    fn reopen(&mut self, slot: SlotId) {
        self.blocks
            .iter_mut()
            .filter(|block| block.slot == Some(slot.item))
            .for_each(|block| block.is_open = true);
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        let known = self
            .blocks
            .iter()
            .find(|block| block.slot == Some(slot.id.item) && block.kind == Some(slot.kind));
        let index = match known {
            Some(block) => block.index,
            None => self.start(out, slot),
        };
        let (delta, member) = match slot.kind {
            SlotKind::Text => ("text_delta", "text"),
            SlotKind::Arguments => ("input_json_delta", "partial_json"),
        };
        let mut data = format!(
            r#"{{"type":"{DELTA}","index":{index},"delta":{{"type":"{delta}","{member}":""#
        )
        .into_bytes();
        escape_into(&mut data, text);
        data.extend_from_slice(br#""}}"#);
        event(out, DELTA, &String::from_utf8_lossy(&data));
    }

    fn finish(&mut self, out: &mut Vec<u8>, _texts: &[SlotText<'_>], ending: &Ending<'_>) {
        self.begin(out);
        self.stop_blocks(out, |_| true);
        let reason = ending
            .reasons
            .first()
            .map_or(&Finish::Stop, |(_, reason)| reason);
        let reason = quoted(stop_reason(reason));
        // Clients read the output tokens of every `message_delta`.
        let mut usage = Some(r#"{"output_tokens":0}"#.to_owned());
        if let Some(known) = ending.usage.or(self.usage.as_deref()) {
            update_usage(&mut usage, known);
        }
        let mut set = vec![("usage", usage.as_deref().unwrap_or_default())];
        set.extend(ending.report.map(|report| ("restitch", report)));
        let end = self
            .end
            .as_deref()
            .unwrap_or(r#"{"type":"message_delta","delta":{}}"#);
        let mut edits = Edits::default();
        if let Some(root) = object(end) {
            edits.object(root, &[], &set);
            if let Some(delta) = object_of(root, "delta") {
                edits.object(
                    delta,
                    &["stop_details"],
                    &[("stop_reason", &reason), ("stop_sequence", "null")],
                );
            }
        }
        event(out, "message_delta", &edits.apply(end));
    }

    fn done(&mut self, out: &mut Vec<u8>) {
        event(out, "message_stop", r#"{"type":"message_stop"}"#);
    }

    fn report(&mut self, out: &mut Vec<u8>, report: &str) {
        event(
            out,
            "ping",
            &format!(r#"{{"type":"ping","restitch":{report}}}"#),
        );
    }

    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str) {
        event(out, "error", &Messages.error_body(message, code, report));
    }

    fn adopt(&mut self, out: &mut Vec<u8>, event_type: &str, data: &str) {
        let root = object(data);
        let [kind, index, block] = root.map_or([None; 3], |root| {
            root.pick(["type", "index", "content_block"])
        });
        let kind = word(kind);
        let kind = kind.as_deref().unwrap_or(event_type);
        if kind == "message_start" && self.has_begun {
            self.blocks.iter_mut().for_each(|block| block.slot = None);
            return;
        }
        let slot = place(index);
        let known = match kind {
            "content_block_start" => match self.adopt_block(out, slot, block) {
                None => return,
                known => known,
            },
            // The block may be continued. The stop is written with the next start, or at the end.
            "content_block_stop"
                if self
                    .block_of(slot)
                    .is_some_and(|block| block.kind.is_some()) =>
            {
                return;
            }
            _ => self.block_of(slot).map(|block| block.index),
        };
        let mut edits = Edits::default();
        if let (Some(known), Some(index)) = (known.filter(|&known| known != slot), index) {
            edits.replace(index, &known.to_string());
        }
        let data = edits.apply(data);
        if data.is_empty() {
            return;
        }
        if kind != "content_block_start" {
            self.observe(event_type, &data);
        }
        Encoder::event(
            out,
            Some(kind).filter(|kind| !matches!(*kind, "" | "message")),
            None,
            &data,
        );
    }

    fn with_text(&self, data: &str, text: &str) -> Option<String> {
        let root = object(data)?;
        let [block, delta] = root.pick(["content_block", "delta"]);
        let holder = delta.or(block)?;
        let member = match word(holder.member("type")).as_deref() {
            Some("text_delta" | "text") => "text",
            Some("input_json_delta") => "partial_json",
            _ => return None,
        };
        let mut edits = Edits::default();
        edits.object(holder, &[], &[(member, &quoted(text))]);
        Some(edits.apply(data))
    }

    /// The events that end a message have no other content, so they become empty.
    fn without_end(&self, data: &str) -> String {
        let kind = object(data).and_then(|root| word(root.member("type")));
        match kind.as_deref() {
            Some("message_delta" | "message_stop") => String::new(),
            _ => data.to_owned(),
        }
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        match self.has_begun {
            true => event(out, "ping", r#"{"type":"ping"}"#),
            // A message begins with its start.
            false => crate::provider::chunks::keep_alive(out),
        }
    }
}

impl MessagesWriter {
    fn note(&mut self, index: u32, block: Option<Raw<'_>>, is_open: bool) {
        self.blocks.retain(|block| block.index != index);
        self.blocks.push(ContentBlock {
            is_open,
            ..ContentBlock::new(index, index, &type_of(block))
        });
    }

    /// Returns the block that a slot of the answer that is being read writes to.
    fn block_of(&self, slot: u32) -> Option<&ContentBlock> {
        self.blocks.iter().find(|block| block.slot == Some(slot))
    }

    /// Starts a block of another answer. Returns its index, or `None` if the client has a block for
    /// its text: the text block that was open when the answer before broke off. All other open
    /// blocks are stopped.
    fn adopt_block(&mut self, out: &mut Vec<u8>, slot: u32, block: Option<Raw<'_>>) -> Option<u32> {
        let block_type = type_of(block);
        self.blocks
            .iter_mut()
            .filter(|block| block.slot == Some(slot))
            .for_each(|block| block.slot = None);
        if block_type == "text"
            && let Some(waiting) = self.blocks.iter_mut().find(|block| block.is_waiting())
        {
            waiting.slot = Some(slot);
            let begin = word(block.and_then(|block| block.member("text")));
            if let Some(begin) = begin {
                wire::Writer::text(
                    self,
                    out,
                    Slot {
                        id: SlotId::of(slot),
                        kind: SlotKind::Text,
                    },
                    &begin,
                );
            }
            return None;
        }
        self.stop_blocks(out, |block| !block.is_waiting());
        let index = self.next_index();
        self.blocks
            .push(ContentBlock::new(slot, index, &block_type));
        Some(index)
    }

    fn next_index(&self) -> u32 {
        self.blocks
            .iter()
            .map(|block| block.index.saturating_add(1))
            .max()
            .unwrap_or(0)
    }

    fn note_usage(&mut self, usage: Option<Raw<'_>>) {
        if let Some(usage) = usage {
            update_usage(&mut self.usage, usage.as_str());
        }
    }

    /// Writes the start of the message, if the client knows no message.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            event(out, "message_start", UNSEEN);
        }
    }

    /// Starts a block for a slot that is new to the client. Returns its index. Blocks follow one
    /// another, so an open one is stopped first.
    fn start(&mut self, out: &mut Vec<u8>, slot: Slot) -> u32 {
        self.begin(out);
        self.stop_blocks(out, |_| true);
        let index = self.next_index();
        let (block_type, members) = match slot.kind {
            SlotKind::Text => ("text", r#""text":"""#.to_owned()),
            SlotKind::Arguments => (
                CLIENT_CALL,
                format!(r#""id":"toolu_restitch_{index}","name":"","input":{{}}"#),
            ),
        };
        self.blocks
            .push(ContentBlock::new(slot.id.item, index, block_type));
        let block = format!(r#"{{"type":"{block_type}",{members}}}"#);
        let data =
            format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#);
        event(out, "content_block_start", &data);
        index
    }

    /// Stops the open blocks among those that `is_over` selects.
    fn stop_blocks(&mut self, out: &mut Vec<u8>, is_over: impl Fn(&ContentBlock) -> bool) {
        self.blocks.sort_unstable_by_key(|block| block.index);
        for block in self
            .blocks
            .iter_mut()
            .filter(|block| block.is_open && is_over(block))
        {
            block.is_open = false;
            let data = format!(r#"{{"type":"content_block_stop","index":{}}}"#, block.index);
            event(out, "content_block_stop", &data);
        }
    }
}

/// Returns the type of a content block.
fn type_of(block: Option<Raw<'_>>) -> String {
    word(block.and_then(|block| block.member("type")))
        .unwrap_or_default()
        .to_string()
}

fn event(out: &mut Vec<u8>, name: &str, data: &str) {
    Encoder::event(out, Some(name), None, data);
}

/// The type of a content block that calls a tool which the client runs.
const CLIENT_CALL: &str = "tool_use";

/// The name of most events.
const DELTA: &str = "content_block_delta";

/// The start of a message that broke off before its first event.
const UNSEEN: &str = concat!(
    r#"{"type":"message_start","message":{"id":"msg_restitch","type":"message","role":"assistant","model":"","#,
    r#""content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}}"#
);
