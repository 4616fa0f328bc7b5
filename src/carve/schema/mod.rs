//! A flat JSON Schema of the rest of a cut document, for providers that enforce JSON Schema and
//! nothing else.
//!
//! The answer is an object: one member for the rest of the cut token, then one for each open
//! container, the innermost first. A short object in which the document stops, or after which it
//! stops, comes as a whole instead: a model that copies the beginning of an object continues it
//! better than one that is asked for its rest. A few elements that an array still needs have a
//! member each: so all providers enforce their number, and a model does not begin the list anew. A
//! short string comes as a whole, too: a model that repeats it would otherwise double it unseen. No
//! member has a comma, a closing bracket, or the rest of a literal or of a key that the schema
//! names: these follow from the document. The shapes are copies of parts of the request's own
//! schema, with the keywords that the provider enforces. A part without such a shape is a string of
//! JSON text.

pub(super) mod open_containers;
mod reader;
mod repeat;
pub(super) mod shapes;

use std::ops::Range;

use crate::document::Document;
use crate::json::string::{decode, key as read_key, quoted};
use crate::json::walk::Raw;
use crate::json::{Frame, GrammarState, Kind, PathSegment};
use crate::provider::capability::SchemaSubset;

use open_containers::{Member, OpenContainers};
pub(crate) use reader::RestReader;
use repeat::Repeat;
use shapes::{DueMember, DueMembers, Shape};

/// The most open containers of a document whose rest is asked for by a schema.
// Chosen: each costs a member with a line in the prompt, and providers limit the properties.
const MAX_DEPTH: usize = 32;

// Chosen: far above usual schemas. OpenAI takes 5,000 properties, whose names have 120,000 characters.
/// The most bytes of a schema of the rest.
const MAX_SCHEMA: usize = 128 << 10;

/// The most bytes of a cut number, which the prompt shows.
const MAX_NUMBER: usize = 64;

// Chosen: each costs a line in the prompt.
/// The most elements that are still required and have a member each.
const MOST_NAMED: usize = 8;

// Chosen: providers refuse large schemas, and each element has a copy of its own.
/// The most bytes of those copies.
const MAX_NAMED: usize = 4 << 10;

// The model writes them again: some 250 tokens, about as many as the question has.
/// The most bytes of an object that is asked for as a whole.
const MAX_REPEATED: usize = 1 << 10;

// Shorter texts occur again by chance: in English some 12 characters are unique in a document.
/// The fewest characters of delivered text whose repeat at the start of an answer shows that the
/// model begins again.
const LEAST_REPEAT: usize = 12;

/// What a model must write after a cut, as the members of an object.
#[derive(Clone, Debug)]
pub(crate) struct RestSchema {
    /// The schema of that object, as JSON.
    pub(crate) schema: String,
    /// A line about each member, for a prompt.
    pub(crate) members: String,
    /// The range of the delivered text that a member repeats; empty if none does.
    pub(crate) copied: Range<usize>,
    pieces: Vec<Piece>,
}

/// A piece of the rest of the document.
#[derive(Clone, Debug)]
enum Piece {
    /// Text that follows from the document and the schema.
    Known(String),
    /// A member of the answer.
    Member { name: String, content: Content },
}

