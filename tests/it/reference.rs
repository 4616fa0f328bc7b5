//! The machine's slow twin: reads whole prefixes, and returns what is certain of each.

use restitch::json::{Event, ParserView, Sink};

/// What a validator says of a whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// One root and white space.
    Valid,
    /// The byte at this offset is not allowed.
    Wrong(usize),
    /// More must follow.
    Short,
}

/// One certain thing: the name of an event, the bytes it is about, the path of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) name: &'static str,
    pub(crate) span: (usize, usize),
    pub(crate) path: String,
}

/// What the oracle knows of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) verdict: Verdict,
    /// The name of the cut's state, and its path; meaningless if the text is wrong.
    pub(crate) state: &'static str,
    pub(crate) path: String,
    /// All that is certain, in order. The parts of a string are one.
    pub(crate) told: Vec<Told>,
    /// The end of the root, or of the last whole child of the innermost container.
    whole: Option<usize>,
    /// Up to where an open string, which is a value, is certain.
    string: Option<usize>,
    /// The rest of an open literal.
    literal: Option<&'static str>,
    closers: String,
    length: usize,
}

impl Scan {
    /// Where the complete part ends and what follows there, with open strings and literals included
    /// or not.
    pub(crate) fn complete(&self, strings: bool, literals: bool) -> Option<(usize, String)> {
        let (end, rest) = match (
            self.string.filter(|_| strings),
            self.literal.filter(|_| literals),
        ) {
            (Some(end), _) => (end, "\""),
            (_, Some(rest)) => (self.length, rest),
            _ => (self.whole?, ""),
        };
        Some((end, format!("{rest}{}", self.closers)))
    }
}

/// A container that the oracle has found open.
struct Open {
    object: bool,
    start: usize,
    key: Vec<u8>,
    count: usize,
    end: usize,
}

