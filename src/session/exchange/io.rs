//! The inputs and outputs of an exchange.

use std::time::Duration;

use bytes::Bytes;

use crate::session::{Outcome, SessionEvent, TransportEnd};

/// The head of a response, as an exchange needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// `Content-Encoding`, unless the caller decodes the body.
    pub content_encoding: Option<&'a str>,
    /// `Retry-After`, as a time from now on.
    pub retry_after: Option<Duration>,
    /// `Server`: the software of a server of one's own, such as llama.cpp.
    pub server: Option<&'a str>,
}

impl<'a> ResponseHead<'a> {
    /// Returns a head with a status and a content type.
    pub fn of(status: u16, content_type: &'a str) -> Self {
        Self {
            status,
            content_type: Some(content_type),
            ..Self::default()
        }
    }

    /// Sets `Content-Encoding`, unless the caller decodes the body.
    #[must_use]
    pub fn with_encoding(mut self, content_encoding: Option<&'a str>) -> Self {
        self.content_encoding = content_encoding;
        self
    }

    /// Sets `Retry-After`, as a time from now on.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Sets `Server`, which may name a server whose capability is known.
    #[doc(hidden)]
    #[must_use]
    pub fn with_server(mut self, server: Option<&'a str>) -> Self {
        self.server = server;
        self
    }

    pub(super) fn is_encoded(&self) -> bool {
        self.content_encoding
            .is_some_and(|encoding| !encoding.trim().eq_ignore_ascii_case("identity"))
    }
}

/// An action for the caller, or a report.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExchangeOutput {
    /// Bytes for the client.
    Bytes(Bytes),
    /// The open call is over: close it, and make this one.
    Call(ExchangeCall),
    /// A step of the loop: only for logs.
    Event(SessionEvent),
    /// The answer is over, and no output follows.
    Done {
        /// The result.
        outcome: Outcome,
        /// The last bytes for the client: one who stops reading at the end of the answer has the
        /// outcome then. Of an answer in one body these are all bytes.
        last: Bytes,
        /// [`TransportEnd::Dropped`]: the client must see that its stream is not whole, so raise
        /// the error with which the upstream ended.
        transport_end: TransportEnd,
        /// The status for a response in one body: that of the first call, or of a failure. A
        /// failure must not be repeated by the client: its calls are made and paid.
        status: u16,
    },
}

/// A call that the caller has to make: with the client's own URL and headers, except for these.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExchangeCall {
    /// The method.
    pub method: &'static str,
    /// The path and the query.
    pub path: String,
    /// The body. Empty for a `GET`.
    pub body: String,
    /// The earliest time of the call.
    pub at: Duration,
}
