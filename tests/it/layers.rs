//! A module names modules of lower numbers only, and the engine does no I/O (docs/architecture.md).

use std::fs;
use std::path::{Path, PathBuf};

/// The number of a module, by the first name below the crate's root.
const NUMBERS: [(&str, u32); 19] = [
    ("work", 0),
    ("error", 0),
    ("limits", 0),
    ("sse", 1),
    ("envelope", 1),
    ("json", 1),
    ("overlap", 1),
    ("document", 2),
    ("provider", 2),
    ("value", 3),
    ("paths", 3),
    ("carve", 3),
    ("children", 3),
    ("shape", 3),
    ("context", 4),
    ("splice", 4),
    ("session", 5),
    ("live", 6),
    ("stream", 7),
];

/// The last number that does no I/O.
const ENGINE: u32 = 5;

/// What no file of the engine may name.
const OUTSIDE: [&str; 22] = [
    "std::net",
    "std::fs",
    "std::io",
    "std::thread",
    "std::env",
    "std::process",
    "std::os",
    "tokio",
    "futures",
    "hyper",
    "async ",
    ".await",
    "async{",
    "Instant",
    "SystemTime",
    "println!",
    "eprintln!",
    "print!",
    "eprint!",
    "dbg!",
    "unsafe ",
    "extern ",
];

fn number(module: &str) -> Option<u32> {
    NUMBERS
        .iter()
        .find(|(name, _)| *name == module)
        .map(|(_, number)| *number)
}

