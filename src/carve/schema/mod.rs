//! A flat JSON Schema of the rest of a cut document, for providers that enforce JSON Schema and
//! nothing else.
//!
//! The answer is an object: one member for the rest of the cut token, then one for each open
//! container, the innermost first. Commas, closing brackets and the rest of a literal or of a key
//! that the schema knows follow from the document, so no member has them. The shapes come from the
//! request's own schema, copied: the provider accepts them already. A part that has no such shape
//! is a string of JSON text.

mod open_members;
mod reader;
mod shapes;

use crate::document::Document;
use crate::json::string::{decode, quoted};
use crate::json::{Frame, GrammarState, Kind, PathSegment};

use open_members::OpenMembers;
pub(crate) use reader::RestReader;
use shapes::{Shape, Shapes};

/// The most open containers of a document whose rest is asked for by a schema.
// Chosen: each costs a member with a line in the prompt, and providers limit the properties.
const MAX_DEPTH: usize = 32;

/// What a model must write after a cut, as the members of an object.
#[derive(Clone, Debug)]
pub(crate) struct RestSchema {
    /// The schema of that object, as JSON.
    pub(crate) schema: String,
    /// A line about each member, for a prompt.
    pub(crate) members: String,
    pieces: Vec<Piece>,
}

/// A piece of the rest of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// Text that follows from the document and the schema.
    Known(String),
    /// A member of the answer.
    Member { name: String, content: Content },
}

/// What a member of the answer adds to the document.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// The text of a string without its quotes, escaped as it comes. `open`: the escape in which
    /// the document stops, whose character the member begins with.
    StringRest { open: String },
    /// A number, whole. The document has its first characters.
    Number { begun: String },
    /// A value.
    Value,
    /// The members or elements of a container without its brackets, after `separator`.
    Items { kind: Kind, separator: &'static str },
    /// The text of a string, decoded: JSON. `separator` comes before it, unless it is blank.
    Text { separator: &'static str },
}

/// Returns the schema of the rest of a cut document, and how its answer is read. Reads the
/// document once. `None`: no root is open, or the request's schema says nothing about the cut, or
/// the delivered text does not follow it.
pub(crate) fn rest_schema(document: &Document, schema: &str) -> Option<RestSchema> {
    let frames = document.machine().frames();
    document.root_start()?;
    if frames.is_empty() || frames.len() > MAX_DEPTH {
        return None;
    }
    let shapes = Shapes::read(schema)?;
    let mut present = OpenMembers::default();
    document.replay(&mut present);
    let mut containers: Vec<Option<Shape<'_>>> = Vec::with_capacity(frames.len());
    for (depth, frame) in frames.iter().enumerate() {
        let shape = match depth.checked_sub(1) {
            None => Some(shapes.root()),
            Some(outer) => {
                let outer_shape = containers.get(outer).copied().flatten();
                shapes.child(outer_shape, frames.get(outer)?, document.text())
            }
        };
        let fits = |shape| shapes.container(shape, frame.kind, present.keys(depth));
        containers.push(shape.and_then(fits));
    }
    if containers.iter().all(Option::is_none) {
        return None;
    }
    let mut builder = Builder {
        document,
        shapes,
        containers,
        present,
        pieces: Vec::new(),
        properties: Vec::new(),
        lines: String::new(),
    };
    let cut = builder.token()?;
    for depth in (0..frames.len()).rev() {
        let before = if depth + 1 == frames.len() {
            cut
        } else {
            Before::Child
        };
        builder.tail(depth, before)?;
    }
    // The whole rest would be a guess, without a call.
    (!builder.properties.is_empty()).then(|| builder.finish())
}

/// What comes before the rest of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Its opening bracket.
    Opener,
    /// A comma.
    Comma,
    /// A child, whole children or the one that the members before complete.
    Child,
}

struct Builder<'a> {
    document: &'a Document,
    shapes: Shapes<'a>,
    /// The shapes of the open containers, where they are known.
    containers: Vec<Option<Shape<'a>>>,
    present: OpenMembers,
    pieces: Vec<Piece>,
    /// The names of the members, and their schemas.
    properties: Vec<(String, String)>,
    lines: String,
}

impl<'a> Builder<'a> {
    /// Adds the rest of the cut token. Returns what comes before the rest of its container.
    fn token(&mut self) -> Option<Before> {
        let document: &'a Document = self.document;
        let machine = document.machine();
        let state = machine.state();
        let innermost = machine.frames().last()?;
        let begun = document.text().get(machine.token_start()..)?;
        match state {
            GrammarState::FirstElement | GrammarState::FirstKey => return Some(Before::Opener),
            GrammarState::Key => return Some(Before::Comma),
            GrammarState::Value if innermost.kind == Kind::Array => return Some(Before::Comma),
            GrammarState::Value => self.due_value(),
            GrammarState::Colon => {
                self.known(": ");
                self.due_value();
            }
            _ if state.in_string() && machine.in_key() => self.key(begun.get(1..)?)?,
            _ if state.in_string() => self.string(begun.get(1..)?)?,
            _ if state.in_literal() => self.known(state.rest_of_literal()),
            _ if machine.in_token() => self.number(begun),
            _ => {}
        }
        Some(Before::Child)
    }

