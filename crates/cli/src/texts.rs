//! Texts of files or lines, each with one answer: the loop and the printer of `check`, `inspect`,
//! `repair` and `parse`.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;

use super::console::{Notes, is_zero};
use super::encoding::EncodedText;
use super::jsonl::LineRequest;
use super::output::To;
use super::{Console, Exit, Failure, jsonl};

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

/// A command that answers for one text after the other.
pub(super) trait TextCommand {
    /// The answer in JSON.
    type Report<'t>: Serialize;

    /// Whether bytes that are not UTF-8 are a mistake. Otherwise they are removed and reported.
    const IS_STRICT: bool = false;

    /// Reads a text. A line may have settings of its own; an error is about these settings.
    fn read<'t>(
        &self,
        text: &'t EncodedText,
        line: Option<&LineRequest<'_>>,
    ) -> Result<Self::Report<'t>, String>;

    fn exit(&self, report: &Self::Report<'_>) -> Exit;

    /// Whether notes are also written beside JSON answers, which have the same content.
    fn is_logged(&self) -> bool {
        false
    }

    /// Writes notes on one text to standard error.
    fn note(&self, _name: &str, _text: &str, _report: &Self::Report<'_>, _notes: Notes) {}

    /// Returns the answer for people and pipes.
    fn output<'r>(&self, name: &str, report: &'r Self::Report<'_>) -> Cow<'r, str>;
}

#[derive(Serialize)]
struct NamedReport<'a, R> {
    /// Only where there are several files.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(flatten)]
    report: R,
    #[serde(skip_serializing_if = "is_zero")]
    removed_bytes: usize,
}

impl Texts {
    /// Reads texts from files or lines, and answers each.
    pub(super) fn run<T: TextCommand>(
        &self,
        command: &T,
        console: &mut Console,
    ) -> Result<(), Failure> {
        console.write_to(self.to.output.as_deref());
        if self.jsonl {
            return jsonl::serve(console, |line, console| {
                let text = EncodedText::from(line.text(console)?);
                let report = command.read(&text, Some(line))?;
                if command.is_logged() {
                    command.note(&line.name, &text.text, &report, console.notes);
                }
                console.verdict(command.exit(&report));
                serde_json::to_string(&report).map_err(|error| error.to_string())
            });
        }
        Console::check_stdin(&self.files)?;
        let are_several = self.files.len() > 1;
        for path in &self.files {
            let name = path.display().to_string();
            let file = are_several.then_some(name.as_str());
            let Some(bytes) = console.read(path) else {
                if self.json {
                    let report = json!({"error": "can't be read"});
                    console.answer(&NamedReport {
                        file,
                        report,
                        removed_bytes: 0,
                    })?;
                }
                continue;
            };
            let text = EncodedText::new(bytes);
            if !T::IS_STRICT {
                console.left_out(path, &text);
            }
            let report = command.read(&text, None).map_err(Failure::usage)?;
            if !self.json || command.is_logged() {
                command.note(&name, &text.text, &report, console.notes);
            }
            console.verdict(command.exit(&report));
            if self.json {
                let removed_bytes = if T::IS_STRICT { 0 } else { text.left_out() };
                console.answer(&NamedReport {
                    file,
                    report,
                    removed_bytes,
                })?;
            } else {
                console.text(&command.output(&name, &report), are_several)?;
            }
        }
        Ok(())
    }
}
