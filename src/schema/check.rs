//! A sink that compares a document with the rules of a schema.

use std::fmt;

use super::rules::{Rule, RuleId, SchemaRules, ValueType};
use crate::json::string::quoted;
use crate::json::{Event, Kind, ParserView, Scalar, Sink, Span};

/// Compares a document with its schema while it is received: finds what it lacks, and where it
/// departs from the schema.
/// Lend it to every push. Works per event; takes memory for the open containers.
#[derive(Clone, Debug)]
pub(crate) struct SchemaCheck {
    rules: SchemaRules,
    open: Vec<OpenContainer>,
    /// A string that is compared with choices.
    chosen: Option<ChosenString>,
    shortfalls: Shortfalls,
    /// The JSON Pointer of the first value of another type, or that is none of its choices.
    mismatch: Option<String>,
}

/// The beginning of a string, as far as a choice can reach.
#[derive(Clone, Debug)]
struct ChosenString {
    rule: RuleId,
    text: String,
}

/// Containers that were closed without all that is required.
#[derive(Clone, Debug, Default)]
struct Shortfalls {
    first: Option<Shortfall>,
    /// The first one whose container was open at the offset `from`.
    open_at: Option<Shortfall>,
    from: usize,
}

/// A container that was closed without all that is required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortfall {
    /// Its JSON Pointer.
    pub(crate) path: String,
    /// The offset of its opening bracket.
    start: usize,
    /// The offset of its closing bracket.
    pub(crate) end: usize,
    pub(crate) missing: Missing,
}

/// What a container lacks. Displays as the end of a sentence about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Members, by their keys. At least one.
    Members(Vec<String>),
    /// Elements.
    Elements {
        /// How many there are.
        count: u64,
        /// How many there must be.
        least: u64,
    },
}

impl Shortfall {
    /// Returns whether another document lacks the same. Offsets may differ.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.path, &self.missing) == (&other.path, &other.missing)
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.path.as_str() {
            "" => "the root".to_owned(),
            path => format!("`{path}`"),
        };
        match &self.missing {
            Missing::Members(keys) => {
                let keys: Vec<_> = keys.iter().map(|key| quoted(key)).collect();
                write!(f, "the object at {place} still lacks {}", keys.join(", "))
            }
            Missing::Elements { count, least } => write!(
                f,
                "the array at {place} has {count} of at least {least} elements"
            ),
        }
    }
}

/// A container that is open.
#[derive(Clone, Debug)]
struct OpenContainer {
    kind: Kind,
    rule: Option<RuleId>,
    /// Which of the required members it has.
    has: Vec<bool>,
    /// The rule of the member whose key came last.
    member: Option<RuleId>,
    /// The elements that have begun.
    elements: usize,
}

impl SchemaCheck {
    pub(crate) fn new(rules: SchemaRules) -> Self {
        Self {
            rules,
            open: Vec::new(),
            chosen: None,
            shortfalls: Shortfalls::default(),
            mismatch: None,
        }
    }

