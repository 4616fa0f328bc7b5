//! The sections of a document, found while it is received.
//!
//! Only the text shows what counts as a section. So three readings are followed in parallel, and
//! the first reading in this list that has found a section counts:
//!
//! 1. the elements of arrays under a key `sections`, at any depth,
//! 2. the objects of the outermost array that holds objects,
//! 3. the members of the root.

mod list;

use crate::document::Document;
use crate::json::{Event, Frame, Kind, ParserView, Sink, Span, string};
use list::List;
pub(super) use list::{Entry, NAMES};

use super::summary::{Section, merge_sections};

/// Follows the sections of a document: a [`Sink`] to lend to every push. Keeps spans and counts, no
/// text. Remembers sections up to a limit; beyond it, only the first and the newest ones.
///
/// If a document is [restored](Document::restore), continue with a clone that was made with the
/// checkpoint. Without one, sections of dropped text are forgotten when others start.
///
/// ```
/// use restitch::{Document, internal::context::Sections};
///
/// let (mut document, mut sections) = (Document::new(64), Sections::default());
/// let text = r#"{"sections": [{"type": "table", "id": "t1", "rows": [[1], [2]]}, {"type": "list", "items": ["a", "b"#;
/// document.push_with(text, &mut sections)?;
/// assert_eq!(sections.summary(&document), "- table \"t1\" with 2 rows\n- list with 1 items (incomplete)");
/// let found = sections.list(&document);
/// assert_eq!(found[1].closed(&document).unwrap(), r#"{"type": "list", "items": ["a", "b"]}"#);
/// # Ok::<(), restitch::SyntaxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sections {
    /// The elements of arrays under a key `sections`. They may be nested.
    named: List,
    /// The objects of the outermost array that holds objects; and the depth and the bracket of this
    /// array.
    rows: List,
    array: Option<(usize, usize)>,
    /// A string under a key `code` is open.
    in_code: bool,
    /// The members of the root.
    members: List,
}

impl Default for Sections {
    /// Remembers 4,096 sections: more than models write in one answer, in less than 1 MiB.
    fn default() -> Self {
        Self::new(4096)
    }
}

/// The key whose elements are sections.
pub(super) const SECTIONS: &str = "sections";

impl Sections {
    /// Creates a sink that remembers at most `limit` sections of each reading, but always the
    /// newest few.
    pub fn new(limit: usize) -> Self {
        Self {
            named: List::new(limit),
            rows: List::new(limit),
            array: None,
            in_code: false,
            members: List::new(limit),
        }
    }

    /// Returns the number of sections that have started, remembered or not.
    pub fn count(&self) -> usize {
        self.current().count()
    }

    /// Returns the remembered sections, in the order in which they start. O(sections).
    pub fn list(&self, document: &Document) -> Vec<Section> {
        self.list_at(&end_of(document))
    }

    fn list_at(&self, end: &ParserView<'_>) -> Vec<Section> {
        let sections = self
            .current()
            .entries()
            .map(|entry| Section::of(entry, end));
        sections.filter(|section| section.is_in(end.text)).collect()
    }

