//! Guesses about closing brackets: missing, superfluous, or of the other kind.

use super::super::RepairRule;
use super::super::token::TokenKind;
use super::{PLACES, PlanList};
use crate::json::grammar::GrammarState;
use crate::json::stack::Kind;

/// The most closing brackets that may be missing at one offset.
// Chosen: documents of models are rarely deeper where they lose count. Each further bracket costs
// as much as a further mistake, so a fifth one would not win against a reading that ends the text.
const CLOSERS: usize = 4;

/// Containers that were not closed before the deviation.
pub(super) fn missing_closers(plans: &mut PlanList<'_>) {
    let site = plans.site;
    let frames = site.attempt.machine.frames();
    let Some(top) = frames.last() else { return };
    let next = site.next.unwrap_or(' ');
    let end = site.child_end();
    let closers = |count: usize| -> String {
        frames
            .iter()
            .rev()
            .take(count)
            .map(|f| f.kind.closer())
            .collect()
    };
    let closes = |count: usize| (count > 0 && count <= CLOSERS).then(|| closers(count));
    // Each further bracket is a further mistake.
    let extra = |count: usize| RepairRule::MissingCloser.cost() * (count as u32 - 1);
    // The bracket closes an outer container, so the containers inside it lack their closers.
    if matches!(next, '}' | ']') && next != top.kind.closer() && !site.state.in_string() {
        let count = frames
            .iter()
            .rev()
            .take_while(|frame| frame.kind.closer() != next)
            .count();
        if let (Some(by), Some((out, at))) = (closes(count).filter(|_| count < frames.len()), end) {
            plans.add(out, (at, at), &by, RepairRule::MissingCloser, extra(count));
        }
    }
    let is_object = top.kind == Kind::Object;
    if is_object && matches!(site.state, GrammarState::Key | GrammarState::AfterMember) {
        let most = frames
            .iter()
            .rev()
            .take_while(|frame| frame.kind == Kind::Object)
            .count();
        if let (Some(by), Some((out, at))) = (closes(most).filter(|_| most < frames.len()), end) {
            plans.add(out, (at, at), &by, RepairRule::MissingCloser, extra(most));
        }
        earlier_closers(plans);
    }
    // The string before a colon is the key of an object around the array.
    if next == ':' && site.state == GrammarState::AfterElement {
        let count = frames
            .iter()
            .rev()
            .take_while(|frame| frame.kind == Kind::Array)
            .count();
        let last = site.last_token(TokenKind::String);
        if let (Some(by), Some(last)) = (closes(count).filter(|_| count < frames.len()), last) {
            let before = site.attempt.text.before(last.start).trim_ascii_end();
            let before = before.strip_suffix(',').unwrap_or(before).trim_ascii_end();
            let out = site.attempt.text.origin + before.len();
            let at = site.attempt.text.in_offset(out);
            // A bracket before a key was not opened for an empty array, unless a comma shows
            // that it was. The comma may be dropped already: then it is the byte before.
            let is_empty = before.ends_with('[');
            let from = at.saturating_sub(1);
            if !is_empty
                || site
                    .input
                    .part(from, site.attempt.text.in_offset(last.start))
                    .contains(',')
            {
                plans.add(out, (at, at), &by, RepairRule::MissingCloser, extra(count));
            }
        }
    }
}

/// An object inside an object that was not closed: the missing closer is noticed only where the
/// outer object ends.
fn earlier_closers(plans: &mut PlanList<'_>) {
    let site = plans.site;
    let depth = site.attempt.machine.frames().len();
    let tokens = site.attempt.recorder.tokens.iter().rev();
    let ends = tokens.filter(|token| token.kind.ends_value() && token.depth >= depth.max(2));
    for token in ends.take(PLACES) {
        let at = site.attempt.text.in_offset(token.end);
        plans.add(token.end, (at, at), "}", RepairRule::MissingCloser, 0);
    }
}

/// Closing brackets that are superfluous, or of the other kind.
pub(super) fn wrong_closers(plans: &mut PlanList<'_>) {
    let site = plans.site;
    let (out, at) = site.here();
    let tokens = site.attempt.recorder.tokens.iter().rev();
    let closers = tokens
        .filter(|token| token.kind == TokenKind::Close)
        .take(PLACES)
        .map(|token| token.start);
    let top = site.attempt.machine.frames().last();
    // A bracket where a value is due ends an object with a missing value, which is unknown.
    let lacks_value = site.state == GrammarState::Colon
        || site.state == GrammarState::Value && top.is_some_and(|frame| frame.kind == Kind::Object);
    if let Some(next @ ('}' | ']')) = site.next
        && !site.state.in_string()
        && !lacks_value
    {
        plans.add(out, (at, at + 1), "", RepairRule::ExtraCloser, 0);
        if let Some(closer) = top
            .map(|frame| frame.kind.closer())
            .filter(|closer| *closer != next)
        {
            plans.add(
                out,
                (at, at + 1),
                &closer.to_string(),
                RepairRule::WrongCloser,
                0,
            );
        }
    }
    // A lost bracket rules out a superfluous one.
    let is_one_lost = closers
        .clone()
        .next()
        .is_some_and(|place| site.ends_unopened(place));
    for place in closers.filter(|_| !is_one_lost) {
        let start = site.attempt.text.in_offset(place);
        let is_written = site.input.part(start, start + 1).starts_with(['}', ']']);
        if is_written {
            plans.add(place, (start, start + 1), "", RepairRule::ExtraCloser, 0);
        }
    }
}
