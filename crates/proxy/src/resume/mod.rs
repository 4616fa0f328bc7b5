//! Answers that are kept for clients that lose their connection.
//!
//! ```text
//!  upstream ──▶ conversation ──▶ pump (a task of its own) ──▶ store ──▶ follow ──▶ client
//!                                                               └─────▶ follow ──▶ the client again: `routes`
//! ```
//! If the store has no room, `live` replaces it for the connected clients.
//!
//! Only kept answers take this path: they continue when their client leaves. Other answers end with
//! their client.

mod caller;
mod durable;
mod follow;
mod live;
mod pump;
mod repeat;
mod restore;
mod routes;
mod unread;

use std::collections::HashMap;
use std::hash::RandomState;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{MissedTickBehavior, interval};

use super::Proxy;
use super::answers::ObservedStream;
use super::exchange::{AccessLine, Exchange};
use super::metrics::{self, Metrics};
use super::upstream::Head;
use crate::route_config::RouteConfig;
#[cfg(feature = "redis")]
use crate::store::Redis;
use crate::store::{
    AnswerId, Health, Memory, Name, Opening, Position, Store, StoreError, WriterLease,
};
use caller::{Credential, name_in_log, new_id};
use follow::Follow;
use live::{LiveTail, Reader};
use pump::{Pump, Writer};
pub(super) use repeat::Repeat;
use restitch::KeepLimits;
use restitch::Limits;
use restitch::provider::Dialect;
use restitch_http::Body;
use restore::Stored;
pub(super) use routes::ReadRequest;

/// The answers that a proxy keeps.
pub(super) struct KeptAnswers {
    store: Arc<dyn Store>,
    /// The longest time that a request can get for its answer.
    max_keep_time: Duration,
    /// How long an answer is kept if neither its request nor its route sets a time.
    keep: Duration,
    /// The answers that this process writes.
    running: Mutex<HashMap<AnswerId, ActiveWriter>>,
    /// The random keys of the callers' hash, so that a client can't construct a credential with
    /// another caller's hash.
    owners: RandomState,
    metrics: Option<Arc<Metrics>>,
}

/// An answer that this process writes.
struct ActiveWriter {
    /// The digest of the answer's caller. The store forgets it some time after it has dropped the
    /// answer.
    caller: [u8; 32],
    live: Arc<LiveTail>,
}

impl KeptAnswers {
    /// Opens the store of kept answers, if the operator allows kept answers. `keep`: the default
    /// time. `store`: the address; empty: the process's memory.
    pub(super) async fn open(
        limits: &Limits,
        (keep, store): (Duration, &str),
        metrics: Option<Arc<Metrics>>,
    ) -> io::Result<Option<Arc<Self>>> {
        // The operator's own time is always allowed.
        let max_keep_time = limits.keep.max_keep_time.max(keep);
        if max_keep_time.is_zero() {
            if !store.is_empty() && store != MEMORY {
                tracing::warn!("no answer is kept in the store: set max_keep_time above 0");
            }
            return Ok(None);
        }
        let kind = kind_of(store);
        if let Some(metrics) = &metrics {
            metrics::begin_kept(metrics, kind);
        }
        let health = Health::new(kind, metrics.clone());
        let store = open_store(store, &limits.keep, health)
            .await
            .map_err(|error| io::Error::other(format!("the store: {error}")))?;
        Ok(Some(Arc::new(Self {
            store,
            max_keep_time,
            keep,
            running: Mutex::default(),
            owners: RandomState::new(),
            metrics,
        })))
    }

