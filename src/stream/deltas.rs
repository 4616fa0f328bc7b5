//! Text deltas: the events of SDKs, and the engine that reads them.

use std::time::Duration;

use super::driver::{Engine, Step};
use crate::provider::Finish;
use crate::provider::wire::SlotKind;
use crate::session::relay::{self, TransportEnd};
use crate::session::{self, CallEnd, Input, Outcome, Session, Status};

/// One event of an SDK's stream: more text, why the answer ended, or a sign that the model is at
/// work.
///
/// Strings convert into it, and so do pairs of a string and an optional finish.
///
/// ```
/// use restitch::provider::Finish;
/// use restitch::stream::TextDelta;
///
/// let delta = TextDelta::new("[1, 2").with_finish("max_tokens");
/// assert_eq!(delta, TextDelta::from(("[1, 2".to_owned(), Some(Finish::Length))));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextDelta {
    text: String,
    finish: Option<Finish>,
    tokens: Option<u64>,
    is_reasoning: bool,
    /// The answer has a part that is not text.
    is_opaque: bool,
}

impl TextDelta {
    /// Returns a delta with more text, which may be empty.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Returns a delta of reasoning: it has no text, and shows that the call is alive.
    pub fn reasoning() -> Self {
        Self {
            is_reasoning: true,
            ..Self::default()
        }
    }

    /// Returns a delta of a tool call: an answer with one is passed through and not continued.
    pub fn tool_call() -> Self {
        Self {
            is_opaque: true,
            ..Self::default()
        }
    }

    /// Sets why the answer ended. Understands `max_tokens` and `max_output_tokens` as
    /// [`Finish::Length`], and `end_turn` as [`Finish::Stop`], in either case. An answer that ends
    /// with any other reason than these two is not continued.
    #[must_use]
    pub fn with_finish(mut self, finish: impl Into<Finish>) -> Self {
        self.finish = Some(match finish.into() {
            Finish::Other(word) => match word.to_ascii_lowercase().as_str() {
                // Anthropic and Google; OpenAI's Responses.
                "max_tokens" | "max_output_tokens" => Finish::Length,
                "end_turn" | "stop" => Finish::Stop,
                _ => Finish::Other(word),
            },
            known => known,
        });
        self
    }

    /// Sets the number of tokens of the call's answer so far.
    #[must_use]
    pub fn with_tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    pub(super) fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn add_reasoning(&mut self) {
        self.is_reasoning = true;
    }

    pub(super) fn add_other(&mut self) {
        self.is_opaque = true;
    }
}

impl From<String> for TextDelta {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for TextDelta {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<Option<String>> for TextDelta {
    fn from(text: Option<String>) -> Self {
        Self::new(text.unwrap_or_default())
    }
}

impl From<Finish> for TextDelta {
    fn from(finish: Finish) -> Self {
        Self::default().with_finish(finish)
    }
}

impl<T: Into<TextDelta>> From<(T, Option<Finish>)> for TextDelta {
    fn from((text, finish): (T, Option<Finish>)) -> Self {
        match finish {
            Some(finish) => text.into().with_finish(finish),
            None => text.into(),
        }
    }
}

/// The engine of [`StitchText`](super::StitchText): a session alone.
#[derive(Debug)]
pub(super) struct Deltas {
    session: Session,
    opened: bool,
    /// The first answer's text, which is emitted unchanged. If it repairs text, the session emits
    /// the text instead.
    first: Option<String>,
    /// The finish of the open call, until its stream ends: usage may follow the finish.
    finish: Option<Finish>,
    /// The answer continues from a snapshot, and its reader has taken no item.
    is_resumed: bool,
}

impl Deltas {
    pub(super) fn new(session: Session) -> Self {
        Self {
            session,
            opened: true,
            first: None,
            finish: None,
            is_resumed: false,
        }
    }

