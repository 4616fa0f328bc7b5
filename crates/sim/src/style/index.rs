//! A document as a tree of spans, and the values that are open at a cut.
//!
//! Knows the spans of values, and not how to print them.

use super::super::call::WHITE_SPACE;
use super::Cut;
use super::spell;
use restitch::internal::json::Machine;
use restitch::internal::json::each;
use restitch::json::{Event, Kind, ParserView, Span};

/// A value of the document.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The value's text, with its quotes or brackets.
    pub(crate) span: Span,
    /// A member's key, with its quotes.
    pub(crate) key: Option<Span>,
    /// The type of container, if it is one.
    pub(crate) container: Option<Kind>,
    pub(crate) is_string: bool,
    pub(crate) parent: Option<usize>,
    /// Members or elements, in order.
    pub(crate) children: Vec<usize>,
}

impl Node {
    /// Returns where the value begins, with its key.
    pub(super) fn lead(&self) -> usize {
        self.key.map_or(self.span.start, |key| key.start)
    }
}

/// A document and its cut, indexed.
pub(super) struct Site<'a> {
    pub(super) cut: Cut<'a>,
    /// In the order of the text, the root first.
    pub(super) nodes: Vec<Node>,
    /// The values that contain the cut, keys included, from the root to the innermost.
    pub(super) open: Vec<usize>,
}

impl<'a> Site<'a> {
    /// Indexes a document; `None` if it is not JSON, or the cut is not inside it.
    pub(super) fn new(cut: &Cut<'a>) -> Option<Self> {
        let &Cut {
            document,
            offset,
            anchor,
            ..
        } = cut;
        let is_cut = offset > 0 && offset < document.len() && anchor <= offset;
        if !is_cut || !document.is_char_boundary(offset) || !document.is_char_boundary(anchor) {
            return None;
        }
        let nodes = nodes(document)?;
        let holds = |node: &Node| node.lead() < offset && offset < node.span.end;
        let mut open = Vec::new();
        let mut next = Some(0).filter(|&root| holds(&nodes[root]));
        while let Some(node) = next {
            open.push(node);
            let children = &nodes[node].children;
            let after = children.partition_point(|&child| nodes[child].span.end <= offset);
            next = children
                .get(after)
                .copied()
                .filter(|&child| holds(&nodes[child]));
        }
        Some(Self {
            cut: *cut,
            nodes,
            open,
        })
    }

