//! Text that is read piece by piece: the code and the arguments that `events` and `paths` share.

use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;

use clap::ValueEnum;

use super::console::short;
use super::deltas;
use super::output::To;
use super::parsed::{NO_JSON, half_mistake};
use super::source::{Dialect, Refusal, Source};
use super::{Console, Exit};
use restitch::AllowedRoots;
use restitch::json::Sink;
use restitch::provider::SlotId;
use restitch::{Document, Limits, SyntaxError, SyntaxErrorKind};

/// How the text is read.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LiveInput {
    /// What to do with text after a root. Default: `next`, in an event stream `stop`.
    #[arg(long, value_enum)]
    trailing: Option<Trailing>,
    /// Feed the text in chunks of at most N bytes.
    #[arg(long, value_name = "N", default_value_t = BUFFER)]
    chunk: NonZeroUsize,
    /// The type of the bytes: text, or an answer of an API.
    #[arg(long, value_enum, default_value_t = Dialect::Auto)]
    dialect: Dialect,
    /// Which text of an answer: CHOICE, or CHOICE.TOOL for the arguments of a tool call.
    #[arg(long, default_value = "0", value_parser = deltas::slot)]
    slot: SlotId,
    #[command(flatten)]
    to: To,
}

/// What to do with text after a root, other than white space and a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Trailing {
    /// Ignore it.
    Stop,
    /// Report an error.
    Error,
    /// Take it as the next root, as in NDJSON.
    Next,
}

impl From<Trailing> for restitch::Trailing {
    fn from(trailing: Trailing) -> Self {
        match trailing {
            Trailing::Stop => Self::Stop,
            Trailing::Error => Self::Error,
            Trailing::Next => Self::Next,
        }
    }
}

/// A sink that writes about the events that it was given.
pub(super) trait Watcher: Sink {
    /// Writes the results up to now. Breaks when the watcher wants no more.
    fn write(&mut self, document: &Document, console: &mut Console) -> io::Result<ControlFlow<()>>;

    /// Learns that text was dropped: from now on spans count from byte `base` of the whole text.
    fn rebase(&mut self, _base: usize) {}
}

/// Why the text is not read any further.
enum LiveEnd {
    /// The program has read the whole text, or ignores the rest.
    Whole,
    /// The watcher wants no more.
    Enough,
    /// The text has left the grammar.
    Deviation(SyntaxError),
    Refusal(Refusal),
    /// The file failed, and that was reported.
    Unreadable,
}

impl LiveInput {
    /// Sends all output to the file of `--output`.
    pub(super) fn prepare(&self, console: &mut Console) {
        console.write_to(self.to.output.as_deref());
    }

