//! Repairs the text of a call for the rest before it is joined, so that it is compared with the delivered text in the
//! form that was delivered.
//!
//! A repair needs the position in the grammar, and that depends on where the text begins. It is repaired from the place
//! in the delivered text that it begins like: what it was asked to repeat, the root, or the cut. Text that begins like none
//! of them is joined as it came, unless a document of its own begins there.

use crate::document::Document;
use crate::json::Machine;
use crate::json::repair::{Repair, RepairLevel, RepairOptions, Repairer};
use crate::splice::{Expect, Splice};

/// Repairs the text of one call.
#[derive(Clone, Debug)]
pub(super) struct PartRepairer {
    options: RepairOptions,
    expect: Expect,
    /// Where the delivered text begins that the call was asked to repeat.
    anchor: Option<usize>,
    state: State,
    repairs: Vec<Repair>,
}

#[derive(Clone, Debug)]
enum State {
    /// It is not known where the text begins. This much has come.
    Opening(String),
    Repairing(Box<Reading>),
    /// Text passes as it comes.
    AsIs,
}

#[derive(Clone, Debug)]
struct Reading {
    repairer: Repairer,
    /// The text before the part and its own repaired text, of which this much was returned.
    root: String,
    returned: usize,
    /// How many repairs were returned.
    reported: usize,
}

/// Bytes that decide what a text begins like, white space apart.
const BEGINNING: usize = 24;
/// The fewest of them that texts have in common that begin alike: a mistake may follow.
const FEWEST: usize = 5;

impl PartRepairer {
    /// Creates a repairer for text that `splice` joins.
    pub(super) fn new(options: RepairOptions, splice: &Splice) -> Self {
        let anchor = splice.anchor().map(|anchor| anchor.range.start);
        let state = State::Opening(String::new());
        Self { options, expect: splice.expect(), anchor, state, repairs: Vec::new() }
    }

    /// Takes text; returns what is to be joined.
    pub(super) fn feed(&mut self, text: &str, document: &Document) -> String {
        match &mut self.state {
            State::Opening(waiting) => {
                waiting.push_str(text);
                let waiting = std::mem::take(waiting);
                self.open(waiting, document, false)
            }
            State::Repairing(reading) => {
                let fed = reading.feed(text);
                self.read(fed)
            }
            State::AsIs => text.to_owned(),
        }
    }

    /// Ends the text; returns what is left of it.
    pub(super) fn finish(&mut self, document: &Document) -> String {
        let mut rest = match &mut self.state {
            State::Opening(waiting) => {
                let waiting = std::mem::take(waiting);
                self.open(waiting, document, true)
            }
            _ => String::new(),
        };
        if let State::Repairing(reading) = &mut self.state {
            reading.repairer.cut(&mut reading.root);
            rest.push_str(&reading.take_new());
            self.repairs.extend(reading.take_repairs());
            self.state = State::AsIs;
        }
        rest
    }

    /// Takes the repairs that were made since the last call.
    pub(super) fn take_repairs(&mut self) -> Vec<Repair> {
        std::mem::take(&mut self.repairs)
    }

    /// Decides where the text begins, if enough of it has come.
    fn open(&mut self, text: String, document: &Document, is_end: bool) -> String {
        let Some(start) = start_of_json(&text, is_end) else {
            self.state = State::Opening(text);
            return String::new();
        };
        let rest = text.get(start..).unwrap_or_default();
        if !is_end && rest.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() < BEGINNING {
            self.state = State::Opening(text);
            return String::new();
        }
        match self.repairer(rest, document, start) {
            Some(reading) => {
                let mut envelope = text.get(..start).unwrap_or_default().to_owned();
                self.state = State::Repairing(Box::new(reading));
                envelope.push_str(&self.feed(rest, document));
                envelope
            }
            None => {
                self.state = State::AsIs;
                text
            }
        }
    }

