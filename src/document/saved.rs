//! A document's state as data that outlives its process: what a log, a database row or another machine can keep beside
//! the text.
//!
//! It knows containers and offsets, and nothing of the machine's inside: what stands between the last whole value and
//! the end of the text (a comma, a key, half a token) is read again, and so is all that stands before the root. The
//! cost is a digest of the text, and the last token.

use std::fmt;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::form::{FrameForm, RootForm, RootsForm, TrailingForm};
use super::parser::Parser;
use super::{Document, Trailing};
use crate::json::{Frame, Kind, Machine};

/// Where a document stands, without its text: [`Document::save`] makes one, [`Document::resume`] takes it.
///
/// As JSON it is one object: its version, the options, the length and a digest of the text, where the newest root begins
/// and ends, and the open containers. Offsets are bytes of text.
///
/// ```
/// use restitch::{Document, Saved};
///
/// let mut document = Document::new(16);
/// document.push(r#"{"a": [1, "tw"#)?;
/// let row = serde_json::to_string(&document.save())?;
///
/// // In another process, with the text from somewhere else:
/// let saved: Saved = serde_json::from_str(&row)?;
/// let mut document = Document::resume(r#"{"a": [1, "tw"#, &saved)?;
/// document.push(r#"o"]}"#)?;
/// assert_eq!(document.root(), Some(r#"{"a": [1, "two"]}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    version: u64,
    // All else may be absent, so that a version that lacks it is refused by its number and not by what it lacks.
    #[serde(default)]
    depth: Option<u64>,
    #[serde(default)]
    roots: Option<RootsForm>,
    #[serde(default)]
    trailing: Option<TrailingForm>,
    /// Bytes of text.
    #[serde(default)]
    length: Option<u64>,
    /// Of the whole text: 16 hexadecimal digits, because not every reader of JSON has 64 bits for a number.
    #[serde(default)]
    digest: Option<String>,
    /// The newest root.
    #[serde(default)]
    root: Option<RootForm>,
    /// The open containers, the root first.
    #[serde(default)]
    frames: Option<Vec<FrameForm>>,
}

/// Why a saved form was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeError {
    /// It is of this version, which is not known here.
    Version(u64),
    /// It lacks this part.
    Missing(&'static str),
    /// It is of a text of another length.
    Length {
        /// Bytes of the text that it was made of.
        saved: u64,
        /// Bytes of the text that was given.
        given: u64,
    },
    /// It is of another text of the same length.
    Digest,
    /// The root does not begin, or does not end, where it says.
    Root,
    /// This open container, counted from the root's 0, is not what stands in the text.
    Frame(usize),
    /// What follows the last whole value is not the beginning of anything that may follow there.
    State,
}

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "saved by version {version}, and only version {VERSION} is known"),
            Self::Missing(part) => write!(f, "the saved form has no `{part}`"),
            Self::Length { saved, given } => write!(f, "saved at {saved} bytes of text, and {given} are given"),
            Self::Digest => f.write_str("saved for another text of this length"),
            Self::Root => f.write_str("the text's root is not where the saved form has it"),
            Self::Frame(n) => write!(f, "open container {n} of the saved form is not what the text has"),
            Self::State => f.write_str("the text goes on differently behind the last value of the saved form"),
        }
    }
}

impl std::error::Error for ResumeError {}

/// The version of the form that is written and read here. A later one never changes the type of what is there.
const VERSION: u64 = 1;

impl Document {
    /// What another process needs, beside the text, to go on here. Costs O(depth) and a digest of the text.
    pub fn save(&self) -> Saved {
        let Parser { roots, trailing, depth, start, before, ref machine, .. } = self.parser;
        Saved {
            version: VERSION,
            depth: Some(depth as u64),
            roots: Some(roots.into()),
            trailing: Some(trailing.into()),
            length: Some(self.text.len() as u64),
            digest: Some(digest(&self.text)),
            root: start.map(|start| RootForm {
                start: start as u64,
                end: self.root_end().map(|end| end as u64),
                before: before as u64,
            }),
            frames: Some(machine.frames().iter().map(FrameForm::of).collect()),
        }
    }

    /// The document that `saved` was made of. From here on it gives the same events, errors and answers as that one
    /// does; only checkpoints, and what [`explain`](Self::explain) shows behind an error of the past, are not kept. Sinks
    /// are brought up to date by [`replay`](Self::replay), which takes a number that [`finish`](Self::finish) ended, and
    /// that more digits followed, for one.
    ///
    /// # Errors
    /// What of `saved` does not fit `text`. Counts of whole children, and what stands inside whole values, are
    /// believed.
    pub fn resume(text: impl Into<String>, saved: &Saved) -> Result<Self, ResumeError> {
        let text = text.into();
        if saved.version != VERSION {
            return Err(ResumeError::Version(saved.version));
        }
        let length = saved.length.ok_or(ResumeError::Missing("length"))?;
        if length != text.len() as u64 {
            return Err(ResumeError::Length { saved: length, given: text.len() as u64 });
        }
        if *saved.digest.as_ref().ok_or(ResumeError::Missing("digest"))? != digest(&text) {
            return Err(ResumeError::Digest);
        }
        let parser = saved.parser(&text)?;
        Ok(Self {
            text,
            parser,
            refused: String::new(),
            restored: 0,
            forgotten: Vec::new(),
            ended: Vec::new(),
            dropped: super::Dropped::default(),
        })
    }
}

