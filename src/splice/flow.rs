//! Passes the fragment's text after the seam to the document, without the text that the document
//! already has.
//!
//! Text flows through a copy of the machine while an alignment is tried, and to the document once
//! it has won: the same code runs over both. A [`Rule`] names each change: a comma at the seam, a
//! repeated member, a member that the fragment has before the one that was cut. Only members of
//! objects that were open at the cut are examined; inside new containers text flows in bulk.

mod member;
mod target;

use memchr::{memchr, memchr2_iter, memchr3};

use super::cursor::is_in_key;
use super::seam::{Repair, Rule};
use super::slot::Slot;
use crate::children::KeyHash;
use crate::error::SyntaxError;
use crate::json::{CutState, Frame, Kind, Machine};
pub(super) use member::DeferredMember;
use member::{DuplicateMember, delivered};
pub(super) use target::{Delivered, DryRun, FlowTarget, TextSum, skippable_len};

/// The reason why text can't flow any further.
#[derive(Clone, Debug)]
pub(super) enum FlowError {
    Syntax(SyntaxError),
    /// A delivered member is repeated with another value.
    Overwrites,
    /// Text follows the root.
    AfterRoot,
    /// More bytes wait than the cap allows.
    Pending,
    /// An ellipsis replaces elements or members.
    Ellipsis,
}

impl From<SyntaxError> for FlowError {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

/// One candidate's path of a fragment's text into the document.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// The keys of the open members, from the root on: of the objects among the containers that are
    /// open at the cut.
    open: Vec<Option<KeyHash>>,
    cut: usize,
    state: FlowState,
    ellipsis: Ellipsis,
    /// Text that waits: a comma and a key, a member that may have been delivered.
    pending: String,
    cap: usize,
    deferred: Vec<DeferredMember>,
    repairs: SeamRepairs,
}

/// The changes to a fragment's text, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct SeamRepairs(Vec<Repair>);

impl SeamRepairs {
    fn note(&mut self, rule: Rule, offset: usize) {
        self.0.push(Repair { rule, offset });
    }

    pub(super) fn as_slice(&self) -> &[Repair] {
        &self.0
    }

    /// Returns the number of members that were left out because they had been delivered.
    pub(super) fn dropped(&self) -> usize {
        let is_dropped = |repair: &&Repair| repair.rule == Rule::MemberDropped;
        self.0.iter().filter(is_dropped).count()
    }
}

/// The handling of `"..."` as the last element of an array that was open at the cut, or as a key:
/// models write it instead of the elements that they leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ellipsis {
    /// The text before it is kept, and it ends the fragment.
    Ends,
    /// It is text.
    IsText,
    /// It is text, and one was seen.
    Seen,
}

impl Ellipsis {
    /// Handles an ellipsis where an element or a key is due; `pending` is the text that waits.
    ///
    /// # Errors
    /// Fails when it ends the fragment.
    fn take(&mut self, pending: &mut String) -> Result<(), FlowError> {
        if *self == Self::Ends {
            pending.clear();
            return Err(FlowError::Ellipsis);
        }
        *self = Self::Seen;
        Ok(())
    }
}

/// The end of the delivered text.
#[derive(Clone, Copy, Debug)]
struct CutShape {
    after_comma: bool,
    /// Whether it ends with a complete value.
    after_value: bool,
    /// Whether that value is a number, which may be incomplete.
    in_number: bool,
}

#[derive(Clone, Debug)]
enum FlowState {
    /// No significant text has arrived.
    Start(CutShape),
    /// In the key that was cut; `pending` has its text, which is already delivered.
    OpenKey,
    Plain,
    /// After a comma, in a container that was open at the cut.
    Comma,
    /// After a comma that was delivered, in an object that was open at the cut.
    KeyDue,
    /// In a string of dots, which may be the last element; or after it.
    Dots {
        is_closed: bool,
    },
    /// In the key after the comma.
    Key {
        escaped: bool,
    },
    /// In the value of a member that was delivered before.
    Again(Box<DuplicateMember>),
    /// After the value of such a member.
    AfterAgain {
        has_comma: bool,
    },
}

