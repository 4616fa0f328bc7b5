//! The content of a step's answer: its text, its lead, and its end.
//!
//! Knows no API: [`wire`](super::wire) writes the parts.

use super::call::Continuation;
use super::continued::continued;
use super::script::{AnswerEnd, Behaviour, Lead, Step};
use super::style::index::nodes;
use super::tool::Tool;
use super::wire::{Finish, Part};

/// An answer's text and its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    /// The reasoning, text and call before the text.
    pub(super) lead: Lead,
    /// The tool whose arguments the text is; `None` if it is text.
    pub(super) tool: Option<Tool>,
    /// The text reaches the end of the document.
    pub(super) is_whole: bool,
    pub(super) end: AnswerEnd,
    /// The finish reason that belongs to the end, if one is sent.
    pub(super) finish: Option<Finish>,
}

impl Answer {
    /// Returns the answer for `step`. A style that does not apply at the cut is answered as
    /// `anchor`.
    pub(super) fn new(step: &Step, document: &str, continuation: Option<&Continuation>) -> Self {
        if let Behaviour::Style(style) = step.behaviour {
            return match continuation.and_then(|c| continued(style, step.bytes, document, c)) {
                Some((text, stops)) => Self::ending(step, text, stops),
                None => Self::new(&step.with(Behaviour::Anchor), document, continuation),
            };
        }
        let rest = continuation.map_or(document, |c| &document[c.position..]);
        let mut whole = false;
        let text = match (
            step.behaviour,
            envelope(step.behaviour, continuation.is_none()),
        ) {
            (behaviour, Some((before, after))) => {
                let garbage = behaviour == Behaviour::Garbage;
                let limit = if garbage {
                    GOOD_BYTES.min(rest.len().saturating_sub(1))
                } else {
                    rest.len()
                };
                let delivered = floor_char_boundary(rest, step.bytes.unwrap_or(limit));
                whole = delivered == rest.len();
                let mut text = before.concat();
                if behaviour == Behaviour::Progress {
                    text = format!(
                        "PROGRESS: {}\n",
                        (document.len() - rest.len()) * 100 / document.len().max(1)
                    );
                }
                if let Some(c) = continuation.filter(|_| behaviour != Behaviour::Exact) {
                    text.push_str(&c.anchor);
                    text.push_str(&c.gap);
                }
                text.push_str(&rest[..delivered]);
                if whole || garbage {
                    text.push_str(after);
                }
                text
            }
            (Behaviour::Repeat, None) => {
                debug_assert!(
                    continuation.is_some(),
                    "a script has no `repeat` as a first answer"
                );
                continuation
                    .map(|c| c.delivered.clone())
                    .unwrap_or_default()
            }
            (Behaviour::Prose, None) => PROSE.to_owned(),
            (Behaviour::Refusal, None) => REFUSAL.to_owned(),
            (_, None) => String::new(),
        };
        // A behaviour that deliberately delivers no text of the document is finished; a repeat was
        // cut again.
        let stops = whole
            || matches!(
                step.behaviour,
                Behaviour::Prose | Behaviour::Refusal | Behaviour::Empty
            );
        Self::ending(step, text, stops)
    }

    /// Adds the step's end, or the usual one: `stop` if the text is complete, else `length`.
    fn ending(step: &Step, text: String, stops: bool) -> Self {
        let usual = match step.behaviour {
            _ if !stops => AnswerEnd::Length,
            Behaviour::Tool => AnswerEnd::Tool,
            _ => AnswerEnd::Stop,
        };
        let end = match step.behaviour {
            Behaviour::Drop => AnswerEnd::Drop,
            _ => step.end.unwrap_or(usual),
        };
        let sent = match end {
            AnswerEnd::Reset(_) => usual,
            end => end,
        };
        let finish = match sent {
            AnswerEnd::Length => Some(Finish::Length),
            AnswerEnd::Stop => Some(Finish::Stop),
            AnswerEnd::Filter => Some(Finish::Filter),
            AnswerEnd::Tool => Some(Finish::Tool),
            _ => None,
        };
        let lead = Lead {
            reasoning: step.lead.reasoning || step.behaviour == Behaviour::Reasoning,
            ..step.lead
        };
        Self {
            text,
            lead,
            tool: None,
            is_whole: stops,
            end,
            finish,
        }
    }

    /// Makes the text the arguments of a call of this tool.
    pub(super) fn call(&mut self, tool: &Tool) {
        self.tool = Some(tool.clone());
    }

    /// Returns the answer to a request for the rest that has a grammar, also that of a
    /// custom tool: exactly the rest, whatever the step's style is.
    pub(super) fn forced(
        step: &Step,
        document: &str,
        continuation: &Continuation,
        tool: Option<&Tool>,
    ) -> Self {
        let step = step.with(Behaviour::Anchor);
        let mut answer = Self::new(&step, document, Some(continuation));
        if let Some(tool) = tool {
            answer.call(tool);
            if answer.finish == Some(Finish::Stop) {
                answer.finish = Some(Finish::Tool);
            }
        }
        answer
    }