    /// Removes expired answers until its task is dropped.
    pub(super) async fn sweep(self: Arc<Self>) {
        let mut ticks = interval(SWEEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_failed = false;
        loop {
            ticks.tick().await;
            let swept = self.store.sweep().await;
            // One line for an outage.
            match &swept {
                Err(error) if !has_failed => {
                    tracing::warn!(%error, "the store of kept answers failed");
                }
                Ok(()) if has_failed => tracing::info!("the store of kept answers works again"),
                _ => {}
            }
            has_failed = swept.is_err();
        }
    }

    /// Ends the answers that this process writes and that have no readers.
    pub(super) fn stop_unread(&self) {
        self.running()
            .values()
            .filter(|running| !running.live.has_readers())
            .for_each(|running| running.live.stop());
    }

    /// Ends all answers that this process writes.
    pub(super) fn stop(&self) {
        self.running()
            .values()
            .for_each(|running| running.live.stop());
    }

    /// Returns how to keep a request's answer. `None`: the answer is not kept. `asked`: the time in
    /// the request's headers; `own`: all its headers for the proxy; `route`: its route.
    pub(super) fn wanted(
        self: &Arc<Self>,
        asked: Option<Duration>,
        (own, route): (&HeaderMap, &RouteConfig),
        head: &Head,
        body: &Bytes,
    ) -> Option<Retention> {
        // The request wins over `[proxy]`, and the limit over both.
        let time = asked.unwrap_or(self.keep).min(self.max_keep_time);
        let credential = head.credential();
        (!time.is_zero()).then(|| Retention {
            request: request_name(&credential, head, body),
            // Without a store that other processes reach, the text of the request is kept nowhere.
            stored: if self.store.is_shared() {
                Stored::new(head, (own, &route.name), body).bytes()
            } else {
                Bytes::new()
            },
            answers: Arc::clone(self),
            time,
            credential,
        })
    }

    /// Counts an attempt to get an answer again.
    fn count(&self, outcome: &'static str) {
        if let Some(metrics) = &self.metrics {
            metrics.kept.resumes.of([outcome]).inc();
        }
    }

    /// Counts an answer that is not kept, or no longer.
    fn count_not_kept(&self, reason: &'static str) {
        if let Some(metrics) = &self.metrics {
            metrics.kept.not_kept.of([reason]).inc();
        }
    }

    /// Returns the rest of an answer as a body. `reader`: `None` if another process writes the
    /// answer, or no process does.
    fn follow(
        &self,
        (id, keep): (AnswerId, Duration),
        after: Position,
        reader: Option<Arc<Reader>>,
        limits: &Limits,
    ) -> Follow {
        let silence = limits.transport.keep_alive_interval;
        Follow::new(Arc::clone(&self.store), (id, keep), after, silence).with_reader(reader)
    }

    /// Registers a client as a reader of an answer that this process writes. `None`: this process
    /// does not write it, or lacks some of the client's missing events.
    fn reader(&self, id: AnswerId, after: Position) -> Option<Arc<Reader>> {
        let running = self.running();
        let live = running
            .get(&id)
            .map(|running| &running.live)
            .filter(|live| live.reaches(after));
        live.map(|live| live.reader(after))
    }

    fn running(&self) -> MutexGuard<'_, HashMap<AnswerId, ActiveWriter>> {
        self.running.lock()
    }
}

/// The settings of an answer that will be kept.
#[derive(Clone)]
pub(super) struct Retention {
    answers: Arc<KeptAnswers>,
    /// How long it is kept after its last read.
    time: Duration,
    credential: Credential,
    /// The name that finds the answer when its request is repeated.
    request: Option<Name>,
    /// The request, for a takeover.
    stored: Bytes,
}

impl Retention {
    /// Returns whether another process may resume the answer.
    pub(super) fn outlives_process(&self) -> bool {
        self.answers.store.is_shared()
    }