    /// Returns the `delivered_summary`: a line for each section. More than twenty become the first
    /// ten, a count, and the last ten. Document text is quoted unless it is a word, so that each
    /// section is one line. Lines that are left out cost nothing.
    pub fn summary(&self, document: &Document) -> String {
        let (first, left_out, last) = self.current().ends(SHOWN);
        let end = end_of(document);
        let line = |entry: &Entry| {
            let section = Section::of(entry, &end);
            section.is_in(end.text).then(|| section.line())
        };
        let count = (left_out > 0).then(|| format!("… {left_out} more sections …"));
        let lines = first
            .filter_map(line)
            .chain(count)
            .chain(last.filter_map(line));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the reading that counts.
    fn current(&self) -> &List {
        let lists = [&self.named, &self.rows];
        lists
            .into_iter()
            .find(|list| list.count() > 0)
            .unwrap_or(&self.members)
    }

    /// A value starts at `at`.
    fn value_starts(&mut self, kind: Option<Kind>, at: usize, live: &ParserView<'_>) {
        let depth = live.frames.len();
        let Some(parent) = live.frames.last() else {
            self.forget();
            return;
        };
        if parent.kind == Kind::Object {
            if depth == 1 {
                self.members.push(Entry::new(at, depth, parent.key));
            }
            return;
        }
        let entry = || Entry::new(at, depth, Span::default());
        if kind == Some(Kind::Object) {
            let array = (depth - 1, parent.start);
            match self.array {
                Some(known) if known == array => self.rows.push(entry()),
                Some((outer, start)) if outer < depth && start < parent.start => {}
                _ => {
                    self.array = Some(array);
                    self.rows.clear();
                    self.rows.push(entry());
                }
            }
        }
        if is_sections(live) {
            self.named.push(entry());
        }
    }

    /// A string or another scalar has ended.
    fn scalar(&mut self, span: Span, live: &ParserView<'_>) {
        self.in_code = false;
        let name = list::name(live);
        self.lists().for_each(|list| list.scalar(span, live, name));
    }

    /// Forgets everything: a new root starts.
    fn forget(&mut self) {
        self.array = None;
        self.lists().for_each(List::clear);
    }

    fn lists(&mut self) -> impl Iterator<Item = &mut List> {
        [&mut self.named, &mut self.rows, &mut self.members].into_iter()
    }
}

/// Returns the sections of all roots in a document, in order. If the first section of a root
/// continues the last one of the root before, they are one section ([`merge_sections`]). Reads the
/// whole text once.
///
/// ```
/// use restitch::Document;
/// use restitch::internal::context::sections_of;
///
/// let mut document = Document::new(64);
/// document.push(r#"{"sections": [{"id": "a", "items": [1, 2]}, {"id": "b", "items": [3]}]}"#)?;
/// let lines: Vec<_> = sections_of(&document).iter().map(|section| section.line()).collect();
/// assert_eq!(lines, [r#"- section "a" with 2 items"#, r#"- section "b" with 1 items"#]);
/// # Ok::<(), restitch::SyntaxError>(())
/// ```
pub fn sections_of(document: &Document) -> Vec<Section> {
    let mut all = AllRoots::default();
    document.replay(&mut all);
    merge_sections(&mut all.before, all.newest.list(document));
    all.before
}

/// Collects the sections of a root before the next root replaces them.
#[derive(Default)]
struct AllRoots {
    before: Vec<Section>,
    newest: Sections,
}

impl Sink for AllRoots {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        if event.begins_value() && live.frames.is_empty() {
            merge_sections(&mut self.before, self.newest.list_at(live));
        }
        self.newest.event(event, live);
    }
}

/// Returns the end of a document's text, and the containers that are open there.
fn end_of(document: &Document) -> ParserView<'_> {
    ParserView {
        text: document.text(),
        frames: document.machine().frames(),
    }
}

/// The length of the key `sections` with every character escaped.
const WRITTEN: usize = SECTIONS.len() * "\\u0000".len();

/// The number of lines at each end of a long summary.
const SHOWN: usize = 10;

/// Returns whether the innermost container is an array under a key `sections`.
fn is_sections(live: &ParserView<'_>) -> bool {
    let [
        ..,
        Frame {
            kind: Kind::Object,
            key,
            ..
        },
        _,
    ] = live.frames
    else {
        return false;
    };
    let key = key.of(live.text);
    // A longer key is not decoded for each element.
    key == SECTIONS || (key.len() <= WRITTEN && key.contains('\\') && string::key(key) == SECTIONS)
}

impl Sink for Sections {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        match event {
            Event::Begin { kind, at } => self.value_starts(Some(kind), at, live),
            Event::StringBegin(at) => {
                self.value_starts(None, at, live);
                self.in_code = list::is_code(live);
                if self.in_code {
                    self.lists().for_each(|list| list.code_starts(live));
                }
            }
            Event::Fragment(span) if self.in_code => {
                self.lists().for_each(|list| list.fragment(span, live));
            }
            Event::Fragment(_) => {}
            Event::StringEnd(span) => self.scalar(span, live),
            Event::Scalar { span, .. } => {
                self.value_starts(None, span.start, live);
                self.scalar(span, live);
            }
            Event::End { kind, count, span } => self
                .lists()
                .for_each(|list| list.end(kind, count, span, live)),
            Event::Key(_) | Event::Withdrawn(_) => {}
        }
    }
}
