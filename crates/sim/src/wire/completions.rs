//! OpenAI's legacy Completions: a prompt, and the text that follows it.

use serde_json::Value;

use super::text::{data, delivered, plain, quoted};
use super::{Finish, Message, Moment, Part, Problem, Turns, Wire, chat};

/// The API has no tools, and no reasoning.
#[derive(Debug)]
pub(super) struct Completions;

impl Wire for Completions {
    fn takes(&self, path: &str, _query: &str) -> bool {
        path.ends_with("/completions")
    }

    /// The end of the prompt that is the start of the document is the text that was delivered.
    fn turns(&self, body: &Value, document: &str) -> Option<Turns> {
        let prompt = match body.get("prompt")? {
            Value::Array(prompts) if prompts.len() == 1 => prompts.first()?.as_str()?,
            prompt => prompt.as_str()?,
        };
        Some(continued(prompt, document))
    }

    fn member(&self) -> &'static str {
        "prompt"
    }

    fn has_tools(&self) -> bool {
        false
    }

    fn write(&self, moment: Moment<'_>, message: &Message, out: &mut Vec<String>) {
        match moment {
            Moment::Delta {
                part,
                text,
                is_last,
                ..
            } => {
                if let Some(Part::Text(_)) = message.parts.get(part) {
                    // The last text has the finish, and the next event repeats it.
                    out.push(event(message, text, message.finish.filter(|_| is_last)));
                }
            }
            Moment::Finish => {
                out.push(event(message, "", message.finish));
                if message.include_usage {
                    let usage = chat::usage(message);
                    out.push(data(&format!(
                        r#"{}"choices":[],"usage":{usage}}}"#,
                        open(message)
                    )));
                }
                out.push(data("[DONE]"));
            }
            Moment::Done => out.push(data("[DONE]")),
            Moment::Error => out.push(data(&self.error(&Problem::UPSTREAM))),
            Moment::Start | Moment::Open(_) | Moment::Close(_) => {}
        }
    }

    fn body(&self, message: &Message) -> String {
        let text = message.joined(|part| matches!(part, Part::Text(_)));
        let (choice, usage) = (choice(&text, message.finish), chat::usage(message));
        format!(r#"{}"choices":[{choice}],"usage":{usage}}}"#, open(message))
    }

    fn error(&self, problem: &Problem<'_>) -> String {
        chat::error(problem)
    }
}

/// Returns a prompt, and the start of the document at its end, as turns.
pub(super) fn continued(prompt: &str, document: &str) -> Turns {
    let begin = prompt.len().saturating_sub(delivered(prompt, document));
    let (prompt, delivered) = prompt.split_at_checked(begin).unwrap_or((prompt, ""));
    let mut messages = vec![plain("user", prompt)];
    if !delivered.is_empty() {
        messages.push(plain("assistant", delivered));
    }
    Turns {
        is_prefill: messages.len() > 1,
        ..messages.into()
    }
}

/// Returns the members before `choices`.
fn open(message: &Message) -> String {
    format!(
        r#"{{"id":"cmpl-sim-{}","object":"text_completion","created":{},"model":{},"#,
        message.number,
        message.created(),
        quoted(&message.model),
    )
}

fn choice(text: &str, finish: Option<Finish>) -> String {
    let finish = Value::from(finish.map(Finish::as_str));
    format!(
        r#"{{"text":{},"index":0,"logprobs":null,"finish_reason":{finish}}}"#,
        quoted(text)
    )
}

fn event(message: &Message, text: &str, finish: Option<Finish>) -> String {
    let usage = if message.include_usage {
        r#","usage":null"#
    } else {
        ""
    };
    data(&format!(
        r#"{}"choices":[{}]{usage}}}"#,
        open(message),
        choice(text, finish)
    ))
}
