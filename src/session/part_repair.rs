//! Repairs the text of a call for the rest before the join, so that repaired text is compared with
//! repaired text.
//!
//! A repair needs the position in the grammar, and that depends on where the text begins. Its first
//! characters are compared with the delivered text at three offsets: the start of the requested
//! anchor, the root, and the cut. The repaired text is joined if it repeats the delivered text from
//! that offset on; all other text is joined unrepaired.

use std::borrow::Cow;

use crate::document::Document;
use crate::json::Machine;
use crate::json::repair::{Repair, RepairOptions, Repairer};
use crate::splice::{Expect, Splice};

/// A repairer for the text of one call.
#[derive(Clone, Debug)]
pub(super) struct PartRepairer {
    options: RepairOptions,
    expect: Expect,
    /// The offset in the delivered text at which the requested anchor begins.
    anchor: Option<usize>,
    state: RepairState,
}

#[derive(Clone, Debug)]
enum RepairState {
    /// Holds the text until its beginning is found in the delivered text.
    Opening(String),
    /// Holds the unrepaired text while its repaired text is compared with the delivered text.
    Repeating(String, Box<RepairReading>, Repetition),
    Repairing(Box<RepairReading>),
    /// Text passes unrepaired.
    AsIs,
}

#[derive(Clone, Debug)]
struct RepairReading {
    repairer: Repairer,
    /// The offset in the text as written where the repairer begins.
    written: usize,
    /// The delivered text before the part's beginning, then the repaired text.
    root: String,
    /// The length of `root` up to which it was returned.
    returned: usize,
    /// The number of repairs that were returned.
    reported: usize,
}

/// Delivered text without white space, and the number of its bytes that the part has repeated.
#[derive(Clone, Debug)]
struct Repetition {
    bytes: Vec<u8>,
    seen: usize,
}

// Longer than most keys, so that two members differ; short, since the text waits until so
// many bytes have arrived.
/// Bytes at the beginning of a text that are compared, white space not counted.
const COMPARED: usize = 24;
// A quote, a bracket or a comma alone begins many texts.
/// The fewest of these bytes that two texts must have in common: a mistake may follow.
const MIN_COMMON: usize = 5;

impl PartRepairer {
    /// Creates a repairer for text that `splice` joins.
    pub(super) fn new(options: RepairOptions, splice: &Splice) -> Self {
        let anchor = splice.anchor().map(|anchor| anchor.range.start);
        Self {
            options,
            expect: splice.expect(),
            anchor,
            state: RepairState::Opening(String::new()),
        }
    }

