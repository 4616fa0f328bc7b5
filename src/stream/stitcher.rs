//! The settings of an adapter, and its constructors.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;

use super::deltas::{Deltas, TextDelta};
use super::driver::{Driver, Upstream};
use super::{Stitch, StitchText};
use crate::Limits;
use crate::provider::Dialect;
use crate::provider::capability::{Capability, GrammarForm, PrefillForm};
use crate::provider::wire::Request;
use crate::repair::RepairOptions;
use crate::session::relay::{AnswerOptions, Relay};
use crate::session::{
    ContinuationStrategy, GiveUp, PrefillOptions, RestoreError, Retry, Session, Snapshot,
};

/// A builder of the adapters that make answers whole.
///
/// # A provider's bytes
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use restitch::{session::Status, stream::Stitcher};
/// use tokio_stream::{Stream, StreamExt};
///
/// # async fn post(body: String) -> Result<impl Stream<Item = Result<bytes::Bytes, std::io::Error>> + Send, std::io::Error> {
/// #     let text = if body.contains("<overlap_context>") { "[\"one\", \"two\"]" } else { "[\"one\", \"tw" };
/// #     let chunk = serde_json::json!({"id": "c", "choices": [{"index": 0, "delta": {"content": text}}]});
/// #     Ok(tokio_stream::iter([Ok(format!("data: {chunk}\n\n").into())]))
/// # }
/// // `post` is your own call: a body goes out, a stream of bytes comes in.
/// let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"A list, please."}]}"#;
/// let mut answer = Stitcher::new()
///     .max_continuations(4)
///     .stream(post(body.to_owned()).await?, |retry| post(retry.body(body)));
/// let mut out = Vec::new();
/// while let Some(bytes) = answer.next().await {
///     out.extend_from_slice(&bytes?);
/// }
/// assert!(out.ends_with(b"data: [DONE]\n\n"));
/// assert_eq!(answer.document().text(), r#"["one", "two"]"#);
/// assert_eq!(answer.into_outcome().status(), Status::Complete);
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
///
/// # Text deltas of an SDK
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use restitch::{session::Status, stream::Stitcher};
/// use tokio_stream::{Stream, StreamExt};
///
/// # type Messages = Vec<(&'static str, String)>;
/// # async fn ask(messages: Messages) -> Result<impl Stream<Item = Result<String, std::io::Error>> + Send, std::io::Error> {
/// #     let text = if messages.len() > 1 { "{\"title\": \"Hello\"}" } else { "{\"title\": \"Hel" };
/// #     Ok(tokio_stream::iter([Ok(text.to_owned())]))
/// # }
/// // `ask` is your SDK's call: messages go out, text comes in.
/// let messages = vec![("user", "A title, as JSON.".to_owned())];
/// let mut text = Stitcher::new().text(ask(messages.clone()).await?, |retry| ask(retry.messages(&messages)));
/// let mut whole = String::new();
/// while let Some(delta) = text.next().await {
///     whole.push_str(&delta?);
/// }
/// assert_eq!(whole, "{\"title\": \"Hello\"}");
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stitcher {
    limits: Limits,
    strategy: ContinuationStrategy,
    capability: Arc<Capability>,
    give_up: GiveUp,
    repair: Option<RepairOptions>,
    dialect: Dialect,
    /// The known facts about the request.
    request: Request,
    /// Its body.
    client_request: Bytes,
}

impl Stitcher {
    /// Returns a builder with the default limits, whose continuations are re-prompts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many calls may follow the first one.
    #[must_use]
    pub fn max_continuations(mut self, most: u32) -> Self {
        self.limits.continuation.max_continuations = most;
        self
    }