    /// The shape of the child in which the document stops.
    fn child(&self) -> Option<Shape<'a>> {
        let frame = self.document.machine().frames().last()?;
        let container = self.containers.last().copied().flatten();
        self.shapes.child(container, frame, self.document.text())
    }

    /// Adds the rest of a string.
    fn string(&mut self, begun: &str) -> Option<()> {
        let machine = self.document.machine();
        let open = match machine.state().in_escape() {
            true => self.document.text().get(machine.pending_start()..)?,
            false => "",
        };
        let choices = self.child().and_then(|shape| self.shapes.strings(shape));
        let begun = decode(begun);
        let rests: Vec<_> = choices
            .iter()
            .flatten()
            .filter_map(|choice| choice.strip_prefix(&*begun))
            .map(quoted)
            .collect();
        let shape = match rests.is_empty() || !open.is_empty() {
            true => self.shapes.typed("string", ""),
            false => {
                let members = format!(r#","enum":[{}]"#, rests.join(","));
                self.shapes.typed("string", &members)
            }
        };
        let about = format!(
            "the rest of the string at {}, which {}, up to its end; empty if the string is whole",
            self.place(self.document.machine().frames().len()),
            match open {
                "" => format!("stops after {}", quoted(tail(&begun))),
                open => format!("stops inside a character; begin with it, {open} is its start"),
            }
        );
        let open = open.to_owned();
        self.member(
            "rest_of_string",
            Content::StringRest { open },
            shape,
            &about,
        );
        self.known("\"");
        Some(())
    }

    /// Adds the rest of a key, and its value.
    fn key(&mut self, begun: &str) -> Option<()> {
        let depth = self.containers.len().checked_sub(1)?;
        // The character of an open escape is unknown, and so is the key.
        if self.document.machine().state().in_escape() {
            return None;
        }
        let begun = decode(begun);
        let container = self.containers.get(depth).copied().flatten();
        let present = self.present.keys(depth);
        let due = container.map(|shape| self.shapes.members(shape, present));
        let mut named = due.iter().flat_map(|due| &due.members);
        let fits = |key: &str| key.starts_with(&*begun);
        let first = named.find(|member| fits(&member.key));
        let others = named.filter(|member| fits(&member.key)).count();
        // The document needs a required member in any case, so its key is no guess.
        if let Some(member) = first.filter(|member| member.is_required || others == 0) {
            let rest = quoted(member.key.strip_prefix(&*begun)?);
            let shape = member.shape;
            let place = self.place_of(depth, &member.key);
            self.known(&format!("{}: ", rest.get(1..)?));
            self.value(Some(shape), &place);
            return Some(());
        }
        let shape = match first {
            Some(_) => None,
            None => due.and_then(|due| due.others),
        };
        let about = format!(
            "the rest of the key at {}, which stops after {}",
            self.place(depth),
            quoted(tail(&begun))
        );
        let open = String::new();
        let string = self.shapes.typed("string", "");
        self.member("rest_of_key", Content::StringRest { open }, string, &about);
        self.known("\": ");
        self.value(shape, "that key");
        Some(())
    }

    /// Adds the number in which the document stops.
    fn number(&mut self, begun: &str) {
        let is_integer = self
            .child()
            .is_some_and(|shape| self.shapes.has_type(shape, "integer"));
        let name = if is_integer { "integer" } else { "number" };
        let about = format!(
            "the number at {} as a whole; it begins with {begun}",
            self.place(self.document.machine().frames().len())
        );
        let begun = begun.to_owned();
        let shape = self.shapes.typed(name, "");
        self.member("number", Content::Number { begun }, shape, &about);
    }

    /// Adds the value of the key that the document has.
    fn due_value(&mut self) {
        let place = self.place(self.document.machine().frames().len());
        self.value(self.child(), &place);
    }

    fn value(&mut self, shape: Option<Shape<'a>>, place: &str) {
        let about = format!("the value at {place}");
        match shape.and_then(|shape| self.shapes.copy(shape)) {
            Some(copy) => self.member("value", Content::Value, copy, &about),
            None => self.text("value", "", &about),
        }
    }

    /// Adds the rest of an open container.
    fn tail(&mut self, depth: usize, before: Before) -> Option<()> {
        let frame = *self.document.machine().frames().get(depth)?;
        match frame.kind {
            Kind::Object => self.members(depth, before)?,
            Kind::Array => self.elements(depth, &frame, before)?,
        }
        self.known(frame.kind.closer().encode_utf8(&mut [0; 4]));
        Some(())
    }

    fn members(&mut self, depth: usize, before: Before) -> Option<()> {
        let about = format!(
            "the members that the object at {} still lacks",
            self.place(depth)
        );
        let separator = before.separator();
        let Some(shape) = self.containers.get(depth).copied().flatten() else {
            self.text("rest_of_item", separator, &about);
            return Some(());
        };
        let present = self.present.keys(depth);
        let due = self.shapes.members(shape, present);
        if due.members.is_empty() && due.is_closed {
            // After a comma a member is due, and the schema has none.
            return (before != Before::Comma).then_some(());
        }
        match self.shapes.rest_of_object(&due) {
            Some(schema) => {
                let kind = Kind::Object;
                let content = Content::Items { kind, separator };
                self.member("rest_of_item", content, schema, &about);
            }
            None => self.text("rest_of_item", separator, &about),
        }
        Some(())
    }

    fn elements(&mut self, depth: usize, frame: &Frame, before: Before) -> Option<()> {
        let place = self.place(depth);
        let about = format!("the elements that follow in the array at {place}");
        let separator = before.separator();
        let is_innermost = depth + 1 == self.containers.len();
        // Every container but the innermost is open in a child of its own.
        let has_open = !is_innermost || self.document.machine().in_token();
        let count = frame.count as u64 + u64::from(has_open);
        let shape = self.containers.get(depth).copied().flatten();
        let Some((items, least, most)) = shape.map(|shape| self.shapes.elements(shape, count))
        else {
            self.text("rest_of_items", separator, &about);
            return Some(());
        };
        if most == Some(0) {
            return (before != Before::Comma).then_some(());
        }
        let least = least.max(u64::from(before == Before::Comma));
        match items.and_then(|items| self.shapes.rest_of_array(items, least, most)) {
            Some(schema) => {
                let kind = Kind::Array;
                let content = Content::Items { kind, separator };
                self.member("rest_of_items", content, schema, &about);
            }
            None => self.text("rest_of_items", separator, &about),
        }
        Some(())
    }

    /// Adds text that no member has.
    fn known(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Known(known)) => known.push_str(text),
            _ => self.pieces.push(Piece::Known(text.to_owned())),
        }
    }

    /// Adds a member whose shape is unknown: a string of JSON text.
    fn text(&mut self, name: &str, separator: &'static str, about: &str) {
        let shape = self.shapes.typed("string", "");
        let about = format!("{about}, as JSON text in a string, separated by commas");
        self.member(name, Content::Text { separator }, shape, &about);
    }

    fn member(&mut self, name: &str, content: Content, shape: String, about: &str) {
        let same = self
            .properties
            .iter()
            .filter(|(other, _)| {
                other.trim_end_matches(|c: char| c == '_' || c.is_ascii_digit()) == name
            })
            .count();
        let name = match same {
            0 => name.to_owned(),
            same => format!("{name}_{}", same + 1),
        };
        self.lines.push_str(&format!("- `{name}`: {about}\n"));
        self.properties.push((name.clone(), shape));
        self.pieces.push(Piece::Member { name, content });
    }

    /// Names a container, or the child in which the document stops, by the number of containers
    /// around it.
    fn place(&self, depth: usize) -> String {
        let path = self.document.path();
        let steps: String = path
            .tokens()
            .take(depth)
            .map(|step| format!("/{step}"))
            .collect();
        match steps.as_str() {
            "" => "the root".to_owned(),
            path => format!("`{path}`"),
        }
    }

    /// Names a member of a container.
    fn place_of(&self, depth: usize, key: &str) -> String {
        let key = PathSegment::Key(key.into());
        let container = self.place(depth);
        match container.strip_suffix('`') {
            Some(path) => format!("{path}/{key}`"),
            None => format!("`/{key}`"),
        }
    }

    fn finish(self) -> RestSchema {
        RestSchema {
            schema: self.shapes.object_of(&self.properties),
            members: self.lines.trim_end().to_owned(),
            pieces: self.pieces,
        }
    }
}

impl Before {
    fn separator(self) -> &'static str {
        match self {
            Self::Opener | Self::Comma => "",
            Self::Child => ", ",
        }
    }
}

/// The end of a text that a prompt shows.
fn tail(text: &str) -> &str {
    // Chosen: as much as a head has at most; the whole text is in the assistant's message.
    const SHOWN: usize = 40;
    let from = text.char_indices().rev().nth(SHOWN - 1);
    from.and_then(|(at, _)| text.get(at..)).unwrap_or(text)
}
