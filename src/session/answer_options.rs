//! The settings that a stream and a whole body share.

use bytes::Bytes;

use super::first_answer::FirstReading;
use super::{ContinuationStrategy, GiveUp, Prose, Session};
use crate::json::repair::RepairOptions;
use crate::provider::wire::Base;

/// The settings of an answer's sessions, made before its first input.
pub trait AnswerOptions: Sized {
    /// Changes the settings of all sessions.
    #[must_use]
    fn configure(self, change: impl Fn(&mut Session)) -> Self;

    /// Believes a `stop`; see [`Session::trust_stop`].
    #[must_use]
    fn trust_stop(self) -> Self {
        self.configure(Session::trust_stop)
    }

    /// Sets the strategy of continuation requests.
    #[must_use]
    fn strategy(self, strategy: ContinuationStrategy) -> Self {
        self.configure(|session| session.set_strategy(strategy.clone()))
    }

    /// Sets how an answer ends when its rest can't be obtained.
    #[must_use]
    fn give_up(self, give_up: GiveUp) -> Self {
        self.configure(|session| session.set_give_up(give_up))
    }

    /// Sets how an answer in prose is handled; see [`Session::set_prose`].
    #[must_use]
    fn prose(self, prose: Prose) -> Self {
        self.configure(|session| session.set_prose(prose))
    }

    /// Sets how much of the text inside the root may be changed; see [`Session::set_repair`]. A
    /// stream's event whose text changes is written again, the others are forwarded unchanged.
    #[must_use]
    fn repair(self, options: impl Into<RepairOptions>) -> Self {
        let options = options.into();
        self.configure(|session| session.set_repair(options.clone()))
    }

    /// Sets the schema that the request has for the text of its answers; see
    /// [`Session::set_schema`].
    #[must_use]
    fn schema(self, schema: Option<&str>) -> Self {
        match schema {
            Some(schema) => self.configure(|session| session.set_schema(schema)),
            None => self,
        }
    }

    /// Sets the base of the answer's document. Call this after the other settings.
    #[must_use]
    fn base(self, base: &Base) -> Self {
        self.configure(|session| {
            if let Some(mut first) = FirstReading::of(session) {
                first.set_base(base);
            }
        })
    }

    /// Records that another upstream than the first one has answered the first call.
    #[must_use]
    fn answered_by(self, upstream: &str) -> Self {
        self.configure(|session| {
            let stats = &mut session.channel.journal.stats;
            stats.upstreams.push(upstream.to_owned());
        })
    }

    /// Sets the body of the request: words that it shares with a prompt are no sign that the model
    /// copies the prompt.
    #[must_use]
    fn client_request(self, body: &Bytes) -> Self {
        self.configure(|session| session.channel.client_request = body.clone())
    }

    /// Sets an estimate of the request's tokens, which counts until the provider reports them.
    #[must_use]
    fn prompt_tokens(self, tokens: u64) -> Self {
        self.configure(|session| session.channel.prompt_tokens = Some(tokens))
    }

    /// Records the limit on the answer's tokens that the caller has set instead of the request's.
    #[must_use]
    fn raised_limit(self, limit: Option<u64>) -> Self {
        self.configure(|session| session.channel.journal.stats.raised_limit = limit)
    }

    /// Records the model of the request.
    #[must_use]
    fn model(self, model: &str) -> Self {
        self.configure(|session| session.channel.journal.note_model(model))
    }
}

impl AnswerOptions for Session {
    fn configure(mut self, change: impl Fn(&mut Session)) -> Self {
        change(&mut self);
        self
    }
}