/// The code of a file: without comments, text in quotes and its unit tests, which stand last.
fn code(source: &str) -> String {
    let source = source
        .split("#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default();
    let mut code = String::new();
    for line in source.lines() {
        let mut chars = line.chars().peekable();
        let mut quoted = false;
        while let Some(c) = chars.next() {
            match c {
                // A character that is a quote.
                '\'' if !quoted && chars.peek() == Some(&'"') => drop(chars.next()),
                '\\' if quoted => drop(chars.next()),
                '"' => quoted = !quoted,
                '/' if !quoted && chars.peek() == Some(&'/') => break,
                _ if !quoted => code.push(c),
                _ => {}
            }
        }
        code.push('\n');
    }
    code
}

/// The modules that a piece of code names, as the first name below the crate's root. `here` is the
/// path of the module that the code is, `["session", "stitch"]`.
fn named(code: &str, here: &[&str]) -> Vec<String> {
    let squeezed: String = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut push = |rest: &str| {
        if let Some(group) = rest.strip_prefix('{') {
            // `crate::{a::B, c}`: the names at the group's own level.
            let mut depth = 0;
            let mut start = true;
            for (at, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => start = true,
                    c if is_name(c) && start => {
                        found.push(group[at..].chars().take_while(|&c| is_name(c)).collect());
                        start = false;
                    }
                    _ => {}
                }
            }
        } else {
            found.push(rest.chars().take_while(|&c| is_name(c)).collect::<String>());
        }
    };
    for (at, _) in squeezed.match_indices("crate::") {
        if !squeezed[..at].ends_with(is_name) {
            push(&squeezed[at + 7..]);
        }
    }
    // As many `super::` as lead to the root.
    let up = "super::".repeat(here.len());
    for (at, _) in squeezed.match_indices(&up) {
        if !here.is_empty()
            && !squeezed[..at].ends_with(is_name)
            && !squeezed[..at].ends_with("super::")
        {
            push(&squeezed[at + up.len()..]);
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// What the root exports again, as (name, module): `pub use document::{Cut, Document}`.
fn exports(root: &str) -> Vec<(String, String)> {
    let code = code(root);
    let uses = code
        .split("pub use ")
        .skip(1)
        .filter_map(|rest| rest.split(';').next());
    // `internal` exports by paths from the root: no name of the root.
    uses.filter(|used| !used.starts_with("crate::"))
        .filter_map(|used| used.split_once("::"))
        .flat_map(|(module, names)| {
            let names = names
                .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .filter(|name| !name.is_empty());
            names.map(move |name| (name.to_owned(), module.to_owned()))
        })
        .collect()
}

/// What is wrong with a file, if anything.
fn faults(here: &[&str], source: &str, exports: &[(String, String)]) -> Vec<String> {
    let Some(own) = here.first().and_then(|module| number(module)) else {
        return vec![format!("{here:?} has no number in the design")];
    };
    let code = code(source);
    let mut faults = Vec::new();
    for name in named(&code, here) {
        let exported = exports.iter().find(|(exported, _)| *exported == name);
        let module = exported.map_or(name.as_str(), |(_, module)| module);
        match number(module) {
            _ if module == here[0] => {}
            Some(other) if other < own => {}
            Some(other) => faults.push(format!("{here:?} ({own}) names {name} ({other})")),
            None => faults.push(format!(
                "{here:?} names {name}, which is no module of the design"
            )),
        }
    }
    if own <= ENGINE {
        let outside = OUTSIDE.iter().filter(|outside| code.contains(*outside));
        faults.extend(outside.map(|outside| format!("{here:?} is the engine and names {outside}")));
    }
    faults
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn modules_name_lower_numbers_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&src, &mut all);
    let exports = exports(&fs::read_to_string(src.join("lib.rs")).unwrap());
    let mut wrong = Vec::new();
    for path in &all {
        let relative = path.strip_prefix(&src).unwrap().with_extension("");
        let mut here: Vec<_> = relative.iter().map(|part| part.to_str().unwrap()).collect();
        if here == ["lib"] {
            continue;
        }
        if here.last() == Some(&"mod") {
            here.pop();
        }
        wrong.extend(faults(&here, &fs::read_to_string(path).unwrap(), &exports));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("covered: {} files", all.len());
}

/// Log, metrics, spans, page and reports read figures off the record of an answer, so that a cut is
/// counted alike everywhere. The file of the exception writes each step down.
#[test]
fn one_file_outside_the_engine_reads_the_steps_of_a_session() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    files(&root.join("src"), &mut all);
    files(&root.join("crates"), &mut all);
    let engine = root.join("src/session");
    let reads = |path: &PathBuf| {
        !path.starts_with(&engine)
            && path.iter().any(|part| part == "src")
            && code(&fs::read_to_string(path).unwrap()).contains("SessionEvent::")
    };
    let readers: Vec<_> = all.into_iter().filter(reads).collect();
    assert!(
        matches!(&readers[..], [steps] if steps.ends_with("crates/proxy/src/steps.rs")),
        "{readers:?}"
    );
}

#[test]
fn every_row_names_a_module() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (module, _) in NUMBERS {
        assert!(
            src.join(module).is_dir() || src.join(format!("{module}.rs")).is_file(),
            "{module}"
        );
    }
}

#[test]
fn the_rule_can_fail() {
    let exports =
        exports("pub mod json;\npub use document::{Cut,\n Document};\npub use limits::Limits;");
    assert_eq!(exports.len(), 3);
    let check = |here: &[&str], source: &str, expect: &[&str]| {
        let faults = faults(here, source, &exports);
        assert_eq!(faults.len(), expect.len(), "{source}: {faults:?}");
        for (fault, part) in faults.iter().zip(expect) {
            assert!(fault.contains(part), "{fault} is not about {part}");
        }
    };
    check(
        &["document"],
        "use crate::json::Machine;\nuse crate::error::SyntaxError;",
        &[],
    );
    check(&["document"], "use crate::splice::Splice;", &["splice"]);
    check(&["document"], "use crate::provider::Finish;", &["provider"]);
    check(
        &["json", "walk"],
        "use super::stack::Frame; use crate::json::Kind;",
        &[],
    );
    check(
        &["json", "walk"],
        "use super::super::overlap::Anchor;",
        &["overlap"],
    );
    check(&["json"], "use super::document::Document;", &["document"]);
    check(
        &["session", "stitch"],
        "use crate::{\n    limits::Limits, stream::{Opened, sim},\n    live,\n};",
        &["stream", "live"],
    );
    check(
        &["session"],
        "fn f() -> crate::stream::Stitch {}",
        &["stream"],
    );
    check(
        &["overlap"],
        "use crate::Document; use crate::Limits;",
        &["Document"],
    );
    check(&["overlap"], "use crate::Unknown;", &["no module"]);
    check(&["elsewhere"], "", &["no number"]);
    // Comments, text and unit tests are not code.
    check(
        &["json"],
        "//! Like [`crate::stream`], std::fs.\nconst A: &str = \"crate::live println!\"; // tokio\n",
        &[],
    );
    check(
        &["json"],
        "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::session::Session;\n}\n",
        &[],
    );
    check(
        &["json"],
        "const Q: char = '\"'; use std::fs;",
        &["std::fs"],
    );
    for outside in [
        "use std::io::Read;",
        "async fn f() {}",
        "let t = Instant::now();",
        "std::thread::sleep(d);",
    ] {
        check(&["session"], outside, &["engine"]);
        check(&["stream"], outside, &[]);
    }
    check(
        &["sse"],
        "use tokio::time; println!();",
        &["tokio", "println"],
    );
}

/// The names that the other crates, the benches and the tests use beside the public ones. A longer
/// list is a decision: first look for a public name.
const INTERNAL: &str = include_str!("layers/internal.txt");

#[test]
fn the_hidden_module_exports_the_listed_names() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let root = fs::read_to_string(src.join("lib.rs")).unwrap();
    let (_, internal) = root.split_once("pub mod internal {").unwrap();
    let (internal, _) = internal.split_once("\n}\n").unwrap();
    let squeezed = internal.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut names = Vec::new();
    for used in squeezed.split("pub use crate::").skip(1) {
        let (path, _) = used.split_once(';').unwrap();
        match path.split_once('{') {
            Some((module, group)) => names.extend(
                group
                    .trim_end_matches(['}', ' '])
                    .split(',')
                    .map(str::trim)
                    .filter(|name| !name.is_empty())
                    .map(|name| format!("{module}{name}")),
            ),
            None => names.push(path.to_owned()),
        }
    }
    names.sort();
    let listed: Vec<_> = INTERNAL.lines().collect();
    assert_eq!(names, listed);
    assert!(names.len() > 50);
}
