//! The open containers of a cut document under the request's schema.

use std::borrow::Cow;

use super::shapes::{DueMembers, Elements, Shape, Shapes};
use crate::document::Document;
use crate::json::string::quoted;
use crate::json::{Event, Frame, GrammarState, Kind, ParserView, Sink, Span};
use crate::provider::capability::SchemaSubset;

/// The open containers of a document, with their shapes and their keys.
pub(in crate::carve) struct OpenContainers<'a> {
    pub(in crate::carve) document: &'a Document,
    pub(in crate::carve) shapes: Shapes<'a>,
    containers: Vec<OpenContainer<'a>>,
}

struct OpenContainer<'a> {
    /// `None`: the schema has none, or several fit.
    shape: Option<Shape<'a>>,
    /// The keys of an object.
    keys: Vec<String>,
    /// The members of an object whose text is in the document.
    members: Vec<Member>,
    /// The last element of an array, if it is a whole object.
    last: Option<WholeObject>,
}

/// A member of an object.
#[derive(Clone, Debug)]
pub(in crate::carve) struct Member {
    pub(in crate::carve) key: String,
    /// Its value, if it is whole and no container.
    pub(in crate::carve) scalar: Option<Span>,
}

/// An object that the document has as a whole.
#[derive(Clone, Debug)]
pub(in crate::carve) struct WholeObject {
    pub(in crate::carve) span: Span,
    pub(in crate::carve) members: Vec<Member>,
}

impl<'a> OpenContainers<'a> {
    /// Finds the shapes of the open containers. Reads the document once. `None`: no container is
    /// open, or the delivered text violates the schema.
    pub(in crate::carve) fn read(
        document: &'a Document,
        schema: &'a str,
        subset: SchemaSubset,
    ) -> Option<Self> {
        document.root_start()?;
        let frames = document.machine().frames();
        let shapes = Shapes::read(schema, subset)?;
        let mut open = OpenMembers::default();
        document.replay(&mut open);
        let mut containers: Vec<OpenContainer<'a>> = Vec::with_capacity(frames.len());
        for (depth, (frame, open)) in frames.iter().zip(open.0).enumerate() {
            let (members, last) = open;
            let keys: Vec<_> = members.iter().map(|member| member.key.clone()).collect();
            let shape = match depth.checked_sub(1) {
                None => Some(shapes.root()),
                Some(outer) => {
                    let outer_shape = containers.get(outer).and_then(|outer| outer.shape);
                    shapes.child(outer_shape, frames.get(outer)?, document.text())
                }
            };
            let shape = shape.and_then(|shape| shapes.container(shape, frame.kind, &keys));
            containers.push(OpenContainer {
                shape,
                keys,
                members,
                last,
            });
        }
        let is_known = containers.iter().any(|container| container.shape.is_some());
        is_known.then_some(Self {
            document,
            shapes,
            containers,
        })
    }

    /// Returns how many containers are open.
    pub(in crate::carve) fn len(&self) -> usize {
        self.containers.len()
    }

