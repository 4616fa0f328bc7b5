//! restitch makes cut-off LLM output whole.
//!
//! Bytes come in, one seamless stream and one valid JSON document go out. Modules are stages; where do bytes go next?
//! To the next one down the page.
//!
//! ```text
//!  upstream bytes                                                                        downstream bytes
//!       │                                                                                      ▲
//!       ▼                                                                                      │
//!  sse::Decoder ─▶ chat::Reader ─────▶ splice::Splice ─▶ Document ─▶ session ─▶ chat::Writer ────▶ sse::Encoder
//!  (events, each    (deltas, finish,    (where does the    (text +    (finish,    (the continuation's text as events
//!   with its raw     usage, error)       fragment begin?)   machine)   continue,   of the first response)
//!   byte range)                                         │              retry,
//!                                                       │              give up)
//!                                                       └─▶ json::Sink: value, paths, children, or your own
//! ```
//!
//! The engine does no I/O: it is pushed bytes and the time, and says what is to be done. A document is cut and goes
//! on, without being parsed again:
//!
//! ```
//! use restitch::Limits;
//! use restitch::splice::{Expect, Slot, Splice};
//!
//! let limits = Limits::default();
//! let mut slot = Slot::new(&limits);
//! slot.push(r#"{"sections": [{"title": "One"}, {"title": "Tw"#)?;
//! assert_eq!(slot.document().cut().path, "/sections/1/title");
//! assert_eq!(slot.document().complete().unwrap(), r#"{"sections": [{"title": "One"}, {"title": "Tw"}]}"#);
//!
//! // The model was asked to repeat the end of what it wrote, and to go on.
//! let mut splice = Splice::new(&slot, Expect::Anchor, &limits);
//! for fragment in ["tions\": [{\"title\": \"One\"}, {\"title", "\": \"Two\"}]", "}"] {
//!     splice.feed(&mut slot, fragment)?;
//! }
//! let seam = splice.finish(&mut slot)?;
//! assert_eq!((seam.offset, seam.alignment.as_str()), (45, "anchor"));
//! assert_eq!(slot.document().root(), Some(r#"{"sections": [{"title": "One"}, {"title": "Two"}]}"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | feature | what it adds |
//! |---|---|
//! | none | the engine |
//! | `live` | events, snapshots and values of any `Stream` of JSON text, while it is received |
//! | `stream` | adapters that make any `Stream` of bytes or text deltas whole; includes `live` |
//! | `client` | an HTTP client for the providers |
//! | `proxy` | the proxy |
//! | `sim` | a scripted model server to test against |
//! | `schema` | JSON Schemas as the expectation of [`shape`] |
//! | `config` | the configuration file |
//! | `cli`, `app` | the commands; with the proxy and the model server |
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// Layer 0
mod error;
mod limits;
// Layer 1
mod envelope;
pub mod json;
mod overlap;
pub mod sse;
// Layer 2
mod document;
pub mod provider;
// Layer 3
mod children;
pub mod paths;
pub mod shape;
pub mod value;
// Layer 4
pub mod context;
pub mod splice;
// Layer 5
pub mod session;
// Layer 6
#[cfg(any(feature = "config", feature = "proxy"))]
mod address;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "live")]
pub mod live;
#[cfg(any(feature = "config", feature = "proxy"))]
mod route;
#[cfg(any(feature = "proxy", feature = "sim"))]
mod socket;
#[cfg(feature = "proxy")]
mod store;
#[cfg(feature = "stream")]
pub mod stream;
// Layer 7
#[cfg(feature = "config")]
mod config;
#[cfg(feature = "proxy")]
mod proxy;
#[cfg(feature = "sim")]
pub mod sim;
// Layer 8
#[cfg(feature = "cli")]
mod cli;

pub use document::{Checkpoint, Cut, Document, Trailing, Utf8, Utf8Error, clean_encoding};
pub use envelope::AllowedRoots;
pub use error::{Place, SyntaxError, SyntaxErrorKind};
pub use json::repair;
pub use limits::{ContinuationLimits, KeepLimits, Limits, ParserLimits, ServerLimits, TransportLimits};
pub use session::{Message, Outcome, Retry};
#[cfg(feature = "stream")]
pub use stream::{Stitch, StitchText, Stitcher, TextDelta};

/// The inside of the engine and of the program, for the program itself, benches, fuzz targets, peers and tests. Not part of
/// the API: it changes without notice.
#[doc(hidden)]
pub mod internal {
    #[cfg(any(feature = "config", feature = "proxy"))]
    pub mod address {
        pub use crate::address::*;
    }
    pub mod capability {
        pub use crate::provider::capability::cache::CapabilityCache;
        pub use crate::provider::capability::hint::CapabilityHint;
    }
    pub mod chat {
        pub use crate::provider::chat::*;
        pub use crate::provider::transcript::{ToolCall, Transcript};
        pub use crate::provider::usage::{add_usage, answer_tokens};
        pub use crate::provider::wire::{Adaptation, Changes, Request, Rest};
    }
    pub mod children {
        pub use crate::children::{Child, ChildIndex, KeyHash, digest_of, same_value};
    }
    #[cfg(feature = "cli")]
    pub mod cli {
        pub use crate::cli::*;
    }
    #[cfg(feature = "client")]
    pub mod client {
        pub use crate::client::*;
    }
    #[cfg(feature = "config")]
    pub mod config {
        pub use crate::config::*;
    }
    pub mod context {
        pub use crate::context::internal::*;
    }
    pub mod json {
        pub use crate::json::event::{Each, each};
        pub use crate::json::machine::Machine;
        pub use crate::json::stack::Frame;
        pub mod edit {
            pub use crate::json::edit::*;
        }
        pub mod string {
            pub use crate::json::string::*;
        }
        pub mod walk {
            pub use crate::json::walk::*;
        }
    }
    pub mod overlap {
        pub use crate::overlap::*;
    }
    pub mod prompt {
        pub use crate::session::prompt::Parts;
        pub use crate::session::question::Form;
    }
    #[cfg(feature = "proxy")]
    pub mod proxy {
        pub use crate::proxy::*;
    }
    pub mod prose {
        pub use crate::session::text::{StitchedText, stitch_text};
        pub use crate::splice::text::TextSplice;
    }
    pub mod wire {
        pub use crate::provider::wire::{Dialect, Ending, Reader, Slot, SlotKind, SlotText, Tool, Wire, Writer};
        pub use crate::sse::framed::Framing;

        /// Returns the row of an API.
        pub fn wire_of(dialect: Dialect) -> &'static dyn Wire {
            dialect.wire()
        }
    }
    pub mod relay {
        pub use crate::session::body::BodyRelay;
        pub use crate::session::relay::{Output, Reattach, Relay, TransportEnd};
    }
}

/// The code of the README and the guides: it compiles.
#[cfg(all(doctest, feature = "stream"))]
mod guides {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/live.md")]
    struct Live;
    #[doc = include_str!("../docs/contexts.md")]
    struct Contexts;
    #[doc = include_str!("../docs/repair.md")]
    struct Repair;
    #[doc = include_str!("../docs/shapes.md")]
    struct Shapes;
}
