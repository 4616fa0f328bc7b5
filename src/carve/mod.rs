//! A grammar of the legal rests of a cut document, for servers that constrain their output.
//!
//! The rest is that of the cut token, then one tail for each open container, the innermost first,
//! then white space. Before it the model writes the *head* again, the last characters of the
//! delivered text: a prefill ends where it begins, so no token is split by the cut.
//!
//! The grammar allows every legal rest, with one exception: it demands the other half of a cut
//! surrogate pair. It can't forbid duplicate keys. All but the head and a cut escape comes from the
//! live machine, so a grammar costs O(depth). Under a schema (`shaped`) it allows less: members come
//! in the order of the schema, and the keys that an object has are read off the document.

pub(crate) mod grammar;
mod head;
mod rest;
pub(crate) mod schema;
mod shaped;

use std::error::Error;
use std::fmt;

use crate::document::Document;
use grammar::{Grammar, Syntax};

/// The most open containers of a document whose rest is printed as a grammar.
// Chosen: each open container costs two bytes, so a grammar has at most 1 KiB up to this depth.
pub const MAX_DEPTH: usize = 224;

/// The text that a model must write after a cut: a literal, and a grammar of the rest.
///
/// ```
/// use restitch::internal::carve::{Syntax, carve};
///
/// let mut document = restitch::Document::new(1024);
/// document.push(r#"{"people": [{"name": "Anna", "ag"#).unwrap();
/// let carved = carve(&document, None).unwrap();
/// assert_eq!(carved.head, r#" "Anna", "ag"#);
/// let grammar = carved.print(Syntax::Gbnf);
/// assert!(grammar.starts_with(r#"root ::= " \"Anna\", \"ag" rest pair o a o w"#));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carved {
    /// The end of the delivered text. A prefill ends before it, and an answer begins with it.
    pub head: String,
    /// The text that may follow the head.
    pub rest: Grammar,
}

impl Carved {
    /// Prints the grammar of the answer: the head and then the rest.
    pub fn print(&self, syntax: Syntax) -> String {
        self.rest.print(syntax, &self.head)
    }
}

/// A reason why the rest of a text has no grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CarveError {
    /// This many containers are open, which is more than [`MAX_DEPTH`].
    TooDeep(usize),
    /// No root has begun, and the text is not empty: it may be prose.
    NoRoot,
}

impl fmt::Display for CarveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep(depth) => write!(
                f,
                "{depth} containers are open; a grammar of the rest covers at most {MAX_DEPTH}"
            ),
            Self::NoRoot => f.write_str("No JSON root has begun in the text"),
        }
    }
}

impl Error for CarveError {}

/// Returns the head and the grammar of the rest of a cut document. O(depth). With the request's
/// `schema`, the rest of a root that has begun has its types, members and lists, too, and the
/// document is read once.
///
/// Before the root of a blank text, or after the line that opens a fence, the rest is a whole root.
/// After the root it is white space.
///
/// # Errors
/// Fails if too many containers are open, or if the text is not JSON.
pub fn carve(document: &Document, schema: Option<&str>) -> Result<Carved, CarveError> {
    let (machine, text) = (document.machine(), document.text());
    let depth = machine.frames().len();
    if depth > MAX_DEPTH {
        return Err(CarveError::TooDeep(depth));
    }
    if document.root_start().is_none() && !document.is_blank() && !document.is_json() {
        return Err(CarveError::NoRoot);
    }
    let is_cut = machine.in_token();
    let token = if is_cut {
        machine.token_start()
    } else {
        text.len()
    };
    let rest = if document.root_start().is_some() {
        let open = text.get(machine.pending_start()..).unwrap_or_default();
        let shaped = schema.and_then(|schema| shaped::of_root(document, schema));
        shaped.unwrap_or_else(|| rest::of_root(machine, open))
    } else {
        let fence = document.rest_of_fence().unwrap_or_default();
        rest::before_root(fence, document.allowed_roots())
    };
    let head = text.get(head::start(text, token)..).unwrap_or_default();
    Ok(Carved {
        head: head.to_owned(),
        rest,
    })
}
