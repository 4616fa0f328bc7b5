//! Reads from a refusal what its model does not accept. The texts are from real refusals.

use serde_json::Value;

/// A hint about a model, read from a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CapabilityHint {
    /// The model continues no prefill, or not with the flag that the request used.
    NoPrefill,
    /// The model takes no grammar of its answer, or not in this form.
    NoGrammar,
    /// A prefill must not end in white space.
    RejectsTrailingSpace,
    /// With a prefill, the format of the request applies to the answer alone, which is then a new
    /// document.
    PrefillDropsFormat,
    /// The server has no path under which it sends or stops a kept stream.
    NoKeptStreams,
    /// The model takes no tool while it reasons.
    NoToolWithReasoning,
    /// This member of a request is unknown or unsupported, whatever its value is.
    NoMember(&'static str),
    /// A refusal names this member, and may be about its value: that is a hint about the model only
    /// if the client did not choose the value.
    RefusedValue(&'static str),
}

impl CapabilityHint {
    /// Returns the name in logs, and the member that the hint is about, if it is about one.
    pub fn name(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::NoPrefill => ("no_prefill", None),
            Self::NoGrammar => ("no_grammar", None),
            Self::RejectsTrailingSpace => ("rejects_trailing_space", None),
            Self::PrefillDropsFormat => ("prefill_drops_format", None),
            Self::NoKeptStreams => ("no_kept_streams", None),
            Self::NoToolWithReasoning => ("no_tool_with_reasoning", None),
            Self::NoMember(member) => ("no_member", Some(member)),
            Self::RefusedValue(member) => ("refused_value", Some(member)),
        }
    }

    /// Reads the body of a response whose status blames the request (400, 422). Returns `None` if
    /// the body has no hint about the model. Reads at most 64 KiB.
    ///
    /// A body may quote the request, and so anything that a user wrote. A hint therefore counts
    /// only if the request had the member or the prefill that the hint is about, and
    /// [`NoMember`](Self::NoMember) is read only from known codes, and from messages that begin
    /// with known words. If an error names the path of a member (`param`, `loc`), the parts of its
    /// message about other paths do not count.
    ///
    /// ```
    /// use restitch::internal::capability::CapabilityHint;
    ///
    /// let body = r#"{"error": {"message": "Unsupported parameter: response_format"}}"#;
    /// assert_eq!(CapabilityHint::read(body), Some(CapabilityHint::NoMember("response_format")));
    /// let body = r#"{"error": {"message": "Invalid schema for response_format 'a': not supported"}}"#;
    /// assert_eq!(CapabilityHint::read(body), Some(CapabilityHint::RefusedValue("response_format")));
    /// assert_eq!(CapabilityHint::read(r#"{"error": {"message": "Invalid API key"}}"#), None);
    /// ```
    pub fn read(body: &str) -> Option<Self> {
        let end = (0..=LONGEST.min(body.len()))
            .rev()
            .find(|&end| body.is_char_boundary(end))?;
        let body = body.get(..end)?.to_ascii_lowercase();
        if body.contains(WHITE_SPACE) {
            return Some(Self::RejectsTrailingSpace);
        }
        if NO_PREFIX.iter().any(|said| body.contains(said)) {
            return Some(Self::NoPrefill);
        }
        let said = Said::read(&body);
        if said.hint.is_some() {
            return said.hint;
        }
        if !NOT_TAKEN.iter().any(|said| body.contains(said)) {
            return None;
        }
        if PREFIX_MEMBERS
            .iter()
            .any(|member| names(&body, member) && said.may_be_about(member))
        {
            return Some(Self::NoPrefill);
        }
        let member = MEMBERS
            .iter()
            .find(|member| names(&body, member) && said.may_be_about(member));
        member.map(|member| Self::RefusedValue(member))
    }
}

/// The codes, paths and messages of a refusal.
#[derive(Debug, Default)]
struct Said {
    /// The hint about a member as a whole.
    hint: Option<CapabilityHint>,
    /// The path that an error is about, as keys.
    place: Option<Vec<String>>,
}

impl Said {
    /// Providers pass the errors of others on as text, so text that is JSON is read, too.
    fn read(body: &str) -> Self {
        let mut said = Self::default();
        let mut rest: Vec<_> = serde_json::from_str(body)
            .ok()
            .map(|body| (body, NESTING))
            .into_iter()
            .collect();
        while let Some((value, nesting)) = rest.pop().filter(|_| said.hint.is_none()) {
            match value {
                Value::String(text) => match serde_json::from_str::<Value>(&text)
                    .ok()
                    .filter(|_| nesting > 0)
                {
                    Some(nested) => rest.push((nested, nesting - 1)),
                    None => said.hint = of_message(&text).and_then(|path| of_path(&path)),
                },
                Value::Array(items) => rest.extend(items.into_iter().map(|item| (item, nesting))),
                Value::Object(members) => {
                    let place = ["param", "loc"]
                        .iter()
                        .find_map(|key| place(members.get(*key)?));
                    let code = |key: &str| {
                        members
                            .get(key)
                            .and_then(Value::as_str)
                            .is_some_and(|code| CODES.contains(&code))
                    };
                    if code("code") || code("type") {
                        said.hint = place.as_deref().and_then(of_path);
                    }
                    let is_elsewhere = |value: &Value| {
                        let path = value.as_str().and_then(of_message);
                        place
                            .as_deref()
                            .zip(path)
                            .is_some_and(|(place, path)| place != below_body(&path))
                    };
                    // Text that a server quotes from a request is not a message of its own.
                    let texts = members
                        .into_iter()
                        .filter(|(key, value)| key != "input" && !is_elsewhere(value));
                    rest.extend(texts.map(|(_, value)| (value, nesting)));
                    said.place = said.place.or(place);
                }
                _ => {}
            }
        }
        said
    }

