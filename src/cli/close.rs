//! `restitch close`: the complete part of a cut-off text.

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::{Console, Exit, Parsed, jsonl};

/// Arguments of `restitch close`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The text; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
    /// Read {"id", "text"} a line from standard input, and answer each in JSON.
    #[arg(long, conflicts_with = "file")]
    jsonl: bool,
}

const EXAMPLES: &str = r#"Examples:
  restitch close cut.json > closed.json
  printf '{"title": "Hel' | restitch close
  restitch close --json cut.json
  echo '{"id": "a", "text": "[1, 2"}' | restitch close --jsonl

What is not certain is dropped: an unfinished number, literal, escape or key, a comma, a key without its value. A
partial string is kept. What stands around the JSON, a Markdown fence say, is left out.
With --json: {"complete", "json"}; `json` is "" where nothing is certain yet.

Exit codes: 0 it was complete, 3 it was cut and is closed, 4 it is malformed (the part before the deviation is
closed), 1 unreadable."#;

#[derive(Serialize)]
struct Answer {
    complete: bool,
    json: String,
}

impl Answer {
    fn new(parsed: &Parsed) -> Self {
        Self { complete: parsed.document.is_complete(), json: parsed.document.complete().unwrap_or_default() }
    }
}

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    if args.jsonl {
        return jsonl::serve(console, |request, console| {
            let parsed = Parsed::new(&request.text(console)?);
            parsed.note_deviation(&request.name, console);
            console.verdict(parsed.exit());
            Ok(Answer::new(&parsed))
        });
    }
    let Some(text) = console.read_text(&args.file) else { return Ok(()) };
    let parsed = Parsed::new(&text);
    // The document has it now: of a large file one copy is enough.
    drop(text);
    let file = args.file.display().to_string();
    parsed.note_deviation(&file, console);
    console.verdict(parsed.exit());
    let answer = Answer::new(&parsed);
    if args.json {
        return console.answer(&answer);
    }
    if parsed.exit() == Exit::Cut {
        let cut = parsed.document.cut();
        let outcome = if answer.json.is_empty() { "nothing is certain yet" } else { "closed" };
        console.note(format_args!("{file}: cut at byte {}, in `{}`: {outcome}", cut.offset, cut.state.as_str()));
    }
    console.text(&answer.json)
}
