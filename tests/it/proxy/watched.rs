//! Watches the log of all tests of the proxy, at every level, those excepted that listen to their own: a credential, a prompt
//! or an answer in it ends the run.

use std::fmt::{Debug, Write as _};
use std::io::{self, Write as _};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// Parts of the credentials, prompts and answers that the tests send.
const CANARIES: [&str; 9] =
    ["Bearer ", "sk-test", "sk-1", "sk-secret", "secret-", "canary-", "key-of-K", "A document, please", "stormy"];

/// The events and spans that were searched.
static SEARCHED: AtomicUsize = AtomicUsize::new(0);

/// Begins to watch, once for all tests.
pub(super) fn watch_the_log() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| tracing::subscriber::set_global_default(Watch).expect("no other default for all threads"));
}

/// Returns the canary that is in what is logged.
fn found(logged: &str) -> Option<&'static str> {
    CANARIES.into_iter().find(|canary| logged.contains(canary))
}

#[derive(Default)]
struct Logged(String);

impl Visit for Logged {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

struct Watch;

impl Watch {
    fn search(record: impl FnOnce(&mut Logged)) {
        let mut logged = Logged::default();
        record(&mut logged);
        SEARCHED.fetch_add(1, Ordering::Relaxed);
        if let Some(canary) = found(&logged.0) {
            // A panic would end a task of the proxy, and perhaps no test.
            // Standard error is not captured, and what is captured is lost here.
            let _ = writeln!(io::stderr(), "`{canary}` was logged: {}", logged.0);
            std::process::abort();
        }
    }
}

impl Subscriber for Watch {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        Self::search(|logged| span.record(logged));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        Self::search(|logged| values.record(logged));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        Self::search(|logged| event.record(logged));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn the_log_of_all_tests_is_searched() {
    let before = SEARCHED.load(Ordering::Relaxed);
    let setup = super::Setup::new("answer@60 | anchor").await;
    let answer = setup.stream().await;
    assert!(answer.text().contains("stormy"));
    assert!(SEARCHED.load(Ordering::Relaxed) > before + 2);
    assert_eq!(found("token=\"Bearer sk-test\""), Some("Bearer "));
    assert_eq!(found("a call failed cause=reset"), None);
}
