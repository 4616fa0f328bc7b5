//! The race of repairers: how fast whole texts are repaired, and how often the answer is right. In
//! Markdown.

#![forbid(unsafe_code)]

#[allow(dead_code, reason = "the tests use more of the module")]
#[path = "../../../tests/it/repair/documents.rs"]
mod documents;
#[path = "../../../tests/it/repair/mistake.rs"]
mod mistake;
#[path = "../../../tests/it/repair/quote_mistakes.rs"]
mod quote_mistakes;
#[path = "../../../tests/it/repair/source.rs"]
mod source;
#[path = "../../../tests/it/repair/structure_mistakes.rs"]
mod structure_mistakes;
#[allow(dead_code, reason = "the tests use more of the module")]
#[path = "../../../tests/it/repair/table.rs"]
mod table;
#[path = "../../../tests/it/repair/token_mistakes.rs"]
mod token_mistakes;

use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use restitch::repair::{RepairLevel, RepairOptions, RepairStatus, repair_root};
use restitch_peers::table::{print, row, short};
use restitch_peers::timing::{median, now};
use restitch_testing::rows::Rows;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use table::{Plan, for_every_text};

/// Generated documents that are broken, and the largest document of `RESTITCH_CORPUS`, in bytes.
const DOCUMENTS: u64 = 160;
const MAX_BYTES: usize = 20 << 10;

/// Rounds of a timed text.
const ROUNDS: usize = 7;

/// A repairer that takes this many seconds for 64 KB does not get 1 MB.
const PATIENCE: f64 = 1.0;

/// What a repairer says of a text.
enum Answer {
    Json(String),
    /// The value of a text that ends early, where the repairer says that it does.
    Truncated(String),
    Refused,
}

/// A repairer of this process.
struct Repairer {
    name: &'static str,
    run: fn(&str) -> Answer,
}

const REPAIRERS: [Repairer; 5] = [
    Repairer {
        name: "restitch, `guess`",
        run: |text| own(text, RepairLevel::Guess),
    },
    Repairer {
        name: "restitch, `syntax`",
        run: |text| own(text, RepairLevel::Syntax),
    },
    Repairer {
        name: "jsonrepair-rs",
        run: |text| answer(jsonrepair_rs::jsonrepair(text).ok()),
    },
    Repairer {
        name: "jsonrepair (Rust)",
        run: |text| {
            answer(jsonrepair::repair_to_string(text, &jsonrepair::Options::default()).ok())
        },
    },
    Repairer {
        name: "llm_json",
        run: |text| answer(llm_json::repair_json(text, &llm_json::RepairOptions::default()).ok()),
    },
];

fn answer(json: Option<String>) -> Answer {
    json.map_or(Answer::Refused, Answer::Json)
}

/// A root is looked for where the text's first bracket is: what is before it belongs to the
/// envelope.
fn own(text: &str, level: RepairLevel) -> Answer {
    let start = text
        .find(['{', '['])
        .unwrap_or(text.len() - text.trim_start().len());
    let root = repair_root(&text[start..], &RepairOptions::new(level));
    match root.status {
        RepairStatus::Malformed(_) => Answer::Refused,
        _ if root.json.is_empty() => Answer::Refused,
        RepairStatus::Truncated => Answer::Truncated(root.json),
        _ => Answer::Json(root.json),
    }
}

/// A text, and the value that was meant: `None` where there is none.
struct Case {
    kind: &'static str,
    text: String,
    truth: Option<Value>,
}

/// Texts of one origin.
struct Set {
    name: String,
    cases: Vec<Case>,
}

fn main() {
    let timed = timed();
    let sets = sets();
    let given = Given {
        texts: sets
            .iter()
            .flat_map(|set| &set.cases)
            .map(|case| case.text.as_str())
            .collect(),
        timed: timed
            .iter()
            .flat_map(|(_, small, large)| [small.as_str(), large.as_str()])
            .collect(),
    };
    let others = [
        (
            "json_repair (Python)",
            runtime("json_repair", "venv/bin/python", "answers.py", &given),
        ),
        (
            "jsonrepair (JavaScript)",
            runtime("jsonrepair", "node", "answers.js", &given),
        ),
    ];
    speed(&timed, &others);
    answers(&sets, &others);
}

