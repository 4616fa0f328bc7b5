//! The loop that both adapters share: it owns the open call and the timer, and polls them.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::provider::Dialect;
use crate::provider::capability::Capability;
use crate::session::relay::{Output, TransportEnd};
use crate::session::{CallEnd, Outcome, Request, Retry, Session};

/// An engine without I/O, as an adapter drives it. `now` counts from the adapter's creation.
pub(super) trait Engine {
    /// A piece of a call's answer.
    type Chunk;
    /// A piece of the stream that the reader gets.
    type Item;
    /// Whether a stream may make its call when it is polled, as those of several SDKs do: then an
    /// error of a further call before its first chunk is a rejection.
    const IS_LAZY: bool;

    fn session(&self) -> &Session;
    /// Prepares for the answer of a call that is under way. Returns whether more is to be done. By
    /// default nothing is: a lazy stream is open before its call is made.
    fn prepare(&mut self) -> bool {
        false
    }
    /// Takes note that a call has answered. For the first call the driver calls this before it
    /// polls the first chunk.
    fn opened(&mut self, now: Duration);
    fn chunk(&mut self, now: Duration, chunk: Self::Chunk);
    fn transport_end(&mut self, now: Duration, transport_end: TransportEnd);
    fn rejected(&mut self, now: Duration, end: CallEnd);
    /// Returns when `timeout` is due.
    fn due(&self) -> Option<Duration>;
    fn timeout(&mut self, now: Duration);
    fn step(&mut self) -> Option<Step<Self::Item>>;
}

/// An output of an engine: an item for the reader, or something that the adapter acts on.
pub(super) enum Step<T> {
    Item(T),
    Other(Box<Output>),
}

/// A call's answer.
pub(super) type Upstream<'a, C, E> = Pin<Box<dyn Stream<Item = Result<C, E>> + Send + 'a>>;

/// A call that has not been answered yet.
pub(super) type Opening<'a, C, E> =
    Pin<Box<dyn Future<Output = Result<Upstream<'a, C, E>, E>> + Send + 'a>>;

/// Makes a further call.
pub(super) type Reopen<'a, C, E> = Box<dyn FnMut(Retry) -> Opening<'a, C, E> + Send + 'a>;

/// Is called with every output.
pub(super) type Observer<'a> = Box<dyn FnMut(&Output) + Send + 'a>;

/// Classifies an error of a further call.
pub(super) type Rejection<'a, E> = Box<dyn Fn(&E) -> CallEnd + Send + 'a>;

/// Drives an engine.
pub(super) struct Driver<'a, G: Engine, E> {
    pub(super) engine: G,
    maker: CallMaker<'a, G::Chunk, E>,
    call: DriverCall<'a, G::Chunk, E>,
    pub(super) rejection: Option<Rejection<'a, E>>,
    pub(super) observer: Option<Observer<'a>>,
    errors: CallErrors<E>,
    pub(super) outcome: Option<Outcome>,
    /// The engine has given the answer up, so later text is not the model's.
    pub(super) has_given_up: bool,
    /// The adapter makes no further call.
    is_stopped: bool,
    clock: Clock,
}

/// Makes further calls.
struct CallMaker<'a, C, E> {
    capability: Arc<Capability>,
    dialect: Dialect,
    reopen: Reopen<'a, C, E>,
    /// Whether the call that was made last has a prefill.
    has_special_form: bool,
}

/// The errors of calls, for the reader.
struct CallErrors<E> {
    /// The error with which the last call ended: the reader gets it if the answer ends there.
    last: Option<E>,
    /// The error of a lost first call: the reader gets it if the answer is given up without a later
    /// error.
    first: Option<E>,
    /// Whether the last requested call asks for the rest.
    asks_for_rest: bool,
}

