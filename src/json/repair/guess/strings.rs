//! Guesses about where strings end: lost, inner and stray quotes.

use super::super::RepairRule;
use super::super::attempt::ReadMode;
use super::super::content::{ends_in_escape, opens_in, structure};
use super::super::recovery::Quote;
use super::super::token::{Token, TokenKind};
use super::foreign_quotes::mixed_quotes;
use super::{CHANGE, NEXT_QUOTE, PLACES, PlanList, RepairPlan};

/// Typographic quotes that close a string.
// Models close a straight quote with these when they write prose in that language; the opening ones
// are no ends, since they begin a quotation inside the string.
const CLOSING: [char; 4] = ['\u{201d}', '\u{2019}', '\u{bb}', '\u{b4}'];

/// Strings whose closing quote is lost, so that a later one closed them; at the end of the
/// text, none did.
pub(super) fn open_strings(plans: &mut PlanList<'_>) {
    let site = plans.site;
    let machine = &site.attempt.machine;
    let mut strings: Vec<_> = site
        .strings()
        .take(2)
        .map(|token| (token, token.end - 1))
        .collect();
    if machine.in_string() {
        let kind = if machine.in_key() {
            TokenKind::Key
        } else {
            TokenKind::String
        };
        let (start, end) = (machine.token_start(), machine.offset());
        strings.insert(
            0,
            (
                Token {
                    kind,
                    start,
                    end,
                    depth: machine.frames().len(),
                },
                end,
            ),
        );
    }
    for (token, end) in strings {
        let start = (token.start + 1).max(site.attempt.text.origin);
        let (start, end) = (
            site.attempt.text.in_offset(start),
            site.attempt.text.in_offset(end),
        );
        let text = site.input.part(start, end);
        let is_key = token.kind == TokenKind::Key;
        let rule = if is_key {
            RepairRule::KeyQuote
        } else {
            RepairRule::OpenString
        };
        mixed_quotes(plans, token, start, text);
        // A key ends before a colon. A string ends before a separator, most likely before the
        // last one.
        let places: Vec<usize> = if is_key {
            text.match_indices(':').map(|(at, _)| at).take(2).collect()
        } else {
            text.rmatch_indices([',', '}', ']', '\n'])
                .map(|(at, _)| at)
                .take(PLACES)
                .collect()
        };
        for place in places {
            let content = text.get(..place).unwrap_or_default().trim_end();
            // A quote after a backslash is escaped. A bracket that the text opens itself is
            // text.
            if ends_in_escape(content)
                || (!is_key && opens_in(content, text.get(place..).unwrap_or_default()))
            {
                continue;
            }
            let at = start + content.len();
            if let Some(quote) = content.chars().last().filter(|c| CLOSING.contains(c)) {
                // It closes the string, although the opening quote differs.
                let at = at - quote.len_utf8();
                plans.add(
                    site.attempt.text.out_offset(at),
                    (at, at + quote.len_utf8()),
                    "\"",
                    RepairRule::Quotes,
                    0,
                );
                continue;
            }
            let out = site.attempt.text.out_offset(at);
            let extra = structure(content);
            plans.add(out, (at, at), "\"", rule, extra);
        }
    }
}

/// Quotes before a bracket, or at an offset where only a separator may follow.
pub(super) fn stray_quotes(plans: &mut PlanList<'_>) {
    let site = plans.site;
    let (out, at) = site.here();
    if site.next == Some('"') && !site.state.in_token() {
        plans.add(out, (at, at + 1), "", RepairRule::StrayQuote, 0);
    }
    for token in site.strings().take(2).collect::<Vec<_>>() {
        let content = site.attempt.text.after(token.start + 1).trim_ascii_start();
        if content.starts_with(['{', '[', '}', ']', ',']) && site.attempt.text.has(token.start) {
            let start = site.attempt.text.in_offset(token.start);
            plans.add(
                token.start,
                (start, start + 1),
                "",
                RepairRule::StrayQuote,
                0,
            );
        }
    }
}

/// Quotes that closed a string although they belong to its text.
pub(super) fn inner_quotes(plans: &mut PlanList<'_>) {
    let site = plans.site;
    for token in site.strings().collect::<Vec<_>>() {
        let out = token.end - 1;
        let at = site.attempt.text.in_offset(out);
        let covering = site
            .attempt
            .text
            .edits
            .iter()
            .find(|edit| edit.out <= out && out < edit.out_end());
        let mut inside = site
            .attempt
            .text
            .edits
            .iter()
            .filter(|edit| (token.start..out).contains(&edit.out));
        let start = (token.start + 1).saturating_sub(site.attempt.text.origin);
        let content = site
            .attempt
            .text
            .out
            .get(start..=out - site.attempt.text.origin)
            .unwrap_or_default();
        // Opening another type of quote again leaves no edit.
        let is_kept = |c: char| covering.is_some_and(|edit| edit.repair.original.starts_with(c));
        let is_first = inside.all(|edit| edit.repair.rule != RepairRule::InnerQuote)
            && !content.contains(is_kept);
        let after = site
            .input
            .rest(site.attempt.text.in_offset(token.end))
            .trim_ascii_start();
        // Doubled quotes before a key do not belong to it.
        let is_doubled = token.kind == TokenKind::Key && token.end - token.start == 2;
        // A bracket and a quote begin an object, and no key has both.
        let is_opened =
            token.kind == TokenKind::Key && (content.ends_with("{\"") || content.ends_with("[\""));
        if is_doubled
            || is_opened
            || token.kind == TokenKind::Key && after.starts_with(':')
            || is_first && after.starts_with([',', ':', '}', ']'])
        {
            // A separator follows, so the token is whole. A later mistake doesn't change that.
            continue;
        }
        let extra = structure(content);
        let first = if is_first {
            RepairRule::InnerQuote.cost() * CHANGE
        } else {
            NEXT_QUOTE
        };
        let cost = first + extra * CHANGE;
        let mistake = site.mistake(RepairRule::InnerQuote);
        let plan = |len: usize, by: String, mode: ReadMode| RepairPlan {
            out,
            start: at,
            end: at + len,
            by,
            rule: RepairRule::InnerQuote,
            mode,
            cost,
            mistake,
        };
        match covering {
            None => plans.push(plan(1, "\\\"".to_owned(), ReadMode::Json)),
            Some(edit)
                if matches!(
                    edit.repair.rule,
                    RepairRule::Quotes | RepairRule::EscapedQuotes
                ) =>
            {
                let written = &edit.repair.original;
                let quote = match edit.repair.rule {
                    RepairRule::EscapedQuotes => Quote::Escaped,
                    _ => written
                        .chars()
                        .next()
                        .and_then(Quote::closing)
                        .unwrap_or(Quote::Escaped),
                };
                // The quote stays unchanged: an edit without an effect, but another reading.
                plans.push(plan(
                    written.len(),
                    written.clone(),
                    ReadMode::Quoted(quote),
                ));
            }
            Some(_) => {}
        }
    }
}
