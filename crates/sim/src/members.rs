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
    /// The opening brackets of the containers that are not closed yet, and where they are.
    open: Vec<(usize, char)>,
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
            let is_scalar = c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
            scalar = scalar.filter(|_| is_scalar).or(is_scalar.then_some(at));
            match c {
                '"' => string = Some(at),
                '{' | '[' => open.push((at, c)),
                '}' | ']' => {
                    let start = open.pop().map_or(0, |(start, _)| start);
                    last = &document[start..=at];
                }
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
        match name.trim_start_matches("outer_") {
            "item" if line.contains("the last object") => Some(self.last.to_owned()),
            "item" => {
                let path = line.split('`').nth(1)?;
                self.open.truncate(path.matches('/').count() + 1);
                let (start, _) = self.open.pop()?;
                self.at = start + end_of_value(&self.document[start..])?;
                let mut item = self.document[start..self.at].to_owned();
                let number = self.token.take().filter(|_| quotes);
                if let Some(number) = number.map(|number| number - start) {
                    let length = end_of_value(&item[number..])?;
                    item.insert(number + length, '"');
                    item.insert(number, '"');
                }
                Some(item)
            }
            "element" => {
                let path = line.split('`').nth(1)?;
                // The client has completed the only string that is legal.
                if self.token.take().is_some() {
                    self.at += end_of_string(&self.document[self.at..])?;
                }
                while self.open.len() > path.matches('/').count() {
                    let (_, end) = self.close()?;
                    self.at = end;
                }
                let rest = &self.document[self.at..];
                let space = |c: char| c == ',' || WHITE_SPACE.contains(&c);
                let from = self.at + (rest.len() - rest.trim_start_matches(space).len());
                self.at = from + end_of_value(&self.document[from..])?;
                Some(self.document[from..self.at].to_owned())
            }
            "rest_of_string" | "rest_of_key" => {
                let from = self.start_of_character();
                let end = from + end_of_string(&self.document[from..])?;
                self.at = end;
                self.token = None;
                Some(format!("\"{}", &self.document[from..end]))
            }
            "string" | "key" => {
                let from = self.token.take()?;
                self.at = from + end_of_value(&self.document[from..])?;
                Some(self.document[from..self.at].to_owned())
            }
            "number" => {
                let from = self.token.take()?;
                let end = self.document[from..]
                    .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '+' | '.'));
                self.at = end.map_or(self.document.len(), |end| from + end);
                let number = &self.document[from..self.at];
                Some(match quotes {
                    true => format!("\"{number}\""),
                    false => number.to_owned(),
                })
            }
            "value" => {
                // A key that the question does not ask for is known to the client.
                if self.token.take().is_some() {
                    self.at += end_of_string(&self.document[self.at..])?;
                }
                let rest = &self.document[self.at..];
                let space = |c: char| c == ':' || WHITE_SPACE.contains(&c);
                let from = self.at + (rest.len() - rest.trim_start_matches(space).len());
                self.at = from + end_of_value(&self.document[from..])?;
                Some(self.document[from..self.at].to_owned())
            }
            "rest_of_item" | "rest_of_items" => {
                let path = line.rsplit('`').nth(1).filter(|path| path.starts_with('/'));
                let depth = path.map_or(0, |path| path.matches('/').count());
                // The client has completed the only string that is legal.
                if self.token.take().is_some() {
                    self.at += end_of_string(&self.document[self.at..])?;
                }
                while self.open.len() > depth + 1 {
                    let (_, end) = self.close()?;
                    self.at = end;
                }
                let (children, end) = self.close()?;
                self.at = end;
                if line.contains("JSON text") {
                    return Some(children.to_owned());
                }
                Some(match name.trim_start_matches("outer_") {
                    "rest_of_item" => format!("{{{children}}}"),
                    _ => format!("[{children}]"),
                })
            }
            _ => None,
        }
    }

    /// Closes the innermost container. Returns its children that the answer does not have yet,
    /// and the offset after its bracket.
    fn close(&mut self) -> Option<(&'a str, usize)> {
        self.open.pop()?;
        let rest = &self.document[self.at..];
        let end = end_of_container(rest)?;
        let children = rest[..end].trim_matches(WHITE_SPACE);
        let children = children.strip_prefix(',').unwrap_or(children);
        Some((children.trim_matches(WHITE_SPACE), self.at + end + 1))
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
