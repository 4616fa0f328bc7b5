//! restitch makes cut-off LLM output whole.
//!
//! The input is the text of an answer while the model writes it; the output is one seamless text
//! and one valid JSON document. It is a streaming JSON library, too: docs/streaming-json.md has five
//! tasks. Each stage uses the stages below it, and can be used without those above it:
//!
//! ```text
//!   streams of calls, or of their text ──▶┌────────────┐ ──▶ one stream that is whole
//!                a function that calls ◀──┤  Stitcher  │     (feature `stream`)
//!                                         └─────┬──────┘
//!                                         ┌─────▼──────┐
//! Input: text or the end of a call; now ─▶│  Session   │──▶ Output: text, the next call and its time, the outcome
//!                                         └─────┬──────┘
//!                                         ┌─────▼──────┐ ──▶ the cut, the complete part, a checkpoint
//!                    the text of a call ─▶│  Document  │
//!                                         └────────────┘ ──▶ json::Sink: LiveValue, Paths, or your own
//! ```
//!
//! A [`Stitcher`] makes the calls and has a timer. The engine below it does no I/O and has no
//! clock. The caller gives a [`Session`](session::Session) each event and the time, and the session
//! returns the next action. A [`Document`] takes text and doesn't know about calls. This example
//! reads a document that is still being received, without parsing a byte twice:
//!
//! ```
//! use restitch::{Document, value::LiveValue};
//!
//! let (mut document, mut value) = (Document::new(1024), LiveValue::new());
//! document.push_with(r#"{"sections": [{"title": "One"}, {"title": "Tw"#, &mut value)?;
//! assert_eq!(document.cut().path, "/sections/1/title");
//! assert_eq!(document.complete().unwrap(), r#"{"sections": [{"title": "One"}, {"title": "Tw"}]}"#);
//! assert_eq!(value.snapshot_at::<String>("/sections/1/title")?, "Tw");
//!
//! document.push_with("o\"}]}", &mut value)?;
//! assert_eq!(document.root(), Some(r#"{"sections": [{"title": "One"}, {"title": "Two"}]}"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | feature | adds |
//! |---|---|
//! | none | the engine |
//! | `live` | [`live`]: events, snapshots and values of any `Stream` of JSON text, while it is received |
//! | `stream` | [`stream`]: adapters that make any `Stream` of bytes or text deltas whole; includes `live` |
//! | `schema` | JSON Schemas as the expectation of [`shape`] |
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// Layer 0
mod error;
mod limits;
mod work;
// Layer 1
mod envelope;
pub mod json;
mod overlap;
#[doc(hidden)]
pub mod sse;
// Layer 2
mod document;
pub mod provider;
// Layer 3
mod carve;
mod children;
pub mod paths;
mod schema;
pub mod shape;
pub mod value;
// Layer 4
pub mod context;
pub mod splice;
// Layer 5
pub mod session;
// Layer 6
#[cfg(feature = "live")]
pub mod live;
// Layer 7
#[cfg(feature = "stream")]
pub mod stream;

// Hidden: types that a user gets and never names, and items for the other crates of the workspace.
#[doc(hidden)]
pub use document::{Checkpoint, Utf8Error, clean_encoding};
pub use document::{Cut, Document, Trailing, Utf8};
pub use envelope::AllowedRoots;
pub use error::{SourceLocation, SyntaxError, SyntaxErrorKind};
pub use json::repair;
pub use limits::Limits;
#[doc(hidden)]
pub use limits::{ContinuationLimits, KeepLimits, ParserLimits, ServerLimits, TransportLimits};
pub use session::{Message, Outcome, Retry};
#[cfg(feature = "stream")]
pub use stream::{Stitch, StitchText, Stitcher, TextDelta};

