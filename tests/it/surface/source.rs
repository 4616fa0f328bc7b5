//! Source as items: enough of the grammar for what is public.

/// A top-level item of a file: its attributes, whether it is `pub`, and its text without them.
pub(super) struct Item {
    pub(super) is_public: bool,
    pub(super) is_hidden: bool,
    pub(super) is_left_out: bool,
    pub(super) text: String,
}

impl Item {
    /// The item's keyword and name.
    pub(super) fn name(&self) -> Option<(&str, &str)> {
        let mut words = self
            .text
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty());
        let keyword = words.find(|word| !matches!(*word, "unsafe" | "async"))?;
        let name = words.next()?;
        match (keyword, name) {
            ("const", "fn") => Some(("fn", words.next()?)),
            (
                "struct" | "enum" | "trait" | "fn" | "const" | "static" | "type" | "mod" | "union",
                name,
            ) => Some((keyword, name)),
            _ => None,
        }
    }

    /// What is between the item's outer braces.
    pub(super) fn body(&self) -> &str {
        let open = self.text.find('{').map_or(self.text.len(), |at| at + 1);
        self.text[open..]
            .trim_end()
            .strip_suffix('}')
            .unwrap_or_default()
    }

    /// The names that a `use` brings: as what, and from which path.
    pub(super) fn imports(&self) -> Vec<(String, Vec<String>)> {
        let mut found = Vec::new();
        if let Some(tree) = self.text.strip_prefix("use ") {
            flatten(
                &mut Vec::new(),
                tree.trim_end_matches(';').trim(),
                &mut found,
            );
        }
        found
    }
}

/// The pieces of an item's text that a user sees: its signature, public fields, variants, and a
/// trait's methods.
pub(super) fn visible_parts(item: &Item) -> Vec<String> {
    let head = item.text.split('{').next().unwrap_or_default();
    let members = || {
        split(item.body(), ',')
            .into_iter()
            .filter(|part| !part.contains("doc(hidden)"))
    };
    match item.name() {
        // The fields of a tuple are in its head; those of other crates or private ones may be
        // there, too.
        Some(("struct", _)) => match head.split_once('(') {
            Some((head, fields)) => {
                let fields = split(fields.trim_end_matches([';', ')']), ',');
                let public = fields
                    .into_iter()
                    .filter(|field| field.contains("pub "))
                    .map(str::to_owned);
                public.chain([head.to_owned()]).collect()
            }
            None => {
                let public = members()
                    .filter(|field| field.contains("pub "))
                    .map(str::to_owned);
                public.chain([head.to_owned()]).collect()
            }
        },
        Some(("enum", _)) => members()
            .map(str::to_owned)
            .chain([head.to_owned()])
            .collect(),
        Some(("trait", _)) => {
            let shown = parse(item.body())
                .into_iter()
                .filter(|item| !item.is_hidden);
            shown
                .map(|item| item.text.split('{').next().unwrap_or_default().to_owned())
                .chain([head.to_owned()])
                .collect()
        }
        Some(("fn" | "type", _)) => vec![head.to_owned()],
        _ => Vec::new(),
    }
}

fn flatten(prefix: &mut Vec<String>, tree: &str, found: &mut Vec<(String, Vec<String>)>) {
    if let Some((path, group)) = tree.split_once('{') {
        let length = prefix.len();
        prefix.extend(
            path.split("::")
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(str::to_owned),
        );
        for part in split(group.trim_end().trim_end_matches('}'), ',') {
            flatten(prefix, part.trim(), found);
        }
        prefix.truncate(length);
    } else if !tree.is_empty() {
        let (path, alias) = tree
            .split_once(" as ")
            .map_or((tree, None), |(path, alias)| (path, Some(alias.trim())));
        let full: Vec<_> = prefix
            .iter()
            .cloned()
            .chain(path.split("::").map(|part| part.trim().to_owned()))
            .collect();
        let full = if full.last().is_some_and(|last| last == "self") {
            full[..full.len() - 1].to_vec()
        } else {
            full
        };
        let name = alias.map(str::to_owned).or_else(|| full.last().cloned());
        found.extend(name.map(|name| (name, full)));
    }
}

