//! A document as a tree of spans, and what is open in it at a cut.
//!
//! Knows where things stand, and nothing of what is written about them.

use super::Cut;
use super::spell;
use crate::json::{Event, Kind, Live, Machine, Span, each};

/// A value of the document.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The value's text, with its quotes or brackets.
    pub(super) span: Span,
    /// A member's key, with its quotes.
    pub(super) key: Option<Span>,
    /// What it is, if it is a container.
    pub(super) container: Option<Kind>,
    pub(super) is_string: bool,
    pub(super) parent: Option<usize>,
    /// Members or elements, in order.
    pub(super) children: Vec<usize>,
}

impl Node {
    /// Where it begins, with its key.
    pub(super) fn lead(&self) -> usize {
        self.key.map_or(self.span.start, |key| key.start)
    }
}

/// A document and its cut, understood.
pub(super) struct Site<'a> {
    pub(super) cut: Cut<'a>,
    /// In the order of the text, the root first.
    pub(super) nodes: Vec<Node>,
    /// The values that hold the cut, keys included, from the root to the innermost.
    pub(super) open: Vec<usize>,
}

impl<'a> Site<'a> {
    /// `None` where the document is no JSON, or the cut is none.
    pub(super) fn new(cut: &Cut<'a>) -> Option<Self> {
        let &Cut { document, offset, anchor } = cut;
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
            let behind = children.partition_point(|&child| nodes[child].span.end <= offset);
            next = children.get(behind).copied().filter(|&child| holds(&nodes[child]));
        }
        Some(Self { cut: *cut, nodes, open })
    }

    pub(super) fn exact(&self) -> &'a str {
        self.from(self.cut.offset)
    }

    pub(super) fn anchored(&self) -> &'a str {
        self.from(self.cut.anchor)
    }

    pub(super) fn delivered(&self) -> &'a str {
        &self.cut.document[..self.cut.offset]
    }

    /// The document from an offset on.
    pub(super) fn from(&self, offset: usize) -> &'a str {
        &self.cut.document[offset..]
    }

    pub(super) fn text(&self, span: Span) -> &'a str {
        span.of(self.cut.document)
    }

    /// The string, number, literal or key that the cut is in.
    pub(super) fn token(&self) -> Option<Span> {
        let node = &self.nodes[*self.open.last()?];
        let holds = |span: &Span| span.start < self.cut.offset && self.cut.offset < span.end;
        let value = (node.container.is_none()).then_some(node.span);
        value.filter(holds).or(node.key.filter(holds))
    }

    /// The string or key that the cut is in, with its quotes; not where the cut divides an escape.
    pub(super) fn string(&self) -> Option<Span> {
        let token = self.token().filter(|token| self.text(*token).starts_with('"'))?;
        let cut = self.cut.offset - token.start - 1;
        let is_edge = |unit: spell::Unit<'_>| unit.at == cut;
        let inner = self.text(Span { start: token.start + 1, end: token.end - 1 });
        (cut == inner.len() || spell::units(inner).any(is_edge)).then_some(token)
    }

    /// The innermost member that holds the cut, as a place in `open`.
    pub(super) fn member(&self) -> Option<usize> {
        self.open.iter().rposition(|&node| self.nodes[node].key.is_some())
    }

    /// The innermost array element that holds the cut, as a place in `open`.
    pub(super) fn element(&self) -> Option<usize> {
        self.open.iter().rposition(|&node| {
            self.nodes[node].parent.is_some_and(|parent| self.nodes[parent].container == Some(Kind::Array))
        })
    }

    /// The innermost container whose bracket stands before the cut, as a place in `open`: of any kind, or an array.
    pub(super) fn container(&self, kind: Option<Kind>) -> Option<usize> {
        self.open.iter().rposition(|&node| {
            let node = &self.nodes[node];
            node.container.is_some_and(|own| kind.is_none_or(|kind| kind == own)) && node.span.start < self.cut.offset
        })
    }

    /// The first child of a node that has nothing delivered.
    pub(super) fn next(&self, node: usize) -> Option<usize> {
        let children = &self.nodes[node].children;
        children.get(children.partition_point(|&child| self.nodes[child].lead() < self.cut.offset)).copied()
    }
}

/// All values of a document; `None` where it is none.
fn nodes(document: &str) -> Option<Vec<Node>> {
    let mut nodes: Vec<Node> = Vec::new();
    let (mut open, mut key) = (Vec::new(), None);
    let mut take = |event: Event, _: &Live<'_>| {
        if event.begins_value() {
            let node = Node {
                span: event.span(),
                key: key.take(),
                container: if let Event::Begin { kind, .. } = event { Some(kind) } else { None },
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
            Event::Key(span) => key = Some(Span { start: span.start - 1, end: span.end + 1 }),
            // The last node that was begun is the string: nothing begins inside of one.
            Event::StringEnd(span) => nodes.iter_mut().next_back().into_iter().for_each(|node| node.span = span),
            Event::End { span, .. } => open.pop().into_iter().for_each(|at| nodes[at].span = span),
            _ => {}
        }
    };
    let mut machine = Machine::new(usize::MAX);
    let end = machine.feed_text(document, &mut each(&mut take)).ok()?;
    machine.finish_text(document, &mut each(&mut take)).ok()?;
    let rest = document.get(end..)?.trim_start_matches([' ', '\t', '\n', '\r']);
    rest.is_empty().then_some(nodes)
}
