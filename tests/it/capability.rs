//! What models can be asked for: the table, rows in front of it, and what refusals say.

use std::time::Duration;

use restitch::internal::capability::{CapabilityCache, CapabilityHint};
use restitch::provider::capability::{PrefillForm, Row, Switch, Table};

const DASHSCOPE: &str = "dashscope-intl.aliyuncs.com";

#[test]
fn models_continue_a_prefix_or_not() {
    let table = Table::default();
    let anywhere = [
        ("claude-2.1", PrefillForm::Turn),
        ("claude-3-opus-20240229", PrefillForm::Turn),
        ("claude-3-5-sonnet-20241022", PrefillForm::Turn),
        ("anthropic/claude-3.7-sonnet", PrefillForm::Turn),
        ("claude-sonnet-4-20250514", PrefillForm::Turn),
        ("anthropic/claude-sonnet-4", PrefillForm::Turn),
        ("claude-opus-4-1-20250805", PrefillForm::Turn),
        (
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            PrefillForm::Turn,
        ),
        ("claude-haiku-4-5@20251001", PrefillForm::Turn),
        ("anthropic/claude-opus-4.5", PrefillForm::Turn),
        ("claude-opus-4-6", PrefillForm::None),
        ("anthropic/claude-sonnet-4.6", PrefillForm::None),
        ("claude-opus-5", PrefillForm::None),
        ("gemini-1.5-pro", PrefillForm::Turn),
        ("models/gemini-2.5-flash-lite", PrefillForm::Turn),
        ("gemini-3-flash-preview", PrefillForm::Turn),
        ("google/gemini-3.1-pro-preview", PrefillForm::Turn),
        ("gemini-3.5-flash", PrefillForm::Turn),
        ("gemini-3.5-flash-lite", PrefillForm::None),
        ("gemini-3.6-flash", PrefillForm::None),
        ("gemini-3.8-flash", PrefillForm::None),
        ("gemini-4-pro", PrefillForm::None),
        ("gpt-4.1-mini", PrefillForm::None),
        ("mistral-large-latest", PrefillForm::None),
        ("deepseek/deepseek-chat-v3.1:free", PrefillForm::None),
        ("qwen3-max", PrefillForm::None),
        ("kimi-k2.6", PrefillForm::None),
        ("no-such-model", PrefillForm::None),
        ("", PrefillForm::None),
    ];
    for (model, prefix) in anywhere {
        assert_eq!(table.of(model, None).prefill, prefix, "{model}");
        assert_eq!(
            table.of(model, Some("127.0.0.1")).prefill,
            prefix,
            "{model} at a host of one's own"
        );
    }
    for (host, model, prefix) in [
        ("api.deepseek.com", "deepseek-v4-pro", PrefillForm::Flag),
        ("api.mistral.ai", "mistral-large-latest", PrefillForm::Flag),
        (
            "codestral.mistral.ai",
            "codestral-latest",
            PrefillForm::Flag,
        ),
        (DASHSCOPE, "qwen3-max", PrefillForm::Partial),
        (
            DASHSCOPE,
            "qwen3-235b-a22b-thinking-2507",
            PrefillForm::None,
        ),
        ("dashscope.aliyuncs.com", "QwQ-plus", PrefillForm::None),
        ("api.moonshot.ai", "kimi-k2.6", PrefillForm::Partial),
        ("api.moonshot.cn", "moonshot-v1-32k", PrefillForm::Partial),
        ("api.moonshot.ai", "kimi-k2-thinking", PrefillForm::None),
        ("api.openai.com", "gpt-5.1", PrefillForm::None),
        (
            "evil-api.deepseek.com.example.org",
            "deepseek-v4-pro",
            PrefillForm::None,
        ),
    ] {
        assert_eq!(
            table.of(model, Some(host)).prefill,
            prefix,
            "{model} at {host}"
        );
    }
}

