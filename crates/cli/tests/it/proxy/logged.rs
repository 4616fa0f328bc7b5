//! A log for the tests that read it, and a watch over all other logs: a credential, a prompt or an
//! answer in a log ends the run.

use std::fmt::{Debug, Write as _};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once};

use restitch_testing::says::Says;
use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, set_default, set_global_default};
use tracing::{Dispatch, Event, Metadata, Subscriber, span};

/// Everything that is logged.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<String>>);

impl Log {
    /// Returns the lines up to now.
    pub(super) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    pub(super) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// Collects the events of this thread in a new log, until the caller drops the returned guard.
///
/// While a process has one dispatcher alone, `tracing` asks the thread that comes first to a place
/// whether its events count, for all threads. So there is always a second one.
pub(super) fn listening() -> (Log, DefaultGuard) {
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Listener(|_: &str| {})));
    LazyLock::force(&SECOND);
    let log = Log::default();
    let told = log.clone();
    let guard = set_default(Listener(move |fields: &str| {
        told.0.lock().unwrap().push_str(fields);
    }));
    (log, guard)
}

/// Parts of the credentials, prompts and answers that the tests send.
const CANARIES: [&str; 9] = [
    "Bearer ",
    "sk-test",
    "sk-1",
    "sk-secret",
    "secret-",
    "canary-",
    "key-of-K",
    "A document, please",
    "stormy",
];

/// The events and spans that were searched.
static SEARCHED: AtomicUsize = AtomicUsize::new(0);

/// Begins to watch, once for all tests.
pub(super) fn watch_the_log() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        set_global_default(Listener(search)).expect("no other default for all threads");
    });
}

/// Returns the canary that a log contains.
fn found(logged: &str) -> Option<&'static str> {
    CANARIES.into_iter().find(|canary| logged.contains(canary))
}

/// Searches logged text.
fn search(fields: &str) {
    SEARCHED.fetch_add(1, Ordering::Relaxed);
    if let Some(canary) = found(fields) {
        // A panic would end a task of the proxy, and perhaps no test. Captured output would be lost
        // here.
        let _ = writeln!(io::stderr(), "`{canary}` was logged: {fields}");
        std::process::abort();
    }
}

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

/// Gives the fields of each event and span to a function.
struct Listener<F>(F);

impl<F: Fn(&str)> Listener<F> {
    fn tell(&self, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields::default();
        record(&mut fields);
        (self.0)(&fields.0);
    }
}

impl<F: Fn(&str) + 'static> Subscriber for Listener<F> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.tell(|fields| span.record(fields));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        self.tell(|fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        self.tell(|fields| event.record(fields));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn the_log_of_all_tests_is_searched() {
    let before = SEARCHED.load(Ordering::Relaxed);
    let setup = super::Setup::new("answer@60 | anchor").await;
    let answer = setup.stream().await;
    answer.text().has("stormy");
    assert!(SEARCHED.load(Ordering::Relaxed) > before + 2);
    assert_eq!(found("token=\"Bearer sk-test\""), Some("Bearer "));
    assert_eq!(found("a call failed cause=reset"), None);
}
