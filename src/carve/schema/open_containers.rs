//! The open containers of a cut document under the request's schema.

use super::shapes::{DueMembers, Elements, Shape, Shapes};
use crate::document::Document;
use crate::json::string::quoted;
use crate::json::{Event, Frame, GrammarState, ParserView, Sink};
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
        let mut keys = OpenKeys::default();
        document.replay(&mut keys);
        let mut containers: Vec<OpenContainer<'a>> = Vec::with_capacity(frames.len());
        for (depth, (frame, keys)) in frames.iter().zip(keys.0).enumerate() {
            let shape = match depth.checked_sub(1) {
                None => Some(shapes.root()),
                Some(outer) => {
                    let outer_shape = containers.get(outer).and_then(|outer| outer.shape);
                    shapes.child(outer_shape, frames.get(outer)?, document.text())
                }
            };
            let shape = shape.and_then(|shape| shapes.container(shape, frame.kind, &keys));
            containers.push(OpenContainer { shape, keys });
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

    /// Returns the members that the object at this depth may still have.
    pub(in crate::carve) fn members(&self, depth: usize) -> Option<DueMembers<'a>> {
        let container = self.containers.get(depth)?;
        Some(self.shapes.members(container.shape?, &container.keys))
    }

    /// Returns the elements that the array at this depth may still have, after the one in which the
    /// document stops.
    pub(in crate::carve) fn elements(&self, depth: usize) -> Option<Elements<'a>> {
        // Every container but the innermost is open in a child of its own.
        let has_open = !self.is_innermost(depth) || self.document.machine().in_token();
        let count = self.frame(depth)?.count as u64 + u64::from(has_open);
        Some(self.shapes.elements(self.shape(depth)?, count))
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
        let choices = self.child().and_then(|shape| self.shapes.strings(shape));
        let choices = choices.into_iter().flatten();
        let rests = choices.filter_map(|choice| choice.strip_prefix(begun).map(quoted));
        rests.collect()
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

/// Collects the keys of each open container; none for an array.
#[derive(Default)]
struct OpenKeys(Vec<Vec<String>>);

impl Sink for OpenKeys {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        match event {
            Event::Begin { .. } => self.0.push(Vec::new()),
            Event::End { .. } => drop(self.0.pop()),
            Event::Key(key) => {
                if let Some(keys) = self.0.last_mut() {
                    keys.push(live.key(key).into_owned());
                }
            }
            _ => {}
        }
    }
}