#[test]
fn what_goes_with_a_prefix() {
    let table = Table::default();
    let claude = table.of("claude-sonnet-4-5", None);
    assert!(
        claude.rejects_trailing_space && !claude.returns_prefill && claude.prefill_path.is_none()
    );
    let mistral = table.of("mistral-large-latest", Some("api.mistral.ai"));
    assert!(mistral.returns_prefill && !mistral.rejects_trailing_space);
    let deepseek = table.of("deepseek-v4-flash", Some("api.deepseek.com"));
    assert_eq!(deepseek.prefill_path.as_deref(), Some("/beta"));
    assert!(!deepseek.returns_prefill && !deepseek.rejects_trailing_space);
    let gemini = table.of("gemini-2.5-pro", None);
    assert!(!gemini.rejects_trailing_space && !gemini.returns_prefill);
}

#[test]
fn members_that_models_take() {
    let table = Table::default();
    let perplexity = table.of(
        "perplexity/sonar-reasoning-pro:online",
        Some("openrouter.ai"),
    );
    assert!(!perplexity.response_format && perplexity.tools);
    let own = table.of("sonar-pro", Some("api.perplexity.ai"));
    assert!(!own.response_format);
    for model in [
        "deepseek/deepseek-chat-v3.1:free",
        "google/gemini-2.5-pro",
        "unknown",
    ] {
        let other = table.of(model, Some("openrouter.ai"));
        assert!(other.response_format && other.tools, "{model}");
    }
}

