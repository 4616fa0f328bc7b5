//! `restitch parse`: reads the JSON of a response, and gives it the shape that is expected.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::console::Notes;
use super::encoding::EncodedText;
use super::jsonl::LineRequest;
use super::texts::{TextCommand, Texts};
use super::{Console, Exit, Failure, epilogue, repair, repairs};
use restitch::internal::json::walk::Raw;
use restitch::repair::RepairStatus;
use restitch::shape::{self, Attempt, Dropped, Expect, Parsed, Renamed, RootKind, Shape};

/// Arguments of `restitch parse`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct ParseArgs {
    #[command(flatten)]
    texts: Texts,
    /// The shape of the response, by its name in the file of --shapes. `list` prints the file's
    /// shapes; docs/shapes.md has the built-in ones.
    #[arg(long, value_name = "NAME", conflicts_with = "schema")]
    stage: Option<String>,
    /// The JSON Schema that the value is checked against. Of several roots the first valid one is
    /// taken.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Where there is no JSON, write an empty array. The exit code stays the same.
    #[arg(long)]
    or_empty: bool,
    /// A TOML or JSON file of further shapes, each under its name.
    #[arg(long, value_name = "FILE")]
    shapes: Option<PathBuf>,
}

const EXAMPLES: &str = r#"Examples:
  restitch parse answer.txt
  restitch parse --schema schema.json --json answer.txt
  restitch parse --shapes shapes.toml --stage list
  restitch parse --shapes shapes.toml --stage reviews answer.txt
  echo '{"id": 1, "text": "Here: {\"data\": [1]}"}' | restitch parse --jsonl

`attempt` says what was needed: 1 nothing, 1.5 repairs, 2 text around the JSON was left out, 3 a fence was, 4 text with
brackets was; 5: there is no JSON. Without --stage a value is recognised by its keys. A single object is wrapped in an
array only with --stage. docs/shapes.md describes all shapes, and how to write one.

With --json: {"attempt", "status", "json", "shape", "repairs", "others"}, and, where there are some, "text" (of a stage
that is text), "renamed", "dropped", "violations", "error". With several files each answer names its `file`. With --jsonl,
a line may have a "stage" of its own.

Exit codes: 0 valid or repaired; 3 truncated, and closed; 4 there is no JSON, it can't be repaired, or it is not what was
expected; 1 unreadable. Of several files the worst counts, in this order."#;

pub(super) fn run(args: &ParseArgs, console: &mut Console) -> Result<(), Failure> {
    let own = match &args.shapes {
        Some(path) => shapes_of(path, &console.read_text(path)?.text)?,
        None => Vec::new(),
    };
    if args.stage.as_deref() == Some("list") {
        if own.is_empty() {
            console
                .notes
                .note("name a file of shapes by --shapes; docs/shapes.md has the built-in ones");
        }
        let mut shapes = own.iter();
        return shapes.try_for_each(|shape| console.line(describe(shape)));
    }
    let shapes = [Shape::stages(), own].concat();
    let mut parser = Parser {
        args,
        shapes,
        expect: Expect::any(),
    };
    if let Some(name) = &args.stage {
        parser.expect = parser.expected(name).map_err(Failure::usage)?;
    }
    if let Some(path) = &args.schema {
        parser.expect = parser.expect.schema(repair::schema(path, console)?);
    }
    args.texts.run(&parser, console)
}

/// Returns the shapes of a file's text, in the order of their names.
fn shapes_of(path: &Path, text: &str) -> Result<Vec<Shape>, Failure> {
    let wrong = |error: &dyn Display| Failure::usage(format!("{}: {error}", path.display()));
    let is_json = text.trim_start().starts_with('{');
    let tables: BTreeMap<String, Shape> = if is_json {
        serde_json::from_str(text).map_err(|error| wrong(&error))?
    } else {
        toml::from_str(text).map_err(|error| wrong(&error))?
    };
    let mut shapes = Vec::with_capacity(tables.len());
    for (name, mut shape) in tables {
        if name == "list" || Shape::stage(&name).is_some() {
            let words = "is a built-in stage: a shape needs another name";
            return Err(wrong(&format_args!("`{name}` {words}")));
        }
        if shape.wrap && shape.root != RootKind::Array {
            return Err(wrong(&format_args!(
                "`{name}`: `wrap` needs `root = \"array\"`"
            )));
        }
        shape.name = name;
        shapes.push(shape);
    }
    Ok(shapes)
}

