//! `restitch paths`: writes the values at some paths as soon as they are complete.

use std::fmt::Write as _;
use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::live::{LiveInput, Watcher};
use super::{Console, Exit, epilogue};
use restitch::Document;
use restitch::internal::json::string::{decode, quoted};
use restitch::json::{Event, ParserView, Sink};
use restitch::paths::{Match, Paths, Phase};

/// Arguments of `restitch paths`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = USAGE, after_help = epilogue(EXAMPLES))]
pub struct PathsArgs {
    /// JSON Pointers in which `*` is any key or index; "" is the root. The last argument is the
    /// file if it does not begin with `/`, or if a file of this name exists. The file is JSON text
    /// or an event stream of Chat Completions. Default: standard input, as with `-`.
    #[arg(value_name = "PATTERN", required = true)]
    patterns: Vec<String>,
    /// The file, whatever its name is. All other arguments are patterns then.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Also report the beginning of a value, and strings as they grow.
    #[arg(long)]
    grow: bool,
    /// Write only the values, one per line.
    #[arg(long, conflicts_with = "grow")]
    raw: bool,
    /// Stop after N values.
    #[arg(long, value_name = "N")]
    first: Option<NonZeroUsize>,
    #[command(flatten)]
    input: LiveInput,
}

const USAGE: &str = "restitch paths [OPTIONS] PATTERN... [FILE]";

const EXAMPLES: &str = r#"Examples:
  restitch paths '/items/*' answer.json
  curl -sN https://example.org/stream | restitch paths '/items/*'
  restitch paths --raw '/items/*/name' < answer.json | jq -r .
  restitch paths /title '/sections/*/heading' -f answers/today.json
  restitch paths --grow /summary answer.sse

A value is written as soon as it is complete, wherever it is: {"pattern", "path", "value"}. `value` is the text of the
value to the byte, without line feeds and the white space around them. After the first root there is a "root", counted
from 0.

With --grow, each line begins with a "phase": `begin` (the value begins; there is no "value" yet), `grow` (of a string:
"more" is the text since the last line), `complete`.

In scripts, use -f if the last pattern may be the name of a file: with -f, all other arguments are patterns.

Text around the JSON, for example a Markdown fence, is left out. Of a malformed text, the values before the error are
written, then the error is reported.

Exit codes: 0 complete, or --first was reached; 3 cut; 4 malformed, not UTF-8, or the server reports an error;
1 unreadable. It is not an error if nothing matches."#;

pub(super) fn run(args: &PathsArgs, console: &mut Console) -> io::Result<()> {
    let mut patterns: Vec<&str> = args.patterns.iter().map(String::as_str).collect();
    let is_alone = patterns.len() == 1;
    let exists = |last: &str| !is_alone && Path::new(last).is_file();
    let is_file = |last: &mut &str| {
        args.file.is_none() && !last.is_empty() && (!last.starts_with('/') || exists(last))
    };
    let named = args
        .file
        .as_deref()
        .or_else(|| patterns.pop_if(is_file).map(Path::new));
    let file = named.unwrap_or("-".as_ref());
    let paths = if args.grow {
        Paths::new(&patterns)
    } else {
        Paths::completions(&patterns)
    };
    let paths = match paths {
        Ok(paths) if !patterns.is_empty() => paths,
        result => {
            match result {
                Ok(_) => console.fail(
                    Exit::Usage,
                    format_args!("no pattern: `{}` is the file", file.display()),
                ),
                Err(error) => console.fail(Exit::Usage, error),
            }
            return Ok(());
        }
    };
    let mut found = FoundValue {
        paths,
        patterns: &patterns,
        args,
        left: args.first.map(NonZeroUsize::get),
        line: String::new(),
    };
    args.input.prepare(console);
    args.input.watch(file, &mut found, console)
}

struct FoundValue<'a> {
    paths: Paths,
    patterns: &'a [&'a str],
    args: &'a PathsArgs,
    /// How many more values to write, if there is a limit.
    left: Option<usize>,
    line: String,
}

impl Sink for FoundValue<'_> {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        self.paths.event(event, live);
    }

    fn is_idle(&self) -> bool {
        self.paths.is_idle()
    }
}

impl Watcher for FoundValue<'_> {
    fn write(&mut self, document: &Document, console: &mut Console) -> io::Result<ControlFlow<()>> {
        while let Some(found) = self.paths.poll_match() {
            self.line.clear();
            if self.args.raw {
                one_line_into(&mut self.line, found.text(document.text()));
            } else {
                let pattern = self
                    .patterns
                    .get(found.pattern)
                    .copied()
                    .unwrap_or_default();
                describe(
                    &mut self.line,
                    &found,
                    pattern,
                    self.args.grow,
                    document.text(),
                );
            }
            self.line.push('\n');
            console.lines(&self.line)?;
            if found.phase == Phase::Complete
                && let Some(left) = &mut self.left
            {
                *left -= 1;
                if *left == 0 {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Writes a match as JSON. It does not use serde, since the value is written byte for byte.
fn describe(line: &mut String, found: &Match<'_>, pattern: &str, phases: bool, text: &str) {
    line.push('{');
    // Writing to a string does not fail.
    if phases {
        let _ = write!(line, "\"phase\":\"{}\",", found.phase.as_str());
    }
    let _ = write!(
        line,
        "\"pattern\":{},\"path\":{}",
        quoted(pattern),
        quoted(found.path)
    );
    match found.phase {
        Phase::Begin => {}
        Phase::Grow => {
            let _ = write!(line, ",\"more\":{}", quoted(&decode(found.text(text))));
        }
        Phase::Complete => {
            line.push_str(",\"value\":");
            one_line_into(line, found.text(text));
        }
    }
    if found.root > 0 {
        let _ = write!(line, ",\"root\":{}", found.root);
    }
    line.push('}');
}

/// Appends a value without its line ends and the white space around them. Strings have none: theirs
/// are escaped.
fn one_line_into(line: &mut String, value: &str) {
    for part in value.split(['\n', '\r']) {
        line.push_str(part.trim_matches([' ', '\t']));
    }
}

#[cfg(test)]
mod tests {
    use super::one_line_into;

    #[test]
    fn values_are_put_on_one_line() {
        for (value, expect) in [
            ("1", "1"),
            ("\" a\\n \"", "\" a\\n \""),
            ("{ \"a\" : 1 }", "{ \"a\" : 1 }"),
            (
                "{\r\n  \"a\": 1,\n\n\t\"b\" :\n[1, 2]  \n}",
                "{\"a\": 1,\"b\" :[1, 2]}",
            ),
        ] {
            let mut line = String::new();
            one_line_into(&mut line, value);
            assert_eq!(line, expect);
        }
    }
}
