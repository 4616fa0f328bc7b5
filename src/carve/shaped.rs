//! The grammar of the rests that fit the request's schema.
//!
//! Each open container has a tail of its own: the members that the object still lacks, in the
//! order of the schema, or as many elements as the array still needs. Every schema that a value may
//! have becomes a rule. The grammar leaves patterns, lengths and bounds of numbers open: an answer
//! that violates them is not refused.

use std::collections::HashMap;

use super::grammar::{Expr, Grammar, Rule, RuleName, Syntax, many, optional, text};
use super::rest::{TokenRest, grammar, string_rest};
use super::schema::open_containers::OpenContainers;
use super::schema::shapes::{DueMember, DueMembers, Elements, Shape, listed};
use crate::document::Document;
use crate::json::string::{decode, quoted};
use crate::json::walk::{Raw, ValueKind};
use crate::json::{GrammarState, Kind};
use crate::provider::capability::SchemaSubset;

use Expr::{All, Any};
use GrammarState as S;
use RuleName::{Integer, Number, Pair, String as Str, Value, White};

// Chosen: schemas of more than some hundred values are larger than a grammar may be.
/// The most rules for shapes.
const MOST_RULES: usize = 500;

// Each has a tail of its own, with all other members of the object.
/// The most keys that a cut key may become.
const MOST_KEYS: usize = 8;

// Chosen: usual schemas need some two KiB, and a request has the grammar once.
/// The most bytes of a grammar.
const MOST_BYTES: usize = 16 << 10;

/// The most elements that are counted. Where more are due or allowed, any number may follow.
// Chosen: lists whose length a request fixes are shorter, and each element costs a few bytes.
const MOST_COUNTED: u64 = 64;

/// Returns the grammar of the rests of a root that has begun. Reads the document once. `None`: no
/// open container has a shape in the schema, or the schema is too large.
pub(super) fn of_root(document: &Document, schema: &str) -> Option<Grammar> {
    let open = OpenContainers::read(document, schema, SchemaSubset::Full)?;
    let mut writer = Writer {
        open,
        rules: Vec::new(),
        names: HashMap::new(),
        unread: Vec::new(),
        named: 0,
    };
    let token = writer.token();
    let mut start = token.first;
    for depth in (0..writer.open.len()).rev().skip(usize::from(token.closes)) {
        let tail = writer.tail(depth)?;
        start.push(tail);
    }
    writer.write_values()?;
    let grammar = grammar(start, token.rest, writer.rules);
    (grammar.print(Syntax::Gbnf, "").len() <= MOST_BYTES).then_some(grammar)
}

struct Writer<'a> {
    open: OpenContainers<'a>,
    /// The rules for shapes, and those for parts of them.
    rules: Vec<Rule>,
    /// The rules for shapes, by the offsets of these.
    names: HashMap<usize, RuleName>,
    /// The shapes whose rules have no body yet.
    unread: Vec<(RuleName, Shape<'a>)>,
    /// How many rules have a name.
    named: usize,
}

impl<'a> Writer<'a> {
    /// Returns the rest of the cut token, and the structure up to the end of the innermost value,
    /// member or container.
    fn token(&mut self) -> TokenRest {
        let depth = self.open.len().saturating_sub(1);
        let state = self.open.state();
        let in_key = self.open.document.machine().in_key();
        let shaped = match state {
            S::FirstElement => self.items(depth).map(closing),
            S::FirstKey | S::Key => self.fields(depth, state == S::FirstKey).map(closing),
            S::Value => self.child().map(|value| open(vec![name(White), value])),
            S::Colon => self.child().map(|value| open(after_key(value))),
            state if state.in_string() && in_key => {
                let key = self.key(depth);
                if key.is_none() {
                    // The members that are still due depend on the key.
                    self.open.forget(depth);
                }
                key
            }
            state if state.in_string() => self.listed_string().map(|rest| open(vec![rest])),
            S::Minus | S::Zero | S::Integer | S::Point | S::Fraction => {
                let rest = self.listed_number().or_else(|| self.integer(state));
                rest.map(open)
            }
            _ => None,
        };
        shaped.unwrap_or_else(|| TokenRest::of(state, in_key, self.open.open_escape()))
    }

    /// Returns the value that is due.
    fn child(&mut self) -> Option<Expr> {
        let shape = self.open.child()?;
        Some(self.value(shape))
    }