/// The inside of the engine, for the other crates of the workspace, benches, fuzz targets, peers
/// and tests. Not part of the API: it changes without notice. `tests/it/layers/internal.txt` lists
/// its names.
#[doc(hidden)]
pub mod internal {
    pub mod capability {
        pub use crate::provider::capability::by_model::ByModel;
        pub use crate::provider::capability::cache::CapabilityCache;
        pub use crate::provider::capability::hint::CapabilityHint;
        pub use crate::provider::capability::pattern::{matches, matches_exactly};
        pub use crate::provider::capability::too_long::is_too_long;
    }
    pub mod carve {
        pub use crate::carve::grammar::{Grammar, Syntax};
        pub use crate::carve::{CarveError, Carved, MAX_DEPTH, carve};
    }
    pub mod chat {
        pub use crate::provider::chat::{
            ChatReader, adapt, ask, continuation, has_member, parse, write_body,
        };
        pub use crate::provider::transcript::{ToolCall, Transcript};
        pub use crate::provider::usage::prompt_tokens;
        pub use crate::provider::wire::{Adaptation, Changes, Request, Rest};
    }
    pub mod children {
        pub use crate::children::{Child, ChildIndex, KeyHash, digest_of, same_value};
    }
    pub mod context {
        pub use crate::context::internal::{
            KPI_QUESTION, Overlap, Progress, Rendering, Sections, complete_part, cut_off_element,
            element_before_cutoff, extract, hierarchy_context, hierarchy_context_for_prompt,
            merge_sections, overlap_context, sections_of, validate,
        };
    }
    pub mod document {
        pub use crate::shape::whole::read_whole;
    }
    pub mod json {
        pub use crate::json::event::{Each, each};
        pub use crate::json::machine::Machine;
        pub use crate::json::stack::Frame;
        pub mod string {
            pub use crate::json::string::{Unescaper, decode, key, quoted};
        }
        pub mod walk {
            pub use crate::json::walk::{
                Elements, Members, Raw, Table, ValueKind, elements, is_valid, member, members,
            };
        }
    }
    pub mod limits {
        pub use crate::limits::{FIRST_BYTE, TimeLimit, is_probability};
    }
    pub mod overlap {
        pub use crate::overlap::{Anchor, EditCount, Hits, Matcher, NearAnchor};
    }
    pub mod prompt {
        pub use crate::session::prompt::{Parts, QuestionParts, task};
        pub use crate::session::question::QuestionForm;
    }
    pub mod request {
        pub use crate::provider::allowed::{Allowed, Names, Refused, Rule, allowed};
        pub use crate::provider::request::body_text;
        pub use crate::provider::translate::{PlainMessage, Role, translated};
    }
    pub mod prose {
        pub use crate::session::text::{StitchedText, stitch_text};
        pub use crate::splice::text::TextSplice;
    }
    pub mod wire {
        pub use crate::provider::checkpoints::{Checkpoints, Differs};
        pub use crate::provider::wire::{
            Base, Dialect, Ending, Kept, NewRequest, PlainPrompt, Reader, Slot, SlotKind, SlotText,
            Tool, Wire, Writer,
        };
        pub use crate::sse::array::ArrayDecoder;
        pub use crate::sse::framed::{Framed, Framing};
        pub use crate::sse::lines::LineDecoder;
    }
    /// The counters of work in debug builds, for tests.
    #[cfg(debug_assertions)]
    pub mod work {
        pub use crate::work::BYTES_FRAMED;
    }
    pub mod record {
        pub use crate::session::record::*;
    }
    pub mod rest_call {
        pub use crate::session::rest_call::*;
    }
    pub mod relay {
        pub use crate::session::body::BodyRelay;
        pub use crate::session::relay::{AnswerOptions, Output, Reattach, Relay, TransportEnd};
    }
}

/// The code of the README and the guides: it compiles.
#[cfg(all(doctest, feature = "stream"))]
mod guides {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/streaming-json.md")]
    struct StreamingJson;
    #[doc = include_str!("../docs/internals/contexts.md")]
    struct Contexts;
    #[doc = include_str!("../docs/internals/repair.md")]
    struct Repair;
    #[doc = include_str!("../docs/shapes.md")]
    struct Shapes;
}
