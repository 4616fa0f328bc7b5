//! The rules of a schema: a graph without recursion over the schema's text.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::json::{Kind, Scalar};

/// The rules of a schema. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct SchemaRules(Arc<[Rule]>);

/// The index of a rule in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuleId(usize);

impl RuleId {
    /// The rule of the root.
    pub(super) const ROOT: Self = Self(0);
}

/// What one value needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    /// The types that are legal; `None`: all are.
    types: Option<TypeSet>,
    /// The values that are legal; `None`: all are.
    pub(super) choices: Option<Choices>,
    /// The least number of an array's elements.
    pub(super) min_items: u64,
    /// The members that are named, by their keys.
    members: BTreeMap<String, Member>,
    /// How many of them an object must have.
    pub(super) required: usize,
    /// The rule of the members that are not named.
    other_members: Option<RuleId>,
    /// The rules of the first elements of an array.
    first_items: Vec<Option<RuleId>>,
    /// The rule of the elements after them.
    items: Option<RuleId>,
}

/// A member that a schema names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Member {
    /// The rule of its value; `None`: every value is legal.
    pub(super) rule: Option<RuleId>,
    /// Its place among the required members, if it is one.
    pub(super) required: Option<usize>,
}

impl SchemaRules {
    /// Reads a schema. `None` if the text is not a JSON object. References to other documents are
    /// not followed.
    pub(crate) fn read(schema: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(schema).ok()?;
        document.is_object().then(|| {
            let mut reader = RuleReader {
                document: &document,
                rules: Vec::new(),
                known: HashMap::new(),
                unread: Vec::new(),
            };
            // Where nothing of the root is judged, a rule is missing, and so is every other.
            reader.name(&document);
            while let Some((id, schema, is_nullable)) = reader.unread.pop() {
                let rule = reader.rule(schema, is_nullable);
                if let Some(slot) = reader.rules.get_mut(id.0) {
                    *slot = rule;
                }
            }
            Self(reader.rules.into())
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, id: RuleId) -> Option<&Rule> {
        self.0.get(id.0)
    }
}

impl Rule {
    pub(super) fn allows(&self, found: ValueType) -> bool {
        self.types.is_none_or(|types| types.has(found))
    }

    /// Returns what the schema says of a member.
    pub(super) fn member(&self, key: &str) -> Member {
        self.members.get(key).copied().unwrap_or(Member {
            rule: self.other_members,
            required: None,
        })
    }

    /// Returns the keys of the required members that an object lacks, in the schema's order.
    pub(super) fn absent(&self, has: &[bool]) -> Vec<String> {
        let mut absent: Vec<_> = self
            .members
            .iter()
            .filter_map(|(key, member)| Some((member.required?, key)))
            .filter(|(at, _)| has.get(*at) == Some(&false))
            .collect();
        absent.sort_unstable();
        absent.into_iter().map(|(_, key)| key.clone()).collect()
    }

    /// Returns the rule of an element.
    pub(super) fn of_element(&self, index: usize) -> Option<RuleId> {
        match self.first_items.get(index) {
            Some(rule) => *rule,
            None => self.items,
        }
    }
}

/// The type of a value. A number with a fraction is an integer here, too: `2.0` is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    Object,
    Array,
    String,
    Number,
    Boolean,
    Null,
}

impl From<Kind> for ValueType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Object => Self::Object,
            Kind::Array => Self::Array,
        }
    }
}

impl From<Scalar> for ValueType {
    fn from(kind: Scalar) -> Self {
        match kind {
            Scalar::Number => Self::Number,
            Scalar::True | Scalar::False => Self::Boolean,
            Scalar::Null => Self::Null,
        }
    }
}

impl ValueType {
    /// Reads a type's name. Gemini's schemas have names in upper case.
    fn of_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "number" | "integer" => Self::Number,
            "boolean" => Self::Boolean,
            "null" => Self::Null,
            _ => return None,
        })
    }
}

/// A set of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TypeSet(u8);

impl TypeSet {
    fn has(self, one: ValueType) -> bool {
        self.0 & (1 << one as u8) != 0
    }

    fn with(self, one: ValueType) -> Self {
        Self(self.0 | 1 << one as u8)
    }

    /// Reads a `type`. `None` if a name in it is unknown.
    fn read(types: &Value) -> Option<Self> {
        let one = |name: &Value| ValueType::of_name(name.as_str()?);
        match types {
            Value::Array(names) => names
                .iter()
                .try_fold(Self(0), |set, name| Some(set.with(one(name)?))),
            name => Some(Self(0).with(one(name)?)),
        }
    }
}

/// The values of an `enum` without containers.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    strings: Vec<String>,
    scalars: Vec<Value>,
}

impl Choices {
    /// `None` if a value is a container: containers are not compared.
    fn read(values: &[Value]) -> Option<Self> {
        let mut choices = Self::default();
        for value in values {
            match value {
                Value::String(text) => choices.strings.push(text.clone()),
                Value::Array(_) | Value::Object(_) => return None,
                scalar => choices.scalars.push(scalar.clone()),
            }
        }
        Some(choices)
    }

    fn or_null(mut self, is_nullable: bool) -> Self {
        self.scalars.extend(is_nullable.then_some(Value::Null));
        self
    }

    pub(super) fn has_string(&self, text: &str) -> bool {
        self.strings.iter().any(|choice| choice == text)
    }

    /// Returns the bytes of the longest string. A longer text equals no choice.
    pub(super) fn longest(&self) -> usize {
        self.strings.iter().map(String::len).max().unwrap_or(0)
    }

