//! The facts about the cut before a fragment arrives: the token that was cut, and the cost of text
//! there.

use memchr::memmem;

use super::cursor::{RECURS, TokenAtCut, value_start};
use super::deciding::FEW;
use super::flow::is_space;
use super::predictor::{Costs, Counting, History, Predictor, TAIL};
use super::prior::{self, Start};
use super::seam::{Expect, SpliceRequest};
use super::series::{self, Series};
use super::slot::Slot;
use crate::children::Child;
use crate::json::{Frame, Kind, Machine};
use crate::overlap::{PROOF, proves_place};

/// The cut, as the candidates see it.
#[derive(Clone, Debug)]
pub(super) struct CutContext {
    pub(super) request: SpliceRequest,
    pub(super) token: TokenAtCut,
    /// Where the token that was cut begins.
    pub(super) token_start: Option<usize>,
    /// Where the delivered text ends, with and without white space.
    pub(super) end: usize,
    pub(super) tail: usize,
    pub(super) predictor: Predictor,
    here: History,
    /// The innermost array element that was cut.
    element: Option<CutElement>,
    /// The series of the array in which an element is due.
    next: Series,
    /// The series of the array whose element has opened, but has no content yet.
    opened: Series,
}

/// The innermost array element that was cut.
#[derive(Clone, Debug)]
struct CutElement {
    /// The depth of its array.
    depth: usize,
    /// Stands in that array where the element is due that was cut.
    machine: Machine,
    /// The history before it.
    before: History,
    series: Series,
    /// The most bits that distinguish it from the elements before it: some of them begin with the
    /// same text.
    most: f32,
}

/// Returns the end of the delivered text that is counted: at most its last `window` bytes.
pub(super) fn counted_text(slot: &Slot, window: usize) -> &str {
    let text = slot.text();
    let tail = text.trim_end_matches(is_space).len();
    let root = slot.document().root_start().unwrap_or(tail);
    let from = (root.max(tail.saturating_sub(window.min(TAIL)))..tail)
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(tail);
    text.get(from..tail).unwrap_or_default()
}

impl CutContext {
    /// Counts the end of the delivered text, at most its last `window` bytes. `counting` has counted
    /// a part.
    pub(super) fn new(
        slot: &Slot,
        request: &SpliceRequest,
        window: usize,
        counting: Option<Counting>,
    ) -> Self {
        let text = slot.text();
        let tail = text.trim_end_matches(is_space).len();
        let machine = slot.document().machine();
        let counted = counted_text(slot, window);
        let counting = counting.unwrap_or_else(|| Counting::of(counted.len()));
        let predictor = counting.finish(counted);
        let token = TokenAtCut::of(slot);
        let frames = slot.frames();
        let is_array = |depth: &usize| {
            frames
                .get(*depth)
                .is_some_and(|frame| frame.kind == Kind::Array)
        };
        let says_something = |depth: &usize| says_something(slot, *depth);
        let element = (0..frames.len())
            .rev()
            .filter(is_array)
            .find(says_something)
            .map(|depth| CutElement {
                depth,
                before: predictor
                    .short_history(text.get(..value_start(slot, depth + 1)).unwrap_or_default()),
                machine: machine_in(frames.get(..=depth).unwrap_or_default()),
                series: Series::of(slot, depth),
                most: most_bits(slot, depth),
            });
        let is_due = matches!(token, TokenAtCut::Element | TokenAtCut::AfterValue);
        let innermost = frames
            .len()
            .checked_sub(1)
            .filter(is_array)
            .filter(|_| is_due);
        let opened = frames
            .len()
            .checked_sub(2)
            .filter(is_array)
            .filter(|depth| !says_something(depth));
        Self {
            request: request.clone(),
            token,
            token_start: machine.in_token().then(|| machine.token_start()),
            end: text.len(),
            tail,
            here: predictor.history(text),
            predictor,
            element,
            opened: opened
                .map(|depth| Series::of(slot, depth))
                .unwrap_or_default(),
            next: innermost
                .map(|depth| Series::of(slot, depth))
                .unwrap_or_default(),
        }
    }