impl Saved {
    fn parser(&self, text: &str) -> Result<Parser, ResumeError> {
        let depth = self.depth.ok_or(ResumeError::Missing("depth"))?;
        // A limit that does not fit is one that is never reached.
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        let roots = self.roots.ok_or(ResumeError::Missing("roots"))?;
        let trailing = self.trailing.ok_or(ResumeError::Missing("trailing"))?;
        let frames = self.frames.as_deref().ok_or(ResumeError::Missing("frames"))?;
        let mut parser = Parser::new(depth, roots.into(), trailing.into());
        let first = parser.opening.feed(text);
        let Some(root) = self.root else {
            let is_empty = first.is_none() && frames.is_empty();
            return if is_empty { Ok(parser) } else { Err(ResumeError::Root) };
        };
        let (start, before) = root.placed(first, text, &parser).ok_or(ResumeError::Root)?;
        (parser.start, parser.before) = (Some(start), before);
        parser.machine = match root.end {
            None => open(text, start, depth, frames)?,
            Some(end) => closed(text, start, end, depth).filter(|_| frames.is_empty()).ok_or(ResumeError::Root)?,
        };
        // Nothing but white space is kept behind a root that is closed, where more may not be kept unread.
        if root.end.is_some() && parser.trailing != Trailing::Stop && parser.behind(text, 0).is_some() {
            return Err(ResumeError::State);
        }
        Ok(parser)
    }
}

impl RootForm {
    /// Where the root begins, and the number of roots before it, if that can be. `first` is where the text's first one
    /// begins.
    fn placed(&self, first: Option<usize>, text: &str, parser: &Parser) -> Option<(usize, usize)> {
        let (start, before) = (usize::try_from(self.start).ok()?, usize::try_from(self.before).ok()?);
        let fits = match before {
            0 => start == first?,
            // Each of them took a byte.
            _ => parser.trailing == Trailing::Next && start.checked_sub(first?)? >= before,
        };
        let begins = parser.roots.allows(*text.as_bytes().get(start)?);
        (fits && begins).then_some((start, before))
    }
}

/// The machine in an open root. Of each container what lies between its last whole child and the child that is open is
/// read again, and gives its key; the last one's is followed by the open token.
fn open(text: &str, start: usize, depth: usize, forms: &[FrameForm]) -> Result<Machine, ResumeError> {
    let bytes = text.as_bytes();
    let mut machine = Machine::starting_at(start, depth);
    let mut frames = Vec::with_capacity(forms.len());
    for (n, form) in forms.iter().enumerate() {
        let wrong = ResumeError::Frame(n);
        let Some(frame) = form.frame() else { return Err(wrong) };
        let gap = bytes.get(machine.offset()..=frame.start).unwrap_or_default();
        let is_read = machine.feed(gap).is_ok_and(|read| read == gap.len());
        if !is_read || machine.frames().len() != n + 1 || machine.offset() != frame.start + 1 {
            return Err(wrong);
        }
        if frame.count > 0 {
            if !has_children(&frame, bytes) {
                return Err(wrong);
            }
            machine.stand_behind_child(&frame);
        }
        frames.push(frame);
    }
    let rest = bytes.get(machine.offset()..).unwrap_or_default();
    let is_read = machine.feed(rest).is_ok_and(|read| read == rest.len());
    if !is_read || machine.is_done() || machine.frames().len() < frames.len() {
        return Err(ResumeError::State);
    }
    match machine.frames().iter().zip(&frames).position(|(found, saved)| found != saved) {
        Some(n) => Err(ResumeError::Frame(n)),
        None if machine.frames().len() > frames.len() => Err(ResumeError::State),
        None => Ok(machine),
    }
}

/// As many children may stand between the bracket and `end`; so may the newest key, unless it stands behind `end`.
fn has_children(frame: &Frame, bytes: &[u8]) -> bool {
    let ends_value = |byte: &u8| matches!(byte, b'}' | b']' | b'"' | b'e' | b'l' | b'0'..=b'9');
    let is_quote = |at: usize| bytes.get(at) == Some(&b'"');
    let Some(room) = frame.end.checked_sub(frame.start) else { return false };
    let key = frame.key;
    let is_key = frame.kind == Kind::Array
        || key.start >= frame.end
        || (frame.start + 1 < key.start
            && (key.start..frame.end).contains(&key.end)
            && [key.start - 1, key.end].into_iter().all(is_quote));
    // A child takes a byte, and a comma or the bracket before it another one.
    is_key && room / 2 >= frame.count && bytes.get(frame.end - 1).is_some_and(ends_value)
}

/// The machine behind a closed root, if one may end there. A container is believed, anything else read again.
fn closed(text: &str, start: usize, end: u64, depth: usize) -> Option<Machine> {
    let end = usize::try_from(end).ok()?;
    match text.as_bytes().get(start..end)? {
        [b'{', .., b'}'] | [b'[', .., b']'] => Some(Machine::ended_at(end, depth)),
        scalar => {
            let mut machine = Machine::starting_at(start, depth);
            machine.feed(scalar).ok()?;
            machine.finish().ok()?;
            (machine.offset() == end).then_some(machine)
        }
    }
}

fn digest(text: &str) -> String {
    format!("{:016x}", XxHash3_64::oneshot(text.as_bytes()))
}
