//! The guides: their links lead somewhere, the paths that they name exist, and cells are short.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of guides, each without those below it.
const FOLDERS: [&str; 10] = [
    "",
    "contrib",
    "docs",
    "docs/internals",
    "peers",
    "bindings/js",
    "bindings/python",
    "tests/cases",
    "tests/corpus",
    "tests/wire-cases",
];

/// The most words of a cell of a table.
const CELL: usize = 25;

/// A guide without its blocks of code.
struct Guide {
    path: PathBuf,
    text: String,
}

fn guides() -> Vec<Guide> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            // The folders of cases have a file for each case, and one guide.
            let is_guide = path.file_name().is_some_and(|name| name == "README.md");
            let is_page = path.extension().is_some_and(|end| end == "md");
            if is_guide || is_page && !folder.starts_with("tests") {
                let text = without_code(&fs::read_to_string(&path).unwrap());
                found.push(Guide { path, text });
            }
        }
    }
    found
}

fn without_code(page: &str) -> String {
    let mut text = String::new();
    let mut is_code = false;
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Returns the targets of the links to other places of this repository.
fn links(text: &str) -> Vec<&str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .filter(|target| !target.contains("://"))
        .collect()
}

/// Returns the fragments that lead to the headings of a page, as GitHub makes them.
fn fragments(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|letter| letter.is_alphanumeric() || " _-".contains(*letter))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

/// Returns the cells of a row. Its edges and an escaped bar are not separators.
fn cells(row: &str) -> Vec<String> {
    let row = row.replace("\\|", "");
    row.trim_matches('|')
        .split('|')
        .map(str::to_owned)
        .collect()
}

/// Returns the words of a cell, without the targets of its links.
fn words(cell: &str) -> usize {
    let mut parts = cell.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let shown = parts.fold(first, |text, rest| {
        text + rest.split_once(')').map_or("", |(_, after)| after)
    });
    shown.split_whitespace().count()
}

#[test]
fn each_link_leads_to_a_file_and_a_heading() {
    let mut pages = HashMap::new();
    for guide in guides() {
        pages.insert(guide.path.canonicalize().unwrap(), fragments(&guide.text));
    }
    let mut followed = 0;
    for guide in guides() {
        for target in links(&guide.text) {
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let page = if file.is_empty() {
                guide.path.clone()
            } else {
                guide.path.with_file_name(file)
            };
            let page = page
                .canonicalize()
                .unwrap_or_else(|error| panic!("{}: {target}: {error}", guide.path.display()));
            let is_heading = pages
                .get(&page)
                .is_some_and(|headings| headings.iter().any(|heading| heading == fragment));
            assert!(
                fragment.is_empty() || is_heading,
                "{}: {target} is not a heading",
                guide.path.display()
            );
            followed += 1;
        }
    }
    println!("covered: {followed} links");
    assert!(followed > 50, "{followed}");
}

/// A path in backquotes begins at the root. NAME stands for a name.
#[test]
fn each_named_path_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [
        "src", "crates", "tests", "docs", "scripts", "contrib", "fuzz", "benches", "peers",
        "examples",
    ];
    for guide in guides() {
        for quoted in guide.text.split('`').skip(1).step_by(2) {
            let is_path = quoted
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "_./-".contains(letter));
            let is_ours = quoted
                .split_once('/')
                .is_some_and(|(folder, _)| folders.contains(&folder));
            if is_path && is_ours && !quoted.contains("NAME") {
                assert!(
                    root.join(quoted).exists(),
                    "{}: there is no {quoted}",
                    guide.path.display()
                );
            }
        }
    }
}

#[test]
fn no_cell_has_more_words_than_a_reader_takes_in() {
    for guide in guides() {
        for row in guide.text.lines().filter(|line| line.starts_with('|')) {
            for cell in cells(row) {
                assert!(
                    words(&cell) <= CELL,
                    "{}: {} words: {cell}",
                    guide.path.display(),
                    words(&cell)
                );
            }
        }
    }
}

#[test]
fn the_rules_can_fail() {
    assert_eq!(
        links("[a](b.md#c) and [d](https://e.example) [f](#g)"),
        ["b.md#c", "#g"]
    );
    assert_eq!(
        fragments("## The `[log]` table, again\ntext"),
        ["the-log-table-again"]
    );
    assert_eq!(cells("| a \\| b | c |"), [" a  b ", " c "]);
    assert_eq!(words(" one [two three](four-five.md) six "), 4);
    assert_eq!(without_code("a\n```text\nb\n```\nc\n"), "a\nc\n");
}
