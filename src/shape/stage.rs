//! The shapes of values: the stages of a pipeline that writes articles, as data, and the shapes
//! that a user adds.

use serde::Deserialize;

use crate::json::walk::{Raw, ValueKind};

/// A shape: the keys and the type of a value, and the changes that give a value this shape.
///
/// ```
/// use restitch::shape::{Expect, RootKind, Shape, parse};
///
/// let mut reviews = Shape::new("reviews", RootKind::Array);
/// reviews.required = vec!["score".to_owned()];
/// reviews.unwrap = vec!["reviews".to_owned()];
/// reviews.wrap = true;
/// let parsed = parse(r#"{"reviews": {"score": 3}, "model": "m"}"#, &Expect::shape(reviews))?;
/// assert_eq!((&*parsed.json, parsed.dropped[0].path.as_str()), (r#"[{"score": 3}]"#, "/model"));
/// # Ok::<(), restitch::shape::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Shape {
    /// The name in reports and options. A file of shapes has it as the key of the shape.
    #[serde(skip)]
    pub name: String,
    /// The type of the value.
    pub root: RootKind,
    /// Keys that the object, or each element of the array, must have.
    pub required: Vec<String>,
    /// The object, or each element of the array, must have at least one of these keys, if there are
    /// any.
    pub any_of: Vec<String>,
    /// Members that are taken out of an object of another shape, in order: the value of the first
    /// member that exists becomes the value, and the others are reported as dropped.
    pub unwrap: Vec<String>,
    /// Whether a single object becomes an array with one element.
    pub wrap: bool,
    /// Further keys at any depth. A key of the shape that the model wrote with backslashes
    /// (`prompt\_text`) is renamed.
    pub keys: Vec<String>,
}

/// The type of a shape's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RootKind {
    /// Any JSON value.
    #[default]
    Any,
    /// An object.
    Object,
    /// An array.
    Array,
    /// Text that is not JSON, for example HTML. Its report has a JSON string.
    Text,
}

impl RootKind {
    /// Returns the name in a file of shapes: `any`, `object`, `array`, `text`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Object => "object",
            Self::Array => "array",
            Self::Text => "text",
        }
    }
}

impl Shape {
    /// Creates a shape without keys.
    pub fn new(name: impl Into<String>, root: RootKind) -> Self {
        Self {
            name: name.into(),
            root,
            ..Self::default()
        }
    }

    /// Returns a built-in stage by its name; `-` counts as `_`.
    pub fn stage(name: &str) -> Option<Self> {
        let name = name.replace('-', "_");
        Self::stages().into_iter().find(|stage| stage.name == name)
    }

    /// Returns the built-in stages, in the order in which a value is compared with them.
    pub fn stages() -> Vec<Self> {
        STAGES
            .iter()
            .map(|stage| {
                let list = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
                Self {
                    name: stage.name.to_owned(),
                    root: stage.root,
                    required: list(stage.required),
                    any_of: list(stage.any_of),
                    unwrap: list(stage.unwrap),
                    wrap: stage.root == RootKind::Array,
                    keys: list(stage.keys),
                }
            })
            .collect()
    }

    pub(super) fn is_stage(&self) -> bool {
        STAGES.iter().any(|stage| stage.name == self.name)
    }

    /// Returns whether an object has the keys of the shape, and the shape has some.
    pub(super) fn has_keys(&self, object: Raw<'_>) -> bool {
        let has = |key: &String| member(object, key).is_some();
        let is_described = !self.required.is_empty() || !self.any_of.is_empty();
        is_described
            && self.required.iter().all(has)
            && (self.any_of.is_empty() || self.any_of.iter().any(has))
    }

    /// Returns whether a value is an object with the keys of the shape, or an array whose first
    /// element is.
    pub(super) fn is_shape_of(&self, value: Raw<'_>) -> bool {
        match self.root {
            RootKind::Object => self.has_keys(value),
            RootKind::Array => value
                .elements()
                .next()
                .is_some_and(|element| self.has_keys(element)),
            RootKind::Any | RootKind::Text => false,
        }
    }