    /// Returns whether the refusal may be about a member. A prefill is part of the messages.
    fn may_be_about(&self, member: &str) -> bool {
        let Some(place) = &self.place else {
            return true;
        };
        let is_in_messages = place.first().is_some_and(|key| key == "messages");
        place.iter().any(|key| key == member) || is_in_messages && PREFIX_MEMBERS.contains(&member)
    }
}

/// Reads the path that an error is about: as text, or as a list of keys. LiteLLM writes `None` for
/// an error without a path.
fn place(place: &Value) -> Option<Vec<String>> {
    let keys = match place {
        Value::String(path) => path_at(path).filter(|(_, rest)| rest.is_empty())?.0,
        Value::Array(keys) => keys
            .iter()
            .map(|key| key.as_str().map_or_else(|| key.to_string(), str::to_owned))
            .collect(),
        _ => return None,
    };
    Some(below_body(&keys).to_owned()).filter(|keys| !keys.is_empty() && keys != &["none"])
}

/// Returns the keys of a path without that of the request's body.
fn below_body(keys: &[String]) -> &[String] {
    match keys {
        [body, keys @ ..] if body == "body" => keys,
        keys => keys,
    }
}

/// Returns the path that a message names if the message begins with words for an unknown or
/// unsupported member.
fn of_message(message: &str) -> Option<Vec<String>> {
    let of_litellm = message
        .strip_prefix(LITELLM)
        .and_then(|said| said.split_once(' '));
    let message = of_litellm.map_or(message, |(_, said)| said);
    UNSUPPORTED.iter().find_map(|(before, after)| {
        let (path, rest) = path_at(message.strip_prefix(before)?)?;
        let ends = |after: &str| match after {
            "" => rest.is_empty(),
            after => rest.starts_with(after),
        };
        after.iter().any(|after| ends(after)).then_some(path)
    })
}

/// Reads a path at the start of a text, in quotes or not. Returns its keys and the text after it.
fn path_at(text: &str) -> Option<(Vec<String>, &str)> {
    let quotes = ['\'', '"', '`'];
    let open = text.trim_start_matches(quotes);
    let end = open
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']')))
        .unwrap_or(open.len());
    let path = open.get(..end)?.trim_end_matches('.');
    let rest = open.get(path.len()..)?.trim_start_matches(quotes);
    let keys: Vec<_> = path
        .split(['.', '[', ']'])
        .filter(|key| !key.is_empty())
        .map(str::to_owned)
        .collect();
    (!keys.is_empty()).then_some((keys, rest))
}

/// Returns the hint of an error that calls this path unknown or unsupported. A path into a member's
/// value gives no hint about the member.
fn of_path(keys: &[String]) -> Option<CapabilityHint> {
    let (last, before) = below_body(keys).split_last()?;
    let is_in_message = before.first().is_some_and(|key| key == "messages");
    if PREFIX_MEMBERS.contains(&last.as_str()) && (before.is_empty() || is_in_message) {
        return Some(CapabilityHint::NoPrefill);
    }
    MEMBERS
        .iter()
        .find(|member| before.is_empty() && last == *member)
        .map(|member| CapabilityHint::NoMember(member))
}

/// The bytes of a body that are read.
const LONGEST: usize = 64 << 10;

/// Anthropic: "messages: final assistant content cannot end with trailing whitespace",
/// github.com/tailcallhq/forgecode/issues/1872.
const WHITE_SPACE: &str = "cannot end with trailing whitespace";

/// Texts in lower case. They have no quotes, since a provider that forwards another provider's
/// error escapes them.
const NO_PREFIX: [&str; 7] = [
    // Anthropic, from 4.6 on: github.com/anthropics/claude-code/issues/52433.
    "does not support assistant message prefill",
    // Gemini, from 3.6 Flash on: github.com/Zoo-Code-Org/Zoo-Code/issues/1052.
    "requests ending with a model turn are not supported",
    // llama.cpp: github.com/ggml-org/llama.cpp/issues/20861.
    "assistant response prefill is incompatible with enable_thinking",
    // DeepSeek, at a path that is not the beta one: github.com/BerriAI/litellm/issues/4881.
    "prefix is only available when using beta api",
    // DeepSeek, asked without the flag: github.com/gptme/gptme/issues/467.
    "must be a user message, or an assistant message with prefix mode on",
    // Mistral, asked without the flag: github.com/huggingface/smolagents/issues/757.
    "expected last role user or tool",
    // Anthropic adds this to the first text, and other providers send it alone.
    "the conversation must end with a user message",
];

