//! A slow reader of JSON text that may stop anywhere, for comparisons. It shares no code with the
//! engine.

/// A value, as much as there is of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// Members in order, and the state at the end.
    Object(Vec<(Vec<u16>, Node)>, End),
    Array(Vec<Node>, End),
    /// UTF-16 units, so that half a surrogate pair is a prefix of the pair; whether the string is
    /// closed.
    String(Vec<u16>, bool),
    /// As it is written; whether the text after it has ended it.
    Number(String, bool),
    /// `true`, `false`, `null`, or the beginning of one.
    Literal(String),
}

/// The state at the end of a container.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Closed,
    /// After the bracket, or after a member or an element that may be open itself.
    Value,
    Comma,
    /// A key without a value: its units, whether its string is closed, and whether there is a
    /// colon.
    Key(Vec<u16>, bool, bool),
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// Reads `text` as the beginning of a document; text after a closed root is ignored. `None` where
/// `text` is malformed, or has nothing of a value.
pub(crate) fn read(text: &str) -> Option<Node> {
    Reader {
        text: text.as_bytes(),
        at: 0,
    }
    .value()
}

/// Returns where the root ends, if it does.
pub(crate) fn root_end(text: &str) -> Option<usize> {
    let mut reader = Reader {
        text: text.as_bytes(),
        at: 0,
    };
    reader.value().filter(Node::is_closed).map(|_| reader.at)
}

impl Reader<'_> {
    fn white(&mut self) -> Option<u8> {
        while self
            .text
            .get(self.at)
            .is_some_and(|byte| b" \t\r\n".contains(byte))
        {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn value(&mut self) -> Option<Node> {
        match self.white()? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self
                .string()
                .map(|(units, closed)| Node::String(units, closed)),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => None,
        }
    }

    fn object(&mut self) -> Option<Node> {
        self.at += 1;
        let mut members = Vec::new();
        let mut end = End::Value;
        loop {
            match self.white() {
                None => return Some(Node::Object(members, end)),
                Some(b'}') if end == End::Value => {
                    self.at += 1;
                    return Some(Node::Object(members, End::Closed));
                }
                Some(b',') if end == End::Value && !members.is_empty() => {
                    self.at += 1;
                    end = End::Comma;
                }
                Some(b'"') if end == End::Comma || members.is_empty() => {
                    let (key, closed) = self.string()?;
                    match self.white() {
                        None => return Some(Node::Object(members, End::Key(key, closed, false))),
                        Some(b':') if closed => self.at += 1,
                        _ => return None,
                    }
                    if self.white().is_none() {
                        return Some(Node::Object(members, End::Key(key, true, true)));
                    }
                    let value = self.value()?;
                    members.push((key, value));
                    end = End::Value;
                }
                _ => return None,
            }
        }
    }

    fn array(&mut self) -> Option<Node> {
        self.at += 1;
        let mut elements = Vec::new();
        let mut end = End::Value;
        loop {
            match self.white() {
                None => return Some(Node::Array(elements, end)),
                Some(b']') if end == End::Value => {
                    self.at += 1;
                    return Some(Node::Array(elements, End::Closed));
                }
                Some(b',') if end == End::Value && !elements.is_empty() => {
                    self.at += 1;
                    end = End::Comma;
                }
                Some(_) if end == End::Comma || elements.is_empty() => {
                    elements.push(self.value()?);
                    end = End::Value;
                }
                _ => return None,
            }
        }
    }

    /// Returns the units up to the end of the string or of the text; an escape that is cut is left
    /// out.
    fn string(&mut self) -> Option<(Vec<u16>, bool)> {
        self.at += 1;
        let start = self.at;
        let mut units = Vec::new();
        let mut plain = start;
        loop {
            let byte = self.text.get(self.at).copied();
            if matches!(byte, None | Some(b'"' | b'\\')) {
                units.extend(
                    std::str::from_utf8(&self.text[plain..self.at])
                        .ok()?
                        .encode_utf16(),
                );
            }
            match byte {
                None => return Some((units, false)),
                Some(b'"') => {
                    self.at += 1;
                    return Some((units, true));
                }
                Some(b'\\') => {
                    let Some(&escape) = self.text.get(self.at + 1) else {
                        self.at = self.text.len();
                        return Some((units, false));
                    };
                    let unit = match escape {
                        b'"' | b'\\' | b'/' => u16::from(escape),
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => 10,
                        b'r' => 13,
                        b't' => 9,
                        b'u' => {
                            let Some(digits) = self.text.get(self.at + 2..self.at + 6) else {
                                let rest = &self.text[self.at + 2..];
                                self.at = self.text.len();
                                return rest
                                    .iter()
                                    .all(u8::is_ascii_hexdigit)
                                    .then_some((units, false));
                            };
                            self.at += 4;
                            u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
                        }
                        _ => return None,
                    };
                    units.push(unit);
                    self.at += 2;
                    plain = self.at;
                }
                Some(0..0x20) => return None,
                Some(_) => self.at += 1,
            }
        }
    }

    fn number(&mut self) -> Option<Node> {
        let start = self.at;
        while self
            .text
            .get(self.at)
            .is_some_and(|byte| b"+-.eE0123456789".contains(byte))
        {
            self.at += 1;
        }
        let text = std::str::from_utf8(&self.text[start..self.at])
            .ok()?
            .to_owned();
        let ended = self.at < self.text.len();
        let whole = serde_json::from_str::<f64>(&text).is_ok();
        // A number that is cut is completed by one more digit, or by two.
        let begun = whole
            || ["0", ".0", "e0"]
                .iter()
                .any(|end| serde_json::from_str::<f64>(&(text.clone() + end)).is_ok());
        (if ended { whole } else { begun }).then_some(Node::Number(text, ended))
    }

    fn literal(&mut self, word: &str) -> Option<Node> {
        let rest = &self.text[self.at..];
        let length = rest.len().min(word.len());
        self.at += length;
        (rest[..length] == word.as_bytes()[..length])
            .then(|| Node::Literal(word[..length].to_owned()))
    }
}