/// A line about a shape for people.
fn describe(shape: &Shape) -> String {
    let words = |words: &[String], before: &str| match words.is_empty() {
        true => String::new(),
        false => format!("; {before} {}", words.join(", ")),
    };
    let wraps = if shape.wrap {
        "; a single object is wrapped"
    } else {
        ""
    };
    let keys = words(&shape.required, "has") + &words(&shape.any_of, "has one of");
    format!(
        "{}: {}{keys}{}{wraps}",
        shape.name,
        shape.root.as_str(),
        words(&shape.unwrap, "is taken out of")
    )
}

struct Parser<'a> {
    args: &'a ParseArgs,
    shapes: Vec<Shape>,
    expect: Expect,
}

impl Parser<'_> {
    fn expected(&self, name: &str) -> Result<Expect, String> {
        let found = self
            .shapes
            .iter()
            .find(|shape| shape.name == name || shape.name == name.replace('-', "_"));
        let known = || {
            let names: Vec<&str> = self
                .shapes
                .iter()
                .map(|shape| shape.name.as_str())
                .collect();
            names.join(", ")
        };
        found
            .map(|shape| Expect::shape(shape.clone()))
            .ok_or_else(|| format!("`{name}` is not a stage: there are {}", known()))
    }
}

/// The answer for one text.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ParseReport<'t> {
    Parsed {
        #[serde(flatten)]
        parsed: Parsed<'t>,
        /// The text of a shape that is text.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    Nothing {
        attempt: Attempt,
        status: RepairStatus,
        json: &'static str,
        error: String,
    },
}

impl TextCommand for Parser<'_> {
    type Report<'t> = ParseReport<'t>;

    fn read<'t>(
        &self,
        text: &'t EncodedText,
        line: Option<&LineRequest<'_>>,
    ) -> Result<ParseReport<'t>, String> {
        let own = line.map_or(Ok(None), |line| line.word("stage"))?;
        let own = own.map(|name| self.expected(&name)).transpose()?;
        let parsed = match shape::parse(&text.text, own.as_ref().unwrap_or(&self.expect)) {
            Ok(parsed) => parsed,
            Err(error) => {
                return Ok(ParseReport::Nothing {
                    attempt: Attempt::Nothing,
                    status: error.status,
                    json: if self.args.or_empty { "[]" } else { "" },
                    error: error.to_string(),
                });
            }
        };
        let shape = parsed.shape.as_ref();
        let shape = shape.and_then(|name| self.shapes.iter().find(|shape| shape.name == *name));
        let is_text = shape.is_some_and(|shape| shape.root == RootKind::Text);
        let text = is_text
            .then(|| Raw::root(&parsed.json)?.decode())
            .flatten()
            .map(Cow::into_owned);
        Ok(ParseReport::Parsed { parsed, text })
    }

    fn exit(&self, report: &ParseReport<'_>) -> Exit {
        match report {
            ParseReport::Parsed { parsed, .. } if !parsed.violations.is_empty() => Exit::Invalid,
            ParseReport::Parsed { parsed, .. } => repairs::exit(parsed.status),
            ParseReport::Nothing { status, .. } => repairs::exit(*status),
        }
    }

    fn note(&self, name: &str, text: &str, report: &ParseReport<'_>, notes: Notes) {
        let parsed = match report {
            ParseReport::Parsed { parsed, .. } => parsed,
            ParseReport::Nothing { error, .. } => {
                return notes.note(format_args!("{name}: {error}"));
            }
        };
        repairs::note_repairs(name, text, &parsed.repairs, false, notes);
        repairs::note_status(name, text, parsed.status, &parsed.others, notes);
        for Renamed { path, to, .. } in &parsed.renamed {
            notes.note(format_args!("{name}: {path}: renamed to `{to}`"));
        }
        for Dropped { path, .. } in &parsed.dropped {
            notes.note(format_args!("{name}: {path}: left out"));
        }
        repairs::note_violations(name, &parsed.violations, notes);
    }

    fn output<'r>(&self, _: &str, report: &'r ParseReport<'_>) -> Cow<'r, str> {
        Cow::Borrowed(match report {
            ParseReport::Parsed { parsed, text } => text.as_deref().unwrap_or(&parsed.json),
            ParseReport::Nothing { json, .. } => json,
        })
    }
}
