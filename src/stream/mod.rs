//! Adapters around any [`Stream`]: of a provider's bytes, or of the text deltas of an SDK.
//!
//! A [`Stitcher`] makes them. An adapter owns the open call and nothing else: it polls the call
//! when it is polled, so a slow reader slows the upstream, and dropping the adapter drops the call.
//! Timers are tokio's; the adapters must be polled inside its runtime. [`live`](crate::live) turns
//! streams of JSON text into events and values, needs no timers and runs anywhere.

mod chat;
mod deltas;
mod driver;
mod live;
mod stitcher;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;

use crate::Document;
use crate::limits::TimeLimit;
use crate::session::relay::{self, Relay, TransportEnd};
use crate::session::{CallEnd, Outcome, Session, SessionEvent, Snapshot, StopReason};
use deltas::Deltas;
pub use deltas::TextDelta;
use driver::{Driver, Engine, Step};
pub use stitcher::Stitcher;

/// A chat completions event stream, made whole: bytes in, bytes out. [`Stitcher::stream`] makes
/// one.
///
/// Its errors are those of the upstream, if the answer is not continued.
pub struct Stitch<'a, E>(Driver<'a, Relay, E>);

/// Text deltas, made whole: deltas in, strings out. [`Stitcher::text`] and [`Stitcher::chat`] make
/// one.
///
/// The end of a call's stream is the end of the call, an error is a lost connection.
pub struct StitchText<'a, E>(Driver<'a, Deltas, E>);

/// Methods and traits of both adapters.
macro_rules! adapter_methods {
    ($adapter:ident, $item:ty) => {
        impl<'a, E> $adapter<'a, E> {
            /// Sets a function that classifies an error of a further call: it decides whether the
            /// next call waits, and how long. By default the next call waits for 0.2 s, and twice
            /// as long after each further failure in a row. After an error of a call with a
            /// prefill or a grammar, the next call has another form, without a wait:
            /// [`CallEnd::FormRejected`].
            #[must_use]
            pub fn on_rejection(mut self, rejection: impl Fn(&E) -> CallEnd + Send + 'a) -> Self {
                self.0.rejection = Some(Box::new(rejection));
                self
            }

            /// Calls `observer` with every step of the loop, for example for a log.
            #[must_use]
            pub fn observe(self, mut observer: impl FnMut(&SessionEvent) + Send + 'a) -> Self {
                self.observe_outputs(move |output| {
                    if let relay::Output::Event(event) = output {
                        observer(event);
                    }
                })
            }

            fn observe_outputs(mut self, observer: impl FnMut(&relay::Output) + Send + 'a) -> Self {
                self.0.observer = Some(Box::new(observer));
                self
            }

            /// Returns the answer's text so far.
            pub fn document(&self) -> &Document {
                self.0.engine.session().document()
            }

            /// Returns how the answer ended; `None` until the stream has ended.
            pub fn outcome(&self) -> Option<&Outcome> {
                self.0.outcome.as_ref()
            }

            /// Returns how the answer ended; [`StopReason::Abandoned`] if the stream has not ended.
            pub fn into_outcome(self) -> Outcome {
                self.0.outcome.unwrap_or_else(|| Outcome::Incomplete {
                    reason: StopReason::Abandoned,
                    cause: None,
                    finish: None,
                    tally: self.0.engine.session().tally().clone(),
                })
            }
        }

        impl<E> Stream for $adapter<'_, E> {
            type Item = Result<$item, E>;

            fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                self.get_mut().0.poll_next(cx)
            }
        }

        // Not derived: neither streams nor closures need to be printed.
        impl<E> fmt::Debug for $adapter<'_, E> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($adapter)).field(&self.0).finish()
            }
        }
    };
}

adapter_methods!(Stitch, Bytes);
adapter_methods!(StitchText, String);

impl<E> StitchText<'_, E> {
    /// Returns the state with which [`Stitcher::resume`] continues the answer, for example in
    /// another process. Costs a copy of the text.
    pub fn snapshot(&self) -> Snapshot {
        self.0.engine.session().snapshot()
    }
}

impl<'a, E> Stitch<'a, E> {
    /// Calls `observer` with every output before it is acted on.
    #[doc(hidden)]
    pub fn observe_all(self, observer: impl FnMut(&relay::Output) + Send + 'a) -> Self {
        self.observe_outputs(observer)
    }

    /// Gives the answer up as [`stop`](Self::stop) does. Its end names the limit.
    #[doc(hidden)]
    pub fn stop_at(&mut self, limit: TimeLimit) {
        self.0.engine.note_limit(limit.into());
        self.stop();
    }

    /// Gives the answer up: ends the open call, and makes no further one. The next items are the
    /// end of the answer.
    #[doc(hidden)]
    pub fn stop(&mut self) {
        self.0.engine.stop();
        self.0.stop();
    }
}

impl Engine for Relay {
    type Chunk = Bytes;
    type Item = Bytes;
    // A response's status precedes its body, so an error of the stream is never a rejection.
    const IS_LAZY: bool = false;

    fn session(&self) -> &Session {
        self.session()
    }

    fn prepare(&mut self) -> bool {
        self.prepare()
    }

    fn opened(&mut self, now: Duration) {
        self.handle_open(now);
    }

    fn chunk(&mut self, now: Duration, chunk: Bytes) {
        self.handle_bytes(now, chunk);
    }

    fn transport_end(&mut self, now: Duration, transport_end: TransportEnd) {
        self.handle_transport_end(now, transport_end);
    }

    fn rejected(&mut self, now: Duration, end: CallEnd) {
        self.handle_call_end(now, end);
    }

    fn due(&self) -> Option<Duration> {
        self.poll_timeout()
    }

    fn timeout(&mut self, now: Duration) {
        self.handle_timeout(now);
    }

    fn step(&mut self) -> Option<Step<Bytes>> {
        self.poll_output().map(|output| match output {
            relay::Output::Bytes(bytes) => Step::Item(bytes),
            other => Step::Other(Box::new(other)),
        })
    }
}
