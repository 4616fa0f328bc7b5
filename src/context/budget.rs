//! The text as cut, for a prompt: a budget is spent from the cut towards the root (rule 4 of the specification).
//!
//! The rendering is the text itself, with some stretches replaced. They are found from the cut backwards, container by
//! container, so what stands far from the cut is never looked at.

mod level;

use std::borrow::Cow;

use crate::children::ChildIndex;
use crate::document::Document;
use crate::json::{Frame, Kind, Span};
use level::{Level, Style};

/// The text as cut within a budget, and what it took to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// Ends exactly at the cut.
    pub text: String,
    /// Characters of values that stand in it: never more than the budget.
    pub spent: usize,
    /// Bytes of the document that were looked at, but for those that were copied only. At most a constant and a few
    /// for each character of the budget.
    pub bytes_examined: usize,
}

/// With less left, nothing more is spent.
const LEAST: usize = 50;

/// Hints and keys that are printed beside the path, of each open container.
const HINTS: usize = 16;

/// Bytes that may be looked at beside the path, over all open containers: beyond those that the budget pays for.
const REACH: usize = 64 << 10;

/// Of them, for one open container: while values are shown, and when only hints and keys are.
const REACH_OF_VALUES: usize = 4 << 10;
const REACH_OF_HINTS: usize = 16 << 10;

/// Bytes of a key or of white space on the path that are always shown, at each end.
const GAP: usize = 256;

/// Bytes of text that a character of the budget pays for: itself, and the keys, brackets and space around it.
const REACH_PER_CHARACTER: usize = 16;

/// The text as cut, with at most `budget` characters of values: those nearest the cut. Others are shown by what they
/// are (`<str>`), containers nearer the root by their keys, long ones by a count. With a budget that nothing exceeds it
/// is the text itself. Empty before the root; of a closed root the end counts as the cut.
///
/// `index` tell where large values begin without reading them; without them less may be shown. Costs O(depth + budget).
///
/// ```
/// use restitch::{Document, context};
///
/// let mut document = Document::new(64);
/// document.push(r#"{"id": 7, "title": "Rain", "rows": [{"n": 1}, {"n": 2, "text": "It fell in tor"#)?;
/// let rendering = context::hierarchy_context_for_prompt(&document, None, 40);
/// assert_eq!(rendering.text, r#"{"id": …, "title": …, "rows": [{"n": …}, {"n": <number>, "text": "It fell in tor"#);
/// # Ok::<(), restitch::SyntaxError>(())
/// ```
pub fn hierarchy_context_for_prompt(document: &Document, index: Option<&ChildIndex>, budget: usize) -> Rendering {
    let (Some(start), Some(root)) = (document.root_start(), document.root()) else {
        return Rendering { text: String::new(), spent: 0, bytes_examined: 0 };
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
        gap: budget.max(GAP),
    };
    if document.is_complete() {
        rendering.closed_root(Span { start, end: text.len() });
    } else {
        rendering.open_root(document);
    }
    rendering.print(start)
}

/// What is left, and what was decided: from the cut towards the root.
struct Budget<'a> {
    /// All text up to the cut.
    text: &'a str,
    index: Option<&'a ChildIndex>,
    /// Characters of values.
    left: usize,
    /// It ran out: keys and hints alone are shown.
    is_out: bool,
    spent: usize,
    /// Bytes that may still be looked at beside the path.
    reach: usize,
    bytes_examined: usize,
    /// What is replaced, the last one first.
    edits: Vec<(Span, Cow<'static, str>)>,
    /// Bytes that are shown of each end of the text between two values of the path.
    gap: usize,
}

impl Budget<'_> {
    /// The cut value first, then the open containers from the innermost one on.
    fn open_root(&mut self, document: &Document) {
        let machine = document.machine();
        let mut style = Style::Values;
        let mut behind = self.text.len();
        // A key that is open has the path of its object.
        if machine.in_token() && document.path().len() == machine.frames().len() {
            let quote = usize::from(machine.in_string());
            self.cut_value(Span { start: machine.token_start() + quote, end: self.text.len() });
            behind = machine.token_start();
            if self.is_out {
                style = Style::Hints;
            }
        }
        for (depth, frame) in machine.frames().iter().enumerate().rev() {
            self.gap(Span { start: frame.end, end: behind });
            behind = frame.start;
            Level::open(self, frame, Some(depth), style).walk();
            style = if self.is_out { Style::Outline } else { Style::Values };
        }
    }

    /// A value that nothing is open around: shown as one that stands beside the path.
    fn closed_root(&mut self, span: Span) {
        let text = span.of(self.text);
        let kind = match text.bytes().next() {
            Some(b'{') if self.left >= LEAST => Kind::Object,
            Some(b'[') if self.left >= LEAST => Kind::Array,
            _ => {
                if self.left < LEAST || !self.pay(span) {
                    self.edits.push((span, Cow::Borrowed(hint(text.bytes().next_back().unwrap_or_default()))));
                }
                return;
            }
        };
        let frame = Frame::known(kind, span.start, Span::default(), usize::MAX, span.end.saturating_sub(1));
        Level::open(self, &frame, None, Style::Values).walk();
    }

    /// The value that holds the cut is always shown: of a long one the end.
    fn cut_value(&mut self, span: Span) {
        let text = span.of(self.text);
        let kept = text.char_indices().rev().take(self.left);
        let (characters, start) = kept.fold((0, text.len()), |(count, _), (at, _)| (count + 1, at));
        self.bytes_examined += text.len() - start;
        self.spend(characters);
        if start > 0 {
            self.edits.push((Span { start: span.start, end: span.start + start }, Cow::Borrowed("…")));
            self.run_out();
        }
    }

    /// Text of the path between two values: keys and white space. Of a stretch without end the middle is left out.
    fn gap(&mut self, span: Span) {
        if span.len() <= self.gap.saturating_mul(2) {
            return;
        }
        let is_start = |at: &usize| self.text.is_char_boundary(*at);
        let start = (span.start + self.gap..span.end).find(is_start).unwrap_or(span.end);
        let end = (start..=span.end - self.gap).rev().find(is_start).unwrap_or(start);
        self.edits.push((Span { start, end }, Cow::Borrowed("…")));
    }

    /// Spends what a scalar takes, if that is left.
    fn pay(&mut self, span: Span) -> bool {
        let text = span.of(self.text);
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
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

    /// The text from `start` on, with what was decided.
    fn print(self, start: usize) -> Rendering {
        let mut text = String::new();
        let mut at = start;
        for (span, shown) in self.edits.iter().rev() {
            let kept = self.text.get(at..span.start);
            debug_assert!(kept.is_some(), "edits lie in order and between characters: {at}, {span}");
            text.push_str(kept.unwrap_or_default());
            text.push_str(shown);
            at = span.end;
        }
        text.push_str(self.text.get(at..).unwrap_or_default());
        Rendering { text, spent: self.spent, bytes_examined: self.bytes_examined }
    }
}

/// What stands for a value that ends with this byte.
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

/// What stands for so many members or elements; where nobody counted them, for some.
fn members(count: Option<usize>) -> Cow<'static, str> {
    count.map_or(Cow::Borrowed("…"), |count| Cow::Owned(format!("… {count} members …")))
}