/// Returns the timed texts: a name, 64 KB and 1 MB.
fn timed() -> Vec<(&'static str, String, String)> {
    let rows = |bytes: usize, is_broken: bool| {
        let mut text = String::from("[");
        for at in 0.. {
            let row = format!(
                "{{\"id\": {at}, \"title\": \"Row {at}\", \"text\": \"It says \\\"no\\\".\", \"ok\": true}}"
            );
            text.push_str(&if is_broken && at % 100 == 0 {
                row.replace("true", "True,")
            } else {
                row
            });
            if text.len() > bytes {
                return text + "]";
            }
            text.push_str(", ");
        }
        text
    };
    let both = |is_broken| (rows(64 << 10, is_broken), rows(1 << 20, is_broken));
    let ((small, large), (small_broken, large_broken)) = (both(false), both(true));
    vec![
        ("valid", small, large),
        (
            "a mistake in every hundredth row",
            small_broken,
            large_broken,
        ),
    ]
}

fn sets() -> Vec<Set> {
    let mut all = documents::generated(documents::REPORT, DOCUMENTS);
    all.extend(
        documents::corpus()
            .into_iter()
            .filter(|(_, source)| source.text.len() <= MAX_BYTES),
    );
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    all.retain(|(_, source)| value(&source.text).is_some());
    let valid = |source: &source::Source| Case {
        kind: "",
        text: source.text.clone(),
        truth: value(&source.text),
    };
    let valid = all.iter().map(|(_, source)| valid(source)).collect();
    let mut sets = vec![Set {
        name: "valid documents".into(),
        cases: valid,
    }];
    for mistakes in 1..=3 {
        let mut cases = Vec::new();
        let seeds = documents::REPORT.start..documents::REPORT.start + 1;
        let plan = Plan {
            seeds,
            mistakes,
            kind: String::new(),
            options: RepairOptions::default(),
        };
        for_every_text(&all, &plan, &mut Rows::whole(), |broken| {
            let is_decidable = !broken.kind.starts_with('(');
            // The reference parser does not read lone surrogates.
            let truth = value(&broken.truth);
            if is_decidable && truth.is_some() && !source::is_json(&broken.text) {
                cases.push(Case {
                    kind: if mistakes == 1 { broken.kind } else { "" },
                    text: broken.text,
                    truth,
                });
            }
        });
        sets.push(Set {
            name: format!("seeded mistakes, {mistakes} in a text"),
            cases,
        });
    }
    let agreed = restitch_testing::corpus_rows("repair/agreed.jsonl")
        .into_iter()
        .map(|(_, row)| Case {
            kind: "",
            text: row["input"].as_str().unwrap_or_default().to_owned(),
            truth: row["expected"].as_str().and_then(value),
        });
    sets.push(Set {
        name: "what two repairers agree on".into(),
        cases: agreed.collect(),
    });
    sets.retain(|set| !set.cases.is_empty());
    sets
}

/// What a repairer of another runtime reads.
#[derive(Serialize)]
struct Given<'a> {
    texts: Vec<&'a str>,
    timed: Vec<&'a str>,
}

/// What it answers.
#[derive(Deserialize)]
struct Taken {
    answers: Vec<Option<String>>,
    seconds: Vec<f64>,
}

/// Runs a script of a folder in its runtime; without it, prints that its rows are left out.
fn runtime(folder: &str, program: &str, script: &str, given: &Given<'_>) -> Option<Taken> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let program = if program.contains('/') {
        folder.join(program)
    } else {
        program.into()
    };
    let child = Command::new(program)
        .arg(script)
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let taken = child.ok().and_then(|mut child| {
        let input = serde_json::to_vec(given).ok()?;
        child.stdin.take()?.write_all(&input).ok()?;
        let output = child.wait_with_output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    });
    if taken.is_none() {
        println!("skipped: {} is not installed\n", folder.display());
    }
    taken
}

