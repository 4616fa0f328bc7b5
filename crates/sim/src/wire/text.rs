//! Code for all wires: JSON strings, texts of messages, frames of events.

use serde_json::Value;

/// Returns a text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns an event without a name.
pub(super) fn data(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// Returns an event with a name.
pub(super) fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// Returns whole arguments as JSON in one line; `None` if they are cut or not JSON.
pub(super) fn object(arguments: &str, is_whole: bool) -> Option<String> {
    let value: Value = serde_json::from_str(arguments).ok()?;
    is_whole.then(|| value.to_string())
}

/// Returns whether a member is `true`.
pub(super) fn is_true(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool).unwrap_or(false)
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

/// Returns a message with this role and text. Its other members stay.
pub(super) fn turn(message: &Value, role: &str, text: String) -> Value {
    let mut turn = message.as_object().cloned().unwrap_or_default();
    turn.insert("role".into(), role.into());
    turn.insert("content".into(), text.into());
    Value::Object(turn)
}

/// Returns a message with this role and text.
pub(super) fn plain(role: &str, text: &str) -> Value {
    serde_json::json!({"role": role, "content": text})
}

/// Returns a member `messages` as turns: the content of each is its text.
pub(super) fn messages(body: &Value) -> Option<Vec<Value>> {
    let messages = body
        .get("messages")?
        .as_array()
        .filter(|messages| !messages.is_empty())?;
    let role = |message: &Value| {
        message
            .get("role")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Some(
        messages
            .iter()
            .map(|message| turn(message, &role(message), text(message.get("content"))))
            .collect(),
    )
}

/// Returns how many bytes at the end of `prompt` are the start of `document`: the longest such end.
pub(super) fn delivered(prompt: &str, document: &str) -> usize {
    let (document, prompt) = (document.as_bytes(), prompt.as_bytes());
    let prompt = prompt
        .get(prompt.len().saturating_sub(document.len())..)
        .unwrap_or_default();
    // `borders[n]`: the longest proper prefix of the first n + 1 bytes of the document that also
    // ends them.
    let mut borders = vec![0; document.len().min(prompt.len())];
    let mut length = 0;
    for at in 1..borders.len() {
        length = longer(document, &borders, length, document.get(at));
        if let Some(border) = borders.get_mut(at) {
            *border = length;
        }
    }
    prompt.iter().fold(0, |length, byte| {
        longer(document, &borders, length, Some(byte))
    })
}

/// Returns the length of the longest prefix of `document` that ends with `byte`, after one of
/// `length` bytes.
fn longer(document: &[u8], borders: &[usize], mut length: usize, byte: Option<&u8>) -> usize {
    while length > 0 && (length == borders.len() || document.get(length) != byte) {
        length = length
            .checked_sub(1)
            .and_then(|last| borders.get(last))
            .copied()
            .unwrap_or(0);
    }
    length + usize::from(length < borders.len() && document.get(length) == byte)
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
}
