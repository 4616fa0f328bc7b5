//! Ollama's own API: one JSON object a line.

use serde_json::{Value, json};

use super::text::{self, object, plain, quoted};
use super::{Finish, Message, Moment, Part, Problem, Turns, Wire, completions};

/// Ollama's two endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ollama {
    /// `/api/chat`: messages.
    Chat,
    /// `/api/generate`: a prompt. Has no tools.
    Generate,
}

impl Wire for Ollama {
    fn takes(&self, path: &str, _query: &str) -> bool {
        path.ends_with(if *self == Self::Chat {
            "/api/chat"
        } else {
            "/api/generate"
        })
    }

    fn turns(&self, body: &Value, document: &str) -> Option<Turns> {
        if *self == Self::Chat {
            return text::messages(body).map(Turns::from);
        }
        let prompt = body.get("prompt")?.as_str()?;
        Some(asked(prompt, document).unwrap_or_else(|| completions::continued(prompt, document)))
    }

    fn member(&self) -> &'static str {
        if *self == Self::Chat {
            "messages"
        } else {
            "prompt"
        }
    }

    /// A stream is the default.
    fn streams(&self, body: &Value) -> bool {
        body.get("stream").and_then(Value::as_bool).unwrap_or(true)
    }

    fn has_tools(&self) -> bool {
        *self == Self::Chat
    }

    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn write(&self, moment: Moment<'_>, message: &Message, out: &mut Vec<String>) {
        match moment {
            Moment::Delta { part, text, .. } => match message.parts.get(part) {
                Some(Part::Reasoning(_)) => out.push(self.line(message, "", text, "")),
                Some(Part::Text(_)) => out.push(self.line(message, text, "", "")),
                _ => {}
            },
            Moment::Close(at) => {
                let calls = calls(message.parts.get(at..=at).unwrap_or_default());
                if !calls.is_empty() {
                    out.push(self.line(message, "", "", &calls));
                }
            }
            Moment::Finish | Moment::Done => {
                out.push(format!("{}\n", self.last(message, "", "", "")));
            }
            Moment::Error => out.push(format!("{}\n", self.error(&Problem::UPSTREAM))),
            Moment::Start | Moment::Open(_) => {}
        }
    }

    fn body(&self, message: &Message) -> String {
        let text = message.joined(|part| matches!(part, Part::Text(_)));
        let reasoning = message.joined(|part| matches!(part, Part::Reasoning(_)));
        self.last(message, &text, &reasoning, &calls(&message.parts))
    }

    fn error(&self, problem: &Problem<'_>) -> String {
        json!({"error": problem.message}).to_string()
    }
}

impl Ollama {
    fn line(self, message: &Message, text: &str, reasoning: &str, calls: &str) -> String {
        format!(
            "{},\"done\":false}}\n",
            self.open(message, text, reasoning, calls)
        )
    }

    /// Returns the object that ends an answer, open or whole.
    fn last(self, message: &Message, text: &str, reasoning: &str, calls: &str) -> String {
        let reason = message.finish.map_or("", |finish| match finish {
            Finish::Length => r#","done_reason":"length""#,
            Finish::Stop | Finish::Filter | Finish::Tool => r#","done_reason":"stop""#,
        });
        format!(
            r#"{},"done":true{reason},"total_duration":499049129,"load_duration":1049129,"prompt_eval_count":{},"prompt_eval_duration":98000000,"eval_count":{},"eval_duration":400000000}}"#,
            self.open(message, text, reasoning, calls),
            message.prompt_tokens,
            message.completion_tokens(),
        )
    }

    /// Returns the members up to the content.
    fn open(self, message: &Message, text: &str, reasoning: &str, calls: &str) -> String {
        let reasoning = if reasoning.is_empty() {
            String::new()
        } else {
            format!(r#","thinking":{}"#, quoted(reasoning))
        };
        let calls = if calls.is_empty() {
            String::new()
        } else {
            format!(r#","tool_calls":[{calls}]"#)
        };
        let text = quoted(text);
        let content = match self {
            Self::Chat => {
                format!(r#""message":{{"role":"assistant","content":{text}{reasoning}{calls}}}"#)
            }
            Self::Generate => format!(r#""response":{text}{reasoning}"#),
        };
        let (model, sent) = (quoted(&message.model), message.sent);
        let seconds = message.number % 60;
        format!(
            r#"{{"model":{model},"created_at":"2025-06-15T15:06:{seconds:02}.{sent:09}Z",{content}"#
        )
    }
}

/// Returns the calls among `parts` that are whole.
fn calls(parts: &[Part]) -> String {
    let call = |part: &Part| match part {
        Part::Call {
            tool,
            arguments,
            is_whole,
            ..
        } => {
            let arguments = object(arguments, *is_whole)?;
            Some(format!(
                r#"{{"function":{{"name":{},"arguments":{arguments}}}}}"#,
                quoted(tool)
            ))
        }
        _ => None,
    };
    parts.iter().filter_map(call).collect::<Vec<_>>().join(",")
}

/// Returns, if a prompt has a question with tags, the prompt before the delivered text, that text,
/// and the question. An empty line separates the last two.
fn asked(prompt: &str, document: &str) -> Option<Turns> {
    let tags = prompt.find("<overlap_context")?;
    let first = document.trim_start().chars().next()?;
    let common = |at: usize| {
        prompt
            .bytes()
            .skip(at)
            .zip(document.trim_start().bytes())
            .take_while(|(a, b)| a == b)
            .count()
    };
    let starts = prompt
        .match_indices(first)
        .map(|(at, _)| (common(at), at))
        .filter(|(_, at)| *at < tags);
    // The first of equally long matches counts, because the question may show the start of the
    // document, too.
    let (length, begin) = starts.fold(
        (0, 0),
        |best, other| if other.0 > best.0 { other } else { best },
    );
    let ends = || {
        (begin..=begin + length)
            .rev()
            .filter(|end| prompt.is_char_boundary(*end))
    };
    // The line break of the separator may also be one that follows in the document.
    let is_separated = |end: &usize| {
        prompt
            .get(*end..)
            .is_some_and(|rest| rest.starts_with("\n\n"))
    };
    let end = ends().find(is_separated).or_else(|| ends().next())?;
    let (before, delivered, question) = (
        prompt.get(..begin)?,
        prompt.get(begin..end)?,
        prompt.get(end..)?,
    );
    Some(
        vec![
            plain("user", before),
            plain("assistant", delivered),
            plain("user", question),
        ]
        .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_the_delivered_text_before_its_question() {
        let document = "{\n  \"a\": 1,\n  \"b\": 2\n}";
        for cut in 1..document.len() {
            let delivered = &document[..cut];
            let prompt = format!(
                "Go.\n{delivered}\n\nIt begins with {{.\n<overlap_context>\nx\n</overlap_context>"
            );
            let turns = asked(&prompt, document).unwrap();
            assert_eq!(turns.messages[0], plain("user", "Go.\n"), "{cut}");
            assert_eq!(turns.messages[1], plain("assistant", delivered), "{cut}");
        }
        assert!(asked("Go.", document).is_none());
    }
}
