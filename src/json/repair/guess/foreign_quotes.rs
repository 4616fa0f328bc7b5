//! Guesses about strings in the syntax of other languages: string sums, repeated quotes, quotes
//! that do not match.

use super::super::RepairRule;
use super::super::attempt::ReadMode;
use super::super::recovery::Quote;
use super::super::repaired_text::Edit;
use super::super::token::{Token, TokenKind};
use super::{PLACES, PlanList};

/// The quotes that open a string in some language.
// Low quotes and guillemets open no string in a language with sums of strings, so a plus sign
// before one is text.
const OPENING: [char; 4] = ['"', '\'', '\u{201c}', '\u{2018}'];

/// Joins a sum of strings, `"a" + "b"`: the string continues after the next quote.
pub(super) fn string_sums(plans: &mut PlanList<'_>) {
    let site = plans.site;
    let Some(token) = site
        .last_string()
        .filter(|token| token.kind == TokenKind::String)
    else {
        return;
    };
    let rest = site.input.rest(site.attempt.at);
    let Some(next) = rest.strip_prefix('+').map(str::trim_ascii_start) else {
        return;
    };
    plans.waits |= next.is_empty() && !site.input.is_end;
    let Some(quote) = next.chars().next().filter(|c| OPENING.contains(c)) else {
        return;
    };
    let end = site.attempt.at + (rest.len() - next.len()) + quote.len_utf8();
    let out = token.end - 1;
    let mode = Quote::opening(quote).map_or(ReadMode::Json, ReadMode::Quoted);
    plans.add_in(
        mode,
        out,
        (site.attempt.text.in_offset(out), end),
        "",
        RepairRule::StringSum,
    );
}

/// Reads two or three equal quotes as one: they look like an empty string before another token.
pub(super) fn repeated_quotes(plans: &mut PlanList<'_>) {
    let site = plans.site;
    let Some(token) = site.last_string() else {
        return;
    };
    let start = site.attempt.text.in_offset(token.start);
    let written = site.input.part(start, site.attempt.at);
    let Some(c) = written.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return;
    };
    let is_empty = token.end - token.start == 2 && written.len() == 2 && written.ends_with(c);
    if !is_empty {
        return;
    }
    let count = if site.next == Some(c) { 3 } else { 2 };
    let mode = ReadMode::Quoted(Quote::Repeated(c, count));
    plans.add_in(
        mode,
        token.start,
        (start, start + count),
        "\"",
        RepairRule::Quotes,
    );
    if count == 2 && c == '"' {
        // One of the two is too many.
        plans.add(
            token.start,
            (start, start + 1),
            "",
            RepairRule::StrayQuote,
            0,
        );
    }
}

/// Closes a string at a quote that differs from the opening one. Otherwise the string runs to a
/// later quote or to the end of the text.
pub(super) fn mixed_quotes(plans: &mut PlanList<'_>, token: Token, start: usize, text: &str) {
    let site = plans.site;
    let is_opening =
        |edit: &&Edit| edit.out == token.start && edit.repair.rule == RepairRule::Quotes;
    let opening = site
        .attempt
        .text
        .edits
        .iter()
        .find(is_opening)
        .and_then(|edit| edit.repair.original.chars().next());
    let others: &[char] = match opening {
        Some('\'') => &['\u{2019}', '\u{b4}'],
        Some('\u{2018}' | '\u{b4}' | '`') => &['\''],
        Some('\u{201c}') => &['"', '\u{201c}'],
        Some(_) => &['"'],
        None => return,
    };
    let is_end = |after: &str| after.trim_start().starts_with([',', ':', '}', ']']);
    let places = text
        .match_indices(others)
        .filter(|(at, c)| text.get(at + c.len()..).is_none_or(is_end));
    for (at, c) in places.take(PLACES) {
        let at = start + at;
        plans.add(
            site.attempt.text.out_offset(at),
            (at, at + c.len()),
            "\"",
            RepairRule::Quotes,
            0,
        );
    }
    let (here, at) = site.here();
    if let Some(next) = site
        .next
        .filter(|next| site.attempt.machine.in_string() && others.contains(next))
    {
        plans.add(
            here,
            (at, at + next.len_utf8()),
            "\"",
            RepairRule::Quotes,
            0,
        );
    }
}
