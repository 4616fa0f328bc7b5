//! A section: its identity, its received length, and its value.

use std::borrow::Cow;

use serde::Serialize;

use super::sections::{Entry, NAMES, SECTIONS};
use crate::document::Document;
use crate::json::walk::Raw;
use crate::json::{CloseOptions, Kind, ParserView, Span, string};

/// A section of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Section {
    /// The span of its value; to the end of the text while the section is open.
    #[serde(skip)]
    pub span: Span,
    /// The number of containers around it.
    #[serde(skip)]
    depth: usize,
    /// Whether it has ended.
    pub complete: bool,
    /// The key of a section that is a member of the root.
    pub key: Option<String>,
    /// Its member `content_type`, else `type`.
    pub content_type: Option<String>,
    /// Its member `id`.
    pub id: Option<String>,
    /// Its member `title`, else `name`.
    pub title: Option<String>,
    /// The complete elements of its arrays, by key; arrays with the same key are added up. At most
    /// eight keys of at most 1 KiB.
    pub counts: Vec<Count>,
    /// The lines of code in it: of strings under a key `code`.
    pub code_lines: usize,
}

/// The number of elements in arrays with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Count {
    /// The key.
    pub key: String,
    /// The number of complete elements.
    pub count: usize,
}

/// The arrays whose sizes are the length of a section. A section without them is measured by all
/// its arrays.
const LENGTHS: [&str; 3] = ["items", "rows", "lines"];

/// The number of characters of a name that are shown.
const SHOWN: usize = 80;

impl Section {
    /// Describes the part of `entry` in the text; `live` is the end of the text.
    pub(super) fn of(entry: &Entry, live: &ParserView<'_>) -> Self {
        let text = live.text;
        // The end of a section may be in dropped text.
        let complete = entry.span.end > 0 && entry.span.end <= text.len();
        let mut counted = entry.clone();
        if !complete {
            count_open(&mut counted, live);
        }
        let written = |name: &str| {
            let at = NAMES.iter().position(|known| *known == name)?;
            entry
                .names
                .get(at)
                .copied()
                .flatten()
                .and_then(|span| said(span.of(text)))
        };
        let has_key = entry.key.start > 0;
        let count = |&(key, count): &(Span, usize)| Count {
            key: string::key(key.of(text)).into_owned(),
            count,
        };
        Self {
            span: Span {
                start: entry.span.start,
                end: if complete { entry.span.end } else { text.len() },
            },
            depth: entry.depth,
            complete,
            key: has_key.then(|| string::key(entry.key.of(text)).into_owned()),
            content_type: written("content_type").or_else(|| written("type")),
            id: written("id"),
            title: written("title").or_else(|| written("name")),
            counts: counted.counts.iter().map(count).collect(),
            code_lines: counted.code.lines(),
        }
    }

    /// Returns whether the section starts in the text that the document has now.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.span.start < text.len()
    }

    /// Returns its value as valid JSON: as written, or, while the section is open, its complete
    /// part. `None` if no part of the value is certain. `document` must have the text that it had
    /// when the section was read. O(depth + length).
    pub fn closed(&self, document: &Document) -> Option<String> {
        let text = document.text();
        if self.complete {
            return text.get(self.span.range()).map(str::to_owned);
        }
        let mut suffix = String::new();
        let end = document.complete_into(CloseOptions::default(), &mut suffix)?;
        // The last closers are those of the containers around it.
        let own = suffix.get(..suffix.len().checked_sub(self.depth)?)?;
        let start = text
            .get(self.span.start..end)
            .filter(|start| !start.is_empty())?;
        Some([start, own].concat())
    }

    /// Returns the section as one line: `- table "section_table" with 8 rows`. Names are quoted and
    /// cut; so is a type that is not a word.
    pub fn line(&self) -> String {
        let mut line = String::from("- ");
        match (&self.content_type, &self.key) {
            (Some(word), _) | (None, Some(word)) => line.push_str(&word_or_quoted(word)),
            (None, None) => line.push_str("section"),
        }
        if let Some(name) = self.id.as_ref().or(self.title.as_ref()) {
            line.push(' ');
            line.push_str(&quoted(name));
        }
        let is_length = |count: &&Count| LENGTHS.contains(&count.key.as_str());
        let mut counts: Vec<&Count> = self.counts.iter().filter(is_length).collect();
        if counts.is_empty() && self.code_lines == 0 {
            counts = self.counts.iter().collect();
        }
        let counted = counts
            .iter()
            .map(|count| format!("{} {}", count.count, word_or_quoted(&count.key)));
        let code = (self.code_lines > 0).then(|| format!("{} code lines", self.code_lines));
        let counted: Vec<String> = counted.chain(code).collect();
        if !counted.is_empty() {
            line.push_str(" with ");
            line.push_str(&counted.join(", "));
        }
        if !self.complete {
            line.push_str(" (incomplete)");
        }
        line
    }

    /// Returns whether `other` continues this section: both have the same id, or the same title and
    /// content type. A section without id and title continues any incomplete one that nothing
    /// contradicts.
    fn is_continued_by(&self, other: &Self) -> bool {
        let agree = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        let no_conflict = agree(&self.content_type, &other.content_type)
            && agree(&self.id, &other.id)
            && agree(&self.title, &other.title)
            && self.key == other.key;
        let same_name = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        let is_named = same_name(&self.id, &other.id)
            || (same_name(&self.title, &other.title) && self.content_type == other.content_type)
            || same_name(&self.key, &other.key);
        no_conflict && (is_named || (!self.complete && other.id.is_none() && other.title.is_none()))
    }
}

