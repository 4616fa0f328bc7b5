//! Looking at a live value.

use std::fmt::Write as _;

use serde::Deserialize;

use super::error::SnapshotError;
use super::keys::key_at;
use super::{LiveValue, Node, Number};
use crate::json::walk::ValueKind;
use crate::json::{Kind, PathSegment};

/// A value within a [`LiveValue`], as it stands now.
///
/// It prints as compact JSON: valid whatever is still open, numbers as they were written. It serialises, and is a
/// deserializer of its own; that is subject to a limit of 128 containers within each other, all else is not.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(super) live: &'a LiveValue,
    /// Behind the last node that is shown.
    pub(super) end: usize,
    pub(super) at: usize,
}

impl<'a> View<'a> {
    pub(super) fn new(live: &'a LiveValue, end: usize, at: usize) -> Self {
        Self { live, end, at }
    }

    pub(super) fn node(self) -> Node {
        debug_assert!(self.at < self.live.nodes.len(), "a view is at a node");
        self.live.nodes.get(self.at).copied().unwrap_or(Node::Null)
    }

    /// What it is. That never changes.
    pub fn kind(self) -> ValueKind {
        match self.node() {
            Node::Container { kind: Kind::Object, .. } => ValueKind::Object,
            Node::Container { kind: Kind::Array, .. } => ValueKind::Array,
            Node::Key { .. } | Node::String { .. } => ValueKind::String,
            Node::Number { .. } => ValueKind::Number,
            Node::Bool(_) => ValueKind::Bool,
            Node::Null => ValueKind::Null,
        }
    }

    /// No more of it will come: a container is closed, a string has ended. Everything else is whole when it is there.
    pub fn is_whole(self) -> bool {
        match self.node() {
            Node::Container { end, .. } => end != super::OPEN,
            Node::String { is_whole, .. } => is_whole,
            _ => true,
        }
    }

    /// It is `null`.
    pub fn is_null(self) -> bool {
        matches!(self.node(), Node::Null)
    }

    /// Of `true` and `false`.
    pub fn as_bool(self) -> Option<bool> {
        match self.node() {
            Node::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Of a number.
    pub fn as_number(self) -> Option<Number<'a>> {
        match self.node() {
            Node::Number { start, end } => Some(Number::new(self.live.text(start, end))),
            _ => None,
        }
    }

    /// Of a string, what it says so far. Half of a surrogate pair that stands alone is U+FFFD.
    pub fn as_str(self) -> Option<&'a str> {
        match self.node() {
            Node::String { start, end, .. } => Some(self.live.text(start, end)),
            _ => None,
        }
    }

    /// Members of an object or elements of an array that are shown; 0 of anything else. O(1).
    pub fn len(self) -> usize {
        match self.node() {
            Node::Container { count, .. } => count + usize::from(self.holds_open_string()),
            _ => 0,
        }
    }

    /// It is neither an object with members nor an array with elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The member of an object with this key; the first one, if it has several. O(its members).
    pub fn get(self, key: &str) -> Option<View<'a>> {
        self.members().find(|(other, _)| *other == key).map(|(_, value)| value)
    }

    /// The element of an array at this index. O(index); the last one O(1).
    pub fn index(self, index: usize) -> Option<View<'a>> {
        let is_last = index.checked_add(1) == Some(self.len()) && self.kind() == ValueKind::Array;
        if is_last { self.last() } else { self.elements().nth(index) }
    }

    /// What a JSON Pointer ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)) names, counted from here: `""` is this
    /// value, `"/a/0"` the first element of its member `a`. Costs what [`get`](Self::get) and [`index`](Self::index) do.
    pub fn pointer(self, pointer: &str) -> Option<View<'a>> {
        self.locate(pointer).ok()
    }

    /// Like [`pointer`](Self::pointer); where nothing is there, whether it may still come.
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

    /// The newest member or element of a container: what is open in it, if anything is. O(1).
    pub fn last(self) -> Option<View<'a>> {
        match self.node() {
            Node::Container { .. } if self.holds_open_string() => Some(Self { at: self.end - 1, ..self }),
            Node::Container { count: 1.., last, .. } => Some(Self { at: last, ..self }),
            _ => None,
        }
    }

    /// The key that it stands under, if it is a member. O(1).
    pub fn key(self) -> Option<&'a str> {
        key_at(self.live, self.at.checked_sub(1)?)
    }

    /// The key of a value that is known to be a member.
    pub(super) fn member_key(self) -> &'a str {
        let key = self.key();
        debug_assert!(key.is_some(), "a member has a key");
        key.unwrap_or_default()
    }

    /// The members of an object that have a value, in the order of the document; none of anything else. A key that
    /// comes again comes again here.
    pub fn members(self) -> impl Iterator<Item = (&'a str, View<'a>)> + Clone + use<'a> {
        let is_object = self.kind() == ValueKind::Object;
        self.children().take_while(move |_| is_object).map(|value| (value.member_key(), value))
    }

    /// The elements of an array; none of anything else.
    pub fn elements(self) -> impl Iterator<Item = View<'a>> + Clone + use<'a> {
        let is_array = self.kind() == ValueKind::Array;
        self.children().take_while(move |_| is_array)
    }

    /// As a `T`, which may borrow strings from the live value. Errors are placed by their path from the root.
    ///
    /// # Errors
    /// Those of [`LiveValue::snapshot`].
    pub fn read<T: Deserialize<'a>>(self) -> Result<T, SnapshotError> {
        T::deserialize(self).map_err(|error| error.at(self))
    }

    /// JSON Pointer from the root. Costs what stands before it, in the containers around it.
    pub fn path(self) -> String {
        path(self.live, self.at)
    }

    /// The children of a container.
    pub(super) fn children(self) -> Children<'a> {
        let until = if let Node::Container { .. } = self.node() { self.behind() } else { 0 };
        Children { view: Self { at: self.at + 1, ..self }, until }
    }

    /// The node behind it and all that it shows.
    pub(super) fn behind(self) -> usize {
        self.live.behind(self.at).min(self.end)
    }

    /// It is a container, and a string that is open and shown belongs to it.
    fn holds_open_string(self) -> bool {
        self.end == self.live.nodes.len()
            && self.live.in_string()
            && self.live.open.last().is_some_and(|open| open.node == self.at)
    }
}

/// The children of a container; of an object, the values.
#[derive(Clone)]
pub(super) struct Children<'a> {
    /// At the next one, or at its key.
    view: View<'a>,
    until: usize,
}

impl<'a> Iterator for Children<'a> {
    type Item = View<'a>;

    fn next(&mut self) -> Option<View<'a>> {
        if self.view.at >= self.until {
            return None;
        }
        let is_member = matches!(self.view.node(), Node::Key { .. });
        let child = View { at: self.view.at + usize::from(is_member), ..self.view };
        self.view.at = child.behind();
        Some(child)
    }
}

/// JSON Pointer of a value, or of the member that a key begins.
pub(super) fn path(live: &LiveValue, target: usize) -> String {
    let mut path = String::new();
    let mut view = View::new(live, live.nodes.len(), 0);
    while view.at < target && target < view.behind() {
        let around = |(_, child): &(usize, View<'_>)| target < child.behind();
        // A key without its value is no child: it is the last node.
        let Some((index, child)) = view.children().enumerate().find(around) else { break };
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