    pub(super) fn exact(&self) -> &'a str {
        self.from(self.cut.offset)
    }

    /// Returns the anchor, the mark if there is one, and the rest.
    pub(super) fn anchored(&self) -> String {
        self.after_anchor(self.exact())
    }

    pub(super) fn anchor(&self) -> &'a str {
        &self.cut.document[self.cut.anchor..self.cut.offset]
    }

    pub(super) fn mark(&self) -> &'a str {
        self.cut.mark.unwrap_or_default()
    }

    pub(super) fn delivered(&self) -> &'a str {
        &self.cut.document[..self.cut.offset]
    }

    /// Returns the document from an offset on.
    pub(super) fn from(&self, offset: usize) -> &'a str {
        &self.cut.document[offset..]
    }

    pub(super) fn text(&self, span: Span) -> &'a str {
        span.of(self.cut.document)
    }

    /// Returns the text between the quotes of a string.
    pub(super) fn inside(&self, string: Span) -> &'a str {
        &self.cut.document[string.start + 1..string.end - 1]
    }

    /// Returns the string, number, literal or key that contains the cut.
    pub(super) fn token(&self) -> Option<Span> {
        let node = &self.nodes[*self.open.last()?];
        let holds = |span: &Span| span.start < self.cut.offset && self.cut.offset < span.end;
        let value = (node.container.is_none()).then_some(node.span);
        value.filter(holds).or(node.key.filter(holds))
    }

    /// Returns the string or key that contains the cut, with its quotes; `None` if the cut divides
    /// an escape.
    pub(super) fn string(&self) -> Option<Span> {
        let token = self
            .token()
            .filter(|token| self.text(*token).starts_with('"'))?;
        let cut = self.cut.offset - token.start - 1;
        let is_edge = |unit: spell::Unit<'_>| unit.at == cut;
        let inner = self.inside(token);
        (cut == inner.len() || spell::units(inner).any(is_edge)).then_some(token)
    }

    /// Returns the anchor, the mark if there is one, and this text.
    pub(super) fn after_anchor(&self, text: &str) -> String {
        [self.anchor(), self.mark(), text].concat()
    }

    /// Returns whether the document has only these closers from an offset on.
    pub(super) fn ends_with_closers(&self, from: usize, closers: &str) -> bool {
        let rest = self.from(from).chars();
        rest.filter(|c| !WHITE_SPACE.contains(c))
            .eq(closers.chars())
    }

    /// Returns whether a byte of the document is inside a string or a key: after its opening quote.
    pub(super) fn is_in_string(&self, at: usize) -> bool {
        let holds = |span: Span| span.start < at && at < span.end;
        // The nodes are in the order of the text: the last one that begins before the byte.
        let after = self.nodes.partition_point(|node| node.lead() < at);
        let node = after.checked_sub(1).map(|last| &self.nodes[last]);
        node.is_some_and(|node| node.is_string && holds(node.span) || node.key.is_some_and(holds))
    }

    /// Returns the innermost member that contains the cut, as an index of `open`.
    pub(super) fn member(&self) -> Option<usize> {
        self.open
            .iter()
            .rposition(|&node| self.nodes[node].key.is_some())
    }

    /// Returns the innermost array element that contains the cut, as an index of `open`.
    pub(super) fn element(&self) -> Option<usize> {
        self.open.iter().rposition(|&node| {
            self.nodes[node]
                .parent
                .is_some_and(|parent| self.nodes[parent].container == Some(Kind::Array))
        })
    }

    /// Returns the innermost container whose bracket is before the cut, as an index of `open`: of
    /// the given type, or of any type.
    pub(super) fn container(&self, kind: Option<Kind>) -> Option<usize> {
        self.open.iter().rposition(|&node| {
            let node = &self.nodes[node];
            node.container
                .is_some_and(|own| kind.is_none_or(|kind| kind == own))
                && node.span.start < self.cut.offset
        })
    }

    /// Returns the first undelivered child of a node.
    pub(super) fn next(&self, node: usize) -> Option<usize> {
        let children = &self.nodes[node].children;
        children
            .get(children.partition_point(|&child| self.nodes[child].lead() < self.cut.offset))
            .copied()
    }
}

/// Returns all values of a document; `None` if it is not JSON.
pub(crate) fn nodes(document: &str) -> Option<Vec<Node>> {
    let mut nodes: Vec<Node> = Vec::new();
    let (mut open, mut key) = (Vec::new(), None);
    let mut take = |event: Event, _: &ParserView<'_>| {
        if event.begins_value() {
            let node = Node {
                span: event.span(),
                key: key.take(),
                container: if let Event::Begin { kind, .. } = event {
                    Some(kind)
                } else {
                    None
                },
                is_string: matches!(event, Event::StringBegin(_)),
                parent: open.last().copied(),
                children: Vec::new(),
            };
            let at = nodes.len();
            if let Some(&parent) = open.last() {
                nodes[parent].children.push(at);
            }
            if node.container.is_some() {
                open.push(at);
            }
            nodes.push(node);
        }
        match event {
            Event::Key(span) => {
                key = Some(Span {
                    start: span.start - 1,
                    end: span.end + 1,
                });
            }
            // The last node is the string: no node begins inside a string.
            Event::StringEnd(span) => nodes
                .iter_mut()
                .next_back()
                .into_iter()
                .for_each(|node| node.span = span),
            Event::End { span, .. } => open.pop().into_iter().for_each(|at| nodes[at].span = span),
            _ => {}
        }
    };
    let mut machine = Machine::new(usize::MAX);
    let end = machine.feed_text(document, &mut each(&mut take)).ok()?;
    machine.finish_text(document, &mut each(&mut take)).ok()?;
    let rest = document
        .get(end..)?
        .trim_start_matches([' ', '\t', '\n', '\r']);
    rest.is_empty().then_some(nodes)
}
