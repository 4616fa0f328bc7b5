//! Ends an answer whose rest can't be obtained.

use super::{CallEnd, Outcome, Output, Phase, Session, SessionEvent, StopReason};
use crate::json::Completion;
use crate::provider::Finish;

/// How a document ends whose rest can't be obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GiveUp {
    /// Closes the document and names the cut value: [`Outcome::Closed`]. A stream gets the shortest
    /// legal completion, because sent bytes can't be taken back; the outcome lists the synthesized
    /// values. A whole body becomes its complete part, which leaves a cut number out.
    Close,
    /// The default. Adds nothing, not even the end of a fence. The answer ends like its first cut,
    /// or like a later, worse one: [`Outcome::Incomplete`]. A client that raises an error at a cut
    /// answer still does.
    #[default]
    Leave,
    /// Ends the answer with an error: [`Outcome::Failed`].
    Error,
}

impl GiveUp {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Close, Self::Leave, Self::Error];

    /// Returns the name in configuration and headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::Leave => "leave",
            Self::Error => "error",
        }
    }
}

impl std::fmt::Display for GiveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// An unknown name of a [`GiveUp`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveUpError(String);

impl std::fmt::Display for GiveUpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not one of `close`, `leave`, `error`", self.0)
    }
}

impl std::error::Error for GiveUpError {}

impl std::str::FromStr for GiveUp {
    type Err = GiveUpError;

    fn from_str(name: &str) -> Result<Self, GiveUpError> {
        let found = Self::ALL.into_iter().find(|known| known.as_str() == name);
        found.ok_or_else(|| GiveUpError(name.to_owned()))
    }
}

impl Session {
    /// Returns how the answer ends if it is given up. `None` while nothing was cut.
    pub(super) fn given_up_end(&self) -> Option<&CallEnd> {
        self.last_cut.as_ref().map(|cut| &cut.given_up)
    }

    /// Ends the loop, since the rest can't be obtained. `finish`: the reason that ends it, if a
    /// call gave one.
    pub(super) fn give_up(&mut self, reason: StopReason, finish: Option<Finish>) {
        let cause = self.last_cut.as_ref().and_then(|cut| cut.cause);
        let tally = self.tally_after(self.last_cut.as_ref().map(|cut| &cut.end));
        let leaves = self.settings.give_up == GiveUp::Leave && !self.unread.is_empty();
        if leaves {
            self.give_out_text(self.unread.clone());
        }
        let document = self.slot.document();
        let offset = document.text().len();
        // The client already has the beginning of a tool call.
        if !self.has_begun() && !leaves && !self.is_tool_call() {
            return self.done(Outcome::Failed {
                reason: Some(reason),
                cause,
                tally,
            });
        }
        let outcome = match self.settings.give_up {
            // Nothing of prose can be closed.
            GiveUp::Close if document.is_text() => Outcome::Incomplete {
                reason,
                cause,
                finish: None,
                tally,
            },
            GiveUp::Error => Outcome::Failed {
                reason: Some(reason),
                cause,
                tally,
            },
            GiveUp::Leave => {
                // Clients must not call a tool with open arguments, whatever finish reason the
                // server sent.
                let reported = |finish: &Finish| {
                    if self.is_tool_call() {
                        Finish::Length
                    } else {
                        finish.clone()
                    }
                };
                let finish = self.given_up_end().and_then(CallEnd::finish).map(reported);
                Outcome::Incomplete {
                    reason,
                    cause,
                    finish,
                    tally,
                }
            }
            GiveUp::Close if self.is_tool_call() => {
                // Closed arguments form a valid call, which the client would execute.
                Outcome::Incomplete {
                    reason,
                    cause,
                    finish: Some(Finish::Length),
                    tally,
                }
            }
            GiveUp::Close => {
                let Completion {
                    synthesized,
                    cut_value,
                    ..
                } = self.close_document();
                Outcome::Closed {
                    reason,
                    cause,
                    synthesized,
                    cut_value,
                    finish,
                    tally,
                }
            }
        };
        self.is_continued = true;
        self.event(SessionEvent::Fallback {
            stop: reason,
            offset,
            synthesized: outcome.synthesized().to_vec(),
        });
        self.give_out(offset);
        self.done(outcome);
    }

    /// Closes the open document. If no text was sent, drops its uncertain end first.
    fn close_document(&mut self) -> Completion {
        if let Some(closed) = self
            .settings
            .sends_at_end
            .then(|| self.slot.close_as_complete_part())
            .flatten()
        {
            return closed;
        }
        let completion = self.slot.document().completion();
        let pushed = self.slot.push(&completion.suffix);
        debug_assert!(
            pushed.is_ok() && self.slot.document().is_complete(),
            "{pushed:?}: {}",
            completion.suffix
        );
        completion
    }

    /// Ends the session.
    pub(super) fn done(&mut self, outcome: Outcome) {
        self.phase = Phase::Done;
        let adds_nothing = matches!(outcome, Outcome::Incomplete { .. } | Outcome::Failed { .. });
        if self.is_continued
            && !adds_nothing
            && let Some(fence) = self.slot.document().open_fence()
        {
            // The first answer's own closing fence can no longer follow.
            let before = self.slot.document().text().len();
            let closed = self.slot.push(&fence);
            debug_assert!(
                closed.is_ok(),
                "the fence of a closed root is legal after it: {closed:?}"
            );
            self.give_out(before);
        }
        self.event(SessionEvent::Done(outcome.clone()));
        self.outputs.push_back(Output::Done(outcome));
    }
}
