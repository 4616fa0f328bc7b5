//! The public surface, counted from the source as docs.rs shows it, without `sim`: growth is a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Types, traits, free functions, constants and macros.
const ITEMS: usize = 0;
/// Public methods of these types, and the methods of these traits.
const METHODS: usize = 0;
/// Public items and methods behind `#[doc(hidden)]`: for benches, fuzz targets and peers.
const HIDDEN: usize = 0;

#[test]
fn the_surface_is_as_large_as_it_was_decided_to_be() {
    let surface = Crate::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).surface();
    for (module, items) in surface.by_module() {
        println!("{module}: {} ({})", items.len(), items.join(", "));
    }
    let counted = (surface.shown.len(), surface.methods, surface.hidden);
    println!("covered: {} items, {} methods, {} hidden", counted.0, counted.1, counted.2);
    assert_eq!(counted, (ITEMS, METHODS, HIDDEN), "items, methods, hidden: decide, then change the constants");
}

#[test]
fn the_count_can_be_wrong() {
    let krate = |files: &[(&[&str], &str)]| {
        let modules = files.iter().map(|(path, source)| (path.iter().map(|&name| name.to_owned()).collect(), parse(source)));
        let surface = Crate { modules: modules.collect() }.surface();
        (surface.shown.len(), surface.methods, surface.hidden)
    };
    let a: &[&str] = &["a"];
    let b: &[&str] = &["a", "b"];
    // Private, public, re-exported, and re-exported twice.
    assert_eq!(krate(&[(&[], "mod a;"), (a, "pub struct A;")]), (0, 0, 0));
    assert_eq!(krate(&[(&[], "pub mod a;"), (a, "pub struct A; struct B; pub(crate) struct C;")]), (1, 0, 0));
    assert_eq!(krate(&[(&[], "mod a; pub use a::A;"), (a, "pub struct A; pub enum B {}")]), (1, 0, 0));
    let twice = "pub mod a; pub use a::A;";
    assert_eq!(krate(&[(&[], twice), (a, "mod b; pub use b::{A, B as C};"), (b, "pub trait A {} pub const B: [u8; 1] = [0];")]), (2, 0, 0));
    assert_eq!(krate(&[(&[], "#[cfg(feature = \"sim\")]\npub mod a;"), (a, "pub struct A;")]), (0, 0, 0));
    // Methods of types that are shown, also where the type is defined elsewhere, and from a macro.
    let methods = "pub struct A; impl<'a> A { pub fn f() {} fn g() {} pub const fn h() {} } struct B; impl B { pub fn f() {} }";
    assert_eq!(krate(&[(&[], "pub mod a;"), (a, methods)]), (1, 2, 0));
    assert_eq!(krate(&[(&[], "pub mod a;"), (a, "mod b; pub struct A;"), (b, "use super::A; impl A { pub async fn f() {} }")]), (1, 1, 0));
    assert_eq!(krate(&[(&[], "pub mod a;"), (a, "pub trait A { fn f(); fn g() { h(|| {}) } }")]), (1, 2, 0));
    assert_eq!(krate(&[(&[], "pub mod a;"), (a, "pub struct A; macro_rules! m { ($a:ident) => { impl $a { pub fn f() {} } } } m!(A);")]), (1, 1, 0));
    // Hidden: an item, a method, a module, a re-export; what is shown elsewhere is not hidden.
    assert_eq!(krate(&[(&[], "pub mod a;"), (a, "#[doc(hidden)]\npub struct A; pub struct B; impl B { #[doc(hidden)]\npub fn f() {} }")]), (1, 0, 2));
    assert_eq!(krate(&[(&[], "#[doc(hidden)]\npub mod a; pub use a::A;"), (a, "pub struct A; pub struct B; impl B { pub fn f() {} }")]), (1, 0, 2));
    assert_eq!(krate(&[(&[], "mod a; #[doc(hidden)]\npub use a::A;"), (a, "pub struct A;")]), (0, 0, 1));
    // Comments, text and unit tests are no code.
    assert_eq!(krate(&[(&[], "// pub struct A;\nconst B: &str = \"pub struct C; {\"; #[cfg(test)]\nmod tests { pub struct D; }")]), (0, 0, 0));
}

type ModulePath = Vec<String>;
/// An item, by the module that defines it and its name.
type Id = (ModulePath, String);

/// The crate's modules, by their paths.
struct Crate {
    modules: BTreeMap<ModulePath, Vec<Item>>,
}