    /// Returns the rest of a string of a list.
    fn listed_string(&self) -> Option<Expr> {
        if !self.open.open_escape().is_empty() {
            return None;
        }
        let begun = decode(self.open.begun().get(1..)?);
        let rests = self.open.rests_of_choices(&begun);
        let rests: Option<Vec<_>> = rests.iter().map(|rest| rest_of_quoted(rest)).collect();
        rests.filter(|rests| !rests.is_empty()).map(Any)
    }

    /// Returns the rest of a number of a list.
    fn listed_number(&self) -> Option<Vec<Expr>> {
        let shapes = &self.open.shapes;
        let begun = self.open.begun();
        let mut rests = Vec::new();
        for shape in shapes.alternatives(self.open.child()?)? {
            match listed(shape) {
                Some(values) => {
                    let texts = values.iter().map(Raw::as_str);
                    rests.extend(texts.filter_map(|value| value.strip_prefix(begun)));
                }
                None if shapes.has_type(shape, "number") => return None,
                None if shapes.has_type(shape, "integer") => return None,
                None => {}
            }
        }
        let may_end = rests.contains(&"");
        let rests = rests.iter().filter(|rest| !rest.is_empty());
        let rests: Vec<_> = rests.map(|&rest| text(rest.to_owned())).collect();
        match (rests.is_empty(), may_end) {
            (true, true) => Some(Vec::new()),
            (true, false) => None,
            (false, true) => Some(vec![optional(Any(rests))]),
            (false, false) => Some(vec![Any(rests)]),
        }
    }

    /// Returns the rest of an integer.
    fn integer(&self, state: GrammarState) -> Option<Vec<Expr>> {
        let shape = self.open.child()?;
        let shapes = &self.open.shapes;
        let has_list = shapes
            .alternatives(shape)?
            .into_iter()
            .any(|one| listed(one).is_some());
        if has_list || !shapes.is_integer(shape) {
            return None;
        }
        Some(match state {
            S::Minus => vec![name(Integer)],
            S::Zero => Vec::new(),
            S::Integer => vec![optional(name(RuleName::Digits))],
            // It may be 1.0.
            _ => return None,
        })
    }

    /// Returns the rest of a key and its value, and the rest of its object where that depends on
    /// the key. `None` if the schema does not tell which keys it may be.
    fn key(&mut self, depth: usize) -> Option<TokenRest> {
        let due = self.open.members(depth)?;
        let escape = self.open.open_escape();
        let begun = decode(self.open.begun().get(1..)?).into_owned();
        let is_named = |member: &DueMember<'_>| member.key.starts_with(&begun);
        if !due.is_closed
            && (due.members.is_empty() || escape.is_empty() && !due.members.iter().any(is_named))
        {
            let value = due.others.map_or(name(Value), |shape| self.value(shape));
            let mut first = vec![name(RuleName::Rest)];
            first.extend(after_key(value));
            return Some(TokenRest {
                rest: Some(string_rest(self.open.state(), escape)),
                first,
                closes: false,
            });
        }
        if !due.is_closed || !escape.is_empty() {
            return None;
        }
        if due.members.iter().filter(|member| is_named(member)).count() > MOST_KEYS {
            return None;
        }
        let mut rests = Vec::new();
        for (at, member) in due.members.iter().enumerate() {
            let Some(rest) = member.key.strip_prefix(&*begun) else {
                continue;
            };
            let mut parts = vec![rest_of_quoted(&quoted(rest))?];
            parts.extend(after_key(self.value(member.shape)));
            let others = due.members.iter().enumerate();
            let others = others
                .filter(|(other, _)| *other != at)
                .map(|(_, other)| other);
            parts.extend(self.members_tail(others, &due));
            rests.push(All(parts));
        }
        (!rests.is_empty()).then(|| closing(Any(rests)))
    }

    /// Returns the rest of an open container after a whole child.
    fn tail(&mut self, depth: usize) -> Option<Expr> {
        let kind = self.open.frame(depth)?.kind;
        let is_innermost = self.open.is_innermost(depth);
        Some(match kind {
            Kind::Object => match self.open.members(depth) {
                Some(due) => All(self.members_tail(due.members.iter(), &due)),
                None => name(RuleName::ObjectTail),
            },
            Kind::Array => match self.open.elements(depth) {
                Some(mut due) => {
                    if is_innermost && self.open.state() == S::Value {
                        due = due.after_one();
                    }
                    self.elements_tail(&due)
                }
                None => name(RuleName::ArrayTail),
            },
        })
    }