/// Adds the sections of a further fragment to those that were delivered. The first one may continue
/// the last delivered one; then they become one section, and their counts are added up. So the
/// fragment must not repeat delivered text.
///
/// A [`Document`] that is continued does not need this: its open section continues by itself.
/// [`sections_of`] needs it for documents with several roots.
///
/// [`sections_of`]: super::sections_of
pub fn merge_sections(delivered: &mut Vec<Section>, fragment: Vec<Section>) {
    let mut fragment = fragment.into_iter().peekable();
    if let Some(last) = delivered.last_mut()
        && let Some(next) = fragment.next_if(|next| last.is_continued_by(next))
    {
        last.complete = next.complete;
        last.code_lines += next.code_lines;
        for count in next.counts {
            match last.counts.iter_mut().find(|own| own.key == count.key) {
                Some(own) => own.count += count.count,
                None => last.counts.push(count),
            }
        }
        last.content_type = last.content_type.take().or(next.content_type);
        last.id = last.id.take().or(next.id);
        last.title = last.title.take().or(next.title);
    }
    delivered.extend(fragment);
}

/// Adds the complete elements of the arrays that are open in a section.
fn count_open(entry: &mut Entry, live: &ParserView<'_>) {
    let frames = live.frames;
    // An open section that is a container has a frame. Another section has no arrays.
    if frames
        .get(entry.depth)
        .is_none_or(|frame| frame.start != entry.span.start)
    {
        return;
    }
    for pair in frames
        .get(entry.depth.saturating_sub(1)..)
        .unwrap_or_default()
        .windows(2)
    {
        if let [around, frame] = pair
            && around.kind == Kind::Object
            && frame.kind == Kind::Array
            && frame.start >= entry.span.start
        {
            entry.add(around.key, frame.count, live.text);
            // Arrays in nested sections are counted there.
            if live.key(around.key) == SECTIONS {
                break;
            }
        }
    }
}

/// Returns the text of a string, other scalars as written, and nothing for `null`.
fn said(written: &str) -> Option<String> {
    let raw = Raw::root(written).filter(|raw| !raw.is_null())?;
    Some(
        raw.decode()
            .map_or_else(|| written.to_owned(), Cow::into_owned),
    )
}

/// Returns a word unchanged, and other text in quotes.
fn word_or_quoted(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !text.is_empty() && text.len() <= SHOWN && text.chars().all(is_word) {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// Returns a text, or the start of a long text, in quotes on one line.
fn quoted(text: &str) -> String {
    let end = text
        .char_indices()
        .nth(SHOWN)
        .map_or(text.len(), |(at, _)| at);
    let mut line = String::from("\"");
    for c in text.chars().take(SHOWN) {
        match c {
            '"' | '\\' => line.extend(['\\', c]),
            '\n' => line.push_str("\\n"),
            // Other line ends, and characters that change the direction of text.
            _ if c.is_control()
                || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                line.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => line.push(c),
        }
    }
    line.push_str(if end < text.len() { "…\"" } else { "\"" });
    line
}