    /// Takes text; returns the text to join, and its repairs.
    pub(super) fn feed<'t>(
        &mut self,
        text: &'t str,
        document: &Document,
    ) -> (Cow<'t, str>, Vec<Repair>) {
        let (new, repairs) = match std::mem::replace(&mut self.state, RepairState::AsIs) {
            RepairState::Opening(waiting) => self.open(waiting + text, document, false),
            RepairState::Repeating(waiting, reading, repetition) => {
                self.repeat(waiting, reading, repetition, text)
            }
            RepairState::Repairing(mut reading) => {
                let goes_on = reading.feed(text);
                self.leave(reading, goes_on)
            }
            RepairState::AsIs => return (text.into(), Vec::new()),
        };
        (new.into(), repairs)
    }

    /// Ends the text; returns its rest, and the repairs in it.
    pub(super) fn finish(&mut self, document: &Document) -> (String, Vec<Repair>) {
        let (mut rest, mut repairs) = (String::new(), Vec::new());
        if let RepairState::Opening(waiting) = &mut self.state {
            let waiting = std::mem::take(waiting);
            self.state = RepairState::AsIs;
            (rest, repairs) = self.open(waiting, document, true);
        }
        let (mut reading, repeated) = match std::mem::replace(&mut self.state, RepairState::AsIs) {
            RepairState::Repairing(reading) => (reading, None),
            RepairState::Repeating(waiting, reading, repetition) => {
                (reading, Some((waiting, repetition)))
            }
            RepairState::Opening(_) | RepairState::AsIs => return (rest, repairs),
        };
        let before = reading.root.len();
        reading.repairer.finish_whole(&mut reading.root);
        let _ = reading.repairer.cut(&mut reading.root);
        if let Some((waiting, mut repetition)) = repeated {
            if repetition.take(reading.root.get(before..).unwrap_or_default()) != Some(true) {
                rest.push_str(&waiting);
                return (rest, repairs);
            }
            reading.skip_repairs(repetition.bytes.len());
        }
        let (new, more) = reading.take();
        rest.push_str(&new);
        rest.push_str(&reading.repairer.take_tail().unwrap_or_default());
        repairs.extend(more);
        (rest, repairs)
    }

    /// Decides where the text begins, once enough of it has arrived.
    fn open(&mut self, text: String, document: &Document, is_end: bool) -> (String, Vec<Repair>) {
        let start = start_of_json(&text);
        let (before, rest) = text.split_at_checked(start).unwrap_or((&text, ""));
        let is_short = text.len() < self.options.lookahead();
        // Too little to compare: the text waits.
        if !is_end
            && is_short
            && rest
                .bytes()
                .filter(|byte| !byte.is_ascii_whitespace())
                .count()
                < COMPARED
        {
            self.state = RepairState::Opening(text);
            return (String::new(), Vec::new());
        }
        let Some((reading, repetition)) = self.reading(rest, document, start) else {
            return (text, Vec::new());
        };
        let (new, repairs) = self.repeat(String::new(), Box::new(reading), repetition, rest);
        (format!("{before}{new}"), repairs)
    }

    /// Returns the reading that repairs a text beginning with `rest`, at `offset` of the unrepaired
    /// text, and the delivered text that it repeats.
    fn reading(
        &self,
        rest: &str,
        document: &Document,
        offset: usize,
    ) -> Option<(RepairReading, Repetition)> {
        let (text, options) = (document.text(), &self.options);
        let Some(root) = document.root_start() else {
            // The root has not begun yet.
            let machine = Machine::new(options.depth());
            let reading = RepairReading::new(options, &machine, offset, "");
            return rest
                .starts_with(['{', '['])
                .then(|| (reading, Repetition::of("")));
        };
        let common = |at: usize| Some((common_beginning(rest, text.get(at..)?)?, at));
        // If equally many characters match, the last one wins: the requested anchor.
        let alike = [root]
            .into_iter()
            .chain(self.anchor)
            .filter_map(common)
            .max_by_key(|(common, _)| *common);
        let place = alike
            .map(|(_, at)| at)
            .or((self.expect == Expect::Exact).then_some(text.len()))?;
        let mut machine = Machine::new(options.depth());
        machine.restart(root);
        machine.feed(text.get(root..place)?.as_bytes()).ok()?;
        let (before, repeated) = text.split_at_checked(place)?;
        Some((
            RepairReading::new(options, &machine, offset, before),
            Repetition::of(repeated),
        ))
    }

    /// Repairs text that repeats delivered text. Holds all of it until the repetition is complete
    /// or the text differs.
    fn repeat(
        &mut self,
        waiting: String,
        mut reading: Box<RepairReading>,
        mut repetition: Repetition,
        text: &str,
    ) -> (String, Vec<Repair>) {
        let waiting = waiting + text;
        let before = reading.root.len();
        let goes_on = reading.feed(text);
        match repetition.take(reading.root.get(before..).unwrap_or_default()) {
            Some(true) => {
                reading.skip_repairs(repetition.bytes.len());
                self.leave(reading, goes_on)
            }
            // A repair inside repeated text is not new, so nothing leaves before the repetition is
            // over.
            Some(false) if goes_on => {
                self.state = RepairState::Repeating(waiting, reading, repetition);
                (String::new(), Vec::new())
            }
            _ => (waiting, Vec::new()),
        }
    }

    /// Returns the new text of a reading; it ends with the root, or where it can't be repaired.
    fn leave(&mut self, mut reading: Box<RepairReading>, goes_on: bool) -> (String, Vec<Repair>) {
        let (mut new, repairs) = reading.take();
        if goes_on {
            self.state = RepairState::Repairing(reading);
        } else {
            new.push_str(
                &reading
                    .repairer
                    .take_tail()
                    .unwrap_or_else(|| reading.repairer.pending().to_owned()),
            );
        }
        (new, repairs)
    }
}

