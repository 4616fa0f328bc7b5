//! The public surface, counted from the source as docs.rs shows it, without `sim`: growth is a
//! decision. Where a count has become smaller, lower its constant.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use source::{Item, after_generics, closing, parse, visible_parts};

/// Types, traits, free functions, constants and macros. 15 items are public so that a user can name
/// the types of public methods, fields and variants: the items of live streams, the decision on a
/// seam, the sections of a document. Two items are the end of a typed view.
const MAX_ITEMS: usize = 156;
/// Public methods of these types, and the methods of these traits. Each of the four views has its
/// outcome, and a `StitchText` has a method for each view that ends where its answer was given up.
const MAX_METHODS: usize = 347;
/// Public items and methods behind `#[doc(hidden)]`: for benches, fuzz targets and peers. Four
/// belong to the base of an answer's document, and to the texts that an event repeats.
const MAX_HIDDEN: usize = 364;

#[test]
fn the_surface_is_as_large_as_it_was_decided_to_be() {
    let surface = Crate::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).surface();
    for (module, items) in surface.by_module() {
        println!("{module}: {} ({})", items.len(), items.join(", "));
    }
    let (items, methods, hidden) = (surface.shown.len(), surface.methods, surface.hidden);
    println!("covered: {items} items, {methods} methods, {hidden} hidden");
    assert!(
        items <= MAX_ITEMS,
        "{items} items: hide one, or decide for more"
    );
    assert!(
        methods <= MAX_METHODS,
        "{methods} methods: remove one, or decide for more"
    );
    assert!(
        hidden <= MAX_HIDDEN,
        "{hidden} hidden items and methods: remove one, or decide for more"
    );
}

/// A user can name the type of everything that is shown.
#[test]
fn what_is_shown_names_only_what_is_shown() {
    let krate = Crate::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let leaks = krate.leaks();
    assert!(
        leaks.is_empty(),
        "export the second, or hide the first:\n{}",
        leaks.join("\n")
    );
    // The rule can fail.
    let leaks =
        |source: &str| crate_of(&[(&[], "mod a; pub use a::{A, T, f};"), (&["a"], source)]).leaks();
    assert_eq!(
        leaks("pub struct A { pub b: Vec<B>, c: C } pub struct B; pub struct C;"),
        ["A: B"]
    );
    assert_eq!(
        leaks("pub struct A(pub Option<B>, C); pub struct B; pub struct C;"),
        ["A: B"]
    );
    assert_eq!(
        leaks("pub enum A { One(B), #[doc(hidden)] Two(C) } pub struct B; pub struct C;"),
        ["A: B"]
    );
    assert_eq!(
        leaks(
            "pub enum A {} impl A { pub fn b(&self) -> super::a::B { C } } pub struct B; pub struct C;"
        ),
        ["A: B"]
    );
    assert_eq!(
        leaks(
            "pub struct A; impl A { #[doc(hidden)]\npub fn b(&self) -> B {} fn c(_: B) {} } pub struct B;"
        ),
        [""; 0]
    );
    assert_eq!(
        leaks(
            "pub trait T: B { type C: D; fn f() -> Self::C { E } } pub trait B {} pub trait D {} struct E;"
        ),
        ["T: B", "T: D"]
    );
    assert_eq!(
        leaks("pub fn f<S: B>(s: S) where S: T {} pub trait B {} pub trait T {}"),
        ["f: B"]
    );
}

fn crate_of(files: &[(&[&str], &str)]) -> Crate {
    let mut krate = Crate::default();
    for (path, source) in files {
        krate.add(
            path.iter().map(|&name| name.to_owned()).collect(),
            parse(source),
        );
    }
    krate
}

