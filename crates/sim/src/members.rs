//! The answer of a model under a JSON Schema, to a question for the parts that are missing of a
//! document.
//!
//! The model knows the document, reads which part each line of the question names, and writes that
//! part of the document. It answers nothing that the schema does not name.

use serde_json::{Deserializer, Value, json};

use super::call::WHITE_SPACE;

/// Returns the schema of the answer that a request asks for, in the member of any API.
pub(super) fn schema_of(body: &Value) -> Option<&Value> {
    [
        "/response_format/json_schema/schema",
        "/text/format/schema",
        "/output_config/format/schema",
        "/generationConfig/responseJsonSchema",
        "/generationConfig/responseSchema",
        "/format",
    ]
    .iter()
    .find_map(|member| body.pointer(member))
    .filter(|schema| schema.is_object())
}

/// Returns the answer to `question` under `schema`. A line of the question describes each member. `position`: the bytes of the document that the client has. `None` if a line names no
/// part, or the client has the part already.
pub fn missing_members(
    document: &str,
    position: usize,
    question: &str,
    schema: &Value,
) -> Option<String> {
    let mut model = Model::new(document, position);
    let members = schema.get("required")?.as_array()?;
    let members = members.iter().filter_map(Value::as_str).map(|name| {
        let start = format!("- `{name}`: ");
        let line = question
            .lines()
            .find_map(|line| line.strip_prefix(&start))?;
        let is_text = line.contains("JSON text");
        let shape = &schema["properties"][name];
        let text = model.member(name, line, shape.to_string().contains("\"pattern\""))?;
        let value = match is_text {
            true => json!(text).to_string(),
            false => text,
        };
        Some(format!("{}: {value}", json!(name)))
    });
    let members = members.collect::<Option<Vec<_>>>()?;
    Some(format!("{{{}}}", members.join(", ")))
}

/// A document, and the place up to which the answer has it.
struct Model<'a> {
    document: &'a str,
    /// Where the containers begin that are not closed yet.
    open: Vec<usize>,
    /// The last container that the client has as a whole.
    last: &'a str,
    at: usize,
    /// Where the token begins in which the client's text stops, if it stops in one.
    token: Option<usize>,
}

impl<'a> Model<'a> {
    fn new(document: &'a str, position: usize) -> Self {
        let (mut open, mut string, mut scalar, mut last) = (Vec::new(), None, None, "");
        let mut escaped = false;
        for (at, c) in document[..position].char_indices() {
            if string.is_some() {
                match c {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    '"' => string = None,
                    _ => {}
                }
                continue;
            }
            scalar = scalar
                .filter(|_| is_of_scalar(c))
                .or(is_of_scalar(c).then_some(at));
            match c {
                '"' => string = Some(at),
                '{' | '[' => open.push(at),
                '}' | ']' => last = &document[open.pop().unwrap_or(0)..=at],
                _ => {}
            }
        }
        // The client completes a literal itself.
        let is_literal = |at: &usize| document[*at..].starts_with(|c: char| c.is_alphabetic());
        let literal = scalar.filter(is_literal);
        let rest = document[position..].trim_start_matches(|c: char| c.is_ascii_alphabetic());
        Self {
            document,
            open,
            last,
            at: match literal {
                Some(_) => document.len() - rest.len(),
                None => position,
            },
            token: string.or(scalar.filter(|_| literal.is_none())),
        }
    }

