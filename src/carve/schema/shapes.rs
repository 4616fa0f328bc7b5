//! Reads the shapes of values from a request's schema, and writes schemas of parts of them.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;

use crate::json::edit::Edits;
use crate::json::string::{key as read_key, quoted};
use crate::json::walk::{Raw, ValueKind};
use crate::json::{Frame, Kind, PathSegment};
use crate::provider::capability::SchemaSubset;

/// The schema of one value.
pub(in crate::carve) type Shape<'a> = Raw<'a>;

/// A request's schema.
pub(in crate::carve) struct Shapes<'a> {
    root: Raw<'a>,
    subset: SchemaSubset,
    /// Its types have names in upper case, as those of Gemini's `responseSchema` do.
    is_upper_case: bool,
    /// A copy refers to the definitions.
    uses_definitions: Cell<bool>,
    /// A definition refers to itself, and the provider refuses that.
    has_refused_cycle: bool,
}

/// The members that an object may still have.
pub(in crate::carve) struct DueMembers<'a> {
    /// Those that the schema names, in its order.
    pub(in crate::carve) members: Vec<DueMember<'a>>,
    /// The shape of all others, if they have one.
    pub(in crate::carve) others: Option<Shape<'a>>,
    /// The object has no others.
    pub(in crate::carve) is_closed: bool,
}

/// A member that an object may still have.
pub(in crate::carve) struct DueMember<'a> {
    pub(in crate::carve) key: Cow<'a, str>,
    pub(in crate::carve) shape: Shape<'a>,
    pub(in crate::carve) is_required: bool,
}

/// The elements that an array may still have.
pub(in crate::carve) struct Elements<'a> {
    /// The shape of each. `None`: they have none, or several.
    pub(in crate::carve) shape: Option<Shape<'a>>,
    pub(in crate::carve) least: u64,
    pub(in crate::carve) most: Option<u64>,
}

impl Elements<'_> {
    /// Returns the elements that may follow one of these.
    pub(in crate::carve) fn after_one(self) -> Self {
        Self {
            least: self.least.saturating_sub(1),
            most: self.most.map(|most| most.saturating_sub(1)),
            ..self
        }
    }
}

impl DueMembers<'_> {
    /// Returns the index of the member that an object has next, whose key begins so: a required one,
    /// which the document needs in any case, or the only one that is legal.
    pub(in crate::carve) fn certain(&self, begun: &str) -> Option<usize> {
        let fitting = self.members.iter().enumerate();
        let mut fitting = fitting.filter(|(_, member)| member.key.starts_with(begun));
        let required = fitting.clone().find(|(_, member)| member.is_required);
        let only = || {
            fitting
                .next()
                .filter(|_| fitting.next().is_none() && self.is_closed)
        };
        required.or_else(only).map(|(at, _)| at)
    }
}

impl<'a> Shapes<'a> {
    /// Reads a schema. `None` if it is not a JSON object.
    pub(in crate::carve) fn read(schema: &'a str, subset: SchemaSubset) -> Option<Self> {
        let root = Raw::valid(schema).filter(|root| root.kind() == ValueKind::Object)?;
        let is_upper = |name: Cow<'_, str>| name.chars().all(|c| c.is_ascii_uppercase());
        let name = root.member("type").and_then(|name| name.decode());
        Some(Self {
            root,
            subset,
            is_upper_case: name.is_some_and(is_upper),
            uses_definitions: Cell::new(false),
            has_refused_cycle: subset == SchemaSubset::Plain && has_cycle(root),
        })
    }