    /// Reads a file, or standard input for `-`, passes the parser's events to `watcher`, and
    /// flushes the output after each read. At the end reports how the text ended.
    pub(super) fn watch(
        &self,
        file: &Path,
        watcher: &mut impl Watcher,
        console: &mut Console,
    ) -> io::Result<()> {
        let Some(mut input) = console.open(file, true) else {
            return Ok(());
        };
        let mut text = Text::new(self);
        let mut buffer = vec![0; BUFFER.get()];
        let end = loop {
            let read = match input.read(&mut buffer) {
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    console.unreadable::<()>(file, &error);
                    break LiveEnd::Unreadable;
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

/// The text read up to now.
struct Text {
    source: Source,
    document: Document,
    /// The type of the bytes is known, and the document was created for it.
    has_begun: bool,
    trailing: Option<Trailing>,
    /// The text of the newest bytes.
    new: String,
}

impl Text {
    fn new(input: &LiveInput) -> Self {
        let source = Source::new(input.dialect, input.slot);
        Self {
            source,
            document: Document::new(0),
            has_begun: false,
            trailing: input.trailing,
            new: String::new(),
        }
    }

    /// Takes a chunk. Returns the reason if no other one is read.
    fn next(
        &mut self,
        chunk: &[u8],
        watcher: &mut impl Watcher,
        console: &mut Console,
    ) -> io::Result<Option<LiveEnd>> {
        self.new.clear();
        let fed = self.source.feed(chunk, &mut self.new);
        let end = self
            .push(watcher, console)?
            .or_else(|| fed.err().map(|refusal| self.refused(refusal)));
        // An event stream is read to its end, since it may end with an error.
        Ok(end.or(self.is_over().then_some(LiveEnd::Whole)))
    }

    fn is_over(&self) -> bool {
        self.document.is_settled()
            && self.trailing == Some(Trailing::Stop)
            && !self.source.is_events()
    }

    /// Ends the bytes.
    fn last(&mut self, watcher: &mut impl Watcher, console: &mut Console) -> io::Result<LiveEnd> {
        self.new.clear();
        let fed = self.source.finish(&mut self.new);
        let end = self
            .push(watcher, console)?
            .or_else(|| fed.err().map(|refusal| self.refused(refusal)));
        if let Some(end) = end {
            return Ok(end);
        }
        // Fails if the root is open, which the document knows itself. Only a number needs this call
        // to end.
        let _ = self.document.finish_with(watcher);
        let is_enough = watcher.write(&self.document, console)?.is_break();
        Ok(if is_enough {
            LiveEnd::Enough
        } else {
            LiveEnd::Whole
        })
    }

    /// Pushes the new text root by root, and drops the text of roots that were written.
    fn push(
        &mut self,
        watcher: &mut impl Watcher,
        console: &mut Console,
    ) -> io::Result<Option<LiveEnd>> {
        if !self.has_begun && !self.new.is_empty() {
            self.has_begun = true;
            // The type of the bytes is only known from here on.
            let usual = if self.source.is_events() {
                Trailing::Stop
            } else {
                Trailing::Next
            };
            let trailing = *self.trailing.get_or_insert(usual);
            self.document = Document::with_options(
                Limits::default().parser.max_depth,
                AllowedRoots::Any,
                trailing.into(),
            );
        }
        let mut taken = 0;
        while let Some(rest) = self.new.get(taken..).filter(|rest| !rest.is_empty())
            && !self.is_over()
        {
            let pushed = self.document.push_root_with(rest, watcher);
            if watcher.write(&self.document, console)?.is_break() {
                return Ok(Some(LiveEnd::Enough));
            }
            match pushed {
                Ok(more) => taken += more,
                Err(error) => return Ok(Some(LiveEnd::Deviation(error))),
            }
            // The report of an error shows the text before the error, so the program keeps a few
            // characters.
            if self.document.text().len() > KEPT {
                self.document.forget_roots();
                watcher.rebase(self.document.base());
            }
        }
        Ok(None)
    }

    /// Returns how the text ended, for a source that gives no more.
    fn refused(&self, refusal: Refusal) -> LiveEnd {
        let Refusal::Encoding(bytes) = &refusal else {
            return LiveEnd::Refusal(refusal);
        };
        if self.document.is_complete() && self.trailing == Some(Trailing::Stop) {
            return LiveEnd::Whole;
        }
        if !self.document.is_complete() {
            return half_mistake(&self.document, bytes).map_or(LiveEnd::Whole, LiveEnd::Deviation);
        }
        let kind = SyntaxErrorKind::InvalidUtf8(bytes.first().copied().unwrap_or_default());
        LiveEnd::Deviation(SyntaxError {
            kind,
            offset: self.document.text().len(),
        })
    }

    /// Reports how the text ended, and adds the verdict.
    fn conclude(&self, end: LiveEnd, name: &str, console: &mut Console) {
        let document = &self.document;
        let exit = match end {
            LiveEnd::Unreadable => Exit::Io,
            LiveEnd::Enough => Exit::Complete,
            LiveEnd::Deviation(error) => {
                console.notes.deviation(name, document, &error);
                if document.is_complete() && self.trailing != Some(Trailing::Stop) {
                    console
                        .notes
                        .note("with --trailing stop, the text after the first root is ignored");
                }
                Exit::Invalid
            }
            LiveEnd::Refusal(refusal) => {
                console.notes.note(format_args!("{name}: {refusal}"));
                Exit::Invalid
            }
            LiveEnd::Whole if document.is_complete() => Exit::Complete,
            LiveEnd::Whole if document.is_prose() => {
                console.notes.note(format_args!("{name}: {NO_JSON}"));
                Exit::Invalid
            }
            LiveEnd::Whole if !self.has_begun && self.source.is_events() => {
                console.notes.note(format_args!(
                    "{name}: the stream has no text in this slot: see --slot"
                ));
                Exit::Cut
            }
            LiveEnd::Whole => {
                let (cut, base) = (document.cut(), document.base());
                let place = if cut.path.is_empty() {
                    "the root".into()
                } else {
                    short(&cut.path)
                };
                console.notes.note(format_args!(
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

/// Up to this many bytes of text are kept even if nothing needs them.
const KEPT: usize = 256 << 10;

/// The most bytes per read: enough to make system calls cheap.
const BUFFER: NonZeroUsize = NonZeroUsize::new(64 << 10).expect("not zero");
