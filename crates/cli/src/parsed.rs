//! One whole text as a document: the code and the arguments that `close` and `inspect` share.

use std::io;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use super::console::is_zero;
use super::encoding::EncodedText;
use super::output::To;
use super::{Console, Exit, jsonl};
use restitch::AllowedRoots;
use restitch::json::Sink;
use restitch::{Document, Limits, SyntaxError, SyntaxErrorKind};

/// Where the texts come from, and how they are answered.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Input {
    /// The texts; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// Answer in JSON, one line per file.
    #[arg(long)]
    pub(super) json: bool,
    /// Read {"id", "text"} from each line of standard input, and answer each in JSON.
    #[arg(long, conflicts_with = "files")]
    jsonl: bool,
    #[command(flatten)]
    to: To,
}

/// A command that answers for one text.
pub(super) trait Answers {
    /// The sink that follows the text.
    type Sink: Sink + Default;
    /// The answer in JSON.
    type Answer<'a>: Serialize;

    fn answer<'a>(&self, parsed: &'a Parsed<Self::Sink>) -> Self::Answer<'a>;

    /// Writes the answer in readable form. `file` is the text's name, and `are_several` is set if
    /// there are other files.
    fn print(
        &self,
        file: &str,
        are_several: bool,
        parsed: &Parsed<Self::Sink>,
        console: &mut Console,
    ) -> io::Result<()>;
}

impl Input {
    /// Reads texts from files or lines, and answers each.
    pub(super) fn run<T: Answers>(&self, console: &mut Console, answers: &T) -> io::Result<()> {
        console.write_to(self.to.output.as_deref());
        if self.jsonl {
            return jsonl::serve(console, |request, console| {
                let parsed = Parsed::new(&request.text(console)?);
                parsed.note_deviation(&request.name, console);
                console.verdict(parsed.exit());
                Ok(Said {
                    file: None,
                    answers,
                    parsed,
                })
            });
        }
        if !console.names_stdin_once(&self.files) {
            return Ok(());
        }
        let are_several = self.files.len() > 1;
        for path in &self.files {
            let file = path.display().to_string();
            let Some(text) = console.read_text(path) else {
                if self.json && are_several {
                    console.answer(&Unread {
                        file,
                        error: "can't be read",
                    })?;
                }
                continue;
            };
            let parsed = Parsed::of(&text);
            // The document has its own copy, and one copy of a large file is enough.
            drop(text);
            parsed.note_deviation(&file, console);
            console.verdict(parsed.exit());
            if self.json {
                console.answer(&Said {
                    file: are_several.then_some(file),
                    answers,
                    parsed,
                })?;
            } else {
                answers.print(&file, are_several, &parsed, console)?;
            }
        }
        Ok(())
    }
}

/// The answer for one of several files, if the file can't be read.
#[derive(Serialize)]
struct Unread {
    file: String,
    error: &'static str,
}

/// An answer that owns its text. The answer itself is made when it is serialized.
struct Said<'t, T: Answers> {
    /// Only where there are several files.
    file: Option<String>,
    answers: &'t T,
    parsed: Parsed<T::Sink>,
}

impl<T: Answers> Serialize for Said<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Named<'a, A> {
            #[serde(skip_serializing_if = "Option::is_none")]
            file: Option<&'a str>,
            #[serde(flatten)]
            answer: A,
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<String>,
            #[serde(skip_serializing_if = "is_zero")]
            removed_bytes: usize,
        }
        let parsed = &self.parsed;
        let (answer, error) = (self.answers.answer(parsed), parsed.mistake());
        Named {
            file: self.file.as_deref(),
            answer,
            error,
            removed_bytes: parsed.removed,
        }
        .serialize(serializer)
    }
}

/// A whole text as a document, its deviation from the grammar if it has one, and the sink that
/// followed it.
pub(super) struct Parsed<S> {
    pub(super) document: Document,
    pub(super) deviation: Option<SyntaxError>,
    pub(super) sink: S,
    /// The root is whole, and the text ends inside a later one.
    pub(super) is_cut_later: bool,
    /// Bytes that are not in the document, since they are no UTF-8 or not the whole of a character.
    removed: usize,
}

