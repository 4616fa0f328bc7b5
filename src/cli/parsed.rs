//! One whole text as a document: what `close` and `inspect` share, their arguments among it.

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::{Console, Exit, jsonl};
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

impl Input {
    /// Reads the text and gives it to `print`, or each text of a line, each of which is answered as `answer` has it.
    pub(super) fn run<A: Serialize>(
        &self,
        console: &mut Console,
        answer: impl Fn(&Parsed) -> A,
        print: impl FnOnce(&str, &Parsed, A, &mut Console) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.jsonl {
            return jsonl::serve(console, |request, console| {
                let parsed = Parsed::new(&request.text(console)?);
                parsed.note_deviation(&request.name, console);
                console.verdict(parsed.exit());
                Ok(answer(&parsed))
            });
        }
        let Some(text) = console.read_text(&self.file) else { return Ok(()) };
        let parsed = Parsed::new(&text);
        // The document has it now: of a large file one copy is enough.
        drop(text);
        let file = self.file.display().to_string();
        parsed.note_deviation(&file, console);
        console.verdict(parsed.exit());
        let answer = answer(&parsed);
        if self.json { console.answer(&answer) } else { print(&file, &parsed, answer, console) }
    }
}

/// A whole text as a document, with its deviation from the grammar if it has one.
pub(super) struct Parsed {
    pub(super) document: Document,
    pub(super) deviation: Option<SyntaxError>,
}

impl Parsed {
    pub(super) fn new(text: &str) -> Self {
        let mut document = Document::with_roots(Limits::default().depth, Roots::Any);
        let deviation = document.push(text).err();
        if deviation.is_none() {
            // Fails where the root is open, which the document itself knows: only a number needs to be told.
            let _ = document.finish();
        }
        Self { document, deviation }
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
