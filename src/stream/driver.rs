//! What all adapters share: one open call, one timer, and the order in which they are asked.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::session::relay::{Output, TransportEnd};
use crate::session::{CallEnd, Outcome, Request};

/// A sans-I/O engine, as an adapter drives it.
pub(super) trait Engine {
    type Chunk;

    /// A call has answered; the first one before its first chunk is asked for.
    fn opened(&mut self, now: Duration);
    fn chunk(&mut self, now: Duration, chunk: Self::Chunk);
    fn transport_end(&mut self, now: Duration, transport_end: TransportEnd);
    fn rejected(&mut self, now: Duration, end: CallEnd);
    /// When `timeout` is due.
    fn due(&self) -> Option<Duration>;
    fn timeout(&mut self, now: Duration);
    fn step(&mut self) -> Option<Step<Self::Chunk>>;
}

/// An output: something for the reader, or something for the adapter.
pub(super) enum Step<C> {
    Item(C),
    Other(Output),
}

/// Drives an engine. At most one of `upstream`, `opening` and `call` is there.
pub(super) struct Driver<G, S, F, Fut, E> {
    pub(super) engine: G,
    upstream: Option<Pin<Box<S>>>,
    opening: Option<Pin<Box<Fut>>>,
    /// A call that is to be made, and when.
    call: Option<(Request, Duration)>,
    reopen: F,
    pub(super) rejection: fn(&E) -> CallEnd,
    pub(super) observer: Option<Observer>,
    /// The error of the last call, for an answer that ends with it.
    error: Option<E>,
    pub(super) outcome: Option<Outcome>,
    /// The engine has been told that the first call is open, and when.
    started: bool,
    origin: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

pub(super) struct Observer(pub(super) Box<dyn FnMut(&Output) + Send>);

impl<G, S, F, Fut, E> Driver<G, S, F, Fut, E> {
    pub(super) fn new(engine: G, first: S, reopen: F) -> Self {
        Self {
            engine,
            upstream: Some(Box::pin(first)),
            opening: None,
            call: None,
            reopen,
            rejection: |_| CallEnd::Rejected {
                reason: "the call failed".to_owned(),
                transient: true,
                retry_after: None,
            },
            observer: None,
            error: None,
            outcome: None,
            started: false,
            origin: Instant::now(),
            timer: None,
        }
    }
}

impl<G, S, F, Fut, E> Driver<G, S, F, Fut, E>
where
    G: Engine,
    S: Stream<Item = Result<G::Chunk, E>>,
    F: FnMut(Request) -> Fut,
    Fut: Future<Output = Result<S, E>>,
{
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<G::Chunk, E>>> {
        if !std::mem::replace(&mut self.started, true) {
            self.engine.opened(self.origin.elapsed());
        }
        loop {
            if let Some(item) = self.drain() {
                return Poll::Ready(Some(item));
            }
            if self.outcome.is_some() {
                return Poll::Ready(None);
            }
            let now = self.origin.elapsed();
            if let Some((request, _)) = self.call.take_if(|(_, at)| *at <= now) {
                self.opening = Some(Box::pin((self.reopen)(request)));
            }
            if self.poll_call(cx, now) || self.poll_timer(cx, now) {
                continue;
            }
            return Poll::Pending;
        }
    }

    /// Acts on the engine's outputs up to the first that is for the reader.
    fn drain(&mut self) -> Option<Result<G::Chunk, E>> {
        while let Some(step) = self.engine.step() {
            let output = match step {
                Step::Item(item) => return Some(Ok(item)),
                Step::Other(output) => output,
            };
            if let Some(observer) = &mut self.observer {
                (observer.0)(&output);
            }
            match output {
                Output::Call { request, at } => {
                    self.end_call();
                    // The call that failed is about to be made good.
                    self.error = None;
                    self.call = Some((request, at));
                }
                Output::Done { outcome, transport_end } => {
                    self.end_call();
                    self.outcome = Some(outcome);
                    if let Some(error) = self.error.take().filter(|_| transport_end == TransportEnd::Dropped) {
                        return Some(Err(error));
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn end_call(&mut self) {
        self.upstream = None;
        self.opening = None;
        self.call = None;
    }

    /// Whether the open call, or the one that is being opened, had something to say.
    fn poll_call(&mut self, cx: &mut Context<'_>, now: Duration) -> bool {
        if let Some(opening) = &mut self.opening {
            let Poll::Ready(result) = opening.as_mut().poll(cx) else { return false };
            self.opening = None;
            match result {
                Ok(upstream) => {
                    self.upstream = Some(Box::pin(upstream));
                    self.engine.opened(now);
                }
                Err(error) => {
                    let end = (self.rejection)(&error);
                    self.error = Some(error);
                    self.engine.rejected(now, end);
                }
            }
            return true;
        }
        let Some(upstream) = &mut self.upstream else { return false };
        match upstream.as_mut().poll_next(cx) {
            Poll::Pending => return false,
            Poll::Ready(Some(Ok(chunk))) => self.engine.chunk(now, chunk),
            Poll::Ready(Some(Err(error))) => {
                self.upstream = None;
                self.error = Some(error);
                self.engine.transport_end(now, TransportEnd::Dropped);
            }
            Poll::Ready(None) => {
                self.upstream = None;
                self.engine.transport_end(now, TransportEnd::Closed);
            }
        }
        true
    }

    /// Whether something was due.
    fn poll_timer(&mut self, cx: &mut Context<'_>, now: Duration) -> bool {
        let due = self.engine.due();
        let call = self.call.as_ref().map(|(_, at)| *at);
        let Some(next) = due.into_iter().chain(call).min() else { return false };
        if next <= now {
            if due.is_some_and(|due| due <= now) {
                self.engine.timeout(now);
            }
            return true;
        }
        // A patience without end is a patience of centuries: the clock holds no more.
        let next = self.origin.checked_add(next).unwrap_or_else(|| self.origin + FOREVER);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
        // Most deadlines move with every chunk and never pass: the timer is only set again when it goes off too early,
        // or would go off too late.
        if timer.deadline() > next || timer.is_elapsed() {
            timer.as_mut().reset(next);
        }
        timer.as_mut().poll(cx).is_ready()
    }
}

impl<G: fmt::Debug, S, F, Fut, E> fmt::Debug for Driver<G, S, F, Fut, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("engine", &self.engine)
            .field("open", &self.upstream.is_some())
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

const FOREVER: Duration = Duration::from_secs(1 << 32);