#[test]
fn the_count_can_be_wrong() {
    let krate = |files: &[(&[&str], &str)]| {
        let surface = crate_of(files).surface();
        (surface.shown.len(), surface.methods, surface.hidden)
    };
    let a: &[&str] = &["a"];
    let b: &[&str] = &["a", "b"];
    // Private, public, re-exported, and re-exported twice.
    assert_eq!(krate(&[(&[], "mod a;"), (a, "pub struct A;")]), (0, 0, 0));
    assert_eq!(
        krate(&[
            (&[], "pub mod a;"),
            (a, "pub struct A; struct B; pub(crate) struct C;")
        ]),
        (1, 0, 0)
    );
    assert_eq!(
        krate(&[
            (&[], "mod a; pub use a::A;"),
            (a, "pub struct A; pub enum B {}")
        ]),
        (1, 0, 0)
    );
    let twice = "pub mod a; pub use a::A;";
    assert_eq!(
        krate(&[
            (&[], twice),
            (a, "mod b; pub use b::{A, B as C};"),
            (b, "pub trait A {} pub const B: [u8; 1] = [0];")
        ]),
        (2, 0, 0)
    );
    assert_eq!(
        krate(&[
            (&[], "#[cfg(feature = \"sim\")]\npub mod a;"),
            (a, "pub struct A;")
        ]),
        (0, 0, 0)
    );
    // Methods of types that are shown, also where the type is defined elsewhere, and from a macro.
    let methods = "pub struct A; impl<'a> A { pub fn f() {} fn g() {} pub const fn h() {} } struct B; impl B { pub fn f() {} }";
    assert_eq!(krate(&[(&[], "pub mod a;"), (a, methods)]), (1, 2, 0));
    assert_eq!(
        krate(&[
            (&[], "pub mod a;"),
            (a, "mod b; pub struct A;"),
            (b, "use super::A; impl A { pub async fn f() {} }")
        ]),
        (1, 1, 0)
    );
    assert_eq!(
        krate(&[
            (&[], "pub mod a;"),
            (a, "pub trait A { fn f(); fn g() { h(|| {}) } }")
        ]),
        (1, 2, 0)
    );
    assert_eq!(
        krate(&[
            (&[], "pub mod a;"),
            (
                a,
                "pub struct A; macro_rules! m { ($a:ident) => { impl $a { pub fn f() {} } } } m!(A);"
            )
        ]),
        (1, 1, 0)
    );
    // Hidden: an item, a method, a module, a re-export; what is shown elsewhere is not hidden.
    assert_eq!(
        krate(&[
            (&[], "pub mod a;"),
            (
                a,
                "#[doc(hidden)]\npub struct A; pub struct B; impl B { #[doc(hidden)]\npub fn f() {} }"
            )
        ]),
        (1, 0, 2)
    );
    assert_eq!(
        krate(&[
            (&[], "#[doc(hidden)]\npub mod a; pub use a::A;"),
            (a, "pub struct A; pub struct B; impl B { pub fn f() {} }")
        ]),
        (1, 0, 2)
    );
    assert_eq!(
        krate(&[
            (&[], "mod a; #[doc(hidden)]\npub use a::A;"),
            (a, "pub struct A;")
        ]),
        (0, 0, 1)
    );
    // Modules in a file, and all of a module.
    let internal = "mod a; #[doc(hidden)]\npub mod internal { pub mod a { pub use crate::a::*; } }";
    assert_eq!(
        krate(&[
            (&[], internal),
            (a, "pub struct A; struct B; mod b { pub struct C; }")
        ]),
        (0, 0, 1)
    );
    // Comments, text and unit tests are no code.
    assert_eq!(
        krate(&[(
            &[],
            "// pub struct A;\nconst B: &str = \"pub struct C; {\"; #[cfg(test)]\nmod tests { pub struct D; }"
        )]),
        (0, 0, 0)
    );
}

type ModulePath = Vec<String>;
/// An item, by the module that defines it and its name.
type Id = (ModulePath, String);

/// The crate's modules, by their paths.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Vec<Item>>,
}

/// What a user can name, and what only insiders do.
#[derive(Default)]
struct Reached {
    shown: BTreeSet<Id>,
    hidden: BTreeSet<Id>,
}

impl Reached {
    fn add(&mut self, id: Id, is_hidden: bool) {
        if is_hidden {
            &mut self.hidden
        } else {
            &mut self.shown
        }
        .insert(id);
    }
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
            modules
                .entry(module.join("::"))
                .or_default()
                .push(name.clone());
        }
        modules
    }
}