/// The text that a member of the answer adds to the document.
#[derive(Clone, Debug)]
enum Content {
    /// The text of a string without its quotes, with its escapes.
    StringRest {
        /// The escape in which the document stops, whose character the member begins with.
        open: String,
        /// The delivered text of the string, if its repeat would show.
        delivered: String,
    },
    /// A value, whole. The document has its beginning, or all of it.
    Repeat(Repeat),
    /// A value.
    Value {
        /// The first delivered element, if its repeat would show that the model begins again.
        delivered: String,
    },
    /// The members or elements of a container without its brackets.
    Items {
        kind: Kind,
        separator: &'static str,
        /// The first delivered element, if its repeat would show.
        delivered: String,
    },
    /// The decoded text of a string: JSON that fits into a container of this kind.
    Text { kind: Kind, separator: &'static str },
}

/// Returns the schema of the rest of a cut document, and how its answer is read. Reads the
/// document once. `copies`: a short object or string in which the document stops comes as a whole.
/// `None`: no root is open, the request's schema has no shape for the cut, or the delivered text
/// violates it.
pub(crate) fn rest_schema(
    document: &Document,
    schema: &str,
    subset: SchemaSubset,
    copies: bool,
) -> Option<RestSchema> {
    let frames = document.machine().frames();
    if frames.len() > MAX_DEPTH {
        return None;
    }
    let mut builder = Builder {
        open: OpenContainers::read(document, schema, subset)?,
        pieces: Vec::new(),
        properties: Vec::new(),
        lines: String::new(),
        copied: 0..0,
        copies,
        has_free_key: false,
    };
    let object = copies.then(|| builder.open_object()).flatten();
    let (open, mut before) = match object {
        Some(depth) => (depth, Before::Child),
        None => {
            if copies {
                builder.last_object();
            }
            (frames.len(), builder.token()?)
        }
    };
    for depth in (0..open).rev() {
        builder.tail(depth, before)?;
        before = Before::Child;
    }
    // Without a member the whole rest would be a guess.
    if builder.properties.is_empty() {
        return None;
    }
    let rest = builder.finish()?;
    let is_taken = rest.schema.len() <= MAX_SCHEMA
        && (subset != SchemaSubset::Strict || shapes::is_within_limits(&rest.schema));
    is_taken.then_some(rest)
}

/// The text before the rest of a container.
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
    open: OpenContainers<'a>,
    pieces: Vec<Piece>,
    /// The names of the members, and their schemas.
    properties: Vec<(String, String)>,
    lines: String,
    copied: Range<usize>,
    /// The answer may repeat short delivered text.
    copies: bool,
    /// The answer has the key of the member in which the document stops.
    has_free_key: bool,
}

impl<'a> Builder<'a> {
    /// Adds the object in which the document stops, as a whole. Returns its depth. `None`: there is
    /// none but the root, or it is long, or may have members that the schema does not name.
    fn open_object(&mut self) -> Option<usize> {
        let document = self.open.document;
        let depth = self.open.len().checked_sub(1).filter(|depth| *depth > 0)?;
        // The innermost object. An array in it is open, too.
        let depth = (1..=depth).rev().find(|depth| {
            let frame = self.open.frame(*depth);
            frame.is_some_and(|frame| frame.kind == Kind::Object)
        })?;
        let begun = document.text().get(self.open.frame(depth)?.start..)?;
        let mut due = self.open.members(depth).filter(|due| due.is_closed)?;
        if begun.len() > MAX_REPEATED {
            return None;
        }
        let (shape, members) = self.open.object(depth)?;
        let mut properties = self.delivered(shape, members)?;
        let machine = document.machine();
        let is_key = machine.in_key() || machine.state() == GrammarState::Key;
        if self.open.is_innermost(depth) && is_key {
            // The character of an open escape is unknown, and so is the key.
            if !self.open.open_escape().is_empty() {
                return None;
            }
            // A member must follow. The schema demands the one that is certain.
            let begun = decode(self.open.begun().get(1..).unwrap_or_default());
            let certain = due.certain(if machine.in_key() { &begun } else { "" })?;
            due.members.get_mut(..=certain)?.rotate_right(1);
            due.members.first_mut()?.is_required = true;
        } else if self.open.is_innermost(depth)
            && machine.in_token()
            && let Some((_, open)) = properties.last_mut()
            && let Some(value) = self.open_value()
        {
            *open = value;
        }
        let schema = self.open.shapes.rest_of_object(properties, &due)?;
        let repeat = Repeat::of(begun)?;
        let about = format!(
            "the object at {} as a whole: copy its beginning from the message above unchanged, then complete it",
            self.pointer(depth)
        );
        let start = self.open.frame(depth)?.start;
        self.copied = start..document.text().len();
        self.member("item", Content::Repeat(repeat), schema, &about);
        Some(depth)
    }