    /// Returns the rest of an object after its opening bracket, or after a comma. `None` if its
    /// shape is unknown, or if no member may follow the comma.
    fn fields(&mut self, depth: usize, is_first: bool) -> Option<Expr> {
        let due = self.open.members(depth)?;
        let fields = self.members(&due, is_first);
        (!fields.is_empty()).then(|| All(vec![name(White), Any(fields)]))
    }

    /// Returns the alternatives for the members of an object, with its closing bracket: each begins
    /// with another member.
    fn members(&mut self, due: &DueMembers<'a>, may_be_empty: bool) -> Vec<Expr> {
        let required = due.members.iter().position(|member| member.is_required);
        let mut rest = self.members_end(due);
        let mut firsts = Vec::new();
        if required.is_none() {
            firsts.extend(may_be_empty.then(|| text("}")));
            if !due.is_closed {
                let mut others = self.other_member(due);
                others.push(name(White));
                others.extend(rest.iter().cloned());
                firsts.push(All(others));
            }
        }
        // An object may begin with its first required member, or with an optional one before it.
        let last = required.unwrap_or(due.members.len());
        for (at, member) in due.members.iter().enumerate().rev() {
            if at <= last {
                if last > 0 {
                    rest = vec![self.rule(All(rest))];
                }
                let mut first = self.member(member);
                first.push(name(White));
                first.extend(rest.iter().cloned());
                firsts.push(All(first));
            }
            rest.insert(0, self.further(member));
        }
        firsts
    }

    /// Returns the rest of an object after a whole member.
    fn members_tail<'m>(
        &mut self,
        members: impl Iterator<Item = &'m DueMember<'a>>,
        due: &DueMembers<'a>,
    ) -> Vec<Expr>
    where
        'a: 'm,
    {
        let mut tail = vec![name(White)];
        tail.extend(members.map(|member| self.further(member)));
        tail.extend(self.members_end(due));
        tail
    }

    /// Returns the members that the schema does not name, and the closing bracket.
    fn members_end(&mut self, due: &DueMembers<'a>) -> Vec<Expr> {
        if due.is_closed {
            return vec![text("}")];
        }
        let other = self.other_member(due);
        vec![many(further(other)), text("}")]
    }

    fn other_member(&mut self, due: &DueMembers<'a>) -> Vec<Expr> {
        let value = due.others.map_or(name(Value), |shape| self.value(shape));
        let mut member = vec![name(Str)];
        member.extend(after_key(value));
        member
    }

    /// Returns a member after a comma.
    fn further(&mut self, member: &DueMember<'a>) -> Expr {
        let further = further(self.member(member));
        match member.is_required {
            true => further,
            false => optional(further),
        }
    }

    fn member(&mut self, member: &DueMember<'a>) -> Vec<Expr> {
        let mut parts = vec![text(quoted(&member.key))];
        parts.extend(after_key(self.value(member.shape)));
        parts
    }

    /// Returns the rest of an array after its opening bracket.
    fn items(&mut self, depth: usize) -> Option<Expr> {
        let due = self.open.elements(depth)?;
        Some(All(vec![name(White), Any(self.elements(due))]))
    }

    /// Returns the alternatives for the elements of an array, with its closing bracket.
    fn elements(&mut self, due: Elements<'a>) -> Vec<Expr> {
        let empty = (due.least == 0).then(|| text("]"));
        if due.most == Some(0) {
            return vec![text("]")];
        }
        let Some(shape) = due.shape else {
            let any = All(vec![name(Value), name(RuleName::ArrayTail)]);
            return empty.into_iter().chain([any]).collect();
        };
        let first = self.value(shape);
        let tail = self.elements_tail(&due.after_one());
        empty.into_iter().chain([All(vec![first, tail])]).collect()
    }

    /// Returns the rest of an array after a whole element.
    fn elements_tail(&mut self, due: &Elements<'a>) -> Expr {
        if due.most == Some(0) {
            return All(vec![name(White), text("]")]);
        }
        let Some(shape) = due.shape else {
            return name(RuleName::ArrayTail);
        };
        let next = further(vec![self.value(shape)]);
        let next = self.rule(next);
        let mut tail = vec![name(White)];
        let least = due.least.min(MOST_COUNTED);
        tail.extend((0..least).map(|_| next.clone()));
        match due.most.and_then(|most| most.checked_sub(least)) {
            Some(more) if more <= MOST_COUNTED => {
                let mut rest = None;
                for _ in 0..more {
                    let more = [next.clone()].into_iter().chain(rest).collect();
                    rest = Some(self.rule(optional(All(more))));
                }
                tail.extend(rest);
            }
            _ => tail.push(many(next)),
        }
        tail.push(text("]"));
        All(tail)
    }

    /// Adds a rule, and returns its name.
    fn rule(&mut self, body: Expr) -> Expr {
        let rule = self.new_name();
        self.rules.push(Rule { name: rule, body });
        name(rule)
    }

    fn new_name(&mut self) -> RuleName {
        self.named += 1;
        RuleName::Shape(self.named)
    }

    /// Returns the values that fit a shape.
    fn value(&mut self, shape: Shape<'a>) -> Expr {
        if let Some(rule) = self.names.get(&shape.offset()) {
            return name(*rule);
        }
        let rule = self.new_name();
        self.names.insert(shape.offset(), rule);
        self.unread.push((rule, shape));
        name(rule)
    }

    /// Writes the rules of all shapes. `None` if they are too many.
    fn write_values(&mut self) -> Option<()> {
        while let Some((name, shape)) = self.unread.pop() {
            let body = self.body(shape);
            self.rules.push(Rule { name, body });
            if self.named > MOST_RULES {
                return None;
            }
        }
        (self.named <= MOST_RULES).then_some(())
    }

    /// Returns the values that fit a shape, by its keywords.
    fn body(&mut self, shape: Shape<'a>) -> Expr {
        let alternatives = self.open.shapes.alternatives(shape).unwrap_or_default();
        let values = alternatives.into_iter().map(|shape| self.typed(shape));
        let values: Option<Vec<_>> = values.collect();
        let mut values = values.map(|values| values.concat()).unwrap_or_default();
        if values.is_empty() {
            return name(Value);
        }
        // A nullable type of OpenAPI.
        let null = text("null");
        let nullable = shape.member("nullable").and_then(|one| one.as_bool());
        if nullable == Some(true) && !values.contains(&null) {
            values.push(null);
        }
        Any(values)
    }

    /// Returns the values that fit a shape without alternatives. `None`: any.
    fn typed(&mut self, shape: Shape<'a>) -> Option<Vec<Expr>> {
        if let Some(values) = listed(shape) {
            return values.into_iter().map(literal).collect();
        }
        let shapes = &self.open.shapes;
        let types = [
            "object", "array", "string", "boolean", "null", "integer", "number",
        ];
        let types = types
            .into_iter()
            .filter(|kind| shapes.has_type(shape, kind));
        let types: Vec<_> = types.collect();
        let mut values = Vec::new();
        for kind in &types {
            match *kind {
                "object" => {
                    let due = self.open.shapes.members(shape, &[]);
                    let members = Any(self.members(&due, true));
                    values.push(All(vec![text("{"), name(White), members]));
                }
                "array" => {
                    let due = self.open.shapes.elements(shape, 0);
                    let elements = Any(self.elements(due));
                    values.push(All(vec![text("["), name(White), elements]));
                }
                "string" => values.push(name(Str)),
                "boolean" => values.extend([text("true"), text("false")]),
                "integer" if types.contains(&"number") => {}
                "integer" => values.push(All(vec![optional(text("-")), name(Integer)])),
                "number" => values.push(name(Number)),
                _ => values.push(text("null")),
            }
        }
        (!types.is_empty()).then_some(values)
    }
}

