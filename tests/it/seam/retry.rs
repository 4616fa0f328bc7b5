//! Fragments through a session: what it makes of a model's answers to its calls.

use std::time::Duration;

use restitch::AllowedRoots;
use restitch::Limits;
use restitch::repair::RepairLevel;
use restitch::session::{
    CallEnd, CallStats, FailureReason, Input, Output, Session, SessionEvent, Status, Turn,
};
use restitch::splice::{Alignment, Expect, SpliceError};

use super::judge::Verdict;
use super::missing::missing;
use super::reading::{Node, read};
use super::rows::Row;
use restitch_testing::is_doubtful_end;

/// A call, as a model sees it.
pub(crate) struct Asked<'a> {
    pub(crate) turn: &'a Turn,
    /// The complete document: the delivered text and the true rest.
    pub(crate) document: &'a str,
    /// Bytes of it that were delivered.
    pub(crate) delivered: usize,
    /// Calls before this one.
    pub(crate) number: usize,
    /// An answer has added something to the text.
    pub(crate) has_grown: bool,
}

impl Asked<'_> {
    /// Returns the answer that the request asked for.
    pub(crate) fn as_requested(&self) -> String {
        let mark = self.turn.mark.as_deref().unwrap_or_default();
        [&self.turn.anchor, mark, &self.document[self.delivered..]].concat()
    }
}

/// The result of a session.
pub(crate) struct Ended {
    /// Right, silently wrong, or flagged.
    pub(crate) verdict: Verdict,
    pub(crate) calls: usize,
    /// The alignments and failures.
    pub(crate) said: Vec<String>,
}

/// Runs a session of a level of repair whose first call delivered `delivered`, and whose further
/// calls get the answers of `answer`. Returns `None` where the true rest is not known, because the
/// text stops inside an escape that the document does not have.
pub(crate) fn run(
    limits: &Limits,
    level: RepairLevel,
    text: &str,
    truth: &Node,
    delivered: &str,
    mut answer: impl FnMut(&Asked<'_>) -> String,
) -> Option<Ended> {
    let now = Duration::ZERO;
    let mut session = Session::with(limits.clone(), Expect::Anchor, AllowedRoots::Any);
    session.set_repair(level);
    session.handle_input(now, Input::Text(delivered));
    session.handle_input(now, Input::CallEnd(CallEnd::Closed));
    let first = session.document().text().len();
    let (mut calls, mut repeats, mut said, mut has_early_end) = (0, 0, Vec::new(), false);
    // A repeat brings nothing, so what is said of its place does not count.
    let wrong = |tally: &CallStats, repeats| {
        if tally.early_end > 0 || tally.ambiguous > repeats {
            Verdict::Flagged
        } else {
            Verdict::Wrong
        }
    };
    loop {
        match session.poll_output()? {
            Output::Call { request, .. } => {
                let turn = request.turn?;
                let now_delivered = session.document().text();
                let document = if text.starts_with(now_delivered) {
                    text.to_owned()
                } else {
                    // Nothing that a model writes here makes the document right again.
                    let Some(part) = read(now_delivered).filter(|part| part.may_become(truth))
                    else {
                        return Some(Ended {
                            verdict: wrong(session.tally(), repeats),
                            calls,
                            said,
                        });
                    };
                    format!("{now_delivered}{}", missing(now_delivered, &part, truth)?)
                };
                let has_grown = now_delivered.len() > first;
                let asked = Asked {
                    turn: &turn,
                    document: &document,
                    delivered: now_delivered.len(),
                    number: calls,
                    has_grown,
                };
                let answer = answer(&asked);
                calls += 1;
                session.handle_input(now, Input::Text(&answer));
                session.handle_input(now, Input::CallEnd(CallEnd::Closed));
            }
            Output::Event(SessionEvent::Joined { seam, .. }) => {
                repeats += u32::from(seam.ambiguous && seam.alignment == Alignment::Repeat);
                said.push(seam.alignment.as_str().to_owned());
            }
            Output::Event(SessionEvent::Failed { reason, .. }) => {
                has_early_end |= reason == FailureReason::Merge(SpliceError::EarlyEnd);
                said.push(reason.to_string());
            }
            Output::Event(_) | Output::Text(_) => {}
            Output::Done(outcome) => {
                let delivered = session.document().text();
                // Giving up a doubtful end is right.
                let is_given_up = outcome.status() != Status::Complete && has_early_end;
                let is_doubtful = is_given_up
                    && text.starts_with(delivered)
                    && is_doubtful_end(text, delivered.len());
                let is_true = || read(session.document().text()).is_some_and(|node| node.is(truth));
                let verdict = match outcome.status() {
                    _ if is_doubtful => Verdict::Right,
                    Status::Complete if is_true() => Verdict::Right,
                    Status::Complete => wrong(outcome.tally(), repeats),
                    _ => Verdict::Flagged,
                };
                return Some(Ended {
                    verdict,
                    calls,
                    said,
                });
            }
            _ => {}
        }
    }
}

/// Runs a session whose second call gets the row's fragment, and whose further calls get what they
/// ask for.
pub(crate) fn retried(row: &Row<'_>) -> Option<Ended> {
    let (text, case) = (row.sample.text.as_str(), &row.case);
    run(
        &Limits::default(),
        RepairLevel::Strict,
        text,
        case.truth,
        case.delivered,
        |asked| match asked.number {
            0 => case.fragment.to_owned(),
            _ => asked.as_requested(),
        },
    )
}