#[derive(Default)]
struct Surface {
    shown: BTreeSet<Id>,
    methods: usize,
    hidden: usize,
}

impl Surface {
    fn by_module(&self) -> BTreeMap<String, Vec<String>> {
        let mut modules: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (module, name) in &self.shown {
            modules.entry(module.join("::")).or_default().push(name.clone());
        }
        modules
    }
}

/// A top-level item of a file: its attributes, whether it is `pub`, and its text without them.
struct Item {
    is_public: bool,
    is_hidden: bool,
    is_left_out: bool,
    text: String,
}

impl Item {
    /// The item's keyword and name.
    fn name(&self) -> Option<(&str, &str)> {
        let mut words = self.text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        let keyword = words.find(|word| !matches!(*word, "unsafe" | "async"))?;
        let name = words.next()?;
        match (keyword, name) {
            ("const", "fn") => Some(("fn", words.next()?)),
            ("struct" | "enum" | "trait" | "fn" | "const" | "static" | "type" | "mod" | "union", name) => Some((keyword, name)),
            _ => None,
        }
    }

    /// What is between the item's outer braces.
    fn body(&self) -> &str {
        let open = self.text.find('{').map_or(self.text.len(), |at| at + 1);
        self.text[open..].trim_end().strip_suffix('}').unwrap_or_default()
    }

    /// The names that a `use` brings: as what, and from which path.
    fn imports(&self) -> Vec<(String, Vec<String>)> {
        let mut found = Vec::new();
        if let Some(tree) = self.text.strip_prefix("use ") {
            flatten(&mut Vec::new(), tree.trim_end_matches(';').trim(), &mut found);
        }
        found
    }
}

fn flatten(prefix: &mut Vec<String>, tree: &str, found: &mut Vec<(String, Vec<String>)>) {
    if let Some((path, group)) = tree.split_once('{') {
        let length = prefix.len();
        prefix.extend(path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
        for part in split(group.trim_end().trim_end_matches('}'), ',') {
            flatten(prefix, part.trim(), found);
        }
        prefix.truncate(length);
    } else if !tree.is_empty() {
        let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias.trim())));
        let full: Vec<_> = prefix.iter().cloned().chain(path.split("::").map(|part| part.trim().to_owned())).collect();
        let full = if full.last().is_some_and(|last| last == "self") { full[..full.len() - 1].to_vec() } else { full };
        let name = alias.map(str::to_owned).or_else(|| full.last().cloned());
        found.extend(name.map(|name| (name, full)));
    }
}