    /// Returns whether the shape has a key anywhere.
    pub(super) fn knows(&self, key: &str) -> bool {
        [&self.required, &self.any_of, &self.unwrap, &self.keys]
            .into_iter()
            .flatten()
            .any(|known| known == key)
    }

    /// Returns the message for a value that does not have the shape's type. `None` if it has.
    pub(super) fn mismatch(&self, value: Raw<'_>) -> Option<String> {
        let kind = match value.kind() {
            ValueKind::Object => "an object",
            ValueKind::Array => "an array",
            ValueKind::String => "a string",
            ValueKind::Number => "a number",
            ValueKind::Bool => "true or false",
            ValueKind::Null => "null",
        };
        let expected = match self.root {
            RootKind::Object if value.kind() != ValueKind::Object => "an object",
            RootKind::Array if value.kind() != ValueKind::Array => "an array",
            RootKind::Object => {
                let missing = self
                    .required
                    .iter()
                    .find(|key| member(value, key).is_none());
                return missing.map(|key| format!("`{}`: the key `{key}` is missing", self.name));
            }
            _ => return None,
        };
        Some(format!(
            "`{}`: {expected} is expected, not {kind}",
            self.name
        ))
    }
}

/// Returns the value of a member; a key that the model wrote with backslashes before `_` counts,
/// too.
pub(super) fn member<'a>(object: Raw<'a>, key: &str) -> Option<Raw<'a>> {
    object.member(key).or_else(|| {
        let is_it = |name: Raw<'_>| {
            unescaped(&name.decode().unwrap_or_default()).is_some_and(|name| name == key)
        };
        object
            .members()
            .filter(|(name, _)| is_it(*name))
            .last()
            .map(|(_, value)| value)
    })
}

/// Returns a key without backslashes before `_`; `None` if it has none.
pub(super) fn unescaped(key: &str) -> Option<String> {
    key.contains("\\_").then(|| key.replace("\\_", "_"))
}

struct KnownStage {
    name: &'static str,
    root: RootKind,
    required: &'static [&'static str],
    any_of: &'static [&'static str],
    unwrap: &'static [&'static str],
    keys: &'static [&'static str],
}

/// The stages, in the order in which a value is compared with them: objects before the wrappings of
/// others.
const STAGES: [KnownStage; 5] = [
    KnownStage {
        name: "ultimate_structure",
        root: RootKind::Object,
        required: &["article_structure", "writing_guidelines"],
        any_of: &[],
        unwrap: &["data"],
        keys: &[
            "section_title",
            "section_order",
            "section_description",
            "content_requirements",
            "estimated_length",
            "evidence_pack",
            "target_audience",
            "tone_and_style",
            "key_messaging",
            "call_to_action",
        ],
    },
    KnownStage {
        name: "editorial_review",
        root: RootKind::Object,
        required: &["content"],
        any_of: &["title", "excerpt", "slug"],
        unwrap: &["data"],
        keys: &[],
    },
    KnownStage {
        name: "extract_prompts",
        root: RootKind::Array,
        required: &[],
        any_of: &["section_title", "prompt_text"],
        unwrap: &["data"],
        keys: &[
            "section_order",
            "content_requirements",
            "evidence_pack",
            "expert_description",
            "why_good",
            "how_to_improve",
        ],
    },
    KnownStage {
        name: "link_processing",
        root: RootKind::Array,
        required: &["anchor_text"],
        any_of: &[],
        unwrap: &["link_plan"],
        keys: &["ref_id", "context_before", "context_after"],
    },
    KnownStage {
        name: "fact_check",
        root: RootKind::Text,
        required: &[],
        any_of: &[],
        unwrap: &[],
        keys: &[],
    },
];
