//! The text as cut, for a prompt: a budget is spent from the cut towards the root.
//!
//! The rendering is the text itself with some parts replaced. They are found backwards from the
//! cut, container by container, so text far from the cut is not read.

mod walk;

use std::borrow::Cow;

use crate::children::ChildIndex;
use crate::document::Document;
use crate::json::{Frame, Kind, Span};
use walk::{Style, Walk};

/// The text as cut within a budget, and its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// The rendering. It ends exactly at the cut.
    pub text: String,
    /// The number of characters of values in it: at most the budget.
    pub spent: usize,
    /// The number of bytes of the document that were examined, except bytes that were only copied.
    /// At most a constant and a few for each character of the budget.
    pub bytes_examined: usize,
}

/// With fewer characters left, no further value is shown.
const LEAST: usize = 50;

/// The number of hints and keys that are printed for each open container.
const HINTS: usize = 16;

/// The number of bytes outside the path that may be examined over all open containers, in addition
/// to those that the budget pays for.
const REACH: usize = 64 << 10;

/// The same for one open container: while its values are shown, and while only hints and keys are
/// shown.
const REACH_OF_VALUES: usize = 4 << 10;
const REACH_OF_HINTS: usize = 16 << 10;

/// The number of bytes of a key or of white space on the path that are always shown at each end.
const GAP: usize = 256;

/// The most bytes of keys and white space on the path that are shown, over all open containers, if
/// the budget is not larger. They are shared evenly: up to 64 open containers get their full share.
const PATH: usize = 64 << 10;

/// The number of open containers up to which the shared limit has no effect.
const FEW: usize = 64;

/// The number of bytes that a character of the budget pays for: the character, and the keys,
/// brackets and space around it.
const REACH_PER_CHARACTER: usize = 16;

/// Returns the text as cut, with at most `budget` characters of values: those nearest the cut.
///
/// Other values become hints (`<str>`), containers nearer the root show their keys, and many
/// members become a count. If nothing exceeds the budget, the result is the text itself. Empty
/// before the root. The cut of a closed root is its end.
///
/// `index` finds the start of large values without reading them; without an index, less may be
/// shown. Costs O(depth + budget).
///
/// ```
/// use restitch::{Document, internal::context};
///
/// let mut document = Document::new(64);
/// document.push(r#"{"id": 7, "title": "Rain", "rows": [{"n": 1}, {"n": 2, "text": "It fell in tor"#)?;
/// let rendering = context::hierarchy_context_for_prompt(&document, None, 40);
/// assert_eq!(rendering.text, r#"{"id": …, "title": …, "rows": [{"n": …}, {"n": <number>, "text": "It fell in tor"#);
/// # Ok::<(), restitch::SyntaxError>(())
/// ```
pub fn hierarchy_context_for_prompt(
    document: &Document,
    index: Option<&ChildIndex>,
    budget: usize,
) -> Rendering {
    let (Some(start), Some(root)) = (document.root_start(), document.root()) else {
        return Rendering {
            text: String::new(),
            spent: 0,
            bytes_examined: 0,
        };
    };
    let text = document.text().get(..start + root.len());
    debug_assert!(text.is_some(), "the root is in the text");
    let text = text.unwrap_or_default();
    let reach = budget.saturating_mul(REACH_PER_CHARACTER);
    let mut rendering = Budget {
        text,
        index,
        left: budget,
        is_out: false,
        spent: 0,
        reach: reach.saturating_add(REACH),
        bytes_examined: 0,
        edits: Vec::new(),
        gap: match document.machine().frames().len() {
            few if few <= FEW || budget >= text.len() => budget.max(GAP),
            many => budget.max(GAP).min(budget.max(PATH) / 2 / many),
        },
    };
    if document.is_complete() {
        rendering.closed_root(Span {
            start,
            end: text.len(),
        });
    } else {
        rendering.open_root(document);
    }
    rendering.print(start)
}

/// The rest of the budget, and the decisions so far, from the cut towards the root.
struct Budget<'a> {
    /// All text up to the cut.
    text: &'a str,
    index: Option<&'a ChildIndex>,
    /// Characters of values.
    left: usize,
    /// The budget has run out: only keys and hints are shown.
    is_out: bool,
    spent: usize,
    /// The number of bytes outside the path that may still be examined.
    reach: usize,
    bytes_examined: usize,
    /// The replaced parts, the last one first.
    edits: Vec<(Span, Cow<'static, str>)>,
    /// The number of bytes that are shown at each end of the text between two values of the path.
    gap: usize,
}

