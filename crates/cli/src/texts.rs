//! Whole texts of files or lines, each with one answer: the code that `repair` and `parse` share.

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::console::is_zero;
use super::output::To;
use super::{Console, Exit, jsonl};

/// Where the texts come from, and how they are answered.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Texts {
    /// The texts; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// Answer in JSON, one line per file.
    #[arg(long)]
    json: bool,
    /// Read {"id", "text"} from each line of standard input, and answer each in JSON.
    #[arg(long, conflicts_with = "files")]
    jsonl: bool,
    #[command(flatten)]
    to: To,
}

/// A command that answers for whole texts.
pub(super) trait Reads {
    /// The answer in JSON.
    type Answer<'t>: Serialize;

    fn read<'t>(&self, text: &'t str) -> Self::Answer<'t>;

    /// Answers a line, which may have settings of its own.
    fn read_line(
        &self,
        line: &jsonl::LineRequest<'_>,
        text: &str,
    ) -> Result<Self::Answer<'static>, String>;

    fn exit(&self, answer: &Self::Answer<'_>) -> Exit;

    /// Whether notes are also written beside JSON answers, which have the same content.
    fn is_logged(&self) -> bool;

    /// Writes notes on one text to standard error.
    fn note(&self, name: &str, text: &str, answer: &Self::Answer<'_>, console: &Console);

    /// Returns the readable output.
    fn output<'a>(&self, answer: &'a Self::Answer<'_>) -> std::borrow::Cow<'a, str>;
}

#[derive(Serialize)]
struct Named<'a, A> {
    /// Only where there are several files.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(flatten)]
    answer: &'a A,
    #[serde(skip_serializing_if = "is_zero")]
    removed_bytes: usize,
}

#[derive(Serialize)]
struct Unread<'a> {
    file: &'a str,
    error: &'static str,
}

impl Texts {
    /// Sets the requested destination of the output. Called once, before the first write.
    pub(super) fn start(&self, console: &mut Console) {
        console.write_to(self.to.output.as_deref());
    }

    /// Reads texts from files or lines, and answers each.
    pub(super) fn run<T: Reads>(&self, console: &mut Console, reads: &T) -> io::Result<()> {
        if self.jsonl {
            return jsonl::serve(console, |request, console| {
                let text = request.text(console)?;
                let answer = reads.read_line(request, &text)?;
                if reads.is_logged() {
                    reads.note(&request.name, &text, &answer, console);
                }
                console.verdict(reads.exit(&answer));
                Ok(answer)
            });
        }
        if !console.names_stdin_once(&self.files) {
            return Ok(());
        }
        let are_several = self.files.len() > 1;
        for path in &self.files {
            let file = path.display().to_string();
            let Some(read) = console.read_text(path) else {
                if self.json && are_several {
                    console.answer(&Unread {
                        file: &file,
                        error: "can't be read",
                    })?;
                }
                continue;
            };
            let (text, removed_bytes) = (read.text.as_str(), read.left_out());
            let answer = reads.read(text);
            if !self.json || reads.is_logged() {
                reads.note(&file, text, &answer, console);
            }
            console.verdict(reads.exit(&answer));
            if self.json {
                let file = are_several.then_some(file.as_str());
                console.answer(&Named {
                    file,
                    answer: &answer,
                    removed_bytes,
                })?;
                continue;
            }
            let output = reads.output(&answer);
            if are_several && !output.is_empty() {
                console.lines(&output)?;
                console.lines("\n")?;
            } else {
                console.text(&output)?;
            }
        }
        Ok(())
    }
}
