//! The engine around any [`Stream`]: of a provider's bytes, or of the text deltas that an SDK hands out.
//!
//! The adapters own the open call and nothing else. They poll it when they are polled, so a slow reader slows the
//! upstream; dropping an adapter drops the call. Timers are tokio's; the adapters must be polled inside its runtime.
//! [`live`](crate::live) turns streams of JSON text into events and values, needs no timers and runs anywhere.

mod driver;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;

use crate::Limits;
use crate::session::relay::{self, Relay, TransportEnd};
use crate::session::{self, CallEnd, ContinuationStrategy, GiveUp, Input, Outcome, Request, Session, Status};
use driver::{Driver, Engine, Step};

/// A chat/completions event stream, made whole: bytes in, bytes out.
///
/// `reopen` is called for each further call with what to ask for; [`chat::continuation`] writes the request's body.
/// The stream's errors are the upstream's own: they come only where the answer is not restitch's to continue.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use restitch::{provider::chat, stream::Stitch};
/// use tokio_stream::StreamExt;
///
/// # fn call(text: &'static str) -> impl tokio_stream::Stream<Item = Result<bytes::Bytes, std::io::Error>> {
/// #     let chunk = serde_json::json!({"id": "c", "choices": [{"index": 0, "delta": {"content": text}}]});
/// #     tokio_stream::iter([Ok(format!("data: {chunk}\n\n").into())])
/// # }
/// let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"A list, please."}]}"#;
/// let first = call("[\"one\", \"tw"); // The connection breaks here.
/// let mut stream = Stitch::new(first, |request| {
///     let turn = request.turn.unwrap();
///     let body = chat::continuation(body, &turn.delivered, &turn.prompt).unwrap();
///     async move {
///         assert!(body.contains("<overlap_context>"));
///         Ok(call("[\"one\", \"two\"]"))
///     }
/// });
/// let mut bytes = Vec::new();
/// while let Some(chunk) = stream.next().await {
///     bytes.extend_from_slice(&chunk.unwrap());
/// }
/// assert!(bytes.ends_with(b"data: [DONE]\n\n"));
/// assert_eq!(stream.document().text(), r#"["one", "two"]"#);
/// # });
/// ```
///
/// [`chat::continuation`]: crate::provider::chat::continuation
pub struct Stitch<S, F, Fut, E>(Driver<Relay, S, F, Fut, E>);

/// Text deltas, made whole: strings in, strings out.
///
/// For users of an SDK that hands out deltas: the end of the stream is the end of a call, an error is a lost
/// connection. When the stream has ended, [`outcome`](Self::outcome) tells how the text came about.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use restitch::{session::Status, stream::StitchText};
/// use tokio_stream::{StreamExt, iter};
///
/// let call = |text: &'static str| iter([Ok::<_, std::io::Error>(text.to_owned())]);
/// let mut stream = StitchText::new(call("{\"title\": \"Hel"), |request| async move {
///     assert!(request.turn.unwrap().prompt.contains("{\"title\": \"Hel"));
///     Ok(call("{\"title\": \"Hello\"}"))
/// });
/// let mut text = String::new();
/// while let Some(delta) = stream.next().await {
///     text.push_str(&delta.unwrap());
/// }
/// assert_eq!(text, "{\"title\": \"Hello\"}");
/// assert_eq!(stream.outcome().unwrap().status(), Status::Complete);
/// # });
/// ```
pub struct StitchText<S, F, Fut, E>(Driver<Deltas, S, F, Fut, E>);

impl<S, F, Fut, E> Stitch<S, F, Fut, E>
where
    S: Stream<Item = Result<Bytes, E>>,
    F: FnMut(Request) -> Fut,
    Fut: Future<Output = Result<S, E>>,
{
    /// Around the body of the first call's answer.
    pub fn new(first: S, reopen: F) -> Self {
        Self::with(first, reopen, Limits::default(), false)
    }

    /// With other limits. `has_stop`: the request names stop sequences, so that `stop` is not taken for a lie.
    pub fn with(first: S, reopen: F, limits: Limits, has_stop: bool) -> Self {
        Self(Driver::new(if has_stop { Relay::new(limits).trust_stop() } else { Relay::new(limits) }, first, reopen))
    }

    /// Asks for continuations in this way.
    #[must_use]
    pub fn strategy(mut self, strategy: ContinuationStrategy) -> Self {
        self.0.engine = self.0.engine.strategy(strategy);
        self
    }

    /// Sets what is delivered when the rest can't be had.
    #[must_use]
    pub fn give_up(mut self, give_up: GiveUp) -> Self {
        self.0.engine = self.0.engine.give_up(give_up);
        self
    }

    /// How an error of `reopen` counts: whether the next call should wait, and for how long. By default it waits
    /// 0.2 s, twice as long at each further failure in a row.
    #[must_use]
    pub fn on_rejection(mut self, rejection: fn(&E) -> CallEnd) -> Self {
        self.0.rejection = rejection;
        self
    }

    /// Shows every output to `observer` before it is acted on: for logs and tables.
    #[must_use]
    pub fn observe(mut self, observer: impl FnMut(&relay::Output) + Send + 'static) -> Self {
        self.0.observer = Some(driver::Observer(Box::new(observer)));
        self
    }

    /// The answer's text so far.
    pub fn document(&self) -> &crate::Document {
        self.0.engine.session().document()
    }

    /// How the answer came about. `None` until the stream has ended.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.0.outcome.as_ref()
    }
}