    /// Returns the part that a line of the question names. `quotes`: the cut number is written in
    /// quotes.
    fn member(&mut self, name: &str, line: &str, quotes: bool) -> Option<String> {
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        let name = name.trim_start_matches("outer_");
        let depth = |path: &str| path.matches('/').count();
        match name {
            "item" if line.contains("the last object") => Some(self.last.to_owned()),
            "item" => {
                self.open.truncate(depth(line.split('`').nth(1)?) + 1);
                let start = self.open.pop()?;
                let mut item = self.value_at(start)?;
                let number = self.token.take().filter(|_| quotes);
                if let Some(number) = number.map(|number| number - start) {
                    let length = end_of_value(&item[number..])?;
                    item.insert(number + length, '"');
                    item.insert(number, '"');
                }
                Some(item)
            }
            "element" => {
                self.end_string()?;
                while self.open.len() > depth(line.split('`').nth(1)?) {
                    self.close()?;
                }
                self.value_after(',')
            }
            "rest_of_string" | "rest_of_key" => {
                let from = self.start_of_character();
                self.at = from + end_of_string(&self.document[from..])?;
                self.token = None;
                Some(format!("\"{}", &self.document[from..self.at]))
            }
            "string" | "key" => {
                let from = self.token.take()?;
                self.value_at(from)
            }
            "number" => {
                let from = self.token.take()?;
                let end = self.document[from..].find(|c| !is_of_scalar(c));
                self.at = end.map_or(self.document.len(), |end| from + end);
                let number = &self.document[from..self.at];
                Some(match quotes {
                    true => format!("\"{number}\""),
                    false => number.to_owned(),
                })
            }
            "value" => {
                // A key that the question does not ask for is known to the client.
                self.end_string()?;
                self.value_after(':')
            }
            "rest_of_item" | "rest_of_items" => {
                let path = line.rsplit('`').nth(1).filter(|path| path.starts_with('/'));
                self.end_string()?;
                while self.open.len() > path.map_or(0, depth) + 1 {
                    self.close()?;
                }
                let children = self.close()?;
                Some(match name {
                    _ if line.contains("JSON text") => children.to_owned(),
                    "rest_of_item" => format!("{{{children}}}"),
                    _ => format!("[{children}]"),
                })
            }
            _ => None,
        }
    }

    /// Takes the rest of the cut token, a string: the client has completed the only one that is
    /// legal.
    fn end_string(&mut self) -> Option<()> {
        if self.token.take().is_some() {
            self.at += end_of_string(&self.document[self.at..])?;
        }
        Some(())
    }

    /// Takes the value that begins at an offset.
    fn value_at(&mut self, from: usize) -> Option<String> {
        self.at = from + end_of_value(&self.document[from..])?;
        Some(self.document[from..self.at].to_owned())
    }

    /// Takes the next value, after white space and this separator.
    fn value_after(&mut self, separator: char) -> Option<String> {
        let rest = &self.document[self.at..];
        let value = rest.trim_start_matches(|c| c == separator || WHITE_SPACE.contains(&c));
        self.value_at(self.at + rest.len() - value.len())
    }

    /// Closes the innermost container. Returns its children that the answer does not have yet.
    fn close(&mut self) -> Option<&'a str> {
        self.open.pop()?;
        let rest = &self.document[self.at..];
        let end = end_of_container(rest)?;
        self.at += end + 1;
        let children = rest[..end].trim_matches(WHITE_SPACE);
        let children = children.strip_prefix(',').unwrap_or(children);
        Some(children.trim_matches(WHITE_SPACE))
    }

    /// Returns where the character begins in whose escape the client's text stops, else where that
    /// text stops.
    fn start_of_character(&self) -> usize {
        let Some(token) = self.token else {
            return self.at;
        };
        let mut from = token + 1;
        while from < self.at {
            let rest = &self.document[from..];
            let length = match rest.strip_prefix('\\') {
                Some(after) if after.starts_with('u') => {
                    let is_high = rest[..6.min(rest.len())].to_ascii_lowercase();
                    let is_high = ["\\ud8", "\\ud9", "\\uda", "\\udb"]
                        .iter()
                        .any(|high| is_high.starts_with(high));
                    if is_high { 12 } else { 6 }
                }
                Some(_) => 2,
                None => rest.chars().next().map_or(1, char::len_utf8),
            };
            if from + length > self.at {
                return from;
            }
            from += length;
        }
        self.at
    }
}

fn is_of_scalar(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')
}

/// Returns the length of the rest of a string, with its closing quote.
fn end_of_string(rest: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Returns the length of the value that a text begins with.
fn end_of_value(text: &str) -> Option<usize> {
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    let ends = values.next()?.is_ok();
    ends.then(|| values.byte_offset())
}

/// Returns the offset of the bracket that closes the container in which a text begins.
fn end_of_container(rest: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(c) = rest[at..].chars().next() {
        at += c.len_utf8();
        match c {
            '"' => at += end_of_string(&rest[at..])?,
            '{' | '[' => depth += 1,
            '}' | ']' if depth == 0 => return Some(at - 1),
            '}' | ']' => depth -= 1,
            _ => {}
        }
    }
    None
}
