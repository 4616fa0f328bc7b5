//! The example that redacts values: all other bytes pass unchanged.

#[expect(dead_code, reason = "the test calls what `main` calls")]
#[path = "../../examples/redact.rs"]
mod example;

use std::io::{self, Read};

const TEXT: &str = "Sure:\n{\"users\": [\n  {\"name\": \"Ad\\u0061\",\t\"pin\" :  1815 , \"email\": \"a\\n@example.com\"},\r\n  \
    {\"pin\":[19, {\"1\": 2}], \"pin2\": 1912, \"é\": \"1912\"}, 12]}\n";
const REDACTED: &str = "Sure:\n{\"users\": [\n  {\"name\": \"Ad\\u0061\",\t\"pin\" :  \"[redacted]\" , \"email\": \"[redacted]\"},\r\n  \
    {\"pin\":\"[redacted]\", \"pin2\": 1912, \"é\": \"1912\"}, \"[redacted]\"]}\n";
const PATTERNS: [&str; 4] = [
    "/users/*/pin",
    "/users/*/email",
    "/users/1/pin/1",
    "/users/2",
];

/// A reader that returns at most this many bytes for a read.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.1.min(buffer.len());
        self.0.read(&mut buffer[..length])
    }
}

fn redacted(text: &[u8], piece: usize) -> (String, bool) {
    let mut output = Vec::new();
    let result = example::Redactor::new(PATTERNS)
        .unwrap()
        .run(Pieces(text, piece), &mut output);
    (String::from_utf8(output).unwrap(), result.is_ok())
}

#[test]
fn the_rest_passes_unchanged_whatever_the_pieces() {
    for piece in [1, 2, 3, 10, 4096] {
        let (output, is_whole) = redacted(TEXT.as_bytes(), piece);
        assert!(is_whole);
        assert_eq!(output, REDACTED, "{piece}");
    }
}

#[test]
fn a_text_that_is_cut_or_malformed_leaks_nothing() {
    for cut in 0..TEXT.len() {
        for bad in ["", "]", "}", "x", "\u{1}"] {
            let text = [&TEXT.as_bytes()[..cut], bad.as_bytes()].concat();
            let (output, _) = redacted(&text, 7);
            let secrets = ["1815", "\"a\\n", "19,", "\"1\"", " 12"];
            let found = secrets.iter().find(|secret| output.contains(**secret));
            assert_eq!(found, None, "{cut} {bad}: {output}");
            if bad.is_empty() {
                assert!(REDACTED.starts_with(&output), "{cut}: {output}");
            }
        }
    }
}