impl<S, F, Fut, E> StitchText<S, F, Fut, E>
where
    S: Stream<Item = Result<String, E>>,
    F: FnMut(Request) -> Fut,
    Fut: Future<Output = Result<S, E>>,
{
    /// Around the deltas of the first call.
    pub fn new(first: S, reopen: F) -> Self {
        Self::with(first, reopen, Limits::default())
    }

    /// With other limits.
    pub fn with(first: S, reopen: F, limits: Limits) -> Self {
        Self(Driver::new(Deltas::new(limits), first, reopen))
    }

    /// Asks for continuations in this way.
    #[must_use]
    pub fn strategy(mut self, strategy: ContinuationStrategy) -> Self {
        self.0.engine.session.set_strategy(strategy);
        self
    }

    /// How an error of `reopen` counts; see [`Stitch::on_rejection`].
    #[must_use]
    pub fn on_rejection(mut self, rejection: fn(&E) -> CallEnd) -> Self {
        self.0.rejection = rejection;
        self
    }

    /// The text so far.
    pub fn document(&self) -> &crate::Document {
        self.0.engine.session.document()
    }

    /// How the text came about. `None` until the stream has ended.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.0.outcome.as_ref()
    }
}

impl<S, F, Fut, E> Stream for Stitch<S, F, Fut, E>
where
    S: Stream<Item = Result<Bytes, E>>,
    F: FnMut(Request) -> Fut + Unpin,
    Fut: Future<Output = Result<S, E>>,
    E: Unpin,
{
    type Item = Result<Bytes, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().0.poll_next(cx)
    }
}

impl<S, F, Fut, E> Stream for StitchText<S, F, Fut, E>
where
    S: Stream<Item = Result<String, E>>,
    F: FnMut(Request) -> Fut + Unpin,
    Fut: Future<Output = Result<S, E>>,
    E: Unpin,
{
    type Item = Result<String, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().0.poll_next(cx)
    }
}

// Not derived: neither streams nor closures need to be printed.
impl<S, F, Fut, E> fmt::Debug for Stitch<S, F, Fut, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stitch").field(&self.0).finish()
    }
}

impl<S, F, Fut, E> fmt::Debug for StitchText<S, F, Fut, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StitchText").field(&self.0).finish()
    }
}

impl Engine for Relay {
    type Chunk = Bytes;

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
        self.handle_rejection(now, end);
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
            other => Step::Other(other),
        })
    }
}

/// The engine of [`StitchText`]: a session alone.
#[derive(Debug)]
struct Deltas {
    session: Session,
    opened: bool,
    /// Text of a first answer leaves as it came.
    first: Option<String>,
}

impl Deltas {
    fn new(limits: Limits) -> Self {
        Self { session: Session::new(limits), opened: true, first: None }
    }

    fn done(&self, outcome: Outcome) -> relay::Output {
        // An error of an answer that is not continued, or of which nothing came, is the reader's to see; a clean end
        // is not changed.
        let lost = match outcome.status() {
            Status::PassedThrough => !self.session.document().is_complete(),
            status => matches!(status, Status::Failed | Status::Incomplete),
        };
        relay::Output::Done { outcome, transport_end: if lost { TransportEnd::Dropped } else { TransportEnd::Closed } }
    }
}

impl Engine for Deltas {
    type Chunk = String;

    fn opened(&mut self, now: Duration) {
        self.session.handle_input(now, Input::Activity);
    }

    fn chunk(&mut self, now: Duration, chunk: String) {
        self.opened = true;
        self.session.handle_input(now, Input::Text(&chunk));
        if self.session.is_first() && !chunk.is_empty() {
            self.first = Some(chunk);
        }
    }

    fn transport_end(&mut self, now: Duration, transport_end: TransportEnd) {
        let end = if transport_end == TransportEnd::Closed { CallEnd::Closed } else { CallEnd::Dropped };
        self.session.handle_input(now, Input::CallEnd(end));
    }

    fn rejected(&mut self, now: Duration, end: CallEnd) {
        self.session.handle_input(now, Input::CallEnd(end));
    }

    fn due(&self) -> Option<Duration> {
        self.session.poll_timeout(self.opened)
    }

    fn timeout(&mut self, now: Duration) {
        if self.due().is_some_and(|due| now >= due) {
            self.session.handle_input(now, Input::CallEnd(CallEnd::TimedOut));
        }
    }

    fn step(&mut self) -> Option<Step<String>> {
        if let Some(text) = self.first.take() {
            return Some(Step::Item(text));
        }
        self.session.poll_output().map(|output| match output {
            session::Output::Text(text) => Step::Item(text),
            session::Output::Event(event) => Step::Other(relay::Output::Event(event)),
            session::Output::Call { request, at } => {
                self.opened = false;
                Step::Other(relay::Output::Call { request, at })
            }
            session::Output::Done(outcome) => Step::Other(self.done(outcome)),
        })
    }
}
