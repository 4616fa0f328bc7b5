//! Guesses about separators: missing commas and colons, three dots.

use super::super::RepairRule;
use super::super::token::TokenKind;
use super::PlanList;
use crate::json::grammar::GrammarState;

/// Missing commas and colons, three dots.
pub(super) fn separators(plans: &mut PlanList<'_>) {
    let site = plans.site;
    let (out, at) = site.here();
    let Some(next) = site.next else { return };
    let is_value = next == '"' || next.is_alphanumeric() || matches!(next, '{' | '[' | '-' | '\'');
    match site.state {
        GrammarState::AfterElement | GrammarState::AfterMember if is_value => {
            // In an object a key follows the comma, so a bracket is not the next member.
            if let Some((end, end_in)) = site.child_end()
                && (site.state == GrammarState::AfterElement || !matches!(next, '{' | '['))
                && !site.opens_next(end)
                && !site.touches_word(end, next)
            {
                // A writer who forgets a comma usually still writes the white space after it,
                // so without white space the guess costs more.
                plans.add(
                    end,
                    (end_in, end_in),
                    ",",
                    RepairRule::MissingComma,
                    u32::from(end == out),
                );
            }
        }
        GrammarState::Colon if is_value => missing_colon(plans, out, at),
        // Other languages write `=` or `=>` between a key and its value.
        GrammarState::Colon if next == '=' => {
            let len = if site.input.rest(at).starts_with("=>") {
                2
            } else {
                1
            };
            plans.add(out, (at, at + len), ":", RepairRule::MissingColon, 0);
        }
        _ => {}
    }
    let rest = site.input.rest(at);
    // All dots count, whatever the chunks are: up to the look-ahead.
    let most = site.input.options.caps.lookahead.max(3);
    let count = rest
        .bytes()
        .take(most)
        .take_while(|byte| *byte == b'.')
        .count();
    plans.waits |= count == rest.len() && count < most && !site.input.is_end;
    let dots = if next == '\u{2026}' {
        next.len_utf8()
    } else {
        count
    };
    plans.waits |= next == '\u{2026}' && dots == rest.len() && !site.input.is_end;
    // Dots before a name are not an ellipsis: `...rest`.
    let is_name = rest
        .get(dots..)
        .is_some_and(|after| after.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
    if dots >= 3 && !is_name && !site.state.in_token() {
        // The guess drops the comma before the dots, too.
        let is_listed = matches!(site.state, GrammarState::Value | GrammarState::Key)
            && !site.attempt.machine.frames().is_empty();
        let (out, start) = site
            .child_end()
            .filter(|_| is_listed && site.is_after_comma())
            .unwrap_or((out, at));
        plans.add(out, (start, at + dots), "", RepairRule::Ellipsis, 0);
    }
}

/// No colon after a key, or a colon before its closing quote.
fn missing_colon(plans: &mut PlanList<'_>, out: usize, at: usize) {
    let site = plans.site;
    let key = site.last_token(TokenKind::Key);
    if key.is_some_and(|key| key.end - key.start == 2) {
        // An empty key is a mistake: its quotes are doubled, or belong to other text.
        return;
    }
    let end = key
        .map_or(0, |key| key.end)
        .max(site.attempt.text.origin + 2)
        - 2;
    let start = site.attempt.text.in_offset(end);
    let is_inside = site.input.part(start, start + 2) == ":\"";
    if is_inside {
        plans.add(end, (start, start + 2), "\":", RepairRule::KeyQuote, 0);
    }
    let (out, at) = key.map_or((out, at), |key| {
        (key.end, site.attempt.text.in_offset(key.end))
    });
    // A colon at the end of the key more likely belongs behind the quote than to the key.
    plans.add(
        out,
        (at, at),
        ":",
        RepairRule::MissingColon,
        u32::from(is_inside),
    );
}
