//! Reading a live value.

use std::fmt::Write as _;

use serde::Deserialize;

use super::error::SnapshotError;
use super::keys::key_at;
use super::{LiveValue, Number, ValueNode};
use crate::json::walk::ValueKind;
use crate::json::{Kind, PathSegment};

/// A borrowed part of a [`LiveValue`].
///
/// Prints as compact JSON: always valid, numbers as written. Implements `Serialize` and serde's
/// `Deserializer`; both are limited to 128 nested containers, everything else is not.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(super) live: &'a LiveValue,
    /// The index after the last node that is shown.
    pub(super) end: usize,
    pub(super) at: usize,
}

impl<'a> View<'a> {
    pub(super) fn new(live: &'a LiveValue, end: usize, at: usize) -> Self {
        Self { live, end, at }
    }

    pub(super) fn node(self) -> ValueNode {
        debug_assert!(self.at < self.live.nodes.len(), "a view is at a node");
        self.live
            .nodes
            .get(self.at)
            .copied()
            .unwrap_or(ValueNode::Null)
    }

    /// Returns the type of the value. It never changes.
    pub fn kind(self) -> ValueKind {
        match self.node() {
            ValueNode::Container {
                kind: Kind::Object, ..
            } => ValueKind::Object,
            ValueNode::Container {
                kind: Kind::Array, ..
            } => ValueKind::Array,
            ValueNode::Key { .. } | ValueNode::String { .. } => ValueKind::String,
            ValueNode::Number { .. } => ValueKind::Number,
            ValueNode::Bool(_) => ValueKind::Bool,
            ValueNode::Null => ValueKind::Null,
        }
    }

    /// Returns whether the value is complete: a container is closed, a string has ended. All other
    /// values are complete from the start.
    pub fn is_whole(self) -> bool {
        match self.node() {
            ValueNode::Container { end, .. } => end != super::OPEN,
            ValueNode::String { is_whole, .. } => is_whole,
            _ => true,
        }
    }

    /// Returns whether the value is `null`.
    pub fn is_null(self) -> bool {
        matches!(self.node(), ValueNode::Null)
    }

    /// Returns the value of `true` and `false`.
    pub fn as_bool(self) -> Option<bool> {
        match self.node() {
            ValueNode::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the value of a number.
    pub fn as_number(self) -> Option<Number<'a>> {
        match self.node() {
            ValueNode::Number { start, end } => Some(Number::new(self.live.text(start, end))),
            _ => None,
        }
    }

    /// Returns the text of a string so far. A lone half of a surrogate pair becomes U+FFFD.
    pub fn as_str(self) -> Option<&'a str> {
        match self.node() {
            ValueNode::String { start, end, .. } => Some(self.live.text(start, end)),
            _ => None,
        }
    }

    /// Returns the number of members or elements that are shown; 0 for other values. O(1).
    pub fn len(self) -> usize {
        match self.node() {
            ValueNode::Container { count, .. } => count + usize::from(self.holds_open_string()),
            _ => 0,
        }
    }