impl Open {
    fn closer(&self) -> u8 {
        if self.object { b'}' } else { b']' }
    }
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

/// What is at the end of the text.
enum Rest {
    None,
    /// A string that is a value, certain so far.
    String(usize),
    /// A literal without this rest.
    Literal(&'static str),
    /// A byte that is not allowed there.
    Wrong(usize),
}

/// How a token ends.
enum Token {
    /// Before this offset.
    Whole(usize),
    /// At a byte that is not allowed there.
    Wrong(usize),
    /// Not within the text: what is certain of it, and the name of its state.
    Open(usize, &'static str),
}

/// The slow twin: examines whole tokens of a whole text, again and again, and keeps nothing between
/// two calls.
pub(crate) fn oracle(text: &[u8], depth: usize) -> Scan {
    let mut open: Vec<Open> = Vec::new();
    let mut told = Vec::new();
    let mut due = Due::Root;
    let mut at = 0;
    // Where the root ended, once it has.
    let mut root_end = None;
    let (state, in_value, open_token) = loop {
        while at < text.len() && b" \t\r\n".contains(&text[at]) {
            at += 1;
        }
        let Some(&byte) = text.get(at) else {
            break match due {
                Due::Root => ("start", false, Rest::None),
                Due::Value | Due::ElementOrCloser => ("value", true, Rest::None),
                Due::KeyOrCloser | Due::Key | Due::Colon => ("key", false, Rest::None),
                Due::After => ("after_value", false, Rest::None),
                Due::Nothing => ("done", false, Rest::None),
            };
        };
        let mut value_end = None;
        match due {
            Due::Nothing => break ("error", false, Rest::Wrong(at)),
            Due::Colon if byte == b':' => (at, due) = (at + 1, Due::Value),
            Due::After if byte == b',' => {
                due = if open.last().is_some_and(|container| container.object) {
                    Due::Key
                } else {
                    Due::Value
                };
                at += 1;
            }
            Due::After | Due::ElementOrCloser | Due::KeyOrCloser
                if open
                    .last()
                    .is_some_and(|container| byte == container.closer()) =>
            {
                let start = open.pop().map_or(0, |container| container.start);
                told.push(Told {
                    name: "end",
                    span: (start, at + 1),
                    path: pointer(&open, true),
                });
                value_end = Some(at + 1);
            }
            Due::Key | Due::KeyOrCloser if byte == b'"' => match string(text, at) {
                Token::Whole(end) => {
                    if let Some(container) = open.last_mut() {
                        container.key = text[at + 1..end - 1].to_vec();
                    }
                    told.push(Told {
                        name: "key",
                        span: (at + 1, end - 1),
                        path: pointer(&open, true),
                    });
                    (at, due) = (end, Due::Colon);
                }
                Token::Wrong(at) => break ("error", false, Rest::Wrong(at)),
                Token::Open(_, "string") => break ("key", false, Rest::None),
                Token::Open(_, state) => break (state, false, Rest::None),
            },
            Due::Colon | Due::After | Due::Key | Due::KeyOrCloser => {
                break ("error", false, Rest::Wrong(at));
            }
            Due::Root | Due::Value | Due::ElementOrCloser => {
                let path = pointer(&open, true);
                let (name, token) = match byte {
                    b'{' | b'[' if open.len() >= depth => break ("error", false, Rest::Wrong(at)),
                    b'{' | b'[' => {
                        told.push(Told {
                            name: "begin",
                            span: (at, at + 1),
                            path,
                        });
                        open.push(Open {
                            object: byte == b'{',
                            start: at,
                            key: Vec::new(),
                            count: 0,
                            end: at + 1,
                        });
                        due = if byte == b'{' {
                            Due::KeyOrCloser
                        } else {
                            Due::ElementOrCloser
                        };
                        at += 1;
                        continue;
                    }
                    b'"' => ("string_end", string(text, at)),
                    b't' => ("true", word(text, at, b"true")),
                    b'f' => ("false", word(text, at, b"false")),
                    b'n' => ("null", word(text, at, b"null")),
                    b'-' | b'0'..=b'9' => ("number", number(text, at)),
                    _ => break ("error", false, Rest::Wrong(at)),
                };
                // Of a string it is certain that it begins, and a part of its text.
                let certain = match token {
                    Token::Whole(end) => end - 1,
                    Token::Open(end, _) => end,
                    Token::Wrong(_) => at,
                };
                if byte == b'"' && !matches!(token, Token::Wrong(_)) {
                    told.push(Told {
                        name: "string_begin",
                        span: (at, at + 1),
                        path: path.clone(),
                    });
                    if certain > at + 1 {
                        told.push(Told {
                            name: "fragment",
                            span: (at + 1, certain),
                            path: path.clone(),
                        });
                    }
                }
                match token {
                    Token::Whole(end) => {
                        // A number ends where its longest form ends; only what may follow a value
                        // may follow it.
                        let next = text.get(end).copied().unwrap_or(b' ');
                        let closer = open.last().map(Open::closer);
                        if name == "number"
                            && closer.is_some_and(|c| !b" \t\r\n,".contains(&next) && next != c)
                        {
                            break ("error", false, Rest::Wrong(end));
                        }
                        told.push(Told {
                            name,
                            span: (at, end),
                            path,
                        });
                        value_end = Some(end);
                    }
                    Token::Wrong(at) => break ("error", false, Rest::Wrong(at)),
                    Token::Open(end, state) if byte == b'"' => {
                        break (state, true, Rest::String(end));
                    }
                    Token::Open(_, "literal") => {
                        let word = ["true", "false", "null"]
                            .into_iter()
                            .find(|word| word.as_bytes()[0] == byte);
                        break (
                            "literal",
                            true,
                            Rest::Literal(word.map_or("", |word| &word[text.len() - at..])),
                        );
                    }
                    Token::Open(_, state) => break (state, true, Rest::None),
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
                    root_end = Some(end);
                    Due::Nothing
                }
            };
        }
    };
    let verdict = match open_token {
        // After the root, all of which is certain.
        Rest::Wrong(offset) if root_end.is_some() => Verdict::Wrong(offset),
        // What precedes the wrong byte is as certain as if the text had ended there.
        Rest::Wrong(offset) => {
            return Scan {
                verdict: Verdict::Wrong(offset),
                ..oracle(&text[..offset], depth)
            };
        }
        _ if state == "done" => Verdict::Valid,
        _ => Verdict::Short,
    };
    Scan {
        verdict,
        state,
        path: pointer(&open, in_value),
        told,
        whole: root_end.or(open.last().map(|container| container.end)),
        string: if let Rest::String(end) = open_token {
            Some(end)
        } else {
            None
        },
        literal: if let Rest::Literal(rest) = open_token {
            Some(rest)
        } else {
            None
        },
        closers: open
            .iter()
            .rev()
            .map(|container| char::from(container.closer()))
            .collect(),
        length: text.len(),
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
                let good = digits
                    .iter()
                    .take(4)
                    .take_while(|byte| byte.is_ascii_hexdigit())
                    .count();
                if good < 4 {
                    return if good == digits.len() {
                        Token::Open(at, "escape")
                    } else {
                        Token::Wrong(at + 2 + good)
                    };
                }
                let is_high = |digits: &[u8]| {
                    matches!(
                        digits,
                        [b'd' | b'D', b'8' | b'9' | b'a' | b'A' | b'b' | b'B', ..]
                    )
                };
                if is_high(digits) {
                    match &digits[4..] {
                        // Its other half may follow: nothing of the pair is certain yet.
                        [] | [b'\\'] => return Token::Open(at, "escape"),
                        [b'\\', b'u', second @ ..]
                            if second.len() < 4 && second.iter().all(u8::is_ascii_hexdigit) =>
                        {
                            return Token::Open(at, "escape");
                        }
                        _ => {}
                    }
                }
                let is_low =
                    |digits: &[u8]| matches!(digits, [b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..]);
                at += 6;
                // A whole pair is one character, so that its second half is not examined alone.
                if is_high(digits)
                    && let [b'\\', b'u', second @ ..] = &digits[4..]
                    && is_low(second)
                    && second
                        .iter()
                        .take(4)
                        .filter(|byte| byte.is_ascii_hexdigit())
                        .count()
                        == 4
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
    let digits = |at: usize| {
        text[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
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
    if at == text.len() {
        Token::Open(at, "number")
    } else {
        Token::Whole(at)
    }
}

fn pointer(open: &[Open], in_value: bool) -> String {
    let shown = if in_value {
        open
    } else {
        &open[..open.len().saturating_sub(1)]
    };
    let token = |container: &Open| {
        if !container.object {
            return container.count.to_string();
        }
        let raw = String::from_utf8(container.key.clone()).unwrap();
        let key = serde_json::from_str::<String>(&format!("\"{raw}\"")).unwrap_or(raw);
        key.replace('~', "~0").replace('/', "~1")
    };
    shown
        .iter()
        .map(|container| format!("/{}", token(container)))
        .collect()
}

/// Returns the oracle's verdict if nothing follows: a number at the root is whole then.
pub(crate) fn oracle_verdict(text: &[u8], depth: usize) -> Verdict {
    // A space after the text ends a number, and changes nothing else that is whole. What it does to
    // an open token is not asked.
    match oracle(text, depth).verdict {
        Verdict::Short if oracle(&[text, b" "].concat(), depth).verdict == Verdict::Valid => {
            Verdict::Valid
        }
        verdict => verdict,
    }
}

/// What an engine emits, in the oracle's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log(pub(crate) Vec<Told>);

impl Sink for Log {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        let span = event.span();
        let told = Told {
            name: event.name(),
            span: (span.start, span.end),
            path: live.path().to_string(),
        };
        assert!(
            !span.is_empty() || told.name == "key",
            "{told:?} is about nothing"
        );
        if told.name == "fragment"
            && let Some(last) = self.0.last_mut()
            && last.name == "fragment"
        {
            assert_eq!(
                (last.span.1, &last.path),
                (told.span.0, &told.path),
                "parts of one string"
            );
            last.span.1 = told.span.1;
            return;
        }
        self.0.push(told);
    }
}