/// Splits at `separator` outside of brackets.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '>' if text[..at].ends_with(['-', '=']) => {}
            '{' | '(' | '[' | '<' => depth += 1,
            '}' | ')' | ']' | '>' => depth -= 1,
            _ if c == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The top-level items of a file, or of an item's body.
pub(super) fn parse(source: &str) -> Vec<Item> {
    let code = code(source);
    let mut rest = code.trim_start();
    let mut items = Vec::new();
    let mut attributes = String::new();
    while !rest.is_empty() {
        let length = if rest.starts_with('#') {
            let open = rest.find('[').unwrap_or_default();
            open + closing(&rest[open..])
        } else {
            item_length(rest)
        };
        let (text, after) = rest.split_at(length);
        rest = after.trim_start();
        if text.starts_with('#') {
            attributes.push_str(text);
            continue;
        }
        let public = text.strip_prefix("pub ");
        let text = public.unwrap_or_else(|| {
            text.strip_prefix("pub(")
                .and_then(|text| text.split_once(") "))
                .map_or(text, |(_, text)| text)
        });
        let is = |what: &str| attributes.contains(what);
        items.push(Item {
            is_public: public.is_some(),
            is_hidden: is("doc(hidden)"),
            is_left_out: is("cfg(test)") || is("doctest") || is("cfg(feature = \"sim\")"),
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        });
        attributes.clear();
    }
    items
}

/// The bytes up to the bracket that closes the one at the start.
pub(super) fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(matches!(c, '{' | '(' | '[')) - i32::from(matches!(c, '}' | ')' | ']'));
        if depth == 0 {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// The bytes of the item at the start: up to its semicolon, or to the end of its body.
fn item_length(text: &str) -> usize {
    let head = text.strip_prefix("pub").unwrap_or(text).trim_start();
    let head = head
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
        .map_or(head, |(_, rest)| rest.trim_start());
    let is_statement = ["use ", "static ", "type "]
        .iter()
        .any(|word| head.starts_with(word))
        || head.starts_with("const ") && !head.starts_with("const fn");
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 && (c == ';' || c == '}' && !is_statement) {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// Source without comments and without the contents of long texts.
fn code(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(hashes) = raw_string(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let open = hashes + 2;
            code.push_str("\"\"");
            rest[open..]
                .find(&end)
                .map_or(rest.len(), |at| open + at + end.len())
        } else if c == '"' {
            let text = quoted(rest);
            let is_name = text.len() < 32
                && text
                    .trim_matches('"')
                    .chars()
                    .all(|c| c.is_alphanumeric() || "-_".contains(c));
            code.push_str(if is_name { text } else { "\"\"" });
            text.len()
        } else if let Some(length) = character(rest) {
            code.push('0');
            length
        } else {
            code.push(c);
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    code
}

/// How many hashes a raw string at the start has.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// The string literal at the start.
fn quoted(text: &str) -> &str {
    let mut is_escaped = true;
    for (at, c) in text.char_indices() {
        if c == '"' && !is_escaped {
            return &text[..=at];
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text
}

/// The bytes of a character literal at the start; `None` of a lifetime.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    if let Some(escaped) = inner.strip_prefix('\\') {
        let first = escaped.chars().next()?.len_utf8();
        return escaped[first..].find('\'').map(|at| 3 + first + at);
    }
    let c = inner.chars().next()?;
    inner[c.len_utf8()..]
        .starts_with('\'')
        .then_some(2 + c.len_utf8())
}

/// What follows a list of generics that has been opened.
pub(super) fn after_generics(text: &str) -> &str {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '<') - i32::from(c == '>' && !text[..at].ends_with('-'));
        if depth == 0 {
            return &text[at + 1..];
        }
    }
    ""
}