impl Budget<'_> {
    /// Renders the cut value first, then the open containers from the innermost one on.
    fn open_root(&mut self, document: &Document) {
        let machine = document.machine();
        let mut style = Style::Values;
        let mut after = self.text.len();
        // An open key has the path of its object.
        if machine.in_token() && document.path().len() == machine.frames().len() {
            let quote = usize::from(machine.in_string());
            self.cut_value(Span {
                start: machine.token_start() + quote,
                end: self.text.len(),
            });
            after = machine.token_start();
            if self.is_out {
                style = Style::Hints;
            }
        }
        for (depth, frame) in machine.frames().iter().enumerate().rev() {
            self.gap(Span {
                start: frame.end,
                end: after,
            });
            after = frame.start;
            Walk::open(self, frame, Some(depth), style).walk();
            style = if self.is_out {
                Style::Outline
            } else {
                Style::Values
            };
        }
    }

    /// Renders a closed root like a value outside the path.
    fn closed_root(&mut self, span: Span) {
        let text = span.of(self.text);
        let kind = match text.bytes().next() {
            Some(b'{') if self.left >= LEAST => Kind::Object,
            Some(b'[') if self.left >= LEAST => Kind::Array,
            _ => {
                if self.left < LEAST || !self.pay(span) {
                    self.edits.push((
                        span,
                        Cow::Borrowed(hint(text.bytes().next_back().unwrap_or_default())),
                    ));
                }
                return;
            }
        };
        let frame = Frame::known(
            kind,
            span.start,
            Span::default(),
            usize::MAX,
            span.end.saturating_sub(1),
        );
        Walk::open(self, &frame, None, Style::Values).walk();
    }

    /// Shows the value at the cut, or the end of a long value.
    fn cut_value(&mut self, span: Span) {
        let text = span.of(self.text);
        let kept = text.char_indices().rev().take(self.left);
        let (characters, start) = kept.fold((0, text.len()), |(count, _), (at, _)| (count + 1, at));
        self.bytes_examined += text.len() - start;
        self.spend(characters);
        if start > 0 {
            self.edits.push((
                Span {
                    start: span.start,
                    end: span.start + start,
                },
                Cow::Borrowed("…"),
            ));
            self.run_out();
        }
    }

    /// Shows the text of the path between two values: keys and white space. The middle of very long
    /// text is left out.
    fn gap(&mut self, span: Span) {
        if span.len() <= self.gap.saturating_mul(2) {
            return;
        }
        let is_start = |at: &usize| self.text.is_char_boundary(*at);
        let start = (span.start + self.gap..span.end)
            .find(is_start)
            .unwrap_or(span.end);
        let end = (start..=span.end - self.gap)
            .rev()
            .find(is_start)
            .unwrap_or(start);
        self.edits.push((Span { start, end }, Cow::Borrowed("…")));
    }

    /// Pays for a scalar, if enough is left.
    fn pay(&mut self, span: Span) -> bool {
        let text = span.of(self.text);
        let text = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
            .unwrap_or(text);
        let size = text.chars().take(self.left.saturating_add(1)).count();
        self.bytes_examined += text.len().min(size.saturating_mul(4));
        let fits = size <= self.left;
        if fits {
            self.spend(size);
        }
        fits
    }

    fn spend(&mut self, characters: usize) {
        self.spent += characters;
        self.left = self.left.saturating_sub(characters);
        if self.left < LEAST {
            self.run_out();
        }
    }

    fn run_out(&mut self) {
        (self.left, self.is_out) = (0, true);
    }

    /// Prints the text from `start` on, with the replaced parts.
    fn print(self, start: usize) -> Rendering {
        let mut text = String::new();
        let mut at = start;
        for (span, shown) in self.edits.iter().rev() {
            let kept = self.text.get(at..span.start);
            debug_assert!(
                kept.is_some(),
                "edits lie in order and between characters: {at}, {span}"
            );
            text.push_str(kept.unwrap_or_default());
            text.push_str(shown);
            at = span.end;
        }
        text.push_str(self.text.get(at..).unwrap_or_default());
        Rendering {
            text,
            spent: self.spent,
            bytes_examined: self.bytes_examined,
        }
    }
}

/// Returns the hint for a value that ends with this byte.
fn hint(last: u8) -> &'static str {
    match last {
        b'"' => "<str>",
        b'}' => "<object>",
        b']' => "<array>",
        // `true` and `false`
        b'e' => "<bool>",
        b'l' => "<null>",
        _ => "<number>",
    }
}

/// Returns the text for this many members or elements; without a count, for some.
fn members(count: Option<usize>) -> Cow<'static, str> {
    count.map_or(Cow::Borrowed("…"), |count| {
        Cow::Owned(format!("… {count} members …"))
    })
}