    /// Sets all limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the strategy of continuations.
    #[must_use]
    #[doc(hidden)]
    pub fn strategy(mut self, strategy: ContinuationStrategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the capability of the model, as returned by
    /// [`Table::of`](crate::provider::capability::Table::of). It decides whether continuations use
    /// a prefill, and replaces that part of [`strategy`](Self::strategy).
    #[must_use]
    pub fn capability(mut self, capability: Capability) -> Self {
        let prefixed = PrefillOptions {
            rejects_trailing_space: capability.rejects_trailing_space,
            returns_prefill: capability.returns_prefill,
            keeps_format: capability.prefill_keeps_format,
        };
        self.strategy.prefill = (capability.prefill != PrefillForm::None).then_some(prefixed);
        self.strategy.grammar = capability.grammar.unwrap_or_default();
        self.strategy.reduce_reasoning = capability.reasoning_off.is_some();
        self.capability = Arc::new(capability);
        self
    }

    /// Sets the end of an answer that is given up. Default: [`GiveUp::Leave`], which adds no text.
    /// The [outcome](Stitch::outcome) shows that the answer is not whole.
    #[must_use]
    pub fn give_up(mut self, give_up: GiveUp) -> Self {
        self.give_up = give_up;
        self
    }

    /// Sets how much of the text inside the root may be changed: a
    /// [`RepairLevel`](crate::repair::RepairLevel), or options with rules that are switched off.
    /// Default: nothing, so that a healthy answer's bytes stay unchanged.
    #[must_use]
    pub fn repair(mut self, options: impl Into<RepairOptions>) -> Self {
        self.repair = Some(options.into());
        self
    }

    /// Trusts a finish of `stop` although the document is not whole: for requests with stop
    /// sequences. By default such an answer is continued.
    #[must_use]
    pub fn trust_stop(mut self) -> Self {
        self.request.has_stop = true;
        self
    }

    /// Sets the JSON Schema that the request has for the answer; see
    /// [`Session::set_schema`](crate::session::Session::set_schema). [`request`](Self::request)
    /// reads it from the request.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.request.schema = Some(schema.into());
        self
    }