impl Flow {
    /// Creates a flow to the end of the slot's text, in which at most `cap` bytes may wait.
    pub(super) fn new(slot: &Slot, cap: usize, ellipsis: Ellipsis) -> Self {
        let machine = slot.document().machine();
        let last = slot.text().trim_end().as_bytes().last();
        let in_number = machine.cut_state() == CutState::Number;
        let key = |frame: &Frame| {
            // An empty key has an offset in the text; a missing key has none.
            let has_key = frame.kind == Kind::Object && frame.key.end > 0;
            has_key.then(|| KeyHash::of_raw(frame.key.of(slot.text())))
        };
        // The shape is read once, before any text: repairs at the seam depend on the delivered end, which
        // grows with each push.
        let tail = CutShape {
            after_comma: !machine.in_token() && last == Some(&b','),
            after_value: machine.cut_state() == CutState::AfterValue
                || in_number && last.is_some_and(u8::is_ascii_digit),
            in_number,
        };
        Self {
            open: slot.frames().iter().map(key).collect(),
            cut: slot.text().len(),
            state: FlowState::Start(tail),
            ellipsis,
            pending: String::new(),
            cap,
            deferred: Vec::new(),
            repairs: SeamRepairs::default(),
        }
    }

    /// Passes on the rest of an escape first, and keeps members that belong after the one that was
    /// cut.
    ///
    /// # Errors
    /// Fails when the rest is illegal.
    pub(super) fn begin<T: FlowTarget>(
        &mut self,
        target: &mut T,
        rest: &str,
        deferred: &[DeferredMember],
    ) -> Result<(), FlowError> {
        self.deferred = deferred.to_vec();
        if !rest.is_empty() {
            self.repairs
                .note(Rule::EscapeCompleted, target.machine().offset());
            self.feed(target, rest)?;
        }
        Ok(())
    }

    /// Returns the number of bytes that wait.
    pub(super) fn pending(&self) -> usize {
        match &self.state {
            FlowState::OpenKey => 0,
            FlowState::Again(again) => again.pending(),
            _ => self.pending.len(),
        }
    }

    /// Returns the number of bytes that may wait.
    pub(super) fn cap(&self) -> usize {
        self.cap
    }

    /// Whether all text that has arrived was passed on or left out.
    pub(super) fn is_settled(&self) -> bool {
        self.pending() == 0
            && !matches!(
                self.state,
                FlowState::Again(_) | FlowState::AfterAgain { .. }
            )
    }

