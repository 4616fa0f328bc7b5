//! The numbers of a stream's tool calls. Several servers leave them out, or give the same number to
//! all, or a new id to each piece of a call.

use crate::json::walk::Raw;
use crate::provider::fields::number;
use crate::provider::{CallIndex, SlotId};

/// The calls of a stream, in the order of their first pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Vec<ChatCall>);

#[derive(Clone, Debug)]
struct ChatCall {
    slot: SlotId,
    /// The number that the server writes.
    written: Option<u32>,
    id: Option<String>,
    name: Option<String>,
    arguments: Arguments,
}

/// The most calls that are remembered. Only the server's numbers distinguish further calls.
const MOST: usize = 256;

impl Calls {
    /// Returns the slot of the call that a piece belongs to. A piece without an id belongs to the
    /// last call with its number, or to the last call if it has no number. A new id begins a new
    /// call, except on the number of a call that is open: several servers write a new id into each
    /// piece, and clients join pieces by their numbers. `at`: the position of the piece in its
    /// event.
    pub(super) fn place(
        &mut self,
        choice: u32,
        index: Option<Raw<'_>>,
        id: Option<&str>,
        name: Option<&str>,
        at: usize,
    ) -> SlotId {
        let text = index.and_then(|index| index.decode()?.parse().ok());
        let written = number(index).or(text);
        let calls = || {
            let calls = self.0.iter().enumerate().rev();
            calls.filter(|(_, call)| call.slot.item == choice)
        };
        let known: Option<(usize, &ChatCall)> = match (id, written) {
            (Some(id), _) => {
                let same = calls().find(|(_, call)| call.id.as_deref() == Some(id));
                let last = || calls().find(|(_, call)| call.written == written);
                // The id may follow in a later piece.
                let is_same = |call: &ChatCall| {
                    call.id.is_none() || written.is_some() && !call.is_followed_by(name)
                };
                same.or_else(|| last().filter(|(_, call)| at == 0 && is_same(call)))
            }
            (None, Some(_)) => calls().find(|(_, call)| call.written == written),
            (None, None) => calls().next().filter(|_| at == 0),
        };
        let numbers = || calls().filter_map(|(_, call)| call.slot.part);
        let next = numbers().max().map_or(0, |last| last.saturating_add(1));
        let is_free = |number: &u32| numbers().all(|other| other != *number);
        let part = written.filter(is_free).unwrap_or(next);
        let slot = SlotId {
            index: match (written, index) {
                (Some(number), _) if text.is_some() => CallIndex::Text(number),
                (Some(number), _) if number != part => CallIndex::Shared(number),
                (Some(_), _) => CallIndex::Own,
                (None, Some(_)) => CallIndex::Null,
                (None, None) => CallIndex::Missing,
            },
            ..SlotId::part(choice, part)
        };
        if let Some(known) = known
            .map(|(known, _)| known)
            .and_then(|known| self.0.get_mut(known))
        {
            known.id = known.id.take().or_else(|| id.map(str::to_owned));
            known.name = known.name.take().or_else(|| name.map(str::to_owned));
            return known.slot;
        }
        if self.0.len() < MOST {
            self.0.push(ChatCall {
                slot,
                written,
                id: id.map(str::to_owned),
                name: name.map(str::to_owned),
                arguments: Arguments::default(),
            });
        }
        slot
    }

    /// Takes more of a call's arguments.
    pub(super) fn note(&mut self, slot: SlotId, arguments: &str) {
        let call = self.0.iter_mut().rev().find(|call| call.slot == slot);
        call.into_iter()
            .for_each(|call| call.arguments.take(arguments));
    }
}

impl ChatCall {
    /// Returns whether a piece with a new id and this name begins another call.
    fn is_followed_by(&self, name: Option<&str>) -> bool {
        let is_over = match self.arguments.begins_root {
            Some(is_root) => is_root && self.arguments.depth == 0,
            None => self.name.as_deref() != name,
        };
        name.is_some() && is_over
    }
}

