//! The table in docs/internals/repair.md has the rules of `json::repair`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use restitch::repair::RepairRule;

/// The table as the page has it. Control characters are shown as escapes, a bar would end a cell.
fn table() -> String {
    let mut table = String::from(
        "| rule | level | what is wrong | example | becomes |\n|---|---|---|---|---|\n",
    );
    let cell = |text: &str| {
        let shown: String = text
            .chars()
            .map(|c| {
                if c == '\t' {
                    "⇥".to_owned()
                } else {
                    c.escape_debug().to_string()
                }
            })
            .collect();
        // Quotes and backslashes stand for themselves.
        format!(
            "`{}`",
            shown
                .replace("\\\"", "\"")
                .replace("\\'", "'")
                .replace("\\\\", "\\")
        )
    };
    for rule in RepairRule::ALL {
        let (before, after) = rule.example();
        let (level, meaning) = (rule.level(), rule.meaning());
        writeln!(
            table,
            "| `{rule}` | {level} | {meaning} | {} | {} |",
            cell(before),
            cell(after)
        )
        .unwrap();
    }
    table
}

#[test]
fn the_page_has_the_table_of_rules() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/internals/repair.md"))
            .unwrap();
    let table = table();
    assert!(
        page.contains(&table),
        "docs/internals/repair.md lacks this table:\n{table}"
    );
}