/// Text after which the innermost container is open.
fn open(first: Vec<Expr>) -> TokenRest {
    TokenRest {
        rest: None,
        first,
        closes: false,
    }
}

/// Text that closes the innermost container.
fn closing(first: Expr) -> TokenRest {
    TokenRest {
        rest: None,
        first: vec![first],
        closes: true,
    }
}

fn name(rule: RuleName) -> Expr {
    Expr::Rule(rule)
}

/// Returns a colon and a value.
fn after_key(value: Expr) -> Vec<Expr> {
    match value {
        Expr::Rule(Value) => vec![name(Pair)],
        value => vec![name(White), text(":"), name(White), value],
    }
}

/// Returns a child of a container after a comma.
fn further(child: Vec<Expr>) -> Expr {
    let comma = [text(","), name(White)];
    All(comma
        .into_iter()
        .chain(child)
        .chain([name(White)])
        .collect())
}

/// Returns the text of a JSON string after its opening quote.
fn rest_of_quoted(json: &str) -> Option<Expr> {
    Some(text(json.get(1..)?.to_owned()))
}

/// Returns exactly this value. `None` for a container, whose text may have other white space.
fn literal(value: Raw<'_>) -> Option<Expr> {
    match value.kind() {
        ValueKind::Object | ValueKind::Array => None,
        ValueKind::String => Some(text(quoted(&value.decode()?))),
        _ => Some(text(value.as_str().to_owned())),
    }
}