    /// Adds the object after which the document stops in an array: the elements that follow are
    /// then written after it.
    fn last_object(&mut self) -> Option<()> {
        if self.open.document.machine().in_token() {
            return None;
        }
        let (shape, last) = self.open.last_object()?;
        let is_full = self.open.elements(self.open.len() - 1)?.most == Some(0);
        let whole = last.span.of(self.open.document.text());
        // Gemini refuses an object without members.
        if whole.len() > MAX_REPEATED || is_full || last.members.is_empty() {
            return None;
        }
        let properties = self.delivered(shape, &last.members)?;
        let nothing = DueMembers {
            members: Vec::new(),
            others: None,
            is_closed: true,
        };
        let schema = self.open.shapes.rest_of_object(properties, &nothing)?;
        let repeat = Repeat::of(whole)?;
        let copied = last.span.start..last.span.end;
        let about = format!(
            "the last object that the message above has in the array at {}, unchanged",
            self.pointer(self.open.len() - 1)
        );
        self.copied = copied;
        self.member("item", Content::Repeat(repeat), schema, &about);
        Some(())
    }

    /// Returns the quoted keys and the schemas of delivered members. `None`: the schema does not
    /// name one of them, or one has no copy, or two have one key.
    fn delivered(&self, shape: Shape<'a>, members: &[Member]) -> Option<Vec<(String, String)>> {
        let named = shape.member("properties")?;
        let text = self.open.document.text();
        let mut properties: Vec<(String, String)> = Vec::with_capacity(members.len());
        for member in members {
            let key = quoted(&member.key);
            let shape = named.member(&member.key)?;
            let only = member
                .scalar
                .and_then(|value| self.open.shapes.only(value.of(text)));
            let value = only.or_else(|| self.open.shapes.copy(shape))?;
            if properties.iter().any(|(other, _)| *other == key) {
                return None;
            }
            properties.push((key, value));
        }
        Some(properties)
    }

    /// Returns the schema of the scalar in which the document stops. `None`: the schema of the whole
    /// value is as good.
    fn open_value(&self) -> Option<String> {
        let begun = self.open.begun();
        if begun.starts_with('"') {
            let begun = decode(begun.get(1..)?.strip_suffix(self.open.open_escape())?);
            return Some(self.open.shapes.string(&self.open.choices(&begun)));
        }
        if self.open.state().in_literal() {
            let literal = format!("{begun}{}", self.open.state().rest_of_literal());
            return self.open.shapes.only(&literal);
        }
        (begun.len() <= MAX_NUMBER).then(|| self.number_schema(begun))
    }

    /// Adds the rest of the cut token. Returns the text before the rest of its container.
    fn token(&mut self) -> Option<Before> {
        let machine = self.open.document.machine();
        let state = machine.state();
        let innermost = machine.frames().last()?;
        let begun = self.open.begun();
        match state {
            GrammarState::FirstElement | GrammarState::FirstKey => return Some(Before::Opener),
            GrammarState::Key => return Some(Before::Comma),
            GrammarState::Value if innermost.kind == Kind::Array => return Some(Before::Comma),
            GrammarState::Value => self.due_value(),
            GrammarState::Colon => {
                self.known(": ");
                // The path has the key from the colon on.
                let key = read_key(innermost.key.of(self.open.document.text()));
                let place = self.pointer_of(self.open.len().saturating_sub(1), &key);
                self.value(self.open.child(), &place);
            }
            _ if state.in_string() && machine.in_key() => self.key(begun.get(1..)?)?,
            _ if state.in_string() => self.string(begun.get(1..)?)?,
            _ if state.in_literal() => self.known(state.rest_of_literal()),
            _ if machine.in_token() && begun.len() > MAX_NUMBER => return None,
            _ if machine.in_token() => self.number(begun)?,
            _ => {}
        }
        Some(Before::Child)
    }

    /// Adds the rest of a string.
    fn string(&mut self, begun: &str) -> Option<()> {
        let open = self.open.open_escape();
        let begun = decode(begun.strip_suffix(open)?);
        let rests = self.open.rests_of_choices(&begun);
        if let ([only], "") = (rests.as_slice(), open) {
            self.known(only.get(1..)?);
            return Some(());
        }
        let place = self.pointer(self.open.len());
        if self.copies && !is_repeatable(&begun) {
            let shape = self.open.shapes.string(&self.open.choices(&begun));
            return self.whole_string("string", &begun, shape, &format!("the string at {place}"));
        }
        let rests = if open.is_empty() { rests } else { Vec::new() };
        let shape = self.open.shapes.string(&rests);
        let about = format!(
            "the rest of the string at {place}, which {}, up to its end; empty if the string is whole",
            match open {
                "" => format!("stops after {}", quoted(tail(&begun))),
                open => format!("stops inside a character; begin with it, {open} is its start"),
            }
        );
        let content = Content::StringRest {
            open: open.to_owned(),
            delivered: repeatable(&begun),
        };
        self.member("rest_of_string", content, shape, &about);
        self.known("\"");
        Some(())
    }