    pub(in crate::carve) fn root(&self) -> Shape<'a> {
        self.root
    }

    /// Returns the shape of the child that a container has open, or that is due in it.
    pub(in crate::carve) fn child(
        &self,
        container: Option<Shape<'a>>,
        frame: &Frame,
        text: &str,
    ) -> Option<Shape<'a>> {
        let shape = container?;
        match frame.kind {
            Kind::Array => self.element(shape, frame.count as u64),
            Kind::Object => {
                let key = read_key(frame.key.of(text));
                let named = shape.member("properties");
                named
                    .and_then(|named| named.member(&key))
                    .or_else(|| self.others(shape))
            }
        }
    }

    /// Returns the shape with the keywords of an open container that has these keys. `None` if it
    /// has none, or if several fit.
    pub(in crate::carve) fn container(
        &self,
        shape: Shape<'a>,
        kind: Kind,
        keys: &[String],
    ) -> Option<Shape<'a>> {
        self.resolved(shape, &|shape| {
            let is_legal = || {
                let named: HashSet<_> = names(shape).collect();
                keys.iter().all(|key| named.contains(key.as_str()))
            };
            self.has_type(shape, kind.as_str()) && (!self.is_closed(shape) || is_legal())
        })
    }

    /// Returns whether a schema allows integers, and no other numbers.
    pub(in crate::carve) fn is_integer(&self, shape: Shape<'a>) -> bool {
        let alternatives = self.alternatives(shape).unwrap_or_default();
        let allows = |name| alternatives.iter().any(|shape| self.has_type(*shape, name));
        allows("integer") && !allows("number")
    }

    /// Returns whether a schema names a type.
    pub(in crate::carve) fn has_type(&self, shape: Shape<'a>, name: &str) -> bool {
        let Some(types) = shape.member("type") else {
            return match name {
                "object" => shape.member("properties").is_some(),
                "array" => shape.member("items").is_some(),
                _ => false,
            };
        };
        let is = |one: Raw<'_>| {
            one.decode()
                .is_some_and(|one| one.eq_ignore_ascii_case(name))
        };
        is(types) || types.elements().any(is)
    }

    /// Returns the values that the schema lists for a value of one of these types.
    pub(super) fn listed(&self, shape: Shape<'a>, types: &[&str]) -> Option<Vec<Raw<'a>>> {
        let is_of = |shape| types.iter().any(|name| self.has_type(shape, name));
        listed(self.resolved(shape, &|shape| listed(shape).is_some() || is_of(shape))?)
    }

    /// Returns the members that an object may have besides those with these keys.
    pub(in crate::carve) fn members(&self, shape: Shape<'a>, present: &[String]) -> DueMembers<'a> {
        let required = required(shape);
        let present: HashSet<_> = present.iter().map(String::as_str).collect();
        let named = shape.member("properties");
        let named = named.into_iter().flat_map(|named| named.members());
        let due = named.filter_map(|(key, shape)| {
            let key = key.decode()?;
            let is_required = required.contains(&key);
            (!present.contains(&*key)).then_some(DueMember {
                key,
                shape,
                is_required,
            })
        });
        let is_named = |key: &Cow<'_, str>| {
            let named = shape.member("properties");
            named.is_some_and(|named| named.member(key).is_some())
        };
        DueMembers {
            members: due.collect(),
            others: self.others(shape),
            is_closed: self.is_closed(shape) && required.iter().all(is_named),
        }
    }

    /// Returns the elements that may follow the first `count`.
    pub(in crate::carve) fn elements(&self, shape: Shape<'a>, count: u64) -> Elements<'a> {
        let limit = |keys: [&str; 2]| {
            let value = keys.iter().find_map(|key| shape.member(key))?;
            // Gemini's schemas have counts as strings.
            value.as_u64().or_else(|| value.inner()?.parse().ok())
        };
        let least = limit(["minItems", "min_items"]).unwrap_or(0);
        let most = limit(["maxItems", "max_items"]);
        // The first elements have shapes of their own, so those that follow have several.
        let is_uniform = shape.member("prefixItems").is_none();
        Elements {
            shape: self.element(shape, count).filter(|_| is_uniform),
            least: least.saturating_sub(count),
            most: most.map(|most| most.saturating_sub(count)),
        }
    }

    /// Writes the schema of a type, with more members, `,"key":value`.
    pub(in crate::carve) fn typed(&self, name: &str, members: &str) -> String {
        let name = match self.is_upper_case {
            true => name.to_ascii_uppercase(),
            false => name.to_owned(),
        };
        format!(r#"{{"type":"{name}"{members}}}"#)
    }

    /// Writes the schema of an object: first `delivered`, quoted keys with their schemas, then the
    /// members that are due. `None` if a member's schema has no copy.
    pub(super) fn rest_of_object(
        &self,
        delivered: Vec<(String, String)>,
        due: &DueMembers<'a>,
    ) -> Option<String> {
        let mut required: Vec<_> = delivered.iter().map(|(key, _)| key.clone()).collect();
        let mut properties = delivered;
        let is_strict = self.subset == SchemaSubset::Strict;
        if is_strict && !(due.is_closed && due.members.iter().all(|member| member.is_required)) {
            return None;
        }
        for member in &due.members {
            let key = quoted(&member.key);
            required.extend(member.is_required.then(|| key.clone()));
            properties.push((key, self.copy(member.shape)?));
        }
        let others = match (due.is_closed, due.others) {
            (true, _) => "false".to_owned(),
            (false, Some(others)) if self.subset == SchemaSubset::Full => self.copy(others)?,
            (false, _) => return None,
        };
        Some(self.object(&properties, &required, &others))
    }

    /// Returns whether the provider enforces simple patterns.
    pub(super) fn enforces_patterns(&self) -> bool {
        self.subset != SchemaSubset::Plain
    }

    /// Writes the schema of a string: one of these, each a JSON string, or any if there are none.
    pub(super) fn string(&self, choices: &[String]) -> String {
        // Gemini refuses an empty string in a list.
        let is_listed = !choices.is_empty() && choices.iter().all(|choice| choice != "\"\"");
        match is_listed {
            true => self.typed("string", &format!(r#","enum":[{}]"#, choices.join(","))),
            false => self.typed("string", ""),
        }
    }

    /// Writes the schema of a member's delivered value: exactly this one. `None` if the provider may
    /// not take it in a list.
    pub(in crate::carve) fn only(&self, value: &str) -> Option<String> {
        // A provider may write larger integers, and numbers in other forms, differently.
        const DIGITS: usize = 15;
        let is_integer = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
        let name = match value.as_bytes().first()? {
            // Gemini refuses an empty string in a list, OpenAI and Ollama one with escapes.
            b'"' if value.len() > 2 && !value.contains('\\') => "string",
            // Gemini's `responseSchema` lists strings only.
            _ if self.is_upper_case => return None,
            b't' | b'f' => "boolean",
            b'0'..=b'9' if value.len() <= DIGITS && is_integer(value) => "number",
            _ => return None,
        };
        Some(self.typed(name, &format!(r#","enum":[{value}]"#)))
    }

    /// Writes the schema of an array of these elements. `None` if their shape has no copy.
    pub(in crate::carve) fn rest_of_array(&self, due: &Elements<'a>) -> Option<String> {
        let Elements { shape, least, most } = *due;
        let items = self.copy(shape?)?;
        let mut members = format!(r#","items":{items}"#);
        // Anthropic takes no other counts than these.
        let least = if self.subset == SchemaSubset::Plain {
            least.min(1)
        } else {
            least
        };
        if least > 0 {
            members.push_str(&format!(r#","minItems":{least}"#));
        }
        if let Some(most) = most.filter(|_| self.subset != SchemaSubset::Plain) {
            members.push_str(&format!(r#","maxItems":{most}"#));
        }
        Some(self.typed("array", &members))
    }

    /// Writes the schema of the answer: an object with exactly these members, and the definitions
    /// that they refer to.
    /// `None` if these can't be copied.
    pub(in crate::carve) fn object_of(&self, members: &[(String, String)]) -> Option<String> {
        let quoted = members
            .iter()
            .map(|(name, shape)| (quoted(name), shape.clone()));
        let properties: Vec<_> = quoted.collect();
        let required: Vec<_> = properties.iter().map(|(name, _)| name.clone()).collect();
        let object = self.object(&properties, &required, "false");
        let mut object = object.strip_suffix('}')?.to_owned();
        for key in DEFINITIONS
            .into_iter()
            .filter(|_| self.uses_definitions.get())
        {
            let Some(definitions) = self.root.member(key) else {
                continue;
            };
            let copies = definitions
                .members()
                .map(|(name, shape)| Some(format!("{}:{}", name.as_str(), self.copy(shape)?)));
            let copies = copies.collect::<Option<Vec<_>>>()?.join(",");
            object.push_str(&format!(r#","{key}":{{{copies}}}"#));
        }
        Some(object + "}")
    }

    /// Writes the schema of an object; `properties`: quoted keys and their schemas.
    fn object(&self, properties: &[(String, String)], required: &[String], others: &str) -> String {
        let written = properties
            .iter()
            .map(|(key, shape)| format!("{key}:{shape}"));
        let written: Vec<_> = written.collect();
        let mut members = format!(r#","properties":{{{}}}"#, written.join(","));
        // Gemini refuses an empty list.
        if !required.is_empty() {
            members.push_str(&format!(r#","required":[{}]"#, required.join(",")));
        }
        // Schemas with names in upper case have no such keyword. A model
        // writes their members in alphabetical order, unless they name another one.
        match self.is_upper_case {
            true => {
                let keys: Vec<_> = properties.iter().map(|(key, _)| key.as_str()).collect();
                members.push_str(&format!(r#","propertyOrdering":[{}]"#, keys.join(",")));
            }
            false => members.push_str(&format!(r#","additionalProperties":{others}"#)),
        }
        self.typed("object", &members)
    }

    /// Copies the keywords of a schema that the provider enforces. Its objects are closed, which
    /// providers demand of every object. `None` if it refers to more than definitions, or an object
    /// in it can't be closed.
    pub(in crate::carve) fn copy(&self, shape: Shape<'a>) -> Option<String> {
        let text = shape.as_str();
        let root = Raw::root(text).filter(|root| root.kind() == ValueKind::Object)?;
        let mut edits = Edits::default();
        let mut unread = vec![root];
        while let Some(shape) = unread.pop() {
            if let Some(target) = shape.member("$ref").and_then(|target| target.decode()) {
                let is_definition = |key: &str| target.starts_with(&format!("#/{key}/"));
                DEFINITIONS.into_iter().find(|key| is_definition(key))?;
                if self.has_refused_cycle {
                    return None;
                }
                self.uses_definitions.set(true);
            }
            let is_open = shape.member(OTHERS).is_none() && shape.member("properties").is_some();
            let closes = is_open && !self.is_upper_case;
            let set: &[_] = if closes { &[(OTHERS, "false")] } else { &[] };
            let remove: &[_] = match self.subset {
                SchemaSubset::Plain => &LIMITS,
                SchemaSubset::Strict => &["default"],
                SchemaSubset::Full => &[],
            };
            edits.object(shape, remove, set);
            if !self.is_enforced(shape) {
                return None;
            }
            unread.extend(parts(shape));
        }
        Some(edits.apply(text))
    }

    /// Returns whether the provider enforces the members of an object.
    fn is_enforced(&self, shape: Shape<'_>) -> bool {
        let others = shape.member(OTHERS);
        let is_closed = others.is_none_or(|others| others.as_bool() == Some(false));
        let required = required(shape);
        match self.subset {
            SchemaSubset::Full => true,
            SchemaSubset::Plain => is_closed,
            SchemaSubset::Strict => {
                is_closed
                    && names(shape).all(|key| required.contains(&key))
                    && NOT_STRICT.iter().all(|key| shape.member(key).is_none())
            }
        }
    }

    /// Returns the shape of an element.
    pub(in crate::carve) fn element(&self, shape: Shape<'a>, index: u64) -> Option<Shape<'a>> {
        let mut first = shape.member("prefixItems").into_iter();
        let mut first = first.by_ref().flat_map(|first| first.elements());
        match first.nth(usize::try_from(index).ok()?) {
            Some(shape) => Some(shape),
            // The elements after the cut have several shapes.
            None if shape.member("prefixItems").is_some() => None,
            None => shape
                .member("items")
                .filter(|items| items.kind() == ValueKind::Object),
        }
    }

    /// Returns the shape of the members that a schema does not name.
    fn others(&self, shape: Shape<'a>) -> Option<Shape<'a>> {
        shape
            .member(OTHERS)
            .filter(|others| others.members().next().is_some())
    }

    /// Returns whether an object has only the members that its schema names. One that names some
    /// and is silent about others counts as closed: the provider would demand it.
    fn is_closed(&self, shape: Shape<'a>) -> bool {
        let is_named = shape.member("properties").is_some();
        match shape.member(OTHERS) {
            _ if shape.member("patternProperties").is_some() => false,
            Some(others) => others.as_bool() == Some(false),
            None => is_named,
        }
    }

    /// Follows references and alternatives to the one schema that `fits`.
    fn resolved(&self, shape: Shape<'a>, fits: &dyn Fn(Shape<'a>) -> bool) -> Option<Shape<'a>> {
        let mut fitting = self
            .alternatives(shape)?
            .into_iter()
            .filter(|&shape| fits(shape));
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// Returns the alternatives of a schema, whose references are resolved. `None` if there are too
    /// many, or if a value must fit several at once.
    pub(in crate::carve) fn alternatives(&self, shape: Shape<'a>) -> Option<Vec<Shape<'a>>> {
        let mut found = Vec::new();
        let mut unread = vec![shape];
        let mut read = HashSet::new();
        while let Some(shape) = unread.pop() {
            // A circle of references is legal text.
            if !read.insert(shape.offset()) {
                continue;
            }
            if read.len() > MOST_ALTERNATIVES {
                return None;
            }
            if let Some(target) = shape.member("$ref").and_then(|target| target.decode()) {
                unread.push(self.target(&target)?);
                continue;
            }
            // Keywords beside alternatives, and several schemas at once, are not merged.
            let several = shape
                .member("allOf")
                .filter(|all| all.elements().count() > 1);
            let alternatives = ["anyOf", "oneOf", "allOf"].map(|key| shape.member(key));
            let has_both =
                shape.member("properties").is_some() && alternatives.iter().any(Option::is_some);
            if several.is_some() || has_both {
                return None;
            }
            let alternatives = alternatives.into_iter().flatten();
            let alternatives: Vec<_> = alternatives.flat_map(|list| list.elements()).collect();
            match alternatives.is_empty() {
                true => found.push(shape),
                // The last one is read first.
                false => unread.extend(alternatives.into_iter().rev()),
            }
        }
        Some(found)
    }

    /// Returns the schema that a reference names.
    fn target(&self, reference: &str) -> Option<Shape<'a>> {
        let steps = reference.strip_prefix('#')?.split('/').skip(1);
        steps.into_iter().try_fold(self.root, |schema, step| {
            let key = PathSegment::read_key(step);
            let index = PathSegment::read_index(step);
            let element = || schema.elements().nth(index?);
            schema.member(&key).or_else(element)
        })
    }
}

/// The members of a schema that have its definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

const OTHERS: &str = "additionalProperties";

/// The keywords that Anthropic does not take:
/// <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>.
const LIMITS: [&str; 10] = [
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "uniqueItems",
];

/// The keywords that OpenAI does not take in a strict schema:
/// <https://platform.openai.com/docs/guides/structured-outputs>. Its refusals name `oneOf`, too.
const NOT_STRICT: [&str; 9] = [
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
];

/// Returns whether a schema has no more levels and properties than OpenAI takes:
/// <https://platform.openai.com/docs/guides/structured-outputs>.
pub(super) fn is_within_limits(schema: &str) -> bool {
    const LEVELS: usize = 10;
    const PROPERTIES: usize = 5000;
    let mut unread: Vec<_> = Raw::root(schema)
        .map(|root| (root, 0))
        .into_iter()
        .collect();
    let mut properties = 0;
    while let Some((shape, outer)) = unread.pop() {
        let named = names(shape).count();
        // Only objects and arrays are levels.
        let is_level = named > 0 || shape.member("items").is_some();
        let level = outer + usize::from(is_level);
        properties += named;
        if level > LEVELS || properties > PROPERTIES {
            return false;
        }
        unread.extend(parts(shape).map(|part| (part, level)));
    }
    true
}

/// Returns the values that a shape lists; `None` if it lists none.
pub(in crate::carve) fn listed(shape: Shape<'_>) -> Option<Vec<Raw<'_>>> {
    let constant = shape.member("const").map(|value| vec![value]);
    constant.or_else(|| Some(shape.member("enum")?.elements().collect()))
}

/// Returns the schemas that a schema has directly.
fn parts<'a>(shape: Shape<'a>) -> impl Iterator<Item = Shape<'a>> {
    let maps = ["properties", "$defs", "definitions", "patternProperties"];
    let maps = maps.into_iter().filter_map(move |key| shape.member(key));
    let maps = maps.flat_map(|map| map.members()).map(|(_, shape)| shape);
    let single = ["items", OTHERS]
        .into_iter()
        .filter_map(move |key| shape.member(key));
    let lists = ["anyOf", "oneOf", "allOf", "prefixItems"];
    let lists = lists.into_iter().filter_map(move |key| shape.member(key));
    let lists = lists.flat_map(|list| list.elements());
    let parts = maps.chain(single).chain(lists);
    parts.filter(|shape| shape.kind() == ValueKind::Object)
}

/// Returns whether a definition of a schema refers to itself, perhaps through others. References to
/// parts of a definition are not followed.
fn has_cycle(root: Shape<'_>) -> bool {
    let mut left = Vec::new();
    for key in DEFINITIONS {
        let named = root.member(key).into_iter();
        for (name, shape) in named.flat_map(|named| named.members()) {
            let name = format!("#/{key}/{}", name.inner().unwrap_or_default());
            left.push((name, references(shape)));
        }
    }
    if left.len() > MOST_DEFINITIONS {
        return true;
    }
    // A definition is in no cycle if it refers to none of those that are left.
    loop {
        let names: HashSet<_> = left.iter().map(|(name, _)| name.clone()).collect();
        left.retain(|(_, targets)| targets.iter().any(|target| names.contains(target)));
        if left.len() == names.len() {
            return !left.is_empty();
        }
    }
}

/// Returns the references in a schema.
fn references(shape: Shape<'_>) -> Vec<String> {
    let mut unread = vec![shape];
    let mut found = Vec::new();
    while let Some(shape) = unread.pop() {
        let target = shape.member("$ref").and_then(|target| target.decode());
        found.extend(target.map(Cow::into_owned));
        unread.extend(parts(shape));
    }
    found
}

/// Returns the keys that a schema names.
fn names<'a>(shape: Shape<'a>) -> impl Iterator<Item = Cow<'a, str>> {
    let named = shape.member("properties").into_iter();
    let named = named.flat_map(|named| named.members());
    named.filter_map(|(key, _)| key.decode())
}

/// Returns the keys of the members that a schema requires.
fn required<'a>(shape: Shape<'a>) -> HashSet<Cow<'a, str>> {
    let required = shape.member("required").into_iter();
    let required = required.flat_map(|list| list.elements());
    required.filter_map(|key| key.decode()).collect()
}

// Chosen: handwritten schemas, and those of types, have some tens. The search is quadratic.
/// The most definitions among which cycles are looked for. More are taken to have one.
const MOST_DEFINITIONS: usize = 200;

// Unions have some ten alternatives.
/// The references and alternatives that are followed from one schema.
const MOST_ALTERNATIVES: usize = 100;
