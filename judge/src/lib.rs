//! Reads a grammar as a server does, and tells which texts it allows.

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::ApproximateTokEnv;
use llguidance::{Matcher, ParserFactory};

/// An engine that enforces grammars, with a tokenizer whose tokens are single bytes.
pub struct Judge(ParserFactory);

/// The verdict of a grammar about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The text is allowed, and may end here.
    Whole,
    /// The text is allowed, and more must follow.
    Open,
    /// The grammar refuses the byte at this offset.
    Refused(usize),
}

impl Judge {
    pub fn new() -> Self {
        let env = ApproximateTokEnv::single_byte_env();
        let mut factory = ParserFactory::new_simple(&env).expect("an engine");
        factory.quiet();
        Self(factory)
    }

    /// Returns a reader of texts at the start of a grammar in Lark.
    ///
    /// # Panics
    /// If the engine refuses the grammar.
    pub fn read(&self, lark: &str) -> Reader {
        let grammar = TopLevelGrammar::from_lark(lark.to_owned());
        let mut matcher = Matcher::new(self.0.create_parser(grammar));
        if let Some(error) = matcher.get_error() {
            panic!("{error}\n{lark}");
        }
        assert!(matcher.grammar_warnings().is_empty(), "{lark}");
        Reader(matcher)
    }

    /// Returns a reader of each grammar after a text that it forces.
    ///
    /// # Panics
    /// If one does not force the text.
    pub fn read_after<const N: usize>(&self, head: &str, grammars: [&str; N]) -> [Reader; N] {
        grammars.map(|grammar| {
            let mut reader = self.read(grammar);
            let forced = reader.forced();
            assert!(forced.starts_with(head.as_bytes()), "{grammar}");
            let verdict = reader.push(head);
            assert!(!matches!(verdict, Verdict::Refused(_)), "{grammar}");
            reader
        })
    }
}

impl Default for Judge {
    fn default() -> Self {
        Self::new()
    }
}

/// A text under a grammar, from its first byte on. A clone is another text with the same beginning.
#[derive(Clone)]
pub struct Reader(Matcher);

impl Reader {
    /// Adds text, and returns the verdict about the whole text.
    pub fn push(&mut self, text: &str) -> Verdict {
        let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
        let taken = self.0.try_consume_tokens(&tokens).expect("no failure");
        if taken < tokens.len() {
            Verdict::Refused(taken)
        } else if self.0.is_accepting().expect("no failure") {
            Verdict::Whole
        } else {
            Verdict::Open
        }
    }

    /// Returns the text that the grammar leaves no choice about.
    pub fn forced(&mut self) -> Vec<u8> {
        self.0.compute_ff_bytes()
    }

    /// Returns whether the grammar allows each byte next.
    pub fn next_bytes(&mut self) -> [bool; 256] {
        let mask = self.0.compute_mask_or_eos().expect("no failure");
        std::array::from_fn(|byte| mask.is_allowed(byte as u32))
    }
}

/// Returns a grammar in GBNF as one in Lark, whose rules match one character at a time.
///
/// # Panics
/// If the text is not GBNF as llama.cpp documents it: names have letters, digits and `-`, a rule is
/// one line.
pub fn lark_of_gbnf(gbnf: &str) -> String {
    let mut lark = String::new();
    for line in gbnf.lines() {
        let (name, mut body) = line.split_once(" ::= ").expect("a rule");
        assert!(is_name(name), "{line}");
        lark.push_str(if name == "root" { "start" } else { name });
        lark.push_str(": ");
        while let Some(first) = body.chars().next() {
            let (length, written) = match first {
                '"' => {
                    let end = end_of(body, '"');
                    (end, body[..end].to_owned())
                }
                '[' => {
                    let end = end_of(body, ']');
                    (end, format!("/{}/", body[..end].replace('/', "\\/")))
                }
                ' ' | '(' | ')' | '|' | '*' | '+' | '?' => (1, first.to_string()),
                _ => {
                    let end = body
                        .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
                        .unwrap_or(body.len());
                    assert!(is_name(&body[..end]), "{line}");
                    (end, body[..end].to_owned())
                }
            };
            lark.push_str(&written);
            body = &body[length..];
        }
        lark.push('\n');
    }
    lark
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// Returns the offset after the first `closer` that no backslash precedes.
fn end_of(text: &str, closer: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == closer => return at + 1,
            _ => {}
        }
    }
    panic!("{closer} is missing in {text}");
}
