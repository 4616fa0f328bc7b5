//! Whether two texts are the same value. Equal digests only suggest it.

use std::borrow::Cow;

use crate::json::{Event, Kind, Machine, ParserView, Scalar, Sink, Span, string};
use crate::work;

/// Returns whether both texts are one complete JSON value each, and the same value.
///
/// White space, escapes and the order of members are ignored. Numbers are compared as written:
/// `1.0` is not `1`. If an object repeats a key, the order of its values counts: readers take the
/// last one.
///
/// Costs time and memory proportional to the texts, and sorts the members of objects whose orders
/// differ. Does not recurse.
///
/// ```
/// use restitch::internal::children::same_value;
///
/// assert!(same_value(r#"{"a": [1], "b": "\u00e9"}"#, r#"{"b":"é","a":[1]}"#));
/// assert!(!same_value("[1, 2]", "[2, 1]"));
/// ```
pub fn same_value(a: &str, b: &str) -> bool {
    match (Nodes::read(a), Nodes::read(b)) {
        (Some(a), Some(b)) => a.same(&b),
        _ => false,
    }
}

/// All values of a text, each before the values in it.
struct Nodes<'a> {
    text: &'a str,
    list: Vec<SameNode>,
    /// The containers that are open while the text is read.
    open: Vec<usize>,
}

struct SameNode {
    what: What,
    /// The key of a member, without its quotes.
    key: Span,
    /// The value's text; of a string, without its quotes.
    span: Span,
    /// The index after the last value in it.
    end: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Container(Kind),
    String,
    Scalar(Scalar),
}

impl<'a> Nodes<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut nodes = Self {
            text,
            list: Vec::new(),
            open: Vec::new(),
        };
        run(text, &mut nodes)?;
        Some(nodes)
    }

    fn add(&mut self, what: What, span: Span, live: &ParserView<'_>) {
        let key = live
            .frames
            .last()
            .map(|frame| frame.key)
            .unwrap_or_default();
        self.list.push(SameNode {
            what,
            key,
            span,
            end: self.list.len() + 1,
        });
    }

    /// Returns the children of a container.
    fn children(&self, of: usize) -> impl Iterator<Item = usize> + Clone {
        debug_assert!(of < self.list.len(), "a container is in the list");
        let end = self.list.get(of).map_or(0, |node| node.end);
        let next = move |&at: &usize| self.list.get(at).map(|node| node.end);
        std::iter::successors(Some(of + 1), next).take_while(move |&at| at < end)
    }

    fn key(&self, at: usize) -> Cow<'a, [u8]> {
        self.list
            .get(at)
            .map_or_else(Cow::default, |node| string::exact(node.key.of(self.text)))
    }

    /// Returns the members of a container sorted by key, those with the same key in document order.
    fn sorted(&self, of: usize) -> Vec<(Cow<'a, [u8]>, usize)> {
        let mut members: Vec<_> = self.children(of).map(|at| (self.key(at), at)).collect();
        members.sort();
        members
    }

    fn same(&self, other: &Nodes<'_>) -> bool {
        let mut pairs = vec![(0, 0)];
        while let Some((at, theirs)) = pairs.pop() {
            let (Some(own), Some(node)) = (self.list.get(at), other.list.get(theirs)) else {
                return false;
            };
            // Both have the same number of values. So if the other container has all children of
            // this one, it has no further ones.
            if own.what != node.what || own.end - at != node.end - theirs {
                return false;
            }
            let (text, other_text) = (own.span.of(self.text), node.span.of(other.text));
            match own.what {
                What::Scalar(_) if text != other_text => return false,
                What::Scalar(_) => {}
                What::String
                    if text != other_text && string::exact(text) != string::exact(other_text) =>
                {
                    return false;
                }
                What::String => {}
                What::Container(Kind::Array) => {
                    pairs.extend(self.children(at).zip(other.children(theirs)));
                }
                What::Container(Kind::Object) => {
                    let in_order = self.children(at).zip(other.children(theirs));
                    if in_order.clone().all(|(a, b)| self.key(a) == other.key(b)) {
                        pairs.extend(in_order);
                        continue;
                    }
                    let (own, theirs) = (self.sorted(at), other.sorted(theirs));
                    if own.len() != theirs.len()
                        || own.iter().zip(&theirs).any(|((a, _), (b, _))| a != b)
                    {
                        return false;
                    }
                    pairs.extend(own.iter().zip(&theirs).map(|(&(_, a), &(_, b))| (a, b)));
                }
            }
        }
        true
    }
}

impl Sink for Nodes<'_> {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        match event {
            Event::Begin { kind, .. } => {
                self.open.push(self.list.len());
                self.add(What::Container(kind), event.span(), live);
            }
            Event::End { .. } => {
                let end = self.list.len();
                if let Some(node) = self.open.pop().and_then(|at| self.list.get_mut(at)) {
                    node.end = end;
                }
            }
            Event::StringEnd(span) => self.add(What::String, inside(span), live),
            Event::Scalar { kind, span } => self.add(What::Scalar(kind), span, live),
            Event::Key(_) | Event::StringBegin(_) | Event::Fragment(_) | Event::Withdrawn(_) => {}
        }
    }
}

/// Returns the span without the quotes.
fn inside(string: Span) -> Span {
    Span {
        start: string.start.saturating_add(1),
        end: string.end.saturating_sub(1),
    }
}

/// Sends the events of the only value in `text` to `sink`; `None` if `text` is not one JSON value.
/// The depth is not limited: frames take memory proportional to the text.
pub(super) fn run<S: Sink>(text: &str, sink: &mut S) -> Option<()> {
    work::bytes_read(text.len());
    let mut machine = Machine::new(usize::MAX);
    let end = machine.feed_text(text, sink).ok()?;
    machine.finish_text(text, sink).ok()?;
    text.as_bytes()
        .get(end..)?
        .iter()
        .all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        .then_some(())
}
