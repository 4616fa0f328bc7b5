//! The text that models write around a fragment.

use super::ceil_char_boundary;
use super::index::Site;
use super::random::Random;

/// Puts a text in a code fence.
pub(super) fn fence(text: &str, random: &mut Random) -> String {
    format!("{}{text}\n```", random.pick(&FENCES))
}

/// Puts a text in a code fence that is never closed.
pub(super) fn fence_open(text: &str, random: &mut Random) -> String {
    format!("{}{text}", random.pick(&FENCES))
}

/// Puts a text in a code fence inside another one.
pub(super) fn fence_nested(text: &str) -> String {
    format!("```markdown\n```json\n{text}\n```\n```")
}

/// Puts a sentence without brackets and quotes before a text.
pub(super) fn preamble(text: &str, random: &mut Random) -> String {
    format!("{}{text}", random.pick(&PREAMBLES))
}

/// Puts a sentence that quotes some JSON before a text, with a key of the document if there is one.
pub(super) fn preamble_quotes(text: &str, site: &Site<'_>, random: &mut Random) -> String {
    let key = site
        .open
        .iter()
        .rev()
        .find_map(|&node| site.nodes[node].key);
    let key = key.map_or("\"items\"", |key| site.text(key));
    match random.below(3) {
        0 => format!("I continue after {key} in {{\"id\":1}}:\n{text}"),
        1 => format!("The list [1, 2] of {key} goes on from where it was cut, at `{{`:\n\n{text}"),
        _ => format!("You have {{{key}: …}} so far, here is the \"rest\":\n{text}"),
    }
}

/// Puts prose with brackets and a code fence after a text.
pub(super) fn epilogue(text: &str, random: &mut Random) -> String {
    format!("{text}{}", random.pick(&EPILOGUES))
}

/// Puts reasoning before a text that has brackets, quotes and a part of the document.
pub(super) fn think(text: &str, site: &Site<'_>, random: &mut Random) -> String {
    let delivered = site.delivered();
    let from = delivered.len().saturating_sub(10 + random.below(60));
    let piece = &delivered[ceil_char_boundary(delivered, from)..];
    let thought = match random.below(3) {
        0 => format!("The text stops at {piece} and then [the rest] is due."),
        1 => format!(
            "So {{\"a\": [1, 2]}} is the shape. I have\n{piece}\nand must not repeat \"too much\"."
        ),
        _ => format!(
            "They want what follows.\n\n{piece}\n\nThat is open: a quote \", a brace }}, a bracket ]."
        ),
    };
    format!("<think>\n{thought}\n</think>\n\n{text}")
}

/// Puts a line with the delivered percentage before a text.
pub(super) fn progress(text: &str, site: &Site<'_>) -> String {
    format!(
        "PROGRESS: {}\n{text}",
        site.cut.offset * 100 / site.cut.document.len()
    )
}

const FENCES: [&str; 3] = ["```json\n", "```\n", "```JSON\n"];

const PREAMBLES: [&str; 4] = [
    "Sure, here is the rest:\n\n",
    "Continuing from where it was cut off:\n",
    "Here is the remaining part of the document.\n\n",
    "Certainly! I will go on now.\n",
];

const EPILOGUES: [&str; 3] = [
    "\n\nThat is all. See [1] and {note} for more.",
    "\n\nThe document is complete now. An example of its use:\n\n```json\n{\"a\": [1]}\n```\n",
    "\n\n[1] The values of {…} are estimates, \"more or less\".\n```\n[]\n```",
];