struct Clock {
    /// When the adapter was created.
    origin: Instant,
    /// Whether the driver has reported the first call to the engine.
    started: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

/// The call that is due or open.
enum DriverCall<'a, C, E> {
    /// No call is due or open.
    None,
    /// The call has to be made at this time.
    Due(Box<Request>, Duration),
    /// It was made, and has not been answered.
    Opening(Opening<'a, C, E>),
    /// It was answered.
    Open {
        upstream: Upstream<'a, C, E>,
        /// Whether an error is a rejection: the stream may make its call when it is polled, and has
        /// no item yet.
        is_fresh: bool,
    },
}

// Streams and futures are pinned in boxes of their own.
impl<G: Engine, E> Unpin for Driver<'_, G, E> {}

impl<'a, G: Engine, E> Driver<'a, G, E> {
    /// `first` is the answer of the first call. Without it the engine's outputs begin with a call.
    pub(super) fn new(
        engine: G,
        (capability, dialect): (Arc<Capability>, Dialect),
        first: Option<Upstream<'a, G::Chunk, E>>,
        reopen: Reopen<'a, G::Chunk, E>,
    ) -> Self {
        let started = first.is_none();
        let open = |upstream| DriverCall::Open {
            upstream,
            is_fresh: false,
        };
        Self {
            engine,
            maker: CallMaker {
                capability,
                dialect,
                reopen,
                has_special_form: false,
            },
            call: first.map_or(DriverCall::None, open),
            rejection: None,
            observer: None,
            errors: CallErrors {
                last: None,
                first: None,
                asks_for_rest: false,
            },
            outcome: None,
            has_given_up: false,
            is_stopped: false,
            clock: Clock {
                origin: Instant::now(),
                started,
                timer: None,
            },
        }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<G::Item, E>>> {
        if !mem::replace(&mut self.clock.started, true) {
            self.engine.opened(self.clock.now());
        }
        let mut began = None;
        loop {
            if let Some(item) = self.drain() {
                return Poll::Ready(Some(item));
            }
            if self.outcome.is_some() {
                return Poll::Ready(None);
            }
            let now = self.clock.now();
            if now.saturating_sub(*began.get_or_insert(now)) >= SLICE {
                // Lets other tasks of the thread run.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(request) = self.take_due(now) {
                if self.is_stopped {
                    self.engine.rejected(now, CallEnd::Stopped);
                    continue;
                }
                self.call = DriverCall::Opening(self.maker.make(request));
            }
            if self.poll_call(cx, now) || self.poll_timer(cx, now) {
                continue;
            }
            return Poll::Pending;
        }
    }

    /// Ends the open call as a lost connection, and makes no further one. The answer ends with the
    /// next polls.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
        let now = self.clock.now();
        match mem::replace(&mut self.call, DriverCall::None) {
            // It was made, and counts.
            DriverCall::Opening(_) => {
                let reason = "the answer was stopped".to_owned();
                self.engine.rejected(
                    now,
                    CallEnd::Rejected {
                        reason,
                        transient: false,
                        retry_after: None,
                    },
                );
            }
            DriverCall::Open { .. } => self.engine.transport_end(now, TransportEnd::Dropped),
            // A call that is due ends when it is taken.
            call => self.call = call,
        }
    }

    /// Returns the request of the next call if it is time to make it, or to give it up.
    fn take_due(&mut self, now: Duration) -> Option<Request> {
        match mem::replace(&mut self.call, DriverCall::None) {
            DriverCall::Due(request, at) if self.is_stopped || at <= now => Some(*request),
            call => {
                self.call = call;
                None
            }
        }
    }