/// Splits at `separator` outside of brackets.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
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
fn parse(source: &str) -> Vec<Item> {
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
        let text = public.unwrap_or_else(|| text.strip_prefix("pub(").and_then(|text| text.split_once(") ")).map_or(text, |(_, text)| text));
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
fn closing(text: &str) -> usize {
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
    let head = head.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(head, |(_, rest)| rest.trim_start());
    let is_statement = ["use ", "static ", "type "].iter().any(|word| head.starts_with(word))
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
            rest[open..].find(&end).map_or(rest.len(), |at| open + at + end.len())
        } else if c == '"' {
            let text = quoted(rest);
            let is_name = text.len() < 32 && text.trim_matches('"').chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
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
    inner[c.len_utf8()..].starts_with('\'').then_some(2 + c.len_utf8())
}

impl Crate {
    fn read(src: &Path) -> Self {
        let mut modules = BTreeMap::new();
        let mut folders = vec![PathBuf::from(src)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let relative = path.strip_prefix(src).unwrap().with_extension("");
                let mut module: ModulePath = relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
                if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
                    module.pop();
                }
                if module.first().is_none_or(|first| first != "bin") {
                    modules.insert(module, parse(&fs::read_to_string(path).unwrap()));
                }
            }
        }
        Self { modules }
    }

    fn items(&self, module: &[String]) -> impl Iterator<Item = &Item> {
        self.modules.get(module).into_iter().flatten().filter(|item| !item.is_left_out)
    }

    /// The module that a path names, seen from another one, and the rest of the path.
    fn walk<'p>(&self, from: &[String], path: &'p [String]) -> (ModulePath, &'p [String]) {
        let (mut module, mut rest) = (from.to_vec(), path);
        while let [first, after @ ..] = rest {
            match first.as_str() {
                "crate" => module.clear(),
                "super" => drop(module.pop()),
                "self" => {}
                name => {
                    module.push(name.to_owned());
                    if !self.modules.contains_key(&module) {
                        module.pop();
                        break;
                    }
                }
            }
            rest = after;
        }
        (module, rest)
    }

    /// Where a name that a module uses is defined.
    fn resolve(&self, module: &[String], name: &str) -> Option<Id> {
        for item in self.items(module) {
            if item.name().is_some_and(|(keyword, found)| keyword != "mod" && found == name) {
                return Some((module.to_vec(), name.to_owned()));
            }
            for (alias, path) in item.imports() {
                let (target, rest) = self.walk(module, &path);
                if let ([last], true) = (rest, alias == name)
                    && (target != module || last != name)
                {
                    return self.resolve(&target, last);
                }
            }
        }
        None
    }

    fn surface(&self) -> Surface {
        let (mut shown, mut hidden) = (BTreeSet::new(), BTreeSet::new());
        self.reach(&[], false, &mut shown, &mut hidden);
        hidden.retain(|id| !shown.contains(id));
        let mut surface = Surface { hidden: hidden.len(), ..Surface::default() };
        for module in self.modules.keys() {
            for item in self.items(module) {
                let Some((owner, body)) = self.methods_of(module, item) else { continue };
                let is_trait = item.text.starts_with("trait ");
                let methods = parse(body).into_iter().filter(|item| {
                    (item.is_public || is_trait) && item.name().is_some_and(|(keyword, _)| keyword == "fn")
                });
                let (secret, open): (Vec<_>, Vec<_>) = methods.partition(|method| method.is_hidden);
                if shown.contains(&owner) {
                    surface.methods += open.len();
                    surface.hidden += secret.len();
                } else if hidden.contains(&owner) {
                    surface.hidden += open.len() + secret.len();
                }
            }
        }
        surface.shown = shown;
        surface
    }

    fn reach(&self, module: &[String], in_hidden: bool, shown: &mut BTreeSet<Id>, hidden: &mut BTreeSet<Id>) {
        for item in self.items(module).filter(|item| item.is_public) {
            let is_hidden = in_hidden || item.is_hidden;
            let mut add = |id: Id| if is_hidden { hidden.insert(id) } else { shown.insert(id) };
            match item.name() {
                Some(("mod", name)) => {
                    let child: ModulePath = module.iter().cloned().chain([name.to_owned()]).collect();
                    self.reach(&child, is_hidden, shown, hidden);
                }
                Some((_, name)) => drop(add((module.to_vec(), name.to_owned()))),
                None => {
                    for (_, path) in item.imports() {
                        let (target, rest) = self.walk(module, &path);
                        if let [name] = rest
                            && let Some(id) = self.resolve(&target, name)
                        {
                            add(id);
                        }
                    }
                }
            }
        }
    }

    /// The type that an item gives methods, and the text that has them.
    fn methods_of<'i>(&'i self, module: &[String], item: &'i Item) -> Option<(Id, &'i str)> {
        if let Some(("trait", name)) = item.name() {
            return Some(((module.to_vec(), name.to_owned()), item.body()));
        }
        if let Some(head) = item.text.strip_prefix("impl") {
            let head = head.split('{').next()?;
            let head = if let Some(generic) = head.strip_prefix('<') { after_generics(generic) } else { head };
            let is_inherent = !head.contains(" for ");
            let name = head.trim().split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
            return self.resolve(module, name).filter(|_| is_inherent).map(|id| (id, item.body()));
        }
        // A macro that writes an `impl` for its first argument.
        let (name, arguments) = item.text.split_once('!')?;
        let owner = arguments.trim_start_matches(['(', '{', ' ']).split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
        let name = name.rsplit("::").next()?.trim();
        let definition = self.modules.values().flatten().find(|item| {
            item.text.strip_prefix("macro_rules!").is_some_and(|text| text.trim_start().split([' ', '{']).next() == Some(name))
        })?;
        let written = definition.text.find("impl").map(|at| &definition.text[at..])?;
        let body = written.find('{').map(|at| &written[at..])?;
        Some((self.resolve(module, owner)?, body[..closing(body)].get(1..)?.strip_suffix('}')?))
    }
}

/// What follows a list of generics that has been opened.
fn after_generics(text: &str) -> &str {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '<') - i32::from(c == '>' && !text[..at].ends_with('-'));
        if depth == 0 {
            return &text[at + 1..];
        }
    }
    ""
}
