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

/// Returns sections as models write them, of roughly this many bytes: the text of
/// `benches/engine.rs`.
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

/// Returns events of the recorded shape of a chat with `obfuscation`, with 5 characters of `text`
/// in each.
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

/// Returns generated texts of roughly this many bytes each: a text for each kind of content that
/// makes a parser slow.
pub fn generated(bytes: usize) -> Vec<Input> {
    let kinds: [(&str, Write); 7] = [
        ("numbers", numbers),
        ("pretty-printed", pretty),
        ("messages", messages),
        ("beyond ASCII", beyond_ascii),
        ("escapes", escapes),
        ("nesting", nesting),
        ("strings of 64 KB", long_strings),
    ];
    let sections = Input {
        name: "sections".to_owned(),
        text: sections(bytes),
    };
    let others = kinds.into_iter().map(|(name, write)| {
        let (mut rng, mut text) = (Rng(1), String::from("["));
        while text.len() < bytes {
            text.push_str(if text.len() == 1 { "" } else { "," });
            write(&mut rng, &mut text);
        }
        text.push(']');
        Input {
            name: name.to_owned(),
            text,
        }
    });
    std::iter::once(sections).chain(others).collect()
}

/// Writes one element of a text.
type Write = fn(&mut Rng, &mut String);

/// A small generator of numbers (SplitMix64): the same texts on every machine.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    /// Returns `count` words, with spaces between them.
    fn words(&mut self, from: &[&str], count: u64) -> String {
        (0..count)
            .map(|_| self.pick(from))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

const WORDS: [&str; 12] = [
    "a",
    "the",
    "section",
    "of",
    "measured",
    "values",
    "is",
    "longer",
    "than",
    "it",
    "was",
    "yesterday",
];
const WORDS_BEYOND_ASCII: [&str; 8] = [
    "Привет",
    "мир",
    "это",
    "длинный",
    "текст",
    "日本語",
    "文章です",
    "ελληνικά",
];

/// A pair of coordinates: numbers with 13 to 16 digits.
fn numbers(rng: &mut Rng, text: &mut String) {
    let mut coordinate = || {
        let digits = 11 + rng.below(4);
        format!(
            "-{}.{}",
            40 + rng.below(100),
            10u64.pow(digits as u32) + rng.next() % 10u64.pow(digits as u32)
        )
    };
    text.push_str(&format!("[{},{}]", coordinate(), coordinate()));
}

/// A row of a catalogue, printed with four spaces a level.
fn pretty(rng: &mut Rng, text: &mut String) {
    let areas: Vec<String> = (0..1 + rng.below(4))
        .map(|_| {
            let (area, block) = (rng.below(1 << 28), rng.below(1000));
            format!("                {{\n                    \"areaId\": {area},\n                    \"blockIds\": [{block}]\n                }}")
        })
        .collect();
    text.push_str(&format!(
        "\n    {{\n        \"id\": {},\n        \"name\": null,\n        \"prices\": [\n            {{\n                \
         \"amount\": {},\n                \"seatCategoryId\": {}\n            }}\n        ],\n        \"areas\": \
         [\n{}\n        ]\n    }}",
        rng.below(1 << 28),
        rng.below(1 << 16),
        rng.below(1 << 28),
        areas.join(",\n")
    ));
}

/// A message of a social network: many short keys, prose partly beyond ASCII, links with escapes.
fn messages(rng: &mut Rng, text: &mut String) {
    let (id, words) = (rng.next() >> 8, 4 + rng.below(12));
    let prose = if rng.below(2) == 0 {
        rng.words(&WORDS, words)
    } else {
        rng.words(&WORDS_BEYOND_ASCII, words)
    };
    text.push_str(&format!(
        "\n  {{\n    \"id\": {id},\n    \"id_str\": \"{id}\",\n    \"text\": \"{prose}\",\n    \"user\": {{\n      \
         \"name\": \"{}\",\n      \"url\": \"http:\\/\\/example.org\\/{}\",\n      \"verified\": {},\n      \
         \"followers_count\": {}\n    }},\n    \"truncated\": false,\n    \"geo\": null\n  }}",
        rng.words(&WORDS, 2),
        rng.below(1 << 20),
        rng.below(2) == 0,
        rng.below(5000),
    ));
}

/// Prose of which seven of eight bytes are beyond ASCII.
fn beyond_ascii(rng: &mut Rng, text: &mut String) {
    let words = 20 + rng.below(60);
    text.push_str(&format!(
        "{{\"id\": {}, \"content\": \"{}.\"}}",
        rng.below(1000),
        rng.words(&WORDS_BEYOND_ASCII, words)
    ));
}

/// Source code, and text whose characters are escaped.
fn escapes(rng: &mut Rng, text: &mut String) {
    text.push('"');
    for _ in 0..20 {
        let name = rng.pick(&WORDS);
        match rng.below(4) {
            0 => text.push_str(&format!(
                "if (\\\"{name}\\\" == x) {{\\n\\t\\treturn;\\n\\t}}\\n"
            )),
            1 => text.push_str(&format!("C:\\\\{name}\\\\file.txt\\r\\n")),
            2 => (0..6).for_each(|_| text.push_str(&format!("\\u{:04x}", 0x430 + rng.below(32)))),
            _ => text.push_str("\\ud83d\\ude00 "),
        }
    }
    text.push('"');
}

/// Containers in containers, up to 60 deep, with little in them.
fn nesting(rng: &mut Rng, text: &mut String) {
    let mut open = Vec::new();
    for _ in 0..1 + rng.below(60) {
        if rng.below(2) == 0 {
            text.push_str("{\"k\":");
            open.push('}');
        } else {
            text.push_str(if rng.below(3) == 0 { "[1," } else { "[" });
            open.push(']');
        }
    }
    text.push_str(rng.pick(&["{}", "[]", "0", "\"\""]));
    text.extend(open.iter().rev());
}

/// A string of 64 KB of prose, a line an escape.
fn long_strings(rng: &mut Rng, text: &mut String) {
    let end = text.len() + (64 << 10);
    text.push('"');
    while text.len() < end {
        let words = 8 + rng.below(8);
        text.push_str(&rng.words(&WORDS, words));
        text.push_str(".\\n");
    }
    text.push('"');
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

/// Reads the JSON documents of the folder that `RESTITCH_CORPUS` names, sorted by name; without the
/// variable, prints that there are none.
pub fn corpus() -> Vec<Input> {
    let Some(folder) = std::env::var_os("RESTITCH_CORPUS").map(PathBuf::from) else {
        println!("skipped: RESTITCH_CORPUS is not set\n");
        return Vec::new();
    };
    let mut inputs = Vec::new();
    for part in ["docs", "bench"] {
        for entry in fs::read_dir(folder.join(part))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            let is_short = entry.metadata().is_ok_and(|data| data.len() <= LONGEST);
            if path.extension().is_none_or(|extension| extension != "json") || !is_short {
                continue;
            }
            if let Ok(text) = fs::read_to_string(&path) {
                let name = path
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                inputs.push(Input { name, text });
            }
        }
    }
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    inputs
}

/// Returns the usual files among those of [`corpus`]: three that most benchmarks of parsers have, and
/// the recorded answers as one array.
pub fn usual() -> Vec<Input> {
    let (mut usual, mut answers) = (Vec::new(), Vec::new());
    for input in corpus() {
        match input.name.as_str() {
            "twitter" | "citm_catalog" | "canada" => usual.push(input),
            name if name.starts_with("llm") => answers.push(input.text),
            _ => {}
        }
    }
    if !answers.is_empty() {
        usual.push(Input {
            name: "recorded answers".to_owned(),
            text: format!("[{}]", answers.join(",")),
        });
    }
    usual
}

/// Reads the event streams below `streams` in the folder that `RESTITCH_CORPUS` names: the JSON of
/// their events, as one array. `None` without them.
pub fn streams() -> Option<Input> {
    let mut folders = vec![PathBuf::from(std::env::var_os("RESTITCH_CORPUS")?).join("streams")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push(path)
            }
        }
    }
    files.sort();
    let mut events = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap_or_default();
        let is_json = |event: &&str| serde_json::from_str::<serde::de::IgnoredAny>(event).is_ok();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        events.extend(data.filter(is_json).map(str::to_owned));
    }
    let text = format!("[{}]", events.join(","));
    (!events.is_empty()).then(|| Input {
        name: "events of recorded streams".to_owned(),
        text,
    })
}
