//! The answer of a model under a JSON Schema, to a question for the parts that are missing of a
//! document.
//!
//! The model knows the document, reads which part each line of the question names, and writes that
//! part of the document. It answers nothing that the schema does not name.

use serde_json::{Value, json};

use super::call::WHITE_SPACE;
use super::style::index::{Node, nodes};
use super::style::spell;
use restitch::json::Span;

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
    let mut model = Model::new(document, position)?;
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
    nodes: Vec<Node>,
    /// The containers that are not closed yet.
    open: Vec<Span>,
    /// The last container that the client has as a whole.
    last: &'a str,
    at: usize,
    /// The token in which the client's text stops, if it stops in one.
    token: Option<Span>,
}

impl<'a> Model<'a> {
    /// Reads a document; `None` if it is not JSON.
    fn new(document: &'a str, position: usize) -> Option<Self> {
        let nodes = nodes(document)?;
        let holds = |span: &Span| span.start < position && position < span.end;
        let spans = |of: fn(&Node) -> bool| {
            nodes
                .iter()
                .filter(move |node| of(node))
                .map(|node| node.span)
        };
        let containers = || spans(|node| node.container.is_some());
        let last = containers().filter(|span| span.end <= position);
        let last = last.max_by_key(|span| span.end);
        // A number that ends where the text stops may continue.
        let scalar = spans(|node| node.container.is_none() && !node.is_string)
            .find(|span| span.start < position && position <= span.end);
        let keys = nodes.iter().filter_map(|node| node.key);
        let string = spans(|node| node.is_string).chain(keys).find(holds);
        // The client completes a literal itself.
        let is_literal = |span: &Span| document[span.start..].starts_with(char::is_alphabetic);
        let literal = scalar.filter(is_literal);
        Some(Self {
            document,
            open: containers().filter(holds).collect(),
            last: last.map_or("", |span| span.of(document)),
            at: literal.map_or(position, |literal| literal.end),
            token: string.or(scalar.filter(|_| literal.is_none())),
            nodes,
        })
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
                let span = self.open.pop()?;
                let mut item = self.take(span);
                if let Some(number) = self.token.take().filter(|_| quotes) {
                    item.insert(number.end - span.start, '"');
                    item.insert(number.start - span.start, '"');
                }
                Some(item)
            }
            "element" => {
                self.end_token();
                while self.open.len() > depth(line.split('`').nth(1)?) {
                    self.close()?;
                }
                self.value_after(',')
            }
            "rest_of_string" | "rest_of_key" => {
                let string = self.token.take()?;
                let start = self.start_of_character(string);
                let rest = Span { start, ..string };
                Some(format!("\"{}", self.take(rest)))
            }
            "string" | "key" => {
                let string = self.token.take()?;
                Some(self.take(string))
            }
            "number" => {
                let number = self.token.take()?;
                let number = self.take(number);
                Some(match quotes {
                    true => format!("\"{number}\""),
                    false => number,
                })
            }
            "value" => {
                // A key that the question does not ask for is known to the client.
                self.end_token();
                self.value_after(':')
            }
            "rest_of_item" | "rest_of_items" => {
                let path = line.rsplit('`').nth(1).filter(|path| path.starts_with('/'));
                self.end_token();
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

    /// Takes the rest of the cut token: the client has completed the only one that is legal.
    fn end_token(&mut self) {
        if let Some(token) = self.token.take() {
            self.at = token.end;
        }
    }

    fn take(&mut self, span: Span) -> String {
        self.at = span.end;
        span.of(self.document).to_owned()
    }

    /// Takes the next value, after white space and this separator.
    fn value_after(&mut self, separator: char) -> Option<String> {
        let rest = &self.document[self.at..];
        let value = rest.trim_start_matches(|c| c == separator || WHITE_SPACE.contains(&c));
        let start = self.at + rest.len() - value.len();
        let mut spans = self.nodes.iter().map(|node| node.span);
        let value = spans.find(|span| span.start == start)?;
        Some(self.take(value))
    }

    /// Closes the innermost container. Returns its children that the answer does not have yet.
    fn close(&mut self) -> Option<&'a str> {
        let end = self.open.pop()?.end;
        let children = self.document.get(self.at..end - 1)?;
        self.at = end;
        let children = children.trim_matches(WHITE_SPACE);
        let children = children.strip_prefix(',').unwrap_or(children);
        Some(children.trim_matches(WHITE_SPACE))
    }

    /// Returns where the character begins in whose escape the client's text stops, else where that
    /// text stops.
    fn start_of_character(&self, string: Span) -> usize {
        let base = string.start + 1;
        let units = spell::units(&self.document[base..string.end - 1]);
        let mut starts = units.map(|unit| (base + unit.at, base + unit.at + unit.written.len()));
        let cut = starts.find(|(start, end)| *start < self.at && self.at < *end);
        cut.map_or(self.at, |(start, _)| start)
    }
}
