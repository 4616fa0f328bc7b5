//! `restitch parse`: reads the JSON of a response, and gives it the shape that is expected.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::texts::{Reads, Texts};
use super::{Console, Exit, epilogue, jsonl, repair, repairs};
use restitch::internal::json::walk::Raw;
use restitch::shape::{self, Attempt, Expect, ParseError, Parsed, RootKind, Shape};

/// Arguments of `restitch parse`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct ParseArgs {
    #[command(flatten)]
    texts: Texts,
    /// The shape of the response: a built-in stage, or a shape of `--shapes`. `list` prints all.
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
  restitch parse --stage extract_prompts --json answer.txt
  restitch parse --stage list
  restitch parse --schema schema.json answer.txt
  restitch parse --shapes shapes.toml --stage reviews answer.txt
  echo '{"id": 1, "text": "Here: {\"data\": [1]}", "stage": "extract_prompts"}' | restitch parse --jsonl

`attempt` says what was needed: 1 nothing, 1.5 repairs, 2 text around the JSON was left out, 3 a fence was, 4 text with
brackets was; 5: there is no JSON. Without --stage a value is recognised by its keys. A single object is wrapped in an
array only with --stage. docs/shapes.md describes all shapes, and how to write one.

With --json: {"attempt", "status", "json", "shape", "repairs", "others"}, and, where there are some, "text" (of a stage
that is text), "renamed", "dropped", "violations", "error". With several files each answer names its `file`. With --jsonl,
a line may have a "stage" of its own.

Exit codes: 0 valid or repaired; 3 truncated, and closed; 4 there is no JSON, it can't be repaired, or it is not what was
expected; 1 unreadable. Of several files the worst counts, in this order."#;

pub(super) fn run(args: &ParseArgs, console: &mut Console) -> io::Result<()> {
    args.texts.start(console);
    let mut shapes = Shape::stages();
    if let Some(path) = &args.shapes {
        match read_shapes(path, console) {
            Some(own) => shapes.extend(own),
            None => return Ok(()),
        }
    }
    if args.stage.as_deref() == Some("list") {
        return shapes
            .iter()
            .try_for_each(|shape| console.line(describe(shape)));
    }
    let mut parser = Parser {
        args,
        shapes,
        expect: Expect::any(),
    };
    if let Some(name) = &args.stage {
        match parser.expected(name) {
            Ok(expect) => parser.expect = expect,
            Err(error) => {
                console.fail(Exit::Usage, error);
                return Ok(());
            }
        }
    }
    if let Some(path) = &args.schema {
        let Some(schema) = repair::schema(path, console) else {
            return Ok(());
        };
        parser.expect = parser.expect.schema(schema);
    }
    args.texts.run(console, &parser)
}

/// Reads a file of shapes. `None` if it can't be read or is wrong, which has been reported then.
fn read_shapes(path: &Path, console: &mut Console) -> Option<Vec<Shape>> {
    let text = console.read_text(path)?.text;
    match shapes_of(&text) {
        Ok(shapes) => Some(shapes),
        Err(error) => {
            console.fail(Exit::Usage, format_args!("{}: {error}", path.display()));
            None
        }
    }
}

/// Returns the shapes of a file's text, in the order of their names.
fn shapes_of(text: &str) -> Result<Vec<Shape>, String> {
    let is_json = text.trim_start().starts_with('{');
    let tables: BTreeMap<String, Shape> = if is_json {
        serde_json::from_str(text).map_err(|error| error.to_string())?
    } else {
        toml::from_str(text).map_err(|error| error.to_string())?
    };
    let mut shapes = Vec::with_capacity(tables.len());
    for (name, mut shape) in tables {
        if name == "list" || Shape::stage(&name).is_some() {
            return Err(format!(
                "`{name}` is a built-in stage: a shape needs another name"
            ));
        }
        if shape.wrap && shape.root != RootKind::Array {
            return Err(format!("`{name}`: `wrap` needs `root = \"array\"`"));
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
            self.shapes
                .iter()
                .map(|shape| shape.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        found
            .map(|shape| Expect::shape(shape.clone()))
            .ok_or_else(|| format!("`{name}` is no stage: there are {}", known()))
    }

    fn parse<'t>(&self, text: &'t str, expect: &Expect) -> ParseReport<'t> {
        let parsed = shape::parse(text, expect);
        let is_text = |name: &String| {
            self.shapes
                .iter()
                .any(|shape| shape.name == *name && shape.root == RootKind::Text)
        };
        let is_text = parsed
            .as_ref()
            .is_ok_and(|parsed| parsed.shape.as_ref().is_some_and(is_text));
        ParseReport {
            parsed,
            is_text,
            or_empty: self.args.or_empty,
        }
    }
}

