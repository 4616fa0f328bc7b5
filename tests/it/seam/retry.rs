//! The same through a session: the model continues in any style at first, and as requested in the next call.

use std::time::Duration;

use restitch::AllowedRoots;
use restitch::Limits;
use restitch::session::{CallEnd, Input, Output, Session, SessionEvent, Status};
use restitch::splice::Expect;

use super::judge::Verdict;
use super::missing::missing;
use super::reading::read;
use super::rows::Row;

/// Returns what the session makes of the row's fragment and of true answers to its further requests. `None` where the
/// true answer is not known, because the text stops inside an escape that the document does not have.
pub(crate) fn retried(row: &Row<'_>) -> Option<(Verdict, String)> {
    let now = Duration::ZERO;
    let document = row.sample.text.as_str();
    let mut session = Session::with(Limits::default(), Expect::Anchor, AllowedRoots::Any);
    session.handle_input(now, Input::Text(row.case.delivered));
    session.handle_input(now, Input::CallEnd(CallEnd::Closed));
    let mut answer = Some(row.case.fragment.to_owned());
    let mut said = Vec::new();
    loop {
        match session.poll_output()? {
            Output::Call { request, .. } => {
                let turn = request.turn?;
                let text = turn.delivered.as_str();
                let answer = match (answer.take(), document.strip_prefix(text)) {
                    (Some(first), _) => first,
                    (None, Some(rest)) => turn.anchor + rest,
                    (None, None) => {
                        let part = read(text).filter(|part| part.may_become(row.case.truth));
                        let Some(part) = part else { return Some((Verdict::Wrong, said.join(", "))) };
                        turn.anchor + &missing(text, &part, row.case.truth)?
                    }
                };
                session.handle_input(now, Input::Text(&answer));
                session.handle_input(now, Input::CallEnd(CallEnd::Closed));
            }
            Output::Event(SessionEvent::Joined { seam, .. }) => said.push(seam.alignment.as_str().to_owned()),
            Output::Event(SessionEvent::Failed { reason, .. }) => said.push(reason.to_string()),
            Output::Event(_) | Output::Text(_) => {}
            Output::Done(outcome) => {
                let is_true = || read(session.document().text()).is_some_and(|node| node.is(row.case.truth));
                let verdict = match outcome.status() {
                    Status::Complete if is_true() => Verdict::Right,
                    Status::Complete => Verdict::Wrong,
                    _ => Verdict::Flagged,
                };
                return Some((verdict, said.join(", ")));
            }
            _ => {}
        }
    }
}
