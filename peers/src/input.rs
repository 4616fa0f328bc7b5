//! The texts that are raced on.

use std::fs;
use std::path::PathBuf;

/// Files above this many bytes are left out: the race is about pushes, not about length.
const LONGEST: u64 = 8 << 20;

/// A named text.
pub struct Input {
    /// The file's name, or what was generated.
    pub name: String,
    /// One JSON document.
    pub text: String,
}

/// Sections as models write them, of about so many bytes: the text of `benches/engine.rs`.
pub fn sections(bytes: usize) -> String {
    let mut text = String::from("{\"title\": \"Report\", \"sections\": [");
    let mut n = 0;
    while text.len() < bytes {
        text.push_str(if n == 0 { "" } else { ", " });
        section(n, &mut text);
        n += 1;
    }
    text.push_str("]}");
    text
}

/// One section, as an object.
pub fn section(n: usize, text: &mut String) {
    text.push_str(&format!(
        "{{\"id\": {n}, \"type\": \"paragraph\", \"content\": \"Section {n} says \\\"{}\\\" – and so on, at some \
         length, for as long as a paragraph goes on.\\n\", \"values\": [{}, -{n}.5e-3, true, null]}}",
        n * 7919,
        n * 31
    ));
}

/// `text` in pieces of about so many bytes, none of which ends inside a character.
pub fn pieces(text: &str, bytes: usize) -> Vec<&str> {
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.ceil_char_boundary(bytes.min(rest.len())));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// The JSON documents of the folder that `RESTITCH_CORPUS` names, by name; none, and a word, where it names none.
pub fn corpus() -> Vec<Input> {
    let Some(folder) = std::env::var_os("RESTITCH_CORPUS").map(PathBuf::from) else {
        println!("skipped: RESTITCH_CORPUS is not set\n");
        return Vec::new();
    };
    let mut inputs = Vec::new();
    for part in ["docs", "bench"] {
        for entry in fs::read_dir(folder.join(part)).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_short = entry.metadata().is_ok_and(|data| data.len() <= LONGEST);
            if path.extension().is_none_or(|extension| extension != "json") || !is_short {
                continue;
            }
            if let Ok(text) = fs::read_to_string(&path) {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                inputs.push(Input { name, text });
            }
        }
    }
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    inputs
}
