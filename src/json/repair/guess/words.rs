//! Guesses about words: keys and values without quotes, or without the first one.

use super::super::RepairRule;
use super::super::attempt::ReadMode;
use super::super::content::{self, structure};
use super::super::recovery::Quote;
use super::super::token::TokenKind;
use super::PlanList;
use crate::json::grammar::GrammarState;
use crate::json::stack::Kind;
use crate::json::string::quoted;
use crate::json::walk;

/// The most characters of a key without quotes.
// Chosen: names in code are shorter. A sentence before a colon must not become a key: with twice as
// many characters, `Note: the rows below: [` begins to look like one.
const KEY: usize = 64;

/// Keys and values without quotes, or without the first one.
pub(super) fn words(plans: &mut PlanList<'_>) {
    let site = plans.site;
    let state = site.state;
    let (mut out, mut at) = site.here();
    let is_after = matches!(
        state,
        GrammarState::AfterElement | GrammarState::AfterMember
    );
    let in_scalar = state.in_token() && !state.in_string();
    if in_scalar {
        out = site.attempt.machine.token_start();
    } else if is_after && site.next.is_some_and(char::is_alphanumeric) {
        let Some(last) = site.last_token(TokenKind::Scalar) else {
            return;
        };
        out = last.start;
    } else if !(state.takes_value() || state.takes_key()) {
        return;
    }
    if out < site.attempt.text.origin {
        return;
    }
    at = at.min(site.attempt.text.in_offset(out));
    let rest = site.input.rest(at);
    if rest.starts_with('\\') {
        return escaped_quotes(plans, out, at, rest);
    }
    let is_key = state.takes_key();
    let Some((word, after)) = word(plans, at, is_key) else {
        return;
    };
    let is_quoted = after.starts_with('"') && !word.ends_with(char::is_whitespace);
    let word = word.trim_end();
    let mut chars = word.chars();
    let starts = !word.starts_with("..")
        && chars
            .next()
            .is_some_and(|c| !matches!(c, ':' | '\'' | '*' | ';' | ')' | '(' | '=' | '>' | '|'));
    if !starts || is_prefixed(word) || after.starts_with(['{', '[']) {
        return;
    }
    let by = quoted_word(word);
    let end = at + word.len();
    if !is_key && after.starts_with(',') {
        words_with_commas(plans, out, at);
    }
    match (is_key, is_quoted) {
        (_, true) => plans.add(out, (at, end + 1), &by, RepairRule::MissingQuote, 0),
        (true, false)
            if after.trim_ascii_start().starts_with(':') && word.chars().count() <= KEY =>
        {
            plans.add(out, (at, end), &by, RepairRule::BareKey, 0);
        }
        // A quote in the same line belongs to the value, unless it begins a key. The value is
        // unknown then.
        (false, false) if !after.starts_with('"') || is_before_key(plans, at, word, after) => {
            plans.add(
                out,
                (at, end),
                &by,
                RepairRule::BareWord,
                u32::from(is_after),
            );
        }
        _ => {}
    }
}

/// Whether a word at `at` is all of its value, and the quote after it begins a key.
fn is_before_key(plans: &mut PlanList<'_>, at: usize, word: &str, after: &str) -> bool {
    let site = plans.site;
    let found = content::is_key(after);
    plans.waits |= found.is_none() && !site.input.is_end && !site.ahead(at).1;
    found == Some(true) && word.ends_with(char::is_alphanumeric)
}

/// A value of a member whose text has commas, without the first quote: `"to": Vigo, Leith",`.
fn words_with_commas(plans: &mut PlanList<'_>, out: usize, at: usize) {
    let site = plans.site;
    if site
        .attempt
        .machine
        .frames()
        .last()
        .is_none_or(|top| top.kind != Kind::Object)
    {
        return;
    }
    let (rest, is_cut) = site.ahead(at);
    let is_over = site.input.is_end && !is_cut;
    let Some(end) = rest.find(['"', '\n', '{', '}', '[', ']', '\\']) else {
        plans.waits |= !is_cut && !is_over;
        return;
    };
    let (text, after) = rest.split_at(end);
    let Some(after) = after.strip_prefix('"').map(str::trim_ascii_start) else {
        return;
    };
    plans.waits |= after.is_empty() && !is_cut && !is_over;
    let ends_text = text.ends_with(|c: char| !c.is_whitespace() && !matches!(c, ',' | ':'));
    if ends_text && (after.starts_with([',', '}']) || after.is_empty() && is_over) {
        plans.add(
            out,
            (at, at + end + 1),
            &quoted(text),
            RepairRule::MissingQuote,
            structure(text),
        );
    }
}

/// Returns the word that begins at `at`, and the text after it in the look-ahead. `None` if the
/// look-ahead has no end of the word, or not the token after a key that ends a line. Also
/// `None` while more text may still bring that.
fn word<'a>(plans: &mut PlanList<'a>, at: usize, is_key: bool) -> Option<(&'a str, &'a str)> {
    let site = plans.site;
    let input = site.input;
    let (rest, is_cut) = site.ahead(at);
    let ends =
        |c: char| matches!(c, '"' | ',' | '}' | ']' | '{' | '[' | '\n') || is_key && c == ':';
    let (word, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
    if after.is_empty() || is_key && after.trim_ascii_start().is_empty() {
        plans.waits |= !is_cut && !input.is_end;
        if is_cut || !input.is_end {
            return None;
        }
    }
    Some((word, after))
}

/// A string between `\"` and `\"`.
fn escaped_quotes(plans: &mut PlanList<'_>, out: usize, at: usize, rest: &str) {
    let site = plans.site;
    if rest.len() < 2 && !site.input.is_end {
        plans.waits = true;
    } else if rest.starts_with("\\\"") {
        plans.add_in(
            ReadMode::Quoted(Quote::Escaped),
            out,
            (at, at + 2),
            "\"",
            RepairRule::EscapedQuotes,
        );
    }
}

/// Returns a word in quotes. If each of its backslashes begins an escape, the word is escaped
/// already, as in a string.
fn quoted_word(word: &str) -> String {
    let string = format!("\"{word}\"");
    if walk::is_valid(&string) {
        string
    } else {
        quoted(word)
    }
}

/// Whether a word is a Python string with a prefix, as `u'a'`: its quotes do not belong to its
/// text.
fn is_prefixed(word: &str) -> bool {
    let quoted = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    word.len() - quoted.len() <= PREFIX
        && quoted.len() > 1
        && quoted.starts_with('\'')
        && quoted.ends_with('\'')
}

/// The most letters of such a prefix.
// Python has `b`, `f`, `r`, `u` and pairs of them, such as `rb`.
const PREFIX: usize = 2;
