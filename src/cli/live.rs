//! Text that is looked at while it comes: what `events` and `paths` share, their arguments among it.

use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;

use clap::ValueEnum;

use super::console::short;
use super::deltas::Slot;
use super::output::To;
use super::source::{Dialect, Refusal, Source};
use super::{Console, Exit};
use crate::envelope::AllowedRoots;
use crate::json::Sink;
use crate::{Document, Limits, SyntaxError, SyntaxErrorKind};

/// How the text comes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Input {
    /// What becomes of text behind a root; by default `next`, in an event stream `stop`.
    #[arg(long, value_enum)]
    trailing: Option<Trailing>,
    /// Feed the text in chunks of at most so many bytes.
    #[arg(long, value_name = "N", default_value_t = BUFFER)]
    chunk: NonZeroUsize,
    /// What the bytes are.
    #[arg(long, value_enum, default_value_t = Dialect::Auto)]
    dialect: Dialect,
    /// Of an event stream, which text: CHOICE, or CHOICE.TOOL for the arguments of a tool call.
    #[arg(long, default_value = "0")]
    slot: Slot,
    #[command(flatten)]
    to: To,
}

/// What becomes of text behind a root, white space and a fence aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Trailing {
    /// It is not looked at.
    Stop,
    /// It is an error.
    Error,
    /// It is the next root: NDJSON, or values one behind the other.
    Next,
}

impl From<Trailing> for crate::Trailing {
    fn from(trailing: Trailing) -> Self {
        match trailing {
            Trailing::Stop => Self::Stop,
            Trailing::Error => Self::Error,
            Trailing::Next => Self::Next,
        }
    }
}

/// A sink that has something to write about what it was told.
pub(super) trait Watcher: Sink {
    /// Writes what is known now. To break means that enough has been seen.
    fn write(&mut self, document: &Document, console: &mut Console) -> io::Result<ControlFlow<()>>;

    /// Text was dropped: from now on spans count from byte `base` of all text.
    fn rebase(&mut self, _base: usize) {}
}

/// Why no more of the text is read.
enum End {
    /// It is whole, or what follows is not looked at.
    Whole,
    /// The watcher has seen enough.
    Enough,
    /// The text leaves the grammar.
    Deviation(SyntaxError),
    Refusal(Refusal),
    /// The file failed, which has been told.
    Unreadable,
}

impl Input {
    /// Makes `--output` the place of all that is written.
    pub(super) fn prepare(&self, console: &mut Console) {
        console.write_to(self.to.output.as_deref());
    }

    /// Reads a file, or standard input for `-`, tells `watcher` what becomes certain, and sends off what it writes
    /// after each read. Then says what became of the text.
    pub(super) fn watch(&self, file: &Path, watcher: &mut impl Watcher, console: &mut Console) -> io::Result<()> {
        let Some(mut input) = console.open(file, true) else { return Ok(()) };
        let mut text = Text::new(self);
        let mut buffer = vec![0; BUFFER.get()];
        let end = loop {
            let read = match input.read(&mut buffer) {
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    console.unreadable::<()>(file, &error);
                    break End::Unreadable;
                }
            };
            let end = if read.is_empty() {
                Some(text.last(watcher, console)?)
            } else {
                read.chunks(self.chunk.get())
                    .find_map(|chunk| text.next(chunk, watcher, console).transpose())
                    .transpose()?
            };
            console.flush()?;
            if let Some(end) = end {
                break end;
            }
        };
        text.conclude(end, &file.display().to_string(), console);
        Ok(())
    }
}

/// The text so far.
struct Text {
    source: Source,
    document: Document,
    /// What the bytes are is known, and the document is made for it.
    has_begun: bool,
    trailing: Option<Trailing>,
    /// What the newest bytes say.
    new: String,
}

impl Text {
    fn new(input: &Input) -> Self {
        let source = Source::new(input.dialect, input.slot);
        Self { source, document: Document::new(0), has_begun: false, trailing: input.trailing, new: String::new() }
    }

    /// Takes a chunk; why it is the last one, if it is.
    fn next(&mut self, chunk: &[u8], watcher: &mut impl Watcher, console: &mut Console) -> io::Result<Option<End>> {
        self.new.clear();
        let fed = self.source.feed(chunk, &mut self.new);
        let end = self.push(watcher, console)?.or_else(|| fed.err().map(|refusal| self.refused(refusal)));
        // Of an event stream the rest is read all the same: it may end with an error.
        let is_over = self.document.is_complete() && self.trailing == Some(Trailing::Stop) && !self.source.is_events();
        Ok(end.or(is_over.then_some(End::Whole)))
    }