    /// Returns what repairs a text that begins with `rest`, at `offset` of the text as it came.
    fn repairer(&self, rest: &str, document: &Document, offset: usize) -> Option<Reading> {
        let delivered = document.text();
        let root = document.root_start();
        let common = |at: usize| Some((common_beginning(rest, delivered.get(at..)?)?, at));
        // The last one of equals is what was asked for.
        let alike = root.into_iter().chain(self.anchor).filter_map(common).max_by_key(|(common, _)| *common);
        let place = alike.map(|(_, at)| at);
        let place = place.or_else(|| (self.expect == Expect::Exact && root.is_some()).then_some(delivered.len()));
        let is_in_string = root.is_some() && document.machine().in_string();
        match (place, root) {
            (Some(place), Some(root)) => {
                let mut machine = Machine::new(self.options.depth());
                machine.restart(root);
                machine.feed(delivered.get(root..place)?.as_bytes()).ok()?;
                Some(Reading::new(Repairer::after(self.options.clone(), &machine, offset), delivered.get(..place)?))
            }
            _ if is_in_string || !rest.starts_with(['{', '[']) => None,
            // Its place is not known, so a guess about it would be two.
            _ => {
                let options = self.options.clone().at_most(RepairLevel::Syntax);
                let machine = Machine::new(options.depth());
                Some(Reading::new(Repairer::after(options, &machine, offset), ""))
            }
        }
    }

    /// Returns the new text of the open reading; it ends with the root, or where it can't be repaired.
    fn read(&mut self, goes_on: bool) -> String {
        let State::Repairing(reading) = &mut self.state else { return String::new() };
        let mut new = reading.take_new();
        self.repairs.extend(reading.take_repairs());
        if !goes_on {
            new.push_str(&reading.repairer.take_tail().unwrap_or_else(|| reading.repairer.pending().to_owned()));
            self.state = State::AsIs;
        }
        new
    }
}

impl Reading {
    fn new(repairer: Repairer, before: &str) -> Self {
        Self { repairer, root: before.to_owned(), returned: before.len(), reported: 0 }
    }

    /// Takes text. Returns whether more of it is to be read.
    fn feed(&mut self, text: &str) -> bool {
        let fed = self.repairer.feed(text, &mut self.root);
        if fed.is_err() {
            self.repairer.settle_all(&mut self.root);
        }
        fed.is_ok() && !self.repairer.is_closed()
    }

    fn take_new(&mut self) -> String {
        let new = self.root.get(self.returned..).unwrap_or_default().to_owned();
        self.returned = self.root.len();
        new
    }

    fn take_repairs(&mut self) -> Vec<Repair> {
        let repairs = self.repairer.repairs();
        let new = repairs.get(self.reported..).unwrap_or_default().to_vec();
        self.reported = repairs.len();
        new
    }
}

/// Returns where the text begins after white space and the opening line of a fence; `None` if that has not come.
fn start_of_json(text: &str, is_end: bool) -> Option<usize> {
    let start = text.trim_start();
    let at = text.len() - start.len();
    if !start.starts_with('`') {
        return (!start.is_empty() || is_end).then_some(at);
    }
    match start.find('\n') {
        Some(line) => {
            let inner = start.get(line..).unwrap_or_default();
            let rest = inner.trim_start();
            (!rest.is_empty() || is_end).then_some(text.len() - rest.len())
        }
        None => is_end.then_some(at),
    }
}

/// Returns how many characters two texts have in common at their beginnings, but for white space and the kind of quotes:
/// at most [`BEGINNING`]. `None` if those are too few to say that the texts begin alike.
fn common_beginning(text: &str, delivered: &str) -> Option<usize> {
    let folded = |text: &'_ str| -> Vec<u8> {
        let bytes = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
        bytes.map(|byte| if byte == b'\'' { b'"' } else { byte }).take(BEGINNING).collect()
    };
    let (text, delivered) = (folded(text), folded(delivered));
    let common = text.iter().zip(&delivered).take_while(|(one, other)| one == other).count();
    (common >= FEWEST.min(text.len()).min(delivered.len()).max(1)).then_some(common)
}
