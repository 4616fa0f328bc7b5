//! Answers that are kept for clients that lose their connection.
//!
//! ```text
//!  upstream ──▶ conversation ──▶ pump (a task of its own) ──▶ store ──▶ follow ──▶ client
//!                                                               └─────▶ follow ──▶ the client again: `routes`
//! ```
//! Only an answer that is to be kept takes this way: it goes on when its client leaves. All others end with their client.

mod blocks;
mod caller;
mod follow;
mod pump;
mod restore;
mod routes;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::Response;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::Instrument;

use super::Proxy;
use super::conversation::CallError;
use super::metrics::{Metrics, Resume};
use super::upstream::Head;
use crate::Limits;
use crate::client::Body;
use crate::limits::KeepLimits;
use crate::provider::Dialect;
#[cfg(feature = "redis")]
use crate::store::Redis;
use crate::store::{AnswerId, Memory, Name, Opening, Position, Store, StoreError};
use caller::{Credential, new_id};
use follow::Follow;
use pump::Pump;
use restore::Stored;
pub(super) use restore::own_headers;
pub(super) use routes::{Asked, Repeat};

/// The answers that a proxy keeps.
pub(super) struct Answers {
    store: Arc<dyn Store>,
    limits: Limits,
    /// How long answers are kept whose request does not say.
    keep: Duration,
    /// The answers that this process writes.
    running: Mutex<HashMap<AnswerId, AbortHandle>>,
    metrics: Option<Arc<Metrics>>,
}

impl Answers {
    /// Returns where answers are kept, if the operator allows that any is. `store`: its address; empty: the process's memory.
    pub(super) async fn open(
        limits: &Limits,
        (keep, store): (Duration, &str),
        metrics: Option<Arc<Metrics>>,
    ) -> io::Result<Option<Arc<Self>>> {
        let mut limits = limits.clone();
        // What the operator asks for is allowed.
        limits.keep.max_keep_time = limits.keep.max_keep_time.max(keep);
        if limits.keep.max_keep_time.is_zero() {
            return Ok(None);
        }
        let store =
            open_store(store, &limits.keep).await.map_err(|error| io::Error::other(format!("the store: {error}")))?;
        Ok(Some(Arc::new(Self { store, limits, keep, running: Mutex::default(), metrics })))
    }

    /// Removes expired answers, for ever.
    pub(super) async fn sweep(self: Arc<Self>) {
        let mut ticks = interval(SWEEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.store.sweep();
        }
    }

    /// Ends all answers that this process writes.
    pub(super) fn stop(&self) {
        for task in self.running().values() {
            task.abort();
        }
    }

    /// Returns what a request asks to be kept, if anything. `asked` is what its headers say; `own`: all of those that are for the
    /// proxy.
    pub(super) fn wanted(
        self: &Arc<Self>,
        asked: Option<Duration>,
        own: &HeaderMap,
        head: &Head,
        body: &Bytes,
    ) -> Option<Keep> {
        let time = asked.unwrap_or(self.keep).min(self.limits.keep.max_keep_time);
        let credential = head.credential();
        (!time.is_zero()).then(|| Keep {
            request: request_name(&credential, head, body),
            stored: if self.store.is_shared() { Stored::new(head, own, body).bytes() } else { Bytes::new() },
            answers: Arc::clone(self),
            time,
            credential,
        })
    }

    /// Counts an attempt to get an answer again.
    fn count(&self, outcome: &'static str) {
        if let Some(metrics) = &self.metrics {
            metrics.resumes.add(&Resume { outcome }, 1);
        }
    }

    /// Returns the rest of an answer as a body.
    fn follow(&self, id: AnswerId, keep: Duration, after: Position) -> Follow {
        Follow::new(Arc::clone(&self.store), id, after, (self.limits.transport.keep_alive_interval, keep))
    }

    /// Writes an answer in a task of its own.
    fn spawn<S>(&self, id: AnswerId, pump: Pump, stream: S)
    where
        S: Stream<Item = Result<Bytes, CallError>> + Send + Unpin + 'static,
    {
        // The lock is held until the task is in the map, so that the task's end finds it there.
        let mut running = self.running();
        let task = tokio::spawn(pump.run(stream).instrument(tracing::Span::current()));
        running.insert(id, task.abort_handle());
    }

    /// A panic elsewhere leaves the map valid, since each change to it is one call.
    fn running(&self) -> MutexGuard<'_, HashMap<AnswerId, AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("keep", &self.keep).finish_non_exhaustive()
    }
}

/// An answer that is to be kept.
#[derive(Clone)]
pub(super) struct Keep {
    answers: Arc<Answers>,
    /// How long it is kept after it was read last.
    time: Duration,
    credential: Credential,
    /// The name that finds the answer when its request is repeated.
    request: Option<Name>,
    /// The request for whoever goes on with the answer.
    stored: Bytes,
}

impl fmt::Debug for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keep").field("time", &self.time).finish_non_exhaustive()
    }
}

