//! Reads from a Gemini request the facts that a continuation needs, and writes the request for the
//! rest.

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::capability::Switch;
use crate::provider::fields;
use crate::provider::prefill;
use crate::provider::translate::{PlainMessage, Role};
use crate::provider::wire::{
    Adaptation, Base, Changes, NewRequest, PlainPrompt, Request, Rest, Tool,
};

/// Returns the method that a path ends with, and the path before it.
pub(super) fn method(path: &str) -> Option<(&str, &str)> {
    let (before, method) = path.rsplit_once(':')?;
    matches!(method, "generateContent" | STREAM).then_some((before, method))
}

/// Reads a request's body. Returns `None` unless it is a JSON object with an array `contents`.
pub(super) fn parse(path: &str, body: &str) -> Option<Request> {
    let (before, method) = method(path)?;
    // The contents may be long. The bytes of few are read once.
    let mut table = Table::default();
    let root = fields::recorded_object(&mut table, body)?;
    let contents = root
        .member("contents")
        .filter(|contents| contents.kind() == ValueKind::Array)?;
    let config = fields::either(root, CONFIG).map(|(_, config)| config);
    let of = |keys| {
        config
            .and_then(|config| fields::either(config, keys))
            .map(|(_, value)| value)
    };
    let has_json_mode = FORMS.iter().any(|form| match of(*form) {
        Some(value) => !matches!(value.as_str(), "null" | "\"\"" | "\"text/plain\""),
        None => false,
    });
    Some(Request {
        stream: method == STREAM,
        n: of(CANDIDATES).and_then(|count| count.as_u64()).unwrap_or(1),
        has_stop: fields::has_stop(of(["stopSequences", "stop_sequences"])),
        has_json_mode,
        schema: FORMS[1..]
            .iter()
            .find_map(|form| fields::present(of(*form)))
            .map(|schema| schema.as_str().to_owned()),
        model: before.rsplit('/').next().unwrap_or_default().to_owned(),
        wants_reasoning: of(THINKING).is_some_and(asks_for_reasoning),
        max_tokens: of(LIMIT).and_then(|limit| limit.as_u64()),
        tools: tools(root),
        base: match fields::either(root, CONTINUED)
            .is_some_and(|(_, token)| !matches!(token.as_str(), "null" | "\"\""))
        {
            true => Base::Elsewhere,
            false => Base::prefill(prefill::last_text(contents, "model", "parts"), false),
        },
    })
}