    /// Acts on the engine's outputs, and returns the first one that is for the reader.
    fn drain(&mut self) -> Option<Result<G::Item, E>> {
        while let Some(step) = self.engine.step() {
            let output = match step {
                Step::Item(item) => return Some(Ok(item)),
                Step::Other(output) => *output,
            };
            if let Some(observer) = &mut self.observer {
                observer(&output);
            }
            match output {
                Output::Event(event) => self.has_given_up |= event.is_give_up(),
                Output::Call { request, at } => {
                    self.errors.replace(request.turn.is_some());
                    self.call = DriverCall::Due(Box::new(request), at);
                }
                Output::Done {
                    outcome,
                    transport_end,
                    ..
                } => {
                    self.call = DriverCall::None;
                    self.outcome = Some(outcome);
                    let error = self.errors.take();
                    if let Some(error) = error.filter(|_| transport_end == TransportEnd::Dropped) {
                        return Some(Err(error));
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Polls the open call, or the one that is being opened. Returns whether it was ready.
    fn poll_call(&mut self, cx: &mut Context<'_>, now: Duration) -> bool {
        let (upstream, is_fresh) = match &mut self.call {
            DriverCall::None | DriverCall::Due(..) => return false,
            DriverCall::Opening(opening) => {
                let Poll::Ready(result) = opening.as_mut().poll(cx) else {
                    // In small steps, since other streams may share the thread. The runtime checks
                    // its sockets before the next step: a call whose socket is ready comes first.
                    if self.engine.prepare() {
                        let _ = pin!(yield_now()).poll(cx);
                    }
                    return false;
                };
                self.opened(now, result);
                return true;
            }
            DriverCall::Open { upstream, is_fresh } => (upstream, is_fresh),
        };
        let Poll::Ready(chunk) = upstream.as_mut().poll_next(cx) else {
            return false;
        };
        let was_fresh = mem::replace(is_fresh, false);
        if let Some(Ok(chunk)) = chunk {
            self.engine.chunk(now, chunk);
            return true;
        }
        self.call = DriverCall::None;
        match chunk {
            Some(Err(error)) if was_fresh => self.rejected(now, error),
            Some(Err(error)) => {
                self.errors.last = Some(error);
                self.engine.transport_end(now, TransportEnd::Dropped);
            }
            _ => self.engine.transport_end(now, TransportEnd::Closed),
        }
        true
    }

    /// Takes the answer to the call that was made.
    fn opened(&mut self, now: Duration, result: Result<Upstream<'a, G::Chunk, E>, E>) {
        match result {
            Ok(upstream) => {
                self.call = DriverCall::Open {
                    upstream,
                    is_fresh: G::IS_LAZY,
                };
                self.engine.opened(now);
            }
            Err(error) => {
                self.call = DriverCall::None;
                self.rejected(now, error);
            }
        }
    }

    /// Ends a further call that was not answered.
    fn rejected(&mut self, now: Duration, error: E) {
        let reason = || "the call failed".to_owned();
        let end = match &self.rejection {
            Some(rejection) => rejection(&error),
            // The cause of the failure is unknown, so the next call has another form: in the end
            // words, which every provider understands.
            None if self.maker.has_special_form => CallEnd::FormRejected(reason()),
            None => CallEnd::Rejected {
                reason: reason(),
                transient: true,
                retry_after: None,
            },
        };
        self.errors.last = Some(error);
        self.engine.rejected(now, end);
    }

    /// Polls the timer. Returns whether a call or the engine's timeout was due.
    fn poll_timer(&mut self, cx: &mut Context<'_>, now: Duration) -> bool {
        let due = self.engine.due();
        let call = if let DriverCall::Due(_, at) = self.call {
            Some(at)
        } else {
            None
        };
        let Some(next) = due.into_iter().chain(call).min() else {
            return false;
        };
        if next <= now {
            if due.is_some_and(|due| due <= now) {
                self.engine.timeout(now);
            }
            return true;
        }
        self.clock.poll_until(cx, next)
    }
}

impl<'a, C, E> CallMaker<'a, C, E> {
    fn make(&mut self, request: Request) -> Opening<'a, C, E> {
        let retry = Retry::new(request, Arc::clone(&self.capability)).with_dialect(self.dialect);
        self.has_special_form = retry.is_prefill() || retry.is_forced();
        (self.reopen)(retry)
    }
}

impl<E> CallErrors<E> {
    /// Notes that a further call replaces the failed one and its error. The error of a first call
    /// that delivered text stays, because an answer that is given up ends like its first cut.
    fn replace(&mut self, asks_for_rest: bool) {
        let error = self.last.take();
        if !mem::replace(&mut self.asks_for_rest, asks_for_rest) {
            self.first = error.filter(|_| asks_for_rest);
        }
    }

    fn take(&mut self) -> Option<E> {
        self.last.take().or(self.first.take())
    }
}

impl Clock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Polls the timer. Returns whether the time has come.
    fn poll_until(&mut self, cx: &mut Context<'_>, next: Duration) -> bool {
        // An `Instant` cannot represent an unlimited timeout, so it becomes one of centuries.
        let next = self
            .origin
            .checked_add(next)
            .unwrap_or_else(|| self.origin + FOREVER);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(next)));
        // Every chunk moves the deadline, and most deadlines never pass. Resetting the timer each
        // time costs more than letting it expire early once: it is reset when it has expired, or
        // when it would expire too late.
        if timer.deadline() > next || timer.is_elapsed() {
            timer.as_mut().reset(next);
        }
        timer.as_mut().poll(cx).is_ready()
    }
}

impl<G: Engine + fmt::Debug, E> fmt::Debug for Driver<'_, G, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("engine", &self.engine)
            .field("open", &matches!(self.call, DriverCall::Open { .. }))
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// The time limit of a poll. Chunks usually take far less, but a repair on the level `guess` may
/// take milliseconds per chunk without any output.
const SLICE: Duration = Duration::from_millis(5);

/// The timeout that replaces an unlimited one: 136 years, which an `Instant` can represent.
const FOREVER: Duration = Duration::from_secs(1 << 32);
