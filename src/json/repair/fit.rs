//! How well a reading fits the text around it: sibling members have the same depth, and lines of
//! one container begin in the same column.

use std::collections::HashMap;

use super::RepairRule;
use super::attempt::RepairAttempt;
use super::content;
use super::guess::CHANGE;
use super::recovery::Quote;
use super::token::{Token, TokenKind};

/// The most contradictions that count: more than one mistake in the counting of brackets makes the
/// rest wrong.
// As much as the cheapest guess: a lost bracket moves every later line and key, so the count of
// contradictions says how long the text is, not how wrong the reading is. Unbounded, a long text
// would prefer any number of guesses to one early bracket.
const MOST: u32 = 8;
/// The cost of a string with an odd number of quotes in it, including a repaired quote.
// As much as the cheapest guess: quotes inside a string come in pairs, so an odd one is itself a
// mistake that the reading leaves unexplained.
const ODD_QUOTES: u32 = 2 * CHANGE;

/// The last column of lines and the last depth of keys in the text before the attempts.
#[derive(Clone, Debug, Default)]
pub(super) struct LayoutContext {
    /// The last column of lines at each depth.
    columns: HashMap<usize, usize>,
    /// The last depth of each key, as written.
    depths: HashMap<String, usize>,
}

/// The most keys remembered: siblings are close to each other.
// Bounds the memory of a text with ever new keys; the depths of the first keys are those of its
// records. Fewer would lose the record's own keys behind those of a header object.
const KEYS: usize = 256;

impl LayoutContext {
    /// Remembers the tokens of `text`, which begins at the offset `origin`.
    pub(super) fn learn(&mut self, tokens: &[Token], text: &str, origin: usize) {
        for token in tokens {
            let Some(start) = token.start.checked_sub(origin) else {
                continue;
            };
            if let Some(column) = text.get(..start).and_then(column) {
                self.columns.insert(token.depth, column);
            }
            let key = text
                .get(start..token.end - origin)
                .filter(|_| token.kind == TokenKind::Key);
            if let Some(key) =
                key.filter(|key| self.depths.len() < KEYS || self.depths.contains_key(*key))
            {
                self.depths.insert(key.to_owned(), token.depth);
            }
        }
    }
}

/// Counts the contradictions between the text of an attempt and the text before it.
pub(super) fn contradictions(attempt: &RepairAttempt, context: &LayoutContext) -> u32 {
    let mut columns: HashMap<usize, usize> = HashMap::new();
    let mut depths: HashMap<&str, usize> = HashMap::new();
    let mut found = 0;
    for token in &attempt.recorder.tokens {
        let Some(start) = token.start.checked_sub(attempt.text.origin) else {
            continue;
        };
        let text = attempt
            .text
            .out
            .get(start..token.end - attempt.text.origin)
            .unwrap_or_default();
        // The text before the attempt sets the column of a depth and the depth of a key; else the
        // first one here does.
        if let Some(column) = column(attempt.text.out.get(..start).unwrap_or_default()) {
            let before = context.columns.get(&token.depth).copied();
            found += u32::from(
                *columns
                    .entry(token.depth)
                    .or_insert(before.unwrap_or(column))
                    != column,
            );
        }
        if token.kind == TokenKind::Key {
            let before = context.depths.get(text).copied();
            found += u32::from(
                *depths.entry(text).or_insert(before.unwrap_or(token.depth)) != token.depth,
            );
        }
    }
    found.min(MOST)
}

/// Returns the column of the next character, if only white space precedes it in its line.
fn column(before: &str) -> Option<usize> {
    let blank = before.len() - before.trim_end_matches([' ', '\t']).len();
    before
        .get(..before.len() - blank)?
        .ends_with('\n')
        .then_some(blank)
}

/// Returns the cost of unpaired quotes inside strings, if one of the quotes was repaired.
pub(super) fn odd_quotes(attempt: &RepairAttempt) -> u32 {
    let inner = |from: usize, to: usize| {
        let mut edits = attempt.text.edits.iter();
        edits.any(|edit| {
            edit.repair.rule == RepairRule::InnerQuote && (from..to).contains(&edit.out)
        })
    };
    let is_odd = |from: usize, to: usize| {
        let from = from.saturating_sub(attempt.text.origin);
        let text = attempt
            .text
            .out
            .get(from..to - attempt.text.origin)
            .unwrap_or_default();
        text.matches("\\\"").count() % 2 == 1
    };
    let machine = &attempt.machine;
    let open = machine
        .in_string()
        .then(|| (machine.token_start(), machine.offset()));
    let strings = attempt
        .recorder
        .tokens
        .iter()
        .filter(|token| token.kind.is_string());
    let strings = strings.map(|token| (token.start, token.end)).chain(open);
    strings
        .filter(|&(start, end)| inner(start, end) && is_odd(start, end))
        .map(|_| ODD_QUOTES)
        .sum()
}

/// Whether a guess turns parsed structure into text: a string that it opened again holds members or
/// elements, a key holds elements, or the guess moved the end of a string or of a container.
pub(super) fn rewrites(attempt: &RepairAttempt) -> bool {
    if moves_closer(attempt) {
        return true;
    }
    let machine = &attempt.machine;
    let kind = if machine.in_key() {
        TokenKind::Key
    } else {
        TokenKind::String
    };
    let open = Token {
        kind,
        start: machine.token_start(),
        end: machine.offset() + 1,
        depth: machine.frames().len(),
    };
    let strings = attempt
        .recorder
        .tokens
        .iter()
        .copied()
        .chain(machine.in_string().then_some(open));
    strings
        .filter(|token| token.kind.is_string())
        .any(|token| rewrites_in(attempt, token))
}

