//! SECURITY.md names a test for each promise: each of them exists.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the names in the last column of the tables whose header is `promise | test`.
fn named(page: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_in_table = false;
    for line in page.lines() {
        is_in_table = line == "| promise | test |" || is_in_table && line.starts_with('|');
        let Some(last) = line
            .trim_end_matches('|')
            .rsplit('|')
            .next()
            .filter(|_| is_in_table)
        else {
            continue;
        };
        let here: Vec<_> = last.split('`').skip(1).step_by(2).collect();
        let is_head = line == "| promise | test |" || line == "|---|---|";
        assert!(
            is_head || !here.is_empty(),
            "a promise without a test: {line}"
        );
        names.extend(here);
    }
    names
}

/// Returns whether a source has a test of this name.
fn has_test(source: &str, name: &str) -> bool {
    let is_test = |before: &str| {
        let attributes = before
            .rsplit('\n')
            .skip(1)
            .take_while(|line| !line.trim().is_empty() && *line != "}");
        attributes
            .map(str::trim)
            .any(|line| line == "#[test]" || line.starts_with("#[tokio::test"))
    };
    let declared = format!("fn {name}()");
    source
        .match_indices(&declared)
        .any(|(at, _)| is_test(source.get(..at).unwrap_or_default()))
}

#[test]
fn each_promise_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests/it"), &mut files);
    sources(&root.join("crates"), &mut files);
    let sources: Vec<_> = files
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let page = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let names = named(&page);
    for name in &names {
        assert!(
            sources.iter().any(|source| has_test(source, name)),
            "there is no test `{name}`"
        );
    }
    println!("covered: {} promises", names.len());
    assert!(names.len() > 20, "the tables were not found");
}

#[test]
fn the_rule_can_fail() {
    assert!(
        has_test("#[test]\nfn a() {}", "a") && has_test("#[tokio::test]\nasync fn a() {}", "a")
    );
    assert!(has_test(
        "    #[test]\n    #[cfg(unix)]\n    fn a() {}",
        "a"
    ));
    assert!(!has_test("fn a() {}", "a") && !has_test("#[test]\nfn b() {}\n\nfn a() {}", "a"));
    assert_eq!(
        named("| promise | test |\n|---|---|\n| x `y` | `a`, `b` |\n\n| z | `c` |"),
        ["a", "b"]
    );
}