    /// Forgets the document: its text is pushed again.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.rules.clone());
    }

    /// A call for the rest begins at this offset; see [`new_shortfall`](Self::new_shortfall).
    pub(crate) fn begin_call(&mut self, offset: usize) {
        (self.shortfalls.from, self.shortfalls.open_at) = (offset, None);
    }

    /// Returns the first container that was closed without all that is required.
    pub(crate) fn first_shortfall(&self) -> Option<&Shortfall> {
        self.shortfalls.first.as_ref()
    }

    /// Returns the first such container that was open where the call for the rest began: the call
    /// has closed it too early.
    pub(crate) fn new_shortfall(&self) -> Option<&Shortfall> {
        self.shortfalls.open_at.as_ref()
    }

    /// Returns the JSON Pointer of the first value that departs from the schema in another way.
    pub(crate) fn mismatch(&self) -> Option<&str> {
        self.mismatch.as_deref()
    }

    fn rule(&self, id: Option<RuleId>) -> Option<&Rule> {
        self.rules.get(id?)
    }

    /// Returns the rule of a value that begins, and judges its type. `None` without a rule, and for
    /// a value of another type.
    fn begin(&mut self, found: ValueType, live: &ParserView<'_>) -> Option<RuleId> {
        let id = match self.open.last_mut() {
            None => {
                self.begin_root();
                Some(RuleId::ROOT)
            }
            Some(object) if object.kind == Kind::Object => object.member.take(),
            Some(array) => {
                let index = array.elements;
                array.elements += 1;
                let rule = array.rule.and_then(|id| self.rules.get(id));
                rule.and_then(|rule| rule.of_element(index))
            }
        };
        let is_allowed = self.rule(id).is_none_or(|rule| rule.allows(found));
        if !is_allowed {
            self.depart(live);
        }
        id.filter(|_| is_allowed)
    }

    /// Forgets the root before: only the last one is the answer.
    fn begin_root(&mut self) {
        let from = self.shortfalls.from;
        self.restart();
        self.begin_call(from);
    }

    fn depart(&mut self, live: &ParserView<'_>) {
        self.mismatch.get_or_insert_with(|| live.path().to_string());
    }

    fn open(&mut self, kind: Kind, live: &ParserView<'_>) {
        let rule = self.begin(kind.into(), live);
        let (required, is_scalar) = match self.rule(rule) {
            Some(rule) => (rule.required, rule.choices.is_some()),
            None => (0, false),
        };
        if is_scalar {
            self.depart(live);
        }
        self.open.push(OpenContainer {
            kind,
            rule,
            has: vec![false; required],
            member: None,
            elements: 0,
        });
    }

    fn key(&mut self, key: Span, live: &ParserView<'_>) {
        let Some(object) = self.open.last_mut() else {
            return;
        };
        let Some(rule) = object.rule.and_then(|id| self.rules.get(id)) else {
            return;
        };
        let member = rule.member(&live.key(key));
        if let Some(has) = member.required.and_then(|at| object.has.get_mut(at)) {
            *has = true;
        }
        object.member = member.rule;
    }

    fn close(&mut self, kind: Kind, span: Span, live: &ParserView<'_>) {
        let Some(closed) = self.open.pop() else {
            return;
        };
        let Some(rule) = self.rule(closed.rule) else {
            return;
        };
        let count = closed.elements as u64;
        let missing = match kind {
            Kind::Object if closed.has.contains(&false) => {
                Missing::Members(rule.absent(&closed.has))
            }
            Kind::Array if count < rule.min_items => Missing::Elements {
                count,
                least: rule.min_items,
            },
            _ => return,
        };
        self.shortfalls.note(Shortfall {
            path: live.path().to_string(),
            start: span.start,
            end: span.end.saturating_sub(1),
            missing,
        });
    }

    fn begin_string(&mut self, live: &ParserView<'_>) {
        let rule = self.begin(ValueType::String, live);
        let is_chosen = self.rule(rule).is_some_and(|rule| rule.choices.is_some());
        self.chosen = rule.filter(|_| is_chosen).map(|rule| ChosenString {
            rule,
            text: String::new(),
        });
    }

    fn fragment(&mut self, span: Span, live: &ParserView<'_>) {
        let Some(chosen) = &mut self.chosen else {
            return;
        };
        let choices = self.rules.get(chosen.rule);
        let longest = choices.and_then(|rule| Some(rule.choices.as_ref()?.longest()));
        // A longer text equals no choice.
        if chosen.text.len() <= longest.unwrap_or(0) {
            chosen.text.push_str(&live.decoded(span));
        }
    }

    fn end_string(&mut self, live: &ParserView<'_>) {
        let Some(chosen) = self.chosen.take() else {
            return;
        };
        let choices = self.rule(Some(chosen.rule));
        let choices = choices.and_then(|rule| rule.choices.as_ref());
        if choices.is_some_and(|choices| !choices.has_string(&chosen.text)) {
            self.depart(live);
        }
    }

    fn scalar(&mut self, kind: Scalar, span: Span, live: &ParserView<'_>) {
        let rule = self.begin(kind.into(), live);
        let choices = self.rule(rule).and_then(|rule| rule.choices.as_ref());
        if choices.is_some_and(|choices| !choices.has_scalar(span.of(live.text))) {
            self.depart(live);
        }
    }
}

impl Shortfalls {
    fn note(&mut self, found: Shortfall) {
        let was_open = found.start < self.from && self.from <= found.end;
        if was_open {
            self.open_at.get_or_insert_with(|| found.clone());
        }
        self.first.get_or_insert(found);
    }
}

impl Sink for SchemaCheck {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        match event {
            Event::Begin { kind, .. } => self.open(kind, live),
            Event::Key(key) => self.key(key, live),
            Event::End { kind, span, .. } => self.close(kind, span, live),
            Event::StringBegin(_) => self.begin_string(live),
            Event::Fragment(span) => self.fragment(span, live),
            Event::StringEnd(_) => self.end_string(live),
            Event::Scalar { kind, span } => self.scalar(kind, span, live),
            Event::Withdrawn(_) => self.open.clear(),
        }
    }
}