/// Prints megabytes a second, by text.
fn speed(timed: &[(&'static str, String, String)], others: &[(&str, Option<Taken>)]) {
    let mut rows = vec![row([
        "",
        "valid, MB/s",
        "a mistake in every hundredth row, MB/s",
    ])];
    for repairer in &REPAIRERS {
        let mut cells = vec![repairer.name.to_owned()];
        for (_, small, large) in timed {
            let is_slow = seconds(repairer, small, 1) > PATIENCE;
            let (text, rounds) = if is_slow { (small, 1) } else { (large, ROUNDS) };
            let rate = short(text.len() as f64 / 1e6 / seconds(repairer, text, rounds));
            cells.push(match (repairer.run)(text) {
                Answer::Refused => "refused".to_owned(),
                _ if is_slow => format!("{rate} (64 KB)"),
                _ => rate,
            });
        }
        rows.push(cells);
    }
    for (name, taken) in others {
        let Some(taken) = taken else { continue };
        let large = taken.seconds.iter().skip(1).step_by(2);
        let rates = large
            .zip(timed)
            .map(|(seconds, (_, _, text))| short(text.len() as f64 / 1e6 / seconds));
        rows.push([(*name).to_owned()].into_iter().chain(rates).collect());
    }
    print("Repair: whole texts of 1 MB", &rows);
}

/// Returns the seconds of a round, the median.
fn seconds(repairer: &Repairer, text: &str, rounds: usize) -> f64 {
    let round = || {
        let start = now();
        black_box((repairer.run)(black_box(text)));
        now().saturating_sub(start).as_secs_f64()
    };
    median((0..rounds).map(|_| round()).collect())
}

/// What an answer is worth.
#[derive(Clone, Copy, PartialEq)]
enum Worth {
    Right,
    Refused,
    Truncated,
    /// Another value, or no JSON, and nothing says so.
    Silent,
}

/// Prints what the answers are worth, by set, and by kind of mistake where there is one.
fn answers(sets: &[Set], others: &[(&str, Option<Taken>)]) {
    let mut start = 0;
    for set in sets {
        let end = start + set.cases.len();
        let mut parties: Vec<(&str, Vec<Worth>)> = Vec::new();
        for repairer in &REPAIRERS {
            let run = |text: &str| {
                std::panic::catch_unwind(|| (repairer.run)(text)).unwrap_or(Answer::Refused)
            };
            parties.push((
                repairer.name,
                set.cases
                    .iter()
                    .map(|case| worth(case, &run(&case.text)))
                    .collect(),
            ));
        }
        for (name, taken) in others {
            let Some(taken) = taken else { continue };
            let all = set.cases.iter().zip(&taken.answers[start..end]);
            parties.push((
                name,
                all.map(|(case, json)| worth(case, &answer(json.clone())))
                    .collect(),
            ));
        }
        start = end;
        let mut rows = vec![row([
            "",
            "right",
            "refused",
            "another value, said to be truncated",
            "another value, in silence",
        ])];
        for (name, worths) in &parties {
            let share = |worth| percent(worths.iter(), worth);
            let shares = [
                Worth::Right,
                Worth::Refused,
                Worth::Truncated,
                Worth::Silent,
            ]
            .map(share);
            rows.push([(*name).to_owned()].into_iter().chain(shares).collect());
        }
        print(
            &format!("Answers: {} ({} texts)", set.name, set.cases.len()),
            &rows,
        );
        by_kind(set, &parties);
    }
}

/// Prints right and silently wrong answers by kind of mistake.
fn by_kind(set: &Set, parties: &[(&str, Vec<Worth>)]) {
    let mut kinds: Vec<&str> = Vec::new();
    for case in set.cases.iter().filter(|case| !case.kind.is_empty()) {
        if !kinds.contains(&case.kind) {
            kinds.push(case.kind);
        }
    }
    if kinds.is_empty() {
        return;
    }
    let mut rows = vec![
        [""].into_iter()
            .chain(parties.iter().map(|(name, _)| *name))
            .map(str::to_owned)
            .collect(),
    ];
    for kind in kinds {
        let cell = |(_, worths): &(&str, Vec<Worth>)| {
            let of_kind = || {
                set.cases
                    .iter()
                    .zip(worths)
                    .filter(|(case, _)| case.kind == kind)
                    .map(|(_, worth)| worth)
            };
            format!(
                "{} / {}",
                percent(of_kind(), Worth::Right),
                percent(of_kind(), Worth::Silent)
            )
        };
        rows.push(
            [kind.to_owned()]
                .into_iter()
                .chain(parties.iter().map(cell))
                .collect(),
        );
    }
    print(
        &format!(
            "Answers: {}, by kind: right / another value in silence",
            set.name
        ),
        &rows,
    );
}

fn percent<'a>(worths: impl Iterator<Item = &'a Worth>, wanted: Worth) -> String {
    let all: Vec<_> = worths.collect();
    let count = all.iter().filter(|worth| ***worth == wanted).count();
    format!("{:.1} %", 100.0 * count as f64 / all.len().max(1) as f64)
}

/// Compares an answer with what was meant. Where nothing was, only a refusal is right.
fn worth(case: &Case, answer: &Answer) -> Worth {
    let is_right = |json: &str| match (serde_json::from_str::<Value>(json), &case.truth) {
        (Ok(own), Some(truth)) => source::is_alike(&own, truth),
        _ => false,
    };
    match answer {
        Answer::Refused if case.truth.is_none() => Worth::Right,
        Answer::Refused => Worth::Refused,
        Answer::Json(json) | Answer::Truncated(json) if is_right(json) => Worth::Right,
        Answer::Truncated(_) => Worth::Truncated,
        Answer::Json(_) => Worth::Silent,
    }
}