    /// Returns the answer to a question for the parts that are missing: an object with them, up to
    /// the step's number of bytes.
    pub(super) fn members(step: &Step, mut text: String) -> Self {
        let length = floor_char_boundary(&text, step.bytes.unwrap_or(text.len()));
        let is_whole = length == text.len();
        text.truncate(length);
        Self::ending(&step.with(Behaviour::Exact), text, is_whole)
    }

    /// Takes away the value in which arguments were cut, like a provider that sends only whole
    /// values.
    pub(super) fn keep_whole_members(&mut self, document: &str) {
        if self.tool.is_some() && !self.is_whole {
            self.text
                .truncate(end_of_last_member(document, self.text.len()));
        }
    }

    /// Returns the parts of the answer, in order. An empty text is not a part; a call without
    /// arguments is one.
    pub(super) fn into_parts(self) -> Vec<Part> {
        let Self {
            text,
            lead,
            tool,
            is_whole,
            ..
        } = self;
        let mut parts = Vec::new();
        if lead.reasoning {
            parts.push(Part::Reasoning(REASONING.to_owned()));
        }
        let Some(tool) = tool else {
            parts.extend((!text.is_empty()).then_some(Part::Text(text)));
            return parts;
        };
        if lead.text {
            parts.push(Part::Text(LEAD_TEXT.to_owned()));
        }
        if lead.call {
            parts.push(Part::Call {
                tool: tool.name.clone(),
                arguments: LEAD_ARGUMENTS.to_owned(),
                is_whole: true,
                is_custom: tool.is_custom,
            });
        }
        parts.push(Part::Call {
            tool: tool.name,
            arguments: text,
            is_whole,
            is_custom: tool.is_custom,
        });
        parts
    }
}

/// Returns the text before the document's, and the text after it where the document ends; `None`
/// for behaviours that have no such text.
fn envelope(behaviour: Behaviour, first: bool) -> Option<(&'static [&'static str], &'static str)> {
    Some(match behaviour {
        Behaviour::Answer
        | Behaviour::Tool
        | Behaviour::Anchor
        | Behaviour::Exact
        | Behaviour::Progress => (&[], ""),
        Behaviour::Fence => (&[FENCE], FENCE_END),
        Behaviour::FenceOpen => (&[FENCE], ""),
        Behaviour::Preamble if first => (&[PREAMBLE, FENCE], FENCE_END),
        Behaviour::Preamble => (&[PREAMBLE_THEN], ""),
        Behaviour::PreambleFence => (&[PREAMBLE_THEN, FENCE], FENCE_END),
        Behaviour::Epilogue => (&[], EPILOGUE),
        Behaviour::Garbage => (&[], GARBAGE),
        _ => return None,
    })
}

/// Returns the end of the last member of the root that has its comma in the first `at` bytes; 0 if
/// no member has.
fn end_of_last_member(document: &str, at: usize) -> usize {
    let nodes = nodes(document).unwrap_or_default();
    let children = nodes.first().map_or(&[][..], |root| &root.children);
    let ends = children.iter().map(|&child| nodes[child].span.end);
    let has_comma = |end: &usize| {
        let comma = document[*end..].find(',');
        comma.is_some_and(|comma| end + comma < at)
    };
    ends.take_while(has_comma).last().unwrap_or(0)
}

/// Returns the largest offset up to `at` where a character of `text` begins, or the length of
/// `text`.
pub(super) fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

const FENCE: &str = "```json\n";
const FENCE_END: &str = "\n```";

// These texts have no `{` and no `[`: the first opener in the text that a client sends back must be
// that of the root.
const PREAMBLE: &str = "Here is the document you asked for:\n\n";
const PREAMBLE_THEN: &str = "Sure, here is the rest:\n\n";
const EPILOGUE: &str = "\n\nLet me know if you need anything else.";
const PROSE: &str = "A document needs a purpose first.\nWhat is it for, and who will read it?";
const REASONING: &str =
    "A document. Where does it begin, and what does it need? There is much to consider.";
/// The text before a call.
const LEAD_TEXT: &str = "I'll write the file.";
/// The arguments of the whole call before the one whose arguments are the document.
const LEAD_ARGUMENTS: &str = r#"{"first": true}"#;
const REFUSAL: &str = "I'm sorry, but I can't help with that.";

/// A control character is illegal in every state of the grammar, also in a string and directly
/// after a number, so exactly the text before it was delivered.
const GARBAGE: &str = "\u{1}<<< lost the thread >>>";

/// Bytes before the garbage if the step names no number: more than the rest of a token, less than a
/// delta.
const GOOD_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_whole_before_its_comma() {
        let document = r#"{"a": "x,\"," , "b": [1, 2], "c": 3}"#;
        let cases = [
            (0, 0),
            (13, 0),
            (14, 0),
            (15, 13),
            (20, 13),
            (27, 13),
            (28, 27),
            (34, 27),
        ];
        for (at, end) in cases {
            assert_eq!(
                end_of_last_member(document, at),
                end,
                "{at}: {:?}",
                &document[..at]
            );
        }
    }
}