    /// Whether text is passed on unexamined.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.state, FlowState::Plain)
    }

    pub(super) fn repairs(&self) -> &SeamRepairs {
        &self.repairs
    }

    /// Whether members wait for the end of the one that was cut.
    pub(super) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Passes on text, up to the end of the root.
    ///
    /// # Errors
    /// Fails at a byte that is illegal there, or at a member that must not be overwritten. The text
    /// before it was passed on.
    pub(super) fn feed<T: FlowTarget>(
        &mut self,
        target: &mut T,
        text: &str,
    ) -> Result<(), FlowError> {
        self.feed_root(target, text).map(|_| ())
    }

    /// Passes on text like [`feed`](Self::feed), and returns the number of bytes that follow the
    /// root.
    ///
    /// # Errors
    /// Those of [`feed`](Self::feed).
    pub(super) fn feed_root<T: FlowTarget>(
        &mut self,
        target: &mut T,
        text: &str,
    ) -> Result<usize, FlowError> {
        let mut rest = text;
        while !rest.is_empty() && !target.machine().is_done() {
            let bulk = self.bulk(target.machine(), rest);
            if bulk == rest.len() {
                self.pass(target, rest)?;
                return Ok(0);
            }
            let Some(c) = rest.chars().next() else { break };
            let (now, later) = rest.split_at(bulk.max(c.len_utf8()));
            if bulk > 0 {
                self.pass(target, now)?;
            } else {
                self.step(target, c, now)?;
                if self.pending() > self.cap {
                    return Err(FlowError::Pending);
                }
            }
            rest = later;
        }
        Ok(rest.len())
    }

    /// Whether all of `text`, a short one, continues an open string, and needs no examination.
    #[inline]
    pub(super) fn is_in_string(&self, machine: &Machine, text: &str) -> bool {
        self.is_plain()
            && machine.in_string()
            && text.len() < SHORT
            && !text.as_bytes().contains(&b'"')
    }

    /// Ends the fragment. A comma and the beginning of a key are passed on unchanged; a member that
    /// is being compared was delivered before, and is left out.
    ///
    /// # Errors
    /// Fails when the waiting text is illegal.
    pub(super) fn finish<T: FlowTarget>(&mut self, target: &mut T) -> Result<(), FlowError> {
        match self.state {
            FlowState::Comma | FlowState::Key { .. } | FlowState::Dots { .. } => {
                return self.release(target);
            }
            FlowState::Again(ref again) => {
                self.state = FlowState::AfterAgain {
                    has_comma: again.has_comma(),
                }
            }
            _ => self.pending.clear(),
        }
        Ok(())
    }

    /// Returns the number of bytes of `text` that need no examination: those in strings and in new
    /// containers, up to the first comma or bracket elsewhere, and numbers in a row.
    fn bulk(&self, machine: &Machine, text: &str) -> usize {
        let bytes = text.as_bytes();
        match self.state {
            FlowState::Plain => {}
            FlowState::Comma
                if in_array(machine) && bytes.first().is_some_and(u8::is_ascii_digit) =>
            {
                return numbers_len(bytes);
            }
            _ => return 0,
        }
        let found = if machine
            .frames()
            .last()
            .is_some_and(|frame| frame.start >= self.cut)
        {
            // At least `new` containers opened since the cut: the first of them does not end before
            // `new` closing brackets.
            let new = machine
                .frames()
                .len()
                .saturating_sub(self.open.len())
                .max(1);
            let mut ends = bytes
                .iter()
                .enumerate()
                .filter(|(_, byte)| matches!(byte, b'}' | b']'));
            match bytes.len() {
                ..SHORT => ends.nth(new - 1).map(|(at, _)| at),
                _ => memchr2_iter(b'}', b']', bytes).nth(new - 1),
            }
        } else if machine.in_string() {
            if bytes.len() < SHORT {
                bytes.iter().position(|byte| *byte == b'"')
            } else {
                memchr(b'"', bytes)
            }
        } else {
            let numbers = if in_array(machine) {
                numbers_len(bytes)
            } else {
                0
            };
            let end = memchr3(b',', b'}', b']', bytes).unwrap_or(bytes.len());
            // The root may end with a bracket.
            return numbers.max(end + usize::from(bytes.get(end) == Some(&b']')));
        };
        found.map_or(bytes.len(), |at| at + 1)
    }

    /// Passes on text that needs no examination, and a comma that waits before it.
    fn pass<T: FlowTarget>(&mut self, target: &mut T, text: &str) -> Result<(), FlowError> {
        if self.pending.is_empty() {
            self.state = FlowState::Plain;
            return Ok(target.take(text)?);
        }
        self.pending.push_str(text);
        self.release(target)
    }

    fn step<T: FlowTarget>(
        &mut self,
        target: &mut T,
        c: char,
        text: &str,
    ) -> Result<(), FlowError> {
        match &mut self.state {
            &mut FlowState::Start(tail) => self.start(target, tail, c, text),
            FlowState::OpenKey => {
                target.take(text)?;
                if target.machine().in_string() {
                    self.pending.push_str(text);
                    return Ok(());
                }
                let hash = KeyHash::of_raw(&std::mem::take(&mut self.pending));
                self.state = FlowState::Plain;
                // The beginning of the key was delivered: the member can't be left out as a repeat
                // of the other one.
                if delivered(target, self.cut, hash).is_some() {
                    Err(FlowError::Overwrites)
                } else {
                    Ok(())
                }
            }
            FlowState::Plain => self.plain(target, c, text),
            FlowState::Comma if is_space(c) => {
                self.pending.push_str(text);
                Ok(())
            }
            FlowState::KeyDue if is_space(c) => Ok(target.take(text)?),
            FlowState::Comma | FlowState::KeyDue if c == '"' => {
                self.pending.push_str(text);
                let in_object = in_object(target.machine());
                self.state = if in_object {
                    FlowState::Key { escaped: false }
                } else {
                    FlowState::Dots { is_closed: false }
                };
                Ok(())
            }
            FlowState::Comma | FlowState::KeyDue => {
                if in_array(target.machine()) && begins_element(target, c) {
                    return self.pass(target, text);
                }
                // A comma that nothing legal follows is not delivered.
                let mut machine = target.machine().clone();
                machine.feed(self.pending.as_bytes())?;
                machine.feed(text.as_bytes())?;
                self.release(target)?;
                self.plain(target, c, text)
            }
            FlowState::Key { escaped } => {
                self.pending.push_str(text);
                let ends = c == '"' && !*escaped;
                *escaped = c == '\\' && !*escaped;
                if ends { self.end_key(target) } else { Ok(()) }
            }
            &mut FlowState::Dots { is_closed } => self.dots(target, is_closed, c, text),
            FlowState::Again(_) => self.again(target, c, text),
            FlowState::AfterAgain { .. } if is_space(c) => Ok(()),
            &mut FlowState::AfterAgain { has_comma } => match c {
                ',' if has_comma => self.comma(),
                ',' => {
                    self.state = FlowState::KeyDue;
                    Ok(())
                }
                _ => {
                    self.state = FlowState::Plain;
                    self.plain(target, c, text)
                }
            },
        }
    }

    /// Takes the first significant text: a comma may be missing, or there may be one too many.
    fn start<T: FlowTarget>(
        &mut self,
        target: &mut T,
        tail: CutShape,
        c: char,
        text: &str,
    ) -> Result<(), FlowError> {
        let machine = target.machine();
        let in_object = in_object(machine);
        if machine.in_string() {
            if !is_in_key(target.slot()) {
                self.state = FlowState::Plain;
                return self.plain(target, c, text);
            }
            self.state = FlowState::OpenKey;
            let from = machine.token_start().saturating_add(1);
            target
                .slot()
                .text()
                .get(from..self.cut)
                .unwrap_or_default()
                .clone_into(&mut self.pending);
            return self.step(target, c, text);
        }
        if is_space(c) {
            return Ok(target.take(text)?);
        }
        self.state = FlowState::Plain;
        if tail.after_comma && c == ',' {
            self.repairs
                .note(Rule::CommaDropped, target.machine().offset());
            self.state = if in_object {
                FlowState::KeyDue
            } else {
                FlowState::Plain
            };
            return Ok(());
        }
        if !tail.after_value && c == '"' && (in_object && tail.after_comma || in_array(machine)) {
            self.state = FlowState::KeyDue;
            return self.step(target, c, text);
        }
        let begins_value = matches!(c, '{' | '[' | '"' | '-' | '0'..='9' | 't' | 'f' | 'n');
        // Digits continue the number. Brackets after a number are more likely a row that begins
        // again.
        let goes_on = tail.in_number && !matches!(c, '"' | 't' | 'f' | 'n');
        if tail.after_value && !goes_on && if in_object { c == '"' } else { begins_value } {
            self.repairs
                .note(Rule::CommaAdded, target.machine().offset());
            self.comma()?;
            if in_object {
                return self.step(target, c, text);
            }
            self.release(target)?;
        }
        self.plain(target, c, text)
    }

    fn plain<T: FlowTarget>(
        &mut self,
        target: &mut T,
        c: char,
        text: &str,
    ) -> Result<(), FlowError> {
        let machine = target.machine();
        // Only containers that were open at the cut are examined.
        let examined = machine
            .frames()
            .last()
            .filter(|frame| frame.start < self.cut && !machine.in_string());
        let kind = examined.map(|frame| frame.kind);
        if kind == Some(Kind::Object) && matches!(c, ',' | '}') {
            self.move_deferred(target)?;
        }
        if kind.is_some() && c == ',' {
            self.comma()
        } else {
            Ok(target.take(text)?)
        }
    }

    /// Takes text of a string that has only dots so far, or the text after it.
    fn dots<T: FlowTarget>(
        &mut self,
        target: &mut T,
        is_closed: bool,
        c: char,
        text: &str,
    ) -> Result<(), FlowError> {
        match c {
            '.' | '…' if !is_closed => self.pending.push_str(text),
            '"' if !is_closed && self.pending.ends_with(['.', '…']) => {
                self.pending.push_str(text);
                self.state = FlowState::Dots { is_closed: true };
            }
            _ if is_closed && is_space(c) => self.pending.push_str(text),
            _ => {
                if is_closed && c == ']' {
                    self.ellipsis.take(&mut self.pending)?;
                }
                self.release(target)?;
                return self.plain(target, c, text);
            }
        }
        Ok(())
    }

    /// Whether an ellipsis was taken for text.
    pub(super) fn has_ellipsis(&self) -> bool {
        self.ellipsis == Ellipsis::Seen
    }

    /// Keeps a comma until the next character shows what it separates.
    fn comma(&mut self) -> Result<(), FlowError> {
        self.pending.push(',');
        self.state = FlowState::Comma;
        Ok(())
    }

    fn release<T: FlowTarget>(&mut self, target: &mut T) -> Result<(), FlowError> {
        self.state = FlowState::Plain;
        let passed = target.take(&self.pending);
        self.pending.clear();
        Ok(passed?)
    }
}