    /// Adds the rest of a key, and its value.
    fn key(&mut self, begun: &str) -> Option<()> {
        let depth = self.open.len().checked_sub(1)?;
        // The character of an open escape is unknown, and so is the key.
        if !self.open.open_escape().is_empty() {
            return None;
        }
        let begun = decode(begun);
        let due = self.open.members(depth);
        let fits = |member: &&DueMember<'_>| member.key.starts_with(&*begun);
        let fitting = due.iter().flat_map(|due| &due.members).filter(fits).count();
        if fitting == 0 && due.as_ref().is_some_and(|due| due.is_closed) {
            return None;
        }
        let certain = due.as_ref().and_then(|due| due.certain(&begun));
        if let Some(member) = certain.and_then(|at| due.as_ref()?.members.get(at)) {
            let rest = quoted(member.key.strip_prefix(&*begun)?);
            let shape = member.shape;
            let pointer = self.pointer_of(depth, &member.key);
            self.open.add(depth, &member.key);
            self.known(&format!("{}: ", rest.get(1..)?));
            self.value(Some(shape), &pointer);
            return Some(());
        }
        let shape = match fitting {
            1.. => None,
            0 => due.as_ref().and_then(|due| due.others),
        };
        self.has_free_key = true;
        let string = self.open.shapes.typed("string", "");
        let place = self.pointer(depth);
        if self.copies && !is_repeatable(&begun) {
            let about = format!("the key in which the object at {place} stops");
            self.whole_string("key", &begun, string, &about)?;
            self.known(": ");
        } else {
            let stop = quoted(tail(&begun));
            let about = format!("the rest of the key at {place}, which stops after {stop}");
            let content = Content::StringRest {
                open: String::new(),
                delivered: repeatable(&begun),
            };
            self.member("rest_of_key", content, string, &about);
            self.known("\": ");
        }
        self.value(shape, "that key");
        Some(())
    }

    /// Adds the string or key in which the document stops, as a whole.
    fn whole_string(&mut self, name: &str, begun: &str, shape: String, about: &str) -> Option<()> {
        let document = self.open.document;
        self.copied = document.machine().token_start()..document.text().len();
        let repeat = Repeat::of(self.open.begun())?;
        let about = format!(
            "{about} as a whole{}",
            match (self.open.open_escape(), begun) {
                ("", "") => String::new(),
                ("", begun) => format!("; it begins with {}", quoted(begun)),
                (open, begun) => format!(
                    "; it begins with {}, then a character whose escape begins with {open}",
                    quoted(begun)
                ),
            }
        );
        self.member(name, Content::Repeat(repeat), shape, &about);
        Some(())
    }

    /// Adds the number in which the document stops.
    fn number(&mut self, begun: &str) -> Option<()> {
        let shape = self.number_schema(begun);
        let about = format!(
            "the number at {} as a whole; it begins with {begun}",
            self.pointer(self.open.len())
        );
        let repeat = Repeat::of(begun)?;
        self.member("number", Content::Repeat(repeat), shape, &about);
        Some(())
    }