/// Returns a request for a new answer. The model's name is in the path: `NAME`, `models/NAME` or
/// `tunedModels/NAME`.
pub(super) fn new(prompt: &PlainPrompt<'_>) -> NewRequest {
    let system = prompt
        .system
        .map(|system| format!(r#""systemInstruction":{{{}}},"#, parts(system)));
    let config = prompt
        .max_tokens
        .map(|limit| format!(r#","{}":{{"{}":{limit}}}"#, CONFIG[0], LIMIT[0]));
    let (system, config) = (system.unwrap_or_default(), config.unwrap_or_default());
    let body = format!(
        r#"{{{system}"contents":[{}]{config}}}"#,
        content("user", prompt.text)
    );
    let path = format!("{}:{STREAM}?alt=sse", path_of_model(prompt.model));
    NewRequest {
        key_header: ("x-goog-api-key", ""),
        ..NewRequest::new(path, body)
    }
}

/// Returns the messages of a request. Their text is in `parts`.
pub(super) fn plain_messages(body: &str) -> Option<Vec<PlainMessage>> {
    let (root, contents) = fields::object_with(body, "contents")?;
    let of_content = |content: Raw<'_>| {
        let role = match fields::word(content.member("role")).as_deref() {
            None | Some("user") => Role::User,
            Some("model") => Role::Assistant,
            Some(_) => return None,
        };
        Some(PlainMessage {
            role,
            text: text_of_parts(content)?,
        })
    };
    let messages = contents.elements().map(of_content);
    let system = fields::either(root, ["systemInstruction", "system_instruction"]);
    let system = system.map(|(_, system)| {
        Some(PlainMessage {
            role: Role::System,
            text: text_of_parts(system)?,
        })
    });
    system.into_iter().chain(messages).collect()
}

/// Returns the text of an object with `parts`, which have text alone.
fn text_of_parts(content: Raw<'_>) -> Option<String> {
    let of_part = |part: Raw<'_>| {
        let is_only = part.members().count() == 1;
        fields::text(part.member("text"))
            .filter(|_| is_only)
            .map(std::borrow::Cow::into_owned)
    };
    content
        .member("parts")?
        .elements()
        .map(of_part)
        .collect::<Option<Vec<_>>>()
        .map(|texts| texts.concat())
}

/// Returns the path of a request like one of another path, for another model.
pub(super) fn path_like(path: &str, model: &str) -> Option<String> {
    method(path).map(|(_, method)| format!("{}:{method}", path_of_model(model)))
}

/// Returns the path of a model, which its methods follow.
fn path_of_model(model: &str) -> String {
    let (kind, name) = match model.split_once('/') {
        Some((kind @ ("models" | "tunedModels"), name)) => (kind, name),
        _ => ("models", model),
    };
    format!("/{kind}/{}", path_segment(name))
}

/// Returns a model's name as a segment of a path: every byte but RFC 3986's unreserved ones is
/// percent-encoded.
fn path_segment(name: &str) -> String {
    let mut segment = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
    }
    segment
}

/// Returns a content that has only text.
fn content(role: &str, text: &str) -> String {
    format!(r#"{{"role":"{role}",{}}}"#, parts(text))
}

/// Returns the member that has the text of a content.
fn parts(text: &str) -> String {
    format!(r#""parts":[{{"text":{}}}]"#, quoted(text))
}

/// Returns whether a `thinkingConfig` asks the model to reason. A budget of 0 turns reasoning off;
/// -1 leaves it to the model.
fn asks_for_reasoning(thinking: Raw<'_>) -> bool {
    let of = |keys| fields::either(thinking, keys).map(|(_, value)| value);
    fields::is_true(of(["includeThoughts", "include_thoughts"]))
        || of(["thinkingBudget", "thinking_budget"])
            .is_some_and(|budget| !matches!(budget.as_str(), "0" | "null"))
        || fields::word(of(["thinkingLevel", "thinking_level"])).is_some()
}

fn tools(root: Raw<'_>) -> Vec<Tool> {
    let tools = root
        .member("tools")
        .into_iter()
        .flat_map(|tools| tools.elements());
    let declarations = tools.filter_map(|tool| fields::either(tool, DECLARATIONS));
    let declared = declarations.flat_map(|(_, functions)| functions.elements());
    let tool = |function: Raw<'_>| {
        let schema = [
            "parameters",
            "parametersJsonSchema",
            "parameters_json_schema",
        ];
        let schema = schema
            .iter()
            .find_map(|key| function.member(key))
            .map(|schema| schema.as_str().to_owned());
        Some(Tool {
            name: fields::text(function.member("name"))?.into_owned(),
            schema,
        })
    };
    declared.filter_map(tool).collect()
}

/// Returns the request for the rest of an answer, or the original request with changes.
///
/// Two contents are appended, the model's and the user's. The configuration loses the members that
/// would force another format on the rest, and the number of candidates. Tools are removed, too,
/// unless the history has calls: then the request forbids calls.
pub(super) fn ask(body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
    let (root, contents) = fields::object_with(body, "contents")?;
    let mut edits = Edits::default();
    let (mut remove, mut set) = (Vec::new(), Vec::new());
    let mut config = GenerationConfig::default();
    if let Some(rest) = rest {
        prefill::append(
            contents,
            rest,
            ("model", "parts"),
            changes.replaces_prefill,
            &mut edits,
            content,
        );
        // One answer is continued, so one rest is enough.
        config.remove.extend(CANDIDATES);
        match changes.schema() {
            Some(schema) => config.set_schema(schema),
            None if changes.keeps_json_mode => {}
            None => config.remove.extend(FORMS.iter().flatten()),
        }
        if contents.elements().any(calls_functions) && root.member("tools").is_some() {
            let key = fields::either(root, TOOL_CONFIG).map_or(TOOL_CONFIG[0], |(key, _)| key);
            set.push((key, NO_CALL.to_owned()));
        } else {
            remove.extend(TOOL_CONFIG);
            remove.push("tools");
        }
    }
    if let Some(Switch { key, value }) = changes.reasoning_off {
        match key.as_str() {
            // This function edits these members itself, and may edit each byte only once.
            "contents" | "generationConfig" | "generation_config" => {}
            key if THINKING.contains(&key) => config.set.push((THINKING, value.clone())),
            // The switch of the Chat Completions API, which the same models have at another path.
            // Here it is an error.
            "reasoning_effort" if value == r#""none""# => {
                config.set.push((THINKING, NO_THINKING.to_owned()));
            }
            key => {
                remove.retain(|other| *other != key);
                set.retain(|(other, _)| *other != key);
                set.push((key, value.clone()));
            }
        }
    }
    if let Some(token) = changes.token {
        remove.push(CONTINUED[1]);
        remove.retain(|key| *key != CONTINUED[0]);
        set.retain(|(key, _)| !CONTINUED.contains(key));
        set.push((CONTINUED[0], token.to_owned()));
    }
    config.limit = changes.max_tokens;
    set.extend(config.apply(root, &mut edits));
    let set: Vec<_> = set
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    edits.object(root, &remove, &set);
    Some(edits.apply(body))
}

/// Returns a first request that is adapted to its model. The model's name is in the path, so it
/// stays.
pub(super) fn adapt(body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
    let (root, _) = fields::object_with(body, "contents")?;
    let mut edits = Edits::default();
    edits.object(root, adaptation.without.as_slice(), &[]);
    edits.changed(body)
}

/// Changes in `generationConfig`.
#[derive(Default)]
struct GenerationConfig {
    remove: Vec<&'static str>,
    /// Both spellings of each key, and the value.
    set: Vec<([&'static str; 2], String)>,
    /// Another limit on the answer's tokens, if there is one.
    limit: Option<u64>,
}

impl GenerationConfig {
    /// Sets the schema of the answer instead of the client's.
    fn set_schema(&mut self, schema: &str) {
        // Names of types in upper case are those of the older member.
        let form = match schema.starts_with(r#"{"type":"OBJECT""#) {
            true => OLDER_SCHEMA,
            false => JSON_SCHEMA,
        };
        let others = FORMS
            .iter()
            .filter(|keys| **keys != form && **keys != FORMS[0]);
        self.remove.extend(others.flatten());
        self.set
            .push((FORMS[0], r#""application/json""#.to_owned()));
        self.set.push((form, schema.to_owned()));
    }

    /// Applies the changes. Returns the member that the request needs, if it has no configuration
    /// yet.
    fn apply(self, root: Raw<'_>, edits: &mut Edits) -> Option<(&'static str, String)> {
        let Some((_, config)) =
            fields::either(root, CONFIG).filter(|(_, raw)| raw.kind() == ValueKind::Object)
        else {
            let members: Vec<_> = self
                .set
                .iter()
                .map(|([key, _], value)| format!("\"{key}\":{value}"))
                .collect();
            return (!members.is_empty())
                .then(|| (CONFIG[0], format!("{{{}}}", members.join(","))));
        };
        let limit =
            fields::either(config, LIMIT).and_then(|(key, _)| Some((key, self.limit?.to_string())));
        let spelled = |(keys, value): ([&'static str; 2], String)| {
            (
                fields::either(config, keys).map_or(keys[0], |(key, _)| key),
                value,
            )
        };
        let set: Vec<_> = self.set.into_iter().map(spelled).chain(limit).collect();
        let set: Vec<_> = set
            .iter()
            .map(|(key, value)| (*key, value.as_str()))
            .collect();
        edits.object(config, &self.remove, &set);
        None
    }
}

/// Returns whether a content calls a function or has a function's result.
fn calls_functions(content: Raw<'_>) -> bool {
    let is_call = |part: Raw<'_>| {
        let call = fields::either(part, ["functionCall", "function_call"]);
        call.or(fields::either(
            part,
            ["functionResponse", "function_response"],
        ))
        .is_some()
    };
    content
        .member("parts")
        .is_some_and(|parts| parts.elements().any(is_call))
}

const STREAM: &str = "streamGenerateContent";

const CONFIG: [&str; 2] = ["generationConfig", "generation_config"];
const CANDIDATES: [&str; 2] = ["candidateCount", "candidate_count"];
const LIMIT: [&str; 2] = ["maxOutputTokens", "max_output_tokens"];
const THINKING: [&str; 2] = ["thinkingConfig", "thinking_config"];
/// The member that names the answer to continue.
const CONTINUED: [&str; 2] = ["continuationToken", "continuation_token"];
const TOOL_CONFIG: [&str; 2] = ["toolConfig", "tool_config"];
const DECLARATIONS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// The members that force a format, in both spellings.
const FORMS: [[&str; 2]; 3] = [
    ["responseMimeType", "response_mime_type"],
    OLDER_SCHEMA,
    JSON_SCHEMA,
];

/// A schema in the words of OpenAPI.
const OLDER_SCHEMA: [&str; 2] = ["responseSchema", "response_schema"];

const JSON_SCHEMA: [&str; 2] = ["responseJsonSchema", "response_json_schema"];

/// Turns reasoning off.
const NO_THINKING: &str = r#"{"thinkingBudget":0}"#;

/// No function may be called.
const NO_CALL: &str = r#"{"functionCallingConfig":{"mode":"NONE"}}"#;