/// Whether the character is legal after any legal comma of an array, and needs no examination.
fn begins_element<T: FlowTarget>(target: &T, c: char) -> bool {
    match c {
        '-' | '0'..='9' | 't' | 'f' | 'n' => true,
        '{' | '[' => target.machine().frames().len() < target.slot().document().max_depth(),
        _ => false,
    }
}

/// Below this number of bytes a loop finds a byte faster than a search that has to be prepared.
// Most pushes of a stream are shorter. `scripts/instructions` counts text after a seam.
const SHORT: usize = 16;

/// Returns the length of the whole numbers that `text` begins with: digits, and commas that a digit
/// follows.
fn numbers_len(text: &[u8]) -> usize {
    let (mut at, mut end) = (0, 0);
    loop {
        match text.get(at) {
            Some(b'0'..=b'9') => {
                at += 1;
                end = at;
            }
            Some(b',') => {
                let spaces = text
                    .get(at + 1..)
                    .unwrap_or_default()
                    .iter()
                    .take_while(|byte| **byte == b' ')
                    .count();
                at += 1 + spaces;
                if !text.get(at).is_some_and(u8::is_ascii_digit) {
                    return end;
                }
            }
            _ => return end,
        }
    }
}

fn in_object(machine: &Machine) -> bool {
    machine
        .frames()
        .last()
        .is_some_and(|frame| frame.kind == Kind::Object)
}

fn in_array(machine: &Machine) -> bool {
    machine
        .frames()
        .last()
        .is_some_and(|frame| frame.kind == Kind::Array)
}

/// Whether the character is white space of the grammar.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}