    /// Returns the schema of the number in which the document stops: one of the listed numbers with
    /// these first digits, or a string whose pattern has the delivered digits, where the provider
    /// enforces patterns.
    fn number_schema(&self, begun: &str) -> String {
        let shapes = &self.open.shapes;
        let shape = self.open.child();
        let listed = shape.and_then(|shape| shapes.listed(shape, &["integer", "number"]));
        let texts = listed.into_iter().flatten().map(|one| one.as_str());
        let fitting: Vec<_> = texts.filter(|text| text.starts_with(begun)).collect();
        let is_integer = shape.is_some_and(|shape| shapes.is_integer(shape));
        let name = if is_integer { "integer" } else { "number" };
        match (shapes.enforces_patterns(), fitting.is_empty()) {
            (true, true) => {
                let digits = begun.replace('.', "[.]").replace('+', "[+]");
                let rest = rest_of_number(self.open.state(), is_integer);
                shapes.typed("string", &format!(r#","pattern":"^{digits}{rest}$""#))
            }
            (true, false) => {
                let choices: Vec<_> = fitting.into_iter().map(quoted).collect();
                shapes.string(&choices)
            }
            (false, true) => shapes.typed(name, ""),
            (false, false) => shapes.typed(name, &format!(r#","enum":[{}]"#, fitting.join(","))),
        }
    }

    /// Adds the value of the key that the document has.
    fn due_value(&mut self) {
        let place = self.pointer(self.open.len());
        self.value(self.open.child(), &place);
    }

    fn value(&mut self, shape: Option<Shape<'a>>, place: &str) {
        let about = format!("the value at {place}");
        match shape.and_then(|shape| self.open.shapes.copy(shape)) {
            Some(copy) => {
                let delivered = String::new();
                self.member("value", Content::Value { delivered }, copy, &about);
            }
            None => self.text("value", Kind::Array, "", &about),
        }
    }

    /// Adds the rest of an open container.
    fn tail(&mut self, depth: usize, before: Before) -> Option<()> {
        let frame = *self.open.frame(depth)?;
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
            self.pointer(depth)
        );
        let separator = before.separator();
        let Some(due) = self.open.members(depth) else {
            self.text("rest_of_item", Kind::Object, separator, &about);
            return Some(());
        };
        if due.members.is_empty() && due.is_closed {
            // After a comma the document needs a member, and the schema has none.
            return (before != Before::Comma).then_some(());
        }
        // The key that the answer has may be any of these.
        let is_known = !(self.has_free_key && self.open.is_innermost(depth));
        let is_known = is_known || due.members.is_empty();
        let schema = is_known
            .then(|| self.open.shapes.rest_of_object(Vec::new(), &due))
            .flatten();
        match schema {
            Some(schema) => {
                let content = Content::Items {
                    kind: Kind::Object,
                    separator,
                    delivered: String::new(),
                };
                self.member("rest_of_item", content, schema, &about);
            }
            None => self.text("rest_of_item", Kind::Object, separator, &about),
        }
        Some(())
    }

    fn elements(&mut self, depth: usize, frame: &Frame, before: Before) -> Option<()> {
        let about = format!(
            "the elements that follow in the array at {}",
            self.pointer(depth)
        );
        let separator = before.separator();
        let Some(mut due) = self.open.elements(depth) else {
            self.text("rest_of_items", Kind::Array, separator, &about);
            return Some(());
        };
        if due.most == Some(0) {
            return (before != Before::Comma).then_some(());
        }
        due.least = due.least.max(u64::from(before == Before::Comma));
        // The schema contradicts itself, or the document violates it.
        if due.most.is_some_and(|most| due.least > most) {
            return None;
        }
        let copy = due.shape.and_then(|shape| self.open.shapes.copy(shape));
        let most_named = copy
            .as_ref()
            .map_or(0, |copy| MAX_NAMED / copy.len().max(1));
        let named = due.least.min(most_named.min(MOST_NAMED) as u64);
        let first = self.open.next_index(depth)?;
        let mut delivered = self.first_element(frame);
        let mut separator = separator;
        for index in first..first + named {
            self.known(separator);
            separator = ", ";
            let about = format!("the new element `{}/{index}`", self.path(depth));
            let content = Content::Value {
                delivered: std::mem::take(&mut delivered),
            };
            let copy = copy.clone().unwrap_or_default();
            self.member(&format!("element_{index}"), content, copy, &about);
        }
        due.least -= named;
        due.most = due.most.map(|most| most - named);
        if due.most == Some(0) {
            return Some(());
        }
        match self.open.shapes.rest_of_array(&due) {
            Some(schema) => {
                let content = Content::Items {
                    kind: Kind::Array,
                    separator,
                    // Empty after other new elements: then it is no repeat of the list.
                    delivered,
                };
                self.member("rest_of_items", content, schema, &about);
            }
            None => self.text("rest_of_items", Kind::Array, separator, &about),
        }
        Some(())
    }

    /// Returns the text of an array's first element, if it is whole and its repeat would show.
    fn first_element(&self, frame: &Frame) -> String {
        let text = self
            .open
            .document
            .text()
            .get(frame.start + 1..)
            .unwrap_or_default();
        let first = Raw::root(text).filter(|_| frame.count > 0);
        first.map_or(String::new(), |first| repeatable(first.as_str()))
    }

    /// Adds text that no member has.
    fn known(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Known(known)) => known.push_str(text),
            _ => self.pieces.push(Piece::Known(text.to_owned())),
        }
    }

    /// Adds a member whose shape is unknown: a string of JSON text.
    fn text(&mut self, name: &str, kind: Kind, separator: &'static str, about: &str) {
        let shape = self.open.shapes.typed("string", "");
        let about = format!("{about}, as JSON text in a string");
        self.member(name, Content::Text { kind, separator }, shape, &about);
    }

    fn member(&mut self, name: &str, content: Content, shape: String, about: &str) {
        let mut name = name.to_owned();
        while self.properties.iter().any(|(other, _)| *other == name) {
            name.insert_str(0, "outer_");
        }
        self.lines.push_str(&format!("- `{name}`: {about}\n"));
        self.properties.push((name.clone(), shape));
        self.pieces.push(Piece::Member { name, content });
    }

    /// Names a container, or the child in which the document stops, by the number of containers
    /// around it.
    fn pointer(&self, depth: usize) -> String {
        match self.path(depth).as_str() {
            "" => "the root".to_owned(),
            path => format!("`{path}`"),
        }
    }

    /// Returns the JSON Pointer of an open container, or of the child in which the document stops.
    fn path(&self, depth: usize) -> String {
        let path = self.open.document.path();
        let steps = path.tokens().take(depth);
        steps.map(|step| format!("/{step}")).collect()
    }

    /// Names a member of a container.
    fn pointer_of(&self, depth: usize, key: &str) -> String {
        format!("`{}/{}`", self.path(depth), PathSegment::Key(key.into()))
    }

    fn finish(self) -> Option<RestSchema> {
        Some(RestSchema {
            schema: self.open.shapes.object_of(&self.properties)?,
            members: self.lines.trim_end().to_owned(),
            copied: self.copied,
            pieces: self.pieces,
        })
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

/// Returns a pattern of the rests of a number.
fn rest_of_number(state: GrammarState, is_integer: bool) -> String {
    const INTEGER: &str = "(0|[1-9][0-9]*)";
    const EXPONENT: &str = "([eE][-+]?[0-9]+)?";
    let tail = format!("([.][0-9]+)?{EXPONENT}");
    match (state, is_integer) {
        (GrammarState::Minus, true) => INTEGER.to_owned(),
        (GrammarState::Zero, true) => String::new(),
        (GrammarState::Integer, true) => "[0-9]*".to_owned(),
        (GrammarState::Minus, false) => format!("{INTEGER}{tail}"),
        (GrammarState::Zero, false) => tail,
        (GrammarState::Integer, false) => format!("[0-9]*{tail}"),
        (GrammarState::Point, _) => format!("[0-9]+{EXPONENT}"),
        (GrammarState::Fraction, _) => format!("[0-9]*{EXPONENT}"),
        (GrammarState::Exponent, _) => "[-+]?[0-9]+".to_owned(),
        (GrammarState::ExponentSign, _) => "[0-9]+".to_owned(),
        _ => "[0-9]*".to_owned(),
    }
}

/// Returns a text whose repeat at the start of an answer shows that the model begins again; empty
/// if it is too short.
fn repeatable(text: &str) -> String {
    match is_repeatable(text) {
        true => text.to_owned(),
        false => String::new(),
    }
}

/// Returns whether a text is too long to be repeated by chance.
fn is_repeatable(text: &str) -> bool {
    text.chars().nth(LEAST_REPEAT - 1).is_some()
}

/// The end of a text that a prompt shows.
fn tail(text: &str) -> &str {
    // Chosen: as much as a head has at most; the whole text is in the assistant's message.
    const SHOWN: usize = 40;
    let from = text.char_indices().rev().nth(SHOWN - 1);
    from.and_then(|(at, _)| text.get(at..)).unwrap_or(text)
}
