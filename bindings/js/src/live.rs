//! A document that grows with the deltas of a stream.

use napi::{Error, Result};
use napi_derive::napi;
use restitch::json::{Event, Kind, ParserView, Scalar, Sink};
use restitch::{Document, Limits, SyntaxError};

use crate::partial::Failure;

/// The document of a live value. The value itself is built in JavaScript, from the changes of each
/// delta: a call for each object, key and value would take most of the time.
#[napi]
#[derive(Debug)]
pub struct LiveDocument {
    document: Document,
    failure: Option<Failure>,
}

#[napi]
impl LiveDocument {
    /// Makes an empty document.
    #[napi(constructor)]
    pub fn new() -> Self {
        Self {
            document: Document::new(Limits::default().parser.max_depth),
            failure: None,
        }
    }

    /// Takes more text. Returns the changes; see [`Changes`].
    #[napi]
    pub fn push(&mut self, delta: String) -> String {
        let mut changes = Changes::default();
        let result = self.document.push_with(&delta, &mut changes);
        self.noted(changes, result)
    }

    /// Takes the end of the text. Returns the changes.
    #[napi]
    pub fn finish(&mut self) -> String {
        let mut changes = Changes::default();
        let result = self.document.finish_with(&mut changes);
        if result.is_ok() && self.document.root_start().is_none() {
            self.failure = Some(Failure::without_json(self.document.text()));
            changes.0.push(FAILED);
            return changes.0;
        }
        self.noted(changes, result)
    }

    /// The failure that the last changes have announced.
    #[napi]
    pub fn failure(&self) -> Result<Failure> {
        let none = || Error::from_reason("there is no failure");
        self.failure.clone().ok_or_else(none)
    }

    /// Whether the document is complete.
    #[napi(getter)]
    pub fn is_complete(&self) -> bool {
        self.document.is_complete()
    }

    /// The JSON Pointer of the value that is open or due.
    #[napi(getter)]
    pub fn path(&self) -> String {
        self.document.cut().path
    }

    /// All text so far.
    #[napi(getter)]
    pub fn text(&self) -> &str {
        self.document.text()
    }
}

impl LiveDocument {
    fn noted(
        &mut self,
        mut changes: Changes,
        result: std::result::Result<(), SyntaxError>,
    ) -> String {
        if let Err(error) = result {
            self.failure = Some(Failure::of(&self.document, &error));
            changes.0.push(FAILED);
        }
        changes.0
    }
}

/// Announces a failure.
const FAILED: char = '!';

/// The changes of one push, in one string, which costs a single call of Node's interface.
///
/// `{`, `[` and `]` begin and end a container, `k` is a key, `"` begins a string, `f` is a fragment,
/// `e` ends the string, `n` is a number, `T`, `F` and `N` are the literals. `w` withdraws the root. After `k`, `f` and `n`
/// follow the length in UTF-16 units and the text.
#[derive(Debug, Default)]
struct Changes(String);

impl Changes {
    fn text(&mut self, change: char, text: &str) {
        self.0.push(change);
        let mut length = text.encode_utf16().count();
        // Six bits a character, the lowest first, and a mark where more follow: ASCII is the fastest for Node.
        while length >= 0x40 {
            self.0.push(char::from((length & 0x3f | 0x40) as u8));
            length >>= 6;
        }
        self.0.push(char::from(length as u8));
        self.0.push_str(text);
    }
}

impl Sink for Changes {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        match event {
            Event::Begin {
                kind: Kind::Object, ..
            } => self.0.push('{'),
            Event::Begin {
                kind: Kind::Array, ..
            } => self.0.push('['),
            Event::End { .. } => self.0.push(']'),
            Event::Key(span) => self.text('k', &live.key(span)),
            Event::StringBegin(_) => self.0.push('"'),
            Event::Fragment(span) => self.text('f', &live.decoded(span)),
            Event::StringEnd(_) => self.0.push('e'),
            Event::Scalar { kind, span } => match kind {
                Scalar::Number => self.text('n', span.of(live.text)),
                Scalar::True => self.0.push('T'),
                Scalar::False => self.0.push('F'),
                Scalar::Null => self.0.push('N'),
            },
            Event::Withdrawn(_) => self.0.push('w'),
        }
    }
}
