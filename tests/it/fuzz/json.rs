//! JSON: the machine's verdict is the oracle's and serde_json's, no chunking shows, and what is closed parses.

use restitch::json::Machine;
use restitch::{Document, SyntaxErrorKind};
use serde_json::Value;

use crate::support::{Rng, chunks, random_cuts};

/// What a validator says of a whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// One root and white space.
    Valid,
    /// The byte at this offset cannot stand there.
    Wrong(usize),
    /// More must follow.
    Short,
}

/// What the oracle knows of a text that is no error so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) verdict: Verdict,
    pub(crate) state: &'static str,
    pub(crate) path: String,
    pub(crate) certain: Option<(usize, bool)>,
}

/// A container that the oracle has found open.
struct Open {
    object: bool,
    key: Vec<u8>,
    count: usize,
    end: usize,
}

/// What the oracle expects next.
#[derive(Clone, Copy, PartialEq)]
enum Due {
    Root,
    Value,
    ElementOrCloser,
    KeyOrCloser,
    Key,
    Colon,
    After,
    Nothing,
}

/// How a token ends.
enum Token {
    /// Before this offset.
    Whole(usize),
    /// At a byte that cannot stand there.
    Wrong(usize),
    /// Not within the text: what is certain of it, and the name of its state.
    Open(usize, &'static str),
}

/// The slow twin: looks at whole tokens of a whole text, again and again, and keeps nothing between two calls.
pub(crate) fn oracle(text: &[u8], depth: usize) -> Scan {
    let mut open: Vec<Open> = Vec::new();
    let mut due = Due::Root;
    let mut at = 0;
    let wrong = |at| Scan { verdict: Verdict::Wrong(at), state: "error", path: String::new(), certain: None };
    // Where the root ended, once it has.
    let mut root_end = 0;
    loop {
        while at < text.len() && b" \t\r\n".contains(&text[at]) {
            at += 1;
        }
        let certain = open.last().map(|container| (container.end, false));
        let ends = |state, in_value, certain| Scan {
            verdict: if state == "done" { Verdict::Valid } else { Verdict::Short },
            state,
            path: pointer(&open, in_value),
            certain,
        };
        let Some(&byte) = text.get(at) else {
            return match due {
                Due::Root => ends("start", false, None),
                Due::Value | Due::ElementOrCloser => ends("value", true, certain),
                Due::KeyOrCloser | Due::Key | Due::Colon => ends("key", false, certain),
                Due::After => ends("after_value", false, certain),
                Due::Nothing => ends("done", false, Some((root_end, false))),
            };
        };
        let mut value_end = None;
        match due {
            Due::Nothing => return wrong(at),
            Due::Colon if byte == b':' => (at, due) = (at + 1, Due::Value),
            Due::After if byte == b',' => {
                due = if open.last().is_some_and(|container| container.object) { Due::Key } else { Due::Value };
                at += 1;
            }
            Due::After | Due::ElementOrCloser | Due::KeyOrCloser
                if open.last().is_some_and(|container| byte == if container.object { b'}' } else { b']' }) =>
            {
                open.pop();
                value_end = Some(at + 1);
            }
            Due::Key | Due::KeyOrCloser if byte == b'"' => match string(text, at) {
                Token::Whole(end) => {
                    if let Some(container) = open.last_mut() {
                        container.key = text[at + 1..end - 1].to_vec();
                    }
                    (at, due) = (end, Due::Colon);
                }
                Token::Wrong(at) => return wrong(at),
                Token::Open(_, state) => return ends(if state == "string" { "key" } else { state }, false, certain),
            },
            Due::Colon | Due::After | Due::Key | Due::KeyOrCloser => return wrong(at),
            Due::Root | Due::Value | Due::ElementOrCloser => {
                let token = match byte {
                    b'{' | b'[' if open.len() >= depth => return wrong(at),
                    b'{' | b'[' => {
                        open.push(Open { object: byte == b'{', key: Vec::new(), count: 0, end: at + 1 });
                        due = if byte == b'{' { Due::KeyOrCloser } else { Due::ElementOrCloser };
                        at += 1;
                        continue;
                    }
                    b'"' => string(text, at),
                    b't' => word(text, at, b"true"),
                    b'f' => word(text, at, b"false"),
                    b'n' => word(text, at, b"null"),
                    b'-' | b'0'..=b'9' => number(text, at),
                    _ => return wrong(at),
                };
                match token {
                    Token::Whole(end) => {
                        // A number ends where its longest form ends; only what may follow a value may follow it.
                        let next = text.get(end).copied().unwrap_or(b' ');
                        let closer = open.last().map(|container| if container.object { b'}' } else { b']' });
                        if byte != b'"'
                            && !byte.is_ascii_alphabetic()
                            && closer.is_some_and(|closer| !b" \t\r\n,".contains(&next) && next != closer)
                        {
                            return wrong(end);
                        }
                        value_end = Some(end);
                    }
                    Token::Wrong(at) => return wrong(at),
                    Token::Open(end, state) => {
                        let in_string = byte == b'"';
                        return ends(state, true, if in_string { Some((end, true)) } else { certain });
                    }
                }
            }
        }
        if let Some(end) = value_end {
            at = end;
            due = match open.last_mut() {
                Some(container) => {
                    container.count += 1;
                    container.end = end;
                    Due::After
                }
                None => {
                    root_end = end;
                    Due::Nothing
                }
            };
        }
    }
}

fn string(text: &[u8], start: usize) -> Token {
    let mut at = start + 1;
    loop {
        let rest = &text[at..];
        match rest {
            [] => return Token::Open(at, "string"),
            [b'"', ..] => return Token::Whole(at + 1),
            [b'\\'] => return Token::Open(at, "escape"),
            [b'\\', b'u', digits @ ..] => {
                let good = digits.iter().take(4).take_while(|byte| byte.is_ascii_hexdigit()).count();
                if good < 4 {
                    return if good == digits.len() { Token::Open(at, "escape") } else { Token::Wrong(at + 2 + good) };
                }
                let is_high =
                    |digits: &[u8]| matches!(digits, [b'd' | b'D', b'8' | b'9' | b'a' | b'A' | b'b' | b'B', ..]);
                if is_high(digits) {
                    match &digits[4..] {
                        // Its other half may follow: nothing of the pair is certain yet.
                        [] | [b'\\'] => return Token::Open(at, "escape"),
                        [b'\\', b'u', second @ ..] if second.len() < 4 && second.iter().all(u8::is_ascii_hexdigit) => {
                            return Token::Open(at, "escape");
                        }
                        _ => {}
                    }
                }
                let is_low = |digits: &[u8]| matches!(digits, [b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..]);
                at += 6;
                // A whole pair is one character, so that its second half is not looked at alone.
                if is_high(digits)
                    && let [b'\\', b'u', second @ ..] = &digits[4..]
                    && is_low(second)
                    && second.iter().take(4).filter(|byte| byte.is_ascii_hexdigit()).count() == 4
                {
                    at += 6;
                }
            }
            [b'\\', byte, ..] if b"\"\\/bfnrt".contains(byte) => at += 2,
            [b'\\', ..] => return Token::Wrong(at + 1),
            [0..=0x1f, ..] => return Token::Wrong(at),
            [0x20..=0x7f, ..] => at += 1,
            _ => match std::str::from_utf8(&rest[..rest.len().min(4)]) {
                Ok(good) => at += good.chars().next().map_or(0, char::len_utf8),
                Err(error) if error.valid_up_to() > 0 => {
                    let good = std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap();
                    at += good.chars().next().map_or(0, char::len_utf8);
                }
                Err(error) => match error.error_len() {
                    None => return Token::Open(at, "string"),
                    Some(_) if !(0xc2..=0xf4).contains(&rest[0]) => return Token::Wrong(at),
                    Some(good) => return Token::Wrong(at + good),
                },
            },
        }
    }
}

fn word(text: &[u8], at: usize, word: &[u8]) -> Token {
    let rest = &text[at..];
    let same = rest.iter().zip(word).take_while(|(a, b)| a == b).count();
    match same {
        _ if same == word.len() => Token::Whole(at + same),
        _ if same == rest.len() => Token::Open(at, "literal"),
        _ => Token::Wrong(at + same),
    }
}

fn number(text: &[u8], start: usize) -> Token {
    let digits = |at: usize| text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = start + usize::from(text[start] == b'-');
    match digits(at) {
        0 if at == text.len() => return Token::Open(at, "number"),
        0 => return Token::Wrong(at),
        // No digit may follow a leading zero.
        count if count > 1 && text[at] == b'0' => return Token::Wrong(at + 1),
        count => at += count,
    }
    if text.get(at) == Some(&b'.') {
        at += 1;
        match digits(at) {
            0 if at == text.len() => return Token::Open(at, "number"),
            0 => return Token::Wrong(at),
            count => at += count,
        }
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        match digits(at) {
            0 if at == text.len() => return Token::Open(at, "number"),
            0 => return Token::Wrong(at),
            count => at += count,
        }
    }
    if at == text.len() { Token::Open(at, "number") } else { Token::Whole(at) }
}

fn pointer(open: &[Open], in_value: bool) -> String {
    let shown = if in_value { open } else { &open[..open.len().saturating_sub(1)] };
    let token = |container: &Open| {
        if !container.object {
            return container.count.to_string();
        }
        let raw = String::from_utf8(container.key.clone()).unwrap();
        let key = serde_json::from_str::<String>(&format!("\"{raw}\"")).unwrap_or(raw);
        key.replace('~', "~0").replace('/', "~1")
    };
    shown.iter().map(|container| format!("/{}", token(container))).collect()
}

/// The machine's verdict on `text` fed in the given chunks, with the error's kind where it gave one. White space may
/// stand behind the root.
pub(crate) fn verdict(text: &[u8], depth: usize, cuts: &[usize]) -> (Verdict, Option<SyntaxErrorKind>) {
    let mut machine = Machine::new(depth);
    let mut fed = 0;
    for chunk in chunks(text, cuts) {
        let consumed = match machine.feed(chunk) {
            Ok(consumed) => consumed,
            Err(error) => {
                assert_eq!(machine.offset(), error.offset, "the machine stands before the error");
                let again = machine.feed(&text[error.offset..]).map(|_| ());
                assert_eq!(again, Err(error), "the same byte is the same error again");
                return (Verdict::Wrong(error.offset), Some(error.kind));
            }
        };
        let rest = &chunk[consumed..];
        assert!(rest.is_empty() || machine.is_done(), "only the end of the root stops the machine");
        if let Some(more) = rest.iter().position(|byte| !b" \t\r\n".contains(byte)) {
            return (Verdict::Wrong(fed + consumed + more), None);
        }
        fed += chunk.len();
    }
    match machine.finish() {
        Ok(()) => (Verdict::Valid, None),
        Err(error) => {
            assert_eq!(error.offset, text.len());
            assert_eq!(error.kind, SyntaxErrorKind::UnexpectedEnd);
            (Verdict::Short, None)
        }
    }
}

/// The oracle's verdict where nothing follows: a number at the root is whole then.
pub(crate) fn oracle_verdict(text: &[u8], depth: usize) -> Verdict {
    // A space behind the text ends a number, and changes nothing else that is whole. What it makes of an open token
    // is not asked.
    match oracle(text, depth).verdict {
        Verdict::Short if oracle(&[text, b" "].concat(), depth).verdict == Verdict::Valid => Verdict::Valid,
        verdict => verdict,
    }
}

/// serde_json's view, with the differences that are allowed: it refuses halves of surrogate pairs, numbers beyond
/// `f64`, and more than 127 open containers, all of which the grammar allows.
pub(crate) fn agrees_with_serde(text: &[u8], valid: bool) -> bool {
    match serde_json::from_slice::<Value>(text) {
        Ok(_) => valid,
        Err(error) => {
            let error = error.to_string();
            let allowed = ["surrogate", "unexpected end of hex escape", "number out of range", "recursion limit"];
            !valid || allowed.iter().any(|allowed| error.contains(allowed))
        }
    }
}

/// serde_json can't be asked about texts that hold what only the grammar allows.
pub(crate) fn parses_or_is_beyond_serde(text: &str) -> bool {
    agrees_with_serde(text.as_bytes(), true) && oracle_verdict(text.as_bytes(), usize::MAX) == Verdict::Valid
}

pub(crate) fn check(input: &[u8]) {
    let seed = input.iter().fold(input.len() as u64, |seed, &byte| seed.rotate_left(8) ^ u64::from(byte));
    let mut rng = Rng::new(seed);
    for depth in [1024, 1 + rng.below(6)] {
        let whole = verdict(input, depth, &[]);
        assert_eq!(whole.0, oracle_verdict(input, depth));
        let bytewise: Vec<_> = (1..input.len()).collect();
        assert_eq!(verdict(input, depth, &bytewise), whole, "byte by byte");
        for _ in 0..4 {
            let cuts = random_cuts(input.len(), &mut rng);
            assert_eq!(verdict(input, depth, &cuts), whole, "cut at {cuts:?}");
        }
        if depth == 1024 {
            assert!(agrees_with_serde(input, whole.0 == Verdict::Valid), "serde_json differs: {whole:?}");
        }
    }
    check_document(&String::from_utf8_lossy(input), &mut rng);
}

fn check_document(text: &str, rng: &mut Rng) {
    let mut document = Document::new(1024);
    let mut saved = None;
    for c in text.chars() {
        let Ok(()) = document.push(c.encode_utf8(&mut [0; 4])) else { break };
        check_closings(&document);
        if rng.below(8) == 0 {
            saved = Some((document.checkpoint(), document.clone()));
        }
    }
    let Some((checkpoint, then)) = saved else { return };
    assert!(document.restore(&checkpoint));
    assert_eq!((document.text(), document.cut()), (then.text(), then.cut()));
    assert_eq!((document.complete(), document.completion()), (then.complete(), then.completion()));
}

fn check_closings(document: &Document) {
    let Some(root) = document.root() else {
        assert_eq!(document.complete(), None);
        return;
    };
    let part = document.complete().unwrap();
    assert!(parses_or_is_beyond_serde(&part), "the complete part {part:?} of {root:?}");
    let completion = document.completion();
    let whole = format!("{root}{}", completion.suffix);
    assert!(parses_or_is_beyond_serde(&whole), "the completion {whole:?} of {root:?}");
    if let Ok(value) = serde_json::from_str::<Value>(&whole) {
        for path in &completion.filled {
            assert!(value.pointer(path).is_some(), "there is no {path:?} in {whole}");
        }
    }
    let mut closed = document.clone();
    assert_eq!((closed.push(&completion.suffix), closed.is_complete()), (Ok(()), true), "{whole}");
}
