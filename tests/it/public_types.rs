//! What the compiler promises of the public types: checked when this file compiles.

use restitch::internal::capability::CapabilityCache;
use restitch::internal::chat;
use restitch::internal::chat::Transcript;
use restitch::internal::overlap;
use restitch::internal::prose::TextSplice;
use restitch::provider::capability::{Capability, Table};
use restitch::provider::{Delta, Finish};
use restitch::session::{
    CallEnd, ContinuationStrategy, Exchange, ExchangeOutput, Input, Output, Request, Session,
    SessionEvent, Snapshot,
};
use restitch::splice::{Slot, Splice, SpliceError};
use restitch::{Checkpoint, Document, Limits, Outcome, Retry, SyntaxError, Utf8};
use restitch::{context, paths, sse, value};

const fn is_shared<T: Send + Sync + Unpin>() {}

const _: () = {
    is_shared::<Document>();
    is_shared::<Checkpoint>();
    is_shared::<Utf8>();
    is_shared::<Limits>();
    is_shared::<SyntaxError>();
    is_shared::<value::LiveValue>();
    is_shared::<paths::Paths>();
    is_shared::<context::Contexts<'_>>();
    is_shared::<restitch::internal::json::Machine>();
    is_shared::<overlap::Matcher>();
    is_shared::<overlap::NearAnchor>();
    is_shared::<sse::Decoder>();
    is_shared::<sse::Encoder>();
    is_shared::<Slot>();
    is_shared::<Splice>();
    is_shared::<SpliceError>();
    is_shared::<TextSplice>();
    is_shared::<Exchange>();
    is_shared::<ExchangeOutput>();
    is_shared::<Session>();
    is_shared::<Snapshot>();
    is_shared::<Input<'_>>();
    is_shared::<Output>();
    is_shared::<SessionEvent>();
    is_shared::<CallEnd>();
    is_shared::<ContinuationStrategy>();
    is_shared::<Request>();
    is_shared::<Retry>();
    is_shared::<Outcome>();
    is_shared::<Delta<'_>>();
    is_shared::<Finish>();
    is_shared::<Transcript>();
    is_shared::<chat::ChatReader>();
    is_shared::<Capability>();
    is_shared::<CapabilityCache>();
    is_shared::<Table>();
};

/// An adapter holds the user's streams and closures, which need not be `Sync`.
#[cfg(feature = "stream")]
const _: () = {
    const fn is_sent<T: Send + Unpin>() {}
    is_shared::<restitch::Stitcher>();
    is_shared::<restitch::TextDelta>();
    is_sent::<restitch::Stitch<'_, std::io::Error>>();
    is_sent::<restitch::StitchText<'_, std::io::Error>>();
};

const _: () = {
    is_shared::<restitch_http::Client>();
    is_shared::<restitch_http::Upstream>();
    is_shared::<restitch_http::Error>();
};

const _: () = is_shared::<restitch_sim::Sim>();
