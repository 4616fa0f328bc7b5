//! `restitch repair`: repairs the mistakes that models make in JSON.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::console::Notes;
use super::encoding::EncodedText;
use super::jsonl::LineRequest;
use super::parsed::NO_JSON;
use super::texts::{TextCommand, Texts};
use super::{Console, Exit, Failure, epilogue, one_of, repairs};
use restitch::repair::{RepairLevel, RepairOptions, RepairRule, RepairStatus};
use restitch::shape::{self, Expect, Repaired, Schema, Violation};

/// Arguments of `restitch repair`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct RepairArgs {
    #[command(flatten)]
    texts: Texts,
    /// How much may be changed: nothing; what leaves every whole token as it is; or also what is a
    /// guess.
    #[arg(long, value_name = "LEVEL", default_value = "guess", value_parser = one_of(&RepairLevel::ALL, RepairLevel::as_str))]
    level: RepairLevel,
    /// Switch a rule off. Can be given several times.
    #[arg(long, value_name = "RULE", value_parser = one_of(RepairRule::ALL, RepairRule::as_str), hide_possible_values = true)]
    without: Vec<RepairRule>,
    /// List the repairs on standard error, a line each, also where it is not a terminal.
    #[arg(long)]
    log: bool,
    /// Write no JSON, and exit with 5 if something would be repaired.
    #[arg(long)]
    check: bool,
    /// The JSON Schema that the result is checked against. Of several roots the first valid one is
    /// taken.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
}

const EXAMPLES: &str = r#"Examples:
  restitch repair answer.txt > answer.json
  restitch repair --log --level syntax answer.json
  restitch repair --check *.json
  restitch repair --schema schema.json --json answer.txt | jq .violations
  restitch repair --without bare_word --without comment answer.txt
  echo '{"id": 1, "text": "[1, 2,]"}' | restitch repair --jsonl

Levels: `strict` repairs nothing; `syntax` repairs what leaves every whole token what it is (commas, escapes, quotes
around a token, comments, an early end); `guess` also chooses between readings (lost quotes, colons and brackets).
docs/internals/repair.md has all rules. Text around the root, for example a fence or prose, is left out on every level.
Valid JSON stays as it is, to the byte.

With --json: {"status": "valid|repaired|truncated|malformed", "json", "repairs": [{"rule", "level", "range", "original",
"replacement", "path"}], "others"}, and "error", "violations" where there are some. `range` is in bytes of the input.
`json` of a malformed text is its complete part. `others` has the further roots of the text. With several files each
answer names its `file`.

Exit codes: 0 valid or repaired; 5 with --check: would be repaired; 3 truncated, and closed; 4 malformed, not valid under
the schema, or not UTF-8; 1 unreadable. Of several files the worst counts, in this order."#;

/// Reads a schema.
pub(super) fn schema(path: &Path, console: &mut Console) -> Result<Schema, Failure> {
    let parsed = console.read_text(path)?.text.parse::<Schema>();
    parsed.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

pub(super) fn run(args: &RepairArgs, console: &mut Console) -> Result<(), Failure> {
    let options = args
        .without
        .iter()
        .fold(RepairOptions::new(args.level), |options, rule| {
            options.without(*rule)
        });
    let schema = args.schema.as_deref();
    let schema = schema.map(|path| self::schema(path, console)).transpose()?;
    let mut expect = Expect::any().repairs(options);
    if let Some(schema) = &schema {
        expect = expect.schema(schema.clone());
    }
    let repairer = InputRepairer {
        args,
        expect,
        schema,
    };
    args.texts.run(&repairer, console)
}

struct InputRepairer<'a> {
    args: &'a RepairArgs,
    expect: Expect,
    schema: Option<Schema>,
}

/// The answer for one text.
#[derive(Serialize)]
pub(super) struct RepairReport<'t> {
    #[serde(flatten)]
    repaired: Repaired<'t>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<Violation>,
}

impl TextCommand for InputRepairer<'_> {
    type Report<'t> = RepairReport<'t>;

    fn read<'t>(
        &self,
        text: &'t EncodedText,
        _: Option<&LineRequest<'_>>,
    ) -> Result<RepairReport<'t>, String> {
        let repaired = shape::repair_expected(&text.text, &self.expect);
        let (is_whole, error) = match repaired.status {
            RepairStatus::Valid | RepairStatus::Repaired => (true, None),
            RepairStatus::Malformed(error) => (false, Some(error.to_string())),
            RepairStatus::Truncated => (false, None),
        };
        let schema = self.schema.as_ref().filter(|_| is_whole);
        let violations = schema
            .map(|schema| schema.violations(&repaired.json))
            .unwrap_or_default();
        Ok(RepairReport {
            repaired,
            error,
            violations,
        })
    }

    fn exit(&self, report: &RepairReport<'_>) -> Exit {
        match report.repaired.status {
            _ if !report.violations.is_empty() => Exit::Invalid,
            RepairStatus::Repaired if self.args.check => Exit::Changed,
            status => repairs::exit(status),
        }
    }

    fn is_logged(&self) -> bool {
        self.args.log
    }

    fn note(&self, name: &str, text: &str, report: &RepairReport<'_>, notes: Notes) {
        let Repaired {
            status,
            repairs,
            others,
            range,
            ..
        } = &report.repaired;
        repairs::note_repairs(name, text, repairs, self.args.log, notes);
        match status {
            RepairStatus::Malformed(_) if range.is_empty() => {
                notes.note(format_args!("{name}: {NO_JSON}"));
            }
            _ => repairs::note_status(name, text, *status, others, notes),
        }
        repairs::note_violations(name, &report.violations, notes);
    }

    fn output<'r>(&self, _: &str, report: &'r RepairReport<'_>) -> Cow<'r, str> {
        Cow::Borrowed(if self.args.check {
            ""
        } else {
            &report.repaired.json
        })
    }
}