    /// The bytes are all there.
    fn last(&mut self, watcher: &mut impl Watcher, console: &mut Console) -> io::Result<End> {
        self.new.clear();
        let fed = self.source.finish(&mut self.new);
        let end = self.push(watcher, console)?.or_else(|| fed.err().map(|refusal| self.refused(refusal)));
        if let Some(end) = end {
            return Ok(end);
        }
        // Fails where the root is open, which the document itself knows: only a number needs to be told.
        let _ = self.document.finish_with(watcher);
        let is_enough = watcher.write(&self.document, console)?.is_break();
        Ok(if is_enough { End::Enough } else { End::Whole })
    }

    /// Pushes the new text root by root. What was written about a root lets its text go.
    fn push(&mut self, watcher: &mut impl Watcher, console: &mut Console) -> io::Result<Option<End>> {
        if !self.has_begun && !self.new.is_empty() {
            self.has_begun = true;
            // Only now it is known what the bytes are.
            let usual = if self.source.is_events() { Trailing::Stop } else { Trailing::Next };
            let trailing = *self.trailing.get_or_insert(usual);
            self.document = Document::with_options(Limits::default().max_depth, AllowedRoots::Any, trailing.into());
        }
        let mut taken = 0;
        while let Some(rest) = self.new.get(taken..).filter(|rest| !rest.is_empty()) {
            let pushed = self.document.push_root_with(rest, watcher);
            if watcher.write(&self.document, console)?.is_break() {
                return Ok(Some(End::Enough));
            }
            match pushed {
                Ok(more) => taken += more,
                Err(error) => return Ok(Some(End::Deviation(error))),
            }
            // What stands before an error is shown: a little of it is kept.
            if self.document.text().len() > KEPT {
                self.document.forget_roots();
                watcher.rebase(self.document.base());
            }
        }
        Ok(None)
    }

    /// What is wrong in the end with a source that gives no more.
    fn refused(&self, refusal: Refusal) -> End {
        let Refusal::Encoding(bytes) = &refusal else { return End::Refusal(refusal) };
        if self.document.is_complete() && self.trailing == Some(Trailing::Stop) {
            return End::Whole;
        }
        if !self.document.is_complete() && self.document.root_start().is_some() {
            // The machine knows bytes: it tells what `check` tells, and the end of a text that is cut inside a
            // character is no error.
            return match self.document.machine().clone().feed(bytes) {
                Ok(_) => End::Whole,
                Err(error) => End::Deviation(error),
            };
        }
        let kind = SyntaxErrorKind::InvalidUtf8(bytes.first().copied().unwrap_or_default());
        End::Deviation(SyntaxError { kind, offset: self.document.text().len() })
    }

    /// Tells people what became of the text, and adds the verdict.
    fn conclude(&self, end: End, name: &str, console: &mut Console) {
        let document = &self.document;
        let exit = match end {
            End::Unreadable => Exit::Io,
            End::Enough => Exit::Complete,
            End::Deviation(error) => {
                console.deviation(name, document, &error);
                if document.is_complete() && self.trailing != Some(Trailing::Stop) {
                    console.note("with --trailing stop, what stands behind the first root is not looked at");
                }
                Exit::Invalid
            }
            End::Refusal(refusal) => {
                console.note(format_args!("{name}: {refusal}"));
                Exit::Invalid
            }
            End::Whole if document.is_complete() => Exit::Complete,
            End::Whole if document.is_prose() => {
                console.note(format_args!("{name}: there is no JSON in the text"));
                Exit::Invalid
            }
            End::Whole if !self.has_begun && self.source.is_events() => {
                console.note(format_args!("{name}: the stream has no text in the slot that is looked at (--slot)"));
                Exit::Cut
            }
            End::Whole => {
                let (cut, base) = (document.cut(), document.base());
                let place = if cut.path.is_empty() { "the root".into() } else { short(&cut.path) };
                console.note(format_args!(
                    "{name}: cut at byte {}, in `{}`, at {place}",
                    base + cut.offset,
                    cut.state.as_str()
                ));
                Exit::Cut
            }
        };
        console.verdict(exit);
    }
}

/// Bytes of text that are kept, whether they are needed or not.
const KEPT: usize = 256 << 10;

/// Bytes that are read at once at most: enough to make system calls cheap.
const BUFFER: NonZeroUsize = NonZeroUsize::new(64 << 10).expect("not zero");