impl Crate {
    fn read(src: &Path) -> Self {
        let mut krate = Self::default();
        let mut folders = vec![PathBuf::from(src)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let relative = path.strip_prefix(src).unwrap().with_extension("");
                let mut module: ModulePath = relative
                    .iter()
                    .map(|part| part.to_str().unwrap().to_owned())
                    .collect();
                if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
                    module.pop();
                }
                if module.first().is_none_or(|first| first != "bin") {
                    krate.add(module, parse(&fs::read_to_string(path).unwrap()));
                }
            }
        }
        krate
    }

    /// Adds a module, and those that are written inside it.
    fn add(&mut self, module: ModulePath, items: Vec<Item>) {
        for item in items.iter().filter(|item| !item.is_left_out) {
            if let (Some(("mod", name)), false) = (item.name(), item.body().is_empty()) {
                self.add(
                    module.iter().cloned().chain([name.to_owned()]).collect(),
                    parse(item.body()),
                );
            }
        }
        self.modules.insert(module, items);
    }

    fn items(&self, module: &[String]) -> impl Iterator<Item = &Item> {
        self.modules
            .get(module)
            .into_iter()
            .flatten()
            .filter(|item| !item.is_left_out)
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
            if item
                .name()
                .is_some_and(|(keyword, found)| keyword != "mod" && found == name)
            {
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
        let mut reached = Reached::default();
        self.reach(&[], false, &mut reached);
        let Reached { shown, mut hidden } = reached;
        hidden.retain(|id| !shown.contains(id));
        let mut surface = Surface {
            hidden: hidden.len(),
            ..Surface::default()
        };
        for module in self.modules.keys() {
            for item in self.items(module) {
                let Some((owner, body)) = self.methods_of(module, item) else {
                    continue;
                };
                let is_trait = item.text.starts_with("trait ");
                let methods = parse(body).into_iter().filter(|item| {
                    (item.is_public || is_trait)
                        && item.name().is_some_and(|(keyword, _)| keyword == "fn")
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

    /// What is shown and names a type of the crate that is not, as `shown: named`.
    fn leaks(&self) -> Vec<String> {
        let mut reached = Reached::default();
        self.reach(&[], false, &mut reached);
        let mut leaks = BTreeSet::new();
        for module in self.modules.keys() {
            for item in self.items(module) {
                let mut parts = Vec::new();
                let mut owner = item
                    .name()
                    .map(|(_, name)| (module.clone(), name.to_owned()));
                if owner.is_some() {
                    parts.extend(visible_parts(item));
                } else if let Some((of, body)) = self.methods_of(module, item) {
                    let methods = parse(body)
                        .into_iter()
                        .filter(|method| method.is_public && !method.is_hidden);
                    parts.extend(methods.flat_map(|method| visible_parts(&method)));
                    owner = Some(of);
                }
                let Some(owner) = owner.filter(|owner| reached.shown.contains(owner)) else {
                    continue;
                };
                let named = parts.iter().flat_map(|part| self.types_in(module, part));
                let secret = named.filter(|id| !reached.shown.contains(id));
                leaks.extend(secret.map(|(_, name)| format!("{}: {name}", owner.1)));
            }
        }
        leaks.into_iter().collect()
    }

    /// The types and traits of the crate that a piece of code names. Other names are those of other
    /// crates or of generics.
    fn types_in(&self, module: &[String], code: &str) -> Vec<Id> {
        let paths = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        let paths = paths.map(|path| {
            path.split(':')
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        let types = paths.filter_map(|path| {
            let (target, rest) = self.walk(module, &path);
            let name = rest
                .first()
                .filter(|name| name.starts_with(char::is_uppercase))?;
            self.resolve(&target, name)
        });
        types.collect()
    }

    /// Follows the public items of a module.
    fn reach(&self, module: &[String], in_hidden: bool, reached: &mut Reached) {
        for item in self.items(module).filter(|item| item.is_public) {
            let is_hidden = in_hidden || item.is_hidden;
            match item.name() {
                Some(("mod", name)) => {
                    let child: ModulePath =
                        module.iter().cloned().chain([name.to_owned()]).collect();
                    self.reach(&child, is_hidden, reached);
                }
                Some((_, name)) => reached.add((module.to_vec(), name.to_owned()), is_hidden),
                None => {
                    for (_, path) in item.imports() {
                        match self.walk(module, &path) {
                            (target, [all]) if all == "*" => {
                                self.reach(&target, is_hidden, reached)
                            }
                            (target, [name]) => {
                                self.resolve(&target, name)
                                    .into_iter()
                                    .for_each(|id| reached.add(id, is_hidden));
                            }
                            _ => {}
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
            let head = if let Some(generic) = head.strip_prefix('<') {
                after_generics(generic)
            } else {
                head
            };
            let is_inherent = !head.contains(" for ");
            let name = head
                .trim()
                .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .next()?;
            return self
                .resolve(module, name)
                .filter(|_| is_inherent)
                .map(|id| (id, item.body()));
        }
        // A macro that writes an `impl` for its first argument.
        let (name, arguments) = item.text.split_once('!')?;
        let owner = arguments
            .trim_start_matches(['(', '{', ' '])
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .next()?;
        let name = name.rsplit("::").next()?.trim();
        let definition = self.modules.values().flatten().find(|item| {
            item.text
                .strip_prefix("macro_rules!")
                .is_some_and(|text| text.trim_start().split([' ', '{']).next() == Some(name))
        })?;
        let written = definition
            .text
            .find("impl")
            .map(|at| &definition.text[at..])?;
        let body = written.find('{').map(|at| &written[at..])?;
        Some((
            self.resolve(module, owner)?,
            body[..closing(body)].get(1..)?.strip_suffix('}')?,
        ))
    }
}