    /// The history of text at the cut.
    pub(super) fn here(&self) -> History {
        self.here
    }

    /// The history of this new text at the cut. A missing comma there is not part of the text.
    pub(super) fn before_new(&self, new: &str) -> History {
        let is_missing = self.token == TokenAtCut::AfterValue
            && new
                .trim_start_matches(is_space)
                .starts_with(|c| !matches!(c, ',' | '}' | ']'));
        let mut history = self.here;
        if is_missing {
            self.predictor.follow(&mut history, b',');
        }
        history
    }

    /// Returns a machine at the start of the element that was cut, and the history before that
    /// element.
    pub(super) fn without_element(&self) -> Option<(Machine, History)> {
        self.element
            .as_ref()
            .map(|element| (element.machine.clone(), element.before))
    }

    /// The bits for the reading that the element is the one due after the last whole one, and for
    /// the reading that it is the one after that.
    pub(super) fn next_bits(&self, element: &str) -> (f32, f32) {
        (self.next.bits(element, 1), self.next.bits(element, 2))
    }

    /// Whether an element of an array is due, or a comma before it.
    pub(super) fn is_element_due(&self) -> bool {
        matches!(self.token, TokenAtCut::Element | TokenAtCut::AfterValue)
    }

    /// Whether the key of a member is due.
    pub(super) fn is_key_due(&self) -> bool {
        self.token == TokenAtCut::MemberKey
    }

    /// The bits for the reading that the element is the opened one, and for the reading that it is
    /// the one after that.
    pub(super) fn opened_bits(&self, element: &str) -> (f32, f32) {
        (self.opened.bits(element, 1), self.opened.bits(element, 2))
    }

    /// The same for the members of an element whose bracket was delivered.
    pub(super) fn members_bits(&self, members: &str) -> (f32, f32) {
        self.opened_bits(&format!("{{{}", series::head(members)))
    }

    /// The bits by which the text of an element of the array at this depth speaks for being the one
    /// that was cut.
    pub(super) fn element_bits(&self, depth: usize, element: &str) -> f32 {
        let own = self.element.as_ref().filter(|own| own.depth == depth);
        own.map_or(0.0, |own| own.series.bits(element, 1))
    }

    /// The bits against new text whose first key no earlier element has; `None` before the key is
    /// known.
    pub(super) fn strangeness(&self, slot: &Slot, new: &str) -> Option<f32> {
        let begun = match (&self.token, self.token_start) {
            (TokenAtCut::Key { .. }, Some(start)) => slot.text().get(start..).unwrap_or_default(),
            (TokenAtCut::MemberKey | TokenAtCut::AfterValue | TokenAtCut::Element, _) => "",
            _ => return Some(0.0),
        };
        let key = first_key(begun, new)?;
        // Rows are the elements of the innermost array, whatever is open in the one that was cut.
        let Some(depth) = slot
            .frames()
            .iter()
            .rposition(|frame| frame.kind == Kind::Array)
        else {
            return Some(0.0);
        };
        let mut left = LOOKED_AT;
        let is_near = |row: &&str| {
            left = left.saturating_sub(row.len());
            left > 0
        };
        let rows = slot
            .child_index()
            .children(depth)
            .iter()
            .rev()
            .take(ROWS)
            .map(|row| row.span.of(slot.text()));
        let has = |row: &str, text: &str| memmem::find(row.as_bytes(), text.as_bytes()).is_some();
        // Rows that are not objects, or have no key with this beginning, do not show how it ends.
        let alike: Vec<&str> = rows
            .take_while(is_near)
            .filter(|row| row.starts_with('{') && has(row, begun))
            .collect();
        let is_strange = alike.len() > 1 && !alike.iter().any(|row| has(row, &key));
        Some(if is_strange { prior::STRANGE_KEY } else { 0.0 })
    }

    /// Bits by which the text of the cut element, repeated, may differ from the next element's.
    pub(super) fn identity(&self, depth: usize, bits: f32) -> f32 {
        let own = self.element.as_ref().filter(|own| own.depth == depth);
        own.map_or(bits, |own| bits.min(own.most))
    }