    /// Continues a restored session.
    pub(super) fn resumed(session: Session) -> Self {
        Self {
            is_resumed: true,
            ..Self::new(session)
        }
    }

    /// Emits the text that the reader of the first stream has received, before the rest: a view
    /// needs the document from its start.
    pub(super) fn begin_with_delivered(&mut self) {
        if self.is_resumed {
            let snapshot = self.session.snapshot();
            self.first = Some(snapshot.taken_text().to_owned());
        }
    }

    /// Ends the open call with its finish, if it gave one, else with `end`.
    fn end(&mut self, now: Duration, end: CallEnd) {
        let end = self.finish.take().map_or(end, CallEnd::Finished);
        // A reader of text sees only the end of the stream, so a clean end is not a loss.
        if end == CallEnd::Dropped && self.session.end_if_whole(now, &end) {
            return;
        }
        self.session.handle_input(now, Input::CallEnd(end));
    }

    fn done(&self, outcome: Outcome) -> relay::Output {
        // The reader gets the call's error if the answer was not continued or nothing was
        // delivered. A clean end stays one.
        let lost = match outcome.status() {
            Status::PassedThrough => !self.session.document().is_complete(),
            status => matches!(status, Status::Failed | Status::Incomplete),
        };
        let transport_end = if lost {
            TransportEnd::Dropped
        } else {
            TransportEnd::Closed
        };
        relay::Output::Done {
            outcome,
            slot: SlotKind::Text,
            transport_end,
        }
    }
}

impl Engine for Deltas {
    type Chunk = TextDelta;
    type Item = String;
    const IS_LAZY: bool = true;

    fn session(&self) -> &Session {
        &self.session
    }

    fn opened(&mut self, now: Duration) {
        self.session.handle_input(now, Input::Activity);
    }

    fn chunk(&mut self, now: Duration, chunk: TextDelta) {
        self.opened = true;
        if chunk.is_opaque && self.session.is_first() {
            self.session.pass();
        }
        self.session.handle_input(
            now,
            if chunk.is_reasoning {
                Input::Reasoning
            } else {
                Input::Activity
            },
        );
        if !chunk.text.is_empty() {
            self.session.handle_input(now, Input::Text(&chunk.text));
        }
        if let Some(tokens) = chunk.tokens {
            self.session.handle_input(now, Input::Tokens(tokens));
        }
        // Text after a finish refutes it.
        self.finish = chunk
            .finish
            .or(self.finish.take().filter(|_| chunk.text.is_empty()));
        if self.session.is_first() && !self.session.repairs_text() && !chunk.text.is_empty() {
            self.first = Some(chunk.text);
        }
    }

    fn transport_end(&mut self, now: Duration, transport_end: TransportEnd) {
        self.end(
            now,
            if transport_end == TransportEnd::Closed {
                CallEnd::Closed
            } else {
                CallEnd::Dropped
            },
        );
    }

    fn rejected(&mut self, now: Duration, end: CallEnd) {
        self.session.handle_input(now, Input::CallEnd(end));
    }

    fn due(&self) -> Option<Duration> {
        self.session.poll_timeout(self.opened)
    }

    fn timeout(&mut self, now: Duration) {
        if self.due().is_some_and(|due| now >= due) {
            self.end(now, self.session.timed_out(self.opened));
        }
    }

    fn step(&mut self) -> Option<Step<String>> {
        self.is_resumed = false;
        if let Some(text) = self.first.take() {
            return Some(Step::Item(text));
        }
        self.session.poll_output().map(|output| match output {
            session::Output::Text(text) => Step::Item(text),
            session::Output::Event(event) => Step::Other(Box::new(relay::Output::Event(event))),
            session::Output::Call { request, at } => {
                self.opened = false;
                Step::Other(Box::new(relay::Output::Call { request, at }))
            }
            session::Output::Done(outcome) => Step::Other(Box::new(self.done(outcome))),
        })
    }
}