/// Whether guesses close a container that the text closes itself later: all brackets between an
/// added closing bracket and a dropped one are paired. A number or a word between members would
/// become an element.
fn moves_closer(attempt: &RepairAttempt) -> bool {
    let mut tokens = attempt.recorder.tokens.iter().peekable();
    // Closing brackets that were added, with the depths after them, up to the bracket of the text
    // that closes a container around them.
    let mut added: Vec<(usize, &str)> = Vec::new();
    let mut depth = 0;
    for edit in attempt
        .text
        .edits
        .iter()
        .filter(|edit| edit.guess.is_some())
    {
        while let Some(token) = tokens.next_if(|token| token.end <= edit.out) {
            depth = token.depth + usize::from(token.kind == TokenKind::Open);
            while added.last().is_some_and(|last| last.0 > depth) {
                added.pop();
            }
        }
        match edit.repair.rule {
            RepairRule::MissingCloser => {
                while let Some(token) = tokens.next_if(|token| token.end <= edit.out_end()) {
                    depth = token.depth;
                }
                added.push((depth, &edit.repair.replacement));
            }
            RepairRule::ExtraCloser if added.last().is_some_and(|last| last.0 == depth) => {
                return true;
            }
            // The bracket fits the container that was closed before it.
            RepairRule::WrongCloser
                if added.last().is_some_and(|last| {
                    last.0 == depth && last.1.ends_with(&edit.repair.original)
                }) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

fn rewrites_in(attempt: &RepairAttempt, token: Token) -> bool {
    let Some(text) = attempt.text.content(token) else {
        return false;
    };
    let edits = || attempt.text.edits_in(token);
    if token.kind == TokenKind::Key && text.starts_with("\\\"") && edits().next().is_some() {
        // The quotes before a key do not belong to it.
        return true;
    }
    let swallows = |quote| content::swallows(text, quote) || content::ends_at_joint(text, quote);
    let opening = edits()
        .next()
        .filter(|edit| edit.out == token.start && edit.repair.rule == RepairRule::Quotes);
    if let Some(written) = opening.map(|edit| edit.repair.original.as_str()) {
        // Opening such a quote again leaves no edit, so every closing quote in the string counts.
        // Triple quotes may enclose any text.
        let quote = written.chars().next().and_then(Quote::opening);
        return match written.chars().count() {
            1 => swallows(quote) || swallows(None),
            2 => swallows(None) || content::joints(text) > 0,
            _ => false,
        };
    }
    let is_escaped = edits().next().is_some_and(|edit| {
        edit.out == token.start && edit.repair.rule == RepairRule::EscapedQuotes
    });
    if is_escaped && text.matches("\\\"").count() % 2 == 1 {
        // One of the quotes is that of another string.
        return true;
    }
    let opened = edits()
        .filter(|edit| edit.repair.rule == RepairRule::InnerQuote)
        .count();
    if opened == 0 {
        return false;
    }
    // Quotes come in pairs, so an odd number moves the end of the string.
    let is_odd = opened % 2 == 1;
    let is_moved = is_odd
        && edits().any(|edit| {
            matches!(
                edit.repair.rule,
                RepairRule::OpenString | RepairRule::KeyQuote
            )
        });
    let holds_elements = || {
        token.kind == TokenKind::Key
            && (content::joints(text) > 0 || content::crosses_separator(text))
    };
    let is_open = attempt.machine.in_string() && attempt.machine.token_start() == token.start;
    is_moved
        || is_odd && (content::ends_with_comma(text) || ends_inside_brackets(attempt, token, text))
        || is_open && content::ends_with_closer(text)
        || holds_elements()
        || content::parts_strings(text)
        || swallows(None)
}

/// Whether the quote that closes a string is inside brackets that the string opens: the bracket
/// after the quote belongs to the string, too.
fn ends_inside_brackets(attempt: &RepairAttempt, token: Token, text: &str) -> bool {
    let after = attempt.text.after(token.end);
    after.trim_ascii_start().starts_with(['}', ']']) && content::leaves_open(text)
}

/// Whether the last string of an attempt ends inside brackets that it opens, and has an odd number
/// of quotes: its closing quote is the second one of a pair inside the string.
pub(super) fn ends_inside(attempt: &RepairAttempt) -> bool {
    let last = attempt
        .recorder
        .tokens
        .iter()
        .rev()
        .find(|token| token.kind.is_string());
    last.is_some_and(|&token| {
        let Some(text) = attempt.text.content(token) else {
            return false;
        };
        let edits = attempt.text.edits_in(token);
        let opened = edits
            .filter(|edit| edit.repair.rule == RepairRule::InnerQuote)
            .count();
        opened % 2 == 1 && ends_inside_brackets(attempt, token, text)
    })
}

/// Returns the cost of strings that seem to hold structure: a key with a member or a line in it,
/// and repaired quotes around a comma, which look like the end of one string and the start of the
/// next.
pub(super) fn texts(attempt: &RepairAttempt) -> u32 {
    let mut cost = 0;
    for token in attempt
        .recorder
        .tokens
        .iter()
        .filter(|token| token.kind.is_string())
    {
        let Some(text) = attempt.text.content(*token) else {
            continue;
        };
        let is_repaired = || {
            let mut edits = attempt.text.edits_in(*token);
            edits.any(|edit| edit.repair.rule == RepairRule::InnerQuote)
        };
        if token.kind == TokenKind::Key {
            cost += content::in_key(text) * CHANGE;
        } else if text.contains("\\\"") && is_repaired() {
            cost += content::joints(text) * CHANGE;
        }
    }
    cost
}