    /// Returns the bits by which recurring elements cost more than their share in the array
    /// explains. The fragment from `begin` on repeats the delivered text from `from` on.
    pub(super) fn recurring(&self, slot: &Slot, from: usize, begin: usize, costs: &Costs) -> f32 {
        let index = slot.child_index();
        let arrays = slot
            .frames()
            .iter()
            .enumerate()
            .filter(|(_, frame)| frame.kind == Kind::Array);
        let bits = |(depth, _)| {
            let children = index.children(depth);
            let first = children.partition_point(|child| child.span.start < from);
            let repeated = children.get(first..).unwrap_or_default().iter();
            let recurring =
                repeated.filter(|child| index.find(depth, child.digest).nth(1).is_some());
            let at = |offset: usize| begin + offset - from;
            // After `ROWS` elements the order of the elements identifies the position, so the rest
            // count the minimum.
            let last = children
                .get(children.len().saturating_sub(ROWS)..)
                .unwrap_or_default();
            let share = |child: &Child| {
                let times = last
                    .iter()
                    .filter(|other| other.digest == child.digest)
                    .count();
                (last.len() as f32 / times.max(1) as f32).log2().max(RECURS)
            };
            let bits = recurring.enumerate().map(|(number, child)| {
                let most = if self.request.expect == Expect::Any && number < ROWS {
                    share(child)
                } else {
                    RECURS
                };
                costs.between(at(child.span.start), at(child.span.end)) - most
            });
            bits.map(|bits| bits.max(0.0)).sum::<f32>()
        };
        arrays.map(bits).sum()
    }

    /// Returns the bits by which a repeat of the delivered text from `from` on identifies its
    /// position, if an element that it repeats occurs more than once in the array in which it
    /// begins: each repeated element counts its share in that array.
    ///
    /// The predictor knows too little of a few rows that differ in one value, and takes a chance
    /// repeat for a proof.
    pub(super) fn bits_in_order(&self, slot: &Slot, from: usize) -> Option<f32> {
        let is_around = |frame: &Frame| frame.kind == Kind::Array && frame.start < from;
        let depth = slot.frames().iter().rposition(is_around)?;
        let children = slot.child_index().children(depth);
        let rows = children
            .get(children.len().saturating_sub(ROWS)..)
            .unwrap_or_default();
        let (before, whole) = rows.split_at(rows.partition_point(|row| row.span.start < from));
        let count =
            |is_alike: &dyn Fn(&Child) -> bool| rows.iter().filter(|row| is_alike(row)).count();
        let begun = before
            .last()
            .and_then(|row| slot.text().get(from..row.span.end))
            .filter(|end| !end.is_empty());
        let times = begun.map(|end| count(&|row| row.span.of(slot.text()).ends_with(end)));
        let times = times.into_iter().chain(
            whole
                .iter()
                .map(|row| count(&|other| other.digest == row.digest)),
        );
        let share = |times: usize| (rows.len() as f32 / times.max(1) as f32).log2();
        let (recurs, bits) = times.fold((false, 0.0), |(recurs, bits), times| {
            (recurs || times > 1, bits + share(times))
        });
        let own = self
            .element
            .as_ref()
            .filter(|own| own.depth == depth)
            .map_or(0.0, |own| own.most.min(share(1)));
        recurs.then_some(bits + own)
    }

    /// Returns whether the repeated text from `from` on may also be new text that equals it: whole
    /// elements where one is due, or text that follows the same two bytes as the cut and does not
    /// begin inside a cut string.
    pub(super) fn is_in_a_row(&self, slot: &Slot, from: usize) -> bool {
        let in_string = matches!(
            self.token,
            TokenAtCut::String { .. } | TokenAtCut::Key { .. }
        );
        let is_piece = in_string && self.token_start.is_some_and(|token| from > token);
        let last = |end: usize| {
            let before = slot
                .text()
                .get(..end)
                .unwrap_or_default()
                .trim_end_matches(is_space);
            before.bytes().rev().take(2).collect::<Vec<u8>>()
        };
        let is_alike = !is_piece && from > 0 && last(from) == last(self.tail);
        is_alike || self.is_element_due() && is_element_start(slot, from)
    }

