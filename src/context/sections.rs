//! The sections of a document, found while it is written.
//!
//! What counts as a section is known only when there is text that shows it, so three readings are followed at once, and
//! the first of them that has found something is the one that counts:
//! 1. the elements of arrays under a key `sections`, at any depth,
//! 2. the objects of the outermost array that holds some,
//! 3. the members of the root.

mod list;

use crate::document::Document;
use crate::json::{Event, Frame, Kind, Live, Sink, Span, string};
use list::List;
pub(super) use list::{Entry, NAMES};

use super::summary::{Section, merge_sections};

/// Follows the sections of a document, as a [`Sink`] beside others. Keeps spans and counts, no text: memory is for each
/// section, up to a limit; of more the first and the newest are known.
///
/// It must be lent for all pushes. Where a document is [set back](Document::restore), a clone that was taken together
/// with the checkpoint goes on; without one, sections of the text that was taken back are forgotten when others begin.
///
/// ```
/// use restitch::{Document, context::Sections};
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
    /// Elements of arrays under a key `sections`; they may lie within each other.
    named: List,
    /// Objects of the outermost array that holds some, and the depth of that array and its bracket.
    rows: List,
    array: Option<(usize, usize)>,
    /// A string of code is open in one of them.
    in_code: bool,
    /// Members of the root.
    members: List,
}

impl Default for Sections {
    /// With a limit of 4,096: more than a model writes in one answer, and below 1 MiB.
    fn default() -> Self {
        Self::new(4096)
    }
}

/// The key whose elements are sections.
pub(super) const SECTIONS: &str = "sections";

impl Sections {
    /// Remembers at most `limit` sections of each reading, at least the newest few.
    pub fn new(limit: usize) -> Self {
        Self { named: List::new(limit), rows: List::new(limit), array: None, in_code: false, members: List::new(limit) }
    }

    /// How many sections have begun, remembered or not.
    pub fn count(&self) -> usize {
        self.current().count()
    }

    /// The sections that are remembered, in the order in which they begin. O(sections).
    pub fn list(&self, document: &Document) -> Vec<Section> {
        self.list_at(&end_of(document))
    }

    fn list_at(&self, end: &Live<'_>) -> Vec<Section> {
        let sections = self.current().entries().map(|entry| Section::of(entry, end));
        sections.filter(|section| section.is_in(end.text)).collect()
    }

    /// The `delivered_summary`: a line for each section. More than twenty become the first ten, a count, and the last
    /// ten. Texts of the document are quoted where they are more than a name, so that each section stays one line.
    /// Takes no time for the lines that are left out.
    pub fn summary(&self, document: &Document) -> String {
        let (first, left_out, last) = self.current().ends(SHOWN);
        let end = end_of(document);
        let line = |entry: &Entry| {
            let section = Section::of(entry, &end);
            section.is_in(end.text).then(|| section.line())
        };
        let count = (left_out > 0).then(|| format!("… {left_out} more sections …"));
        let lines = first.filter_map(line).chain(count).chain(last.filter_map(line));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The reading that counts.
    fn current(&self) -> &List {
        let lists = [&self.named, &self.rows];
        lists.into_iter().find(|list| list.count() > 0).unwrap_or(&self.members)
    }

    /// A value begins at `at`.
    fn begin(&mut self, kind: Option<Kind>, at: usize, live: &Live<'_>) {
        let depth = live.frames.len();
        let Some(parent) = live.frames.last() else {
            self.forget();
            return;
        };
        if parent.kind == Kind::Object {
            if depth == 1 {
                self.members.begin(Entry::new(at, depth, parent.key));
            }
            return;
        }
        let entry = || Entry::new(at, depth, Span::default());
        if kind == Some(Kind::Object) {
            let array = (depth - 1, parent.start);
            match self.array {
                Some(known) if known == array => self.rows.begin(entry()),
                Some((outer, start)) if outer < depth && start < parent.start => {}
                _ => {
                    self.array = Some(array);
                    self.rows.clear();
                    self.rows.begin(entry());
                }
            }
        }
        if is_sections(live) {
            self.named.begin(entry());
        }
    }

    /// A string or another scalar has ended.
    fn scalar(&mut self, span: Span, live: &Live<'_>) {
        self.in_code = false;
        let name = list::name(live);
        self.lists().for_each(|list| list.scalar(span, live, name));
    }

    /// A new root: nothing is known of it.
    fn forget(&mut self) {
        self.array = None;
        self.lists().for_each(List::clear);
    }

    fn lists(&mut self) -> impl Iterator<Item = &mut List> {
        [&mut self.named, &mut self.rows, &mut self.members].into_iter()
    }
}

/// Returns the sections of all roots in a document, in their order. Where the first section of a root continues the last
/// one of the root before, they are one section ([`merge_sections`]). Reads the whole text once.
///
/// ```
/// use restitch::{Document, context::sections_of};
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

/// Collects the sections of a root before those of the next root replace them.
#[derive(Default)]
struct AllRoots {
    before: Vec<Section>,
    newest: Sections,
}

impl Sink for AllRoots {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        if event.begins_value() && live.frames.is_empty() {
            merge_sections(&mut self.before, self.newest.list_at(live));
        }
        self.newest.event(event, live);
    }
}

/// The end of a document's text, and the containers that are open there.
fn end_of(document: &Document) -> Live<'_> {
    Live { text: document.text(), frames: document.machine().frames() }
}

/// Bytes of that key where all of it is escaped.
const WRITTEN: usize = SECTIONS.len() * "\\u0000".len();

/// Lines of each end of a long summary.
const SHOWN: usize = 10;

/// The innermost container is an array under a key `sections`.
fn is_sections(live: &Live<'_>) -> bool {
    let [.., Frame { kind: Kind::Object, key, .. }, _] = live.frames else { return false };
    let key = key.of(live.text);
    // A long key is no name: it is not read again for each element.
    key == SECTIONS || (key.len() <= WRITTEN && key.contains('\\') && string::key(key) == SECTIONS)
}

impl Sink for Sections {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        match event {
            Event::Begin { kind, at } => self.begin(Some(kind), at, live),
            Event::StringBegin(at) => {
                self.begin(None, at, live);
                self.in_code = list::is_code(live);
                if self.in_code {
                    self.lists().for_each(|list| list.code_begins(live));
                }
            }
            Event::Fragment(span) if self.in_code => self.lists().for_each(|list| list.fragment(span, live)),
            Event::Fragment(_) => {}
            Event::StringEnd(span) => self.scalar(span, live),
            Event::Scalar { span, .. } => {
                self.begin(None, span.start, live);
                self.scalar(span, live);
            }
            Event::End { kind, count, span } => self.lists().for_each(|list| list.end(kind, count, span, live)),
            Event::Key(_) => {}
        }
    }
}