    /// Sets the API of the stream. Default: Chat Completions.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        if dialect.wire().always_continues() {
            self.strategy.prefill = Some(PrefillOptions::default());
        }
        self
    }

    /// Reads the settings for the answer from the request's body, after [`dialect`](Self::dialect):
    /// tools, the number of choices, stop sequences, JSON mode, and the assistant's prefill.
    /// Without it the arguments of tool calls are continued without their schema, and one choice is
    /// expected.
    #[must_use]
    pub fn request(self, body: &str) -> Self {
        let request = self.dialect.wire().parse("", body.as_bytes());
        self.suited_to(request.as_ref(), body.as_bytes())
    }

    /// Makes a provider's event stream whole.
    ///
    /// `first` is the body of the first call's answer. `reopen` makes a further call: the [`Retry`]
    /// edits the request. Streams and closures may borrow, and have to be `Send`.
    pub fn stream<'a, S, Fut, E: 'a>(
        self,
        first: S,
        reopen: impl FnMut(Retry) -> Fut + Send + 'a,
    ) -> Stitch<'a, E>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'a,
        Fut: Future<Output = Result<S, E>> + Send + 'a,
    {
        let engine = Relay::new(self.limits)
            .dialect(self.dialect)
            .request(self.request.tools, self.request.n);
        let grammar = self.strategy.grammar;
        let grammar = match self.dialect.wire().takes_grammar(grammar) {
            true => grammar,
            false => GrammarForm::None,
        };
        let engine = engine.strategy(self.strategy.grammar(grammar));
        let engine = engine.give_up(self.give_up);
        let engine = if self.request.has_stop {
            engine.trust_stop()
        } else {
            engine
        };
        let engine = if let Some(options) = self.repair {
            engine.repair(options)
        } else {
            engine
        };
        let engine = engine
            .schema(self.request.schema.as_deref())
            .client_request(&self.client_request);
        let engine = engine.base(&self.request.base.of_model(&self.capability, true));
        Stitch::new(engine, (self.capability, self.dialect), first, reopen)
    }

    /// Makes the text of an SDK's deltas whole.
    ///
    /// `first` are the deltas of the first call. `reopen` makes a further call: the [`Retry`] edits
    /// the messages. Deltas are strings, or [`TextDelta`]s, which also have the reason why an
    /// answer ended. Without a reason, the end of an answer that a content filter or a stop
    /// sequence cut counts as a lost connection, and the answer is continued.
    pub fn text<'a, S, D, Fut, E: 'a>(
        self,
        first: S,
        reopen: impl FnMut(Retry) -> Fut + Send + 'a,
    ) -> StitchText<'a, E>
    where
        S: Stream<Item = Result<D, E>> + Send + 'a,
        D: Into<TextDelta> + 'a,
        Fut: Future<Output = Result<S, E>> + Send + 'a,
    {
        self.deltas(
            mapped(first, D::into),
            opening(reopen, |deltas| mapped(deltas, D::into)),
        )
    }

    /// Continues an answer from a snapshot of its [`StitchText`], for example in another process.
    ///
    /// The items are the text that the reader of the first stream has not received. The open call
    /// of that stream counts as lost, and `reopen` makes the next one. The snapshot sets the end of
    /// an answer that is given up, the repair, the schema and the trust in a stop; the builder the
    /// limits. Time that the first stream has taken counts.
    ///
    /// A view of the returned stream, such as [`completed`](StitchText::completed), reads the whole
    /// document: the delivered text precedes the rest.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// use restitch::{Stitcher, session::{Snapshot, Status}};
    /// use tokio_stream::{Stream, StreamExt};
    ///
    /// # type Messages = Vec<(&'static str, String)>;
    /// # async fn ask(messages: Messages) -> Result<impl Stream<Item = Result<String, std::io::Error>> + Send, std::io::Error> {
    /// #     let pieces: &[&str] = if messages.len() > 1 { &["[\"one\", \"tw", "o\"]"] } else { &["[\"one\", ", "\"tw"] };
    /// #     Ok(tokio_stream::iter(pieces.iter().map(|piece| Ok(piece.to_string()))))
    /// # }
    /// let messages = vec![("user", "A list, please.".to_owned())];
    /// let mut text = Stitcher::new().text(ask(messages.clone()).await?, |retry| ask(retry.messages(&messages)));
    /// assert_eq!(text.next().await.unwrap()?, "[\"one\", ");
    /// let row = serde_json::to_string(&text.snapshot())?;
    /// drop(text);
    ///
    /// let snapshot: Snapshot = serde_json::from_str(&row)?;
    /// let mut rest = Stitcher::new().resume(&snapshot, |retry| ask(retry.messages(&messages)))?;
    /// assert_eq!(rest.next().await.unwrap()?, "\"tw");
    /// assert_eq!(rest.next().await.unwrap()?, "o\"]");
    /// assert!(rest.next().await.is_none());
    /// assert_eq!(rest.into_outcome().status(), Status::Complete);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Fails with [`RestoreError::Ended`] if the answer had ended, and if the snapshot has another
    /// version or contradicts itself.
    pub fn resume<'a, S, D, Fut, E: 'a>(
        self,
        snapshot: &Snapshot,
        reopen: impl FnMut(Retry) -> Fut + Send + 'a,
    ) -> Result<StitchText<'a, E>, RestoreError>
    where
        S: Stream<Item = Result<D, E>> + Send + 'a,
        D: Into<TextDelta> + 'a,
        Fut: Future<Output = Result<S, E>> + Send + 'a,
    {
        let strategy = self.strategy.grammar(GrammarForm::None);
        let session = Session::restore_with(Duration::ZERO, snapshot, self.limits, strategy)?;
        // Its stream would neither have an item nor end.
        if let Some(status) = snapshot.status()? {
            return Err(RestoreError::Ended(status));
        }
        Ok(StitchText(Driver::new(
            Deltas::resumed(session),
            (self.capability, self.dialect),
            None,
            opening(reopen, |deltas| mapped(deltas, D::into)),
        )))
    }

    /// Takes the settings for continuations from a request.
    pub(super) fn suited_to(mut self, request: Option<&Request>, body: &[u8]) -> Self {
        self.client_request = Bytes::copy_from_slice(body);
        let keeps_json_mode =
            |request: &Request| request.has_json_mode && self.capability.keeps_json_mode();
        self.strategy.keeps_json_mode |= request.is_some_and(keeps_json_mode);
        self.strategy.prefill = self
            .strategy
            .prefill
            .filter(|_| request.is_none_or(|request| !request.wants_reasoning))
            .map(|prefill| PrefillOptions {
                keeps_format: prefill.keeps_format
                    && request.is_some_and(|request| request.has_json_mode),
                ..prefill
            });
        if let Some(request) = request {
            let before = std::mem::replace(&mut self.request, request.clone());
            self.request.has_stop |= before.has_stop;
            self.request.schema = self.request.schema.or(before.schema);
        }
        self
    }

    pub(super) fn deltas<'a, E>(
        self,
        first: Upstream<'a, TextDelta, E>,
        reopen: super::driver::Reopen<'a, TextDelta, E>,
    ) -> StitchText<'a, E> {
        // The messages of an SDK's request have no grammar.
        let strategy = self.strategy.grammar(GrammarForm::None);
        let mut session = Session::new(self.limits)
            .strategy(strategy)
            .give_up(self.give_up)
            .client_request(&self.client_request)
            .schema(self.request.schema.as_deref());
        if self.request.has_stop {
            session = session.trust_stop();
        }
        if let Some(options) = self.repair {
            session = session.repair(options);
        }
        let session = session.base(&self.request.base.of_model(&self.capability, true));
        StitchText(Driver::new(
            Deltas::new(session),
            (self.capability, self.dialect),
            Some(first),
            reopen,
        ))
    }
}