    /// Returns the most bits that repeated text from `from` on may count if it [is in a
    /// row](Self::is_in_a_row): a fixed number for each element that begins in the text.
    ///
    /// A repeat with the beginning of the cut element may also count the bits that distinguish this
    /// element. An answer that was asked to repeat the anchor rarely begins at another row, so
    /// there the repeat counts as one element.
    pub(super) fn most_in_a_row(&self, slot: &Slot, from: usize) -> f32 {
        if self.request.expect != Expect::Any {
            return prior::IN_A_ROW;
        }
        let elements = |depth: usize| {
            let children = slot.child_index().children(depth);
            let repeated =
                children.len() - children.partition_point(|child| child.span.start < from);
            // If the fragment repeats most of the array, these elements are all that is known about
            // it.
            if 2 * repeated <= children.len() {
                repeated
            } else {
                0
            }
        };
        let arrays = slot
            .frames()
            .iter()
            .enumerate()
            .filter(|(_, frame)| frame.kind == Kind::Array);
        let rows = arrays
            .map(|(depth, _)| elements(depth))
            .max()
            .unwrap_or_default();
        let begins_before = |own: &&CutElement| from <= value_start(slot, own.depth + 1);
        let identity = self
            .element
            .as_ref()
            .filter(begins_before)
            .map_or(0.0, |own| own.most);
        prior::IN_A_ROW * rows.max(1) as f32 + identity
    }

    /// Returns whether a fragment that repeats the delivered text from `from` on continues at the
    /// cut: this text is long, or all that was delivered, and it is unbordered and unique near the
    /// cut.
    pub(super) fn is_proof(&self, slot: &Slot, from: usize) -> bool {
        let root = slot.document().root_start().unwrap_or_default();
        let near = (self.tail.saturating_sub(LOOKED_AT)..from)
            .find(|&at| slot.text().is_char_boundary(at))
            .unwrap_or(from);
        let text = slot.text().get(near..self.tail).unwrap_or_default();
        // Parts of unknown origin repeat the white space before the cut, too.
        let is_long = || {
            slot.text()
                .get(from..self.end)
                .is_some_and(|repeated| repeated.chars().nth(PROOF - 1).is_some())
        };
        proves_place(
            text,
            &(from - near..text.len()),
            from <= root || self.request.expect == Expect::Any && is_long(),
        )
    }

    /// The bits by which the text speaks for being the element after the one that was cut.
    pub(super) fn after_element_bits(&self, element: &str) -> f32 {
        self.element
            .as_ref()
            .map_or(0.0, |own| own.series.bits(element, 2))
    }

    /// The type of a start at this offset of the delivered text, and its prior; the anchor begins
    /// at `anchor`.
    pub(super) fn start_at(&self, slot: &Slot, at: usize, anchor: usize) -> (Start, f32) {
        let frames = slot.frames();
        let is_key = || {
            frames
                .iter()
                .any(|frame| frame.kind == Kind::Object && frame.key.start == at + 1)
        };
        let start = match () {
            () if slot.document().root_start() == Some(at) => Start::Root,
            () if self.token_start == Some(at) => Start::Token,
            () if frames.iter().any(|frame| frame.start == at) => Start::Container,
            () if is_key() => Start::Member,
            () => Start::Tail,
        };
        let repeated = self.tail.saturating_sub(at);
        let before = slot
            .text()
            .get(..at)
            .unwrap_or_default()
            .chars()
            .next_back();
        let here = slot.text().get(at..).unwrap_or_default().chars().next();
        let in_word =
            before.is_some_and(char::is_alphanumeric) && here.is_some_and(char::is_alphanumeric);
        let prior = match start {
            Start::Tail => prior::tail(self.request.expect, repeated),
            start => start.prior(self.request.expect),
        };
        let spread = match start {
            Start::Tail if in_word && repeated < SHORT => prior::IN_WORD,
            Start::Tail if at > anchor && repeated >= FEW => prior::IN_ANCHOR,
            Start::Tail => prior::AT_WORD,
            _ => 0.0,
        };
        (start, prior + spread)
    }
}