    /// Keeps the answer of `stream`, and writes it in a task of its own. Returns the client's body,
    /// and sets the headers that report the result. If the store has no room, the stream itself is
    /// the body.
    pub(super) async fn start(
        self,
        stream: ObservedStream,
        dialect: Dialect,
        headers: &mut HeaderMap,
        (limits, exchange): (&Limits, &Arc<Exchange>),
    ) -> Body {
        let (id, writing) = match self.open().await {
            Ok(opened) => opened,
            Err(error) => {
                tracing::warn!(%error, "an answer is not kept");
                let reason = match error {
                    StoreError::Full(limit) => limit,
                    _ => STORE,
                };
                self.answers.count_not_kept(reason);
                set(headers, KEEP, &not_kept(reason));
                return Body::stream(stream);
            }
        };
        set(headers, KEEP, &self.time.as_secs());
        set(headers, STREAM, &id);
        name_in_log(id, exchange.span());
        tracing::debug!(keep = self.time.as_secs(), "keeping an answer");
        let live = Arc::new(LiveTail::after(1, Position::START));
        let reader = live.reader(Position::START);
        let follow = self
            .answers
            .follow((id, self.time), Position::START, Some(reader), limits);
        let follow = follow.plain(dialect == Dialect::Gemini);
        let Self {
            answers,
            credential,
            ..
        } = self;
        let caller = credential.digest(id);
        // The Responses API alone gives its answers an id by which clients look them up.
        let names = (dialect == Dialect::Responses).then_some(credential);
        let writer = Writer {
            answers: Arc::clone(&answers),
            id,
            caller,
            _writing: writing,
            live,
        };
        let line = AccessLine::kept(Arc::clone(exchange));
        let mut pump = Pump::new(writer, line, limits);
        pump.names = names;
        pump.spawn(stream.kept(limits));
        Body::stream(follow.stream())
    }

    async fn open(&self) -> Result<(AnswerId, WriterLease), StoreError> {
        let id = new_id()
            .ok_or_else(|| StoreError::Failed("the system has no random bits".to_owned()))?;
        let opening = Opening {
            caller: self.credential.digest(id),
            keep: self.time,
            request: self.stored.clone(),
            owner: self.credential.owner(&self.answers.owners),
        };
        let writing = self.answers.store.open(id, opening).await?;
        if let Some(name) = self.request {
            self.answers.store.name(id, name).await?;
        }
        Ok((id, writing))
    }
}

/// Opens a store by its address.
async fn open_store(
    address: &str,
    limits: &KeepLimits,
    health: Health,
) -> Result<Arc<dyn Store>, StoreError> {
    if address.is_empty() || address == MEMORY {
        return Ok(Arc::new(Memory::new(limits.clone())));
    }
    if let Some(folder) = address.strip_prefix(FILES) {
        let folder = folder.strip_prefix("//").unwrap_or(folder);
        return Ok(Arc::new(Memory::in_folder(
            Path::new(folder),
            limits.clone(),
            health,
        )?));
    }
    #[cfg(feature = "redis")]
    {
        let holder = super::upstream::random_name();
        let store = Redis::new(address, holder, limits.clone(), health)?;
        if let Err(error) = store.reach().await {
            tracing::warn!(%error, "the store can't be reached: no answer is kept until it can");
        }
        Ok(Arc::new(store))
    }
    #[cfg(not(feature = "redis"))]
    Err(StoreError::Failed(
        "this program was built without the feature `redis`".to_owned(),
    ))
}

/// Returns the name of an answer by its request.
fn request_name(credential: &Credential, head: &Head, body: &[u8]) -> Option<Name> {
    credential.name(&[b"request", head.path().as_bytes(), body])
}

/// Returns the name of an answer by the id that the Responses API gives it.
fn response_name(credential: &Credential, id: &str) -> Option<Name> {
    credential.name(&[b"response", id.as_bytes()])
}

/// Returns the header value that reports why an answer is not kept.
fn not_kept(reason: &str) -> String {
    format!("0; reason=\"{reason}\"")
}

/// The reason why an answer is not kept although its request asks for that.
pub(super) struct NotKept {
    reason: &'static str,
    metrics: Option<Arc<Metrics>>,
}

impl NotKept {
    /// `is_read`: the proxy reads the answer, so it is kept if it is an event stream.
    pub(super) fn of(proxy: &Proxy, is_read: bool) -> Self {
        let reason = match (&proxy.shared.kept, is_read) {
            (None, _) => "off",
            (Some(_), false) => "unread",
            (Some(_), true) => "no_event_stream",
        };
        let metrics = proxy.shared.metrics.clone();
        Self { reason, metrics }
    }

