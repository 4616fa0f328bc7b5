//! The tool that a request lets a model call, in any API's format.

use serde_json::Value;

/// A tool that an answer may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub name: String,
    /// The request lets the model answer with nothing but a call.
    pub(super) is_forced: bool,
    /// The request wants arguments streamed, before their values are whole.
    pub(super) is_eager: bool,
    /// Its input is text that follows a grammar.
    pub(super) is_custom: bool,
}

impl Tool {
    /// Returns the tool that a request forces, else the first one that it declares. `None`: it
    /// declares none, or forbids calls.
    pub(super) fn read(body: &Value) -> Option<Self> {
        let (is_forced, wanted) = choice(body)?;
        let mut declared = declared(body);
        let (name, tool) = match wanted {
            Some(wanted) => declared.find(|(name, _)| *name == wanted)?,
            None => declared.next()?,
        };
        Some(Self {
            name: name.to_owned(),
            is_forced,
            is_eager: tool["eager_input_streaming"] == true,
            is_custom: tool["type"] == "custom",
        })
    }
}

/// Returns the declared tools, by name.
fn declared(body: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let each = tools.flat_map(|tool| {
        let several = ["functionDeclarations", "function_declarations"]
            .iter()
            .find_map(|key| tool.get(*key)?.as_array());
        several.map_or_else(|| std::slice::from_ref(tool), Vec::as_slice)
    });
    each.filter_map(|tool| Some((named(tool)["name"].as_str()?, tool)))
}

/// Returns the part of a tool, or of a choice, that has the name.
fn named(tool: &Value) -> &Value {
    let inner = tool.get("function").or(tool.get("custom"));
    inner.unwrap_or(tool)
}

/// Returns whether a call is forced, and which tool is forced. `None`: calls are forbidden.
fn choice(body: &Value) -> Option<(bool, Option<&str>)> {
    if let Some(config) = body.pointer("/toolConfig/functionCallingConfig") {
        return match config["mode"].as_str() {
            Some("NONE") => None,
            Some("ANY") => Some((true, config["allowedFunctionNames"][0].as_str())),
            _ => Some((false, None)),
        };
    }
    let Some(choice) = body.get("tool_choice") else {
        return Some((false, None));
    };
    let kind = choice
        .as_str()
        .or_else(|| choice.get("type")?.as_str())
        .unwrap_or("auto");
    match kind {
        "none" | "NONE" => None,
        "auto" | "allowed_tools" => Some((false, None)),
        _ => Some((true, named(choice)["name"].as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tools_are_read_in_the_form_of_any_api() {
        let chat = json!([{"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "b"}}]);
        let flat = json!([{"name": "a", "input_schema": {}, "eager_input_streaming": true}, {"type": "function", "name": "b"}]);
        let gemini = json!([{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}]);
        let any = json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["b"]}});
        let cases = [
            (json!({}), None),
            (json!({"tools": chat}), Some(("a", false, false))),
            (json!({"tools": chat, "tool_choice": "none"}), None),
            (
                json!({"tools": chat, "tool_choice": "required"}),
                Some(("a", true, false)),
            ),
            (
                json!({"tools": chat, "tool_choice": {"type": "function", "function": {"name": "b"}}}),
                Some(("b", true, false)),
            ),
            (
                json!({"tools": chat, "tool_choice": {"type": "function", "function": {"name": "c"}}}),
                None,
            ),
            (json!({"tools": flat}), Some(("a", false, true))),
            (
                json!({"tools": flat, "tool_choice": {"type": "tool", "name": "b"}}),
                Some(("b", true, false)),
            ),
            (
                json!({"tools": gemini, "toolConfig": any}),
                Some(("b", true, false)),
            ),
        ];
        for (body, expected) in cases {
            let tool = Tool::read(&body);
            assert_eq!(
                tool.as_ref()
                    .map(|tool| (tool.name.as_str(), tool.is_forced, tool.is_eager)),
                expected,
                "{body}"
            );
        }
    }
}
