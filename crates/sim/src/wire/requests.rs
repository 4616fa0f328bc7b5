//! Reads the messages of requests.

use serde_json::{Value, json};

/// The messages of a request.
pub(in super::super) struct Turns {
    pub(in super::super) messages: Vec<Value>,
    /// The last message is the start of the answer, and the API always continues it.
    pub(in super::super) is_prefill: bool,
}

impl From<Vec<Value>> for Turns {
    fn from(messages: Vec<Value>) -> Self {
        Self {
            messages,
            is_prefill: false,
        }
    }
}

/// Returns the member `messages`.
pub(super) fn messages(body: &Value, _document: &str) -> Option<Turns> {
    Some(array(body.get("messages"))?.clone().into())
}

/// Returns the member `messages` as turns: the content of each is its text.
pub(super) fn texts(body: &Value, _document: &str) -> Option<Turns> {
    turns(body.get("messages"), "content")
}

/// Returns the input of the Responses API: a text, or items.
pub(super) fn input(body: &Value, _document: &str) -> Option<Turns> {
    match body.get("input")? {
        Value::String(text) => Some(vec![plain("user", text)].into()),
        items => turns(Some(items), "content"),
    }
}

/// Returns Gemini's contents.
pub(super) fn contents(body: &Value, _document: &str) -> Option<Turns> {
    let mut turns = turns(body.get("contents"), "parts")?;
    for turn in &mut turns.messages {
        match turn["role"].as_str() {
            Some("model") => turn["role"] = "assistant".into(),
            Some("") => turn["role"] = "user".into(),
            _ => {}
        }
    }
    Some(turns)
}

/// Returns a prompt. Its end that is the start of the document is the text that was delivered.
pub(super) fn prompt(body: &Value, document: &str) -> Option<Turns> {
    let prompt = match body.get("prompt")? {
        Value::Array(prompts) if prompts.len() == 1 => prompts.first()?.as_str()?,
        prompt => prompt.as_str()?,
    };
    Some(continued(prompt, document))
}

/// Returns the prompt of `/api/generate`, which may have a question at its end.
pub(super) fn question(body: &Value, document: &str) -> Option<Turns> {
    let prompt = body.get("prompt")?.as_str()?;
    Some(asked(prompt, document).unwrap_or_else(|| continued(prompt, document)))
}

fn array(value: Option<&Value>) -> Option<&Vec<Value>> {
    value?.as_array().filter(|items| !items.is_empty())
}

/// Returns messages, each with its role and the text of a member. Their other members stay.
fn turns(messages: Option<&Value>, member: &str) -> Option<Turns> {
    let turn = |message: &Value| {
        let role = message.get("role").and_then(Value::as_str);
        let mut turn = message.as_object().cloned().unwrap_or_default();
        turn.insert("role".into(), role.unwrap_or_default().into());
        turn.insert("content".into(), text(message.get(member)).into());
        Value::Object(turn)
    };
    let turns: Vec<Value> = array(messages)?.iter().map(turn).collect();
    Some(turns.into())
}

/// Returns a text: a string, or the text parts of an array.
pub(in super::super) fn text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| part.get("text")?.as_str())
            .collect(),
        _ => String::new(),
    }
}

/// Returns a message with this role and text.
fn plain(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

/// Returns a prompt, and the start of the document at its end, as turns.
fn continued(prompt: &str, document: &str) -> Turns {
    let begin = prompt.len().saturating_sub(delivered(prompt, document));
    let (prompt, delivered) = prompt.split_at_checked(begin).unwrap_or((prompt, ""));
    let mut messages = vec![plain("user", prompt)];
    if !delivered.is_empty() {
        messages.push(plain("assistant", delivered));
    }
    Turns {
        is_prefill: messages.len() > 1,
        messages,
    }
}

/// Returns how many bytes at the end of `prompt` are the start of `document`: the longest such end.
fn delivered(prompt: &str, document: &str) -> usize {
    let (document, prompt) = (document.as_bytes(), prompt.as_bytes());
    let most = document.len().min(prompt.len());
    let is_at_end = |length: &usize| prompt.ends_with(&document[..*length]);
    (0..=most).rev().find(is_at_end).unwrap_or(0)
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
    fn the_delivered_text_is_the_longest_start_at_the_end() {
        let document = r#"[[1, [1, 2]], "[[1"]"#;
        for cut in 0..=document.len() {
            let prompt = format!("Some numbers, as JSON:\n{}", &document[..cut]);
            assert_eq!(delivered(&prompt, document), cut, "{prompt}");
        }
        assert_eq!(delivered("", document), 0);
        assert_eq!(delivered("[[1, [1, 3", document), 0);
        assert_eq!(delivered("[[1, [1, [", document), 1);
        assert_eq!(delivered("x", ""), 0);
    }

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
