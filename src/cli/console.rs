//! The process's streams as the commands use them, and the verdict that grows while they run.
//!
//! An error that leaves through a `Result` here is one of writing the output; a file that can't be read is a note and
//! a verdict, and the next file's turn comes.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Read, Stdout, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Exit;
use crate::{Document, SyntaxError, clean_encoding};

#[derive(Debug)]
pub(super) struct Console {
    out: BufWriter<Stdout>,
    exit: Exit,
}

impl Console {
    pub(super) fn new() -> Self {
        Self { out: BufWriter::new(io::stdout()), exit: Exit::default() }
    }

    /// Adds what became of one file or line. Said before its answer is written, so that it stands if the reader of
    /// the answers leaves.
    pub(super) fn verdict(&mut self, exit: Exit) {
        self.exit = self.exit.max(exit);
    }

    /// The worst verdict so far.
    pub(super) fn exit(&self) -> Exit {
        self.exit
    }

    /// Tells people something. What standard error makes of it is no matter of ours.
    pub(super) fn note(&self, words: impl fmt::Display) {
        let _ = writeln!(io::stderr(), "restitch: {}", one_line(&words.to_string()));
    }

    /// Tells people something that belongs to the note before.
    pub(super) fn detail(&self, words: impl fmt::Display) {
        let _ = writeln!(io::stderr(), "{}", one_line(&words.to_string()));
    }

    /// Tells people where a text leaves the grammar.
    pub(super) fn deviation(&self, name: &str, document: &Document, error: &SyntaxError) {
        let mut place = document.explain(error);
        place.path = short(&place.path).into_owned();
        self.note(format_args!("{name}: {}, {place}", error.kind));
    }

    /// Writes one answer on one line.
    pub(super) fn answer(&mut self, answer: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, answer)?;
        self.out.write_all(b"\n")
    }

    /// Writes one answer on one line, with a first member `id` whose value is raw JSON, and sends it off at once:
    /// whoever writes requests may wait for it.
    pub(super) fn answer_to(&mut self, id: &str, answer: &impl Serialize) -> io::Result<()> {
        let answer = serde_json::to_string(answer)?;
        let members = answer.strip_prefix('{').unwrap_or(&answer);
        writeln!(self.out, "{{\"id\":{id},{members}")?;
        self.out.flush()
    }

    /// Writes a line for people who asked for no JSON.
    pub(super) fn line(&mut self, words: impl fmt::Display) -> io::Result<()> {
        writeln!(self.out, "{}", one_line(&words.to_string()))
    }

    /// Writes lines as they are, each with its end.
    pub(super) fn lines(&mut self, lines: &str) -> io::Result<()> {
        self.out.write_all(lines.as_bytes())
    }

    /// Writes a text to the byte: another command may go on with it. A terminal gets the line end that its prompt
    /// needs.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        if !text.is_empty() && self.out.get_ref().is_terminal() {
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Writes a part of a text and shows it at once.
    #[cfg(feature = "proxy")]
    pub(super) fn show(&mut self, part: &str) -> io::Result<()> {
        self.out.write_all(part.as_bytes())?;
        self.out.flush()
    }

    /// People see the output as it comes.
    #[cfg(all(feature = "proxy", feature = "sim"))]
    pub(super) fn is_terminal(&self) -> bool {
        self.out.get_ref().is_terminal()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Opens a file, or standard input for `-`. `None` if it can't be opened, which has been told then.
    pub(super) fn open(&mut self, path: &Path) -> Option<Box<dyn Read>> {
        if is_stdin(path) {
            return Some(Box::new(io::stdin().lock()));
        }
        match File::open(path) {
            Ok(file) => Some(Box::new(file)),
            Err(error) => self.unreadable(path, &error),
        }
    }

    /// Reads a whole file, or standard input for `-`. `None` if it can't be read, which has been told then.
    pub(super) fn read(&mut self, path: &Path) -> Option<Vec<u8>> {
        let result = if is_stdin(path) {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            fs::read(path)
        };
        result.map_or_else(|error| self.unreadable(path, &error), Some)
    }

    /// Reads a whole file as text; tells people how many bytes were no UTF-8 and are left out.
    pub(super) fn read_text(&mut self, path: &Path) -> Option<String> {
        let bytes = self.read(path)?;
        match String::from_utf8(bytes) {
            Ok(text) => Some(text),
            Err(error) => {
                let (text, removed) = clean_encoding(error.as_bytes());
                self.note_removed(path, removed);
                Some(text.into_owned())
            }
        }
    }

    pub(super) fn note_removed(&self, path: &Path, removed: usize) {
        if removed > 0 {
            self.note(format_args!("{}: left out, since not UTF-8: {removed} bytes", path.display()));
        }
    }

    /// Says that a file failed.
    pub(super) fn unreadable<T>(&mut self, path: &Path, error: &io::Error) -> Option<T> {
        self.note(format_args!("{}: {error}", path.display()));
        self.verdict(Exit::Io);
        None
    }

    /// Whether standard input is named once at most: it can't be read twice. If not, that has been told.
    pub(super) fn names_stdin_once(&mut self, paths: &[PathBuf]) -> bool {
        let once = paths.iter().filter(|path| is_stdin(path)).count() < 2;
        if !once {
            self.note("standard input (`-`) can be named once only");
            self.verdict(Exit::Usage);
        }
        once
    }
}

/// Control characters, line ends among them, as escapes. Names, paths and messages come from texts of strangers: as
/// they are, they could tear a line, or move the cursor of a terminal.
fn one_line(text: &str) -> String {
    let mut line = text.to_owned();
    escape_controls(&mut line, 0);
    line
}

/// Escapes the control characters of `text` from `start` on, for the same reason.
pub(super) fn escape_controls(text: &mut String, start: usize) {
    // Those of the second block are two bytes in UTF-8, with this first one.
    let may_be_control = |byte: &u8| *byte < 0x20 || matches!(byte, 0x7f | 0xc2);
    if text.as_bytes().get(start..).is_some_and(|tail| tail.iter().any(may_be_control)) {
        let tail = text.split_off(start);
        for c in tail.chars() {
            if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
        }
    }
}

/// A path for people: of a long one the beginning and the end. The root's is empty.
pub(super) fn short(path: &str) -> Cow<'_, str> {
    let half = |(at, _)| at;
    let head = path.char_indices().nth(SHOWN).map(half);
    let tail = path.char_indices().rev().nth(SHOWN - 1).map(half);
    match (head, tail) {
        (Some(head), Some(tail)) if head < tail => Cow::Owned(format!("{}…{}", &path[..head], &path[tail..])),
        _ => Cow::Borrowed(path),
    }
}

/// Characters of each end of a long path.
const SHOWN: usize = 60;

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}
