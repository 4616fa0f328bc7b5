//! Typed views of an answer's text, which end where the answer was given up.

use serde::de::DeserializeOwned;

use super::StitchText;
use crate::live::{Completed, Events, IntoFinal, LiveExt, Snapshots};
use crate::provider::Finish;
use crate::session::Status;

/// The methods of [`LiveExt`] for views that end where the answer is given up. They don't read the
/// text that [`GiveUp::Close`](crate::session::GiveUp::Close) adds. A view of another stream around
/// this one can't recognize that text. The view of a [resumed](super::Stitcher::resume) answer
/// begins with the delivered text.
impl<E> StitchText<'_, E> {
    /// Returns every event, as [`LiveExt::events`] does.
    pub fn events(self) -> Events<Self> {
        LiveExt::events(self.with_delivered()).cut_where(Self::is_cut)
    }

    /// Returns the growing root, as [`LiveExt::snapshots`] does.
    pub fn snapshots<T: DeserializeOwned>(self) -> Snapshots<Self, T> {
        LiveExt::snapshots(self.with_delivered()).cut_where(Self::is_cut)
    }

    /// Returns every value whose path matches, as [`LiveExt::completed`] does.
    pub fn completed<T: DeserializeOwned>(self, pattern: &str) -> Completed<Self, T> {
        LiveExt::completed(self.with_delivered(), pattern).cut_where(Self::is_cut)
    }

    /// Returns the root, as [`LiveExt::into_final`] does.
    pub fn into_final<T: DeserializeOwned>(self) -> IntoFinal<Self, T> {
        LiveExt::into_final(self.with_delivered()).cut_where(Self::is_cut)
    }

    /// Begins a resumed answer with its delivered text.
    fn with_delivered(mut self) -> Self {
        self.0.engine.begin_with_delivered();
        self
    }

    /// Returns whether the answer is cut: the model wrote no text after the current position, or
    /// after the last item, and the answer has no regular end.
    fn is_cut(&self) -> bool {
        let ends_early = |status, finish: Option<&Finish>| match status {
            Status::Complete => false,
            Status::PassedThrough => finish.is_some_and(|finish| *finish != Finish::Stop),
            Status::Closed | Status::Incomplete | Status::Failed => true,
        };
        let outcome = self.0.outcome.as_ref();
        self.0.has_given_up
            || outcome.is_some_and(|outcome| ends_early(outcome.status(), outcome.finish()))
    }
}