impl RepairReading {
    /// Creates a reading that continues the delivered text `before` from the state `machine`, at
    /// the offset `written` in the call's text.
    fn new(options: &RepairOptions, machine: &Machine, written: usize, before: &str) -> Self {
        let repairer = Repairer::after(options.clone(), machine, written);
        Self {
            repairer,
            written,
            root: before.to_owned(),
            returned: before.len(),
            reported: 0,
        }
    }

    /// Takes text. Returns whether it reads more.
    fn feed(&mut self, text: &str) -> bool {
        let fed = self.repairer.feed(text, &mut self.root);
        // Text beyond a mistake that can't be repaired leaves unrepaired: the splice reports it.
        if fed.is_err() {
            self.repairer.release_all(&mut self.root);
        }
        fed.is_ok() && !self.repairer.is_closed()
    }

    /// Leaves out the repairs in the first `repeated` bytes, white space not counted: they repeat
    /// delivered text, whose repairs are known. Nothing was returned yet. A repair at the end of
    /// the repeated text, for example of a comma that the delivered text lacks, is new.
    fn skip_repairs(&mut self, repeated: usize) {
        let text = self
            .root
            .as_bytes()
            .get(self.returned..)
            .unwrap_or_default();
        let mut bytes = text
            .iter()
            .enumerate()
            .filter(|(_, byte)| !byte.is_ascii_whitespace());
        let last = repeated.checked_sub(1).and_then(|last| bytes.nth(last));
        let end = self.written + last.map_or(0, |(at, _)| at + 1);
        // The offset in the repaired text is that in the text as written, moved by the repairs
        // before it.
        let (mut longer, mut shorter) = (0, 0);
        let is_before = |repair: &&Repair| {
            let is_before = repair.range.start + longer < end + shorter;
            longer += repair.replacement.len();
            shorter += repair.range.len();
            is_before
        };
        self.reported = self.repairer.repairs().iter().take_while(is_before).count();
    }

    /// Takes the repaired text and the repairs since the last call.
    fn take(&mut self) -> (String, Vec<Repair>) {
        let new = self
            .root
            .get(self.returned..)
            .unwrap_or_default()
            .to_owned();
        let repairs = self.repairer.repairs();
        let made = repairs.get(self.reported..).unwrap_or_default().to_vec();
        (self.returned, self.reported) = (self.root.len(), repairs.len());
        (new, made)
    }
}

impl Repetition {
    fn of(text: &str) -> Self {
        Self {
            bytes: text
                .bytes()
                .filter(|byte| !byte.is_ascii_whitespace())
                .collect(),
            seen: 0,
        }
    }

    /// Compares text with the text to repeat. Returns whether the repetition is complete; `None`
    /// where the text differs.
    fn take(&mut self, text: &str) -> Option<bool> {
        let mut rest = self.bytes.get(self.seen..).unwrap_or_default().iter();
        let mut bytes = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
        let is_same = bytes
            .by_ref()
            .zip(rest.by_ref())
            .all(|(byte, expected)| *expected == byte);
        self.seen = self.bytes.len() - rest.len();
        is_same.then_some(rest.len() == 0)
    }
}

/// Returns where the text begins after white space and the opening line of a fence.
fn start_of_json(text: &str) -> usize {
    let start = text.trim_start();
    let inner = if start.starts_with('`') {
        start.find('\n').and_then(|line| start.get(line..))
    } else {
        None
    };
    text.len() - inner.unwrap_or(start).trim_start().len()
}

/// Returns how many characters two texts have in common at their beginnings, at most [`COMPARED`].
/// White space and the style of quotes don't count. `None` if too few are equal to conclude that
/// the texts begin alike.
fn common_beginning(text: &str, delivered: &str) -> Option<usize> {
    let folded = |text: &str| -> Vec<u8> {
        let bytes = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
        bytes
            .map(|byte| if byte == b'\'' { b'"' } else { byte })
            .take(COMPARED)
            .collect()
    };
    let (text, delivered) = (folded(text), folded(delivered));
    let common = text
        .iter()
        .zip(&delivered)
        .take_while(|(one, other)| one == other)
        .count();
    (common >= MIN_COMMON.min(text.len()).min(delivered.len()).max(1)).then_some(common)
}
