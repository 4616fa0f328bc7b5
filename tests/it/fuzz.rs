//! Runs the bodies of the fuzz targets over the inputs that were kept.
//!
//! A body is a plain function in `fuzz/NAME.rs` beside this file. `fuzz/fuzz_targets/NAME.rs` at
//! the root of the repository passes it to the fuzzer, which keeps its inputs in
//! `fuzz/corpus/NAME`. The findings of long runs, reduced to the fewest inputs that reach the same
//! code, are in `fuzz/corpus/NAME.hex`, one a line. The bodies are here because the package of this
//! crate contains its tests but not the `fuzz` crate.

pub(crate) mod against_serde;
pub(crate) mod familiar;
pub(crate) mod feed;
pub(crate) mod relay_ops;
pub(crate) mod repair;
pub(crate) mod seam;
pub(crate) mod splice;
pub(crate) mod splits;
pub(crate) mod sse;
pub(crate) mod value;
pub(crate) mod wire;
pub(crate) mod wire_calls;
pub(crate) mod wire_cut;
pub(crate) mod write_read;

use std::{fs, path::Path};

use crate::wires::continued;
use restitch_testing::skipped;

use {
    crate::seam::{missing, reading},
    restitch_sim::style,
};

fn over_kept(name: &str, body: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let Ok(entries) = fs::read_dir(corpus.join(name)) else {
        skipped(&format!("there is no fuzz/corpus/{name}"));
        return;
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "fuzz/corpus/{name} is empty");
    for file in &files {
        println!("{}", file.display()); // Shown if the body panics.
        body(&fs::read(file).unwrap());
    }
    let found = fs::read_to_string(corpus.join(format!("{name}.hex"))).unwrap_or_default();
    for (line, hex) in found.lines().enumerate() {
        println!("fuzz/corpus/{name}.hex:{}", line + 1);
        let digit = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
        let (pairs, _) = hex.as_bytes().as_chunks::<2>();
        body(
            &pairs
                .iter()
                .map(|[high, low]| digit(*high) << 4 | digit(*low))
                .collect::<Vec<_>>(),
        );
    }
    println!(
        "covered: {} inputs of fuzz/corpus/{name}, and {} that were found",
        files.len(),
        found.lines().count()
    );
}

#[test]
fn against_serde_kept() {
    over_kept("against_serde", against_serde::check);
}

#[test]
fn feed_kept() {
    over_kept("feed", feed::check);
}

#[test]
fn relay_ops_kept() {
    over_kept("relay_ops", relay_ops::check);
}

#[test]
fn repair_kept() {
    over_kept("repair", repair::check);
}

#[test]
fn seam_kept() {
    over_kept("seam", seam::check);
}

#[test]
fn splits_kept() {
    over_kept("splits", splits::check);
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

/// Texts of several roots: in every chunking the live value is the root.
#[test]
fn values_of_several_roots() {
    let parts: [&[u8]; 20] = [
        b"{\"a\": 1}",
        b"{\"b\": [\"2\"",
        b"[1]",
        b"[1, {\"c\": \"d",
        b"[\"e\", 2]",
        b"\n",
        b" ",
        b"\n\n",
        b"Schema: ",
        b"So it is. ",
        b"```json\n",
        b"\n```\n",
        b"[INST] ",
        b"[True, ",
        b"[Note]: ",
        b"</think>",
        b"}",
        b"\"",
        b", ",
        b"7",
    ];
    let mut rng = restitch_testing::Rng::new(7);
    for _ in 0..1500 {
        let mut text = vec![rng.below(48) as u8];
        for _ in 0..2 + rng.below(9) {
            text.extend_from_slice(parts[rng.below(parts.len())]);
        }
        println!("{}", String::from_utf8_lossy(&text));
        value::check(&text);
        splits::check(&text);
    }
}

#[test]
fn wire_kept() {
    over_kept("wire", wire::check);
}

#[test]
fn wire_calls_kept() {
    over_kept("wire_calls", wire_calls::check);
}

#[test]
fn wire_cut_kept() {
    over_kept("wire_cut", wire_cut::check);
}

#[test]
fn familiar_kept() {
    over_kept("familiar", familiar::check);
}

#[test]
fn write_read_kept() {
    over_kept("write_read", write_read::check);
}