    /// Adds the header that reports why the answer is not kept, unless it is.
    pub(super) fn told(mut response: Response<Body>, why: Option<Self>) -> Response<Body> {
        if let Some(Self { reason, metrics }) = why
            && !response.headers().contains_key(KEEP)
        {
            set(response.headers_mut(), KEEP, &not_kept(reason));
            if let Some(metrics) = metrics {
                metrics.kept.not_kept.of([reason]).inc();
            }
        }
        response
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &impl ToString) {
    if let Ok(value) = HeaderValue::try_from(value.to_string()) {
        headers.insert(name, value);
    }
}

impl Head {
    /// Returns the credential of the request.
    fn credential(&self) -> Credential {
        Credential::of(self.headers(), self.query(), self.token())
    }
}

/// Returns the type of the store at an address.
fn kind_of(address: &str) -> &'static str {
    match address {
        "" | MEMORY => MEMORY,
        folder if folder.starts_with(FILES) => "file",
        _ => "redis",
    }
}

/// The reason for an answer that is not kept because its store has failed.
const STORE: &str = "store";
/// The address of the store in the process's memory.
const MEMORY: &str = "memory";
/// The prefix of a file store's address, before the folder.
const FILES: &str = "file:";
/// The path prefix of kept answers, before the id.
pub(super) const STREAMS: &str = "/streams/";
/// The header with the requested time, and in a response the granted time.
pub(super) const KEEP: HeaderName = HeaderName::from_static("x-restitch-keep");
/// The header that reports whether an answer is running, whole or broken.
const STATE: HeaderName = HeaderName::from_static("x-restitch-state");
/// The header with the id of a kept answer.
pub(super) const STREAM: HeaderName = HeaderName::from_static("x-restitch-stream");
/// The interval at which expired answers are removed, and answers with readers renewed. It is
/// shorter than the shortest time that a request can get, a second.
const SWEEP: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::{Context, Poll};
    use std::thread;

    use futures_core::Stream;
    use http::Request;
    use tokio::runtime;

    use super::*;
    use crate::answers::ClientChunk;
    use crate::conversation::CallError;
    use crate::shared::Shared;
    use crate::store::Owner;

    /// A stream that never yields an item.
    struct Silence;

    impl Stream for Silence {
        type Item = Result<ClientChunk, CallError>;

        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Pending
        }
    }

    /// A runtime that has ended drops spawned tasks immediately.
    #[test]
    fn an_answer_that_begins_when_its_runtime_has_ended_is_stopped() {
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let runtime = runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let store: Arc<dyn Store> = Arc::new(Memory::new(KeepLimits::default()));
            let (max_keep_time, keep, id) =
                (Duration::from_secs(60), Duration::ZERO, AnswerId([1; 16]));
            let owner = Owner::default();
            let opening = Opening {
                caller: [1; 32],
                keep: max_keep_time,
                request: Bytes::new(),
                owner,
            };
            let writing = runtime.block_on(store.open(id, opening)).unwrap();
            let handle = runtime.handle().clone();
            drop(runtime);
            let _entered = handle.enter();
            let (running, owners) = (Mutex::default(), RandomState::new());
            let answers = Arc::new(KeptAnswers {
                store,
                max_keep_time,
                keep,
                running,
                owners,
                metrics: None,
            });
            let writer = Writer {
                answers: Arc::clone(&answers),
                id,
                caller: [1; 32],
                _writing: writing,
                live: Arc::new(LiveTail::after(1, Position::START)),
            };
            let limits = Limits::default();
            let shared = Shared::new(&limits);
            let exchange = Arc::new(Exchange::begin(&Request::new(()), &shared, None));
            let pump = Pump::new(writer, AccessLine::kept(exchange), &limits);
            pump.spawn(Silence);
            done.send(answers.running().len()).unwrap();
        });
        assert_eq!(is_done.recv_timeout(HANGS), Ok(0));
    }

    /// Longer than any step of this test takes.
    const HANGS: Duration = Duration::from_secs(30);
}