/// The levels of JSON inside of text that are read.
const NESTING: u32 = 3;

/// Codes of errors whose `param` or `loc` is the path of an unknown or unsupported member: OpenAI's
/// two, and that of servers which validate with pydantic
/// (github.com/partITech/php-mistral/issues/76).
const CODES: [&str; 3] = [
    "unsupported_parameter",
    "unknown_parameter",
    "extra_forbidden",
];

/// LiteLLM's text before the provider's name in an error about members.
const LITELLM: &str = "litellm.unsupportedparamserror: ";

/// The text of a message before and after the path of an unknown or unsupported member. A message
/// must begin with it, because later text may quote the request.
const UNSUPPORTED: [(&str, &[&str]); 10] = [
    // OpenAI: github.com/router-for-me/CLIProxyAPI/issues/2352, github.com/mkht/PSOpenAI/issues/44,
    // github.com/appatalks/eva-agent/issues/83.
    (
        "unsupported parameter: ",
        &["", ".", " is not supported with this model", " (request id"],
    ),
    // OpenAI: github.com/1jehuang/jcode/issues/1028.
    ("unknown parameter: ", &["", ".", " (request id"]),
    // OpenAI, in one report: github.com/openai-php/client/issues/251.
    (
        "unrecognized request argument supplied: ",
        &["", ".", " (request id"],
    ),
    // xAI: github.com/BerriAI/litellm/issues/6610.
    ("the ", &[" parameter is unsupported"]),
    // Groq: github.com/fanenr/chatbot/issues/21.
    ("property ", &[" is unsupported"]),
    // Fireworks: github.com/BerriAI/litellm/issues/7533.
    ("extra inputs are not permitted, field: ", &[", value"]),
    // Anthropic, and others that validate with pydantic:
    // github.com/anthropics/claude-code/issues/4378.
    ("", &[": extra inputs are not permitted"]),
    // vLLM prints a list of Python: github.com/gpustack/gpustack/issues/429.
    (
        "[{'type': 'extra_forbidden', 'loc': ('body', ",
        &["), 'msg'"],
    ),
    // LiteLLM, after its own name of the error and the provider's name:
    // github.com/BerriAI/litellm/issues/8278.
    ("does not support parameters: [", &["], for model"]),
    // Servers whose requests are protocol buffers, for example Google's.
    (
        "invalid json payload received. unknown name ",
        &[": cannot find field"],
    ),
];

/// Texts of errors about something that is not accepted, or not with its value. The text beside
/// them must name the member.
const NOT_TAKEN: [&str; 11] = [
    // OpenAI: github.com/appatalks/eva-agent/issues/83,
    // github.com/router-for-me/CLIProxyAPI/issues/1647.
    "unsupported parameter",
    // OpenAI: "Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
    // github.com/Kilo-Org/cloud/pull/3807.
    "unsupported value",
    // Azure: "Invalid parameter: 'response_format' of type 'json_object' is not supported with this
    // model.", github.com/mrwadams/stride-gpt/issues/19.
    "not supported",
    "does not support",
    // DeepSeek: "This response_format type is unavailable now",
    // github.com/llm-exe/llm-exe/issues/662.
    "is unavailable now",
    // OpenAI, in one report: github.com/openai-php/client/issues/251.
    "unrecognized request argument",
    // Servers that validate with pydantic, for example Mistral's:
    // github.com/partITech/php-mistral/issues/76.
    "extra inputs are not permitted",
    "extra_forbidden",
    // Perplexity: "At body -> response_format -> ResponseFormatText -> type: Input should be
    // 'text'", github.com/567-labs/instructor/issues/1005.
    "at body -> response_format",
    // Servers whose requests are protocol buffers, for example Google's.
    "unknown name",
    // OpenRouter, for models that always reason.
    "cannot be disabled",
];

/// The members that ask for a prefill to be continued.
const PREFIX_MEMBERS: [&str; 4] = [
    "continue_final_message",
    "add_generation_prompt",
    "prefix",
    "partial",
];

/// The other members that a refusal may be about.
const MEMBERS: [&str; 8] = [
    "response_format",
    "reasoning_effort",
    "enable_thinking",
    "chat_template_kwargs",
    "tool_choice",
    "tools",
    "thinking",
    "reasoning",
];

/// Returns whether `text` names a member. A member whose name is an English word must be quoted, or
/// must follow a dot or a colon.
fn names(text: &str, member: &str) -> bool {
    let is_word = !member.contains('_');
    text.match_indices(member).any(|(at, _)| {
        let (before, after) = (
            text.get(..at).unwrap_or_default(),
            text.get(at + member.len()..).unwrap_or_default(),
        );
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let is_whole = !before.ends_with(part) && !after.starts_with(part);
        is_whole && (!is_word || !before.ends_with(' ') || before.ends_with(": "))
    })
}