/// The key that new text begins with, with its quotes; `begun` is its delivered part.
fn first_key(begun: &str, new: &str) -> Option<String> {
    let new = if begun.is_empty() {
        new.trim_start_matches(|c| is_space(c) || matches!(c, ',' | '{'))
    } else {
        new
    };
    // The new text may be long, and each of its characters leads here, so only the key is copied.
    let from = usize::from(begun.is_empty() && new.starts_with('"'));
    let end = new.get(from..)?.find('"')? + from + 1;
    let key = || format!("{begun}{}", new.get(..end).unwrap_or_default());
    let is_key = new
        .get(end..)?
        .trim_start_matches(is_space)
        .starts_with(':');
    (is_key && (from > 0 || !begun.is_empty())).then(key)
}

/// Below this number of bytes, a tail that begins inside a word is an unlikely beginning.
// With one or two bytes before the cut, any word that begins with them would be a repeat: `IN_WORD`
// takes what they are worth.
const SHORT: usize = 3;

/// Whether a whole element of the innermost array begins at `from`, or after a comma there.
fn is_element_start(slot: &Slot, from: usize) -> bool {
    let Some(innermost) = slot.frames().len().checked_sub(1) else {
        return false;
    };
    let text = slot.text();
    let element = text
        .get(from..)
        .unwrap_or_default()
        .trim_start_matches(|c| is_space(c) || c == ',');
    let start = text.len() - element.len();
    let is_array = slot
        .frames()
        .last()
        .is_some_and(|frame| frame.kind == Kind::Array);
    is_array
        && slot
            .child_index()
            .children(innermost)
            .binary_search_by_key(&start, |child| child.span.start)
            .is_ok()
}

/// A machine in containers of these kinds, where a value is due.
fn machine_in(frames: &[Frame]) -> Machine {
    let mut machine = Machine::new(usize::MAX);
    for frame in frames {
        let opener: &[u8] = if frame.kind == Kind::Object {
            br#"{"":"#
        } else {
            b"["
        };
        // An opener is legal where a value is due.
        let _ = machine.feed(opener);
    }
    machine
}

/// Elements that the cut one is compared with: bounds the work at a cut in a long array.
// Chosen: enough to know the keys of a table and which values recur, and one push stays cheap in an
// array of a million rows (tests/it/work.rs). Fewer rows would call a rare optional key strange.
const ROWS: usize = 64;

/// Bytes of delivered text in which a key is searched: one push must not wait for long elements.
// One search of it takes some microseconds; rows of that size are documents of their own, whose
// keys differ.
pub(super) const LOOKED_AT: usize = 64 << 10;

/// The bits that distinguish the cut element of the array at this depth from the elements before
/// it.
fn most_bits(slot: &Slot, depth: usize) -> f32 {
    let text = slot.text();
    let begun = text
        .get(value_start(slot, depth + 1)..)
        .unwrap_or_default()
        .trim_end_matches(is_space);
    let rows = slot.child_index().children(depth).iter().rev().take(ROWS);
    let (count, alike) = rows.fold((0, 0), |(count, alike), child| {
        (
            count + 1,
            alike + u32::from(child.span.of(text).starts_with(begun)),
        )
    });
    if alike == 0 {
        f32::INFINITY
    } else {
        ((count + 1) as f32 / alike as f32).log2()
    }
}

/// The open element of the array at this depth has begun, and more of it than brackets, quotes and
/// punctuation was delivered.
pub(super) fn says_something(slot: &Slot, depth: usize) -> bool {
    has_words(
        slot.text()
            .get(value_start(slot, depth + 1)..)
            .unwrap_or_default(),
    )
}

/// Whether the text has a letter, a digit or a character outside ASCII.
pub(super) fn has_words(text: &str) -> bool {
    text.bytes()
        .any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
}

/// The open element of an array begins here.
pub(super) fn begins_element(slot: &Slot, at: usize) -> bool {
    let arrays = slot
        .frames()
        .iter()
        .enumerate()
        .filter(|(_, frame)| frame.kind == Kind::Array && frame.start < at);
    at < slot.text().len()
        && arrays
            .into_iter()
            .any(|(depth, _)| value_start(slot, depth + 1) == at)
}