impl<S: Sink + Default> Parsed<S> {
    pub(super) fn new(text: &str) -> Self {
        Self::with_half(text, &[])
    }

    /// Reads the text of a file, which may end inside a character.
    pub(super) fn of(text: &EncodedText) -> Self {
        Self {
            removed: text.left_out(),
            ..Self::with_half(&text.text, &text.half)
        }
    }

    fn with_half(text: &str, half: &[u8]) -> Self {
        let mut sink = S::default();
        let mut document =
            Document::with_roots(Limits::default().parser.max_depth, AllowedRoots::Any);
        let mut deviation = document
            .push_with(text, &mut sink)
            .err()
            .or_else(|| half_mistake(&document, half));
        if deviation.is_none() {
            // Ends a number, and settles an array of numbers after prose as the root. The error of
            // an open root is not needed: the document has its cut.
            let _ = document.finish_with(&mut sink);
            deviation = document.text_after_scalar();
        }
        let after_root = document
            .root_end()
            .and_then(|end| document.text().get(end..));
        let is_cut_later = deviation.is_none()
            && after_root.is_some_and(|after| document.ends_in_later_root(after));
        Self {
            document,
            deviation,
            sink,
            is_cut_later,
            removed: 0,
        }
    }

    pub(super) fn exit(&self) -> Exit {
        if self.deviation.is_some() || self.document.is_prose() {
            Exit::Invalid
        } else if self.document.is_complete() && !self.is_cut_later {
            Exit::Complete
        } else {
            Exit::Cut
        }
    }

    /// Returns whether the root is closed and without mistakes.
    pub(super) fn is_complete(&self) -> bool {
        self.exit() == Exit::Complete
    }

    /// Returns whether the text ends before its root does, or inside a later root.
    pub(super) fn is_cut(&self) -> bool {
        self.exit() == Exit::Cut
    }

    /// Returns whether the text is JSON, perhaps cut. Prose may begin with a scalar that other text
    /// touches, or with a bracket without JSON after it: `1.4.5`, `[the docs]`.
    pub(super) fn shows_json(&self) -> bool {
        let inside = || {
            self.document
                .root()
                .and_then(|root| root.strip_prefix(['{', '[']))
        };
        self.deviation.is_none() || inside().is_some_and(|inside| !inside.trim().is_empty())
    }

    /// Returns the mistake in the text. A cut is not a mistake, unless it is in a root that is not
    /// in the answer.
    pub(super) fn mistake(&self) -> Option<String> {
        let prose = || self.document.is_prose().then(|| NO_JSON.to_owned());
        let later = || self.is_cut_later.then(|| LATER_ROOT.to_owned());
        self.deviation
            .map(|error| error.to_string())
            .or_else(prose)
            .or_else(later)
    }

    /// Reports where the text leaves the grammar. `name` is the name of the file or line.
    pub(super) fn note_deviation(&self, name: &str, console: &Console) {
        if let Some(error) = self.deviation {
            console.notes.deviation(name, &self.document, &error);
        } else if self.document.is_prose() {
            console.notes.note(format_args!("{name}: {NO_JSON}"));
        }
    }
}

/// Returns the mistake at the end of a document whose last bytes are the first bytes of a
/// character. If a character may follow there, the text is only cut and has no mistake.
pub(super) fn half_mistake(document: &Document, half: &[u8]) -> Option<SyntaxError> {
    let first = *half.first()?;
    match document.root_start() {
        _ if document.is_complete() => None,
        // The machine reads bytes, so the answer is the one of `check`.
        Some(_) => document.machine().clone().feed(half).err(),
        None => Some(SyntaxError {
            kind: SyntaxErrorKind::InvalidUtf8(first),
            offset: document.text().len(),
        }),
    }
}

/// The text is cut, and not in the root that is answered.
pub(super) const LATER_ROOT: &str = "the text is cut in a later root";
pub(super) const NO_JSON: &str = "there is no JSON in the text";
