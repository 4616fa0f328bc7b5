//! The process's streams as the commands use them, and the verdict that grows while they run.
//!
//! A function here returns an error only if writing the output failed. A file that cannot be read
//! is reported and counts in the verdict; the next file follows.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use serde::Serialize;
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::encoding::EncodedText;
use super::log::{self, LogHandle};
use super::output::Output;
use super::{Exit, Failure};
use restitch::{Document, SyntaxError};
use restitch_proxy::config::LogFormat;

#[derive(Debug)]
pub(super) struct Console {
    out: BufWriter<Output>,
    exit: Exit,
    pub(super) notes: Notes,
}

impl Console {
    pub(super) fn new(is_quiet: bool, verbosity: u8) -> Self {
        Self {
            out: BufWriter::new(Output::stdout()),
            exit: Exit::default(),
            notes: Notes {
                verbosity: if is_quiet { -1 } else { verbosity.into() },
            },
        }
    }

    /// Writes the data to `file`, if one is named, instead of standard output. The file is created
    /// with its first byte, so that a command may write to the file that it has read.
    pub(super) fn write_to(&mut self, file: Option<&Path>) {
        if let Some(file) = file {
            self.out = BufWriter::new(Output::file(file));
        }
    }

    /// Adds the verdict on one file or line. Called before the answer is written, so that the
    /// verdict counts even if the reader of the answers closes its end.
    pub(super) fn verdict(&mut self, exit: Exit) {
        self.exit = self.exit.max(exit);
    }

    /// Returns the worst verdict until now.
    pub(super) fn exit(&self) -> Exit {
        self.exit
    }

    /// Reports a failure, and adds the verdict.
    pub(super) fn fail(&mut self, exit: Exit, words: impl fmt::Display) {
        report(words);
        self.verdict(exit);
    }

    /// Creates a line on standard error that shows progress; no other output appears there. It is
    /// hidden where standard error is not a terminal. `writes`: the command writes its output
    /// meanwhile; on a terminal the two would mix.
    pub(super) fn progress(
        &self,
        template: &str,
        length: Option<u64>,
        writes: bool,
    ) -> ProgressBar {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_hidden = self.notes.verbosity < 0 || is_dumb || writes && self.is_terminal();
        let target = if is_hidden {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let style = ProgressStyle::with_template(template);
        ProgressBar::with_draw_target(length, target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            .with_finish(ProgressFinish::AndClear)
    }

    /// Writes one answer on one line.
    pub(super) fn answer(&mut self, answer: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, answer).map_err(io::Error::from)?;
        Ok(self.out.write_all(b"\n")?)
    }

    /// Writes one JSON object on one line, with a first member `id` whose value is raw JSON.
    /// Flushes, since the writer of the requests may wait for the answer.
    pub(super) fn answer_to(&mut self, id: &str, answer: &str) -> Result<(), Failure> {
        let members = answer.strip_prefix('{').unwrap_or(answer);
        writeln!(self.out, "{{\"id\":{id},{members}")?;
        Ok(self.out.flush()?)
    }

    /// Writes a line for people.
    pub(super) fn line(&mut self, words: impl fmt::Display) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{}", one_line(&words.to_string()))?)
    }

    /// Writes lines that have their line ends.
    pub(super) fn lines(&mut self, lines: &str) -> Result<(), Failure> {
        Ok(self.out.write_all(lines.as_bytes())?)
    }