impl Keep {
    /// Keeps the answer that `stream` brings, from now on in a task of its own. Returns the body for the client, who is told
    /// in the headers. Where there is no room, the stream itself is the body.
    pub(super) async fn start<S>(self, stream: S, dialect: Dialect, headers: &mut HeaderMap) -> Body
    where
        S: Stream<Item = Result<Bytes, CallError>> + Send + Unpin + 'static,
    {
        let id = match self.open().await {
            Ok(id) => id,
            Err(error) => {
                tracing::warn!(%error, "an answer is not kept");
                set(headers, KEEP, &not_kept(&error));
                return Body::stream(stream);
            }
        };
        set(headers, KEEP, &self.time.as_secs());
        set(headers, STREAM, &id);
        tracing::debug!(keep = self.time.as_secs(), "keeping an answer");
        let follow = self.answers.follow(id, self.time, Position::START);
        let Self { answers, credential, .. } = self;
        let names = (dialect == Dialect::Responses).then_some(credential);
        answers.spawn(id, Pump::new(Arc::clone(&answers), id, Position { epoch: 1, seq: 0 }, names), stream);
        Body::stream(follow)
    }

    async fn open(&self) -> Result<AnswerId, StoreError> {
        let id = new_id().ok_or_else(|| StoreError::Failed("the system has no random bits".to_owned()))?;
        let opening = Opening { caller: self.credential.digest(id), keep: self.time, request: self.stored.clone() };
        self.answers.store.open(id, opening).await?;
        if let Some(name) = self.request {
            self.answers.store.name(id, name).await?;
        }
        Ok(id)
    }
}

/// Opens a store by its address.
async fn open_store(address: &str, limits: &KeepLimits) -> Result<Arc<dyn Store>, StoreError> {
    if address.is_empty() || address == MEMORY {
        return Ok(Arc::new(Memory::new(limits.clone())));
    }
    #[cfg(feature = "redis")]
    {
        let holder = super::upstream::random_name();
        Ok(Arc::new(Redis::connect(address, holder, limits.clone()).await?))
    }
    #[cfg(not(feature = "redis"))]
    Err(StoreError::Failed("this program was built without the feature `redis`".to_owned()))
}

/// Returns the name of an answer by its request.
fn request_name(credential: &Credential, head: &Head, body: &[u8]) -> Option<Name> {
    credential.name(&[b"request", head.path().as_bytes(), body])
}

/// Returns the name of an answer by the id that the Responses API gives it.
fn response_name(credential: &Credential, id: &str) -> Option<Name> {
    credential.name(&[b"response", id.as_bytes()])
}

/// Says why an answer is not kept.
fn not_kept(error: &StoreError) -> String {
    match error {
        StoreError::Full(limit) => format!("0; reason=\"{limit}\""),
        _ => "0; reason=\"store\"".to_owned(),
    }
}

/// Why an answer is not kept although its request asks for that.
#[derive(Clone, Copy)]
pub(super) enum NotKept {
    /// The operator allows none to be kept.
    Off,
    /// The request or its route is not one whose answer is read.
    Unread,
    /// The answer is no stream of events.
    NoEventStream,
}

impl NotKept {
    /// `is_read`: the answer is read, so it is kept if it is a stream of events.
    pub(super) fn of(proxy: &Proxy, is_read: bool) -> Self {
        match (&proxy.shared.kept, is_read) {
            (None, _) => Self::Off,
            (Some(_), false) => Self::Unread,
            (Some(_), true) => Self::NoEventStream,
        }
    }

    /// Tells a client why its answer is not kept, unless the answer is.
    pub(super) fn told(mut response: Response<Body>, why: Option<Self>) -> Response<Body> {
        if let Some(why) = why {
            let reason = match why {
                Self::Off => "0; reason=\"off\"",
                Self::Unread => "0; reason=\"unread\"",
                Self::NoEventStream => "0; reason=\"no_event_stream\"",
            };
            response.headers_mut().entry(KEEP).or_insert(HeaderValue::from_static(reason));
        }
        response
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &impl ToString) {
    if let Ok(value) = HeaderValue::try_from(value.to_string()) {
        headers.insert(name, value);
    }
}

/// Returns the path of a request as the log has it. Whoever knows the id of an answer without a credential can read it.
pub(super) fn logged(path: &str) -> &str {
    if path.starts_with(STREAMS) { STREAMS } else { path }
}

impl Head {
    /// Returns the credential of the request.
    fn credential(&self) -> Credential {
        Credential::of(self.headers(), self.query())
    }
}

/// The address of the store in the process's memory.
const MEMORY: &str = "memory";
/// The paths of kept answers: their id follows.
const STREAMS: &str = "/streams/";
/// For how long an answer is asked to be kept, and is.
pub(super) const KEEP: HeaderName = HeaderName::from_static("x-restitch-keep");
/// The id of an answer that is kept.
pub(super) const STREAM: HeaderName = HeaderName::from_static("x-restitch-stream");
/// How often expired answers are removed.
const SWEEP: Duration = Duration::from_secs(1);
