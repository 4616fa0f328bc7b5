//! One whole text as a document: what `close` and `inspect` share, their arguments among it.

use std::io;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use super::{Console, Exit, jsonl};
use crate::json::Sink;
use crate::json::envelope::Roots;
use crate::{Document, Limits, SyntaxError};

/// Where the text comes from, and how it is answered.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Input {
    /// The text; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Answer in JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Read {"id", "text"} a line from standard input, and answer each in JSON.
    #[arg(long, conflicts_with = "file")]
    jsonl: bool,
}

/// What a command makes of a text.
pub(super) trait Answers {
    /// Follows the text while it is read.
    type Sink: Sink + Default;
    /// The answer in JSON.
    type Answer<'a>: Serialize;

    fn answer<'a>(&self, parsed: &'a Parsed<Self::Sink>) -> Self::Answer<'a>;

    /// Answers people; `file` is the text's name.
    fn print(&self, file: &str, parsed: &Parsed<Self::Sink>, console: &mut Console) -> io::Result<()>;
}

impl Input {
    /// Reads the text, or each text of a line, and answers it.
    pub(super) fn run<T: Answers>(&self, console: &mut Console, answers: &T) -> io::Result<()> {
        if self.jsonl {
            return jsonl::serve(console, |request, console| {
                let parsed = Parsed::new(&request.text(console)?);
                parsed.note_deviation(&request.name, console);
                console.verdict(parsed.exit());
                Ok(Said { answers, parsed })
            });
        }
        let Some(text) = console.read_text(&self.file) else { return Ok(()) };
        let parsed = Parsed::new(&text);
        // The document has it now: of a large file one copy is enough.
        drop(text);
        let file = self.file.display().to_string();
        parsed.note_deviation(&file, console);
        console.verdict(parsed.exit());
        if self.json { console.answer(&Said { answers, parsed }) } else { answers.print(&file, &parsed, console) }
    }
}

/// An answer that borrows the text which it keeps: it is made when it is written.
struct Said<'t, T: Answers> {
    answers: &'t T,
    parsed: Parsed<T::Sink>,
}

impl<T: Answers> Serialize for Said<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.answers.answer(&self.parsed).serialize(serializer)
    }
}

/// A whole text as a document, with its deviation from the grammar if it has one, and what followed it.
pub(super) struct Parsed<S> {
    pub(super) document: Document,
    pub(super) deviation: Option<SyntaxError>,
    pub(super) sink: S,
}

impl<S: Sink + Default> Parsed<S> {
    pub(super) fn new(text: &str) -> Self {
        let mut sink = S::default();
        let mut document = Document::with_roots(Limits::default().max_depth, Roots::Any);
        let deviation = document.push_with(text, &mut sink).err();
        if deviation.is_none() {
            // Fails where the root is open, which the document itself knows: only a number needs to be told.
            let _ = document.finish_with(&mut sink);
        }
        Self { document, deviation, sink }
    }

    pub(super) fn exit(&self) -> Exit {
        if self.document.is_complete() {
            Exit::Complete
        } else if self.deviation.is_some() || self.document.is_prose() {
            Exit::Invalid
        } else {
            Exit::Cut
        }
    }

    /// Tells people where the text leaves the grammar; `name` is the file's, or the line's.
    fn note_deviation(&self, name: &str, console: &Console) {
        if let Some(error) = self.deviation {
            console.deviation(name, &self.document, &error);
        } else if self.document.is_prose() {
            console.note(format_args!("{name}: there is no JSON in the text"));
        }
    }
}
