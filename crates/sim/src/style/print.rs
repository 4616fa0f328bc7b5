//! Prints a document from its spans: in another layout, with other escapes, with children left out
//! or moved.

use super::index::Site;
use super::spell::{Spelling, respell};
use restitch::json::{Kind, Span};

/// White space between tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// `{"a":1,"b":2}`
    Compact,
    /// `{"a": 1, "b": 2}`
    Spaced,
    /// A line for each child, indented by this.
    Lines(&'static str),
}

impl Layout {
    pub(super) const ALL: [Self; 5] = [
        Self::Compact,
        Self::Spaced,
        Self::Lines("  "),
        Self::Lines("    "),
        Self::Lines("\t"),
    ];

    fn space(self, depth: usize, out: &mut String) {
        if let Self::Lines(indent) = self {
            out.push('\n');
            out.extend(std::iter::repeat_n(indent, depth.min(INDENTS)));
        }
    }
}

/// The part of a document that is printed.
pub(super) struct View<'s, 'a> {
    site: &'s Site<'a>,
    /// The children of each node.
    pub(super) children: Vec<Vec<usize>>,
}

/// A printed document, and where in it a node begins.
pub(super) struct Printed {
    pub(super) text: String,
    /// Where the node begins with its key.
    pub(super) lead: usize,
    /// Where the node's value begins.
    pub(super) value: usize,
}

impl<'s, 'a> View<'s, 'a> {
    /// Takes all of the document.
    pub(super) fn new(site: &'s Site<'a>) -> Self {
        Self {
            site,
            children: site
                .nodes
                .iter()
                .map(|node| node.children.clone())
                .collect(),
        }
    }

    /// Leaves out the children of `node` that are before `child`.
    pub(super) fn begin_with(&mut self, node: usize, child: usize) {
        self.children[node].retain(|&other| other >= child);
    }

    /// Prints it, and returns where the node `mark` is.
    pub(super) fn print(&self, layout: Layout, spelling: Spelling, mark: usize) -> Printed {
        let mut printed = Printed {
            text: String::new(),
            lead: 0,
            value: 0,
        };
        // The open containers, each with the number of children that are printed.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut next = Some(0);
        loop {
            if let Some(node) = next.take()
                && self.begin(node, layout, spelling, mark, &mut printed)
            {
                open.push((node, 0));
            }
            let depth = open.len();
            let Some((node, done)) = open.last_mut() else {
                return printed;
            };
            if let Some(&child) = self.children[*node].get(*done) {
                if *done > 0 {
                    printed
                        .text
                        .push_str(if layout == Layout::Spaced { ", " } else { "," });
                }
                layout.space(depth, &mut printed.text);
                *done += 1;
                next = Some(child);
            } else {
                layout.space(depth - 1, &mut printed.text);
                printed
                    .text
                    .extend(self.site.nodes[*node].container.map(Kind::closer));
                open.pop();
            }
        }
    }

    /// Prints the key and the value, or its opener. Returns whether something follows before its
    /// closer.
    fn begin(
        &self,
        node: usize,
        layout: Layout,
        spelling: Spelling,
        mark: usize,
        printed: &mut Printed,
    ) -> bool {
        let Printed { text, lead, value } = printed;
        let is_marked = node == mark;
        let own = &self.site.nodes[node];
        if is_marked {
            *lead = text.len();
        }
        if let Some(key) = own.key {
            self.string(key, spelling, text);
            text.push_str(if layout == Layout::Compact { ":" } else { ": " });
        }
        if is_marked {
            *value = text.len();
        }
        match own.container {
            Some(kind) => {
                text.push(kind.opener());
                if !self.children[node].is_empty() {
                    return true;
                }
                text.push(kind.closer());
            }
            None if own.is_string => self.string(own.span, spelling, text),
            None => text.push_str(self.site.text(own.span)),
        }
        false
    }

    fn string(&self, span: Span, spelling: Spelling, text: &mut String) {
        text.push('"');
        respell(self.site.inside(span), spelling, text);
        text.push('"');
    }
}

/// The deepest indentation: more would make the white space of a deep document quadratic.
const INDENTS: usize = 64;
