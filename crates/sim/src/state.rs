//! The state of the server: the progress of each conversation, and the last calls. Both are
//! bounded.
//!
//! Knows neither sockets nor the text of an answer.

use std::collections::VecDeque;

use bytes::Bytes;

use super::call::Call;
use super::script::{Script, Step};

/// All state that changes while the server runs.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The number of answers.
    pub(super) answers: u64,
    pub(super) conversations: Conversations,
    pub(super) log: Log,
    /// The kept streams with their names, oldest first.
    pub(super) kept: VecDeque<(String, Bytes)>,
}

impl State {
    /// Keeps a stream.
    pub(super) fn keep(&mut self, name: String, stream: Bytes) {
        self.kept.push_back((name, stream));
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }
}

/// The progress of each conversation in its script, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Conversations(VecDeque<(u64, DocumentProgress)>);

#[derive(Clone, Copy, Debug, Default)]
struct DocumentProgress {
    first: usize,
    then: usize,
}

impl Conversations {
    /// Returns the step for a conversation's next first call or continuation.
    pub(super) fn next(&mut self, key: u64, continuation: bool, script: &Script) -> Step {
        // Most requests are of a late one.
        let known = self.0.iter().rposition(|(own, _)| *own == key);
        let (_, mut progress) = known.map_or((key, DocumentProgress::default()), |at| self.0[at]);
        let step = if continuation {
            let steps = script.then();
            let at = progress.then.min(steps.len() - 1);
            progress.then = at + 1;
            steps[at]
        } else {
            let steps = script.first();
            let at = progress.first % steps.len();
            progress = DocumentProgress {
                first: at + 1,
                then: 0,
            };
            steps[at]
        };
        match known {
            Some(at) => self.0[at].1 = progress,
            None => self.0.push_back((key, progress)),
        }
        if self.0.len() > CONVERSATIONS {
            self.0.pop_front();
        }
        step
    }
}

/// The last calls.
#[derive(Debug, Default)]
pub(super) struct Log {
    calls: VecDeque<Call>,
    /// The sum of the lengths of their bodies.
    bytes: usize,
}

impl Log {
    /// Returns the calls, oldest first.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter()
    }

    pub(super) fn push(&mut self, call: Call) {
        self.bytes += call.body.len();
        self.calls.push_back(call);
        while self.calls.len() > CALLS || (self.bytes > CALL_BYTES && self.calls.len() > 1) {
            let Some(oldest) = self.calls.pop_front() else {
                debug_assert!(false, "a log that is too long is not empty");
                break;
            };
            self.bytes -= oldest.body.len();
        }
    }
}

/// How many conversations are remembered: far more than run at the same time. A forgotten one
/// starts its script again.
const CONVERSATIONS: usize = 10_000;

/// How many streams are kept.
const KEPT: usize = 100;

/// How many calls the log keeps.
const CALLS: usize = 10_000;

/// How many bytes of bodies the log keeps; the last call is kept whatever its size.
const CALL_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_are_bounded() {
        let script: Script = "answer fence".parse().unwrap();
        let mut conversations = Conversations::default();
        for key in 0..=CONVERSATIONS as u64 {
            conversations.next(key, false, &script);
        }
        assert_eq!(conversations.0.len(), CONVERSATIONS);
        assert_eq!(conversations.next(1, false, &script).to_string(), "fence");
        assert_eq!(
            conversations.next(0, false, &script).to_string(),
            "answer",
            "the oldest was forgotten"
        );
    }

    #[test]
    fn the_log_keeps_the_last_calls() {
        let call = |body: String| Call {
            method: http::Method::GET,
            path: "/".into(),
            headers: http::HeaderMap::new(),
            body,
            kind: super::super::CallKind::Other,
            step: None,
            status: None,
        };
        let mut log = Log::default();
        for at in 0..CALLS + 2 {
            log.push(call(at.to_string()));
        }
        assert_eq!(
            (
                log.calls().count(),
                log.calls().next().unwrap().body.as_str()
            ),
            (CALLS, "2")
        );
        // A body that fills the log is kept alone.
        log.push(call("x".repeat(CALL_BYTES + 1)));
        assert_eq!((log.calls().count(), log.bytes), (1, CALL_BYTES + 1));
        log.push(call("y".into()));
        assert_eq!((log.calls().count(), log.bytes), (1, 1));
    }
}