    /// Writes exactly this text, so that another command can continue from it. A text without a line
    /// end gets one on a terminal, or if it is one of several.
    pub(super) fn text(&mut self, text: &str, is_one_of_several: bool) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes())?;
        let needs_line_end = is_one_of_several || self.is_terminal();
        if needs_line_end && !text.is_empty() && !text.ends_with('\n') {
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Writes a part of a text, and flushes it.
    pub(super) fn show(&mut self, part: &str) -> Result<(), Failure> {
        self.out.write_all(part.as_bytes())?;
        Ok(self.out.flush()?)
    }

    /// Returns whether the output is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.out.get_ref().is_terminal()
    }

    /// Returns whether the output may have colors.
    pub(super) fn has_colors(&self) -> bool {
        self.out.get_ref().has_colors()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Opens a file, or standard input for `-`, to read it piece by piece. `None` if it cannot be
    /// opened, after a report. `writes`: the command writes its output meanwhile.
    pub(super) fn open(&mut self, path: &Path, writes: bool) -> Option<Box<dyn Read>> {
        if writes && self.out.get_ref().is_same(path) {
            self.fail(
                Exit::Usage,
                format_args!(
                    "{}: it is read and cannot be written meanwhile",
                    path.display()
                ),
            );
            return None;
        }
        if is_stdin(path) {
            let progress = self.progress("read {bytes}", None, writes);
            return Some(Box::new(progress.wrap_read(io::stdin().lock())));
        }
        match File::open(path) {
            Ok(file) => {
                let length = file.metadata().ok().map(|metadata| metadata.len());
                let template = "read {bytes} of {total_bytes}, {percent} %";
                let progress = self.progress(template, length, writes);
                Some(Box::new(progress.wrap_read(file)))
            }
            Err(error) => self.unreadable(path, &error),
        }
    }

    /// Reads a whole file, or standard input for `-`. `None` if it cannot be read, which has been
    /// reported then.
    pub(super) fn read(&mut self, path: &Path) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let result = self.open(path, false)?.read_to_end(&mut bytes);
        result.map_or_else(|error| self.unreadable(path, &error), |_| Some(bytes))
    }

    /// Reads a whole file as text, and reports the bytes that are not in the text.
    pub(super) fn read_text(&mut self, path: &Path) -> Result<EncodedText, Failure> {
        let text = EncodedText::new(self.read(path).ok_or(Failure::Reported)?);
        self.left_out(path, &text);
        Ok(text)
    }

    /// Reports the bytes of a file that are not in its text, and adds the verdict: a file that ends
    /// inside a character is cut, and one with other bytes that are not UTF-8 is invalid.
    pub(super) fn left_out(&mut self, path: &Path, text: &EncodedText) {
        let (path, half) = (path.display(), text.half.len());
        for (removed, why, exit) in [
            (text.removed, "not UTF-8", Exit::Invalid),
            (half, "cut inside a character", Exit::Cut),
        ] {
            if removed > 0 {
                let removed = count(removed, "byte");
                self.notes
                    .note(format_args!("{path}: {why}: removed {removed}"));
                self.verdict(exit);
            }
        }
    }

    /// Reports that a file failed.
    pub(super) fn unreadable<T>(&mut self, path: &Path, error: &io::Error) -> Option<T> {
        self.fail(Exit::Io, format_args!("{}: {error}", path.display()));
        None
    }

    /// Fails if standard input is named more than once, since it can't be read twice.
    pub(super) fn check_stdin(paths: &[PathBuf]) -> Result<(), Failure> {
        match paths.iter().filter(|path| is_stdin(path)).count() {
            0 | 1 => Ok(()),
            _ => Err(Failure::usage(
                "standard input (`-`) can be named once only",
            )),
        }
    }
}

/// The messages of a command on standard error, except its failures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notes {
    /// How often `--verbose` was given; -1 with `--quiet`, when only failures are reported.
    verbosity: i16,
}

impl Notes {
    /// Writes a note to standard error, unless `--quiet` was given.
    pub(super) fn note(&self, words: impl fmt::Display) {
        if self.verbosity >= 0 {
            report(words);
        }
    }

    /// Writes a line that belongs to the note before.
    pub(super) fn detail(&self, line: &str) {
        if self.verbosity >= 0 {
            let _ = writeln!(io::stderr(), "{}", one_line(line));
        }
    }

    /// Whether notes go to a terminal, and are written.
    pub(super) fn on_terminal(&self) -> bool {
        self.verbosity >= 0 && io::stderr().is_terminal()
    }

    /// Reports the position where a text leaves the grammar.
    pub(super) fn deviation(&self, name: &str, document: &Document, error: &SyntaxError) {
        let mut place = document.explain(error);
        place.path = short(&place.path).into_owned();
        self.note(format_args!("{name}: {}, {place}", error.kind));
    }

    /// Starts the log of the servers on standard error. `--quiet` and `--verbose` set its filter,
    /// otherwise `filter` does; without a filter there is no log. The returned handle changes the
    /// filter; `None`: the verbosity is the filter, or there is no log.
    pub(super) fn start_log(
        &self,
        filter: Option<Targets>,
        format: LogFormat,
    ) -> Option<LogHandle> {
        let all = |level| Some(Targets::new().with_default(level));
        let filter = match self.verbosity {
            i16::MIN..0 => all(LevelFilter::ERROR),
            0 => filter,
            1 => all(LevelFilter::DEBUG),
            _ => all(LevelFilter::TRACE),
        };
        let handle = log::start(filter?, format);
        (self.verbosity == 0).then_some(handle)
    }
}

/// Writes a line to standard error. Write errors are ignored, since they can't be reported either.
fn report(words: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "restitch: {}", one_line(&words.to_string()));
}

/// A number and its noun: `1 byte`, `2 bytes`.
pub(super) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// For fields of answers that are left out where they are 0.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that serde asks for"
)]
pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Escapes control characters, including line ends. Names, paths and messages come from foreign
/// texts: unescaped, they could break a line or move the cursor of a terminal.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// Shortens a path for people: of a long one, the beginning and the end are kept.
pub(super) fn short(path: &str) -> Cow<'_, str> {
    let half = |(at, _)| at;
    let head = path.char_indices().nth(SHOWN).map(half);
    let tail = path.char_indices().rev().nth(SHOWN - 1).map(half);
    match (head, tail) {
        (Some(head), Some(tail)) if head < tail => {
            Cow::Owned(format!("{}…{}", &path[..head], &path[tail..]))
        }
        _ => Cow::Borrowed(path),
    }
}

/// Names a path for people.
pub(super) fn place(path: &str) -> &str {
    if path.is_empty() { "the root" } else { path }
}

/// Characters that are kept of each end of a long path.
const SHOWN: usize = 60;

pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}
