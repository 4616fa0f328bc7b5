//! The bodies of the fuzz targets, run over the inputs that were worth keeping.
//!
//! A body is a plain function in `fuzz/NAME.rs` beside this file; `fuzz/fuzz_targets/NAME.rs` at the root of the
//! repository hands it to the fuzzer, which keeps its inputs in `fuzz/corpus/NAME`. The bodies live here because a
//! package of this crate has its tests but not the `fuzz` crate.

pub(crate) mod json;
pub(crate) mod splice;
pub(crate) mod sse;
pub(crate) mod value;

use std::{fs, path::Path};

fn over_kept(name: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("skipped: there is no fuzz/corpus/{name}");
        return;
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "fuzz/corpus/{name} is empty");
    for file in &files {
        println!("{}", file.display()); // Shown if the body panics.
        body(&fs::read(file).unwrap());
    }
    println!("covered: {} inputs of fuzz/corpus/{name}", files.len());
}

#[test]
fn json_kept() {
    over_kept("json", json::check);
}

#[test]
fn splice_kept() {
    over_kept("splice", splice::check);
}

#[test]
fn sse_kept() {
    over_kept("sse", sse::check);
}

#[test]
fn value_kept() {
    over_kept("value", value::check);
}