/// The answer for one text.
pub(super) struct ParseReport<'t> {
    parsed: Result<Parsed<'t>, ParseError>,
    is_text: bool,
    or_empty: bool,
}

impl ParseReport<'_> {
    fn text(&self) -> Option<Cow<'_, str>> {
        let parsed = self.parsed.as_ref().ok().filter(|_| self.is_text)?;
        Raw::root(&parsed.json)?.decode()
    }

    /// The output for a text without JSON.
    fn nothing(&self) -> &'static str {
        if self.or_empty { "[]" } else { "" }
    }
}

impl Serialize for ParseReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_map(None)?;
        let parsed = match &self.parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                row.serialize_entry("attempt", &Attempt::Nothing)?;
                row.serialize_entry("status", shape::status_name(error.status))?;
                row.serialize_entry("json", self.nothing())?;
                row.serialize_entry("shape", &None::<()>)?;
                row.serialize_entry("repairs", &[(); 0])?;
                row.serialize_entry("others", &[(); 0])?;
                row.serialize_entry("error", &error.to_string())?;
                return row.end();
            }
        };
        row.serialize_entry("attempt", &parsed.attempt)?;
        row.serialize_entry("status", shape::status_name(parsed.status))?;
        row.serialize_entry("json", &parsed.json)?;
        row.serialize_entry("shape", &parsed.shape)?;
        row.serialize_entry("repairs", &parsed.repairs)?;
        row.serialize_entry("others", &parsed.others)?;
        if let Some(text) = self.text() {
            row.serialize_entry("text", &text)?;
        }
        if !parsed.renamed.is_empty() {
            row.serialize_entry("renamed", &parsed.renamed)?;
        }
        if !parsed.dropped.is_empty() {
            row.serialize_entry("dropped", &parsed.dropped)?;
        }
        if !parsed.violations.is_empty() {
            row.serialize_entry("violations", &parsed.violations)?;
        }
        row.end()
    }
}

impl Reads for Parser<'_> {
    type Answer<'t> = ParseReport<'t>;

    fn read<'t>(&self, text: &'t str) -> ParseReport<'t> {
        self.parse(text, &self.expect)
    }

    fn read_line(
        &self,
        line: &jsonl::LineRequest<'_>,
        text: &str,
    ) -> Result<ParseReport<'static>, String> {
        let own = line
            .word("stage")?
            .map(|name| self.expected(&name))
            .transpose()?;
        let answer = self.parse(text, own.as_ref().unwrap_or(&self.expect));
        Ok(ParseReport {
            parsed: answer.parsed.map(Parsed::into_owned),
            ..answer
        })
    }

    fn exit(&self, answer: &ParseReport<'_>) -> Exit {
        let status = match &answer.parsed {
            Ok(parsed) if !parsed.violations.is_empty() => return Exit::Invalid,
            Ok(parsed) => parsed.status,
            Err(error) => error.status,
        };
        repairs::exit(status)
    }

    fn is_logged(&self) -> bool {
        false
    }

    fn note(&self, name: &str, text: &str, answer: &ParseReport<'_>, console: &Console) {
        let parsed = match &answer.parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                console.notes.note(format_args!("{name}: {error}"));
                return;
            }
        };
        repairs::print(name, text, &parsed.repairs, false, console);
        repairs::note_status(name, text, parsed.status, &parsed.others, console);
        for renamed in &parsed.renamed {
            console.notes.note(format_args!(
                "{name}: {}: renamed to `{}`",
                renamed.path, renamed.to
            ));
        }
        for dropped in &parsed.dropped {
            console
                .notes
                .note(format_args!("{name}: {}: left out", dropped.path));
        }
        repairs::note_violations(name, &parsed.violations, console);
    }

    fn output<'a>(&self, answer: &'a ParseReport<'_>) -> Cow<'a, str> {
        match &answer.parsed {
            Ok(parsed) => answer.text().unwrap_or(Cow::Borrowed(&parsed.json)),
            Err(_) => Cow::Borrowed(answer.nothing()),
        }
    }
}