#[test]
fn thinking_is_turned_off_in_several_ways() {
    let table = Table::default();
    for (host, model, off) in [
        (
            "api.deepseek.com",
            "deepseek-v4-pro",
            Some(("thinking", r#"{"type":"disabled"}"#)),
        ),
        (
            "api.moonshot.ai",
            "kimi-k2.5",
            Some(("thinking", r#"{"type":"disabled"}"#)),
        ),
        ("api.moonshot.ai", "moonshot-v1-8k", None),
        (DASHSCOPE, "qwen-plus", Some(("enable_thinking", "false"))),
        (
            "openrouter.ai",
            "z-ai/glm-5",
            Some(("reasoning", r#"{"enabled":false}"#)),
        ),
        (
            "generativelanguage.googleapis.com",
            "gemini-2.5-flash",
            Some(("reasoning_effort", r#""none""#)),
        ),
        ("generativelanguage.googleapis.com", "gemini-2.5-pro", None),
        (
            "api.openai.com",
            "gpt-5-mini",
            Some(("reasoning_effort", r#""minimal""#)),
        ),
        (
            "api.openai.com",
            "gpt-5.1",
            Some(("reasoning_effort", r#""none""#)),
        ),
        ("api.openai.com", "gpt-4.1", None),
    ] {
        let expected = off.map(|(key, value)| Switch {
            key: key.to_owned(),
            value: value.to_owned(),
        });
        assert_eq!(
            table.of(model, Some(host)).reasoning_off,
            expected,
            "{model} at {host}"
        );
        for value in expected.iter().map(|switch| &switch.value) {
            serde_json::from_str::<serde_json::Value>(value).unwrap();
        }
    }
}

/// llama.cpp names itself in the `Server` header of each response.
#[test]
fn a_server_that_names_its_software_has_its_own_row() {
    let table = Table::default();
    let of = |server| table.of_server("qwen2.5-coder", Some("10.0.0.7"), server);
    let llama = of(Some("llama.cpp"));
    assert_eq!(llama.prefill, PrefillForm::Turn);
    assert!(llama.prefill_keeps_format && llama.keeps_streams);
    // The prefill comes back in whole bodies only.
    assert!(llama.returns_prefill_in(false) && !llama.returns_prefill_in(true));
    for other in [None, Some("uvicorn"), Some("llama.cpp.example"), Some("")] {
        assert_eq!(
            of(other),
            table.of("qwen2.5-coder", Some("10.0.0.7")),
            "{other:?}"
        );
        assert!(
            !other.is_some_and(|server| table.knows_server(server)),
            "{other:?}"
        );
    }
    assert!(table.knows_server("llama.cpp"));
    // The operator's row wins.
    let table = table.with([Row::of("*").prefill(PrefillForm::None)]);
    let own = table.of_server("m", None, Some("llama.cpp"));
    assert_eq!(
        (own.prefill, own.prefill_keeps_format),
        (PrefillForm::None, true)
    );
}

/// A row in front corrects what it names, and nothing else.
#[test]
fn rows_in_front_win_member_by_member() {
    let mut row = Row::of("mistral-*").at("api.mistral.ai");
    row.returns_prefill = Some(false);
    let table = Table::default().with([row]);
    let corrected = table.of("mistral-large-latest", Some("api.mistral.ai"));
    assert!(!corrected.returns_prefill);
    assert_eq!(corrected.prefill, PrefillForm::Flag);
    assert!(
        table
            .of("codestral-latest", Some("api.mistral.ai"))
            .returns_prefill
    );

    // An empty value removes what a later row has.
    let mut row = Row::of("*").at("api.deepseek.com").reasoning_off("", "");
    row.prefill_path = Some(String::new());
    let table = Table::default().with([row]);
    let bare = table.of("deepseek-v4-pro", Some("api.deepseek.com"));
    assert_eq!((bare.prefill_path, bare.reasoning_off), (None, None));
    assert_eq!(bare.prefill, PrefillForm::Flag);

    // The order of rows in front is kept.
    let table = Table::default().with([
        Row::of("a*").prefill(PrefillForm::Turn),
        Row::of("*").prefill(PrefillForm::Final),
    ]);
    assert_eq!(table.of("ab", None).prefill, PrefillForm::Turn);
    assert_eq!(
        table.of("claude-opus-4-6", None).prefill,
        PrefillForm::Final
    );
}

#[test]
fn a_long_name_is_in_no_row() {
    let table = Table::default().with([Row::of("*").prefill(PrefillForm::Turn)]);
    assert_eq!(table.of(&"a".repeat(256), None).prefill, PrefillForm::Turn);
    assert_eq!(table.of(&"a".repeat(257), None).prefill, PrefillForm::None);
}

/// Whole bodies of real refusals.
const REFUSALS: [(&str, CapabilityHint); 22] = [
    (
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support assistant message prefill. The conversation must end with a user message."},"request_id":"req_1"}"#,
        CapabilityHint::NoPrefill,
    ),
    (
        r#"{"error":{"code":400,"message":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"This model does not support assistant message prefill. The conversation must end with a user message.\"}}","status":"INVALID_ARGUMENT"}}"#,
        CapabilityHint::NoPrefill,
    ),
    (
        "{\n \"error\": {\n \"code\": 400,\n \"message\": \"Requests ending with a model turn are not supported.\",\n \"status\": \"INVALID_ARGUMENT\"\n }\n}\n",
        CapabilityHint::NoPrefill,
    ),
    (
        r#"{"error":{"code":400,"message":"Assistant response prefill is incompatible with enable_thinking.","type":"invalid_request_error"}}"#,
        CapabilityHint::NoPrefill,
    ),
    (
        r#"{"error": {"message": "prefix is only available when using beta api (set base_url=\"https://api.deepseek.com/beta\")", "type": "invalid_request_error", "param": null, "code": "invalid_request_error"}}"#,
        CapabilityHint::NoPrefill,
    ),
    (
        r#"{"error": {"message": "The last message of deepseek-reasoner must be a user message, or an assistant message with prefix mode on (refer to https://api-docs.deepseek.com/guides/chat_prefix_completion).", "type": "invalid_request_error", "param": null, "code": "invalid_request_error"}}"#,
        CapabilityHint::NoPrefill,
    ),
    (
        r#"{"object": "error", "message": "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant", "type": "invalid_request_error", "param": null, "code": null}"#,
        CapabilityHint::NoPrefill,
    ),
    (
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages: final assistant content cannot end with trailing whitespace"},"request_id":"req_2"}"#,
        CapabilityHint::RejectsTrailingSpace,
    ),
    (
        r#"{"detail":"messages.1.prefix: Extra inputs are not permitted"}"#,
        CapabilityHint::NoPrefill,
    ),
    (
        r#"{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'continue_final_message'), 'msg': 'Extra inputs are not permitted', 'input': True}]"}"#,
        CapabilityHint::NoPrefill,
    ),
    (
        r#"{"error":{"message":"Unknown parameter: 'response_format'.","type":"invalid_request_error","param":"response_format","code":"unknown_parameter"}}"#,
        CapabilityHint::NoMember("response_format"),
    ),
    (
        r#"{"code":"Client specified an invalid argument","error":"The response_format parameter is unsupported at the moment. Leave it unset."}"#,
        CapabilityHint::NoMember("response_format"),
    ),
    (
        r#"{"error":{"message":"property 'response_format' is unsupported, did you mean 'response'?","type":"invalid_request_error"}}"#,
        CapabilityHint::NoMember("response_format"),
    ),
    (
        r#"{"error":{"message":"litellm.UnsupportedParamsError: together_ai does not support parameters: ['response_format'], for model=m. To drop these, set `litellm.drop_params=True`","type":"None","param":"None","code":"400"}}"#,
        CapabilityHint::NoMember("response_format"),
    ),
    (
        r#"{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'response_format'), 'msg': 'Extra inputs are not permitted', 'input': {'type': 'json_object'}}]","type":"BadRequestError","param":null,"code":400}"#,
        CapabilityHint::NoMember("response_format"),
    ),
    // A gateway passes another provider's error on as text.
    (
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Unsupported parameter: 'response_format' is not supported with this model.\"}}","provider_name":"p"}}}"#,
        CapabilityHint::NoMember("response_format"),
    ),
    (
        r#"{"error":{"message":"{\"error\":{\"message\":\"Unknown parameter: 'response_format'.\",\"code\":\"invalid_request_body\"}}\n","type":"error"}}"#,
        CapabilityHint::NoMember("response_format"),
    ),
    (
        r#"{"detail":"Unsupported parameter: response_format"}"#,
        CapabilityHint::NoMember("response_format"),
    ),
    (
        r#"{"error":{"message":"Unrecognized request argument supplied: response_format"}}"#,
        CapabilityHint::NoMember("response_format"),
    ),
    (
        r#"{"object":"Error","detail":[{"type":"extra_forbidden","loc":["body","tools"],"msg":"Extra inputs are not permitted","input":[]}],"type":"invalid_request_error","code":3001}"#,
        CapabilityHint::NoMember("tools"),
    ),
    (
        r#"{"error":{"message":"Unsupported parameter: 'reasoning_effort' is not supported with this model.","type":"invalid_request_error","param":"reasoning_effort","code":"unsupported_parameter"}}"#,
        CapabilityHint::NoMember("reasoning_effort"),
    ),
    (
        r#"{"error":{"message":"Reasoning is mandatory for this endpoint and cannot be disabled.","code":400}}"#,
        CapabilityHint::RefusedValue("reasoning"),
    ),
];

#[test]
fn refusals_are_read() {
    for (body, hint) in REFUSALS {
        assert_eq!(CapabilityHint::read(body), Some(hint), "{body}");
        assert_eq!(
            CapabilityHint::read(&body.to_uppercase()),
            Some(hint),
            "{body}"
        );
    }
}

/// Real refusals of a member's value, in the words of their providers. They name the member, and
/// say nothing about it that holds for another value.
const REFUSED_VALUES: [&str; 19] = [
    // OpenAI: github.com/ag2ai/ag2/issues/1990.
    r#"{"error":{"message":"Invalid schema for response_format 'response_format': 'json_object' is not valid under any of the given schemas.","type":"invalid_request_error","param":"response_format","code":null}}"#,
    // Azure and OpenAI: github.com/mrwadams/stride-gpt/issues/19,
    // github.com/langchain-ai/langchain/issues/31490. The model may take another type.
    r#"{"error":{"message":"Invalid parameter: 'response_format' of type 'json_object' is not supported with this model.","type":"invalid_request_error","param":"response_format","code":null}}"#,
    r#"{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more about supported models at the Structured Outputs guide","type":"invalid_request_error","param":null,"code":null}}"#,
    r#"{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported with model version `gpt-4o`.","type":"invalid_request_error","param":"response_format","code":null}}"#,
    // OpenAI, a key inside the value.
    r#"{"error":{"message":"Unknown parameter: 'response_format.json_schema.strictly'.","type":"invalid_request_error","param":"response_format.json_schema.strictly","code":"unknown_parameter"}}"#,
    r#"{"error":{"message":"Unsupported parameter: 'response_format.schema' is not supported with this model.","param":"response_format.schema","code":"unsupported_parameter"}}"#,
    // DeepSeek: github.com/llm-exe/llm-exe/issues/662, github.com/BerriAI/litellm/issues/7580.
    r#"{"error":{"message":"This response_format type is unavailable now","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
    r#"{"error":{"message":"Failed to deserialize the JSON body into the target type: response_format: response_format.type `json_schema` is unavailable now at line 1 column 1193"}}"#,
    // Perplexity: github.com/567-labs/instructor/issues/1005.
    r#"{"error":{"message":"[\"At body -> response_format -> ResponseFormatText -> type: Input should be 'text'\", \"At body -> response_format -> ResponseFormatJSONSchema -> type: Input should be 'json_schema'\"]","type":"bad_request","code":400}}"#,
    // Fireworks: github.com/BerriAI/litellm/issues/7533.
    r#"{"error":{"object":"error","type":"invalid_request_error","message":"Extra inputs are not permitted, field: 'response_format.schema_field', value: None"}}"#,
    // Groq: github.com/i-am-bee/beeai-framework/issues/1215.
    r#"{"error":{"message":"invalid schema for response format: response_format/json_schema/next_step: minItems is not supported","type":"invalid_request_error"}}"#,
    // Mistral, a key inside the value, and vLLM the same.
    r#"{"detail":[{"type":"extra_forbidden","loc":["body","response_format","json_schema","extra"],"msg":"Extra inputs are not permitted","input":"Unsupported parameter: response_format"}]}"#,
    r#"{"message":"[{'type': 'extra_forbidden', 'loc': ('body', 'response_format', 'strict'), 'msg': 'Extra inputs are not permitted', 'input': True}]","code":400}"#,
    // LiteLLM names a value: github.com/BerriAI/litellm/issues/8278.
    r#"{"error":{"message":"litellm.UnsupportedParamsError: together_ai does not support parameters: {'response_format': {'type': 'json_object'}}, for model=m."}}"#,
    // A name that a client has chosen.
    r#"{"error":{"message":"Invalid schema for response_format 'Unsupported parameter: response_format': it is not supported","param":"response_format","code":null}}"#,
    // Groq: github.com/vercel/ai/issues/7808.
    r#"{"error":{"message":"'response_format' : one of the following must be satisfied[('response_format.type' : value is not one of the allowed values ['text'])]","type":"invalid_request_error"}}"#,
    // Volcengine: github.com/agno-agi/agno/issues/2553.
    r#"{"error":{"code":"InvalidParameter","message":"The parameter `response_format.type` specified in the request are not valid: invalid value: `json_schema`, supported values are: `json_object` and `text`.","param":"response_format.type","type":"BadRequest"}}"#,
    // OpenAI: github.com/openai-php/client/issues/265,
    // github.com/browserbase/stagehand/issues/1204.
    r#"{"error":{"message":"'json_object' is not of type 'object' - 'response_format'","type":"invalid_request_error"}}"#,
    r#"{"error":{"message":"'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.","param":"messages"}}"#,
];

#[test]
fn a_refused_value_says_nothing_about_its_member() {
    for body in REFUSED_VALUES {
        let hint = CapabilityHint::read(body);
        assert!(
            matches!(
                hint,
                None | Some(CapabilityHint::RefusedValue("response_format"))
            ),
            "{hint:?} {body}"
        );
    }
    // OpenAI: github.com/Kilo-Org/cloud/pull/3807.
    let effort = r#"{"error":{"message":"Unsupported value: 'reasoning_effort' does not support 'none' with this model. Supported values are: 'minimal', 'low', 'medium', and 'high'.","type":"invalid_request_error","param":"reasoning_effort","code":"unsupported_value"}}"#;
    assert_eq!(
        CapabilityHint::read(effort),
        Some(CapabilityHint::RefusedValue("reasoning_effort"))
    );
}

#[test]
fn other_errors_teach_nothing() {
    for body in [
        "",
        "not JSON",
        r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error"}}"#,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
        r#"{"error":{"message":"Unsupported parameter: 'temperature' is not supported with this model.","param":"temperature"}}"#,
        // These are English words, not members.
        r#"{"error":{"message":"This region is not supported; your partial prefix of tools and reasoning is thinking"}}"#,
        r#"{"error":{"message":"my_response_format is not supported"}}"#,
    ] {
        assert_eq!(CapabilityHint::read(body), None, "{body}");
    }
    // Text far from the start is not read, and no character is cut in two.
    let far = format!("{}{}", "é".repeat(40_000), REFUSALS[0].0);
    assert_eq!(CapabilityHint::read(&far), None);
}

/// The place that an error names counts more than the words of its message, which may quote a
/// request.
#[test]
fn the_place_of_an_error_decides() {
    for (body, hint) in [
        (
            r#"{"error":{"message":"response_format: Extra inputs are not permitted","param":"metadata","code":null}}"#,
            None,
        ),
        (
            r#"{"error":{"message":"Unsupported parameter: 'tools' is not supported with this model.","param":"seed","code":"unsupported_parameter"}}"#,
            None,
        ),
        (
            r#"{"error":{"message":"Unsupported parameter: 'tools'.","param":"response_format","code":"unsupported_parameter"}}"#,
            Some(CapabilityHint::NoMember("response_format")),
        ),
        (
            r#"{"error":{"message":"tools: Extra inputs are not permitted","param":"response_format"}}"#,
            Some(CapabilityHint::RefusedValue("response_format")),
        ),
        (
            r#"{"error":{"message":"Unsupported parameter: 'response_format'.","param":"response_format.json_schema"}}"#,
            Some(CapabilityHint::RefusedValue("response_format")),
        ),
        (
            r#"{"detail":[{"type":"missing","loc":["body","user"],"msg":"response_format: Extra inputs are not permitted"}]}"#,
            None,
        ),
        // Without a place, and with the same one, the message counts.
        (
            r#"{"error":{"message":"response_format: Extra inputs are not permitted","param":null}}"#,
            Some(CapabilityHint::NoMember("response_format")),
        ),
        (
            r#"{"error":{"message":"response_format: Extra inputs are not permitted","param":"body.response_format"}}"#,
            Some(CapabilityHint::NoMember("response_format")),
        ),
        (
            r#"{"error":{"message":"'temperature' is not supported while 'reasoning_effort' is set","param":"temperature"}}"#,
            None,
        ),
        // A prefill is part of the messages.
        (
            r#"{"error":{"message":"Unsupported parameter: 'messages[2].prefix'.","param":"messages"}}"#,
            Some(CapabilityHint::NoPrefill),
        ),
    ] {
        assert_eq!(CapabilityHint::read(body), hint, "{body}");
    }
}

const NOW: Duration = Duration::ZERO;
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn lessons_correct_the_table() {
    let table = Table::default();
    let mut cache = CapabilityCache::new(HOUR);
    let corrected = |cache: &CapabilityCache, model: &str, host: &str| {
        cache.correct(model, table.of(model, Some(host)), NOW)
    };
    let host = "api.deepseek.com";
    assert_eq!(
        corrected(&cache, "deepseek-v4-pro", host),
        table.of("deepseek-v4-pro", Some(host))
    );

    assert!(cache.record("deepseek-v4-pro", CapabilityHint::NoMember("thinking"), NOW));
    let less = corrected(&cache, "deepseek-v4-pro", host);
    assert_eq!(
        (less.prefill, less.reasoning_off),
        (PrefillForm::Flag, None)
    );
    // This is another member than the one that turns reasoning off here.
    assert!(cache.record(
        "deepseek-v4-flash",
        CapabilityHint::NoMember("enable_thinking"),
        NOW
    ));
    assert!(
        corrected(&cache, "deepseek-v4-flash", host)
            .reasoning_off
            .is_some()
    );
    // The value of the switch is the table's.
    assert!(cache.record(
        "deepseek-v4-flash",
        CapabilityHint::RefusedValue("thinking"),
        NOW
    ));
    assert_eq!(
        corrected(&cache, "deepseek-v4-flash", host).reasoning_off,
        None
    );

    assert!(cache.record("m", CapabilityHint::NoMember("response_format"), NOW));
    assert!(cache.record("m", CapabilityHint::NoMember("tools"), NOW));
    assert!(cache.record("m", CapabilityHint::RejectsTrailingSpace, NOW));
    assert!(!cache.record("m", CapabilityHint::RejectsTrailingSpace, NOW));
    let m = corrected(&cache, "m", "example.org");
    assert!(!m.response_format && !m.tools && m.rejects_trailing_space);
    assert!(corrected(&cache, "n", "example.org").response_format);
    // What a client's value was refused for is not the model's.
    assert!(cache.record("o", CapabilityHint::RefusedValue("response_format"), NOW));
    assert!(corrected(&cache, "o", "example.org").response_format);
    assert_eq!(cache.recorded(), 7);
}

#[test]
fn a_tool_that_excludes_reasoning_is_called_without_it() {
    let mut cache = CapabilityCache::new(HOUR);
    let table = Table::default().of("gpt-5.4", Some("api.openai.com"));
    assert_eq!(table.tool_reasoning_off, None);
    assert!(cache.record("gpt-5.4", CapabilityHint::NoToolWithReasoning, NOW));
    let learned = cache.correct("gpt-5.4", table.clone(), NOW);
    let off = learned.tool_reasoning_off.as_ref().unwrap();
    assert_eq!(
        (off.key.as_str(), off.value.as_str()),
        ("reasoning_effort", r#""none""#)
    );
    // Calls without a tool are as before.
    assert_eq!(learned.reasoning_off, table.reasoning_off);
    assert_eq!(cache.correct("gpt-5.4", table.clone(), HOUR), table);
}

#[test]
fn lessons_expire() {
    let table = Table::default();
    let mut cache = CapabilityCache::new(HOUR);
    let second = Duration::from_secs(1);
    assert!(cache.record("m", CapabilityHint::NoMember("response_format"), second));
    let takes =
        |cache: &CapabilityCache, now| cache.correct("m", table.of("m", None), now).response_format;
    assert!(!takes(&cache, HOUR));
    assert!(takes(&cache, HOUR + second));
    // One that is repeated does not count longer, and one that has expired is new again.
    assert!(!cache.record("m", CapabilityHint::NoMember("response_format"), HOUR));
    assert!(cache.record(
        "m",
        CapabilityHint::NoMember("response_format"),
        HOUR + second
    ));
    assert!(!takes(&cache, HOUR + HOUR));
    let mut none = CapabilityCache::new(Duration::ZERO);
    assert!(!none.record("m", CapabilityHint::NoMember("response_format"), NOW));
    assert!(takes(&none, NOW));
}

#[test]
fn learned_models_are_bounded() {
    let mut cache = CapabilityCache::new(HOUR);
    for n in 0..1024 {
        assert!(cache.record(&format!("m{n}"), CapabilityHint::NoPrefill, NOW));
    }
    assert!(
        !cache.record("m0", CapabilityHint::NoPrefill, NOW),
        "all of them are remembered"
    );
    assert!(cache.record("one more", CapabilityHint::NoPrefill, NOW));
    assert!(
        cache.record("m0", CapabilityHint::NoPrefill, NOW),
        "they were forgotten"
    );
    assert!(!cache.record(&"a".repeat(257), CapabilityHint::NoPrefill, NOW));
}