impl<'a, E> Stitch<'a, E> {
    /// Drives a relay: `first` is the body of the first call's answer, `reopen` makes a further
    /// call to a model with this capability.
    #[doc(hidden)]
    pub fn new<S, Fut>(
        relay: Relay,
        model: (Arc<Capability>, Dialect),
        first: S,
        reopen: impl FnMut(Retry) -> Fut + Send + 'a,
    ) -> Self
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'a,
        Fut: Future<Output = Result<S, E>> + Send + 'a,
        E: 'a,
    {
        Self(Driver::new(
            relay,
            model,
            Some(Box::pin(first)),
            opening(reopen, |body| Box::pin(body)),
        ))
    }
}

/// Boxes a user's closure, and with `boxed` the streams that it opens.
pub(super) fn opening<'a, S, C, Fut, E>(
    mut reopen: impl FnMut(Retry) -> Fut + Send + 'a,
    boxed: fn(S) -> Upstream<'a, C, E>,
) -> super::driver::Reopen<'a, C, E>
where
    S: 'a,
    C: 'a,
    E: 'a,
    Fut: Future<Output = Result<S, E>> + Send + 'a,
{
    Box::new(move |retry| {
        let call = reopen(retry);
        Box::pin(async move { call.await.map(boxed) })
    })
}

/// Boxes a stream whose items are read as deltas.
pub(super) fn mapped<'a, S, D, E>(
    stream: S,
    read: impl FnMut(D) -> TextDelta + Send + Unpin + 'a,
) -> Upstream<'a, TextDelta, E>
where
    S: Stream<Item = Result<D, E>> + Send + 'a,
{
    Box::pin(Mapped {
        stream: Box::pin(stream),
        read,
    })
}

struct Mapped<S, F> {
    stream: Pin<Box<S>>,
    read: F,
}

impl<S, F, D, E> Stream for Mapped<S, F>
where
    S: Stream<Item = Result<D, E>>,
    F: FnMut(D) -> TextDelta + Unpin,
{
    type Item = Result<TextDelta, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.stream
            .as_mut()
            .poll_next(cx)
            .map(|item| item.map(|item| item.map(&mut this.read)))
    }
}
