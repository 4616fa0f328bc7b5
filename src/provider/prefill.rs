//! The beginning of an answer at the end of a request: the assistant's text in its last message, or
//! an open root at the end of a prompt.

use super::fields::{is_true, text, word};
use super::wire::Rest;
use crate::json::Machine;
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, ValueKind};

/// Returns the text of the last message, if `role` wrote it and it ends with text. `content` is the
/// name of its member.
pub(super) fn last_text(messages: Raw<'_>, role: &str, content: &str) -> Option<String> {
    text_by(messages.elements().last()?, role, content)
}

/// Returns the text of a message, if `role` wrote it and it ends with text.
pub(super) fn text_by(message: Raw<'_>, role: &str, content: &str) -> Option<String> {
    text_of(content_of(message, role, content)?)
}

/// Returns the content of a message of a role.
fn content_of<'a>(message: Raw<'a>, role: &str, content: &str) -> Option<Raw<'a>> {
    message
        .member(content)
        .filter(|_| word(message.member("role")).is_some_and(|own| own == role))
}

/// Returns the text of a content: a string, or the joined blocks, if the last block has text.
fn text_of(content: Raw<'_>) -> Option<String> {
    if content.kind() != ValueKind::Array {
        return text(Some(content)).map(|text| text.into_owned());
    }
    content.elements().last().filter(is_text)?;
    content
        .elements()
        .filter(is_text)
        .map(|block| text(block.member("text")))
        .collect()
}

/// Returns whether a block is text of the answer. Gemini marks reasoning with `thought`.
fn is_text(block: &Raw<'_>) -> bool {
    block
        .member("text")
        .is_some_and(|text| text.inner().is_some())
        && !is_true(block.member("thought"))
}

/// Appends the turns that ask for the rest; `turn` writes one from its role and text. With
/// `replaces_prefill` the delivered text becomes part of the last message, the assistant's. Leaves
/// out blank text, because APIs refuse an empty message.
pub(super) fn append(
    messages: Raw<'_>,
    rest: &Rest<'_>,
    (assistant, content): (&str, &str),
    replaces_prefill: bool,
    edits: &mut Edits,
    turn: impl Fn(&str, &str) -> String,
) {
    let (delivered, prompt) = match rest {
        Rest::Reprompt { delivered, prompt } => (delivered, Some(prompt)),
        Rest::Prefill { delivered, .. } => (delivered, None),
    };
    let last = messages.elements().last().filter(|_| replaces_prefill);
    let mut added = Vec::new();
    match last.and_then(|last| content_of(last, assistant, content)) {
        Some(content) => edits.replace(content, &with_text(content, delivered)),
        None if delivered.trim().is_empty() && prompt.is_some() => {}
        None => added.push(turn(assistant, delivered)),
    }
    added.extend(prompt.map(|prompt| turn("user", prompt)));
    if !added.is_empty() {
        edits.append(messages, &added.join(","));
    }
}

/// Returns a content with its text replaced. The last text block keeps its other members; earlier
/// text blocks are removed.
pub(super) fn with_text(content: Raw<'_>, text: &str) -> String {
    if content.kind() != ValueKind::Array {
        return quoted(text);
    }
    let last = content
        .elements()
        .filter(is_text)
        .last()
        .map(|block| block.offset());
    let mut blocks = Vec::new();
    for block in content.elements() {
        if !is_text(&block) {
            blocks.push(block.as_str().to_owned());
        } else if Some(block.offset()) == last
            && let Some(own) = Raw::root(block.as_str())
        {
            let mut edits = Edits::default();
            edits.object(own, &[], &[("text", &quoted(text))]);
            blocks.push(edits.apply(block.as_str()));
        }
    }
    format!("[{}]", blocks.join(","))
}

/// Returns the root that is open at the end of a prompt: the longest suffix that is an unfinished
/// root.
///
/// ```text
/// List three ports as JSON: {"ports": [      ─▶  {"ports": [
/// ```
pub(super) fn open_root(prompt: &str) -> Option<&str> {
    let bytes = prompt.as_bytes();
    let mut left = bytes.len().saturating_mul(PASSES);
    let mut at = 0;
    while let Some(found) = bytes
        .get(at..)
        .and_then(|rest| memchr::memchr2(b'{', b'[', rest))
    {
        let start = at + found;
        let rest = bytes.get(start..)?;
        let mut machine = Machine::new(MAX_DEPTH);
        match machine.feed(rest) {
            Ok(_) if !machine.is_done() => return prompt.get(start..),
            // A bracket inside a whole value doesn't begin a root.
            Ok(_) => at = start + machine.offset().max(1),
            Err(error) => {
                left = left.checked_sub(error.offset.min(rest.len()))?;
                at = start + 1;
            }
        }
    }
    None
}

/// How many times the search for an open root may read a prompt. At most brackets, the first bytes
/// show that no JSON begins; only a prompt full of such brackets needs more.
const PASSES: usize = 8;

/// The most open containers of a root at the end of a prompt.
const MAX_DEPTH: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_ends_in_its_longest_open_root() {
        for (prompt, root) in [
            ("List ports: {\"ports\": [", Some("{\"ports\": [")),
            (
                "Like {\"a\": [1]} or [2], please: {\"b\": \"x [",
                Some("{\"b\": \"x ["),
            ),
            (
                "See [the page] and {braces}: [1, {\"a\": t",
                Some("[1, {\"a\": t"),
            ),
            ("Whole: {\"a\": 1}", None),
            ("No JSON {at all", None),
            ("", None),
        ] {
            assert_eq!(open_root(prompt), root, "{prompt}");
        }
        // The search is bounded.
        assert_eq!(open_root(&format!("{}x", "[".repeat(100_000))), None);
    }

    #[test]
    fn the_last_text_of_a_content_is_replaced() {
        let content =
            r#"[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b","cache":1}]"#;
        let root = Raw::root(content).unwrap();
        assert_eq!(text_of(root).as_deref(), Some("ab"));
        assert_eq!(
            with_text(root, "c\""),
            r#"[{"type":"image"},{"type":"text","text":"c\"","cache":1}]"#
        );
        assert_eq!(
            text_of(Raw::root(r#"[{"text":"a"},{"type":"tool_use"}]"#).unwrap()),
            None
        );
        assert_eq!(with_text(Raw::root("\"a\"").unwrap(), "b"), "\"b\"");
    }
}
