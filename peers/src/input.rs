//! The texts of the race.

use std::fs;
use std::path::PathBuf;

/// The largest file in bytes: the race measures pushes, not length.
const LONGEST: u64 = 8 << 20;

/// A named text.
pub struct Input {
    /// The file's name, or a description of the generated text.
    pub name: String,
    /// One JSON document.
    pub text: String,
}

/// Returns sections as models write them, of roughly this many bytes: the text of `benches/engine.rs`.
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

/// Writes one section, as an object.
pub fn section(n: usize, text: &mut String) {
    text.push_str(&format!(
        "{{\"id\": {n}, \"type\": \"paragraph\", \"content\": \"Section {n} says \\\"{}\\\" – and so on, at some \
         length, for as long as a paragraph goes on.\\n\", \"values\": [{}, -{n}.5e-3, true, null]}}",
        n * 7919,
        n * 31
    ));
}

/// Returns events of the recorded shape of a chat with `obfuscation`, with 5 characters of `text` in each.
pub fn chat_events(text: &str) -> Vec<Vec<u8>> {
    let event = |(n, piece): (usize, &str)| {
        let content = serde_json::Value::from(piece);
        let padding = &"0123456789abcdef"[..1 + n * 7 % 15];
        format!(
            "data: {{\"id\":\"chatcmpl-0123456789abcdef0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1750000000,\
             \"model\":\"gpt-4o-2024-08-06\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_0123456789\",\"choices\":\
             [{{\"index\":0,\"delta\":{{\"content\":{content}}},\"logprobs\":null,\"finish_reason\":null}}],\
             \"obfuscation\":\"{padding}\"}}\n\n"
        )
        .into_bytes()
    };
    pieces(text, 5).into_iter().enumerate().map(event).collect()
}

/// Splits `text` into pieces of roughly this many bytes that end between characters.
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

/// Reads the JSON documents of the folder that `RESTITCH_CORPUS` names, sorted by name; without the variable, prints
/// that there are none.
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
