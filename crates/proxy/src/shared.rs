//! The state that all routes and all threads of a proxy share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::StatusCode;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::answers::{AnswerList, Stop};
use super::breaker::Breaker;
use super::kept::StopNotes;
use super::metrics::Metrics;
use super::otlp::Otlp;
use super::resume;
use super::{Observer, Tap, conversation};
use restitch::Limits;
use restitch::internal::capability::CapabilityCache;
use restitch::internal::capability::CapabilityHint;
use restitch::provider::capability::Capability;

/// The state that all routes and all threads of a proxy share. Clones share it, too.
#[derive(Clone)]
pub(super) struct Shared {
    history: CallHistory,
    pub(super) observer: Option<Observer>,
    pub(super) tap: Option<Arc<dyn Tap>>,
    /// The room for the bytes of all unfinished request bodies.
    pub(super) unfinished: Arc<Semaphore>,
    /// Set if the admin listener shows metrics.
    pub(super) metrics: Option<Arc<Metrics>>,
    /// Set if the admin listener has a page of the answers.
    pub(super) answers: Option<Arc<AnswerList>>,
    /// The collector of spans.
    pub(super) otlp: Option<Otlp>,
    /// Set once the proxy begins to stop.
    pub(super) stopping: Arc<AtomicBool>,
    /// The signal that the time to drain is over.
    pub(super) cut: Arc<Stop>,
    /// The kept answers. Set when the proxy starts to listen, if the limits allow kept answers.
    pub(super) kept: Option<Arc<resume::KeptAnswers>>,
}

/// What earlier calls have shown about models and upstreams.
#[derive(Clone)]
struct CallHistory {
    /// The capability hints from refusals, by upstream and model.
    cache: Arc<Mutex<CapabilityCache>>,
    /// The ends of recent calls, by upstream and model.
    breaker: Arc<Mutex<Breaker>>,
    /// The software of upstreams that the capability table names, by upstream.
    servers: Arc<RwLock<BTreeMap<String, Arc<str>>>>,
    /// Which upstreams stop kept streams.
    stops: Arc<RwLock<StopNotes>>,
    /// Moment zero for the times in the cache and the breaker.
    origin: Instant,
}

impl CallHistory {
    fn new(limits: &Limits) -> Self {
        let max_age = limits.continuation.max_hint_age;
        Self {
            cache: Arc::new(Mutex::new(CapabilityCache::new(max_age))),
            breaker: Arc::new(Mutex::new(Breaker::new(&limits.continuation))),
            servers: Arc::default(),
            stops: Arc::default(),
            origin: Instant::now(),
        }
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

impl Shared {
    pub(super) fn new(limits: &Limits) -> Self {
        let unfinished = limits.server.max_unfinished_bytes;
        Self {
            history: CallHistory::new(limits),
            observer: None,
            tap: None,
            unfinished: Arc::new(Semaphore::new(unfinished.min(Semaphore::MAX_PERMITS))),
            metrics: None,
            answers: None,
            stopping: Arc::default(),
            cut: Arc::default(),
            kept: None,
            otlp: None,
        }
    }

    /// Corrects the table's entry for a model at an upstream by recorded refusals.
    pub(super) fn correct(
        &self,
        upstream: &str,
        model: &str,
        capability: Capability,
    ) -> Capability {
        let cache = self.history.cache.lock();
        // Most proxies never record a hint.
        if cache.recorded() == 0 {
            return capability;
        }
        cache.correct(&key(upstream, model), capability, self.history.now())
    }

    /// Returns the software of an upstream, if the capability table names it.
    pub(super) fn server(&self, upstream: &str) -> Option<Arc<str>> {
        self.history.servers.read().get(upstream).cloned()
    }

    /// Notes the software of an upstream. `None`: the capability table does not name it. The
    /// upstreams are the operator's, so the notes are bounded.
    pub(super) fn note_server(&self, upstream: &str, server: Option<&str>) {
        if self.server(upstream).as_deref() == server {
            return;
        }
        let mut servers = self.history.servers.write();
        match server {
            Some(server) => {
                tracing::info!(upstream, server, "recognised the software of an upstream");
                servers.insert(upstream.to_owned(), server.into());
            }
            None => drop(servers.remove(upstream)),
        }
    }

    /// Returns whether an upstream stops kept streams. `None`: it has to be asked.
    pub(super) fn stops_streams(&self, upstream: &str) -> Option<bool> {
        let notes = self.history.stops.read();
        notes.of(upstream, self.history.now())
    }

    /// Notes whether an upstream stops kept streams.
    pub(super) fn note_stops_streams(&self, upstream: &str, stops: bool) {
        if stops && self.stops_streams(upstream) == Some(true) {
            return;
        }
        let mut notes = self.history.stops.write();
        notes.note(upstream, stops, self.history.now());
    }

    /// Records a capability hint from a refusal of a model at an upstream.
    pub(super) fn record(&self, upstream: &str, model: &str, hint: CapabilityHint) {
        let mut cache = self.history.cache.lock();
        if cache.record(&key(upstream, model), hint, self.history.now()) {
            let recorded = cache.recorded();
            drop(cache);
            let (hint, member) = hint.name();
            tracing::info!(
                upstream,
                model,
                hint,
                member,
                recorded,
                "recorded what an answer says about a model"
            );
        }
    }

    /// Counts a finished call of a model at an upstream by its status, or as failed if it has none.
    pub(super) fn count(&self, upstream: &str, model: &str, status: Option<StatusCode>) {
        // Other refusals are about the request and say nothing about the upstream's load.
        let failed = status.is_none_or(conversation::is_transient);
        let now = self.history.now();
        let changed = self
            .history
            .breaker
            .lock()
            .count(&key(upstream, model), now, failed);
        match changed {
            Some((true, calls)) => {
                let (calls, failed) = (calls.made, calls.failed);
                tracing::warn!(
                    upstream,
                    model,
                    calls,
                    failed,
                    "most calls fail: continuations are asked for once a second"
                );
            }
            Some((false, _)) => {
                tracing::info!(upstream, model, "continuations are asked for again");
            }
            None => {}
        }
    }

    /// Returns whether the proxy may call a model at an upstream for a continuation now.
    pub(super) fn admits(&self, upstream: &str, model: &str) -> bool {
        let now = self.history.now();
        self.history
            .breaker
            .lock()
            .admits(&key(upstream, model), now)
    }

    /// Returns whether most calls of a model at an upstream fail now.
    pub(super) fn is_failing(&self, upstream: &str) -> bool {
        let (now, prefix) = (self.history.now(), key(upstream, ""));
        let breaker = self.history.breaker.lock();
        breaker.is_open(now, |key| key.starts_with(&prefix))
    }
}

/// Returns the key of a model at an upstream: two upstreams, also at two ports of one host, may
/// have different models of one name. A host has no space, so keys can't collide.
fn key(upstream: &str, model: &str) -> String {
    [upstream, " ", model].concat()
}