    /// Returns whether the value has neither members nor elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the member with this key; the first one if the object repeats the key. O(members).
    pub fn get(self, key: &str) -> Option<View<'a>> {
        self.members()
            .find(|(other, _)| *other == key)
            .map(|(_, value)| value)
    }

    /// Returns the element of an array at this index. O(index); O(1) for the last one.
    pub fn index(self, index: usize) -> Option<View<'a>> {
        let is_last = index.checked_add(1) == Some(self.len()) && self.kind() == ValueKind::Array;
        if is_last {
            self.last()
        } else {
            self.elements().nth(index)
        }
    }

    /// Returns the value at a JSON Pointer ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901))
    /// that starts here: `""` is this value, `"/a/0"` the first element of its member `a`. Costs
    /// what [`get`](Self::get) and [`index`](Self::index) do.
    pub fn pointer(self, pointer: &str) -> Option<View<'a>> {
        self.locate(pointer).ok()
    }

    /// Like [`pointer`](Self::pointer). The error is true if the value is missing but may still be
    /// received.
    pub(super) fn locate(self, pointer: &str) -> Result<View<'a>, bool> {
        let mut view = self;
        if pointer.is_empty() {
            return Ok(view);
        }
        for token in pointer.strip_prefix('/').ok_or(false)?.split('/') {
            let child = match view.kind() {
                ValueKind::Object => view.get(&PathSegment::read_key(token)),
                ValueKind::Array => view.index(PathSegment::read_index(token).ok_or(false)?),
                _ => return Err(false),
            };
            view = child.ok_or(!view.is_whole())?;
        }
        Ok(view)
    }

    /// Returns the newest member or element of a container. If anything in the container is open,
    /// it is this one. O(1).
    pub fn last(self) -> Option<View<'a>> {
        match self.node() {
            ValueNode::Container { .. } if self.holds_open_string() => Some(Self {
                at: self.end - 1,
                ..self
            }),
            ValueNode::Container {
                count: 1.., last, ..
            } => Some(Self { at: last, ..self }),
            _ => None,
        }
    }

    /// Returns the key of a member. O(1).
    pub fn key(self) -> Option<&'a str> {
        key_at(self.live, self.at.checked_sub(1)?)
    }

    /// Returns the key of a value that is known to be a member.
    pub(super) fn member_key(self) -> &'a str {
        let key = self.key();
        debug_assert!(key.is_some(), "a member has a key");
        key.unwrap_or_default()
    }

    /// Returns the members of an object that have a value, in document order, repeated keys
    /// included. Empty for other values.
    pub fn members(self) -> impl Iterator<Item = (&'a str, View<'a>)> + Clone + use<'a> {
        let is_object = self.kind() == ValueKind::Object;
        self.children()
            .take_while(move |_| is_object)
            .map(|value| (value.member_key(), value))
    }

    /// Returns the elements of an array. Empty for other values.
    pub fn elements(self) -> impl Iterator<Item = View<'a>> + Clone + use<'a> {
        let is_array = self.kind() == ValueKind::Array;
        self.children().take_while(move |_| is_array)
    }

    /// Returns the value as a `T`, which may borrow strings from the live value. An error has the
    /// path from the root.
    ///
    /// # Errors
    /// Those of [`LiveValue::snapshot`].
    pub fn read<T: Deserialize<'a>>(self) -> Result<T, SnapshotError> {
        T::deserialize(self).map_err(|error| error.at(self))
    }

    /// Returns the JSON Pointer from the root. Costs a walk over earlier siblings, in this
    /// container and those around it.
    pub fn path(self) -> String {
        path(self.live, self.at)
    }

    /// Returns the children of a container.
    pub(super) fn children(self) -> Children<'a> {
        let until = if let ValueNode::Container { .. } = self.node() {
            self.after()
        } else {
            0
        };
        Children {
            view: Self {
                at: self.at + 1,
                ..self
            },
            until,
        }
    }

    /// Returns the index after the value and everything in it that is shown.
    pub(super) fn after(self) -> usize {
        self.live.after(self.at).min(self.end)
    }

    /// Returns whether this is the container of an open string that is shown.
    fn holds_open_string(self) -> bool {
        self.end == self.live.nodes.len()
            && self.live.in_string()
            && self
                .live
                .open
                .last()
                .is_some_and(|open| open.node == self.at)
    }
}

/// The children of a container: the elements of an array, or the values of an object's members.
#[derive(Clone)]
pub(super) struct Children<'a> {
    /// At the next child, or at its key.
    view: View<'a>,
    until: usize,
}

impl<'a> Iterator for Children<'a> {
    type Item = View<'a>;

    fn next(&mut self) -> Option<View<'a>> {
        if self.view.at >= self.until {
            return None;
        }
        let is_member = matches!(self.view.node(), ValueNode::Key { .. });
        let child = View {
            at: self.view.at + usize::from(is_member),
            ..self.view
        };
        self.view.at = child.after();
        Some(child)
    }
}

/// Returns the JSON Pointer of a value, or of the member that a key starts.
pub(super) fn path(live: &LiveValue, target: usize) -> String {
    let mut path = String::new();
    let mut view = View::new(live, live.nodes.len(), 0);
    while view.at < target && target < view.after() {
        let around = |(_, child): &(usize, View<'_>)| target < child.after();
        // A key without a value is not a child: it is the last node.
        let Some((index, child)) = view.children().enumerate().find(around) else {
            break;
        };
        let token = match child.key() {
            Some(key) => PathSegment::Key(key.into()),
            None => PathSegment::Index(index),
        };
        // Writing to a string does not fail.
        let _ = write!(path, "/{token}");
        view = child;
    }
    path
}