    /// Returns whether a number or literal is one of the values. Numbers are compared by value.
    pub(super) fn has_scalar(&self, text: &str) -> bool {
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            // A number that is too large for the comparison is not judged.
            return true;
        };
        let is_equal = |choice: &Value| {
            let (a, b) = (choice.as_f64(), value.as_f64());
            choice == &value || a.is_some() && a == b
        };
        self.scalars.iter().any(is_equal)
    }
}

/// Reads the rules of a schema, one after the other: `unread` has those that were named.
struct RuleReader<'a> {
    document: &'a Value,
    rules: Vec<Rule>,
    /// The rule of each schema that was read or is to be: by its address, and whether `null` is legal
    /// beside it. So a schema has one rule however often it is referred to.
    known: HashMap<(usize, bool), RuleId>,
    unread: Vec<(RuleId, &'a Map<String, Value>, bool)>,
}

impl<'a> RuleReader<'a> {
    /// Names the rule of a schema. `None`: everything is legal.
    fn name(&mut self, schema: &'a Value) -> Option<RuleId> {
        let (schema, is_nullable) = self.resolved(schema)?;
        let key = (std::ptr::from_ref(schema).addr(), is_nullable);
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        if self.rules.len() >= MOST_RULES {
            return None;
        }
        let id = RuleId(self.rules.len());
        self.rules.push(Rule::default());
        self.known.insert(key, id);
        self.unread.push((id, schema, is_nullable));
        Some(id)
    }

    fn rule(&mut self, schema: &'a Map<String, Value>, is_nullable: bool) -> Rule {
        let types = schema.get("type").and_then(TypeSet::read);
        let choices = match (schema.get("const"), schema.get("enum")) {
            (Some(one), _) => Choices::read(std::slice::from_ref(one)),
            (None, Some(Value::Array(values))) => Choices::read(values),
            _ => None,
        };
        let list = |key: &str| schema.get(key).and_then(Value::as_array);
        // Members that match a pattern are not judged.
        let has_patterns = schema.contains_key("patternProperties");
        let mut members = BTreeMap::<String, Member>::new();
        let named = schema.get("properties").and_then(Value::as_object);
        for (key, member) in named.into_iter().flatten().filter(|_| !has_patterns) {
            members.entry(key.clone()).or_default().rule = self.name(member);
        }
        let mut required = 0;
        for key in list("required")
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            let place = &mut members.entry(key.to_owned()).or_default().required;
            if place.is_none() {
                *place = Some(required);
                required += 1;
            }
        }
        let other_members = schema
            .get("additionalProperties")
            .filter(|_| !has_patterns)
            .and_then(|other| self.name(other));
        // A member that is only required has the schema of the other members.
        let is_named = |key: &str| named.is_some_and(|named| named.contains_key(key));
        for (_, member) in members.iter_mut().filter(|(key, _)| !is_named(key)) {
            member.rule = other_members;
        }
        // Before the draft of 2020 the first elements were an array under `items`.
        let first_items = list("prefixItems").or(list("items"));
        let first_items = first_items.into_iter().flatten();
        let first_items = first_items.map(|item| self.name(item)).collect();
        let min_items = ["minItems", "min_items"]
            .iter()
            .find_map(|key| count(schema.get(*key)?));
        let null = is_nullable.then_some(ValueType::Null);
        Rule {
            types: types.map(|types| null.into_iter().fold(types, TypeSet::with)),
            choices: choices.map(|choices| choices.or_null(is_nullable)),
            min_items: min_items.unwrap_or(0),
            members,
            required,
            other_members,
            first_items,
            items: schema.get("items").and_then(|items| self.name(items)),
        }
    }

    /// Follows references, and alternatives of which one alone is not `null`. Returns the schema
    /// whose keywords count, and whether `null` is legal beside it. `None`: not judged.
    fn resolved(&self, schema: &'a Value) -> Option<(&'a Map<String, Value>, bool)> {
        let mut schema = schema.as_object()?;
        let mut is_nullable = false;
        for _ in 0..MOST_HOPS {
            is_nullable |= schema.get("nullable").and_then(Value::as_bool) == Some(true);
            let target = if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
                self.document.pointer(reference.strip_prefix('#')?)?
            } else if let Some(alternatives) =
                ["anyOf", "oneOf"].iter().find_map(|key| schema.get(*key))
            {
                let alternatives = alternatives.as_array()?;
                let mut others = alternatives.iter().filter(|schema| !is_null(schema));
                let (only, more) = (others.next()?, others.next());
                if more.is_some() {
                    return None;
                }
                is_nullable |= alternatives.len() > 1;
                only
            } else if let Some(all) = schema.get("allOf") {
                match all.as_array()?.as_slice() {
                    [only] => only,
                    _ => return None,
                }
            } else {
                return Some((schema, is_nullable));
            };
            schema = target.as_object()?;
        }
        None
    }
}

/// Returns whether a schema allows `null` only.
fn is_null(schema: &Value) -> bool {
    let types = schema.get("type").and_then(TypeSet::read);
    types == Some(TypeSet(0).with(ValueType::Null))
}

/// Reads a count. Gemini's schemas have them as strings.
fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

// A request's schema has some hundred; OpenAI allows 5,000 properties
// (platform.openai.com/docs/guides/structured-outputs).
/// The rules of one schema. Schemas beyond this number are not judged.
const MOST_RULES: usize = 20_000;

// A reference to a reference is rare; a circle of them is legal text.
/// The references and alternatives that are followed from one schema.
const MOST_HOPS: usize = 16;