/// The open brackets of arguments.
#[derive(Clone, Copy, Debug, Default)]
struct Arguments {
    /// `None`: the arguments are blank.
    begins_root: Option<bool>,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Arguments {
    fn take(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.begins_root.is_none() && !byte.is_ascii_whitespace() {
                self.begins_root = Some(matches!(byte, b'{' | b'['));
            }
            match byte {
                _ if std::mem::take(&mut self.is_escaped) => {}
                b'\\' => self.is_escaped = self.in_string,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CallIndex, Calls, Raw};

    /// Checks pieces: the index, the id, the name, the position, and the arguments that follow, with
    /// the number of their call.
    fn check(pieces: &[(&str, &str, &str, usize, &str, u32)]) {
        let mut calls = Calls::default();
        for &(index, id, name, at, arguments, expected) in pieces {
            let [id, name] = [id, name].map(|word| Some(word).filter(|word| !word.is_empty()));
            let slot = calls.place(0, Raw::root(index), id, name, at);
            assert_eq!(
                slot.part,
                Some(expected),
                "{index} {id:?} {at} of {pieces:?}"
            );
            calls.note(slot, arguments);
        }
        // Each choice has calls of its own.
        assert_eq!(calls.place(1, None, Some("a"), None, 0).part, Some(0));
    }

    #[test]
    fn pieces_find_their_calls() {
        check(&[
            ("0", "a", "f", 0, "", 0),
            ("0", "", "", 0, "", 0),
            ("1", "b", "f", 0, "", 1),
            ("1", "", "", 0, "", 1),
        ]);
        // The id is repeated, or follows later.
        check(&[("0", "a", "f", 0, "", 0), ("0", "a", "", 0, "", 0)]);
        check(&[
            ("0", "", "f", 0, "", 0),
            ("0", "a", "", 0, "", 0),
            ("0", "", "", 0, "", 0),
        ]);
        // No numbers.
        for none in ["", "null"] {
            check(&[
                (none, "a", "f", 0, "", 0),
                (none, "", "", 0, "", 0),
                (none, "b", "f", 0, "", 1),
                (none, "", "", 0, "", 1),
            ]);
            check(&[(none, "a", "", 0, "", 0), (none, "b", "", 1, "", 1)]);
            check(&[(none, "", "", 0, "", 0), (none, "", "", 1, "", 1)]);
        }
        // The same number for all.
        check(&[
            ("0", "a", "f", 0, "{}", 0),
            ("0", "b", "f", 0, "", 1),
            ("0", "", "", 0, "", 1),
            ("0", "a", "", 0, "", 0),
        ]);
        check(&[("0", "a", "f", 0, "", 0), ("0", "b", "g", 0, "", 1)]);
        check(&[("0", "a", "f", 0, "", 0), ("0", "b", "f", 1, "", 1)]);
        // Numbers that begin elsewhere.
        check(&[
            ("3", "a", "f", 0, "", 3),
            ("4", "b", "f", 0, "", 4),
            ("", "c", "f", 0, "", 5),
        ]);
    }

    #[test]
    fn a_new_id_begins_a_call_after_a_closed_root() {
        check(&[
            ("0", "a", "f", 0, r#"{"a": "}\""#, 0),
            ("0", "b", "f", 0, r#""}, [{}"#, 0),
            ("0", "c", "", 0, "]}", 0),
            ("0", "d", "", 0, "", 0),
            ("0", "e", "f", 0, "{", 1),
        ]);
        // The rest of arguments, in another call.
        check(&[("0", "a", "f", 0, "2]}", 0), ("0", "b", "f", 0, "}", 0)]);
    }

    #[test]
    fn an_index_stays_as_it_is_written() {
        let mut calls = Calls::default();
        let mut index = |index, id| {
            calls
                .place(0, Raw::root(index), Some(id), Some(id), 0)
                .index
        };
        assert_eq!(index("0", "a"), CallIndex::Own);
        assert_eq!(index("0", "b"), CallIndex::Shared(0));
        assert_eq!(index("\"2\"", "c"), CallIndex::Text(2));
        assert_eq!(index("null", "d"), CallIndex::Null);
        assert_eq!(index("", "e"), CallIndex::Missing);
    }
}