    /// Returns the open container at this depth.
    pub(in crate::carve) fn frame(&self, depth: usize) -> Option<&'a Frame> {
        self.document.machine().frames().get(depth)
    }

    pub(in crate::carve) fn is_innermost(&self, depth: usize) -> bool {
        depth + 1 == self.len()
    }

    fn shape(&self, depth: usize) -> Option<Shape<'a>> {
        self.containers.get(depth)?.shape
    }

    /// Returns the shape of the child in which the document stops, or that is due.
    pub(in crate::carve) fn child(&self) -> Option<Shape<'a>> {
        let depth = self.len().checked_sub(1)?;
        self.shapes
            .child(self.shape(depth), self.frame(depth)?, self.document.text())
    }

    /// Returns the members of the open object at this depth, and its shape.
    pub(in crate::carve) fn object(&self, depth: usize) -> Option<(Shape<'a>, &[Member])> {
        let open = self.containers.get(depth)?;
        Some((open.shape?, &open.members))
    }

    /// Returns the last element of the innermost array, if it is a whole object, and its shape.
    pub(in crate::carve) fn last_object(&self) -> Option<(Shape<'a>, &WholeObject)> {
        let frame = self.frame(self.len().checked_sub(1)?)?;
        let array = self
            .containers
            .last()
            .filter(|_| frame.kind == Kind::Array)?;
        let last = array.last.as_ref()?;
        let keys: Vec<_> = last
            .members
            .iter()
            .map(|member| member.key.clone())
            .collect();
        let count = frame.count as u64;
        let shape = self.shapes.element(array.shape?, count.checked_sub(1)?)?;
        Some((self.shapes.container(shape, Kind::Object, &keys)?, last))
    }

    /// Returns the members that the object at this depth may still have.
    pub(in crate::carve) fn members(&self, depth: usize) -> Option<DueMembers<'a>> {
        let container = self.containers.get(depth)?;
        Some(self.shapes.members(container.shape?, &container.keys))
    }

    /// Returns the elements that the array at this depth may still have, after the one in which the
    /// document stops.
    pub(in crate::carve) fn elements(&self, depth: usize) -> Option<Elements<'a>> {
        Some(
            self.shapes
                .elements(self.shape(depth)?, self.next_index(depth)?),
        )
    }

    /// Returns the index of the element after the one in which the document stops.
    pub(in crate::carve) fn next_index(&self, depth: usize) -> Option<u64> {
        // Every container but the innermost is open in a child of its own.
        let has_open = !self.is_innermost(depth) || self.document.machine().in_token();
        Some(self.frame(depth)?.count as u64 + u64::from(has_open))
    }

    /// Adds a key to the object at this depth.
    pub(in crate::carve) fn add(&mut self, depth: usize, key: &str) {
        if let Some(container) = self.containers.get_mut(depth) {
            container.keys.push(key.to_owned());
        }
    }

    /// Leaves the shape of a container open.
    pub(in crate::carve) fn forget(&mut self, depth: usize) {
        if let Some(container) = self.containers.get_mut(depth) {
            container.shape = None;
        }
    }

    /// Returns the rests of the listed strings that begin as the open one does, each a JSON string.
    /// Empty if the schema lists no such string.
    pub(in crate::carve) fn rests_of_choices(&self, begun: &str) -> Vec<String> {
        let listed = self.listed();
        let rests = listed.filter_map(|choice| choice.strip_prefix(begun).map(quoted));
        rests.collect()
    }

    /// Returns the listed strings that begin as the open one does, each a JSON string.
    pub(in crate::carve) fn choices(&self, begun: &str) -> Vec<String> {
        let fitting = self.listed().filter(|choice| choice.starts_with(begun));
        fitting.map(|choice| quoted(&choice)).collect()
    }

    /// Returns the strings that the schema lists for the open one.
    fn listed(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let shape = self.child();
        let listed = shape.and_then(|shape| self.shapes.listed(shape, &["string"]));
        listed.into_iter().flatten().filter_map(|one| one.decode())
    }

    /// Returns the text of the escape in which the document stops; empty outside of escapes.
    pub(in crate::carve) fn open_escape(&self) -> &'a str {
        let start = self.document.machine().pending_start();
        let open = self.document.text().get(start..);
        open.filter(|_| self.state().in_escape())
            .unwrap_or_default()
    }

    /// Returns the text of the token in which the document stops.
    pub(in crate::carve) fn begun(&self) -> &'a str {
        let start = self.document.machine().token_start();
        self.document.text().get(start..).unwrap_or_default()
    }

    pub(in crate::carve) fn state(&self) -> GrammarState {
        self.document.machine().state()
    }
}

/// The members of an open container, and its last element.
type OpenContents = (Vec<Member>, Option<WholeObject>);

/// Collects the members of each open object, and the last element of each open array.
#[derive(Default)]
struct OpenMembers(Vec<OpenContents>);

impl Sink for OpenMembers {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        let ended = match event {
            Event::Begin { .. } => {
                self.0.push(OpenContents::default());
                return;
            }
            Event::End { .. } => self.0.pop(),
            _ => None,
        };
        let Some((members, last)) = self.0.last_mut() else {
            return;
        };
        match event {
            Event::Key(key) => members.push(Member {
                key: live.key(key).into_owned(),
                scalar: None,
            }),
            Event::StringEnd(span) | Event::Scalar { span, .. } => {
                *last = None;
                if let Some(member) = members.last_mut() {
                    member.scalar = Some(span);
                }
            }
            Event::End { kind, span, .. } => {
                *last = ended
                    .filter(|_| kind == Kind::Object)
                    .map(|(members, _)| WholeObject { span, members });
            }
            _ => {}
        }
    }
}
